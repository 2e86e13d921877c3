"""Blocks of a chain, thousands at a time: one algebra for diagonal ones and for matrices.

A block is an array with the batch on its last axis: (N, B) where it is diagonal in the modes,
(N, N, B) where it is a matrix. Products and sums are diagonal where both parts are.

LAPACK spends microseconds of overhead on each 8 x 8 matrix. With the batch last, one NumPy
operation updates the same entry of every matrix, which is several times faster up to about
20 x 20; larger matrices go to LAPACK.

Gram matrices of all times have one axis more: ``G`` is (T, N, N, B), or its diagonal (T, N, B); the
batch B is 1 where all paths share it.
"""

from __future__ import annotations

import numpy as np
import scipy

Array = np.ndarray

#: From this size on LAPACK is the faster way (measured on one core, batch 128).
LAPACK_SIZE = 20
#: Up to this size einsum multiplies faster than a loop of BLAS calls.
EINSUM_SIZE = 12


def invert(matrices: Array) -> tuple[Array, Array]:
    """Inverses and log-determinants (B,) of symmetric positive definite blocks."""
    if matrices.ndim == 2:
        return 1.0 / matrices, np.log(matrices).sum(0)
    n, _, batch = matrices.shape
    if batch == 1:
        return _invert_one(matrices[..., 0])
    return _invert_lapack(matrices) if n >= LAPACK_SIZE else _invert_by_halves(matrices)


def _invert_one(matrix: Array) -> tuple[Array, Array]:
    """The same for a batch of one, where calls of NumPy would cost more than the arithmetic."""
    factor, info = scipy.linalg.lapack.dpotrf(matrix, lower=1, clean=0)
    if info != 0:
        raise np.linalg.LinAlgError("matrix is not positive definite")
    logdet = 2.0 * np.log(factor.diagonal()).sum()
    inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    # Only the lower triangle is set, and the upper one is still that of the factor.
    n = len(inverse)
    upper = np.arange(n)[:, None] < np.arange(n)
    return np.where(upper, inverse.T, inverse)[..., None], np.array([logdet])


def _invert_lapack(matrices: Array) -> tuple[Array, Array]:
    stack = np.moveaxis(matrices, -1, 0)
    factor = np.linalg.cholesky(stack)
    half = np.linalg.inv(factor)
    inverse = np.swapaxes(half, -1, -2) @ half
    logdet = 2.0 * np.log(np.einsum("bii->bi", factor)).sum(-1)
    return np.moveaxis(inverse, 0, -1), logdet


def _invert_by_halves(matrices: Array) -> tuple[Array, Array]:
    out = np.empty(matrices.shape)
    return out, _write_inverse(matrices, out)


def _write_inverse(a: Array, out: Array) -> Array:
    """Write the inverse of ``a`` and return its log-determinant.

    With the blocks ``P, Q, R`` of the upper triangle, ``X = P^-1 Q`` and ``S = R - Q' X``,

        inverse = [[P^-1 + X S^-1 X', -X S^-1], [-S^-1 X', S^-1]],    |a| = |P| |S|.

    All Schur complements of a positive definite matrix are positive definite: no pivoting.
    Two thirds of the work of Gauss-Jordan, and in products instead of rank-one updates.
    """
    if len(a) == 1:
        np.reciprocal(a, out=out)
        return np.log(a[0, 0])
    if len(a) == 2:
        return _write_inverse_of_two(a, out)
    half = len(a) // 2
    p, q, r = a[:half, :half], a[:half, half:], a[half:, half:]
    top, corner, s_inverse = out[:half, :half], out[:half, half:], out[half:, half:]
    p_inverse = np.empty(p.shape)
    logdet = _write_inverse(p, p_inverse)
    x = np.einsum("ikb,kjb->ijb", p_inverse, q)
    s = r - np.einsum("kib,kjb->ijb", q, x)
    logdet = logdet + _write_inverse(s, s_inverse)
    np.negative(np.einsum("ikb,kjb->ijb", x, s_inverse), out=corner)
    out[half:, :half] = np.swapaxes(corner, 0, 1)
    np.subtract(p_inverse, np.einsum("ikb,jkb->ijb", corner, x), out=top)
    return logdet


def _write_inverse_of_two(a: Array, out: Array) -> Array:
    """The same formula for 2 x 2 matrices, in numbers: half of all calls end here."""
    p, q, r = a[0, 0], a[0, 1], a[1, 1]
    p_inverse = np.reciprocal(p)
    x = q * p_inverse
    s = r - q * x
    np.reciprocal(s, out=out[1, 1])
    corner = np.multiply(x, out[1, 1], out=out[0, 1])
    np.multiply(corner, x, out=out[0, 0])
    out[0, 0] += p_inverse
    out[1, 0] = np.negative(corner, out=corner)
    return np.log(p * s)


def multiply(a: Array, b: Array) -> Array:
    """Products ``a b`` of two stacks, either of which may have a batch of one."""
    if a.ndim == 2:
        return a * b if b.ndim == 2 else a[:, None] * b
    if b.ndim == 2:
        return a * b
    if a.shape[-1] == b.shape[-1] == 1:
        return (a[..., 0] @ b[..., 0])[..., None]
    if len(a) <= EINSUM_SIZE:
        return np.einsum("ikb,kjb->ijb", a, b)
    product = _batch_first(a) @ _batch_first(b)
    return np.moveaxis(product, 0, -1)


def transpose(a: Array) -> Array:
    """``a'``."""
    return a if a.ndim == 2 else np.swapaxes(a, 0, 1)


def add(a: Array, b: Array) -> Array:
    """``a + b``, a new array with the larger batch."""
    return a + b if a.ndim == b.ndim else as_matrix(a) + as_matrix(b)


def sandwich(d: Array, v: Array) -> Array:
    """``d v d'`` for a symmetric ``v``."""
    if d.ndim == 2:
        return d**2 * v if v.ndim == 2 else (d[:, None] * d) * v
    return multiply(multiply(d, as_matrix(v)), transpose(d))


def as_matrix(x: Array) -> Array:
    """Diagonal (N, B) to matrix (N, N, B); matrices pass."""
    return x if x.ndim == 3 else x[:, None] * np.eye(len(x))[..., None]


def in_full(gram: Array) -> Array:
    """Diagonals of all times (T, N, B) as matrices (T, N, N, B); matrices pass."""
    return gram if gram.ndim == 4 else gram[:, :, None] * np.eye(gram.shape[1])[..., None]


def diagonal(x: Array) -> Array:
    """Diagonal (N, B) of either."""
    return x if x.ndim == 2 else np.einsum("iib->ib", x)


def _batch_first(a: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(a, -1, 0))


def apply(a: Array, x: Array) -> Array:
    """``a x`` for columns ``x`` (..., N, P); a batch of one serves all of them."""
    if a.ndim == 2:
        return a * x
    if a.shape[-1] == 1:
        return a[..., 0] @ x
    return np.einsum("ijb,...jb->...ib", a, x)


# -- Gram matrices of all times -------------------------------------------------------------------
def apply_gram(gram: Array, x: Array) -> Array:
    """``G x`` of one time, (N, P), or of all, (T, N, P)."""
    if gram.ndim == x.ndim:
        return gram * x
    return gram[..., 0] @ x if gram.shape[-1] == 1 else np.einsum("...ijp,...jp->...ip", gram, x)


def multiply_grams(gram: Array, x: Array) -> Array:
    """``G_t X_t`` for matrices (T, N, N, B), or diagonals (T, N, B) where G is one too."""
    if gram.ndim == 3:
        return gram * x if x.ndim == 3 else gram[:, :, None] * x
    if gram.shape[-1] == x.shape[-1] == 1:
        return (gram[..., 0] @ x[..., 0])[..., None]
    return np.einsum("tijb,tjkb->tikb", *np.broadcast_arrays(gram, x), optimize=True)


def quadratic(gram: Array, error: Array) -> Array:
    """``sum_t e' G e`` for each path; (P,)."""
    if gram.ndim == 3:
        return weighted_sum(gram, error**2)
    return np.einsum("tnp,tnp->p", apply_gram(gram, error), error)


def weighted_sum(weight: Array, values: Array) -> Array:
    """Sum over times and modes of ``weight`` (T, N, 1 or P) times ``values`` (T, N, P); (P,)."""
    if weight.shape[-1] == 1:
        return weight.reshape(-1) @ values.reshape(-1, values.shape[-1])
    return np.einsum("tnp,tnp->p", weight, values)

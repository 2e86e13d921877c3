"""Small symmetric matrices, thousands at a time, with the batch on the last axis.

LAPACK spends microseconds of overhead on each 8 x 8 matrix. With the batch last, one NumPy
operation updates the same entry of every matrix, which is several times faster up to about
20 x 20; larger matrices go to LAPACK.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray

#: From this size on LAPACK is the faster way (measured on one core, batch 128).
LAPACK_SIZE = 20
#: Up to this size einsum multiplies faster than a loop of BLAS calls.
EINSUM_SIZE = 12


def invert(matrices: Array) -> tuple[Array, Array]:
    """Inverses (N, N, B) and log-determinants (B,) of symmetric positive definite matrices."""
    n, _, batch = matrices.shape
    if batch == 1 or n >= LAPACK_SIZE:
        return _invert_lapack(matrices)
    return _invert_gauss_jordan(matrices)


def _invert_lapack(matrices: Array) -> tuple[Array, Array]:
    stack = np.moveaxis(matrices, -1, 0)
    factor = np.linalg.cholesky(stack)
    half = np.linalg.inv(factor)
    inverse = np.swapaxes(half, -1, -2) @ half
    logdet = 2.0 * np.log(np.einsum("bii->bi", factor)).sum(-1)
    return np.moveaxis(inverse, 0, -1), logdet


def _invert_gauss_jordan(matrices: Array) -> tuple[Array, Array]:
    """Gauss-Jordan without pivoting: all pivots of a positive definite matrix are positive."""
    a = np.array(matrices)
    n, _, batch = a.shape
    pivots = np.empty((n, batch))
    outer = np.empty_like(a)
    for k in range(n):
        pivots[k] = a[k, k]
        a[k, k] = 1.0
        a[k] /= pivots[k]
        column = a[:, k].copy()
        column[k] = 0.0
        a[:, k] = 0.0
        a[k, k] = 1.0 / pivots[k]
        np.multiply(column[:, None], a[k], out=outer)
        a -= outer
    return a, np.log(pivots).sum(0)


def multiply(a: Array, b: Array) -> Array:
    """Matrix products (N, N, B) of two stacks."""
    if a.shape[-1] > 1 and a.shape[0] <= EINSUM_SIZE:
        return np.einsum("ikb,kjb->ijb", a, b)
    product = np.ascontiguousarray(np.moveaxis(a, -1, 0)) @ np.moveaxis(b, -1, 0)
    return np.moveaxis(product, 0, -1)


def apply(a: Array, x: Array) -> Array:
    """Matrix-vector products: ``a`` (N, N, 1 or B) on ``x`` (N, B)."""
    if a.shape[-1] == 1:
        return a[..., 0] @ x
    return np.einsum("ijb,jb->ib", a, x)

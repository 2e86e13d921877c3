"""Chains and block tridiagonal systems as machine code (numba)."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic

from spdelaw.statespace.posterior import compiled

# ---------- Chains of many paths with their own Gram matrices
#
# The elimination of `spdelaw.statespace.chain.sweep` and the smoother, with diagonal priors. Paths
# are taken a few at a time, as lanes of the innermost loops: every operation on a matrix is
# one loop over lanes, which the compiler turns into vector instructions, and the blocks of a
# step stay in the processor's cache. The arithmetic is that of the NumPy kernel.


Array = np.ndarray

#: Paths per pass. Enough to fill vector registers many times over, few enough for the cache.
LANES = 32


@compiled
def _invert_block(
    a: Array, row: Array, scaled: Array, product: Array, log_determinant: Array
) -> None:
    """``a`` becomes minus its inverse, by symmetric sweeps on the lower triangle.

    Sweep k:  ``a_ij -= a_ik a_jk / a_kk``,  ``a_ik /= a_kk``,  ``a_kk = -1 / a_kk``. The pivots
    are Schur complements of a positive definite matrix: no exchange of rows.
    """
    n, _, lanes = a.shape
    for l in range(lanes):
        product[l] = 1.0
    for k in range(n):
        for l in range(lanes):
            product[l] *= a[k, k, l]
            scaled[k, l] = 1.0 / a[k, k, l]
        for i in range(n):
            for l in range(lanes):
                row[i, l] = a[max(i, k), min(i, k), l]
        for i in range(n):
            if i == k:
                continue
            for l in range(lanes):
                scaled[i, l] = row[i, l] * scaled[k, l]
            for j in range(i + 1):
                for l in range(lanes):
                    a[i, j, l] -= scaled[i, l] * row[j, l]
        for i in range(n):
            for l in range(lanes):
                a[max(i, k), min(i, k), l] = scaled[i, l]
        for l in range(lanes):
            a[k, k, l] = -scaled[k, l]
        if k % 4 == 3 or k == n - 1:  # few logarithms, and no overflow of the product
            for l in range(lanes):
                log_determinant[l] += np.log(product[l])
                product[l] = 1.0


@compiled
def _apply(a: Array, x: Array, out: Array) -> None:
    """``out = a x``."""
    n, _, lanes = a.shape
    for i in range(n):
        for l in range(lanes):
            out[i, l] = 0.0
        for j in range(n):
            for l in range(lanes):
                out[i, l] += a[i, j, l] * x[j, l]


@compiled
def _forward_paths(
    gram: Array,
    prior_diagonal: Array,
    d: Array,
    first: int,
    inverse: Array,
    vectors: Array,
    logs: Array,
) -> None:
    """Elimination ``S_t' = G_t + K_t - D V_{t-1} D``, ``b_t' = b_t + D V_{t-1} b_{t-1}'``."""
    n_times, n, _, lanes = inverse.shape
    a, work = np.empty((n, n, lanes)), np.empty((4, n, lanes))
    row, scaled, carried, coupling = work[0], work[1], work[2], work[3]
    product, stride = np.empty(lanes), 1 if prior_diagonal.shape[2] > 1 else 0
    for t in range(n_times):
        for i in range(n):
            for j in range(i + 1):
                for l in range(lanes):
                    a[i, j, l] = gram[t, i, j, first + l]
            for l in range(lanes):
                a[i, i, l] += prior_diagonal[t, i, (first + l) * stride]
        if t > 0:
            for i in range(n):
                for l in range(lanes):
                    coupling[i, l] = d[t - 1, i, (first + l) * stride]
            _apply(inverse[t - 1], vectors[t - 1], carried)
            for i in range(n):
                for l in range(lanes):
                    vectors[t, i, l] += coupling[i, l] * carried[i, l]
                for j in range(i + 1):
                    for l in range(lanes):
                        a[i, j, l] -= coupling[i, l] * coupling[j, l] * inverse[t - 1, i, j, l]
        _invert_block(a, row, scaled, product, logs)
        for i in range(n):
            for j in range(i + 1):
                for l in range(lanes):
                    inverse[t, i, j, l] = -a[i, j, l]
                    inverse[t, j, i, l] = -a[i, j, l]


@compiled
def _smooth_step(gain: Array, inverse: Array, covariance: Array, cross: Array) -> None:
    """``cross = gain Cov``, then ``Cov = V + cross gain'`` in place."""
    n, _, lanes = gain.shape
    for i in range(n):
        for j in range(n):
            for l in range(lanes):
                cross[i, j, l] = 0.0
        for k in range(n):
            for j in range(n):
                for l in range(lanes):
                    cross[i, j, l] += gain[i, k, l] * covariance[k, j, l]
    for i in range(n):
        for j in range(i + 1):
            for l in range(lanes):
                covariance[i, j, l] = inverse[i, j, l]
            for k in range(n):
                for l in range(lanes):
                    covariance[i, j, l] += cross[i, k, l] * gain[j, k, l]
            for l in range(lanes):
                covariance[j, i, l] = covariance[i, j, l]


@compiled
def _backward_paths(
    d: Array,
    first: int,
    inverse: Array,
    vectors: Array,
    covariance: Array,
    mean: Array,
    variance: Array,
    lag: Array,
) -> None:
    """Means ``V_t (b_t' + D c_{t+1})`` and covariances ``V + V D Cov_{t+1} D V``."""
    n_times, n, _, lanes = inverse.shape
    gain, cross, state = np.empty((n, n, lanes)), np.empty((n, n, lanes)), np.empty((n, lanes))
    stride = 1 if d.shape[2] > 1 else 0
    covariance[:] = inverse[n_times - 1]
    for t in range(n_times - 1, -1, -1):
        if t < n_times - 1:
            for j in range(n):
                for l in range(lanes):
                    coupling = d[t, j, (first + l) * stride]
                    vectors[t, j, l] += coupling * state[j, l]
                    for i in range(n):
                        gain[i, j, l] = inverse[t, i, j, l] * coupling
            _smooth_step(gain, inverse[t], covariance, cross)
            for i in range(n):
                for l in range(lanes):
                    lag[t, i, first + l] = cross[i, i, l]
        _apply(inverse[t], vectors[t], state)
        for i in range(n):
            for l in range(lanes):
                mean[t, i, first + l] = state[i, l]
                variance[t, i, first + l] = covariance[i, i, l]


@compiled
def _carry_columns(d: Array, first: int, inverse: Array, columns: Array) -> None:
    """Elimination and back substitution of several right-hand sides, in place."""
    n_times, n, n_columns, lanes = columns.shape
    work, stride = np.empty((n, n_columns, lanes)), 1 if d.shape[2] > 1 else 0
    for t in range(n_times):
        if t > 0:
            for i in range(n):
                for c in range(n_columns):
                    for l in range(lanes):
                        coupling = d[t - 1, i, (first + l) * stride]
                        columns[t, i, c, l] += coupling * work[i, c, l]
        _multiply(inverse[t], columns[t], work)
    for t in range(n_times - 1, -1, -1):
        if t < n_times - 1:
            for i in range(n):
                for c in range(n_columns):
                    for l in range(lanes):
                        coupling = d[t, i, (first + l) * stride]
                        columns[t, i, c, l] += coupling * work[i, c, l]
            _multiply(inverse[t], columns[t], work)
        columns[t] = work


@compiled
def _multiply(a: Array, x: Array, out: Array) -> None:
    """``out = a x`` of several columns."""
    n, n_columns, lanes = x.shape
    for i in range(n):
        for c in range(n_columns):
            for l in range(lanes):
                out[i, c, l] = 0.0
        for j in range(n):
            for c in range(n_columns):
                for l in range(lanes):
                    out[i, c, l] += a[i, j, l] * x[j, c, l]


@compiled
def _solve_lanes(gram: Array, sides: Array, prior_diagonal: Array, d: Array) -> tuple:
    n_times, n, _, batch = gram.shape
    mean, variance = np.empty((n_times, n, batch)), np.empty((n_times, n, batch))
    lag, first_covariance = np.empty((n_times - 1, n, batch)), np.empty((n, n, batch))
    log_determinant, solution = np.zeros(batch), np.empty(sides.shape)
    for first in range(0, batch, LANES):
        last = min(first + LANES, batch)
        inverse = np.empty((n_times, n, n, last - first))
        covariance = np.empty((n, n, last - first))
        vectors = sides[:, :, 0, first:last].copy()
        _forward_paths(
            gram, prior_diagonal, d, first, inverse, vectors, log_determinant[first:last]
        )
        if sides.shape[2] > 1:
            columns = sides[:, :, 1:, first:last].copy()
            _carry_columns(d, first, inverse, columns)
            solution[:, :, 1:, first:last] = columns
        _backward_paths(d, first, inverse, vectors, covariance, mean, variance, lag)
        first_covariance[:, :, first:last] = covariance
    solution[:, :, 0] = mean
    return solution, variance, lag, first_covariance, log_determinant


def solve_paths(
    gram: Array, vector: Array, prior_diagonal: Array, d: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """Posterior of a chain whose paths each have a Gram matrix of their own.

    Args:
        gram: ``G_t``, (T, N, N, B).
        vector: ``b_t``, the pull of the initial mean included, (T, N, B), or with further
            right-hand sides, (T, N, C, B).
        prior_diagonal: diagonal of the prior precision's diagonal blocks, (T, N, 1 or B).
        d: minus the diagonal of its off-diagonal blocks, (T - 1, N, 1 or B).

    Returns:
        Solutions like the vector, variances (T, N, B), lag covariances (T - 1, N, B),
        ``Cov(c_1 | y)`` (N, N, B) and ``log |S|`` (B,).
    """
    sides = vector.reshape(*gram.shape[:2], -1, gram.shape[-1])
    mean, *moments = _solve_lanes(*map(np.ascontiguousarray, (gram, sides, prior_diagonal, d)))
    return mean.reshape(vector.shape), *moments


# ---------- Block tridiagonal system of one chain
#
# `spdelaw.statespace.posterior` has the formulas. Everything costly is a product of matrices, and
# those go to the BLAS that SciPy brings, called by address without the interpreter: numba keeps
# compiled code on disk only if no address is part of it, so the address is an argument. Blocks are
# inverted by symmetric sweeps over `SWEEP_ROWS` rows at a time, which are products too; LAPACK's
# ``dpotrf`` and ``dpotri`` take nearly twice as long with 30 modes.


#: Rows that one sweep of an inversion takes together.
SWEEP_ROWS = 8
#: Address of ``dgemm``.
GEMM = get_cython_function_address("scipy.linalg.cython_blas", "dgemm")


@intrinsic
def _call_fortran(_: Any, address: Any, pointers: Any) -> Any:
    """Call the routine at ``address`` with a tuple of pointers, as Fortran takes its arguments."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        parts = cgutils.unpack_tuple(builder, arguments[1])
        word = context.get_value_type(types.intp)
        routine = ir.FunctionType(ir.VoidType(), [word] * len(parts))
        builder.call(builder.inttoptr(arguments[0], routine.as_pointer()), parts)
        return context.get_dummy_value()

    return types.void(types.intp, pointers), generate


@compiled
def _gemm(
    gemm: int, work: tuple, a: Array, turned: int, b: Array, flipped: int, c: Array,
    alpha: float, beta: float,
) -> None:  # fmt: skip
    """``c = alpha a b + beta c``, a transposed where ``turned``, b where ``flipped``.

    Fortran reads each matrix transposed, so the call computes ``c' = b' a'``.
    """
    letters, sizes, factors = work
    rows, columns = c.shape
    inner = a.shape[0] if turned else a.shape[1]
    sizes[0], sizes[1], sizes[2] = columns, rows, inner
    sizes[3], sizes[4] = b.shape[1], a.shape[1]
    factors[0], factors[1] = alpha, beta
    size, factor, letter = sizes.ctypes.data, factors.ctypes.data, letters.ctypes.data
    _call_fortran(  # type: ignore[call-arg]
        gemm,
        (
            letter + flipped, letter + turned, size, size + 8, size + 16, factor,
            b.ctypes.data, size + 24, a.ctypes.data, size + 32, factor + 8,
            c.ctypes.data, size,
        ),
    )  # fmt: skip


@compiled
def _gemm_buffers() -> tuple:
    """Letters N and T, sizes and factors of a call.

    Sizes are read as 32 bits or as 64 by the BLAS at hand; both find them in 64 (little end first).
    """
    return np.array([78, 84], np.uint8), np.zeros(5, np.int64), np.zeros(2)


@compiled
def _sweep_corner(p: Array, row: Array) -> float:
    """``p`` becomes its inverse; returns its log-determinant, NaN where not positive.

    Sweep k:  ``p_ij -= p_ik p_kj / p_kk``, ``p_ik /= p_kk``, ``p_kk = -1 / p_kk``, then a change
    of sign. The pivots are Schur complements of a positive definite matrix: no exchange of rows.
    """
    n, logs = len(p), 0.0
    for k in range(n):
        pivot = p[k, k]
        if not pivot > 0.0:
            return np.nan
        logs += np.log(pivot)
        for j in range(n):
            row[j] = p[k, j] / pivot
        for i in range(n):
            entry = p[i, k]
            for j in range(n):
                p[i, j] -= entry * row[j]
            p[i, k] = row[i]
        for j in range(n):
            p[k, j] = row[j]
        p[k, k] = -1.0 / pivot
    for i in range(n):
        for j in range(n):
            p[i, j] = -p[i, j]
    return logs


@compiled
def _invert_matrix(gemm: int, work: tuple, a: Array, buffers: tuple) -> float:
    """``a`` becomes minus its inverse; returns its log-determinant, NaN where not positive.

    The sweep of `_sweep_corner` with blocks ``P = a[K, K]`` for pivots:
    ``a -= a[:, K] P^-1 a[K, :]``, ``a[K, :] = P^-1 a[K, :]``, ``a[K, K] = -P^-1``.
    """
    n, logs = len(a), 0.0
    for first in range(0, n, SWEEP_ROWS):
        width = min(SWEEP_ROWS, n - first)
        corner = buffers[0][: width * width].reshape(width, width)
        rows, swept = buffers[1][:width], buffers[2][:width]
        for k in range(width):
            for j in range(n):
                rows[k, j] = a[first + k, j]
            for j in range(width):
                corner[k, j] = a[first + k, first + j]
        logs += _sweep_corner(corner, buffers[3])
        _gemm(gemm, work, corner, 0, rows, 0, swept, 1.0, 0.0)
        _gemm(gemm, work, rows, 1, swept, 0, a, -1.0, 1.0)
        for i in range(n):
            for k in range(width):
                a[i, first + k] = swept[k, i]
        for k in range(width):
            for j in range(n):
                a[first + k, j] = swept[k, j]
            for j in range(width):
                a[first + k, first + j] = -corner[k, j]
    return logs


@compiled
def _forward(
    gemm: int, blocks: Array, added_diagonal: Array, coupling: Array, which: Array, inverse: Array,
    vectors: Array, gains: Array,
) -> float:  # fmt: skip
    """Elimination; fills ``V_t``, ``b_t'`` and, for full couplings, ``D_t V_t``."""
    n_times, n, _ = blocks.shape
    work, a, carried = _gemm_buffers(), np.empty((n, n)), np.empty(vectors.shape[1:])
    rows, swept = np.empty((SWEEP_ROWS, n)), np.empty((SWEEP_ROWS, n))
    buffers = np.empty(SWEEP_ROWS**2), rows, swept, np.empty(SWEEP_ROWS)
    logs, full = 0.0, coupling.shape[1] == n
    for t in range(n_times):
        for i in range(n):
            for j in range(n):
                a[i, j] = blocks[t, i, j]
            a[i, i] += added_diagonal[t, i]
        if t > 0:
            d, v = coupling[which[t - 1]], inverse[t - 1]
            if full:
                _gemm(gemm, work, d, 0, v, 0, gains[t - 1], 1.0, 0.0)
                _gemm(gemm, work, gains[t - 1], 0, d, 1, a, -1.0, 1.0)
                _gemm(gemm, work, gains[t - 1], 0, vectors[t - 1], 0, vectors[t], 1.0, 1.0)
            else:
                _gemm(gemm, work, v, 0, vectors[t - 1], 0, carried, 1.0, 0.0)
                for i in range(n):
                    row = d[0, i]
                    for j in range(n):
                        a[i, j] -= row * d[0, j] * v[i, j]
                    for p in range(vectors.shape[2]):
                        vectors[t, i, p] += row * carried[i, p]
        logs += _invert_matrix(gemm, work, a, buffers)
        for i in range(n):
            for j in range(n):
                inverse[t, i, j] = -a[i, j]
    return logs


@compiled
def _backward(
    gemm: int, coupling: Array, which: Array, inverse: Array, mean: Array, crosses: Array,
    lag: Array,
) -> None:  # fmt: skip
    """``b_t'`` becomes ``c_t`` and ``V_t`` becomes ``Cov_t``; crosses and their diagonals.

    On entry ``crosses`` has ``K_t' = D_t V_t`` of full couplings; it is empty where the crosses
    are not needed.
    """
    n_times, n, _ = inverse.shape
    work, state = _gemm_buffers(), np.empty(mean.shape[1:])
    gain, turned, cross = np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    full, keep = coupling.shape[1] == n, len(crosses) > 0
    for t in range(n_times - 1, -1, -1):
        _gemm(gemm, work, inverse[t], 0, mean[t], 0, state, 1.0, 0.0)
        if t < n_times - 1:
            d, v = coupling[which[t]], inverse[t]
            for i in range(n):
                if full:
                    for j in range(n):
                        gain[i, j], turned[i, j] = crosses[t, j, i], crosses[t, i, j]
                else:
                    row = d[0, i]
                    for j in range(n):
                        gain[i, j] = v[i, j] * d[0, j]
                        turned[i, j] = v[i, j] * row
            _gemm(gemm, work, gain, 0, mean[t + 1], 0, state, 1.0, 1.0)
            _gemm(gemm, work, gain, 0, inverse[t + 1], 0, cross, 1.0, 0.0)
            _gemm(gemm, work, cross, 0, turned, 0, inverse[t], 1.0, 1.0)
            for i in range(n):
                lag[t, i] = cross[i, i]
            if keep:
                crosses[t] = cross
        mean[t] = state


def solve_chain(
    blocks: Array,
    added_diagonal: Array,
    coupling: Array,
    which: Array,
    vector: Array,
    crosses: bool,
) -> tuple[float, Array, Array, Array, Array]:
    """The same as `spdelaw.statespace.posterior.solve_with_numpy`, in compiled code."""
    n_times, n, _ = blocks.shape
    d = np.ascontiguousarray(coupling if coupling.ndim == 3 else coupling[:, None], float)
    inverse, lag = np.empty(blocks.shape), np.empty((n_times - 1, n))
    # Full couplings keep their gains on the way back in the place of the crosses.
    kept = np.empty((n_times - 1 if crosses or d.shape[1] == n else 0, n, n))
    mean = np.array(vector, float, order="C")
    blocks, added_diagonal = (np.ascontiguousarray(x, float) for x in (blocks, added_diagonal))
    steps = np.ascontiguousarray(which, np.int64)
    logs = _forward(GEMM, blocks, added_diagonal, d, steps, inverse, mean, kept)
    _backward(GEMM, d, steps, inverse, mean, kept, lag)
    return logs, mean, inverse, kept, lag

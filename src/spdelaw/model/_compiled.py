"""The dense kernel of `model._chain` as machine code, where numba is installed.

Paths are taken a few at a time, as lanes of the innermost loops: every operation on a matrix is
one loop over lanes, which the compiler turns into vector instructions, and the blocks of a
step stay in the processor's cache. The arithmetic is that of the NumPy kernel.
"""

from __future__ import annotations

import numpy as np

from spdelaw.model._compiler import compiled

Array = np.ndarray

#: Paths per pass. Enough to fill vector registers many times over, few enough for the cache.
LANES = 32


@compiled
def _invert(a: Array, row: Array, scaled: Array, product: Array, log_determinant: Array) -> None:
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
def _forward(
    gram: Array, own: Array, d: Array, first: int, inverse: Array, vectors: Array, logs: Array
) -> None:
    """Elimination ``S_t' = G_t + own_t - D V_{t-1} D``, ``b_t' = b_t + D V_{t-1} b_{t-1}'``."""
    n_times, n, _, lanes = inverse.shape
    a, work = np.empty((n, n, lanes)), np.empty((4, n, lanes))
    row, scaled, carried, coupling = work[0], work[1], work[2], work[3]
    product, stride = np.empty(lanes), 1 if own.shape[2] > 1 else 0
    for t in range(n_times):
        for i in range(n):
            for j in range(i + 1):
                for l in range(lanes):
                    a[i, j, l] = gram[t, i, j, first + l]
            for l in range(lanes):
                a[i, i, l] += own[t, i, (first + l) * stride]
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
        _invert(a, row, scaled, product, logs)
        for i in range(n):
            for j in range(i + 1):
                for l in range(lanes):
                    inverse[t, i, j, l] = -a[i, j, l]
                    inverse[t, j, i, l] = -a[i, j, l]


@compiled
def _smooth(gain: Array, inverse: Array, covariance: Array, cross: Array) -> None:
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
def _backward(
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
            _smooth(gain, inverse[t], covariance, cross)
            for i in range(n):
                for l in range(lanes):
                    lag[t, i, first + l] = cross[i, i, l]
        _apply(inverse[t], vectors[t], state)
        for i in range(n):
            for l in range(lanes):
                mean[t, i, first + l] = state[i, l]
                variance[t, i, first + l] = covariance[i, i, l]


@compiled
def _solve(gram: Array, vector: Array, own: Array, d: Array) -> tuple:
    n_times, n, _, batch = gram.shape
    mean, variance = np.empty((n_times, n, batch)), np.empty((n_times, n, batch))
    lag, first_covariance = np.empty((n_times - 1, n, batch)), np.empty((n, n, batch))
    log_determinant = np.zeros(batch)
    for first in range(0, batch, LANES):
        last = min(first + LANES, batch)
        inverse = np.empty((n_times, n, n, last - first))
        covariance = np.empty((n, n, last - first))
        vectors = vector[:, :, first:last].copy()
        _forward(gram, own, d, first, inverse, vectors, log_determinant[first:last])
        _backward(d, first, inverse, vectors, covariance, mean, variance, lag)
        first_covariance[:, :, first:last] = covariance
    return mean, variance, lag, first_covariance, log_determinant


def solve(
    gram: Array, vector: Array, own: Array, d: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """Posterior of a chain whose paths each have a Gram matrix of their own.

    Args:
        gram: ``G_t``, (T, N, N, B).
        vector: ``b_t``, the pull of the initial mean included, (T, N, B).
        own: diagonal of the prior precision's diagonal blocks, (T, N, 1 or B).
        d: minus the diagonal of its off-diagonal blocks, (T - 1, N, 1 or B).

    Returns:
        Means and variances (T, N, B), lag covariances (T - 1, N, B), ``Cov(c_1 | y)``
        (N, N, B) and ``log |S|`` (B,).
    """
    return _solve(*map(np.ascontiguousarray, (gram, vector, own, d)))

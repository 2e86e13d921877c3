"""The block elimination of `_coupled_chain` where all paths share one pattern.

With a batch of one, calls cost more than arithmetic: here they are as few and as plain as can be.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def sweep_single(
    gram: Array, vector: Array, first: tuple[Array, Array], steps: tuple[Array, Array, Array],
    which: Array,
) -> tuple[Array, Array, float]:  # fmt: skip
    """Blocks ``V_t`` (T, N, N), vectors ``b_t'`` (T, N, P) and ``sum_t log |S_t'|``.

    Args:
        gram: (T, N, N), or its diagonal (T, N).
        vector: (T, N, P).
        first: mean (N, P or 1) and precision (N, N) of the first state.
        steps: ``Omega^-1``, ``D`` and ``F' Omega^-1 F`` of each length, (U, N, N).
        which: length of each step, (T - 1,).
    """
    from scipy.linalg import lapack

    weight, coupling, pull = steps
    n_times, n_modes = gram.shape[:2]
    # What a block holds before elimination, all times at once.
    blocks = np.zeros((n_times, n_modes, n_modes))
    if gram.ndim == 3:
        blocks += gram
    else:
        blocks[:, np.arange(n_modes), np.arange(n_modes)] = gram
    blocks[0] += first[1]
    blocks[1:] += weight[which]
    blocks[:-1] += pull[which]
    vectors = np.array(vector)
    vectors[0] += first[1] @ first[0]
    inverse = np.empty_like(blocks)
    log_determinant = 0.0
    for t in range(n_times):
        block = blocks[t]
        if t:
            d = coupling[which[t - 1]]
            carry = d @ inverse[t - 1]
            block = block - carry @ d.T
            vectors[t] += carry @ vectors[t - 1]
        factor, wrong = lapack.dpotrf(block, lower=1, clean=1)
        if wrong:
            raise np.linalg.LinAlgError("a block of the precision is not positive definite")
        log_determinant += float(np.log(factor.diagonal()).sum())
        half = lapack.dtrtri(factor, lower=1)[0]
        np.matmul(half.T, half, out=inverse[t])
    return inverse, vectors, 2.0 * log_determinant


def mean_single(inverse: Array, vector: Array, coupling: Array, which: Array) -> Array:
    """Back substitution, ``c_t = V_t (b_t' + D_t' c_{t+1})``; (T, N, P)."""
    mean = np.empty_like(vector)
    mean[-1] = inverse[-1] @ vector[-1]
    turned = np.swapaxes(coupling, 1, 2)
    for t in range(len(mean) - 2, -1, -1):
        mean[t] = inverse[t] @ (vector[t] + turned[which[t]] @ mean[t + 1])
    return mean


def covariances_single(inverse: Array, coupling: Array, which: Array) -> tuple[Array, Array]:
    """``Cov_t`` (T, N, N) and ``Cov(c_t, c_{t+1})`` (T - 1, N, N)."""
    covariance = inverse.copy()
    gains = inverse[:-1] @ np.swapaxes(coupling, 1, 2)[which]
    cross = np.empty_like(gains)
    for t in range(len(inverse) - 2, -1, -1):
        np.matmul(gains[t], covariance[t + 1], out=cross[t])
        covariance[t] += cross[t] @ gains[t].T
    return covariance, cross

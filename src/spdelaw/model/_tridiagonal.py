"""Block tridiagonal systems: solution, log-determinant and the blocks of the inverse one needs.

The precision of a Gaussian chain ``c_1, ..., c_T`` has symmetric blocks ``S_t`` on its diagonal
and ``-D_t`` below it (row t + 1, column t). Elimination forward,

    V_t = (S_t - D_{t-1} V_{t-1} D_{t-1}')^-1,    b_t' = b_t + D_{t-1} V_{t-1} b_{t-1}',

gives ``log |S| = -sum_t log |V_t|``; with ``K_t = V_t D_t'`` the way back gives

    c_t = V_t (b_t' + D_t' c_{t+1}),
    Cov(c_t, c_{t+1}) = K_t Cov_{t+1},    Cov_t = V_t + K_t Cov_{t+1} K_t'.

All paths that share the matrices are columns of one right-hand side. Machine code takes over where
numba is installed and there are steps enough; NumPy spends tens of microseconds on the calls
of one step, whatever the number of modes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.model._compiler import kernels

Array = np.ndarray

#: Steps from which on machine code is used: some seconds of NumPy calls within one fit.
COMPILED_STEPS = 250


class ChainSolution(NamedTuple):
    """Moments of the chain.

    Attributes:
        log_determinant: ``log |S|`` of the whole matrix.
        mean: ``c_t``, (T, N, P).
        covariance: ``Cov_t``, (T, N, N).
        cross: ``Cov(c_t, c_{t+1})``, (T - 1, N, N), or no blocks where they were not asked for.
        lag: its diagonals, (T - 1, N).
    """

    log_determinant: float
    mean: Array
    covariance: Array
    cross: Array
    lag: Array


def solve_tridiagonal(
    blocks: Array,
    coupling: Array,
    vector: Array,
    own: Array,
    which: Array,
    *,
    crosses: bool = True,
) -> ChainSolution:
    """Solution, log-determinant and selected inverse of one block tridiagonal matrix.

    Args:
        blocks: ``S_t``, (T, N, N); left as they are.
        coupling: ``D``, (U, N, N), or its diagonals (U, N) where it couples no modes.
        vector: right-hand sides ``b_t``, (T, N, P).
        own: what is added to the diagonals of the blocks, (T, N).
        which: which of the U couplings leads from t to t + 1, (T - 1,).
        crosses: whether ``Cov(c_t, c_{t+1})`` is wanted in full.

    Raises:
        numpy.linalg.LinAlgError: where the matrix is not positive definite.
    """
    compiled = kernels("_compiled_chain") if len(blocks) >= COMPILED_STEPS else None
    solve = solve_with_numpy if compiled is None else compiled.solve
    found = ChainSolution(*solve(blocks, own, coupling, which, vector, crosses))
    if np.isnan(found.log_determinant):
        raise np.linalg.LinAlgError("a block of the precision is not positive definite")
    return found if crosses else found._replace(cross=found.cross[:0])


def solve_with_numpy(
    blocks: Array, own: Array, coupling: Array, which: Array, vector: Array, crosses: bool
) -> tuple[float, Array, Array, Array, Array]:
    """Log-determinant (NaN where not positive), means, covariances, crosses and lags."""
    n_times, n, _ = blocks.shape
    d = coupling[:, None] * np.eye(n) if coupling.ndim == 2 else coupling
    inverse, vectors = np.array(blocks, float), np.array(vector, float)
    inverse[:, np.arange(n), np.arange(n)] += own
    logs, cross = 0.0, np.empty((n_times - 1, n, n))
    for t in range(n_times):
        if t:
            step = d[which[t - 1]]
            np.matmul(step, inverse[t - 1], out=cross[t - 1])
            inverse[t] -= cross[t - 1] @ step.T
            vectors[t] += cross[t - 1] @ vectors[t - 1]
        factor, failed = scipy.linalg.lapack.dpotrf(inverse[t], lower=1, clean=1)
        if failed:
            return np.nan, vectors, inverse, cross, cross[:, 0]
        logs += 2.0 * float(np.log(factor.diagonal()).sum())
        half = scipy.linalg.lapack.dtrtri(factor, lower=1, overwrite_c=1)[0]
        np.matmul(half.T, half, out=inverse[t])
    _way_back(d, which, inverse, cross, vectors)
    return logs, vectors, inverse, cross, np.einsum("tii->ti", cross).copy()


def _way_back(d: Array, which: Array, inverse: Array, cross: Array, vectors: Array) -> None:
    """Means into ``vectors``, covariances into ``inverse`` and crosses over ``D_t V_t``."""
    vectors[-1] = inverse[-1] @ vectors[-1]
    for t in range(len(inverse) - 2, -1, -1):
        vectors[t] = inverse[t] @ vectors[t] + cross[t].T @ vectors[t + 1]
        gain = cross[t].T.copy()
        np.matmul(gain, inverse[t + 1], out=cross[t])
        inverse[t] += cross[t] @ gain.T

"""The stochastic heat equation by finite differences: no eigenfunctions.

``dX = -S X dt + f(S)^(1/2) dW`` for a symmetric stiffness matrix S, with exact transitions by
matrix exponentials. It knows nothing of the bases of `spdelaw.domain`.
"""

import numpy as np
from scipy import linalg


def square_stiffness(n: int, side: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Five-point Laplacian inside a square with cold sides; (matrix, points, cell areas)."""
    h = side / (n + 1)
    one = (2.0 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)) / h**2
    axis = h * np.arange(1, n + 1)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    stiffness = np.kron(one, np.eye(n)) + np.kron(np.eye(n), one)
    return stiffness, points, np.full(n * n, h**2)


def heat_paths(
    stiffness: np.ndarray, cells: np.ndarray, times: np.ndarray, n_paths: int, *, kappa: float,
    amplitude: float, smoothing: float, seed: int,
) -> np.ndarray:  # fmt: skip
    """Paths (path, time, point) from zero, ``f(S) = amplitude exp(-smoothing S)``.

    With ``A = S + kappa``, a step is ``X' = e^(-A dt) X + e``,
    ``Cov e = f(S) (1 - e^(-2 A dt)) / (2 A)``; the noise of the field has the kernel
    ``f(S) / cell``, which is ``sum_n f(mu_n) h_n(x) h_n(y)`` in the limit.
    """
    dt, one = times[1] - times[0], np.eye(len(stiffness))
    a = stiffness + kappa * one
    decay = linalg.expm(-dt * a)
    kernel = amplitude * linalg.expm(-smoothing * stiffness)
    covariance = 0.5 * linalg.solve(a, kernel @ (one - decay @ decay), assume_a="pos")
    spread, directions = linalg.eigh(0.5 * (covariance + covariance.T))
    root = np.sqrt(np.maximum(spread, 0.0))[:, None] * directions.T
    rng = np.random.default_rng(seed)
    x = np.zeros((n_paths, len(times), len(stiffness)))
    for t in range(1, len(times)):
        x[:, t] = x[:, t - 1] @ decay + rng.standard_normal((n_paths, len(stiffness))) @ root
    return x / np.sqrt(cells)

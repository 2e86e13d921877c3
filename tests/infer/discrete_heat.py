"""The stochastic heat equation by finite differences and finite elements: no eigenfunctions.

``dX = -S X dt + f(S)^(1/2) dW`` for a symmetric stiffness matrix S, with exact transitions by
matrix exponentials. It knows nothing of the bases of `spdelaw.domains`.
"""

import numpy as np
from scipy import linalg
from scipy.spatial import Delaunay


def square_stiffness(n: int, side: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Five-point Laplacian inside a square with cold sides; (matrix, points, cell areas)."""
    h = side / (n + 1)
    one = (2.0 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)) / h**2
    axis = h * np.arange(1, n + 1)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    stiffness = np.kron(one, np.eye(n)) + np.kron(np.eye(n), one)
    return stiffness, points, np.full(n * n, h**2)


def disk_stiffness(n_rings: int, radius: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Linear elements with a lumped mass inside a disk with a cold rim."""
    rings = [np.zeros((1, 2))]
    for k in range(1, n_rings + 1):
        angle = 2 * np.pi * (np.arange(6 * k) + 0.5 * (k % 2)) / (6 * k)
        rings.append(radius * k / n_rings * np.stack([np.cos(angle), np.sin(angle)], axis=1))
    nodes = np.concatenate(rings)
    stiffness, mass = np.zeros((len(nodes), len(nodes))), np.zeros(len(nodes))
    for corners in Delaunay(nodes).simplices:
        a, b, c = nodes[corners]
        area = 0.5 * abs((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))
        if area < 1e-9 * radius**2:  # slivers along the rim
            continue
        opposite = np.stack([c - b, a - c, b - a])
        stiffness[np.ix_(corners, corners)] += opposite @ opposite.T / (4.0 * area)
        mass[corners] += area / 3.0
    inside = np.arange(len(nodes)) < len(nodes) - 6 * n_rings
    root = np.sqrt(mass[inside])
    return stiffness[np.ix_(inside, inside)] / np.outer(root, root), nodes[inside], mass[inside]


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

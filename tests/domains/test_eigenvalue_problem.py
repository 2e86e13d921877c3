"""Modes solve the eigenvalue problem of their domain, and keep its boundary condition."""

import numpy as np
import pytest

import spdelaw as sl

ENDS = ("dirichlet", "neumann", "periodic")
CASES = [
    *((sl.Interval(0.5, 2.0, end), np.linspace(0.7, 1.8, 20), 7, 2e-5) for end in ENDS),
    *(
        (sl.Box((0.5, 2.0), (0.0, 1.0), boundary=end), [[0.7, 0.2], [1.8, 0.8]], 6, 1e-4)
        for end in ENDS
    ),
    *(
        (sl.Disk(1.5, (0.3, 0.0), end), [[-0.9, -0.9], [0.9, 0.9]], 9, 1e-6)
        for end in ("dirichlet", "neumann")
    ),
    (sl.Plane(), [[-2.0, -2.0], [2.0, 2.0]], 10, 1e-6),
]


@pytest.mark.parametrize(("domain", "where", "n_modes", "atol"), CASES)
def test_eigenvalue_problem(domain, where, n_modes, atol):
    """``-Laplace h (+ x . grad h on a plane) = mu h`` by differences of fourth order."""
    dx, x = 1e-3, np.asarray(where)
    if len(domain.dims) == 2:
        x = np.random.default_rng(0).uniform(*x, (20, 2))
    total = 0.0
    for k, step in enumerate(np.eye(2) * dx if x.ndim == 2 else [dx]):
        h = [domain.eigenfunctions(x + s * step, n_modes) for s in (-2, -1, 0, 1, 2)]
        total = total - (-h[0] + 16 * h[1] - 30 * h[2] + 16 * h[3] - h[4]) / (12 * dx**2)
        if isinstance(domain, sl.Plane):
            total = total + x[:, k : k + 1] * (h[0] - 8 * h[1] + 8 * h[3] - h[4]) / (12 * dx)
    np.testing.assert_allclose(total, domain.eigenvalues(n_modes) * h[2], atol=atol)

"""Advection and diffusion on a ring, simulated without any Fourier mode: finite differences."""

import numpy as np
from tests.infer.coupled import WITHIN

import spdelaw as sl

LENGTH, M = 2.0, 96
SPEED, NU, KAPPA = 0.8, 0.05, 0.3
RING = sl.Interval(0.0, LENGTH, "periodic")


def kernel(x: np.ndarray) -> np.ndarray:
    """Covariance of the forcing at distance x, smooth and periodic."""
    return 0.5 * np.exp((np.cos(2 * np.pi * x / LENGTH) - 1.0) / 0.3)


def finite_differences(n_paths: int, n_times: int, seed: int) -> tuple[np.ndarray, ...]:
    """Central differences on 96 points, Crank-Nicolson in 1/500, from rest; every 25th step."""
    x = RING.grid(M)
    h, dt, every = LENGTH / M, 0.002, 25
    right = np.roll(np.eye(M), 1, axis=1)
    left = right.T
    a = NU * (right - 2 * np.eye(M) + left) / h**2 - SPEED * (right - left) / (2 * h)
    a -= KAPPA * np.eye(M)
    step = np.linalg.solve(np.eye(M) - 0.5 * dt * a, np.eye(M) + 0.5 * dt * a)
    force = np.linalg.solve(np.eye(M) - 0.5 * dt * a, np.eye(M))
    values, vectors = np.linalg.eigh(kernel(x[:, None] - x))
    root = force @ (vectors * np.sqrt(np.maximum(dt * values, 0.0)))
    rng = np.random.default_rng(seed)
    u, out = np.zeros((M, n_paths)), [np.zeros((M, n_paths))]
    for i in range(1, every * (n_times - 1) + 1):
        u = step @ u + root @ rng.standard_normal((M, n_paths))
        if i % every == 0:
            out.append(u)
    return np.array(out).transpose(2, 0, 1), np.arange(n_times) * dt * every, x


def test_speed_diffusion_and_forcing_of_finite_differences():
    values, times, x = finite_differences(40, 41, seed=0)
    law = sl.fit(values, RING, 5, drift="normal", times=times, points=x)
    k = np.sqrt(RING.eigenvalues(5))
    # Central differences turn k into sin(k h)/h and k^2 into (2 sin(k h/2)/h)^2.
    h = LENGTH / M
    decay = KAPPA + NU * (2 * np.sin(k * h / 2) / h) ** 2
    turn = SPEED * np.sin(k * h) / h
    drift = law.parameters["drift"]
    estimate, stderr = (drift.sel(statistic=s).values for s in ("estimate", "stderr"))
    z = [(np.diag(estimate) - decay) / np.diag(stderr)]
    for a, b in ((1, 2), (3, 4)):
        z.append([(estimate[a, b] - turn[a]) / stderr[a, b]])
        assert estimate[a, b] == -estimate[b, a]
        assert estimate[a, b] > 10 * stderr[a, b]
    # <C h_n, h_n> by the trapezoid rule, which is exact for smooth periodic functions.
    phi = RING.eigenfunctions(x, 5)
    q = np.diag(phi.T @ kernel(x[:, None] - x) @ phi) * h**2
    noise = law.parameters["noise_covariance"]
    found, error = (np.diag(noise.sel(statistic=s).values) for s in ("estimate", "stderr"))
    z.append((found - q) / error)
    assert np.abs(np.concatenate(z)).max() < WITHIN, np.round(np.concatenate(z), 2)


def test_a_dense_drift_finds_the_pairs_by_itself():
    values, times, x = finite_differences(60, 41, seed=1)
    law = sl.fit(values, RING, 3, drift="dense", times=times, points=x)
    modes = law.eigenmodes()
    assert modes.sizes["eigenmode"] == 2
    row = modes.frequency.isel(eigenmode=-1).values
    assert abs(row[0] - SPEED * np.pi) < WITHIN * row[1]
    assert row[0] > 5 * row[1]

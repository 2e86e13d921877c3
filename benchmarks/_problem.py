"""Problems that benchmarks share: Regime B seen with noise, and one long record behind clouds."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks import _timing  # noqa: F401  (sets the number of threads before NumPy loads)

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip
from spdelaw.statespace.chain import StateSpace, linear_state_space  # isort: skip

NOISE_STD = 0.05
SQUARE = sl.Box((0, np.pi), (0, np.pi))


class Observations(NamedTuple):
    """Fields (P, T, M), NaN where missing, with the eigenfunctions ``Phi`` (M, N)."""

    values: np.ndarray
    times: np.ndarray
    eigenfunctions: np.ndarray
    parameters: StateSpace


def observations(
    n_paths: int, n_times: int = 201, n_points: int = 101, n_modes: int = 8, missing: float = 0.0
) -> Observations:
    """Noisy heat-equation fields, and parameters near, not at, the truth."""
    equation = sl.catalogue.heat(n_modes=n_modes)
    times = np.linspace(0.0, 0.005 * (n_times - 1), n_times)
    grid = np.linspace(0.0, np.pi, n_points)
    values = sl.simulate(equation, n_paths, times=times, grid=grid, seed=0).values
    rng = np.random.default_rng(1)
    values = values + NOISE_STD * rng.standard_normal(values.shape)
    if missing:
        values[rng.random(values.shape) < missing] = np.nan
    phi = equation.domain.eigenfunctions(grid, n_modes)
    return Observations(values, times, phi, parameters(n_modes))


def parameters(n_modes: int) -> StateSpace:
    """Parameters at which likelihoods are compared; the initial state is Gaussian."""
    n = np.arange(n_modes)
    return linear_state_space(
        1.1 * (0.5 + n**2),
        1.0 / (1.0 + n),
        np.full(n_modes, 0.2),
        np.full(n_modes, 0.1),
        1.1 * NOISE_STD**2,
        "gaussian",
    )


def long_record(
    n_modes: int, n_times: int = 3000, side: int = 40
) -> tuple[np.ndarray, np.ndarray, np.ndarray, sl.SpectralSPDE]:
    """One path (1, T, M) with noise and 40 % missing, its times, points and equation."""
    rng, points = np.random.default_rng(0), SQUARE.grid(side)
    equation = sl.catalogue.heat_on(SQUARE, n_modes, nu=0.05, noise=sl.PowerLaw(0.5))
    times = np.linspace(0.0, 0.01 * n_times, n_times)
    fields = sl.simulate(equation, 1, times, points, seed=0, observation_std=0.1)
    values = fields.values.reshape(1, n_times, -1)
    values[rng.uniform(size=values.shape) < 0.4] = np.nan
    return values, times, points, equation


def stationary_law(equation: sl.SpectralSPDE) -> StateSpace:
    """Drift and noise of an equation, a Gaussian start as wide as its stationary law."""
    lam, q = np.asarray(equation.eigenvalues), np.asarray(equation.noise_variance)
    return linear_state_space(lam, q, np.zeros(len(lam)), q / (2 * lam), 0.01, "gaussian")

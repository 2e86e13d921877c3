"""Equations of every structure of drift and noise, and the distance of a fit from them."""

from functools import cache

import numpy as np
import xarray as xr

import spdelaw as sl

RING = sl.Interval(0.0, 2.0, "periodic")
POINTS = RING.grid(9)
TIMES = np.linspace(0.0, 4.0, 41)
N = 5
#: Each estimate within this many standard errors; a true null fails once in 16 000 numbers.
WITHIN = 4.0

RATES = np.array([0.4, 0.9, 0.9, 1.7, 1.7])
VARIANCES = np.array([0.6, 1.0, 0.5, 0.3, 0.2])


def stable(n: int, seed: int = 0, rate: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    """A drift matrix far from normal, and a noise covariance."""
    rng = np.random.default_rng(seed)
    turn, root, factor = rng.normal(size=(3, n, n))
    m = root @ root.T + 0.3 * np.eye(n)
    out = (0.5 * np.eye(n) + turn - turn.T) @ m
    return rate * out / np.abs(out).max(), factor @ factor.T


def drift(structure: str) -> np.ndarray:
    if structure == "dense":
        return stable(N, seed=3, rate=2.0)[0] + 0.3 * np.eye(N)
    out = np.diag(RATES)
    if structure == "normal":
        for (a, b), turn in {(1, 2): 1.3, (3, 4): -2.1}.items():
            out[a, b], out[b, a] = turn, -turn
    if structure == "parametric":
        out = np.diag(0.3 + 0.1 * RING.eigenvalues(N))
    return out


def noise(structure: str) -> np.ndarray:
    single = np.diag(VARIANCES)
    if structure == "low_rank":
        pattern = np.array([0.6, -0.5, 0.4, 0.3, -0.2])
        return single + np.outer(pattern, pattern)
    if structure == "dense":
        factor = np.random.default_rng(4).normal(size=(N, N))
        return single + 0.2 * factor @ factor.T
    if structure == "parametric":
        return np.diag(0.8 * np.arange(1, N + 1) ** -1.5)
    return single


@cache
def equation(of_drift: str, of_noise: str, initial: str = "stationary") -> sl.SpectralSPDE:
    state = sl.Gaussian([1.0, -0.5], 0.3) if initial == "gaussian" else initial
    return sl.SpectralSPDE(RING, N, drift(of_drift), noise=noise(of_noise), initial=state)


def fields(e: sl.SpectralSPDE, n_paths: int = 60, std: float = 0.0, seed: int = 0) -> xr.DataArray:
    return sl.simulate(e, n_paths, TIMES, POINTS, seed=seed, observation_std=std)


def z_scores(law: sl.Law, e: sl.SpectralSPDE) -> np.ndarray:
    """(estimate - truth) / standard error of all entries that are not fixed by structure."""
    out = []
    for name, truth in (("drift", e.drift_matrix), ("noise_covariance", e.noise_covariance)):
        estimate, stderr = (
            law.parameters[name].sel(statistic=s).values for s in ("estimate", "stderr")
        )
        free = stderr > 0
        np.testing.assert_allclose(estimate[~free], truth[~free], atol=1e-12)
        out.append(((estimate - truth)[free] / stderr[free]).ravel())
    return np.concatenate(out)


def assert_recovers(law: sl.Law, e: sl.SpectralSPDE) -> None:
    z = z_scores(law, e)
    assert np.abs(z).max() < WITHIN, np.round(z, 2)
    # Standard errors that are too large would make this easy: together they must be lively.
    assert np.sqrt((z**2).mean()) > 0.3, np.round(z, 2)

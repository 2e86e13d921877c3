"""Small laws of every kind, fitted once."""

from functools import cache

import numpy as np
import xarray as xr

import spdelaw as sl
from spdelaw.law import _seen
from spdelaw.model import Parameters

INTERVAL = sl.Interval(0.0, np.pi)
TIMES = np.linspace(0.0, 1.0, 21)
POINTS = INTERVAL.grid(10)
NOISE = 0.05


def heat(initial: str = "bump", n_modes: int = 3) -> sl.SpectralSPDE:
    if initial == "gaussian":
        return sl.catalogue.heat(n_modes, initial=sl.Gaussian([1.5, 0.6, -0.8], [0.5, 0.3, 0.1]))
    return sl.catalogue.heat(n_modes, **({"initial": initial} if initial != "bump" else {}))


def fields(initial: str = "bump", noise: float = 0.0, n_paths: int = 60, seed: int = 0,
           times: np.ndarray = TIMES) -> xr.DataArray:  # fmt: skip
    return sl.simulate(heat(initial), n_paths, times, POINTS, seed=seed, observation_std=noise)


@cache
def law(initial: str = "bump", noise: float = 0.0) -> sl.Law:
    settings = {"observation_noise": "estimate"} if noise else {}
    kind = {"bump": "deterministic"}.get(initial, initial)
    return sl.fit(fields(initial, noise), INTERVAL, 3, initial=kind, **settings)


@cache
def point_noise_law() -> sl.Law:
    std = np.linspace(0.02, 0.2, len(POINTS))
    noisy = fields() + std * np.random.default_rng(0).standard_normal((60, 21, len(POINTS)))
    return sl.fit(noisy, INTERVAL, 3, observation_noise=std)


@cache
def nuisance_law() -> sl.Law:
    equation = sl.catalogue.ornstein_uhlenbeck(n_modes=4)
    data = sl.simulate(equation, 40, TIMES, equation.domain.grid(20), seed=0)
    return sl.fit(data, sl.Line(), 2)


def working(some: sl.Law, data: xr.DataArray) -> Parameters:
    """The law's parameters with the noise that its filter uses."""
    return _seen.working(some, data.values)


def basis(some: sl.Law, points: np.ndarray = POINTS) -> np.ndarray:
    return some.domain.eigenfunctions(points, some.state.n_modes)

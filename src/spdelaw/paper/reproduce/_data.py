"""Data of the comparison: the paper's two equations, its scheme, its split."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data import split
from spdelaw.equation import SpectralSPDE
from spdelaw.equation.catalogue import heat, ornstein_uhlenbeck
from spdelaw.simulation import simulate

EQUATIONS = {"a": ornstein_uhlenbeck, "b": heat}
TITLES = {
    "a": "Regime A, Ornstein-Uhlenbeck equation on the line",
    "b": "Regime B, stochastic heat equation",
}


class Data(NamedTuple):
    """Paths with their noise, the equation, and the law that its scheme really has."""

    train: xr.Dataset
    validation: xr.Dataset
    test: xr.Dataset
    equation: SpectralSPDE
    truth: SpectralSPDE


@functools.lru_cache(maxsize=1)
def make_data(regime: str, n_modes: int, n_paths: int, seed: int) -> Data:
    """Simulate and split; the seed is that of the paths and of the split."""
    equation = EQUATIONS[regime](n_modes)
    simulated = simulate(equation, n_paths, seed=seed, scheme="semi_implicit", return_noise=True)
    if not isinstance(simulated, xr.Dataset):
        raise TypeError("simulate(..., return_noise=True) gives a Dataset")
    train, validation, test = (
        simulated.sel(path=part["path"]) for part in split(simulated["field"], seed=seed)
    )
    return Data(train, validation, test, equation, scheme_law(equation))


def scheme_law(equation: SpectralSPDE) -> SpectralSPDE:
    """The equation whose exact paths have the law of the semi-implicit scheme on its times.

    ``c <- (c + sqrt(q dt) N) / (1 + lambda dt)`` is the exact transition of
    ``lambda' = log(1 + lambda dt) / dt`` and ``q' = 2 lambda' q dt a^2 / (1 - a^2)`` with
    ``a = 1 / (1 + lambda dt)``. What is learned from such paths has to be compared with these.

    Example:
        >>> law = scheme_law(heat(8))
        >>> [
        ...     round(float(v[7] / w[7]), 2)
        ...     for v, w in (
        ...         (law.eigenvalues, heat(8).eigenvalues),
        ...         (law.noise_variance, heat(8).noise_variance),
        ...     )
        ... ]
        [0.87, 0.75]
    """
    dt = float(equation.times[1] - equation.times[0])
    lam, q = equation.eigenvalues, equation.noise_variance
    a, slow = 1.0 / (1.0 + lam * dt), np.log1p(lam * dt) / dt
    return SpectralSPDE(
        equation.domain, equation.n_modes, slow, noise=2.0 * slow * q * dt * a**2 / (1.0 - a**2),
        initial=equation.initial_mean, times=equation.times, n_points=equation.n_points,
        label=f"{equation.label}, law of the semi-implicit scheme",
    )  # fmt: skip


def thinned(data: xr.Dataset, step: int, dim: str) -> xr.Dataset:
    """Every ``step``-th time and point; increments of the noise add up in between."""
    if step == 1:
        return data
    rows = {"time": slice(None, None, step)}
    noise = {
        name: data[name].cumsum("time").isel(rows).diff("time", label="upper")
        for name in ("noise_field", "noise_increment")
    }
    first = {name: data[name].isel(time=[0]) for name in noise}
    out = data.isel(rows).assign(
        {name: xr.concat([first[name], noise[name]], "time") for name in noise}
    )
    return out.isel({dim: slice(None, None, step)})

"""Fields to fit, and how far an estimate is from the truth."""

from functools import cache

import numpy as np
import xarray as xr

import spdelaw as sl

INTERVAL = sl.Interval(0.0, np.pi)
TIMES = np.linspace(0.0, 1.0, 41)
POINTS = INTERVAL.grid(16)
#: Each estimate within this many standard errors; a true null fails once in 16 000 numbers.
WITHIN = 4.0


@cache
def heat(n_modes: int = 3, initial: str = "bump") -> sl.SpectralSPDE:
    if initial == "stationary":
        return sl.catalogue.heat(n_modes, initial="stationary")
    if initial == "gaussian":
        state = sl.Gaussian([1.5, 0.6, -0.8][:n_modes], [0.5, 0.3, 0.1][:n_modes])
        return sl.catalogue.heat(n_modes, initial=state)
    return sl.catalogue.heat(n_modes)


def small(n_paths: int = 40, *, initial: str = "bump", noise: float = 0.0, seed: int = 0,
          times: np.ndarray = TIMES, scheme: str = "exact") -> xr.DataArray:  # fmt: skip
    """Three modes, 41 times, 16 points."""
    return sl.simulate(
        heat(3, initial), n_paths, times, POINTS, seed=seed, observation_std=noise, scheme=scheme
    )


def z_scores(law: sl.Law, **truth: np.ndarray) -> np.ndarray:
    """(estimate - truth) / standard error of all named parameters."""
    out = []
    for name, values in truth.items():
        table = law.parameters[name]
        estimate, error = (table.sel(statistic=s).values for s in ("estimate", "stderr"))
        out.append(np.ravel((estimate - np.asarray(values)) / error))
    return np.concatenate(out)


def assert_recovers(law: sl.Law, equation: sl.SpectralSPDE, **more: np.ndarray) -> None:
    """Both spectra within `WITHIN` standard errors, and not by huge standard errors."""
    n = law.n_modes
    z = z_scores(
        law, eigenvalue=equation.eigenvalues[:n], noise_variance=equation.noise_variance[:n], **more
    )
    assert np.abs(z).max() < WITHIN, np.round(z, 2)
    # Standard errors that are too large would make this easy: together they must be lively.
    assert np.sqrt((z**2).mean()) > 0.3, np.round(z, 2)

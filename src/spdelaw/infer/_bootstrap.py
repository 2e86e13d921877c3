"""Parametric bootstrap: refit paths simulated from the law, observed as the data were."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import xarray as xr

from spdelaw.domain import AbstractDomain
from spdelaw.errors import ConvergenceError, IdentifiabilityWarning
from spdelaw.infer._assemble import assemble
from spdelaw.infer._exact import estimate
from spdelaw.infer._observed import Observed
from spdelaw.infer._settings import Settings
from spdelaw.law import Law

Array = np.ndarray


def bootstrap(law: Law, observed: Observed, domain: AbstractDomain, settings: Settings) -> Law:
    """The law with standard errors and intervals from refits of simulated data.

    Intervals are the basic ones, ``2 estimate - quantiles`` (on the log scale for positive
    numbers), so that a bias of the estimator is taken out of them.
    """
    once = dataclasses.replace(settings, bootstrap=0, initial=law.state.initial_kind,
                               nuisance=law.info["n_nuisance"])  # fmt: skip
    missing = np.isnan(observed.load())
    tables = []
    for b in range(settings.bootstrap):
        values = _replicate(law, observed, settings.seed + b + 1)
        values[missing] = np.nan
        copy = observed._replace(values=values)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", IdentifiabilityWarning)
                fitted = estimate(copy, domain, law.n_modes, once)
                tables.append(assemble(fitted, copy, domain, once).parameters)
        except ConvergenceError:
            continue
    if len(tables) < max(2, settings.bootstrap // 2):
        raise ConvergenceError(
            "bootstrap", expected="most refits to converge", got=f"{len(tables)} of "
            f"{settings.bootstrap}", fix="the law is too weakly determined; tie or fix parameters",
        )  # fmt: skip
    info = {**law.info, "bootstrap": {"replicates": settings.bootstrap, "used": len(tables)}}
    return dataclasses.replace(law, parameters=_intervals(law, tables, settings.level), info=info)


def _replicate(law: Law, observed: Observed, seed: int) -> Array:
    """Paths of the law on the observed clock, with its observation noise."""
    times, points = observed.times, observed.points
    if times.ndim == 1:
        paths = law.sample(observed.n_paths, times, points, seed=seed, observation_noise=True)
        return law.domain.flatten(paths).values
    rows = [
        law.sample(1, t, points, seed=seed * 100003 + i, observation_noise=True)
        for i, t in enumerate(times)
    ]
    return np.concatenate([law.domain.flatten(row).values for row in rows])


def _intervals(law: Law, tables: list[xr.Dataset], level: float) -> xr.Dataset:
    out = law.parameters.copy(deep=True)
    tail = 0.5 * (1.0 - level)
    for name in out.data_vars:
        draws = np.stack([t[name].sel(statistic="estimate").values for t in tables])
        x = law.parameters[name].sel(statistic="estimate").values
        low, high = np.quantile(draws, [tail, 1.0 - tail], axis=0)
        positive = name != "initial_mean" and (np.asarray(x) > 0).all() and (low > 0).all()
        ends = (x**2 / high, x**2 / low) if positive else (2 * x - high, 2 * x - low)
        for statistic, value in zip(
            ("stderr", "lower", "upper"), (draws.std(0, ddof=1), *ends), strict=True
        ):
            out[name].loc[{"statistic": statistic}] = value
    out.attrs["intervals"] = f"parametric bootstrap, {len(tables)} replicates"
    return out

"""Parametric bootstrap: refit paths simulated from the law, observed as the data were."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data import Here, Observed, over_blocks
from spdelaw.errors import ConvergenceError, IdentifiabilityWarning
from spdelaw.infer._engine import Engine
from spdelaw.infer._model import Model
from spdelaw.law import Law

Array = np.ndarray


def bootstrap(
    law: Law, observed: Observed, engine: Engine, model: Model, n: int, run: dict[str, Any]
) -> Law:
    """The law with standard errors and intervals from refits of simulated data.

    Intervals are the basic ones, ``2 estimate - quantiles`` (on the log scale for positive
    numbers), so that a bias of the estimator is taken out of them. Replicates run on
    ``run["executor"]`` where there is one.
    """
    kind, extra = law.initial.kind, law.info["n_nuisance"]
    mean = {"mean": law.info["mean"]} if "mean" in law.info else {}
    same = dataclasses.replace(model, initial=kind, nuisance=extra, **mean)
    quiet = {**run, "executor": None, "progress": None}
    # Each replicate is as large as the data, and is made where it is fitted.
    here = observed.in_memory()._replace(place=Here())
    seeds = range(run["seed"] + 1, run["seed"] + n + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        found = over_blocks(_refit, seeds, law, here, engine, same, quiet, executor=run["executor"])
        tables = [table for table in found if table is not None]
    if len(tables) < max(2, n // 2):
        expected = "most refits to converge"
        fix = "the law is too weakly determined; tie or fix parameters"
        raise ConvergenceError("bootstrap", expected=expected, got=f"{len(tables)} of {n}", fix=fix)
    table = _intervals(law, tables, run["level"])
    used = {"replicates": n, "used": len(tables)}
    law = law.with_info(bootstrap=used, standard_errors="bootstrap")
    return dataclasses.replace(law, parameters=table)


def _refit(
    seed: int, law: Law, observed: Observed, engine: Engine, model: Model, run: dict[str, Any]
) -> xr.Dataset | None:
    """Parameters of one replicate; None where its search has no end."""
    values = _replicate(law, observed, seed)
    values[np.isnan(observed.values)] = np.nan
    copy = observed._replace(values=values)
    try:
        found = engine.learn(copy, law.domain, law.n_modes, model, **run)
    except ConvergenceError:
        return None
    return found.parameters if found.info.get("converged", True) else None


def _replicate(law: Law, observed: Observed, seed: int) -> Array:
    """Paths of the law on the observed clock, with its observation noise."""
    times, points = observed.times, observed.points
    places = law.domain.places(points)
    if times.ndim == 1:
        paths = law.sample(observed.n_paths, times, points, seed=seed, observation_noise=True)
        return places.flatten(paths.values)
    rows = [
        law.sample(1, t, points, seed=seed * 100003 + i, observation_noise=True)
        for i, t in enumerate(times)
    ]
    return np.concatenate([places.flatten(row.values) for row in rows])


def _intervals(law: Law, tables: list[xr.Dataset], level: float) -> xr.Dataset:
    out = law.parameters.copy(deep=True)
    tail = 0.5 * (1.0 - level)
    for name in out.data_vars:
        draws = np.stack([t[name].sel(statistic="estimate").values for t in tables])
        x = law.parameters[name].sel(statistic="estimate").values
        low, high = np.quantile(draws, [tail, 1.0 - tail], axis=0)
        signed = name in ("initial_mean", "mean")
        positive = not signed and (np.asarray(x) > 0).all() and (low > 0).all()
        ends = (x**2 / high, x**2 / low) if positive else (2 * x - high, 2 * x - low)
        found = {"stderr": draws.std(0, ddof=1), "lower": ends[0], "upper": ends[1]}
        for statistic, value in found.items():
            out[name].loc[{"statistic": statistic}] = value
    out.attrs["intervals"] = f"parametric bootstrap, {len(tables)} replicates"
    return out

"""Forecasts of what the fit has not seen: fit on the past, predict the future, move on.

The law, its climatology and its rivals learn from times before each fit only. Errors are squared
deviations averaged over points and paths, by lead. Skill against a rival is
``1 - MSE(law) / MSE(rival)``; its interval is a moving-block bootstrap over origins, because
forecasts from neighbouring origins share most of their future.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
import scipy
import xarray as xr

from spdelaw.checks import whole
from spdelaw.data import Preparation, as_fields
from spdelaw.domain import AbstractDomain
from spdelaw.errors import IdentifiabilityWarning, InputError
from spdelaw.infer import fit
from spdelaw.law import Law

Array = np.ndarray

#: What the law has to beat: the mean, the last field, and the last field on its way to the mean.
RIVALS = ("climatology", "persistence", "damped persistence")
PREDICTORS = ("law", *RIVALS)


def leave_future_out(
    data: Any,
    domain: AbstractDomain,
    n_modes: int | str = "auto",
    *,
    prepare: Preparation | None = None,
    first: int | float = 0.6,
    leads: int = 6,
    refit: int = 6,
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
    **settings: Any,
) -> xr.Dataset:
    """Validate forecasts on the future of the data, origin by origin.

    Args:
        data: fields, or raw data with ``prepare``.
        domain: as in `spdelaw.fit`.
        n_modes: as in `spdelaw.fit`.
        prepare: learned anew from the past at every fit.
        first: times before the first origin, as a number or as a share of all.
        leads: steps to forecast from each origin.
        refit: origins between two fits.
        level: of the intervals of forecasts and of skills.
        replicates: of the bootstrap.
        seed: of the bootstrap.
        settings: further ones of `spdelaw.fit`.

    Returns:
        Dataset over ``lead``: ``rmse`` (predictor, lead) in the units of the prepared data,
        ``skill`` (rival, lead, statistic) with estimate and interval, ``coverage`` of the law's
        intervals, ``n_origins`` and ``mean_time_ahead``.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> calm = sl.catalogue.heat(n_modes=2, initial="stationary")
        >>> one = sl.simulate(calm, 1, np.linspace(0, 8, 81), np.linspace(0, np.pi, 9), seed=0)
        >>> scores = sl.leave_future_out(one, calm.domain, 2, leads=2, refit=20)
        >>> dict(scores.rmse.sizes)
        {'predictor': 4, 'lead': 2}
    """
    reduced = prepare.reduce(data) if prepare is not None else data
    fields = as_fields(reduced, dims=domain.dims)
    how = None if prepare is None else _affine_part(prepare)
    start = _check(fields, first, leads, refit)
    n = fields.sizes["time"]
    errors = np.full((len(PREDICTORS), leads, n - start), np.nan)
    inside = np.full((leads, n - start), np.nan)
    z = float(scipy.special.ndtri(0.5 + 0.5 * level))
    law: Law | None = None
    for origin in range(start, n):
        if law is None or (origin - start) % refit == 0:
            law = _fit(fields.isel(time=slice(origin)), domain, n_modes, how, settings)
        made = _forecasts(law, law.prepared(fields), origin, leads, z)
        errors[:, : made.shape[1], origin - start] = made[: len(PREDICTORS)]
        inside[: made.shape[1], origin - start] = made[-1]
    return _scores(fields, start, errors, inside, level, replicates, seed)


def _affine_part(prepare: Preparation) -> Preparation:
    return dataclasses.replace(prepare, variable=None, select={}, average=(), rename={}, coarsen={})


def _check(fields: xr.DataArray, first: int | float, leads: int, refit: int) -> int:
    n = fields.sizes["time"]
    if "path_time" in fields.coords:
        raise InputError(
            "data",
            expected="one clock for all paths",
            got="times of each path's own",
            fix="validate the paths one at a time",
        )
    whole("leads", leads, 1)
    whole("refit", refit, 1)
    start = round(first * n) if isinstance(first, float) else first
    if isinstance(start, bool) or not isinstance(start, int) or not 4 <= start < n:
        raise InputError(
            "first",
            expected=f"from 4 to {n - 1} times, or that share of them",
            got=repr(first),
            fix="first=0.6",
        )
    return start


def _fit(
    past: xr.DataArray, domain: AbstractDomain, n_modes: Any, how: Preparation | None, settings: Any
) -> Law:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)  # in the law's notes as well
        return fit(past, domain, n_modes, prepare=how, **settings)


def _forecasts(law: Law, seen: xr.DataArray, origin: int, leads: int, z: float) -> Array:
    """Mean square of each predictor, and share inside the law's intervals; (5, leads there are)."""
    seen = law.domain.flatten(seen)
    history = seen.isel(time=slice(origin))
    later = seen.isel(time=slice(origin, origin + leads))
    result = law.bare.forecast(history, later["time"].values)
    last = history.isel(time=-1).values[:, None, :]
    steps = np.arange(1, later.sizes["time"] + 1)[:, None]
    truth = later.values
    means = [
        result["mean"].values,
        np.zeros_like(truth),
        np.broadcast_to(last, truth.shape),
        last * _memory(history.values) ** steps,
    ]
    scored = ~np.isnan(truth) & ~np.isnan(last)
    noise = np.broadcast_to(law.observation_variance, truth.shape[-1:])
    reach = z * np.sqrt(result["std"].values ** 2 + noise)
    rows = [_mean((mean - truth) ** 2, scored) for mean in means]
    return np.stack([*rows, _mean((np.abs(means[0] - truth) <= reach).astype(float), scored)])


def _memory(past: Array) -> Array:
    """Correlation of each point with itself one step later, from the past; (M,)."""
    product = np.nansum(past[:, 1:] * past[:, :-1], axis=(0, 1))
    square = np.nansum(np.where(np.isnan(past[:, 1:]), np.nan, past[:, :-1]) ** 2, axis=(0, 1))
    return np.clip(product / np.where(square > 0, square, 1.0), 0.0, 1.0)


def _mean(values: Array, scored: Array) -> Array:
    count = scored.sum((0, 2))
    total = np.where(scored, values, 0.0).sum((0, 2))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _scores(
    fields: xr.DataArray,
    start: int,
    errors: Array,
    inside: Array,
    level: float,
    replicates: int,
    seed: int,
) -> xr.Dataset:
    leads = errors.shape[1]
    estimate = _skill(errors)
    draws = np.stack([_skill(errors[..., block]) for block in _blocks(errors, replicates, seed)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a lead that no origin reaches is NaN
        tails = np.nanquantile(draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
        rmse = np.sqrt(np.nanmean(errors, axis=-1))
        coverage = np.nanmean(inside, axis=-1)
    times = fields["time"].values
    ahead = [
        np.mean(times[start + k :] - times[start - 1 : len(times) - k - 1]) for k in range(leads)
    ]
    return xr.Dataset(
        {
            "rmse": (("predictor", "lead"), rmse),
            "skill": (("rival", "lead", "statistic"), np.stack([estimate, *tails], axis=-1)),
            "coverage": ("lead", coverage),
            "n_origins": ("lead", np.isfinite(errors[0]).sum(-1)),
            "mean_time_ahead": ("lead", np.array(ahead)),
        },
        coords={
            "predictor": list(PREDICTORS),
            "rival": list(RIVALS),
            "lead": np.arange(1, leads + 1),
            "statistic": ["estimate", "lower", "upper"],
        },
        attrs={"level": level, "first": start},
    )


def _skill(errors: Array) -> Array:
    """``1 - MSE(law) / MSE(rival)``; (rival, lead)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        mse = np.nanmean(errors, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return 1.0 - mse[0] / mse[1:]


def _blocks(errors: Array, replicates: int, seed: int) -> list[Array]:
    """Origins of each replicate: blocks as long as the forecasts overlap, with replacement."""
    n, length = errors.shape[-1], min(errors.shape[1], errors.shape[-1])
    generator = np.random.default_rng(seed)
    starts = generator.integers(0, n - length + 1, (replicates, -(-n // length)))
    return [(s[:, None] + np.arange(length)).ravel()[:n] for s in starts]

"""Forecasts of what the fit has not seen: fit on the past, predict the future, move on.

The law, its climatology and its rivals learn from times before each fit only. Errors are squared
deviations averaged over points and paths, by lead. Skill against a rival is
``1 - MSE(law) / MSE(rival)``; its interval is a moving-block bootstrap over origins, because
forecasts from neighbouring origins share most of their future.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy
import xarray as xr

from spdelaw.checks import whole
from spdelaw.data import Preparation, as_fields, check_plausible
from spdelaw.domain import AbstractDomain
from spdelaw.evaluation._blocks import block_bootstrap
from spdelaw.evaluation._hindcast import (
    LAW,
    Issued,
    Plan,
    Trial,
    affine_part,
    first_origin,
    hindcast,
)
from spdelaw.evaluation._rivals import SIMPLE

Array = np.ndarray

#: What the law has to beat: the mean, the last field, and the last field on its way to the mean.
RIVALS = tuple(SIMPLE)
PREDICTORS = (LAW, *RIVALS)


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
    unit = None if prepare is None else prepare.time_unit
    fields = as_fields(reduced, dims=domain.dims, time_unit=unit)
    check_plausible(fields)
    how = None if prepare is None else affine_part(prepare)
    start = first_origin(fields, first)
    whole("leads", leads, 1)
    origins = tuple(range(start, fields.sizes["time"]))
    fits = tuple(range(0, len(origins), whole("refit", refit, 1)))
    plan = Plan(origins, fits, tuple(range(1, leads + 1)))
    trial = Trial(domain, domain.dims, n_modes, how, settings, RIVALS)
    errors = np.full((len(PREDICTORS), leads, len(origins)), np.nan)
    inside = np.full((leads, len(origins)), np.nan)
    z = float(scipy.special.ndtri(0.5 + 0.5 * level))
    for i, issued in enumerate(hindcast(fields, trial, plan)):
        made = _errors(issued, z)
        errors[:, : made.shape[1], i] = made[:-1]
        inside[: made.shape[1], i] = made[-1]
    return _scores(fields, start, errors, inside, level, replicates, seed)


def _errors(issued: Issued, z: float) -> Array:
    """Mean square of each predictor, and share inside the law's intervals; (5, leads there are)."""
    truth, own = issued.truth, issued.outlooks[LAW]
    scored = ~np.isnan(truth) & ~np.isnan(issued.outlooks["persistence"].mean)
    rows = [_mean((issued.outlooks[name].mean - truth) ** 2, scored) for name in PREDICTORS]
    covered = np.abs(own.mean - truth) <= z * own.std
    return np.stack([*rows, _mean(covered.astype(float), scored)])


def _mean(values: Array, scored: Array) -> Array:
    count = scored.sum((1, 2))
    total = np.where(scored, values, 0.0).sum((1, 2))
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
    blocks = block_bootstrap(errors.shape[-1], leads, replicates, seed)
    draws = np.stack([_skill(errors[..., block]) for block in blocks])
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

"""Forecasts that were issued before, such as hindcasts of a model, against observations."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.checks import checked
from spdelaw.data.clock import from_dates, to_dates, unit_step
from spdelaw.data.fields import as_fields
from spdelaw.data.io.sources import labelled
from spdelaw.data.layout import ORIGINAL, PATH, is_start
from spdelaw.data.prepare import SEASONS, Preparation
from spdelaw.data.recognise import prepare_as_recognised
from spdelaw.domains.places import places_of_fields
from spdelaw.errors import DataError
from spdelaw.evaluation.forecast_skill import Verification, score_dataset
from spdelaw.evaluation.scores import Prediction, ScoreTable
from spdelaw.law.residuals import same_points

Array = np.ndarray

#: Part of a step of the observations by which a time may be off.
SAME_TIME = 0.51
#: Units of leads that are months, and how many.
MONTHS = {"month": 1, "season": 3, "year": 12}


@checked()
def verify(
    forecasts: Any,
    observations: Any,
    *,
    variable: str | None = None,
    anomalies: str = "mean",
    adjust: bool = True,
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
) -> Verification:
    """Score forecasts against observations, together with climatology and persistence.

    Forecasts have a start and a lead, as hindcasts of decadal and seasonal predictions do, and are
    valid at their sum. They are the ``mean`` and ``std`` that `Law.forecast` returns, or the
    members of an ensemble, whose mean and standard deviation are used.

    Args:
        forecasts: Dataset, DataArray or file over start, lead, members and space, or over time.
        observations: the same field over time, at the same points.
        variable: variable of files with several.
        anomalies: climatology of the observations, as in `spdelaw.Preparation`.
        adjust: subtract the mean error at each lead and point, estimated from the other starts, as
            models drift to another climate.
        level: of the intervals from a bootstrap over blocks of starts.
        replicates: of the bootstrap.
        seed: of the bootstrap.

    Returns:
        A `Verification`: RMSE, CRPS, log score, coverage, anomaly correlation, and ranks of the
        observations within the forecasts.
    """
    issued = _issued(forecasts, variable)
    data, _ = labelled(observations)
    how = Preparation(variable=_only(data, variable), anomalies=anomalies, standardise="point")
    layout, prepared, fields = prepare_as_recognised(data, how)
    times, points = fields["time"].values, places_of_fields(fields, layout.dims).points
    offset, scale = prepared.affine(times, points)
    observed = offset + scale * fields.values[0].reshape(len(times), -1)
    at = same_points(points, issued.points)
    if (at == len(points)).any() or len(times) < 2:
        expected, got = "observations at the places of the forecasts", f"{len(points)} others"
        fix = "interpolate them to the grid of the forecasts: observations.interp_like(...)"
        raise DataError("observations", expected=expected, got=got, fix=fix)
    observed, offset, scale = observed[:, at], offset[:, at], scale[at]
    rows = _rows_at(issued.valid(fields["time"]), times)
    truth = _at_rows(observed, rows)
    if not np.isfinite(truth).any():
        expected = "observations at times that were forecast"
        fix = "check the starts, and the attribute units of the lead"
        raise DataError("observations", expected=expected, got="none", fix=fix)
    normal = _at_rows(offset, rows)
    first = _rows_at(issued.valid(fields["time"], lead=0.0), times)
    start = np.broadcast_to(_at_rows(observed - offset, first), truth.shape)
    mean = issued.mean - _mean_error(issued.mean - truth) if adjust else issued.mean
    spread = np.broadcast_to(scale, truth.shape)
    growth = np.sqrt(_mean((truth - normal - start) ** 2))
    methods = {
        "forecast": Prediction(mean, issued.std),
        "climatology": Prediction(normal, spread),
        "persistence": Prediction(normal + start, np.broadcast_to(growth, truth.shape)),
    }
    methods = {k: one for k, one in methods.items() if np.isfinite(one.mean + one.std).any()}
    for one in methods.values():
        truth = np.where(np.isfinite(one.mean) & (one.std > 0), truth, np.nan)
    n, predictions = len(truth), list(methods.values())
    tables = []
    for k in range(truth.shape[1]):
        at_lead = [Prediction(one.mean[:, k], one.std[:, k]) for one in predictions]
        units = np.arange(n)[:, None]
        tables.append(ScoreTable.of(at_lead, truth[:, k], units, n, climatology=normal[:, k]))
    table = score_dataset(tables, list(methods), issued.lead_labels, 1.0, level, replicates, seed)
    if n < 3:  # starts that a bootstrap could draw from
        ends = ["lower", "upper", "skill_lower", "skill_upper"]
        table = table.assign({name: table[name] * np.nan for name in ends})
    about = {
        "variable": str(fields.name), "units": str(fields.attrs.get("units", "")), "n_origins": n,
        "adjusted": adjust, "climatology": SEASONS[anomalies],
    }  # fmt: skip
    return Verification(table, about)


class Issued(NamedTuple):
    """Forecasts by start, lead and point.

    Attributes:
        mean, std: (start, lead, point).
        starts: dates or numbers, (start,); None where ``leads`` are times themselves.
        leads: (lead,).
        clock: attributes of the lead or of the times.
        points: (M,) or (M, d).
    """

    mean: Array
    std: Array
    starts: Array | None
    leads: Any
    clock: dict[str, Any]
    points: Array

    @property
    def lead_labels(self) -> tuple[int | float, ...]:
        """Leads as they are shown: steps where times are absolute, whole numbers where they are."""
        if self.starts is None:
            return tuple(range(1, len(self.leads) + 1))
        is_whole = np.array_equal(self.leads, np.round(self.leads))
        return tuple(map(int if is_whole else float, self.leads))

    def valid(self, time: xr.DataArray, lead: float | None = None) -> Array:
        """Times that forecasts, or a lead, are valid at, on the clock of observations."""
        leads = np.asarray(self.leads if lead is None else [lead], dtype=float)
        if self.starts is None:
            clocks = (str(c.get("units", "")) for c in (self.clock, time.attrs))
            if all(" since " in units for units in clocks):
                leads = from_dates(to_dates(leads, self.clock), time.attrs)
            return np.full((1, 1), np.nan) if lead == 0.0 else leads[None]
        is_dated = " since " in str(time.attrs.get("units", ""))
        starts = self.starts
        if is_dated and starts.dtype.kind in "iu" and (abs(starts - 2000) < 1000).all():  # years
            starts = np.array([f"{year:04d}" for year in starts], dtype="datetime64[Y]")
        if is_dated != (starts.dtype.kind in "MO"):
            expected = "starts and observations that both have dates, or both numbers"
            fix = "give the observations a coordinate time like the starts"
            raise DataError("time", expected=expected, got="one of each", fix=fix)
        if not is_dated:
            return starts[:, None] + leads
        unit = str(self.clock.get("units", "days")).split(" since ")[0]
        n_months = MONTHS.get(unit.rstrip("s"))
        starts = starts.astype("datetime64[ns]")
        if n_months is None:
            dates = starts[:, None] + np.round(leads) * unit_step(unit)
        else:
            month = starts.astype("datetime64[M]")
            later = month[:, None] + (n_months * np.round(leads)).astype(int)
            dates = later.astype("datetime64[ns]") + (starts - month)[:, None]
        return from_dates(dates.ravel(), time.attrs).reshape(dates.shape)


def _only(data: Any, variable: str | None) -> str | None:
    return variable if isinstance(data, xr.Dataset) and variable in data.data_vars else None


def _issued(forecasts: Any, variable: str | None) -> Issued:
    """Forecasts in canonical form; members of one start become their mean and spread."""
    data, _ = labelled(forecasts)
    is_result = isinstance(data, xr.Dataset) and {"mean", "std"} <= set(data.data_vars)
    how = Preparation(variable="mean" if is_result else _only(data, variable))
    layout, _, fields = prepare_as_recognised(data, how)
    values = fields.values.reshape(*fields.shape[:2], -1)
    points = places_of_fields(fields, layout.dims).points
    starts, leads, clock = _starts(fields), fields["time"].values, dict(fields["time"].attrs)
    if is_result:
        reduced = dataclasses.replace(layout.preparation, variable="std").reduce(data)
        std = as_fields(reduced, dims=layout.dims).values.reshape(values.shape)
        return Issued(values, std, starts, leads, clock, points)
    groups, which = (
        (None, np.zeros(len(values), int))
        if starts is None
        else np.unique(starts, return_inverse=True)
    )
    members = [values[which == i] for i in range(which.max() + 1)]
    size = min(map(len, members))
    if size < 2:
        expected = "mean and std, or members of an ensemble"
        got = "one value per time" if starts is None else "one forecast of each start, no spread"
        fix = "forecasts come first, observations second"
        raise DataError("forecasts", expected=expected, got=got, fix=fix)
    mean = np.stack([one.mean(0) for one in members])
    std = np.sqrt(1.0 + 1.0 / size) * np.stack([one.std(0, ddof=1) for one in members])
    return Issued(mean, std, groups, leads, clock, points)


def _starts(fields: xr.DataArray) -> Array | None:
    """Start of each path, None where times are absolute."""
    along = [str(n) for n, c in fields.coords.items() if c.dims == (PATH,)]
    named = [n for n in along if is_start(fields, n) and n != PATH]
    if named:
        return fields[named[0]].values
    is_own = is_start(fields, str(fields[PATH].attrs.get(ORIGINAL, "")))
    return fields[PATH].values if is_own else None


def _rows_at(valid: Array, times: Array) -> Array:
    """Row of the observations at each time; -1 where there is none."""
    near = np.abs(np.nan_to_num(valid, nan=np.inf)[..., None] - times)
    row = near.argmin(-1)
    step = float(np.median(np.diff(times)))
    return np.where(near.min(-1) <= SAME_TIME * step, row, -1)


def _at_rows(values: Array, rows: Array) -> Array:
    return np.where((rows >= 0)[..., None], values[rows], np.nan)


def _mean(values: Array) -> Array:
    """Mean over starts with a value, (1, lead, point); NaN without any."""
    known = np.isfinite(values)
    count = known.sum(0, keepdims=True)
    total = np.where(known, values, 0.0).sum(0, keepdims=True)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _mean_error(error: Array) -> Array:
    """Mean error (start, lead, point) of the other starts."""
    known = np.isfinite(error)
    count, total = known.sum(0), np.where(known, error, 0.0).sum(0)
    others = count - known
    return np.where(others > 0, (total - np.where(known, error, 0.0)) / np.maximum(others, 1), 0.0)

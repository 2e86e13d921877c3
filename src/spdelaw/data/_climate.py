"""Climatology, trend and scale of fields at each point: ``X = D B + s y`` by least squares.

A climatology by groups (months, hours, leads) has one mean per group g and, with a line in time,

    slope = sum (t - t_g)(X - X_g) / sum (t - t_g)^2,    B_g = X_g - slope t_g,

with means over what was seen at the point, so that gaps cost nothing. Harmonics of the year go
through a general least squares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data._clock import to_dates
from spdelaw.errors import DataError

Array = np.ndarray

#: Harmonics of the year that a climatology by day has: twelve months are no finer.
HARMONICS = 3
DAYS_OF_YEAR = 365.2425
#: Climatologies by groups of times, and what a group is called.
GROUPS = {
    None: "time",
    "mean": "time",
    "month": "calendar month",
    "hour": "hour of the day",
    "month+hour": "hour of each month",
    "lead": "lead time",
}
#: Leads that differ by less than this part of the longest are one.
SAME_LEAD = 1e-6


class Climate(NamedTuple):
    """What of the times a climatology and a trend depend on.

    Attributes:
        anomalies: a word of `Preparation`.
        detrend: whether there is a line in time.
        clock: attributes ``units`` and ``calendar`` of the times.
        middle: time at which the line is zero, and its unit length.
        levels: groups of the data it was learned from, (n_groups,).
    """

    anomalies: str | None
    detrend: bool
    clock: Mapping[str, Any]
    middle: tuple[float, float]
    levels: Array

    def offset(self, times: Array, coefficients: Array) -> Array:
        """``D(t) B``; (T, M). NaN where a point never saw such a time."""
        if self.anomalies == "dayofyear":
            return self._waves(times) @ coefficients
        rows = coefficients[self._rows(times)]
        return rows + np.outer(self._line(times), coefficients[-1]) if self.detrend else rows

    def learn(self, times: Array, values: Array) -> Array:
        """B from values (P, T, M) of all paths; NaN where nothing was seen."""
        if self.anomalies == "dayofyear":
            return regress(self._waves(times), values)
        coefficients, n_seen = _group_means(self._rows(times), len(self.levels), values)
        if len(self.levels) > 1 and n_seen.max(initial=0) < 2:
            raise DataError(
                "data", expected=f"every {GROUPS[self.anomalies]} more than once",
                got=f"{len(self.levels)} of them, each once",
                fix="observe longer, or use anomalies='mean'",
            )  # fmt: skip
        return self._with_line(times, values, coefficients) if self.detrend else coefficients

    def _with_line(self, times: Array, values: Array, means: Array) -> Array:
        rows, t = self._rows(times), self._line(times)
        seen = ~np.isnan(values)
        t_mean, _ = _group_means(rows, len(means), np.where(seen, t[:, None], np.nan))
        dt = np.where(seen, t[:, None] - t_mean[rows], 0.0)
        dx = np.where(seen, values - means[rows], 0.0)
        square = (dt**2).sum((0, 1))
        if not (square > 1e-12 * seen.sum((0, 1))).any():
            raise DataError(
                "data", expected="times that tell climatology and trend apart",
                got=f"one time for every {GROUPS[self.anomalies]}",
                fix="leave the trend out, or observe longer",
            )  # fmt: skip
        slope = (dt * dx).sum((0, 1)) / np.where(square > 0, square, 1.0)
        return np.vstack([means - slope * t_mean, np.where(seen.any((0, 1)), slope, np.nan)])

    def _line(self, times: Array) -> Array:
        return (times - self.middle[0]) / self.middle[1]

    def _waves(self, times: Array) -> Array:
        angle = 2 * np.pi * _calendar(times, self.clock, "dayofyear") / DAYS_OF_YEAR
        waves = [f(k * angle) for k in range(1, HARMONICS + 1) for f in (np.cos, np.sin)]
        line = [self._line(times)] if self.detrend else []
        return np.stack([np.ones(len(times)), *waves, *line], axis=1)

    def _rows(self, times: Array) -> Array:
        """Group of each time."""
        codes = group_codes(self.anomalies, times, self.clock)
        at = np.abs(codes[:, None] - self.levels).argmin(1)
        off = np.abs(codes - self.levels[at]) > SAME_LEAD * np.abs(self.levels).max(initial=1.0)
        if off.any():
            raise DataError(
                "time",
                expected=f"a {GROUPS[self.anomalies]} that the climatology was learned from",
                got=f"{codes[off][0]:g}, not among its {len(self.levels)}",
                fix="learn from data that cover it, or use anomalies='dayofyear' or 'mean'",
            )  # fmt: skip
        return at


def climate_of(anomalies: str | None, detrend: bool, times: Array, clock: Any) -> Climate:
    """The groups and the line of some times."""
    middle = (float(times.mean()), float(np.ptp(times)) or 1.0)
    levels = np.unique(group_codes(anomalies, times, clock))
    return Climate(anomalies, detrend, clock, middle, levels)


def group_codes(anomalies: str | None, times: Array, clock: Mapping[str, Any]) -> Array:
    """A number for the group of each time: month, hour, 100 month + hour, or lead."""
    if anomalies == "lead":
        return np.asarray(times, dtype=float)
    if anomalies not in ("month", "hour", "month+hour"):
        return np.zeros(len(times))
    code = np.zeros(len(times))
    for part in anomalies.split("+"):
        code = 100 * code + _calendar(times, clock, part)
    return code


def _calendar(times: Array, clock: Mapping[str, Any], part: str) -> Array:
    dates = xr.DataArray(to_dates(times, clock), dims="time")
    return np.asarray(getattr(dates.dt, part).values, dtype=float)


def _group_means(rows: Array, n_groups: int, values: Array) -> tuple[Array, Array]:
    """Mean of what was seen in each group, and how much that is; both (n_groups, M)."""
    seen = ~np.isnan(values)
    count, total = np.zeros((n_groups, values.shape[-1])), np.zeros((n_groups, values.shape[-1]))
    np.add.at(count, rows, seen.sum(0))
    np.add.at(total, rows, np.where(seen, values, 0.0).sum(0))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan), count


def regress(design: Array, values: Array) -> Array:
    """B from values (P, T, M) of all paths, (n_columns, M); NaN where nothing was seen."""
    n_columns = design.shape[1]
    rows = np.tile(design, (len(values), 1))
    table = values.reshape(len(rows), -1)
    out = np.full((n_columns, table.shape[1]), np.nan)
    for seen, points in _patterns(~np.isnan(table)):
        if not seen.any():
            continue
        found, _, rank, _ = np.linalg.lstsq(rows[seen], table[np.ix_(seen, points)], rcond=None)
        if rank < n_columns:
            raise DataError(
                "data", expected=f"times that determine {n_columns} coefficients of climatology "
                "and trend", got=f"{rank} at a point of {int(seen.sum())} values",
                fix="observe all parts of a year, or use anomalies='mean'",
            )  # fmt: skip
        out[:, points] = found
    return out


def _patterns(seen: Array) -> Iterator[tuple[Array, Array]]:
    """Rows that were seen, with the points where these and no others were.

    A grid has few patterns, such as all and none, so that one factorisation serves many points.
    """
    packed = np.packbits(seen, axis=0).T
    _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(which.reshape(-1)))[:-1])
    for at, points in zip(first, groups, strict=True):
        yield seen[:, at], points


def deviations(standardise: str | None, left: Array, area: Array) -> Array:
    """Scale s of what is left, (P, T, M): one, that of each point, or one by area for all.

    NaN at points that were never seen.
    """
    n_seen = (~np.isnan(left)).sum((0, 1))
    square = np.nansum(left**2, (0, 1))
    if standardise == "point":
        std = np.sqrt(square / np.maximum(n_seen, 1))
        scale = np.where(std > 0, std, 1.0)
    elif standardise == "whole":
        scale = np.full(len(n_seen), np.sqrt((area @ square) / (area @ n_seen)) or 1.0)
    else:
        scale = np.ones(len(n_seen))
    return np.where(n_seen > 0, scale, np.nan)

"""Climatology, trend and scale of fields at each point: ``X = D B + s y`` by least squares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data._clock import to_dates
from spdelaw.errors import DataError

Array = np.ndarray

#: Harmonics of the year that a climatology by day has: twelve months are no finer.
HARMONICS = 3
DAYS_OF_YEAR = 365.2425


def design_matrix(
    anomalies: str | None, detrend: bool, times: Array, clock: Mapping[str, Any],
    middle: tuple[float, float],
) -> Array:  # fmt: skip
    """D(t): months or harmonics or a constant, and the line in time; (T, n_columns)."""
    if anomalies == "month":
        months = _calendar(times, clock, "month")
        columns = [(months == m).astype(float) for m in range(1, 13)]
    elif anomalies == "dayofyear":
        angle = 2 * np.pi * _calendar(times, clock, "dayofyear") / DAYS_OF_YEAR
        waves = [f(k * angle) for k in range(1, HARMONICS + 1) for f in (np.cos, np.sin)]
        columns = [np.ones(len(times)), *waves]
    else:
        columns = [np.ones(len(times))]
    if detrend:
        columns.append((times - middle[0]) / middle[1])
    return np.stack(columns, axis=1)


def _calendar(times: Array, clock: Mapping[str, Any], part: str) -> Array:
    dates = xr.DataArray(to_dates(times, clock), dims="time")
    return np.asarray(getattr(dates.dt, part).values, dtype=float)


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
                fix="observe every calendar month, or use anomalies='dayofyear', or neither",
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

"""Climatology, trend and scale of fields at each point: ``X = D B + s y``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy
import xarray as xr

from spdelaw.data.clock import to_dates
from spdelaw.data.executors import pieces_of
from spdelaw.domains.places import Places
from spdelaw.errors import DataError

# ---------- Climatology, trend and scale of each point: ``X = D B + s y`` by least squares
#
# A climatology by groups (months, hours, leads) has one mean per group g and, with a line in time,
#
#     slope = sum (t - t_g)(X - X_g) / sum (t - t_g)^2,    B_g = X_g - slope t_g,
#
# with means over the observed values of the point, so that gaps cost nothing. Harmonics of the year
# use general least squares.


Array = np.ndarray
#: Sums over all blocks of data of a function of the times and values (P, T, M) of one.
Total = Callable[[Callable[[Array, Array], tuple[Array, ...]]], tuple[Array, ...]]

#: Harmonics of the year that a climatology by day has: twelve months are no finer.
HARMONICS = 3
DAYS_OF_YEAR = 365.2425
#: Climatologies by groups of times, and the name of a group.
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
    """Groups and trend of the times, on which a climatology depends.

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
        """``D(t) B``; (T, M). NaN where a point has no observation at such a time."""
        if self.anomalies == "dayofyear":
            return self._harmonic_design(times) @ coefficients
        rows = coefficients[self._group_index(times)]
        return rows + np.outer(self._trend_time(times), coefficients[-1]) if self.detrend else rows

    def learn(self, total: Total) -> Array:
        """B from sums over blocks of paths and times; NaN at points without observations."""
        if self.anomalies == "dayofyear":
            return solve_normal(*total(self._normal_sums))
        return self._learn_groups(total)

    def _normal_sums(self, times: Array, values: Array) -> tuple[Array, ...]:
        """``sum D D'`` and ``sum D x`` over the observations of a point; (K, K, M) and (K, M)."""
        waves, observed = self._harmonic_design(times), ~np.isnan(values)
        pairs = np.einsum(
            "ti,tj,tm->ijm", waves, waves, observed.sum(0).astype(float), optimize=True
        )
        return pairs, waves.T @ np.where(observed, values, 0.0).sum(0)

    def _learn_groups(self, total: Total) -> Array:
        n_seen, sums, at = total(self._group_sums)
        coefficients = np.where(n_seen > 0, sums / np.maximum(n_seen, 1), np.nan)
        if len(self.levels) > 1 and n_seen.max(initial=0) < 2:
            expected = f"every {GROUPS[self.anomalies]} more than once"
            got = f"{len(self.levels)} of them, each once"
            fix = "observe longer, or use anomalies='mean'"
            raise DataError("data", expected=expected, got=got, fix=fix)
        if not self.detrend:
            return coefficients
        t_mean = np.where(n_seen > 0, at / np.maximum(n_seen, 1), np.nan)
        return self._add_trend(total, coefficients, t_mean)

    def _group_sums(self, times: Array, values: Array) -> tuple[Array, ...]:
        """Number of values in each group, their sum and that of their times; (n_groups, M) each."""
        rows, observed = self._group_index(times), ~np.isnan(values)
        out = np.zeros((3, len(self.levels), values.shape[-1]))
        np.add.at(out[0], rows, observed.sum(0))
        np.add.at(out[1], rows, np.where(observed, values, 0.0).sum(0))
        np.add.at(out[2], rows, observed.sum(0) * self._trend_time(times)[:, None])
        return tuple(out)

    def _add_trend(self, total: Total, means: Array, t_mean: Array) -> Array:
        def products(times: Array, values: Array) -> tuple[Array, ...]:
            rows, t, observed = self._group_index(times), self._trend_time(times), ~np.isnan(values)
            dt = np.where(observed, t[:, None] - t_mean[rows], 0.0)
            dx = np.where(observed, values - means[rows], 0.0)
            return (dt**2).sum((0, 1)), (dt * dx).sum((0, 1)), observed.sum((0, 1))

        square, product, n_seen = total(products)
        if not (square > 1e-12 * n_seen).any():
            expected = "times from which climatology and trend can be separated"
            got = f"one time for every {GROUPS[self.anomalies]}"
            fix = "leave the trend out, or observe longer"
            raise DataError("data", expected=expected, got=got, fix=fix)
        slope = product / np.where(square > 0, square, 1.0)
        return np.vstack([means - slope * t_mean, np.where(n_seen > 0, slope, np.nan)])

    def _trend_time(self, times: Array) -> Array:
        return (times - self.middle[0]) / self.middle[1]

    def _harmonic_design(self, times: Array) -> Array:
        angle = 2 * np.pi * _calendar_field(times, self.clock, "dayofyear") / DAYS_OF_YEAR
        waves = [f(k * angle) for k in range(1, HARMONICS + 1) for f in (np.cos, np.sin)]
        line = [self._trend_time(times)] if self.detrend else []
        return np.stack([np.ones(len(times)), *waves, *line], axis=1)

    def _group_index(self, times: Array) -> Array:
        """Group of each time."""
        codes = group_codes(self.anomalies, times, self.clock)
        at = np.abs(codes[:, None] - self.levels).argmin(1)
        off = np.abs(codes - self.levels[at]) > SAME_LEAD * np.abs(self.levels).max(initial=1.0)
        if off.any():
            raise DataError(
                "time",
                expected=f"a {GROUPS[self.anomalies]} within the training data of the climatology",
                got=(
                    f"{codes[off][0]:g}; the climatology covers {self.levels[0]:g} to "
                    f"{self.levels[-1]:g}"
                ),
                fix="fit data that cover it, or pass anomalies='mean'",
            )
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
    for unit in anomalies.split("+"):
        code = 100 * code + _calendar_field(times, clock, unit)
    return code


def _calendar_field(times: Array, clock: Mapping[str, Any], unit: str) -> Array:
    dates = xr.DataArray(to_dates(times, clock), dims="time")
    return np.asarray(getattr(dates.dt, unit).values, dtype=float)


def solve_normal(pairs: Array, product: Array) -> Array:
    """B from normal equations of each point, (K, K, M) and (K, M); NaN with too few values."""
    matrices, n = np.moveaxis(pairs, -1, 0), len(pairs)
    ranks = np.linalg.matrix_rank(matrices, hermitian=True)
    full_rank = ranks == n
    if not full_rank.any() and ranks.any():
        expected = f"times that determine {n} coefficients of climatology and trend"
        n_seen = int(matrices[ranks.argmax(), 0, 0])
        got = f"at most {ranks.max()}, at a point of {n_seen} values"
        fix = "observe all parts of a year, or use anomalies='mean'"
        raise DataError("data", expected=expected, got=got, fix=fix)
    out = np.full(product.shape, np.nan)
    out[:, full_rank] = np.linalg.solve(matrices[full_rank], product.T[full_rank][..., None])[
        ..., 0
    ].T
    return out


def scale_of(standardise: str | None, square: Array, n_seen: Array, area: Array) -> Array:
    """Scale s from sums of squared residuals at each point: one, of each point, or by area for all.

    NaN at points without observations.
    """
    if standardise == "point":
        std = np.sqrt(square / np.maximum(n_seen, 1))
        scale = np.where(std > 0, std, 1.0)
    elif standardise == "whole":
        scale = np.full(len(n_seen), np.sqrt((area @ square) / (area @ n_seen)) or 1.0)
    else:
        scale = np.ones(len(n_seen))
    return np.where(n_seen > 0, scale, np.nan)


# ---------- Climatology and scale of fields, from sums over blocks of paths and times
#
# One pass for the means of groups, one more for a line in time, one more for a scale. Offsets are
# taken off where a block is read, so that neither lazy fields nor their climatology are ever whole.


def learn_climate(
    climate: Climate, standardise: str | None, fields: xr.DataArray, places: Places, area: Array
) -> tuple[Array, Array]:
    """Coefficients (K, M) and scale (M,) of fields."""
    times = np.asarray(fields["time"].values)
    pieces = pieces_of(places.flatten(fields.variable._data))

    def total(sums: Callable[[Array, Array], tuple[Array, ...]]) -> tuple[Array, ...]:
        totals: tuple[Array, ...] = ()
        for (_, rows), values in pieces.read():
            terms = sums(times[rows], values)
            totals = tuple(map(np.add, totals, terms)) if totals else terms
        return totals

    coefficients = climate.learn(total)

    def squares(block_times: Array, values: Array) -> tuple[Array, ...]:
        residual = values - climate.offset(block_times, coefficients)
        counts = ((~np.isnan(x)).sum((0, 1)) for x in (residual, values))
        return np.nansum(residual**2, (0, 1)), *counts

    square, n_seen, n_observed = total(squares)
    scale = scale_of(standardise, square, n_seen, area)
    too_few = np.isnan(scale) & (n_observed > 0)  # to determine their climatology
    return coefficients, np.where(too_few, 1.0, scale)


def apply_in_blocks(
    fields: xr.DataArray, places: Places, affine: Callable[[Array, Array], tuple[Array, Array]]
) -> xr.DataArray:
    """Lazy fields less their offset and over their scale; ``affine`` gives both."""
    times = np.asarray(fields["time"].values)

    def prepared(block: Array, block_info: Any = None) -> Array:
        _, rows, *space = (slice(*where) for where in block_info[0]["array-location"])
        offset, scale = map(places.unflatten, affine(times[rows], places.points))
        return (block - offset[(slice(None), *space)]) / scale[tuple(space)]

    values: Any = fields.variable._data
    empty = np.zeros((0,) * fields.ndim)
    return fields.copy(data=values.map_blocks(prepared, dtype=float, meta=empty))


# ---------- Numbers of points without values, and of new places, from those of neighbours
#
# A plane in space and, for its residual, the mean of the nearest points weighted by one over the
# squared distance. The error of this at a new place is that of learned points near it when each
# is left out, in proportion to the distance to the nearest point.


#: Neighbours that an unknown number is taken from, and most learned points that are left out.
NEIGHBOURS, MOST_LEFT_OUT = 8, 64
#: Robust standard deviations from the median of all points beyond which a coefficient is wild.
WILD_DEVIATIONS = 20.0


def mask_outliers(coefficients: Array) -> Array:
    """Coefficients (n_columns, n_points), NaN at points of which any is far off all others."""
    complete = coefficients[:, np.isfinite(coefficients).all(0)]
    if complete.shape[1] <= NEIGHBOURS:
        return coefficients
    middle = np.median(complete, axis=1, keepdims=True)
    spread = 1.4826 * np.median(np.abs(complete - middle), axis=1, keepdims=True)
    off = np.abs(coefficients - middle) > WILD_DEVIATIONS * np.where(spread > 0, spread, np.inf)
    return np.where(off.any(0), np.nan, coefficients)


def interpolated(table: Array, points: Array) -> Array:
    """Rows (K, M) with their NaN filled from neighbours; rows without any number stay."""
    span = np.ptp(points, axis=0)
    scaled = (points - points.mean(0)) / (span.max() or 1.0)
    return np.stack([_interpolated_row(row, scaled) for row in table])


def _interpolated_row(row: Array, points: Array) -> Array:
    available = np.isfinite(row)
    if available.all() or not available.any():
        return row
    plane = np.column_stack([np.ones(len(points)), points])
    trend = np.zeros(len(row))
    if available.sum() > 3 * plane.shape[1]:
        trend = plane @ np.linalg.lstsq(plane[available], row[available], rcond=None)[0]
    k = min(NEIGHBOURS, int(available.sum()))
    distance, near = scipy.spatial.KDTree(points[available]).query(points[~available], k=k)
    weights = 1.0 / (distance.reshape(-1, k) ** 2 + 1e-12)
    residual = (row - trend)[available][near.reshape(-1, k)]
    out = row.copy()
    out[~available] = trend[~available] + (weights * residual).sum(1) / weights.sum(1)
    return out


def interpolation_errors(table: Array, points: Array, new: Array) -> tuple[Array, Array]:
    """Errors of `interpolated` at learned points near new places, and how they scale there.

    Returns:
        Errors (K, L) of L learned points, each left out; factor of each new place, its distance
        from the nearest point over the typical one, (n,).
    """
    k = min(NEIGHBOURS, len(points) - 1)
    tree = scipy.spatial.KDTree(points)
    near = np.unique(tree.query(new, k=k)[1])
    left_out = near[np.unique(np.linspace(0, len(near) - 1, MOST_LEFT_OUT).round().astype(int))]
    errors = np.empty((len(table), len(left_out)))
    for column, i in enumerate(left_out):
        without = table.copy()
        without[:, i] = np.nan
        errors[:, column] = interpolated(without, points)[:, i] - table[:, i]
    spacing = tree.query(points[left_out], k=2)[0][:, 1].mean()
    return errors, tree.query(new)[0] / spacing


def in_space(points: Array, dims: tuple[str, ...]) -> Array:
    """Points (M, d) in equal units of length, those of a sphere in space."""
    table = np.reshape(points, (len(points), -1)).astype(float)
    if dims != ("lat", "lon"):
        return table
    lat, lon = np.radians(table).T
    return np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])

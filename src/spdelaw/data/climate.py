"""Climatology, trend and scale of fields at each point: ``X = D B + s y``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data.clock import to_dates
from spdelaw.data.executors import pieces_of
from spdelaw.domains.places import Places
from spdelaw.errors import DataError

# ---------- Climatology, trend and scale of fields at each point: ``X = D B + s y`` by least
# squares
#
# A climatology by groups (months, hours, leads) has one mean per group g and, with a line in time,
#
#     slope = sum (t - t_g)(X - X_g) / sum (t - t_g)^2,    B_g = X_g - slope t_g,
#
# with means over what was seen at the point, so that gaps cost nothing. Harmonics of the year go
# through a general least squares.


Array = np.ndarray
#: Sums over all blocks of data of a function of the times and values (P, T, M) of one.
Total = Callable[[Callable[[Array, Array], tuple[Array, ...]]], tuple[Array, ...]]

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
        return self._learn_groups(lambda sums: sums(times, values))

    def learn_in_blocks(self, total: Total) -> Array:
        """The same from sums over blocks of paths and times, so that fields are never whole."""
        if self.anomalies == "dayofyear":
            return solve_normal(*total(self._normal_sums))
        return self._learn_groups(total)

    def _normal_sums(self, times: Array, values: Array) -> tuple[Array, ...]:
        """``sum D D'`` and ``sum D x`` over what is seen at a point; (K, K, M) and (K, M)."""
        waves, seen = self._waves(times), ~np.isnan(values)
        pairs = np.einsum("ti,tj,tm->ijm", waves, waves, seen.sum(0).astype(float), optimize=True)
        return pairs, waves.T @ np.where(seen, values, 0.0).sum(0)

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
        return self._with_line(total, coefficients, t_mean)

    def _group_sums(self, times: Array, values: Array) -> tuple[Array, ...]:
        """Values seen in each group, their sum and that of their times; (n_groups, M) each."""
        rows, seen = self._rows(times), ~np.isnan(values)
        out = np.zeros((3, len(self.levels), values.shape[-1]))
        np.add.at(out[0], rows, seen.sum(0))
        np.add.at(out[1], rows, np.where(seen, values, 0.0).sum(0))
        np.add.at(out[2], rows, seen.sum(0) * self._line(times)[:, None])
        return tuple(out)

    def _with_line(self, total: Total, means: Array, t_mean: Array) -> Array:
        def products(times: Array, values: Array) -> tuple[Array, ...]:
            rows, t, seen = self._rows(times), self._line(times), ~np.isnan(values)
            dt = np.where(seen, t[:, None] - t_mean[rows], 0.0)
            dx = np.where(seen, values - means[rows], 0.0)
            return (dt**2).sum((0, 1)), (dt * dx).sum((0, 1)), seen.sum((0, 1))

        square, product, n_seen = total(products)
        if not (square > 1e-12 * n_seen).any():
            expected = "times that tell climatology and trend apart"
            got = f"one time for every {GROUPS[self.anomalies]}"
            fix = "leave the trend out, or observe longer"
            raise DataError("data", expected=expected, got=got, fix=fix)
        slope = product / np.where(square > 0, square, 1.0)
        return np.vstack([means - slope * t_mean, np.where(n_seen > 0, slope, np.nan)])

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
                got=f"{codes[off][0]:g}, where it knows {self.levels[0]:g} to {self.levels[-1]:g}",
                fix="learn from data that cover it, or take --anomalies mean, in Python "
                "anomalies='mean'",
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
    for part in anomalies.split("+"):
        code = 100 * code + _calendar(times, clock, part)
    return code


def _calendar(times: Array, clock: Mapping[str, Any], part: str) -> Array:
    dates = xr.DataArray(to_dates(times, clock), dims="time")
    return np.asarray(getattr(dates.dt, part).values, dtype=float)


def solve_normal(pairs: Array, product: Array) -> Array:
    """B from normal equations of each point, (K, K, M) and (K, M); NaN where too few were seen."""
    matrices, n = np.moveaxis(pairs, -1, 0), len(pairs)
    ranks = np.linalg.matrix_rank(matrices, hermitian=True)
    told = ranks == n
    if not told.any() and ranks.any():
        raise _undetermined(n, int(ranks.max()), int(matrices[ranks.argmax(), 0, 0]))
    out = np.full(product.shape, np.nan)
    out[:, told] = np.linalg.solve(matrices[told], product.T[told][..., None])[..., 0].T
    return out


def _undetermined(n_columns: int, rank: int, n_seen: int) -> DataError:
    expected = f"times that determine {n_columns} coefficients of climatology and trend"
    got = f"at most {rank}, at a point of {n_seen} values"
    fix = "observe all parts of a year, or use anomalies='mean'"
    return DataError("data", expected=expected, got=got, fix=fix)


def regress(design: Array, values: Array) -> Array:
    """B from values (P, T, M) of all paths, (n_columns, M); NaN where too few were seen."""
    n_columns, best = design.shape[1], (0, 0)
    rows = np.tile(design, (len(values), 1))
    table = values.reshape(len(rows), -1)
    out = np.full((n_columns, table.shape[1]), np.nan)
    for seen, points in _patterns(~np.isnan(table)):
        if not seen.any():
            continue
        found, _, rank, _ = np.linalg.lstsq(rows[seen], table[np.ix_(seen, points)], rcond=None)
        best = max(best, (int(rank), int(seen.sum())))
        if rank == n_columns:
            out[:, points] = found
    if 0 < best[0] < n_columns:
        raise _undetermined(n_columns, *best)
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
    return scale_of(standardise, *squares_of(left), area)


def squares_of(left: Array) -> tuple[Array, Array]:
    """Squares of what is left at each point, summed, and how many; (M,) each."""
    return np.nansum(left**2, (0, 1)), (~np.isnan(left)).sum((0, 1))


def scale_of(standardise: str | None, square: Array, n_seen: Array, area: Array) -> Array:
    """`deviations` from sums of squares."""
    if standardise == "point":
        std = np.sqrt(square / np.maximum(n_seen, 1))
        scale = np.where(std > 0, std, 1.0)
    elif standardise == "whole":
        scale = np.full(len(n_seen), np.sqrt((area @ square) / (area @ n_seen)) or 1.0)
    else:
        scale = np.ones(len(n_seen))
    return np.where(n_seen > 0, scale, np.nan)


# ---------- Climatology and scale of lazy fields: sums over blocks of paths and times, block by
# block
#
# One pass for the means of groups, one more for a line in time, one more for a scale. Offsets are
# taken off where a block is read, so that neither fields nor their climatology are ever whole.


def learn_in_blocks(
    climate: Climate, standardise: str | None, fields: xr.DataArray, places: Places, area: Array
) -> tuple[Array, Array]:
    """Coefficients (K, M) and scale (M,) of lazy fields."""
    times = np.asarray(fields["time"].values)
    pieces = pieces_of(places.flatten(fields.variable._data))

    def total(sums: Callable[[Array, Array], tuple[Array, ...]]) -> tuple[Array, ...]:
        found: tuple[Array, ...] = ()
        for block in pieces.blocks:
            for piece, part in zip(block, pieces.times, strict=True):
                new = sums(times[part], piece.compute())
                found = tuple(a + b for a, b in zip(found, new, strict=True)) if found else new
        return found

    coefficients = climate.learn_in_blocks(total)

    def squares(own: Array, values: Array) -> tuple[Array, ...]:
        return squares_of(values - climate.offset(own, coefficients))

    square, n_seen = total(squares)
    return coefficients, scale_of(standardise, square, n_seen, area)


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

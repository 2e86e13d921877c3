"""Preparation of a field before it is modelled, recorded and undone on output."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy
import xarray as xr

from spdelaw.checks import checked, one_of
from spdelaw.data.climate import (
    Climate,
    apply_in_blocks,
    climate_of,
    in_space,
    interpolated,
    interpolation_errors,
    learn_climate,
    mask_outliers,
)
from spdelaw.data.clock import on_clock
from spdelaw.data.fields import OBSERVATION_STD, as_fields, check_not_averaged
from spdelaw.data.fields import select as select_variable
from spdelaw.data.layout import TIME, is_latitude, is_longitude
from spdelaw.data.names import renamed, with_places
from spdelaw.data.quality import check_plausible
from spdelaw.domains.places import Places, places_of_fields
from spdelaw.errors import DataError, InputError

# ---------- Reduction of a raw field: selection, means over dims, coarser grids


def _select_array(data: Any, variable: str | None, dims: set[str]) -> xr.DataArray:
    if isinstance(data, xr.Dataset):
        return select_variable(with_places(data), variable, tuple(dims) or ("x",))
    if isinstance(data, xr.DataArray):
        return data
    expected = "a DataArray or Dataset, whose dims have names"
    fix = "make it one with sl.as_fields(data, times=..., points=...)"
    raise DataError("data", expected=expected, got=type(data).__name__, fix=fix)


def _find_dim(
    array: xr.DataArray, dim: str, rename: Mapping[str, str], coordinates: bool = False
) -> str:
    """The dim under its old name, or under its new one where that was given already."""
    names = [str(d) for d in array.dims]
    if coordinates:
        names += [str(n) for n, c in array.coords.items() if c.ndim in (1, 2) and n not in names]
    for name in (dim, rename.get(dim, dim)):
        if name in names:
            return name
    near = difflib.get_close_matches(dim, names, 1)
    fix = f"did you mean {near[0]}?" if near else "name dims of the data"
    raise DataError(f"dim '{dim}'", expected=f"one of {', '.join(names)}", got=repr(dim), fix=fix)


def _select_range(array: xr.DataArray, name: str, low: float, high: float) -> xr.DataArray:
    """Where a coordinate lies in a range; one number takes the nearest entry."""
    if name not in array.coords:
        fix = f"data.assign_coords({name}=values)"
        raise DataError(f"dim '{name}'", expected="a coordinate to select by", got="none", fix=fix)
    low, high = min(low, high), max(low, high)
    if is_longitude(array, name) and high - low < 360:
        array = _turn_longitudes(array, name, low, high)
    x = array[name].values
    if low == high:
        low = high = float(x.flat[np.abs(x - low).argmin()])
    kept = (x >= low) & (x <= high)
    if not kept.any():
        expected = f"a range within {np.min(x):g} to {np.max(x):g}"
        fix = "check the units and the sign of the coordinate"
        raise DataError(f"select '{name}'", expected=expected, got=f"{low:g} to {high:g}", fix=fix)
    if x.ndim == 1:
        return array.isel({array[name].dims[0]: np.flatnonzero(kept)})
    return array.where(array[name].copy(data=kept), drop=True)


def _turn_longitudes(array: xr.DataArray, name: str, low: float, high: float) -> xr.DataArray:
    """Longitudes turned into a range: 350 becomes -10 where the range has negative longitudes."""
    x = array[name].values
    turned = x + 360.0 * np.ceil((low - x) / 360.0)  # whole turns: 220 stays 220
    inside = (x >= low) & (x <= high)
    again = np.isin(turned, x[inside]) & (x.ndim == 1 and name in array.dims)  # 360 and 0
    new = np.where(~inside & (turned <= high) & ~again, turned, x)
    if np.array_equal(new, x):
        return array
    array = array.assign_coords({name: array[name].copy(data=new)})
    return array.sortby(name) if name in array.dims else array


def _area_mean(array: xr.DataArray, dim: str) -> xr.DataArray:
    """Mean over a dim, by area where it is a latitude: a cell is as wide as its cosine."""
    if dim in (TIME, "path"):
        fix = "leave it out of average"
        raise InputError("average", expected="spatial dims", got=repr(dim), fix=fix)
    if not is_latitude(array, dim):
        return array.mean(dim, keep_attrs=True)
    return array.weighted(_cell_widths(array, dim)).mean(dim, keep_attrs=True)


def _cell_widths(array: xr.DataArray, dim: str) -> xr.DataArray:
    """Relative size of cells along a coordinate: the cosine of a latitude, else one."""
    if not is_latitude(array, dim):
        return xr.ones_like(array[dim], dtype=float)
    cosine = np.cos(np.deg2rad(array[dim].values.astype(float)))
    return array[dim].copy(data=cosine.clip(min=0.0))


def cell_areas(fields: xr.DataArray, places: Places) -> np.ndarray:
    """Relative areas of the points of fields; (M,)."""
    area = xr.ones_like(fields.isel(path=0, time=0, drop=True))
    for name in places.coords:
        area = area * _cell_widths(fields, name)
    return np.asarray(places.flatten(area.transpose(*places.dims).values))


def _coarsen(array: xr.DataArray, sizes: Mapping[str, int]) -> xr.DataArray:
    """Means by area of blocks of neighbours; an incomplete block at the end is dropped."""
    for dim, size in sizes.items():
        n = array.sizes[dim]
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= n:
            expected, fix = f"an integer from 1 to {n}", f"coarsen={{{dim!r}: 2}}"
            raise InputError(f"coarsen '{dim}'", expected=expected, got=repr(size), fix=fix)
    blocks = {dim: size for dim, size in sizes.items() if size > 1}
    if not blocks:
        return array
    area = xr.ones_like(array, dtype=float)
    for dim in blocks:
        area = area * _cell_widths(array, dim)
    # All dims at once: a mean of means would count the points next to a gap twice.
    observed_area, weighted = area.where(array.notnull()), (area * array).rename(array.name)
    block_area, block_sum = (
        whole.assign_attrs(array.attrs).coarsen(blocks, boundary="trim").sum(keep_attrs=True)
        for whole in (observed_area, weighted)
    )
    result = block_sum.copy(data=(block_sum / block_area.where(block_area > 0)).data)
    result.attrs = dict(array.attrs)  # not those of a coordinate, which weights may bring
    return result


# ---------- Preparation: anomalies, trend and scale, recorded and undone on output
#
# A raw field is reduced (selected, averaged, coarsened), then made stationary by an affine map
# at each point,
#
#     y(t, x) = (X(t, x) - D(t) B(x)) / s(x),
#
# with D the groups of a climatology (months, hours, leads), harmonics of the year or a straight
# line in time, B by least squares and s a standard deviation, or one over the root of an area.
# Forecasts go back through ``X = D B + s y``.


Array = np.ndarray

#: Climatologies, and their descriptions.
SEASONS = {
    "mean": "the mean",
    "month": "the mean of each calendar month",
    "dayofyear": "the mean and three harmonics of the year",
    "hour": "the mean of each hour of the day",
    "month+hour": "the mean of each hour of the day in each month",
    "lead": "the mean of each lead time",
}
SCALES = ("point", "whole")
#: Points that differ by less than this part of the largest coordinate are one.
SAME_POINT = 1e-5
#: Relative area of a cell at a pole, where the cosine of the latitude is zero.
SMALLEST_AREA = 0.01


@checked()
@dataclasses.dataclass(frozen=True)
class Preparation:
    """Preparation of raw data for a fit.

    Pass it to `spdelaw.fit` as ``prepare=``. The law stores it with the estimated climatology,
    trend and scale, applies it to new data, and reverses it on output.

    Args:
        variable: variable to use, where the data hold several.
        select: ranges of coordinates to keep. Such as
            ``{"latitude": (-2, 2), "longitude": (150, 270)}``.
        average: dimension to average over, with weights by area for latitudes. One name or several.
        rename: names of the data to names of the domain. Such as ``{"longitude": "x"}``, or
            ``{"latitude": "lat", "longitude": "lon"}`` on a sphere.
        coarsen: number of neighbouring grid cells to average along a dimension, with weights by
            area for latitudes. Such as ``{"x": 4}`` or ``{"lat": 2, "lon": 2}``.
        anomalies: climatology to subtract at each point: "mean", "month" (mean of each calendar
            month), "hour" (mean of each hour of the day), "month+hour" (mean of each hour in each
            month), "dayofyear" (mean and three harmonics of the year) or "lead" (mean of each lead
            time of forecasts). The shell, and functions that guess the domain, choose one where
            nothing is stated; "none" in the shell, and ``sl.Preparation()``, keep the values.
        detrend: subtract a straight line in time at each point.
        standardise: divide by the standard deviation, of each "point" or of the "whole" field
            (weighted by area).
        area_weights: multiply values by the square root of the relative area of their grid cell,
            as is usual for EOFs. The area is the cosine of the latitude: each square kilometre then
            counts the same.
        missing: value that marks missing data, such as -9999, where the file does not declare it.
        time_unit: unit in which dates are counted, such as "days". By default "days".

    Example:
        >>> import spdelaw as sl
        >>> raw = sl.datasets.equatorial_pacific()
        >>> how = sl.Preparation(average="latitude", rename={"longitude": "x"}, anomalies="month")
        >>> anomalies = how.learn(raw).apply(raw)
        >>> dict(anomalies.sizes), round(float(raw.mean())), bool(abs(anomalies.mean()) < 1e-9)
        ({'path': 1, 'time': 54, 'x': 145}, 300, True)
    """

    variable: str | None = None
    select: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    average: tuple[str, ...] = ()
    rename: Mapping[str, str] = dataclasses.field(default_factory=dict)
    coarsen: Mapping[str, int] = dataclasses.field(default_factory=dict)
    anomalies: str | None = None
    detrend: bool = False
    standardise: str | None = None
    time_unit: str | None = None
    area_weights: bool = False
    missing: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check the words."""
        for name, words in (("anomalies", tuple(SEASONS)), ("standardise", SCALES)):
            if getattr(self, name) is not None:
                one_of(name, getattr(self, name), words)
        missing: Any = self.missing
        fills = tuple(np.atleast_1d(np.asarray(missing, dtype=float)).tolist())
        object.__setattr__(self, "missing", fills)
        average: Any = self.average
        names = (average,) if isinstance(average, str) else tuple(average)
        object.__setattr__(self, "average", names)
        ranges = {k: (float(low), float(high)) for k, (low, high) in dict(self.select).items()}
        object.__setattr__(self, "select", ranges)

    @property
    def is_affine(self) -> bool:
        """Whether values change, and not only which of them are taken."""
        return bool(self.anomalies or self.detrend or self.standardise or self.area_weights)

    @property
    def reduces(self) -> bool:
        """Whether it selects, averages, renames or coarsens."""
        return any((self.variable, self.select, self.average, self.rename, self.coarsen))

    def reduce(self, data: Any) -> Any:
        """Raw data without fill values; selected, averaged, renamed and coarsened."""
        check_not_averaged(data, bool(self.average or self.coarsen))
        if not (self.reduces or self.missing):
            return data
        rename = self.rename
        array = _select_array(data, self.variable, set(rename.values()))
        for value in self.missing:
            array = array.where(~np.isclose(array, value, rtol=1e-6, atol=0.0))
        for dim, (low, high) in self.select.items():
            array = _select_range(array, _find_dim(array, dim, rename, coordinates=True), low, high)
        for dim in self.average:
            array = _area_mean(array, _find_dim(array, dim, rename))
        for old, new in rename.items():
            if old in array.dims and is_latitude(array, old):  # by a name that it will lose
                marked = array[old].assign_attrs(standard_name="latitude")
                array = array.assign_coords({old: marked})
            if old in array.dims or (old in array.coords and new not in array.coords):
                array = renamed(array, old, new)
        return _coarsen(array, {_find_dim(array, d, rename): n for d, n in self.coarsen.items()})

    def learn(self, data: Any, dims: tuple[str, ...] = ("x",)) -> Prepared:
        """Estimate climatology, trend and scale from data."""
        return learn_map(self, self._canonical(data, dims), dims)

    def learned(self, data: Any, dims: tuple[str, ...] = ("x",)) -> tuple[Prepared, xr.DataArray]:
        """What `learn` finds, and the fields it is applied to: the data are read once."""
        fields = self._canonical(data, dims)
        prepared = learn_map(self, fields, dims)
        return prepared, prepared.transform(fields, dims)

    def _canonical(self, data: Any, dims: tuple[str, ...]) -> xr.DataArray:
        fields = as_fields(self.reduce(data), dims=dims, time_unit=self.time_unit)
        if fields.chunks is None:
            check_plausible(fields)
        return fields

    def to_dict(self) -> dict[str, Any]:
        """Plain types for a file."""
        plain = dataclasses.asdict(self)
        lists = {"average": list(self.average), "missing": list(self.missing)}
        return plain | lists | {"select": {k: list(v) for k, v in self.select.items()}}

    def in_words(self) -> list[str]:
        """One phrase for each step, in order."""
        words = [f"{dim} from {low:g} to {high:g}" for dim, (low, high) in self.select.items()]
        words += [f"mean over {dim}" for dim in self.average]
        words += [f"mean of {size} neighbours in {dim}" for dim, size in self.coarsen.items()]
        words = [f"{value:g} is missing" for value in self.missing] + words
        if self.anomalies:
            words.append(f"anomalies against {SEASONS[self.anomalies]}")
        words += ["linear trend removed"] if self.detrend else []
        words += [f"standardised by {self.standardise}"] if self.standardise else []
        words += ["weighted by area"] if self.area_weights else []
        return words


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """A preparation with the numbers it learned.

    Attributes:
        how: the settings.
        coefficients: B, (n_columns, n_points); NaN at points without observations.
        scale: s, (n_points,); NaN at points without observations.
        points: where, (n_points,), or (n_points, d) for all points of a grid in d dimensions.
        clock: attributes ``units`` and ``calendar`` of the times.
        middle: time at which the line in time is zero, and its unit length.
        levels: groups of times, such as months, with a row of B each.
    """

    how: Preparation
    coefficients: Array
    scale: Array
    points: Array
    clock: dict[str, Any]
    middle: tuple[float, float]
    levels: Array = dataclasses.field(default_factory=lambda: np.arange(1.0, 13.0))

    @property
    def notes(self) -> list[str]:
        """Notes for a reader of the result."""
        estimated = ~np.isnan(self.coefficients)
        if not estimated.size:
            return []
        n_numbers = len(estimated)
        partial = int((estimated.any(0) & ~estimated.all(0)).sum())
        short = int((~estimated.any(0) & np.isfinite(self.scale)).sum())
        why = {
            "have no climatology for some times, because they have no data then: results are NaN "
            "there; --anomalies dayofyear or mean need less data": partial,
            f"have too few values for the {n_numbers} parameters of their climatology, and are "
            "excluded: --anomalies mean needs less": short,
        }
        return [f"{n} of {estimated.shape[1]} points {words}" for words, n in why.items() if n]

    def apply(self, data: Any, dims: tuple[str, ...] = ("x",)) -> xr.DataArray:
        """Fields ready for the model: reduced, on the clock of the law, offset and scale off."""
        return self.transform(self.align(as_fields(self.how.reduce(data), dims=dims)), dims)

    def transform(self, fields: xr.DataArray, dims: tuple[str, ...]) -> xr.DataArray:
        """Reduced fields on the clock of the law with offset and scale off."""
        if not self.how.is_affine:
            return fields
        places = places_of_fields(fields, dims)
        if fields.chunks is not None:
            return apply_in_blocks(fields, places, self.affine)
        offset, scale = map(places.unflatten, self.affine(fields["time"].values, places.points))
        if OBSERVATION_STD in fields.coords:
            std = fields[OBSERVATION_STD] / xr.DataArray(scale, dims=places.dims)
            fields = fields.assign_coords({OBSERVATION_STD: std})
        return fields.copy(data=(fields.values - offset) / scale)

    def is_by(self, other: Preparation | Prepared) -> bool:
        """Whether this is what a preparation learns, or another one that learned the same."""
        if isinstance(other, Preparation) or other is self:
            return other is self or self.how == other
        return self.how == other.how and all(
            np.array_equal(a, b, equal_nan=True)
            for a, b in ((self.coefficients, other.coefficients), (self.scale, other.scale))
        )

    def align(self, fields: xr.DataArray) -> xr.DataArray:
        """Fields with times counted as those of the data that the map was learned from."""
        if "path_time" in fields.coords and self.how.is_affine:
            raise _no_common_clock()
        return on_clock(fields, self.clock)

    @property
    def _climate(self) -> Climate:
        how = self.how
        return Climate(how.anomalies, how.detrend, self.clock, self.middle, self.levels)

    def affine(self, times: Array, points: Array) -> tuple[Array, Array]:
        """Offset (T, M) and scale (M,) at times and at some or all of the points."""
        at = self._point_index(points)
        return self._climate.offset(times, self.coefficients[:, at]), self.scale[at]

    def affine_anywhere(
        self, times: Array, points: Array, dims: tuple[str, ...]
    ) -> tuple[Array, Array, Array]:
        """Offset (T, M), scale (M,) and standard deviation of the offset (T, M) at any points.

        Zero at points that the preparation was learned at; others take their numbers from
        neighbours, with the error that this has where such a neighbour is left out.
        """
        coefficients = mask_outliers(self.coefficients)
        learned = np.isfinite(self.scale) & np.isfinite(coefficients).all(0)
        is_new = self._nearest(points) == len(self.points)
        if not is_new.any() or learned.sum() < 2:
            offset, scale = self.affine(times, points)
            return offset, scale, np.zeros(offset.shape)
        table = np.vstack([self.coefficients, np.log(self.scale)[None]])
        old, new = (in_space(p, dims) for p in (self.points, points[is_new]))
        empty = np.full((len(table), len(new)), np.nan)
        wide = np.hstack([np.where(learned, table, np.nan), empty])
        filled = interpolated(wide, np.vstack([old, new]))[:, len(old) :]
        everywhere = dataclasses.replace(
            self, coefficients=np.hstack([self.coefficients, filled[:-1]]),
            scale=np.append(self.scale, np.exp(filled[-1])),
            points=np.concatenate([self.points, points[is_new]]),
        )  # fmt: skip
        offset, scale = everywhere.affine(times, points)
        errors, factor = interpolation_errors(table[:-1, learned], old[learned], new)
        std = np.zeros(offset.shape)
        square = np.mean(self._climate.offset(times, errors) ** 2, axis=1)
        std[:, is_new] = np.outer(np.sqrt(square), factor)
        return offset, scale, std

    def _point_index(self, points: Array) -> Array:
        """Which of the points these are."""
        n, at = len(self.points), self._nearest(points)
        if (at == n).any():
            expected = f"some of the {n} points the preparation was learned at"
            got = f"{np.asarray(points)[at == n][0]}, one of {len(points)}"
            raise DataError("points", expected=expected, got=got, fix="use the grid of the fit")
        return at

    def _nearest(self, points: Array) -> Array:
        """Which of the points these are; their number where it is none of them."""
        largest = np.abs(self.points).max(0)
        unit = np.where(largest > 0, largest, 1.0)
        learned_points, requested_points = (
            np.reshape(p / unit, (len(p), -1)) for p in (self.points, points)
        )
        tree = scipy.spatial.KDTree(learned_points)
        return np.asarray(tree.query(requested_points, distance_upper_bound=SAME_POINT)[1])


def learn_map(how: Preparation, fields: xr.DataArray, dims: tuple[str, ...]) -> Prepared:
    """Least squares of each point on the design, then the scale of the residual."""
    times, places = fields["time"].values, places_of_fields(fields, dims)
    clock = {k: fields["time"].attrs[k] for k in ("units", "calendar") if k in fields["time"].attrs}
    n_points = len(places.points)
    if not how.is_affine:
        middle = (float(times.mean()), float(np.ptp(times)) or 1.0)
        empty = np.zeros((0, n_points))
        return Prepared(how, empty, np.ones(n_points), places.points, clock, middle)
    if "path_time" in fields.coords:
        raise _no_common_clock()
    climate = climate_of(how.anomalies, how.detrend, times, clock)
    area = cell_areas(fields, places)
    coefficients, scale = learn_climate(climate, how.standardise, fields, places, area)
    if how.area_weights:
        scale = scale / np.sqrt(area.clip(min=SMALLEST_AREA))
    learned = (coefficients, scale, places.points, clock, climate.middle, climate.levels)
    return Prepared(how, *learned)


def _no_common_clock() -> DataError:
    expected, fix = "one clock for all paths", "prepare the paths yourself, and leave prepare out"
    return DataError("data", expected=expected, got="times of each path's own", fix=fix)

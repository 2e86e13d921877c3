"""Coordinates of fields: present, numeric, finite, distinct and increasing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data._clock import to_dates, to_numbers
from spdelaw.data._layout import ORIGINAL, PATH, PATH_TIME, POINT, TIME
from spdelaw.data._recognise import RADIANS
from spdelaw.domain import VARIABLE, numbered
from spdelaw.errors import DataError

#: Of coordinates that are no times.
NO_CLOCK: Mapping[Any, Any] = MappingProxyType({})


def label_paths(fields: xr.DataArray) -> xr.DataArray:
    """Fields whose paths have distinct labels: integers or strings, 0, 1, ... by default."""
    if PATH not in fields.coords:
        return fields.assign_coords({PATH: np.arange(fields.sizes[PATH])})
    labels = _labels(fields[PATH].values)
    unique, counts = np.unique(labels, return_counts=True)
    if len(unique) < len(labels):
        got = f"label {unique[counts > 1][0]} more than once"
        fix = 'drop the labels: data.drop_vars("path")'
        raise DataError("coordinate 'path'", expected="one label per path", got=got, fix=fix)
    if labels.dtype == fields[PATH].dtype:
        return fields
    return fields.assign_coords({PATH: (PATH, labels, fields[PATH].attrs)})


def _labels(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    if values.dtype.kind == "f" and np.array_equal(values, np.round(values)):
        return values.astype(np.int64)
    if values.dtype.kind in "UT" or all(isinstance(value, str) for value in values):
        return values.astype(str)
    expected, fix = "integers or strings", 'drop the labels: data.drop_vars("path")'
    raise DataError("coordinate 'path'", expected=expected, got=f"dtype {values.dtype}", fix=fix)


def order_time(fields: xr.DataArray, unit: str | None) -> xr.DataArray:
    """Fields with a numeric, increasing time coordinate; descending data are turned round."""
    if PATH_TIME in fields.coords:
        fields = _with_path_times(fields, unit)
    time = to_numbers(_coordinate(fields, TIME), unit)
    values = numeric(TIME, time)
    if len(values) > 1 and np.all(values[1:] < values[:-1]):
        fields, values = fields.isel({TIME: slice(None, None, -1)}), values[::-1]
    _check_increasing(values, time.attrs)
    return _replaced(fields, TIME, xr.Variable(TIME, values, time.attrs))


def _with_path_times(fields: xr.DataArray, unit: str | None) -> xr.DataArray:
    times = fields[PATH_TIME].variable
    if set(times.dims) != {PATH, TIME}:
        got, fix = f"dims {times.dims}", "give one row of times per path"
        raise DataError("coordinate 'path_time'", expected="dims (path, time)", got=got, fix=fix)
    times = to_numbers(times.transpose(PATH, TIME), unit)
    values = numeric(PATH_TIME, times, missing=True)
    _check_path_times(values)
    if TIME not in fields.coords:
        fields = fields.assign_coords({TIME: np.arange(fields.sizes[TIME], dtype=float)})
    return _replaced(fields, PATH_TIME, xr.Variable((PATH, TIME), values, times.attrs))


def _check_path_times(values: np.ndarray) -> None:
    known = ~np.isnan(values)
    # Increasing where both neighbours are known; a known time after an unknown one is a hole.
    wrong = (values[:, 1:] <= values[:, :-1]) | (known[:, 1:] & ~known[:, :-1])
    if not known[:, 0].all() or wrong.any():
        path = int(np.argmax(~known[:, 0] | wrong.any(axis=1)))
        expected = "strictly increasing times in each path, NaN only as padding at the end"
        got = f"times {_shown(values[path])} in the path at position {path}"
        fix = "sort each path in time and move its padding to the end; stack() does both"
        raise DataError("coordinate 'path_time'", expected=expected, got=got, fix=fix)


def order_space(fields: xr.DataArray, dims: tuple[str, ...]) -> xr.DataArray:
    """Fields with numeric space coordinates, increasing on grids; the data follow."""
    check_degrees(fields, dims)
    if POINT in fields.dims:
        return _scattered(fields, dims)
    for dim in dims:
        fields = fields if _is_named(fields, dim) else _sorted(fields, dim)
    return fields


def check_degrees(fields: xr.DataArray, dims: tuple[str, ...]) -> None:
    """Refuse radians on a sphere, where they would be degrees of a small patch."""
    for dim in dims if set(dims) == {"lat", "lon"} else ():
        units = str(fields[dim].attrs.get("units", "")) if dim in fields.coords else ""
        if units.lower() in RADIANS:
            got, fix = f"units {units!r}", f"data.assign_coords({dim}=np.degrees(data.{dim}))"
            raise DataError(f"coordinate '{dim}'", expected="degrees", got=got, fix=fix)


def _is_named(fields: xr.DataArray, dim: str) -> bool:
    """Whether the entries are several fields with names, whose order is theirs."""
    if dim != VARIABLE or dim not in fields.coords or fields[dim].dtype.kind in "iuf":
        return False
    names = fields[dim].values.tolist()
    if fields[dim].dims == (dim,) and len(set(names)) < len(names):
        expected, fix = "one name per field", "select each field once"
        raise DataError(f"coordinate '{dim}'", expected=expected, got=f"{names}", fix=fix)
    return all(isinstance(name, str) for name in names)


def _sorted(fields: xr.DataArray, dim: str) -> xr.DataArray:
    coordinate = _coordinate(fields, dim)
    values = numeric(dim, coordinate)
    order = np.argsort(values, kind="stable")
    if not np.array_equal(order, np.arange(len(order))):
        reverse = np.array_equal(order[::-1], np.arange(len(order)))
        # A slice keeps a view; only a true shuffle needs the data copied.
        fields = fields.isel({dim: slice(None, None, -1) if reverse else order})
        values = values[order]
    _check_distinct(dim, values)
    return _replaced(fields, dim, xr.Variable(dim, values, coordinate.attrs))


def _scattered(fields: xr.DataArray, dims: tuple[str, ...]) -> xr.DataArray:
    for dim in dims:
        coordinate = _coordinate(fields, dim)
        if coordinate.dims == (POINT,) and _is_named(fields, dim):
            continue
        if coordinate.dims != (POINT,):
            got = f"dims {coordinate.dims}"
            fix = "give each scattered point its coordinates along the dim 'point'"
            raise DataError(f"coordinate '{dim}'", expected="dims (point,)", got=got, fix=fix)
        values = numeric(dim, coordinate)
        fields = _replaced(fields, dim, xr.Variable(POINT, values, coordinate.attrs))
    places = np.stack([numbered(fields[dim].values) for dim in dims], axis=1)
    unique, counts = np.unique(places, axis=0, return_counts=True)
    if len(unique) < len(places):
        got = f"{tuple(unique[counts > 1][0].tolist())} more than once"
        fix = "average what was seen at one place before, or correct its coordinates"
        raise DataError("dim 'point'", expected="distinct places", got=got, fix=fix)
    return fields


def numeric(name: str, coordinate: xr.Variable, missing: bool = False) -> np.ndarray:
    """Finite float64 values of a coordinate; NaN passes only where ``missing`` allows it."""
    name = str(coordinate.attrs.get(ORIGINAL, name))  # that of the user's own data
    if coordinate.dtype.kind not in "iuf":
        expected, got = "real numbers (dates and durations for time)", f"dtype {coordinate.dtype}"
        fix = f"replace it: data.assign_coords({name}=numbers)"
        raise DataError(f"coordinate '{name}'", expected=expected, got=got, fix=fix)
    values = coordinate.values.astype(np.float64, copy=False)
    wrong = np.isinf(values) if missing else ~np.isfinite(values)
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        got = f"{values[place]} at index {place if len(place) > 1 else place[0]}"
        fix = "give each entry its coordinate"
        raise DataError(f"coordinate '{name}'", expected="finite numbers", got=got, fix=fix)
    return values


def _coordinate(fields: xr.DataArray, name: str) -> xr.Variable:
    if name in fields.coords:
        return fields[name].variable.to_base_variable()
    argument = "times" if name == TIME else "points"
    expected = f"a coordinate for dim '{name}'"
    fix = f"pass {argument}=, or data.assign_coords({name}=values)"
    raise DataError(f"coordinate '{name}'", expected=expected, got="none", fix=fix)


def _replaced(fields: xr.DataArray, name: str, new: xr.Variable) -> xr.DataArray:
    old = fields[name].variable
    if old.dtype == new.dtype and old.attrs == new.attrs and np.array_equal(old, new, True):
        return fields
    return fields.assign_coords({name: new})


def _check_increasing(values: np.ndarray, clock: Mapping[Any, Any]) -> None:
    if np.all(values[1:] > values[:-1]):
        return
    _check_distinct(TIME, np.sort(values), clock)
    at = int(np.argmax(values[1:] < values[:-1])) + 1
    late, early = (_moment(values[i], clock) for i in (at, at - 1))
    expected, got = "increasing or decreasing times", f"{late} after {early} at index {at}"
    fix = 'data.sortby("time"), if the order of the rows is really arbitrary'
    raise DataError("coordinate 'time'", expected=expected, got=got, fix=fix)


def _check_distinct(name: str, ordered: np.ndarray, clock: Mapping[Any, Any] = NO_CLOCK) -> None:
    repeated = np.flatnonzero(ordered[1:] == ordered[:-1])
    if repeated.size:
        got = f"{_moment(ordered[repeated[0]], clock)} more than once"
        fix = f'average them: data.groupby("{name}").mean()'
        raise DataError(f"coordinate '{name}'", expected="distinct values", got=got, fix=fix)


def _moment(value: float, clock: Mapping[Any, Any]) -> str:
    """A number as the date that it is, where a clock says so."""
    if " since " not in str(clock.get("units", "")):
        return str(value)
    return str(to_dates(np.array([value]), clock)[0])[:19].removesuffix("T00:00:00")


def _shown(values: np.ndarray) -> str:
    return np.array2string(values, threshold=6, precision=6)

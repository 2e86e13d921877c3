"""Names, order and coordinates of canonical fields: ``(path, time, *space)``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data.clock import is_date, to_dates, to_numbers
from spdelaw.domains.places import VARIABLE, numbered
from spdelaw.errors import DataError

# ---------- What dims and coordinates mean, by the CF conventions and by common names


TIME_NAMES = ("time", "t", "valid_time", "date", "datetime")
#: Names of a dim that is the time where it is the only one of them.
CALENDAR_NAMES = ("year", "month", "week", "day", "hour")
PATH_NAMES = ("path", "member", "ensemble", "realization", "realisation", "number", "sample", "run")
#: Time since the start of a forecast, and the start itself.
LEAD_NAMES = ("lead", "lead_time", "leadtime", "step", "forecast_period", "prediction_timedelta")
START_NAMES = (
    "init", "init_time", "initial_time", "initialization", "initialisation", "start_date",
    "forecast_reference_time", "reference_time",
)  # fmt: skip
LATITUDE_NAMES = ("lat", "latitude")
LATITUDE_UNITS = ("degrees_north", "degree_north", "degree_n", "degrees_n", "degreen", "degreesn")
LONGITUDE_NAMES = ("lon", "longitude")
LONGITUDE_UNITS = ("degrees_east", "degree_east", "degree_e", "degrees_e", "degreee", "degreese")
#: Units of angles in radians.
RADIANS = ("radian", "radians", "rad")

Test = Callable[[xr.DataArray | xr.Dataset, str], bool]


def is_time(data: xr.DataArray | xr.Dataset, name: str) -> bool:
    """Whether a dim or coordinate is a time."""
    if name not in data.coords:
        return name.lower() in TIME_NAMES
    attrs = data[name].attrs
    stated = attrs.get("axis") == "T" or attrs.get("standard_name") == "time"
    return stated or name.lower() in TIME_NAMES or is_date(data[name].variable)


def is_path(data: xr.DataArray | xr.Dataset, name: str) -> bool:
    """Whether the entries of a dim are realisations."""
    return _matches_convention(data, name, "realization", PATH_NAMES)


def is_lead(data: xr.DataArray | xr.Dataset, name: str) -> bool:
    """Whether a dim is the time since the start of a forecast."""
    return _matches_convention(data, name, "forecast_period", LEAD_NAMES)


def is_start(data: xr.DataArray | xr.Dataset, name: str) -> bool:
    """Whether a dim is the start of forecasts."""
    return _matches_convention(data, name, "forecast_reference_time", START_NAMES)


def is_latitude(data: xr.DataArray | xr.Dataset, name: str) -> bool:
    """Whether a coordinate is a latitude."""
    return _matches_convention(data, name, "latitude", LATITUDE_NAMES, LATITUDE_UNITS)


def is_longitude(data: xr.DataArray | xr.Dataset, name: str) -> bool:
    """Whether a coordinate is a longitude."""
    return _matches_convention(data, name, "longitude", LONGITUDE_NAMES, LONGITUDE_UNITS)


def _matches_convention(
    data: xr.DataArray | xr.Dataset,
    name: str,
    standard: str,
    names: tuple[str, ...],
    units: tuple[str, ...] = (),
) -> bool:
    """By standard name, units or name."""
    has_attrs = name in data.coords or (isinstance(data, xr.Dataset) and name in data)
    attrs = data[name].attrs if has_attrs else {}
    return (
        attrs.get("standard_name") == standard
        or str(attrs.get("units", "")).lower() in units
        or name.lower() in names
        or str(attrs.get(ORIGINAL, "")).lower() in names
    )


def coordinate(data: xr.DataArray, test: Test) -> str | None:
    """The dim or coordinate that passes a test: a dim rather than another coordinate."""
    dims = [str(dim) for dim in data.dims if test(data, str(dim))]
    others = [str(name) for name in data.coords if name not in data.dims and test(data, str(name))]
    return next(iter([*dims, *others]), None)


def in_radians(data: xr.DataArray, lat: str, lon: str) -> bool:
    """Whether latitudes and longitudes have units of radians, or values that look like it."""
    units = {str(data[name].attrs.get("units", "")).lower() for name in (lat, lon)}
    if units & set(RADIANS):
        return True
    y, x = (np.asarray(data[name].values, float) for name in (lat, lon))
    small = np.nanmax(np.abs(y)) <= np.pi / 2 + 1e-6 and np.nanmax(np.abs(x)) <= 2 * np.pi + 1e-6
    wide = np.ptp(y) > 0.5 and np.ptp(x) > 0.5
    return bool(small and wide and not any(unit.startswith("degree") for unit in units))


def longitudes_together(lon: np.ndarray) -> tuple[float, float]:
    """West and east ends of the shortest stretch of longitudes, 170 to 190 around the dateline.

    All around where no gap is wider than the others.
    """
    around = np.unique(np.mod(lon[np.isfinite(lon)], 360.0))
    gaps = np.diff(np.append(around, around[0] + 360.0))
    at = int(np.argmax(gaps))
    if around.size > 2 and gaps[at] <= 2 * np.median(gaps):
        return 0.0, 360.0
    west = float(around[(at + 1) % len(around)])
    east = west + 360.0 - float(gaps[at])
    return (west, east) if east <= 360.0 else (west - 360.0, east - 360.0)


# ---------- Names and layout of canonical fields: ``(path, time, *space)``


PATH = "path"
TIME = "time"
#: One dim for scattered points in more than one dimension; their coordinates lie along it.
POINT = "point"
#: Coordinate ``(path, time)`` with the times of each path when paths do not share them.
PATH_TIME = "path_time"
#: Name of fields that come without one.
FIELD = "field"
#: Attribute of a coordinate with the name that it had in the data, and one that marks names and
#: indices along ``point``, which are no places.
ORIGINAL, LABEL = "original_name", "label"
#: Coordinates of scattered points, where other numbers lie along ``point`` as well.
PLACES = (("lat", "lon"), ("x", "y", "z"), ("x", "y"))


def check_dims(dims: str | Sequence[str]) -> tuple[str, ...]:
    """Names of the spatial dims as a tuple, refused when they clash with the contract's own."""
    names = tuple(dims) if isinstance(dims, Iterable) and not isinstance(dims, str) else (dims,)
    reserved = {PATH, TIME, POINT, PATH_TIME}
    fine = all(isinstance(name, str) and name not in reserved for name in names)
    if not names or not fine or len(set(names)) < len(names):
        expected = f"distinct names of spatial dims, other than {', '.join(sorted(reserved))}"
        fix = 'pass dims=("x",) or the names that the data use'
        raise DataError("dims", expected=expected, got=repr(dims), fix=fix)
    return names


def infer_dims(fields: xr.DataArray) -> tuple[str, ...]:
    """Spatial dims of fields: all but path and time, or the coordinates along ``point``."""
    if POINT not in fields.dims:
        return check_dims([str(dim) for dim in fields.dims if dim not in (PATH, TIME)])
    along = [
        str(name)
        for name, coordinate in fields.coords.items()
        if coordinate.dims == (POINT,)
        and name != POINT
        and coordinate.dtype.kind in "iuf"
        and LABEL not in coordinate.attrs
    ]
    usual = [names for names in PLACES if set(names) <= set(along)]
    several = VARIABLE in fields.coords and fields[VARIABLE].dims == (POINT,)
    which = (VARIABLE,) if several else ()  # points of several fields share their places
    return check_dims((*which, *(n for n in (usual[0] if usual else along) if n not in which)))


def arrange(array: xr.DataArray, dims: tuple[str, ...]) -> xr.DataArray:
    """Dims in canonical order, with a path dim; nothing is computed or copied."""
    array = _points_on_a_line(array, dims)
    space = (POINT,) if POINT in array.dims else dims
    _check_names(array, space)
    array = _with_path(array).transpose(PATH, TIME, *space)
    for dim, size in array.sizes.items():
        if size < 1:
            fix = "check the selection that led to these data"
            raise DataError(f"dim '{dim}'", expected="at least one entry", got="none", fix=fix)
    return array if array.name is not None else array.rename(FIELD)


def _points_on_a_line(array: xr.DataArray, dims: tuple[str, ...]) -> xr.DataArray:
    # In one dimension scattered points are a non-uniform grid, which is the simpler form.
    if POINT not in array.dims or len(dims) > 1 or dims[0] in array.dims:
        return array
    if dims[0] not in array.coords or array[dims[0]].dims != (POINT,):
        return array
    return array.swap_dims({POINT: dims[0]}).drop_vars(POINT, errors="ignore")


def _check_names(array: xr.DataArray, space: tuple[str, ...]) -> None:
    got = f"dims {tuple(array.dims)}"
    expected = f"dims ({PATH}, {TIME}, {', '.join(space)}) in any order, {PATH} optional"
    missing = [dim for dim in (TIME, *space) if dim not in array.dims]
    if missing:
        fix = _advice_for_missing_dim(array, missing[0])
        raise DataError(f"dim '{missing[0]}'", expected=expected, got=got, fix=fix)
    extra = [str(dim) for dim in array.dims if dim not in (PATH, TIME, *space)]
    if extra:
        fix = _advice_for_extra_dim(array, extra[0])
        raise DataError(f"dim '{extra[0]}'", expected=expected, got=got, fix=fix)


def _advice_for_missing_dim(array: xr.DataArray, dim: str) -> str:
    left = [str(d) for d in array.dims if d not in (PATH, TIME)]
    if dim == VARIABLE:
        return "pass a Dataset with one variable per field, or xr.concat([u, v], 'variable')"
    if dim == POINT or not left:
        return "check which variable was chosen, and its dims"
    if dim == TIME:
        return f'rename the dim that has this role: data.rename({left[0]}="{TIME}")'
    return (
        f'rename the dim that has this role: data.rename({left[-1]}="{dim}"), '
        "or, in as_fields, name the spatial dims with dims="
    )


def _advice_for_extra_dim(array: xr.DataArray, dim: str) -> str:
    if array.sizes[dim] == 1:
        return f'remove it with data.squeeze("{dim}")'
    if dim == VARIABLE:
        return (
            "read a file of several fields with dims=None; fit them with terms by field, or on "
            "sl.Fields(domain); one: data.sel(...)"
        )
    advice = f'if its entries are points, give them coordinates: data.assign_coords(lon=("{dim}", '
    advice += f'longitudes), lat=("{dim}", latitudes)); '
    if PATH not in array.dims:
        advice += f'if they are realisations, data.rename({dim}="{PATH}"); '
    return advice + f'if they are layers, fit each, or their mean: data.mean("{dim}")'


def _with_path(array: xr.DataArray) -> xr.DataArray:
    if PATH in array.dims:
        return array
    own_times = array.coords.get(PATH_TIME)
    if own_times is None or own_times.dims != (TIME,):
        return array.expand_dims(PATH)
    array = array.drop_vars(PATH_TIME).expand_dims(PATH)
    return array.assign_coords({PATH_TIME: own_times.variable.expand_dims(PATH)})


# ---------- Coordinates of fields: present, numeric, finite, distinct and increasing


#: Of coordinates that are no times.
NO_CLOCK: Mapping[Any, Any] = MappingProxyType({})


def label_paths(fields: xr.DataArray) -> xr.DataArray:
    """Fields whose paths have distinct labels: integers or strings, 0, 1, ... by default."""
    if PATH not in fields.coords:
        return fields.assign_coords({PATH: np.arange(fields.sizes[PATH])})
    labels = _path_labels(fields[PATH].values)
    unique, counts = np.unique(labels, return_counts=True)
    if len(unique) < len(labels):
        got = f"label {unique[counts > 1][0]} more than once"
        fix = 'drop the labels: data.drop_vars("path")'
        raise DataError("coordinate 'path'", expected="one label per path", got=got, fix=fix)
    if labels.dtype == fields[PATH].dtype:
        return fields
    return fields.assign_coords({PATH: (PATH, labels, fields[PATH].attrs)})


def _path_labels(values: np.ndarray) -> np.ndarray:
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
    return _replace_coordinate(fields, TIME, xr.Variable(TIME, values, time.attrs))


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
    return _replace_coordinate(fields, PATH_TIME, xr.Variable((PATH, TIME), values, times.attrs))


def _check_path_times(values: np.ndarray) -> None:
    has_time = ~np.isnan(values)
    # Increasing where both neighbours are known; a known time after an unknown one is a gap.
    wrong = (values[:, 1:] <= values[:, :-1]) | (has_time[:, 1:] & ~has_time[:, :-1])
    if not has_time[:, 0].all() or wrong.any():
        path = int(np.argmax(~has_time[:, 0] | wrong.any(axis=1)))
        expected = "strictly increasing times in each path, NaN only as padding at the end"
        got = f"times {_short_text(values[path])} in the path at position {path}"
        fix = "sort each path in time and move its padding to the end; stack() does both"
        raise DataError("coordinate 'path_time'", expected=expected, got=got, fix=fix)


def order_space(fields: xr.DataArray, dims: tuple[str, ...]) -> xr.DataArray:
    """Fields with numeric space coordinates, increasing on grids; the data follow."""
    check_degrees(fields, dims)
    if POINT in fields.dims:
        return _check_scattered(fields, dims)
    for dim in dims:
        fields = fields if _is_named(fields, dim) else _sort_along(fields, dim)
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


def _sort_along(fields: xr.DataArray, dim: str) -> xr.DataArray:
    coordinate = _coordinate(fields, dim)
    values = numeric(dim, coordinate)
    order = np.argsort(values, kind="stable")
    if not np.array_equal(order, np.arange(len(order))):
        reverse = np.array_equal(order[::-1], np.arange(len(order)))
        # A slice keeps a view; only a true shuffle needs the data copied.
        fields = fields.isel({dim: slice(None, None, -1) if reverse else order})
        values = values[order]
    _check_distinct(dim, values)
    return _replace_coordinate(fields, dim, xr.Variable(dim, values, coordinate.attrs))


def _check_scattered(fields: xr.DataArray, dims: tuple[str, ...]) -> xr.DataArray:
    for dim in dims:
        coordinate = _coordinate(fields, dim)
        if coordinate.dims == (POINT,) and _is_named(fields, dim):
            continue
        if coordinate.dims != (POINT,):
            got = f"dims {coordinate.dims}"
            fix = "give each scattered point its coordinates along the dim 'point'"
            raise DataError(f"coordinate '{dim}'", expected="dims (point,)", got=got, fix=fix)
        values = numeric(dim, coordinate)
        fields = _replace_coordinate(fields, dim, xr.Variable(POINT, values, coordinate.attrs))
    places = np.stack([numbered(fields[dim].values) for dim in dims], axis=1)
    unique, counts = np.unique(places, axis=0, return_counts=True)
    if len(unique) < len(places):
        got = f"{tuple(unique[counts > 1][0].tolist())} more than once"
        fix = "average the values of each point first, or correct the coordinates"
        raise DataError("dim 'point'", expected="distinct points", got=got, fix=fix)
    return fields


def numeric(name: str, coordinate: xr.Variable, missing: bool = False) -> np.ndarray:
    """Finite float64 values of a coordinate; NaN passes only where ``missing`` allows it."""
    is_time, name = name == TIME, str(coordinate.attrs.get(ORIGINAL, name))  # as the user calls it
    if coordinate.dtype.kind not in "iuf":
        expected, got, new = "real numbers", f"dtype {coordinate.dtype}", "numbers"
        if is_time:
            expected += ", dates without a time zone, or durations"
            new = f"pandas.to_datetime(list(data.{name}.values), utc=True).tz_localize(None)"
        fix = f"replace it: data.assign_coords({name}={new})"
        raise DataError(f"coordinate '{name}'", expected=expected, got=got, fix=fix)
    values = coordinate.values.astype(np.float64, copy=False)
    wrong = np.isinf(values) if missing else ~np.isfinite(values)
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        got = f"{values[index]} at index {index if len(index) > 1 else index[0]}"
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


def _replace_coordinate(fields: xr.DataArray, name: str, new: xr.Variable) -> xr.DataArray:
    old = fields[name].variable
    if old.dtype == new.dtype and old.attrs == new.attrs and np.array_equal(old, new, True):
        return fields
    return fields.assign_coords({name: new})


def _check_increasing(values: np.ndarray, clock: Mapping[Any, Any]) -> None:
    if np.all(values[1:] > values[:-1]):
        return
    _check_distinct(TIME, np.sort(values), clock)
    at = int(np.argmax(values[1:] < values[:-1])) + 1
    late, early = (_time_text(values[i], clock) for i in (at, at - 1))
    expected, got = "increasing or decreasing times", f"{late} after {early} at index {at}"
    fix = 'data.sortby("time"), if the order of the rows has no meaning'
    raise DataError("coordinate 'time'", expected=expected, got=got, fix=fix)


def _check_distinct(name: str, ordered: np.ndarray, clock: Mapping[Any, Any] = NO_CLOCK) -> None:
    repeated = np.flatnonzero(ordered[1:] == ordered[:-1])
    if repeated.size:
        got = f"{_time_text(ordered[repeated[0]], clock)} more than once"
        fix = f'average them: data.groupby("{name}").mean()'
        raise DataError(f"coordinate '{name}'", expected="distinct values", got=got, fix=fix)


def _time_text(value: float, clock: Mapping[Any, Any]) -> str:
    """A time as text: a date where its clock counts from one, else a number."""
    if " since " not in str(clock.get("units", "")):
        return str(value)
    return str(to_dates(np.array([value]), clock)[0])[:19].removesuffix("T00:00:00")


def _short_text(values: np.ndarray) -> str:
    return np.array2string(values, threshold=6, precision=6)

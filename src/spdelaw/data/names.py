"""From the names and shapes that files use to those of the contract.

Ensembles and hindcasts become paths, stations and curvilinear grids scattered points, latitudes and
longitudes the dims of the domain. The attribute ``original_name`` of a coordinate tells what it
was called, so that results can go back (`spdelaw.data.summary.restore_names`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data.clock import is_date
from spdelaw.data.layout import (
    CALENDAR_NAMES,
    LABEL,
    ORIGINAL,
    PATH,
    POINT,
    TIME,
    coordinate,
    is_latitude,
    is_lead,
    is_longitude,
    is_path,
    is_start,
    is_time,
)
from spdelaw.errors import DataError

#: Ending of a dim that has the name of a place but only counts.
INDEX_SUFFIX = "_index"


def standardise_names(array: xr.DataArray, dims: tuple[str, ...]) -> xr.DataArray:
    """The array under the names of the contract, where it has known ones; nothing is computed."""
    array = _numbered_names(array, dims)
    space = (POINT,) if POINT in array.dims else dims
    if set(array.dims) <= {PATH, TIME, *space} and set(dims) <= set(array.coords):
        return array
    return _rename_space(_rename_time_and_paths(array, dims), dims)


def with_places(dataset: xr.Dataset) -> xr.Dataset:
    """Data set whose latitudes, longitudes and names of stations are coordinates."""
    names = [
        name
        for name, variable in dataset.data_vars.items()
        if variable.ndim in (1, 2)
        and not any(is_time(dataset, str(dim)) for dim in variable.dims)
        and (
            is_latitude(dataset, str(name))
            or is_longitude(dataset, str(name))
            or variable.attrs.get("cf_role") == "timeseries_id"
            or variable.dtype.kind in "SUOT"
        )
    ]
    return dataset.set_coords(names)


def _numbered_names(array: xr.DataArray, dims: tuple[str, ...]) -> xr.DataArray:
    """Sensors or regions that have names and no positions, at 0, 1, 2, ... in their order."""
    (dim,) = dims if len(dims) == 1 else (TIME,)
    if dim not in array.indexes or array[dim].dtype.kind not in "SUOT" or is_date(array[dim]):
        return array
    old = str(array[dim].attrs.get(ORIGINAL, dim))
    name = old if old != dim else f"{dim}_name"
    names = _station_names(array[dim].values)
    numbers = np.arange(array.sizes[dim], dtype=float)
    return array.assign_coords(
        {dim: (dim, numbers, {ORIGINAL: name}), name: (dim, names, {LABEL: "station"})}
    )


class Roles(NamedTuple):
    """Dims of time and of paths, by the conventions.

    Attributes:
        time: the lead where there is one, else the time; None where no dim is either.
        paths: dims of realisations and, of forecasts, of their starts.
        has_lead: whether the time is the lead of forecasts from many starts.
    """

    time: str | None
    paths: list[str]
    has_lead: bool


def roles(array: xr.DataArray, space: tuple[str, ...] = ()) -> Roles:
    """What the dims of an array mean, other than those of space."""
    dims = [str(d) for d in array.dims if d not in space]
    lead = [d for d in dims if is_lead(array, d)]
    times = [TIME] if TIME in dims else [d for d in dims if is_time(array, d)]
    parts = [d for d in dims if d.lower() in CALENDAR_NAMES]
    times = times or (parts if len(parts) == 1 else [])  # years by months are no line of time
    time = next(iter([*lead, *times]), None)
    others = [d for d in dims if d != time]
    paths = [d for d in others if is_path(array, d) or is_start(array, d)]
    if lead and not any(is_start(array, d) for d in paths):
        paths += [d for d in others if is_time(array, d)]
    return Roles(time, paths, bool(lead))


def _rename_time_and_paths(array: xr.DataArray, dims: tuple[str, ...]) -> xr.DataArray:
    """Lead or time as the time; all dims of realisations and starts as one dim of paths."""
    time, names, _ = roles(array, (POINT, *dims))
    if time not in (None, TIME) and TIME in names:
        array = renamed(array, TIME, "init")
        names = ["init" if d == TIME else d for d in names]
    if time is not None:
        array = renamed(array, time, TIME)
    return _stack_paths(array, names)


def _stack_paths(array: xr.DataArray, names: list[str]) -> xr.DataArray:
    """These dims as one dim of paths."""
    if not names or names == [PATH]:
        return array
    if len(names) == 1:
        return _text_labels(renamed(array, names[0], PATH), names[0])
    labels_by_dim = {
        d: array[d].values if d in array.coords else np.arange(array.sizes[d]) for d in names
    }
    array = array.assign_coords({d: (d, values) for d, values in labels_by_dim.items()})
    # Its own labels become those of the pairs; a coordinate "path" cannot be both.
    array = array.rename({PATH: "realization"}) if PATH in names else array
    names = ["realization" if d == PATH else d for d in names]
    array = array.stack({PATH: names}, create_index=False)
    columns = [_text(array[d].values) for d in names]
    labels = ["/".join(parts) for parts in zip(*columns, strict=True)]
    return array.assign_coords({PATH: labels})


def _text_labels(array: xr.DataArray, name: str) -> xr.DataArray:
    """Paths with labels of text for dates or fractions, which are kept as a coordinate."""
    if PATH not in array.coords:
        return array
    values, attrs = array[PATH].values, array[PATH].attrs
    whole = values.dtype.kind == "f" and np.array_equal(values, np.round(values))
    if values.dtype.kind in "iuUT" or whole or all(isinstance(v, str) for v in values):
        return array
    other_attrs = {k: v for k, v in attrs.items() if k != ORIGINAL}
    kept = {name: (PATH, values, other_attrs)} if name != PATH else {}
    return array.assign_coords({PATH: (PATH, _text(values), attrs), **kept})


def _text(values: np.ndarray) -> list[str]:
    if values.dtype.kind == "M":
        return [str(text) for text in np.datetime_as_string(values, unit="auto")]
    return [getattr(v, "isoformat", v.__str__)() for v in values.tolist()]


def _rename_space(array: xr.DataArray, dims: tuple[str, ...]) -> xr.DataArray:
    """Latitude and longitude as the dims of the domain, on a grid or along ``point``."""
    if POINT in array.dims or _on_grid(array, dims):
        return _rename_coordinates(array, dims) if POINT in array.dims else array
    array = _rename_coordinates(array, dims)
    where = [array[d].dims for d in dims if d in array.coords]
    if len(where) < len(dims) or len(dims) < 2 or len(set(where)) > 1 or where[0] == (POINT,):
        return array
    return (
        _station_points(array, str(where[0][0]))
        if len(where[0]) == 1
        else _flatten_grid(array, dims)
    )


def _on_grid(array: xr.DataArray, dims: tuple[str, ...]) -> bool:
    return all(d in array.dims and (d in array.coords or len(dims) == 1) for d in dims)


def _rename_coordinates(array: xr.DataArray, dims: tuple[str, ...]) -> xr.DataArray:
    """Coordinates of latitude and longitude under the names of the domain."""
    if all(d in array.coords for d in dims):
        return array
    lat, lon = coordinate(array, is_latitude), coordinate(array, is_longitude)
    meant = {"lat": lat, "lon": lon, "y": lat, "x": lon}
    if dims == ("x",):
        meant = {"x": _single_space_dim(array, lat, lon)}
    if not set(dims) <= set(meant) or any(meant[d] is None for d in dims):
        return array
    for d in dims:
        if d in array.dims and d not in array.coords:  # an index that has the name of a place
            array = renamed(array, d, f"{d}{INDEX_SUFFIX}")
    for d in dims:
        array = renamed(array, str(meant[d]), d)
    return array


def _single_space_dim(array: xr.DataArray, lat: str | None, lon: str | None) -> str | None:
    """The longitude or latitude that is the only spatial dim."""
    space = [d for d in array.dims if d not in (PATH, TIME)]
    return str(space[0]) if len(space) == 1 and space[0] in (lat, lon) else None


def _station_points(array: xr.DataArray, station: str) -> xr.DataArray:
    """A dim of stations as ``point``, with their names."""
    names = array[station].values if station in array.coords else None
    attrs = array[station].attrs if station in array.coords else {}
    array = array.drop_vars(station, errors="ignore").rename({station: POINT})
    if names is None:
        return array
    return array.assign_coords(
        {station: (POINT, _station_names(names), {**attrs, LABEL: "station"})}
    )


def _station_names(names: np.ndarray) -> np.ndarray:
    """Names of stations as text, from the bytes and padding of NetCDF too."""
    if names.dtype.kind == "S":
        return np.char.strip(np.char.decode(names, "utf-8", "replace"))
    return np.array([str(name).strip() for name in names.tolist()])


def _flatten_grid(array: xr.DataArray, dims: tuple[str, ...]) -> xr.DataArray:
    """A curvilinear grid as scattered points, with their indices to go back by."""
    axes = [str(d) for d in array[dims[0]].dims]
    if set(axes) & {PATH, TIME}:
        expected, got = "coordinates that do not change with time or path", f"dims {tuple(axes)}"
        fix = "moving observers are not supported: average their values on a grid"
        raise DataError(f"coordinate '{dims[0]}'", expected=expected, got=got, fix=fix)
    indices: dict[str, Any] = {d: _grid_index(array, d, dims) for d in axes}
    array = array.assign_coords(indices).stack({POINT: axes}, create_index=False)
    somewhere = np.all([np.isfinite(array[d].values) for d in dims], axis=0)
    return array if somewhere.all() else array.isel({POINT: somewhere})


def _grid_index(array: xr.DataArray, axis: str, dims: tuple[str, ...]) -> tuple[str, Any, dict]:
    """Coordinate of an axis of the grid: its own, or the count of its entries."""
    if axis in array.coords:
        return axis, array[axis].values, {**array[axis].attrs, LABEL: "index"}
    name = axis.removesuffix(INDEX_SUFFIX)
    old = {ORIGINAL: name} if name in dims and name != axis else {}
    return axis, np.arange(array.sizes[axis]), {**old, LABEL: "index"}


def renamed(array: xr.DataArray, old: str, new: str) -> xr.DataArray:
    """The array with a dim or coordinate renamed, its old name on record."""
    if old == new:
        return array
    if new in array.coords and new not in array.dims:  # such as the 2-D time of a hindcast
        aside = "valid_time" if new == TIME else f"{new}_of_file"
        array = array.drop_vars(aside, errors="ignore").rename({new: aside})
    if new in array.dims:
        fix = "choose a name that is not in use"
        raise DataError(f"rename '{old}'", expected="a free name", got=f"the dim '{new}'", fix=fix)
    array = array.rename({old: new})
    if new not in array.coords:
        return array
    attrs = {ORIGINAL: old, **array[new].attrs}
    return array.assign_coords({new: array[new].assign_attrs(attrs)})

"""Names and layout of canonical fields: ``(path, time, *space)``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import xarray as xr

from spdelaw.domain import VARIABLE
from spdelaw.errors import DataError

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
        fix = _missing_dim(array, missing[0])
        raise DataError(f"dim '{missing[0]}'", expected=expected, got=got, fix=fix)
    extra = [str(dim) for dim in array.dims if dim not in (PATH, TIME, *space)]
    if extra:
        fix = _advice(array, extra[0])
        raise DataError(f"dim '{extra[0]}'", expected=expected, got=got, fix=fix)


def _missing_dim(array: xr.DataArray, dim: str) -> str:
    left = [str(d) for d in array.dims if d not in (PATH, TIME)]
    if dim == VARIABLE:
        return "pass a Dataset with one variable per field, or xr.concat([u, v], 'variable')"
    if dim == POINT or not left:
        return "check which variable was chosen, and its dims"
    if dim == TIME:
        return f'rename the dim that plays its part: data.rename({left[0]}="{TIME}")'
    return (
        f'rename the dim that plays its part: data.rename({left[-1]}="{dim}"), '
        "or, in as_fields, name the spatial dims with dims="
    )


def _advice(array: xr.DataArray, dim: str) -> str:
    if array.sizes[dim] == 1:
        return f'remove it with data.squeeze("{dim}")'
    if dim == VARIABLE:
        return (
            "read a file of several fields with dims=None; fit them with terms by field, or on "
            "sl.Fields(domain); one: data.sel(...)"
        )
    told = f'if its entries are places, give them coordinates: data.assign_coords(lon=("{dim}", '
    told += f'longitudes), lat=("{dim}", latitudes)); '
    if PATH not in array.dims:
        told += f'if they are realisations, data.rename({dim}="{PATH}"); '
    return told + f'if they are layers, fit each, or their mean: data.mean("{dim}")'


def _with_path(array: xr.DataArray) -> xr.DataArray:
    if PATH in array.dims:
        return array
    own_times = array.coords.get(PATH_TIME)
    if own_times is None or own_times.dims != (TIME,):
        return array.expand_dims(PATH)
    array = array.drop_vars(PATH_TIME).expand_dims(PATH)
    return array.assign_coords({PATH_TIME: own_times.variable.expand_dims(PATH)})

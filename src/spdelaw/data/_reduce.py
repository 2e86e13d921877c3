"""From a raw field to one along the domain: selection, means over dims, coarser grids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data._adapt import select as select_variable
from spdelaw.data._layout import TIME
from spdelaw.domain import Places
from spdelaw.errors import DataError, InputError

#: Words by which a coordinate of latitude is known.
LATITUDE_NAMES = ("lat", "latitude")
LATITUDE_UNITS = ("degrees_north", "degree_north", "degree_n", "degrees_n")


def reduce_field(
    data: Any,
    variable: str | None,
    select: Mapping[str, tuple[float, float]],
    average: tuple[str, ...],
    rename: Mapping[str, str],
    coarsen: Mapping[str, int],
) -> Any:
    """Apply the four reductions in this order; missing values are left out of means."""
    if not (variable or select or average or rename or coarsen):
        return data
    array = _array(data, variable, set(rename.values()))
    for dim, (low, high) in select.items():
        array = _between(array, _named(array, dim, rename), low, high)
    for dim in average:
        array = _mean(array, _named(array, dim, rename))
    for old in rename:
        if old in array.dims and is_latitude(array, old):  # known by a name that it will lose
            marked = array[old].assign_attrs(standard_name="latitude")
            array = array.assign_coords({old: marked})
    array = array.rename({old: new for old, new in rename.items() if old in array.dims})
    return _coarser(array, {_named(array, dim, rename): n for dim, n in coarsen.items()})


def _array(data: Any, variable: str | None, dims: set[str]) -> xr.DataArray:
    if isinstance(data, xr.Dataset):
        return select_variable(data, variable, tuple(dims) or ("x",))
    if isinstance(data, xr.DataArray):
        return data
    raise DataError(
        "data", expected="a DataArray or Dataset, whose dims have names", got=type(data).__name__,
        fix="make it one with sl.as_fields(data, times=..., points=...)",
    )  # fmt: skip


def _named(array: xr.DataArray, dim: str, rename: Mapping[str, str]) -> str:
    """The dim under its old name, or under its new one where that was given already."""
    for name in (dim, rename.get(dim, dim)):
        if name in array.dims:
            return name
    raise DataError(
        f"dim '{dim}'", expected=f"one of {', '.join(map(str, array.dims))}", got=repr(dim),
        fix="name dims of the data",
    )  # fmt: skip


def _between(array: xr.DataArray, dim: str, low: float, high: float) -> xr.DataArray:
    if dim not in array.coords:
        raise DataError(
            f"dim '{dim}'", expected="a coordinate to select by", got="none",
            fix=f"data.assign_coords({dim}=values)",
        )  # fmt: skip
    x = array[dim].values
    kept = np.flatnonzero((x >= min(low, high)) & (x <= max(low, high)))
    if not kept.size:
        raise DataError(
            f"select '{dim}'", expected=f"a range within {x.min():g} to {x.max():g}",
            got=f"{low:g} to {high:g}", fix="check the units and the sign of the coordinate",
        )  # fmt: skip
    return array.isel({dim: kept})


def _mean(array: xr.DataArray, dim: str) -> xr.DataArray:
    """Mean over a dim, by area where it is a latitude: a cell is as wide as its cosine."""
    if dim in (TIME, "path"):
        raise InputError(
            "average", expected="spatial dims", got=repr(dim), fix="leave it out of average"
        )
    if not is_latitude(array, dim):
        return array.mean(dim, keep_attrs=True)
    return array.weighted(_widths(array, dim)).mean(dim, keep_attrs=True)


def _widths(array: xr.DataArray, dim: str) -> xr.DataArray:
    """Relative size of cells along a coordinate: the cosine of a latitude, else one."""
    if not is_latitude(array, dim):
        return xr.ones_like(array[dim], dtype=float)
    cosine = np.cos(np.deg2rad(array[dim].values.astype(float)))
    return array[dim].copy(data=cosine.clip(min=0.0))


def cell_areas(fields: xr.DataArray, places: Places) -> np.ndarray:
    """Relative areas of the points of fields; (M,)."""
    area = xr.ones_like(fields.isel(path=0, time=0, drop=True))
    for name in places.coords:
        area = area * _widths(fields, name)
    return np.asarray(places.flatten(area.transpose(*places.dims).values))


def is_latitude(array: xr.DataArray, dim: str) -> bool:
    """Whether a dim is a latitude, by its standard name, units or name."""
    attrs = array[dim].attrs if dim in array.coords else {}
    return (
        attrs.get("standard_name") == "latitude"
        or str(attrs.get("units", "")).lower() in LATITUDE_UNITS
        or dim.lower() in LATITUDE_NAMES
    )


def _coarser(array: xr.DataArray, sizes: Mapping[str, int]) -> xr.DataArray:
    """Means by area of blocks of neighbours; what is left over at the end is dropped."""
    for dim, size in sizes.items():
        n = array.sizes[dim]
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= n:
            raise InputError(
                f"coarsen '{dim}'", expected=f"an integer from 1 to {n}", got=repr(size),
                fix=f"coarsen={{{dim!r}: 2}}",
            )  # fmt: skip
    blocks = {dim: size for dim, size in sizes.items() if size > 1}
    if not blocks:
        return array
    area = xr.ones_like(array, dtype=float)
    for dim in blocks:
        area = area * _widths(array, dim)
    # All dims at once: a mean of means would count the points beside a gap twice.
    seen, weighted = area.where(array.notnull()), (area * array).rename(array.name)
    part, total = (
        whole.assign_attrs(array.attrs).coarsen(blocks, boundary="trim").sum(keep_attrs=True)
        for whole in (seen, weighted)
    )
    return total.copy(data=(total / part.where(part > 0)).data)

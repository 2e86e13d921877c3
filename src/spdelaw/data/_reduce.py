"""From a raw field to one along the domain: selection, means over dims, coarser grids."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data._adapt import select as select_variable
from spdelaw.data._familiar import renamed, with_places
from spdelaw.data._layout import TIME
from spdelaw.data._recognise import is_latitude, is_longitude
from spdelaw.domain import Places
from spdelaw.errors import DataError, InputError


def reduce_field(
    data: Any,
    variable: str | None,
    select: Mapping[str, tuple[float, float]],
    average: tuple[str, ...],
    rename: Mapping[str, str],
    coarsen: Mapping[str, int],
    missing: tuple[float, ...] = (),
) -> Any:
    """Apply the reductions in this order; missing values are left out of means."""
    if not (variable or select or average or rename or coarsen or missing):
        return data
    array = _array(data, variable, set(rename.values()))
    for value in missing:
        array = array.where(~np.isclose(array, value, rtol=1e-6, atol=0.0))
    for dim, (low, high) in select.items():
        array = _between(array, _named(array, dim, rename, coordinates=True), low, high)
    for dim in average:
        array = _mean(array, _named(array, dim, rename))
    for old in rename:
        if old in array.dims and is_latitude(array, old):  # known by a name that it will lose
            marked = array[old].assign_attrs(standard_name="latitude")
            array = array.assign_coords({old: marked})
    for old, new in rename.items():
        if old in array.dims or (old in array.coords and new not in array.coords):
            array = renamed(array, old, new)
    return _coarser(array, {_named(array, dim, rename): n for dim, n in coarsen.items()})


def _array(data: Any, variable: str | None, dims: set[str]) -> xr.DataArray:
    if isinstance(data, xr.Dataset):
        return select_variable(with_places(data), variable, tuple(dims) or ("x",))
    if isinstance(data, xr.DataArray):
        return data
    expected = "a DataArray or Dataset, whose dims have names"
    fix = "make it one with sl.as_fields(data, times=..., points=...)"
    raise DataError("data", expected=expected, got=type(data).__name__, fix=fix)


def _named(
    array: xr.DataArray, dim: str, rename: Mapping[str, str], coordinates: bool = False
) -> str:
    """The dim under its old name, or under its new one where that was given already."""
    known = [str(d) for d in array.dims]
    if coordinates:
        known += [str(n) for n, c in array.coords.items() if c.ndim in (1, 2) and n not in known]
    for name in (dim, rename.get(dim, dim)):
        if name in known:
            return name
    near = difflib.get_close_matches(dim, known, 1)
    fix = f"did you mean {near[0]}?" if near else "name dims of the data"
    raise DataError(f"dim '{dim}'", expected=f"one of {', '.join(known)}", got=repr(dim), fix=fix)


def _between(array: xr.DataArray, name: str, low: float, high: float) -> xr.DataArray:
    """Where a coordinate lies in a range; one number takes the nearest entry."""
    if name not in array.coords:
        fix = f"data.assign_coords({name}=values)"
        raise DataError(f"dim '{name}'", expected="a coordinate to select by", got="none", fix=fix)
    low, high = min(low, high), max(low, high)
    if is_longitude(array, name) and high - low < 360:
        array = _around(array, name, low, high)
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


def _around(array: xr.DataArray, name: str, low: float, high: float) -> xr.DataArray:
    """Longitudes turned into a range: 350 is -10, and the range says which is meant."""
    x = array[name].values
    turned = x + 360.0 * np.ceil((low - x) / 360.0)  # whole turns: 220 stays 220
    inside = (x >= low) & (x <= high)
    again = np.isin(turned, x[inside]) & (x.ndim == 1 and name in array.dims)  # 360 beside 0
    new = np.where(~inside & (turned <= high) & ~again, turned, x)
    if np.array_equal(new, x):
        return array
    array = array.assign_coords({name: array[name].copy(data=new)})
    return array.sortby(name) if name in array.dims else array


def _mean(array: xr.DataArray, dim: str) -> xr.DataArray:
    """Mean over a dim, by area where it is a latitude: a cell is as wide as its cosine."""
    if dim in (TIME, "path"):
        fix = "leave it out of average"
        raise InputError("average", expected="spatial dims", got=repr(dim), fix=fix)
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


def _coarser(array: xr.DataArray, sizes: Mapping[str, int]) -> xr.DataArray:
    """Means by area of blocks of neighbours; what is left over at the end is dropped."""
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
        area = area * _widths(array, dim)
    # All dims at once: a mean of means would count the points beside a gap twice.
    seen, weighted = area.where(array.notnull()), (area * array).rename(array.name)
    part, total = (
        whole.assign_attrs(array.attrs).coarsen(blocks, boundary="trim").sum(keep_attrs=True)
        for whole in (seen, weighted)
    )
    result = total.copy(data=(total / part.where(part > 0)).data)
    result.attrs = dict(array.attrs)  # not those of a coordinate, which weights may bring
    return result

"""The one check of fields that every figure and table makes."""

from __future__ import annotations

from typing import Any

import xarray as xr

from spdelaw.errors import DataError


def as_paths(
    fields: Any, space: tuple[str, ...] | None = None, *, at_least: int = 1
) -> xr.DataArray:
    """Fields as (path, time, *space) with enough paths on common times, or raise `DataError`.

    Args:
        fields: DataArray with these dims in any order.
        space: the spatial dims of a domain; None takes whatever dims there are.
        at_least: how many paths are needed.
    """
    dims = tuple(fields.dims) if isinstance(fields, xr.DataArray) else ()
    space = tuple(str(d) for d in dims if d not in ("path", "time")) if space is None else space
    names = space
    if len(space) > 1 and "point" in dims:
        space = ("point",)
    wanted = ("path", "time", *space)
    if not space or set(dims) != set(wanted):
        expected = f"a DataArray with dims {wanted if space else '(path, time, x)'}"
        got = f"dims {dims}" if dims else type(fields).__name__
        fix = "pass the result of sl.simulate, sl.read or sl.as_fields"
        raise DataError("fields", expected=expected, got=got, fix=fix)
    missing = [d for d in ("time", *names) if d not in fields.coords and d != "point"]
    if missing or "path_time" in fields.coords:
        expected = "coordinates time and space that all paths share"
        got = f"no coordinate {missing[0]}" if missing else "times of their own for each path"
        fix = "fields.assign_coords(...)" if missing else "select paths with common times"
        raise DataError("fields", expected=expected, got=got, fix=fix)
    if fields.sizes["path"] < at_least:
        expected, fix = f"at least {at_least} paths", "pass more paths; a sample moment needs them"
        raise DataError("fields", expected=expected, got=str(fields.sizes["path"]), fix=fix)
    return fields.transpose(*wanted)

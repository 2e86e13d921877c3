"""One path of fields on its own clock."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from spdelaw.errors import DataError, InputError
from spdelaw.report._maps import space_dims


def one_path(what: str, fields: Any, path: int) -> xr.DataArray:
    """The path at a position as (time, *space) with the times it was seen at.

    Args:
        what: name of the argument, for messages.
        fields: DataArray (path, time, x) or (time, x), with or without ``path_time``.
        path: position, from zero.
    """
    dims = set(fields.dims) if isinstance(fields, xr.DataArray) else set()
    space = space_dims(fields) if dims else ()
    labelled = bool(space) and all(d in fields.coords or d == "point" for d in space)
    if "time" not in dims or not labelled:
        expected = "a DataArray with dims (path, time, x) and their coordinates"
        got = f"dims {tuple(fields.dims)}" if dims else type(fields).__name__
        fix = "pass the result of sl.read, law.reconstruct(...)['mean'] or sl.as_fields"
        raise DataError(what, expected=expected, got=got, fix=fix)
    if "path" not in dims:
        return fields.transpose("time", *space)
    if not 0 <= path < fields.sizes["path"]:
        expected = f"a position from 0 to {fields.sizes['path'] - 1}"
        raise InputError("path", expected=expected, got=str(path), fix="pass path=0")
    chosen = fields.isel(path=path).transpose("time", *space)
    if "path_time" not in chosen.coords:
        return chosen
    times = chosen["path_time"].values
    known = np.isfinite(times)
    own = chosen.isel(time=np.flatnonzero(known)).drop_vars("path_time")
    return own.assign_coords(time=times[known])


def moments_of(what: str, result: Any, path: int) -> tuple[xr.DataArray, xr.DataArray]:
    """Mean and standard deviation (time, x) of one path of a reconstruction or forecast."""
    if not (isinstance(result, xr.Dataset) and {"mean", "std"} <= set(result.data_vars)):
        got, fix = type(result).__name__, "pass the result of law.reconstruct or law.forecast"
        raise DataError(what, expected="a Dataset with mean and std", got=got, fix=fix)
    return one_path(what, result["mean"], path), one_path(what, result["std"], path)

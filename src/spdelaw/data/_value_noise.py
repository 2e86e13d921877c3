"""Standard deviations of single values, which travel beside them as a coordinate.

Instruments and retrievals often come with a field of errors. As the coordinate ``observation_std``
of the fields it is cut, split and masked with them, and whoever works on the values finds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data._contract import as_fields
from spdelaw.errors import DataError

#: Name of the coordinate.
OBSERVATION_STD = "observation_std"


def with_value_noise(data: Any, std: Any, dims: Sequence[str], **adapter: Any) -> xr.DataArray:
    """Fields with the standard deviation of each value beside them.

    Args:
        data: fields, as `spdelaw.as_fields` takes them.
        std: standard deviations, a DataArray on the times and points of the data or an array of
            their shape; one record of them serves all paths.
        dims: names of the spatial dims.
        adapter: words of `spdelaw.as_fields`.
    """
    fields = as_fields(data, dims=dims, **adapter).compute()
    if isinstance(std, xr.DataArray):
        own = as_fields(std, dims=dims, time_unit=adapter.get("time_unit"))
    elif isinstance(data, xr.DataArray):
        if np.shape(std) != data.shape:
            raise _wrong(f"the shape of the data, {data.shape}", f"shape {np.shape(std)}")
        own = as_fields(data.copy(data=std), dims=dims, time_unit=adapter.get("time_unit"))
    else:
        own = as_fields(std, dims=dims, **adapter)
    _check_places(fields, own)
    values = np.broadcast_to(own.values, fields.shape)
    return fields.assign_coords({OBSERVATION_STD: (fields.dims, values)})


def value_noise(fields: xr.DataArray) -> xr.DataArray | None:
    """The standard deviations beside fields, in their layout; None where there are none."""
    if OBSERVATION_STD not in fields.coords:
        return None
    std = fields[OBSERVATION_STD].variable.set_dims(dict(fields.sizes)).transpose(*fields.dims)
    known = ~np.isnan(fields.values)
    bad = known & ~(np.isfinite(std.values) & (std.values > 0))
    if bad.any():
        got = f"{int(bad.sum())} of {int(known.sum())} values without one, or with one not above 0"
        raise _wrong("a positive standard deviation for every known value", got)
    bare = fields.drop_vars(OBSERVATION_STD)
    return bare.copy(data=np.where(known, std.values, np.nan))


def check_not_averaged(data: Any, averages: bool) -> None:
    """Refuse to average values that have standard deviations of their own."""
    if averages and isinstance(data, xr.DataArray | xr.Dataset) and OBSERVATION_STD in data.coords:
        raise _wrong("values that are not averaged", "average= or coarsen=")


def _check_places(fields: xr.DataArray, own: xr.DataArray) -> None:
    for dim in fields.dims:
        n, m = fields.sizes[dim], own.sizes.get(dim, 0)
        if m != n and not (dim == "path" and m == 1):
            raise _wrong(f"{n} along '{dim}', as the data have", f"{m}")
    for name, there in fields.coords.items():
        if name == "path" or name not in own.coords or there.dtype.kind != "f":
            continue
        here, size = own[name].values, np.nanmax(np.abs(there.values), initial=0.0)
        if here.shape != there.shape or not np.allclose(
            here, there.values, rtol=0.0, atol=1e-5 * size, equal_nan=True
        ):
            raise _wrong(f"the data's coordinate '{name}'", "another one")


def _wrong(expected: str, got: str) -> DataError:
    fix = "give the standard deviation of each value on the times and points of the data"
    return DataError("observation_noise", expected=expected, got=got, fix=fix)

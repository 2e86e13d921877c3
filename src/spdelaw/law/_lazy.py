"""Results for lazy data: computed block of paths by block of paths when they are asked for.

A path is seen by its own observations alone, so that blocks of paths are independent. Each needs
all its times at once; chunks of paths stay as they are stored. The first path is worked on at once:
it gives the shape, the coordinates and the names of the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import xarray as xr

from spdelaw.data import Observed

#: Of data of some paths, which gives their result.
OfPaths = Callable[[Observed], xr.Dataset]


def in_paths(data: Observed) -> bool:
    """Whether data are lazy, and in several paths."""
    return data.is_lazy and data.n_paths > 1


def by_paths(function: OfPaths, data: Observed) -> xr.Dataset:
    """``function`` of all paths as lazy arrays, in the chunks of paths of the data."""
    import dask
    import dask.array as da

    first = function(data.paths(slice(1)).in_memory())
    empty = data.fields.isel(path=slice(0)).compute()  # no graph of the data travels with each task
    names, shell = list(first), data._replace(values=None, fields=empty)
    call = dask.delayed(functools.partial(_arrays, function, shell), pure=False, traverse=False)
    parts = [(call(block.fields, names), block.n_paths) for block in data.blocks()]
    out = {}
    for name, variable in first.data_vars.items():
        axis, shape = variable.dims.index("path"), variable.shape
        arrays = [
            da.from_delayed(part[name], (*shape[:axis], n, *shape[axis + 1 :]), variable.dtype)
            for part, n in parts
        ]
        out[name] = (variable.dims, da.concatenate(arrays, axis=axis), variable.attrs)
    return xr.Dataset(out, _coordinates(first, data.fields), first.attrs)


def _arrays(function: OfPaths, shell: Observed, fields: xr.DataArray, names: list) -> dict:
    found = function(shell.holding(fields))
    return {name: found[name].values for name in names}


def _coordinates(first: xr.Dataset, data: xr.DataArray) -> dict[Any, Any]:
    """Coordinates of the first path, with those along ``path`` as all data have them."""
    own = {name: c for name, c in first.coords.items() if "path" not in c.dims}
    along = {name: c.variable for name, c in data.coords.items() if c.dims == ("path",)}
    return own | {n: v for n, v in along.items() if n in first.coords}

"""Results for lazy data: computed block of paths by block of paths when they are asked for.

A path is seen by its own observations alone, so that blocks of paths are independent. Each needs
all its times at once; chunks of paths stay as they are stored. The first path is worked on at once:
it gives the shape, the coordinates and the names of the result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xarray as xr

#: Of a function (law, data of some paths) that gives their result.
OfPaths = Callable[[Any], xr.Dataset]


def in_paths(data: Any) -> bool:
    """Whether data are labelled, lazy, and in several paths."""
    if not isinstance(data, xr.DataArray | xr.Dataset) or data.sizes.get("path", 1) < 2:
        return False
    return bool(data.chunks) and "path" in data.dims


def blocks_of(data: Any) -> Iterator[Any]:
    """The data by stored chunks of paths."""
    sizes = data.chunksizes.get("path", (data.sizes["path"],))
    ends = np.cumsum([0, *sizes])
    for first, last in itertools.pairwise(ends):
        yield data.isel(path=slice(int(first), int(last)))


def by_paths(function: OfPaths, data: Any) -> xr.Dataset:
    """``function`` of all paths as lazy arrays, in the chunks of paths of the data."""
    import dask
    import dask.array as da

    first = function(data.isel(path=slice(1)).compute())
    call, blocks = dask.delayed(_arrays, pure=False), list(blocks_of(data))
    own = dask.delayed(function, pure=False, traverse=False)
    parts = [(call(own, block, list(first)), block.sizes["path"]) for block in blocks]
    out = {}
    for name, variable in first.data_vars.items():
        axis, shape = variable.dims.index("path"), variable.shape
        arrays = [
            da.from_delayed(part[name], (*shape[:axis], n, *shape[axis + 1 :]), variable.dtype)
            for part, n in parts
        ]
        out[name] = (variable.dims, da.concatenate(arrays, axis=axis), variable.attrs)
    return xr.Dataset(out, _coordinates(first, data), first.attrs)


def _arrays(function: OfPaths, block: Any, names: list) -> dict:
    found = function(block)
    return {name: found[name].values for name in names}


def _coordinates(first: xr.Dataset, data: Any) -> dict[Any, Any]:
    """Coordinates of the first path, with those along ``path`` as all data have them."""
    own = {name: c for name, c in first.coords.items() if "path" not in c.dims}
    along = {name: c.variable for name, c in data.coords.items() if c.dims == ("path",)}
    labels = along.pop("path", xr.Variable("path", np.arange(data.sizes["path"])))
    return own | {"path": labels} | {n: v for n, v in along.items() if n in first.coords}

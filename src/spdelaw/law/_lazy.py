"""Results for lazy data: computed part by part when they are asked for.

A path is seen by its own observations alone, so that blocks of paths are independent. Each needs
all its times at once; chunks of paths stay as they are stored. The first path is worked on at once:
it gives the shape, the coordinates and the names of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.data import slices_of
from spdelaw.law._rest import same_points
from spdelaw.law._user_units import to_law

if TYPE_CHECKING:
    from spdelaw.law._law import Law

Array = np.ndarray

#: Of data of some paths, and of what all of them share.
OfPaths = Callable[[Any, Any], xr.Dataset]


def in_paths(data: Any) -> bool:
    """Whether data are labelled, lazy, and in several paths."""
    if not isinstance(data, xr.DataArray | xr.Dataset) or data.sizes.get("path", 1) < 2:
        return False
    return bool(data.chunks) and "path" in data.dims


def chunks_of(data: Any, dim: str) -> list[slice]:
    """Stored chunks along a dim."""
    return slices_of(data.chunksizes.get(dim, (data.sizes[dim],)))


def blocks_of(data: Any) -> Iterator[Any]:
    """The data by stored chunks of paths."""
    for part in chunks_of(data, "path"):
        yield data.isel(path=part)


def by_paths(function: OfPaths, data: Any, shared: Any = None) -> xr.Dataset:
    """``function`` of all paths as lazy arrays, in the chunks of paths of the data.

    Args:
        function: of some paths and of ``shared``.
        data: lazy, in several paths.
        shared: the same for all blocks, delayed or not; None where nothing is known of it.
    """
    import dask

    first = function(data.isel(path=slice(1)).compute(), None)
    call, blocks = dask.delayed(_arrays, pure=False), list(blocks_of(data))
    own = dask.delayed(function, pure=False, traverse=False)
    parts = [call(own, block, shared, list(first)) for block in blocks]
    sizes = [block.sizes["path"] for block in blocks]
    return joined(parts, sizes, first, "path", _coordinates(first, data))


def joined(
    parts: Sequence[Any], sizes: Sequence[int], template: xr.Dataset, dim: str, coords: Any
) -> xr.Dataset:
    """Results of parts that follow one another as one Dataset of lazy arrays.

    Args:
        parts: delayed dicts of arrays by name.
        sizes: of each part along the dim.
        template: names, dims, attributes and the other sizes.
        dim: along which the parts follow one another.
        coords: of the result.
    """
    import dask.array as da

    out = {}
    for name, variable in template.data_vars.items():
        axis, shape = variable.dims.index(dim), variable.shape
        arrays = [
            da.from_delayed(part[name], (*shape[:axis], n, *shape[axis + 1 :]), variable.dtype)
            for part, n in zip(parts, sizes, strict=True)
        ]
        out[name] = (variable.dims, da.concatenate(arrays, axis=axis), variable.attrs)
    return xr.Dataset(out, coords, template.attrs)


def seen_by_any(law: Law, data: Any, grid: Any) -> Any:
    """Points that any path sees, delayed; None where the law knows all of them, or is asked to."""
    if grid is not None:
        return None
    import dask

    first = law.domain.places(to_law(law, data.isel(path=slice(1), time=slice(1)), check=False))
    known = same_points(law.points, first.points) < len(law.points)
    if known.all():
        return None
    look = dask.delayed(_seen, pure=False)
    own = dask.delayed(law, pure=False, traverse=False)
    return dask.delayed(np.any, pure=False)([look(own, block) for block in blocks_of(data)], 0)


def _seen(law: Law, block: Any) -> Array:
    fields = law.domain.flatten(to_law(law, block, check=False))
    return ~np.isnan(fields.values).all((0, 1))


def _arrays(function: OfPaths, block: Any, shared: Any, names: list) -> dict:
    found = function(block, shared)
    return {name: found[name].values for name in names}


def _coordinates(first: xr.Dataset, data: Any) -> dict[Any, Any]:
    """Coordinates of the first path, with those along ``path`` as all data have them."""
    own = {name: c for name, c in first.coords.items() if "path" not in c.dims}
    along = {name: c.variable for name, c in data.coords.items() if c.dims == ("path",)}
    labels = along.pop("path", xr.Variable("path", np.arange(data.sizes["path"])))
    return own | {"path": labels} | {n: v for n, v in along.items() if n in first.coords}

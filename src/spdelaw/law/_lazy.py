"""Results for lazy data: computed part by part when they are asked for.

A path is seen by its own observations alone, so that blocks of paths are independent. Each needs
all its times at once; chunks of paths stay as they are stored. The first path is worked on at once:
it gives the shape, the coordinates and the names of the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.data import Observed, check_values
from spdelaw.law._rest import same_points

if TYPE_CHECKING:
    from spdelaw.law._law import Law

Array = np.ndarray

#: Of data of some paths, and of what all of them share.
OfPaths = Callable[[Observed, Any], xr.Dataset]


def in_paths(data: Observed) -> bool:
    """Whether data are lazy, and in several paths."""
    return data.is_lazy and data.n_paths > 1


def by_paths(function: OfPaths, data: Observed, shared: Any = None) -> xr.Dataset:
    """``function`` of all paths as lazy arrays, in the chunks of paths of the data.

    Args:
        function: of some paths and of ``shared``.
        data: lazy, in several paths.
        shared: the same for all blocks, delayed or not; None where nothing is known of it.
    """
    import dask

    empty = data.fields.isel(path=slice(0)).compute()  # no graph of the data travels with each task
    shell = data._replace(values=None, fields=empty)
    first = function(shell.holding(data.fields.isel(path=slice(1)).compute()), None)
    call = dask.delayed(functools.partial(_arrays, function, shell), pure=False, traverse=False)
    blocks = list(data.blocks())
    parts = [call(block.fields, shared, list(first)) for block in blocks]
    sizes = [block.n_paths for block in blocks]
    return joined(parts, sizes, first, "path", _coordinates(first, data.fields))


class Unread:
    """A lazy array that the task which uses it reads by itself.

    As an argument like any other it would be read by a task of its own, and a task that two stages
    share keeps its fields in memory from one stage to the other.
    """

    def __init__(self, array: Any) -> None:
        import dask

        (self._array,) = dask.optimize(array)  # without what else the data consist of

    def read(self) -> Array:
        """The values."""
        return np.asarray(self._array.compute(scheduler="synchronous"))


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


def seen_by_any(law: Law, data: Observed, grid: Any) -> Any:
    """Points that any path sees, delayed; None where the law knows all of them, or is asked to."""
    known = same_points(law.points, data.points) < len(law.points)
    if grid is not None or known.all():
        return None
    import dask

    look, any_of = (dask.delayed(f, pure=False) for f in (_seen, np.any))
    return any_of([look(block.fields) for block in data.blocks()], 0)


def _seen(fields: xr.DataArray) -> Array:
    return ~np.isnan(fields.values).all((0, 1))


def _arrays(
    function: OfPaths, shell: Observed, fields: xr.DataArray, shared: Any, names: list
) -> dict:
    if np.isinf(fields.values).any():
        check_values(fields)
    found = function(shell.holding(fields), shared)
    return {name: found[name].values for name in names}


def _coordinates(first: xr.Dataset, data: xr.DataArray) -> dict[Any, Any]:
    """Coordinates of the first path, with those along ``path`` as all data have them."""
    own = {name: c for name, c in first.coords.items() if "path" not in c.dims}
    along = {name: c.variable for name, c in data.coords.items() if c.dims == ("path",)}
    return own | {n: v for n, v in along.items() if n in first.coords}

"""Results for lazy data, block by block: many paths, or one long record."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.checks import LARGEST_VALUE
from spdelaw.data.clock import to_dates
from spdelaw.data.executors import slices_of
from spdelaw.data.fields import check_values
from spdelaw.data.observed import Observed
from spdelaw.domains.places import Places
from spdelaw.law.observations import (
    ErrorsByMean,
    blocks_of,
    modes_at,
    moments_dataset,
    noisy_state_space,
    spread_factors,
    target,
    times_ahead,
    to_user,
    weights_of,
    with_initial_state,
    write_moments,
)
from spdelaw.law.residuals import same_points
from spdelaw.processes.linear import Linear
from spdelaw.statespace.filter import Smoothed, smooth_states

if TYPE_CHECKING:
    from spdelaw.law.law import Law


# ---------- Results for lazy data with many paths
#
# The posterior of a path depends on its own observations alone, so that blocks of paths are
# independent. Each needs all its times at once; chunks of paths stay as they are stored. The first
# path is computed eagerly: it gives the shape, the coordinates and the names of the result.


Array = np.ndarray

#: Function of the data of some paths, and of a value that all paths share.
OfPaths = Callable[[Observed, Any], xr.Dataset]


def in_paths(data: Observed) -> bool:
    """Whether data are lazy, and in several paths."""
    return data.is_lazy and data.n_paths > 1


def by_paths(function: OfPaths, data: Observed, shared: Any = None) -> xr.Dataset:
    """``function`` of all paths as lazy arrays, in the chunks of paths of the data.

    Args:
        function: of some paths and of ``shared``.
        data: lazy, in several paths.
        shared: the same for all blocks, delayed or not; None without such a value.
    """
    import dask

    empty = data.fields.isel(path=slice(0)).compute()  # no graph of the data travels with each task
    shell = data._replace(values=None, fields=empty)
    first = function(shell.holding(data.fields.isel(path=slice(1)).compute()), None)
    block_task = dask.delayed(
        functools.partial(_result_arrays, function, shell), pure=False, traverse=False
    )
    blocks = list(data.blocks())
    parts = [block_task(block.fields, shared, list(first)) for block in blocks]
    sizes = [block.n_paths for block in blocks]
    return joined(parts, sizes, first, "path", _result_coordinates(first, data.fields))


class Unread:
    """A lazy array that is read inside the task which uses it.

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
            da.from_delayed(block[name], (*shape[:axis], n, *shape[axis + 1 :]), variable.dtype)
            for block, n in zip(parts, sizes, strict=True)
        ]
        out[name] = (variable.dims, da.concatenate(arrays, axis=axis), variable.attrs)
    return xr.Dataset(out, coords, template.attrs)


def observed_by_any(law: Law, data: Observed, grid: Any) -> Any:
    """Points that any path observes, delayed; None where the law or ``grid`` fixes the points."""
    law_observed = same_points(law.points, data.points) < len(law.points)
    if grid is not None or law_observed.all():
        return None
    import dask

    look, any_of = (dask.delayed(f, pure=False) for f in (_observed_points, np.any))
    return any_of([look(block.fields) for block in data.blocks()], 0)


def _observed_points(fields: xr.DataArray) -> Array:
    return ~np.isnan(fields.values).all((0, 1))


def _result_arrays(
    function: OfPaths, shell: Observed, fields: xr.DataArray, shared: Any, names: list
) -> dict:
    if np.isinf(fields.values).any():
        check_values(fields, LARGEST_VALUE)
    result = function(shell.holding(fields), shared)
    return {name: result[name].values for name in names}


def _result_coordinates(first: xr.Dataset, data: xr.DataArray) -> dict[Any, Any]:
    """Coordinates of the first path, with those along ``path`` as all data have them."""
    other_coords = {name: c for name, c in first.coords.items() if "path" not in c.dims}
    along = {name: c.variable for name, c in data.coords.items() if c.dims == ("path",)}
    return other_coords | {n: v for n, v in along.items() if n in first.coords}


# ---------- One long lazy record under a linear law
#
# The rows are collapsed chunk by chunk of times and smoothed here as one chain, which takes
# ``8 T N^2`` bytes for T times and N modes. The moments of the field are lazy: ``Phi c_t`` is
# expanded chunk by chunk, so that no more fields are in memory than are being written.


def is_record(observed: Observed) -> bool:
    """Whether data are one lazy record in chunks of times."""
    one = observed.is_lazy and observed.n_paths == 1 and not observed.has_own_clocks
    return one and len(parts_of(observed)) > 1


def in_parts(law: Law, observed: Observed) -> bool:
    """Whether data are such a record, and the law needs no more of it than its modes.

    A residual with memory couples all times of each point, and nonlinear dynamics are filtered
    from fields in memory: these need the whole record.
    """
    return isinstance(law.dynamics, Linear) and law.residual_memory is None and is_record(observed)


def parts_of(observed: Observed) -> list[slice]:
    """Times of each stored chunk."""
    return slices_of(observed.fields.chunksizes["time"])


def moments_of_record(
    law: Law, record: Observed, grid: Any, dated: bool, later: Array | None = None
) -> xr.Dataset:
    """Smoothed fields of a record as lazy arrays, in the chunks of its times.

    Args:
        law: linear.
        record: one lazy record, less the mean of the law.
        grid: places of the results.
        dated: whether times of the result are dates.
        later: times on the clock of the law, all after the last of the record: fields at these
            instead.
    """
    observed, places = target(law, with_initial_state(law, record, lazy=True), grid)
    sizes = list(record.fields.chunksizes["time"])
    if later is not None:
        observed, sizes = _extended(observed, later), [len(later)]
    (block,) = blocks_of(law, observed, weights_of(law, observed))
    states = smooth_states(block, noisy_state_space(law, observed))
    rows = (block.diagonal > 0).any(1).reshape(1, -1), observed.times
    n = sum(sizes)
    states, times = Smoothed(states.mean[-n:], states.covariance[-n:]), observed.times[-n:]
    labels = record.fields.isel(time=slice(0))
    labels = labels.copy(data=np.zeros(labels.shape))
    expand = functools.partial(_expand_moments, law, places, labels, grid is None, dated, rows)
    template = expand(Smoothed(states.mean[:1], states.covariance[:1]), times[:1])
    parts = _expand_lazily(expand, states, times, slices_of(sizes), list(template.data_vars))
    coords = {name: c for name, c in template.coords.items() if "time" not in c.dims}
    shown = to_dates(times, law.info.get("time", {})) if dated else times
    coords["time"] = xr.Variable("time", shown, template["time"].attrs)
    return joined(parts, sizes, template, "time", coords)


def _extended(observed: Observed, later: Array) -> Observed:
    """The record with unobserved rows at later times."""
    empty = np.full((1, len(later), len(observed.points)), np.nan)
    values = np.concatenate([observed.values, empty], axis=1)
    return observed._replace(values=values, times=np.concatenate([observed.times, later]))


def _expand_moments(
    law: Law,
    places: Places,
    labels: xr.DataArray,
    is_at_data: bool,
    dated: bool,
    rows: tuple[Array, Array],
    states: Smoothed,
    times: Array,
) -> xr.Dataset:
    """Mean and deviation of ``Phi c_t`` in the units and under the names of the data."""
    mean, variance = np.empty((2, 1, len(times), len(places.points)))
    basis, ahead = modes_at(law, places), times_ahead(*rows, times)
    write_moments(states, basis, np.arange(1), mean, variance)
    coords = {"path": labels["path"].values, "time": times}
    # A residual with memory is not lazy.
    variance += law.unresolved_variance + ErrorsByMean.of(law, basis, ahead).variance
    result = moments_dataset(law, mean, variance, places, coords, spread_factors(law, ahead))
    return to_user(law, result, dated, labels if is_at_data else None)


def _expand_lazily(
    expand: Callable, states: Smoothed, times: Array, slices: list[slice], names: list
) -> list[Any]:
    """The arrays of ``expand`` for each slice of times, delayed."""
    import dask

    task = dask.delayed(functools.partial(_arrays_of, expand, names), pure=False, traverse=False)
    return [
        task(dask.delayed(Smoothed(states.mean[rows], states.covariance[rows]), traverse=False),
             times[rows])
        for rows in slices
    ]  # fmt: skip


def _arrays_of(expand: Callable, names: list, states: Smoothed, times: Array) -> dict[str, Array]:
    result = expand(states, times)
    return {name: result[name].values for name in names}

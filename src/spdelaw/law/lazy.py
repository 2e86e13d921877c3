"""Results for lazy data, block by block: many paths, or one long record stitched exactly."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data.clock import to_dates
from spdelaw.data.executors import slices_of
from spdelaw.data.fields import check_values
from spdelaw.data.observed import Observed
from spdelaw.domains.places import Places
from spdelaw.law.observations import (
    floor_of,
    modes_at,
    moments_dataset,
    point_weights,
    shown_places,
    to_user,
    value_sums,
    write_moments,
)
from spdelaw.law.residuals import same_points
from spdelaw.processes.linear import Linear
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.collapse import Block, collapse
from spdelaw.statespace.condense import part_slices
from spdelaw.statespace.filter import Smoothed, smooth_part
from spdelaw.statespace.likelihood import link_of, stitch

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
        check_values(fields)
    result = function(shell.holding(fields), shared)
    return {name: result[name].values for name in names}


def _result_coordinates(first: xr.Dataset, data: xr.DataArray) -> dict[Any, Any]:
    """Coordinates of the first path, with those along ``path`` as all data have them."""
    other_coords = {name: c for name, c in first.coords.items() if "path" not in c.dims}
    along = {name: c.variable for name, c in data.coords.items() if c.dims == ("path",)}
    return other_coords | {n: v for n, v in along.items() if n in first.coords}


# ---------- One long lazy record under a linear law, smoothed in parts
#
# Each part of the times is collapsed by itself and condensed to the states at its ends; a chain
# over the ends passes to every part the information of the others (`stitch`), and the smoother of a
# part then gives the exact moments of the whole record. No task holds more fields than a part, and
# none are kept from one stage to the next: collapsed parts are kept while all of them together are
# small, and else computed again from fields that are read again.


#: Bytes of Gram matrices of all parts up to which they are kept.
KEPT_BYTES = 400e6


def is_record(observed: Observed) -> bool:
    """Whether data are one lazy record in chunks of times."""
    one = observed.is_lazy and observed.n_paths == 1 and not observed.has_own_clocks
    return one and len(parts_of(observed)) > 1


def in_parts(law: Law, observed: Observed) -> bool:
    """Whether data are such a record, and the law one that can be stitched.

    A residual with memory couples all times of each point, and nonlinear dynamics are filtered
    sequentially: these need the whole record.
    """
    return isinstance(law.dynamics, Linear) and law.rest is None and is_record(observed)


def delayed_task(function: Any, **how: Any) -> Any:
    """A delayed function, or a value as one node of the graph that all tasks share."""
    import dask

    return dask.delayed(function, pure=False, **how)


def parts_of(observed: Observed) -> list[slice]:
    """Times of each part: stored chunks, small ones joined."""
    chunks = slices_of(observed.fields.chunksizes["time"])
    chunk_ranges = part_slices(chunks, len(chunks))
    return [
        slice(chunks[chunk_range.start].start, chunks[chunk_range.stop - 1].stop)
        for chunk_range in chunk_ranges
    ]


class RecordContext(NamedTuple):
    """What all tasks of a record share, one node of their graph.

    Attributes:
        law: linear.
        places: of the data.
        basis: all modes there.
        grid: places of the results, None for those of the data.
        dated: whether times of results are dates.
        row: one row of the fields.
    """

    law: Law
    places: Places
    basis: Array
    grid: Places | None
    dated: bool
    row: xr.DataArray


def moments_of_record(
    law: Law, observed: Observed, grid: Any, dated: bool, later: Array | None = None
) -> xr.Dataset:
    """Smoothed fields of a record as lazy arrays, in parts of its times.

    Args:
        law: linear.
        observed: one lazy record, less the mean of the law.
        grid: places of the results.
        dated: whether times of the result are dates.
        later: times on the clock of the law, all after the last of the record: fields at these
            instead, with which the last part goes on.
    """
    places = None if grid is None else law.domain.places(grid)
    row = observed.fields.isel(time=slice(1)).compute()
    shared = RecordContext(law, observed.places, modes_at(law, observed.places), places, dated, row)
    given, slices = delayed_task(shared, traverse=False), parts_of(observed)
    parts, space, messages, observed_mask = _stitch_parts(given, law, observed, slices, later)
    times, sizes = observed.times, [part.stop - part.start for part in slices]
    if later is not None:
        times, sizes, parts, messages = later, [len(later)], parts[-1:], messages[-1:]
    template = _labelled_moments(shared, None, times[:1], None)
    names = list(template.data_vars)
    results = [
        delayed_task(_part_moments)(given, space, part[0], messages[k], observed_mask, n, names)
        for k, (part, n) in enumerate(zip(parts, sizes, strict=True))
    ]
    coords = {name: c for name, c in template.coords.items() if "time" not in c.dims}
    shown = to_dates(times, law.info.get("time", {})) if dated else times
    coords["time"] = xr.Variable("time", shown, template["time"].attrs)
    return joined(results, sizes, template, "time", coords)


def _stitch_parts(
    given: Any, law: Law, observed: Observed, slices: list[slice], later: Array | None
) -> tuple[list[Any], Any, Any, Any]:
    """Delayed: parts, the state space, the message to each, and points that any observes."""
    before = [observed.times[max(part.start - 1, 0) : part.start] for part in slices]
    after = [None] * (len(slices) - 1) + [later]

    def collapsed_parts() -> list[Any]:
        return [
            delayed_task(_collapse_part)(
                given, Unread(observed.values[:, part]), observed.times[part], *ends
            )
            for part, *ends in zip(slices, before, after, strict=True)
        ]

    parts = collapsed_parts()
    sums, observed_masks = ([part[i] for part in parts] for i in (1, 2))
    is_small = 8.0 * len(observed.times) * law.dynamics.n_modes**2 <= KEPT_BYTES
    noise = 1.0
    if law.observation_variance.ndim == 0:
        noise = float(law.observation_variance) + law.unresolved_variance
    space = law.without_preparation_and_mean.state_space.with_noise(noise)
    if noise == 0.0:
        space = delayed_task(_with_variance_floor)(space, sums)
    links = [
        delayed_task(link_of)(part[0], space) for part in (parts if is_small else collapsed_parts())
    ]
    return (
        parts if is_small else collapsed_parts(),
        space,
        delayed_task(stitch)(links),
        delayed_task(np.any)(observed_masks, 0),
    )


# -- tasks ----------------------------------------------------------------------------------------
def _collapse_part(
    shared: RecordContext, unread: Unread, times: Array, before: Array, later: Array | None
) -> tuple[Block, Array, Array]:
    """One part on the modes, its `value_sums`, and the points that it observes.

    The first part begins where the law does, others after a time before.
    """
    law, values = shared.law, unread.read()
    if np.isinf(values).any():
        check_values(xr.DataArray(values, dims=("path", "time", "x")))
    sums, observed_mask = value_sums(values, shared.basis.shape[1]), ~np.isnan(values).all((0, 1))
    ahead = law.times[:1] if not len(before) and times[0] > law.times[0] else np.zeros(0)
    after = np.zeros(0) if later is None else later
    empty = [np.full((1, len(t), len(observed_mask)), np.nan) for t in (ahead, after)]
    values = np.concatenate([empty[0], values, empty[1]], axis=1)
    weights = None
    if law.observation_variance.ndim:
        weights = np.ones(len(observed_mask))
        if observed_mask.any():
            weights[observed_mask] = point_weights(law, shared.places.points[observed_mask])
    clock = np.concatenate([ahead, times, after])
    block = collapse(values, clock, shared.basis, weights).blocks[0]
    return block._replace(before=before[:, None]), sums, observed_mask


def _with_variance_floor(space: StateSpace, sums: list[Array]) -> StateSpace:
    """A law without noise gets the least variance with which the smoother is accurate."""
    return space.with_noise(floor_of(*np.sum(sums, axis=0)))


def _part_moments(
    shared: RecordContext,
    space: StateSpace,
    block: Block,
    message: Any,
    observed_mask: Array,
    n: int,
    names: list,
) -> dict[str, Array]:
    """Mean and deviation at the last n times of a part, in the units of the data."""
    states = smooth_part([block, message], space)
    states = states._replace(mean=states.mean[-n:], covariance=states.covariance[-n:])
    result = _labelled_moments(shared, states, block.times[-n:, 0], observed_mask)
    return {name: result[name].values for name in names}


def _labelled_moments(
    shared: RecordContext, states: Smoothed | None, times: Array, observed_mask: Array | None
) -> xr.Dataset:
    """Moments of the field in the units and under the names of the data; zeros without states."""
    law, places = shared.law, shared.grid or shared.places
    if shared.grid is None and observed_mask is not None:
        places = shown_places(law, places, observed_mask)
    mean, variance = np.zeros((2, 1, len(times), len(places.points)))
    if states is not None:
        write_moments(states, modes_at(law, places), np.arange(1), mean, variance)
    coords = {"path": shared.row["path"].values, "time": times}
    result = moments_dataset(law, mean, variance, places, coords)
    return to_user(law, result, shared.dated, shared.row if shared.grid is None else None)

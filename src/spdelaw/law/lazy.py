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


# ---------- Results for lazy data: computed part by part when they are asked for
#
# A path is seen by its own observations alone, so that blocks of paths are independent. Each needs
# all its times at once; chunks of paths stay as they are stored. The first path is worked on at
# once: it gives the shape, the coordinates and the names of the result.


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


def observed_by_any(law: Law, data: Observed, grid: Any) -> Any:
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


# ---------- One long lazy record under a linear law: smoothed part by part, stitched exactly
#
# Each part of times is collapsed by itself and condensed to the states at its ends; a chain over
# the ends tells every part what the others say of it (`stitch`), and the smoother of
# a part then gives the moments of the whole record. No task holds more fields than a part, and none
# are kept from one stage to the next: what a part is on the modes is kept while all of them
# together are small, and else made again from fields that are read again.


#: Bytes of Gram matrices of all parts up to which they are kept.
KEPT_BYTES = 400e6


def is_record(own: Observed) -> bool:
    """Whether data are one lazy record in chunks of times."""
    one = own.is_lazy and own.n_paths == 1 and not own.has_own_clocks
    return one and len(parts_of(own)) > 1


def in_parts(law: Law, own: Observed) -> bool:
    """Whether data are such a record, and the law one that can be stitched.

    A rest with memory goes along the times of each point, and other dynamics from time to time:
    these need the whole record.
    """
    return isinstance(law.dynamics, Linear) and law.rest is None and is_record(own)


def call(function: Any, **how: Any) -> Any:
    """A task of its own, or one node of the graph for what all tasks share."""
    import dask

    return dask.delayed(function, pure=False, **how)


def parts_of(own: Observed) -> list[slice]:
    """Times of each part: stored chunks, small ones joined."""
    chunks = slices_of(own.fields.chunksizes["time"])
    found = part_slices(chunks, len(chunks))
    return [slice(chunks[part.start].start, chunks[part.stop - 1].stop) for part in found]


class Shared(NamedTuple):
    """What all tasks of a record share, one node of their graph.

    Attributes:
        law: linear.
        places: of the data.
        basis: all modes there.
        grid: places at which results are wanted, None for those of the data.
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
    law: Law, own: Observed, grid: Any, dated: bool, later: Array | None = None
) -> xr.Dataset:
    """Smoothed fields of a record as lazy arrays, in parts of its times.

    Args:
        law: linear.
        own: one lazy record, less the mean of the law.
        grid: where results are wanted.
        dated: whether times of the result are dates.
        later: times on the clock of the law, all after the last of the record: fields at these
            instead, with which the last part goes on.
    """
    places = None if grid is None else law.domain.places(grid)
    row = own.fields.isel(time=slice(1)).compute()
    shared = Shared(law, own.places, modes_at(law, own.places), places, dated, row)
    given, slices = call(shared, traverse=False), parts_of(own)
    parts, space, messages, seen = _stitched(given, law, own, slices, later)
    times, sizes = own.times, [part.stop - part.start for part in slices]
    if later is not None:
        times, sizes, parts, messages = later, [len(later)], parts[-1:], messages[-1:]
    template = _labelled(shared, None, times[:1], None)
    names = list(template.data_vars)
    results = [
        call(_result)(given, space, part[0], messages[k], seen, n, names)
        for k, (part, n) in enumerate(zip(parts, sizes, strict=True))
    ]
    coords = {name: c for name, c in template.coords.items() if "time" not in c.dims}
    shown = to_dates(times, law.info.get("time", {})) if dated else times
    coords["time"] = xr.Variable("time", shown, template["time"].attrs)
    return joined(results, sizes, template, "time", coords)


def _stitched(
    given: Any, law: Law, own: Observed, slices: list[slice], later: Array | None
) -> tuple[list[Any], Any, Any, Any]:
    """Delayed: parts, the state space, what the others say to each, and points that any sees."""
    before = [own.times[max(part.start - 1, 0) : part.start] for part in slices]
    after = [None] * (len(slices) - 1) + [later]

    def made() -> list[Any]:
        return [
            call(_collapsed)(given, Unread(own.values[:, part]), own.times[part], *ends)
            for part, *ends in zip(slices, before, after, strict=True)
        ]

    parts = made()
    sums, seen = ([part[i] for part in parts] for i in (1, 2))
    is_small = 8.0 * len(own.times) * law.dynamics.n_modes**2 <= KEPT_BYTES
    noise = 1.0
    if law.observation_variance.ndim == 0:
        noise = float(law.observation_variance) + law.unresolved_variance
    space = law.without_preparation_and_mean.state_space.with_noise(noise)
    if noise == 0.0:
        space = call(_with_floor)(space, sums)
    links = [call(link_of)(part[0], space) for part in (parts if is_small else made())]
    return parts if is_small else made(), space, call(stitch)(links), call(np.any)(seen, 0)


# -- tasks ----------------------------------------------------------------------------------------
def _collapsed(
    shared: Shared, unread: Unread, times: Array, before: Array, later: Array | None
) -> tuple[Block, Array, Array]:
    """One part on the modes, its `value_sums`, and the points that it sees.

    The first part begins where the law does, others after a time before.
    """
    law, values = shared.law, unread.read()
    if np.isinf(values).any():
        check_values(xr.DataArray(values, dims=("path", "time", "x")))
    sums, known = value_sums(values, shared.basis.shape[1]), ~np.isnan(values).all((0, 1))
    ahead = law.times[:1] if not len(before) and times[0] > law.times[0] else np.zeros(0)
    after = np.zeros(0) if later is None else later
    empty = [np.full((1, len(t), len(known)), np.nan) for t in (ahead, after)]
    values = np.concatenate([empty[0], values, empty[1]], axis=1)
    weights = None
    if law.observation_variance.ndim:
        weights = np.ones(len(known))
        if known.any():
            weights[known] = point_weights(law, shared.places.points[known])
    clock = np.concatenate([ahead, times, after])
    block = collapse(values, clock, shared.basis, weights).blocks[0]
    return block._replace(before=before[:, None]), sums, known


def _with_floor(space: StateSpace, sums: list[Array]) -> StateSpace:
    """A law without noise has the least with which the smoother keeps its digits."""
    return space.with_noise(floor_of(*np.sum(sums, axis=0)))


def _result(
    shared: Shared, space: StateSpace, part: Block, said: Any, seen: Array, n: int, names: list
) -> dict[str, Array]:
    """Mean and deviation at the last n times of a part, in the units of the data."""
    states = smooth_part([part, said], space)
    states = states._replace(mean=states.mean[-n:], covariance=states.covariance[-n:])
    result = _labelled(shared, states, part.times[-n:, 0], seen)
    return {name: result[name].values for name in names}


def _labelled(
    shared: Shared, states: Smoothed | None, times: Array, seen: Array | None
) -> xr.Dataset:
    """Moments of the field in the units and under the names of the data; zeros without states."""
    law, places = shared.law, shared.grid or shared.places
    if shared.grid is None and seen is not None:
        places = shown_places(law, places, seen)
    mean, variance = np.zeros((2, 1, len(times), len(places.points)))
    if states is not None:
        write_moments(states, modes_at(law, places), np.arange(1), mean, variance)
    coords = {"path": shared.row["path"].values, "time": times}
    result = moments_dataset(law, mean, variance, places, coords)
    return to_user(law, result, shared.dated, shared.row if shared.grid is None else None)

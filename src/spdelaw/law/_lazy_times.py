"""One long lazy record under a linear law: smoothed part by part, stitched exactly.

Each part of times is collapsed by itself and condensed to the states at its ends; a chain over the
ends tells every part what the others say of it (`spdelaw.model.stitch`), and the smoother of a part
then gives the moments of the whole record. No task holds more fields than a part, and none are kept
from one stage to the next: what a part is on the modes is kept while all of them together are
small, and else made again from fields that are read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data import Observed, check_values, slices_of, to_dates
from spdelaw.domain import Places
from spdelaw.equation import Linear
from spdelaw.law._lazy import Unread, joined
from spdelaw.law._observations import (
    floor_of,
    modes_at,
    moments_dataset,
    point_weights,
    shown_places,
    value_sums,
)
from spdelaw.law._states import write_moments
from spdelaw.law._user_units import to_user
from spdelaw.model import (
    Block,
    Smoothed,
    StateSpace,
    collapse,
    link_of,
    part_slices,
    smooth_part,
    stitch,
)

if TYPE_CHECKING:
    from spdelaw.law._law import Law

Array = np.ndarray

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
    space = law.bare.state_space.with_noise(noise)
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

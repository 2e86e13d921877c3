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

from spdelaw.data import OBSERVATION_STD
from spdelaw.equation import Linear
from spdelaw.law._lazy import chunks_of, joined
from spdelaw.law._observations import (
    VALUE_NOISE,
    modes_at,
    moments_dataset,
    observe_part,
    unseen_is_nan,
    variance_floor,
)
from spdelaw.law._states import FieldMoments, field_moments
from spdelaw.law._user_units import to_law, to_user
from spdelaw.model import (
    Link,
    Part,
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


def is_record(data: Any) -> bool:
    """Whether data are one lazy record in chunks of times."""
    if not isinstance(data, xr.DataArray) or "time" not in data.dims or not data.chunks:
        return False
    one = data.sizes.get("path", 1) == 1 and "path_time" not in data.coords
    return one and len(parts_of(data)) > 1


def in_parts(law: Law, data: Any) -> bool:
    """Whether data are such a record, and the law one that can be stitched.

    A rest with memory goes along the times of each point, and other dynamics from time to time:
    these need the whole record.
    """
    return isinstance(law.dynamics, Linear) and law.rest is None and is_record(data)


def parts_of(data: xr.DataArray) -> list[slice]:
    """Times of each part: stored chunks, small ones joined."""
    chunks = chunks_of(data, "time")
    found = part_slices(chunks, len(chunks))
    return [slice(chunks[part.start].start, chunks[part.stop - 1].stop) for part in found]


class Facts(NamedTuple):
    """What has to be known of all parts together.

    Attributes:
        seen: points with any value, (M,).
        square, n_values: sum of squares and number of the values.
        few: whether a row sees fewer points than there are modes.
    """

    seen: Array
    square: float
    n_values: int
    few: bool


class Collapsed(NamedTuple):
    """A part on the modes; ``n_ahead`` rows come before the data, where the law begins earlier."""

    part: Part
    n_ahead: int
    facts: Facts


class Record(NamedTuple):
    """Delayed parts of a record, and what the others say of each.

    Attributes:
        law: the law.
        sizes: times of each part.
        parts: `Collapsed`.
        space: the state space that all share.
        said: messages to each part, and the points that any of them sees.
    """

    law: Any
    sizes: list[int]
    parts: list[Any]
    space: Any
    said: Any


def _record(law: Law, data: xr.DataArray, later: Array | None = None) -> Record:
    """The record in parts; ``later`` are times, all missing, that the last part goes on with."""
    slices, own = parts_of(data), _one(law)
    times = data["time"]
    before = [None, *[times[part.start - 1] for part in slices[1:]]]
    last = [None] * (len(slices) - 1) + [later]

    def made() -> list[Any]:
        fresh = read_again(data)
        pieces = [fresh.isel(time=part) for part in slices]
        given = zip(pieces, before, last, strict=True)
        return [_call(_collapsed)(own, *part) for part in given]

    parts = made()
    facts = [part.facts for part in parts]
    is_small = 8.0 * data.sizes["time"] * law.dynamics.n_modes**2 <= KEPT_BYTES
    variance = _variance(law, data)
    space = law.bare.state_space.with_noise(variance)
    if variance == 0.0:
        space = _call(_with_floor)(own, facts)
    links = [_call(_link)(part, space) for part in (parts if is_small else made())]
    said = _call(_said)(links, facts)
    sizes = [part.stop - part.start for part in slices]
    return Record(own, sizes, parts if is_small else made(), space, said)


def read_again(data: xr.DataArray) -> xr.DataArray:
    """The same lazy data by tasks of their own.

    A task that two stages share would keep its fields in memory from one to the other.
    """
    from dask.graph_manipulation import clone

    return data.copy(data=clone(data.data))


def _call(function: Any) -> Any:
    import dask

    return dask.delayed(function, pure=False)


def _one(thing: Any) -> Any:
    """One node of the graph for what all tasks share."""
    import dask

    return dask.delayed(thing, pure=False, traverse=False)


def smoothed_record(law: Law, data: xr.DataArray, grid: Any) -> xr.Dataset:
    """Smoothed fields of a record as lazy arrays, in parts of its times.

    Args:
        law: linear.
        data: one lazy record.
        grid: where results are wanted.
    """
    record, first = _record(law, data), data.isel(time=slice(1)).compute()
    template = _labelled(law, None, first, None, None, grid)
    names = list(template.data_vars)
    results = [
        _call(_smoothed)(record.law, record.space, part, record.said, k, first, grid, names)
        for k, part in enumerate(record.parts)
    ]
    coords = {name: c for name, c in template.coords.items() if "time" not in c.dims}
    coords["time"] = xr.Variable("time", data["time"].values, template["time"].attrs)
    return joined(results, record.sizes, template, "time", coords)


def forecast_record(
    law: Law, data: xr.DataArray, wanted: Array, grid: Any, like: Any
) -> xr.Dataset:
    """Fields at times after a record as lazy arrays: its last part goes on.

    Args:
        law: linear.
        data: one lazy record.
        wanted: times on the clock of the law, all after the last of the record.
        grid: where results are wanted.
        like: dates or numbers, as the times of the result are to be.
    """
    record, first = _record(law, data, wanted), data.isel(time=slice(1)).compute()
    template = _labelled(law, None, first, wanted, None, grid, like)
    given = (record.law, record.space, record.parts[-1], record.said, len(record.parts) - 1)
    result = _call(_forecast)(*given, first, wanted, grid, _one(like), list(template.data_vars))
    return joined([result], [len(wanted)], template, "time", template.coords)


# -- tasks ----------------------------------------------------------------------------------------


def _collapsed(
    law: Law, data: xr.DataArray, before: xr.DataArray | None, later: Array | None
) -> Collapsed:
    """One part on the modes; the first begins where the law does, others after a time before."""
    own = observe_part(law, data, first=before is None)
    last = None
    if before is not None:
        when = ("time", np.atleast_1d(before.values), data["time"].attrs)
        row = data.isel(time=[0]).assign_coords(time=when)
        last = float(to_law(law, row, check=False)["time"].values[0])
    n_ahead = len(own.times) - data.sizes["time"]
    seen, values, times, weights = ~np.isnan(own.values), own.values, own.times, own.weights
    if later is not None:
        empty = np.full((1, len(later), values.shape[-1]), np.nan)
        values, times = np.concatenate([values, empty], axis=1), np.append(times, later)
        if weights is not None and weights.ndim > 1:
            weights = np.concatenate([weights, np.ones_like(empty)], axis=1)
    block = collapse(values, times, own.basis, weights).blocks[0]
    n_seen = seen.sum(-1)
    few = bool(((n_seen > 0) & (n_seen < own.basis.shape[1])).any())
    square = float(np.nansum(own.values**2))
    facts = Facts(seen.any((0, 1)), square, int(n_seen.sum()), few)
    return Collapsed(Part(block, last), n_ahead, facts)


def _variance(law: Law, data: xr.DataArray) -> float:
    """Variance of what the modes leave over, 1 where weights hold it."""
    by_value = law.info.get("observation_noise") == VALUE_NOISE and OBSERVATION_STD in data.coords
    if law.observation_variance.ndim or by_value:
        return 1.0
    return float(law.observation_variance) + law.unresolved_variance


def _with_floor(law: Law, parts: list[Facts]) -> StateSpace:
    """A law without noise has the least with which the smoother keeps its digits."""
    few = any(part.few for part in parts)
    square, n_values = sum(part.square for part in parts), sum(part.n_values for part in parts)
    return law.bare.state_space.with_noise(variance_floor(square, n_values, few))


def _link(found: Collapsed, space: StateSpace) -> Link:
    return link_of(found.part, space)


def _said(links: list[Link], parts: list[Facts]) -> tuple[list, Array]:
    """What each part hears from the others, and the points that any of them sees."""
    return stitch(links), np.any([part.seen for part in parts], axis=0)


def _smoothed(
    law: Law, space: StateSpace, found: Collapsed, said: tuple, k: int, first: xr.DataArray,
    grid: Any, names: list[str],
) -> dict[str, Array]:  # fmt: skip
    """Mean and deviation of one part in the units of the data; their first row has the labels."""
    states = smooth_part([found.part, said[0][k]], space)
    rows = slice(found.n_ahead, None)
    states = states._replace(mean=states.mean[rows], covariance=states.covariance[rows])
    times = found.part.block.times[rows, 0]
    result = _labelled(law, states, first, times, said[1], grid)
    return {name: result[name].values for name in names}


def _forecast(
    law: Law, space: StateSpace, found: Collapsed, said: tuple, k: int, first: xr.DataArray,
    wanted: Array, grid: Any, like: Any, names: list[str],
) -> dict[str, Array]:  # fmt: skip
    """The same at times after the last part."""
    states = smooth_part([found.part, said[0][k]], space)
    rows = slice(-len(wanted), None)
    states = states._replace(mean=states.mean[rows], covariance=states.covariance[rows])
    result = _labelled(law, states, first, wanted, said[1], grid, like)
    return {name: result[name].values for name in names}


def _labelled(
    law: Law, states: Smoothed | None, data: xr.DataArray, times: Array | None, seen: Array | None,
    grid: Any, like: Any = None,
) -> xr.Dataset:  # fmt: skip
    """Moments of the field in the units and under the names of the data; zeros without states."""
    labelled = to_law(law, data, check=False)
    own, fields = law.domain.places(labelled), law.domain.flatten(labelled)
    places = own if grid is None else law.domain.places(grid)
    times = labelled["time"].values if times is None else times
    if states is None:
        moments = FieldMoments(*np.zeros((2, 1, len(times), len(places.points))))
    else:
        moments = field_moments(states, modes_at(law, places))
    coords = {"path": fields["path"].values, "time": times}
    result = moments_dataset(law, moments, places, coords)
    if grid is None and seen is not None:
        result = unseen_is_nan(law, own, seen, result)
    return to_user(law, result, data if like is None else like, fields if grid is None else None)

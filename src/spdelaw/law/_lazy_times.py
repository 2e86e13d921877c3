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
)
from spdelaw.law._states import FieldMoments, field_moments
from spdelaw.law._user_units import to_user
from spdelaw.model import (
    Block,
    Link,
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


def parts_of(own: Observed) -> list[slice]:
    """Times of each part: stored chunks, small ones joined."""
    chunks = slices_of(own.fields.chunksizes["time"])
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

    part: Block
    n_ahead: int
    facts: Facts


class Labels(NamedTuple):
    """What all results of a record share: where they are, and how they are called.

    Attributes:
        law: the law.
        places: where results are wanted.
        as_data: whether these are those of the data.
        dated: whether times are dates.
        row: one row of the fields.
    """

    law: Law
    places: Places
    as_data: bool
    dated: bool
    row: xr.DataArray


class Record(NamedTuple):
    """Delayed parts of a record, and what the others say of each.

    Attributes:
        parts: `Collapsed`.
        sizes: times of each.
        space: the state space that all share.
        said: messages to each part, and the points that any of them sees.
    """

    parts: list[Any]
    sizes: list[int]
    space: Any
    said: Any


def _record(law: Law, own: Observed, later: Array | None = None) -> Record:
    """The record in parts; ``later`` are times, all missing, that the last part goes on with."""
    slices = parts_of(own)
    before = [own.times[max(part.start - 1, 0) : part.start] for part in slices]
    last = [None] * (len(slices) - 1) + [later]
    given = _one((law, own.places, modes_at(law, own.places)))

    def made() -> list[Any]:
        return [
            _call(_collapsed)(given, Unread(own.values[:, part]), own.times[part], *ends)
            for part, *ends in zip(slices, before, last, strict=True)
        ]

    parts = made()
    facts = [part.facts for part in parts]
    is_small = 8.0 * len(own.times) * law.dynamics.n_modes**2 <= KEPT_BYTES
    noise = 1.0
    if law.observation_variance.ndim == 0:
        noise = float(law.observation_variance) + law.unresolved_variance
    space = law.bare.state_space.with_noise(noise)
    if noise == 0.0:
        space = _call(_with_floor)(space, facts)
    links = [_call(_link)(part, space) for part in (parts if is_small else made())]
    said = _call(_said)(links, facts)
    sizes = [part.stop - part.start for part in slices]
    return Record(parts if is_small else made(), sizes, space, said)


def _call(function: Any) -> Any:
    import dask

    return dask.delayed(function, pure=False)


def _one(thing: Any) -> Any:
    """One node of the graph for what all tasks share."""
    import dask

    return dask.delayed(thing, pure=False, traverse=False)


def smoothed_record(law: Law, own: Observed, grid: Any) -> xr.Dataset:
    """Smoothed fields of a record as lazy arrays, in parts of its times.

    Args:
        law: linear.
        own: one lazy record, less the mean of the law.
        grid: where results are wanted.
    """
    record, labels = _record(law, own), _labels(law, own, grid, own.dated)
    template = _labelled(labels, None, own.times[:1], None)
    shell, names = _one(labels), list(template.data_vars)
    results = [
        _call(_result)(shell, record.space, part, record.said, k, names, None)
        for k, part in enumerate(record.parts)
    ]
    coords = {name: c for name, c in template.coords.items() if "time" not in c.dims}
    times = to_dates(own.times, law.info.get("time", {})) if own.dated else own.times
    coords["time"] = xr.Variable("time", times, template["time"].attrs)
    return joined(results, record.sizes, template, "time", coords)


def forecast_record(law: Law, own: Observed, wanted: Array, grid: Any, dated: bool) -> xr.Dataset:
    """Fields at times after a record as lazy arrays: its last part goes on.

    Args:
        law: linear.
        own: one lazy record, less the mean of the law.
        wanted: times on the clock of the law, all after the last of the record.
        grid: where results are wanted.
        dated: whether times of the result are dates.
    """
    record, labels = _record(law, own, wanted), _labels(law, own, grid, dated)
    template = _labelled(labels, None, wanted, None)
    given = (_one(labels), record.space, record.parts[-1], record.said, len(record.parts) - 1)
    result = _call(_result)(*given, list(template.data_vars), len(wanted))
    return joined([result], [len(wanted)], template, "time", template.coords)


def _labels(law: Law, own: Observed, grid: Any, dated: bool) -> Labels:
    places = own.places if grid is None else law.domain.places(grid)
    row = own.fields.isel(time=slice(1)).compute()
    return Labels(law, places, grid is None, dated, row)


# -- tasks ----------------------------------------------------------------------------------------


def _collapsed(
    given: tuple[Law, Places, Array], unread: Unread, times: Array, before: Array,
    later: Array | None,
) -> Collapsed:  # fmt: skip
    """One part on the modes; the first begins where the law does, others after a time before."""
    (law, places, basis), values = given, unread.read()
    seen = ~np.isnan(values)
    if np.isinf(values).any():
        check_values(xr.DataArray(values, dims=("path", "time", "x")))
    n_seen, known, start = seen.sum(-1), seen.any((0, 1)), float(law.times[0])
    few = bool(((n_seen > 0) & (n_seen < basis.shape[1])).any())
    facts = Facts(known, float(np.nansum(values**2)), int(n_seen.sum()), few)
    n_ahead = int(not len(before) and times[0] > start)
    after = np.zeros(0) if later is None else later
    ahead, empty = (np.full((1, n, len(known)), np.nan) for n in (n_ahead, len(after)))
    values = np.concatenate([ahead, values, empty], axis=1)
    times = np.concatenate([[start] * n_ahead, times, after])
    weights = None
    if law.observation_variance.ndim:
        weights = np.ones(len(known))
        if known.any():
            weights[known] = point_weights(law, places.points[known])
    block = collapse(values, times, basis, weights).blocks[0]
    return Collapsed(block._replace(before=before[:, None]), n_ahead, facts)


def _with_floor(space: StateSpace, parts: list[Facts]) -> StateSpace:
    """A law without noise has the least with which the smoother keeps its digits."""
    square, n_values = sum(part.square for part in parts), sum(part.n_values for part in parts)
    return space.with_noise(floor_of(square, n_values, any(part.few for part in parts)))


def _link(found: Collapsed, space: StateSpace) -> Link:
    return link_of(found.part, space)


def _said(links: list[Link], parts: list[Facts]) -> tuple[list, Array]:
    """What each part hears from the others, and the points that any of them sees."""
    return stitch(links), np.any([part.seen for part in parts], axis=0)


def _result(
    labels: Labels, space: StateSpace, found: Collapsed, said: tuple, k: int, names: list[str],
    last: int | None,
) -> dict[str, Array]:  # fmt: skip
    """Mean and deviation of one part, or of its last rows alone, in the units of the data."""
    states = smooth_part([found.part, said[0][k]], space)
    rows = slice(found.n_ahead, None) if last is None else slice(-last, None)
    states = states._replace(mean=states.mean[rows], covariance=states.covariance[rows])
    result = _labelled(labels, states, found.part.times[rows, 0], said[1])
    return {name: result[name].values for name in names}


def _labelled(
    labels: Labels, states: Smoothed | None, times: Array, seen: Array | None
) -> xr.Dataset:
    """Moments of the field in the units and under the names of the data; zeros without states."""
    law, places = labels.law, labels.places
    if labels.as_data and seen is not None:
        places = shown_places(law, places, seen)
    if states is None:
        moments = FieldMoments(*np.zeros((2, 1, len(times), len(places.points))))
    else:
        moments = field_moments(states, modes_at(law, places))
    coords = {"path": labels.row["path"].values, "time": times}
    result = moments_dataset(law, moments, places, coords)
    return to_user(law, result, labels.dated, labels.row if labels.as_data else None)

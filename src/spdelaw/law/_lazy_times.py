"""One long lazy record under a linear law: reconstructed part by part, stitched exactly.

Each part of times is collapsed by itself and condensed to the states at its ends; a chain over the
ends tells every part what the others say of it (`spdelaw.model.stitch`), and the smoother of a part
then gives the moments of the whole record. No task holds more fields than a part.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.equation import Linear
from spdelaw.law._clock import shared_clock
from spdelaw.law._observations import modes_at, moments_dataset, unseen_is_nan
from spdelaw.law._states import field_moments
from spdelaw.law._user_units import to_user
from spdelaw.model import (
    Link,
    Part,
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


def in_parts(law: Law, data: Any) -> bool:
    """Whether data are one lazy record in chunks of times, and the law one that can be stitched.

    Noise per point, a rest with memory, and laws without any noise need all times together.
    """
    if not isinstance(data, xr.DataArray) or "time" not in data.dims or not data.chunks:
        return False
    noise = law.observation_variance
    has_noise = noise.ndim == 0 and float(noise) + law.unresolved_variance > 0.0
    one = data.sizes.get("path", 1) == 1 and "path_time" not in data.coords
    stitched = isinstance(law.dynamics, Linear) and law.rest is None and has_noise
    return one and stitched and len(_parts_of(data)) > 1


def _parts_of(data: xr.DataArray) -> list[slice]:
    """Times of each part: stored chunks, small ones joined."""
    ends = np.cumsum([0, *data.chunksizes.get("time", (data.sizes["time"],))]).tolist()
    chunks = [slice(a, b) for a, b in itertools.pairwise(ends)]
    found = part_slices(chunks, len(chunks))
    return [slice(chunks[part.start].start, chunks[part.stop - 1].stop) for part in found]


class Collapsed(NamedTuple):
    """A part on the modes, with what of it is needed to label its result."""

    part: Part
    seen: Array
    n_ahead: int


def by_times(law: Law, data: xr.DataArray, grid: Any, whole: Any) -> xr.Dataset:
    """Smoothed fields of a record as lazy arrays, in parts of its times.

    Args:
        law: linear, with noise.
        data: one lazy record.
        grid: where results are wanted.
        whole: reconstructs data in memory; two rows of it give names and coordinates.
    """
    import dask
    import dask.array as da

    noise = np.asarray(float(law.observation_variance) + law.unresolved_variance)
    space = law.bare.state_space._replace(observation_variance=noise)
    slices = _parts_of(data)
    call = {f: dask.delayed(f, pure=False) for f in (_collapsed, _link, _said, _result)}
    own = dask.delayed(law, pure=False, traverse=False)
    pieces = [data.isel(time=part) for part in slices]
    before = [None, *[data.isel(time=[part.start - 1]) for part in slices[1:]]]
    parts = [call[_collapsed](own, *pair) for pair in zip(pieces, before, strict=True)]
    said = call[_said]([call[_link](part, space) for part in parts], parts)
    template = whole(data.isel(time=slice(2)).compute())
    names = list(template.data_vars)
    results = [
        (call[_result](own, space, part, said, k, piece, grid, names), piece.sizes["time"])
        for k, (part, piece) in enumerate(zip(parts, pieces, strict=True))
    ]
    out = {}
    for name, variable in template.data_vars.items():
        axis, shape = variable.dims.index("time"), variable.shape
        arrays = [
            da.from_delayed(part[name], (*shape[:axis], n, *shape[axis + 1 :]), variable.dtype)
            for part, n in results
        ]
        out[name] = (variable.dims, da.concatenate(arrays, axis=axis), variable.attrs)
    coords = {name: c for name, c in template.coords.items() if "time" not in c.dims}
    return xr.Dataset(out, coords | {"time": _clock(template, data)}, template.attrs)


def _clock(template: xr.Dataset, data: xr.DataArray) -> xr.Variable:
    return xr.Variable("time", data["time"].values, template["time"].attrs)


def _collapsed(law: Law, data: xr.DataArray, before: xr.DataArray | None) -> Collapsed:
    """One part on the modes; the first begins where the law does."""
    labelled = law.prepared(data)
    places, fields = law.domain.places(labelled), law.domain.flatten(labelled)
    values, times = np.asarray(fields.values), fields["time"].values
    last = None
    if before is None:
        values, times = shared_clock(fields, float(law.times[0]))
    else:
        last = float(law.prepared(before)["time"].values[0])
    block = collapse(values, times, modes_at(law, places)).blocks[0]
    seen = ~np.isnan(values).all((0, 1))
    return Collapsed(Part(block, last), seen, len(times) - data.sizes["time"])


def _link(found: Collapsed, space: StateSpace) -> Link:
    return link_of(found.part, space)


def _said(links: list[Link], parts: list[Collapsed]) -> tuple[list, Array]:
    """What each part hears from the others, and the points that any of them sees."""
    return stitch(links), np.any([part.seen for part in parts], axis=0)


def _result(
    law: Law, space: StateSpace, found: Collapsed, said: tuple, k: int, data: xr.DataArray,
    grid: Any, names: list[str],
) -> dict[str, Array]:  # fmt: skip
    """Mean and deviation of one part in the units of the data."""
    messages, seen = said
    labelled = law.prepared(data)
    own = law.domain.places(labelled)
    places = own if grid is None else law.domain.places(grid)
    states = smooth_part([found.part, messages[k]], space)
    ahead = found.n_ahead
    states = states._replace(mean=states.mean[ahead:], covariance=states.covariance[ahead:])
    moments = field_moments(states, modes_at(law, places))
    coords = {"path": [0], "time": labelled["time"].values}
    result = moments_dataset(law, moments, places, coords)
    if grid is None:
        result = unseen_is_nan(law, own, seen, result)
    result = to_user(law, result, data, law.domain.flatten(labelled) if grid is None else None)
    return {name: result[name].values for name in names}

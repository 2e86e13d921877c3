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

from spdelaw.data import Observed
from spdelaw.domain import Places
from spdelaw.equation import Linear
from spdelaw.law._observations import clock_coords, modes_at, moments_dataset, shown_places
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


def in_parts(law: Law, own: Observed) -> bool:
    """Whether data are one lazy record in chunks of times, and the law one that can be stitched.

    Noise per point, a rest with memory, and laws without any noise need all times together.
    """
    noise = law.observation_variance
    has_noise = noise.ndim == 0 and float(noise) + law.unresolved_variance > 0.0
    one = own.is_lazy and own.n_paths == 1 and not own.has_own_clocks
    stitched = isinstance(law.dynamics, Linear) and law.rest is None and has_noise
    return one and stitched and len(_parts_of(own)) > 1


def _parts_of(own: Observed) -> list[slice]:
    """Times of each part: stored chunks, small ones joined."""
    ends = np.cumsum([0, *own.fields.chunksizes["time"]]).tolist()
    chunks = [slice(a, b) for a, b in itertools.pairwise(ends)]
    found = part_slices(chunks, len(chunks))
    return [slice(chunks[part.start].start, chunks[part.stop - 1].stop) for part in found]


class Collapsed(NamedTuple):
    """A part on the modes, with what of it is needed to label its result."""

    part: Part
    seen: Array
    n_ahead: int


def by_times(law: Law, own: Observed, grid: Any) -> xr.Dataset:
    """Smoothed fields of a record as lazy arrays, in parts of its times.

    Args:
        law: linear, with noise.
        own: one lazy record, less the mean of the law.
        grid: where results are wanted.
    """
    import dask
    import dask.array as da

    noise = np.asarray(float(law.observation_variance) + law.unresolved_variance)
    space = law.bare.state_space._replace(observation_variance=noise)
    places = own.places if grid is None else law.domain.places(grid)
    call = {f: dask.delayed(f, pure=False) for f in (_collapsed, _link, _said, _moments)}
    basis = dask.delayed(modes_at(law, own.places), pure=False)
    shell = dask.delayed((law, places, grid is None), pure=False, traverse=False)
    slices = _parts_of(own)
    start, before = float(law.times[0]), [None, *(own.times[part.start - 1] for part in slices[1:])]
    parts = [
        call[_collapsed](own.values[:, part], own.times[part], last, basis, start)
        for part, last in zip(slices, before, strict=True)
    ]
    said = call[_said]([call[_link](part, space) for part in parts], parts)
    found = [call[_moments](shell, space, part, said, k) for k, part in enumerate(parts)]
    out = {}
    for name in ("mean", "std"):
        shapes = [(1, part.stop - part.start, *places.shape) for part in slices]
        arrays = [da.from_delayed(f[name], s, float) for f, s in zip(found, shapes, strict=True)]
        out[name] = (("path", "time", *places.dims), da.concatenate(arrays, axis=1))
    coords = {**clock_coords(own), **places.coords}
    result = xr.Dataset(out, coords, {"observation_std": float(np.sqrt(law.observation_variance))})
    return to_user(law, result, own.dated, own.fields if grid is None else None)


def _collapsed(
    values: Array, times: Array, last: float | None, basis: Array, start: float
) -> Collapsed:
    """One part on the modes; the first begins where the law does."""
    n_ahead = int(last is None and times[0] > start)
    seen = ~np.isnan(values).all((0, 1))
    if n_ahead:
        values, times = np.insert(values, 0, np.nan, axis=1), np.insert(times, 0, start)
    return Collapsed(Part(collapse(values, times, basis).blocks[0], last), seen, n_ahead)


def _link(found: Collapsed, space: StateSpace) -> Link:
    return link_of(found.part, space)


def _said(links: list[Link], parts: list[Collapsed]) -> tuple[list, Array]:
    """What each part hears from the others, and the points that any of them sees."""
    return stitch(links), np.any([part.seen for part in parts], axis=0)


def _moments(
    shell: tuple[Law, Places, bool], space: StateSpace, found: Collapsed, said: tuple, k: int
) -> dict[str, Array]:
    """Mean and deviation of one part in the units of the law."""
    law, places, as_data = shell
    messages, seen = said
    states = smooth_part([found.part, messages[k]], space)
    ahead = found.n_ahead
    states = states._replace(mean=states.mean[ahead:], covariance=states.covariance[ahead:])
    shown = shown_places(law, places, seen) if as_data else places
    moments = field_moments(states, modes_at(law, shown))
    result = moments_dataset(law, moments, shown, {})
    return {name: result[name].values for name in ("mean", "std")}

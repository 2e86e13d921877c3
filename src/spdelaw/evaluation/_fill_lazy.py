"""Lazy data filled: the first of them choose and learn the law, all are filled when asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data import Observed, Preparation, learn_map
from spdelaw.domain import Places
from spdelaw.evaluation._complete_climate import completed
from spdelaw.evaluation._fill_choice import grid_of
from spdelaw.evaluation._fill_predict import (
    Grid,
    Moments,
    Settings,
    law_fields,
    law_moments,
    with_rest,
)
from spdelaw.evaluation._fill_result import Filled, labelled, named, shown
from spdelaw.evaluation._shared_rest import shared_covariance
from spdelaw.law import Unread, by_paths, joined, parts_of

Array = np.ndarray
#: Fills data in memory.
Fill = Callable[[Observed], Filled]

#: Bytes of the first of lazy data, by which the law that fills all of them is chosen, and rows.
HEAD_BYTES, FEWEST_ROWS = 256e6, 200
#: Neighbours of a part in time, in units of the memory of its rest: beyond, nothing is in common.
REACH = 8.0


class Learned(NamedTuple):
    """What the first of lazy data say about how all of them are filled.

    Attributes:
        filled: those first data.
        left_over: mean square of what the law leaves over at each point, (M,).
        settings: of the rest.
        known: points that they see, (M,).
        how: whether observed values are smoothed, and unseen points filled.
    """

    filled: Filled
    left_over: Array
    settings: Settings
    known: Array
    how: tuple[bool, bool]

    def shown(
        self, values: Array, told: tuple[Array, Array], grid: Grid, known: Array, rows: slice
    ) -> tuple[Array, Array]:
        """Mean and deviation at some times of values (P, T, M), others of which are neighbours.

        ``told`` are mean and variance by the law.
        """
        moments = Moments(*told, np.broadcast_to(self.left_over, values.shape))
        moments = with_rest(moments, values, grid, self.settings)
        moments = Moments(*(part[:, rows] for part in moments))
        return shown(moments, self.filled.trials[0], values[:, rows], *self.how, known)

    def told(self, result: xr.Dataset) -> Filled:
        """All data filled, with what the first of them say about the choice."""
        own = self.filled.data
        told = {name: v for name, v in own.data_vars.items() if name not in result}
        return self.filled._replace(data=result.assign(told).assign_attrs(own.attrs))


def _learned(head: Observed, fill: Fill, how: tuple[bool, bool]) -> Learned:
    """A law chosen and learned by data in memory, with all that fills others like them."""
    found = fill(head)
    told_by, settings = law_moments(found.law, head), found.trials[0].settings
    if settings.weight is not None:
        rest, points = head.fields.values - told_by.mean, grid_of(head).points
        settings = settings._replace(covariance=shared_covariance(rest, points, settings.weight))
    return Learned(found, told_by.rest[0, 0], settings, head.seen_points(), how)


def fill_in_blocks(own: Observed, fill: Fill, how: tuple[bool, bool]) -> Filled:
    """Lazy paths: a law chosen and learned by the first of them fills all, block by block."""
    head = own.paths(slice(max(2, int(HEAD_BYTES * own.n_paths / own.fields.nbytes)))).in_memory()
    learned = _learned(head, fill, how)
    law = learned.filled.law

    def filled(block: Observed, _: Any) -> xr.Dataset:
        values, told = block.fields.values, law_moments(law, block)
        known = learned.known | np.isfinite(values).any((0, 1))
        found = learned.shown(values, told[:2], grid_of(block), known, slice(None))
        return labelled(*found, law, block)

    return learned.told(by_paths(filled, own))


def fill_in_parts(
    own: Observed, fill: Fill, how: tuple[bool, bool], prepare: Preparation | None
) -> Filled:
    """One long lazy record: its beginning chooses and learns the law that fills all of it.

    Climatology and scale are learned from all times. Each part of times is filled from the law's
    moments given the whole record, and from neighbours that may lie in the parts beside it.
    """
    import dask

    rows = max(FEWEST_ROWS, int(HEAD_BYTES * len(own.times) / own.fields.nbytes))
    learned = _learned(own.at_times(slice(rows)).in_memory(), fill, how)
    law = learned.filled.law
    if prepare is not None:
        prepared = completed(learn_map(prepare, own.labelled, own.domain.dims))
        law = dataclasses.replace(law, preparation=prepared)
        learned = learned._replace(filled=learned.filled._replace(law=law))
    found, grid = law_fields(law, own), grid_of(own.at_times(slice(2)))
    look, any_of, call = (dask.delayed(f, pure=False) for f in (_points_of, np.any, _filled_part))
    parts, slices, values = [], parts_of(own), own.values
    known = any_of([look(Unread(values[:, part])) for part in slices], 0)
    shared = dask.delayed(learned, traverse=False)
    for part in slices:
        wide = _with_neighbours(part, own.times, learned.settings)
        told = [found[name].isel(time=wide).data for name in ("mean", "std")]
        clock = grid._replace(times=own.times[None, wide])
        at = slice(part.start - wide.start, part.stop - wide.start)
        parts.append(call(shared, Unread(values[:, wide]), *told, known, clock, at, own.places))
    dims, shape = ("path", "time", *own.places.dims), (1, 1, *own.places.shape)
    template = xr.Dataset({name: (dims, np.zeros(shape)) for name in ("mean", "std")})
    table = joined(parts, [part.stop - part.start for part in slices], template, "time", {})
    return learned.told(named(table, law, own))


def _filled_part(
    learned: Learned, values: Unread, mean: Array, std: Array, known: Array, grid: Grid,
    rows: slice, places: Places,
) -> dict[str, Array]:  # fmt: skip
    """Some rows of a record, filled; the others are their neighbours in time."""
    found = learned.shown(values.read(), (mean, std**2), grid, known, rows)
    return dict(zip(("mean", "std"), map(places.unflatten, found), strict=True))


def _points_of(values: Unread) -> Array:
    """Points that are seen in a part, (M,)."""
    return np.isfinite(values.read()).any((0, 1))


def _with_neighbours(part: slice, times: Array, settings: Settings) -> slice:
    """Rows of a part, and those close enough in time to say something about its rest."""
    if settings.kernel is None:
        return part
    reach = REACH * settings.kernel.time
    first = int(np.searchsorted(times, times[part.start] - reach))
    last = int(np.searchsorted(times, times[part.stop - 1] + reach, side="right"))
    return slice(first, last)

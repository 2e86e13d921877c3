"""Observed data, the one type that every part of the package works on.

Whatever came is made canonical once (`spdelaw.as_fields`), prepared once, flattened once along the
points of its domain, and passed on: to a fit, to the methods of a law, to scores, to reports and to
the shell. Lazy values stay lazy, as blocks of paths and times.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data._blocks import Here, Place
from spdelaw.data._contract import check_values
from spdelaw.data._own_clock import own_clock, own_rows, shared_clock
from spdelaw.data._pieces import Pieces, pieces_of
from spdelaw.data._prepare import Prepared
from spdelaw.data._reading import Reading
from spdelaw.data._survey import Survey, in_time, look, of_both
from spdelaw.data._value_noise import OBSERVATION_STD, value_noise
from spdelaw.domain import AbstractDomain, Places, Products, places_of_fields
from spdelaw.errors import DataError

Array = np.ndarray

#: Bytes of one chunk of the single pass over complete data; it should stay in cache.
CHUNK_BYTES = 4e6
#: Bytes of lazy paths that are looked at here to decide what to do.
FIRST_BYTES = 256e6
#: Squared increments below this share of the squares are rounding.
UNCHANGED = 1e-14


class Observed(NamedTuple):
    """Observed fields as arrays, made by `observe` and by `spdelaw.Law.observe`.

    Any function of the package that takes data takes these as well, and does not prepare or check
    them again. They are not to be changed: every method returns new ones.

    Attributes:
        values: (P, T, M), NaN for missing; lazy where the data are.
        times: (T,), or (P, T) where each path has its own.
        places: the M points, and how results at them are labelled.
        fields: labelled, in several dimensions flat along the dim ``point``. On clocks of their own
            paths may have a row in ``values`` that is not in here, see `rows`.
        domain: where the fields live.
        place: where lazy values are worked on.
        survey: what one pass over them found.
        std: standard deviations of single values where these came beside the fields
            (`spdelaw.data.OBSERVATION_STD`), (P, T, M).
        prepared: what was done to raw data first.
        dated: whether the times came as dates.
        start: time at which all paths start, unobserved where their own first time is later.
        reading: what one pass over the values of the fields found, where they were read.
    """

    values: Any
    times: Array
    places: Places
    fields: xr.DataArray
    domain: AbstractDomain
    place: Place = Here()
    survey: Survey | None = None
    std: Array | None = None
    prepared: Prepared | None = None
    dated: bool = False
    start: float | None = None
    reading: Reading | None = None

    # -- what there is ------------------------------------------------------------------

    @property
    def points(self) -> Array:
        """Where, (M,) or (M, d)."""
        return self.places.points

    @property
    def n_paths(self) -> int:
        """Number of paths."""
        return int(self.fields.sizes["path"])

    @property
    def sizes(self) -> dict[str, int]:
        """Paths, times and points, as a law says what it was learned from."""
        n_times, n_points = int(self.times.shape[-1]), len(self.points)
        return {"n_paths": self.n_paths, "n_times": n_times, "n_points": n_points}

    @property
    def clock(self) -> str:
        """Coordinate of the fields with their times: "time", or "path_time" of each path's own."""
        return "path_time" if self.has_own_clocks else "time"

    @property
    def has_own_clocks(self) -> bool:
        """Whether each path has times of its own."""
        return "path_time" in self.fields.coords

    @property
    def origin(self) -> float:
        """First time of all."""
        return float(self.times.min())

    @property
    def span(self) -> float:
        """Longest time between the first and the last observation of a path."""
        return float(np.ptp(self.times, axis=-1).max())

    @property
    def step(self) -> float:
        """Typical time from one observation to the next."""
        return float(np.median(np.diff(self.times, axis=-1)))

    @property
    def rows(self) -> Array:
        """Where the times of the fields are among those of the values, (P, T)."""
        return own_rows(self.fields, self.times)

    def basis(self, n_modes: int) -> Array:
        """Eigenfunctions at the points, (M, N)."""
        return self.domain.eigenfunctions(self.points, n_modes)

    def products(self, n_modes: int) -> Products:
        """Products of modes at the points, for the Gram matrices of gaps."""
        return self.domain.products(self.points, n_modes)

    @property
    def labelled(self) -> xr.DataArray:
        """The fields with the spatial dims that they came with."""
        if self.places.dims == self.fields.dims[2:] and self.places.inside is None:
            return self.fields
        own, places = self.fields, self.places
        dims = (*own.dims[:2], *places.dims)
        coords: dict[Any, Any] = {k: v for k, v in own.coords.items() if own.dims[2] not in v.dims}
        coords |= {k: (*v, own[k].attrs) for k, v in places.coords.items()}
        if OBSERVATION_STD in own.coords:
            coords[OBSERVATION_STD] = (dims, places.unflatten(own[OBSERVATION_STD].values))
        values = _on_grid(own.data, places)
        return xr.DataArray(values, coords, dims, own.name, own.attrs)

    @property
    def flat(self) -> Observed:
        """The same whose results lie along its points, whatever grid and names the data have."""
        kept = {"path", "time", "path_time", OBSERVATION_STD, *self.domain.dims}
        fields = self.fields.drop_vars([name for name in self.fields.coords if name not in kept])
        places = places_of_fields(fields, self.domain.dims)._replace(points=self.points)
        return self._replace(places=places, fields=fields)

    # -- what is seen -------------------------------------------------------------------

    @property
    def has_gaps(self) -> bool:
        """Whether a value is missing."""
        if self.survey is not None:  # of the fields, without a row at the start
            return self.survey.missing > 0 or self.values.shape[1] > self.fields.sizes["time"]
        return bool(np.isnan(self.values).any())

    @property
    def least_seen(self) -> int:
        """Fewest values of a row that has any; of lazy data what a survey or their first say."""
        if self.survey is not None:
            return self.survey.least
        seen = (~np.isnan(self.first(self.n_paths))).sum(-1)
        return int(seen[seen > 0].min(initial=self.values.shape[-1]))

    def seen_points(self) -> Array:
        """Whether each point is ever seen, (M,); most data tell by their first row."""
        if not np.isnan(np.asarray(self.values[0, 0])).any():
            return np.ones(len(self.points), bool)
        survey = self.surveyed().survey if self.is_lazy else self.survey
        return survey.seen if survey is not None else ~np.isnan(self.values).all((0, 1))

    def _seen_times(self) -> Array:
        """Whether anything is seen at a time, (T,); of lazy data what a survey knows."""
        if self.is_lazy:
            seen = np.ones(len(self.times), bool)
            seen[1:] = True if self.survey is None else self.survey.rows[1:]
            return seen
        seen = ~np.isnan(self.values[0, :, 0])  # most rows are told by one value
        for t in np.flatnonzero(~seen):
            seen[t] = t == 0 or not np.isnan(self.values[:, t]).all()
        return seen

    def check_change(self) -> None:
        """Refuse fields that never change: the widest range over time, path by path."""
        if self.survey is not None:
            check_change(self.survey.change**2, self.survey.largest**2)
            return
        values = np.asarray(self.values)
        most, least = np.fmax.reduce(values, axis=1), np.fmin.reduce(values, axis=1)
        size = np.fmax(np.abs(most), np.abs(least))
        check_change(float(np.nanmax(most - least)) ** 2, float(np.nanmax(size)) ** 2)

    # -- parts of it --------------------------------------------------------------------

    def where_seen(self) -> Observed:
        """The same without points and times that no path ever sees: they do not exist."""
        return self.at_seen_points().at_seen_times()

    def at_seen_points(self) -> Observed:
        """The same without points that no path ever sees, such as land."""
        if not np.isnan(np.asarray(self.values[0, 0])).any():
            return self
        observed = self.surveyed() if self.is_lazy else self
        seen = observed.seen_points()
        return observed if seen.all() or not seen.any() else observed.at_points(seen)

    def at_seen_times(self) -> Observed:
        """The same without times at which nothing is seen, but for the first, where paths start.

        A step over them says the same: transitions are exact for steps of any length.
        """
        if self.times.ndim == 2:
            return self
        seen = self._seen_times()
        if seen.all():
            return self
        survey = None if self.survey is None else self.survey.at_times(seen, self.n_paths)
        own = seen[len(seen) - self.fields.sizes["time"] :]  # without a row at the start
        fields = self.fields.isel(time=own)
        return self._cut((slice(None), seen), times=self.times[seen], fields=fields, survey=survey)

    def at_points(self, keep: Array) -> Observed:
        """The same at some points, (M,) boolean; results have holes at the others."""
        survey = None
        if self.survey is not None and np.array_equal(keep, self.survey.seen):
            survey = self.survey.where_seen
        fields = self.fields.isel({self.fields.dims[-1]: keep})
        return self._cut((..., keep), places=self.places.only(keep), fields=fields, survey=survey)

    def paths(self, which: slice | Array | list[int]) -> Observed:
        """Some of the paths."""
        times = self.times if self.times.ndim == 1 else self.times[which]
        return self._cut(which, times=times, fields=self.fields.isel(path=which))

    def at_times(self, which: slice) -> Observed:
        """Some of the times of every path."""
        times, fields = self.times[..., which], self.fields.isel(time=which)
        return self._cut((slice(None), which), times=times, fields=fields)

    def _cut(self, index: Any, **new: Any) -> Observed:
        """Some of the values, with their deviations where each came with one."""
        std = None if self.std is None else self.std[index]
        return self._with(values=self.values[index], std=std, **new)

    # -- the same with something else ---------------------------------------------------

    def _with(self, **new: Any) -> Observed:
        """Other fields, of which nothing is known that is not said."""
        return self._replace(**{"survey": None, "reading": None, **new})

    def less(self, field: Array) -> Observed:
        """The data less a field over points, times and points, or all; (M,), (T, M), (P, T, M)."""
        values = self.values - field
        own = values
        if values.shape != self.fields.shape:
            own = np.take_along_axis(values, self.rows[..., None], axis=1)
        return self._with(values=values, fields=self.fields.copy(data=own))

    def masked(self, seen: Array) -> Observed:
        """The data of which only some values of the fields are seen, boolean (path, time, M)."""
        return self.holding(self.fields.copy(data=np.where(seen, self.fields.values, np.nan)))

    def starting(self, start: float) -> Observed:
        """Paths from a time on, unobserved where their own first time is later."""
        if not self.origin > start:
            return self
        return self._replace(start=start).holding(self.fields)

    def holding(self, fields: xr.DataArray) -> Observed:
        """The same with other fields at these points, and the arrays that they make."""
        if fields.chunks is not None:  # clocks of their own are completed in memory
            values, times = fields.variable._data, fields[self.clock].values
            if self.start is not None and times.ndim == 1 and times[0] > self.start:
                empty = np.full((values.shape[0], 1, values.shape[2]), np.nan)
                values, times = np.concatenate([empty, values], 1), np.insert(times, 0, self.start)
            return self._replace(values=values, times=times, fields=fields)
        noise = value_noise(fields)
        clock = own_clock if "path_time" in fields.coords else shared_clock
        values, times = clock(fields, self.start)
        std = None if noise is None else clock(noise, self.start)[0]
        return self._with(values=values, times=times, fields=fields, std=std)

    # -- lazy values --------------------------------------------------------------------

    @property
    def is_lazy(self) -> bool:
        """Whether the values are not in the memory of this process."""
        return not isinstance(self.values, np.ndarray)

    @property
    def in_pieces(self) -> bool:
        """Whether passes over the values go piece by piece."""
        return self.times.ndim == 1 and (self.is_lazy or self.place.remote)

    def in_memory(self) -> Observed:
        """The same with all values in the memory of this process, looked at."""
        if not self.is_lazy:
            return self
        fields = self.fields.compute()
        check_values(fields)
        return self._replace(place=Here()).holding(fields)

    def pieces(self) -> Pieces:
        """The values as they are stored."""
        return pieces_of(self.values)

    def blocks(self) -> Iterator[Observed]:
        """Paths as they are stored, block by block."""
        ends = np.cumsum([0, *self.fields.chunksizes.get("path", (self.n_paths,))]).tolist()
        return (self.paths(slice(a, b)) for a, b in itertools.pairwise(ends))

    def chunks(self) -> Iterator[Array]:
        """Whole paths, a few at a time; lazy arrays are loaded chunk by chunk."""
        per_path = 8 * int(np.prod(self.values.shape[1:]))
        step = max(1, int(CHUNK_BYTES / per_path))
        if self.is_lazy:
            step = max(step, int(32e6 / per_path))
        for start in range(0, self.n_paths, step):
            yield np.asarray(self.values[start : start + step])

    def first(self, n_paths: int) -> Array:
        """The first paths here; of lazy ones no more than `FIRST_BYTES`, of a long one its head."""
        if not self.is_lazy:
            return np.asarray(self.values[:n_paths])
        row = 8 * int(self.values.shape[-1])
        n_times = max(2, min(self.values.shape[1], int(FIRST_BYTES / row)))
        n_paths = min(n_paths, max(1, int(FIRST_BYTES / (row * n_times))))
        return np.asarray(self.values[:n_paths, :n_times])

    def surveyed(self) -> Observed:
        """The same with its survey: one pass, or `DataError` for values that are no data."""
        if self.survey is not None:
            return self
        pieces, place = self.pieces(), self.place if self.is_lazy else Here()
        looked = pieces.by_block(place.keep(look, pieces.flat))
        found = place.tree(of_both, place.keep(in_time, looked))
        if found.infinite or found.missing == found.size:
            check_values(self.fields)
        return self._replace(survey=found)


def _on_grid(values: Any, places: Places) -> Any:
    """Values (P, T, M) as (P, T, *shape), lazy ones block by block."""
    if isinstance(values, np.ndarray):
        return places.unflatten(values)
    whole = values.rechunk({2: -1})
    axes, sizes = [2 + i for i in range(len(places.shape))], tuple((n,) for n in places.shape)
    how = {"drop_axis": 2, "new_axis": axes, "chunks": whole.chunks[:2] + sizes, "dtype": float}
    return whole.map_blocks(places.unflatten, **how)


def check_change(increment: float, square: float) -> None:
    """Refuse fields that never change: squared increments against squares, up to rounding."""
    if not increment > UNCHANGED * square:
        expected = "fields that change over time"
        got = "constant fields, to one part in ten million"
        fix = (
            "check the variable; a constant carries no law, and a mean so much larger than the "
            "changes is to be taken off first (anomalies='mean')"
        )
        raise DataError("fields", expected=expected, got=got, fix=fix)

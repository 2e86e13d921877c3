"""What a fit sees: bare arrays from checked fields, with the checks a fit adds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data import (
    Here,
    Pieces,
    Place,
    Survey,
    check_values,
    in_time,
    look,
    of_both,
    pieces_of,
    unchecked_fields,
    value_noise,
)
from spdelaw.domain import AbstractDomain, Products
from spdelaw.errors import DataError, InputError
from spdelaw.law import own_clock

Array = np.ndarray

#: Keywords that `spdelaw.as_fields` takes from a fit.
ADAPTER = ("times", "points", "variable", "time_unit")
#: Bytes of one chunk of the single pass over complete data; it should stay in cache.
CHUNK_BYTES = 4e6
#: Bytes of lazy paths that are looked at here to decide what to do.
FIRST_BYTES = 256e6
#: Squared increments below this share of the squares are rounding.
UNCHANGED = 1e-14


class Observed(NamedTuple):
    """Fields as arrays: values (P, T, M), times (T,) or (P, T), points (M,) or (M, d).

    ``fields`` are the labelled ones, in several dimensions flat along the dim ``point``; ``domain``
    is where they live. Values that are lazy stay so: `pieces` are worked on in ``place``, and
    ``survey`` is what one pass over them found. ``std`` are the standard deviations of single
    values where they are beside the fields (`spdelaw.data.OBSERVATION_STD`), (P, T, M).
    """

    values: Any
    times: Array
    points: Array
    fields: xr.DataArray
    domain: AbstractDomain
    place: Place = Here()
    survey: Survey | None = None
    std: Array | None = None

    def basis(self, n_modes: int) -> Array:
        """Eigenfunctions at the points, (M, N)."""
        return self.domain.eigenfunctions(self.points, n_modes)

    def products(self, n_modes: int) -> Products:
        """Products of modes at the points, for the Gram matrices of gaps."""
        return self.domain.products(self.points, n_modes)

    @property
    def n_paths(self) -> int:
        """Number of paths."""
        return int(self.fields.sizes["path"])

    @property
    def span(self) -> float:
        """Longest time between the first and the last observation of a path."""
        return float(np.ptp(self.times, axis=-1).max())

    def chunks(self) -> Iterator[Array]:
        """Whole paths, a few at a time; lazy arrays are loaded chunk by chunk."""
        per_path = 8 * int(np.prod(self.fields.shape[1:]))
        step = max(1, int(CHUNK_BYTES / per_path))
        if not isinstance(self.values, np.ndarray):
            step = max(step, int(32e6 / per_path))
        for start in range(0, self.n_paths, step):
            yield np.asarray(self.values[start : start + step])

    @property
    def is_lazy(self) -> bool:
        """Whether the values are not in the memory of this process."""
        return not isinstance(self.values, np.ndarray)

    @property
    def in_pieces(self) -> bool:
        """Whether passes over the values go piece by piece."""
        return self.times.ndim == 1 and (self.is_lazy or self.place.remote)

    def pieces(self) -> Pieces:
        """The values as they are stored."""
        return pieces_of(self.values)

    def first(self, n_paths: int) -> Array:
        """The first paths here; of lazy ones no more than `FIRST_BYTES`, of a long one its head."""
        if not self.is_lazy:
            return np.asarray(self.values[:n_paths])
        row = 8 * int(self.values.shape[-1])
        n_times = max(2, min(self.values.shape[1], int(FIRST_BYTES / row)))
        n_paths = min(n_paths, max(1, int(FIRST_BYTES / (row * n_times))))
        return np.asarray(self.values[:n_paths, :n_times])

    def first_times(self, n_times: int) -> Observed:
        """The first times of every path."""
        fields = self.fields.isel(time=slice(n_times))
        values, times = self.values[:, :n_times], self.times[..., :n_times]
        return self._replace(values=values, times=times, fields=fields, survey=None)

    def in_memory(self) -> Observed:
        """The same with all values in the memory of this process, looked at."""
        if not self.is_lazy:
            return self
        check_values(self.fields)
        return self._replace(values=np.asarray(self.values), place=Here())

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

    def seen_points(self) -> Array:
        """Whether each point is ever seen, (M,); most data tell by their first row."""
        if not np.isnan(np.asarray(self.values[0, 0])).any():
            return np.ones(len(self.points), bool)
        survey = self.surveyed().survey if self.is_lazy else self.survey
        return survey.seen if survey is not None else ~np.isnan(self.values).all((0, 1))

    def where_seen(self) -> Observed:
        """The same without points and times that no path ever sees: they do not exist."""
        return self._at_seen_points().at_seen_times()

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
        fields = self.fields.isel(time=seen)
        values, times = self.values[:, seen], self.times[seen]
        std = None if self.std is None else self.std[:, seen]
        return self._replace(values=values, times=times, fields=fields, survey=survey, std=std)

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

    def _at_seen_points(self) -> Observed:
        """The same without points that no path ever sees, such as land."""
        if not np.isnan(np.asarray(self.values[0, 0])).any():
            return self
        observed = self.surveyed() if self.is_lazy else self
        seen = observed.seen_points()
        if seen.all() or not seen.any():
            return observed
        survey = None if observed.survey is None else observed.survey.where_seen
        fields = self.fields.isel({self.fields.dims[-1]: seen})
        values, points = self.values[..., seen], self.points[seen]
        std = None if self.std is None else self.std[..., seen]
        return self._replace(values=values, points=points, fields=fields, survey=survey, std=std)


def observe(
    data: Any, domain: AbstractDomain, place: Place | None = None, **adapter: Any
) -> Observed:
    """Fields of the domain as arrays, or `DataError`; lazy values are left to a later pass."""
    unknown = sorted(set(adapter) - set(ADAPTER))
    if unknown:
        expected = f"a word of the fit, or one of {ADAPTER} for the data"
        fix = "see help(spdelaw.fit) for the words"
        raise InputError("keyword", expected=expected, got=repr(unknown[0]), fix=fix)
    labelled = unchecked_fields(data, dims=domain.dims, **adapter)
    if labelled.chunks is None or "path_time" in labelled.coords:
        check_values(labelled)
    beside = value_noise(labelled)
    fields, noise = domain.flatten(labelled), None if beside is None else domain.flatten(beside)
    points = domain.places(fields).points
    if fields.sizes["time"] < 2:
        fix = "a law is learned from change; observe the field more than once"
        got = str(fields.sizes["time"])
        raise DataError("time", expected="at least two times", got=got, fix=fix)
    if "path_time" in fields.coords:
        std = None if noise is None else own_clock(noise)[0]
        return Observed(*own_clock(fields), points, fields, domain, std=std)
    values = fields.variable._data if fields.chunks is not None else fields.values
    std = None if noise is None else noise.values
    time = fields["time"].values
    return Observed(values, time, points, fields, domain, place or Here(), std=std)


def check_change(increment: float, square: float) -> None:
    """Refuse fields that never change: squared increments against squares, up to rounding."""
    if not increment > UNCHANGED * square:
        expected = "fields that change over time"
        fix = "check the variable; a constant carries no law"
        raise DataError("fields", expected=expected, got="constant fields", fix=fix)


def check_change_with_gaps(observed: Observed) -> None:
    """The same for values with gaps: the widest range over time, path by path."""
    values, survey = observed.values, observed.survey
    if survey is not None:
        check_change(survey.change**2, survey.largest**2)
        return
    most, least = np.fmax.reduce(values, axis=1), np.fmin.reduce(values, axis=1)
    size = np.fmax(np.abs(most), np.abs(least))
    check_change(float(np.nanmax(most - least)) ** 2, float(np.nanmax(size)) ** 2)

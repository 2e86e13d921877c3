"""Observed data: canonical, prepared and surveyed once; the input of every fit."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data.clock import clock_per_path, has_dates, rows_per_path, shared_clock
from spdelaw.data.executors import Executor, LocalExecutor, Pieces, pieces_of
from spdelaw.data.fields import (
    LARGEST_VALUE,
    OBSERVATION_STD,
    check_values,
    unchecked_fields,
    value_noise,
)
from spdelaw.data.prepare import Preparation, Prepared, learn_map
from spdelaw.data.quality import ValueSummary, check_plausible, read_values
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.places import Places, places_of_fields
from spdelaw.domains.products import Products
from spdelaw.errors import DataError, DomainError, InputError

# ---------- Survey: counts and sums of a data set, from one pass over its pieces
#
# A piece is an array (paths, times, points) of a data set that is cut in paths and times. Surveys
# of pieces that follow one another in time join to that of their paths, those of paths to that of
# all.


Array = np.ndarray


class Survey(NamedTuple):
    """Counts and sums over all values.

    Attributes:
        size: values, missing ones included.
        missing: values that are NaN.
        times_seen: number of observations of each point, (M,).
        total: sum of the observations of each point, (M,).
        square: sum of the squares of all observations.
        least: fewest values of a row that has any.
        change: largest range over time of a path at a point.
        largest: largest absolute value.
        rows: whether any path has an observation at a time, (T,).
    """

    size: int
    missing: int
    times_seen: Array
    total: Array
    square: float
    least: int
    change: float
    largest: float
    rows: Array

    @property
    def is_observed(self) -> Array:
        """Points with at least one observation, (M,)."""
        return self.times_seen > 0

    @property
    def where_observed(self) -> Survey:
        """Survey of the same data without points that are never observed."""
        unseen = int((~self.is_observed).sum())
        rows = self.size // len(self.is_observed)
        return self._replace(
            size=self.size - rows * unseen,
            missing=self.missing - rows * unseen,
            times_seen=self.times_seen[self.is_observed],
            total=self.total[self.is_observed],
        )

    def at_times(self, keep: Array, n_paths: int) -> Survey:
        """Survey of the same data without times that have no observation."""
        values = int((~keep).sum()) * n_paths * len(self.is_observed)
        return self._replace(
            size=self.size - values, missing=self.missing - values, rows=self.rows[keep]
        )

    @property
    def has_partial_rows(self) -> bool:
        """Whether some row has values at some of these points and not at others."""
        return self.least < int(self.is_observed.sum())


class PieceSurvey(NamedTuple):
    """A survey of some times, and the extremes of each path and point, (P, M), to go on with."""

    survey: Survey
    most: Array
    least: Array


def survey_piece(piece: Array) -> PieceSurvey:
    """Survey of one piece (P, T, M)."""
    observed = ~np.isnan(piece)
    per_row = observed.sum(-1)
    some = per_row[per_row > 0]
    filled = np.where(observed, piece, 0.0)
    survey = Survey(
        piece.size,
        piece.size - int(per_row.sum()),
        observed.sum((0, 1)),
        filled.sum((0, 1)),
        float(np.vdot(filled, filled)),
        int(some.min()) if some.size else piece.shape[-1],
        0.0,
        float(np.abs(filled).max()),
        per_row.any(0),
    )
    return PieceSurvey(survey, np.fmax.reduce(piece, axis=1), np.fmin.reduce(piece, axis=1))


def join_in_time(pieces: Sequence[PieceSurvey]) -> Survey:
    """Survey of paths from those of their times."""
    most = np.fmax.reduce([piece.most for piece in pieces])
    least = np.fmin.reduce([piece.least for piece in pieces])
    span = most - least
    change = float(np.nanmax(span)) if not np.isnan(span).all() else 0.0
    rows = np.concatenate([piece.survey.rows for piece in pieces])
    surveys = [piece.survey._replace(rows=rows) for piece in pieces]
    return functools.reduce(merge_surveys, surveys)._replace(change=change)


def merge_surveys(a: Survey, b: Survey) -> Survey:
    """Survey of two sets of paths together."""
    join = dict.fromkeys(Survey._fields, operator.add)
    join |= {"least": min, "change": max, "largest": max, "rows": operator.or_}
    return Survey(
        *(join[name](*pair) for name, pair in zip(join, zip(a, b, strict=True), strict=True))
    )


# ---------- Observed data, the one type that every part of the package works on
#
# Input data are made canonical once (`spdelaw.as_fields`), prepared once, flattened once along
# the points of its domain, and passed on: to a fit, to the methods of a law, to scores, to reports
# and to the shell. Lazy values stay lazy, as blocks of paths and times.


#: Bytes of one chunk of the single pass over complete data; it should stay in cache.
CHUNK_BYTES = 4e6
#: Lazy data up to this size are read at once, unless they are fitted on a cluster.
SMALL_BYTES = 256e6
#: Bytes of the first lazy paths that are read to decide on a method.
FIRST_BYTES = 256e6
#: Squared increments below this share of the squares are rounding.
CONSTANT_SHARE = 1e-14


class Observed(NamedTuple):
    """Observed fields as arrays, made by `observe` and by `spdelaw.Law.observe`.

    Functions of the package accept these in place of data, and do not prepare or check them again.
    They are immutable: every method returns new ones.

    Attributes:
        values: (P, T, M), NaN for missing; lazy where the data are.
        times: (T,), or (P, T) where each path has its own.
        places: the M points, and how results at them are labelled.
        fields: labelled, in several dimensions flat along the dim ``point``. On clocks of their own
            paths may have a row in ``values`` that is not in here, see `rows`.
        domain: where the fields live.
        executor: where lazy values are worked on.
        survey: counts and sums from one pass over the values.
        collapsed: rows collapsed on the first modes, for each number of modes of that pass
            (`spdelaw.statespace.condense.condensed`).
        head: values of the first paths, if they were read; see `first`.
        std: standard deviations of single values, if the data have them
            (`spdelaw.data.fields.OBSERVATION_STD`), (P, T, M).
        prepared: preparation of the raw data.
        dated: whether the times were dates.
        start: time at which all paths start; paths that begin later are unobserved before.
        reading: summary of the values of the fields, where they were read.
    """

    values: Any
    times: Array
    places: Places
    fields: xr.DataArray
    domain: AbstractDomain
    executor: Executor = LocalExecutor()
    survey: Survey | None = None
    collapsed: tuple = ()
    head: Array | None = None
    std: Array | None = None
    prepared: Prepared | None = None
    dated: bool = False
    start: float | None = None
    reading: ValueSummary | None = None

    # -- sizes, clock and modes ------------------------------------------------------------------

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
        """Numbers of paths, times and points, as a law records them."""
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
        return rows_per_path(self.fields, self.times)

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
        fields, places = self.fields, self.places
        dims = (*fields.dims[:2], *places.dims)
        coords: dict[Any, Any] = {
            k: v for k, v in fields.coords.items() if fields.dims[2] not in v.dims
        }
        coords |= {k: (*v, fields[k].attrs) for k, v in places.coords.items()}
        if OBSERVATION_STD in fields.coords:
            coords[OBSERVATION_STD] = (dims, places.unflatten(fields[OBSERVATION_STD].values))
        values = _unflatten_blocks(fields.data, places)
        return xr.DataArray(values, coords, dims, fields.name, fields.attrs)

    @property
    def flat(self) -> Observed:
        """The same whose results lie along its points, whatever grid and names the data have."""
        kept = {"path", "time", "path_time", OBSERVATION_STD, *self.domain.dims}
        fields = self.fields.drop_vars([name for name in self.fields.coords if name not in kept])
        places = places_of_fields(fields, self.domain.dims)._replace(points=self.points)
        return self._replace(places=places, fields=fields)

    # -- missing values -------------------------------------------------------------------

    @property
    def has_gaps(self) -> bool:
        """Whether a value is missing."""
        if self.survey is not None:  # of the fields, without a row at the start
            return self.survey.missing > 0 or self.values.shape[1] > self.fields.sizes["time"]
        return bool(np.isnan(self.values).any())

    @property
    def least_observed(self) -> int:
        """Fewest values of a row that has any; of lazy data by a survey or the first paths."""
        if self.survey is not None:
            return self.survey.least
        row_counts = (~np.isnan(self.first(self.n_paths))).sum(-1)
        return int(row_counts[row_counts > 0].min(initial=self.values.shape[-1]))

    def observed_points(self) -> Array:
        """Whether each point is ever observed, (M,); a first row without gaps settles it."""
        if self.survey is None and not np.isnan(np.asarray(self.values[0, 0])).any():
            return np.ones(len(self.points), bool)
        survey = self.surveyed().survey if self.is_lazy else self.survey
        return survey.is_observed if survey is not None else ~np.isnan(self.values).all((0, 1))

    def _observed_times(self) -> Array:
        """Whether there is an observation at a time, (T,); of lazy data by their survey."""
        if self.is_lazy:
            observed = np.ones(len(self.times), bool)
            observed[1:] = True if self.survey is None else self.survey.rows[1:]
            return observed
        observed = ~np.isnan(self.values[0, :, 0])  # one value settles most rows
        for t in np.flatnonzero(~observed):
            observed[t] = t == 0 or not np.isnan(self.values[:, t]).all()
        return observed

    def check_change(self, mean: Array | float = 0.0) -> None:
        """Refuse fields that never change: the widest range over time, relative to a mean, (M,)."""
        if self.survey is not None:
            check_change(self.survey.change**2, self.survey.largest**2)
            return
        values = np.asarray(self.values)
        most, least = np.fmax.reduce(values, axis=1), np.fmin.reduce(values, axis=1)
        size = np.fmax(np.abs(most - mean), np.abs(least - mean))
        check_change(float(np.nanmax(most - least)) ** 2, float(np.nanmax(size)) ** 2)

    # -- subsets --------------------------------------------------------------------

    def where_observed(self) -> Observed:
        """The same without points and times that no path ever observes."""
        return self.at_observed_points().at_observed_times()

    def at_observed_points(self) -> Observed:
        """The same without points that no path ever observes, such as land."""
        if self.survey is None and not np.isnan(np.asarray(self.values[0, 0])).any():
            return self
        observed = self.surveyed() if self.is_lazy else self
        keep = observed.observed_points()
        return observed if keep.all() or not keep.any() else observed.at_points(keep)

    def at_observed_times(self) -> Observed:
        """The same without times that have no observation, but for the first, where paths start.

        A longer step is equivalent: transitions are exact for steps of any length.
        """
        if self.times.ndim == 2:
            return self
        keep = self._observed_times()
        if keep.all():
            return self
        survey = None if self.survey is None else self.survey.at_times(keep, self.n_paths)
        keep_of_fields = keep[len(keep) - self.fields.sizes["time"] :]  # without a row at the start
        fields = self.fields.isel(time=keep_of_fields)
        return self._cut((slice(None), keep), times=self.times[keep], fields=fields, survey=survey)

    def at_points(self, keep: Array) -> Observed:
        """The same at some points, (M,) boolean; results have holes at the others."""
        survey = None
        if self.survey is not None and np.array_equal(keep, self.survey.is_observed):
            survey = self.survey.where_observed
        fields = self.fields.isel({self.fields.dims[-1]: keep})
        new = {"places": self.places.only(keep), "fields": fields, "survey": survey}
        head = None if self.head is None else self.head[..., keep]
        return self._cut((..., keep), head=head, **new)

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

    # -- other values or clocks ---------------------------------------------------

    def _with(self, **new: Any) -> Observed:
        """The same with other fields; what passes over the old ones gave is dropped."""
        dropped = {"survey": None, "collapsed": (), "head": None, "reading": None}
        return self._replace(**dropped | new)

    def less(self, field: Array) -> Observed:
        """The data less a field over points, times and points, or all; (M,), (T, M), (P, T, M)."""
        values = self.values - field
        field_values = values
        if values.shape != self.fields.shape:
            field_values = np.take_along_axis(values, self.rows[..., None], axis=1)
        return self._with(values=values, fields=self.fields.copy(data=field_values))

    def masked(self, observed_mask: Array) -> Observed:
        """The data with all values missing but those of a mask, boolean (path, time, M)."""
        return self.holding(
            self.fields.copy(data=np.where(observed_mask, self.fields.values, np.nan))
        )

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
        clock = clock_per_path if "path_time" in fields.coords else shared_clock
        values, times = clock(fields, self.start)
        std = None if noise is None else clock(noise, self.start)[0]
        return self._with(values=values, times=times, fields=fields, std=std)

    # -- lazy values --------------------------------------------------------------------

    @property
    def is_lazy(self) -> bool:
        """Whether the values are not in the memory of this process."""
        return not isinstance(self.values, np.ndarray)

    @property
    def is_small(self) -> bool:
        """Whether lazy values are few enough to be read at once."""
        return not self.executor.remote and self.fields.nbytes <= SMALL_BYTES

    @property
    def in_pieces(self) -> bool:
        """Whether passes over the values go piece by piece."""
        return self.times.ndim == 1 and (self.is_lazy or self.executor.remote)

    def in_memory(self, *, may_be_empty: bool = False) -> Observed:
        """The same with all values in the memory of this process, checked.

        ``may_be_empty``: whether all of them may be missing, as in one block of many.
        """
        if not self.is_lazy:
            return self
        fields = self.fields.compute()
        if not (may_be_empty and np.isnan(fields.values).all()):
            check_values(fields, LARGEST_VALUE)
        return self._replace(executor=LocalExecutor()).holding(fields)

    def pieces(self) -> Pieces:
        """The values as they are stored."""
        return pieces_of(self.values)

    def blocks(self) -> Iterator[Observed]:
        """Paths as they are stored, block by block."""
        ends = np.cumsum([0, *self.fields.chunksizes.get("path", (self.n_paths,))]).tolist()
        return (self.paths(slice(a, b)) for a, b in itertools.pairwise(ends))

    def first(self, n_paths: int, n_values: float = np.inf) -> Array:
        """The first paths here, of long ones the head.

        Together about ``n_values``, and of lazy ones no more than `FIRST_BYTES`.
        """
        n_values = min(n_values, FIRST_BYTES / 8) if self.is_lazy else n_values
        of_time = self.values.shape[-1]
        n_times = int(max(2, min(self.values.shape[1], n_values / of_time)))
        n_paths = int(min(n_paths, self.n_paths, max(1, n_values / (of_time * n_times))))
        if self.head is not None and np.all(np.less_equal((n_paths, n_times), self.head.shape[:2])):
            return self.head[:n_paths, :n_times]
        return np.asarray(self.values[:n_paths, :n_times])

    def mean_of_points(self) -> Array:
        """Mean of all values of each point, (M,); zero without any."""
        if self.survey is not None:
            return self.survey.total / np.maximum(self.survey.times_seen, 1)
        total, counts = np.zeros((2, len(self.points)))
        for values in self.values:  # path by path, whole records in the memory of a few rows
            for rows in np.array_split(values, max(1, values.nbytes // int(CHUNK_BYTES))):
                missing = np.isnan(rows)
                total += np.where(missing, 0.0, rows).sum(0)
                counts += len(rows) - missing.sum(0)
        return total / np.maximum(counts, 1)

    def surveyed(self) -> Observed:
        """The same with its survey: one pass, or `DataError` for values that are no data."""
        return self if self.survey is not None else self._replace(survey=self.survey_values())

    def survey_values(self) -> Survey:
        """Counts and sums of all values from one pass."""
        pieces, executor = self.pieces(), self.executor if self.is_lazy else LocalExecutor()
        return self.joined_survey(pieces, executor.map_persist(survey_piece, pieces.flat), executor)

    def joined_survey(self, pieces: Pieces, surveys: list, executor: Executor) -> Survey:
        """The survey that those of the pieces make, or `DataError` for values that are no data."""
        blocks = executor.map_persist(join_in_time, pieces.by_block(surveys))
        survey = executor.tree(merge_surveys, blocks)
        if survey.largest > LARGEST_VALUE or survey.missing == survey.size:
            check_values(self.fields, LARGEST_VALUE)
        return survey


def _unflatten_blocks(values: Any, places: Places) -> Any:
    """Values (P, T, M) as (P, T, *shape), lazy ones block by block."""
    if isinstance(values, np.ndarray):
        return places.unflatten(values)
    whole = values.rechunk({2: -1})
    axes, sizes = [2 + i for i in range(len(places.shape))], tuple((n,) for n in places.shape)
    how = {"drop_axis": 2, "new_axis": axes, "chunks": whole.chunks[:2] + sizes, "dtype": float}
    return whole.map_blocks(places.unflatten, **how)


def check_change(increment: float, square: float) -> None:
    """Refuse fields that never change: squared increments against squares, up to rounding."""
    if not increment > CONSTANT_SHARE * square:
        expected = "fields that change over time"
        got = "constant fields, to one part in ten million"
        fix = (
            "check the variable; if its mean is much larger than its changes, subtract the mean "
            "first (anomalies='mean')"
        )
        raise DataError("fields", expected=expected, got=got, fix=fix)


# ---------- From data to `Observed`: made canonical, prepared, flattened and checked once


#: Keywords about data that a fit hands to `spdelaw.as_fields`.
ADAPTER = ("times", "points", "variable", "time_unit")


def observe(
    data: Any,
    domain: AbstractDomain,
    prepare: Preparation | Prepared | None = None,
    *,
    executor: Executor | None = None,
    named: bool = False,
    **adapter: Any,
) -> Observed:
    """Convert and prepare data for a domain.

    Args:
        data: data that `spdelaw.as_fields` accepts, raw data with ``prepare``, or `Observed`.
        domain: where the fields live.
        prepare: a preparation, or one that is already estimated.
        executor: executor for lazy values, which a later pass reads.
        named: whether to read values in memory so that their checksum is known.
        adapter: keywords of `ADAPTER`, for data that are not prepared.
    """
    if isinstance(data, Observed):
        return _reobserve(data, domain, prepare, adapter)
    check_adapter(adapter, "" if prepare is None else "prepare")
    dims, dated = domain.dims, has_dates(adapter.get("times", data))
    if prepare is None:
        labelled = unchecked_fields(data, dims=dims, **adapter)
        if labelled.chunks is None and not named:
            check_values(labelled, LARGEST_VALUE)
        observed = observed_fields(labelled, domain, executor=executor, dated=dated)
        return (
            _with_values_read(observed, labelled) if labelled.chunks is None and named else observed
        )
    if isinstance(prepare, Prepared):
        labelled, prepared = prepare.apply(data, dims), prepare
    else:
        prepared, labelled = prepare.learned(data, dims)
    return observed_fields(labelled, domain, prepared, executor=executor, dated=dated)


def _with_values_read(observed: Observed, labelled: xr.DataArray) -> Observed:
    """The same, its values read: `DataError` where the labelled fields break the contract."""
    reading = read_values([observed.fields.values])
    is_huge = max(reading.high, -reading.low) > LARGEST_VALUE
    is_other = observed.has_own_clocks or observed.fields.size < labelled.size
    if not reading.is_data or is_huge or is_other:
        check_values(labelled, LARGEST_VALUE)
    return observed._replace(reading=reading)


def observed_fields(
    labelled: xr.DataArray,
    domain: AbstractDomain,
    prepared: Prepared | None = None,
    *,
    executor: Executor | None = None,
    dated: bool = False,
) -> Observed:
    """Fields that are canonical, checked and prepared already, on a domain."""
    if OBSERVATION_STD in labelled.coords:
        labelled = labelled.compute()
    places, noise = domain.places(labelled), value_noise(labelled)
    fields, none = domain.flatten(labelled, places), np.zeros(0)
    if noise is not None:
        std = domain.flatten(noise, places).values
        fields = fields.assign_coords({OBSERVATION_STD: (fields.dims, std)})
    observed = Observed(
        none,
        none,
        places,
        fields,
        domain,
        executor or LocalExecutor(),
        prepared=prepared,
        dated=dated,
    )
    return observed.holding(fields)


def check_adapter(adapter: dict[str, Any], source: str = "") -> None:
    """Refuse keywords that are not about data, and all of them with data in final form."""
    unknown = sorted(set(adapter) - set(ADAPTER))
    if unknown:
        expected = f"a keyword of fit, or one of {ADAPTER} for the data"
        fix = "see help(spdelaw.fit)"
        raise InputError("keyword", expected=expected, got=repr(unknown[0]), fix=fix)
    if adapter and source:
        expected = f"no keyword of the data together with {source}"
        fix = "convert the data first: sl.as_fields(data, ...)"
        raise InputError("keyword", expected=expected, got=repr(next(iter(adapter))), fix=fix)


def _reobserve(
    data: Observed, domain: AbstractDomain, prepare: Any, adapter: dict[str, Any]
) -> Observed:
    """Data that were observed before, on another domain or prepared now, where these differ."""
    check_adapter(adapter, "observed data")
    if data.domain.dims != domain.dims:
        fix = "observe the data again: spdelaw.data.observe(data, domain)"
        raise DomainError("data", expected=f"data on {domain}", got=str(data.domain), fix=fix)
    prepared, labelled = data.prepared, data.labelled
    if prepare is None or (prepared is not None and prepared.is_by(prepare)):
        if data.domain == domain:
            return data
    else:
        settings = prepare.how if isinstance(prepare, Prepared) else prepare
        if prepared is not None or settings.reduces:
            expected, fix = "raw data, or data prepared in this way", "pass the raw data"
            got = "data that were prepared otherwise" if prepared else "data that were not reduced"
            raise InputError("data", expected=expected, got=got, fix=fix)
        prepared = prepare
        if isinstance(prepare, Preparation):
            prepared = learn_map(prepare, labelled, domain.dims)
        labelled = prepared.transform(prepared.align(labelled), domain.dims)
    return observed_fields(labelled, domain, prepared, executor=data.executor, dated=data.dated)


def check_times(observed: Observed) -> Observed:
    """The data, or `DataError` where nothing can change."""
    if observed.fields.sizes["time"] < 2:
        fix = "a law describes changes in time; provide several times"
        got = str(observed.fields.sizes["time"])
        raise DataError("time", expected="at least two times", got=got, fix=fix)
    return observed


def check_not_filled(observed: Observed) -> None:
    """Refuse undeclared fills in data in memory that no preparation has checked."""
    if observed.prepared is None and not observed.is_lazy:
        check_plausible(observed.fields, observed.reading)

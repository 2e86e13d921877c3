"""What people do to a field before they model it, on record and undone on output.

A raw field is reduced (selected, averaged, coarsened), then made stationary by an affine map
at each point,

    y(t, x) = (X(t, x) - D(t) B(x)) / s(x),

with D the calendar months, harmonics of the year or a straight line in time, B by least squares
and s a standard deviation. Forecasts go back through ``X = D B + s y``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data._clock import on_clock, to_dates
from spdelaw.data._contract import as_fields
from spdelaw.data._reduce import reduce_field
from spdelaw.errors import DataError, InputError

Array = np.ndarray

SEASONS = (None, "month", "dayofyear")
SCALES = (None, "point", "whole")
#: Harmonics of the year that a climatology by day has: twelve months are no finer.
HARMONICS = 3
DAYS_OF_YEAR = 365.2425


@dataclasses.dataclass(frozen=True)
class Preparation:
    """How to turn raw data into the fields of a fit.

    Pass it to `spdelaw.fit` as ``prepare=``. The law keeps it with all that it learned from the
    data, applies it to new data and undoes it on output.

    Args:
        variable: of a Dataset.
        select: ranges to keep, such as ``{"latitude": (-2, 2), "longitude": (150, 270)}``.
        average: dims to average over, latitudes by area.
        rename: names of the data to names of the domain, such as ``{"longitude": "x"}``.
        coarsen: neighbours to average, such as ``{"x": 4}``.
        anomalies: "month" subtracts the mean of each calendar month, "dayofyear" the mean and
            three harmonics of the year; both need dates.
        detrend: subtract a straight line in time at each point.
        standardise: divide by the standard deviation, of each "point" or of the "whole".
        time_unit: unit that dates are counted in, "days" by default.

    Example:
        >>> import spdelaw as sl
        >>> raw = sl.datasets.equatorial_pacific()
        >>> how = sl.Preparation(average="latitude", rename={"longitude": "x"}, anomalies="month")
        >>> anomalies = how.learn(raw).apply(raw)
        >>> dict(anomalies.sizes), round(float(raw.mean())), bool(abs(anomalies.mean()) < 1e-9)
        ({'path': 1, 'time': 54, 'x': 145}, 300, True)
    """

    variable: str | None = None
    select: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    average: tuple[str, ...] = ()
    rename: Mapping[str, str] = dataclasses.field(default_factory=dict)
    coarsen: Mapping[str, int] = dataclasses.field(default_factory=dict)
    anomalies: str | None = None
    detrend: bool = False
    standardise: str | None = None
    time_unit: str | None = None

    def __post_init__(self) -> None:
        """Check the words."""
        for name, words in (("anomalies", SEASONS), ("standardise", SCALES)):
            if getattr(self, name) not in words:
                raise InputError(
                    name, expected=f"one of {words}", got=repr(getattr(self, name)),
                    fix=f"pass {name}={words[1]!r}, or leave it out",
                )  # fmt: skip
        if not isinstance(self.detrend, bool):
            raise InputError(
                "detrend", expected="True or False", got=repr(self.detrend), fix="detrend=True"
            )
        average: Any = self.average
        names = (average,) if isinstance(average, str) else tuple(average)
        object.__setattr__(self, "average", names)
        ranges = {k: (float(low), float(high)) for k, (low, high) in dict(self.select).items()}
        object.__setattr__(self, "select", ranges)

    @property
    def is_affine(self) -> bool:
        """Whether values change, and not only which of them are taken."""
        return bool(self.anomalies or self.detrend or self.standardise)

    def reduce(self, data: Any) -> Any:
        """Raw data selected, averaged, renamed and coarsened."""
        return reduce_field(
            data, self.variable, self.select, self.average, self.rename, self.coarsen
        )

    def learn(self, data: Any, dims: tuple[str, ...] = ("x",)) -> Prepared:
        """Estimate climatology, trend and scale from data."""
        fields = as_fields(self.reduce(data), dims=dims, time_unit=self.time_unit)
        return learn_map(self, fields)

    def reduce_dataset(self, dataset: xr.Dataset) -> xr.Dataset:
        """The data set with its dims cut to the ranges of ``select``."""
        for dim, (low, high) in self.select.items():
            if dim not in dataset.coords or dataset[dim].dims != (dim,):
                raise DataError(
                    f"select '{dim}'", expected=f"one of {', '.join(map(str, dataset.dims))}",
                    got=repr(dim), fix="name a dim that has a coordinate",
                )  # fmt: skip
            x = dataset[dim].values
            dataset = dataset.isel({dim: (x >= min(low, high)) & (x <= max(low, high))})
        return dataset

    def to_dict(self) -> dict[str, Any]:
        """Plain types for a file."""
        plain = dataclasses.asdict(self)
        return plain | {"average": list(self.average),
                        "select": {k: list(v) for k, v in self.select.items()}}  # fmt: skip

    def in_words(self) -> list[str]:
        """What was done, a phrase each, in order."""
        words = [f"{dim} from {low:g} to {high:g}" for dim, (low, high) in self.select.items()]
        words += [f"mean over {dim}" for dim in self.average]
        words += [f"mean of {size} neighbours in {dim}" for dim, size in self.coarsen.items()]
        season = {"month": "calendar month", "dayofyear": "day of the year"}
        if self.anomalies:
            words.append(f"anomalies against the mean of each {season[self.anomalies]}")
        words += ["linear trend removed"] if self.detrend else []
        words += [f"standardised by {self.standardise}"] if self.standardise else []
        return words


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """A preparation with the numbers it learned.

    Attributes:
        how: the settings.
        coefficients: B, (n_columns, n_points); NaN at points that were never seen.
        scale: s, (n_points,).
        points: where, (n_points,).
        clock: attributes ``units`` and ``calendar`` of the times.
        middle: time at which the line in time is zero, and its unit length.
    """

    how: Preparation
    coefficients: Array
    scale: Array
    points: Array
    clock: dict[str, Any]
    middle: tuple[float, float]

    def apply(self, data: Any, dims: tuple[str, ...] = ("x",)) -> xr.DataArray:
        """Fields ready for the model: reduced, on the clock of the law, offset and scale off."""
        fields = self.align(as_fields(self.how.reduce(data), dims=dims))
        if not self.how.is_affine:
            return fields
        offset, scale = self.affine(fields["time"].values, fields[dims[0]].values)
        return fields.copy(data=(fields.values - offset) / scale)

    def align(self, fields: xr.DataArray) -> xr.DataArray:
        """Fields with times counted as those of the data that the map was learned from."""
        if "path_time" in fields.coords and self.how.is_affine:
            raise DataError(
                "data", expected="one clock for all paths", got="times of each path's own",
                fix="prepare the paths yourself, and leave prepare out",
            )  # fmt: skip
        return on_clock(fields, self.clock)

    def affine(self, times: Array, points: Array) -> tuple[Array, Array]:
        """Offset (T, M) and scale (M,) at times and points."""
        if len(points) != len(self.points) or not np.allclose(points, self.points):
            raise DataError(
                "points", expected=f"the {len(self.points)} points the preparation was learned at",
                got=f"{len(points)} points", fix="use the grid of the fit",
            )  # fmt: skip
        design = design_matrix(self.how, times, self.clock, self.middle)
        return design @ self.coefficients, self.scale


def learn_map(how: Preparation, fields: xr.DataArray) -> Prepared:
    """Least squares of each point on the design, then the scale of what is left."""
    times = fields["time"].values
    points = fields[fields.dims[-1]].values
    clock = {k: fields["time"].attrs[k] for k in ("units", "calendar") if k in fields["time"].attrs}
    middle = (float(times.mean()), float(np.ptp(times)) or 1.0)
    if not how.is_affine:
        return Prepared(
            how, np.zeros((0, len(points))), np.ones(len(points)), points, clock, middle
        )
    if "path_time" in fields.coords:
        raise DataError(
            "data", expected="one clock for all paths", got="times of each path's own",
            fix="prepare the paths yourself, and leave prepare out",
        )  # fmt: skip
    values = np.asarray(fields.values)
    design = design_matrix(how, times, clock, middle)
    coefficients = np.stack([_solve(design, values[..., m], how) for m in range(len(points))], 1)
    left = values - design @ coefficients
    return Prepared(how, coefficients, _scale(how, left), points, clock, middle)


def design_matrix(
    how: Preparation, times: Array, clock: Mapping[str, Any], middle: tuple[float, float]
) -> Array:
    """D(t): months or harmonics or a constant, and the line in time; (T, n_columns)."""
    if how.anomalies == "month":
        months = _calendar(times, clock, "month")
        columns = [(months == m).astype(float) for m in range(1, 13)]
    elif how.anomalies == "dayofyear":
        angle = 2 * np.pi * _calendar(times, clock, "dayofyear") / DAYS_OF_YEAR
        waves = [f(k * angle) for k in range(1, HARMONICS + 1) for f in (np.cos, np.sin)]
        columns = [np.ones(len(times)), *waves]
    else:
        columns = [np.ones(len(times))]
    if how.detrend:
        columns.append((times - middle[0]) / middle[1])
    return np.stack(columns, axis=1)


def _calendar(times: Array, clock: Mapping[str, Any], part: str) -> Array:
    dates = xr.DataArray(to_dates(times, clock), dims="time")
    return np.asarray(getattr(dates.dt, part).values, dtype=float)


def _solve(design: Array, values: Array, how: Preparation) -> Array:
    """Coefficients of one point from all paths, (P, T); NaN where nothing was seen."""
    seen = ~np.isnan(values)
    rows = np.broadcast_to(design, (*values.shape, design.shape[1]))[seen]
    if not len(rows):
        return np.full(design.shape[1], np.nan)
    found, _, rank, _ = np.linalg.lstsq(rows, values[seen], rcond=None)
    if rank < design.shape[1]:
        wanted = f"anomalies={how.anomalies!r}, detrend={how.detrend}"
        raise DataError(
            "data", expected=f"times that determine {design.shape[1]} coefficients ({wanted})",
            got=f"{rank} at a point of {len(rows)} values",
            fix="observe every calendar month, or use anomalies='dayofyear', or neither",
        )  # fmt: skip
    return found


def _scale(how: Preparation, left: Array) -> Array:
    n_points = left.shape[-1]
    if how.standardise is None:
        return np.ones(n_points)
    if how.standardise == "whole":
        return np.full(n_points, np.sqrt(np.nanmean(left**2)) or 1.0)
    count = (~np.isnan(left)).sum((0, 1))
    total = np.nansum(left**2, (0, 1))
    std = np.sqrt(total / np.maximum(count, 1))
    return np.where(std > 0, std, 1.0)

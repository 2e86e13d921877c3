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
import scipy
import xarray as xr

from spdelaw.data._climate import design_matrix, deviations, regress
from spdelaw.data._clock import on_clock
from spdelaw.data._contract import as_fields
from spdelaw.data._reduce import cell_areas, reduce_field
from spdelaw.domain._places import places_of_fields
from spdelaw.errors import DataError, InputError

Array = np.ndarray

SEASONS = (None, "month", "dayofyear")
SCALES = (None, "point", "whole")
#: Points that differ by less than this part of the largest coordinate are one.
SAME_POINT = 1e-5


@dataclasses.dataclass(frozen=True)
class Preparation:
    """How to turn raw data into the fields of a fit.

    Pass it to `spdelaw.fit` as ``prepare=``. The law keeps it with all that it learned from the
    data, applies it to new data and undoes it on output.

    Args:
        variable: of a Dataset.
        select: ranges to keep, such as ``{"latitude": (-2, 2), "longitude": (150, 270)}``.
        average: dims to average over, latitudes by area.
        rename: names of the data to names of the domain, such as ``{"longitude": "x"}``, or
            ``{"latitude": "lat", "longitude": "lon"}`` on a sphere.
        coarsen: neighbours to average, such as ``{"x": 4}`` or ``{"lat": 2, "lon": 2}``, latitudes
            by area.
        anomalies: "month" subtracts the mean of each calendar month, "dayofyear" the mean and
            three harmonics of the year; both need dates.
        detrend: subtract a straight line in time at each point.
        standardise: divide by the standard deviation, of each "point" or, by area, of the "whole".
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
        return learn_map(self, fields, dims)

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
        scale: s, (n_points,); NaN likewise.
        points: where, (n_points,), or (n_points, d) for all points of a grid in d dimensions.
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
        places = places_of_fields(fields, dims)
        offset, scale = map(places.unflatten, self.affine(fields["time"].values, places.points))
        return fields.copy(data=(fields.values - offset) / scale)

    def align(self, fields: xr.DataArray) -> xr.DataArray:
        """Fields with times counted as those of the data that the map was learned from."""
        if "path_time" in fields.coords and self.how.is_affine:
            raise _no_common_clock()
        return on_clock(fields, self.clock)

    def affine(self, times: Array, points: Array) -> tuple[Array, Array]:
        """Offset (T, M) and scale (M,) at times and at some or all of the points."""
        at = self._rows(points)
        how = self.how
        design = design_matrix(how.anomalies, how.detrend, times, self.clock, self.middle)
        return design @ self.coefficients[:, at], self.scale[at]

    def _rows(self, points: Array) -> Array:
        """Which of the points these are."""
        n = len(self.points)
        largest = np.abs(self.points).max(0)
        unit = np.where(largest > 0, largest, 1.0)
        known, asked = (np.reshape(p / unit, (len(p), -1)) for p in (self.points, points))
        at = scipy.spatial.KDTree(known).query(asked, distance_upper_bound=SAME_POINT)[1]
        if (at == n).any():
            raise DataError(
                "points", expected=f"some of the {n} points the preparation was learned at",
                got=f"{np.asarray(points)[at == n][0]}, one of {len(points)}",
                fix="use the grid of the fit",
            )  # fmt: skip
        return at


def learn_map(how: Preparation, fields: xr.DataArray, dims: tuple[str, ...]) -> Prepared:
    """Least squares of each point on the design, then the scale of what is left."""
    times, places = fields["time"].values, places_of_fields(fields, dims)
    clock = {k: fields["time"].attrs[k] for k in ("units", "calendar") if k in fields["time"].attrs}
    middle = (float(times.mean()), float(np.ptp(times)) or 1.0)
    n_points = len(places.points)
    if not how.is_affine:
        return Prepared(
            how, np.zeros((0, n_points)), np.ones(n_points), places.points, clock, middle
        )
    if "path_time" in fields.coords:
        raise _no_common_clock()
    values = places.flatten(np.asarray(fields.values))
    design = design_matrix(how.anomalies, how.detrend, times, clock, middle)
    coefficients = regress(design, values)
    scale = deviations(how.standardise, values - design @ coefficients, cell_areas(fields, places))
    return Prepared(how, coefficients, scale, places.points, clock, middle)


def _no_common_clock() -> DataError:
    return DataError(
        "data", expected="one clock for all paths", got="times of each path's own",
        fix="prepare the paths yourself, and leave prepare out",
    )  # fmt: skip

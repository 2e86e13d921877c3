"""Sphere, box or interval, its ends and what happens there, from coordinates and values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data._clock import to_numbers
from spdelaw.data._familiar import with_places
from spdelaw.data._guess import (
    guess_variable,
    narrow_band,
    scattered_places,
    time_and_paths,
    without_single,
)
from spdelaw.data._recognise import (
    in_radians,
    is_latitude,
    is_longitude,
    longitudes_together,
)
from spdelaw.errors import DataError

#: Mean square at the ends, relative to that of the whole, below which they count as zero.
PINNED = 1e-3
#: Degrees of longitude and latitude from which a field is one on the globe.
GLOBAL_LON, GLOBAL_LAT = 270.0, 90.0
#: How many times as long as wide a band of latitudes is that counts as a line.
SLENDER = 3.0
#: Longest step for which a finer unit of time than days is used, in days.
HOURLY, SECONDLY = 0.25, 1.0 / 288


class Side(NamedTuple):
    """What a field does at the two ends of a coordinate."""

    boundary: str
    ends: tuple[float, float]
    reason: str


def guess_domain(
    dataset: xr.Dataset, variable: str | None = None, average: tuple[str, ...] = ()
) -> tuple[str, str]:
    """Name of a domain for a raw data set, and why."""
    dataset = with_places(dataset)
    array = dataset[guess_variable(dataset, variable)]
    time, paths, _, _ = time_and_paths(array)
    space = [str(d) for d in array.dims if d not in (time, *paths, *average)]
    places = scattered_places(array, space)
    rest, _, _ = without_single(array, space)
    lat = [d for d in rest if is_latitude(array, d) and d in array.coords]
    lon = [d for d in rest if is_longitude(array, d) and d in array.coords]
    band = _slender_band(array, rest)
    if places is None and len(rest) == 2 and lat and lon and not band:
        places = (lat[0], lon[0])
    if places is None and (len(rest) < 2 or band):
        return "interval", "interval, because there is one spatial dim"
    if places is None:
        return "box", f"box, because there are {len(rest)} spatial dims"
    if not is_latitude(array, places[0]):
        return "box", "box, because there are two coordinates of space"
    if in_radians(array, *places):
        return "box", f"box, because {' and '.join(places)} look like radians, not degrees"
    return _on_earth(array[places[0]].values, array[places[1]].values)


def _slender_band(array: xr.DataArray, rest: list[str]) -> bool:
    """Whether two spatial dims are a narrow band of latitudes, much longer than wide."""
    band = narrow_band(array, rest)
    lon = [dim for dim in rest if dim in array.coords and is_longitude(array, dim)]
    if band is None or not lon:
        return band is not None
    west, east = longitudes_together(array[lon[0]].values.astype(float))
    return east - west >= SLENDER * float(np.ptp(array[band].values.astype(float)))


def _on_earth(lat: np.ndarray, lon: np.ndarray) -> tuple[str, str]:
    """A sphere where places go around the globe, else a box in degrees."""
    west, east = longitudes_together(lon)
    wide = east - west
    high = float(np.nanmax(lat) - np.nanmin(lat))
    span = f"{wide:.3g} degrees of longitude and {high:.3g} of latitude"
    if wide >= GLOBAL_LON and high >= GLOBAL_LAT:
        return "sphere", f"sphere, because it covers {span}"
    return "box", f"box in degrees, because it covers {span}; --domain sphere keeps true distances"


def guess_boundary(fields: xr.DataArray) -> Side:
    """Boundary, bounds and reason for fields (path, time, x) on an interval."""
    if fields["x"].size < 2:
        expected = "at least two points"
        fix = "a single point has no space; use a time-series model"
        raise DataError("coordinate 'x'", expected=expected, got=str(fields["x"].size), fix=fix)
    return guess_side(fields, "x")


def guess_side(fields: xr.DataArray, dim: str) -> Side:
    """What canonical fields do at the ends of a coordinate, on a grid or at scattered points."""
    x = np.sort(np.asarray(fields[dim].values, dtype=float))
    ends = (float(x[0]), float(x[-1]))
    if ends[0] == ends[1]:
        expected = "points that differ in it"
        fix = "a law in space needs places that differ; take fewer dims, or a time-series model"
        raise DataError(f"coordinate '{dim}'", expected=expected, got=f"{ends[0]:g} only", fix=fix)
    if dim not in fields.dims:
        return Side("neumann", ends, "neumann, because points are scattered: free at the edge")
    step = float(np.median(np.diff(x)))
    whole = np.diff(x).max() <= 2.0 * step
    if is_longitude(fields, dim) and whole and abs(x[-1] - x[0] + step - 360.0) < 0.5 * step:
        around = (ends[0], ends[0] + 360.0)
        return Side("periodic", around, "periodic, because the longitudes go all around")
    outer = fields.isel({dim: [0, -1]}).values
    with np.errstate(invalid="ignore"):
        seen = np.isfinite(outer).any()
        edge = np.nanmean(outer**2) if seen else np.inf
        overall = np.nanmean(fields.values**2)
    if edge <= PINNED * overall:
        return Side("dirichlet", ends, "dirichlet, because the field is zero at both ends")
    return Side("neumann", ends, "neumann, because the field is free at its ends")


def guess_unit(times: np.ndarray) -> str:
    """Unit in which dates are counted: days, or hours or seconds where steps are short."""
    seconds = to_numbers(xr.Variable("time", times), "seconds").values
    step = float(np.median(np.diff(np.sort(seconds)))) / 86400.0
    if step >= HOURLY:
        return "days"
    return "hours" if step >= SECONDLY else "seconds"

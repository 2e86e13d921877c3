"""What dims and coordinates mean, by the CF conventions and by common names."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr

from spdelaw.data._clock import is_date
from spdelaw.data._layout import ORIGINAL

TIME_NAMES = ("time", "t", "valid_time", "date", "datetime")
PATH_NAMES = ("path", "member", "ensemble", "realization", "realisation", "number", "sample", "run")
#: Time since the start of a forecast, and the start itself.
LEAD_NAMES = ("lead", "lead_time", "leadtime", "step", "forecast_period", "prediction_timedelta")
START_NAMES = (
    "init", "init_time", "initial_time", "initialization", "initialisation", "start_date",
    "forecast_reference_time", "reference_time",
)  # fmt: skip
LATITUDE_NAMES = ("lat", "latitude")
LATITUDE_UNITS = ("degrees_north", "degree_north", "degree_n", "degrees_n")
LONGITUDE_NAMES = ("lon", "longitude")
LONGITUDE_UNITS = ("degrees_east", "degree_east", "degree_e", "degrees_e")
#: Words in which angles are said to be in radians.
RADIANS = ("radian", "radians", "rad")

Test = Callable[[xr.DataArray | xr.Dataset, str], bool]


def is_time(data: xr.DataArray | xr.Dataset, name: str) -> bool:
    """Whether a dim or coordinate is a time."""
    if name not in data.coords:
        return name.lower() in TIME_NAMES
    attrs = data[name].attrs
    stated = attrs.get("axis") == "T" or attrs.get("standard_name") == "time"
    return stated or name.lower() in TIME_NAMES or is_date(data[name].variable)


def is_path(data: xr.DataArray | xr.Dataset, name: str) -> bool:
    """Whether the entries of a dim are realisations."""
    return _is(data, name, "realization", PATH_NAMES)


def is_lead(data: xr.DataArray | xr.Dataset, name: str) -> bool:
    """Whether a dim is the time since the start of a forecast."""
    return _is(data, name, "forecast_period", LEAD_NAMES)


def is_start(data: xr.DataArray | xr.Dataset, name: str) -> bool:
    """Whether a dim is the start of forecasts."""
    return _is(data, name, "forecast_reference_time", START_NAMES)


def is_latitude(data: xr.DataArray | xr.Dataset, name: str) -> bool:
    """Whether a coordinate is a latitude."""
    return _is(data, name, "latitude", LATITUDE_NAMES, LATITUDE_UNITS)


def is_longitude(data: xr.DataArray | xr.Dataset, name: str) -> bool:
    """Whether a coordinate is a longitude."""
    return _is(data, name, "longitude", LONGITUDE_NAMES, LONGITUDE_UNITS)


def _is(
    data: xr.DataArray | xr.Dataset,
    name: str,
    standard: str,
    names: tuple[str, ...],
    units: tuple[str, ...] = (),
) -> bool:
    """By standard name, units or name."""
    known = name in data.coords or (isinstance(data, xr.Dataset) and name in data)
    attrs = data[name].attrs if known else {}
    return (
        attrs.get("standard_name") == standard
        or str(attrs.get("units", "")).lower() in units
        or name.lower() in names
        or str(attrs.get(ORIGINAL, "")).lower() in names
    )


def dim_that(data: xr.DataArray, test: Test) -> str | None:
    """First dim that passes a test."""
    return next((str(dim) for dim in data.dims if test(data, str(dim))), None)


def coordinate(data: xr.DataArray, test: Test) -> str | None:
    """The dim or coordinate that passes a test: a dim rather than another coordinate."""
    dims = [str(dim) for dim in data.dims if test(data, str(dim))]
    others = [str(name) for name in data.coords if name not in data.dims and test(data, str(name))]
    return next(iter([*dims, *others]), None)


def in_radians(data: xr.DataArray, lat: str, lon: str) -> bool:
    """Whether latitudes and longitudes are said to be in radians, or look like it."""
    units = {str(data[name].attrs.get("units", "")).lower() for name in (lat, lon)}
    if units & set(RADIANS):
        return True
    y, x = (np.asarray(data[name].values, float) for name in (lat, lon))
    small = np.nanmax(np.abs(y)) <= np.pi / 2 + 1e-6 and np.nanmax(np.abs(x)) <= 2 * np.pi + 1e-6
    wide = np.ptp(y) > 0.5 and np.ptp(x) > 0.5
    return bool(small and wide and not any(unit.startswith("degree") for unit in units))


def longitudes_together(lon: np.ndarray) -> tuple[float, float]:
    """West and east ends of the shortest stretch of longitudes, 170 to 190 around the dateline.

    All around where no gap is wider than the others.
    """
    around = np.unique(np.mod(lon[np.isfinite(lon)], 360.0))
    gaps = np.diff(np.append(around, around[0] + 360.0))
    at = int(np.argmax(gaps))
    if around.size > 2 and gaps[at] <= 2 * np.median(gaps):
        return 0.0, 360.0
    west = float(around[(at + 1) % len(around)])
    east = west + 360.0 - float(gaps[at])
    return (west, east) if east <= 360.0 else (west - 360.0, east - 360.0)

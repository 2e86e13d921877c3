"""Times as numbers: dates and durations in a stated unit, with their origin on record."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.errors import DataError

#: Units of fixed length; months and years are not.
UNITS = {
    "weeks": "W",
    "days": "D",
    "hours": "h",
    "minutes": "m",
    "seconds": "s",
    "milliseconds": "ms",
    "microseconds": "us",
    "nanoseconds": "ns",
}
DEFAULT_UNIT = "days"
#: Units in which a float64 does not keep the nanosecond of a date.
COARSE = ("weeks", "days", "hours")
_STEPS = {unit: np.array(1, dtype=f"timedelta64[{code}]") for unit, code in UNITS.items()}


def check_unit(unit: str | None) -> str | None:
    """The unit itself, refused when its length is not fixed."""
    if unit is None or (isinstance(unit, str) and unit in UNITS):
        return unit
    fix = 'pass time_unit="days"; months and years have no fixed length'
    raise DataError("time_unit", expected=f"one of {', '.join(UNITS)}", got=repr(unit), fix=fix)


def unit_step(unit: str | None) -> np.ndarray:
    """A unit of time as a duration of NumPy; days by default."""
    return _STEPS[check_unit(unit) or DEFAULT_UNIT]


def is_date(times: xr.Variable) -> bool:
    """Whether times are calendar dates, datetime64 or cftime objects."""
    return times.dtype.kind == "M" or _is_cftime(times)


def earliest(times: xr.Variable) -> Any:
    """First date of an array of dates, missing ones aside."""
    values = times.values
    if values.dtype.kind != "M":
        return min(values.flat)
    values = values[~np.isnat(values)]
    if values.size == 0:
        raise DataError("time", expected="dates", got="only NaT", fix="give the dates of the data")
    return values.min()


def to_numbers(times: xr.Variable, unit: str | None, origin: Any = None) -> xr.Variable:
    """Dates as numbers since ``origin`` (the first of them), durations and numbers as they are.

    The attribute ``units`` of the result tells the unit and, for dates, the origin.
    """
    step = _STEPS[unit or DEFAULT_UNIT]
    if times.dtype.kind == "m":
        return _as_variable(times, times.values / step, {"units": unit or DEFAULT_UNIT})
    if not is_date(times):
        return times.copy(deep=False) if unit is None else _with_unit(times, unit)
    origin = earliest(times) if origin is None else origin
    elapsed = _elapsed(times.values, origin) / step
    since = {"units": f"{unit or DEFAULT_UNIT} since {_iso(origin)}", "calendar": _calendar(origin)}
    return _as_variable(times, elapsed, since)


def _as_variable(times: xr.Variable, values: np.ndarray, attrs: dict[str, str]) -> xr.Variable:
    return xr.Variable(times.dims, values, {**times.attrs, **attrs})


def _with_unit(times: xr.Variable, unit: str) -> xr.Variable:
    recorded = str(times.attrs.get("units", unit))
    if recorded.split(" since ")[0] != unit:
        expected = f"the unit on record, {recorded!r}"
        fix = "leave time_unit out, or convert the times first"
        raise DataError("time_unit", expected=expected, got=repr(unit), fix=fix)
    return xr.Variable(times.dims, times.values, {**times.attrs, "units": recorded})


def _is_cftime(times: xr.Variable) -> bool:
    # Told by its attributes, so that cftime need not be installed.
    return times.dtype.kind == "O" and times.size > 0 and hasattr(times.values.flat[0], "calendar")


def _elapsed(values: np.ndarray, origin: Any) -> np.ndarray:
    if values.dtype.kind == "M":
        return values - origin
    differences: list[timedelta] = [value - origin for value in values.flat]
    return np.array(differences, dtype="timedelta64[us]").reshape(values.shape)


def _iso(date: Any) -> str:
    if isinstance(date, np.datetime64):
        return str(np.datetime_as_string(date, unit="auto"))
    return str(date.isoformat())


def _calendar(date: Any) -> str:
    return str(getattr(date, "calendar", "proleptic_gregorian"))


def to_dates(numbers: np.ndarray, attrs: Mapping[str, Any]) -> np.ndarray:
    """Numbers as the dates that the attributes ``units`` and ``calendar`` make of them.

    Raises `DataError` where they count from no date.
    """
    units = str(attrs.get("units", ""))
    if " since " not in units:
        expected = "dates, or numbers with units such as 'days since 2006-04-16'"
        got = f"units {units!r}" if units else "numbers without units"
        fix = "give the time coordinate dates: data.assign_coords(time=dates)"
        raise DataError("time", expected=expected, got=got, fix=fix)
    calendar = str(attrs.get("calendar", "proleptic_gregorian"))
    coded = xr.Variable("time", np.asarray(numbers), {"units": units, "calendar": calendar})
    try:
        dates = decoded_dates(xr.Dataset({"time": coded}))["time"].values
        return _rounded(dates) if units.split(" since ")[0] in COARSE else dates
    except (ImportError, ValueError, OverflowError) as error:
        expected = "dates that xarray can decode"
        fix = "check units and calendar of the time coordinate"
        raise DataError("time", expected=expected, got=f"{units!r}: {error}", fix=fix) from error


def decoded_dates(dataset: xr.Dataset) -> xr.Dataset:
    """Dates by the CF conventions, without what xarray says of years that are not padded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xr.SerializationWarning)
        return xr.decode_cf(dataset, decode_timedelta=False)


def _rounded(dates: np.ndarray) -> np.ndarray:
    """Dates to the millisecond: half an hour in days is no finite binary fraction."""
    if dates.dtype.kind != "M":
        return dates
    return (dates + np.timedelta64(500, "us")).astype("datetime64[ms]").astype("datetime64[ns]")


def from_dates(dates: Any, attrs: Mapping[str, Any]) -> np.ndarray:
    """Dates as numbers on the clock that the attributes ``units`` and ``calendar`` describe."""
    origin = to_dates(np.zeros(1), attrs)[0]
    step = unit_step(str(attrs["units"]).split(" since ")[0])
    values = np.atleast_1d(np.asarray(dates))
    try:
        values = _like(values, origin)
        return np.asarray(_elapsed(values, origin) / step, dtype=float)
    except (TypeError, ValueError) as error:
        expected, fix = f"dates like {origin}", "use one calendar for all times"
        raise DataError("time", expected=expected, got=f"{values.flat[0]!r}", fix=fix) from error


def _like(values: np.ndarray, origin: Any) -> np.ndarray:
    """Dates of the kind of the origin, from text or from dates of NumPy."""
    if isinstance(origin, np.datetime64):
        return values.astype("datetime64[ns]") if values.dtype.kind in "OUT" else values
    if values.dtype.kind not in "MUT":
        return values
    moments = values.astype("datetime64[s]")
    return np.array([_in_calendar(moment.item(), origin) for moment in moments])


def _in_calendar(moment: Any, origin: Any) -> Any:
    """A date of everyday life as one of the calendar of the origin, such as one of 360 days."""
    parts = {k: getattr(moment, k) for k in ("year", "month", "day", "hour", "minute", "second")}
    return origin.replace(**parts, microsecond=0)


def on_clock(fields: xr.DataArray, attrs: Mapping[str, Any]) -> xr.DataArray:
    """Fields whose times count as the clock ``attrs`` does, where both count from a date."""
    own, wanted = fields["time"].attrs.get("units", ""), attrs.get("units", "")
    if own == wanted or " since " not in str(own) or " since " not in str(wanted):
        return fields
    for name in ("time", "path_time"):
        if name in fields.coords and " since " in str(fields[name].attrs.get("units", "")):
            old = fields[name]
            known = np.isfinite(old.values)
            new = np.full(old.shape, np.nan)
            new[known] = from_dates(to_dates(old.values[known], old.attrs), attrs)
            fields = fields.assign_coords({name: (old.dims, new, {**old.attrs, **attrs})})
    return fields


def has_dates(data: Any) -> bool:
    """Whether the times of data, or times themselves, are dates, or text that says dates."""
    if isinstance(data, xr.Dataset | xr.DataArray):
        data = data["time"].values if "time" in data.coords else ()
    if getattr(data, "ndim", 0) > 2:
        return False
    values = np.asarray(data)
    if values.dtype.kind in "MUT" and values.size:
        return True
    first = values.flat[0] if values.size and values.dtype.kind == "O" else None
    return hasattr(first, "year") and hasattr(first, "month")

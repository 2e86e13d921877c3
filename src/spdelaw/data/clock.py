"""Times as numbers: dates, durations, calendars, and clocks of single paths."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.checks import shown
from spdelaw.errors import DataError

# ---------- Times as numbers: dates and durations in a unit, with their origin recorded


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
#: Parts of a date in the order of its text.
PARTS = ("year", "month", "day", "hour", "minute", "second")
#: Units in which a float64 does not keep the nanosecond of a date.
COARSE_UNITS = ("weeks", "days", "hours")
_UNIT_STEPS = {unit: np.array(1, dtype=f"timedelta64[{code}]") for unit, code in UNITS.items()}


def check_unit(unit: str | None) -> str | None:
    """The unit itself, refused when its length is not fixed."""
    if unit is None or (isinstance(unit, str) and unit in UNITS):
        return unit
    fix = 'pass time_unit="days"; months and years have no fixed length'
    raise DataError("time_unit", expected=f"one of {', '.join(UNITS)}", got=shown(unit), fix=fix)


def unit_step(unit: str | None) -> np.ndarray:
    """A unit of time as a duration of NumPy; days by default."""
    return _UNIT_STEPS[check_unit(unit) or DEFAULT_UNIT]


def is_date(times: xr.Variable) -> bool:
    """Whether times are calendar dates, datetime64 or cftime objects."""
    return times.dtype.kind == "M" or _is_cftime(times)


def earliest(times: xr.Variable) -> Any:
    """First date of an array of dates, missing ones aside."""
    values = times.values
    if values.dtype.kind != "M":
        try:
            return min(values.flat)
        except TypeError as error:
            got, fix = str(error), "leave out what has no date, and use one calendar"
            raise DataError("time", expected="dates of one kind", got=got, fix=fix) from error
    values = values[~np.isnat(values)]
    if values.size == 0:
        raise DataError("time", expected="dates", got="only NaT", fix="give the dates of the data")
    return values.min()


def to_numbers(times: xr.Variable, unit: str | None, origin: Any = None) -> xr.Variable:
    """Dates as numbers since ``origin`` (the first of them), durations and numbers as they are.

    The attribute ``units`` of the result tells the unit and, for dates, the origin.
    """
    step, attrs = _UNIT_STEPS[unit or DEFAULT_UNIT], {"units": unit or DEFAULT_UNIT}
    if times.dtype.kind == "m":
        numbers = times.values / step
    elif not is_date(times):
        return times.copy(deep=False) if unit is None else _with_unit(times, unit)
    else:
        origin = earliest(times) if origin is None else origin
        numbers = _elapsed(times.values, origin) / step
        is_numpy = isinstance(origin, np.datetime64)
        first = np.datetime_as_string(origin, unit="auto") if is_numpy else origin.isoformat()
        attrs["units"] += f" since {first}"
        attrs["calendar"] = str(getattr(origin, "calendar", "proleptic_gregorian"))
    return xr.Variable(times.dims, numbers, {**times.attrs, **attrs})


def _with_unit(times: xr.Variable, unit: str) -> xr.Variable:
    recorded = str(times.attrs.get("units", unit))
    if recorded.split(" since ")[0] != unit:
        expected = f"the unit on record, {recorded!r}"
        fix = "leave time_unit out, or convert the times first"
        raise DataError("time_unit", expected=expected, got=shown(unit), fix=fix)
    return xr.Variable(times.dims, times.values, {**times.attrs, "units": recorded})


def _is_cftime(times: xr.Variable) -> bool:
    # Recognised by its attributes, so that cftime need not be installed.
    return times.dtype.kind == "O" and times.size > 0 and hasattr(times.values.flat[0], "calendar")


def _elapsed(values: np.ndarray, origin: Any) -> np.ndarray:
    if values.dtype.kind == "M":
        return values - origin
    differences: list[timedelta] = [value - origin for value in values.flat]
    return np.array(differences, dtype="timedelta64[us]").reshape(values.shape)


def to_dates(numbers: np.ndarray, attrs: Mapping[str, Any]) -> np.ndarray:
    """Numbers as the dates that the attributes ``units`` and ``calendar`` make of them.

    Raises `DataError` where they count from no date.
    """
    units = str(attrs.get("units", ""))
    if " since " not in units:
        expected = "dates, or numbers with units such as 'days since 2006-04-16'"
        got = f"units {units!r}" if units else "numbers without units"
        fix = "give the time coordinate dates; if it counts lead times, pass anomalies='lead'"
        raise DataError("time", expected=expected, got=got, fix=fix)
    calendar = str(attrs.get("calendar", "proleptic_gregorian"))
    coded = xr.Variable("time", np.asarray(numbers), {"units": units, "calendar": calendar})
    try:
        dates = decoded_dates(xr.Dataset({"time": coded}))["time"].values
        if dates.dtype.kind == "M" and units.split(" since ")[0] in COARSE_UNITS:
            # To the millisecond: half an hour in days is no finite binary fraction.
            dates = (dates + np.timedelta64(500, "us")).astype("datetime64[ms]")
            dates = dates.astype("datetime64[ns]")
        return dates
    except (ImportError, ValueError, OverflowError) as error:
        expected = "dates that xarray can decode"
        fix = "check units and calendar of the time coordinate"
        raise DataError("time", expected=expected, got=f"{units!r}: {error}", fix=fix) from error


def decoded_dates(dataset: xr.Dataset) -> xr.Dataset:
    """Dates by the CF conventions, without xarray's warning about years that are not padded.

    Months since a date are calendar months, which xarray does not decode.
    """
    dataset = dataset.assign_coords({n: _months_in_days(c) for n, c in dataset.coords.items()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xr.SerializationWarning)
        return xr.decode_cf(dataset, decode_timedelta=False)


def _months_in_days(coordinate: xr.DataArray) -> xr.DataArray:
    """Months since a date as days since it; 1.5 is the middle of the second month."""
    unit, _, origin = str(coordinate.attrs.get("units", "")).partition(" since ")
    calendar = str(coordinate.attrs.get("calendar", "standard")).lower()
    if unit.strip().lower() not in ("month", "months"):
        return coordinate
    values, days = np.asarray(coordinate.values, dtype=float), np.timedelta64(1, "D")
    clock = {"units": f"days since {origin}", "calendar": calendar}
    if calendar in ("360", "360_day"):
        clock["calendar"], number = "360_day", 30.0 * values
    elif calendar in ("standard", "gregorian", "proleptic_gregorian"):
        first = to_dates(np.zeros(1), clock)[0]
        month = np.datetime64(first, "M") + np.floor(values).astype(int)
        begin, end = (m.astype("datetime64[ns]") for m in (month, month + 1))
        passed = first - np.datetime64(first, "M") + (values % 1.0) * (end - begin)
        number = (begin - first + passed) / days
    else:
        return coordinate
    return coordinate.copy(data=number).assign_attrs(clock)


def from_dates(dates: Any, attrs: Mapping[str, Any]) -> np.ndarray:
    """Dates as numbers on the clock that the attributes ``units`` and ``calendar`` describe."""
    origin = to_dates(np.zeros(1), attrs)[0]
    step = unit_step(str(attrs["units"]).split(" since ")[0])
    values = np.atleast_1d(np.asarray(dates))
    try:
        values = _same_kind_of_date(values, origin)
        return np.asarray(_elapsed(values, origin) / step, dtype=float)
    except (TypeError, ValueError) as error:
        expected, fix = f"dates such as {origin}", "use one calendar for all times"
        raise DataError("time", expected=expected, got=f"{values.flat[0]!r}", fix=fix) from error


def _same_kind_of_date(values: np.ndarray, origin: Any) -> np.ndarray:
    """Dates of the kind of the origin, from text or from dates of NumPy."""
    if isinstance(origin, np.datetime64):
        return values.astype("datetime64[ns]") if values.dtype.kind in "OUT" else values
    if values.dtype.kind not in "MUT":
        return values
    texts = values.astype("datetime64[s]" if values.dtype.kind == "M" else str).astype(str)
    first = {"month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0, "microsecond": 0}
    parts = [map(int, re.split("[-T: ]", text.strip())) for text in texts.ravel()]
    dates = [origin.replace(**first | dict(zip(PARTS, part, strict=False))) for part in parts]
    return np.array(dates).reshape(values.shape)


def on_clock(fields: xr.DataArray, attrs: Mapping[str, Any]) -> xr.DataArray:
    """Fields whose times count as the clock ``attrs`` does, where both count from a date."""
    units, new_units = fields["time"].attrs.get("units", ""), attrs.get("units", "")
    if units == new_units or " since " not in str(units) or " since " not in str(new_units):
        return fields
    for name in ("time", "path_time"):
        if name in fields.coords and " since " in str(fields[name].attrs.get("units", "")):
            old = fields[name]
            finite = np.isfinite(old.values)
            new = np.full(old.shape, np.nan)
            new[finite] = from_dates(to_dates(old.values[finite], old.attrs), attrs)
            fields = fields.assign_coords({name: (old.dims, new, {**old.attrs, **attrs})})
    return fields


def has_dates(data: Any) -> bool:
    """Whether the times of data, or times themselves, are dates, or text of dates."""
    if isinstance(data, xr.Dataset | xr.DataArray):
        data = data["time"].values if "time" in data.coords else ()
    if getattr(data, "ndim", 0) > 2:
        return False
    values = np.asarray(data)
    if values.dtype.kind in "MUT" and values.size:
        return True
    first = values.flat[0] if values.size and values.dtype.kind == "O" else None
    return hasattr(first, "year") and hasattr(first, "month")


# ---------- Steps of a clock: six steps of monthly data are six calendar months


Array = np.ndarray

#: Steps that differ from whole multiples of the shortest by less than this part of it are regular.
REGULAR_TOLERANCE = 1e-3
#: Days by which the middle of a month may be rounded.
MID_MONTH_TOLERANCE = 1.0


class Step(NamedTuple):
    """A step of a record: months of the calendar, or a length of time.

    Attributes:
        months: calendar months, or None.
        length: in units of the clock, for other steps.
        day: "same" day of each month, the "last", or the "middle".
    """

    months: int | None
    length: float
    day: str = "same"

    def in_words(self, unit: str) -> str:
        """Such as ``1 month``."""
        if self.months is None and unit == "days" and 0 < self.length < 1:
            return Step(None, round(24 * self.length, 6)).in_words("hours")
        if self.months is None:
            word = unit.removesuffix("s") if self.length == 1 else unit
            return f"{self.length:g} {word}".strip()
        years, left = divmod(self.months, 12)
        n, name = (years, "year") if left == 0 else (self.months, "month")
        return f"{n} {name}{'s' if n > 1 else ''}"


def step_of(times: Array, clock: Mapping[str, Any]) -> Step:
    """Step of increasing times on a clock; the median one where they are irregular."""
    times = np.asarray(times, dtype=float)
    if len(times) < 2:
        expected = "at least two times, to continue with their step"
        fix = "pass the times of the forecast: times="
        raise DataError("time", expected=expected, got=str(len(times)), fix=fix)
    gaps = np.diff(times)
    months = _step_in_months(times, clock) if " since " in str(clock.get("units", "")) else None
    if months is not None:
        return months
    ratio = gaps / gaps.min()
    regular = np.abs(ratio - np.round(ratio)).max() < REGULAR_TOLERANCE
    return Step(None, float(gaps.min() if regular else np.median(gaps)))


def go_on(last: float, step: Step, clock: Mapping[str, Any], n_steps: int) -> Array:
    """The times after the last one of a record, as numbers on its clock."""
    if step.months is None:
        return last + step.length * np.arange(1, n_steps + 1)
    date = xr.DataArray(to_dates(np.array([last]), clock), dims="time")
    midnight = date.dt.floor("D")
    within, day = date.values - midnight.values, int(date.dt.day[0])
    months = xr.date_range(
        (midnight.values - _days(date, day - 1))[0],
        periods=n_steps + 1,
        freq=f"{step.months}MS",
        use_cftime=date.dtype.kind == "O",
    )
    first = xr.DataArray(months[1:], dims="time")
    length = first.dt.days_in_month.values
    if step.day == "middle":
        return from_dates(first.values + _days(date, length / 2), clock)
    days = length - 1 if step.day == "last" else np.minimum(day, length) - 1
    return from_dates(first.values + _days(date, days) + within, clock)


def _days(like: xr.DataArray, n: Any) -> Any:
    """Durations of n days, which can be added to dates such as these."""
    seconds = np.round(86400 * np.atleast_1d(n)).astype("timedelta64[s]")
    return seconds.astype(object) if like.dtype.kind == "O" else seconds


def _step_in_months(times: Array, clock: Mapping[str, Any]) -> Step | None:
    """The step in months, where the record has one date in each of regular months."""
    dates = xr.DataArray(to_dates(times, clock), dims="time").dt
    month = 12 * dates.year.values.astype(int) + dates.month.values.astype(int)
    gaps = np.diff(month)
    if gaps.min() < 1 or np.median(np.diff(times)) < 0.9 * _days_in_clock_units(clock, 28):
        return None
    step = int(np.gcd.reduce(gaps))
    day, last = dates.day.values.astype(int), dates.days_in_month.values.astype(int)
    hour = dates.hour.values + dates.minute.values / 60.0
    if np.ptp(day) == 0 and np.ptp(hour) < REGULAR_TOLERANCE:
        return Step(step, np.nan, "same")
    if (day == last).all():
        return Step(step, np.nan, "last")
    middle = np.abs(day - 1 + hour / 24 - last / 2).max() <= MID_MONTH_TOLERANCE
    if middle:
        return Step(step, np.nan, "middle")
    # The middle of a season that begins in another month, once a year: leap days move it.
    yearly = (
        step % 12 == 0
        and np.ptp(np.diff(times)) > 0
        and np.ptp(day + hour / 24) <= MID_MONTH_TOLERANCE
    )
    return Step(step, np.nan, "same") if yearly else None


def _days_in_clock_units(clock: Mapping[str, Any], n: float) -> float:
    """``n`` days in the unit of the clock."""
    return float(n * (np.timedelta64(1, "D") / unit_step(str(clock["units"]).split(" since ")[0])))


# ---------- Clocks of single paths: one matrix of times without gaps


#: Times that differ by less than this share of the record are one.
SAME_TIME = 1e-10


def shared_clock(fields: xr.DataArray, start: float | None = None) -> tuple[Array, Array]:
    """Values (P, T, M) and times (T,) from ``start`` on, unobserved where the data come later."""
    times, values = fields["time"].values, np.asarray(fields.values)
    if start is None or not times[0] > start:
        return values, times
    return np.insert(values, 0, np.nan, axis=1), np.insert(times, 0, start)


def rows_per_path(fields: xr.DataArray, times: Array) -> Array:
    """Where the rows of the fields are on a clock of this module; (P, T)."""
    first_time = fields["path_time"].values[:, 0] if times.ndim == 2 else fields["time"].values[0]
    offset = np.broadcast_to(times[..., 0] < first_time, fields.sizes["path"]).astype(int)
    return offset[:, None] + np.arange(fields.sizes["time"])


def clock_per_path(fields: xr.DataArray, start: float | None = None) -> tuple[Array, Array]:
    """Values (P, T, M) and times (P, T) of fields with a ``path_time`` coordinate.

    Padding after a path's last time continues its clock without observations, which changes
    no likelihood. All paths start at the earliest time, or at ``start`` where that is earlier,
    unobserved where they joined later, because the initial state belongs to that time.
    """
    times = _extrapolated_times(np.array(fields["path_time"].values, dtype=float))
    values = np.asarray(fields.values)
    start = min(times[:, 0].min(), np.inf if start is None else start)
    late = times[:, 0] > start
    if not late.any():
        return values, times
    step = np.median(np.diff(times, axis=1))
    empty = np.full((len(values), 1, values.shape[2]), np.nan)
    # Late paths get the node in front; the others get one after their end, to stay aligned.
    clock = np.hstack([np.full((len(times), 1), start), times])
    clock[~late] = np.hstack([times[~late], times[~late, -1:] + step])
    padded = np.concatenate([empty, values], axis=1)
    padded[~late] = np.concatenate([values[~late], empty[~late]], axis=1)
    return padded, clock


def _extrapolated_times(times: Array) -> Array:
    step = np.nanmedian(np.diff(times, axis=1))
    for row in times:
        gap = np.flatnonzero(np.isnan(row))
        if gap.size:
            row[gap] = row[gap[0] - 1] + step * np.arange(1, gap.size + 1)
    return times


def extended_clocks(
    observed_times: Array, requested_times: Array, values: Array
) -> Iterator[tuple[Array, Array, Array]]:
    """Clocks of observed and requested times, values on them, and where the requested ones are.

    One for all paths that share a clock, else one per path. A requested time that differs from
    an observed one by rounding is that one: two states a rounding apart would have no transition.
    """
    shared = observed_times.ndim == 1
    for clock, clock_values in (
        [(observed_times, values)] if shared else zip(observed_times, values[:, None], strict=True)
    ):
        nearest = clock[np.abs(clock[:, None] - requested_times).argmin(0)]
        close = np.abs(nearest - requested_times) <= SAME_TIME * np.ptp(
            np.append(clock, requested_times)
        )
        snapped_times = np.where(close, nearest, requested_times)
        merged = np.union1d(clock, snapped_times)
        extended = np.full((len(clock_values), len(merged), clock_values.shape[2]), np.nan)
        extended[:, np.searchsorted(merged, clock)] = clock_values
        yield merged, extended, np.searchsorted(merged, snapped_times)

"""How a clock goes on: six steps of monthly data are six months, whatever their days."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data._clock import from_dates, to_dates, unit_step
from spdelaw.errors import DataError

Array = np.ndarray

#: Steps that differ from whole multiples of the shortest by less than this part of it are regular.
REGULAR = 1e-3
#: Days by which the middle of a month may be rounded.
ROUNDED = 1.0


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
        expected = "at least two times, whose step can go on"
        fix = "pass the times of the forecast: times="
        raise DataError("time", expected=expected, got=str(len(times)), fix=fix)
    gaps = np.diff(times)
    months = _months(times, clock) if " since " in str(clock.get("units", "")) else None
    if months is not None:
        return months
    ratio = gaps / gaps.min()
    regular = np.abs(ratio - np.round(ratio)).max() < REGULAR
    return Step(None, float(gaps.min() if regular else np.median(gaps)))


def go_on(last: float, step: Step, clock: Mapping[str, Any], n_steps: int) -> Array:
    """The times after the last one of a record, as numbers on its clock."""
    ahead = np.arange(1, n_steps + 1)
    if step.months is None:
        return last + step.length * ahead
    date = to_dates(np.array([last]), clock)
    dates = [_later(date, step.months * int(k), step.day) for k in ahead]
    return from_dates(np.concatenate(dates), clock)


def _months(times: Array, clock: Mapping[str, Any]) -> Step | None:
    """The step in months, where the record has one date in each of regular months."""
    dates = xr.DataArray(to_dates(times, clock), dims="time").dt
    month = 12 * dates.year.values.astype(int) + dates.month.values.astype(int)
    gaps = np.diff(month)
    if gaps.min() < 1 or np.median(np.diff(times)) < 0.9 * _days(clock, 28):
        return None
    step = int(np.gcd.reduce(gaps))
    day, last = dates.day.values.astype(int), dates.days_in_month.values.astype(int)
    hour = dates.hour.values + dates.minute.values / 60.0
    if np.ptp(day) == 0 and np.ptp(hour) < REGULAR:
        return Step(step, np.nan, "same")
    if (day == last).all():
        return Step(step, np.nan, "last")
    middle = np.abs(day - 1 + hour / 24 - last / 2).max() <= ROUNDED
    if middle:
        return Step(step, np.nan, "middle")
    # The middle of a season that begins in another month, once a year: leap days move it.
    yearly = step % 12 == 0 and np.ptp(np.diff(times)) > 0 and np.ptp(day + hour / 24) <= ROUNDED
    return Step(step, np.nan, "same") if yearly else None


def _days(clock: Mapping[str, Any], n: float) -> float:
    """So many days in the unit of the clock."""
    return float(n * (np.timedelta64(1, "D") / unit_step(str(clock["units"]).split(" since ")[0])))


def _later(date: Array, months: int, day: str) -> Array:
    """A date so many months later, by the rule of its record."""
    own = xr.DataArray(date, dims="time").dt
    count = int(own.month[0]) - 1 + months
    year, month = int(own.year[0]) + count // 12, count % 12 + 1
    first = _first(date[0], year, month)
    length = int(xr.DataArray(np.array([first]), dims="time").dt.days_in_month[0])
    within = float(own.hour[0]) / 24 + float(own.minute[0]) / 1440 + float(own.second[0]) / 86400
    number = {"same": min(int(own.day[0]), length), "last": length}.get(day)
    days = length / 2 if number is None else number - 1 + within
    return np.array([first + _duration(date[0], days)])


def _first(like: Any, year: int, month: int) -> Any:
    if isinstance(like, np.datetime64):
        return np.datetime64(f"{year:04d}-{month:02d}-01", "ns")
    return like.replace(year=year, month=month, day=1, hour=0, minute=0, second=0, microsecond=0)


def _duration(like: Any, days: float) -> Any:
    if isinstance(like, np.datetime64):
        return np.timedelta64(round(days * 86400), "s")
    return timedelta(seconds=round(days * 86400))

"""Times as a reader knows them: dates where the data have them, numbers elsewhere."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

#: Calendars whose dates a browser can draw.
REAL_CALENDARS = ("proleptic_gregorian", "gregorian", "standard")


class Clock(NamedTuple):
    """Positions on an axis, their text, and the title of the axis."""

    positions: list[Any]
    texts: list[str]
    title: str
    is_date: bool

    @property
    def axis(self) -> dict[str, Any]:
        """Settings of the axis."""
        return {"type": "date"} if self.is_date else {}


def clock(times: np.ndarray, attrs: dict[str, Any]) -> Clock:
    """Clock of times that count as ``attrs["units"]`` says."""
    units, calendar = str(attrs.get("units", "")), str(attrs.get("calendar", "standard"))
    dates = _dates(times, units, calendar)
    if dates is None:
        texts = [f"{t:.6g}" for t in times]
        title = f"time ({units})" if units else "time"
        return Clock([float(t) for t in times], texts, title, False)
    is_date = dates.dtype.kind == "M" and calendar in REAL_CALENDARS
    texts = [str(np.datetime_as_string(d, "s")) if is_date else d.isoformat() for d in dates]
    if all(text.endswith("T00:00:00") for text in texts):
        texts = [text[:10] for text in texts]
    readable = [text.replace("T", " ") for text in texts]
    if is_date:
        return Clock(texts, readable, "time", True)
    return Clock([_year(date) for date in dates], readable, f"year ({calendar} calendar)", False)


def _dates(times: np.ndarray, units: str, calendar: str) -> np.ndarray | None:
    """Dates of a browser's calendar as such, of another one as objects of cftime."""
    if " since " not in units:
        return None
    variable = xr.Variable("time", times, {"units": units, "calendar": calendar})
    coder = xr.coders.CFDatetimeCoder(use_cftime=None if calendar in REAL_CALENDARS else True)
    try:
        return xr.decode_cf(xr.Dataset({"time": variable}), decode_times=coder)["time"].values
    except (ValueError, OverflowError, ImportError):
        return None


def _year(date: Any) -> float:
    """Year with its fraction, in the calendar of the date."""
    first, then = (
        date.replace(year=date.year + k, month=1, day=1, hour=0, minute=0, second=0, microsecond=0)
        for k in (0, 1)
    )
    return float(date.year + (date - first) / (then - first))

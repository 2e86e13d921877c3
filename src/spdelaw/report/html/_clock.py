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
    units = str(attrs.get("units", ""))
    dates = _dates(times, units, str(attrs.get("calendar", "standard")))
    if dates is not None:
        texts = [str(np.datetime_as_string(d, "s")) for d in dates]
        if all(text.endswith("T00:00:00") for text in texts):
            texts = [text[:10] for text in texts]
        return Clock(texts, [t.replace("T", " ") for t in texts], "time", True)
    texts = [f"{t:.6g}" for t in times]
    title = f"time ({units})" if units else "time"
    return Clock([float(t) for t in times], texts, title, False)


def _dates(times: np.ndarray, units: str, calendar: str) -> np.ndarray | None:
    if " since " not in units or calendar not in REAL_CALENDARS:
        return None
    variable = xr.Variable("time", times, {"units": units, "calendar": calendar})
    try:
        decoded = xr.decode_cf(xr.Dataset({"time": variable}))["time"].values
    except (ValueError, OverflowError):
        return None
    return decoded if decoded.dtype.kind == "M" else None

"""Periods that dated records may have: the day and the year."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray

#: Lengths of a day in the units that dates are counted in.
DAYS = {"weeks": 1 / 7, "days": 1.0, "hours": 24.0, "minutes": 1440.0, "seconds": 86400.0}
YEAR = 365.2425
#: Periods that a record must last, and fewest steps in one.
RECORD, STEPS = 2.0, 4.0


class Period(NamedTuple):
    """A period of the calendar in the unit of the times."""

    name: str
    length: float


def periods_of(times: Array, clock: Mapping[str, Any]) -> list[Period]:
    """Periods that times with dates resolve, and last long enough for."""
    unit, _, since = str(clock.get("units", "")).partition(" since ")
    if not since or unit not in DAYS:
        return []
    step, span = float(np.median(np.diff(times, axis=-1))), float(np.ptp(times))
    both = (Period("of the day", DAYS[unit]), Period("of the year", YEAR * DAYS[unit]))
    return [p for p in both if span >= RECORD * p.length and step * STEPS <= p.length]

"""Dates and durations as numbers with their origin on record."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from tests.data.builders import POINTS, TIMES, fields, values

from spdelaw.data import as_fields
from spdelaw.errors import DataError


def dated(times, **options):
    return as_fields(values(), times=times, points=POINTS, **options)


def test_dates_count_days_from_the_first():
    made = dated(pd.date_range("2000-01-01", periods=5, freq="MS"))
    np.testing.assert_array_equal(made.time, [0, 31, 60, 91, 121])
    assert made.time.attrs == {
        "units": "days since 2000-01-01",
        "calendar": "proleptic_gregorian",
    }


def test_the_record_leads_back_to_the_dates():
    times = pd.date_range("1982-01-16T12:30", periods=5, freq="36h")
    made = dated(times)
    back = xr.decode_cf(made.to_dataset())
    np.testing.assert_array_equal(back.time, times)


@pytest.mark.parametrize(
    ("unit", "step"), [("hours", 24), ("seconds", 86400), ("weeks", 1 / 7), ("milliseconds", 864e5)]
)
def test_other_units(unit, step):
    made = dated(pd.date_range("2000-01-01", periods=5), time_unit=unit)
    np.testing.assert_allclose(made.time, step * np.arange(5), rtol=1e-15)
    assert made.time.attrs["units"].startswith(f"{unit} since")


def test_python_dates_and_descending_dates():
    times = [datetime(2000, 1, day) for day in (9, 7, 5, 2, 1)]
    made = dated(times)
    np.testing.assert_array_equal(made.time, [0, 1, 4, 6, 8])
    np.testing.assert_array_equal(made.values, values()[:, ::-1])
    assert made.time.attrs["units"] == "days since 2000-01-01"


def test_durations_keep_their_zero():
    made = dated(np.array([12, 24, 36, 48, 60], dtype="m8[h]"))
    np.testing.assert_array_equal(made.time, [0.5, 1, 1.5, 2, 2.5])
    assert made.time.attrs == {"units": "days"}


class NoLeap:
    """Date of a calendar without leap years, with the interface of cftime."""

    calendar = "noleap"

    def __init__(self, day):
        self.day = day

    def __sub__(self, other):
        return timedelta(days=self.day - other.day)

    def __lt__(self, other):
        return self.day < other.day

    def isoformat(self):
        return f"2001-{1 + self.day // 31:02d}-{1 + self.day % 31:02d}T00:00:00"


def test_dates_of_another_calendar():
    made = dated([NoLeap(day) for day in (3, 4, 6, 7, 9)])
    np.testing.assert_array_equal(made.time, [0, 1, 3, 4, 6])
    assert made.time.attrs == {"units": "days since 2001-01-04T00:00:00", "calendar": "noleap"}


def test_dates_per_path_share_one_origin():
    days = np.array([[3, 4, 5, 6, 7], [1, 2, 3, 4, 5], [2, 4, 6, 8, 9]])
    made = dated(np.datetime64("2000-01-01") + days.astype("m8[D]"))
    np.testing.assert_array_equal(made.path_time, days - 1)
    assert made.path_time.attrs["units"] == "days since 2000-01-02"


def test_unit_of_numbers_is_recorded_and_must_agree():
    made = dated(TIMES, time_unit="seconds")
    assert made.time.attrs == {"units": "seconds"}
    assert as_fields(made, time_unit="seconds").identical(made)
    with pytest.raises(DataError, match="the unit on record, 'seconds'"):
        as_fields(made, time_unit="days")


def test_units_without_a_fixed_length_are_refused():
    with pytest.raises(DataError, match="no fixed length"):
        dated(TIMES, time_unit="months")


def test_missing_dates_are_refused():
    broken = fields().assign_coords(
        time=pd.DatetimeIndex(["2000-01-01", "NaT", *["2000-01-03"] * 3])
    )
    with pytest.raises(DataError, match="nan at index 1"):
        as_fields(broken)
    with pytest.raises(DataError, match="only NaT"):
        dated(np.full(5, "NaT", dtype="M8[s]"))

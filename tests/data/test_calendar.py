"""How records go on: calendar months, other steps, and calendars of models."""

import itertools

import cftime
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.data.clock import from_dates, go_on, step_of, to_dates
from spdelaw.data.fields import as_fields
from spdelaw.data.io.files import read_dataset
from spdelaw.errors import DataError, InputError

X = np.linspace(0.0, 1.0, 5)


def continued(dates, n):
    """The next dates of a record."""
    fields = as_fields(xr.DataArray(np.zeros((len(dates), 5)), {"time": dates, "x": X},
                                    ("time", "x")) + 1.0)  # fmt: skip
    times, clock = fields["time"].values, fields["time"].attrs
    return to_dates(go_on(times[-1], step_of(times, clock), clock, n), clock)


def months(calendar, n, day=1):
    """Days of months, or their middles where day is None."""
    dates = xr.date_range("2001-01-01", periods=n + 1, freq="MS", calendar=calendar,
                          use_cftime=True)  # fmt: skip
    if day is None:
        return np.array([a + (b - a) / 2 for a, b in itertools.pairwise(dates)])
    return np.array([d.replace(day=day) for d in dates[:n]])


def winters(n):
    """December to February: half a day later in leap years, which is no irregular record."""
    dates = [f"{y}-01-15T{12 if y % 4 == 0 else 0:02d}" for y in range(1948, 1948 + n)]
    return np.array(dates, "datetime64[ns]")


FREQUENCIES = ["MS", "ME", "D", "6h", "YS", "QS", "W", "30min"]
RECORDS = [
    *(pd.date_range("2019-11-30", periods=30, freq=f).values for f in FREQUENCIES),
    pd.date_range("2010-01-01", periods=30, freq="MS").values + np.timedelta64(14, "D"),
    *(months(calendar, 30, day) for calendar in ("noleap", "360_day") for day in (1, 16)),
    months("standard", 30, 16),
    months("julian", 30, 1),
    months("noleap", 30, None),
]


@pytest.mark.parametrize("gaps", [[], [3, 4, 11]])
@pytest.mark.parametrize("dates", RECORDS)
def test_records_go_on_as_they_are_also_with_gaps(dates, gaps):
    got = continued(np.delete(dates[:24], gaps), 6)
    if got.dtype.kind == dates.dtype.kind:
        np.testing.assert_array_equal(got, dates[24:])
    else:  # dates of the standard calendar come back as NumPy's
        assert [f"{d}"[:10] for d in got] == [f"{d}"[:10] for d in dates[24:]]


def test_middles_of_winters_go_on_a_year_later():
    got = continued(winters(12), 2)
    np.testing.assert_array_equal(got, np.array(["1960-01-15", "1961-01-15"], "datetime64[ns]"))


def test_numbers_go_on_by_their_step_and_irregular_ones_by_the_median():
    assert go_on(1.5, step_of(np.arange(0, 1.6, 0.5), {}), {}, 2).tolist() == [2.0, 2.5]
    assert step_of(np.array([0.0, 1.0, 2.37, 3.1]), {}).length == pytest.approx(1.0)
    with pytest.raises(DataError, match="at least two times"):
        step_of(np.array([1.0]), {})


def model_output(calendar):
    """Monthly data of a climate model, with a season."""
    dates = xr.date_range("2001-01-01", periods=60, freq="MS", calendar=calendar, use_cftime=True)
    equation = sl.SpectralSPDE(sl.Interval(0, 1, "neumann"), 2, [0.01, 0.02], noise=[0.01, 0.01],
                               initial="stationary")  # fmt: skip
    noise = sl.simulate(equation, 1, np.arange(60) * 30.0, X, seed=0, observation_std=0.05)[0]
    month = np.array([d.month for d in dates])
    values = 280 + 5 * np.cos(2 * np.pi * month / 12)[:, None] + noise.values
    return xr.DataArray(values, {"time": dates, "x": X}, ("time", "x"), "tas", {"units": "K"})


@pytest.mark.parametrize("calendar", ["noleap", pytest.param("360_day", marks=pytest.mark.slow)])
def test_model_calendars_from_file_to_forecast(tmp_path, calendar):
    raw = model_output(calendar)
    raw.to_netcdf(tmp_path / "m.nc", engine="h5netcdf")
    opened = read_dataset(tmp_path / "m.nc")["tas"]
    assert isinstance(opened["time"].values[0], cftime.datetime)
    how = sl.Preparation(anomalies="month")
    law = sl.fit(opened, sl.Interval(0, 1, "neumann"), 2, prepare=how, initial="stationary",
                 nuisance=0)  # fmt: skip
    result = law.forecast(opened, steps=6)
    dates = result["time"].values
    assert [(d.year, d.month, d.day) for d in dates] == [(2006, m, 1) for m in range(1, 7)]
    assert dates[0].calendar == calendar
    some = law.forecast(opened, times=["2006-01-01", "2006-06-01"])
    np.testing.assert_allclose(some["mean"], result["mean"].isel(time=[0, 5]))
    # January is warm and June is cold: the climatology of the right month came back.
    climate = opened.groupby("time.month").mean().mean("x").values
    assert abs(float(result["mean"][0, 0].mean()) - climate[0]) < 1
    assert abs(float(result["mean"][0, 5].mean()) - climate[5]) < 1


def test_dates_of_every_day_on_a_clock_of_360_days():
    clock = {"units": "days since 2000-01-01", "calendar": "360_day"}
    assert from_dates(np.array(["2001-01-01"], "datetime64[ns]"), clock)[0] == 360
    with pytest.raises(DataError, match="one calendar"):
        from_dates(np.array(["2001-01-31"], "datetime64[ns]"), clock)


# ------------------------------------------------------------------ the law's forecast


@pytest.fixture(scope="module")
def monthly():
    dates = pd.date_range("2010-01-01", periods=60, freq="MS")
    values = 280 + np.random.default_rng(0).standard_normal((60, 5)).cumsum(0) * 0.1
    raw = xr.DataArray(values, {"time": dates, "x": X}, ("time", "x"), "t")
    law = sl.fit(raw, sl.Interval(0, 1, "neumann"), 2, prepare=sl.Preparation(anomalies="mean"),
                 initial="stationary", nuisance=0)  # fmt: skip
    return raw, law


def test_six_steps_of_months_are_six_firsts_of_months(monthly):
    raw, law = monthly
    result = law.forecast(raw, steps=6)
    expected = pd.date_range("2015-01-01", periods=6, freq="MS").values
    np.testing.assert_array_equal(result["time"].values, expected)
    xr.testing.assert_allclose(result, law.forecast(raw, expected))
    xr.testing.assert_allclose(result, law.forecast(raw, times=[str(d)[:10] for d in expected]))

    for arguments, message in (
        ({"times": 6}, "steps=6"), ({}, "either times or steps"),
        ({"times": [2000.0], "steps": 2}, "either times or steps"),
        ({"steps": 0}, "positive integer"), ({"steps": 1.5}, "a positive integer or None"),
        ({"times": ["soon"]}, "dates such as"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            law.forecast(raw, **arguments)


def test_figures_show_dates_and_units(monthly):
    raw, law = monthly
    ax = law.plot.forecast(raw, steps=6)
    line = next(line for line in ax.lines if line.get_label() == "history")
    assert line.get_xdata().dtype.kind == "M"
    assert 278 < np.mean(line.get_ydata()) < 282
    mean = next(line for line in ax.lines if line.get_label() == "forecast mean")
    assert 278 < np.mean(mean.get_ydata()) < 282
    law.plot.field(raw)


@pytest.mark.parametrize(
    ("calendar", "origin", "counts", "dates"),
    [
        ("standard", "1958-1-1", [0.5, 1.5], ["1958-01-16T12", "1958-02-15T00"]),
        ("gregorian", "1960-01-16 06:00", [0, 13], ["1960-01-16T06", "1961-02-16T06"]),
        ("360", "1960-01-01", [0.5, 2.5], ["1960-01-16T00", "1960-03-16T00"]),
    ],
)
def test_months_since_a_date_are_calendar_months(tmp_path, calendar, origin, counts, dates):
    attrs = {"units": f"months since {origin}", "calendar": calendar}
    values = np.random.default_rng(0).standard_normal((2, 5))
    raw = xr.DataArray(values, {"time": ("time", counts, attrs), "x": X}, ("time", "x"))
    raw.to_dataset(name="sst").to_netcdf(tmp_path / "months.cdf", engine="h5netcdf")
    times = read_dataset(tmp_path / "months.cdf")["sst"].time
    assert times.dt.strftime("%Y-%m-%dT%H").values.tolist() == dates

"""How records go on: calendar months, other steps, and calendars of models."""

import itertools

import cftime
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.data import as_fields, from_dates, go_on, read_dataset, step_of, to_dates
from spdelaw.errors import DataError, InputError

X = np.linspace(0.0, 1.0, 5)


def continued(dates, n):
    """The next dates of a record."""
    fields = as_fields(xr.DataArray(np.zeros((len(dates), 5)), {"time": dates, "x": X},
                                    ("time", "x")) + 1.0)  # fmt: skip
    times, clock = fields["time"].values, fields["time"].attrs
    return to_dates(go_on(times[-1], step_of(times, clock), clock, n), clock)


@pytest.mark.parametrize("freq", ["MS", "ME", "D", "6h", "YS", "QS", "W", "30min"])
def test_steps_are_those_of_pandas(freq):
    whole = pd.date_range("2019-11-30", periods=40, freq=freq)
    np.testing.assert_array_equal(continued(whole.values[:30], 10), whole.values[30:])


def test_gaps_in_a_record_change_no_step():
    whole = pd.date_range("2010-01-01", periods=30, freq="MS").values
    kept = np.delete(whole[:24], [3, 4, 11])
    np.testing.assert_array_equal(continued(kept, 6), whole[24:])
    days = pd.date_range("2010-01-01", periods=30, freq="D").values
    np.testing.assert_array_equal(continued(np.delete(days[:24], [3, 4, 11]), 6), days[24:])


def test_day_of_the_month_is_kept_and_cut_to_the_month():
    fifteenth = pd.date_range("2010-01-01", periods=20, freq="MS").values + np.timedelta64(14, "D")
    np.testing.assert_array_equal(continued(fifteenth[:12], 8), fifteenth[12:])


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "standard", "julian"])
@pytest.mark.parametrize("day", [1, 16])
def test_months_of_any_calendar(calendar, day):
    whole = xr.date_range("2000-01-01", periods=30, freq="MS", calendar=calendar, use_cftime=True)
    dates = np.array([d.replace(day=day) for d in whole])
    got = continued(dates[:24], 6)
    shown = [f"{d}"[:10] for d in got]
    assert shown == [f"{d}"[:10] for d in dates[24:]]


def test_middles_of_months_go_on_as_middles():
    starts = xr.date_range("2001-01-01", periods=31, freq="MS", calendar="noleap", use_cftime=True)
    middles = np.array([a + (b - a) / 2 for a, b in itertools.pairwise(starts)])
    got = continued(middles[:24], 6)
    assert got.tolist() == middles[24:].tolist()


def test_middles_of_winters_go_on_a_year_later():
    """December to February: half a day later in leap years, which is no irregular record."""
    years = range(1948, 1960)
    dates = [f"{y}-01-15T{12 if y % 4 == 0 else 0:02d}" for y in years]
    got = continued(np.array(dates, "datetime64[ns]"), 2)
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


@pytest.mark.parametrize("calendar", ["noleap", "360_day"])
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
    asked = law.forecast(opened, times=["2006-01-01", "2006-06-01"])
    np.testing.assert_allclose(asked["mean"], result["mean"].isel(time=[0, 5]))
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"times": 6}, "steps=6"),
        ({}, "either times or steps"),
        ({"times": [2000.0], "steps": 2}, "either times or steps"),
        ({"steps": 0}, "positive integer"),
        ({"steps": 1.5}, "positive integer"),
        ({"times": ["soon"]}, "dates such as"),
    ],
)
def test_what_times_cannot_be(monthly, arguments, message):
    raw, law = monthly
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

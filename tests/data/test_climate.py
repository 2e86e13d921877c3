"""Climatologies of every kind against xarray and least squares, with gaps, trends and leads."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import spdelaw as sl
from spdelaw.data import Preparation
from spdelaw.errors import DataError

X = np.array([0.0, 0.5, 1.0])
WORDS = ["mean", "month", "dayofyear", "hour", "month+hour"]


def hourly(seed=0, missing=0.0, days=730, step="6h"):
    """Season, daily cycle that changes with it, trend and noise."""
    rng = np.random.default_rng(seed)
    time = pd.date_range("2001-01-01", periods=days * 4, freq=step)
    year, day = 2 * np.pi * time.day_of_year / 365.2425, 2 * np.pi * time.hour / 24
    cycle = 10 * np.cos(year) + (3 + np.cos(year)) * np.sin(day) + 0.001 * np.arange(len(time))
    values = 280 + np.asarray(cycle)[:, None] * (1 + X) + rng.standard_normal((len(time), 3))
    values[rng.random(values.shape) < missing] = np.nan
    return xr.DataArray(values, {"time": time, "x": X}, ("time", "x"), "t2m")


def grouped(raw, word):
    if word == "mean":
        return raw - raw.mean("time")
    if word == "month+hour":
        key = raw.time.dt.month * 100 + raw.time.dt.hour
        return raw.groupby(key.rename("key")) - raw.groupby(key.rename("key")).mean()
    return raw.groupby(f"time.{word}") - raw.groupby(f"time.{word}").mean()


@pytest.mark.parametrize("word", ["mean", "month", "hour", "month+hour"])
@pytest.mark.parametrize("missing", [0.0, 0.9])
def test_groups_are_those_of_xarray(word, missing):
    raw = hourly(missing=missing)
    got = Preparation(anomalies=word).learn(raw).apply(raw)
    np.testing.assert_allclose(got.values[0], grouped(raw, word).values, atol=1e-9)


@pytest.mark.parametrize("word", ["mean", "month", "hour", "month+hour"])
def test_groups_and_line_are_least_squares(word):
    """Against a dense design of indicators and a line, at a point with gaps of its own."""
    raw = hourly(missing=0.5, days=400)
    got = Preparation(anomalies=word, detrend=True).learn(raw).apply(raw).values[0]
    parts = {"mean": 0 * raw.time.dt.hour}.get(word)
    if parts is None:
        parts = sum(100**k * getattr(raw.time.dt, p) for k, p in enumerate(word.split("+")))
    codes = parts.values
    line = np.arange(len(codes), dtype=float)
    design = np.column_stack([codes[:, None] == np.unique(codes), line / line[-1]]).astype(float)
    for i in range(3):
        seen = raw.notnull().values[:, i]
        fit = np.linalg.lstsq(design[seen], raw.values[seen, i], rcond=None)[0]
        np.testing.assert_allclose(
            got[seen, i], raw.values[seen, i] - design[seen] @ fit, atol=1e-8
        )


@settings(max_examples=25, deadline=None)
@given(word=st.sampled_from([None, *WORDS]), detrend=st.booleans(), area=st.booleans(),
       standardise=st.sampled_from([None, "point", "whole"]), seed=st.integers(0, 100),
       missing=st.sampled_from([0.0, 0.4]))  # fmt: skip
def test_any_combination_is_undone(word, detrend, area, standardise, seed, missing):
    raw = hourly(seed, missing, days=366)
    how = Preparation(anomalies=word, detrend=detrend, standardise=standardise, area_weights=area)
    prepared = how.learn(raw)
    fields = prepared.apply(raw)
    if how.is_affine:
        offset, scale = prepared.affine(fields["time"].values, X)
        fields = fields * scale + offset
    np.testing.assert_allclose(fields.values[0], raw.values, rtol=1e-11)


def test_climatology_is_that_of_the_training_data_alone():
    raw = hourly()
    train, test = raw.isel(time=slice(0, 1460)), raw.isel(time=slice(1460, None))
    prepared = Preparation(anomalies="month+hour").learn(train)
    key = (train.time.dt.month * 100 + train.time.dt.hour).rename("key")
    later = (test.time.dt.month * 100 + test.time.dt.hour).rename("key")
    expected = test.groupby(later) - train.groupby(key).mean()
    np.testing.assert_allclose(prepared.apply(test).values[0], expected.values, atol=1e-9)


def test_leads_have_a_mean_of_their_own():
    rng = np.random.default_rng(0)
    drift = np.array([5.0, 2.0, 1.0, 0.5])
    values = drift[:, None] + 0.1 * rng.standard_normal((40, 4, 3))
    raw = xr.DataArray(values, {"init": np.arange(40), "lead": np.arange(4), "x": X},
                       ("init", "lead", "x"))  # fmt: skip
    prepared = Preparation(anomalies="lead").learn(raw)
    np.testing.assert_allclose(prepared.apply(raw).values, values - values.mean(0), atol=1e-12)
    with pytest.raises(DataError, match="a lead time that the climatology was learned from"):
        prepared.affine(np.array([4.0]), X)
    with pytest.raises(DataError, match="tell climatology and trend apart"):
        Preparation(anomalies="lead", detrend=True).learn(raw)


def test_a_month_that_was_never_seen_somewhere_is_unknown_there_and_said():
    time = pd.date_range("2001-01-01", periods=48, freq="MS")
    values = np.random.default_rng(0).standard_normal((48, 3))
    raw = xr.DataArray(values, {"time": time, "x": X}, ("time", "x"))
    raw[1::12, 0] = np.nan
    prepared = Preparation(anomalies="month").learn(raw)
    assert "1 of 3 points have no climatology for some times" in prepared.notes[0]
    law = sl.fit(raw, sl.Interval(0, 1, "neumann"), 1, prepare=Preparation(anomalies="month"),
                 nuisance=0, initial="stationary")  # fmt: skip
    assert any("no climatology" in note for note in law.info["warnings"])
    result = law.forecast(raw, steps=2)["mean"]
    np.testing.assert_array_equal(np.isnan(result.values[0]), [[False] * 3, [True, False, False]])


def test_a_point_of_few_values_is_left_out_and_said():
    time = pd.date_range("2001-01-01", periods=60, freq="MS")
    raw = xr.DataArray(np.random.default_rng(0).standard_normal((60, 3)), {"time": time, "x": X},
                       ("time", "x"))  # fmt: skip
    raw[5:, 0] = np.nan
    how = Preparation(anomalies="dayofyear")
    prepared = how.learn(raw)
    assert "1 of 3 points have too few values for the 7 numbers" in prepared.notes[0]
    assert np.isnan(prepared.apply(raw).values[0, :, 0]).all()
    alone = how.learn(raw.isel(x=[1, 2]))
    np.testing.assert_allclose(prepared.coefficients[:, 1:], alone.coefficients)
    lazy = how.learn(raw.chunk(time=20))
    np.testing.assert_allclose(lazy.coefficients, prepared.coefficients, atol=1e-9)
    with pytest.raises(DataError, match="got at most 5, at a point of 5 values"):
        how.learn(raw[:5])


def test_months_seen_once_are_no_climatology():
    raw = hourly().isel(time=slice(6))
    raw = raw.assign_coords(time=pd.date_range("2001-01-01", periods=6, freq="MS"))
    with pytest.raises(DataError, match="every calendar month more than once"):
        Preparation(anomalies="month").learn(raw)


def test_area_weights_are_roots_of_cosines():
    lat = np.array([-60.0, 0.0, 60.0])
    values = np.random.default_rng(0).standard_normal((5, 3, 4))
    raw = xr.DataArray(values, {"time": np.arange(5.0), "lat": lat, "lon": np.arange(4.0)},
                       ("time", "lat", "lon"))  # fmt: skip
    got = Preparation(anomalies="mean", area_weights=True).learn(raw, ("lat", "lon"))
    weighted = got.apply(raw, ("lat", "lon")).values[0]
    expected = (values - values.mean(0)) * np.sqrt(np.cos(np.radians(lat)))[:, None]
    np.testing.assert_allclose(weighted, expected, atol=1e-12)


# ------------------------------------------------------------------ selections


def test_longitudes_are_selected_whatever_their_sign():
    rng = np.random.default_rng(0)
    east = np.arange(0.0, 360.0, 30.0)
    raw = xr.DataArray(rng.standard_normal((4, 12)), {"time": np.arange(4.0), "lon": east},
                       ("time", "lon"))  # fmt: skip
    signed = raw.assign_coords(lon=(east + 180) % 360 - 180).sortby("lon")
    for low, high in ((150, 270), (-60, 60), (-180, -90)):
        how = Preparation(select={"lon": (low, high)})
        one, two = how.reduce(raw), how.reduce(signed)
        xr.testing.assert_allclose(one, two)
        assert low <= float(one["lon"].min()) <= float(one["lon"].max()) <= high
        assert one.sizes["lon"] == (high - low) // 30 + 1


def test_one_number_selects_the_nearest_entry_and_misspelled_dims_are_named():
    coords = {"time": np.arange(4.0), "depth": [5.0, 15.0, 30.0], "x": X}
    raw = xr.DataArray(np.random.default_rng(0).standard_normal((4, 3, 3)), coords,
                       ("time", "depth", "x"))  # fmt: skip
    got = Preparation(select={"depth": (12, 12)}, average="depth").reduce(raw)
    np.testing.assert_allclose(got.values, raw.values[:, 1])
    with pytest.raises(DataError, match="did you mean depth"):
        Preparation(select={"dept": (1, 2)}).reduce(raw)


def test_stations_are_selected_by_their_coordinates():
    places = {"lat": ("station", [1.0, 2.0, 3.0, 4.0]), "lon": ("station", [1.0, 2.0, 3.0, 4.0])}
    coords = {"time": [0.0, 1.0], **places}
    raw = xr.DataArray(np.arange(8.0).reshape(2, 4), coords, ("time", "station"))
    got = Preparation(select={"lat": (2, 3)}).reduce(raw)
    np.testing.assert_array_equal(got.values, raw.values[:, 1:3])


def test_fills_are_missing_where_the_preparation_says_so():
    raw = hourly().copy()
    raw[3, 1] = -9999.0
    prepared = Preparation(anomalies="month", missing=-9999).learn(raw)
    assert np.isnan(prepared.apply(raw).values[0, 3, 1])
    assert "-9999 is missing" in prepared.how.in_words()

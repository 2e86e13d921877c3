"""Preparation of raw data: against xarray and least squares, in blocks, undone without a trace."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.builders import MONTHS, globe
from tests.parameters import cross

import spdelaw as sl
from spdelaw.data.clock import from_dates, on_clock, to_dates
from spdelaw.data.prepare import Preparation
from spdelaw.errors import DataError, InputError

X = np.array([0.0, 0.5, 1.0])
LINE = sl.Interval(0, 1, "neumann")
SPHERE = sl.Sphere()
NAMES = {"latitude": "lat", "longitude": "lon"}
ALL = {"anomalies": "month", "detrend": True, "standardise": "point"}
STATIONARY = {"initial": "stationary", "nuisance": 0}


def line(values, time, name="t2m"):
    return xr.DataArray(values, {"time": time, "x": X}, ("time", "x"), name)


def monthly(n=48, seed=0):
    time = pd.date_range("2001-01-01", periods=n, freq="MS")
    return line(np.random.default_rng(seed).standard_normal((n, 3)), time)


def hourly(seed=0, missing=0.0, days=730):
    """Season, daily cycle that changes with it, trend and noise."""
    rng = np.random.default_rng(seed)
    time = pd.date_range("2001-01-01", periods=days * 4, freq="6h")
    year, day = 2 * np.pi * time.day_of_year / 365.2425, 2 * np.pi * time.hour / 24
    cycle = 10 * np.cos(year) + (3 + np.cos(year)) * np.sin(day) + 0.001 * np.arange(len(time))
    values = 280 + np.asarray(cycle)[:, None] * (1 + X) + rng.standard_normal((len(time), 3))
    values[rng.random(values.shape) < missing] = np.nan
    return line(values, time)


# ------------------------------------------------------------------ climatologies


def codes(raw, word):
    """A number for each group of times."""
    if word == "mean":
        return xr.zeros_like(raw.time, dtype=int)
    return sum(100**k * getattr(raw.time.dt, p) for k, p in enumerate(word.split("+")))


@cross(word=["mean", "month", "hour", "month+hour"], missing=[0.0, 0.9], later=[False, True])
def test_groups_are_those_of_xarray_in_the_training_data_alone(word, missing, later):
    raw = hourly(missing=missing)
    train = raw.isel(time=slice(0, 1460)) if later else raw
    new = raw.isel(time=slice(1460, None)) if later else raw
    mean = train.groupby(codes(train, word).rename("key")).mean()
    expected = new.groupby(codes(new, word).rename("key")) - mean
    prepared = Preparation(anomalies=word).learn(train)
    np.testing.assert_allclose(prepared.apply(new).values[0], expected.values, atol=1e-9)


@pytest.mark.parametrize("word", ["mean", "month", "hour", "month+hour"])
def test_groups_and_line_are_least_squares(word):
    """Against a dense design of indicators and a line, at a point with gaps of its own."""
    raw = hourly(missing=0.5, days=400)
    got = Preparation(anomalies=word, detrend=True).learn(raw).apply(raw).values[0]
    groups = codes(raw, word).values
    trend = np.linspace(0.0, 1.0, len(groups))
    design = np.column_stack([groups[:, None] == np.unique(groups), trend]).astype(float)
    for i in range(3):
        finite = raw.notnull().values[:, i]
        fit = np.linalg.lstsq(design[finite], raw.values[finite, i], rcond=None)[0]
        expected = raw.values[finite, i] - design[finite] @ fit
        np.testing.assert_allclose(got[finite, i], expected, atol=1e-8)


def test_day_of_year_fits_harmonics_of_the_year():
    raw = line(np.zeros((1095, 3)), pd.date_range("2001-01-01", periods=1095))
    angle = 2 * np.pi * raw.time.dt.dayofyear / 365.2425
    raw = raw + 5 + np.sin(angle) + 0.3 * np.cos(3 * angle)
    got = Preparation(anomalies="dayofyear").learn(raw).apply(raw)
    assert np.abs(got.values).max() < 1e-9


WORDS = [None, "mean", "month", "dayofyear", "hour", "month+hour"]


@settings(max_examples=25, deadline=None)
@given(word=st.sampled_from(WORDS), detrend=st.booleans(), area=st.booleans(),
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


def test_leads_have_a_mean_of_their_own():
    drift = np.array([5.0, 2.0, 1.0, 0.5])
    values = drift[:, None] + 0.1 * np.random.default_rng(0).standard_normal((40, 4, 3))
    coords = {"init": np.arange(40), "lead": np.arange(4), "x": X}
    raw = xr.DataArray(values, coords, ("init", "lead", "x"))
    prepared = Preparation(anomalies="lead").learn(raw)
    np.testing.assert_allclose(prepared.apply(raw).values, values - values.mean(0), atol=1e-12)
    with pytest.raises(DataError, match="a lead time within the training data of the climatology"):
        prepared.affine(np.array([4.0]), X)
    with pytest.raises(DataError, match="climatology and trend can be separated"):
        Preparation(anomalies="lead", detrend=True).learn(raw)


def test_a_month_that_is_never_seen_at_a_point_is_unknown_there():
    raw = monthly()
    raw[1::12, 0] = np.nan
    how = Preparation(anomalies="month")
    assert "1 of 3 points have no climatology for some times" in how.learn(raw).notes[0]
    law = sl.fit(raw, LINE, 1, prepare=how, **STATIONARY)
    assert any("no climatology" in note for note in law.info["warnings"])
    result = law.forecast(raw, steps=2)["mean"]
    np.testing.assert_array_equal(np.isnan(result.values[0]), [[False] * 3, [True, False, False]])


def test_a_point_of_few_values_is_left_out():
    raw, how = monthly(60), Preparation(anomalies="dayofyear")
    raw[5:, 0] = np.nan
    prepared = how.learn(raw)
    assert "1 of 3 points have too few values for the 7 parameters" in prepared.notes[0]
    assert np.isnan(prepared.apply(raw).values[0, :, 0]).all()
    alone = how.learn(raw.isel(x=[1, 2]))
    np.testing.assert_allclose(prepared.coefficients[:, 1:], alone.coefficients)
    lazy = how.learn(raw.chunk(time=20))
    np.testing.assert_allclose(lazy.coefficients, prepared.coefficients, atol=1e-9)
    with pytest.raises(DataError, match="got at most 5, at a point of 5 values"):
        how.learn(raw[:5])


def test_fills_are_missing_where_the_preparation_says_so():
    raw = hourly(days=400)
    raw[3, 1] = -9999.0
    prepared = Preparation(anomalies="month", missing=-9999).learn(raw)
    assert np.isnan(prepared.apply(raw).values[0, 3, 1])
    assert "-9999 is missing" in prepared.how.in_words()


# ------------------------------------------------------------------ space


def test_area_weights_and_deviations():
    raw = globe(land=False)
    root = np.sqrt(np.cos(np.deg2rad(raw.latitude)))
    how = Preparation(rename=NAMES, anomalies="mean", area_weights=True)
    weighted = how.learn(raw, SPHERE.dims).apply(raw, SPHERE.dims)
    left = raw - raw.mean("time")
    np.testing.assert_allclose(weighted.values[0], (left * root).transpose(*raw.dims), atol=1e-12)
    whole = Preparation(rename=NAMES, standardise="whole").learn(raw, SPHERE.dims)
    expected = np.sqrt(float((left**2).weighted(root**2).mean()))
    np.testing.assert_allclose(whole.scale, expected, rtol=1e-12)
    point = Preparation(rename=NAMES, anomalies="month", standardise="point")
    fields = point.learn(raw, SPHERE.dims).apply(raw, SPHERE.dims)
    np.testing.assert_allclose((fields**2).mean(("path", "time")), 1.0)


def test_each_point_is_prepared_as_it_would_be_alone():
    raw = globe(n_paths=3)
    both = Preparation(rename=NAMES, **ALL).learn(raw, SPHERE.dims).apply(raw, SPHERE.dims)
    assert both.dims == ("path", "time", "lat", "lon")
    for i, j in ((0, 3), (5, 9)):
        alone = raw.isel(latitude=[i], longitude=j).drop_vars("longitude")
        single = Preparation(rename={"latitude": "x"}, **ALL).learn(alone).apply(alone)
        np.testing.assert_allclose(single.values[..., 0], both.values[..., i, j], atol=1e-9)


def test_selection_mean_by_area_names_and_coarsening():
    coords = {"time": np.arange(4.0), "lat": [-60.0, 0.0, 60.0], "lon": np.arange(8.0)}
    values = np.random.default_rng(0).standard_normal((4, 3, 8))
    raw = xr.DataArray(values, coords, ("time", "lat", "lon"))
    how = Preparation(select={"lon": (1, 6)}, average="lat", rename={"lon": "x"}, coarsen={"x": 2})
    w = np.array([0.5, 1.0, 0.5])
    expected = np.einsum("tlx,l->tx", raw.values, w)[:, 1:7].reshape(4, 3, 2).mean(2) / 2
    got = how.reduce(raw)
    np.testing.assert_allclose(got.values, expected)
    np.testing.assert_allclose(got.x, [1.5, 3.5, 5.5])


def test_blocks_are_means_by_area_of_what_was_seen():
    """Also where a latitude has another name."""
    raw = globe()
    how = Preparation(rename=NAMES, coarsen={"latitude": 2, "lon": 3})
    got = how.reduce(raw)
    assert got.dims == ("time", "lat", "lon")
    assert got.name == "t2m"
    area = np.cos(np.deg2rad(raw.latitude)) * raw.notnull()
    blocks = {"latitude": 2, "longitude": 3}
    total = (raw.fillna(0.0) * area).coarsen(blocks).sum() / area.coarsen(blocks).sum()
    assert total.isnull().any()
    np.testing.assert_allclose(got.values, total.transpose(*raw.dims).values, rtol=1e-12)
    np.testing.assert_allclose(got.lat, [-60, 0, 60])
    np.testing.assert_allclose(got.lon, [45, 135, 225, 315])
    on_sphere, on_box = (
        Preparation(rename=names, coarsen=blocks, standardise="whole")
        for names in (NAMES, {"latitude": "y", "longitude": "x"})
    )
    one = on_sphere.learn(raw, SPHERE.dims).apply(raw, SPHERE.dims)
    two = on_box.learn(raw, ("x", "y")).apply(raw, ("x", "y"))
    np.testing.assert_allclose(two.transpose(..., "y", "x").values, one.values, atol=1e-10)
    assert "standard_name" not in raw.latitude.attrs


def test_longitudes_are_selected_whatever_their_sign():
    east = np.arange(0.0, 360.0, 30.0)
    values = np.random.default_rng(0).standard_normal((4, 12))
    raw = xr.DataArray(values, {"time": np.arange(4.0), "lon": east}, ("time", "lon"))
    signed = raw.assign_coords(lon=(east + 180) % 360 - 180).sortby("lon")
    for low, high in ((150, 270), (-60, 60), (-180, -90)):
        how = Preparation(select={"lon": (low, high)})
        one, two = how.reduce(raw), how.reduce(signed)
        xr.testing.assert_allclose(one, two)
        assert low <= float(one["lon"].min()) <= float(one["lon"].max()) <= high
        assert one.sizes["lon"] == (high - low) // 30 + 1


def test_one_number_selects_the_nearest_entry_and_stations_by_their_coordinates():
    coords = {"time": np.arange(4.0), "depth": [5.0, 15.0, 30.0], "x": X}
    values = np.random.default_rng(0).standard_normal((4, 3, 3))
    raw = xr.DataArray(values, coords, ("time", "depth", "x"))
    got = Preparation(select={"depth": (12, 12)}, average="depth").reduce(raw)
    np.testing.assert_allclose(got.values, raw.values[:, 1])
    places = {name: ("station", [1.0, 2.0, 3.0, 4.0]) for name in ("lat", "lon")}
    raw = xr.DataArray(np.arange(8.0).reshape(2, 4), {"time": [0.0, 1.0], **places},
                       ("time", "station"))  # fmt: skip
    got = Preparation(select={"lat": (2, 3)}).reduce(raw)
    np.testing.assert_array_equal(got.values, raw.values[:, 1:3])


# ------------------------------------------------------------------ lazy fields


def daily(n_years=4):
    """Fields with a season, a trend, gaps and a point that is never seen."""
    generator = np.random.default_rng(0)
    time = np.datetime64("2000-01-01") + np.arange(0, 365 * n_years, 11).astype("timedelta64[D]")
    months = np.cos(np.linspace(0.0, 2 * np.pi * n_years, len(time)))
    x = np.linspace(0.0, 1.0, 5)
    values = 300.0 + 5.0 * months[:, None] * x + 1e-3 * np.arange(len(time))[:, None]
    values = values + generator.standard_normal((2, len(time), 5))
    values[generator.random(values.shape) < 0.2] = np.nan
    values[..., 3] = np.nan
    return xr.DataArray(values, {"time": time, "x": x}, ("path", "time", "x"))


HOW = [
    Preparation(**ALL),
    Preparation(anomalies="month"),
    Preparation(anomalies="mean", standardise="whole"),
    Preparation(anomalies="dayofyear", detrend=True, standardise="point"),
    Preparation(detrend=True),
]


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(HOW), st.integers(1, 2), st.integers(5, 70), st.integers(1, 5))
def test_any_chunks_are_prepared_as_the_whole(how, path, time, x):
    data = daily(2)
    lazy = data.chunk(path=path, time=time, x=x)
    one, two = how.learn(data), how.learn(lazy)
    np.testing.assert_allclose(two.coefficients, one.coefficients, rtol=1e-9)
    np.testing.assert_allclose(two.scale, one.scale, rtol=1e-9)
    fields = two.apply(lazy)
    assert fields.chunks == sl.as_fields(lazy).chunks
    np.testing.assert_allclose(fields, one.apply(data), rtol=1e-8, atol=1e-8)


def test_no_block_is_larger_than_a_chunk():
    data, sizes = daily(), []

    def spy(block):
        sizes.append(block.size)
        return block

    watched = data.copy(data=da.from_array(data.values, chunks=(1, 20, -1)).map_blocks(spy))
    prepared = HOW[0].learn(watched)
    prepared.apply(watched).isel(time=slice(20)).compute()
    assert max(sizes) <= 20 * 5
    half = daily(1).isel(time=slice(6)).chunk(time=2)
    with pytest.raises(DataError, match="climatology and trend"):
        HOW[3].learn(half)


def test_a_fit_of_lazy_raw_data_is_that_of_the_same_in_memory():
    fields = sl.simulate(sl.catalogue.heat(n_modes=2), 30, np.arange(24) * 0.1, seed=0)
    hours = np.datetime64("2000-01-01") + (fields.time.values * 86400).astype("timedelta64[s]")
    data = fields.assign_coords(time=hours) + 300.0
    words = {"prepare": Preparation(anomalies="hour"), "mean": "zero", "nuisance": 0}
    chunked = data.chunk(path=8, time=7)
    one, two = (sl.fit(d, sl.Interval(0, np.pi), 2, **words) for d in (data, chunked))
    for name in one.parameters:
        a, b = one.parameters[name].values, two.parameters[name].values
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9 * np.abs(a).max())
    full = two.reconstruct(chunked)["mean"]
    assert full.chunks is not None
    np.testing.assert_allclose(full, one.reconstruct(data)["mean"], rtol=1e-9)


# ------------------------------------------------------------------ a law in the user's units


@pytest.fixture(scope="module")
def prepared_law():
    raw = globe(n_paths=4)
    return raw, sl.fit(raw, SPHERE, 4, prepare=Preparation(rename=NAMES, **ALL), **STATIONARY)


def test_law_equals_the_one_of_fields_prepared_by_hand(prepared_law):
    raw, law = prepared_law
    fields = law.prepared(raw)
    bare = sl.fit(fields, SPHERE, 4, **STATIONARY)
    xr.testing.assert_allclose(bare.parameters, law.parameters)
    xr.testing.assert_allclose(bare.log_likelihood(fields), law.log_likelihood(raw))
    one, two = bare.reconstruct(fields), law.reconstruct(raw)
    offset, scale = law.preparation.affine(fields["time"].values, law.preparation.points)
    scale, offset = scale.reshape(6, 12), offset.reshape(60, 6, 12)
    np.testing.assert_allclose(two["mean"], one["mean"] * scale + offset)
    np.testing.assert_allclose(two["std"], one["std"] * scale)
    assert law.info["preparation"] == [
        "anomalies against the mean of each calendar month", "linear trend removed",
        "standardised by point",
    ]  # fmt: skip


def test_forecast_and_sample_come_back_in_dates_and_units(prepared_law, tmp_path):
    raw, law = prepared_law
    dates = np.array(["2006-01-01", "2006-07-01", "2050-07-01"], "datetime64[ns]")
    result = law.forecast(raw, dates, n_samples=3)
    assert result["mean"].dims == ("path", "time", "latitude", "longitude")
    np.testing.assert_array_equal(result["time"], dates)
    assert abs(float(result["mean"][:, :2].mean()) - 280) < 5
    # Far ahead the forecast is the climatology of July and the trend alone.
    days = (dates - MONTHS[0]) / np.timedelta64(1, "D")
    offset, _ = law.preparation.affine(days[-1:], law.preparation.points)
    np.testing.assert_allclose(result["mean"][0, -1], offset.reshape(6, 12), atol=1e-6)
    numbers = law.forecast(raw, days)
    np.testing.assert_allclose(numbers["mean"], result["mean"])
    assert numbers["time"].attrs["units"] == "days since 2001-01-01"
    law.save(tmp_path / "a.law")
    again = sl.load(tmp_path / "a.law")
    assert again.preparation.how == law.preparation.how
    xr.testing.assert_identical(again.forecast(raw, dates, n_samples=3), result)
    assert '"schema": 3' in (tmp_path / "a.law" / "law.json").read_text()
    new = law.sample(200, seed=0)
    assert abs(float(new.mean()) - float(raw.mean())) < 0.2
    assert new["time"].attrs["units"].startswith("days since 2001-01-01")
    assert law.sample(2, times=MONTHS[:3])["time"].dtype.kind == "M"


def test_parts_of_the_data_are_prepared_as_the_whole(prepared_law):
    raw, law = prepared_law
    later = raw.isel(time=slice(24, None))
    date = np.array(["2006-01-01"], "datetime64[ns]")
    assert float(law.prepared(later)["time"][0]) == 730
    mean = law.forecast(later, date)["mean"]
    np.testing.assert_allclose(mean, law.forecast(raw, date)["mean"], rtol=1e-3)
    part = law.prepared(raw.isel(latitude=slice(1, 3)))
    xr.testing.assert_allclose(part, law.prepared(raw).isel(lat=slice(1, 3)))


def test_land_stays_land(prepared_law):
    raw, law = prepared_law
    land = raw.isel(path=0, time=0).isnull().values
    assert land.any()
    results = [law.reconstruct(raw), law.forecast(raw, [2000.0], n_samples=2)]
    for array in (*(r[name] for r in results for name in r.data_vars), law.sample(2, seed=0)):
        np.testing.assert_array_equal(array.isnull().values, np.broadcast_to(land, array.shape))
    noise = float(law.parameters.observation_std[0]) * law.preparation.scale[~land.ravel()]
    for result in results:
        together = (result["std_field"] ** 2).isel(path=0, time=0).values[~land] + noise**2
        np.testing.assert_allclose(result["std"].isel(path=0, time=0).values[~land] ** 2, together)


def test_patterns_disks_and_scattered_points():
    """Grids whose cells lie partly outside, and no grid at all."""
    raw = globe()
    how = Preparation(rename=NAMES, anomalies="month")
    anomalies = how.learn(raw, SPHERE.dims).apply(raw, SPHERE.dims)
    eofs = sl.Empirical(anomalies, 3, weights=SPHERE)
    law = sl.fit(raw, eofs, 3, prepare=how, initial="stationary")
    assert abs(float(law.sample(2, seed=0).mean()) - float(raw.mean())) < 3
    ahead = law.forecast(raw, np.array(["2006-02-01"], "datetime64[ns]"))["mean"]
    np.testing.assert_array_equal(ahead[0, 0].isnull(), raw[0].isnull())
    disk = sl.Disk()
    paths = sl.simulate(sl.catalogue.heat_on(disk, 3), 20, np.linspace(0, 1, 11), disk.grid(9))
    raw = 5.0 + 2.0 * paths.drop_attrs()
    words = {"prepare": Preparation(standardise="whole"), "initial": "stationary"}
    law = sl.fit(raw, disk, 3, **words)
    new = law.sample(50, seed=1)
    assert dict(new.sizes) == {"path": 50, "time": 11, "x": 9, "y": 9}
    assert abs(float(new.mean()) - 5.0) < 0.3
    flat = disk.flatten(raw)
    scattered = sl.fit(flat, disk, 3, **words).reconstruct(flat)["mean"]
    expected = disk.flatten(law.reconstruct(raw)["mean"])
    np.testing.assert_allclose(scattered, expected, rtol=1e-6)


def test_evaluation_and_validation_take_raw_fields(prepared_law):
    raw, law = prepared_law
    card = sl.evaluate(law, raw, tiers=("gaps",))
    other = sl.evaluate(law.without_preparation_and_mean, law.prepared(raw), tiers=("gaps",))
    assert card.tiers == other.tiers
    assert "are treated as known" in " ".join(law.info["warnings"])
    how = Preparation(rename=NAMES, anomalies="month")
    with pytest.warns(DeprecationWarning, match="skill"):
        scores = sl.leave_future_out(raw[:1], SPHERE, 4, prepare=how, first=50, leads=2, refit=10,
                                     **STATIONARY)  # fmt: skip
    assert np.isfinite(scores.rmse).all()
    # Persistence by hand, in anomalies from the first fifty months.
    learned = how.learn(raw[:1].isel(time=slice(50)), SPHERE.dims).apply(raw[:1], SPHERE.dims)
    x = learned.values[0].reshape(60, -1)
    later = np.array([x[k] - x[k - 1] for k in range(50, 60)])
    expected = np.sqrt(np.nanmean(later**2))
    assert float(scores.rmse.sel(predictor="persistence", lead=1)) == pytest.approx(expected)


# ------------------------------------------------------------------ refusals and clocks

SIX = monthly(6)
NO_DATES = SIX.assign_coords(time=range(6))
REFUSED = [
    (lambda: Preparation(anomalies="weekly"), InputError, "one of"),
    (lambda: Preparation(standardise=True), InputError, "text or None"),
    (lambda: Preparation(detrend=1), InputError, "True or False"),
    (lambda: Preparation(anomalies="month").learn(SIX), DataError, "every calendar month more"),
    (lambda: Preparation(anomalies="month").learn(NO_DATES), DataError, "dates"),
    (lambda: Preparation(average="lat").reduce(SIX), InputError, "one of time, x"),
    (lambda: Preparation(average="time").reduce(SIX), InputError, "spatial dims"),
    (lambda: Preparation(select={"x": (5, 6)}).reduce(SIX), InputError, "range within"),
    (lambda: Preparation(select={"xx": (1, 2)}).reduce(SIX), DataError, "did you mean x"),
    (lambda: Preparation(coarsen={"x": 0}).reduce(SIX), InputError, "integer from 1"),
    (lambda: Preparation(coarsen={"x": 7}).reduce(SIX), InputError, "integer from 1 to 3"),
    (lambda: Preparation(rename={"x": "x"}).learn(SIX.values), InputError, "whose dims have names"),
    (lambda: sl.fit(SIX, LINE, 2, prepare="month"), InputError, "Preparation"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_another_grid_and_other_months_are_refused(prepared_law):
    raw, law = prepared_law
    with pytest.raises(DataError, match="some of the 72 points"):
        law.reconstruct(raw.assign_coords(latitude=raw.latitude + 1.0))
    half = Preparation(rename=NAMES, anomalies="month").learn(raw.isel(time=slice(6)), SPHERE.dims)
    with pytest.raises(
        DataError, match="a calendar month within the training data of the climatology"
    ):
        half.apply(raw, SPHERE.dims)


def test_dates_and_numbers_are_inverse():
    clock = {"units": "hours since 2000-01-01", "calendar": "proleptic_gregorian"}
    hours = np.array([0.0, 36.5, 1e4])
    np.testing.assert_allclose(from_dates(to_dates(hours, clock), clock), hours, rtol=1e-12)
    fields = sl.as_fields(monthly())
    assert float(on_clock(fields, clock)["time"][0]) == 366 * 24
    xr.testing.assert_identical(on_clock(fields, {}), fields)
    with pytest.raises(DataError, match="numbers without units"):
        to_dates(hours, {})

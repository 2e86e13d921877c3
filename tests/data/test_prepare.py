"""Preparation of raw data: against hand-made answers, and undone without a trace."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import spdelaw as sl
from spdelaw.data import Preparation, from_dates, on_clock, to_dates
from spdelaw.errors import DataError, InputError

MONTHS = np.arange("2001-01", "2005-01", dtype="datetime64[M]").astype("datetime64[ns]")
X = np.linspace(0.0, 1.0, 5)


def seasonal(seed=0, trend=0.0, paths=None):
    """Season, trend and noise; (time, x) with dates, or (path, time, x)."""
    lam, q = np.array([0.005, 0.01, 0.02]), np.full(3, 0.01)
    domain = sl.Interval(0, 1, "neumann")
    equation = sl.SpectralSPDE(domain, 3, lam, noise=q, initial="stationary")
    days = (MONTHS - MONTHS[0]) / np.timedelta64(1, "D")
    noise = sl.simulate(equation, paths or 1, days, X, seed=seed, observation_std=0.2).values
    month = MONTHS.astype("datetime64[M]").astype(int) % 12
    season = np.cos(2 * np.pi * month / 12)[:, None] * (1 + X)
    values = 280 + season + trend * np.arange(len(MONTHS))[:, None] + noise
    dims = ("path", "time", "x")
    made = xr.DataArray(values, dims=dims, coords={"time": MONTHS, "x": X}, name="sst")
    return made[0] if paths is None else made


def test_monthly_anomalies_are_those_of_xarray():
    raw = seasonal()
    expected = raw.groupby("time.month") - raw.groupby("time.month").mean()
    got = Preparation(anomalies="month").learn(raw).apply(raw)
    np.testing.assert_allclose(got.values[0], expected.values, atol=1e-10)


def test_trend_and_months_are_estimated_together():
    """A pure season plus a pure line leaves nothing; one after the other would leave a sawtooth."""
    month = MONTHS.astype("datetime64[M]").astype(int) % 12
    days = (MONTHS - MONTHS[0]) / np.timedelta64(1, "D")
    values = np.sin(month)[:, None] + 0.01 * days[:, None] + X
    raw = xr.DataArray(values, dims=("time", "x"), coords={"time": MONTHS, "x": X})
    got = Preparation(anomalies="month", detrend=True).learn(raw).apply(raw)
    assert np.abs(got.values).max() < 1e-9


def test_day_of_year_fits_harmonics_of_the_year():
    days = np.arange("2001-01-01", "2004-01-01", dtype="datetime64[D]").astype("datetime64[ns]")
    raw = xr.DataArray(np.zeros((len(days), 2)), dims=("time", "x"),
                       coords={"time": days, "x": [0.0, 1.0]})  # fmt: skip
    angle = 2 * np.pi * raw.time.dt.dayofyear / 365.2425
    raw = raw + 5 + np.sin(angle) + 0.3 * np.cos(3 * angle)
    got = Preparation(anomalies="dayofyear").learn(raw).apply(raw)
    assert np.abs(got.values).max() < 1e-9


def test_standard_deviation_of_each_point_and_of_the_whole():
    raw = seasonal(paths=3)
    point = Preparation(anomalies="month", standardise="point").learn(raw).apply(raw)
    np.testing.assert_allclose((point**2).mean(("path", "time")), 1.0)
    whole = Preparation(standardise="whole").learn(raw).apply(raw)
    assert float((whole**2).mean()) == pytest.approx(1.0)
    assert np.ptp(whole.std(("path", "time")).values) > 1e-3


def test_selection_mean_by_area_names_and_coarsening():
    lat, lon = np.array([-60.0, 0.0, 60.0]), np.arange(8.0)
    raw = xr.DataArray(
        np.random.default_rng(0).standard_normal((4, 3, 8)), dims=("time", "lat", "lon"),
        coords={"time": np.arange(4.0), "lat": lat, "lon": lon},
    )  # fmt: skip
    how = Preparation(select={"lon": (1, 6)}, average="lat", rename={"lon": "x"}, coarsen={"x": 2})
    w = np.array([0.5, 1.0, 0.5])
    expected = np.einsum("tlx,l->tx", raw.values, w)[:, 1:7].reshape(4, 3, 2).mean(2) / 2
    got = how.reduce(raw)
    np.testing.assert_allclose(got.values, expected)
    np.testing.assert_allclose(got.x, [1.5, 3.5, 5.5])


def test_land_is_left_out_of_means_and_stays_land():
    raw = seasonal(paths=2)
    raw[..., 2] = np.nan
    law = sl.fit(raw, sl.Interval(0, 1, "neumann"), 2, prepare=Preparation(anomalies="month"))
    result = law.reconstruct(raw)["mean"]
    assert (
        result.isnull().all(("path", "time")).values.tolist() == [False] * 2 + [True] + [False] * 2
    )


# ------------------------------------------------------------------ a law in the user's units


@pytest.fixture(scope="module")
def prepared_law():
    how = Preparation(anomalies="month", detrend=True, standardise="point")
    raw = seasonal(paths=6, trend=0.02)
    return raw, sl.fit(raw, sl.Interval(0, 1, "neumann"), 3, prepare=how, initial="stationary")


def test_law_equals_the_one_of_fields_prepared_by_hand(prepared_law):
    raw, law = prepared_law
    fields = law.preparation.apply(raw)
    bare = sl.fit(fields, law.domain, 3, initial="stationary")
    xr.testing.assert_allclose(bare.parameters, law.parameters)
    xr.testing.assert_allclose(bare.log_likelihood(fields), law.log_likelihood(raw))
    design = law.preparation.affine(fields["time"].values, X)
    one, two = bare.reconstruct(fields), law.reconstruct(raw)
    np.testing.assert_allclose(two["mean"], one["mean"] * design[1] + design[0])
    np.testing.assert_allclose(two["std"], one["std"] * design[1])


def test_forecast_comes_back_in_dates_and_units(prepared_law):
    raw, law = prepared_law
    dates = np.array(["2005-01-01", "2005-02-01", "2040-02-01"], "datetime64[ns]")
    result = law.forecast(raw, dates, n_samples=3)
    np.testing.assert_array_equal(result["time"], dates)
    assert abs(float(result["mean"][:, 0].mean()) - 281) < 3
    days = (dates - MONTHS[0]) / np.timedelta64(1, "D")
    numbers = law.forecast(raw, days)
    np.testing.assert_allclose(numbers["mean"], result["mean"])
    assert numbers["time"].attrs["units"] == "days since 2001-01-01"
    # Far ahead the forecast is climatology and trend alone.
    offset, _ = law.preparation.affine(days[-1:], X)
    np.testing.assert_allclose(result["mean"][:, -1], np.broadcast_to(offset, (6, 5)), atol=1e-6)


def test_later_history_is_put_on_the_clock_of_the_law(prepared_law):
    raw, law = prepared_law
    later = raw.isel(time=slice(24, None))
    date = np.array(["2005-01-01"], "datetime64[ns]")
    assert float(law.prepared(later)["time"][0]) == 730
    mean = law.forecast(later, date)["mean"]
    np.testing.assert_allclose(mean, law.forecast(raw, date)["mean"], rtol=1e-3)


def test_sample_is_in_the_units_of_the_data(prepared_law):
    raw, law = prepared_law
    new = law.sample(200, seed=0)
    assert abs(float(new.mean()) - float(raw.mean())) < 0.2
    assert new["time"].attrs["units"].startswith("days since 2001-01-01")
    dated = law.sample(2, times=MONTHS[:3])
    assert dated["time"].dtype.kind == "M"


def test_saved_law_keeps_its_preparation(prepared_law, tmp_path):
    raw, law = prepared_law
    law.save(tmp_path / "a.law")
    again = sl.load(tmp_path / "a.law")
    assert again.preparation.how == law.preparation.how
    xr.testing.assert_identical(again.reconstruct(raw), law.reconstruct(raw))
    assert '"schema": 3' in (tmp_path / "a.law" / "law.json").read_text()


def test_scores_are_those_of_prepared_fields(prepared_law):
    raw, law = prepared_law
    card = sl.evaluate(law, raw, tiers=("gaps",))
    other = sl.evaluate(law.bare, law.prepared(raw), tiers=("gaps",))
    assert card.tiers == other.tiers
    assert "count as known" in " ".join(law.info["warnings"])


@settings(max_examples=25, deadline=None)
@given(
    anomalies=st.sampled_from([None, "month", "dayofyear"]), detrend=st.booleans(),
    standardise=st.sampled_from([None, "point", "whole"]), seed=st.integers(0, 100),
)  # fmt: skip
def test_undoing_gives_the_data_back(anomalies, detrend, standardise, seed):
    raw = seasonal(seed, trend=0.1)
    how = Preparation(anomalies=anomalies, detrend=detrend, standardise=standardise)
    prepared = how.learn(raw)
    fields = prepared.apply(raw)
    if not how.is_affine:
        np.testing.assert_array_equal(fields.values[0], raw.values)
        return
    offset, scale = prepared.affine(fields["time"].values, X)
    np.testing.assert_allclose(fields.values[0] * scale + offset, raw.values, rtol=1e-12)


# ------------------------------------------------------------------ refusals and clocks


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"anomalies": "weekly"}, InputError, "one of"),
        ({"standardise": True}, InputError, "one of"),
        ({"detrend": 1}, InputError, "True or False"),
    ],
)
def test_unknown_words(settings, error, message):
    with pytest.raises(error, match=message):
        Preparation(**settings)


@pytest.mark.parametrize(
    ("how", "change", "message"),
    [
        ({"anomalies": "month"}, lambda d: d.assign_coords(time=np.arange(48.0)), "dates"),
        ({"anomalies": "month"}, lambda d: d.isel(time=slice(6)), "every calendar month"),
        ({"average": "lat"}, lambda d: d, "one of time, x"),
        ({"average": "time"}, lambda d: d, "spatial dims"),
        ({"select": {"x": (5, 6)}}, lambda d: d, "range within"),
        ({"coarsen": {"x": 0}}, lambda d: d, "integer from 1"),
        ({"rename": {"x": "x"}}, lambda d: d.values, "whose dims have names"),
    ],
)
def test_data_that_cannot_be_prepared(how, change, message):
    with pytest.raises(InputError, match=message):
        Preparation(**how).learn(change(seasonal()))


def test_prepare_must_be_a_preparation():
    with pytest.raises(InputError, match="Preparation"):
        sl.fit(seasonal(), sl.Interval(0, 1), 2, prepare="month")


def test_new_data_on_another_grid_are_refused(prepared_law):
    raw, law = prepared_law
    with pytest.raises(DataError, match="some of the 5 points"):
        law.reconstruct(raw.assign_coords(x=0.9 * X))


def test_part_of_the_grid_is_prepared_as_the_whole(prepared_law):
    raw, law = prepared_law
    part = law.prepared(raw.isel(x=slice(1, 3)))
    xr.testing.assert_allclose(part, law.prepared(raw).isel(x=slice(1, 3)))
    assert abs(float(law.reconstruct(raw.isel(x=slice(1, 3)))["mean"].mean()) - 281) < 3


def test_dates_and_numbers_are_inverse():
    clock = {"units": "hours since 2000-01-01", "calendar": "proleptic_gregorian"}
    hours = np.array([0.0, 36.5, 1e4])
    np.testing.assert_allclose(from_dates(to_dates(hours, clock), clock), hours, rtol=1e-12)
    fields = sl.as_fields(seasonal())
    moved = on_clock(fields, clock)
    assert float(moved["time"][0]) == 366 * 24
    xr.testing.assert_identical(on_clock(fields, {}), fields)
    with pytest.raises(DataError, match="numbers without units"):
        to_dates(hours, {})

"""Preparation in several dimensions: point by point what xarray does, undone on output."""

import numpy as np
import pytest
import xarray as xr
from tests.data.builders import MONTHS, globe

import spdelaw as sl
from spdelaw.data import Preparation
from spdelaw.errors import DataError, InputError

SPHERE = sl.Sphere()
NAMES = {"latitude": "lat", "longitude": "lon"}
ALL = {"anomalies": "month", "detrend": True, "standardise": "point"}


def test_monthly_anomalies_are_those_of_xarray():
    raw = globe()
    expected = raw.groupby("time.month") - raw.groupby("time.month").mean()
    how = Preparation(rename=NAMES, anomalies="month")
    got = how.learn(raw, SPHERE.dims).apply(raw, SPHERE.dims)
    assert got.dims == ("path", "time", "lat", "lon")
    np.testing.assert_allclose(got.values[0], expected.transpose(*raw.dims).values, atol=1e-10)


@pytest.mark.parametrize(
    "settings",
    [{"anomalies": "month"}, {"anomalies": "dayofyear", "detrend": True}, {"detrend": True},
     {"standardise": "whole"}, ALL],
)  # fmt: skip
def test_undoing_gives_the_data_back(settings):
    raw = globe()
    # Some gaps of each kind: a few values, and a point that is seen half of the time.
    raw = raw.where(np.random.default_rng(0).uniform(size=raw.shape) > 0.1)
    raw[:30, 0, 0] = np.nan
    prepared = Preparation(rename=NAMES, **settings).learn(raw, SPHERE.dims)
    fields = prepared.apply(raw, SPHERE.dims)
    assert np.array_equal(fields.isnull().values[0], raw.isnull().values)
    offset, scale = prepared.affine(fields["time"].values, prepared.points)
    back = fields.values.reshape(60, -1) * scale + offset
    np.testing.assert_allclose(back, raw.values.reshape(60, -1), rtol=1e-12)
    never = raw.isnull().all("time").values.ravel()
    assert never.any()
    np.testing.assert_array_equal(np.isnan(scale), never)
    np.testing.assert_array_equal(np.isnan(offset).all(0), never)


def test_each_point_is_prepared_as_it_would_be_alone():
    raw = globe(n_paths=3)
    both = Preparation(rename=NAMES, **ALL).learn(raw, SPHERE.dims).apply(raw, SPHERE.dims)
    for i, j in ((0, 3), (5, 9)):
        alone = raw.isel(latitude=[i], longitude=j).drop_vars("longitude")
        line = Preparation(rename={"latitude": "x"}, **ALL).learn(alone).apply(alone)
        np.testing.assert_allclose(line.values[..., 0], both.values[..., i, j], atol=1e-9)


def test_deviation_of_the_whole_is_by_area():
    raw = globe(land=False)
    prepared = Preparation(rename=NAMES, standardise="whole").learn(raw, SPHERE.dims)
    left = raw - raw.mean("time")
    area = np.cos(np.deg2rad(raw.latitude))
    expected = np.sqrt(float((left**2).weighted(area).mean()))
    np.testing.assert_allclose(prepared.scale, expected, rtol=1e-12)


def test_blocks_are_means_by_area_of_what_was_seen():
    raw = globe()
    how = Preparation(rename=NAMES, coarsen={"latitude": 2, "lon": 3})
    got = how.reduce(raw)
    assert got.dims == ("time", "lat", "lon")
    assert got.name == "t2m"
    w = np.cos(np.deg2rad(raw.latitude.values))[:, None] * np.ones(12)
    for i, j in ((0, 0), (1, 1), (2, 0), (2, 1)):
        block = raw.values[:, 2 * i : 2 * i + 2, 3 * j : 3 * j + 3].reshape(60, -1)
        weight = w[2 * i : 2 * i + 2, 3 * j : 3 * j + 3].ravel()
        seen = ~np.isnan(block[0])
        if not seen.any():
            assert np.isnan(got.values[:, i, j]).all()
            continue
        expected = block[:, seen] @ weight[seen] / weight[seen].sum()
        np.testing.assert_allclose(got.values[:, i, j], expected, rtol=1e-12)
    np.testing.assert_allclose(got.lat, [-60, 0, 60])
    np.testing.assert_allclose(got.lon, [45, 135, 225, 315])


def test_a_latitude_by_another_name_is_still_one():
    raw = globe()
    names = {"latitude": "y", "longitude": "x"}
    on_sphere, on_box = (
        Preparation(rename=new, coarsen={"latitude": 2, "longitude": 3}, standardise="whole")
        for new in (NAMES, names)
    )
    one = on_sphere.learn(raw, SPHERE.dims).apply(raw, SPHERE.dims)
    two = on_box.learn(raw, ("x", "y")).apply(raw, ("x", "y"))
    np.testing.assert_allclose(two.transpose(..., "y", "x").values, one.values, atol=1e-10)
    assert "standard_name" not in raw.latitude.attrs


# ------------------------------------------------------------------ a law in the user's units


@pytest.fixture(scope="module")
def prepared_law():
    raw = globe(n_paths=4)
    how = Preparation(rename=NAMES, **ALL)
    return raw, sl.fit(raw, SPHERE, 4, prepare=how, initial="stationary", nuisance=0)


def test_law_equals_the_one_of_fields_prepared_by_hand(prepared_law):
    raw, law = prepared_law
    fields = law.prepared(raw)
    bare = sl.fit(fields, SPHERE, 4, initial="stationary", nuisance=0)
    xr.testing.assert_allclose(bare.parameters, law.parameters)
    one, two = bare.reconstruct(fields), law.reconstruct(raw)
    offset, scale = law.preparation.affine(fields["time"].values, law.preparation.points)
    scale, offset = scale.reshape(6, 12), offset.reshape(60, 6, 12)
    np.testing.assert_allclose(two["mean"], one["mean"] * scale + offset)
    np.testing.assert_allclose(two["std"], one["std"] * scale)
    assert law.info["preparation"] == [
        "anomalies against the mean of each calendar month", "linear trend removed",
        "standardised by point",
    ]  # fmt: skip


def test_forecast_comes_back_in_dates_and_units(prepared_law, tmp_path):
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
    law.save(tmp_path / "a.law")
    again = sl.load(tmp_path / "a.law")
    xr.testing.assert_identical(again.forecast(raw, dates, n_samples=3), result)


def test_land_stays_land(prepared_law):
    raw, law = prepared_law
    land = raw.isel(path=0, time=0).isnull().values
    assert land.any()
    results = [law.reconstruct(raw), law.forecast(raw, [2000.0], n_samples=2)]
    for array in (*(r[name] for r in results for name in r.data_vars), law.sample(2, seed=0)):
        everywhere = np.broadcast_to(land, array.shape)
        np.testing.assert_array_equal(array.isnull().values, everywhere)
    assert results[0].attrs["observation_std"] == pytest.approx(
        float(law.parameters.observation_std[0]) * np.nanmean(law.preparation.scale)
    )


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
    settings = {"prepare": Preparation(standardise="whole"), "initial": "stationary"}
    law = sl.fit(raw, disk, 3, **settings)
    new = law.sample(50, seed=1)
    assert dict(new.sizes) == {"path": 50, "time": 11, "x": 9, "y": 9}
    assert abs(float(new.mean()) - 5.0) < 0.3
    flat = disk.flatten(raw)
    scattered = sl.fit(flat, disk, 3, **settings)
    np.testing.assert_allclose(scattered.reconstruct(flat)["mean"],
                               disk.flatten(law.reconstruct(raw)["mean"]), rtol=1e-6)  # fmt: skip


def test_evaluation_and_validation_take_raw_fields(prepared_law):
    raw, law = prepared_law
    card = sl.evaluate(law, raw, tiers=("gaps",))
    other = sl.evaluate(law.bare, law.prepared(raw), tiers=("gaps",))
    assert card.tiers == other.tiers
    how = Preparation(rename=NAMES, anomalies="month")
    scores = sl.leave_future_out(raw[:1], SPHERE, 4, prepare=how, first=50, leads=2, refit=10,
                                 initial="stationary", nuisance=0)  # fmt: skip
    assert np.isfinite(scores.rmse).all()
    # Persistence by hand, in anomalies from the first fifty months.
    learned = how.learn(raw[:1].isel(time=slice(50)), SPHERE.dims).apply(raw[:1], SPHERE.dims)
    x = learned.values[0].reshape(60, -1)
    later = np.array([x[k] - x[k - 1] for k in range(50, 60)])
    assert float(scores.rmse.sel(predictor="persistence", lead=1)) == pytest.approx(
        np.sqrt(np.nanmean(later**2))
    )


def test_refusals(prepared_law):
    raw, law = prepared_law
    with pytest.raises(DataError, match="some of the 72 points"):
        law.reconstruct(raw.assign_coords(latitude=raw.latitude + 1.0))
    half = Preparation(rename=NAMES, anomalies="month").learn(raw.isel(time=slice(6)), SPHERE.dims)
    with pytest.raises(DataError, match="a calendar month that the climatology was learned from"):
        half.apply(raw, SPHERE.dims)
    with pytest.raises(InputError, match="integer from 1 to 6"):
        Preparation(rename=NAMES, coarsen={"latitude": 7}).reduce(raw)

"""Lazy data give lazy results with the same numbers; points that are never seen are NaN."""

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl

pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
INTERVAL = sl.Interval(0, np.pi)


def gappy():
    fields = sl.simulate(sl.catalogue.heat(n_modes=2), 10, seed=0, times=np.linspace(0.0, 3.0, 31))
    noise = 0.05 * np.random.default_rng(1).standard_normal(fields.shape)
    labelled = (fields + noise).assign_coords(path=np.arange(10) * 10)
    return sl.mask(labelled, "random", 0.3, seed=2)


DATA = gappy()
LAW = sl.fit(DATA, INTERVAL, 2)


def is_lazy(result):
    return all(variable.chunks for variable in result.data_vars.values())


@pytest.mark.parametrize("chunks", [{"path": 3}, {"path": 4, "time": 5}, {"path": 10, "x": 8}])
def test_reconstructions_of_lazy_data_are_lazy_and_the_same(chunks):
    here, lazy = LAW.reconstruct(DATA), LAW.reconstruct(DATA.chunk(chunks))
    assert is_lazy(lazy)
    assert not is_lazy(here)
    xr.testing.assert_allclose(lazy.compute(), here, rtol=1e-10, atol=1e-12)
    assert lazy.attrs == here.attrs


def test_forecasts_and_other_grids_too():
    grid = np.linspace(0.1, 3.0, 5)
    lazy = LAW.forecast(DATA.chunk(path=4), steps=3, grid=grid)
    assert is_lazy(lazy)
    here = LAW.forecast(DATA, steps=3, grid=grid)
    xr.testing.assert_allclose(lazy.compute(), here, rtol=1e-10, atol=1e-12)


def test_the_likelihood_of_lazy_data_is_that_of_the_same_in_memory():
    here, lazy = LAW.log_likelihood(DATA), LAW.log_likelihood(DATA.chunk(path=3, time=4))
    xr.testing.assert_allclose(lazy, here, rtol=1e-12)
    assert lazy.attrs == here.attrs


def test_lazy_results_are_written_without_being_whole(tmp_path):
    target = sl.write(LAW.reconstruct(DATA.chunk(path=3)), tmp_path / "full.zarr")
    stored = xr.open_zarr(target, consolidated=False)
    np.testing.assert_allclose(stored["mean"], LAW.reconstruct(DATA)["mean"], rtol=1e-10)


def test_land_is_nan_unless_it_is_asked_for():
    land = DATA.copy(deep=True)
    land[..., 20:30] = np.nan
    law = sl.fit(land, INTERVAL, 2)
    assert len(law.points) == land.sizes["x"] - 10
    expected = np.isin(np.arange(land.sizes["x"]), np.arange(20, 30))
    for result in (law.reconstruct(land), law.forecast(land, steps=2)):
        for name in ("mean", "std"):
            np.testing.assert_array_equal(np.isnan(result[name]).all(("path", "time")), expected)
            assert not np.isnan(result[name].isel(x=slice(20))).any()
    asked = law.reconstruct(land, grid=land["x"].values)
    assert np.isfinite(asked["mean"]).all()


def test_a_sensor_that_the_law_knows_is_filled_though_these_data_lack_it():
    some = DATA.isel(path=[0]).copy(deep=True)
    some[..., 20:30] = np.nan
    assert np.isfinite(LAW.reconstruct(some)["mean"]).all()

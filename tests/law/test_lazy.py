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
def test_lazy_data_give_lazy_results_that_are_the_same(chunks):
    lazy_data, grid = DATA.chunk(chunks), np.linspace(0.1, 3.0, 5)
    for call in (
        lambda data: LAW.reconstruct(data),
        lambda data: LAW.forecast(data, steps=3, grid=grid),
    ):
        here, lazy = call(DATA), call(lazy_data)
        assert is_lazy(lazy)
        assert not is_lazy(here)
        xr.testing.assert_allclose(lazy.compute(), here, rtol=1e-10, atol=1e-12)
        assert lazy.attrs == here.attrs
    here, lazy = LAW.log_likelihood(DATA), LAW.log_likelihood(lazy_data)
    xr.testing.assert_allclose(lazy, here, rtol=1e-12)
    assert lazy.attrs == here.attrs


@pytest.mark.parametrize("noise", [False, True])
def test_draws_in_chunks_are_those_in_memory(tmp_path, noise):
    words = {"seed": 3, "observation_noise": noise}
    here, lazy = LAW.sample(100, **words), LAW.sample(100, **words, chunks=30)
    assert here.chunks is None
    assert len(lazy.chunks[0]) > 1
    xr.testing.assert_identical(lazy.compute(), here)
    stored = sl.read(sl.write(lazy, tmp_path / "draws.zarr"))
    np.testing.assert_array_equal(stored, here)


def test_simulations_in_chunks_are_those_in_memory():
    plane = sl.catalogue.heat_on(sl.Box((0.0, 1.0), (0.0, 2.0)), 4)
    axes, times = (np.linspace(0, 1, 4), np.linspace(0, 2, 3)), np.linspace(0.0, 1.0, 5)
    for equation, grid in ((plane, axes), (sl.catalogue.allen_cahn(4), None)):
        here, lazy = (
            sl.simulate(equation, 70, times, grid, seed=1, chunks=chunks) for chunks in (None, 20)
        )
        xr.testing.assert_identical(lazy.compute(), here)
    with pytest.raises(sl.errors.InputError, match="chunks"):
        sl.simulate(plane, 3, times, axes, return_noise=True, chunks=2)


def test_land_is_nan_unless_it_is_asked_for():
    land = DATA.copy(deep=True)
    land[..., 20:30] = np.nan
    law = sl.fit(land, INTERVAL, 2)
    assert len(law.points) == land.sizes["x"] - 10
    expected = np.isin(np.arange(land.sizes["x"]), np.arange(20, 30))
    for result in (law.reconstruct(land), law.forecast(land, steps=2)):
        for name in ("mean", "std", "std_field"):
            np.testing.assert_array_equal(np.isnan(result[name]).all(("path", "time")), expected)
            assert not np.isnan(result[name].isel(x=slice(20))).any()
    # A law that knows these points fills them.
    assert np.isfinite(LAW.reconstruct(land)["mean"]).all()
    assert np.isfinite(law.reconstruct(land, grid=land["x"].values)["mean"]).all()


def test_a_path_that_is_missing_and_points_that_one_block_alone_sees():
    """What is unseen is so in all data, whatever the chunks."""
    law = sl.fit(DATA.isel(x=slice(0, None, 2)), INTERVAL, 2)
    data = DATA.copy(deep=True)
    data[3] = np.nan
    data[5:, :, 7] = np.nan
    data[..., 9] = np.nan
    here = law.reconstruct(data)
    assert np.isfinite(here["mean"].isel(x=7)).all()
    for chunk in (1, 4):
        lazy = law.reconstruct(data.chunk(path=chunk))
        xr.testing.assert_allclose(lazy.compute(), here, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(
            law.log_likelihood(data.chunk(path=chunk)), law.log_likelihood(data), 1e-12, 1e-12
        )
    gone = law.reconstruct(data.isel(path=slice(3, None)).chunk(path=1))  # the first is missing
    assert gone["mean"].shape[0] == 7
    for nothing in (xr.full_like(data, np.nan), xr.full_like(data, np.nan).chunk(path=4)):
        with pytest.raises(sl.errors.DataError, match="at least one known value"):
            law.log_likelihood(nothing)

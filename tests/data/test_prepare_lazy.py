"""A preparation learned from lazy fields block by block is the one learned from the whole."""

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import spdelaw as sl


def raw(n_years=4, gaps=0.2, seed=0):
    """Daily-ish fields with a season, a trend, gaps and a point that is never seen."""
    generator = np.random.default_rng(seed)
    time = np.datetime64("2000-01-01") + np.arange(0, 365 * n_years, 11).astype("timedelta64[D]")
    months = np.cos(np.linspace(0.0, 2 * np.pi * n_years, len(time)))
    x = np.linspace(0.0, 1.0, 5)
    values = 300.0 + 5.0 * months[:, None] * x + 1e-3 * np.arange(len(time))[:, None]
    values = values + generator.standard_normal((2, len(time), 5))
    values[generator.random(values.shape) < gaps] = np.nan
    values[..., 3] = np.nan
    return xr.DataArray(values, {"time": time, "x": x}, ("path", "time", "x"))


HOW = [
    sl.Preparation(anomalies="month"),
    sl.Preparation(anomalies="month", detrend=True, standardise="point"),
    sl.Preparation(anomalies="mean", standardise="whole"),
    sl.Preparation(anomalies="dayofyear", detrend=True, standardise="point"),
    sl.Preparation(detrend=True),
]


@pytest.mark.parametrize("how", HOW, ids=lambda how: "+".join(how.in_words()))
def test_numbers_and_fields_are_those_of_the_whole(how):
    data = raw()
    lazy = data.chunk(path=1, time=37, x=2)
    one, two = how.learn(data), how.learn(lazy)
    np.testing.assert_allclose(two.coefficients, one.coefficients, rtol=1e-9)
    np.testing.assert_allclose(two.scale, one.scale, rtol=1e-9)
    found = two.apply(lazy)
    assert found.chunks == sl.as_fields(lazy).chunks
    np.testing.assert_allclose(found, one.apply(data), rtol=1e-8, atol=1e-8)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 2), st.integers(1, 140), st.integers(1, 5))
def test_any_chunks_give_one_climatology(path, time, x):
    how, data = HOW[1], raw()
    one, two = how.learn(data), how.learn(data.chunk(path=path, time=time, x=x))
    np.testing.assert_allclose(two.coefficients, one.coefficients, rtol=1e-9)
    np.testing.assert_allclose(two.scale, one.scale, rtol=1e-9)


def test_no_block_is_larger_than_a_chunk():
    data, largest = raw(), []

    def spy(block):
        largest.append(block.size)
        return block

    watched = data.copy(data=da.from_array(data.values, chunks=(1, 20, -1)).map_blocks(spy))
    prepared = HOW[1].learn(watched)
    prepared.apply(watched).isel(time=slice(20)).compute()
    assert max(largest) <= 20 * 5


def test_points_without_every_part_of_a_year_are_refused():
    half = raw(n_years=1).isel(time=slice(6)).chunk(time=2)
    with pytest.raises(sl.errors.DataError, match="climatology and trend"):
        HOW[3].learn(half)


def test_a_fit_of_lazy_raw_data_is_that_of_the_same_in_memory():
    fields = sl.simulate(sl.catalogue.heat(n_modes=2), 30, np.arange(24) * 0.1, seed=0)
    hours = np.datetime64("2000-01-01") + (fields.time.values * 86400).astype("timedelta64[s]")
    data = fields.assign_coords(time=hours) + 300.0
    words = {"prepare": sl.Preparation(anomalies="hour"), "mean": "zero", "nuisance": 0}
    chunked = data.chunk(path=8, time=7)
    one, two = (sl.fit(d, sl.Interval(0, np.pi), 2, **words) for d in (data, chunked))
    for name in one.parameters:
        a, b = one.parameters[name].values, two.parameters[name].values
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9 * np.abs(a).max())
    full = two.reconstruct(chunked)["mean"]
    assert full.chunks is not None
    np.testing.assert_allclose(full, one.reconstruct(data)["mean"], rtol=1e-9)

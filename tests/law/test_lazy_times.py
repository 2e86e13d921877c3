"""One long lazy record is reconstructed in parts of its times, with the numbers of the whole."""

import weakref

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import spdelaw as sl

pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.SpdeLawWarning")
INTERVAL = sl.Interval(0, np.pi)


def record():
    times = np.linspace(0.0, 8.0, 81)
    equation = sl.catalogue.heat(n_modes=2)
    fields = sl.simulate(equation, 1, times, np.linspace(0.1, 3.0, 12), seed=0, observation_std=0.1)
    data = sl.mask(fields, "random", 0.3, seed=1).copy(deep=True)
    data[..., 4] = np.nan
    return data


DATA = record()
LAWS = {
    "diagonal": sl.fit(DATA, INTERVAL, 2, mean="zero", nuisance=0),
    "mean": sl.fit(DATA + np.sin(DATA.x), INTERVAL, 2, mean="constant", nuisance=0),
    "late": sl.fit(DATA.isel(time=slice(60)), INTERVAL, 2, mean="zero", nuisance=0),
}


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 60), st.sampled_from(sorted(LAWS)), st.booleans())
def test_any_chunks_of_times_give_the_reconstruction_of_the_whole(time, name, elsewhere):
    data, grid = DATA, np.linspace(0.2, 3.0, 5) if elsewhere else None
    if name == "late":  # after the first time of the law
        data = DATA.isel(time=slice(3, None))
    here = LAWS[name].reconstruct(data, grid=grid)
    lazy = LAWS[name].reconstruct(data.chunk(time=time), grid=grid)
    assert all(len(variable.chunks[1]) > 1 for variable in lazy.data_vars.values())
    xr.testing.assert_allclose(lazy.compute(), here, rtol=1e-9, atol=1e-11)
    assert lazy.attrs == here.attrs


def test_prepared_data_and_dates():
    dates = np.datetime64("2000-01-01") + (DATA.time.values * 864000).astype("timedelta64[s]")
    raw = DATA.isel(path=0, drop=True).assign_coords(time=dates) + 300.0
    how = sl.Preparation(anomalies="mean", standardise="point")
    law = sl.fit(raw, INTERVAL, 2, prepare=how, mean="zero", nuisance=0)
    here, lazy = law.reconstruct(raw), law.reconstruct(raw.chunk(time=20))
    assert lazy["mean"].chunks is not None
    xr.testing.assert_allclose(lazy.compute(), here, rtol=1e-9, atol=1e-9)


class Watch:
    """Lazy data that know how much of them is in memory at once."""

    def __init__(self, data, rows):
        self.live = self.most = self.largest = 0
        lazy = da.from_array(data.values, chunks=(1, rows, -1)).map_blocks(self.read)
        self.data = data.copy(data=lazy)

    def read(self, block):
        own = block.copy()
        self.live += own.nbytes
        self.largest, self.most = max(self.largest, own.nbytes), max(self.most, self.live)
        weakref.finalize(own, self.gone, own.nbytes)
        return own

    def gone(self, size):
        self.live -= size


@pytest.mark.parametrize("kept", [1e9, 0.0])
def test_no_more_than_a_few_parts_are_in_memory_at_once(tmp_path, monkeypatch, kept):
    monkeypatch.setattr("spdelaw.law._lazy_times.KEPT_BYTES", kept)
    watch, law = Watch(DATA, 5), LAWS["mean"]
    with dask.config.set(scheduler="synchronous"):
        target = sl.write(law.reconstruct(watch.data), tmp_path / "full.zarr")
        stored = xr.open_zarr(target, consolidated=False)
        np.testing.assert_allclose(stored["mean"], law.reconstruct(DATA)["mean"], rtol=1e-9)
    assert watch.largest == 5 * 8 * DATA.sizes["x"]
    assert watch.most <= 3 * watch.largest


def same(lazy, here, atol=1e-11):
    assert all(variable.chunks for variable in lazy.data_vars.values())
    xr.testing.assert_allclose(lazy.compute(), here, rtol=1e-9, atol=atol)
    assert lazy.attrs == here.attrs


def test_a_part_may_be_missing_altogether():
    outage = DATA.copy(deep=True)
    outage[:, 20:41] = np.nan
    for data in (outage, outage.isel(time=slice(20, None))):
        law = LAWS["diagonal"]
        same(law.reconstruct(data.chunk(time=10)), law.reconstruct(data))


def test_values_that_are_infinite_are_refused():
    bad = DATA.copy(deep=True)
    bad[0, 50, 3] = np.inf
    with pytest.raises(sl.errors.DataError, match="infinite"):
        LAWS["diagonal"].reconstruct(bad.chunk(time=10)).compute()


def test_parts_that_are_not_kept_are_made_again(monkeypatch):
    monkeypatch.setattr("spdelaw.law._lazy_times.KEPT_BYTES", 0.0)
    same(LAWS["mean"].reconstruct(DATA.chunk(time=9)), LAWS["mean"].reconstruct(DATA))


def test_a_law_without_noise():
    times, points = np.linspace(0.0, 4.0, 61), np.linspace(0.1, 3.0, 12)
    data = sl.simulate(sl.catalogue.heat(n_modes=2), 1, times, points, seed=0)
    law = sl.fit(data, INTERVAL, 2, mean="zero", nuisance=0)
    assert not law.observation_variance.any()
    few = data.copy(deep=True)
    few[:, 10:20, 1:] = np.nan
    for seen in (data, few):
        same(law.reconstruct(seen.chunk(time=15)), law.reconstruct(seen), 1e-7)


def test_noise_of_each_point_and_of_each_value():
    std = xr.full_like(DATA, 0.1) * (1.0 + DATA.x / 3.0)
    words = {"mean": "zero", "nuisance": 0}
    law = sl.fit(DATA, INTERVAL, 2, observation_noise="per_point", **words)
    same(law.reconstruct(DATA.chunk(time=20)), law.reconstruct(DATA))
    same(law.forecast(DATA.chunk(time=20), steps=2), law.forecast(DATA, steps=2))
    # Deviations of single values are as large as they are: both are in memory.
    law = sl.fit(DATA, INTERVAL, 2, observation_noise=std, **words)
    data = DATA.assign_coords(observation_std=std)
    xr.testing.assert_allclose(law.reconstruct(data.chunk(time=20)), law.reconstruct(data))


@pytest.mark.parametrize("name", sorted(LAWS))
def test_forecasts_go_on_from_the_last_part(name):
    law, lazy = LAWS[name], DATA.chunk(time=10)
    same(law.forecast(lazy, steps=3), law.forecast(DATA, steps=3))
    words = {"times": [8.05, 9.0], "grid": np.linspace(0.2, 3.0, 5)}
    same(law.forecast(lazy, **words), law.forecast(DATA, **words))
    # Times inside the record, and joint draws, come in memory.
    inside = law.forecast(lazy, times=[7.93, 8.4])
    xr.testing.assert_allclose(inside, law.forecast(DATA, times=[7.93, 8.4]))


def test_labels_of_the_record_stay():
    data = DATA.assign_coords(path=[7])
    same(LAWS["diagonal"].reconstruct(data.chunk(time=10)), LAWS["diagonal"].reconstruct(data))

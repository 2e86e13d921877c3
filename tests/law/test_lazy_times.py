"""One long lazy record is reconstructed in parts of its times, with the numbers of the whole."""

import weakref

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from tests.parameters import cross

import spdelaw as sl

pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.SpdeLawWarning")
INTERVAL = sl.Interval(0, np.pi)


@pytest.fixture(scope="module")
def data():
    heat, times = sl.catalogue.heat(n_modes=2), np.linspace(0.0, 8.0, 81)
    fields = sl.simulate(heat, 1, times, np.linspace(0.1, 3.0, 12), seed=0, observation_std=0.1)
    gappy = sl.mask(fields, "random", 0.3, seed=1).copy(deep=True)
    gappy[..., 4] = np.nan
    gappy[:, 20:41] = np.nan  # whole parts are missing
    return gappy.assign_coords(path=[7])


LAWS = {
    "plain": {"mean": "zero"},
    "mean": {"mean": "constant"},
    "points": {"mean": "zero", "observation_noise": "per_point"},
    "prepared": {"mean": "zero", "prepare": sl.Preparation(anomalies="mean", standardise="point")},
}


@pytest.fixture(scope="module")
def laws(data):
    return {name: sl.fit(data, INTERVAL, 2, nuisance=0, **words) for name, words in LAWS.items()}


def same(lazy, here):
    assert all(variable.chunks for variable in lazy.data_vars.values())
    xr.testing.assert_allclose(lazy.compute(), here, rtol=1e-9, atol=1e-11)
    assert lazy.attrs == here.attrs


@cross(name=list(LAWS), time=[4, 9, 60], grid=[None, np.linspace(0.2, 3.0, 5)], first=[0, 3])
def test_any_chunks_of_times_give_what_the_whole_gives(name, time, grid, first, data, laws):
    """``first``: the data begin after the first time of the law."""
    data, law = data.isel(time=slice(first, None)), laws[name]
    grid = None if name == "prepared" else grid  # which is bound to its points
    lazy = data.chunk(time=time)
    same(law.reconstruct(lazy, grid=grid), law.reconstruct(data, grid=grid))
    same(law.forecast(lazy, steps=3, grid=grid), law.forecast(data, steps=3, grid=grid))


def test_no_more_than_a_few_parts_are_in_memory_at_once(data, laws, tmp_path):
    live, most = [0], [0]

    def gone(size):
        live[0] -= size

    def read(block):
        out = block.copy()
        live[0] += out.nbytes
        most[0] = max(most[0], live[0])
        weakref.finalize(out, gone, out.nbytes)
        return out

    lazy = data.copy(data=da.from_array(data.values, chunks=(1, 5, -1)).map_blocks(read))
    with dask.config.set(scheduler="synchronous"):
        target = sl.write(laws["mean"].reconstruct(lazy), tmp_path / "full.zarr")
        stored = xr.open_zarr(target, consolidated=False)
        np.testing.assert_allclose(
            stored["mean"], laws["mean"].reconstruct(data)["mean"], rtol=1e-9
        )
    assert 0 < most[0] <= 3 * 5 * 8 * data.sizes["x"]


def test_values_that_are_infinite_are_refused(data, laws):
    bad = data.copy(deep=True)
    bad[0, 50, 3] = np.inf
    with pytest.raises(sl.errors.DataError, match="infinite"):
        laws["plain"].reconstruct(bad.chunk(time=10))

"""One long lazy record is reconstructed in parts of its times, with the numbers of the whole."""

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


def test_no_task_sees_more_than_a_part(tmp_path):
    largest = []

    def spy(block):
        largest.append(block.size)
        return block

    watched = DATA.copy(data=da.from_array(DATA.values, chunks=(1, 10, -1)).map_blocks(spy))
    target = sl.write(LAWS["diagonal"].reconstruct(watched), tmp_path / "full.zarr")
    assert max(largest) <= 10 * DATA.sizes["x"]
    stored = xr.open_zarr(target, consolidated=False)
    np.testing.assert_allclose(
        stored["mean"], LAWS["diagonal"].reconstruct(DATA)["mean"], rtol=1e-9
    )

"""Lazy data are judged and filled as the same in memory, without being whole in it."""

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import spdelaw as sl

pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.SpdeLawWarning")
INTERVAL = sl.Interval(0, np.pi)


def gappy():
    heat = sl.catalogue.heat(n_modes=2, initial="stationary")
    points = np.linspace(0.1, 3.0, 9)
    fields = sl.simulate(heat, 8, np.linspace(0, 1, 13), points, seed=0, observation_std=0.05)
    data = sl.mask(fields, "random", 0.3, seed=1).copy(deep=True)
    data[..., 4] = np.nan
    return data


DATA = gappy()


def watched(data, chunk):
    """Lazy data, and the paths that were read of them."""
    read = []

    def spy(block, block_info=None):
        read.append(block_info[0]["array-location"][0])
        return block

    lazy = da.from_array(data.values, chunks=(chunk, -1, -1)).map_blocks(spy, dtype=float)
    return data.copy(data=lazy), read


def test_a_scorecard_reads_no_more_than_it_scores():
    law = sl.fit(DATA, INTERVAL, 2, mean="zero", nuisance=0)
    lazy, read = watched(DATA, 2)
    words = {"max_paths": 4, "tiers": ("reconstruct", "forecast")}
    one, two = (sl.evaluate(law, data, **words) for data in (DATA, lazy))
    assert max(stop for _, stop in read) <= 4
    assert two.n_paths == 4
    assert repr(one) == repr(two)


def test_gaps_of_lazy_paths_are_filled_block_by_block(tmp_path):
    words = {"drift": "diagonal", "basis": "domain", "rest": "white"}
    here = sl.fill(DATA, INTERVAL, 2, **words)
    lazy = sl.fill(DATA.chunk(path=3), INTERVAL, 2, **words)
    assert lazy["mean"].chunks[0] == (3, 3, 2)
    assert lazy.attrs["chosen_by"] == here.attrs["chosen_by"]
    for name in ("mean", "std"):
        xr.testing.assert_allclose(lazy[name].compute(), here[name], rtol=1e-9, atol=1e-12)
    stored = xr.open_zarr(
        sl.write(lazy[["mean", "std"]], tmp_path / "full.zarr"), consolidated=False
    )
    np.testing.assert_allclose(stored["mean"], here["mean"], rtol=1e-9)


def test_a_few_paths_choose_the_law_for_all(monkeypatch):
    from spdelaw.evaluation import _fill

    monkeypatch.setattr(_fill, "HEAD_BYTES", 4.0 * DATA.nbytes / DATA.sizes["path"])
    words = {"drift": "diagonal", "basis": "domain", "rest": "white"}
    lazy = sl.fill(DATA.chunk(path=2), INTERVAL, 2, **words)
    head = sl.fill(DATA.isel(path=slice(4)), INTERVAL, 2, **words)
    found = lazy["mean"].isel(path=slice(4)).compute()
    xr.testing.assert_allclose(found, head["mean"], rtol=1e-9)
    assert not lazy["mean"].isel(x=slice(4)).isnull().any()

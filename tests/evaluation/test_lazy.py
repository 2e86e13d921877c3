"""Lazy data are judged and filled as the same in memory, without being whole in it."""

import weakref

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.evaluation import fill_record

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
    from spdelaw.evaluation import _fill_lazy

    monkeypatch.setattr(_fill_lazy, "HEAD_BYTES", 4.0 * DATA.nbytes / DATA.sizes["path"])
    words = {"drift": "diagonal", "basis": "domain", "rest": "white"}
    lazy = sl.fill(DATA.chunk(path=2), INTERVAL, 2, **words)
    head = sl.fill(DATA.isel(path=slice(4)), INTERVAL, 2, **words)
    found = lazy["mean"].isel(path=slice(4)).compute()
    xr.testing.assert_allclose(found, head["mean"], rtol=1e-9)
    assert not lazy["mean"].isel(x=slice(4)).isnull().any()


# -- one long record --------------------------------------------------------------------------


def long_record(noise=0.1, gaps=0.2):
    heat = sl.catalogue.heat(n_modes=2, initial="stationary")
    times, points = np.linspace(0.0, 12.0, 151), np.linspace(0.1, 3.0, 11)
    fields = sl.simulate(heat, 1, times, points, seed=0, observation_std=noise)
    return sl.mask(fields, "random", gaps, seed=1) if gaps else fields


def fit(data, **words):
    return sl.fit(data, INTERVAL, 2, **{"mean": "zero", "nuisance": 0, **words})


def in_memory_at_once(data, rows):
    """Lazy data, and the most bytes of them that were in memory together."""
    seen = {"live": 0, "most": 0}

    def gone(size):
        seen["live"] -= size

    def read(block):
        own = block.copy()
        seen["live"] += own.nbytes
        seen["most"] = max(seen["most"], seen["live"])
        weakref.finalize(own, gone, own.nbytes)
        return own

    lazy = da.from_array(data.values, chunks=(1, rows, -1)).map_blocks(read, dtype=float)
    return data.copy(data=lazy), seen


def with_land(data):
    data = data.copy(deep=True)
    data[..., 4] = np.nan
    return data


CASES = {
    "land": lambda: (with_land(long_record(0.0, 0.0)), {}),
    "gaps": lambda: (long_record(), {}),
    "complete": lambda: (long_record(0.0, 0.0), {}),
    "noise": lambda: (long_record(0.1, 0.0), {}),
    "mean": lambda: (long_record() + 3.0, {"mean": "constant"}),
    "points": lambda: (long_record(), {"observation_noise": "per_point"}),
}


@pytest.mark.parametrize(
    ("case", "rows"),
    [("gaps", 10), ("complete", 47), ("noise", 20), ("mean", 47), ("points", 10), ("land", 20)],
)
def test_a_long_record_is_judged_in_parts_as_it_is_in_memory(case, rows, monkeypatch):
    # What may be in memory however short the record is.
    monkeypatch.setattr("spdelaw.data._sweep.BLOCK_BYTES", 1)
    monkeypatch.setattr("spdelaw.evaluation._points.MOST_ROWS", 10)
    data, words = CASES[case]()
    monkeypatch.setattr("spdelaw.infer._passes.ROWS", data[..., 0].size // 20)
    law = fit(data, **words)
    equation = sl.catalogue.heat(n_modes=2, initial="stationary")
    lazy, seen = in_memory_at_once(data, rows)
    here = sl.evaluate(law, data, equation)
    with dask.config.set(scheduler="synchronous"):
        there = sl.evaluate(law, lazy, equation)
    assert here.verdict == there.verdict
    for part in ("tiers", "limits"):
        one, two = (getattr(card, part) for card in (here, there))
        assert list(one) == list(two)
        for name in one:
            # Without noise what is left of a reconstruction is rounding.
            np.testing.assert_allclose(two[name], one[name], rtol=1e-6, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(there.check.innovations, here.check.innovations, atol=1e-6)
    assert seen["most"] <= 4 * rows * 8 * data.sizes["x"]


def test_a_law_knows_its_own_lazy_record_again():
    """Its checks allow for what was learned from these very data."""
    data = long_record()
    law = fit(data)
    one, two = (sl.evaluate(law, d, tiers=()) for d in (data, data.chunk(time=40)))
    for name, p in one.check.overall.items():
        assert two.check.overall[name] == pytest.approx(p, rel=1e-5, abs=1e-9)


def test_checks_of_a_very_long_record_have_a_bound(monkeypatch):
    from spdelaw.evaluation import _suite

    data = long_record()
    monkeypatch.setattr(_suite, "MOST", 120)
    for record in (data, data.chunk(time=40)):
        card = sl.evaluate(fit(data), record, tiers=())
        assert card.check.innovations.shape == (1, 60, 2)


@pytest.mark.parametrize("case", ["gaps", "complete", "mean"])
def test_the_likelihood_of_a_long_record(case):
    data, words = CASES[case]()
    law = fit(data, **words)
    here, lazy = law.log_likelihood(data), law.log_likelihood(data.chunk(time=25))
    np.testing.assert_allclose(lazy, here, rtol=1e-9)
    assert lazy.attrs == here.attrs


def finer_record():
    """Two modes, and a finer one with memory that a law of two leaves over."""
    heat = sl.catalogue.heat(n_modes=3, initial="stationary")
    times, points = np.linspace(0.0, 6.0, 151), np.linspace(0.1, 3.0, 11)
    fields = sl.simulate(heat, 1, times, points, seed=0, observation_std=0.02)
    data = sl.mask(fields, "blocks", 0.2, seed=1).copy(deep=True)
    data[..., 6] = np.nan
    return data


@pytest.mark.parametrize("rest", ["white", "local", "shared"])
def test_gaps_of_a_long_record_are_filled_in_parts(rest, tmp_path, monkeypatch):
    data, words = finer_record(), {"drift": "diagonal", "basis": "domain", "rest": rest}
    here = sl.fill(data, INTERVAL, 2, **words)
    lazy, seen = in_memory_at_once(data, 20)
    there = sl.fill(lazy, INTERVAL, 2, **words)
    assert there["mean"].chunks[1] == (20,) * 7 + (11,)
    assert there.attrs == here.attrs
    seen["most"] = 0
    monkeypatch.setattr("spdelaw.data._sweep.BLOCK_BYTES", 1)
    with dask.config.set(scheduler="synchronous"):
        target = sl.write(there[["mean", "std"]], tmp_path / "full.zarr")
    stored = xr.open_zarr(target, consolidated=False)
    for name in ("mean", "std"):
        assert there[name].dims == here[name].dims
        np.testing.assert_allclose(stored[name], here[name], rtol=1e-9, atol=1e-12)
    # A local rest looks at the parts beside its own.
    assert seen["most"] <= (10 if rest == "local" else 4) * 20 * 8 * data.sizes["x"]
    assert seen["most"] > 0


def test_the_beginning_of_a_record_chooses_and_its_climatology_is_of_all(monkeypatch):
    from spdelaw.evaluation import _fill_lazy

    data = finer_record() + 2.0 * np.cos(finer_record().time)
    monkeypatch.setattr(_fill_lazy, "HEAD_BYTES", 60 * 8 * data.sizes["x"])
    monkeypatch.setattr(_fill_lazy, "FEWEST_ROWS", 2)
    how = sl.Preparation(anomalies="mean")
    words = {"drift": "diagonal", "basis": "domain", "rest": "white"}
    found = fill_record(data.chunk(time=20), INTERVAL, 2, prepare=how, **words)
    head = fill_record(data.isel(time=slice(60)), INTERVAL, 2, prepare=how, **words)
    assert found.data.attrs["chosen_by"] == head.data.attrs["chosen_by"]
    np.testing.assert_allclose(found.law.linear.drift, head.law.linear.drift)
    offset = found.law.preparation.affine(np.zeros(1), found.law.points)[0][0]
    np.testing.assert_allclose(offset, data.mean(("path", "time")).sel(x=found.law.points))
    filled = found.data["mean"].compute()
    assert int(filled.isnull().sum()) == data.sizes["time"]  # the point that nobody sees
    assert float(abs(filled - data).max()) < 1e-12  # what is observed stays

"""Lazy data are judged and filled as the same in memory, without being whole in it."""

import weakref

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.data import executors as executors_module
from spdelaw.evaluation import gap_filling as filling_module
from spdelaw.evaluation.checks import outside as outside_module
from spdelaw.evaluation.checks import suite as suite_module
from spdelaw.infer.engines import design as design_module

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
    words = {"drift": "diagonal", "basis": "domain", "residual": "white"}
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
    memory = {"live": 0, "most": 0}

    def gone(size):
        memory["live"] -= size

    def read(block):
        out = block.copy()
        memory["live"] += out.nbytes
        memory["most"] = max(memory["most"], memory["live"])
        weakref.finalize(out, gone, out.nbytes)
        return out

    lazy = da.from_array(data.values, chunks=(1, rows, -1)).map_blocks(read, dtype=float)
    return data.copy(data=lazy), memory


def with_land(data):
    data = data.copy(deep=True)
    data[..., 4] = np.nan
    return data


CASES = {
    "gaps": (10, lambda: (long_record(), {})),
    "land": (20, lambda: (with_land(long_record(0.0, 0.0)), {})),
    "mean": (47, lambda: (long_record() + 3.0, {"mean": "constant"})),
    "points": (10, lambda: (long_record(), {"observation_noise": "per_point"})),
}


@pytest.mark.parametrize(
    "case", ["gaps", "land", *(pytest.param(c, marks=pytest.mark.slow) for c in ("mean", "points"))]
)
def test_a_long_record_is_judged_in_parts_as_it_is_in_memory(case, monkeypatch):
    rows, make = CASES[case]
    data, words = make()
    # What may be in memory however short the record is.
    monkeypatch.setattr(executors_module, "MIN_BLOCK_BYTES", 1)
    monkeypatch.setattr(outside_module, "MOST_ROWS", 10)
    monkeypatch.setattr(design_module, "COMPONENT_ROWS", data[..., 0].size // 20)
    law = fit(data, **words)
    equation = sl.catalogue.heat(n_modes=2, initial="stationary")
    lazy, memory = in_memory_at_once(data, rows)
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
    for name, p in here.check.overall.items():
        assert there.check.overall[name] == pytest.approx(p, rel=1e-5, abs=1e-9)
    logs = law.log_likelihood(data)
    np.testing.assert_allclose(law.log_likelihood(lazy), logs, rtol=1e-9)
    assert memory["most"] <= 4 * rows * 8 * data.sizes["x"]


def test_checks_of_a_very_long_record_have_a_bound(monkeypatch):
    data = long_record()
    monkeypatch.setattr(suite_module, "MOST", 120)
    for record in (data, data.chunk(time=40)):
        card = sl.evaluate(fit(data), record, tiers=())
        assert card.check.innovations.shape == (1, 60, 2)


def finer_record():
    """Two modes, and a finer one with memory that a law of two leaves over."""
    heat = sl.catalogue.heat(n_modes=3, initial="stationary")
    times, points = np.linspace(0.0, 6.0, 151), np.linspace(0.1, 3.0, 11)
    fields = sl.simulate(heat, 1, times, points, seed=0, observation_std=0.02)
    data = sl.mask(fields, "blocks", 0.2, seed=1).copy(deep=True)
    data[..., 6] = np.nan
    return data


@pytest.mark.parametrize("residual", ["local", pytest.param("shared", marks=pytest.mark.slow)])
def test_gaps_of_a_long_record_are_filled_in_parts(residual, tmp_path, monkeypatch):
    data, words = finer_record(), {"drift": "diagonal", "basis": "domain", "residual": residual}
    here = sl.fill(data, INTERVAL, 2, **words)
    lazy, memory = in_memory_at_once(data, 20)
    there = sl.fill(lazy, INTERVAL, 2, **words)
    assert there["mean"].chunks[1] == (20,) * 7 + (11,)
    assert there.attrs == here.attrs
    memory["most"] = 0
    monkeypatch.setattr(executors_module, "MIN_BLOCK_BYTES", 1)
    with dask.config.set(scheduler="synchronous"):
        target = sl.write(there[["mean", "std"]], tmp_path / "full.zarr")
    stored = xr.open_zarr(target, consolidated=False)
    for name in ("mean", "std"):
        assert there[name].dims == here[name].dims
        np.testing.assert_allclose(stored[name], here[name], rtol=1e-9, atol=1e-12)
    # A local residual looks at the parts beside its own.
    assert memory["most"] <= (10 if residual == "local" else 4) * 20 * 8 * data.sizes["x"]
    assert memory["most"] > 0


def test_the_beginning_of_a_record_chooses_and_its_climatology_is_of_all(monkeypatch):
    data = finer_record() + 2.0 * np.cos(finer_record().time)
    monkeypatch.setattr(filling_module, "HEAD_BYTES", 60 * 8 * data.sizes["x"])
    monkeypatch.setattr(filling_module, "FEWEST_ROWS", 2)
    how = sl.Preparation(anomalies="mean")
    words = {"drift": "diagonal", "basis": "domain", "residual": "white"}
    words |= {"prepare": how, "return_law": True}
    filled, law = sl.fill(data.chunk(time=20), INTERVAL, 2, **words)
    head, law_of_head = sl.fill(data.isel(time=slice(60)), INTERVAL, 2, **words)
    assert filled.attrs["chosen_by"] == head.attrs["chosen_by"]
    np.testing.assert_allclose(law.linear.drift, law_of_head.linear.drift)
    offset = law.preparation.affine(np.zeros(1), law.points)[0][0]
    np.testing.assert_allclose(offset, data.mean(("path", "time")).sel(x=law.points))
    filled = filled["mean"].compute()
    assert int(filled.isnull().sum()) == data.sizes["time"]  # the point that nobody sees
    assert float(abs(filled - data).max()) < 1e-12  # what is observed stays

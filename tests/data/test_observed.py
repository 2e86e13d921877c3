"""Observed data, prepared and read once; their blocks, here, in threads and in processes."""

import contextlib
import operator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import spdelaw as sl
from spdelaw.data import executors as executors_module
from spdelaw.data.executors import LocalExecutor, as_executor, pieces_of
from spdelaw.data.observed import Observed, observe, observed_fields
from spdelaw.data.summary import checksum
from spdelaw.errors import DataError, DomainError, InputError

pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.SpdeLawWarning")
BOX = sl.Box((0.0, 3.0), (0.0, 2.0), boundary="neumann")
LINE = sl.Interval(0, np.pi)


def on_a_grid(n_paths: int = 3) -> xr.DataArray:
    """Fields (path, time, x, y) with a land point and single gaps."""
    draw = np.random.default_rng(0).standard_normal((n_paths, 6, 4, 3))
    draw[np.random.default_rng(1).uniform(size=draw.shape) < 0.1] = np.nan
    draw[:, :, 1, 2] = np.nan
    dims = ("path", "time", "x", "y")
    coords = {"x": np.linspace(0.2, 2.8, 4), "y": np.linspace(0.1, 1.9, 3), "time": np.arange(6.0)}
    return sl.as_fields(xr.DataArray(draw, coords, dims, "u", {"units": "K"}), dims=("x", "y"))


def own_times() -> xr.DataArray:
    """Two paths on clocks of their own, of which one joins later and one ends earlier."""
    clock = np.array([[0.0, 0.3, 0.7, 1.0], [0.2, 0.5, 0.9, np.nan]])
    values = np.random.default_rng(2).standard_normal((2, 4, 5))
    values[1, -1] = np.nan
    return sl.as_fields(values, times=clock, points=np.linspace(0.3, 2.8, 5))


@pytest.mark.parametrize("data", [on_a_grid(), own_times()], ids=["grid", "own times"])
def test_observed_data_are_data(data):
    """Every method of a law says of them what it says of the fields they were made from."""
    domain = BOX if "y" in data.dims else LINE
    law = sl.fit(data, domain, 2, nuisance=0, mean="zero", observation_noise=0.5)
    observed = law.observe(data)
    assert isinstance(observed, Observed)
    for method in (law.reconstruct, law.log_likelihood, lambda x: law.forecast(x, [2.0, 9.0])):
        xr.testing.assert_identical(method(observed), method(data))
    again = sl.fit(observed, domain, 2, nuisance=0, mean="zero", observation_noise=0.5)
    xr.testing.assert_identical(again.parameters, law.parameters)
    assert sl.evaluate(law, observed).to_dict() == sl.evaluate(law, data).to_dict()


def test_what_is_never_seen_is_dropped_once_and_comes_back_as_nan():
    fields = on_a_grid()
    law = sl.fit(fields, BOX, 2, nuisance=0, mean="zero")
    sea = observe(fields, BOX).at_observed_points()
    assert len(law.points) == len(sea.points) == 11
    result = law.reconstruct(fields)["mean"]
    assert np.isnan(result.values[:, :, 1, 2]).all()
    assert int(result.isnull().sum()) == 3 * 6
    everywhere = law.reconstruct(fields, grid=(fields.x.values, fields.y.values))["mean"]
    assert not everywhere.isnull().any()
    np.testing.assert_allclose(everywhere.where(result.notnull()), result, rtol=1e-12, atol=1e-14)


def test_scores_of_a_grid_with_land_are_those_of_its_sea():
    """So is the check of the model; rows that nobody sees change nothing either."""
    fields = on_a_grid(8)
    later = fields.isel(time=[5]).assign_coords(time=[7.5]) * np.nan
    padded = xr.concat([fields, later], "time")
    law = sl.fit(fields, BOX, 2, nuisance=0, mean="zero", observation_noise="estimate")
    observed = observe(fields, BOX).at_observed_points().flat
    expected = pd.json_normalize(sl.evaluate(law, observed).to_dict()).iloc[0]
    for same in (fields, padded):  # to rounding, which depends on the version of NumPy
        scores = pd.json_normalize(sl.evaluate(law, same).to_dict()).iloc[0]
        pd.testing.assert_series_equal(scores, expected, rtol=1e-12)


def test_parts_keep_values_and_labels_together():
    fields = on_a_grid()
    whole = observe(fields, BOX)
    assert whole.values.shape == (3, 6, 12)
    xr.testing.assert_identical(whole.labelled, fields)
    xr.testing.assert_identical(whole.where_observed().labelled, fields)  # land is a hole again
    some = whole.paths([2, 0]).at_times(slice(1, 4)).at_points(np.arange(12) != 5)
    np.testing.assert_array_equal(some.values, some.fields.values)
    np.testing.assert_array_equal(some.values, np.delete(whole.values[[2, 0], 1:4], 5, axis=-1))
    shift = np.arange(6.0)[:, None] + np.arange(12.0)
    less = whole.less(shift)
    np.testing.assert_array_equal(less.values, whole.values - shift)
    np.testing.assert_array_equal(less.fields.values, less.values)
    fields = own_times()
    padded = observe(fields, LINE)
    assert padded.values.shape == (2, 5, 5)  # a row in front of the path that joins later
    np.testing.assert_array_equal(padded.times[:, 0], [0.0, 0.0])
    back = np.take_along_axis(padded.values, padded.rows[..., None], axis=1)
    np.testing.assert_array_equal(back, fields.values)


def test_lazy_data_are_not_read_at_the_door():
    def refuse(block):
        raise AssertionError("read")

    fields = on_a_grid().chunk(path=1, time=3)
    lazy = fields.copy(
        data=fields.data.map_blocks(refuse, dtype=float, meta=np.zeros((0, 0, 0, 0)))
    )
    assert observed_fields(lazy.isel(x=[0, 2, 3]), BOX).is_lazy
    observed = observe(fields, BOX)
    assert observed.is_lazy
    assert len(list(observed.blocks())) == 3
    xr.testing.assert_identical(observed.labelled.compute(), on_a_grid())
    np.testing.assert_array_equal(observed.in_memory().values, observe(on_a_grid(), BOX).values)


def test_prepared_once_and_known_again():
    raw = sl.datasets.equatorial_pacific()
    how = sl.Preparation(average="latitude", rename={"longitude": "x"}, anomalies="month",
                         coarsen={"x": 16})  # fmt: skip
    domain = sl.Interval(float(raw.longitude[0]), float(raw.longitude[-1]), boundary="neumann")
    law = sl.fit(raw, domain, 2, prepare=how)
    observed = observe(raw, domain, how)
    same = sl.fit(observed, domain, 2)
    xr.testing.assert_identical(same.parameters, law.parameters)
    assert same.info["preparation"] == law.info["preparation"]
    xr.testing.assert_allclose(same.forecast(observed, steps=2), law.forecast(raw, steps=2))
    plain = observe(observed.labelled, domain)
    with pytest.raises(InputError, match="pass the raw data"):
        law.reconstruct(plain)
    with pytest.raises(InputError, match="prepared otherwise"):
        sl.fit(observed, domain, 2, prepare=sl.Preparation(anomalies="mean"))
    with pytest.raises(DomainError, match="Fix:"):
        law.reconstruct(observe(on_a_grid(), BOX))


# ------------------------------------------------------------------ read once


def made(n_paths=4):
    return sl.simulate(sl.catalogue.heat(3), n_paths, np.linspace(0, 1, 30), LINE.grid(20), seed=0)


@pytest.mark.parametrize(
    "change",
    [
        lambda o: o,
        lambda o: o.paths([0, 2]),
        lambda o: o.at_times(slice(3, None)),
        lambda o: o.at_points(np.arange(20) > 3),
        lambda o: o.less(np.ones(20)),
        lambda o: o.masked(np.arange(20) % 5 > 0),
        lambda o: o.where_observed(),
    ],
)
def test_a_reading_is_of_these_fields_or_of_none(change):
    fields = made()
    fields[:, 7] = np.nan
    part = change(observe(fields, LINE, named=True))
    assert checksum(part.fields, part.reading) == checksum(part.fields)


def test_a_law_names_its_data_whether_they_were_read_before_or_not():
    law, again = sl.fit(made(), LINE, 3), sl.fit(observe(made(), LINE), LINE, 3)
    name = law.info["log_likelihood_of"]["fingerprint"]
    assert name == again.info["log_likelihood_of"]["fingerprint"] == checksum(made())
    for bad, word in ((np.inf, "infinite"), (9.96920996838687e36, "fill"), (-9999.0, "fill")):
        fields = made()
        fields[1, 2, 3] = bad
        with pytest.raises(DataError, match=word):
            sl.fit(fields, LINE, 3)


# ------------------------------------------------------------------ blocks


def scaled(block, factor):
    return factor * np.asarray(block)


@pytest.mark.parametrize("pool", [None, ThreadPoolExecutor, ProcessPoolExecutor])
def test_results_come_in_the_order_of_the_blocks(pool):
    blocks = [np.full(3, i) for i in range(5)]
    with pool(2) if pool else contextlib.nullcontext() as executor:
        results = as_executor(executor).map(scaled, blocks, 2.0)
    np.testing.assert_array_equal(results, [np.full(3, 2.0 * i) for i in range(5)])


def test_lists_of_lazy_blocks_trees_and_what_is_no_executor():
    lazy = da.arange(4, chunks=2)
    np.testing.assert_array_equal(
        as_executor(None).map(scaled, [lazy], 3.0), [[0.0, 3.0, 6.0, 9.0]]
    )
    assert LocalExecutor().map(lambda pair: pair[1] * pair[0].sum(), [[lazy, 2]]) == [12]
    for n in (1, 2, 3, 7):
        assert LocalExecutor().tree(operator.add, [[i] for i in range(n)]) == list(range(n))
    with pytest.raises(InputError, match="Dask Client"):
        as_executor("tcp://somewhere:8786")


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**31))
def test_pieces_of_any_chunks_are_the_whole(path, time, seed):
    values = np.random.default_rng(seed).standard_normal((6, 5, 3))
    lazy = da.from_array(values, chunks=(path, time, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executors_module, "MIN_BLOCK_BYTES", 1.0)
        pieces = pieces_of(lazy)
    assert [part.stop - part.start for part in pieces.times] == list(lazy.chunks[1])
    rebuilt = [np.concatenate([p.compute() for p in block], axis=1) for block in pieces.blocks]
    np.testing.assert_array_equal(np.concatenate(rebuilt), values)
    together = pieces_of(lazy)  # small chunks of paths are taken together, times are left alone
    assert (len(together.blocks), together.times) == (1, pieces.times)

"""Blocks: the same answers here, in threads and in processes; surveys of pieces add up."""

import operator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdelaw.data import Here, in_time, look, of_both, over_blocks, pieces_of, place_of
from spdelaw.data import _pieces as pieces_module
from spdelaw.errors import InputError


def scaled(block, factor):
    return factor * np.asarray(block)


@pytest.mark.parametrize("pool", [None, ThreadPoolExecutor, ProcessPoolExecutor])
def test_results_come_in_the_order_of_the_blocks(pool):
    blocks = [np.full(3, i) for i in range(5)]
    if pool is None:
        found = over_blocks(scaled, blocks, 2.0)
    else:
        with pool(2) as executor:
            found = over_blocks(scaled, blocks, 2.0, executor=executor)
    np.testing.assert_array_equal(found, [np.full(3, 2.0 * i) for i in range(5)])


def test_lazy_blocks_are_read_for_the_function_also_inside_lists():
    lazy = da.arange(4, chunks=2)
    (plain,) = over_blocks(scaled, [lazy], 3.0)
    np.testing.assert_array_equal(plain, [0.0, 3.0, 6.0, 9.0])
    assert Here().over(lambda pair: pair[1] * pair[0].sum(), [[lazy, 2]]) == [12]


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_a_tree_takes_every_block_once_and_in_order(n):
    assert Here().tree(operator.add, [[i] for i in range(n)]) == list(range(n))


def test_what_is_no_executor_is_refused():
    with pytest.raises(InputError, match="Dask Client"):
        place_of("tcp://somewhere:8786")


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**31))
def test_pieces_of_any_chunks_are_the_whole(path, time, seed):
    values = np.random.default_rng(seed).standard_normal((6, 5, 3))
    lazy = da.from_array(values, chunks=(path, time, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces_module, "ENOUGH", 1.0)
        pieces = pieces_of(lazy)
    assert [part.stop - part.start for part in pieces.times] == list(lazy.chunks[1])
    rebuilt = [np.concatenate([p.compute() for p in block], axis=1) for block in pieces.blocks]
    np.testing.assert_array_equal(np.concatenate(rebuilt), values)


def test_small_chunks_of_paths_are_taken_together_and_times_are_left_alone():
    pieces = pieces_of(da.zeros((100, 4, 3), chunks=(1, 2, 3)))
    assert len(pieces.blocks) == 1
    assert pieces.times == [slice(0, 2), slice(2, 4)]


@given(st.integers(0, 2**31), st.floats(0.0, 0.9))
def test_the_survey_of_pieces_is_that_of_the_whole(seed, missing):
    generator = np.random.default_rng(seed)
    values = generator.standard_normal((4, 6, 5))
    values[generator.random(values.shape) < missing] = np.nan
    values[:, :, 2] = np.nan
    values[0, 0, 0] = 1.0
    cut = [in_time([look(values[p : p + 2, :1]), look(values[p : p + 2, 1:])]) for p in (0, 2)]
    found, known = of_both(*cut), ~np.isnan(values)
    np.testing.assert_array_equal(found.seen, known.any((0, 1)))
    assert (found.size, found.missing, found.infinite) == (values.size, (~known).sum(), 0)
    rows = known.sum(-1)
    assert found.least == rows[rows > 0].min()
    assert found.largest == np.nanmax(np.abs(values))
    span = np.fmax.reduce(values, axis=1) - np.fmin.reduce(values, axis=1)
    assert found.change == np.nanmax(span)
    inner = found.where_seen
    assert inner.missing == np.isnan(values[..., found.seen]).sum()
    assert inner.has_partial_rows == bool(((rows > 0) & (rows < found.seen.sum())).any())

"""Collapse and statistics of pieces against those of the whole, at fixed laws."""

import collections

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.statespace.cases import basis, parameters

import spdelaw as sl
from spdelaw.data import executors as pieces_module
from spdelaw.data.executors import LocalExecutor, Pieces, pieces_of
from spdelaw.data.observed import observe
from spdelaw.statespace import collapse as collapse_module
from spdelaw.statespace import condense as condense_module
from spdelaw.statespace.collapse import collapse, first_paths, rotate
from spdelaw.statespace.condense import collapse_pieces, condensed, statistics_of_rows
from spdelaw.statespace.likelihood import evaluate_likelihood
from spdelaw.statespace.mean import evaluate_restricted, mean_given
from spdelaw.statespace.statistics import collect

TIMES = np.array([0.0, 0.1, 0.25, 0.3, 0.5, 0.6, 0.9])
PHI = basis(False)
DIAGONAL, COUPLED = (
    parameters("gaussian", structure=structure).state_space for structure in ("diagonal", "matrix")
)


def values(missing):
    generator = np.random.default_rng(0)
    out = generator.standard_normal((9, len(TIMES), len(PHI)))
    out[generator.random(out.shape) < missing] = np.nan
    return out


def cut(array, path, time) -> Pieces:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces_module, "MIN_BLOCK_BYTES", 1.0)
        return pieces_of(da.from_array(array, chunks=(path, time, -1)))


def same(one, two, rtol=1e-10, atol=1e-9):
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(b, a, rtol=rtol, atol=atol)


@settings(max_examples=12)
@given(
    st.integers(1, 9), st.integers(1, 7), st.sampled_from([0.0, 0.3, 0.8]), st.booleans(),
    st.integers(1, 9),
)  # fmt: skip
def test_likelihood_and_score_do_not_see_the_pieces(path, time, missing, weighted, n_paths):
    array, weights = values(missing), np.linspace(1.0, 2.0, len(PHI)) if weighted else None
    array[:, 3] = np.nan if weighted else array[:, 3]  # rows without a value
    whole = collapse(array, TIMES, PHI, weights)
    pieces = collapse_pieces(cut(array, path, time), TIMES, PHI, LocalExecutor(), weights)
    assert pieces.n_values == whole.n_values
    assert pieces.misfit == pytest.approx(whole.misfit, rel=1e-10)
    for space in (DIAGONAL, COUPLED):
        same(evaluate_likelihood(whole, space), evaluate_likelihood(pieces, space))
        same(evaluate_restricted(whole, space), evaluate_restricted(pieces, space))
        same(mean_given(whole, space), mean_given(pieces, space), 1e-9, 1e-12)
    one, two = (first_paths(data, n_paths) for data in (whole, pieces))
    same(evaluate_likelihood(one, DIAGONAL), evaluate_likelihood(two, DIAGONAL))
    total = evaluate_likelihood(rotate(two), DIAGONAL).log_likelihood.sum()
    assert total == pytest.approx(evaluate_likelihood(one, DIAGONAL).log_likelihood.sum())


@settings(max_examples=8)
@given(st.integers(1, 9), st.integers(1, 7), st.booleans())
def test_statistics_do_not_see_the_pieces(path, time, pairs):
    array = values(0.0)
    one = collect([array], TIMES, np.linalg.pinv(PHI), PHI, pairs=pairs)
    rows = collapse_pieces(cut(array, path, time), TIMES, PHI, LocalExecutor())
    two = statistics_of_rows(rows, TIMES, PHI, pairs=pairs)
    for name in ("first", "square", "cross", "skip", "start_spread", "energy", "outside"):
        np.testing.assert_allclose(getattr(two, name), getattr(one, name), rtol=1e-10, atol=1e-10)
    assert two.n_values == one.n_values
    if pairs:
        same(one.of_pairs, two.of_pairs, atol=1e-10)
    array[7, 5, 2] = np.nan
    gappy = collapse_pieces(cut(array, path, time), TIMES, PHI, LocalExecutor())
    assert statistics_of_rows(gappy, TIMES, PHI) is None


def test_modes_are_decoupled_where_memory_is_short(monkeypatch):
    for module in (collapse_module, condense_module):
        monkeypatch.setattr(module, "MOST_BYTES", 1.0)
    one = collapse(values(0.3), TIMES, PHI)
    two = collapse_pieces(cut(values(0.3), 4, 3), TIMES, PHI, LocalExecutor())
    assert one.decoupled
    assert two.decoupled
    same(evaluate_likelihood(one, DIAGONAL), evaluate_likelihood(two, DIAGONAL))


def test_one_pass_gives_the_survey_and_the_rows():
    """Times without an observation are dropped from both."""
    points = np.linspace(0.0, np.pi, 8)
    array = np.random.default_rng(1).standard_normal((5, len(TIMES), 8))
    array[:, 3], array[2, 4, 1] = np.nan, np.nan
    fields = sl.as_fields(array, times=TIMES, points=points)
    n_reads = collections.Counter()

    def counted(block, block_info=None):
        n_reads[tuple(block_info[0]["chunk-location"])] += 1
        return block

    lazy = da.from_array(array, chunks=(2, 3, -1)).map_blocks(counted, meta=np.zeros((0, 0, 0)))
    domain = sl.Interval(0, np.pi)
    observed = condensed(observe(fields.copy(data=lazy), domain), 3)
    assert set(n_reads.values()) == {1}
    assert observed.survey.missing == 1
    np.testing.assert_array_equal(observed.times, np.delete(TIMES, 3))
    whole = collapse(np.delete(array, 3, axis=1), observed.times, observed.basis(3))
    (collapsed,) = observed.collapsed
    assert collapsed.n_values == whole.n_values
    assert collapsed.misfit == pytest.approx(whole.misfit, rel=1e-10)
    rows = [np.concatenate([b.estimate for b in c.blocks], -1) for c in (whole, collapsed)]
    order = [np.concatenate([b.paths for b in c.blocks]) for c in (whole, collapsed)]
    one, two = (r[..., np.argsort(o)] for r, o in zip(rows, order, strict=True))
    np.testing.assert_allclose(two, one, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_large_data_are_collapsed_in_the_first_pass_where_they_are_complete(missing, monkeypatch):
    monkeypatch.setattr(condense_module, "MOST_BYTES", 1.0)
    fields = sl.as_fields(values(missing), times=TIMES, points=np.linspace(0.1, 3.0, len(PHI)))
    observed = condensed(observe(fields.chunk(path=4, time=3), sl.Interval(0, np.pi)), 2)
    assert observed.survey.missing == int(np.isnan(fields.values).sum())
    assert (observed.collapsed == ()) == (missing > 0)

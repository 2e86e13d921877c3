"""Collapse and statistics of pieces against those of the whole, at fixed laws."""

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spdelaw as sl
from spdelaw.data import Here, Pieces, pieces_of
from spdelaw.data import _pieces as pieces_module
from spdelaw.equation import InitialState, Linear
from spdelaw.model import (
    StateSpace,
    collapse,
    collapse_pieces,
    collect,
    evaluate_likelihood,
    evaluate_restricted,
    first_paths,
    mean_given,
    rotate,
    statistics_of_pieces,
)

DOMAIN = sl.Interval(0, np.pi)
TIMES = np.array([0.0, 0.1, 0.25, 0.3, 0.5, 0.6, 0.9])
POINTS = np.linspace(0.1, 3.0, 8)
PHI = DOMAIN.eigenfunctions(POINTS, 3)
INITIAL = InitialState("gaussian", np.array([0.3, -0.1, 0.2]), np.array([0.5, 0.4, 0.3]))
DIAGONAL = StateSpace(Linear(np.array([1.0, 4.0, 9.0]), np.ones(3)), INITIAL, np.array(0.1))
DRIFT = np.array([[1.0, 0.5, 0.0], [-0.5, 2.0, 0.1], [0.0, 0.2, 3.0]])
COUPLED = DIAGONAL._replace(dynamics=Linear(DRIFT, np.eye(3) + 0.2))


def values(missing, seed=0, n_paths=9):
    generator = np.random.default_rng(seed)
    out = generator.standard_normal((n_paths, len(TIMES), len(POINTS)))
    out[generator.random(out.shape) < missing] = np.nan
    return out


def cut(array, path, time) -> Pieces:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces_module, "ENOUGH", 1.0)
        return pieces_of(da.from_array(array, chunks=(path, time, -1)))


def same(one, two):
    for name in one._fields:
        np.testing.assert_allclose(getattr(two, name), getattr(one, name), rtol=1e-10, atol=1e-9)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 9), st.integers(1, 7), st.sampled_from([0.0, 0.3, 0.8]))
def test_likelihood_and_score_do_not_see_the_pieces(path, time, missing):
    array = values(missing)
    whole = collapse(array, TIMES, PHI)
    pieces = collapse_pieces(cut(array, path, time), TIMES, PHI, Here())
    assert pieces.n_values == whole.n_values
    assert pieces.misfit == pytest.approx(whole.misfit, rel=1e-10)
    for space in (DIAGONAL, COUPLED):
        same(evaluate_likelihood(whole, space), evaluate_likelihood(pieces, space))
        same(evaluate_restricted(whole, space), evaluate_restricted(pieces, space))
        one, two = (mean_given(data, space)[0] for data in (whole, pieces))
        np.testing.assert_allclose(two, one, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_paths", [1, 4, 5, 9])
def test_first_paths_and_rotation_in_pieces(n_paths):
    array = values(0.3)
    one = first_paths(collapse(array, TIMES, PHI), n_paths)
    two = first_paths(collapse_pieces(cut(array, 4, 3), TIMES, PHI, Here()), n_paths)
    same(evaluate_likelihood(one, DIAGONAL), evaluate_likelihood(two, DIAGONAL))
    total = evaluate_likelihood(rotate(two), DIAGONAL).log_likelihood.sum()
    assert total == pytest.approx(evaluate_likelihood(one, DIAGONAL).log_likelihood.sum())


def test_rows_that_see_nothing_and_known_precisions():
    array, weights = values(0.2), np.linspace(1.0, 2.0, len(POINTS))
    array[:, 3] = np.nan
    one = collapse(array, TIMES, PHI, weights)
    two = collapse_pieces(cut(array, 2, 2), TIMES, PHI, Here(), weights)
    same(evaluate_likelihood(one, COUPLED), evaluate_likelihood(two, COUPLED))


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 9), st.integers(1, 7), st.booleans())
def test_statistics_do_not_see_the_pieces(path, time, pairs):
    array = values(0.0)
    one = collect([array], TIMES, np.linalg.pinv(PHI), PHI, pairs=pairs)
    two = statistics_of_pieces(cut(array, path, time), TIMES, PHI, Here(), pairs=pairs)
    for name in ("first", "square", "cross", "skip", "start_spread", "energy", "outside"):
        np.testing.assert_allclose(getattr(two, name), getattr(one, name), rtol=1e-10, atol=1e-10)
    assert two.n_values == one.n_values
    if pairs:
        for a, b in zip(one.of_pairs, two.of_pairs, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-10)


def test_one_missing_value_anywhere_and_there_are_no_statistics():
    array = values(0.0)
    array[7, 5, 2] = np.nan
    assert statistics_of_pieces(cut(array, 4, 2), TIMES, PHI, Here()) is None


def test_modes_are_decoupled_where_memory_asks_for_it(monkeypatch):
    from spdelaw.model import _collapse, _pieces

    array = values(0.3)
    monkeypatch.setattr(_collapse, "MOST_BYTES", 1.0)
    monkeypatch.setattr(_pieces, "MOST_BYTES", 1.0)
    one = collapse(array, TIMES, PHI)
    two = collapse_pieces(cut(array, 4, 3), TIMES, PHI, Here())
    assert one.decoupled
    assert two.decoupled
    same(evaluate_likelihood(one, DIAGONAL), evaluate_likelihood(two, DIAGONAL))

"""Long records in parts of times against the whole chain: likelihood, score, mean, smoothing."""

import itertools

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spdelaw as sl
from spdelaw.data import Here, pieces_of
from spdelaw.equation import Forcing, InitialState, Linear, Season
from spdelaw.model import (
    StateSpace,
    collapse,
    collapse_pieces,
    evaluate_likelihood,
    evaluate_restricted,
    first_paths,
    mean_given,
    part_slices,
    smooth_states,
)
from spdelaw.model import _pieces as pieces_module
from spdelaw.model._likelihood import link_of
from spdelaw.model._smoother import smooth_part
from spdelaw.model._stitch import FEWEST_ROWS, heard

DOMAIN = sl.Interval(0, np.pi)
POINTS = np.linspace(0.1, 3.0, 8)
PHI = DOMAIN.eigenfunctions(POINTS, 3)
#: Modes that leave each other alone where all points are seen.
ORTHOGONAL = np.linalg.qr(PHI)[0]
DRIFTS = {
    "diagonal": np.array([1.0, 4.0, 9.0]),
    "coupled": np.array([[1.0, 0.5, 0.0], [-0.5, 2.0, 0.1], [0.0, 0.2, 3.0]]),
}
KINDS = ("gaussian", "deterministic", "stationary")
SAME = 1e-9


@pytest.fixture(autouse=True, scope="module")
def _any_record_is_long():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces_module, "LONG", 1)
        patch.setattr(pieces_module, "RECORD_BYTES", 0.0)
        yield


def law(name, kind, **how):
    drift = DRIFTS[name]
    noise = np.ones(3) if drift.ndim == 1 else np.eye(3) + 0.2
    start = InitialState(kind, np.array([0.3, -0.1, 0.2]), np.array([0.5, 0.4, 0.3]))
    return StateSpace(Linear(drift, noise, **how), start, np.array(0.1))


def record(n_times, missing, seed, n_paths=1):
    generator = np.random.default_rng(seed)
    values = generator.standard_normal((n_paths, n_times, len(POINTS)))
    # The first rows are whole: their blocks may be diagonal where later ones are not.
    hidden = generator.random(values.shape) < missing
    hidden[:, : n_times // 3] = False
    values[hidden] = np.nan
    values[:, n_times // 2] = np.nan
    return np.cumsum(0.05 + 0.1 * generator.random(n_times)), values


def both(times, values, chunks, phi, n_workers=9):
    """The whole, and the same in parts."""
    lazy = da.from_array(values, chunks=(len(values), chunks, -1))
    parts = collapse_pieces(pieces_of(lazy), times, phi, Here(map, n_workers))
    assert parts.records is not None
    return collapse(values, times, phi), parts


def same(one, two):
    for name in one._fields:
        a, b = (np.asarray(getattr(found, name)) for found in (one, two))
        np.testing.assert_allclose(b, a, rtol=SAME, atol=SAME * max(1.0, np.abs(a).max()))


layouts = st.lists(st.integers(1, 12), min_size=2, max_size=7).filter(lambda cut: sum(cut) >= 6)


@settings(max_examples=25, deadline=None)
@given(
    layouts,
    st.sampled_from(sorted(DRIFTS)),
    st.sampled_from(KINDS),
    st.sampled_from([0.0, 0.3, 0.8]),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_any_layout_gives_the_likelihood_score_and_mean_of_the_whole(
    cut, name, kind, missing, orthogonal, seed
):
    times, values = record(sum(cut), missing, seed)
    phi, space = ORTHOGONAL if orthogonal else PHI, law(name, kind)
    one, two = both(times, values, tuple(cut), phi)
    assert (one.n_values, one.is_diagonal) == (two.n_values, two.is_diagonal)
    same(evaluate_likelihood(one, space), evaluate_likelihood(two, space))
    inside = (evaluate_likelihood(data, space, use_misfit=False) for data in (one, two))
    same(*inside)
    anchored = kind != "stationary"
    same(*(evaluate_restricted(data, space, anchored=anchored) for data in (one, two)))
    a, b = (mean_given(data, space, anchored=anchored) for data in (one, two))
    np.testing.assert_allclose(b[0], a[0], rtol=SAME, atol=SAME)
    np.testing.assert_allclose(b[1], a[1], rtol=SAME, atol=SAME)


@pytest.mark.parametrize("name", sorted(DRIFTS))
@pytest.mark.parametrize("kind", KINDS)
def test_smoothed_states_are_those_of_the_whole(name, kind):
    times, values = record(40, 0.4, 1)
    space = law(name, kind, mean=np.array([0.5, -1.0, 0.2]))
    one, two = both(times, values, (9, 2, 14, 15), PHI)
    whole = smooth_states(one.blocks[0], space)
    parts = two.place.over(smooth_part, heard(two, link_of, space), space)
    assert len(parts) > 1
    for name_of, field in zip(whole._fields, whole, strict=True):
        joined = np.concatenate([getattr(part, name_of) for part in parts])
        np.testing.assert_allclose(joined, field, rtol=SAME, atol=SAME)


def test_a_step_far_below_the_memory_keeps_its_digits():
    """Precisions of a step are then a million times those of the data."""
    times, values = record(60, 0.3, 2)
    one, two = both(1e-6 * times, values, 13, PHI)
    space = law("diagonal", "gaussian")
    same(evaluate_likelihood(one, space), evaluate_likelihood(two, space))


@pytest.mark.parametrize("name", sorted(DRIFTS))
def test_seasons_and_a_forcing(name):
    times, values = record(50, 0.3, 3)
    season = Season(1.0, np.array([2.0, 0.5, 0.5]))
    wave = Forcing(
        np.linspace(0.0, 6.0, 200), np.sin(np.linspace(0.0, 6.0, 200))[:, None] * [1, 2, 3]
    )
    for how in ({"season": season}, {"forcing": wave, "origin": float(times[0])}):
        space = law(name, "gaussian", **how)
        one, two = both(times, values, 11, PHI)
        same(evaluate_likelihood(one, space), evaluate_likelihood(two, space))


def test_several_records_with_gaps_of_their_own():
    times, values = record(30, 0.4, 4, n_paths=4)
    one, two = both(times, values, 7, PHI)
    space = law("coupled", "gaussian")
    assert len(two.records) == 4
    same(evaluate_likelihood(one, space), evaluate_likelihood(two, space))
    one, two = (first_paths(data, 2) for data in (one, two))
    assert (two.n_paths, len(two.records)) == (2, 2)
    same(evaluate_likelihood(one, space), evaluate_likelihood(two, space))
    np.testing.assert_allclose(*(mean_given(data, space)[0] for data in (one, two)), rtol=SAME)


@given(layouts, st.integers(1, 9))
def test_parts_are_neighbouring_chunks_with_rows_enough(cut, n_parts):
    ends = np.cumsum([0, *cut])
    times = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
    found = part_slices(times, n_parts)
    assert [i for part in found for i in range(len(cut))[part]] == list(range(len(cut)))
    assert len(found) <= n_parts
    assert all(sum(cut[part]) >= FEWEST_ROWS for part in found)


def test_short_records_and_lone_workers_are_not_cut():
    times, values = record(30, 0.3, 5)
    pieces = pieces_of(da.from_array(values, chunks=(1, 10, -1)))
    assert collapse_pieces(pieces, times, PHI, Here()).records is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces_module, "LONG", 31)
        assert collapse_pieces(pieces, times, PHI, Here(map, 4)).records is None


def test_parts_need_workers_for_each_path_unless_a_record_is_large():
    times, values = record(30, 0.3, 6, n_paths=2)
    pieces = pieces_of(da.from_array(values, chunks=(2, 10, -1)))
    for limit, n_workers, apart in ((1e9, 7, False), (1e9, 8, True), (1e3, 2, True)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pieces_module, "RECORD_BYTES", limit)
            found = collapse_pieces(pieces, times, PHI, Here(map, n_workers))
        assert (found.records is not None) == apart

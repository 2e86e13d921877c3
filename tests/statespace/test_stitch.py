"""Long records in parts of times against the whole chain: likelihood, score, mean, smoothing."""

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.statespace.cases import KINDS, basis, parameters

from spdelaw.data.executors import LocalExecutor, pieces_of
from spdelaw.statespace import condense as pieces_module
from spdelaw.statespace.collapse import collapse, first_paths
from spdelaw.statespace.condense import collapse_pieces
from spdelaw.statespace.filter import smooth_part, smooth_states
from spdelaw.statespace.likelihood import evaluate_likelihood, link_of, parts_with_messages
from spdelaw.statespace.mean import evaluate_restricted, mean_given

SAME = 1e-9


@pytest.fixture(autouse=True, scope="module")
def _any_record_is_long():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces_module, "LONG_RECORD_ROWS", 1)
        patch.setattr(pieces_module, "RECORD_BYTES", 0.0)
        yield


def both(n_times, chunks, missing=0.3, seed=0, orthogonal=False, n_paths=1):
    """The whole, and the same in parts."""
    generator, phi = np.random.default_rng(seed), basis(orthogonal)
    values = generator.standard_normal((n_paths, n_times, len(phi)))
    # The first rows are whole: their blocks may be diagonal where later ones are not.
    values[:, n_times // 3 :][generator.random(values[:, n_times // 3 :].shape) < missing] = np.nan
    values[:, n_times // 2] = np.nan
    times = np.cumsum(0.05 + 0.1 * generator.random(n_times))
    pieces = pieces_of(da.from_array(values, chunks=(n_paths, chunks, -1)))
    parts = collapse_pieces(pieces, times, phi, LocalExecutor(map, 9))
    assert parts.records is not None
    return collapse(values, times, phi), parts


def same(one, two):
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(b, a, rtol=SAME, atol=SAME * max(1.0, np.abs(a).max()))


layouts = st.lists(st.integers(1, 12), min_size=2, max_size=7).filter(lambda cut: sum(cut) >= 6)


@settings(max_examples=12)
@given(
    layouts,
    st.sampled_from(["diagonal", "matrix"]),
    st.sampled_from(KINDS),
    st.sampled_from([0.0, 0.3, 0.8]),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_any_layout_gives_the_likelihood_score_mean_and_states_of_the_whole(
    cut, structure, kind, missing, orthogonal, seed
):
    space = parameters(kind, structure=structure).state_space
    one, two = both(sum(cut), tuple(cut), missing, seed, orthogonal)
    assert (one.n_values, one.is_diagonal) == (two.n_values, two.is_diagonal)
    how = {"anchored": kind != "stationary"}
    same(*(evaluate_likelihood(data, space) for data in (one, two)))
    same(*(evaluate_likelihood(data, space, use_misfit=False) for data in (one, two)))
    same(*(evaluate_restricted(data, space, **how) for data in (one, two)))
    same(*(mean_given(data, space, **how) for data in (one, two)))
    parts = two.executor.map(smooth_part, parts_with_messages(two, link_of, space), space)
    joined = (np.concatenate(field) for field in zip(*parts, strict=True))
    same(smooth_states(one.blocks[0], space), joined)


def test_several_records_with_different_gaps():
    one, two = both(30, 7, 0.4, n_paths=4)
    space = parameters("gaussian", structure="matrix").state_space
    assert len(two.records) == 4
    same(*(evaluate_likelihood(data, space) for data in (one, two)))
    one, two = (first_paths(data, 2) for data in (one, two))
    assert (two.n_paths, len(two.records)) == (2, 2)
    same(*(evaluate_likelihood(data, space) for data in (one, two)))

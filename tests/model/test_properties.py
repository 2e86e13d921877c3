"""What must change with the data or the units, and what must not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model import _brute_force as oracle
from tests.model.cases import KINDS, PATTERNS, make
from tests.model.numbers import evaluate_likelihood, smooth_states

from spdelaw.model import collapse

EXACT = 1e-9

kinds, patterns = st.sampled_from(KINDS), st.sampled_from(PATTERNS)
seeds = st.integers(0, 2**16)
few = settings(max_examples=15, deadline=None)


def assert_close(a, b):
    np.testing.assert_allclose(a, b, rtol=EXACT, atol=EXACT * max(1.0, np.abs(b).max()))


@few
@given(kinds, patterns, seeds)
def test_masking_everything_gives_the_prior(kind, pattern, seed):
    case = make(kind, pattern, n_paths=3, seed=seed)
    collapsed = collapse(np.full_like(case.values, np.nan), case.times, case.phi)
    found = evaluate_likelihood(collapsed, case.parameters)
    np.testing.assert_allclose(found.log_likelihood, 0.0, atol=1e-9)
    for score in (found.by_drift, found.by_noise, found.by_initial_mean):
        np.testing.assert_allclose(score, 0.0, atol=1e-8)
    for block in collapsed.blocks:
        states = smooth_states(block, case.parameters)
        assert block.is_diagonal
        for j, path in enumerate(block.paths):
            t = case.clock(path)
            assert_close(states.mean[..., j], oracle.mode_mean(case.parameters, t))
            b = 0 if states.covariance.shape[-1] == 1 else j
            own = np.einsum("ttn->tn", oracle.mode_covariance(case.parameters, t))
            assert_close(states.covariance[..., b], own)


@few
@given(kinds, patterns, seeds, st.integers(0, 4), st.floats(0.1, 0.9))
def test_an_unobserved_time_in_between_changes_nothing(kind, pattern, seed, at, share):
    case = make(kind, pattern, n_paths=3, seed=seed)
    times = np.atleast_2d(case.times)
    new = times[:, at] + share * (times[:, at + 1] - times[:, at])
    longer = np.insert(times, at + 1, new, axis=1)
    values = np.insert(case.values, at + 1, np.nan, axis=1)
    split = collapse(values, longer if case.times.ndim == 2 else longer[0], case.phi)
    one = evaluate_likelihood(case.collapsed, case.parameters)
    two = evaluate_likelihood(split, case.parameters)
    for a, b in zip(two, one, strict=True):
        assert_close(a, b)


@few
@given(kinds, patterns, seeds)
def test_permuting_paths_permutes_their_likelihoods(kind, pattern, seed):
    case = make(kind, pattern, n_paths=5, seed=seed)
    order = np.random.default_rng(seed).permutation(5)
    times = case.times if case.times.ndim == 1 else case.times[order]
    one = evaluate_likelihood(case.collapsed, case.parameters)
    two = evaluate_likelihood(collapse(case.values[order], times, case.phi), case.parameters)
    assert_close(two.log_likelihood, one.log_likelihood[order])
    for a, b in zip(two[1:], one[1:], strict=True):
        assert_close(a, b)


@few
@given(kinds, patterns, st.permutations(range(3)))
def test_permuting_modes_permutes_the_score(kind, pattern, order):
    case = make(kind, pattern)
    p = case.parameters
    swapped = p._replace(**{key: getattr(p, key)[order] for key in p._fields[:4]})
    one = evaluate_likelihood(case.collapsed, p)
    two = evaluate_likelihood(collapse(case.values, case.times, case.phi[:, order]), swapped)
    assert_close(two.log_likelihood, one.log_likelihood)
    for a, b in zip(two[1:5], one[1:5], strict=True):
        assert_close(a, b[order])
    assert_close(two.by_observation_variance, one.by_observation_variance)
    assert_close(two.initial_information, one.initial_information[np.ix_(order, order)])


@few
@given(kinds, patterns, st.floats(-6.0, 6.0))
def test_unit_of_the_field(kind, pattern, power):
    """Fields times s: q, r, v0 times s^2, m0 times s; the density shifts by -n log s."""
    case, s = make(kind, pattern), 10.0**power
    p = case.parameters
    scaled = p._replace(
        noise=s**2 * p.noise,
        initial_mean=s * p.initial_mean,
        initial_covariance=s**2 * p.initial_covariance,
        observation_variance=s**2 * p.observation_variance,
    )
    one = evaluate_likelihood(case.collapsed, p)
    two = evaluate_likelihood(collapse(s * case.values, case.times, case.phi), scaled)
    count = (~np.isnan(case.values)).sum((1, 2))
    assert_close(two.log_likelihood, one.log_likelihood - count * np.log(s))
    assert_close(two.by_drift, one.by_drift)
    assert_close(two.by_noise * s**2, one.by_noise)


@few
@given(kinds, patterns, st.floats(-6.0, 6.0))
def test_unit_of_time(kind, pattern, power):
    """Times t s with lambda / s and q / s are the same law."""
    case, s = make(kind, pattern), 10.0**power
    p = case.parameters
    scaled = p._replace(drift=p.drift / s, noise=p.noise / s)
    one = evaluate_likelihood(case.collapsed, p)
    two = evaluate_likelihood(collapse(case.values, s * case.times, case.phi), scaled)
    assert_close(two.log_likelihood, one.log_likelihood)
    assert_close(two.by_drift / s, one.by_drift)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_origin_of_time_does_not_matter(pattern):
    case = make("gaussian", pattern)
    one = evaluate_likelihood(case.collapsed, case.parameters).log_likelihood
    later = collapse(case.values, case.times + 37.0, case.phi)
    assert_close(evaluate_likelihood(later, case.parameters).log_likelihood, one)

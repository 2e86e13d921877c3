"""What must change with the data or the units, and what must not."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.statespace import _brute_force as oracle
from tests.statespace.cases import KINDS, PATTERNS, make, of_path
from tests.statespace.numbers import evaluate_likelihood, smooth_states

from spdelaw.statespace.collapse import collapse

EXACT = 1e-9

few = settings(max_examples=15)
cases = st.builds(
    make,
    st.sampled_from(KINDS),
    st.sampled_from(PATTERNS),
    n_paths=st.just(4),
    seed=st.integers(0, 2**16),
)


def assert_close(a, b):
    np.testing.assert_allclose(a, b, rtol=EXACT, atol=EXACT * max(1.0, np.abs(b).max()))


def of(case):
    return evaluate_likelihood(case.collapsed, case.parameters)


@few
@given(cases)
def test_masking_everything_gives_the_prior(case):
    p = case.parameters
    collapsed = collapse(np.full_like(case.values, np.nan), case.times, case.phi)
    result = evaluate_likelihood(collapsed, p)
    np.testing.assert_allclose(result.log_likelihood, 0.0, atol=1e-9)
    for score in (result.by_drift, result.by_noise, result.by_initial_mean):
        np.testing.assert_allclose(score, 0.0, atol=1e-8)
    for block in collapsed.blocks:
        states = smooth_states(block, p)
        assert block.is_diagonal
        for j, path in enumerate(block.paths):
            assert_close(states.mean[..., j], oracle.mode_mean(p, case.clock(path)))
            variances = np.einsum("ttn->tn", oracle.mode_covariance(p, case.clock(path)))
            assert_close(of_path(states.covariance, j), variances)


@few
@given(cases, st.integers(0, 4), st.floats(0.1, 0.9))
def test_an_unobserved_time_in_between_changes_nothing(case, at, share):
    t = case.times
    new = t[..., at] + share * (t[..., at + 1] - t[..., at])
    split = case._replace(
        times=np.insert(t, at + 1, new, axis=-1),
        values=np.insert(case.values, at + 1, np.nan, axis=1),
    )
    for a, b in zip(of(split), of(case), strict=True):
        assert_close(a, b)


@few
@given(cases, st.permutations(range(4)), st.permutations(range(3)))
def test_permuting_paths_and_modes_permutes_likelihoods_and_score(case, paths, modes):
    p = case.parameters
    swapped = case._replace(
        parameters=p._replace(**{key: getattr(p, key)[modes] for key in p._fields[:4]}),
        values=case.values[paths],
        times=case.times if case.times.ndim == 1 else case.times[paths],
        phi=case.phi[:, modes],
    )
    one, two = of(case), of(swapped)
    assert_close(two.log_likelihood, one.log_likelihood[paths])
    for a, b in zip(two[1:5], one[1:5], strict=True):
        assert_close(a, b[modes])
    assert_close(two.by_observation_variance, one.by_observation_variance)
    assert_close(two.initial_information, one.initial_information[np.ix_(modes, modes)])


@few
@given(cases, st.floats(-6.0, 6.0), st.floats(-6.0, 6.0), st.sampled_from([0.0, 37.0]))
def test_units_of_field_and_time_and_the_origin(case, field, time, origin):
    """Fields times s and times times t: the density shifts by -n log s."""
    p, s, t = case.parameters, 10.0**field, 10.0**time
    scaled = case._replace(
        parameters=p._replace(
            drift=p.drift / t,
            noise=s**2 / t * p.noise,
            initial_mean=s * p.initial_mean,
            initial_covariance=s**2 * p.initial_covariance,
            observation_variance=s**2 * p.observation_variance,
        ),
        values=s * case.values,
        times=t * (case.times + origin),
    )
    one, two = of(case), of(scaled)
    count = (~np.isnan(case.values)).sum((1, 2))
    assert_close(two.log_likelihood, one.log_likelihood - count * np.log(s))
    assert_close(two.by_drift / t, one.by_drift)
    assert_close(two.by_noise * s**2 / t, one.by_noise)

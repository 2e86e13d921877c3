"""Observed information by Louis' identity: against differences of the exact score."""

import numpy as np
import pytest
from tests.model.cases import KINDS, make, parameters

import spdelaw as sl
from spdelaw.equation import Linear
from spdelaw.model import collapse, evaluate_likelihood, observed_information
from spdelaw.model._louis import _flat

#: Central differences of the score at this relative step are exact to about its square.
STEP, EXACT = 1e-4, 1e-5


def by_differences(collapsed, space, use_misfit):
    linear, initial, r = space.linear, space.initial, float(space.observation_variance)
    at = np.concatenate([linear.drift, linear.noise, initial.covariance, initial.mean, [r]])
    n, columns = space.n_modes, []
    for k in range(len(at)):
        ends = []
        for way in (-1.0, 1.0):
            x = at.copy()
            x[k] += way * STEP * (abs(at[k]) + 0.1 * (k < len(at) - 1))
            start = initial._replace(mean=x[3 * n : 4 * n], covariance=x[2 * n : 3 * n])
            law = space._replace(dynamics=Linear(x[:n], x[n : 2 * n]), initial=start)
            law = law.with_noise(x[-1])
            ends.append(_flat(evaluate_likelihood(collapsed, law, use_misfit=use_misfit)))
        columns.append((ends[0] - ends[1]) / (2.0 * STEP * (abs(at[k]) + 0.1 * (k < len(at) - 1))))
    found = np.array(columns)
    return 0.5 * (found + found.T)


def check(collapsed, space, use_misfit=True):
    got = observed_information(collapsed, space, use_misfit)
    expected = by_differences(collapsed, space, use_misfit)
    kept = np.abs(np.diag(expected)) > 0  # a known start has no variance of its own
    scale = np.sqrt(np.abs(np.diag(expected)))[kept]
    error = (got - expected)[np.ix_(kept, kept)] / np.outer(scale, scale)
    assert np.abs(error).max() < EXACT


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use_misfit", [True, False])
@pytest.mark.parametrize("uneven", [False, True], ids=["even", "uneven"])
@pytest.mark.parametrize("variance", [0.04, 3.0, 1e-5])
def test_information_is_that_of_differences(kind, use_misfit, uneven, variance):
    """One path with gaps of its own, and steps of two lengths."""
    rng, phi = np.random.default_rng(2), np.random.default_rng(3).normal(size=(9, 3))
    times = 0.1 * np.arange(24.0)
    if uneven:
        times = np.delete(times, [3, 11, 12])
    values = rng.normal(size=(1, len(times), 9))
    values[rng.uniform(size=values.shape) < 0.3] = np.nan
    check(collapse(values, times, phi), parameters(kind, 3, variance).state_space, use_misfit)


@pytest.mark.parametrize("kind", KINDS)
def test_paths_that_share_their_gaps(kind):
    rng, phi = np.random.default_rng(2), np.random.default_rng(3).normal(size=(9, 3))
    values = rng.normal(size=(6, 24, 9))
    values[:, rng.uniform(size=(24, 9)) < 0.3] = np.nan
    data = collapse(values, 0.1 * np.arange(24.0), phi)
    check(data, parameters(kind).state_space)


@pytest.mark.parametrize("pattern", ["orthogonal", "random", "own_times"])
def test_other_patterns_are_left_to_differences(pattern):
    case = make("gaussian", pattern)
    assert observed_information(case.collapsed, case.parameters.state_space) is None


def test_a_long_memory_is_left_to_differences():
    """Hardly any noise in the state and much in the data: no lag dies out within the record."""
    times, domain = 0.01 * np.arange(400.0), sl.Interval(0, np.pi)
    rng, phi = np.random.default_rng(0), domain.eigenfunctions(domain.grid(9), 2)
    values = rng.normal(size=(1, 400, 9))
    values[rng.uniform(size=values.shape) < 0.3] = np.nan
    space = parameters("stationary", 2).state_space
    slow = space._replace(dynamics=Linear(space.linear.drift, 1e-6 * space.linear.noise))
    slow = slow._replace(initial=slow.initial._replace(covariance=1e-6 * slow.initial.covariance))
    assert observed_information(collapse(values, times, phi), slow) is None

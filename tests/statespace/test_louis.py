"""Observed information by Louis' identity: against differences of the exact score."""

import numpy as np
import pytest
from tests.parameters import cross
from tests.statespace.cases import KINDS, make, parameters

from spdelaw.processes.linear import Linear
from spdelaw.statespace.collapse import collapse
from spdelaw.statespace.information import _flat_score, observed_information
from spdelaw.statespace.likelihood import evaluate_likelihood

#: Central differences of the score at this relative step are exact to about its square.
STEP, EXACT = 1e-4, 1e-5


def by_differences(collapsed, space, use_misfit):
    linear, initial, n = space.linear, space.initial, space.n_modes
    at = np.concatenate([linear.drift, linear.noise, initial.covariance, initial.mean])
    at, columns = np.append(at, space.observation_variance), []
    steps = STEP * (np.abs(at) + np.append(np.full(4 * n, 0.1), 0.0))
    for way in np.diag(steps):
        ends = []
        for x in (at - way, at + way):
            start = initial._replace(mean=x[3 * n : 4 * n], covariance=x[2 * n : 3 * n])
            law = space._replace(dynamics=Linear(x[:n], x[n : 2 * n]), initial=start)
            data = evaluate_likelihood(collapsed, law.with_noise(x[-1]), use_misfit=use_misfit)
            ends.append(_flat_score(data))
        columns.append((ends[0] - ends[1]) / (2.0 * way.sum()))
    return 0.5 * (np.array(columns) + np.array(columns).T)


def check(kind, n_paths=1, use_misfit=True, uneven=False, variance=0.04):
    """Gaps that paths share, and steps of one or two lengths."""
    rng, phi = np.random.default_rng(2), np.random.default_rng(3).normal(size=(9, 3))
    times = 0.1 * np.delete(np.arange(24.0), [3, 11, 12] if uneven else [])
    values = rng.normal(size=(n_paths, len(times), 9))
    values[:, rng.uniform(size=values.shape[1:]) < 0.3] = np.nan
    collapsed, space = collapse(values, times, phi), parameters(kind, 3, variance).state_space
    expected = by_differences(collapsed, space, use_misfit)
    scale = np.sqrt(np.abs(np.diag(expected)))
    kept = scale > 0  # a fixed start has no variance
    error = observed_information(collapsed, space, use_misfit) - expected
    assert np.abs(error[np.ix_(kept, kept)] / np.outer(scale[kept], scale[kept])).max() < EXACT


@cross(kind=KINDS, use_misfit=[True, False], uneven=[False, True], variance=[0.04, 3.0, 1e-5])
def test_information_is_that_of_differences(kind, use_misfit, uneven, variance):
    check(kind, 1, use_misfit, uneven, variance)


@pytest.mark.parametrize("kind", KINDS)
def test_paths_that_share_their_gaps(kind):
    check(kind, n_paths=6)


@pytest.mark.parametrize("pattern", ["orthogonal", "random", "own_times"])
def test_other_patterns_are_left_to_differences(pattern):
    case = make("gaussian", pattern)
    assert observed_information(case.collapsed, case.parameters.state_space) is None

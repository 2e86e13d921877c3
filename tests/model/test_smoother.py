"""Smoothed moments, innovations and draws against the joint Gaussian written in full."""

import numpy as np
import pytest
from scipy import stats
from tests.model import _brute_force as oracle
from tests.model.cases import KINDS, PATTERNS, make

from spdelaw.model import innovations, sample_states, smooth_states
from spdelaw.model._likelihood import posterior

EXACT = 1e-10
FALSE_ALARM = 1e-4

every_case = [(kind, pattern) for kind in KINDS for pattern in PATTERNS]


def each_path(case):
    """(block, position in it, brute-force mean (T, N), covariance (T, N, T, N)) of each path."""
    n_times = case.values.shape[1]
    for block in case.collapsed.blocks:
        for j, path in enumerate(block.paths):
            mean, covariance = oracle.smoothed(
                case.parameters, case.values[path], case.clock(path), case.phi
            )
            shape = (n_times, 3)
            yield block, j, path, mean.reshape(shape), covariance.reshape(shape + shape)


@pytest.mark.parametrize(("kind", "pattern"), every_case)
def test_mean_and_covariance(kind, pattern):
    case = make(kind, pattern)
    for block, j, _, mean, covariance in each_path(case):
        states = smooth_states(block, case.parameters)
        np.testing.assert_allclose(states.mean[..., j], mean, atol=EXACT)
        own = np.einsum("tntm->tnm", covariance)
        found = states.covariance[..., 0 if states.covariance.shape[-1] == 1 else j]
        if block.is_diagonal:
            own = np.einsum("tnn->tn", own)
        np.testing.assert_allclose(found, own, atol=EXACT)


@pytest.mark.parametrize(("kind", "pattern"), every_case)
def test_lag_covariance(kind, pattern):
    case = make(kind, pattern)
    first = 1 if kind == "deterministic" else 0
    for block, j, _, _, covariance in each_path(case):
        lag = posterior(block, case.parameters)[0].lag_covariance
        expected = [np.diag(covariance[t, :, t + 1]) for t in range(first, len(covariance) - 1)]
        np.testing.assert_allclose(lag[..., 0 if lag.shape[-1] == 1 else j], expected, atol=EXACT)


@pytest.mark.parametrize(("kind", "pattern"), every_case)
def test_innovations(kind, pattern):
    case = make(kind, pattern)
    some = 0
    for block in case.collapsed.blocks:
        found = innovations(block, case.parameters)
        for j, path in enumerate(block.paths):
            expected = oracle.innovations(
                case.parameters, case.values[path], case.clock(path), case.phi
            )
            np.testing.assert_allclose(found[..., j], expected, atol=1e-9)
            some += np.isfinite(expected).sum()
    assert some > 0


@pytest.mark.parametrize("pattern", ["orthogonal", "oblique", "random", "rows", "own_times"])
@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_the_posterior_moments(kind, pattern):
    """Null: draws are from the exact posterior; three tests a path, joint false alarm 1e-4."""
    case = make(kind, pattern, n_paths=2, n_times=4)
    n = 4000
    first = 1 if kind == "deterministic" else 0
    for block in case.collapsed.blocks:
        draws = sample_states(block, case.parameters, n, np.random.default_rng(11))
        for j, path in enumerate(block.paths):
            mean, covariance = oracle.smoothed(
                case.parameters, case.values[path], case.clock(path), case.phi
            )
            free = slice(3 * first, None)
            if first:
                np.testing.assert_array_equal(
                    draws[:, 0, :, j], np.broadcast_to(case.parameters.initial_mean, (n, 3))
                )
            flat = draws[..., j].reshape(n, -1)[:, free]
            root = np.linalg.cholesky(covariance[free, free])
            white = np.linalg.solve(root, (flat - mean[free]).T).T
            assert_white(white, FALSE_ALARM / (3 * 2))


def assert_white(white, false_alarm):
    """Rows are independent standard normal vectors, by mean, size and correlations."""
    n, k = white.shape
    assert n * (white.mean(0) ** 2).sum() < stats.chi2.isf(false_alarm, k)
    low, high = stats.chi2.isf([1 - false_alarm / 2, false_alarm / 2], n * k)
    assert low < (white**2).sum() < high
    products = (white.T @ white)[np.triu_indices(k, 1)] / np.sqrt(n)
    assert (products**2).sum() < stats.chi2.isf(false_alarm, len(products)) * 1.05


def test_innovations_of_true_paths_are_white():
    """Null: standard normal and independent; one statistic, false alarm 1e-4."""
    case = make("gaussian", "oblique", n_paths=300, n_times=5, seed=8)
    (block,) = case.collapsed.blocks
    z = innovations(block, case.parameters).reshape(-1, 300).T
    assert_white(z, FALSE_ALARM / 3)

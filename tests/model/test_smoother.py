"""Smoothed moments, innovations and draws against the joint Gaussian written in full."""

import numpy as np
import pytest
from scipy import stats
from tests.model import _brute_force as oracle
from tests.model.cases import KINDS, PATTERNS, STRUCTURES, make
from tests.model.numbers import (
    component_innovations,
    innovations,
    sample_states,
    smooth_states,
)
from tests.model.test_likelihood import FORCING, SEASON

from spdelaw.model import collapse, some_paths
from spdelaw.model._blocks import diagonal
from spdelaw.model._chain import chain_of, moments_backward, sweep

EXACT = 1e-10
#: The oracle takes differences of large matrices where modes are coupled, and an ODE solver makes
#: its forced means.
COUPLED = 1e-9
FALSE_ALARM = 1e-4

every_case = [
    (structure, kind, pattern, {})
    for structure in STRUCTURES
    for kind in KINDS
    for pattern in PATTERNS
]
in_time = [
    (structure, "gaussian", pattern, {"season": SEASON, "forcing": FORCING})
    for structure in STRUCTURES
    for pattern in ("orthogonal", "random", "own_times")
]
all_cases = pytest.mark.parametrize(("structure", "kind", "pattern", "extra"), every_case + in_time)


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


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_states_need_no_least_squares(pattern, structure):
    case = make("gaussian", pattern, structure=structure, forcing=FORCING)
    bare = collapse(case.values, case.times, case.phi, fitted=False)
    for block, other in zip(case.collapsed.blocks, bare.blocks, strict=True):
        assert np.isnan(other.misfit).all()
        both = (smooth_states(b, case.parameters) for b in (block, other))
        for got, expected in zip(*both, strict=True):
            np.testing.assert_array_equal(got, expected)
        drawn = (
            sample_states(b, case.parameters, 2, np.random.default_rng(0)) for b in (block, other)
        )
        np.testing.assert_array_equal(*drawn)


@all_cases
def test_mean_and_covariance(structure, kind, pattern, extra):
    case = make(kind, pattern, structure=structure, **extra)
    for block, j, _, mean, covariance in each_path(case):
        states = smooth_states(block, case.parameters)
        tolerance = EXACT if structure == "diagonal" and not extra else COUPLED
        np.testing.assert_allclose(states.mean[..., j], mean, atol=tolerance)
        own = np.einsum("tntm->tnm", covariance)
        found = states.covariance[..., 0 if states.covariance.shape[-1] == 1 else j]
        if found.ndim == 2:
            own = np.einsum("tnn->tn", own)
        np.testing.assert_allclose(found, own, atol=tolerance)


def lag_diagonals(block, p):
    """Diagonals of ``Cov(c_t, c_{t+1} | y)`` of the free states; (T - 1, N, B)."""
    _, gram, vector, prior = chain_of(block, p.state_space)
    prior = prior.scaled(r := float(p.observation_variance))
    inverse, vectors, _ = sweep(gram, vector, prior)
    found = moments_backward(inverse, vectors, prior)
    crosses = [r * diagonal(cross) for *_, cross in found if cross is not None]
    return np.stack(crosses[::-1])


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("kind", KINDS)
def test_lag_covariance(structure, kind, pattern):
    case = make(kind, pattern, structure=structure)
    first = 1 if kind == "deterministic" else 0
    for block, j, _, _, covariance in each_path(case):
        lag = lag_diagonals(block, case.parameters)
        expected = [np.diag(covariance[t, :, t + 1]) for t in range(first, len(covariance) - 1)]
        tolerance = EXACT if structure == "diagonal" else COUPLED
        at = 0 if lag.shape[-1] == 1 else j
        np.testing.assert_allclose(lag[..., at], expected, atol=tolerance)


@all_cases
def test_innovations(structure, kind, pattern, extra):
    case = make(kind, pattern, structure=structure, **extra)
    some = 0
    for block in case.collapsed.blocks:
        found = innovations(block, case.parameters)
        for j, path in enumerate(block.paths):
            expected = oracle.innovations(
                case.parameters, case.values[path], case.clock(path), case.phi
            )
            tolerance = 1e-9 if structure == "diagonal" and not extra else 1e-6
            np.testing.assert_allclose(found[..., j], expected, atol=tolerance)
            alone = innovations(
                some_paths(block, np.arange(len(block.paths)) == j), case.parameters
            )
            np.testing.assert_allclose(alone[..., 0], expected, atol=tolerance)
            some += np.isfinite(expected).sum()
    assert some > 0


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("n_bytes", [1.0, 300.0, 4e6])
def test_innovations_of_one_path_in_batches_of_times(structure, n_bytes, monkeypatch):
    case = make("gaussian", "random", structure=structure)
    one = some_paths(case.collapsed.blocks[0], np.arange(len(case.collapsed.blocks[0].paths)) == 0)
    monkeypatch.setattr("spdelaw.model._smoother.BATCH_BYTES", n_bytes)
    found = innovations(one, case.parameters)
    expected = oracle.innovations(
        case.parameters, case.values[one.paths[0]], case.clock(0), case.phi
    )
    np.testing.assert_allclose(found[..., 0], expected, atol=1e-6)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("extra", [{}, {"forcing": FORCING}])
def test_innovations_of_components(structure, kind, extra):
    """Whitening all values in order of time gives the log density back."""
    case = make(kind, "oblique", structure=structure, **extra)
    block = case.collapsed.blocks[0]
    z = component_innovations(block, case.parameters, case.values, case.phi)
    first = 1 if kind == "deterministic" else 0
    mean, covariance = oracle.joint(case.parameters, case.times, case.phi)
    skip = first * len(case.phi)
    for path, y in enumerate(case.values):
        error = y.ravel()[skip:] - mean[skip:]
        energy = error @ np.linalg.solve(covariance[skip:, skip:], error)
        np.testing.assert_allclose((z[path, first:] ** 2).sum(), energy, rtol=1e-7)


@pytest.mark.parametrize("structure", ["diagonal", "matrix", "dense_noise"])
@pytest.mark.parametrize("pattern", ["orthogonal", "oblique", "random", "rows", "own_times"])
@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_the_posterior_moments(structure, kind, pattern):
    """Null: draws are from the exact posterior; three tests per path, joint false alarm 1e-4."""
    case = make(kind, pattern, n_paths=2, n_times=4, structure=structure)
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

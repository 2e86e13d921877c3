"""Smoothed moments, innovations and draws against the joint Gaussian written in full."""

import numpy as np
from scipy import stats
from tests.parameters import cross
from tests.statespace import _brute_force as oracle
from tests.statespace.cases import FORCING, KINDS, PATTERNS, STRUCTURES, every_case, make, of_path
from tests.statespace.numbers import (
    component_innovations,
    innovations,
    sample_states,
    smooth_states,
)

from spdelaw.statespace import filter as filter_module
from spdelaw.statespace.blocks import diagonal
from spdelaw.statespace.chain import chain_of, moments_backward, sweep
from spdelaw.statespace.collapse import collapse, some_paths

EXACT = 1e-10
#: The oracle takes differences of large matrices where modes are coupled, and makes its forced
#: means by quadrature.
COUPLED = 1e-9
FALSE_ALARM = 1e-4


def lag_diagonals(block, p):
    """Diagonals of ``Cov(c_t, c_{t+1} | y)`` of the free states; (T - 1, N, B)."""
    _, gram, vector, prior = chain_of(block, p.state_space)
    prior = prior.scaled(r := float(p.observation_variance))
    inverse, vectors, _ = sweep(gram, vector, prior)
    moments = moments_backward(inverse, vectors, prior)
    crosses = [r * diagonal(cross) for *_, cross in moments if cross is not None]
    return np.stack(crosses[::-1])


@every_case
def test_states_and_innovations_are_those_of_the_joint_gaussian(structure, kind, pattern, extra):
    case = make(kind, pattern, structure=structure, **extra)
    p, n_times, finite = case.parameters, case.values.shape[1], 0
    plain = structure == "diagonal" and not extra
    atol, error = (EXACT, 1e-9) if plain else (COUPLED, 1e-6)
    smoothed, errors = case.by_path(oracle.smoothed), case.by_path(oracle.innovations)
    for block in case.collapsed.blocks:
        states, lags, z = smooth_states(block, p), lag_diagonals(block, p), innovations(block, p)
        for j, path in enumerate(block.paths):
            mean, covariance = smoothed[path][0], smoothed[path][1].reshape(n_times, 3, n_times, 3)
            np.testing.assert_allclose(states.mean[..., j].ravel(), mean, atol=atol)
            spread = of_path(states.covariance, j)
            expected = np.einsum("tntn->tn" if spread.ndim == 2 else "tntm->tnm", covariance)
            np.testing.assert_allclose(spread, expected, atol=atol)
            first = 1 if kind == "deterministic" else 0
            lag = [np.diag(covariance[t, :, t + 1]) for t in range(first, n_times - 1)]
            np.testing.assert_allclose(of_path(lags, j), lag, atol=atol)
            alone = innovations(some_paths(block, np.arange(len(block.paths)) == j), p)
            np.testing.assert_allclose(z[..., j], errors[path], atol=error)
            np.testing.assert_allclose(alone[..., 0], errors[path], atol=error)
            finite += np.isfinite(errors[path]).sum()
    assert finite > 0


@cross(pattern=PATTERNS, structure=STRUCTURES)
def test_states_need_no_least_squares(pattern, structure):
    case = make("gaussian", pattern, structure=structure, forcing=FORCING)
    bare = collapse(case.values, case.times, case.phi, fitted=False)
    for pair in zip(case.collapsed.blocks, bare.blocks, strict=True):
        assert np.isnan(pair[1].misfit).all()
        for got, expected in zip(*(smooth_states(b, case.parameters) for b in pair), strict=True):
            np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(
            *(sample_states(b, case.parameters, 2, np.random.default_rng(0)) for b in pair)
        )


@cross(structure=STRUCTURES, n_bytes=[1.0, 300.0, 4e6])
def test_innovations_of_one_path_in_batches_of_times(structure, n_bytes, monkeypatch):
    case = make("gaussian", "random", structure=structure)
    one = some_paths(case.collapsed.blocks[0], np.arange(len(case.collapsed.blocks[0].paths)) == 0)
    monkeypatch.setattr(filter_module, "BATCH_BYTES", n_bytes)
    expected = case.by_path(oracle.innovations)[one.paths[0]]
    np.testing.assert_allclose(innovations(one, case.parameters)[..., 0], expected, atol=1e-6)


@cross(structure=STRUCTURES, kind=KINDS, extra={"plain": {}, "forcing": {"forcing": FORCING}})
def test_innovations_of_components(structure, kind, extra):
    """Whitening all values in order of time gives the log density back."""
    case = make(kind, "oblique", structure=structure, **extra)
    z = component_innovations(case.collapsed.blocks[0], case.parameters, case.values, case.phi)
    first = 1 if kind == "deterministic" else 0
    mean, covariance = oracle.joint(case.parameters, case.times, case.phi)
    free = slice(first * len(case.phi), None)
    error = case.values.reshape(len(z), -1)[:, free] - mean[free]
    energy = (error.T * np.linalg.solve(covariance[free, free], error.T)).sum(0)
    np.testing.assert_allclose((z[:, first:] ** 2).sum((1, 2)), energy, rtol=1e-7)


@cross(
    structure=["diagonal", "matrix", "dense_noise"],
    kind=KINDS,
    pattern=["orthogonal", "oblique", "random", "rows", "own_times"],
)
def test_draws_have_the_posterior_moments(structure, kind, pattern):
    """Null: draws are from the exact posterior; three tests per path, joint false alarm 1e-4."""
    case, n = make(kind, pattern, n_paths=2, n_times=4, structure=structure), 4000
    smoothed = case.by_path(oracle.smoothed)
    for block in case.collapsed.blocks:
        draws = sample_states(block, case.parameters, n, np.random.default_rng(11))
        for j, path in enumerate(block.paths):
            mean, covariance = smoothed[path]
            free = slice(3 if kind == "deterministic" else 0, None)
            if kind == "deterministic":
                assert (draws[:, 0, :, j] == case.parameters.initial_mean).all()
            flat = draws[..., j].reshape(n, -1)[:, free]
            root = np.linalg.cholesky(covariance[free, free])
            assert_white(np.linalg.solve(root, (flat - mean[free]).T).T, FALSE_ALARM / (3 * 2))


def assert_white(white, false_alarm):
    """Rows are independent standard normal vectors, by mean, size and correlations."""
    n, k = white.shape
    assert n * (white.mean(0) ** 2).sum() < stats.chi2.isf(false_alarm, k)
    low, high = stats.chi2.isf([1 - false_alarm / 2, false_alarm / 2], n * k)
    assert low < (white**2).sum() < high
    products = (white.T @ white)[np.triu_indices(k, 1)] / np.sqrt(n)
    assert (products**2).sum() < stats.chi2.isf(false_alarm, len(products)) * 1.05

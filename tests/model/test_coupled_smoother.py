"""States of coupled modes given the data: the joint Gaussian in full, Monte-Carlo error."""

import numpy as np
import pytest
from tests.model import _brute_force as oracle
from tests.model import coupled_cases as coupled
from tests.model.cases import KINDS

from spdelaw.model import component_innovations, innovations, sample_states, smooth_states

EXACT = 1e-9
PATTERNS = ("orthogonal", "oblique", "random", "own_times")
every_case = [(kind, pattern) for kind in KINDS for pattern in PATTERNS]


@pytest.mark.parametrize(("kind", "pattern"), every_case)
def test_smoothed_moments(kind, pattern):
    case = coupled.make(kind, pattern)
    for block in case.collapsed.blocks:
        found = smooth_states(block, case.parameters)
        for k, path in enumerate(block.paths):
            mean, covariance = coupled.smoothed(
                case.parameters, case.values[path], case.clock(path), case.phi
            )
            np.testing.assert_allclose(found.mean[..., k].ravel(), mean, atol=EXACT)
            batch = found.covariance[..., min(k, found.covariance.shape[-1] - 1)]
            for t in range(len(batch)):
                at = slice(3 * t, 3 * t + 3)
                np.testing.assert_allclose(batch[t], covariance[at, at], atol=EXACT)


@pytest.mark.parametrize(("kind", "pattern"), every_case)
def test_innovations_are_whitened_prediction_errors(kind, pattern):
    case = coupled.make(kind, pattern)
    p = case.parameters
    first = 1 if kind == "deterministic" else 0
    for block in case.collapsed.blocks:
        found = innovations(block, p)
        for k, path in enumerate(block.paths):
            y, t = case.values[path], case.clock(path)
            for i in range(first, len(t)):
                seen = ~np.isnan(y[i])
                gram = case.phi[seen].T @ case.phi[seen]
                if np.linalg.matrix_rank(gram) < 3:
                    assert np.isnan(found[i, :, k]).all()
                    continue
                past = y.copy()
                past[i:] = np.nan
                mean, covariance = coupled.smoothed(p, past, t, case.phi)
                at = slice(3 * i, 3 * i + 3)
                error = np.linalg.solve(gram, case.phi[seen].T @ y[i, seen]) - mean[at]
                total = covariance[at, at] + float(p.observation_variance) * np.linalg.inv(gram)
                expected = np.linalg.solve(np.linalg.cholesky(total), error)
                np.testing.assert_allclose(found[i, :, k], expected, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_innovations_of_components(kind):
    """Whitening all values in order of time gives the log density back."""
    case = coupled.make(kind, "oblique")
    block = case.collapsed.blocks[0]
    z = component_innovations(block, case.parameters, case.values, case.phi)
    first = 1 if kind == "deterministic" else 0
    mean, covariance = coupled.joint(case.parameters, case.times, case.phi)
    skip = first * len(case.phi)
    for path, y in enumerate(case.values):
        error = y.ravel()[skip:] - mean[skip:]
        energy = error @ np.linalg.solve(covariance[skip:, skip:], error)
        np.testing.assert_allclose((z[path, first:] ** 2).sum(), energy, rtol=1e-7)


@pytest.mark.parametrize(("kind", "pattern"), [("gaussian", "random"), ("stationary", "oblique"),
                                               ("deterministic", "own_times")])  # fmt: skip
def test_draws_have_the_posterior_moments(kind, pattern):
    case, n = coupled.make(kind, pattern, n_paths=2), 4000
    rng = np.random.default_rng(0)
    for block in case.collapsed.blocks:
        draws = sample_states(block, case.parameters, n, rng)
        for k, path in enumerate(block.paths):
            mean, covariance = coupled.smoothed(
                case.parameters, case.values[path], case.clock(path), case.phi
            )
            flat = draws[..., k].reshape(n, -1) - mean
            v = np.diag(covariance)
            free = v > 1e-12
            z = flat.mean(0)[free] / np.sqrt(v[free] / n)
            got = flat.T @ flat / n
            scale = np.sqrt((np.outer(v, v) + covariance**2)[np.ix_(free, free)] / n)
            gap = (got - covariance)[np.ix_(free, free)] / scale
            bound = oracle.largest_normal(z.size + gap.size, 1e-4)
            assert np.abs(z).max() < bound
            assert np.abs(gap).max() < 1.1 * bound  # skewed, not quite normal
            np.testing.assert_allclose(flat[:, ~free], 0.0, atol=1e-12)

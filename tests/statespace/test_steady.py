"""Chains whose blocks are all alike: against the elimination step by step."""

import numpy as np
import pytest

from spdelaw.statespace.posterior import solve_steady, solve_with_numpy


@pytest.mark.parametrize("n_times", [2, 3, 60, 400])
@pytest.mark.parametrize("slow", [0.5, 0.999])
def test_equal_to_the_elimination(n_times, slow):
    rng, n, n_paths = np.random.default_rng(0), 4, 3
    f = slow * np.linalg.qr(rng.normal(size=(n, n)))[0]
    root = rng.normal(size=(n, n))
    w, gram = root @ root.T + np.eye(n), np.diag(rng.uniform(0.1, 2.0, n))
    d, pull = w @ f, f.T @ w @ f
    blocks = np.repeat((gram + w + pull)[None], n_times, 0)
    blocks[0], blocks[-1] = gram + 0.3 * w + pull, gram + w
    vector = rng.normal(size=(n_times, n, n_paths))
    total, means, sums, first = solve_steady((blocks[0], blocks[-1]), gram + w + pull, d, vector)
    which = np.zeros(n_times - 1, int)
    zeros = np.zeros((n_times, n))
    logs, mean, covariance, cross, _ = solve_with_numpy(blocks, zeros, d[None], which, vector, True)
    close = {"rtol": 1e-10, "atol": 1e-10}
    assert total == pytest.approx(logs, rel=1e-12)
    np.testing.assert_allclose(means, mean, **close)
    np.testing.assert_allclose(sums[0], covariance[:-1].sum(0), **close)
    np.testing.assert_allclose(sums[2], covariance[1:].sum(0), **close)
    np.testing.assert_allclose(sums[1], cross.sum(0), **close)
    np.testing.assert_allclose(first, covariance[0], **close)

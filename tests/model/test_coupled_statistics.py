"""Sufficient statistics of complete, noise-free fields of coupled modes."""

import dataclasses

import numpy as np
import pytest
from tests.model import _brute_force as oracle
from tests.model import coupled_cases as coupled
from tests.model.cases import KINDS, basis

from spdelaw.errors import DataError
from spdelaw.model import collect, evaluate_statistics, white_noise_z

EXACT = 1e-10
SCORE_TOLERANCE = 1e-6
TIMES = np.array([0.0, 0.1, 0.3, 0.4, 0.9, 1.0])


def fields(kind, times=TIMES, n_paths=7, noise=0.0, seed=0):
    """Parameters, values (P, T, M) and basis; drawn from the joint Gaussian of the states."""
    rng = np.random.default_rng(seed)
    p, phi = coupled.parameters(kind, noise**2), basis(False)
    mean, covariance = coupled.state_moments(p, times)
    c = rng.multivariate_normal(mean, covariance, n_paths).reshape(n_paths, len(times), 3)
    values = c @ phi.T
    return p, values + noise * rng.standard_normal(values.shape), phi


def statistics(values, phi, times=TIMES, chunks=1):
    parts = np.array_split(values, chunks)
    return collect(parts, times, np.linalg.pinv(phi), phi, pairs=True)


@pytest.mark.parametrize("kind", KINDS)
def test_likelihood_is_the_density_of_the_states(kind):
    p, values, phi = fields(kind)
    got = evaluate_statistics(statistics(values, phi), p).log_likelihood.sum()
    c = (values @ np.linalg.pinv(phi).T).reshape(len(values), -1)
    mean, covariance = coupled.state_moments(p, TIMES)
    at = slice(3 if kind == "deterministic" else 0, None)
    expected = sum(oracle.log_density(x[at], mean[at], covariance[at, at]) for x in c)
    np.testing.assert_allclose(got, expected, rtol=EXACT)


@pytest.mark.parametrize("kind", KINDS)
def test_score_by_differences(kind):
    p, values, phi = fields(kind)
    s = statistics(values, phi)
    found = evaluate_statistics(s, p)
    rng = np.random.default_rng(1)
    names = ["drift", "noise_covariance"]
    names += [] if kind == "deterministic" else ["initial_mean", "initial_covariance"]
    for name in names:
        way = rng.normal(size=getattr(p, name).shape)
        way = way + way.T if "covariance" in name else way
        ends = [
            evaluate_statistics(s, p._replace(**{name: getattr(p, name) + sign * 1e-5 * way}))
            for sign in (1, -1)
        ]
        expected = (ends[0].log_likelihood[0] - ends[1].log_likelihood[0]) / 2e-5
        got = (getattr(found, f"by_{name}") * way).sum()
        np.testing.assert_allclose(got, expected, rtol=SCORE_TOLERANCE)


def test_statistics_add_up():
    p, values, phi = fields("gaussian")
    whole, parts = statistics(values, phi), statistics(values, phi, chunks=3)
    sums = statistics(values[:3], phi) + statistics(values[3:], phi)
    for other in (parts, sums):
        for name in whole.pairs._fields:
            np.testing.assert_allclose(
                getattr(other.pairs, name), getattr(whole.pairs, name), atol=1e-12
            )
    alone = dataclasses.replace(sums, pairs=None)
    with pytest.raises(DataError, match="same times"):
        _ = alone + whole
    with pytest.raises(DataError, match="products"):
        evaluate_statistics(alone, p)


def test_noise_test_is_standard_normal_without_noise_and_large_with_it():
    """400 data sets without noise: mean and variance of z within false-alarm bounds of 1e-4."""
    z = []
    for seed in range(400):
        p, values, phi = fields("stationary", n_paths=3, seed=seed)
        z.append(white_noise_z(statistics(values, phi), p, phi.T @ phi))
    z = np.array(z)
    assert abs(z.mean()) < 3.9 / np.sqrt(400)
    assert abs(z.var() - 1.0) < 0.45  # products of normals have heavier tails than normals
    p, values, phi = fields("stationary", n_paths=60, noise=0.4)
    assert white_noise_z(statistics(values, phi), p, phi.T @ phi) > 4.0

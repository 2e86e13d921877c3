"""Likelihood and score: closed forms, the joint Gaussian in full, finite differences.

Every structure of drift and noise, every kind of initial state, every pattern of observation, with
and without seasons and a known forcing.
"""

import numpy as np
import pytest
from scipy import stats
from tests.parameters import cross
from tests.statespace import _brute_force as oracle
from tests.statespace.cases import (
    KINDS,
    STRUCTURES,
    basis,
    check_initial_information,
    check_score,
    every_case,
    make,
    parameters,
)
from tests.statespace.numbers import evaluate_likelihood

from spdelaw.statespace.collapse import collapse

EXACT = 1e-10


@every_case
def test_likelihood_score_and_information_are_those_of_the_joint_gaussian(
    structure, kind, pattern, extra
):
    case = make(kind, pattern, structure=structure, **extra)
    data = case.collapsed
    got = evaluate_likelihood(data, case.parameters).log_likelihood
    # Quadrature made the forced mean of the oracle.
    np.testing.assert_allclose(
        got, case.by_path(oracle.log_likelihood), rtol=1e-8 if "forcing" in extra else EXACT
    )
    check_initial_information(lambda q: evaluate_likelihood(data, q), case.parameters)
    # The data of the score were not made with a forcing: nothing is at a maximum.
    data = make(kind, pattern, structure=structure).collapsed
    check_score(lambda q: evaluate_likelihood(data, q), case.parameters)


@cross(structure=STRUCTURES, kind=KINDS, pattern=["orthogonal", "oblique", "rows", "oblique_rows"])
def test_without_misfit_it_is_the_density_of_the_estimates(structure, kind, pattern):
    case = make(kind, pattern, structure=structure)
    data = case.collapsed
    got = evaluate_likelihood(data, case.parameters, use_misfit=False).log_likelihood
    expected = case.by_path(oracle.estimate_log_likelihood)
    np.testing.assert_allclose(got, expected, rtol=EXACT)
    check_score(lambda q: evaluate_likelihood(data, q, use_misfit=False), case.parameters)


@cross(structure=STRUCTURES, pattern=["orthogonal", "random", "own_times"])
def test_a_variance_for_each_point(structure, pattern):
    case = make("gaussian", pattern, structure=structure)
    r = np.random.default_rng(4).uniform(0.01, 0.2, len(case.phi))
    unit = case.parameters._replace(observation_variance=np.asarray(1.0))
    got = evaluate_likelihood(collapse(case.values, case.times, case.phi, 1 / r), unit)
    truth = case.parameters._replace(observation_variance=r)
    expected = case._replace(parameters=truth).by_path(oracle.log_likelihood)
    np.testing.assert_allclose(got.log_likelihood, expected, rtol=EXACT)


def test_one_mode_at_one_free_time_in_closed_form():
    """y = h c(t) + e with c(t) ~ N(a m, omega): a scalar Gaussian."""
    p = parameters("deterministic", n_modes=1, observation_variance=0.3)
    t, h, y = np.array([0.0, 0.7]), 0.8, -0.9
    values = np.array([[[np.nan], [y]]])
    got = evaluate_likelihood(collapse(values, t, np.array([[h]])), p)
    lam, q, m = p.drift[0], p.noise[0], p.initial_mean[0]
    a = np.exp(-0.7 * lam)
    variance = h**2 * q * (1 - a**2) / (2 * lam) + 0.3
    expected = stats.norm.logpdf(y, h * a * m, np.sqrt(variance))
    np.testing.assert_allclose(got.log_likelihood, [expected], rtol=1e-14)
    pull = (y - h * a * m) / variance
    np.testing.assert_allclose(got.by_initial_mean, [h * a * pull], rtol=1e-13)


def test_two_times_are_enough():
    case = make("deterministic", "random", n_times=2)
    got = evaluate_likelihood(case.collapsed, case.parameters).log_likelihood
    np.testing.assert_allclose(got, case.by_path(oracle.log_likelihood), rtol=EXACT)


def test_threads_change_nothing():
    case = make("gaussian", "oblique", n_paths=12)
    case.values[::3, 1, :3] = np.nan
    data = case.collapsed
    assert len(data.blocks) > 1
    one, two = (evaluate_likelihood(data, case.parameters, threads=n) for n in (1, 2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("r", [1e-8, 1e-10])
def test_almost_no_noise_keeps_the_likelihood(r):
    """Orthogonal modes are independent: five-by-five matrices that keep their digits."""
    phi, t = basis(orthogonal=True), np.linspace(0.0, 1.0, 5)
    p = parameters("gaussian", observation_variance=r)
    c = np.random.default_rng(0).gamma(2.0, size=(5, 3))
    got = evaluate_likelihood(collapse((c @ phi.T)[None], t, phi), p, use_misfit=False)
    mean, covariance = oracle.mode_mean(p, t), oracle.mode_covariance(p, t)
    noise = [r / g * np.eye(5) for g in (phi**2).sum(0)]
    expected = sum(
        oracle.log_density(c[:, n], mean[:, n], covariance[..., n] + noise[n]) for n in range(3)
    )
    np.testing.assert_allclose(got.log_likelihood, [expected], rtol=1e-9)

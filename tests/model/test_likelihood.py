"""Likelihood and score: closed forms, the joint Gaussian in full, finite differences."""

import numpy as np
import pytest
from scipy import stats
from tests.model import _brute_force as oracle
from tests.model.cases import (
    KINDS,
    PATTERNS,
    basis,
    check_initial_information,
    make,
    parameters,
)

from spdelaw.model import collapse, evaluate_likelihood

EXACT = 1e-10
SCORE_TOLERANCE = 1e-6

every_case = [(kind, pattern) for kind in KINDS for pattern in PATTERNS]


@pytest.mark.parametrize(("kind", "pattern"), every_case)
def test_likelihood_is_that_of_the_joint_gaussian(kind, pattern):
    case = make(kind, pattern)
    got = evaluate_likelihood(case.collapsed, case.parameters).log_likelihood
    expected = [
        oracle.log_likelihood(case.parameters, y, case.clock(i), case.phi)
        for i, y in enumerate(case.values)
    ]
    np.testing.assert_allclose(got, expected, rtol=EXACT)


def gradient_by_differences(case, field, n, **options):
    """Central difference of the summed log-likelihood by one number."""
    x = np.asarray(getattr(case.parameters, field))
    h = 1e-5 * max(abs(float(x[n] if x.ndim else x)), 0.1)
    ends = []
    for sign in (1, -1):
        y = np.array(x, float)
        y[n if x.ndim else ()] += sign * h
        trial = case.parameters._replace(**{field: y})
        ends.append(evaluate_likelihood(case.collapsed, trial, **options).log_likelihood.sum())
    return (ends[0] - ends[1]) / (2 * h)


SCORES = {
    "eigenvalues": "by_eigenvalue",
    "noise_variance": "by_noise_variance",
    "initial_mean": "by_initial_mean",
    "initial_variance": "by_initial_variance",
}


@pytest.mark.parametrize(("kind", "pattern"), every_case)
def test_score_by_differences(kind, pattern):
    case = make(kind, pattern)
    found = evaluate_likelihood(case.collapsed, case.parameters)
    for field, name in SCORES.items():
        if field == "initial_variance" and kind == "deterministic":
            continue
        expected = [gradient_by_differences(case, field, n) for n in range(3)]
        scale = np.abs(expected).max()
        np.testing.assert_allclose(
            getattr(found, name), expected, rtol=SCORE_TOLERANCE, atol=SCORE_TOLERANCE * scale
        )
    expected = gradient_by_differences(case, "observation_variance", 0)
    np.testing.assert_allclose(found.by_observation_variance, expected, rtol=SCORE_TOLERANCE)


@pytest.mark.parametrize(("kind", "pattern"), every_case)
def test_information_on_the_initial_mean(kind, pattern):
    check_initial_information(make(kind, pattern))


@pytest.mark.parametrize("pattern", ["orthogonal", "oblique", "rows", "oblique_rows"])
@pytest.mark.parametrize("kind", KINDS)
def test_without_misfit_it_is_the_density_of_the_estimates(kind, pattern):
    case = make(kind, pattern)
    found = evaluate_likelihood(case.collapsed, case.parameters, use_misfit=False)
    expected = [
        oracle.estimate_log_likelihood(case.parameters, y, case.times, case.phi)
        for y in case.values
    ]
    np.testing.assert_allclose(found.log_likelihood, expected, rtol=EXACT)
    by_r = gradient_by_differences(case, "observation_variance", 0, use_misfit=False)
    np.testing.assert_allclose(found.by_observation_variance, by_r, rtol=SCORE_TOLERANCE)


@pytest.mark.parametrize("pattern", ["orthogonal", "random", "own_times"])
def test_a_variance_for_each_point(pattern):
    case = make("gaussian", pattern)
    r = np.random.default_rng(4).uniform(0.01, 0.2, len(case.phi))
    unit = case.parameters._replace(observation_variance=np.asarray(1.0))
    got = evaluate_likelihood(collapse(case.values, case.times, case.phi, 1 / r), unit)
    truth = case.parameters._replace(observation_variance=r)
    for i, y in enumerate(case.values):
        expected = oracle.log_likelihood(truth, y, case.clock(i), case.phi)
        np.testing.assert_allclose(got.log_likelihood[i], expected, rtol=EXACT)


def test_one_mode_at_one_free_time_in_closed_form():
    """y = h c(t) + e with c(t) ~ N(a m, omega): a scalar Gaussian."""
    p = parameters("deterministic", n_modes=1, observation_variance=0.3)
    t, h, y = np.array([0.0, 0.7]), 0.8, -0.9
    values = np.array([[[np.nan], [y]]])
    found = evaluate_likelihood(collapse(values, t, np.array([[h]])), p)
    lam, q, m = p.eigenvalues[0], p.noise_variance[0], p.initial_mean[0]
    a = np.exp(-0.7 * lam)
    variance = h**2 * q * (1 - a**2) / (2 * lam) + 0.3
    expected = stats.norm.logpdf(y, h * a * m, np.sqrt(variance))
    np.testing.assert_allclose(found.log_likelihood, [expected], rtol=1e-14)
    pull = (y - h * a * m) / variance
    np.testing.assert_allclose(found.by_initial_mean, [h * a * pull], rtol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("orthogonal", [True, False])
def test_noise_free_limit_is_the_transition_density(kind, orthogonal):
    """As r goes to 0 the density of the estimates goes to that of the states, like r."""
    phi = basis(orthogonal)
    t = np.array([0.0, 0.3, 0.5, 1.1])
    p = parameters(kind)
    c = np.random.default_rng(6).gamma(2.0, size=(4, 3))
    if kind == "deterministic":
        c[0] = p.initial_mean
    expected = oracle.state_log_density(p, c, t)
    errors = []
    for r in (1e-5, 1e-6):
        noisy = p._replace(observation_variance=np.asarray(r))
        found = evaluate_likelihood(collapse((c @ phi.T)[None], t, phi), noisy, use_misfit=False)
        first = 0.0
        if kind == "deterministic":
            # The first row observes a known state: the density of its noise alone.
            gram = phi.T @ phi
            first = 0.5 * np.linalg.slogdet(gram)[1] - 1.5 * np.log(2 * np.pi * r)
        errors.append(abs(found.log_likelihood[0] - first - expected))
    assert errors[0] < 5e-2
    np.testing.assert_allclose(errors[0] / errors[1], 10.0, rtol=0.05)


def test_two_times_are_enough():
    case = make("deterministic", "random", n_times=2)
    got = evaluate_likelihood(case.collapsed, case.parameters).log_likelihood
    expected = [
        oracle.log_likelihood(case.parameters, y, case.times, case.phi) for y in case.values
    ]
    np.testing.assert_allclose(got, expected, rtol=EXACT)


def test_threads_change_nothing():
    case = make("gaussian", "oblique", n_paths=12)
    values = case.values.copy()
    values[::3, 1, :3] = np.nan
    collapsed = collapse(values, case.times, case.phi)
    assert len(collapsed.blocks) > 1
    one = evaluate_likelihood(collapsed, case.parameters)
    two = evaluate_likelihood(collapsed, case.parameters, threads=2)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("r", [1e-8, 1e-10])
def test_almost_no_noise_keeps_the_likelihood(r):
    """Orthogonal modes are independent: five-by-five matrices that keep their digits."""
    phi = basis(orthogonal=True)
    p = parameters("gaussian")._replace(observation_variance=np.asarray(r))
    t = np.linspace(0.0, 1.0, 5)
    c = np.random.default_rng(0).gamma(2.0, size=(5, 3))
    found = evaluate_likelihood(collapse((c @ phi.T)[None], t, phi), p, use_misfit=False)
    gram = (phi**2).sum(0)
    expected = 0.0
    for n in range(3):
        covariance = oracle.mode_covariance(p, t)[..., n] + r / gram[n] * np.eye(5)
        expected += oracle.log_density(c[:, n], oracle.mode_mean(p, t)[:, n], covariance)
    np.testing.assert_allclose(found.log_likelihood, [expected], rtol=1e-9)

"""Chaos coordinates given the data: the joint Gaussian, limits, the law of the coordinates."""

import numpy as np
import pytest
from tests.model import _chaos_oracle as oracle
from tests.model.cases import KINDS, PATTERNS, make
from tests.model.numbers import chaos_latents
from tests.model.test_chaos_likelihood import FACTOR, model_of

from spdelaw.chaos import CosineBasis, unit_response
from spdelaw.model import TAILS, project_on_decoder
from spdelaw.model._chaos_map import response_and_slope

EXACT = 1e-9

every_case = [(kind, pattern) for kind in KINDS for pattern in PATTERNS]


def check(case, model):
    p = case.parameters
    n, start = p.n_modes, p.initial_kind != "deterministic"
    seen = 0
    for part in chaos_latents(case.collapsed, p, model):
        for i, path in enumerate(part.paths):
            seen += 1
            t = case.clock(path)
            mean, covariance = oracle.posterior(p, case.values[path], t, case.phi, model)
            std = np.sqrt(np.diag(covariance))
            z0, z0_std = p.initial_mean, np.zeros(n)
            if start:
                scale = np.sqrt(p.initial_covariance)
                z0, z0_std = z0 + scale * mean[:n], scale * std[:n]
            xi = mean[n * start :].reshape(model.n_time, -1)
            xi_std = std[n * start :].reshape(model.n_time, -1)
            np.testing.assert_allclose(part.initial_mean[:, i], z0, rtol=EXACT, atol=EXACT)
            np.testing.assert_allclose(part.initial_std, z0_std, rtol=EXACT, atol=EXACT)
            np.testing.assert_allclose(part.mean[..., i], xi, rtol=EXACT, atol=EXACT)
            np.testing.assert_allclose(part.std, xi_std, rtol=EXACT, atol=EXACT)
            decay = np.exp(-np.outer(t - t[0], p.drift)) * p.initial_mean
            states = decay.ravel() + oracle.columns(p, t - t[0], model) @ mean
            np.testing.assert_allclose(
                part.coefficients[..., i].ravel(), states, rtol=EXACT, atol=EXACT
            )
    assert seen == len(case.values)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize(("kind", "pattern"), every_case)
def test_posterior_is_that_of_the_joint_gaussian(kind, pattern, tail):
    case = make(kind, pattern)
    check(case, model_of(case, tail))


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pattern", ["orthogonal", "oblique", "random"])
def test_posterior_with_a_dense_noise_factor(kind, pattern, tail):
    case = make(kind, pattern)
    check(case, model_of(case, tail, n_time=3, factor=FACTOR))


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("pattern", ["orthogonal", "oblique"])
def test_covariance_of_the_coordinates_of_one_mode(pattern, tail):
    case = make("deterministic", pattern)
    model = model_of(case, tail)
    (part,) = chaos_latents(case.collapsed, case.parameters, model)
    _, expected = oracle.posterior(case.parameters, case.values[0], case.times, case.phi, model)
    if len(part.covariance) == 1:
        np.testing.assert_allclose(part.covariance[0], expected, rtol=EXACT, atol=EXACT)
        return
    for n in range(3):
        own = expected[n::3, n::3]  # (k, l) with l fastest
        np.testing.assert_allclose(part.covariance[n], own, rtol=EXACT, atol=EXACT)


def test_without_information_the_posterior_is_the_prior():
    case = make("gaussian", "oblique")
    loud = case.parameters._replace(observation_variance=np.asarray(1e14))
    for tail in TAILS:
        (part,) = chaos_latents(case.collapsed, loud, model_of(case, tail))
        np.testing.assert_allclose(part.std, 1.0, rtol=1e-6)
        np.testing.assert_allclose(part.mean, 0.0, atol=1e-5)
        np.testing.assert_allclose(part.initial_std, np.sqrt(loud.initial_covariance), rtol=1e-6)


@pytest.mark.parametrize("pattern", ["orthogonal", "oblique", "random"])
def test_a_weak_prior_gives_the_projection(pattern):
    """Large q and v0: the posterior mean is the least-squares fit of the times after the first.

    The first time is given no weight in the projection, so it is hidden here.
    """
    case = make("gaussian", pattern)
    case.values[:, 0] = np.nan
    p = case.parameters._replace(noise=np.full(3, 1e7), initial_covariance=np.full(3, 1e7))
    model = model_of(case, "dropped", n_time=2)
    fitted = {
        path: part.coefficients[..., i]
        for part in chaos_latents(case.collapsed, p, model)
        for i, path in enumerate(part.paths)
    }
    for part in project_on_decoder(case.collapsed, p.drift, 2, model.horizon):
        for i, path in enumerate(part.paths):
            np.testing.assert_allclose(
                part.coefficients[1:, :, i], fitted[path][1:], rtol=1e-3, atol=1e-3
            )


@pytest.mark.parametrize("rate", [0.0, 1e-9, 1e-4, 0.3, 5.0, 64.0, 900.0])
def test_slope_of_the_responses_by_differences(rate):
    basis, t = CosineBasis(2.0), np.linspace(0.0, 2.0, 41)
    h = 1e-5 * max(rate, 1.0)
    up, down = (unit_response(basis, t, [rate + s * h], 6) for s in (1, -1))
    psi, slope = response_and_slope(basis, t, np.array([rate]), 6)
    np.testing.assert_array_equal(psi, unit_response(basis, t, [rate], 6))
    expected = (up - down) / (2 * h)
    np.testing.assert_allclose(slope, expected, atol=1e-8 * np.abs(expected).max())


def test_slope_near_the_start_and_at_rate_zero():
    """``-t^2/2 m_k(0)`` for small t, and ``-int (t - s) m_k(s) ds`` at rate 0."""
    basis, t = CosineBasis(1.0), np.array([1e-6, 1e-5, 1e-4])
    _, slope = response_and_slope(basis, t, np.array([3.0]), 3)
    expected = -0.5 * t[:, None] ** 2 * basis.values(np.zeros(1), 3)
    np.testing.assert_allclose(slope[..., 0], expected, rtol=1e-3)
    _, still = response_and_slope(basis, np.array([0.0, 0.7]), np.array([0.0]), 2)
    exact = [-0.245, -np.sqrt(2) * (1 - np.cos(0.7 * np.pi)) / np.pi**2]
    np.testing.assert_allclose(still[1, :, 0], exact, rtol=1e-12)

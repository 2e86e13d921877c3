"""The closure against closed forms, differences and Monte Carlo."""

import numpy as np
import pytest
from tests.parameters import cross

import spdelaw as sl
from spdelaw.processes.closure import Closure, Moments, advance, phi, pull_back
from spdelaw.processes.linear import transition
from spdelaw.processes.terms import bind

RING = sl.Interval(0.0, 2 * np.pi, "periodic")


def closure(terms, n=5, domain=RING, **coefficients):
    theta = np.array([coefficients.get(t, c) for t, c in terms.items()])
    lam = 0.1 + 0.05 * domain.eigenvalues(n)
    return Closure(bind(list(terms), domain, n), theta, lam, 0.2 / np.arange(1.0, n + 1.0) ** 1.5)


def gaussians(n, batch=3, seed=0):
    generator = np.random.default_rng(seed)
    root = 0.2 * generator.standard_normal((batch, n, n))
    return 0.6 * generator.standard_normal((batch, n)), root @ root.transpose(0, 2, 1)


def test_phi_functions():
    z = np.array([-50.0, -1.0001, -0.9999, -1e-3, 0.0, 0.7, 3.0])
    s, w = np.polynomial.legendre.leggauss(200)
    s, w = 0.5 * (s + 1.0), 0.5 * w
    for k, step in enumerate(phi(z, 4)[1:], 1):
        kernel = s ** (k - 1) / np.prod(np.arange(1.0, k))
        expected = (np.exp(np.outer(z, 1.0 - s)) * kernel) @ w
        np.testing.assert_allclose(step, expected, rtol=1e-11)


def test_without_terms_it_is_the_exact_transition():
    c = closure({})
    m, p = gaussians(5)
    step, _ = advance(c, m, p, 0.7, cross=True)
    exact = transition(c.rates, c.noise, np.array([0.7]))
    a, omega = exact.factor[0], exact.covariance[0]
    np.testing.assert_allclose(step.mean, a * m, rtol=1e-12)
    np.testing.assert_allclose(step.covariance, a[:, None] * p * a + np.diag(omega), rtol=1e-10)
    np.testing.assert_allclose(step.cross, p * a, rtol=1e-12)


def test_a_linear_term_is_a_linear_drift():
    """Order 4 in the term: the error falls by 16 when steps are halved."""
    slow = closure({"u": -0.8})
    fast = Closure(bind([], RING, 5), np.zeros(0), slow.rates + 0.8, slow.noise)
    m, p = gaussians(5)
    exact, _ = advance(fast, m, p, 1.0)
    errors = []
    for n in (2, 4, 8):
        step, _ = advance(slow, m, p, 1.0, n)
        errors.append(np.abs(step.covariance - exact.covariance).max())
    ratios = np.array(errors[:-1]) / errors[1:]
    assert errors[0] < 1e-3
    assert (ratios > 12.0).all(), (errors, ratios)


@cross(
    own_steps=[False, True],
    terms=[
        {"u": 1.0, "u^3": -1.0},
        {"1": 0.3, "u u_x": -1.0, "u_x^2": 0.4},
        {"u^2": 0.5, "u^2 u_x": 0.2},
    ],
)
def test_gradients_against_differences(terms, own_steps):
    base, generator = closure(terms), np.random.default_rng(1)
    m, p = gaussians(5)
    dt = np.array([0.2, 0.3, 0.4]) if own_steps else 0.3
    by = Moments(*(generator.standard_normal(s) for s in ((3, 5), (3, 5, 5), (3, 5, 5))))
    by = by._replace(covariance=by.covariance + by.covariance.transpose(0, 2, 1))

    def value(theta, lam, q, mean, cov):
        step, _ = advance(Closure(base.reaction, theta, lam, q), mean, cov, dt, 2, cross=True)
        return sum((a * b).sum() for a, b in zip(by, step, strict=True))

    _, tape = advance(base, m, p, dt, 2, cross=True)
    g = pull_back(base, tape, by)
    slopes = (g.coefficient.sum(0), g.rate.sum(0), g.noise.sum(0), g.mean, g.covariance)
    at = [base.coefficients, base.rates, base.noise, m, p]
    for k, slope in enumerate(slopes):
        d = generator.standard_normal(at[k].shape)
        d = d + d.transpose(0, 2, 1) if k == 4 else d
        ends = [value(*at[:k], at[k] + h * d, *at[k + 1 :]) for h in (1e-5, -1e-5)]
        expected = (ends[0] - ends[1]) / 2e-5
        assert (slope * d).sum() == pytest.approx(expected, rel=1e-6, abs=1e-7)

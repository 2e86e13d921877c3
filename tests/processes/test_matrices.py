"""Equations whose drift or noise is a matrix: block exponentials, quadrature, bad input."""

import numpy as np
import pytest
from scipy import integrate, linalg

import spdelaw as sl
from spdelaw.processes.linear import distinct_steps, transition
from spdelaw.processes.operators import stationary_covariance, stationary_pull_back

EXACT = 1e-12
RING = sl.Interval(0.0, 2.0, "periodic")


def stable(n, seed=0, rate=3.0):
    """A drift matrix far from normal, and a noise covariance."""
    rng = np.random.default_rng(seed)
    turn, root, factor = rng.normal(size=(3, n, n))
    m = root @ root.T + 0.3 * np.eye(n)
    drift = (0.5 * np.eye(n) + turn - turn.T) @ m
    return rate * drift / np.abs(drift).max(), factor @ factor.T


def equation(n=3, **changes):
    drift, noise = stable(n)
    settings = {"drift": drift, "noise": noise, "initial": sl.Gaussian([1.0, -2.0], 0.3)}
    return sl.SpectralSPDE(RING, n, **{**settings, **changes})


@pytest.mark.parametrize(("n", "rate"), [(1, 2.0), (3, 0.1), (5, 4.0), (4, 40.0)])
def test_transition_against_the_block_exponential(n, rate):
    """Van Loan's exponential of a block matrix, where it does not overflow."""
    drift, noise = stable(n, rate=rate)
    dt = np.array([0.0, 0.01, 0.3])
    step = transition(drift, noise, dt)
    for u, h in enumerate(dt):
        e = linalg.expm(h * np.block([[drift, noise], [np.zeros((n, n)), -drift.T]]))
        factor = e[n:, n:].T
        np.testing.assert_allclose(step.factor[u], factor, atol=EXACT)
        omega = factor @ e[:n, n:]
        np.testing.assert_allclose(
            step.covariance[u], omega, atol=1e-11 * max(np.abs(omega).max(), 1e-3)
        )


def test_transition_much_longer_than_the_fastest_mode():
    """The state forgets: e^(+Lambda dt) of the block exponential would overflow."""
    drift, noise = stable(4, rate=500.0)
    step = transition(drift, noise, np.array([50.0]))
    np.testing.assert_allclose(step.factor[0], 0.0, atol=1e-30)
    expected = stationary_covariance(drift, noise)
    np.testing.assert_allclose(step.covariance[0], expected, rtol=1e-9)


@pytest.mark.parametrize("rate", [0.05, 3.0, 30.0])
def test_gradient_goes_back_through_the_transition(rate):
    drift, noise = stable(3, rate=rate)
    rng = np.random.default_rng(1)
    dt = np.array([0.02, 0.4, 1.1])
    by_factor, by_covariance = rng.normal(size=(2, 3, 3, 3))
    by_covariance = by_covariance + np.swapaxes(by_covariance, 1, 2)

    def value(a, q):
        step = transition(a, q, dt)
        return (step.factor * by_factor).sum() + (step.covariance * by_covariance).sum()

    gradient = transition(drift, noise, dt).pull_back(by_factor, by_covariance)
    for k, symmetric in enumerate((False, True)):
        way = rng.normal(size=(3, 3))
        way = way + way.T if symmetric else way
        h = 1e-5 * rate if k == 0 else 1e-5
        ends = [value(drift + s * h * way * (1 - k), noise + s * h * way * k) for s in (1, -1)]
        difference = (ends[0] - ends[1]) / (2 * h)
        np.testing.assert_allclose((gradient[k] * way).sum(), difference, rtol=1e-6)


def test_stationary_covariance_and_its_gradient():
    drift, noise = stable(4)
    p = stationary_covariance(drift, noise)
    np.testing.assert_allclose(drift @ p + p @ drift.T, noise, atol=EXACT)
    rng = np.random.default_rng(2)
    by, way = rng.normal(size=(2, 4, 4))
    by, sym = by + by.T, way + way.T
    by_drift, by_noise = stationary_pull_back(drift, noise, p, by)
    h = 1e-6
    ends = [(by * stationary_covariance(drift + s * h * way, noise)).sum() for s in (1, -1)]
    np.testing.assert_allclose((by_drift * way).sum(), (ends[0] - ends[1]) / (2 * h), rtol=1e-7)
    linear = (by * stationary_covariance(drift, sym)).sum()
    np.testing.assert_allclose((by_noise * sym).sum(), linear, rtol=1e-10)


def test_distinct_steps_forgive_rounding():
    lengths, which = distinct_steps(np.diff(np.arange(50) * 0.1))
    np.testing.assert_allclose(lengths, [0.1])
    assert not which.any()
    lengths, which = distinct_steps(np.array([[3.0, 1.0], [1.0, 2.0]]))
    np.testing.assert_array_equal(lengths[which], [[3.0, 1.0], [1.0, 2.0]])


def test_moments_against_the_integral():
    """``Cov(c(t), c(s)) = E(t) V0 E(s)' + int_0^s E(t - u) Q E(s - u)' du`` by quadrature."""
    e = equation()
    t = np.array([0.0, 0.3, 1.1])
    full = e.covariance(t).values

    def exponential(h):
        return linalg.expm(-h * e.drift_matrix)

    for i, j in ((1, 0), (2, 1), (1, 2), (2, 2)):
        early = min(t[i], t[j])
        integral = integrate.quad_vec(
            lambda u, i=i, j=j: (
                exponential(t[i] - u) @ e.noise_covariance @ exponential(t[j] - u).T
            ),
            0.0,
            early,
        )[0]
        start = exponential(t[i]) @ e.initial_covariance @ exponential(t[j]).T
        np.testing.assert_allclose(full[i, j], start + integral, rtol=1e-9)
    np.testing.assert_allclose(e.mean(t).values[2], exponential(1.1) @ e.initial_mean, rtol=1e-12)
    np.testing.assert_allclose(e.variance(t).values, np.einsum("ttnn->tn", full), rtol=1e-12)
    grid = np.array([0.2, 1.3])
    h = RING.eigenfunctions(grid, 3)
    expected = [np.diag(h @ full[i, i] @ h.T) for i in range(3)]
    np.testing.assert_allclose(e.variance(t, grid).values, expected, rtol=1e-12)


def test_advection_carries_a_field_around_the_ring():
    """Without noise, damping and diffusion the field only moves."""
    e = sl.catalogue.advection_diffusion(9, speed=0.7, kappa=0.0, nu=0.0, noise=np.zeros(9))
    x = np.linspace(0, np.pi, 13)[:-1]
    moved = e.mean([0.0, 1.9], x).values[1]
    before = e.mean([0.0], np.mod(x - 0.7 * 1.9, np.pi)).values[0]
    np.testing.assert_allclose(moved, before, atol=1e-10)


@pytest.mark.parametrize("weights", [[3.0, 0.4, 1.1], [1.0, 1.0]])
def test_noise_with_seasons_against_the_integral(weights):
    """``Cov c(t) = E(t) V0 E(t)' + int_0^t w(u) E(t - u) Q E(t - u)' du``, part by part."""
    season = sl.Season(0.5, weights, origin=0.05)
    e = equation(season=season)
    edges = season.origin + 0.5 / season.n_parts * np.arange(-20, 20)

    def integrand(u, t):
        f = linalg.expm(-(t - u) * e.drift_matrix)
        return season.at(u) * f @ e.noise_covariance @ f.T

    for t in (0.13, 0.9):
        inside = edges[(edges > 0) & (edges < t)]
        total = integrate.quad_vec(integrand, 0.0, t, args=(t,), points=inside)[0]
        f = linalg.expm(-t * e.drift_matrix)
        expected = f @ e.initial_covariance @ f.T + total
        np.testing.assert_allclose(e.variance([t]).values[0], np.diag(expected), rtol=1e-7)

"""The closure likelihood of complete data against exact ones."""

import numpy as np
import pytest
from scipy.interpolate import RegularGridInterpolator
from tests.statespace._one_mode import GRID, equation, kernel

import spdelaw as sl
from spdelaw.processes.closure import Closure, advance
from spdelaw.processes.linear import transition
from spdelaw.processes.terms import bind
from spdelaw.statespace.transitions import closure_scores, scheme_scores, transitions

RING = sl.Interval(0.0, 2 * np.pi, "periodic")


def data(n_paths=4, n=5, dt=0.1, seed=0):
    e = sl.catalogue.allen_cahn(n, times=dt * np.arange(9), initial=sl.Gaussian(0.0, 1.0))
    c = e.domain.analyse(sl.simulate(e, n_paths, seed=seed), n, method="dense").values
    return e, transitions(c, e.times)


def test_terms_held_at_zero_leave_the_exact_likelihood():
    e, pairs = data()
    rates, noise = e.linear.eigenvalues + 0.3, e.linear.noise_variance
    closure = Closure(bind(["u", "u^3"], RING, 5), np.zeros(2), rates, noise)
    exact = transition(rates, noise, np.array([0.1]))
    r, omega = pairs.after - exact.factor[0] * pairs.before, exact.covariance[0]
    expected = -0.5 * (r**2 / omega + np.log(2 * np.pi * omega)).sum(1)
    np.testing.assert_allclose(
        closure_scores(closure, pairs, 1).log_likelihood, expected, rtol=1e-8
    )


def test_one_mode_against_brute_force():
    """Each of 200 transitions, some of them between the wells, at rate dt = 0.2 (slope -2)."""
    e, dt = equation(), 0.1
    c = sl.simulate(e, 4, dt * np.arange(51), grid=[0.5], seed=3).values
    pairs = transitions(c, dt * np.arange(51))
    exact = kernel(0.2, dt)
    # Smooth in x and y at this spacing: linear interpolation of the logarithm is enough.
    log = RegularGridInterpolator((GRID, GRID), np.log(np.maximum(exact, 1e-300)))
    expected = log(np.hstack([pairs.before, pairs.after]))
    got = closure_scores(e.closure, pairs, 2).log_likelihood
    # What is left is the skewness of the true density, which a Gaussian cannot have.
    assert abs(got.sum() - expected.sum()) < 0.5
    assert np.median(np.abs(got - expected)) < 0.02


def test_error_of_the_closure_is_what_the_theory_says():
    """Skewness ``g = f'' q^1/2 dt^3/2``; the variance is too small by the part ``g^2 / 4``."""
    q, dt = 0.2, 0.1
    k = int(np.argmin(np.abs(GRID - 0.7)))  # where f' is small, and little decays over the step
    weight = kernel(q, dt)[k] / kernel(q, dt)[k].sum()
    mean = weight @ GRID
    variance = weight @ (GRID - mean) ** 2
    skewness = weight @ (GRID - mean) ** 3 / variance**1.5
    predicted = -6.0 * GRID[k] * np.sqrt(q) * dt**1.5
    assert skewness == pytest.approx(predicted, rel=0.05)
    step, _ = advance(equation().closure, GRID[k : k + 1][None], None, dt, 4)
    assert step.covariance[0, 0, 0] / variance - 1.0 == pytest.approx(-(predicted**2) / 4, rel=0.1)
    assert abs(step.mean[0, 0] - mean) < 1e-4 * np.sqrt(variance)


@pytest.mark.parametrize("scheme", ["closure", "semi_implicit"])
def test_scores_against_differences(scheme):
    e, pairs = data()
    reaction = bind(["u", "u^3", "u u_x"], RING, 5)
    values = reaction.values(pairs.before)

    def scores(*numbers):
        c = Closure(reaction, *numbers)
        one = scheme == "closure"
        return closure_scores(c, pairs, 1) if one else scheme_scores(c, pairs, values)

    at = [np.array([0.9, -1.1, 0.2]), e.linear.eigenvalues + 0.1, e.linear.noise_variance]
    here = scores(*at)
    for k, name in enumerate(("coefficient", "eigenvalue", "noise_variance")):
        slope = here.by[name]
        d = np.random.default_rng(k).standard_normal(at[k].shape) * (0.01 if k == 2 else 1.0)
        high, low = (scores(*at[:k], at[k] + h * d, *at[k + 1 :])[0] for h in (1e-5, -1e-5))
        np.testing.assert_allclose(slope @ d, (high - low) / 2e-5, rtol=1e-5, atol=1e-5)


def test_scheme_likelihood_is_the_density_of_the_scheme():
    """SPDEBench's recipe for Phi^4_1: its residuals are exactly Gaussian, whatever dt lambda is."""
    ring, times = sl.Interval(0, 1, "periodic"), 1e-3 * np.arange(51)
    e = sl.catalogue.allen_cahn(
        15, nu=1.0, a=3.0, noise=sl.White(0.01), domain=ring, initial=lambda x: x * (1 - x),
        times=times,
    )  # fmt: skip
    fields = sl.simulate(e, 3, seed=1, scheme="semi_implicit")
    pairs = transitions(ring.analyse(fields, 15, method="dense").values, times)
    lam, x = e.linear.eigenvalues, pairs.before
    damp = 1.0 / (1.0 + 1e-3 * lam)
    error = pairs.after - damp * (x + 1e-3 * (e.dynamics.drift(x) + lam * x))
    variance = 0.01 * 1e-3 * damp**2
    expected = -0.5 * (error**2 / variance + np.log(2 * np.pi * variance)).sum(1)
    got = scheme_scores(e.closure, pairs, e.reaction.values(x)).log_likelihood
    np.testing.assert_allclose(got, expected, rtol=1e-10)
    # Calibrated: a sum of 2,250 squared standard normals, within 4.5 standard deviations.
    z2, n = (error**2 / variance).sum(), error.size
    assert abs(z2 - n) < 4.5 * np.sqrt(2 * n)


def test_a_missing_state_breaks_a_path():
    c = np.arange(24.0).reshape(2, 4, 3)
    c[0, 1, 2] = np.nan
    pairs = transitions(c, np.array([0.0, 1.0, 3.0, 6.0]))
    assert pairs.path.tolist() == [0, 1, 1, 1]
    assert pairs.dt.tolist() == [3.0, 1.0, 2.0, 3.0]

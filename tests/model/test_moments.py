"""Sufficient statistics of transitions: derivatives, and the likelihood against densities."""

import numpy as np
import pytest
from scipy import stats

from spdelaw.equation import decay_mean
from spdelaw.model import Moments, transition_log_likelihood, transition_score
from spdelaw.model._moments import decay_mean_slope, step_functions

SLOPE_TOLERANCE = 1e-9
SCORE_TOLERANCE = 1e-6
DENSITY_TOLERANCE = 1e-12


@pytest.mark.parametrize("x", [1e-3, 5e-3, 0.0099999, 0.0100001, 0.03, 0.5, 3.0, 40.0])
def test_slope_of_the_decay_mean(x):
    """Fourth-order differences of expm1, whose own error is rounding."""
    h = 2e-2 * x
    f = [float(decay_mean(x + k * h)) for k in (-2, -1, 1, 2)]
    by_difference = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
    # Truncation is below (h / x)^4 of a smooth function; rounding is 1e-16 / h.
    allowed = SLOPE_TOLERANCE + 1e-16 / h + 1e-7 * min(x, 1.0)
    assert abs(float(decay_mean_slope(x)) - by_difference) < allowed


def test_slope_at_zero_and_across_the_switch():
    assert float(decay_mean_slope(0.0)) == -0.5
    left, right = decay_mean_slope(np.array([0.01 - 1e-14, 0.01 + 1e-14]))
    # The quotient loses 1e-16 / x^2 = 1e-12 at the switch.
    assert abs(left - right) < 1e-11


def test_step_functions_at_zero_decay():
    f = step_functions(np.zeros(1), np.array([[0.3]]))
    np.testing.assert_allclose([f.a[0, 0], f.g[0, 0], f.da[0, 0]], [1.0, 0.3, -0.3])
    np.testing.assert_allclose(f.dg[0, 0], -(0.3**2))


def paths():
    rng = np.random.default_rng(3)
    t = np.array([0.0, 0.1, 0.4, 0.45, 1.0])
    c = rng.gamma(2.0, size=(6, 5, 2))
    moments = Moments(
        np.einsum("ptn,ptn->tn", c, c), np.einsum("ptn,ptn->tn", c[:, :-1], c[:, 1:]), 6
    )
    return c, t, moments


def test_log_likelihood_is_the_sum_of_transition_densities():
    c, t, moments = paths()
    lam, q = np.array([0.7, 6.0]), np.array([0.4, 2.0])
    a = np.exp(-np.outer(np.diff(t), lam))
    std = np.sqrt(q * (1 - a**2) / (2 * lam))
    expected = stats.norm.logpdf(c[:, 1:], a * c[:, :-1], std).sum((0, 1))
    got = transition_log_likelihood(moments, np.diff(t)[:, None], lam, q)
    np.testing.assert_allclose(got, expected, rtol=DENSITY_TOLERANCE)


@pytest.mark.parametrize("rate", [1e-6, 0.05, 0.7, 30.0])
def test_score_by_differences(rate):
    _, t, moments = paths()
    lam, q, dt = np.array([rate, 2.5]), np.array([0.4, 2.0]), np.diff(t)[:, None]
    by_lambda, by_q = transition_score(moments, dt, lam, q)
    for n in range(2):
        for which, found in ((0, by_lambda), (1, by_q)):
            x = [lam.copy(), q.copy()]
            # At tiny rates an absolute step: the likelihood is smooth across zero.
            h = 1e-5 * max(x[which][n], 1e-1)
            ends = []
            for sign in (1, -1):
                trial = [v.copy() for v in x]
                trial[which][n] += sign * h
                ends.append(transition_log_likelihood(moments, dt, *trial).sum())
            expected = (ends[0] - ends[1]) / (2 * h)
            np.testing.assert_allclose(found[n], expected, rtol=SCORE_TOLERANCE, atol=1e-6)

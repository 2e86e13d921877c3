"""Paths of coupled modes: moments against closed forms, and the noise that drives them.

Statistical tests use a fixed seed and reject at a joint false-alarm rate of 1e-4.
"""

import numpy as np
import pytest
from scipy import stats
from tests.processes.test_matrices import equation

import spdelaw as sl
from spdelaw.processes.paths import steps

ALPHA = 1e-4
TIMES = np.array([0.05, 0.3, 0.31, 1.2])
SEASON = sl.Season(0.4, [2.0, 0.5, 0.5])
FORCING = sl.Forcing([0.0, 0.5, 2.0], [[2.0, -1.0, 0.0], [0.0, 3.0, 1.0], [1.0, 1.0, 1.0]])


@pytest.mark.parametrize(
    "settings",
    [
        {"initial": "stationary"},
        {
            "initial": sl.Gaussian([1.0, -1.0], 0.4),
            "drift": [1.0, 2.0, 8.0],
            "noise": [0.3, 1.0, 2.0],
        },
        {"initial": [1.0, 2.0], "season": SEASON, "forcing": FORCING},
    ],
)
def test_mean_and_covariance_of_paths(settings):
    """Modes that are coupled or not, at uneven times."""
    e, n = equation(**settings), 6000
    fields = sl.simulate(e, n, TIMES, seed=1)
    c = e.domain.analyse(fields, 3).values.reshape(n, -1)
    mean = e.mean(TIMES).values.ravel()
    truth = e.covariance(TIMES).values
    truth = np.einsum("stn,nm->stnm", truth, np.eye(3)) if truth.ndim == 3 else truth
    truth = truth.transpose(0, 2, 1, 3).reshape(12, 12)
    v = np.diag(truth)
    z = (c.mean(0) - mean) / np.sqrt(v / n)
    got = (c - mean).T @ (c - mean) / n
    gap = (got - truth) / np.sqrt((np.outer(v, v) + truth**2) / n)
    bound = stats.norm.isf(ALPHA / (z.size + gap.size) / 2)
    assert np.abs(z).max() < bound
    assert np.abs(gap).max() < 1.1 * bound  # skewed, not quite normal


def test_noise_belongs_to_the_path():
    """Fine steps: dc = -Lambda c dt + dW, with dW of covariance Q dt."""
    e = equation(initial=[1.0, 2.0])
    t = np.linspace(0.0, 0.5, 2001)
    data = sl.simulate(e, 20, t, seed=2, return_noise=True)
    w = data["noise_increment"].values
    c = e.domain.analyse(data["field"], 3).values
    step = np.diff(c, axis=1) + np.diff(t)[0] * c[:, :-1] @ e.drift_matrix.T
    scale = np.sqrt(e.noise_variance * np.diff(t)[0])
    assert np.abs((step - w[:, 1:]) / scale).max() < 0.02
    plain = sl.simulate(e, 20, t, seed=2)
    np.testing.assert_array_equal(data["field"].values, plain.values)


def test_step_holds_the_covariance_of_path_and_noise():
    """Amplitude, driving and bridge give Omega, its covariance with W, and Q dt."""
    e = equation()
    rule = steps(e, np.array([0.4]), "exact")
    s, d, b = rule.amplitude[0], rule.driving[0], rule.bridge[0]
    np.testing.assert_allclose(d @ d.T + b @ b.T, 0.4 * e.noise_covariance, atol=1e-12)
    factor = rule.factor[0]
    cross = np.linalg.solve(e.drift_matrix, np.eye(3) - factor) @ e.noise_covariance
    np.testing.assert_allclose(s @ d.T, cross, atol=1e-11)


def test_semi_implicit_scheme_has_weak_order_one():
    e = equation(initial=0.0)
    exact = e.variance([1.0]).values[0]
    errors, sizes = [], np.array([50, 100, 200, 400])
    for n in sizes:
        rule = steps(e, np.arange(1, n + 1) / n, "semi_implicit")
        v = np.zeros((3, 3))
        for f, s in zip(rule.factor, rule.amplitude, strict=True):
            v = f @ v @ f.T + s @ s.T
        errors.append(np.abs(np.diag(v) - exact).max())
    slope = -np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert 0.9 < slope < 1.1

"""A residual with memory beside noise: its variance and its joint draws by brute force."""

import dataclasses

import numpy as np
from tests.law.laws import NOISE, POINTS, TIMES, fields, law

from spdelaw.law.residuals import AR1, Grid


def residual_law():
    """A law of noisy data whose residual has memory at every point."""
    n = len(POINTS)
    residual = AR1(np.linspace(0.5, 4.0, n), np.linspace(0.02, 0.2, n), np.linspace(0.1, 0.03, n))
    return dataclasses.replace(law("stationary", NOISE), residual_memory=residual)


def test_variance_at_one_observed_time_is_that_of_modes_and_residual():
    """With one observed time the error of the modes enters once, by the share ``1 - w``.

    Given the modes, ``z ~ N(w (y - Phi c), v u / (v + u))`` with ``w = v / (v + u)``, v the
    variance of the residual and u that of the white noise, so that ``Phi c + z`` has the variance
    ``(1 - w)^2 Var(Phi c) + v u / (v + u)``.
    """
    with_memory = residual_law()
    data = fields("stationary", NOISE, n_paths=3, seed=4, times=TIMES[:5])
    data = data.where(data.time == TIMES[2])
    modes = dataclasses.replace(
        with_memory, residual_memory=None, unresolved_variance=0.0
    ).reconstruct(data)
    both = with_memory.reconstruct(data)
    _, v, u = with_memory.residual_memory
    weight, left = v / (v + u), v * u / (v + u)
    mean, std = modes["mean"].values[:, 2], modes["std_field"].values[:, 2]
    assert ((weight > 0.02) & (weight < 0.98)).all()
    assert std.max() > 0.01
    np.testing.assert_allclose(
        both["mean"].values[:, 2], mean + weight * (data.values[:, 2] - mean), atol=1e-10
    )
    np.testing.assert_allclose(
        both["std_field"].values[:, 2] ** 2, (1.0 - weight) ** 2 * std**2 + left, atol=1e-10
    )


def test_joint_draws_are_those_of_the_brute_force_gaussian():
    """20,000 draws given noisy values with gaps: means and covariances of all pairs of times.

    Each of 2 x (7 + 49) numbers within five standard errors: 7e-5 by chance.
    """
    generator = np.random.default_rng(3)
    times, n = np.array([0.0, 0.3, 0.4, 1.1, 1.9, 2.0, 3.0]), 20_000
    residual = AR1(np.array([0.4, 2.0]), np.array([1.5, 0.7]), np.array([0.5, 0.9]))
    values = generator.standard_normal((7, 2))
    values[[1, 4], 0], values[[2, 6], 1] = np.nan, np.nan
    draws = residual.draw(np.tile(values, (n, 1, 1)), Grid(times, None), generator)
    for j in range(2):
        observed = ~np.isnan(values[:, j])
        prior = residual.variance[j] * np.exp(-residual.decay[j] * np.abs(times[:, None] - times))
        noisy = prior[np.ix_(observed, observed)] + residual.white[j] * np.eye(observed.sum())
        gain = prior[:, observed] @ np.linalg.inv(noisy)
        mean, covariance = gain @ values[observed, j], prior - gain @ prior[observed]
        variance = np.diag(covariance)
        mean_error = np.abs(draws[..., j].mean(0) - mean) / np.sqrt(variance / n)
        spread = np.sqrt((np.outer(variance, variance) + covariance**2) / n)
        assert mean_error.max() < 5.0
        assert (np.abs(np.cov(draws[..., j].T) - covariance) / spread).max() < 5.0

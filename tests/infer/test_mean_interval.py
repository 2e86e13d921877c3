"""Interval of the mean of slow modes: against an integral of its own, Student's t, and shifts."""

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

import spdelaw as sl

DOMAIN = sl.Interval(0.0, np.pi)
POINTS = np.linspace(0.0, np.pi, 9)
pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")


def paths(rate, n_times, n_paths, seed, mean=0.0):
    """Stationary Ornstein-Uhlenbeck paths with steps of 1 and unit noise, (path, time)."""
    draw, factor = np.random.default_rng(seed), np.exp(-rate)
    out = np.empty((n_paths, n_times))
    out[:, 0] = draw.standard_normal(n_paths) / np.sqrt(2 * rate)
    for t in range(1, n_times):
        new = draw.standard_normal(n_paths) * np.sqrt((1 - factor**2) / (2 * rate))
        out[:, t] = factor * out[:, t - 1] + new
    return out + mean


def learn(c, **words):
    values = c[..., None] * np.sqrt(2 / np.pi) * np.sin(POINTS)
    how = {"initial": "stationary", "mean": "constant", **words}
    return sl.fit(values, DOMAIN, 1, times=np.arange(c.shape[1]), points=POINTS, **how)


def ends(law):
    return law.parameters["mean"].values[0, 2:]


def given_decay(c, rate):
    """Log-likelihood, mean and variance left over, all else integrated out by hand."""
    n_paths, n_times = c.shape
    f, v = np.exp(-rate), -np.expm1(-2 * rate)
    left = -np.expm1(-rate)
    information = n_paths * (1 + (n_times - 1) * left**2 / v)
    mean = (c[:, 0].sum() + left / v * (c[:, 1:] - f * c[:, :-1]).sum()) / information
    d = c - mean
    square = (d[:, 0] ** 2).sum() + ((d[:, 1:] - f * d[:, :-1]) ** 2).sum() / v
    degrees = c.size - 1
    height = -degrees * np.log(square) - n_paths * (n_times - 1) * np.log(v) - np.log(information)
    return 0.5 * height, mean, np.sqrt(square / degrees / information)


def by_hand(c, share):
    """Quantile of the mean with the weight ``lambda^(3/8)`` of a single path."""
    logs = np.linspace(-90.0, 2.0, 6000)
    height, mean, std = np.array([given_decay(c, rate) for rate in np.exp(logs)]).T
    weight = np.exp(height - height.max() + 0.375 * logs)
    total = integrate.trapezoid(weight, logs)

    def lack(x):
        below = special.stdtr(c.size - 1, (x - mean) / std)
        return integrate.trapezoid(weight * below, logs) / total - share

    return optimize.brentq(lack, -1e6, 1e6)


@pytest.mark.parametrize(("rate", "seed"), [(0.4, 0), (0.08, 1), (0.02, 2), (0.001, 3)])
def test_one_path_against_an_integral(rate, seed):
    c = paths(rate, 60, 1, seed, mean=5.0)
    lower, upper = ends(learn(c))
    wanted = np.array([by_hand(c, share) for share in (0.025, 0.975)])
    # A profile stands for the integral over the noise, and ends hang on the far tail.
    np.testing.assert_allclose([lower, upper], wanted, atol=0.06 * np.ptp(wanted))


@pytest.mark.parametrize("n_paths", [5, 20])
def test_paths_that_stay_where_they_start_have_a_sample_mean(n_paths):
    """Nothing decays within the record: starts are a sample, and the interval is Student's."""
    c = paths(1e-5, 30, n_paths, seed=4)
    starts = c[:, 0]
    wanted = stats.t.interval(
        0.95, n_paths - 1, starts.mean(), starts.std(ddof=1) / np.sqrt(n_paths)
    )
    found = ends(learn(c))
    np.testing.assert_allclose(found, wanted, atol=0.02 * np.ptp(wanted))


def test_well_known_decay_leaves_the_interval_of_the_standard_error():
    law = learn(paths(1.0, 400, 20, seed=5, mean=3.0))
    value, error, *found = law.parameters["mean"].values[0]
    assert "mean[1]" not in law.info["profiled"]
    np.testing.assert_allclose(found, value + special.ndtri(0.975) * error * np.array([-1, 1]))


@pytest.mark.parametrize("initial", ["stationary", "auto"])
def test_ends_follow_a_shift_and_the_unit(initial):
    c = paths(0.05, 60, 3, seed=6)
    one, other = ends(learn(c, initial=initial)), ends(learn(1e3 * (c + 7.0), initial=initial))
    np.testing.assert_allclose(other, 1e3 * (one + 7.0), rtol=2e-3, atol=1e3 * 2e-3 * np.ptp(one))


def test_gaps_and_noise_widen_it():
    draw, c = np.random.default_rng(7), paths(0.03, 60, 1, seed=8, mean=4.0)
    values = c[..., None] * np.sqrt(2 / np.pi) * np.sin(POINTS)
    values = values + 0.3 * draw.standard_normal(values.shape)
    values[draw.random(values.shape) < 0.5] = np.nan
    times, how = np.arange(60), {"initial": "stationary", "mean": "constant"}
    law = sl.fit(values, DOMAIN, 1, times=times, points=POINTS, observation_noise=0.3, **how)
    assert "mean[1]" in law.info["profiled"]
    value, error, lower, upper = law.parameters["mean"].values[0]
    assert lower < value - 2 * error
    assert upper > value + 2 * error


@pytest.mark.parametrize("seed", [2, 19])
def test_noise_is_known_where_no_decay_is_seen(seed):
    """A slope without end in the decay once left no digits of curvature for anything else."""
    draw, points = np.random.default_rng([seed, 1]), np.linspace(0.0, np.pi, 12)
    rates, noise = np.array([1.0, 1.5]) / 59, np.array([1.0, 0.6])
    c = np.cumsum(np.sqrt(noise) * draw.standard_normal((1, 60, 2)), axis=1)
    c += 2.0 * np.sqrt(noise / (2 * rates))
    values = c @ (np.sqrt(2 / np.pi) * np.sin(np.outer([1, 2], points)))
    values += 0.5 * draw.standard_normal(values.shape)
    values[draw.random(values.shape) < 0.5] = np.nan
    how = {"initial": "stationary", "mean": "constant", "times": np.arange(60), "points": points}
    law = sl.fit(values, DOMAIN, 2, **how)
    estimate, error = law.parameters["noise_variance"].values.T[:2]
    assert (error < estimate).all()

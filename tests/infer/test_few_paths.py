"""A handful of noisy paths that start apart, and records with a long interruption."""

from __future__ import annotations

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.infer.moments import INTERRUPTION, _interrupted

INTERVAL, N = sl.Interval(0, np.pi), 4
POINTS, RATES = np.linspace(0.0, np.pi, 33), np.arange(1.0, N + 1.0) ** 2
TIMES = np.linspace(0.0, 2.0, 101)
#: Log-likelihood that a fit may lie below the truth, which it has to find.
BELOW = 0.5


def records(n_paths, noise, times=TIMES, seed=0):
    """Stationary paths of unit noise, by transitions written out here."""
    rng = np.random.default_rng(seed)
    c = np.empty((n_paths, len(times), N))
    c[:, 0] = rng.standard_normal((n_paths, N)) / np.sqrt(2.0 * RATES)
    for k, step in enumerate(np.diff(times)):
        a = np.exp(-RATES * step)
        shock = np.sqrt((1.0 - a**2) / (2.0 * RATES)) * rng.standard_normal((n_paths, N))
        c[:, k + 1] = a * c[:, k] + shock
    values = c @ INTERVAL.eigenfunctions(POINTS, N).T
    return values + noise * rng.standard_normal(values.shape)


def learned(values, times=TIMES, **words):
    return sl.fit(values, INTERVAL, N, times=times, points=POINTS, mean="zero", **words)


def assert_not_below_the_truth(values, times=TIMES):
    law = learned(values, times)
    truth = {"eigenvalue": RATES, "noise_variance": np.ones(N)}
    held = learned(values, times, fixed=truth, initial=law.initial.kind)
    assert law.info["log_likelihood"] > held.info["log_likelihood"] - BELOW
    return law


@pytest.mark.parametrize("n_paths", [2, 3, 4])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_few_paths_that_start_apart(n_paths, noise):
    """One start for all of them would be paid for by noise that is not there."""
    law = assert_not_below_the_truth(records(n_paths, noise))
    assert law.initial.kind == "gaussian"
    std = law.parameters["observation_std"].sel(statistic="estimate")
    # Its standard error is about one hundredth of it.
    assert float(std) == pytest.approx(noise, rel=0.05)


def test_few_paths_with_one_start_share_it():
    values = sl.simulate(sl.catalogue.heat(N), 3, TIMES, POINTS, seed=1, observation_std=0.05)
    assert sl.fit(values, INTERVAL, N, mean="zero").initial.kind == "deterministic"


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_long_interruption(noise):
    times = np.r_[TIMES[:50], TIMES[50:] + 1e4]
    assert_not_below_the_truth(records(3, noise, times), times)


def test_what_an_interruption_is():
    step = np.r_[np.full(20, 0.1), 0.1 * INTERRUPTION * 1.01, 0.3]
    np.testing.assert_array_equal(np.flatnonzero(_interrupted(step, step)), [20])
    assert not _interrupted(step, step[:0]).any()

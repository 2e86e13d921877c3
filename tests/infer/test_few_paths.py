"""A handful of noisy paths that start apart, and records with a long interruption."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fitted import INTERVAL, heat
from tests.parameters import each

import spdelaw as sl

N, POINTS = 4, np.linspace(0.0, np.pi, 33)
TIMES = np.linspace(0.0, 2.0, 101)
N_RATES, N_NOISE = np.array([1.0, 4.0, 9.0]), np.array([1.0, 0.5, 0.3])
#: Log-likelihood that a fit may lie below the truth, which it has to find.
BELOW = 0.5


def assert_not_below_the_truth(n_paths, noise, times=TIMES):
    truth = sl.SpectralSPDE(
        INTERVAL, N, np.arange(1.0, N + 1.0) ** 2, noise=np.ones(N), initial="stationary"
    )
    data = sl.simulate(truth, n_paths, times, POINTS, seed=0, observation_std=noise)
    law = sl.fit(data, INTERVAL, N, mean="zero")
    fixed = {"eigenvalue": truth.eigenvalues, "noise_variance": truth.noise_variance}
    held = sl.fit(data, INTERVAL, N, mean="zero", fixed=fixed, initial=law.initial.kind)
    assert law.info["log_likelihood"] > held.info["log_likelihood"] - BELOW
    return law


# Two noisy paths do not determine the variance of their starts in every mode, and are said not to.
@pytest.mark.filterwarnings("ignore:.*initial_variance:spdelaw.errors.IdentifiabilityWarning")
@each(n_paths=[2, 3, 4], noise=[0.0, 0.05])
def test_few_paths_that_start_apart(n_paths, noise):
    """One start for all of them would be paid for by noise that is not there."""
    law = assert_not_below_the_truth(n_paths, noise)
    assert law.initial.kind == "gaussian"
    std = law.parameters["observation_std"].sel(statistic="estimate")
    # Its standard error is about one hundredth of it.
    assert float(std) == pytest.approx(noise, rel=0.05)


def test_noisy_paths_with_one_start_have_variances_compatible_with_zero():
    """They cost nothing: the law is that of a common start."""
    data = sl.simulate(heat(N), 3, TIMES, POINTS, seed=1, observation_std=0.05)
    law, common = (
        sl.fit(data, INTERVAL, N, mean="zero", initial=word) for word in ("auto", "deterministic")
    )
    assert law.initial.kind == "gaussian"
    assert (law.parameters.initial_variance.sel(statistic="lower") == 0).all()
    error = common.parameters.eigenvalue.sel(statistic="stderr")
    gap = (law.parameters - common.parameters).eigenvalue.sel(statistic="estimate")
    assert float(np.abs(gap / error).max()) < 0.1
    assert law.info["log_likelihood"] > common.info["log_likelihood"] - 1e-3


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_long_interruption(noise):
    assert_not_below_the_truth(3, noise, np.r_[TIMES[:50], TIMES[50:] + 1e4])


@pytest.mark.filterwarnings("ignore::spdelaw.errors.SpdeLawWarning")
def test_a_mean_is_not_kept_by_chance():
    """Of 2 paths of half a decay time, whose mean is zero, 63 % kept a mean by the normal z."""
    truth = sl.SpectralSPDE(INTERVAL, 3, N_RATES, noise=N_NOISE, initial="stationary")
    kept = 0
    for seed in range(12):
        data = sl.simulate(truth, 2, TIMES[:12] * 2.5, POINTS[::2], seed=seed, observation_std=0.1)
        kept += sl.fit(data, INTERVAL, 3).info["mean"] == "constant"
    assert kept <= 6

"""Drift matrices and noise covariances come out as they were put in, on every kind of data."""

import dataclasses

import numpy as np
import pytest
from tests.fitted import fitted
from tests.infer.coupled import (
    POINTS,
    RING,
    TIMES,
    WITHIN,
    N,
    assert_recovers,
    equation,
    fields,
    z_scores,
)
from tests.infer.recovery import estimates

import spdelaw as sl

PAIRS = [("diagonal", "low_rank"), ("parametric", "dense"), ("normal", "parametric")]
MORE = [("dense", "diagonal"), ("diagonal", "dense"), ("parametric", "low_rank"),
        ("normal", "low_rank"), ("normal", "dense"), ("dense", "parametric")]  # fmt: skip
PUSH = sl.Forcing([0.0, 1.0, 2.5, 4.0], 4.0 * np.random.default_rng(3).standard_normal((4, N)))
WEIGHTS = np.array([1.6, 0.4])


def with_gaps(data, std=0.05, share=0.2):
    rng = np.random.default_rng(5)
    noisy = data + std * rng.standard_normal(data.shape)
    return noisy.where(rng.random(data.shape) > share)


def start_of(e):
    return dataclasses.replace(e, initial=np.array([1.0, -0.5, 0.3, 0.0, 0.2]))


def assert_near(law, e):
    assert law.kl_divergence(e) < 4 * law.info["n_parameters"] / (2 * 60)
    assert_recovers(law, e)


# Two decay rates of the dense truth nearly coincide: its entries are determined, the modes are not.
@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
@pytest.mark.parametrize(
    ("drift", "noise"), [*PAIRS, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in MORE)]
)
def test_every_structure_on_complete_fields(drift, noise):
    e = equation(drift, noise)
    fixed = {"s": 1.0} if drift == "parametric" else None
    law = sl.fit(fields(e), RING, N, drift=drift, noise=noise, initial="stationary", fixed=fixed)
    assert law.info["route"] == "statistics"
    assert (law.info["drift"], law.info["noise"]) == (drift, noise)
    assert_near(law, e)


def test_dense_drift_and_noise():
    assert_near(fitted("dense").law, fitted("dense").equation)


@pytest.mark.parametrize(
    ("drift", "noise"),
    [
        ("normal", "diagonal"),
        pytest.param("diagonal", "low_rank", marks=pytest.mark.slow),
        pytest.param("dense", "dense", marks=pytest.mark.slow),
    ],
)
def test_noise_and_gaps(drift, noise):
    e = equation(drift, noise)
    gappy = sl.mask(fields(e, 40, std=0.3), "random", 0.3, seed=1)
    law = sl.fit(gappy, RING, N, drift=drift, noise=noise, initial="stationary")
    assert law.info["route"] == "filter"
    assert_recovers(law, e)
    std = law.parameters.observation_std.values
    assert abs(std[0] - 0.3) < WITHIN * std[1]


@pytest.mark.parametrize("initial", ["gaussian", [1.0, -2.0, 0.5]])
def test_other_initial_states(initial):
    e = equation("normal", "low_rank", "gaussian")
    if initial != "gaussian":
        e = dataclasses.replace(e, initial=initial)
    law = sl.fit(fields(e), RING, N, drift="normal", noise="low_rank")
    assert law.initial.kind == e.initial_kind
    assert_recovers(law, e)
    for name in ("initial_mean", "initial_covariance") if initial == "gaussian" else ():
        z = (estimates(law, name) - getattr(e, name)) / estimates(law, name, "stderr")
        assert np.abs(z).max() < WITHIN


@pytest.mark.parametrize("kind", ["times of each path", "a single long path"])
def test_other_times(kind):
    e, rng, paths = equation("normal", "dense"), np.random.default_rng(5), []
    for i in range(25):
        times = np.sort(np.append(0.0, rng.uniform(0.0, 4.0, 30)))
        paths.append(sl.simulate(e, 1, times, POINTS, seed=100 + i).isel(path=0, drop=True))
    data = sl.stack(paths)
    if kind == "a single long path":
        data = sl.simulate(e, 1, np.linspace(0.0, 300.0, 3001), POINTS, seed=2)
    law = sl.fit(data, RING, N, drift="normal", noise="dense", initial="stationary")
    assert_recovers(law, e)


def test_coupled_structures_contain_the_diagonal_law():
    """More freedom: a higher likelihood, by about half the additional parameters."""
    rates, noise = [0.4, 0.9, 1.1, 1.7, 2.0], 1.0 + np.arange(N)
    e = sl.SpectralSPDE(RING, N, rates, noise=noise, initial="stationary")
    small, large = (
        sl.fit(fields(e), RING, N, initial="stationary", **words)
        for words in ({}, {"drift": "dense", "noise": "dense"})
    )
    extra = large.info["n_parameters"] - small.info["n_parameters"]
    assert extra == N * (N - 1) + N * (N - 1) // 2
    gain = 2 * (large.info["log_likelihood"] - small.info["log_likelihood"])
    assert 0.0 < gain < extra + 4 * np.sqrt(2 * extra)  # chi-squared with `extra` degrees
    assert_recovers(large, e)


# -- forcing, seasons and nuisance modes beside matrices -----------------------------------------


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")  # of the blind fit
@pytest.mark.parametrize("is_gappy", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_forcing_beside_a_drift_matrix(is_gappy):
    truth = dataclasses.replace(start_of(equation("normal", "diagonal")), forcing=PUSH)
    data = sl.simulate(truth, 20 if is_gappy else 40, TIMES, POINTS, seed=2)
    words = {"drift": "normal", "initial": "deterministic"}
    law = sl.fit(with_gaps(data) if is_gappy else data, RING, N, forcing=PUSH, **words)
    assert law.info["route"] == ("filter" if is_gappy else "statistics")
    assert_recovers(law, truth)
    blind = sl.fit(data, RING, N, mean="zero", **words)
    assert np.abs(z_scores(blind, truth)).max() > 2 * WITHIN


@pytest.mark.parametrize("is_gappy", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_season_of_noise_that_couples_modes(is_gappy):
    e = start_of(equation("diagonal", "dense"))
    truth = dataclasses.replace(e, season=sl.Season(1.0, WEIGHTS))
    data = sl.simulate(truth, 30, TIMES, POINTS, seed=3)
    words = {"noise": "dense", "season": sl.Season(1.0, 2), "initial": "deterministic"}
    law = sl.fit(with_gaps(data) if is_gappy else data, RING, N, **words)
    assert_recovers(law, truth)
    z = (estimates(law, "season") - WEIGHTS) / estimates(law, "season", "stderr")
    assert np.abs(z).max() < WITHIN


def test_nuisance_modes_beside_matrices():
    """Points that mix five modes: three are reported with a matrix, two are modelled beside it."""
    e = equation("normal", "parametric")
    points = np.sort(np.random.default_rng(0).uniform(0.0, 2.0, 8))
    data = sl.simulate(start_of(e), 60, TIMES, points, seed=4, observation_std=0.05)
    words = {"initial": "deterministic", "observation_noise": "estimate", "drift": "normal"}
    law, alone = (sl.fit(data, RING, 3, nuisance=n, **words) for n in (2, 0))
    assert (law.info["n_nuisance"], law.dynamics.n_modes) == (2, 5)
    np.testing.assert_array_equal(law.linear.drift[:3, 3:], 0.0)
    estimate, error = estimates(law, "drift"), estimates(law, "drift", "stderr")
    z = (estimate - e.drift_matrix[:3, :3])[error > 0] / error[error > 0]
    assert np.abs(z).max() < WITHIN
    assert alone.info["log_likelihood"] < law.info["log_likelihood"] - 100

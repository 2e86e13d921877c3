"""Forcing, seasons and nuisance modes beside matrices: fits that find what made the data."""

import dataclasses

import numpy as np
import pytest
from tests.infer.coupled import POINTS, RING, TIMES, WITHIN, N, assert_recovers, equation, z_scores

import spdelaw as sl

PUSH = sl.Forcing([0.0, 1.0, 2.5, 4.0], 4.0 * np.random.default_rng(3).standard_normal((4, N)))
WEIGHTS = np.array([1.6, 0.4])


def with_gaps(fields, std=0.05, share=0.2):
    rng = np.random.default_rng(5)
    noisy = fields + std * rng.standard_normal(fields.shape)
    return noisy.where(rng.random(fields.shape) > share)


def start_of(e):
    return dataclasses.replace(e, initial=np.array([1.0, -0.5, 0.3, 0.0, 0.2]))


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")  # of the blind fit
@pytest.mark.parametrize("structure", [("dense", "diagonal"), ("normal", "dense")])
def test_forcing_beside_a_drift_matrix(structure):
    truth = dataclasses.replace(start_of(equation(*structure)), forcing=PUSH)
    fields = sl.simulate(truth, 40, TIMES, POINTS, seed=1)
    drift, noise = structure
    law = sl.fit(fields, RING, N, drift=drift, noise=noise, forcing=PUSH)
    assert law.info["route"] == "statistics"
    assert_recovers(law, truth)
    blind = sl.fit(fields, RING, N, drift=drift, noise=noise, mean="zero")
    assert np.abs(z_scores(blind, truth)).max() > 2 * WITHIN


def test_forcing_beside_a_drift_matrix_through_gaps_and_noise():
    truth = dataclasses.replace(start_of(equation("normal", "diagonal")), forcing=PUSH)
    fields = with_gaps(sl.simulate(truth, 20, TIMES, POINTS, seed=2))
    law = sl.fit(fields, RING, N, drift="normal", forcing=PUSH, initial="deterministic")
    assert law.info["route"] == "filter"
    assert_recovers(law, truth)


@pytest.mark.parametrize("is_gappy", [False, True])
def test_season_of_noise_that_couples_modes(is_gappy):
    e = start_of(equation("diagonal", "dense"))
    truth = dataclasses.replace(e, season=sl.Season(1.0, WEIGHTS))
    fields = sl.simulate(truth, 30, TIMES, POINTS, seed=3)
    words = {"noise": "dense", "season": sl.Season(1.0, 2), "initial": "deterministic"}
    law = sl.fit(with_gaps(fields) if is_gappy else fields, RING, N, **words)
    assert_recovers(law, truth)
    table = law.parameters.season
    z = (table.sel(statistic="estimate") - WEIGHTS) / table.sel(statistic="stderr")
    assert float(np.abs(z).max()) < WITHIN


def test_nuisance_modes_beside_matrices():
    """Points that mix five modes: three are reported with a matrix, two are modelled beside it."""
    e = equation("normal", "parametric")
    points = np.sort(np.random.default_rng(0).uniform(0.0, 2.0, 8))
    fields = sl.simulate(start_of(e), 60, TIMES, points, seed=4, observation_std=0.05)
    words = {"initial": "deterministic", "observation_noise": "estimate"}
    law = sl.fit(fields, RING, 3, drift="normal", nuisance=2, **words)
    assert (law.info["n_nuisance"], law.dynamics.n_modes) == (2, 5)
    np.testing.assert_array_equal(law.linear.drift[:3, 3:], 0.0)
    estimate, error = (law.parameters.drift.sel(statistic=s).values for s in ("estimate", "stderr"))
    free = error > 0
    z = (estimate - e.drift_matrix[:3, :3])[free] / error[free]
    assert np.abs(z).max() < WITHIN
    alone = sl.fit(fields, RING, 3, drift="normal", nuisance=0, **words)
    assert alone.info["log_likelihood"] < law.info["log_likelihood"] - 100

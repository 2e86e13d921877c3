"""How many modes: the ladder, criteria that are good enough to compare, and no more than tell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fitted import INTERVAL

import spdelaw as sl
from spdelaw.data.observed import observe
from spdelaw.infer.engines.candidates import (
    MOST_COUPLED,
    MOST_GAPPY,
    MOST_PER_PATTERN,
    ROWS_PER_COUPLING,
    choose_modes,
    likeliest_total,
    needed_nuisance,
)

TIMES = np.arange(60.0)


@given(least=st.integers(1, 5), beyond=st.integers(0, 40), summit=st.integers(1, 45))
def test_the_summit_is_found(least, beyond, summit):
    most = least + beyond
    total = likeliest_total(lambda n: -float((n - summit) ** 2), least, most)
    assert total == min(max(summit, least), most)


def map_of(mean, missing=0.0):
    rng = np.random.default_rng(0)
    values = mean + 0.1 * rng.standard_normal((len(TIMES), 80))
    values += np.cumsum(rng.standard_normal((len(TIMES), 1)), 0)
    values[rng.random(values.shape) < missing] = np.nan
    points = np.linspace(0.1, 3.0, 80)
    return observe(sl.as_fields(values[None], times=TIMES, points=points), INTERVAL)


def test_a_mean_that_no_modes_hold_has_few_nuisance_modes():
    """Raw sea-surface temperatures had 60, and dense laws of them did not end."""
    rough = np.where(np.arange(80) % 3, 10.0, -10.0)
    decision = needed_nuisance(map_of(rough), 4)
    assert decision.answer == MOST_PER_PATTERN - 4
    assert decision.compared["residual_correlation"] > 0.9
    assert decision.compared["residual_mean"] > 0.9
    assert needed_nuisance(map_of(rough), 24).answer == 0


COUPLED = len(TIMES) // ROWS_PER_COUPLING


@pytest.mark.parametrize(
    ("missing", "couples", "most"),
    [
        (0.1, False, MOST_GAPPY),
        (0.0, True, len(TIMES) // ROWS_PER_COUPLING),
        (0.1, True, len(TIMES) // ROWS_PER_COUPLING),
    ],
)
def test_chosen_modes_are_no_more_than_tell(missing, couples, most):
    steps = np.where(np.arange(80) < 37, 5.0, -5.0)  # any number of modes gains
    chosen, is_enough, sentence = choose_modes(map_of(steps, missing), couples)
    assert chosen == most <= max(MOST_COUPLED, MOST_GAPPY)
    assert "BIC would select more" in sentence
    assert not is_enough


def test_modes_that_the_points_cannot_tell_apart_are_not_chosen():
    """Two levels hold two modes of the vertical: a default fit once asked for fewer modes."""
    rng = np.random.default_rng(0)
    deep = sl.Box((0.0, 1.0), (0.0, 1.0), (0.0, 3.0), boundary="neumann")
    axes = np.linspace(0, 1, 5), np.linspace(0, 1, 5), np.array([0.5, 2.0])
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
    values = np.cumsum(rng.standard_normal((1, 40, 1)), 1) * np.cos(np.pi * points[:, 0])
    values += 0.1 * rng.standard_normal(values.shape)
    words = {"times": np.arange(40), "points": points, "dims": ("x", "y", "z")}
    chosen, *_ = choose_modes(observe(sl.as_fields(values, **words), deep))
    assert np.linalg.matrix_rank(deep.eigenfunctions(points, chosen)) == chosen


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
@pytest.mark.parametrize(("size", "is_named"), [(3.0, True), (0.0, False)])
def test_a_mean_beyond_the_modes_is_named_with_its_remedy(size, is_named):
    """Coasts and mountains in raw temperatures: the law took them for noise without a word."""
    domain, times = sl.Interval(0, 1, "neumann"), 0.3 * np.arange(60)
    equation = sl.SpectralSPDE(domain, 2, [1.0, 2.0], noise=[1.0, 1.0], initial="stationary")
    fields = sl.simulate(equation, 1, times, domain.grid(25), seed=0, observation_std=0.1)
    rough = fields + size * np.sign(np.sin(40.0 * fields.x))
    notes = sl.fit(rough, domain, 2, mean="constant", initial="stationary").info["warnings"]
    notes = [note for note in notes if "is a constant mean at each point" in note]
    assert bool(notes) == is_named
    assert all("--anomalies mean" in note for note in notes)


def sensors(n_times=104, n_points=17):
    """Sensors that share nothing: each is an AR(1) process of its own size and memory."""
    rng = np.random.default_rng(3)
    rho, size = rng.uniform(0.3, 0.9, n_points), np.exp(rng.normal(0.0, 1.5, n_points))
    values = np.zeros((1, n_times, n_points))
    for t in range(1, n_times):
        values[0, t] = rho * values[0, t - 1] + size * rng.standard_normal(n_points)
    return sl.as_fields(values, times=np.arange(n_times), points=np.linspace(0, 1, n_points))


def test_what_single_sensors_remember_needs_no_modes():
    """Weekly counts of 17 districts once got 16 modes, and worse forecasts than persistence."""
    line = sl.Interval(0, 1, "neumann")
    chosen, is_enough, sentence = choose_modes(observe(sensors(), line))
    assert chosen <= 3
    assert is_enough
    assert "on 1 path among" in sentence


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
def test_modes_that_the_criterion_left_out_are_no_nuisance_modes():
    law = sl.fit(sensors(), sl.Interval(0, 1, "neumann"))
    assert law.n_modes <= 3
    assert "nuisance modes" not in law.info["assumed"]
    assert "residual with memory" in law.info["assumed"]

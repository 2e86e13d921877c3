"""Fits of raw data end: bounded searches, expected curvature, and no more modes than tell."""

import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der
from tests.infer.objectives import as_posterior

import spdelaw as sl
from spdelaw.data.observed import observe
from spdelaw.infer.engines.candidates import (
    MOST_COUPLED,
    MOST_GAPPY,
    MOST_OWN,
    ROWS,
    choose_modes,
    needed_nuisance,
)
from spdelaw.infer.engines.filter_route import build_objective
from spdelaw.infer.model import Model
from spdelaw.infer.optimise import ENOUGH, SEARCH_SECONDS, maximise

INTERVAL = sl.Interval(0.0, np.pi)
TIMES = np.arange(60.0)


def banana(x):
    """A curved ridge in 80 dimensions, its end at one."""
    return -1e3 * rosen(x), -1e3 * rosen_der(x)


def climb(seconds):
    calls = []

    def objective(x):
        calls.append(x)
        return banana(x)

    found = maximise(as_posterior(objective, np.full(80, 0.1), seconds), polish=False)
    return found, len(calls)


def test_a_search_of_slow_evaluations_is_bounded_and_keeps_what_it_found():
    free, many = climb(0.0)
    bound, few = climb(SEARCH_SECONDS)  # one evaluation would take all of it
    assert many > 2 * ENOUGH
    assert few < 1.3 * ENOUGH
    start = banana(np.zeros(80))[0]
    assert start < bound.value <= free.value


def test_a_law_that_ends_short_says_what_to_try():
    found = maximise(as_posterior(banana, np.full(80, 0.1), SEARCH_SECONDS))
    assert not found.converged
    assert "the search ended" in found.note
    assert "anomalies" in found.note


def test_expected_curvature_is_that_of_differences():
    """Of a long noisy record of coupled modes, each direction to a quarter.

    Null: standard errors of a curvature of 3,000 rows are some percent.
    """
    equation = sl.catalogue.heat(n_modes=2)
    points = np.linspace(0.1, 3.0, 12)
    fields = sl.simulate(equation, 1, 0.2 * np.arange(3000), points, seed=0, observation_std=0.2)
    model = Model(drift="dense", mean="zero", initial="stationary", nuisance=0)
    problem = build_objective(observe(fields, INTERVAL), 2, model)
    posterior = problem.posterior(problem.run().full)
    zero = np.zeros(len(posterior.scale))
    expected = posterior.expected_information(zero)
    step = 1e-3 * posterior.scale
    rows = [
        (posterior.at(-s)[1] - posterior.at(s)[1]) / (2.0 * s.max())
        for s in np.diag(step)
    ]  # fmt: skip
    ratios = np.linalg.eigvals(np.linalg.solve(expected, np.array(rows))).real
    assert (np.abs(np.log(ratios)) < np.log(1.25)).all()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ({"drift": "dense"}, "differenced"),
        ({"drift": "dense", "slow": True}, "expected"),
        ({"drift": "dense", "noise": "dense", "quiet": True}, "analytic"),
        ({"bootstrap": 2}, "bootstrap"),
    ],
)
def test_a_law_says_how_its_standard_errors_were_made(monkeypatch, words, wanted):
    words = dict(words)
    quiet = words.pop("quiet", False)
    if words.pop("slow", False):
        monkeypatch.setattr("spdelaw.infer.optimise.DIFFERENCE_SECONDS", 0.0)
        monkeypatch.setattr("spdelaw.infer.optimise.SLOW", 0.0)
    fields = sl.simulate(
        sl.catalogue.heat(n_modes=2), 3, TIMES / 20, np.linspace(0.1, 3, 7), seed=0,
        observation_std=0.0 if quiet else 0.2,
    )  # fmt: skip
    if not quiet:
        fields = sl.mask(fields, "random", 0.2, seed=0)
    start = "deterministic" if quiet else "stationary"
    law = sl.fit(fields, INTERVAL, 2, mean="zero", nuisance=0, initial=start, **words)
    assert law.info["standard_errors"] == wanted
    assert ("standard errors are those that the law expects" in repr(law)) == (wanted == "expected")


def map_of(mean, missing=0.0, n_points=80):
    rng = np.random.default_rng(0)
    values = mean + 0.1 * rng.standard_normal((len(TIMES), n_points))
    values += np.cumsum(rng.standard_normal((len(TIMES), 1)), 0)
    values[rng.random(values.shape) < missing] = np.nan
    points = np.linspace(0.1, 3.0, n_points)
    return observe(sl.as_fields(values[None], times=TIMES, points=points), INTERVAL)


def test_a_mean_that_no_modes_hold_has_few_nuisance_modes():
    """Raw sea-surface temperatures had 60, and dense laws of them did not end."""
    rough = np.where(np.arange(80) % 3, 10.0, -10.0)
    decision = needed_nuisance(map_of(rough), 4)
    assert decision.answer == MOST_OWN - 4
    assert decision.compared["residual_correlation"] > 0.9
    assert decision.compared["residual_mean"] > 0.9
    assert needed_nuisance(map_of(rough), 24).answer == 0


@pytest.mark.parametrize(
    ("missing", "couples", "most"),
    [(0.1, False, MOST_GAPPY), (0.0, True, len(TIMES) // ROWS), (0.1, True, len(TIMES) // ROWS)],
)
def test_chosen_modes_are_no_more_than_tell(missing, couples, most):
    steps = np.where(np.arange(80) < 37, 5.0, -5.0)  # any number of modes gains
    found, sentence = choose_modes(map_of(steps, missing), couples)
    assert found == most <= max(MOST_COUPLED, MOST_GAPPY)
    assert "the criterion would take more" in sentence


def test_modes_that_the_points_cannot_tell_apart_are_not_chosen():
    """Two levels hold two modes of the vertical: a default fit once asked for fewer modes."""
    rng = np.random.default_rng(0)
    deep = sl.Box((0.0, 1.0), (0.0, 1.0), (0.0, 3.0), boundary="neumann")
    axes = np.linspace(0, 1, 5), np.linspace(0, 1, 5), np.array([0.5, 2.0])
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
    values = np.cumsum(rng.standard_normal((1, 40, 1)), 1) * np.cos(np.pi * points[:, 0])
    values += 0.1 * rng.standard_normal(values.shape)
    words = {"times": np.arange(40), "points": points, "dims": ("x", "y", "z")}
    found, _ = choose_modes(observe(sl.as_fields(values, **words), deep))
    assert np.linalg.matrix_rank(deep.eigenfunctions(points, found)) == found


def test_profiles_of_slow_evaluations_are_bounded(monkeypatch):
    """What was profiled before the work was done stays; the rest has its standard error's ends."""
    heat = sl.catalogue.heat(n_modes=3, initial="stationary")
    fields = sl.simulate(heat, 2, np.linspace(0, 1, 31), np.linspace(0, np.pi, 21), seed=1)
    gappy = sl.mask(fields, "random", 0.3, seed=2)
    words = {"observation_noise": "none", "nuisance": 0, "mean": "zero", "initial": "stationary"}
    whole = sl.fit(gappy, heat.domain, 3, **words)
    monkeypatch.setattr("spdelaw.infer.uncertainty.SLOW", 0.0)
    monkeypatch.setattr("spdelaw.infer.uncertainty.PROFILE_SECONDS", 0.0)
    monkeypatch.setattr("spdelaw.infer.uncertainty.ENOUGH", 1)
    bound = sl.fit(gappy, heat.domain, 3, **words)
    plain = sl.fit(gappy, heat.domain, 3, engine=sl.Exact(profile=False), **words)
    profiled = set(bound.info["profiled"])
    assert profiled < set(whole.info["profiled"])
    for name in ("eigenvalue", "noise_variance"):
        for n in range(3):
            other = whole if f"{name}[{n + 1}]" in profiled else plain
            ends, expected = (
                law.parameters[name].sel(statistic=["lower", "upper"]).values[n]
                for law in (bound, other)
            )
            np.testing.assert_allclose(ends, expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
@pytest.mark.parametrize(("size", "is_told"), [(3.0, True), (0.0, False)])
def test_a_mean_beyond_the_modes_is_named_with_its_remedy(size, is_told):
    """Coasts and mountains in raw temperatures: the law took them for noise without a word."""
    domain = sl.Interval(0, 1, "neumann")
    equation = sl.SpectralSPDE(domain, 2, [1.0, 2.0], noise=[1.0, 1.0], initial="stationary")
    fields = sl.simulate(
        equation, 1, 0.3 * np.arange(60), domain.grid(25), seed=0, observation_std=0.1
    )
    rough = fields + size * np.sign(np.sin(40.0 * fields.x))
    notes = sl.fit(rough, domain, 2, mean="constant", initial="stationary").info["warnings"]
    told = [note for note in notes if "is a mean that stays at each point" in note]
    assert bool(told) == is_told
    assert all("--anomalies mean" in note for note in told)

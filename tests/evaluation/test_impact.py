"""The verdict in two parts: whether a law departs from the data, and whether it matters."""

import json

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.evaluation.checks.impact import Impact, impact_of
from spdelaw.evaluation.rivals import rival_predictions
from spdelaw.evaluation.scores import LEVELS, Prediction, ScoreTable, score_names, units_of
from spdelaw.evaluation.tasks import SHORTEST_STRETCH, Task

pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.SpdeLawWarning")
INTERVAL = sl.Interval(0, np.pi)
TIMES, GRID = np.linspace(0, 1, 41), np.linspace(0.05, 3.1, 17)


def card(true, stated, seed=0, n_modes=3, **words):
    """A law of 20 paths with some observation noise, judged on 20 others."""
    heat = sl.catalogue.heat(n_modes=3)
    data = sl.simulate(heat, 40, TIMES, GRID, seed=seed, observation_std=true)
    words = {"observation_noise": stated, "mean": "zero", "nuisance": 0, **words}
    return sl.evaluate(sl.fit(data[:20], INTERVAL, n_modes, **words), data[20:])


@pytest.mark.parametrize(("true", "stated"), [(0.1, 0.001), (0.01, 0.1)])
def test_a_wrong_stated_noise_is_noticed_and_matters(true, stated):
    result = card(true, stated)
    assert "outside the modes" in result.check.rejected
    assert result.answer == "departs, do not rely on it"
    assert result.verdict.startswith("the model does not fit: ")
    assert "do not rely on its predictions: 50/80/95 % bands hold" in result.verdict
    assert any("outside the modes" in line for line in result.advice)


def test_noise_that_the_user_denies_is_noticed():
    result = card(0.2, "none", nuisance="auto")
    assert not result.check.fits
    assert result.answer == "departs, do not rely on it"


def test_a_departure_that_does_not_matter():
    """Noise inside the modes is denied, but what is outside them is in the bands."""
    result = card(0.2, "none")
    assert not result.check.fits
    assert result.answer == "departs but predictions hold"
    assert "; its predictions hold: 50/80/95 % bands hold" in result.verdict
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert plain["impact"]["predictions_hold"] is True
    assert plain["impact"]["nats_lost"] < 0  # ahead of the rivals


def test_the_right_law_fits():
    result = card(0.1, "estimate")
    assert result.answer == "fits"
    assert result.verdict == result.check.verdict
    assert result.impact.predictions_hold
    assert result.impact.rival in ("climatology", "damped persistence")


def test_without_held_out_values_there_is_no_impact():
    data = sl.simulate(sl.catalogue.heat(n_modes=3), 20, TIMES, GRID, seed=0, observation_std=0.1)
    law = sl.fit(data, INTERVAL, 3, observation_noise=0.001, mean="zero", nuisance=0)
    result = sl.evaluate(law, data, tiers=("reconstruct",))
    assert result.impact is None
    assert result.answer == "departs"
    assert result.verdict == result.check.verdict


def test_false_alarms_of_what_lies_outside_the_modes():
    """Finer modes with memory, alike at close times: 30 records, none below 1e-3.

    Of uniform p-values 0.03 would be.
    """
    heat, p = sl.catalogue.heat(n_modes=8, initial="stationary"), []
    words = {"observation_noise": "none", "initial": "stationary", "mean": "zero", "nuisance": 0}
    for seed in range(30):
        data = sl.simulate(heat, 44, np.linspace(0, 1, 21), GRID, seed=seed)
        law = sl.fit(data[:20], INTERVAL, 3, **words)
        p.append(sl.evaluate(law, data[20:], tiers=()).check.overall["outside the modes"])
    assert min(p) > 1e-3


def test_rivals_by_hand():
    x = np.array([[1.0, 3.0, 2.0, 9.0, 9.0]])[..., None]
    given = np.array([[True, True, True, False, False]])[..., None]
    climatology, damped = rival_predictions(x, Task(given, ~given))
    away = np.array([-1.0, 1.0, 0.0])
    np.testing.assert_allclose(climatology.mean[0, 3:, 0], 2.0)
    np.testing.assert_allclose(climatology.std[0, 3:, 0], np.sqrt((away**2).mean()))
    r = np.clip((away[1:] @ away[:-1]) / (away[:-1] @ away[:-1]), 0.0, 1.0)
    assert r == 0.0
    np.testing.assert_allclose(damped.mean[0, 3:, 0], 2.0)
    y = np.array([[1.0, 2.0, 3.0, 9.0, 9.0]])[..., None]
    away, r = np.array([-1.0, 0.0, 1.0]), 0.0
    gap = np.array([[True, True, False, True, False]])[..., None]
    _, damped = rival_predictions(y, Task(gap, ~gap))
    away = np.array([1.0, 2.0, 9.0]) - 4.0
    r = min(max((away[0] * away[1]) / away[0] ** 2, 0.0), 1.0)
    np.testing.assert_allclose(damped.mean[0, 2, 0], 4.0 + r * away[1])
    np.testing.assert_allclose(damped.std[0, 2, 0] ** 2, (1 - r**2) * (away**2).mean())


def test_impact_of_a_table_by_hand():
    """Bands of half the width, and a rival whose deviation is right."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((40, 50, 1))
    law, right = (Prediction(0.0 * truth, np.full(truth.shape, s)) for s in (0.5, 1.0))
    units = np.arange(40)[:, None, None]
    impact = impact_of({"gaps": ScoreTable.of([law, right], truth, units, 40)})
    shares = [np.mean(np.abs(truth) <= 0.5 * q) for q in (0.67448975, 1.28155157, 1.95996398)]
    np.testing.assert_allclose(impact.coverage, shares)
    lost = np.mean(0.5 * truth**2 * (4 - 1)) + np.log(0.5)
    assert impact.nats_lost == pytest.approx(lost)
    assert not impact.predictions_hold
    assert impact_of({"gaps": ScoreTable(score_names(), np.zeros((1, 1, 6)), np.zeros(1))}) is None
    exact = tuple(level / 100 for level in LEVELS)
    zero = (0.0,) * len(LEVELS)
    assert Impact("gaps", exact, zero, float("nan"), "").predictions_hold
    assert not Impact("gaps", exact, zero, 0.2, "climatology").predictions_hold


def test_a_distribution_with_two_peaks_is_judged_by_its_outer_band():
    """Few values of a field between two wells are near its mean."""
    zero = (0.0,) * len(LEVELS)
    assert Impact("predict", (0.2, 0.65, 0.96), zero, float("nan"), "").predictions_hold
    assert not Impact("predict", (0.5, 0.8, 0.85), zero, float("nan"), "").predictions_hold


def test_stretches_of_short_paths_are_no_units():
    """Two paths of 12 times are two independent errors at most."""
    assert len(np.unique(units_of(2, 12, SHORTEST_STRETCH))) == 2
    assert len(np.unique(units_of(2, 100, SHORTEST_STRETCH))) == 20


def test_a_right_bistable_law_fits():
    """The Gaussian closure followed one of two wells: 95 % bands held 62 to 85 %."""
    ring = sl.Interval(0, 2 * np.pi, "periodic")
    linear = sl.SpectralSPDE(ring, 5, sl.OperatorFormula(nu=0.1), noise=sl.White(0.3), initial=0.1)
    equation = sl.Semilinear(linear, {"u": 3.0, "u^3": -3.0})
    data = sl.simulate(equation, 20, np.linspace(0, 2, 41), ring.grid(16), seed=3)
    result = sl.evaluate(sl.fit(data[:10], ring, 5, terms=("u", "u^3")), data[10:])
    assert result.answer == "fits"
    assert result.verdict == result.check.verdict
    assert result.tiers["predict"].coverage == pytest.approx(0.95, abs=0.04)

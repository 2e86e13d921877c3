"""Model checks: quiet on the right model at the stated rate, loud on wrong ones."""

import numpy as np
import pytest
from scipy import stats

import spdelaw as sl
from spdelaw.evaluation.checks.suite import suite_of
from spdelaw.evaluation.checks.verdict import check_model

GRID = np.linspace(0, np.pi, 12)
TIMES = np.linspace(0, 1, 61)


def simulate(n_paths, seed, **settings):
    return sl.simulate(sl.catalogue.heat(4), n_paths, TIMES, GRID, seed=seed, **settings)


@pytest.fixture(scope="module")
def law():
    return sl.fit(simulate(200, 0), sl.Interval(0, np.pi), 4)


def test_false_alarms_come_at_the_stated_rate(law):
    """At most 1 %: of 60 data sets more than 5 alarms have probability below 1e-4."""
    alarms = sum(not check_model(law, simulate(40, seed)).fits for seed in range(100, 160))
    assert alarms <= stats.binom.isf(1e-4, 60, 0.01)


@pytest.mark.parametrize("observation_std", [0.0, 0.05])
def test_innovations_are_standard_normal_and_white(observation_std, law):
    """Under the true parameters, at false-alarm rate 1e-4 (Bonferroni)."""
    data = simulate(60, 7, observation_std=observation_std)
    if observation_std:
        law = sl.fit(simulate(300, 8, observation_std=observation_std), sl.Interval(0, np.pi), 4)
    check = check_model(law, data)
    assert check.unit == "mode"
    z = check.innovations[:, 1:]
    assert np.isfinite(z).all()
    n = z[..., 0].size
    bound = stats.norm.isf(1e-4 / 24) * 1.2  # 1.2: the parameters are estimated
    assert np.abs(z.mean((0, 1))).max() < bound / np.sqrt(n)
    assert np.abs((z**2).mean((0, 1)) - 1).max() < bound * np.sqrt(2 / n)
    assert np.abs((z[:, 1:] * z[:, :-1]).mean((0, 1))).max() < bound / np.sqrt(n)
    if observation_std:
        gappy = sl.mask(data, "random", fraction=0.3, seed=0)
        z = check_model(law, gappy).innovations[:, 1:]
        there = z[np.isfinite(z)]
        assert there.size > 0.5 * z.size
        square = stats.norm.isf(0.5e-4) * np.sqrt(2 / there.size) * 1.3
        assert abs((there**2).mean() - 1) < square


@pytest.mark.parametrize(
    ("change", "std", "words"),
    [
        ({"nu": 3.0}, 0.0, [""]),
        ({"noise": sl.PowerLaw(2.01, 1.5)}, 0.0, ["mode 1 variance"]),
        ({}, 0.05, ["memory", "variance"]),
    ],
)
def test_wrong_drift_noise_and_observations_are_seen(law, change, std, words):
    equation = sl.catalogue.heat(4, **change)
    check = check_model(law, sl.simulate(equation, 50, TIMES, GRID, seed=3, observation_std=std))
    assert not check.fits
    assert "does not fit" in check.verdict
    assert any(word in name for name in check.rejected for word in words)


def test_heavy_tails_are_seen(law):
    """The right second moments with Student noise of five degrees of freedom."""
    e, rng = sl.catalogue.heat(4), np.random.default_rng(0)
    dt = np.diff(TIMES)[:, None]
    a = np.exp(-e.eigenvalues * dt)
    omega = e.noise_variance * (1 - a**2) / (2 * e.eigenvalues)
    c = np.tile(e.initial_mean, (100, len(TIMES), 1))
    for t in range(len(TIMES) - 1):
        shock = rng.standard_t(5, size=(100, 4)) / np.sqrt(5 / 3)
        c[:, t + 1] = a[t] * c[:, t] + np.sqrt(omega[t]) * shock
    fields = sl.as_fields(e.domain.synthesise(c, GRID), times=TIMES, points=GRID)
    check = check_model(law, fields)
    assert any("normality" in name for name in check.rejected)
    assert not any("variance" in name for name in check.rejected)


def test_unmodelled_observation_noise_is_seen(law):
    found = check_model(law, simulate(50, 5, observation_std=0.05)).rejected
    assert any("memory" in name or "variance" in name for name in found)


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
def test_a_short_record_says_that_it_is_too_short():
    """Once: no row of the data determines all modes, of complete fields."""
    equation = sl.catalogue.heat(n_modes=2, initial="stationary")
    short = sl.simulate(equation, 1, 0.1 * np.arange(11.0), np.linspace(0.3, 2.8, 7), seed=0)
    law = sl.fit(short, equation.domain, 2, mean="zero")
    verdict = sl.evaluate(law, short, tiers=()).check.verdict
    assert verdict == "model not checked: 10 errors of single steps are too few, 20 are needed"


def test_the_verdict_does_not_depend_on_the_unit_of_the_field():
    """In metres a box has areas of 1e12, and so have variances: rounding was taken for errors."""
    equation = sl.catalogue.heat(n_modes=2, initial="stationary")
    where = 0.2 * np.arange(80), np.linspace(0.3, 2.8, 7)
    one = sl.simulate(equation, 1, *where, seed=0, observation_std=0.1)
    how = {"mean": "zero", "initial": "deterministic", "nuisance": 0}
    checks = [
        sl.evaluate(sl.fit(data, equation.domain, 2, **how), data, tiers=()).check
        for data in (one, 1e12 * one)
    ]
    np.testing.assert_allclose(*(c.p_values.variance.values for c in checks), rtol=0.05)
    assert checks[0].rejected == checks[1].rejected


def test_scores_are_shown_with_digits_in_any_unit():
    """Once 0.0000, and 2305931016296.3472."""
    equation = sl.catalogue.heat(n_modes=2, initial="stationary")
    one = sl.simulate(equation, 2, 0.2 * np.arange(30), np.linspace(0.3, 2.8, 7), seed=0)
    law = sl.fit(1e-9 * one, equation.domain, 2, mean="zero", nuisance=0)
    text = str(sl.evaluate(law, 1e-9 * one, tiers=("forecast",)))
    assert "e-" in next(line for line in text.splitlines() if line.startswith("forecast"))


def test_rounding_is_no_regressor():
    """On a ring u u_x has no part in the constant mode: its projection there is rounding."""
    ring = sl.catalogue.advection_diffusion(3, speed=2.0)
    fields = sl.simulate(ring, 20, seed=0)
    law = sl.fit(fields, ring.domain, 3, drift="normal", mean="zero")
    suite = suite_of(law, law.observe(fields), law, False)
    columns = suite._columns_of(suite.missing_terms)
    size = np.nansum(columns**2, (1, 2))
    assert (size[2] > 0).tolist() == [False, True, True]
    assert (size[:2] > 0).all()

"""Trajectory scores against definitions written out, quadrature and simulation."""

import numpy as np
import pytest
from scipy import integrate, stats

import spdelaw as sl
from spdelaw.evaluation.scores import gaussian_crps
from spdelaw.evaluation.tasks import coverage, mean_predictor
from spdelaw.law.derived import relative_l2, rmse


def test_relative_l2_is_the_mean_of_ratios():
    truth = np.array([[[1.0, 2.0]], [[3.0, 4.0]]])
    prediction = truth + np.array([[[1.0, 0.0]], [[0.0, 2.0]]])
    expected = 0.5 * (1 / np.sqrt(5) + 2 / 5)
    assert relative_l2(prediction, truth) == pytest.approx(expected, rel=1e-14)


def test_rmse_is_pooled():
    prediction = np.array([[[1.0, 1.0]], [[3.0, 3.0]]])
    assert rmse(prediction, np.zeros((2, 1, 2))) == pytest.approx(np.sqrt(5.0))  # not 1 and 3


def test_mean_predictor_on_a_case_by_hand():
    e = sl.catalogue.heat(2)
    fields = sl.simulate(e, 3, times=[0.0, 0.5, 1.0], grid=[0.5, 1.0], seed=0)
    x, m = fields.values[:, 1:], e.mean([0.5, 1.0], [0.5, 1.0]).values
    ratio = np.sqrt(((x - m) ** 2).sum((1, 2)) / (x**2).sum((1, 2)))
    score = mean_predictor(fields, e)
    assert score.relative_l2 == pytest.approx(ratio.mean())
    assert score.rmse == pytest.approx(np.sqrt(((x - m) ** 2).mean()))


def test_values_that_are_not_scored_do_not_count():
    rng = np.random.default_rng(0)
    truth, prediction = rng.normal(size=(2, 3, 4, 5))
    hidden = rng.uniform(size=truth.shape) < 0.4
    gappy = np.where(hidden, np.nan, truth)
    for score in (relative_l2, rmse):
        changed = np.where(hidden, 99.0, prediction)
        assert score(prediction, gappy) == score(changed, gappy)
    nowhere = np.array([[[4.0, np.nan]]])  # a value without a prediction is not in the norm
    assert relative_l2(nowhere, np.array([[[3.0, 100.0]]])) == pytest.approx(1 / 3)


@pytest.mark.parametrize(("m", "s", "x"), [(0.0, 1.0, 0.3), (1.0, 0.2, -2.0), (-3.0, 5.0, 4.0)])
def test_crps_against_its_integral(m, s, x):
    """CRPS = int (F(u) - 1{u >= x})^2 du."""
    left, _ = integrate.quad(lambda u: stats.norm.cdf(u, m, s) ** 2, m - 40 * s, x, limit=200)
    right, _ = integrate.quad(lambda u: stats.norm.sf(u, m, s) ** 2, x, max(x, m) + 40 * s,
                              limit=200)  # fmt: skip
    assert float(gaussian_crps(np.array(m), np.array(s), np.array(x))) == pytest.approx(
        left + right, rel=1e-7
    )


def test_crps_of_certainty_is_the_absolute_error():
    assert float(gaussian_crps(np.array(1.0), np.array(0.0), np.array(3.5))) == 2.5


def test_coverage_of_the_right_law_is_its_level():
    """Binomial band at false-alarm rate 1e-4."""
    rng = np.random.default_rng(1)
    n = 20_000
    truth = rng.normal(size=(1, n, 1))
    for level in (0.5, 0.95):
        inside = coverage(np.zeros_like(truth), np.ones_like(truth), truth, level) * n
        low, high = stats.binom.ppf([0.5e-4, 1 - 0.5e-4], n, level)
        assert low <= inside <= high


def test_coverage_of_what_is_known_beforehand_does_not_exist():
    truth = np.ones((1, 5, 1))
    assert np.isnan(coverage(truth, np.zeros_like(truth), truth))

"""Likelihood and score of noise with seasons: the joint Gaussian in full, finite differences."""

import numpy as np
import pytest
from scipy import stats
from tests.model.cases import PATTERNS, make

import spdelaw as sl
from spdelaw.model import evaluate_likelihood, rotate

SEASON = sl.Season(0.5, [3.0, 0.4, 1.1], origin=0.05)
every_case = [(kind, pattern) for kind in ("deterministic", "gaussian") for pattern in PATTERNS]
SCORES = {"eigenvalues": "by_eigenvalue", "noise_variance": "by_noise_variance"}


def covariance_in_time(p, times):
    """``Cov(c_n(s), c_n(t))`` by adding up noise over a fine common grid; (N, T, T)."""
    out = []
    for lam, q, v0 in zip(p.eigenvalues, p.noise_variance, p.initial_variance, strict=True):
        start = np.full(len(times), times[0])
        own = q * SEASON.integral(np.full(len(times), 2 * lam), start, times)
        own = own + np.exp(-2 * lam * (times - times[0])) * v0
        early = np.minimum.outer(np.arange(len(times)), np.arange(len(times)))
        out.append(np.exp(-lam * np.abs(np.subtract.outer(times, times))) * own[early])
    return np.array(out)


@pytest.mark.parametrize(("kind", "pattern"), every_case)
def test_likelihood_is_that_of_the_joint_gaussian(kind, pattern):
    case = make(kind, pattern)
    p = case.parameters._replace(season=SEASON)
    got = evaluate_likelihood(case.collapsed, p).log_likelihood
    for i, y in enumerate(case.values):
        t = case.clock(i)
        c = covariance_in_time(p, t)
        full = np.einsum("xn,nst,yn->sxty", case.phi, c, case.phi).reshape(y.size, y.size)
        full += float(p.observation_variance) * np.eye(y.size)
        decay = np.exp(-np.outer(t - t[0], p.eigenvalues)) * p.initial_mean
        mean, seen = (decay @ case.phi.T).ravel(), ~np.isnan(y.ravel())
        expected = stats.multivariate_normal(
            mean[seen], full[np.ix_(seen, seen)], allow_singular=False
        ).logpdf(y.ravel()[seen])
        np.testing.assert_allclose(got[i], expected, rtol=1e-9)


@pytest.mark.parametrize(("kind", "pattern"), every_case)
def test_score_by_differences(kind, pattern):
    case = make(kind, pattern)
    p = case.parameters._replace(season=SEASON)

    def total(q):
        return evaluate_likelihood(data, q).log_likelihood.sum()

    for data in (case.collapsed, rotate(case.collapsed)):
        found = evaluate_likelihood(data, p)
        for field, name in SCORES.items():
            x = np.asarray(getattr(p, field))
            for n in range(3):
                h = 1e-5 * x[n] * np.eye(3)[n]
                ends = total(p._replace(**{field: x + h})) - total(p._replace(**{field: x - h}))
                slope = ends / (2 * h[n])
                assert getattr(found, name)[n] == pytest.approx(slope, rel=1e-5, abs=1e-5)
        # Weights keep their mean of 1: along a direction that does.
        direction = np.array([1.0, -0.3, -0.7])
        ends = [
            total(p._replace(season=SEASON.with_weights(SEASON.weights + s * 1e-6 * direction)))
            for s in (1, -1)
        ]
        slope = (ends[0] - ends[1]) / 2e-6
        assert found.by_season @ direction == pytest.approx(slope, rel=1e-5, abs=1e-5)

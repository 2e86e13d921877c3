"""Parts of filling: kriging of the residual against a Gaussian, and climatologies completed."""

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.evaluation.gap_filling import completed
from spdelaw.evaluation.gap_selection import Candidate, Trial, ranked
from spdelaw.evaluation.scores import ScoreTable, score_names
from spdelaw.law.residuals import (
    RIDGE,
    Covariance,
    Grid,
    Kernel,
    Values,
    choose_kernel,
    krige,
    shared_covariance,
)


def places(n, rng, n_paths=1):
    return Values(
        rng.integers(0, n_paths, n).astype(float), rng.uniform(0, 3, n), rng.uniform(0, 2, (n, 2))
    )


@pytest.mark.parametrize("smooth", [False, True])
def test_kriging_with_all_neighbours_is_the_gaussian_answer(smooth):
    rng, kernel = np.random.default_rng(0), Kernel(0.7, 1.3, 0.2, 2.0, smooth)
    given, there = places(15, rng), places(4, rng)
    residual = rng.standard_normal(15)

    def correlation(a, b):
        d = np.hypot(*((a.position[:, None] - b.position) / [0.7, 1.4]).transpose(2, 0, 1))
        shape = (1 + np.sqrt(3) * d) * np.exp(-np.sqrt(3) * d) if smooth else np.exp(-d)
        return shape * np.exp(-np.abs(a.time[:, None] - b.time) / 1.3)

    cov = correlation(given, given) + kernel.noise * np.eye(15)
    cross = correlation(there, given)
    weights = np.linalg.solve(cov, cross.T)
    mean, share = krige(residual, given, there, kernel)
    np.testing.assert_allclose(mean, weights.T @ residual, atol=1e-7)
    np.testing.assert_allclose(share, 1 - np.sum(cross.T * weights, 0) + kernel.noise, atol=1e-7)
    apart = there._replace(path=np.ones(4))  # another path says nothing
    np.testing.assert_allclose(krige(residual, given, apart, kernel)[0], 0.0, atol=1e-12)


def test_white_rests_get_no_kernel_and_smooth_ones_do():
    rng = np.random.default_rng(2)
    given, there = places(600, rng), places(300, rng)

    def wave(v):
        return np.sin(3 * v.position[:, 0]) * np.cos(2 * v.time)

    result = choose_kernel(wave(given), given, wave(there), there, (0.1, 0.1))
    assert result is not None
    error = krige(wave(given), given, there, result)[0] - wave(there)
    assert np.mean(error**2) < 0.05 * np.mean(wave(there) ** 2)
    assert choose_kernel(np.zeros(600), given, wave(there), there, (0.1, 0.1)) is None


def test_months_that_a_point_never_saw_come_from_its_neighbours():
    times = np.array(["2001-01-15", "2001-07-15", "2002-01-15", "2002-07-15"], "datetime64[ns]")
    x = np.linspace(0, 1, 21)
    month = np.array([1.0, -1.0, 1.0, -1.0])
    values = month[:, None] * (2 + 3 * x)  # a plane in space, different in the two months
    values[[0, 2], 7] = np.nan
    fields = xr.DataArray(values[None], {"time": times, "x": x}, ("path", "time", "x"))
    learned = sl.Preparation(anomalies="month").learn(fields)
    assert np.isnan(learned.coefficients).sum() == 1
    full = completed(learned)
    np.testing.assert_allclose(full.coefficients[0], 2 + 3 * x, atol=1e-9)
    np.testing.assert_allclose(full.coefficients[1], -2 - 3 * x, atol=1e-9)
    assert completed(full) is full


def test_a_shared_rest_is_the_gaussian_answer_and_learns_who_goes_with_whom():
    """Points far apart that go together: distance cannot know, the learned covariance does."""
    rng = np.random.default_rng(3)
    points = np.arange(8.0)[:, None]
    left, right = rng.standard_normal((2, 1, 400, 4))
    residual = np.concatenate([left, left + 0.3 * right], axis=-1)  # k and k + 4 are alike
    gappy = np.where(rng.uniform(size=residual.shape) < 0.2, np.nan, residual)
    result, _ = shared_covariance(gappy, points, 0.95)
    cov = np.kron([[1, 1], [1, 1.09]], np.eye(4))
    np.testing.assert_allclose(result, cov, atol=0.25)
    row = gappy[0, :1, :].copy()
    row[0, :3] = np.nan
    seen = np.isfinite(row[0])
    noisy = cov[np.ix_(seen, seen)] + RIDGE * np.diag(np.diag(cov)[seen])
    weights = np.linalg.solve(noisy, cov[np.ix_(seen, ~seen)])
    got = Covariance(0.95, cov, np.diag(cov)).predict(row[None], Grid(None, points))
    np.testing.assert_allclose(got.mean[0, 0, ~seen], row[0, seen] @ weights, atol=1e-10)
    spread = np.diag(cov[np.ix_(~seen, ~seen)] - cov[np.ix_(~seen, seen)] @ weights)
    np.testing.assert_allclose(got.variance[0, 0, ~seen], spread, atol=1e-10)
    np.testing.assert_allclose(got.mean[0, 0, seen], row[0, seen])


def test_fewest_modes_that_are_not_clearly_worse():
    generator = np.random.default_rng(3)
    base = generator.uniform(1.0, 2.0, 60)
    noise = generator.standard_normal(60)

    def trial(n_modes, by_time):
        candidate = Candidate("domain", "diagonal", n_modes)
        sums = np.zeros((len(by_time), 1, 6))
        sums[:, 0, 1] = by_time
        return Trial(candidate, "white", ScoreTable(score_names(), sums, np.ones(len(sums))))

    best = trial(32, base)
    by_chance = trial(4, base + 0.2 * noise - 0.2 * noise.mean() + 0.001)
    clearly = trial(2, base + 0.05 + 0.01 * noise)
    failed = Trial(Candidate("domain", "diagonal", 1), "white")
    result = ranked([clearly, failed, best, by_chance])
    assert [t.candidate.n_modes for t in result] == [4, 32, 2, 1]
    assert ranked([clearly, best])[0] is best
    assert ranked([failed])[0] is failed

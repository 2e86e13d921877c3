"""Observation noise known value by value, against the joint Gaussian of all values."""

import dataclasses

import numpy as np
import pytest
import xarray as xr
from scipy import linalg, stats

import spdelaw as sl
from spdelaw.errors import DataError
from spdelaw.processes.linear import Linear

DOMAIN = sl.Interval(0.0, np.pi)


def observed(seed=0):
    """Six gappy paths of two modes, each value with a deviation between 0.03 and 1."""
    rng = np.random.default_rng(seed)
    equation = sl.SpectralSPDE(DOMAIN, 2, [0.8, 3.0], noise=[1.0, 0.5], initial="stationary")
    points = np.sort(rng.uniform(0.2, 3.0, 7))
    fields = sl.simulate(equation, 6, 0.2 * np.arange(12), points, seed=seed)
    std = fields.copy(data=np.exp(rng.uniform(np.log(0.03), 0.0, fields.shape)))
    fields = fields + std * rng.standard_normal(std.shape)
    return fields.where(rng.random(std.shape) > 0.3), std


def fit(fields, **words):
    return sl.fit(fields, DOMAIN, 2, initial="stationary", mean="zero", **words)


def conditioned(law, fields, std, path, later=()):
    """Log density of a path, and mean and deviation of the field at its times and later."""
    t = np.concatenate([fields.time.values, later])
    phi = DOMAIN.eigenfunctions(fields.x.values, 2)
    lam, q = law.linear.drift, law.linear.noise
    apart = np.abs(t[:, None] - t)
    blocks = [q[n] / (2 * lam[n]) * np.exp(-lam[n] * apart) for n in range(len(lam))]
    joint = sum(np.kron(b, np.outer(phi[:, n], phi[:, n])) for n, b in enumerate(blocks))
    y, s = fields.values[path].ravel(), std.values[path].ravel()
    rows = np.flatnonzero(~np.isnan(y))
    noisy = joint[np.ix_(rows, rows)] + np.diag(s[rows] ** 2)
    gain = linalg.solve(noisy, joint[rows], assume_a="pos").T
    mean, left = gain @ y[rows], joint - gain @ joint[rows]
    density = stats.multivariate_normal(cov=noisy).logpdf(y[rows])
    shape = (len(t), len(fields.x))
    return density, mean.reshape(shape), np.sqrt(np.diag(left)).reshape(shape)


@pytest.fixture(scope="module")
def case():
    fields, std = observed()
    return fields, std, fit(fields, observation_noise=std)


def test_the_likelihood_is_that_of_the_joint_gaussian_at_its_maximum(case):
    fields, std, law = case
    with_std = fields.assign_coords(observation_std=std)
    by_hand = [conditioned(law, fields, std, p)[0] for p in range(len(fields))]
    np.testing.assert_allclose(law.log_likelihood(with_std), by_hand, rtol=1e-9)
    np.testing.assert_allclose(law.info["log_likelihood"], np.sum(by_hand), rtol=1e-9)
    for change in ([0.95, 1.0], [1.05, 1.0], [1.0, 0.95], [1.0, 1.05]):
        for drift, noise in ((change, 1.0), (1.0, change)):
            numbers = Linear(law.linear.drift * drift, law.linear.noise * noise)
            other = dataclasses.replace(law, dynamics=numbers)
            near = sum(conditioned(other, fields, std, p)[0] for p in range(len(fields)))
            assert near < np.sum(by_hand)


def test_reconstruction_and_forecast_condition_on_each_deviation(case, tmp_path):
    fields, std, law = case
    with_std, later = fields.assign_coords(observation_std=std), np.array([2.5, 3.0])
    law.save(tmp_path / "law")
    for one in (law, sl.load(tmp_path / "law")):
        near, far = one.reconstruct(with_std), one.forecast(with_std, later)
        for p in (0, 3):
            _, mean, deviation = conditioned(law, fields, std, p, later)
            for got, rows in ((near, slice(12)), (far, slice(12, None))):
                np.testing.assert_allclose(got["mean"][p], mean[rows], atol=1e-9)
                np.testing.assert_allclose(got["std_field"][p], deviation[rows], atol=1e-9)


def test_equal_deviations_are_one_noise():
    fields, std = observed(seed=1)
    one, same = (fit(fields, observation_noise=n) for n in (0.3, xr.full_like(std, 0.3)))
    np.testing.assert_allclose(same.info["log_likelihood"], one.info["log_likelihood"], rtol=1e-8)
    np.testing.assert_allclose(same.linear.drift, one.linear.drift, rtol=1e-4)
    assert float(same.observation_variance) == pytest.approx(0.09)


def test_the_coordinate_travels_with_the_data():
    """Given beside the data, in any order of dims and points, whole or per record: one law."""
    fields, std = observed(seed=2)
    std = std.isel(path=0, drop=True)
    given = fit(fields, observation_noise=std)
    turned = fields.transpose("x", "time", "path").isel(x=slice(None, None, -1))
    beside = turned.assign_coords(observation_std=std)
    same = fit(beside)
    assert same.info["observation_noise"] == given.info["observation_noise"] == "known per value"
    np.testing.assert_allclose(same.linear.drift, given.linear.drift, rtol=1e-10)
    a, b = given.log_likelihood(beside), given.log_likelihood(beside.isel(path=slice(2, 4)))
    np.testing.assert_allclose(a[2:4], b, rtol=1e-12)
    # The deviations of the first path are wrong for the others, and the verdict notices.
    assert "outside the modes" in sl.evaluate(given, beside, tiers=("gaps",)).check.rejected
    fields, std = observed(seed=2)
    beside = fields.assign_coords(observation_std=std)
    assert sl.evaluate(fit(beside), beside, tiers=("gaps",)).check.fits


def test_a_preparation_scales_the_deviations_too():
    fields, std = observed(seed=5)
    raw, raw_std = (10.0 * fields + 3.0).rename(x="lon"), (10.0 * std).rename(x="lon")
    how = sl.Preparation(rename={"lon": "x"}, anomalies="mean", standardise="whole")
    law = fit(raw, prepare=how, observation_noise=raw_std)
    scale = np.nanstd((raw - raw.mean(("path", "time"))).values)
    expected = np.nanmean(np.where(np.isnan(raw), np.nan, raw_std.values / scale) ** 2)
    np.testing.assert_allclose(law.observation_variance, expected, rtol=0.02)
    near = law.reconstruct(raw.assign_coords(observation_std=raw_std))
    assert float(np.sqrt(((near["mean"] - raw) ** 2 / raw_std**2).mean())) < 1.0
    coarse = sl.Preparation(rename={"lon": "x"}, coarsen={"x": 2})
    with pytest.raises(DataError, match="averaged"):
        fit(raw, prepare=coarse, observation_noise=raw_std)

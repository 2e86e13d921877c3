"""Observation noise known value by value, against the joint Gaussian of all values."""

import dataclasses

import numpy as np
import pytest
import xarray as xr
from scipy import linalg, stats

import spdelaw as sl
from spdelaw.errors import DataError, InputError
from spdelaw.processes.linear import Linear

LAM, Q = np.array([0.8, 3.0]), np.array([1.0, 0.5])
DOMAIN = sl.Interval(0.0, np.pi)


def observed(paths=6, times=12, points=7, seed=0, gaps=0.3):
    """Fields of two modes, each value with a deviation between 0.03 and 1."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0.2, 3.0, points))
    phi, t = DOMAIN.eigenfunctions(x, 2), 0.2 * np.arange(times)
    a = np.exp(-LAM * 0.2)
    size = np.sqrt(Q / (2 * LAM))
    c = [size * rng.standard_normal((paths, 2))]
    for _ in t[1:]:
        c.append(a * c[-1] + size * np.sqrt(1 - a**2) * rng.standard_normal((paths, 2)))
    std = np.exp(rng.uniform(np.log(0.03), 0.0, (paths, times, points)))
    values = np.stack(c, 1) @ phi.T + std * rng.standard_normal(std.shape)
    values[rng.random(values.shape) < gaps] = np.nan
    coords = {"path": np.arange(paths), "time": t, "x": x}
    fields = xr.DataArray(values, coords, ("path", "time", "x"))
    return fields, fields.copy(data=std)


def covariance(law, t, phi):
    """Covariance of the field at all times and points, flat."""
    lam, q = law.linear.drift, law.linear.noise
    apart = np.abs(t[:, None] - t)
    blocks = [q[n] / (2 * lam[n]) * np.exp(-lam[n] * apart) for n in range(len(lam))]
    return sum(np.kron(b, np.outer(phi[:, n], phi[:, n])) for n, b in enumerate(blocks))


def conditioned(law, fields, std, path, later=()):
    """Log density of a path, and mean and deviation of the field at its times and later."""
    t = np.concatenate([fields.time.values, later])
    phi = DOMAIN.eigenfunctions(fields.x.values, 2)
    joint = covariance(law, t, phi)
    y, s = fields.values[path].ravel(), std.values[path].ravel()
    seen = np.flatnonzero(~np.isnan(y))
    noisy = joint[np.ix_(seen, seen)] + np.diag(s[seen] ** 2)
    gain = linalg.solve(noisy, joint[seen], assume_a="pos").T
    mean, left = gain @ y[seen], joint - gain @ joint[seen]
    density = stats.multivariate_normal(cov=noisy).logpdf(y[seen])
    shape = (len(t), len(fields.x))
    return density, mean.reshape(shape), np.sqrt(np.diag(left)).reshape(shape)


@pytest.fixture(scope="module")
def case():
    fields, std = observed()
    return fields, std, sl.fit(fields, DOMAIN, 2, initial="stationary", observation_noise=std)


def test_the_likelihood_is_that_of_the_joint_gaussian(case):
    fields, std, law = case
    with_std = fields.assign_coords(observation_std=std)
    by_hand = [conditioned(law, fields, std, p)[0] for p in range(len(fields))]
    np.testing.assert_allclose(law.log_likelihood(with_std), by_hand, rtol=1e-9)
    np.testing.assert_allclose(law.info["log_likelihood"], np.sum(by_hand), rtol=1e-9)


def test_reconstruction_and_forecast_condition_on_each_deviation(case, tmp_path):
    fields, std, law = case
    with_std, later = fields.assign_coords(observation_std=std), np.array([2.5, 3.0])
    law.save(tmp_path / "law")
    for own in (law, sl.load(tmp_path / "law")):
        near, far = own.reconstruct(with_std), own.forecast(with_std, later)
        for p in (0, 3):
            _, mean, deviation = conditioned(law, fields, std, p, later)
            for found, rows in ((near, slice(12)), (far, slice(12, None))):
                np.testing.assert_allclose(found["mean"][p], mean[rows], atol=1e-9)
                np.testing.assert_allclose(found["std"][p], deviation[rows], atol=1e-9)


def test_no_law_is_likelier_nearby(case):
    fields, std, law = case
    best = sum(conditioned(law, fields, std, p)[0] for p in range(len(fields)))
    for change in ([0.95, 1.0], [1.05, 1.0], [1.0, 0.95], [1.0, 1.05]):
        for drift, noise in ((change, 1.0), (1.0, change)):
            numbers = Linear(law.linear.drift * drift, law.linear.noise * noise)
            other = dataclasses.replace(law, dynamics=numbers)
            assert sum(conditioned(other, fields, std, p)[0] for p in range(len(fields))) < best


def test_equal_deviations_are_one_noise():
    fields, std = observed(seed=1)
    one = sl.fit(fields, DOMAIN, 2, initial="stationary", observation_noise=0.3)
    same = sl.fit(fields, DOMAIN, 2, initial="stationary", observation_noise=xr.full_like(std, 0.3))
    np.testing.assert_allclose(same.info["log_likelihood"], one.info["log_likelihood"], rtol=1e-8)
    np.testing.assert_allclose(same.linear.drift, one.linear.drift, rtol=1e-4)
    assert float(same.observation_variance) == pytest.approx(0.09)


def test_the_coordinate_travels_with_the_data():
    """Given beside the data, in any order of dims and points, whole or per record: one law."""
    fields, std = observed(seed=2)
    std = std.isel(path=0, drop=True)
    given = sl.fit(fields, DOMAIN, 2, initial="stationary", observation_noise=std)
    turned = fields.transpose("x", "time", "path").isel(x=slice(None, None, -1))
    beside = turned.assign_coords(observation_std=std)
    found = sl.fit(beside, DOMAIN, 2, initial="stationary")
    assert found.info["observation_noise"] == given.info["observation_noise"] == "known per value"
    np.testing.assert_allclose(found.linear.drift, given.linear.drift, rtol=1e-10)
    a, b = given.log_likelihood(beside), given.log_likelihood(beside.isel(path=slice(2, 4)))
    np.testing.assert_allclose(a[2:4], b, rtol=1e-12)
    assert sl.evaluate(given, beside, tiers=("gaps",)).check.fits


def test_clocks_of_their_own_and_several_dimensions():
    fields, std = observed(seed=3)
    t = fields.time.values + 0.01 * np.arange(6)[:, None] * np.arange(12)
    own = fields.assign_coords(path_time=(("path", "time"), t), observation_std=std)
    law = sl.fit(own, DOMAIN, 2, initial="stationary")
    assert law.info["observation_noise"] == "known per value"
    assert np.isfinite(law.forecast(own, np.array([4.0]))["std"]).all()
    square = sl.Box((0, 1), (0, 1), boundary="neumann")
    box = sl.SpectralSPDE(square, 3, [1.0, 4.0, 5.0], noise=[1.0, 1.0, 1.0], initial="stationary")
    grid = (np.linspace(0, 1, 4), np.linspace(0, 1, 5))
    flat = sl.simulate(box, 5, np.linspace(0, 3, 16), grid, seed=0, observation_std=0.2)
    land = flat.where(flat.x > 0.1)
    beside = land.assign_coords(observation_std=xr.full_like(flat, 0.2))
    found = sl.fit(beside, square, 3, initial="stationary")
    same = sl.fit(land, square, 3, initial="stationary", observation_noise=0.2)
    np.testing.assert_allclose(found.linear.drift, same.linear.drift, rtol=1e-4)


def test_a_preparation_scales_the_deviations_too():
    fields, std = observed(seed=5)
    raw = (10.0 * fields + 3.0).rename(x="lon").assign_coords(lon=fields.x.values)
    raw_std = (10.0 * std).rename(x="lon")
    how = sl.Preparation(rename={"lon": "x"}, anomalies="mean", standardise="whole")
    law = sl.fit(
        raw, DOMAIN, 2, prepare=how, mean="zero", initial="stationary", observation_noise=raw_std
    )
    scale = np.nanstd((raw - raw.mean(("path", "time"))).values)
    expected = np.nanmean(np.where(np.isnan(raw), np.nan, raw_std.values / scale) ** 2)
    np.testing.assert_allclose(law.observation_variance, expected, rtol=0.02)
    near = law.reconstruct(raw.assign_coords(observation_std=raw_std))
    assert float(np.sqrt(((near["mean"] - raw) ** 2 / raw_std**2).mean())) < 1.0
    coarse = sl.Preparation(rename={"lon": "x"}, coarsen={"x": 2})
    with pytest.raises(DataError, match="averaged"):
        sl.fit(raw, DOMAIN, 2, prepare=coarse, observation_noise=raw_std)


def test_deviations_that_do_not_belong_to_the_data_are_refused():
    fields, std = observed(seed=4)
    wrong = (std.isel(time=slice(5)), std.assign_coords(x=2.0 * std.x), -std, std.values[0])
    for one in wrong:
        with pytest.raises((DataError, InputError), match="observation_noise"):
            sl.fit(fields, DOMAIN, 2, observation_noise=one)
    with pytest.raises(InputError, match="exact engine"):
        sl.fit(fields, DOMAIN, 2, observation_noise=std, engine="chaos")
    with pytest.raises(InputError, match="bootstrap"):
        sl.fit(fields, DOMAIN, 2, observation_noise=std, bootstrap=3)


@pytest.mark.parametrize(("truth", "word"), [(True, "estimate"), (False, "none")])
def test_yes_and_no_are_no_standard_deviations(truth, word):
    with pytest.raises(InputError, match=f"pass observation_noise='{word}'"):
        sl.Model(observation_noise=truth)
    with pytest.raises(InputError, match="observation_noise"):
        sl.Model(observation_noise=[truth, truth])

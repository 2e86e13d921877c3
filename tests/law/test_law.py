"""What follows from a law: table, samples, reconstruction, forecast, divergence."""

import dataclasses

import numpy as np
import pytest
import xarray as xr
from tests.law.laws import (
    INTERVAL,
    NOISE,
    POINTS,
    TIMES,
    basis,
    fields,
    heat,
    law,
    make,
    nuisance_law,
    numbers,
    point_noise_law,
)
from tests.parameters import cross
from tests.statespace import _brute_force as oracle
from tests.statespace import cases
from tests.statespace.numbers import Numbers

import spdelaw as sl
from spdelaw.errors import DataError, InputError

EXACT = 1e-8
FALSE_ALARM = 1e-4
INITIALS = ("bump", "gaussian", "stationary")
POINT_STD = np.linspace(0.02, 0.2, len(POINTS))


# -- the table ------------------------------------------------------------------------


@pytest.mark.parametrize("initial", INITIALS)
def test_layout_of_the_table(initial):
    table = law(initial, NOISE).parameters
    assert list(table.statistic.values) == ["estimate", "stderr", "lower", "upper"]
    assert list(table.mode.values) == [1, 2, 3]
    for name in ("eigenvalue", "noise_variance", "initial_mean"):
        assert table[name].dims == ("mode", "statistic")
    assert table.observation_std.dims == ("statistic",)
    assert ("initial_variance" in table) == (initial == "gaussian")
    assert table.attrs["interval_level"] == 0.95
    for name in table.data_vars:
        x, s, low, high = (table[name].sel(statistic=k).values for k in table.statistic.values)
        if name == "initial_mean" and initial == "stationary":
            assert not x.any()
            assert not s.any()
        else:
            assert ((low < x) & (x < high) & (s > 0)).all()


def test_tables_of_point_noise_and_of_nuisance_modes():
    table = point_noise_law().parameters
    assert table.observation_std.dims == ("point", "statistic")
    np.testing.assert_allclose(table.observation_std.sel(statistic="estimate"), POINT_STD)
    some = nuisance_law()
    assert some.n_modes == some.parameters.sizes["mode"] == 2
    assert some.dynamics.n_modes == 2 + some.info["n_nuisance"] > 2


# -- samples --------------------------------------------------------------------------


@pytest.mark.parametrize("initial", INITIALS)
def test_samples_have_the_moments_of_the_equation(initial):
    """Null: Gaussian with the closed-form moments; 210 values, joint false alarm 1e-4."""
    some, n = law(initial), 2000
    draws = some.sample(n, seed=3)
    assert draws.dims == ("path", "time", "x")
    np.testing.assert_array_equal(some.sample(3, seed=3), draws[:3])
    mean, variance = some.equation.mean(TIMES, POINTS), some.equation.variance(TIMES, POINTS)
    free = variance.values > 1e-20
    bound = oracle.largest_normal(2 * free.sum(), FALSE_ALARM)
    z = (draws.mean("path") - mean).values[free] / np.sqrt(variance.values[free] / n)
    assert np.abs(z).max() < bound
    ratio = draws.var("path").values[free] / variance.values[free]
    assert np.abs(ratio - 1).max() < bound * np.sqrt(2 / n) * 1.2
    fixed = np.broadcast_to(mean.values[~free], (n, (~free).sum()))
    np.testing.assert_allclose(draws.values[:, ~free], fixed, atol=1e-12)


def test_samples_elsewhere_with_noise():
    where = (np.array([0.0, 0.7, 2.0]), np.array([0.3, 1.0]))
    one, each = law("bump", NOISE), point_noise_law()
    for some, n, at, std in ((one, 10_000, where, NOISE), (each, 400, (), POINT_STD)):
        noisy, clean = (some.sample(n, *at, seed=2, observation_noise=b) for b in (True, False))
        gap = (noisy - clean).values
        rtol = 5 / np.sqrt(2 * gap[..., 0].size)
        np.testing.assert_allclose(gap.std((0, 1)), std, rtol=rtol)


# -- reconstruction and likelihood ----------------------------------------------------


@cross(initial=INITIALS, pattern=["complete", "random", "rows"])
def test_reconstruction_and_likelihood_by_brute_force(initial, pattern):
    some = law(initial, NOISE)
    data = fields(initial, NOISE, n_paths=4, seed=9, times=TIMES[:8])
    if pattern != "complete":
        data = sl.mask(data, pattern, 0.4, seed=2)
    p, phi = numbers(some), basis(some)
    result, logs = some.reconstruct(data), some.log_likelihood(data)
    assert result["mean"].dims == result["std_field"].dims == ("path", "time", "x")
    for i, y in enumerate(data.values):
        expected = oracle.log_likelihood(p, y, TIMES[:8], phi)
        np.testing.assert_allclose(float(logs[i]), expected, rtol=EXACT)
        mean, covariance = oracle.smoothed(p, y, TIMES[:8], phi)
        lift = np.kron(np.eye(8), phi)
        np.testing.assert_allclose(result["mean"][i].values.ravel(), lift @ mean, atol=EXACT)
        variance = np.diag(lift @ covariance @ lift.T).reshape(8, -1) + some.unresolved_variance
        np.testing.assert_allclose(result["std_field"][i].values ** 2, variance, atol=EXACT)


def test_reconstruction_without_noise_keeps_the_data():
    data = fields(n_paths=3, seed=5)
    result = law().reconstruct(data)
    np.testing.assert_allclose(result["mean"], data, atol=1e-6)
    assert float(result["std_field"].max()) < 1e-4


def test_reconstruct_on_another_grid_with_labels():
    grid, some = np.array([0.5, 1.1, 2.0]), law("bump", NOISE)
    data = fields(noise=NOISE, n_paths=2, seed=7).assign_coords(path=["a", "b"])
    wide = some.reconstruct(data, grid=np.sort(np.append(POINTS, grid)))
    xr.testing.assert_allclose(some.reconstruct(data, grid=grid), wide.sel(x=grid), atol=1e-12)
    for result in (wide, some.log_likelihood(data)):
        assert list(result.path.values) == ["a", "b"]


def test_data_that_start_later_than_the_law():
    """The initial state belongs to the law's first time; by brute force with an empty row."""
    some = law("bump", NOISE)
    data = fields(noise=NOISE, n_paths=3, seed=8).isel(time=slice(5, 11))
    t = np.append(TIMES[0], data.time.values)
    p, phi = numbers(some), basis(some)
    result, logs = some.reconstruct(data), some.log_likelihood(data)
    assert result.sizes["time"] == 6
    for i, y in enumerate(data.values):
        padded = np.vstack([np.full((1, len(POINTS)), np.nan), y])
        expected = oracle.log_likelihood(p, padded, t, phi)
        np.testing.assert_allclose(float(logs[i]), expected, rtol=EXACT)
        mean, _ = oracle.smoothed(p, padded, t, phi)
        np.testing.assert_allclose(result["mean"][i], (mean.reshape(7, 3) @ phi.T)[1:], atol=EXACT)


def test_paths_with_times_of_their_own_are_treated_as_each_alone():
    some, later = law("bump", NOISE), np.array([0.7, 1.5])
    singles = [
        fields(noise=NOISE, n_paths=3, seed=8).isel(path=i, time=slice(start, stop), drop=True)
        for i, (start, stop) in enumerate([(0, 12), (4, 14), (0, 9)])
    ]
    data = sl.stack(singles)
    together, logs = some.reconstruct(data), some.log_likelihood(data)
    ahead = some.forecast(data, later, n_samples=3)
    assert together["path_time"].dims == ("path", "time")
    assert dict(ahead["sample"].sizes) == {"draw": 3, "path": 3, "time": 2, "x": len(POINTS)}
    for i, single in enumerate(singles):
        n = single.sizes["time"]
        for one, alone in (
            (together, some.reconstruct(single)),
            (ahead, some.forecast(single, later)),
        ):
            for name in ("mean", "std", "std_field"):
                np.testing.assert_allclose(one[name][i, :n], alone[name][0], atol=EXACT)
        np.testing.assert_allclose(logs[i], some.log_likelihood(single)[0], rtol=EXACT)


def test_noise_of_each_point_needs_its_points():
    """Some of them are enough: a point that is not among the data is one that they miss."""
    some = fields(n_paths=2)
    part, missed = some.isel(x=slice(5)), some.where(some.x <= some.x[4])
    result, expected = (point_noise_law().reconstruct(data) for data in (part, missed))
    xr.testing.assert_allclose(result, expected.isel(x=slice(5)), rtol=1e-10, atol=1e-12)
    with pytest.raises(DataError, match="points the noise was learned at"):
        point_noise_law().reconstruct(part.assign_coords(x=part.x + 1e-3))


# -- forecast -------------------------------------------------------------------------


def test_forecast_without_noise_is_the_conditional_process():
    """E = e^(-lambda h) c, Var = q (1 - e^(-2 lambda h)) / (2 lambda), far ahead as stationary."""
    some, history = law(), fields(n_paths=3, seed=10).isel(time=slice(11))
    lead = np.array([0.05, 0.2, 3.0, 60.0])
    result = some.forecast(history, TIMES[10] + lead)
    phi = basis(some)
    c = history.values[:, -1] @ np.linalg.pinv(phi).T
    lam, q = some.dynamics.drift, some.dynamics.noise
    a = np.exp(-np.outer(lead, lam))
    mean = np.einsum("hn,pn,xn->phx", a, c, phi)
    variance = (q * (1 - a**2) / (2 * lam)) @ (phi**2).T
    np.testing.assert_allclose(result["mean"], mean, atol=1e-5)
    expected = np.broadcast_to(np.sqrt(variance), result["std_field"].shape)
    np.testing.assert_allclose(result["std_field"], expected, rtol=1e-4, atol=1e-5)


def test_forecast_by_brute_force():
    """Inside the history, between its times and after it."""
    some, n = law("gaussian", NOISE), 6
    data = fields("gaussian", NOISE, n_paths=2, seed=11)
    history = sl.mask(data, "random", 0.3).isel(time=slice(n))
    when = np.array([TIMES[1], 0.12, 0.25, 0.4, 1.7])
    result = some.forecast(history, when)
    clock = np.union1d(TIMES[:n], when)
    at, p, phi = np.searchsorted(clock, when), numbers(some), basis(some)
    for i, y in enumerate(history.values):
        padded = np.full((len(clock), len(POINTS)), np.nan)
        padded[np.searchsorted(clock, TIMES[:n])] = y
        mean, covariance = oracle.smoothed(p, padded, clock, phi)
        lift = np.kron(np.eye(len(clock)), phi)
        variance = np.diag(lift @ covariance @ lift.T).reshape(len(clock), -1)
        np.testing.assert_allclose(result["mean"][i], mean.reshape(-1, 3)[at] @ phi.T, atol=EXACT)
        np.testing.assert_allclose(result["std_field"][i] ** 2, variance[at], atol=EXACT)


def test_forecast_samples_have_the_moments():
    """Null: Gaussian with the closed-form moments; 60 values, joint false alarm 1e-4."""
    some, n = law("bump", NOISE), 2000
    history = fields(noise=NOISE, n_paths=2, seed=13).isel(time=slice(11))
    result = some.forecast(history, [0.5, 0.6, 1.5], n_samples=n, seed=4)
    draws, std = result["sample"], result["std_field"].values
    assert draws.dims == ("draw", "path", "time", "x")
    free = std > 1e-6
    bound = oracle.largest_normal(2 * free.sum(), FALSE_ALARM)
    z = (draws.mean("draw") - result["mean"]).values[free] / std[free] * np.sqrt(n)
    assert np.abs(z).max() < bound
    ratio = draws.std("draw").values[free] / std[free]
    assert np.abs(ratio - 1).max() < bound / np.sqrt(2 * n) * 1.1
    again = some.forecast(history, [0.5, 0.6, 1.5], n_samples=n, seed=4)
    np.testing.assert_array_equal(again["sample"], draws)


def empty(value):
    return xr.full_like(fields(n_paths=2), value)


@pytest.mark.parametrize(
    ("call", "error", "word"),
    [
        (lambda some, data: some.forecast(data, [-1.0, 0.5]), InputError, "backwards"),
        (lambda some, data: some.forecast(data, [1.5], n_samples=-1), InputError, "n_samples"),
        (lambda some, data: some.reconstruct(empty(np.nan)), DataError, "Fix:"),
        (lambda some, data: some.reconstruct(empty(np.inf)), DataError, "Fix:"),
        (lambda some, data: some.log_likelihood(empty(np.nan)), DataError, "Fix:"),
        (lambda some, data: some.kl_divergence(sl.catalogue.heat(2)), InputError, "least 3 modes"),
    ],
)
def test_refusals(call, error, word):
    with pytest.raises(error, match=word):
        call(law("bump", NOISE), fields(noise=NOISE, n_paths=2))


# -- divergence -----------------------------------------------------------------------


def of_equation(e: sl.SpectralSPDE) -> Numbers:
    d, start = e.dynamics, e.initial_state
    return Numbers(d.drift, d.noise, start.mean, start.covariance, np.zeros(()), start.kind)


@pytest.mark.parametrize("initial", ["gaussian", "stationary"])
def test_divergence_is_that_of_the_gaussians(initial):
    some, truth, t = law(initial), heat(initial), np.array([0.0, 0.1, 0.35, 0.4])
    moments = [oracle.state_moments(p, t) for p in (of_equation(truth), numbers(some))]
    expected = oracle.gaussian_kl(*moments[0], *moments[1])
    np.testing.assert_allclose(some.kl_divergence(truth, t), expected, rtol=1e-7)
    assert expected > 1e-4
    assert abs(some.kl_divergence(some)) < 1e-12


SEASON = {"season": sl.Season(0.5, [1.5, 0.5])}
FORCING = {"forcing": sl.Forcing([0.0, 0.5, 1.0], [[1.0, 0, 2.0], [0, -1.0, 1.0], [0, 0, 0]])}


@cross(structure=cases.STRUCTURES, parts=[SEASON, FORCING, SEASON | FORCING])
def test_divergence_with_seasons_and_forcing_of_every_operator(structure, parts):
    """Modes on their own or coupled, each law with a season and a forcing of its own."""
    t = np.array([0.0, 0.1, 0.35, 0.4, 0.8])
    one = cases.parameters("gaussian", structure=structure)._replace(**parts)
    other = cases.parameters("gaussian")
    start = sl.Gaussian(one.initial_mean, one.initial_covariance)
    truth = sl.SpectralSPDE(
        INTERVAL, 3, one.drift, noise=one.noise, times=t, initial=start, **parts
    )
    some, back = (make(*p.state_space[:2], 0.0, times=t) for p in (other, one))
    moments = [oracle.state_moments(p, t) for p in (one, other)]
    expected = oracle.gaussian_kl(*moments[0], *moments[1])
    np.testing.assert_allclose(some.kl_divergence(truth, t), expected, rtol=1e-7)
    expected = oracle.gaussian_kl(*moments[1], *moments[0])
    np.testing.assert_allclose(back.kl_divergence(some, t), expected, rtol=1e-7)


# -- text, other formats ----------------------------------------------------------------


def test_text_and_citation():
    some = law("bump", NOISE)
    for word in ("3 modes", "exact", "60 paths", "observation noise", "95 %"):
        assert word in repr(some)
    assert sl.__version__ in some.citation()
    assert "Wiener Chaos" in some.citation()
    other = dataclasses.replace(some, info={**some.info, "engine": "amortized"})
    assert other.citation() != some.citation()


def test_a_start_of_zeros_tells_what_the_law_says():
    """Nothing but zeros was seen: ``Var c_n(t) = q_n (1 - e^(-2 lambda_n t)) / (2 lambda_n)``."""
    times, ring = np.linspace(0.0, 1.0, 21), sl.Interval(0.0, np.pi, "periodic")
    e = sl.SpectralSPDE(ring, 3, [1.0, 5.0, 5.0], noise=sl.White(1.0), initial=0.0, times=times)
    data = sl.simulate(e, 30, seed=0)
    some = sl.fit(data, ring, 3)
    assert some.initial.kind == "deterministic"
    later = some.reconstruct(data.isel(path=[0]).where(data.time < 0.01))
    lam, q = some.dynamics.drift, some.dynamics.noise
    share = -np.expm1(-2 * lam * times[1:, None]) / (2 * lam)
    variance = q * share @ ring.eigenfunctions(data.x.values, 3).T ** 2
    np.testing.assert_allclose(later["std_field"].values[0, 1:], np.sqrt(variance), rtol=1e-4)
    np.testing.assert_allclose(later["mean"].values, 0.0, atol=1e-12)
    assert np.isfinite(sl.evaluate(some, data).tiers["predict"][:3]).all()

"""What follows from a law: table, samples, reconstruction, forecast, divergence."""

import dataclasses
import importlib.util

import numpy as np
import pytest
import xarray as xr
from scipy import stats
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
from tests.model import _brute_force as oracle
from tests.model import cases
from tests.model.numbers import Numbers

import spdelaw as sl
from spdelaw.errors import DataError, InputError, MissingExtraError

EXACT = 1e-8
FALSE_ALARM = 1e-4
INITIALS = ("bump", "gaussian", "stationary")


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
            continue
        assert (low < x).all()
        assert (x < high).all()
        assert (s > 0).all()


def test_interval_is_that_of_the_logarithm():
    table = law().parameters.eigenvalue
    x, s, low, high = (table.sel(statistic=k).values for k in table.statistic.values)
    np.testing.assert_allclose(low, x * np.exp(-1.959963984540054 * s / x), rtol=1e-12)
    np.testing.assert_allclose(low * high, x**2, rtol=1e-12)


def test_noise_of_each_point_has_its_own_dim():
    table = point_noise_law().parameters
    assert table.observation_std.dims == ("point", "statistic")
    np.testing.assert_allclose(
        table.observation_std.sel(statistic="estimate"), np.linspace(0.02, 0.2, len(POINTS))
    )


def test_nuisance_modes_are_not_reported():
    some = nuisance_law()
    assert some.n_modes == 2
    assert some.parameters.sizes["mode"] == 2
    assert some.dynamics.n_modes == 2 + some.info["n_nuisance"] > 2


def test_text_names_what_matters():
    text = repr(law("bump", NOISE))
    for word in ("3 modes", "exact", "60 paths", "observation noise", "95 %"):
        assert word in text


# -- samples --------------------------------------------------------------------------


@pytest.mark.parametrize("initial", INITIALS)
def test_samples_have_the_moments_of_the_equation(initial):
    """Null: Gaussian with the closed-form moments; 210 values, joint false alarm 1e-4."""
    some, n = law(initial), 2000
    draws = some.sample(n, seed=3)
    assert draws.dims == ("path", "time", "x")
    mean, variance = some.equation.mean(TIMES, POINTS), some.equation.variance(TIMES, POINTS)
    free = variance.values > 1e-20
    bound = oracle.largest_normal(2 * free.sum(), FALSE_ALARM)
    z = (draws.mean("path") - mean).values[free] / np.sqrt(variance.values[free] / n)
    assert np.abs(z).max() < bound
    ratio = draws.var("path").values[free] / variance.values[free]
    assert np.abs(ratio - 1).max() < bound * np.sqrt(2 / n) * 1.2
    np.testing.assert_allclose(draws.values[:, ~free], np.broadcast_to(
        mean.values[~free], (n, (~free).sum())), atol=1e-12)  # fmt: skip


def test_the_first_samples_do_not_depend_on_how_many_follow():
    some = law()
    xr.testing.assert_identical(
        some.sample(3, seed=1), some.sample(70, seed=1).isel(path=slice(3)).assign_attrs(
            some.sample(3, seed=1).attrs)
    )  # fmt: skip


def test_sample_elsewhere_and_with_noise():
    some = law("bump", NOISE)
    grid, times = np.array([0.3, 1.0]), np.array([0.0, 0.7, 2.0])
    draws = some.sample(3000, times, grid, seed=2, observation_noise=True)
    clean = some.sample(3000, times, grid, seed=2)
    assert draws.shape == (3000, 3, 2)
    std = float(some.parameters.observation_std.sel(statistic="estimate"))
    gap = (draws - clean).values
    np.testing.assert_allclose(gap.std(), std, rtol=4 / np.sqrt(2 * gap.size))


def test_sample_with_noise_of_each_point():
    some = point_noise_law()
    gap = some.sample(400, seed=1, observation_noise=True) - some.sample(400, seed=1)
    expected = np.linspace(0.02, 0.2, len(POINTS))
    n = gap.sizes["path"] * gap.sizes["time"]
    np.testing.assert_allclose(gap.std(("path", "time")), expected, rtol=5 / np.sqrt(2 * n))


# -- reconstruction and likelihood ----------------------------------------------------


@pytest.mark.parametrize("pattern", ["complete", "random", "rows"])
@pytest.mark.parametrize("initial", INITIALS)
def test_reconstruction_and_likelihood_by_brute_force(initial, pattern):
    some = law(initial, NOISE)
    data = fields(initial, NOISE, n_paths=4, seed=9, times=TIMES[:8])
    if pattern != "complete":
        data = sl.mask(data, pattern, 0.4, seed=2)
    p, phi = numbers(some), basis(some)
    result, logs = some.reconstruct(data), some.log_likelihood(data)
    assert result["mean"].dims == result["std"].dims == ("path", "time", "x")
    for i, y in enumerate(data.values):
        np.testing.assert_allclose(
            float(logs[i]), oracle.log_likelihood(p, y, TIMES[:8], phi), rtol=EXACT
        )
        mean, covariance = oracle.smoothed(p, y, TIMES[:8], phi)
        lift = np.kron(np.eye(8), phi)
        np.testing.assert_allclose(result["mean"][i].values.ravel(), lift @ mean, atol=EXACT)
        variance = np.diag(lift @ covariance @ lift.T).reshape(8, -1) + some.unresolved_variance
        np.testing.assert_allclose(result["std"][i].values ** 2, variance, atol=EXACT)


def test_reconstruction_without_noise_keeps_the_data():
    data = fields(n_paths=3, seed=5)
    result = law().reconstruct(data)
    np.testing.assert_allclose(result["mean"], data, atol=1e-6)
    assert float(result["std"].max()) < 1e-4


def test_coverage_through_gaps():
    """Errors are dependent within a gap: about six free ones a path, so 0.6 % and 1.3 %."""
    truth = fields(n_paths=240, seed=6)
    noisy = fields(noise=NOISE, n_paths=240, seed=6)
    seen = sl.mask(sl.mask(noisy, "blocks", 0.4, seed=3), "rows", 0.2, seed=4)
    result = law("bump", NOISE).reconstruct(seen)
    hidden = np.isnan(seen.values) & (result["std"].values > 1e-6)
    z = ((truth - result["mean"]) / result["std"]).values[hidden]
    assert 0.925 < (np.abs(z) < 1.96).mean() < 0.975
    assert 0.45 < (np.abs(z) < 0.6745).mean() < 0.55


def test_reconstruct_on_another_grid():
    data, grid = fields(noise=NOISE, n_paths=2, seed=7), np.array([0.5, 1.1, 2.0])
    some = law("bump", NOISE)
    joined = np.sort(np.append(POINTS, grid))
    wide = some.reconstruct(data, grid=joined)
    narrow = some.reconstruct(data, grid=grid)
    np.testing.assert_allclose(narrow["mean"], wide["mean"].sel(x=grid), atol=1e-12)
    np.testing.assert_allclose(narrow["std"], wide["std"].sel(x=grid), atol=1e-12)


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
        np.testing.assert_allclose(
            float(logs[i]), oracle.log_likelihood(p, padded, t, phi), rtol=EXACT
        )
        mean, _ = oracle.smoothed(p, padded, t, phi)
        np.testing.assert_allclose(result["mean"][i], (mean.reshape(7, 3) @ phi.T)[1:], atol=EXACT)


def test_paths_with_times_of_their_own():
    """Stacked paths, one of them late, are reconstructed as each is alone."""
    some = law("bump", NOISE)
    singles = [
        fields(noise=NOISE, n_paths=3, seed=8).isel(path=i, time=slice(start, stop), drop=True)
        for i, (start, stop) in enumerate([(0, 12), (4, 14), (0, 9)])
    ]
    together = some.reconstruct(sl.stack(singles))
    logs = some.log_likelihood(sl.stack(singles))
    assert together["path_time"].dims == ("path", "time")
    for i, single in enumerate(singles):
        alone = some.reconstruct(single)
        n = single.sizes["time"]
        np.testing.assert_allclose(together["mean"][i, :n], alone["mean"][0], atol=EXACT)
        np.testing.assert_allclose(together["std"][i, :n], alone["std"][0], atol=EXACT)
        np.testing.assert_allclose(logs[i], some.log_likelihood(single)[0], rtol=EXACT)


def test_paths_keep_their_labels():
    data = fields(noise=NOISE, n_paths=3).assign_coords(path=["a", "b", "c"])
    some = law("bump", NOISE)
    assert list(some.log_likelihood(data).path.values) == ["a", "b", "c"]
    assert list(some.reconstruct(data).path.values) == ["a", "b", "c"]


# -- forecast -------------------------------------------------------------------------


def test_forecast_without_noise_is_the_conditional_process():
    """E = e^(-lambda h) c, Var = q (1 - e^(-2 lambda h)) / (2 lambda)."""
    some, history = law(), fields(n_paths=3, seed=10).isel(time=slice(11))
    lead = np.array([0.05, 0.2, 3.0])
    result = some.forecast(history, TIMES[10] + lead)
    phi = basis(some)
    c = history.values[:, -1] @ np.linalg.pinv(phi).T
    lam, q = some.dynamics.drift, some.dynamics.noise
    a = np.exp(-np.outer(lead, lam))
    mean = np.einsum("hn,pn,xn->phx", a, c, phi)
    variance = (q * (1 - a**2) / (2 * lam)) @ (phi**2).T
    np.testing.assert_allclose(result["mean"], mean, atol=1e-5)
    expected = np.broadcast_to(np.sqrt(variance), result["std"].shape)
    np.testing.assert_allclose(result["std"], expected, rtol=1e-4, atol=1e-5)


def test_forecast_by_brute_force():
    some = law("gaussian", NOISE)
    history = sl.mask(fields("gaussian", NOISE, n_paths=2, seed=11), "random", 0.3).isel(
        time=slice(6)
    )
    wanted = np.array([0.12, 0.25, 0.4, 1.7])
    result = some.forecast(history, wanted)
    clock = np.union1d(TIMES[:6], wanted)
    p, phi = numbers(some), basis(some)
    for i, y in enumerate(history.values):
        padded = np.full((len(clock), len(POINTS)), np.nan)
        padded[np.searchsorted(clock, TIMES[:6])] = y
        mean, _ = oracle.smoothed(p, padded, clock, phi)
        at = np.searchsorted(clock, wanted)
        np.testing.assert_allclose(result["mean"][i], mean.reshape(-1, 3)[at] @ phi.T, atol=EXACT)


def test_forecast_within_the_history_is_the_reconstruction():
    some, data = law("bump", NOISE), fields(noise=NOISE, n_paths=2, seed=12)
    inside = some.forecast(data, TIMES[[3, 8]])
    smooth = some.reconstruct(data).isel(time=[3, 8])
    np.testing.assert_allclose(inside["mean"], smooth["mean"], atol=1e-12)
    np.testing.assert_allclose(inside["std"], smooth["std"], atol=1e-12)


def test_forecast_samples_have_the_moments():
    """Null: Gaussian with the closed-form moments; 60 values, joint false alarm 1e-4."""
    some, n = law("bump", NOISE), 2000
    history = fields(noise=NOISE, n_paths=2, seed=13).isel(time=slice(11))
    result = some.forecast(history, [0.5, 0.6, 1.5], n_samples=n, seed=4)
    draws, std = result["sample"], result["std"].values
    assert draws.dims == ("draw", "path", "time", "x")
    free = std > 1e-6
    bound = oracle.largest_normal(2 * free.sum(), FALSE_ALARM)
    z = (draws.mean("draw") - result["mean"]).values[free] / std[free] * np.sqrt(n)
    assert np.abs(z).max() < bound
    ratio = draws.std("draw").values[free] / std[free]
    assert np.abs(ratio - 1).max() < bound / np.sqrt(2 * n) * 1.1
    again = some.forecast(history, [0.5, 0.6, 1.5], n_samples=n, seed=4)
    np.testing.assert_array_equal(again["sample"], draws)


def test_far_forecast_forgets_the_history():
    some = law()
    result = some.forecast(fields(n_paths=2, seed=14), [60.0])
    np.testing.assert_allclose(result["mean"], 0.0, atol=1e-12)
    expected = np.sqrt(np.diag(some.equation.stationary_covariance(POINTS)))
    np.testing.assert_allclose(result["std"].values[0, 0], expected, rtol=1e-9)


def test_forecast_refuses():
    some, data = law("bump", NOISE), fields(noise=NOISE, n_paths=2)
    with pytest.raises(InputError, match="backwards"):
        some.forecast(data, [-1.0, 0.5])
    with pytest.raises(InputError, match="n_samples"):
        some.forecast(data, [1.5], n_samples=-1)


def test_forecast_of_paths_with_their_own_times_is_that_of_each_alone():
    some, data = law("bump", NOISE), fields(noise=NOISE, n_paths=2)
    short = data.isel(path=1, time=slice(3), drop=True)
    stacked = sl.stack([data.isel(path=0, drop=True), short])
    later = np.array([0.7, 1.5])
    both = some.forecast(stacked, later, n_samples=3)
    assert dict(both["sample"].sizes) == {"draw": 3, "path": 2, "time": 2, "x": data.sizes["x"]}
    for i, alone in enumerate((data.isel(path=0, drop=True), short)):
        expected = some.forecast(alone, later)
        np.testing.assert_allclose(both["mean"][i], expected["mean"][0], atol=1e-10)
        np.testing.assert_allclose(both["std"][i], expected["std"][0], atol=1e-10)


@pytest.mark.parametrize("method", ["reconstruct", "log_likelihood"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_data_without_a_value_are_refused(method, bad):
    data = xr.full_like(fields(n_paths=2), bad)
    with pytest.raises(DataError, match="Fix:"):
        getattr(law("bump", NOISE), method)(data)


def test_noise_of_each_point_needs_its_points():
    """Some of them are enough: a point that is not among the data is one that they miss."""
    some = fields(n_paths=2)
    part, missed = some.isel(x=slice(5)), some.where(some.x <= some.x[4])
    for name in ("mean", "std"):
        found, expected = (point_noise_law().reconstruct(data)[name] for data in (part, missed))
        np.testing.assert_allclose(found, expected.isel(x=slice(5)), rtol=1e-10, atol=1e-12)
    with pytest.raises(DataError, match="points the noise was learned at"):
        point_noise_law().reconstruct(part.assign_coords(x=part.x + 1e-3))


# -- divergence -----------------------------------------------------------------------


def of_equation(e: sl.SpectralSPDE) -> Numbers:
    d, start = e.dynamics, e.initial_state
    return Numbers(
        d.drift, d.noise, start.mean, start.covariance, np.zeros(()), start.kind, d.season,
        d.forcing, d.origin,
    )  # fmt: skip


@pytest.mark.parametrize("initial", ["gaussian", "stationary"])
def test_divergence_is_that_of_the_gaussians(initial):
    some, truth, t = law(initial), heat(initial), np.array([0.0, 0.1, 0.35, 0.4])
    moments = [oracle.state_moments(p, t) for p in (of_equation(truth), numbers(some))]
    expected = oracle.gaussian_kl(*moments[0], *moments[1])
    np.testing.assert_allclose(some.kl_divergence(truth, t), expected, rtol=1e-7)
    assert expected > 1e-4


@pytest.mark.parametrize("parts", ["season", "forcing", "both"])
@pytest.mark.parametrize("structure", cases.STRUCTURES)
def test_divergence_with_seasons_and_forcing_of_every_operator(structure, parts):
    """Modes on their own or coupled, each law with a season and a forcing of its own."""
    t = np.array([0.0, 0.1, 0.35, 0.4, 0.8])
    one, other = cases.parameters("gaussian", structure=structure), cases.parameters("gaussian")
    more = {}
    if parts != "forcing":
        more["season"] = sl.Season(0.5, [1.5, 0.5])
    if parts != "season":
        more["forcing"] = sl.Forcing(
            [0.0, 0.5, 1.0], [[1.0, 0.0, 2.0], [0.0, -1.0, 1.0], [0, 0, 0]]
        )
    one = one._replace(**more)
    truth = sl.SpectralSPDE(
        INTERVAL, 3, one.drift, noise=one.noise, times=t, **more,
        initial=sl.Gaussian(one.initial_mean, one.initial_covariance),
    )  # fmt: skip
    some = make(other.state_space.dynamics, other.state_space.initial, 0.0, times=t)
    expected = oracle.gaussian_kl(*oracle.state_moments(one, t), *oracle.state_moments(other, t))
    np.testing.assert_allclose(some.kl_divergence(truth, t), expected, rtol=1e-7)
    back = make(one.state_space.dynamics, one.state_space.initial, 0.0, times=t)
    expected = oracle.gaussian_kl(*oracle.state_moments(other, t), *oracle.state_moments(one, t))
    np.testing.assert_allclose(back.kl_divergence(some, t), expected, rtol=1e-7)


def test_divergence_is_the_expected_loss_of_log_likelihood():
    """Monte Carlo over 4000 paths; the mean is within 4 standard errors."""
    some, truth, t = law(), heat(), TIMES
    c = sl.simulate(truth, 4000, t, POINTS, seed=21).values @ np.linalg.pinv(basis(some)).T
    loss = np.zeros(len(c))
    for sign, d in ((1, truth.dynamics), (-1, some.dynamics)):
        a = np.exp(-np.outer(np.diff(t), d.drift))
        std = np.sqrt(d.noise * (1 - a**2) / (2 * d.drift))
        loss += sign * stats.norm.logpdf(c[:, 1:], a * c[:, :-1], std).sum((1, 2))
    error = loss.std() / np.sqrt(len(loss))
    assert abs(loss.mean() - some.kl_divergence(truth)) < 4 * error
    assert loss.mean() > 0


def test_divergence_from_itself_is_zero():
    for initial in INITIALS:
        assert abs(law(initial).kl_divergence(law(initial))) < 1e-12


def test_divergence_needs_enough_modes():
    with pytest.raises(InputError, match="at least 3 modes"):
        law().kl_divergence(sl.catalogue.heat(2))


# -- people ---------------------------------------------------------------------------


def test_citation_names_what_ran():
    some = law()
    assert sl.__version__ in some.citation()
    assert "Wiener Chaos" in some.citation()
    other = dataclasses.replace(some, info={**some.info, "engine": "amortized"})
    assert other.citation() != some.citation()


@pytest.mark.skipif(importlib.util.find_spec("arviz") is None, reason="arviz is not installed")
def test_arviz():
    data = law("bump", NOISE).to_arviz(n_draws=500)
    assert set(data.posterior.data_vars) >= {"eigenvalue", "noise_variance", "observation_std"}
    assert data.posterior.eigenvalue.dims == ("chain", "draw", "mode")


@pytest.mark.skipif(importlib.util.find_spec("arviz") is not None, reason="arviz is installed")
def test_arviz_missing_names_the_extra():
    with pytest.raises(MissingExtraError, match=r"pip install 'spdelaw\[arviz\]'"):
        law().to_arviz()


def test_equation_of_a_law_is_the_law():
    some = law("gaussian")
    np.testing.assert_array_equal(some.equation.eigenvalues, some.dynamics.drift)
    np.testing.assert_array_equal(some.equation.initial_variance, some.initial.covariance)
    assert some.equation.domain == INTERVAL


def test_a_start_of_zeros_tells_what_the_law_says():
    """Nothing but zeros was seen: ``Var c_n(t) = q_n (1 - e^(-2 lambda_n t)) / (2 lambda_n)``."""
    times, ring = np.linspace(0.0, 1.0, 21), sl.Interval(0.0, np.pi, "periodic")
    e = sl.SpectralSPDE(ring, 3, [1.0, 5.0, 5.0], noise=sl.White(1.0), initial=0.0, times=times)
    data = sl.simulate(e, 30, seed=0)
    law = sl.fit(data, e.domain, 3)
    assert law.initial.kind == "deterministic"
    later = law.reconstruct(data.isel(path=[0]).where(data.time < 0.01))
    lam, q = (law.parameters[n].sel(statistic="estimate").values for n in
              ("eigenvalue", "noise_variance"))  # fmt: skip
    t = e.times[1:, None]
    variance = (
        q * -np.expm1(-2 * lam * t) / (2 * lam) @ e.domain.eigenfunctions(data.x.values, 3).T ** 2
    )
    np.testing.assert_allclose(later["std"].values[0, 1:], np.sqrt(variance), rtol=1e-4)
    np.testing.assert_allclose(later["mean"].values, 0.0, atol=1e-12)
    card = sl.evaluate(law, data)
    assert np.isfinite(card.tiers["predict"][:3]).all()

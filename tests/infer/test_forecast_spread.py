"""Factors of the variance of forecasts by lead, where a law forgets faster than its data."""

import dataclasses

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.infer.residuals import with_forecast_spread

INTERVAL = sl.Interval(0, np.pi)
TRUTH = sl.catalogue.heat(n_modes=3, initial="stationary", kappa=0.5)
WORDS = {"mean": "zero", "initial": "stationary", "nuisance": 0}


def weather(n_times=1200, seed=0, inertia=8.0, decay=40.0):
    """One record of two modes driven by a force with memory: smooth in time, as weather is."""
    rng, points = np.random.default_rng(seed), INTERVAL.grid(11)[1:-1]
    force, state, states = np.zeros(2), np.zeros(2), np.empty((n_times + 200, 2))
    for t in range(len(states)):
        force = (1 - 1 / inertia) * force + rng.standard_normal(2)
        state = (1 - 1 / decay) * state + force / inertia
        states[t] = state
    values = states[200:] @ INTERVAL.eigenfunctions(points, 2).T
    values += 0.05 * rng.standard_normal(values.shape)
    coords = {"time": np.arange(float(n_times)), "x": points}
    return xr.DataArray(values[None], coords, ("path", "time", "x"))


@pytest.fixture(scope="module")
def smooth():
    data = weather()
    past = data.isel(time=slice(800))
    return (
        data,
        sl.fit(past, INTERVAL, 2, **WORDS),
        sl.fit(past, INTERVAL, 2, residual="white", **WORDS),
    )


def inside(law, data, lead):
    """Share of values after the first 800 times inside mean ± 1.96 std, from every 10th origin."""
    hits = []
    for origin in range(800, data.sizes["time"] - lead, 10):
        ahead = law.forecast(data.isel(time=slice(origin - 60, origin)), [float(origin - 1 + lead)])
        truth = data.isel(time=[origin - 1 + lead])
        hits.append((abs(truth - ahead["mean"]) < 1.96 * ahead["std"]).values)
    return np.mean(hits)


def test_bands_of_a_smooth_process_hold_by_lead(smooth):
    """Modes that forget exponentially promise too small errors six steps ahead."""
    data, law, plain = smooth
    assert "forecast_spread" in law.info
    assert "forecast_spread" not in plain.info
    assert inside(plain, data, 6) < 0.85
    for lead in (2, 6, 24):
        assert inside(law, data, lead) > 0.88, lead


def test_bands_far_too_wide_are_narrowed():
    """All variances of the law times nine: so much too large are those of its forecasts."""
    times = 0.1 * np.arange(600)
    data = sl.simulate(TRUTH, 1, times, INTERVAL.grid(9), seed=0, observation_std=0.1)
    law = sl.fit(data, INTERVAL, 3, **WORDS)
    wide = dataclasses.replace(
        law,
        dynamics=dataclasses.replace(law.linear, noise=9.0 * law.linear.noise),
        initial=law.initial._replace(covariance=9.0 * law.initial.covariance),
        observation_variance=9.0 * law.observation_variance,
    )
    assert "forecast_spread" not in law.info
    factors = with_forecast_spread(wide, law.observe(data)).info["forecast_spread"]["factors"]
    np.testing.assert_allclose(factors, 1.0 / 9.0, rtol=0.5)


def test_factors_apply_after_the_last_value_of_each_path(smooth):
    data, law, _ = smooth
    plain = law.with_info(forecast_spread=None)
    past = data.isel(time=slice(100))
    spread = law.info["forecast_spread"]
    at = dict(zip(spread["leads"], spread["factors"], strict=True))
    times = [60.5, 99.0 + 4.0, 99.0 + 8.0]
    wide, narrow = (one.forecast(past, times, n_samples=2000) for one in (law, plain))
    ratio = (wide["std"] / narrow["std"]).values[0] ** 2
    np.testing.assert_allclose(ratio, np.array([1.0, at[4.0], at[8.0]])[:, None] + 0 * ratio)
    noise = [(one["std"] ** 2 - one["std_field"] ** 2).values for one in (wide, narrow)]
    np.testing.assert_allclose(*noise, rtol=1e-6, atol=1e-12)
    drawn = (wide["sample"].std("draw") / wide["std_field"]).values[:, 1:]
    np.testing.assert_allclose(drawn, 1.0, atol=0.12)
    masked = data.isel(time=slice(108)).where(data["time"][:108] < 100)
    np.testing.assert_allclose(
        law.reconstruct(masked)["std"].isel(time=[103, 107]),
        wide["std"].isel(time=[1, 2]),
        rtol=1e-6,
    )


def test_a_law_that_holds_gets_no_factors():
    """Null: the data are of the law. Twelve records, each with one test at four errors."""
    for seed in range(12):
        times = 0.1 * np.arange(150)
        data = sl.simulate(TRUTH, 1, times, INTERVAL.grid(9), seed=seed, observation_std=0.1)
        assert "forecast_spread" not in sl.fit(data, INTERVAL, 3, **WORDS).info


def test_factors_are_kept_with_the_law(smooth, tmp_path):
    _, law, _ = smooth
    law.save(tmp_path / "smooth.law")
    assert sl.load(tmp_path / "smooth.law").info["forecast_spread"] == law.info["forecast_spread"]


#: Rates of independent values are not determined.
INDEPENDENT = pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")


def independent_months(n_years, seed):
    """Months of a record whose values are independent, with dates."""
    times = np.datetime64("2001-01") + np.arange(12 * n_years)
    values = np.random.default_rng(seed).standard_normal((12 * n_years, 6))
    coords = {"time": times.astype("datetime64[ns]"), "x": np.arange(6.0)}
    return xr.DataArray(values, coords, ("time", "x"))


@INDEPENDENT
def test_the_leverage_of_a_climatology_widens_bands():
    """Twelve means of three years: later anomalies have twice the mean square, (1 + h) / (1 - h).

    The leverage h of a value is 1/3.
    """
    hits, monthly = [], sl.Preparation(anomalies="month")
    for seed in range(12):
        data = independent_months(4, seed)
        law = sl.fit(data[:36], sl.Interval(0, 5), 2, prepare=monthly, nuisance=0)
        ahead = law.forecast(data[:36], data.time.values[36:]).isel(path=0)
        hits.append((abs(data[36:] - ahead["mean"]) < 1.96 * ahead["std"]).values)
    assert law.info["forecast_spread"]["climatology"] == pytest.approx(2.0)
    assert np.mean(hits) == pytest.approx(0.95, abs=0.03)


@INDEPENDENT
def test_a_climatology_is_the_mean_of_the_law():
    data = independent_months(4, 0) + 0.5
    law = sl.fit(data, sl.Interval(0, 5), 2, prepare=sl.Preparation(anomalies="mean"))
    assert law.info["mean"] == "zero"
    assert "mean" not in law.parameters


@INDEPENDENT
def test_a_dated_record_loses_its_mean_where_nothing_is_stated():
    """A mean within the deviations, most of it outside the modes; not that of undated arrays."""
    data = independent_months(4, 0) + np.arange(6) % 2
    assert sl.fit(data, n_modes=2).info["preparation"] == ["anomalies against the mean"]
    undated = data.assign_coords(time=np.arange(48.0))
    assert "preparation" not in sl.fit(undated, n_modes=2).info

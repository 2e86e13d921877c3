"""Laws of forced fields and of seasonal noise: recovery, the law's methods, bad input."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from tests.fitted import INTERVAL, WEIGHTS, case, fitted, refit
from tests.infer.recovery import estimates

import spdelaw as sl
from spdelaw.errors import EquationError, InputError
from spdelaw.evaluation.tasks import law_distance
from spdelaw.law.prediction import chaos_posterior


def hidden(fields, share=0.3, std=0.05):
    rng = np.random.default_rng(5)
    noisy = fields + std * rng.standard_normal(fields.shape)
    return noisy.where(rng.random(fields.shape) > share)


def assert_recovers(law, truth, within=4.0):
    assert law_distance(law, truth)["largest_z"] < within
    if law.linear.season is not None:
        error = estimates(law, "season") - WEIGHTS / WEIGHTS.mean()
        assert np.abs(error / estimates(law, "season", "stderr")).max() < within


@pytest.mark.parametrize("name", ["forced", "seasonal"])
def test_recovery_from_complete_fields(name):
    data, truth, law = fitted(name)
    assert law.info["route"] == ("statistics" if name == "forced" else "filter")
    assert_recovers(law, truth)
    assert law.kl_divergence(truth) < 10 * law.info["n_parameters"] / (2 * len(data))


@pytest.mark.parametrize("name", ["forced", "seasonal"])
def test_recovery_through_gaps_and_noise(name):
    data, truth, words = case(name)
    law = sl.fit(hidden(data[:30]), INTERVAL, truth.n_modes, **words)
    assert law.info["route"] == "filter"
    assert_recovers(law, truth)
    std = law.parameters.observation_std.values
    assert abs(std[0] - 0.05) < 4 * std[1]


def test_without_it_the_law_is_wrong():
    truth = case("forced").equation
    blind = refit("forced", forcing=None, mean="zero")
    assert law_distance(blind, truth.unforced)["largest_z"] > 6.0
    data, _, law = fitted("seasonal")
    plain = refit("seasonal", season=None)
    assert plain.info["log_likelihood"] < law.info["log_likelihood"] - 100
    assert sl.evaluate(law, data, tiers=()).check.fits
    assert not sl.evaluate(plain, data, tiers=()).check.fits


def test_fields_and_coefficients_are_the_same_forcing_and_zero_is_none():
    data, truth, _ = case("forced")
    x, push = data["x"].values, truth.forcing
    given = truth.domain.synthesise(push.coefficients, x)
    as_field = xr.DataArray(given, dims=("time", "x"), coords={"time": push.times, "x": x})
    law = refit("forced", forcing=as_field)
    np.testing.assert_allclose(law.forcing.on_modes(4), push.coefficients, atol=1e-10)
    one, two = (
        refit("complete", forcing=forcing)
        for forcing in (sl.Forcing([0.0, 1.0], np.zeros((2, 1))), None)
    )
    np.testing.assert_allclose(*(x.parameters.eigenvalue.values for x in (one, two)), rtol=1e-5)
    np.testing.assert_allclose(one.info["log_likelihood"], two.info["log_likelihood"])


def test_samples_have_the_forced_mean():
    _, truth, law = fitted("forced")
    paths = law.sample(800, seed=4)
    error = paths.std("path") / np.sqrt(800) + 1e-9
    gap = paths.mean("path") - law.equation.mean(grid=truth.default_grid())
    assert float(np.abs(gap / error)[1:, 1:-1].max()) < 5.5


def test_samples_and_derived_quantities_have_the_season():
    """The mean over a period of ``dP/dt = -2 Lambda P + q w(t)`` has the noise q."""
    truth, law = fitted("seasonal")[1:]
    got = truth.domain.analyse(law.sample(2000, seed=1), 3).var("path").values[40:]
    expected = law.equation.variance(law.times).values[40:, :3]
    assert np.abs(got / expected - 1.0).max() < 0.25
    assert expected[:, 0].max() > 2.0 * expected[:, 0].min()
    late = 60.0 + (np.arange(400) + 0.5) / 400  # long after the start is forgotten
    averaged = law.equation.variance(late).values[:, :3].mean(0)
    covariance = law.stationary_covariance().sel(statistic="estimate").values
    np.testing.assert_allclose(np.diag(covariance), averaged, rtol=1e-4)
    frequencies = np.sinh(np.linspace(-10.0, 10.0, 2001))
    power = law.power_spectrum(frequencies).sel(statistic="estimate").values
    np.testing.assert_allclose(np.trapezoid(power, frequencies, axis=0), averaged, rtol=1e-3)


def test_reconstruction_and_forecast_carry_the_response():
    data, _, law = fitted("forced")
    result = law.reconstruct(hidden(data[:3], std=0.0))
    assert float(np.sqrt(((result["mean"] - data[:3]) ** 2).mean())) < 0.05
    ahead = law.forecast(data[:3], np.array([1.0, 1.2, 1.5]), n_samples=400, seed=0)
    draws = ahead["sample"]
    error = draws.std("draw") / 20 + 1e-9
    assert float(np.abs((draws.mean("draw") - ahead["mean"]) / error)[:, :, 1:-1].max()) < 5.5
    # At the last observed time the forecast is the observation.
    np.testing.assert_allclose(ahead["mean"][:, 0], data[:3, -1], atol=1e-3)


def test_forecast_deviations_follow_the_calendar():
    """The same lead time is less certain in the season of strong noise."""
    data, _, law = fitted("seasonal")
    stds = [
        float(law.forecast(data[:1, : round(start * 40) + 1], [start + 0.1])["std_field"].mean())
        for start in (2.0, 2.5)
    ]
    assert stds[0] > 1.5 * stds[1]


def test_updated_laws_keep_the_forcing():
    data, truth, law = fitted("forced")
    whole = sl.update(sl.fit(data[:70], INTERVAL, 4, forcing=truth.forcing, mean="zero"), data[70:])
    np.testing.assert_allclose(
        whole.parameters.eigenvalue.values, law.parameters.eigenvalue.values, rtol=1e-4
    )
    np.testing.assert_array_equal(whole.forcing.coefficients, truth.forcing.coefficients)
    assert "by season" in repr(fitted("seasonal").law)


def test_dates():
    truth = case("forced").equation
    dates, knots = pd.date_range("2020-01-01", periods=201, freq="D"), 200 * truth.forcing.times
    scaled = dataclasses.replace(
        truth, times=np.arange(201.0), drift=truth.eigenvalues / 200,
        noise=truth.noise_variance / 200,
        forcing=sl.Forcing(knots, truth.forcing.coefficients / 200),
    )  # fmt: skip
    data = sl.simulate(scaled, 30, seed=0).assign_coords(time=dates)
    x, when = data["x"].values, pd.to_datetime("2020-01-01") + pd.to_timedelta(knots, "D")
    push = truth.domain.synthesise(scaled.forcing.coefficients, x)
    push = xr.DataArray(push, dims=("time", "x"), coords={"time": when, "x": x})
    law = sl.fit(data, INTERVAL, 4, forcing=push)
    np.testing.assert_allclose(law.forcing.times, knots)
    assert law.sample(1)["time"].dtype.kind == "f"
    assert_recovers(law, scaled, 4.5)


def test_forecasts_beyond_the_forcing_and_seasons_of_the_chaos_are_refused():
    data, _, law = fitted("forced")
    with pytest.raises(EquationError, match="known from"):
        law.forecast(data[:1], [3.0])
    data, _, law = fitted("seasonal")
    with pytest.raises(InputError, match="do not change in time"):
        chaos_posterior(law, data[:2])

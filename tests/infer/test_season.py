"""Laws with seasonal noise: recovery, the law's methods, bad input."""

import dataclasses

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.errors import InputError
from spdelaw.evaluation.tasks import law_distance
from spdelaw.law.prediction import chaos_posterior

WEIGHTS = np.array([2.2, 1.0, 0.3, 0.5])
N = 3


@pytest.fixture(scope="module")
def truth():
    equation = sl.catalogue.heat(n_modes=N)
    times = np.linspace(0.0, 4.0, 161)
    return dataclasses.replace(equation, season=sl.Season(1.0, WEIGHTS), times=times)


@pytest.fixture(scope="module")
def fields(truth):
    return sl.simulate(truth, 40, seed=0)


@pytest.fixture(scope="module")
def law(truth, fields):
    return sl.fit(fields, truth.domain, N, season=sl.Season(1.0, 4))


def season_z(law):
    table = law.parameters.season
    estimate, error = (table.sel(statistic=s).values for s in ("estimate", "stderr"))
    return np.abs((estimate - WEIGHTS / WEIGHTS.mean()) / error).max()


def test_recovery_from_complete_fields(law, truth):
    assert season_z(law) < 4.0
    assert law_distance(law, truth)["largest_z"] < 4.0
    assert law.kl_divergence(truth) < 10 * law.info["n_parameters"] / (2 * 40)
    np.testing.assert_allclose(law.parameters.season.sel(statistic="estimate").mean(), 1.0)


def test_recovery_through_gaps_and_noise(fields, truth):
    rng = np.random.default_rng(1)
    seen = (fields + 0.03 * rng.standard_normal(fields.shape)).where(rng.random(fields.shape) > 0.3)
    law = sl.fit(seen[:20], truth.domain, N, season=sl.Season(1.0, 4))
    assert season_z(law) < 4.0
    assert law_distance(law, truth)["largest_z"] < 4.0


def test_the_check_sees_missing_seasons(fields, law, truth):
    assert sl.evaluate(law, fields, tiers=()).check.fits
    plain = sl.fit(fields, truth.domain, N)
    assert plain.info["log_likelihood"] < law.info["log_likelihood"] - 100
    assert not sl.evaluate(plain, fields, tiers=()).check.fits


def test_samples_have_the_season(law, truth):
    paths = law.sample(2000, seed=1)
    got = truth.domain.analyse(paths, N).var("path").values[40:]
    expected = law.equation.variance(law.times).values[40:, :N]
    assert np.abs(got / expected - 1.0).max() < 0.25
    assert expected[:, 0].max() > 2.0 * expected[:, 0].min()


def test_derived_quantities_are_means_over_a_period(law):
    """The mean over a period of ``dP/dt = -2 Lambda P + q w(t)`` has the noise q."""
    late = 60.0 + (np.arange(400) + 0.5) / 400  # long after the start is forgotten
    averaged = law.equation.variance(late).values[:, :N].mean(0)
    covariance = law.stationary_covariance().sel(statistic="estimate").values
    np.testing.assert_allclose(np.diag(covariance), averaged, rtol=1e-4)
    frequencies = np.sinh(np.linspace(-10.0, 10.0, 2001))
    power = law.power_spectrum(frequencies).sel(statistic="estimate").values
    np.testing.assert_allclose(np.trapezoid(power, frequencies, axis=0), averaged, rtol=1e-3)


def test_forecast_deviations_follow_the_calendar(law, fields):
    """The same lead time is less certain in the season of strong noise."""
    lead = 0.1
    stds = [
        float(law.forecast(fields[:1, : round(start * 40) + 1], [start + lead])["std"].mean())
        for start in (2.0, 2.5)
    ]
    assert stds[0] > 1.5 * stds[1]


def test_stored_laws_keep_the_season(tmp_path, law):
    law.save(tmp_path / "seasonal.law")
    back = sl.load(tmp_path / "seasonal.law")
    xr.testing.assert_identical(back.parameters, law.parameters)
    np.testing.assert_array_equal(back.linear.season.weights, law.linear.season.weights)
    xr.testing.assert_identical(back.sample(2, seed=3), law.sample(2, seed=3))
    assert "by season" in repr(back)


def test_even_noise_is_found_even(truth):
    plain = dataclasses.replace(truth, season=None)
    law = sl.fit(sl.simulate(plain, 20, seed=5), truth.domain, N, season=sl.Season(1.0, 4))
    table = law.parameters.season
    z = (table.sel(statistic="estimate") - 1.0) / table.sel(statistic="stderr")
    assert float(np.abs(z).max()) < 4.0


def test_contrasts_can_be_fixed(truth, fields):
    log_ratio = float(np.log(WEIGHTS[1] / WEIGHTS[0]))
    law = sl.fit(fields[:10], truth.domain, N, season=sl.Season(1.0, 4),
                 fixed={"season[2]": log_ratio})  # fmt: skip
    w = law.parameters.season.sel(statistic="estimate").values
    assert w[1] / w[0] == pytest.approx(WEIGHTS[1] / WEIGHTS[0])


def test_bad_seasons(fields, truth):
    season = sl.Season(1.0, 4)
    with pytest.raises(InputError, match="a Season"):
        sl.fit(fields, truth.domain, N, season=4)
    with pytest.raises(InputError, match="exact"):
        sl.fit(fields, truth.domain, N, season=season, engine="chaos")
    with pytest.raises(InputError, match="seasons"):
        sl.fit(fields, truth.domain, N, season=season, initial="stationary")


def test_chaos_coordinates_know_no_seasons(law, fields):
    with pytest.raises(InputError, match="do not change in time"):
        chaos_posterior(law, fields[:2])

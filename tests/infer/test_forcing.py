"""Laws of forced fields: recovery, the law's methods, bad input."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.errors import DataError, EquationError, InputError
from spdelaw.evaluation.tasks import law_distance

N = 4
KNOTS = np.array([0.0, 0.2, 0.5, 0.8, 1.5])


def forcing():
    return sl.Forcing(KNOTS, 6.0 * np.random.default_rng(3).standard_normal((5, N)))


@pytest.fixture(scope="module")
def truth():
    return dataclasses.replace(sl.catalogue.heat(n_modes=N), forcing=forcing())


@pytest.fixture(scope="module")
def fields(truth):
    return sl.simulate(truth, 150, seed=1)


@pytest.fixture(scope="module")
def law(fields, truth):
    return sl.fit(fields, truth.domain, N, forcing=truth.forcing)


def largest_z(law, truth):
    return law_distance(law, truth)["largest_z"]


def gappy(fields, share=0.3, std=0.05):
    rng = np.random.default_rng(5)
    noisy = fields + std * rng.standard_normal(fields.shape)
    return noisy.where(rng.random(fields.shape) > share)


def test_recovery_from_complete_fields(law, truth):
    assert law.info["route"] == "statistics"
    assert largest_z(law, truth) < 4.0
    assert law.kl_divergence(truth) < 10 * law.info["n_parameters"] / (2 * 150)


def test_without_the_forcing_the_law_is_wrong(fields, truth):
    blind = sl.fit(fields, truth.domain, N, mean="zero")
    assert largest_z(blind, truth.unforced) > 6.0


def test_recovery_through_gaps_and_noise(fields, truth):
    law = sl.fit(gappy(fields), truth.domain, N, forcing=truth.forcing)
    assert law.info["route"] == "filter"
    assert largest_z(law, truth) < 4.0
    std = law.parameters.observation_std.values
    assert abs(std[0] - 0.05) < 4 * std[1]


def test_a_fast_forcing_sharpens_the_drift(fields, truth):
    """A known push is an experiment: the answer to it tells the decay."""
    plain = sl.simulate(truth.unforced, 150, seed=1)
    error = [
        law.parameters.eigenvalue.sel(statistic="stderr").values
        for law in (sl.fit(fields, truth.domain, N, forcing=truth.forcing),
                    sl.fit(plain, truth.domain, N))
    ]  # fmt: skip
    assert (error[0] < error[1]).sum() >= 3


def test_zero_forcing_changes_nothing(truth):
    plain = sl.simulate(truth.unforced, 40, seed=2)
    zero = sl.Forcing([0.0, 1.0], np.zeros((2, 1)))
    one = sl.fit(plain, truth.domain, N, forcing=zero)
    other = sl.fit(plain, truth.domain, N)
    np.testing.assert_allclose(
        one.parameters.eigenvalue.values, other.parameters.eigenvalue.values, rtol=1e-5
    )
    np.testing.assert_allclose(one.info["log_likelihood"], other.info["log_likelihood"])


def test_fields_and_coefficients_are_the_same_forcing(fields, truth):
    x = fields["x"].values
    given = truth.domain.synthesise(truth.forcing.coefficients, x)
    as_field = xr.DataArray(given, dims=("time", "x"), coords={"time": KNOTS, "x": x})
    law = sl.fit(fields, truth.domain, N, forcing=as_field)
    np.testing.assert_allclose(law.forcing.on_modes(N), truth.forcing.coefficients, atol=1e-10)


def test_samples_have_the_forced_mean(law, truth):
    x = truth.default_grid()
    paths = law.sample(800, seed=4)
    expected = law.equation.mean(grid=x)
    error = paths.std("path") / np.sqrt(800) + 1e-9
    assert float(np.abs((paths.mean("path") - expected) / error)[1:, 1:-1].max()) < 5.5


def test_reconstruction_and_forecast_carry_the_response(fields, law):
    seen = gappy(fields[:3], std=0.0)
    result = law.reconstruct(seen)
    assert float(np.sqrt(((result["mean"] - fields[:3]) ** 2).mean())) < 0.05
    later = np.array([1.0, 1.2, 1.5])
    ahead = law.forecast(fields[:3], later, n_samples=400, seed=0)
    draws = ahead["sample"]
    error = draws.std("draw") / 20 + 1e-9
    assert float(np.abs((draws.mean("draw") - ahead["mean"]) / error)[:, :, 1:-1].max()) < 5.5
    # At the last observed time the forecast is the observation.
    np.testing.assert_allclose(ahead["mean"][:, 0], fields[:3, -1], atol=1e-3)


def test_paths_with_their_own_times(truth):
    rng = np.random.default_rng(0)
    rows, clocks = [], []
    for p in range(60):
        t = np.concatenate([[0.0], np.sort(rng.uniform(0.01, 1.4, 60))])
        rows.append(sl.simulate(truth, 1, t, seed=100 + p).values[0])
        clocks.append(t)
    data = xr.DataArray(
        np.stack(rows), dims=("path", "time", "x"),
        coords={"x": truth.default_grid(), "path_time": (("path", "time"), np.stack(clocks))},
    )  # fmt: skip
    law = sl.fit(data, truth.domain, N, forcing=truth.forcing)
    assert largest_z(law, truth) < 4.0
    result = law.reconstruct(data)
    np.testing.assert_allclose(result["mean"], data.values, atol=1e-2)


def test_likelihood_is_that_of_what_is_left(law, fields):
    inside = law.without_preparation_and_mean.log_likelihood(law.prepared(fields[:5]))
    np.testing.assert_allclose(law.log_likelihood(fields[:5]), inside)


def test_updated_and_stored_laws_keep_the_forcing(tmp_path, fields, truth, law):
    first = sl.fit(fields[:70], truth.domain, N, forcing=truth.forcing)
    whole = sl.update(first, fields[70:])
    np.testing.assert_allclose(
        whole.parameters.eigenvalue.values, law.parameters.eigenvalue.values, rtol=1e-4
    )
    whole.save(tmp_path / "forced.law")
    back = sl.load(tmp_path / "forced.law")
    np.testing.assert_array_equal(back.forcing.coefficients, truth.forcing.coefficients)
    xr.testing.assert_identical(back.sample(2, seed=1), whole.sample(2, seed=1))


def test_scorecard_and_checks_of_a_forced_law(law, truth, fields):
    card = sl.evaluate(law, fields[:40], truth=truth)
    assert card.check.fits
    floor = card.limits["reconstruct"].relative_l2
    assert card.tiers["reconstruct"].relative_l2 <= 1.05 * floor + 1e-6


def test_dates(truth):
    dates = pd.date_range("2020-01-01", periods=201, freq="D")
    scaled = dataclasses.replace(
        truth, times=np.arange(201.0), drift=truth.eigenvalues / 200,
        noise=truth.noise_variance / 200,
        forcing=sl.Forcing(KNOTS * 200, truth.forcing.coefficients / 200),
    )  # fmt: skip
    data = sl.simulate(scaled, 30, seed=0).assign_coords(time=dates)
    x = data["x"].values
    known = xr.DataArray(
        truth.domain.synthesise(scaled.forcing.coefficients, x), dims=("time", "x"),
        coords={"time": pd.to_datetime("2020-01-01") + pd.to_timedelta(KNOTS * 200, "D"), "x": x},
    )  # fmt: skip
    law = sl.fit(data, truth.domain, N, forcing=known)
    np.testing.assert_allclose(law.forcing.times, KNOTS * 200)
    assert law.sample(1)["time"].dtype.kind == "f"
    assert largest_z(law, scaled) < 4.5


def test_bad_forcings(fields, truth):
    domain, f = truth.domain, truth.forcing
    with pytest.raises(InputError, match="exact"):
        sl.fit(fields, domain, N, forcing=f, engine="chaos")
    with pytest.raises(InputError, match="prepare"):
        sl.fit(fields, domain, N, forcing=f, prepare=sl.Preparation(detrend=True))
    with pytest.raises(EquationError, match="known from"):
        sl.fit(fields, domain, N, forcing=sl.Forcing([0.0, 0.5], np.zeros((2, 1))))
    with pytest.raises(DataError, match="one field"):
        sl.fit(fields, domain, N, forcing=fields[:2])
    hole = fields[0].copy()
    hole[3, 4] = np.nan
    with pytest.raises(DataError, match="without gaps"):
        sl.fit(fields, domain, N, forcing=hole)


def test_forecasts_beyond_the_forcing_are_refused(law, fields):
    with pytest.raises(EquationError, match="known from"):
        law.forecast(fields[:1], [3.0])

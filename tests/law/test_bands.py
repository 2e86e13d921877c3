"""``std`` is of a value that would be observed, ``std_field`` of the field without noise."""

import dataclasses

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.law.residuals import AR1

INTERVAL = sl.Interval(0, np.pi)
POINTS = INTERVAL.grid(9)
TIMES = np.linspace(0.0, 3.0, 31)
TRUTH = sl.catalogue.heat(n_modes=2, initial="stationary", kappa=0.5)
NOISE = 0.2


@pytest.fixture(scope="module")
def law():
    data = sl.simulate(TRUTH, 40, TIMES, POINTS, seed=0, observation_std=NOISE)
    return sl.fit(data, INTERVAL, 2, mean="zero", initial="stationary", nuisance=0)


@pytest.fixture(scope="module")
def new():
    clean = sl.simulate(TRUTH, 60, TIMES, POINTS, seed=1)
    noise = NOISE * np.random.default_rng(2).standard_normal(clean.shape)
    return clean, clean + noise


def noise_of(result):
    return (result["std"] ** 2 - result["std_field"] ** 2).values


def test_a_value_has_the_noise_on_top_of_the_field(law, new):
    data = new[1][:2]
    for result in (law.reconstruct(data), law.forecast(data, [3.2, 4.0])):
        assert list(result.data_vars) == ["mean", "std", "std_field"]
        np.testing.assert_allclose(noise_of(result), float(law.observation_variance), rtol=1e-9)


def test_noise_per_point_has_its_mean_at_a_new_point(law, new):
    each = 0.01 * np.arange(1.0, 10.0)
    some = dataclasses.replace(law, observation_variance=each)
    grid = np.append(POINTS, 0.1)
    result = some.forecast(new[1][:2], [3.2], grid=grid)
    np.testing.assert_allclose(noise_of(result)[0, 0], np.append(each, each.mean()), rtol=1e-9)


def test_of_a_residual_with_memory_the_white_part_is_noise(law, new):
    white = 0.02 * np.arange(1.0, 10.0)
    memory = AR1(np.full(9, 0.7), np.full(9, 0.05), white)
    some = dataclasses.replace(law, residual_memory=memory)
    for result in (some.reconstruct(new[1][:2]), some.forecast(new[1][:2], [3.2])):
        np.testing.assert_allclose(noise_of(result), np.broadcast_to(white, result["std"].shape))


def test_both_bands_hold_95_percent(law, new):
    """Null: errors are normal with these deviations. Values of a path depend on one another.

    The tolerance is five standard errors of 60 paths, each of which counts for 10 values.
    """
    clean, observed = new
    hidden = np.random.default_rng(3).uniform(size=clean.shape) < 0.3
    result = law.reconstruct(observed.where(~hidden))
    inner = hidden & (np.abs(np.sin(POINTS)) > 1e-6)  # at both ends the field is known
    for truth, name in ((observed, "std"), (clean, "std_field")):
        z = ((truth - result["mean"]) / result[name]).values[inner]
        assert abs(np.mean(np.abs(z) < 1.96) - 0.95) < 5 * np.sqrt(0.95 * 0.05 / 600)


def test_drawn_parameters_widen_both(law, new):
    plain = law.forecast(new[1][:1], [3.5])
    wide = law.forecast(new[1][:1], [3.5], parameter_draws=8)
    inner = {"x": slice(1, 8)}
    for name in ("std", "std_field"):
        assert float((wide[name] / plain[name]).isel(inner).min()) > 0.98
    # The noise of each drawn law, on average.
    np.testing.assert_allclose(noise_of(wide), float(law.observation_variance), rtol=0.05)


def test_a_nonlinear_forecast_has_the_moments_of_its_dynamics():
    """From between two wells: an ensemble that the dynamics draw has the same mean and spread."""
    ring = sl.Interval(0, 2 * np.pi, "periodic")
    linear = sl.SpectralSPDE(ring, 3, sl.OperatorFormula(nu=0.1), noise=sl.White(0.3))
    equation = sl.Semilinear(linear, {"u": 3.0, "u^3": -3.0})
    data = sl.simulate(equation, 12, np.linspace(0.0, 2.0, 41), ring.grid(8), seed=0)
    law, start = sl.fit(data[2:], ring, 3, terms=("u", "u^3")), data[:2, :2]
    result = law.forecast(start, [0.06, 3.0], n_samples=400)
    draws = result["sample"]
    error = draws.std("draw") / 10.0  # of the mean of 100 members
    assert (np.abs(draws.mean("draw") - result["mean"]) < 4.5 * error).all()
    np.testing.assert_allclose(result["std_field"] / draws.std("draw"), 1.0, atol=0.35)
    np.testing.assert_array_equal(law.forecast(start, [0.06, 3.0])["mean"], result["mean"])

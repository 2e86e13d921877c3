"""Estimates and standard errors against closed forms; what is fixed, tied or believed."""

import dataclasses

import numpy as np
import pytest
from scipy import optimize
from tests.fitted import INTERVAL, NOISE, POINTS, TIMES, fitted, heat, refit, small
from tests.infer.recovery import WITHIN, assert_recovers, estimates, z_scores

import spdelaw as sl
from spdelaw.errors import DataError, InputError

#: The optimiser stops where 1e-4 of log-likelihood is left: 1 % of a standard error.
OF_A_STANDARD_ERROR = 0.02
UPDATE_TOLERANCE = 1e-8


def coefficients(fields):
    return fields.values @ np.linalg.pinv(INTERVAL.eigenfunctions(POINTS, 3)).T


def assert_close(law, name, expected):
    """In standard errors."""
    assert np.abs(z_scores(law, **{name: expected})).max() < OF_A_STANDARD_ERROR


def test_regular_grid_in_closed_form():
    """a = S01 / S00, omega = mean residual: the least-squares AR(1), and its information."""
    fields, _, law = fitted("complete")
    c = coefficients(fields)
    now, then, dt = c[:, :-1], c[:, 1:], TIMES[1]
    s00 = (now**2).sum((0, 1))
    a = (now * then).sum((0, 1)) / s00
    omega = ((then - a * now) ** 2).mean((0, 1))
    lam = -np.log(a) / dt
    q = omega * 2 * lam / (1 - a**2)
    error = np.sqrt(omega / s00) / (a * dt)
    np.testing.assert_allclose(estimates(law, "eigenvalue", "stderr"), error, rtol=2e-2)
    assert_close(law, "eigenvalue", lam)
    assert_close(law, "noise_variance", q)
    # d log q = d log omega + d log(2 lambda / (1 - a^2)): independent parts.
    x = lam * dt
    slope = 1 / lam - 2 * dt * np.exp(-2 * x) / -np.expm1(-2 * x)
    n = now.shape[0] * now.shape[1]
    expected = q * np.sqrt(2 / n + (slope * error) ** 2)
    np.testing.assert_allclose(estimates(law, "noise_variance", "stderr"), expected, rtol=2e-2)


def test_log_likelihood_at_the_estimate_is_a_maximum():
    fields, _, law = fitted("noisy")
    best = float(law.log_likelihood(fields).sum())
    np.testing.assert_allclose(best, law.info["log_likelihood"], rtol=1e-9)
    d, start = law.linear, law.initial
    for part in (
        {"dynamics": dataclasses.replace(d, drift=1.1 * d.drift)},
        {"dynamics": dataclasses.replace(d, noise=0.95 * d.noise)},
        {"initial": start._replace(mean=1.1 * start.mean)},
    ):
        moved = dataclasses.replace(law, **part)
        assert float(moved.log_likelihood(fields).sum()) < best


def test_statistics_and_filter_agree_without_noise():
    """The same complete, noise-free data through both ways."""
    fields, _, one = fitted("complete")
    gap = fields.copy()
    gap[0, -1] = np.nan
    two = sl.fit(gap, INTERVAL, 3)
    assert (one.info["route"], two.info["route"]) == ("statistics", "filter")
    for name in ("eigenvalue", "noise_variance"):
        assert np.abs(z_scores(one, **{name: estimates(two, name)})).max() < 0.2
        errors = (estimates(law, name, "stderr") for law in (one, two))
        np.testing.assert_allclose(*errors, rtol=0.05)


# -- fixed, believed, tied ------------------------------------------------------------


@pytest.mark.parametrize("name", ["complete", "noisy"])
def test_fixed_parameters_stay(name):
    law = refit(name, fixed={"eigenvalue": [np.nan, 4.0, np.nan], "noise_variance[1]": 0.9})
    rates, noise = law.parameters.eigenvalue.values, law.parameters.noise_variance.values
    np.testing.assert_allclose([rates[1, 0], noise[0, 0]], [4.0, 0.9])
    assert rates[1, 1] == noise[0, 1] == 0.0
    assert rates[0, 1] > 0.0


def test_a_mode_without_decay():
    law = refit("complete", fixed={"eigenvalue[1]": 0.0})
    assert estimates(law, "eigenvalue")[0] == 0.0
    c = coefficients(fitted("complete").data)[..., 0]
    brownian = (np.diff(c, axis=1) ** 2).sum() / (len(c) * np.ptp(TIMES))
    np.testing.assert_allclose(estimates(law, "noise_variance")[0], brownian, rtol=1e-3)


def test_normal_prior_on_the_initial_mean_in_closed_form():
    """Everything else fixed: a precision-weighted mean."""
    fields, e = small(20, initial="gaussian", seed=5), heat(3, "gaussian")
    law = sl.fit(
        fields, INTERVAL, 3, initial="gaussian",
        fixed={"eigenvalue": e.eigenvalues, "noise_variance": e.noise_variance,
               "initial_variance": e.initial_variance},
        priors={"initial_mean": sl.Normal(0.3, 0.05)},
    )  # fmt: skip
    mean, v = coefficients(fields)[:, 0].mean(0), e.initial_variance
    precision = 20 / v + 1 / 0.05**2
    expected = (20 * mean / v + 0.3 / 0.05**2) / precision
    np.testing.assert_allclose(estimates(law, "initial_mean"), expected, rtol=1e-8)
    errors = estimates(law, "initial_mean", "stderr")
    np.testing.assert_allclose(errors, precision**-0.5, rtol=1e-6)


def test_log_normal_prior_on_a_noise_variance_by_a_root():
    """With lambda fixed the posterior of log q is one-dimensional."""
    fields, sigma, median, lam = small(5, seed=6), 0.05, 2.0, heat().eigenvalues
    priors = {"noise_variance": sl.LogNormal(median, sigma)}
    law = sl.fit(fields, INTERVAL, 3, fixed={"eigenvalue": lam}, priors=priors)
    c, dt = coefficients(fields), np.diff(TIMES)[:, None]
    a, g = np.exp(-lam * dt), -np.expm1(-2 * lam * dt) / (2 * lam)
    residual = ((c[:, 1:] - a * c[:, :-1]) ** 2 / g).sum((0, 1))
    n = c.shape[0] * (c.shape[1] - 1)

    def slope(x, r):
        return -0.5 * n + 0.5 * r * np.exp(-x) - (x - np.log(median)) / sigma**2

    expected = [np.exp(optimize.brentq(slope, -10, 5, args=(r,))) for r in residual]
    assert_close(law, "noise_variance", expected)


def test_the_likelihood_reported_has_no_prior_in_it():
    fields, _, plain = fitted("noisy")
    law = refit("noisy", priors={"eigenvalue": sl.LogNormal(3.0, 0.1)})
    total = float(law.log_likelihood(fields).sum())
    assert law.info["log_likelihood"] == pytest.approx(total, rel=1e-9)
    assert law.info["log_likelihood"] < plain.info["log_likelihood"]
    assert (np.abs(law.linear.drift - 3.0) < np.abs(plain.linear.drift - 3.0)).all()


@pytest.mark.parametrize("noise", [0.0, NOISE])
def test_parametric_law(noise):
    """lambda_n = kappa + nu mu_n^s and q_n = scale n^-exponent, four numbers for 2 N."""
    equation, grid = sl.catalogue.damped_heat(2.0, n_modes=5), INTERVAL.grid(16)
    fields = sl.simulate(equation, 150, TIMES, grid, seed=8, observation_std=noise)
    words = {"observation_noise": "estimate" if noise else "auto"}
    tied = {"drift": "parametric", "noise": "parametric", "fixed": {"s": 1.0}}
    law, free = (sl.fit(fields, INTERVAL, 5, **words, **more) for more in (tied, {}))
    z = z_scores(law, kappa=2.0, nu=1.0, noise_scale=1.0, noise_exponent=2.01)
    assert np.abs(z).max() < WITHIN
    assert_recovers(law, equation)
    assert (estimates(law, "eigenvalue", "stderr") < estimates(free, "eigenvalue", "stderr")).all()
    assert law.info["n_parameters"] == free.info["n_parameters"] - 6


def test_order_of_the_operator():
    equation = sl.catalogue.fractional_heat(0.7, n_modes=6)
    fields = sl.simulate(equation, 200, TIMES, INTERVAL.grid(16), seed=9)
    law = sl.fit(fields, INTERVAL, 6, drift="parametric", fixed={"kappa": 0.0})
    assert np.abs(z_scores(law, nu=1.0, s=0.7)).max() < WITHIN
    assert_recovers(law, equation)


# -- more data later ------------------------------------------------------------------


@pytest.mark.parametrize("initial", ["bump", "gaussian"])
def test_update_is_the_fit_of_everything(initial):
    fields = small(40, initial=initial, seed=10)
    one, whole = (sl.fit(x, INTERVAL, 3, mean="zero") for x in (fields[:15], fields))
    one = sl.update(one, fields[15:])
    for name, table in whole.parameters.items():
        np.testing.assert_allclose(
            one.parameters[name], table, rtol=UPDATE_TOLERANCE, atol=1e-12, err_msg=name
        )
    assert one.info["n_paths"] == 40
    assert one.info["n_observed"] == whole.info["n_observed"]
    np.testing.assert_allclose(one.info["log_likelihood"], whole.info["log_likelihood"])


@pytest.mark.parametrize(
    ("law", "data", "error", "word"),
    [
        ("noisy", lambda: small(5), InputError, "fit old and new data together"),
        ("complete", lambda: sl.mask(small(5), "random", 0.2), DataError, "complete fields"),
        ("complete", lambda: small(5, times=TIMES + 1.0), DataError, "same times"),
        (None, lambda: small(5), InputError, "expected a Law"),
    ],
)
def test_update_needs_statistics_and_complete_data(law, data, error, word):
    with pytest.raises(error, match=word):
        sl.update(fitted(law).law if law else "heat.law", data())


@pytest.mark.parametrize("name", ["complete", "gaps"])
def test_units_scale_the_law(name):
    """Times in another unit, fields in another unit: the same law in other numbers."""
    fields, _, one = fitted(name)
    two = sl.fit(1e3 * fields.assign_coords(time=3600.0 * TIMES), INTERVAL, 3)
    assert_close(one, "eigenvalue", two.linear.drift * 3600.0)
    assert_close(one, "noise_variance", two.linear.noise * 3600.0 / 1e6)
    if name == "complete":
        np.testing.assert_allclose(two.linear.drift * 3600.0, one.linear.drift, rtol=1e-5)


def test_threads_change_nothing():
    fields = sl.mask(small(12, noise=NOISE, seed=15), "rows", 0.2)
    one, two = (sl.fit(fields, INTERVAL, 3, threads=n) for n in (1, 2))
    np.testing.assert_array_equal(one.parameters.eigenvalue, two.parameters.eigenvalue)


def test_noise_of_a_single_path_is_not_denied():
    """The first row, whose mean is its own, says nothing about noise and must not decide."""
    times, points = np.linspace(0.0, 10.0, 200), INTERVAL.grid(33)
    fields = sl.simulate(heat(4), 1, times, points, seed=0, observation_std=0.02)
    law = sl.fit(fields, INTERVAL, 4, mean="zero")
    # 200 times 31 values tell a deviation to one in 100.
    assert float(estimates(law, "observation_std")) == pytest.approx(0.02, rel=0.05)

"""Estimates and standard errors against closed forms; what is fixed, tied or believed."""

import dataclasses

import numpy as np
import pytest
from scipy import optimize
from tests.infer.recovery import INTERVAL, POINTS, TIMES, assert_recovers, heat, small, z_scores

import spdelaw as sl
from spdelaw.errors import DataError, InputError
from spdelaw.infer.engines.exact import build_statistics_objective
from spdelaw.statespace.statistics import collect

#: The optimiser stops where 1e-4 of log-likelihood is left: 1 % of a standard error.
OF_A_STANDARD_ERROR = 0.02
UPDATE_TOLERANCE = 1e-8

ESTIMATE, STDERR = {"statistic": "estimate"}, {"statistic": "stderr"}


def coefficients(fields):
    phi = INTERVAL.eigenfunctions(POINTS, 3)
    return fields.values @ np.linalg.pinv(phi).T


def test_regular_grid_in_closed_form():
    """a = S01 / S00, omega = mean residual: the least-squares AR(1), and its information."""
    fields = small(40, seed=1)
    law = sl.fit(fields, INTERVAL, 3)
    c = coefficients(fields)
    now, then, dt = c[:, :-1], c[:, 1:], TIMES[1]
    s00 = (now**2).sum((0, 1))
    a = (now * then).sum((0, 1)) / s00
    omega = ((then - a * now) ** 2).mean((0, 1))
    lam = -np.log(a) / dt
    q = omega * 2 * lam / (1 - a**2)
    error = np.sqrt(omega / s00) / (a * dt)
    table = law.parameters
    np.testing.assert_allclose(table.eigenvalue.sel(STDERR), error, rtol=2e-2)
    gap = (table.eigenvalue.sel(ESTIMATE).values - lam) / error
    assert np.abs(gap).max() < OF_A_STANDARD_ERROR
    gap = (table.noise_variance.sel(ESTIMATE).values - q) / table.noise_variance.sel(STDERR).values
    assert np.abs(gap).max() < OF_A_STANDARD_ERROR
    # d log q = d log omega + d log(2 lambda / (1 - a^2)): independent parts.
    x = lam * dt
    slope = 1 / lam - 2 * dt * np.exp(-2 * x) / -np.expm1(-2 * x)
    n = now.shape[0] * now.shape[1]
    expected = q * np.sqrt(2 / n + (slope * error) ** 2)
    np.testing.assert_allclose(table.noise_variance.sel(STDERR), expected, rtol=2e-2)


@pytest.mark.parametrize("mean", ["zero", "constant"])
def test_even_steps_are_searched_from_the_maximum(mean):
    """Given where paths start: of a law with a mean up to what integrating it out changes."""
    data = sl.simulate(sl.catalogue.heat(3), 30, np.linspace(0, 2, 81), INTERVAL.grid(40), seed=0)
    c = data.values @ np.linalg.pinv(INTERVAL.eigenfunctions(INTERVAL.grid(40), 3)).T + 0.3
    s = collect([c], data.time.values, np.eye(3), np.eye(3))
    problem = build_statistics_objective(s, INTERVAL, sl.Model(mean=mean, initial="deterministic"))
    posterior = problem.posterior()
    slope = posterior.scale * posterior.at(np.zeros(len(posterior.scale)))[1]
    assert np.abs(slope).max() < (1e-8 if mean == "zero" else 0.2)
    found = problem.run()
    moved = (found.full - problem.start) / np.sqrt(np.diag(found.columns @ found.columns.T))
    assert np.abs(moved).max() < (1e-8 if mean == "zero" else 0.2)


def test_log_likelihood_at_the_estimate_is_a_maximum():
    fields = small(30, noise=0.05, seed=2)
    law = sl.fit(fields, INTERVAL, 3, observation_noise="estimate")
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
    fields = small(40, seed=3)
    one = sl.fit(fields, INTERVAL, 3)
    gap = fields.copy()
    gap[0, -1] = np.nan
    two = sl.fit(gap, INTERVAL, 3)
    assert (one.info["route"], two.info["route"]) == ("statistics", "filter")
    for name in ("eigenvalue", "noise_variance"):
        a, b = one.parameters[name], two.parameters[name]
        gaps = (a.sel(ESTIMATE) - b.sel(ESTIMATE)) / a.sel(STDERR)
        assert float(np.abs(gaps).max()) < 0.2
        np.testing.assert_allclose(a.sel(STDERR), b.sel(STDERR), rtol=0.05)


# -- fixed, believed, tied ------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_fixed_parameters_stay(noise):
    fields = small(30, noise=noise, seed=4)
    law = sl.fit(
        fields, INTERVAL, 3, fixed={"eigenvalue": [np.nan, 4.0, np.nan], "noise_variance[1]": 0.9},
        observation_noise="estimate" if noise else "auto",
    )  # fmt: skip
    table = law.parameters
    np.testing.assert_allclose(float(table.eigenvalue.sel(mode=2, **ESTIMATE)), 4.0)
    np.testing.assert_allclose(float(table.noise_variance.sel(mode=1, **ESTIMATE)), 0.9)
    assert float(table.eigenvalue.sel(mode=2, **STDERR)) == 0.0
    assert float(table.noise_variance.sel(mode=1, **STDERR)) == 0.0
    assert float(table.eigenvalue.sel(mode=1, **STDERR)) > 0.0


def test_a_mode_without_decay():
    law = sl.fit(small(30, seed=4), INTERVAL, 3, fixed={"eigenvalue[1]": 0.0})
    assert float(law.parameters.eigenvalue.sel(mode=1, **ESTIMATE)) == 0.0
    c = coefficients(small(30, seed=4))[..., 0]
    brownian = (np.diff(c, axis=1) ** 2).sum() / (30 * np.ptp(TIMES))
    np.testing.assert_allclose(
        float(law.parameters.noise_variance.sel(mode=1, **ESTIMATE)), brownian, rtol=1e-3
    )


def test_normal_prior_on_the_initial_mean_in_closed_form():
    """Everything else fixed: a precision-weighted mean."""
    fields = small(20, initial="gaussian", seed=5)
    e = heat(3, "gaussian")
    law = sl.fit(
        fields, INTERVAL, 3, initial="gaussian",
        fixed={"eigenvalue": e.eigenvalues, "noise_variance": e.noise_variance,
               "initial_variance": e.initial_variance},
        priors={"initial_mean": sl.Normal(0.3, 0.05)},
    )  # fmt: skip
    mean, v = coefficients(fields)[:, 0].mean(0), e.initial_variance
    precision = 20 / v + 1 / 0.05**2
    expected = (20 * mean / v + 0.3 / 0.05**2) / precision
    table = law.parameters.initial_mean
    np.testing.assert_allclose(table.sel(ESTIMATE), expected, rtol=1e-8)
    np.testing.assert_allclose(table.sel(STDERR), precision**-0.5, rtol=1e-6)


def test_log_normal_prior_on_a_noise_variance_by_a_root():
    """With lambda fixed the posterior of log q is one-dimensional."""
    fields, sigma, median = small(5, seed=6), 0.05, 2.0
    e = heat()
    law = sl.fit(
        fields, INTERVAL, 3, fixed={"eigenvalue": e.eigenvalues},
        priors={"noise_variance": sl.LogNormal(median, sigma)},
    )  # fmt: skip
    c = coefficients(fields)
    lam, dt = e.eigenvalues, np.diff(TIMES)[:, None]
    a, g = np.exp(-lam * dt), -np.expm1(-2 * lam * dt) / (2 * lam)
    residual = ((c[:, 1:] - a * c[:, :-1]) ** 2 / g).sum((0, 1))
    n = c.shape[0] * (c.shape[1] - 1)
    for mode in range(3):

        def slope(x, r=residual[mode]):
            return -0.5 * n + 0.5 * r * np.exp(-x) - (x - np.log(median)) / sigma**2

        expected = np.exp(optimize.brentq(slope, -10, 5))
        table = law.parameters.noise_variance.sel(mode=mode + 1)
        gap = float(table.sel(ESTIMATE) - expected) / float(table.sel(STDERR))
        assert abs(gap) < OF_A_STANDARD_ERROR


def test_the_likelihood_reported_has_no_prior_in_it():
    fields = small(20, noise=0.05, seed=7)
    law = sl.fit(
        fields, INTERVAL, 3, observation_noise="estimate",
        priors={"eigenvalue": sl.LogNormal(3.0, 0.1)},
    )  # fmt: skip
    np.testing.assert_allclose(
        float(law.log_likelihood(fields).sum()), law.info["log_likelihood"], rtol=1e-9
    )
    plain = sl.fit(fields, INTERVAL, 3, observation_noise="estimate")
    assert law.info["log_likelihood"] < plain.info["log_likelihood"]
    away = np.abs(plain.linear.drift - 3.0)
    assert (np.abs(law.linear.drift - 3.0) < away).all()


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_parametric_law(noise):
    """lambda_n = kappa + nu mu_n^s and q_n = scale n^-exponent, four numbers for 2 N."""
    equation = sl.catalogue.damped_heat(2.0, n_modes=5)
    grid = INTERVAL.grid(16)
    fields = sl.simulate(equation, 150, TIMES, grid, seed=8, observation_std=noise)
    law = sl.fit(
        fields, INTERVAL, 5, drift="parametric", noise="parametric", fixed={"s": 1.0},
        observation_noise="estimate" if noise else "auto",
    )  # fmt: skip
    z = z_scores(law, kappa=2.0, nu=1.0, noise_scale=1.0, noise_exponent=2.01)
    assert np.abs(z).max() < 4.0
    assert_recovers(law, equation)
    free = sl.fit(fields, INTERVAL, 5, observation_noise="estimate" if noise else "auto")
    tied, own = (x.parameters.eigenvalue.sel(STDERR).values for x in (law, free))
    assert (tied < own).all()
    gain = law.info["n_parameters"], free.info["n_parameters"]
    assert gain[0] == gain[1] - 6


def test_order_of_the_operator():
    equation = sl.catalogue.fractional_heat(0.7, n_modes=6)
    fields = sl.simulate(equation, 200, TIMES, INTERVAL.grid(16), seed=9)
    law = sl.fit(fields, INTERVAL, 6, drift="parametric", fixed={"kappa": 0.0})
    assert np.abs(z_scores(law, nu=1.0, s=0.7)).max() < 4.0
    assert_recovers(law, equation)


# -- more data later ------------------------------------------------------------------


@pytest.mark.parametrize("initial", ["bump", "gaussian"])
def test_update_is_the_fit_of_everything(initial):
    fields = small(40, initial=initial, seed=10)
    first = sl.fit(fields[:15], INTERVAL, 3)
    one = sl.update(first, fields[15:])
    all_at_once = sl.fit(fields, INTERVAL, 3)
    for name, table in all_at_once.parameters.items():
        np.testing.assert_allclose(
            one.parameters[name], table, rtol=UPDATE_TOLERANCE, atol=1e-12, err_msg=name
        )
    assert one.info["n_paths"] == 40
    assert one.info["n_observed"] == all_at_once.info["n_observed"]
    np.testing.assert_allclose(one.info["log_likelihood"], all_at_once.info["log_likelihood"])


def test_update_needs_statistics_and_complete_data():
    fields = small(20, noise=0.05, seed=11)
    noisy = sl.fit(fields, INTERVAL, 3, observation_noise="estimate")
    with pytest.raises(InputError, match="fit old and new data together"):
        sl.update(noisy, fields)
    law = sl.fit(small(20, seed=11), INTERVAL, 3)
    with pytest.raises(DataError, match="complete fields"):
        sl.update(law, sl.mask(small(5, seed=12), "random", 0.2))
    with pytest.raises(DataError, match="same times"):
        sl.update(law, small(5, seed=12, times=TIMES + 1.0))
    with pytest.raises(InputError, match="expected a Law"):
        sl.update("heat.law", fields)


def test_lazy_data_give_the_same_law(tmp_path):
    pytest.importorskip("dask")
    fields = small(40, seed=13)
    one = sl.fit(fields, INTERVAL, 3)
    two = sl.fit(fields.chunk(path=7), INTERVAL, 3)
    np.testing.assert_allclose(two.parameters.eigenvalue, one.parameters.eigenvalue, rtol=1e-8)


def test_units_scale_the_law():
    """Times in another unit, fields in another unit: the same law in other numbers."""
    fields = small(30, seed=14)
    one = sl.fit(fields, INTERVAL, 3)
    two = sl.fit(1e3 * fields.assign_coords(time=3600.0 * TIMES), INTERVAL, 3)
    np.testing.assert_allclose(two.linear.drift * 3600.0, one.linear.drift, rtol=1e-5)
    np.testing.assert_allclose(two.linear.noise * 3600.0, 1e6 * one.linear.noise, rtol=1e-5)


def test_noisy_units_scale_the_law():
    fields = sl.mask(small(30, noise=0.05, seed=14), "random", 0.2)
    one = sl.fit(fields, INTERVAL, 3)
    two = sl.fit(1e-4 * fields.assign_coords(time=60.0 * TIMES), INTERVAL, 3)
    gap = (two.linear.drift * 60.0 - one.linear.drift) / one.parameters.eigenvalue.sel(
        STDERR
    ).values
    assert np.abs(gap).max() < OF_A_STANDARD_ERROR


def test_threads_change_nothing():
    fields = sl.mask(small(12, noise=0.05, seed=15), "rows", 0.2)
    one = sl.fit(fields, INTERVAL, 3)
    two = sl.fit(fields, INTERVAL, 3, threads=2)
    np.testing.assert_array_equal(one.parameters.eigenvalue, two.parameters.eigenvalue)


def test_noise_of_a_single_path_is_not_denied():
    """The first row, whose mean is its own, says nothing about noise and must not decide."""
    domain, times = sl.Interval(0, np.pi), np.linspace(0.0, 10.0, 200)
    points = domain.grid(33)
    fields = sl.simulate(sl.catalogue.heat(4), 1, times, points, seed=0, observation_std=0.02)
    law = sl.fit(fields, domain, 4, mean="zero")
    # 200 times 31 values tell a deviation to one in 100.
    found = law.parameters["observation_std"].sel(statistic="estimate")
    assert float(found) == pytest.approx(0.02, rel=0.05)

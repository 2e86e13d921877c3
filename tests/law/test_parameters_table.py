"""Intervals from standard errors: symmetric, on the log scale, or all of the half-line."""

from __future__ import annotations

import numpy as np
import scipy.stats
import xarray as xr

import spdelaw as sl
from spdelaw.law.parameters import WIDEST_FACTOR, Quantity, interval_table

Z = scipy.stats.norm.ppf(0.975)


def test_symmetric_and_positive():
    x, s = np.array([2.0, -3.0]), np.array([0.5, 1.0])
    plain = interval_table(Quantity(x, s, False), 0.95)
    np.testing.assert_allclose(plain[:, 2:], np.stack([x - Z * s, x + Z * s], -1))
    lower, upper = interval_table(Quantity(x[:1], s[:1], True), 0.95)[0, 2:]
    np.testing.assert_allclose([lower * upper, upper / lower], [4.0, np.exp(2 * Z * 0.25)])


def test_what_the_data_do_not_determine_has_no_ends():
    edge = np.log(WIDEST_FACTOR) / Z
    table = interval_table(Quantity(np.ones(3), np.array([0.99, 1.01, 150.0]) * edge, True), 0.95)
    assert np.isfinite(table[0]).all()
    np.testing.assert_array_equal(table[1:, 2:], [[0.0, np.inf]] * 2)


def test_a_variance_at_zero_has_an_interval_of_no_width():
    np.testing.assert_array_equal(interval_table(Quantity(0.0, 1.0, True), 0.95)[2:], [0.0, 0.0])


def test_ends_found_otherwise_overrule():
    ends = np.array([[0.5, np.nan], [np.nan, np.inf]])
    table = interval_table(Quantity(np.ones(2), np.full(2, 0.1), True, ends), 0.95)
    np.testing.assert_allclose(table[:, 2:], [[0.5, np.exp(Z / 10)], [np.exp(-Z / 10), np.inf]])


def test_parameters_have_the_units_of_the_data(tmp_path):
    """Rates per unit of time, variances in squares of the unit of the field."""
    days = np.datetime64("2001-01-01") + np.arange(40).astype("timedelta64[D]")
    heat = sl.catalogue.heat(2, initial="stationary", kappa=0.5)
    times, grid = 0.1 * np.arange(40), heat.domain.grid(9)
    plain = sl.simulate(heat, 20, times, grid, seed=0, observation_std=0.1).drop_attrs()
    dated = plain.assign_coords(time=days).assign_attrs(units="K")
    words = {"initial": "stationary", "mean": "constant", "observation_noise": "estimate"}
    law = sl.fit(dated, heat.domain, 2, **words)
    units = {name: table.attrs.get("units") for name, table in law.parameters.data_vars.items()}
    assert units["eigenvalue"] == "1/days"
    assert units["noise_variance"] == "K^2/days"
    assert units["mean"] == units["observation_std"] == "K"
    law.save(tmp_path / "a.law")
    xr.testing.assert_identical(sl.load(tmp_path / "a.law").parameters, law.parameters)
    speed = sl.fit(dated.assign_attrs(units="m s-1"), heat.domain, 2, **words)
    assert speed.parameters["noise_variance"].attrs["units"] == "(m s-1)^2/days"
    how = sl.Preparation(standardise="whole")
    scaled = sl.fit(dated, heat.domain, 2, prepare=how, **words)
    assert scaled.parameters["noise_variance"].attrs["units"] == "1/days"
    assert scaled.parameters["observation_std"].attrs["units"] == "1"
    bare = sl.fit(plain, heat.domain, 2, **words)
    assert all(table.attrs == {} for table in bare.parameters.data_vars.values())

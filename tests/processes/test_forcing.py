"""A known forcing and its response: quadrature, limits, bad input."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from scipy.integrate import quad

import spdelaw as sl

KNOTS = np.array([0.0, 0.3, 0.35, 1.0, 2.0])
RATES = np.array([0.0, 1e-9, 0.7, 7.3, 400.0])


@pytest.fixture
def forcing():
    return sl.Forcing(KNOTS, np.random.default_rng(0).standard_normal((5, len(RATES))))


def integral(forcing, n, rate, begin, end):
    inside = KNOTS[(begin < KNOTS) & (end > KNOTS)]
    parts = np.concatenate([[begin], inside, [end]])
    f = forcing.coefficients[:, n]
    return sum(
        quad(lambda s: np.exp(-rate * (end - s)) * np.interp(s, KNOTS, f), a, b,
             epsabs=1e-13, limit=200)[0]
        for a, b in itertools.pairwise(parts)
    )  # fmt: skip


@pytest.mark.parametrize("begin", [0.0, 0.1, 0.3])
def test_response_is_the_integral(forcing, begin):
    times = np.array([begin, 0.32, 0.35, 0.9, 1.7])
    got = forcing.response(RATES, times, begin)
    expected = [[integral(forcing, n, rate, begin, t) for n, rate in enumerate(RATES)]
                for t in times]  # fmt: skip
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_response_of_coupled_modes(forcing):
    """A matrix that is diagonal in other coordinates has the response of those coordinates."""
    rng, times = np.random.default_rng(1), np.array([[0.2, 0.7], [1.4, 1.9]])
    n = forcing.coefficients.shape[1]
    basis, rates = rng.normal(size=(n, n)), np.linspace(0.5, 4.0, n)
    drift = basis @ np.diag(rates) @ np.linalg.inv(basis)
    other = sl.Forcing(forcing.times, forcing.coefficients @ np.linalg.inv(basis).T)
    expected = other.response(rates, times) @ basis.T
    np.testing.assert_allclose(forcing.response(drift, times), expected, atol=1e-11)
    by, way, h = rng.normal(size=expected.shape), rng.normal(size=(n, n)), 1e-6
    ends = [(by * forcing.response(drift + s * h * way, times)).sum() for s in (1, -1)]
    got = (forcing.pull_back(drift, times, by) * way).sum()
    np.testing.assert_allclose(got, (ends[0] - ends[1]) / (2 * h), rtol=1e-6)


def test_modes_beyond_the_forcing_are_not_forced(forcing):
    got = forcing.response(np.ones(7), np.array([1.0]))
    assert got.shape == (1, 7)
    np.testing.assert_array_equal(got[0, 5:], 0.0)


def test_the_mean_of_simulated_paths(forcing):
    equation = dataclasses.replace(sl.catalogue.heat(n_modes=5), forcing=forcing)
    paths = sl.simulate(equation, 20, seed=1)
    unforced = sl.simulate(equation.unforced, 20, seed=1)
    x = paths["x"].values
    response = equation.mean(grid=x) - equation.unforced.mean(grid=x)
    np.testing.assert_allclose((paths - unforced).values, np.broadcast_to(response, paths.shape),
                               atol=1e-12)  # fmt: skip
    assert float(np.abs(response).max()) > 0.1
    np.testing.assert_array_equal(equation.variance(), equation.unforced.variance())


def test_plain_description(forcing):
    equation = dataclasses.replace(sl.catalogue.heat(n_modes=3), forcing=forcing)
    assert sl.SpectralSPDE.from_dict(json.loads(json.dumps(equation.to_dict()))) == equation
    assert equation != equation.unforced
    assert "forced" in repr(equation)

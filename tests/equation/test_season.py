"""Noise with seasons: quadrature, simulated variances, bad input."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from scipy.integrate import quad

import spdelaw as sl
from spdelaw.errors import EquationError

SEASON = sl.Season(0.7, [4.0, 1.0, 0.5], origin=0.1)
RATES = np.array([0.0, 1e-8, 2.0, 60.0])


def integral(rate, start, end, weight):
    h = 0.7 / 3
    inside = np.arange(-20, 40) * h + 0.1
    ends = np.concatenate([[start], inside[(inside > start) & (inside < end)], [end]])
    return sum(
        weight(0.5 * (a + b)) * quad(lambda u: np.exp(-rate * (end - u)), a, b, epsabs=1e-13)[0]
        for a, b in itertools.pairwise(ends)
    )


@pytest.mark.parametrize(("start", "end"), [(0.0, 0.05), (0.1, 0.8), (0.33, 3.9), (-1.0, 0.2)])
def test_integrals(start, end):
    got = SEASON.integral(RATES, np.array([start]), np.array([end]))
    expected = [integral(rate, start, end, lambda u: SEASON.at(u)) for rate in RATES]
    np.testing.assert_allclose(got, expected, atol=1e-12)
    parts = SEASON.exposures(RATES, np.array([start]), np.array([end]))
    for k in range(3):
        own = [integral(r, start, end, lambda u, k=k: float(SEASON.part(u) == k)) for r in RATES]
        np.testing.assert_allclose(parts[:, k], own, atol=1e-12)


def test_parts_add_up_to_a_step_without_seasons():
    rng = np.random.default_rng(0)
    start = rng.uniform(0, 3, (50, 1))
    end = start + rng.uniform(0.001, 2.0, (50, 1))
    total = SEASON.exposures(RATES, start, end).sum(-1)
    plain = -np.expm1(-RATES * (end - start))
    expected = np.where(RATES > 0, plain / np.where(RATES > 0, RATES, 1.0), end - start)
    np.testing.assert_allclose(total, expected, rtol=1e-9)


def test_steps_join():
    """The variance over two steps is that of the first, decayed, and that of the second."""
    one = SEASON.integral(RATES, np.array([0.0]), np.array([0.9]))
    two = SEASON.integral(RATES, np.array([0.9]), np.array([2.0]))
    both = SEASON.integral(RATES, np.array([0.0]), np.array([2.0]))
    np.testing.assert_allclose(np.exp(-RATES * 1.1) * one + two, both, rtol=1e-12)


def seasonal():
    return dataclasses.replace(sl.catalogue.heat(n_modes=4), season=SEASON)


@pytest.mark.parametrize("scheme", ["exact", "semi_implicit"])
def test_simulated_variances(scheme):
    equation = seasonal()
    times = np.linspace(0.0, 1.0, 401)
    paths = sl.simulate(equation, 3000, times, seed=0, scheme=scheme)
    c = equation.domain.analyse(paths, 4)
    ratio = c.var("path").values[40:] / equation.variance(times).values[40:]
    tolerance = 5 * np.sqrt(2 / 3000) + (0.0 if scheme == "exact" else 0.1)
    assert np.abs(ratio - 1.0).max() < tolerance


def test_driving_noise_has_the_season():
    result = sl.simulate(seasonal(), 2000, np.linspace(0, 1, 101), seed=1, return_noise=True)
    per_time = result["noise_increment"].var("path").values[1:, 0] / 0.01
    strong = SEASON.at(np.linspace(0.005, 0.995, 100)) > 1.0
    assert per_time[strong].mean() > 3.0 * per_time[~strong].mean()


def test_equal_weights_change_nothing():
    even = dataclasses.replace(seasonal(), season=sl.Season(0.3, 5))
    plain = dataclasses.replace(even, season=None)
    np.testing.assert_allclose(even.variance(), plain.variance(), rtol=1e-10)
    np.testing.assert_allclose(
        sl.simulate(even, 2, seed=0).values, sl.simulate(plain, 2, seed=0).values, atol=1e-12
    )


def test_plain_description():
    equation = seasonal()
    assert sl.SpectralSPDE.from_dict(json.loads(json.dumps(equation.to_dict()))) == equation
    assert "seasons" in repr(equation)


@pytest.mark.parametrize(
    ("period", "weights"),
    [
        (0.0, 4), (-1.0, 4), (np.inf, 4), ("year", 4), (True, 4), (1.0, 1), (1.0, 1000),
        (1.0, True),
        (1.0, [1.0]), (1.0, [1.0, 0.0]), (1.0, [1.0, -1.0]), (1.0, [1.0, np.nan]), (1.0, "four"),
        (1.0, [[1.0, 2.0]]), (1.0, 2.5),
    ],
)  # fmt: skip
def test_bad_seasons(period, weights):
    with pytest.raises(EquationError, match="season"):
        sl.Season(period, weights)


def test_equations_refuse_what_has_no_meaning():
    with pytest.raises(EquationError, match="a Season"):
        dataclasses.replace(seasonal(), season=4)
    with pytest.raises(EquationError, match="seasons"):
        sl.SpectralSPDE(sl.Interval(0, 1), 2, noise=np.ones(2), initial="stationary", season=SEASON)

"""Noise with seasons: quadrature, simulated variances, bad input."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from scipy.integrate import quad

import spdelaw as sl

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
        expected = [integral(r, start, end, lambda u, k=k: SEASON.part(u) == k) for r in RATES]
        np.testing.assert_allclose(parts[:, k], expected, atol=1e-12)


def seasonal():
    return dataclasses.replace(sl.catalogue.heat(n_modes=4), season=SEASON)


@pytest.mark.parametrize("scheme", ["exact", "semi_implicit"])
def test_simulated_variances(scheme):
    equation = seasonal()
    times = np.linspace(0.0, 1.0, 401)
    paths = sl.simulate(equation, 3000, times, equation.domain.grid(9), seed=0, scheme=scheme)
    c = equation.domain.analyse(paths, 4)
    ratio = c.var("path").values[40:] / equation.variance(times).values[40:]
    tolerance = 5 * np.sqrt(2 / 3000) + (0.0 if scheme == "exact" else 0.1)
    assert np.abs(ratio - 1.0).max() < tolerance


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

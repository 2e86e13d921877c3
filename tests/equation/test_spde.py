"""SpectralSPDE: closed forms against matrix exponentials and quadrature, files, bad input."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, linalg

import spdelaw as sl
from spdelaw.equation import decay_mean, transition
from spdelaw.errors import EquationError

TIMES = np.array([0.0, 0.1, 0.35, 1.7])


def equation(**changes):
    settings = {
        "domain": sl.Interval(0, 2, "neumann"),
        "n_modes": 4,
        "drift": sl.OperatorFormula(0.3, 0.2, 0.8),
        "noise": sl.Matern(0.7),
        "initial": sl.Gaussian([1.0, -2.0], [0.5, 0.1, 0.0, 2.0]),
    }
    return sl.SpectralSPDE(**{**settings, **changes})


def test_transition_against_van_loan():
    """Factor and variance from one matrix exponential (Van Loan 1978), an independent route."""
    for lam, q, dt in [(0.0, 1.3, 0.2), (1e-9, 0.4, 1.0), (3.0, 0.2, 0.5), (64.0, 0.01, 0.005)]:
        e = linalg.expm(dt * np.array([[lam, q], [0.0, -lam]]))
        step = transition(np.array([lam]), np.array([q]), np.array([dt]))
        np.testing.assert_allclose(step.factor, e[1, 1], rtol=1e-12)
        np.testing.assert_allclose(step.covariance, e[1, 1] * e[0, 1], rtol=1e-10)


@given(st.floats(0, 700))
def test_decay_mean_is_the_mean_of_a_decay(x):
    expected = integrate.quad(lambda s: np.exp(-x * s), 0, 1, epsabs=1e-13)[0]
    np.testing.assert_allclose(decay_mean(x), expected, rtol=1e-9)


@given(
    lam=st.floats(0, 100),
    q=st.floats(1e-6, 10),
    first=st.floats(1e-4, 1),
    second=st.floats(1e-4, 1),
)
def test_two_steps_are_one(lam, q, first, second):
    """Chapman-Kolmogorov: a = a1 a2 and omega = a2^2 omega1 + omega2."""
    step = transition(np.array([lam]), np.array([q]), np.array([first, second, first + second]))
    a, w = step.factor[:, 0], step.covariance[:, 0]
    np.testing.assert_allclose(a[0] * a[1], a[2], rtol=1e-12)
    np.testing.assert_allclose(a[1] ** 2 * w[0] + w[1], w[2], rtol=1e-10)


def test_covariance_against_the_integral():
    e = equation()
    c = e.covariance(TIMES).values
    lam, q, v0 = e.eigenvalues, e.noise_variance, e.initial_variance
    for n in range(4):
        for i, t in enumerate(TIMES):
            for j, s in enumerate(TIMES):
                noise, _ = integrate.quad(
                    lambda r, n=n, t=t, s=s: q[n] * np.exp(-lam[n] * (t + s - 2 * r)), 0, min(t, s)
                )
                expected = v0[n] * np.exp(-lam[n] * (t + s)) + noise
                np.testing.assert_allclose(c[i, j, n], expected, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(np.einsum("iin->in", c), e.variance(TIMES), rtol=1e-12)


def test_moments_on_a_grid_follow_from_the_modes():
    e = equation()
    x = np.array([0.1, 0.8, 1.9])
    h = e.domain.eigenfunctions(x, 4)
    np.testing.assert_allclose(e.mean(TIMES, x), e.mean(TIMES).values @ h.T)
    np.testing.assert_allclose(e.variance(TIMES, x), e.variance(TIMES).values @ (h**2).T)
    np.testing.assert_allclose(e.energy_spectrum(TIMES), e.mean(TIMES) ** 2 + e.variance(TIMES))


def test_stationary_stays_stationary():
    e = equation(initial="stationary")
    np.testing.assert_allclose(
        e.variance([0.0, 3.0, 50.0]), np.tile(e.stationary_variance(), (3, 1)), rtol=1e-12
    )
    x = np.linspace(0, 2, 5)
    np.testing.assert_allclose(
        np.diag(e.stationary_covariance(x)), e.variance([0.0], x).values[0], rtol=1e-12
    )


def test_transient_forgets_its_start():
    e = equation()
    np.testing.assert_allclose(e.variance([200.0])[0], e.stationary_variance(), rtol=1e-8)


def test_initial_time_shifts_the_clock():
    late = dataclasses.replace(equation(), initial_time=5.0, times=TIMES + 5.0)
    np.testing.assert_allclose(late.variance(), equation().variance(TIMES))
    with pytest.raises(EquationError, match="initial"):
        late.mean([4.0])


def test_initial_function_is_projected():
    x = np.linspace(0, np.pi, 7)
    e = sl.SpectralSPDE(sl.Interval(0, np.pi), 3, noise=sl.White(), initial=lambda x: np.sin(2 * x))
    np.testing.assert_allclose(e.mean([0.0], x)[0], np.sin(2 * x), atol=1e-12)


@pytest.mark.parametrize("initial", ["stationary", [1.0, 2.0], sl.Gaussian(1.0, 2.0), np.sin])
@pytest.mark.parametrize("noise", [sl.PowerLaw(1.5, 2.0), sl.White(), [1.0, 2.0, 3.0, 4.0]])
def test_survives_json(initial, noise):
    e = equation(initial=initial, noise=noise)
    back = sl.SpectralSPDE.from_dict(json.loads(json.dumps(e.to_dict())))
    assert back == e
    assert hash(back) == hash(e)
    np.testing.assert_array_equal(back.initial_mean, e.initial_mean)


def test_is_frozen_and_printable():
    e = equation()
    with pytest.raises(dataclasses.FrozenInstanceError):
        e.n_modes = 3
    with pytest.raises(ValueError, match="read-only"):
        e.eigenvalues[0] = 1.0
    assert "4 modes" in repr(e)
    assert "lambda" in repr(e)


def test_with_modes_cuts_the_same_law():
    e = equation()
    np.testing.assert_allclose(e.with_modes(2).variance(), e.variance()[:, :2])
    with pytest.raises(EquationError, match="at most 4"):
        e.with_modes(5)


@pytest.mark.parametrize(
    "changes",
    [
        {"domain": "interval"},
        {"n_modes": 0},
        {"drift": [1.0, 2.0]},
        {"drift": [-1.0, 1.0, 2.0, 3.0]},
        {"drift": "fast"},
        {"noise": [1.0, np.nan, 1.0, 1.0]},
        {"noise": None},
        {"initial": "equilibrium"},
        {"initial": [1.0] * 5},
        {"initial": sl.Gaussian(0.0, -1.0)},
        {"initial": lambda x: 1 / 0},
        {"initial": "stationary", "drift": sl.OperatorFormula()},
        {"times": [0.0, 0.0]},
        {"times": [[0.0]]},
        {"times": []},
        {"times": "now"},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_bad_equations(changes):
    with pytest.raises(ValueError, match=r"expected .* got .* Fix:"):
        equation(**changes)


@pytest.mark.parametrize("value", ["2", None, np.inf, True])
def test_bad_spectra(value):
    with pytest.raises(EquationError, match="finite number"):
        sl.PowerLaw(value)


@pytest.mark.parametrize("description", [{}, {"domain": {"name": "line"}}, {"initial": 3}])
def test_bad_descriptions(description):
    with pytest.raises(EquationError, match="to_dict"):
        sl.SpectralSPDE.from_dict(description)

"""SpectralSPDE: closed forms against matrix exponentials and quadrature, files, bad input."""

import dataclasses
import json

import numpy as np
import pytest
from scipy import integrate, linalg
from tests.parameters import cross

import spdelaw as sl
from spdelaw.errors import EquationError
from spdelaw.processes.linear import transition

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


def test_initial_time_shifts_the_clock():
    late = dataclasses.replace(equation(), initial_time=5.0, times=TIMES + 5.0)
    np.testing.assert_allclose(late.variance(), equation().variance(TIMES))
    with pytest.raises(EquationError, match="initial"):
        late.mean([4.0])


@cross(
    initial=["stationary", [1.0, 2.0], sl.Gaussian(1.0, 2.0), np.sin],
    noise=[sl.PowerLaw(1.5, 2.0), sl.White(), [1.0, 2.0, 3.0, 4.0]],
)
def test_survives_json(initial, noise):
    e = equation(initial=initial, noise=noise)
    back = sl.SpectralSPDE.from_dict(json.loads(json.dumps(e.to_dict())))
    assert back == e
    assert hash(back) == hash(e)
    assert "4 modes" in repr(e)
    np.testing.assert_array_equal(back.initial_mean, e.initial_mean)


def test_with_modes_cuts_the_same_law():
    e = equation()
    np.testing.assert_allclose(e.with_modes(2).variance(), e.variance()[:, :2])
    with pytest.raises(EquationError, match="at most 4"):
        e.with_modes(5)

"""Simulated paths in chaos coordinates: first-order closure (Proposition 2.1) and the tail.

Statistical tests use a fixed seed and reject at a joint false-alarm rate of 1e-4.
"""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import spdelaw as sl
from spdelaw.chaos.indices import total_degree_set
from spdelaw.chaos.propagators import (
    CosineBasis,
    HaarBasis,
    chaos_coordinates,
    expand,
    first_order,
    propagate,
    tail_covariance,
)

ALPHA = 1e-4
N_PATHS, N_STEPS, K = 8000, 100, 3
BASIS = CosineBasis(1.25)
EQUATION = sl.SpectralSPDE(
    sl.Interval(0, np.pi), 2, [1.0, 4.0], noise=[1.0, 0.3], initial=[0.7, -1.2], initial_time=0.5,
    times=0.5 + np.linspace(0, 1.25, N_STEPS + 1),
)  # fmt: skip
AGES = EQUATION.times - EQUATION.initial_time
SHOWN = [20, 55, 80, 100]  # times at which coefficients are looked at


@pytest.fixture(scope="module")
def paths():
    """Coefficients (path, shown time, mode) and coordinates (path, K, L) of the same paths."""
    grid = EQUATION.domain.grid(6)[1:-1]
    data = sl.simulate(EQUATION, N_PATHS, grid=grid, seed=11, return_noise=True)
    shown = data.field[:, SHOWN].values
    c, xi = (
        EQUATION.domain.analyse(shown, 2, points=grid),
        chaos_coordinates(data, EQUATION, BASIS, K),
    )
    assert xi.dims == ("path", "k", "l")
    assert (xi.k.values.tolist(), xi.l.values.tolist()) == ([1, 2, 3], [1, 2])
    return c, xi.values


def chaos_coefficients(values, indices, xi, first=0):
    """Least squares of values (path, time, mode) on xi_alpha: ``E[values xi_alpha]`` and its error.

    The xi_alpha are orthonormal, so the regression coefficients are the chaos coefficients. Under
    the closure, values given xi are Gaussian with a mean linear in xi: coefficient / error has
    exactly Student's law, whatever the tails of the polynomials.
    """
    design = indices.polynomials(xi)[:, first:]
    inverse = np.linalg.inv(design.T @ design)
    y = values.reshape(len(values), -1)
    coefficients = inverse @ design.T @ y
    variance = ((y - design @ coefficients) ** 2).sum(0) / (len(y) - design.shape[1])
    errors = np.sqrt(np.diag(inverse)[:, None] * variance)
    shape = (design.shape[1], *values.shape[1:])
    return coefficients.reshape(shape), errors.reshape(shape)


def threshold(n_tests, n_columns):
    """Level that n_tests of Student's variables pass together with a rate of at most 1e-4."""
    return stats.t.isf(ALPHA / n_tests / 2, N_PATHS - n_columns)


def test_orders_two_and_above_vanish(paths):
    """Proposition 2.1: E[c_n(t) xi_alpha] = 0 for all 77 indices of order 2 and 3."""
    c, xi = paths
    indices = total_degree_set(K, 2, 3)
    coefficients, errors = chaos_coefficients(c, indices, xi)
    t = (coefficients / errors)[1 + K * 2 :]
    assert t.shape == (77, 4, 2)
    assert np.abs(t).max() < threshold(t.size, len(indices))
    # What "vanish" means here: below 3 % of the largest first-order coefficient at T.
    first = np.abs(coefficients[1 : 1 + K * 2]).max(0)
    assert (np.abs(coefficients[1 + K * 2 :]) < 0.03 * first[-1].max()).all()


def test_a_process_that_is_not_linear_does_not_close(paths):
    """The power of the test above: E[c_n^2 xi_{2 e_k}] = sqrt(2) z_k^2 is caught at once."""
    c, xi = paths
    indices = total_degree_set(K, 2, 3)
    coefficients, errors = chaos_coefficients(c**2, indices, xi)
    second = int(np.flatnonzero(indices.degrees[:, 0, 0] == 2)[0])
    t = coefficients[second, :, 0] / errors[second, :, 0]
    assert t.max() > 5 * threshold(77 * 8, len(indices))


def test_orders_zero_and_one_are_the_propagators(paths):
    """E[c_n] = e^(-lambda t) z0, E[c_n xi_{k,l}] = z_k(t) for l = n, else 0; step bias O(h^2)."""
    c, xi = paths
    amplitude = np.sqrt(EQUATION.noise_variance)
    curves = propagate(BASIS, AGES[SHOWN], EQUATION.eigenvalues, np.diag(amplitude), K)
    indices = total_degree_set(K, 2, 1)
    coefficients, errors = chaos_coefficients(c, indices, xi)
    exact = np.empty_like(coefficients)
    exact[0] = curves.decay * EQUATION.initial_mean
    exact[1:] = np.moveaxis(first_order(curves), 0, 2).reshape(K * 2, 4, 2)
    t = (coefficients - exact) / errors
    assert np.abs(t).max() < threshold(t.size, len(indices))
    assert np.abs(exact / errors).max() > 100  # far from zero


def test_what_the_expansion_leaves_is_the_tail(paths):
    """c - expand(z0, xi) has the tail's variance (chi2) and no first-order part left."""
    c, xi = paths
    arguments = (BASIS, AGES[SHOWN], EQUATION.eigenvalues, np.sqrt(EQUATION.noise_variance), K)
    rest = c - expand(propagate(*arguments), EQUATION.initial_mean, xi)
    variance = np.einsum("naa->an", tail_covariance(*arguments))
    ratio = (rest**2).sum(0) / variance
    level = ALPHA / ratio.size / 2
    assert ratio.min() > stats.chi2.ppf(level, N_PATHS)
    assert ratio.max() < stats.chi2.isf(level, N_PATHS)
    coefficients, errors = chaos_coefficients(rest, total_degree_set(K, 2, 1), xi, first=1)
    t = coefficients / errors
    assert np.abs(t).max() < threshold(t.size, K * 2)


def unit_increments(n_steps):
    """A Dataset whose path i has one increment sqrt(q) in step i and none elsewhere."""
    e = sl.SpectralSPDE(sl.Interval(0, 1), 2, [1.0, 1.0], noise=[4.0, 0.25], initial=[0.0])
    t = np.linspace(0, 1, n_steps + 1)[1:]
    values = np.eye(n_steps)[:, :, None] * np.sqrt(e.noise_variance)
    coords = {"path": np.arange(n_steps), "time": t, "mode": [1, 2]}
    noise = xr.DataArray(values, dims=("path", "time", "mode"), coords=coords)
    return xr.Dataset({"noise_increment": noise}), e


@pytest.mark.parametrize("basis", [CosineBasis(), HaarBasis()])
def test_coordinates_are_exactly_standard_normal_on_equal_steps(basis):
    """The map A from increments of variance h to coordinates has h A A^T = 1, without sampling."""
    data, e = unit_increments(16)
    a = chaos_coordinates(data, e, basis, 16).values  # (step, k, l)
    for l in range(2):
        np.testing.assert_allclose(a[..., l].T @ a[..., l] / 16, np.eye(16), atol=1e-13)

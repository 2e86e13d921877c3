"""Polynomial drift in chaos coordinates, and the warning about wells."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.chaos import (
    HermiteReaction,
    chaos_equation,
    expand_equation,
    growth_between_wells,
    hermite_products,
    total_degree_set,
    weighted_set,
)
from spdelaw.errors import ConvergenceError
from spdelaw.processes import Reacting
from spdelaw.processes.specification import InitialState

LINE = sl.Interval(0, np.pi)


def cubic(a, b=1.0, n_modes=2, noise=0.3, nu=0.05):
    """``dX = (nu X'' + a X - b X^3) dt + dW`` on sines."""
    n = np.arange(1.0, n_modes + 1)
    return Reacting(LINE, ("u", "u^3"), np.array([a, -b]), nu * n**2, noise / n**2)


def moments(dynamics, start, horizon, n_time, order):
    """Mean and covariance at the end of the time interval."""
    initial = InitialState("deterministic", start, 0.0 * start)
    expansion = expand_equation(
        chaos_equation(dynamics, initial), [horizon], n_time, order, horizon, "dropped"
    )
    u = expansion.values[0]
    return u[0], u[1:].T @ u[1:]


@pytest.mark.parametrize("indices", [total_degree_set(2, 1, 4), weighted_set([[0.5, 0.3]], 9)])
def test_products_of_hermite_polynomials(indices):
    """Against Gauss-Hermite quadrature, which is exact for these degrees."""
    x, w = np.polynomial.hermite_e.hermegauss(2 * indices.order + 2)
    nodes = np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, *indices.degrees.shape[1:])
    weights = np.outer(w, w).ravel() / (2 * np.pi)
    p = indices.polynomials(nodes)
    expected = np.einsum("x,xa,xb,xc->abc", weights, p, p, p, optimize=True)
    table = np.zeros_like(expected)
    a, b, c, weight = hermite_products(indices)
    np.add.at(table, (a, b, c), weight)
    np.testing.assert_allclose(table, expected, atol=1e-11 * expected.max())


def test_the_cube_takes_energy_from_every_truncated_expansion():
    dynamics, indices = cubic(0.0, noise=1.0, n_modes=3), total_degree_set(2, 2, 2)
    reaction = HermiteReaction(dynamics, indices)
    states = np.random.default_rng(0).standard_normal((50, len(indices), 4))
    assert all((x * reaction(x)).sum() < 0 for x in states)


def test_without_noise_the_expansion_is_the_deterministic_flow():
    dynamics = cubic(1.0, noise=0.0)
    start = np.array([0.8, -0.3])
    mean, covariance = moments(dynamics, start, 2.0, 2, 1)
    flow = dynamics.strang(start, 2.0, np.zeros((4000, 2)), dynamics.half_step(1e-3)[0])
    np.testing.assert_allclose(mean, flow, atol=1e-6)
    assert not covariance.any()


def test_one_well_is_described_and_two_wells_are_not():
    """The criterion of the warning beside the error that it warns of.

    Variances by 8,000 paths have a standard error below 1.6 %; five of them are allowed for.
    """
    errors = {}
    for name, a, horizon in (("one", -1.0, 2.0), ("two", 1.0, 8.0)):
        dynamics = cubic(a)
        mean, covariance = moments(dynamics, np.zeros(2), horizon, 4, 2)
        paths = dynamics.sample(np.zeros((8_000, 2)), 0.0, horizon, np.random.default_rng(0), 40)
        errors[name] = abs(np.trace(covariance) / paths.var(0).sum() - 1.0)
        growth = growth_between_wells(dynamics, mean, covariance, horizon)
        assert (growth > 0) == (name == "two")
    assert errors["one"] < 0.08
    assert errors["two"] > 0.2


@pytest.mark.parametrize(
    ("a", "b", "noise", "horizon", "warns"),
    [
        (1.0, 1.0, 0.3, 8.0, True),
        (1.0, 1.0, 0.3, 0.2, False),  # too short for wells to matter
        (0.04, 1.0, 0.3, 8.0, False),  # diffusion is stronger than the growth
        (1.0, 0.0, 0.3, 1.0, False),  # unstable, but without wells
        (-1.0, 1.0, 3.0, 8.0, False),
    ],
)
def test_when_two_wells_are_within_reach(a, b, noise, horizon, warns):
    growth = growth_between_wells(cubic(a, b, noise=noise), np.zeros(2), np.eye(2), horizon)
    assert (growth > 0) == warns


def test_an_expansion_that_runs_away_is_an_error():
    n = np.ones(1)
    explosive = Reacting(LINE, ("u^2",), np.array([5.0]), n, n)
    with pytest.raises(ConvergenceError, match="diverges"):
        moments(explosive, np.array([3.0]), 4.0, 2, 1)

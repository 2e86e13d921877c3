"""Interval: the inherited contract, closed forms, aliasing, rules on grids."""

import numpy as np
import pytest
from tests.parameters import cross

import spdelaw as sl
from spdelaw.errors import AliasingWarning
from spdelaw.testing import DomainContract

BOUNDARIES = ("dirichlet", "neumann", "periodic")


class TestDirichlet(DomainContract):
    def make_domain(self):
        return sl.Interval(0, np.pi)


class TestNeumann(DomainContract):
    n_modes = 9

    def make_domain(self):
        return sl.Interval(-1.0, 2.5, "neumann")


class TestPeriodic(DomainContract):
    n_modes = 11

    def make_domain(self):
        return sl.Interval(10.0, 370.0, "periodic")


def test_boundary_values():
    x = np.array([0.0, 2.0])
    np.testing.assert_allclose(sl.Interval(0, 2).eigenfunctions(x, 5), 0, atol=1e-14)
    step = 1e-6
    slope = np.diff(sl.Interval(0, 2, "neumann").eigenfunctions(np.array([0, step]), 5), axis=0)
    np.testing.assert_allclose(slope / step, 0, atol=1e-3)
    ring = sl.Interval(0, 2, "periodic").eigenfunctions(x, 5)
    np.testing.assert_allclose(ring[0], ring[1], atol=1e-14)


@cross(boundary=BOUNDARIES, sizes=[(101, 99), (64, 62), (100, 3), (9, 7)])
def test_fast_transforms_equal_dense(boundary, sizes):
    n_points, n_modes = sizes
    domain = sl.Interval(-0.3, 1.9, boundary)
    x = domain.grid(n_points)
    c = np.random.default_rng(0).normal(size=(2, 3, n_modes)) / n_modes
    dense = domain.synthesise(c, x, method="dense")
    np.testing.assert_allclose(domain.synthesise(c, x, method="fast"), dense, atol=1e-12)
    for method in ("fast", "dense", "auto"):
        np.testing.assert_allclose(domain.analyse(dense, n_modes, x, method=method), c, atol=1e-12)


def test_aliasing_is_said_with_a_number():
    domain = sl.Interval(0, np.pi)
    x = np.sort(np.random.default_rng(0).uniform(0, np.pi, 20))
    u = domain.synthesise(np.ones(16), x)
    with pytest.warns(AliasingWarning, match=r"% of the energy .*condition"):
        domain.analyse(u, 8, x)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_grid_weights_integrate_an_uneven_grid(boundary):
    """Second order: halving the cells of a jittered grid cuts the error by about four."""
    domain = sl.Interval(0, 1, boundary)
    errors = []
    for n in (200, 400):
        x = domain.grid(n)
        x[1:-1] += np.random.default_rng(0).uniform(-0.3, 0.3, n - 2) / n
        f = domain.eigenfunctions(x, 5)[:, 4] ** 2
        errors.append(abs(domain.grid_weights(x) @ f - 1.0))
    assert max(errors) < 1e-2
    assert errors[1] < 0.6 * errors[0]


@pytest.mark.parametrize(
    ("boundary", "weights"), [("dirichlet", [0.5, 0.75, 1.0]), ("neumann", [0.75, 0.75, 1.5])]
)
def test_weights_beyond_the_outermost_points(boundary, weights):
    """A field falls to zero at a Dirichlet end and is constant towards a Neumann end."""
    domain = sl.Interval(0.0, 3.0, boundary)
    np.testing.assert_allclose(domain.grid_weights(np.array([0.5, 1.0, 2.0])), weights)

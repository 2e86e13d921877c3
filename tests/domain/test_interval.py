"""Interval: the inherited contract, closed forms, aliasing, rules on grids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spdelaw as sl
from spdelaw.errors import AliasingWarning, DomainError
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


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_eigenfunctions_solve_the_eigenvalue_problem(boundary):
    """-h'' = mu h by a fourth-order difference, whose error is (k dx)^4 / 90."""
    domain = sl.Interval(0.5, 2.0, boundary)
    dx = 1e-3
    x = np.linspace(0.7, 1.8, 20)
    h = [domain.eigenfunctions(x + s * dx, 7) for s in (-2, -1, 0, 1, 2)]
    second = (-h[0] + 16 * h[1] - 30 * h[2] + 16 * h[3] - h[4]) / (12 * dx**2)
    np.testing.assert_allclose(-second, domain.eigenvalues(7) * h[2], atol=2e-5)


def test_boundary_values():
    x = np.array([0.0, 2.0])
    np.testing.assert_allclose(sl.Interval(0, 2).eigenfunctions(x, 5), 0, atol=1e-14)
    step = 1e-6
    slope = np.diff(sl.Interval(0, 2, "neumann").eigenfunctions(np.array([0, step]), 5), axis=0)
    np.testing.assert_allclose(slope / step, 0, atol=1e-3)
    ring = sl.Interval(0, 2, "periodic").eigenfunctions(x, 5)
    np.testing.assert_allclose(ring[0], ring[1], atol=1e-14)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(("n_points", "n_modes"), [(101, 99), (64, 62), (100, 3), (9, 7)])
def test_fast_transforms_equal_dense(boundary, n_points, n_modes):
    domain = sl.Interval(-0.3, 1.9, boundary)
    x = domain.grid(n_points)
    c = np.random.default_rng(0).normal(size=(2, 3, n_modes)) / n_modes
    dense = domain.synthesise(c, x, method="dense")
    np.testing.assert_allclose(domain.synthesise(c, x, method="fast"), dense, atol=1e-12)
    for method in ("fast", "dense", "auto"):
        np.testing.assert_allclose(domain.analyse(dense, n_modes, x, method=method), c, atol=1e-12)


@given(
    boundary=st.sampled_from(BOUNDARIES),
    n_points=st.integers(5, 80),
    share=st.floats(0.05, 0.95),
    seed=st.integers(0, 2**31),
)
def test_round_trip_property(boundary, n_points, share, seed):
    domain = sl.Interval(0, 1, boundary)
    n_modes = max(1, int(share * (n_points - 2)))
    c = np.random.default_rng(seed).normal(size=n_modes)
    x = domain.grid(n_points)
    np.testing.assert_allclose(domain.analyse(domain.synthesise(c, x), n_modes, x), c, atol=1e-9)


def test_quadrature_grid_does_not_alias():
    """On the full grid 40 further modes do not reach the first 8 at all."""
    domain = sl.Interval(0, np.pi)
    x = domain.grid(101)
    c = np.random.default_rng(0).normal(size=48)
    result = domain.analysis(domain.synthesise(c, x), x, 8)
    assert result.method == "quadrature"
    assert result.leakage < 1e-12
    np.testing.assert_allclose(result.coefficients, c[:8], atol=1e-12)


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
    "bad", [(1, 0), (0, np.inf), (0, 1, "open"), (np.nan, 1)], ids=["order", "inf", "word", "nan"]
)
def test_bad_intervals(bad):
    with pytest.raises(DomainError, match="expected"):
        sl.Interval(*bad)


def test_points_outside_name_the_remedy():
    with pytest.raises(DomainError, match=r"Interval\(0, 360\)"):
        sl.Interval(0, np.pi).synthesise(np.ones(2), np.array([0.0, 360.0]))


@pytest.mark.parametrize(
    ("boundary", "weights"), [("dirichlet", [0.5, 0.75, 1.0]), ("neumann", [0.75, 0.75, 1.5])]
)
def test_weights_beyond_the_outermost_points(boundary, weights):
    """A field falls to zero at a Dirichlet end and is constant towards a Neumann end."""
    domain = sl.Interval(0.0, 3.0, boundary)
    np.testing.assert_allclose(domain.grid_weights(np.array([0.5, 1.0, 2.0])), weights)

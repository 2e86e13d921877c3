"""Box and Plane: the inherited contract, closed forms, order of modes, grids with holes."""

import itertools

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import spdelaw as sl
from spdelaw.errors import DomainError
from spdelaw.testing import DomainContract

BOUNDARIES = ("dirichlet", "neumann", "periodic")


class TestSquare(DomainContract):
    n_points = 24

    def make_domain(self):
        return sl.Box((0, np.pi), (0, np.pi))


class TestMixedRectangle(DomainContract):
    n_modes = 9
    n_points = 21

    def make_domain(self):
        return sl.Box((-1.0, 2.0), (10.0, 370.0), boundary=("neumann", "periodic"))


class TestCuboid(DomainContract):
    n_points = 9

    def make_domain(self):
        return sl.Box((0, 1), (0, 1), (0, 2), boundary="neumann")


class TestPlane(DomainContract):
    n_modes = 10
    n_points = 25
    tolerance = 1e-9

    def make_domain(self):
        return sl.Plane()


@given(
    sides=st.lists(st.sampled_from([1.0, 1.0, 1.5, np.pi, 2.0]), min_size=2, max_size=3),
    boundary=st.sampled_from(BOUNDARIES),
    n_modes=st.integers(1, 40),
)
def test_eigenvalues_are_the_smallest_sums(sides, boundary, n_modes):
    """Against all sums of a cube of indices that is certainly large enough."""
    domain = sl.Box(*((0, side) for side in sides), boundary=boundary)
    one = [sl.Interval(0, side, boundary).eigenvalues(n_modes) for side in sides]
    every = np.sort([sum(parts) for parts in itertools.product(*one)])[:n_modes]
    np.testing.assert_allclose(domain.eigenvalues(n_modes), every, rtol=1e-12)


def test_modes_of_a_square_nest_and_are_all_different():
    square = sl.Box((0, 1), (0, 1))
    many = square.indices(300)
    assert len(np.unique(many, axis=0)) == 300
    np.testing.assert_array_equal(square.indices(37), many[:37])


def test_weyl_law():
    """``mu_n ~ 4 pi n / area`` for many modes, up to the boundary term ``n^(-1/2)``."""
    box = sl.Box((0, 2), (0, 3))
    n = 4000
    assert abs(box.eigenvalues(n)[-1] * 6 / (4 * np.pi * n) - 1) < 3 / np.sqrt(n)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_eigenfunctions_solve_the_eigenvalue_problem(boundary):
    """-Laplace h = mu h by a fourth-order difference in each dim."""
    domain = sl.Box((0.5, 2.0), (0.0, 1.0), boundary=boundary)
    dx, middle = 1e-3, np.random.default_rng(0).uniform([0.7, 0.2], [1.8, 0.8], (20, 2))
    laplace = 0.0
    for step in np.eye(2) * dx:
        h = [domain.eigenfunctions(middle + s * step, 6) for s in (-2, -1, 0, 1, 2)]
        laplace = laplace + (-h[0] + 16 * h[1] - 30 * h[2] + 16 * h[3] - h[4]) / (12 * dx**2)
    np.testing.assert_allclose(-laplace, domain.eigenvalues(6) * h[2], atol=1e-4)


def test_plane_operator():
    """``-Laplace h + x . grad h = (j + k) h`` for the Hermite products."""
    dx, middle = 1e-3, np.random.default_rng(1).normal(size=(20, 2))
    total = 0.0
    for k, step in enumerate(np.eye(2) * dx):
        h = [sl.Plane().eigenfunctions(middle + s * step, 10) for s in (-2, -1, 0, 1, 2)]
        second = (-h[0] + 16 * h[1] - 30 * h[2] + 16 * h[3] - h[4]) / (12 * dx**2)
        first = (h[0] - 8 * h[1] + 8 * h[3] - h[4]) / (12 * dx)
        total = total - second + middle[:, k : k + 1] * first
    np.testing.assert_allclose(total, sl.Plane().eigenvalues(10) * h[2], atol=1e-6)


def test_rule_on_an_uneven_grid_is_the_product_of_rules():
    box = sl.Box((0, 1), (0, 2), boundary="neumann")
    x, y = np.array([0.1, 0.4, 0.9]), np.array([0.0, 0.3, 1.1, 1.9])
    expected = np.multiply.outer(
        sl.Interval(0, 1, "neumann").grid_weights(x), sl.Interval(0, 2, "neumann").grid_weights(y)
    )
    np.testing.assert_allclose(box.grid_weights(box.check_points((x, y))), expected.ravel())
    np.testing.assert_allclose(expected.sum(), box.volume)


def test_project_takes_a_function_of_the_coordinates():
    square = sl.Box((0, np.pi), (0, np.pi))
    got = square.project(lambda x, y: np.sin(x) * np.sin(2 * y), 4)
    np.testing.assert_allclose(got, [0, np.pi / 2, 0, 0], atol=1e-12)
    with pytest.raises(DomainError, match=r"function of \(x, y\)"):
        square.project(lambda x: x, 4)


def test_points_outside_are_left_out_only_where_nothing_was_seen():
    box = sl.Box((0, 1), (0, 1))
    axis = np.linspace(-0.5, 1.0, 7)
    values = np.ones((2, 7, 7))
    fields = xr.DataArray(values, {"x": axis, "y": axis}, ("path", "x", "y"))
    with pytest.raises(DomainError, match=r"got \(-0.5, -0.5\)"):
        box.places(fields)
    inside = fields.where((fields.x >= 0) & (fields.y >= 0))
    places = box.places(inside)
    assert len(places.points) == 25
    back = places.unflatten(places.flatten(inside.values))
    np.testing.assert_array_equal(back, inside.values)


@pytest.mark.parametrize(
    ("sides", "boundary"),
    [
        ([(0, 1)], "dirichlet"), ([(0, 1), (1, 0)], "neumann"), ([(0, 1), (0, np.inf)], "neumann"),
        ([(0, 1), (0, 1)], "open"), ([(0, 1), (0, 1)], ("neumann",)), ([(0, 1), 3.0], "neumann"),
        ([(0, 1)] * 4, "neumann"),
    ],
)  # fmt: skip
def test_bad_boxes(sides, boundary):
    with pytest.raises(DomainError, match=r"expected .* Fix:"):
        sl.Box(*sides, boundary=boundary)


@pytest.mark.parametrize("extent", [0.0, -1.0, np.nan])
def test_bad_planes(extent):
    with pytest.raises(DomainError, match="extent"):
        sl.Plane(extent)

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
    with pytest.raises(DomainError, match=r"number 0 at x -0\.5, y -0\.5"):
        box.places(fields)
    inside = fields.where((fields.x >= 0) & (fields.y >= 0))
    places = box.places(inside)
    assert len(places.points) == 25
    back = places.unflatten(places.flatten(inside.values))
    np.testing.assert_array_equal(back, inside.values)

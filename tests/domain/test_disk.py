"""Disk: the inherited contract, zeros of Bessel functions, grids with holes."""

import numpy as np
import pytest
from scipy import special

import spdelaw as sl
from spdelaw.errors import DomainError
from spdelaw.testing import DomainContract


class TestDisk(DomainContract):
    n_points = 25

    def make_domain(self):
        return sl.Disk()


class TestInsulatedDisk(DomainContract):
    n_modes = 12
    n_points = 31

    def make_domain(self):
        return sl.Disk(2.5, (1.0, -3.0), "neumann")


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann"])
def test_no_zero_is_left_out(boundary):
    """Against many more orders and zeros than the first 400 modes can need."""
    find = special.jn_zeros if boundary == "dirichlet" else special.jnp_zeros
    every = [z for m in range(80) for z in find(m, 40).repeat(1 if m == 0 else 2)]
    every = np.sort([*([0.0] if boundary == "neumann" else []), *every])[:400]
    np.testing.assert_allclose(sl.Disk(boundary=boundary).eigenvalues(400), every**2, rtol=1e-12)


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann"])
def test_eigenfunctions_solve_the_eigenvalue_problem(boundary):
    disk = sl.Disk(1.5, (0.3, 0.0), boundary)
    dx, inside = 1e-3, np.random.default_rng(0).uniform(-0.9, 0.9, (30, 2)) * 1.0
    laplace = 0.0
    for step in np.eye(2) * dx:
        h = [disk.eigenfunctions(inside + s * step, 9) for s in (-2, -1, 0, 1, 2)]
        laplace = laplace + (-h[0] + 16 * h[1] - 30 * h[2] + 16 * h[3] - h[4]) / (12 * dx**2)
    np.testing.assert_allclose(-laplace, disk.eigenvalues(9) * h[2], atol=1e-6)


def test_boundary_values():
    angle = np.linspace(0, 2 * np.pi, 13)
    rim = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    np.testing.assert_allclose(sl.Disk().eigenfunctions(rim, 10), 0, atol=1e-12)
    flat = sl.Disk(boundary="neumann")
    step = 1e-6
    slope = (flat.eigenfunctions(rim, 10) - flat.eigenfunctions((1 - step) * rim, 10)) / step
    np.testing.assert_allclose(slope, 0, atol=1e-4)


def test_a_grid_around_the_disk_comes_back_with_its_holes():
    disk = sl.Disk()
    fields = sl.simulate(sl.SpectralSPDE(disk, 5, noise=sl.White()), 2, [0.0, 0.5], seed=0)
    assert fields.dims == ("path", "time", "x", "y")
    outside = fields.x**2 + fields.y**2 > 1.0 + 1e-9
    assert bool(fields.isnull().where(outside, True).all())
    assert bool(fields.notnull().where(~outside, True).all())
    np.testing.assert_array_equal(disk.places(fields).points, disk.grid(33))


@pytest.mark.parametrize(
    "bad", [(0.0,), (np.inf,), (1.0, (0.0,)), (1.0, (0.0, np.nan)), (1.0, (0.0, 0.0), "periodic")]
)
def test_bad_disks(bad):
    with pytest.raises(DomainError, match=r"expected .* Fix:"):
        sl.Disk(*bad)


def test_points_outside_are_refused():
    with pytest.raises(DomainError, match="larger disk"):
        sl.Disk().synthesise(np.ones(2), np.array([[0.0, 0.0], [1.0, 1.0]]))

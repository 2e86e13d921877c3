"""Disk: the inherited contract, zeros of Bessel functions, grids with holes."""

import numpy as np
import pytest
from scipy import special

import spdelaw as sl
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


def test_a_grid_around_the_disk_comes_back_with_its_holes():
    disk = sl.Disk()
    fields = sl.simulate(sl.SpectralSPDE(disk, 5, noise=sl.White()), 2, [0.0, 0.5], seed=0)
    assert fields.dims == ("path", "time", "x", "y")
    outside = fields.x**2 + fields.y**2 > 1.0 + 1e-9
    assert bool(fields.isnull().where(outside, True).all())
    assert bool(fields.notnull().where(~outside, True).all())
    np.testing.assert_array_equal(disk.places(fields).points, disk.grid(33))

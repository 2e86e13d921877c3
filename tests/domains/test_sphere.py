"""Sphere: the inherited contract, SciPy's harmonics, the addition theorem, area weights."""

import numpy as np
import pytest
from scipy import special

import spdelaw as sl
from spdelaw.testing import DomainContract


class TestSphere(DomainContract):
    n_modes = 16
    n_points = 18

    def make_domain(self):
        return sl.Sphere()


class TestEarth(DomainContract):
    n_modes = 9
    n_points = 12

    def make_domain(self):
        return sl.Sphere(6371.0)


def random_points(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([np.degrees(np.arcsin(rng.uniform(-1, 1, n))), rng.uniform(0, 360, n)], axis=1)


def test_against_scipy():
    """``Re`` and ``Im`` of SciPy's complex harmonics, its sign of Condon and Shortley removed."""
    points = random_points(40)
    theta, phi = np.radians(90 - points[:, 0]), np.radians(points[:, 1])
    h = sl.Sphere().eigenfunctions(points, 21**2)
    for l in (0, 1, 2, 7, 20):
        for m in range(l + 1):
            size = (2 * l + 1) / (4 * np.pi) / special.poch(l - m + 1, 2 * m)
            y = np.sqrt(size) * special.lpmv(m, l, np.cos(theta)) * np.exp(1j * m * phi)
            y *= (-1.0) ** m  # without the Condon-Shortley phase
            if m == 0:
                np.testing.assert_allclose(h[:, l**2], y.real, atol=1e-12)
                continue
            at = l**2 + 2 * m - 1
            np.testing.assert_allclose(h[:, at], np.sqrt(2) * y.real, atol=1e-12)
            np.testing.assert_allclose(h[:, at + 1], np.sqrt(2) * y.imag, atol=1e-12)


@pytest.mark.parametrize("degree", [1, 5, 60])
def test_addition_theorem(degree):
    """``sum_m Y_lm(x) Y_lm(y) = (2 l + 1) / (4 pi) P_l(x . y)``."""
    points = random_points(12)
    lat, lon = np.radians(points).T
    x = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
    h = sl.Sphere().eigenfunctions(points, (degree + 1) ** 2)[:, degree**2 :]
    expected = (2 * degree + 1) / (4 * np.pi) * special.eval_legendre(degree, x @ x.T)
    np.testing.assert_allclose(h @ h.T, expected, atol=1e-11)


@pytest.mark.parametrize("poles", [False, True])
def test_area_weights_add_up_to_the_area(poles):
    sphere = sl.Sphere(2.0)
    lat = np.linspace(-90, 90, 37) if poles else np.linspace(-87.5, 87.5, 36)
    weights = sphere.grid_weights(sphere.check_points((lat, np.arange(0, 360, 5.0))))
    np.testing.assert_allclose(weights.sum(), sphere.volume, rtol=1e-12)


def test_area_weights_of_a_region():
    """A band of 30 by 40 degrees has the area between its edges."""
    sphere = sl.Sphere()
    lat, lon = np.arange(0.5, 30, 1.0), np.arange(150.5, 190, 1.0)
    weights = sphere.grid_weights(sphere.check_points((lat, lon)))
    np.testing.assert_allclose(weights.sum(), np.sin(np.pi / 6) * np.radians(40), rtol=1e-12)


@pytest.mark.parametrize(("n_missing", "degrees"), [(1, 360.0), (2, 340.0), (5, 310.0)])
def test_longitudes_with_a_gap_are_a_region_from_more_than_twice_a_step(n_missing, degrees):
    """Cells of 10 degrees: one missing cell is filled by its neighbours, two or more stay out."""
    sphere = sl.Sphere()
    lat, lon = np.arange(-85.0, 90.0, 10.0), np.arange(5.0, 360.0 - 10.0 * n_missing, 10.0)
    weights = sphere.grid_weights(sphere.check_points((lat, lon)))
    np.testing.assert_allclose(weights.sum(), 2.0 * np.radians(degrees), rtol=1e-12)


def test_area_rule_converges():
    """The mean of ``Y_20^2`` by cells, at second order."""
    sphere, errors = sl.Sphere(), []
    for n in (18, 36, 72):
        points = sphere.grid(n)
        h = sphere.eigenfunctions(points, 7)[:, 6]
        errors.append(abs(sphere.grid_weights(points) @ h**2 - 1.0))
    slopes = np.diff(np.log(errors)) / np.log(0.5)
    assert (slopes > 1.8).all()
    assert (slopes < 2.2).all()

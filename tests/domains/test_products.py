"""Gram matrices of masks and weights, looked up, against the products of the modes themselves."""

import numpy as np
import pytest
from tests.parameters import cross

import spdelaw as sl
from spdelaw.domains import products as products_module

EXACT = 1e-12
ENDS = ("dirichlet", "neumann", "periodic")


def rows_of_weights(n_points, seed=0):
    """Masks, masks with weights, all and nothing."""
    rng = np.random.default_rng(seed)
    masks = (rng.random((4, n_points)) > 0.4).astype(float)
    masks[1] *= rng.gamma(2.0, size=n_points)
    masks[2], masks[3] = 1.0, 0.0
    return masks


def plain(domain, points, n_modes, weights):
    phi = domain.eigenfunctions(points, n_modes)
    return np.einsum("rm,mi,mj->rij", weights, phi, phi)


def check(domain, points, n_modes):
    weights = rows_of_weights(len(points))
    got = domain.products(points, n_modes).gram(weights)
    expected = plain(domain, points, n_modes, weights)
    np.testing.assert_allclose(got, expected, rtol=0, atol=EXACT * np.abs(expected).max())
    np.testing.assert_array_equal(got, got.transpose(0, 2, 1))


@cross(n_modes=[1, 2, 7, 30], boundary=ENDS)
def test_intervals_on_a_grid_and_at_any_points(boundary, n_modes):
    domain = sl.Interval(-1.0, 2.5, boundary)
    check(domain, domain.grid(41), n_modes)
    check(domain, np.sort(np.random.default_rng(1).uniform(-1.0, 2.5, 37)), n_modes)


@cross(first=ENDS, second=ENDS)
def test_boxes_with_every_pair_of_boundaries(first, second):
    domain = sl.Box((0.0, 1.0), (-1.0, 2.0), boundary=(first, second))
    check(domain, domain.grid((17, 23)), 40)


def test_scattered_points_and_points_that_occur_twice():
    domain = sl.Box((0, 1), (0, 2), boundary=("periodic", "dirichlet"))
    rng = np.random.default_rng(3)
    scattered = rng.uniform(0, 1, (50, 2)) * [1.0, 2.0]
    check(domain, scattered, 20)
    grid = domain.grid(9)
    check(domain, np.concatenate([grid, grid[:5]]), 20)
    some = rng.permutation(len(grid))[:30]  # a grid with holes: fewer than half of the cells
    check(domain, grid[some], 20)
    box = sl.Box((0, 1), (0, 2), (0, 3), boundary=("periodic", "dirichlet", "neumann"))
    check(box, box.grid((8, 9, 7)), 35)


def test_too_many_waves_for_memory_are_matrix_products(monkeypatch):
    domain = sl.Box((0, 1), (0, 2))
    scattered = np.random.default_rng(4).uniform(0, 1, (50, 2))
    monkeypatch.setattr("spdelaw.domains.box.WAVE_BYTES", 0.0)
    assert isinstance(domain.products(scattered, 12), products_module.Multiplied)
    check(domain, scattered, 12)


@pytest.mark.parametrize("domain", [sl.Line(), sl.Plane(), sl.Disk(), sl.Sphere()], ids=repr)
def test_other_domains(domain):
    check(domain, domain.grid(9), 12)


def test_many_rows_are_worked_off_in_pieces(monkeypatch):
    domain = sl.Box((0, 1), (0, 2))
    points, weights = domain.grid(12), rows_of_weights(144)
    whole = domain.products(points, 15).gram(weights)
    monkeypatch.setattr(products_module, "WORK_BYTES", 1.0)
    pieces, atol = domain.products(points, 15).gram(weights), 1e-13 * np.abs(whole).max()
    np.testing.assert_allclose(pieces, whole, rtol=1e-13, atol=atol)

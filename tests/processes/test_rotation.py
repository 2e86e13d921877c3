"""Transport around a domain: pairs of modes, and fields that move without changing shape."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.domains.base import Turn
from spdelaw.processes.operators import rotating_pairs, whole_pairs

SPHERE, DISK = sl.Sphere(2.0), sl.Disk(1.5, (0.2, -0.1), "neumann")
CHANNEL = sl.Box((0.0, 1.0), (-1.0, 2.0), boundary=("neumann", "periodic"))
TUBE = sl.Box((0.0, 1.0), (0.0, 2.0), (0.0, 2.0), boundary=("periodic", "neumann", "neumann"))
RING = sl.Interval(0.5, 2.5, "periodic")


def scattered(domain, seed=0):
    points = domain.grid(7)
    return points[np.random.default_rng(seed).permutation(len(points))[:40]]


def shifted(domain, points, shift):
    """Points that a motion by ``-shift`` reaches: upstream along the ring, angle or longitude."""
    if domain is RING:
        return 0.5 + np.mod(points - shift - 0.5, 2.0)
    if domain is SPHERE:
        return points - np.array([0.0, np.degrees(shift)])
    if domain is DISK:
        c, s = np.cos(shift), np.sin(shift)
        return DISK.centre + (points - DISK.centre) @ np.array([[c, -s], [s, c]])
    side = domain.boundary.index("periodic")
    (a, b), out = domain.sides[side], points.copy()
    out[:, side] = a + np.mod(points[:, side] - shift - a, b - a)
    return out


@pytest.mark.parametrize("domain", [RING, SPHERE, DISK, CHANNEL, TUBE], ids=repr)
def test_fields_decay_and_move(domain):
    """``X(t, x)`` is the field of the equation at rest, upstream: the speed takes it along."""
    points, t, speed = scattered(domain), 0.6, 1.7
    n_modes = min(n for n in range(16, 26) if len(alone(domain, n)) == 0)
    start = np.random.default_rng(1).normal(size=n_modes)
    settings = {"kappa": 0.2, "nu": 0.05, "initial": start}
    moving = sl.catalogue.advection_diffusion_on(domain, n_modes, speed=speed, **settings)
    at_rest = sl.catalogue.heat_on(domain, n_modes, **settings)
    got = moving.mean([0.0, t], points).values[1]
    expected = at_rest.mean([0.0, t], shifted(domain, points, speed * t)).values[1]
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(got, expected, atol=1e-11)


def alone(domain, n_modes):
    """Cosines whose sine lies beyond the last mode."""
    whole = {t.cosine for t in domain.turns(2 * n_modes + 2) if t.cosine < n_modes}
    return whole - {t.cosine for t in domain.turns(n_modes)}


def test_pairs_of_the_sphere():
    """Order 0 stands alone; of the last order only the cosine is within eight modes."""
    assert rotating_pairs(SPHERE, 8) == ((2, 3), (5, 6))
    assert SPHERE.turns(9)[-1] == Turn(7, 8, 2.0)
    assert alone(SPHERE, 8) == {7}
    matrix = sl.catalogue.rotating_sphere(8, speed=3.0).drift_matrix
    np.testing.assert_array_equal(matrix[7], 7.0 * np.eye(8)[7])
    np.testing.assert_array_equal(matrix[5:7, 5:7], [[7.0, 3.0], [-3.0, 7.0]])


@pytest.mark.parametrize("domain", [RING, SPHERE, DISK, CHANNEL, TUBE], ids=repr)
def test_whole_pairs_are_the_next_number_that_cuts_none(domain):
    for n in range(1, 30):
        expected = next(m for m in range(n, 60) if not alone(domain, m))
        assert whole_pairs(domain, n) == expected


def test_eigenvalues_of_the_rotating_sphere():
    """``kappa + nu l (l + 1) + i m speed`` for every order from -l to l."""
    e = sl.catalogue.rotating_sphere(16, speed=1.3, kappa=0.5, nu=0.1)
    expected = [0.5 + 0.1 * l * (l + 1) + 1.3j * m for l in range(4) for m in range(-l, l + 1)]
    np.testing.assert_allclose(np.sort_complex(e.eigenvalues), np.sort_complex(expected))

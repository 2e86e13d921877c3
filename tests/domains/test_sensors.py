"""Scattered sensors outside a domain: named where they hold values, holes where they do not."""

import numpy as np
import pytest
import xarray as xr
from scipy.signal import lfilter
from scipy.spatial import Delaunay

import spdelaw as sl
from spdelaw.errors import DomainError

NODES = sl.Box((0, 1), (0, 2)).grid(6)
DOMAINS = {
    "box": (sl.Box((0, 1), (0, 2), boundary="neumann"), r"within Box\(\(0, 1\), \(0, 2\)"),
    "disk": (sl.Disk(1.5), r"within Disk\(radius=1.5"),
    "mesh": (sl.Mesh(NODES, Delaunay(NODES).simplices, n_modes=4), "spans x 0 to 1, y 0 to 2"),
}
INSIDE = np.array([[0.2, 0.3], [0.9, 0.1], [0.5, 1.1], [0.1, 0.8], [0.7, 0.7]])
FAR = np.array([[7.0, 0.5], [0.5, -9.0]])


def sensors(domain, points, outside=0.0):
    """Fields of two modes at points; ``outside`` at those that are not in the domain."""
    rng = np.random.default_rng(5)
    coefficients = lfilter([1.0], [1.0, -0.6], rng.standard_normal((30, 9, 2)), axis=1)
    inside = domain.contains(points)
    values = np.full((30, 9, len(points)), outside)
    values[..., inside] = coefficients @ domain.eigenfunctions(points[inside], 2).T
    return xr.DataArray(
        values,
        dims=("path", "time", "point"),
        coords={
            "time": 0.1 * np.arange(9),
            "x": ("point", points[:, 0]),
            "y": ("point", points[:, 1]),
        },
    )


@pytest.fixture(params=DOMAINS)
def case(request):
    return DOMAINS[request.param]


def test_sensors_outside_are_named_with_the_reach_of_the_domain(case):
    domain, reach = case
    points = np.insert(INSIDE, [1, 3], FAR, axis=0)
    for call in (
        lambda fields: domain.places(fields),
        lambda fields: domain.analyse(fields, 2),
        lambda fields: sl.fit(fields, domain, 2),
    ):
        with pytest.raises(DomainError, match=reach) as caught:
            call(sensors(domain, points))
        assert "2 of 7 outside" in caught.value.got
        assert "number 1 at x 7, y 0.5; number 4 at x 0.5, y -9" in caught.value.got
    points = np.concatenate([INSIDE, np.full((9, 2), 50.0) + np.arange(9)[:, None]])
    with pytest.raises(DomainError, match=r"9 of 14 outside.*and 6 more"):
        domain.places(sensors(domain, points))


def test_sensors_outside_without_values_do_not_exist(case):
    domain, _ = case
    points = np.insert(INSIDE, [1, 3], FAR, axis=0)
    fields, bare = sensors(domain, points, np.nan), sensors(domain, INSIDE)
    places = domain.places(fields)
    np.testing.assert_array_equal(places.points, INSIDE)
    np.testing.assert_array_equal(places.flatten(fields.values), bare.values)
    back = places.unflatten(bare.values)
    np.testing.assert_array_equal(back, fields.values)
    np.testing.assert_array_equal(domain.analyse(fields, 2), domain.analyse(bare, 2))

"""Wrong domains and wrong use of domains: an error with the word that leads to the fix."""

import numpy as np
import pytest
import xarray as xr
from scipy.spatial import Delaunay
from tests.domains.test_empirical import low_rank_fields
from tests.domains.test_fields import LINE, labelled
from tests.domains.test_graph import ring
from tests.domains.test_wrong_settings import BUILDS

import spdelaw as sl
from spdelaw.domains.box import gradients
from spdelaw.domains.registry import from_dict
from spdelaw.errors import DomainError

REMEDY, ONES = r"expected .* Fix:", np.ones(2)
BOXES = [
    ([(0, 1)], "dirichlet"), ([(0, 1), (1, 0)], "neumann"), ([(0, 1), (0, np.inf)], "neumann"),
    ([(0, 1), (0, 1)], "open"), ([(0, 1), (0, 1)], ("neumann",)), ([(0, 1), 3.0], "neumann"),
    ([(0, 1)] * 4, "neumann"),
]  # fmt: skip
INTERVALS = [(1, 0), (0, np.inf), (0, 1, "open"), (np.nan, 1)]
DISKS = [(0.0,), (np.inf,), (1.0, (0.0,)), (1.0, (0.0, np.nan)), (1.0, (0.0, 0.0), "periodic")]
GRAPHS = [
    (np.ones((2, 3)), "square"), (-np.ones((3, 3)), "negative"), ("abc", "square"),
    (np.triu(np.ones((3, 3))), "not symmetric"), (np.full((3, 3), np.nan), "not finite"),
    (np.ones((1, 1)), "square"),
]  # fmt: skip
EMPIRICAL = [
    ({"fields": low_rank_fields(rank=2), "n_modes": 4}, "at most 2 EOFs"),
    ({"n_modes": 31}, "at most the 30 modes"),
    ({"n_modes": 0}, "positive integer"),
    ({"weights": -np.ones(30)}, "positive numbers"),
    ({"weights": np.ones(7)}, "one for each of 30"),
    ({"fields": np.ones((3, 4))}, "DataArray"),
    ({"fields": xr.DataArray(np.ones((3, 4)), dims=("a", "b"))}, "path or time"),
]
MESHES = [
    ({"triangles": [[0, 1, 99]]}, "numbers of nodes from 0"),
    ({"triangles": [[0, 1, 2]]}, "every node in a triangle"),
    ({"triangles": [[0.0, 1.0, 2.0]]}, "integers"),
    ({"nodes": [[0, 0], [1, 0], [2, 0]], "triangles": [[0, 1, 2]]}, "area"),
    ({"boundary": "periodic"}, "boundary"),
    ({"diffusion": 0.0}, "positive"),
    ({"potential": -1.0}, "non-negative"),
    ({"diffusion": lambda x: x}, r"function of \(x, y\)"),
    ({"n_modes": 10**4}, "at most"),
]
DESCRIPTIONS = [
    {}, {"name": "torus"}, {"name": "interval", "radius": 1}, {"name": "interval", "a": 2.0}, 3,
]  # fmt: skip
#: The most frequent slips: text out of a form, nothing.
NO_NUMBERS = ["6371", None, 1j, np.nan, np.inf, 10**400]
PLACES = [
    b for b in BUILDS if b.split()[0] in ("interval", "line", "plane", "sphere", "disk", "box")
]
LATITUDES = xr.DataArray(np.zeros((2, 2)), {"lat": [0.0, 100.0], "lon": [0.0, 9.0]}, ("lat", "lon"))


def mesh(**changes):
    nodes = sl.Box((0, 1), (0, 1)).grid(4)
    settings = {"nodes": nodes, "triangles": Delaunay(nodes).simplices, **changes}
    nodes, triangles = np.asarray(settings.pop("nodes"), float), settings.pop("triangles")
    return sl.Mesh(nodes, np.asarray(triangles), **settings)


ROWS = [
    *((lambda b=b, v=v: BUILDS[b](v), "expected") for b in PLACES for v in NO_NUMBERS),
    *((lambda s=s, b=b: sl.Box(*s, boundary=b), REMEDY) for s, b in BOXES),
    *((lambda a=a: sl.Interval(*a), "expected") for a in INTERVALS),
    *((lambda a=a: sl.Disk(*a), REMEDY) for a in DISKS),
    *((lambda v=v: sl.Plane(v), "extent") for v in (0.0, -1.0, np.nan)),
    *((lambda m=m: sl.Graph(m), word) for m, word in GRAPHS),
    *((lambda c=c: sl.Empirical(**{"fields": low_rank_fields()} | c), w) for c, w in EMPIRICAL),
    *((lambda c=c: mesh(**c), word) for c, word in MESHES),
    *((lambda d=d: from_dict(d), "expected") for d in DESCRIPTIONS),
    *((lambda n=n: sl.Fields(LINE, n), "names") for n in (("u",), ("u", "u"), "uv", ("u", "2"))),
    (lambda: sl.Fields(sl.Fields(LINE)), "one field"),
    (lambda: sl.Fields(LINE).places(labelled(("v", "u"))), "in this order"),
    (lambda: sl.Line(extent=-1), "positive"),
    (lambda: sl.Line().project(lambda x: 10 * np.exp(-(x**2)), 400), "finite coefficients"),
    (lambda: sl.Sphere(-1.0), "radius"),
    (lambda: sl.Sphere().analyse(LATITUDES, 1), r"\(lat, lon\)"),
    (lambda: gradients(sl.Sphere(), np.zeros((1, 2)), 3), "terms without derivatives"),
    (lambda: sl.Interval(0, np.pi).synthesise(ONES, [0.0, 360.0]), r"Interval\(0, 360\)"),
    (lambda: sl.Disk().synthesise(ONES, np.array([[0.0, 0.0], [1.0, 1.0]])), "larger domain"),
    (lambda: mesh(n_modes=3).synthesise(ONES, np.array([[9.0, 9.0]])), "triangles of a mesh"),
    (lambda: sl.Empirical(low_rank_fields(), 2).synthesise(ONES, [[0.05, 0.0]]), "interpolate"),
    (lambda: sl.Graph(ring(5), n_modes=6), "at most"),
    (lambda: sl.Graph(ring(5), n_modes=3).eigenvalues(4), "the 3 modes"),
    (lambda: sl.Graph(ring(5)).synthesise(ONES, [0.5]), "integers from 0 to 4"),
    (lambda: sl.Graph(ring(5), positions=np.zeros((4, 2))), "positions"),
]


@pytest.mark.parametrize(("call", "word"), ROWS)
def test_refusals(call, word):
    with pytest.raises(DomainError, match=word):
        call()

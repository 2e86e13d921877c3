"""Whatever a domain is built from, it is a domain or a `DomainError`, never anything else."""

import contextlib
import json

import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as stnp
from scipy import sparse
from scipy.spatial import Delaunay

import spdelaw as sl
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.registry import from_dict
from spdelaw.errors import DomainError


class Rude:
    """An object that refuses everything."""

    def __float__(self):
        raise RuntimeError("no")

    def __array__(self, *args, **kwargs):
        raise RuntimeError("no")


SHAPES = stnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
ARRAYS = st.one_of(
    stnp.arrays(
        st.sampled_from([np.float64, np.int64, np.bool_, np.complex128, "U3", "M8[s]"]), SHAPES
    ),
    stnp.arrays(object, SHAPES, elements=st.none() | st.text(max_size=3)),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.floats(), st.integers(), st.text(max_size=5),
    st.binary(max_size=5), st.complex_numbers(), st.fractions(), st.decimals(), st.dates(),
    st.sampled_from([10**400, -(10**400), "6371", "neumann", np.float32(2), np.str_("1")]),
    st.timedeltas(), st.builds(Rude), st.just(print), st.just(Rude),
)  # fmt: skip
ANYTHING = st.recursive(
    SCALARS | ARRAYS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2)
        | st.sets(st.integers(), max_size=3)
    ),
    max_leaves=8,
)
SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.4, 0.5]])
TRIANGLES = Delaunay(SQUARE).simplices
FIELDS = xr.DataArray(
    np.random.default_rng(0).standard_normal((6, 4)), {"x": np.arange(4.0)}, ("time", "x")
)

#: Domains by a function of one thing that may be anything, in each place where something goes in.
BUILDS = {
    "interval a": lambda v: sl.Interval(v, 1.0),
    "interval b": lambda v: sl.Interval(0.0, v),
    "interval boundary": lambda v: sl.Interval(0, 1, v),
    "line": lambda v: sl.Line(v),
    "plane": lambda v: sl.Plane(v),
    "sphere": lambda v: sl.Sphere(v),
    "disk radius": lambda v: sl.Disk(v),
    "disk centre": lambda v: sl.Disk(1.0, v),
    "disk boundary": lambda v: sl.Disk(1.0, (0, 0), v),
    "box side": lambda v: sl.Box((0, 1), v),
    "box end": lambda v: sl.Box((0, 1), (0, v)),
    "box boundary": lambda v: sl.Box((0, 1), (0, 1), boundary=v),
    "box boundaries": lambda v: sl.Box((0, 1), (0, 1), boundary=("neumann", v)),
    "graph adjacency": lambda v: sl.Graph(v),
    "graph modes": lambda v: sl.Graph(np.ones((4, 4)), v),
    "graph positions": lambda v: sl.Graph(np.ones((4, 4)), 2, v),
    "mesh nodes": lambda v: sl.Mesh(v, TRIANGLES),
    "mesh triangles": lambda v: sl.Mesh(SQUARE, v),
    "mesh modes": lambda v: sl.Mesh(SQUARE, TRIANGLES, v),
    "mesh boundary": lambda v: sl.Mesh(SQUARE, TRIANGLES, 2, boundary=v),
    "mesh diffusion": lambda v: sl.Mesh(SQUARE, TRIANGLES, 2, diffusion=v),
    "mesh potential": lambda v: sl.Mesh(SQUARE, TRIANGLES, 2, potential=v),
    "empirical fields": lambda v: sl.Empirical(v, 2),
    "empirical modes": lambda v: sl.Empirical(FIELDS, v),
    "empirical weights": lambda v: sl.Empirical(FIELDS, 2, weights=v),
    "empirical dims": lambda v: sl.Empirical(FIELDS, 2, dims=v),
    "empirical seed": lambda v: sl.Empirical(FIELDS, 2, seed=v),
    "empirical values": lambda v: (
        sl.Empirical(xr.DataArray(v, dims=("time", "x"), coords={"x": np.arange(v.shape[1])}), 1)
        if isinstance(v, np.ndarray) and v.ndim == 2
        else sl.Line()
    ),
}


@pytest.mark.parametrize("build", BUILDS)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(value=ANYTHING)
def test_a_domain_or_a_domain_error(build, value):
    with np.errstate(all="ignore"), contextlib.suppress(DomainError):
        assert isinstance(BUILDS[build](value), AbstractDomain)


def test_what_counts_as_a_number():
    x = FIELDS["x"]
    assert sl.Interval(x.min(), x.max()) == sl.Interval(0, 3)
    assert sl.Sphere(np.float32(2)) == sl.Sphere(2)
    assert sl.Disk(np.array(2)).radius == 2.0
    ring = sparse.coo_matrix(np.roll(np.eye(6), 1, axis=1))
    assert sl.Graph(ring + ring.T).most_modes == 6


# -- descriptions ----------------------------------------------------------------------

EXAMPLES = [
    sl.Interval(0, 1), sl.Line(), sl.Plane(), sl.Sphere(2.0), sl.Disk(1.0), sl.Box((0, 1), (0, 2)),
    sl.Graph(np.ones((4, 4)), 2), sl.Mesh(SQUARE, TRIANGLES, 2), sl.Empirical(FIELDS, 2),
]  # fmt: skip


@pytest.mark.parametrize("domain", EXAMPLES, ids=lambda d: d.name)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_description_with_anything_in_one_field(domain, data):
    description = domain.to_dict()
    assert from_dict(json.loads(json.dumps(description))) == domain
    description[data.draw(st.sampled_from(sorted(description)))] = data.draw(ANYTHING)
    with np.errstate(all="ignore"), contextlib.suppress(DomainError):
        assert isinstance(from_dict(description), AbstractDomain)

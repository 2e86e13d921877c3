"""Several fields on one domain: the inherited contract, order of modes, labels."""

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.errors import DataError
from spdelaw.testing import DomainContract

LINE = sl.Interval(0.0, np.pi, "neumann")


class TestFieldsOnALine(DomainContract):
    def make_domain(self):
        return sl.Fields(LINE, ("u", "v"))

    def scattered_points(self, domain, rng):
        places = rng.uniform(0.0, np.pi, 200)
        return rng.permutation(np.column_stack([rng.integers(0, 2, 200), places]))


class TestThreeFieldsOnASquare(DomainContract):
    n_modes, n_points = 9, 12

    def make_domain(self):
        return sl.Fields(sl.Box((0, 1), (0, 2), boundary="periodic"), ("a", "b", "c"))

    def scattered_points(self, domain, rng):
        places = rng.uniform([0, 0], [1, 2], (400, 2))
        return np.column_stack([rng.integers(0, 3, 400), places])


def test_modes_alternate_between_the_fields():
    both = sl.Fields(LINE)
    x = np.array([0.3, 1.1])
    h = both.eigenfunctions(both.repeated(x), 6)
    one = LINE.eigenfunctions(x, 3)
    np.testing.assert_array_equal(h[:2, 0::2], one)
    np.testing.assert_array_equal(h[2:, 1::2], one)
    np.testing.assert_array_equal(both.check_points(x), both.repeated(x))
    assert not h[:2, 1::2].any()
    assert not h[2:, 0::2].any()


def labelled(names=("u", "v")):
    x = LINE.grid(5)
    values = np.random.default_rng(0).normal(size=(3, 4, 2, 5))
    coords = {"time": np.arange(4.0), "variable": list(names), "x": x}
    return xr.DataArray(values, coords, ("path", "time", "variable", "x"))


def test_labels_are_names():
    places = sl.Fields(LINE).places(labelled())
    assert places.coords["variable"][1].tolist() == ["u", "v"]
    assert places.points[:, 0].tolist() == [0] * 5 + [1] * 5


def test_a_dataset_with_one_variable_per_field_is_the_same():
    fields = labelled()
    data = fields.to_dataset("variable")
    dims = ("variable", "x")
    xr.testing.assert_equal(sl.as_fields(data, dims=dims), sl.as_fields(fields, dims=dims))
    with pytest.raises(DataError, match="at least two variables"):
        sl.as_fields(data[["u"]], dims=dims)

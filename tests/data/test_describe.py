"""describe: plain JSON that says what the fields are."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from tests.data.builders import any_fields, fields, with_path_times

from spdelaw.data import as_fields, describe, fingerprint
from spdelaw.errors import DataError


def test_summary_of_known_fields():
    data = fields().assign_attrs(units="K", equation='{"name": "heat"}', seed=3)
    data.time.attrs["units"] = "s"
    data[0, 0] = np.nan
    summary = describe(data)
    assert summary["dims"] == ["path", "time", "x"]
    assert summary["sizes"] == {"path": 3, "time": 5, "x": 4}
    assert summary["units"] == "K"
    assert summary["missing"] == {"count": 4, "fraction": 4 / 60}
    assert summary["equation"] == {"name": "heat"}
    assert summary["attributes"] == {"seed": 3}
    assert summary["per_path_times"] is False
    assert summary["fingerprint"] == fingerprint(data)
    assert summary["coordinates"]["path"] == {"n": 3, "first": 0, "last": 2}
    assert summary["coordinates"]["time"] == {
        "n": 5,
        "min": 0.0,
        "max": 1.5,
        "uniform": False,
        "spacing": None,
        "units": "s",
    }
    for name in ("min", "max", "mean", "std"):
        np.testing.assert_allclose(summary["values"][name], getattr(data, name)(), rtol=1e-12)


def test_uniform_grids_have_a_spacing():
    data = as_fields(np.ones((3, 4)), times=[0, 1, 2], points=np.linspace(0, np.pi, 4))
    x = describe(data)["coordinates"]["x"]
    assert x["uniform"] is True
    np.testing.assert_allclose(x["spacing"], np.pi / 3)


def test_per_path_times_are_reported():
    data = with_path_times()
    summary = describe(data)
    assert summary["per_path_times"] is True
    assert summary["coordinates"]["path_time"]["n"] == 12
    assert summary["coordinates"]["path_time"]["max"] == float(data.path_time.max())


def test_scattered_points_report_their_coordinates():
    places = np.array([[0.0, 1.0], [2.0, 3.0]])
    data = as_fields(np.ones((3, 2)), times=range(3), points=places, dims=("y", "x"))
    coordinates = describe(data)["coordinates"]
    assert coordinates["y"]["max"] == 2.0
    assert coordinates["x"]["uniform"] is False


def test_equation_that_is_no_json_stays_text():
    assert describe(fields().assign_attrs(equation="du = Au dt"))["equation"] == "du = Au dt"
    assert describe(fields().assign_attrs(equation={"a": 1}))["equation"] == {"a": 1}
    assert describe(fields())["equation"] is None


@settings(max_examples=30)
@given(any_fields())
def test_always_strict_json(data):
    data.attrs["bound"] = [np.inf, {"lower": -np.inf}]
    summary = json.loads(json.dumps(describe(data), allow_nan=False))
    assert summary["attributes"]["bound"] == ["inf", {"lower": "-inf"}]


def test_lazy_fields_give_the_same():
    assert describe(fields(6).chunk(path=2, time=2)) == describe(fields(6))


def test_broken_fields_are_refused():
    with pytest.raises(DataError, match="infinite"):
        describe(fields().where(fields() < 2, np.inf))

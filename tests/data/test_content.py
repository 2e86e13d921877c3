"""Fingerprints, descriptions and attributes: what fields hold, and nothing else."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.builders import POINTS, TIMES, any_fields, fields, values, with_path_times

from spdelaw.data import executors as executors_module
from spdelaw.data.fields import as_fields
from spdelaw.data.io.encoding import JSON, encode, encode_attrs
from spdelaw.data.summary import checksum, describe, fingerprint
from spdelaw.errors import DataError

# ---------------------------------------------------------------- one pass over the values


@settings(max_examples=30)
@given(st.tuples(*[st.integers(1, 8)] * 3), st.integers(1, 2000), st.booleans())
def test_chunks_and_blocks_leave_no_trace(chunks, block_bytes, lazy):
    data = with_path_times(4)
    expected = fingerprint(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executors_module, "MIN_BLOCK_BYTES", block_bytes)
        if lazy:
            data = data.chunk(dict(zip(data.dims, chunks, strict=True)))
        assert fingerprint(data) == expected


def test_moments_agree_with_numpy_far_from_zero(monkeypatch):
    monkeypatch.setattr(executors_module, "MIN_BLOCK_BYTES", 200)  # many blocks of a few rows
    data = fields(6) + 1e8
    data[2, 3] = np.nan
    summary = describe(data)
    assert (summary["missing"]["count"], summary["values"]["max"]) == (4, float(data.max()))
    np.testing.assert_allclose(summary["values"]["mean"], float(data.mean()), rtol=1e-15)
    np.testing.assert_allclose(summary["values"]["std"], float(data.std()), rtol=1e-7)


# ---------------------------------------------------------------- fingerprints


@pytest.mark.parametrize("name", [fingerprint, checksum])
def test_names_attributes_and_kinds_of_nan_do_not_matter(name):
    expected = name(fields())
    assert name(fields().rename("u").assign_attrs(units="K")) == expected
    if name is fingerprint:
        assert name(fields().transpose("x", "time", "path")) == expected
        assert name(fields().isel(x=slice(None, None, -1))) == expected
    one, other = values(), values()
    one[0, 0, 0], other[0, 0, 0] = np.nan, -np.float64(np.nan)
    assert one.tobytes() != other.tobytes()
    assert name(as_fields(one, times=TIMES, points=POINTS)) == name(
        as_fields(other, times=TIMES, points=POINTS)
    )


def smallest_change(data):
    changed = data.copy(deep=True)
    changed.values[1, 2, 3] = np.nextafter(changed.values[1, 2, 3], np.inf)
    return changed


def exchanged(data):
    changed = data.copy(deep=True)
    changed.values[0, 2, 3], changed.values[0, 3, 1] = data.values[0, 3, 1], data.values[0, 2, 3]
    return changed


def moved(name):
    def change(data):
        coordinate = data[name].values.copy()
        coordinate[1] = np.nextafter(coordinate[1], np.inf)
        return data.assign_coords({name: coordinate})

    return change


BOTH = [smallest_change, exchanged, moved("time"), moved("x"), lambda u: u.where(u < u.max())]
LABELS = [
    lambda u: u.assign_coords(path=np.r_[u.path.values[:-1], 99]),
    lambda u: u.assign_coords(path=u.path.values.astype(str)),
    lambda u: u.isel(path=[1, 0, 2]),
    lambda u: u.assign_coords(path_time=u.time + 0 * u.path),
]
CHANGES = [*((name, c) for name in (fingerprint, checksum) for c in BOTH),
           *((fingerprint, c) for c in LABELS)]  # fmt: skip


@pytest.mark.parametrize(("name", "change"), CHANGES)
def test_any_change_of_content_shows(name, change):
    large = np.random.default_rng(0).normal(size=(3, 90, 200))  # several runs and some left over
    for data in (fields(), as_fields(large, times=np.arange(90.0), points=np.arange(200.0))):
        assert name(change(data)) != name(data)


# ---------------------------------------------------------------- descriptions


def test_summary_of_fields():
    data = fields().assign_attrs(units="K", equation='{"name": "heat"}', seed=3)
    data.time.attrs["units"] = "s"
    data[0, 0] = np.nan
    summary = describe(data)
    moments = summary.pop("values")
    for name in ("min", "max", "mean", "std"):
        np.testing.assert_allclose(moments[name], getattr(data, name)(), rtol=1e-12)
    time = {"n": 5, "min": 0.0, "max": 1.5, "uniform": False, "spacing": None, "units": "s"}
    assert summary["coordinates"]["path"] == {"n": 3, "first": 0, "last": 2}
    assert summary["coordinates"]["time"] == time
    expected = {
        "dims": ["path", "time", "x"], "sizes": {"path": 3, "time": 5, "x": 4}, "units": "K",
        "missing": {"count": 4, "fraction": 4 / 60}, "equation": {"name": "heat"},
        "attributes": {"seed": 3}, "per_path_times": False, "fingerprint": fingerprint(data),
    }  # fmt: skip
    assert {name: summary[name] for name in expected} == expected
    for equation in ("du = Au dt", {"a": 1}, None):
        attrs = {} if equation is None else {"equation": equation}
        assert describe(fields().assign_attrs(attrs))["equation"] == equation


def test_coordinates_of_every_kind():
    data = as_fields(np.ones((3, 4)), times=[0, 1, 2], points=np.linspace(0, np.pi, 4))
    x = describe(data)["coordinates"]["x"]
    assert x["uniform"] is True
    np.testing.assert_allclose(x["spacing"], np.pi / 3)
    ragged = with_path_times()
    summary = describe(ragged)
    assert summary["per_path_times"] is True
    assert summary["coordinates"]["path_time"]["n"] == 12
    assert summary["coordinates"]["path_time"]["max"] == float(ragged.path_time.max())
    places = np.array([[0.0, 1.0], [2.0, 3.0]])
    data = as_fields(np.ones((3, 2)), times=range(3), points=places, dims=("y", "x"))
    coordinates = describe(data)["coordinates"]
    assert coordinates["y"]["max"] == 2.0
    assert coordinates["x"]["uniform"] is False


@settings(max_examples=30)
@given(any_fields())
def test_always_strict_json(data):
    data.attrs["bound"] = [np.inf, {"lower": -np.inf}]
    summary = json.loads(json.dumps(describe(data), allow_nan=False))
    assert summary["attributes"]["bound"] == ["inf", {"lower": "-inf"}]


def test_lazy_fields_give_the_same_and_broken_ones_are_refused():
    lazy, whole = describe(fields(6).chunk(path=2, time=2)), describe(fields(6))
    moments = lazy.pop("values")
    for name, value in whole.pop("values").items():  # sums over chunks round in another order
        assert moments[name] == pytest.approx(value, rel=1e-14)
    assert lazy == whole
    with pytest.raises(DataError, match="infinite"):
        describe(fields().where(fields() < 2, np.inf))


# ---------------------------------------------------------------- attributes


ATTRS = {"flag": True, "none": None, "equation": {"b": 1, "a": [2.5]}, "bound": np.inf,
         "huge": 2**63, "zero": "a\0b", "half": "\ud800", "two words": 1, "_private": "text",
         "scale_factor": 2.0, "coordinates": "x y", "CLASS": "text"}  # fmt: skip


def test_what_a_file_can_hold_stays_readable_and_the_rest_is_json():
    plain = {"units": "K", "n": 3, "x": 0.5, "title": "λ", "lines": "a\nb"}
    assert encode_attrs("u", plain) == plain
    for name, value in ATTRS.items():
        encoded = encode_attrs("u", {name: value})
        assert list(encoded) == [JSON]
        assert json.loads(encoded[JSON]) == {name: value}


def test_values_and_names_that_no_file_takes():
    for value in (object(), 1j, {1, 2}, b"bytes", {"a": {2: 3}}, [np.datetime64("2000")]):
        with pytest.raises(DataError) as caught:
            encode_attrs("u", {"name": value})
        assert "'u'" in caught.value.what
    for name in ("", "a/b", ".hidden", "__zarr", 3):
        with pytest.raises(DataError, match="name"):
            encode(xr.Dataset({name: ("x", [1.0])}))

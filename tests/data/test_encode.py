"""Attributes: native where a file can hold them, JSON where it cannot, always the same bytes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from tests.data.builders import attribute_values, fields

from spdelaw.data._encode import JSON, decode, decode_attrs, encode, encode_attrs
from spdelaw.errors import DataError


@given(st.dictionaries(st.text(), attribute_values))
def test_attributes_come_back(attrs):
    encoded = encode_attrs("u", attrs)
    assert decode_attrs(encoded) == attrs
    assert all(type(value) in (str, int, float) for value in encoded.values())


def test_text_and_numbers_stay_readable_for_others():
    attrs = {"units": "K", "n": 3, "x": 0.5, "title": "λ", "lines": "a\nb"}
    assert encode_attrs("u", attrs) == attrs


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flag", True),
        ("none", None),
        ("equation", {"b": 1, "a": [2.5]}),
        ("bound", np.inf),
        ("huge", 2**63),
        ("zero", "a\0b"),
        ("half", "\ud800"),
        ("two words", 1),
        ("_private", "text"),
        ("scale_factor", 2.0),
        ("coordinates", "x y"),
        ("CLASS", "text"),
    ],
)
def test_what_a_file_cannot_hold_goes_into_json(name, value):
    encoded = encode_attrs("u", {name: value})
    assert list(encoded) == [JSON]
    assert json.loads(encoded[JSON]) == {name: value}


def test_json_does_not_depend_on_the_order():
    one = encode_attrs("u", {"a": {"y": 1, "x": 2}, "b": None})
    two = encode_attrs("u", {"b": None, "a": {"x": 2, "y": 1}})
    assert one == two


@pytest.mark.parametrize(
    "value", [object(), 1j, {1, 2}, b"bytes", {"a": {2: 3}}, [np.datetime64("2000")]]
)
def test_what_is_neither_is_refused(value):
    with pytest.raises(DataError) as caught:
        encode_attrs("u", {"name": value})
    assert "'u'" in caught.value.what


def test_strings_become_numbers_and_come_back():
    dataset = fields().assign_coords(
        path=["b", "a", "λ"], site=("x", np.array(list("wxyz"), object))
    )
    encoded = encode(dataset.to_dataset())
    assert encoded.path.values.tolist() == [0, 1, 2]
    assert all(variable.dtype.kind in "iuf" for variable in encoded.variables.values())
    back = decode(encoded)
    assert back.path.values.tolist() == ["b", "a", "λ"]
    assert back.site.values.tolist() == list("wxyz")


@pytest.mark.parametrize("name", ["", "a/b", ".hidden", "__zarr", 3])
def test_names_that_no_format_takes(name):
    with pytest.raises(DataError, match="name"):
        encode(xr.Dataset({name: ("x", [1.0])}))

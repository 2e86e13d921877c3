"""Errors: one form of message, catchable by the built-in families, safe to send around."""

import copy

import pytest

from spdelaw import errors


@pytest.mark.parametrize("name", [n for n in errors.__all__ if n.endswith("Error")])
def test_message_and_copy(name):
    cls = getattr(errors, name)
    if name == "MissingExtraError":
        error = cls("streaming", "zarr")
        assert "pip install 'spdelaw[zarr]'" in str(error)
    else:
        error = cls("thing", expected="a", got="b", fix="c")
        assert str(error) == "thing: expected a, got b. Fix: c"
    assert isinstance(error, errors.SpdeLawError)
    assert str(copy.copy(error)) == str(error)


def test_families():
    assert issubclass(errors.DataError, ValueError)
    assert issubclass(errors.FileError, OSError)
    assert issubclass(errors.MissingExtraError, ImportError)

"""What a file can hold: attributes as text or numbers, strings as codes, chunks."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data.clock import is_date, to_numbers
from spdelaw.data.layout import FIELD
from spdelaw.errors import DataError, FileError

# ---------- Chunks of stored arrays: whole paths where they fit


def chunk_shape(variable: xr.Variable, target: int) -> tuple[int, ...]:
    """Largest chunk of at most ``target`` bytes that cuts the leading dims first."""
    chunk, left = [], max(1, target // variable.dtype.itemsize)
    for size in reversed(variable.shape):
        chunk.append(max(1, min(size, left)))
        left = max(1, left // chunk[-1])
    return tuple(reversed(chunk))


def streamed(dataset: xr.Dataset, chunks: Mapping[Hashable, tuple[int, ...]]) -> xr.Dataset:
    """Dataset whose lazy variables have the chunks of the file, so that they are never whole."""
    lazy = {
        name: variable.chunk(dict(zip(variable.dims, chunks[name], strict=True)))
        for name, variable in dataset.variables.items()
        if name in dataset.data_vars and not variable._in_memory
    }
    return dataset.assign(lazy)


# ---------- Encoding for files, and back: attributes as text or numbers, strings as codes


#: Global attribute that marks a file of this package and tells how to read it.
FORMAT = "spdelaw_format"
VERSION = 1
#: Attribute with all attributes that a file cannot hold as they are, as one JSON object.
JSON = "spdelaw_attrs"
#: Attribute with the strings of a variable, as a JSON list; the variable holds their numbers.
STRINGS = "spdelaw_strings"

_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# Names with a meaning of their own to HDF5, NetCDF or xarray.
_RESERVED_NAMES = {
    "CLASS", "NAME", "REFERENCE_LIST", "DIMENSION_LIST", "DIMENSION_LABELS", "add_offset",
    "ancillary_variables", "bounds", "cell_measures", "coordinates", "dtype", "formula_terms",
    "grid_mapping", "missing_value", "scale_factor", FORMAT, JSON, STRINGS,
}  # fmt: skip


def to_dataset(fields: xr.DataArray | xr.Dataset) -> xr.Dataset:
    """Dataset with the same content; attributes of an array stay with the array."""
    if isinstance(fields, xr.Dataset):
        return fields
    name = str(fields.name or FIELD)
    if name in fields.coords:
        expected = "another name than those of the coordinates"
        fix = 'rename the fields: data.rename("field")'
        raise DataError("name", expected=expected, got=repr(name), fix=fix)
    return fields.to_dataset(name=name)


def encode(dataset: xr.Dataset) -> xr.Dataset:
    """Dataset of numbers only, with attributes of text and numbers only."""
    for name in [*dataset.variables, *dataset.dims]:
        _check_name(name)
    # The packing of a file of another program must not be applied to these values.
    dataset = dataset.drop_encoding()
    variables = {name: _encode_variable(str(name), var) for name, var in dataset.variables.items()}
    attrs = {**encode_attrs("dataset", dataset.attrs), FORMAT: VERSION}
    coords = {name: variables.pop(name).compute() for name in dataset.coords}
    return xr.Dataset(variables, coords, attrs)


def decode(dataset: xr.Dataset) -> xr.Dataset:
    """Undo ``encode``; files of other programs get plain attributes."""
    version = dataset.attrs.get(FORMAT, VERSION)
    if version != VERSION:
        fix = "the file is of a newer version: pip install -U spdelaw"
        raise FileError(f"attribute '{FORMAT}'", expected=f"{VERSION}", got=f"{version}", fix=fix)
    is_our_file = FORMAT in dataset.attrs
    coords = {
        name: _decode_variable(dataset[name].variable, is_our_file) for name in dataset.coords
    }
    variables = {
        name: _decode_variable(dataset[name].variable, is_our_file) for name in dataset.data_vars
    }
    attrs = decode_attrs(dataset.attrs)
    attrs.pop(FORMAT, None)
    return xr.Dataset(variables, coords, attrs)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name and "/" not in name and name[0] not in "._":
        return
    expected, fix = "text without '/' that starts with a letter", 'rename it: data.rename("u")'
    raise DataError("name of a variable or dim", expected=expected, got=repr(name), fix=fix)


def _encode_variable(name: str, variable: xr.Variable) -> xr.Variable:
    variable = variable.to_base_variable()
    if is_date(variable):
        variable = to_numbers(variable, None)
    attrs = encode_attrs(name, variable.attrs)
    if variable.dtype.kind == "f" and variable.dtype.itemsize > 8:
        variable = variable.astype(np.float64)  # no format holds long doubles
    if variable.dtype.kind in "iufb":
        return xr.Variable(variable.dims, variable._data, attrs)
    strings = variable.values
    if strings.dtype.kind not in "UT" and not all(isinstance(s, str) for s in strings.flat):
        expected, got = "real numbers or strings", f"dtype {strings.dtype}"
        fix = f'drop it: data.drop_vars("{name}"); for dates in time use as_fields(data)'
        raise DataError(f"variable '{name}'", expected=expected, got=got, fix=fix)
    attrs[STRINGS] = json.dumps(strings.ravel().tolist())
    return xr.Variable(variable.dims, np.arange(strings.size).reshape(strings.shape), attrs)


def as_text(encoded: xr.Variable) -> xr.Variable:
    """An encoded variable with its strings themselves, which other programs can read.

    Numbers stay where there are none, or where a file would end them at a zero byte.
    """
    strings = json.loads(encoded.attrs.get(STRINGS, "[]"))
    try:
        whole = "".join(strings).encode()
    except UnicodeEncodeError:  # a lone surrogate
        return encoded
    if not strings or b"\0" in whole:
        return encoded
    attrs = {k: v for k, v in encoded.attrs.items() if k != STRINGS}
    return xr.Variable(encoded.dims, np.array(strings)[encoded.values], attrs)


def _decode_variable(variable: xr.Variable, is_our_file: bool) -> xr.Variable:
    attrs = decode_attrs(variable.attrs)
    text = attrs.pop(STRINGS, None)
    data = variable._data if text is None else np.array(json.loads(text))[variable.values]
    if is_our_file and variable.dtype.kind == "O":  # text as other programs store it
        data = variable.values.astype(str)
    return xr.Variable(variable.dims, data, attrs, variable.encoding)


def encode_attrs(owner: str, attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Text and numbers as they are, everything else in one JSON attribute."""
    plain = plain_attrs(owner, attrs)
    native = {name: value for name, value in plain.items() if _is_native(name, value)}
    as_json = {name: value for name, value in plain.items() if name not in native}
    return {**native, JSON: json.dumps(as_json, sort_keys=True)} if as_json else native


def plain_attrs(owner: str, attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Attributes as text, numbers, lists, dicts, booleans and None, or a DataError."""
    return {name: _plain_value(owner, name, value) for name, value in attrs.items()}


def decode_attrs(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Undo ``encode_attrs``: text, numbers, lists, dicts, booleans and None."""
    plain = {str(k): v.tolist() if hasattr(v, "tolist") else v for k, v in attrs.items()}
    from_json = json.loads(plain.pop(JSON, "{}"))
    return {**plain, **from_json}


def _is_native(name: str, value: Any) -> bool:
    if not _PLAIN_NAME.fullmatch(name) or name in _RESERVED_NAMES or isinstance(value, bool):
        return False
    if isinstance(value, str):  # HDF5 ends text at a zero byte and knows no lone surrogates
        return "\0" not in value and value.isprintable() | value.isascii()
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, float) and bool(np.isfinite(value))


def _plain_value(owner: str, name: object, value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(name, str):
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, list | tuple):
            return [_plain_value(owner, name, entry) for entry in value]
        if isinstance(value, dict):
            return {key: _plain_value(owner, key, entry) for key, entry in value.items()}
    expected = "text, numbers, lists or dicts of them"
    got = f"{type(name).__name__} -> {type(value).__name__}"
    fix = f"store text instead, such as str(value), or remove it: attrs.pop({name!r})"
    raise DataError(f"attribute {name!r} of '{owner}'", expected=expected, got=got, fix=fix)

"""Records: a JSON document and arrays under one SHA-256.

Laws, checkpoints of trainings and manifests of many fits are records. The bytes are read once,
compared with the checksum, and then parsed: nothing is opened twice. A record that is replaced
while it is read is read again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import xarray as xr
from safetensors.numpy import load, save

from spdelaw.data.io.safe_files import read_regular, read_together, recover_directory
from spdelaw.errors import FileError

CHECKSUM = "sha256"


def sealed(document: dict[str, Any], arrays: bytes = b"") -> bytes:
    """The document as JSON, with a checksum of itself and the arrays."""
    document = {**document, CHECKSUM: checksum(document, arrays)}
    return json.dumps(document, indent=2, sort_keys=True).encode()


def checksum(document: Mapping[str, Any], arrays: bytes = b"") -> str:
    """SHA-256 of the document, but for its checksum, and of the arrays."""
    parts = {key: value for key, value in document.items() if key != CHECKSUM}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode() + arrays).hexdigest()


def unsealed(text: bytes, arrays: bytes = b"") -> dict[str, Any]:
    """The document of `sealed`; ValueError where anything was changed."""
    document = json.loads(text)
    if not isinstance(document, dict) or CHECKSUM not in document:
        raise ValueError("a document without a checksum")
    if document[CHECKSUM] != checksum(document, arrays):
        raise ValueError("its content differs from what was written")
    return document


def write_record(
    folder: Path, names: tuple[str, str], document: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Write document and arrays into an empty folder."""
    content = save({k: np.ascontiguousarray(v).reshape(v.shape) for k, v in arrays.items()})
    (folder / names[1]).write_bytes(content)
    (folder / names[0]).write_bytes(sealed(document, content))


def read_record(path: Path, names: tuple[str, str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Document and arrays of `write_record`."""
    recover_directory(path)
    text, content = read_together(path, names)
    document = unsealed(text, content)
    return document, load(content)


def is_record(path: Path, keys: Iterable[str]) -> bool:
    """Whether a file is a document with a checksum and these keys, intact or not."""
    try:
        document = json.loads(read_regular(path))
    except (FileError, OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and {*keys, CHECKSUM} <= document.keys()


# ---------- Digest of any content: data and settings that make a result


def content_digest(*values: Any) -> str:
    """SHA-256 of values by their content: numbers to the last bit, names, dims and coordinates.

    Lazy arrays count by their graph, which names file and time; they are not read.

    Example:
        >>> a, b = np.arange(5000.0), np.arange(5000.0)
        >>> b[2000] += 1e-9
        >>> repr(a) == repr(b), content_digest(a) == content_digest(b)
        (True, False)
    """
    digest = hashlib.sha256()
    for value in values:
        _add(value, digest.update)
    return digest.hexdigest()


def _add(value: Any, put: Callable[[bytes], None]) -> None:
    """Pass a value on as bytes; every part begins with its kind and its length."""
    if hasattr(value, "dask") and hasattr(value, "name"):
        value = ("lazy", str(value.name), value.shape)
    if isinstance(value, xr.Dataset | xr.DataArray):
        values = value.variables if isinstance(value, xr.Dataset) else {"": value.variable}
        value = {"data": dict(values), "attrs": value.attrs, "coords": dict(value.coords.variables)}
    elif isinstance(value, xr.Variable):
        value = (*map(str, value.dims), value._data if value.chunks else value.values, value.attrs)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        value = (type(value).__qualname__, fields)
    elif isinstance(value, set | frozenset):
        value = ("set", sorted(map(repr, value)))
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        content = repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
        put(f"array {array.dtype.str} {array.shape} {len(content)}:".encode() + content)
    elif isinstance(value, Mapping):
        put(f"mapping {len(value)}:".encode())
        for key in sorted(value, key=str):
            _add((str(type(key)), str(key)), put)
            _add(value[key], put)
    elif isinstance(value, list | tuple):
        put(f"{type(value).__name__} {len(value)}:".encode())
        for entry in value:
            _add(entry, put)
    elif isinstance(value, CodeType):
        _add((value.co_code, value.co_consts, value.co_names), put)
    elif callable(value) and hasattr(value, "__code__"):
        _add((value.__qualname__, value.__code__, value.__defaults__), put)
    elif value.__class__.__module__ == "builtins" or not hasattr(value, "__dict__"):
        text = repr(value).encode()
        put(f"{type(value).__name__} {len(text)}:".encode() + text)
    else:
        _add((type(value).__qualname__, vars(value)), put)

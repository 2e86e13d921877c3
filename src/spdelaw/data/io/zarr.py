"""Zarr directories, compressed and with checksums, lazily readable."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data.io.encoding import chunk_shape, streamed
from spdelaw.data.io.safe_files import (
    check_directory,
    refuse_foreign,
    refuse_special_in,
    replace_directory,
    seal_directory,
    sealed_files,
)
from spdelaw.errors import FileError, MissingExtraError

SUFFIXES = (".zarr",)
#: One chunk is one file: large enough for the file system, small enough for memory.
CHUNK_BYTES = 2**23
_METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")


def save(dataset: xr.Dataset, path: Path) -> None:
    """Write an encoded dataset in one step."""
    _require()
    chunks = {name: chunk_shape(var, CHUNK_BYTES) for name, var in dataset.variables.items()}
    encoding = {name: _encoding(dataset[name], chunks[name]) for name in dataset.variables}
    with replace_store(path) as new:
        streamed(dataset, chunks).to_zarr(
            new, mode="w", zarr_format=3, consolidated=False, encoding=encoding
        )


@contextmanager
def replace_store(path: Path) -> Iterator[Path]:
    """Fill an empty directory with a Zarr store, which is sealed and then replaces ``path``.

    Raises:
        FileError: there is something that was not written with a seal.
    """
    with replace_directory(path, sealed_files) as new:
        yield new
        seal_directory(new, min(entry.name for entry in new.iterdir() if entry.is_dir()))


def check_replaceable(path: Path) -> None:
    """Raise `FileError` where a directory is not what `replace_store` wrote."""
    refuse_foreign(path, sealed_files)


def _encoding(variable: xr.DataArray, chunks: tuple[int, ...]) -> dict[str, Any]:
    from zarr.codecs import BloscCodec, Crc32cCodec

    pack = BloscCodec(cname="zstd", clevel=1, shuffle="shuffle", typesize=variable.dtype.itemsize)
    data = variable.dtype.kind == "f" and variable.name not in variable.coords
    encoding: dict[str, Any] = {"compressors": (pack, Crc32cCodec())}
    encoding["_FillValue"] = np.nan if data else None
    return encoding | ({"chunks": chunks} if chunks else {})


def open_raw(path: Path, verify: bool, allow_external: bool = False) -> xr.Dataset:
    """Open a directory lazily; values are unpacked, times are left as numbers."""
    _require()
    if not path.is_dir() or not any((path / name).is_file() for name in _METADATA):
        got = "a directory without Zarr metadata" if path.is_dir() else "no such directory"
        raise FileError(str(path), expected="a Zarr directory", got=got, fix="check the name")
    refuse_special_in(path, allow_external)
    if verify:
        check_directory(path)
    _refuse_pickle(path)
    return xr.open_dataset(
        path, engine="zarr", chunks=None, consolidated=False,
        decode_times=False, decode_timedelta=False, cache=False,
    )  # fmt: skip


def _require() -> None:
    if importlib.util.find_spec("zarr") is None:
        raise MissingExtraError("Zarr directories", "zarr")


def _refuse_pickle(path: Path) -> None:
    """Codecs that unpickle would run code from the file."""
    for folder, _, names in os.walk(path):
        for name in {".zarray", "zarr.json"}.intersection(names):
            with open(Path(folder, name), encoding="utf-8") as file:
                if _mentions_pickle(json.load(file)):
                    expected = "arrays of numbers"
                    fix = "they can run code when read: convert them where they come from"
                    raise FileError(str(path), expected=expected, got="pickled objects", fix=fix)


def _mentions_pickle(node: Any) -> bool:
    if isinstance(node, list):
        return any(_mentions_pickle(entry) for entry in node)
    if not isinstance(node, dict):
        return False
    codec = f"{node.get('id', '')} {node.get('name', '')}".lower()
    return "pickle" in codec or any(
        _mentions_pickle(value) for key, value in node.items() if key != "attributes"
    )

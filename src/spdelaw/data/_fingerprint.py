"""SHA-256 of arrays, whatever their chunks, and of fields."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data._contract import canonical
from spdelaw.data._layout import PATH, PATH_TIME, TIME, infer_dims
from spdelaw.data._pieces import slices_of
from spdelaw.data._reading import Reading, read_values
from spdelaw.data._sweep import Index, sweep


class Digest:
    """Observer that hashes an array path by path, so that chunks leave no trace.

    Every NaN counts as the same NaN; apart from that the hash is of the very bits.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self._shape, self._dtype = shape, dtype
        self._open: dict[int, Any] = {}
        self._done: dict[int, bytes] = {}

    def update(self, index: Index, block: np.ndarray) -> None:
        """Take one block into account; blocks of a path come in order of time."""
        paths, times = index
        complete = times.stop == self._shape[1]
        for path, rows in zip(range(paths.start, paths.stop), _plain(block), strict=True):
            running = self._open.pop(path, None) or hashlib.sha256()
            running.update(rows)
            if complete:
                self._done[path] = running.digest()
            else:
                self._open[path] = running

    def hexdigest(self) -> str:
        """Hash of shape, dtype and values, after the last block."""
        whole = hashlib.sha256(f"{self._shape} {self._dtype.kind}{self._dtype.itemsize}".encode())
        for path in sorted(self._done):
            whole.update(self._done[path])
        return whole.hexdigest()


def _plain(block: np.ndarray) -> np.ndarray:
    if block.dtype.kind == "f" and np.isnan(block).any():
        block = np.where(np.isnan(block), block.dtype.type(np.nan), block)
    return np.ascontiguousarray(block, dtype=block.dtype.newbyteorder("<"))


def digest(variable: xr.Variable) -> str:
    """Hash of a numeric variable with any number of dims."""
    if variable.ndim < 2:
        values = variable.values.reshape(1, -1)
        variable = xr.Variable(("one", "all"), values)
    observer = Digest(variable.shape, variable.dtype)
    sweep(variable, observer)
    return observer.hexdigest()


def fingerprint(fields: xr.DataArray) -> str:
    """SHA-256 of the content of fields: values, dims and coordinates, not attributes.

    It tells whether two fields are the same data. Names, attributes, chunks and the file
    they come from do not matter. Lazy fields are read once, block by block.

    Args:
        fields: fields ``(path, time, *space)``.

    Returns:
        64 hexadecimal digits.

    Example:
        >>> import numpy as np
        >>> from spdelaw.data import as_fields, fingerprint
        >>> fields = as_fields(np.zeros((1, 2, 3)), times=[0, 1], points=[0, 1, 2])
        >>> fingerprint(fields)[:12]
        '63dc4fcc8da9'
        >>> fingerprint(fields) == fingerprint(fields.rename("u"))
        True
    """
    fields = canonical(fields)
    observer = Digest(fields.shape, fields.dtype)
    sweep(fields.variable, observer)
    return combine(fields, observer)


def checksum(fields: xr.DataArray, reading: Reading | None = None) -> str:
    """Whether two canonical fields are the same data, at the price of one reading.

    SHA-256 of dims, coordinates and the sums of a `Reading`, of each run of values and of each
    place in a run. No accident leaves all of these as they are; to leave them so on purpose is
    easy, and `fingerprint` is for that.

    Args:
        fields: canonical.
        reading: of their values, where they were read before.
    """
    sums = (read_values(_in_order(fields)) if reading is None else reading).sums[None, None]
    observer = Digest(fields.shape, fields.dtype)
    observer.update((slice(0, 1), slice(0, fields.shape[1])), sums)
    return combine(fields, observer)


def _in_order(fields: xr.DataArray) -> Iterator[np.ndarray]:
    """Values in their order: all at once, or by the chunks of times of one lazy path."""
    if fields.chunks is None or fields.sizes[PATH] > 1:
        yield fields.values
        return
    for rows in slices_of(fields.chunksizes[TIME]):
        yield fields.isel(time=rows).values


def combine(fields: xr.DataArray, values: Digest) -> str:
    """Fingerprint of fields from the digest of their values."""
    names = [PATH, TIME, PATH_TIME, *infer_dims(fields)]
    parts = {"dims": " ".join(map(str, fields.dims)), "values": values.hexdigest()}
    for name in names:
        if name in fields.coords:
            parts[name] = _coordinate_digest(fields[name].variable)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _coordinate_digest(coordinate: xr.Variable) -> str:
    if coordinate.dtype.kind == "U":
        return hashlib.sha256(json.dumps(coordinate.values.tolist()).encode()).hexdigest()
    return digest(coordinate)

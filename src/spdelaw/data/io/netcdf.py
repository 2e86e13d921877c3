"""NetCDF-4 files, compressed and with checksums; NetCDF-3 can be read."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data.io.encoding import as_text, chunk_shape, streamed
from spdelaw.data.io.safe_files import check_file, external_data, replace_file, seal_file
from spdelaw.errors import FileError

SUFFIXES = (".nc", ".nc4", ".h5", ".cdf")
#: HDF5 keeps chunks of up to this size in its cache.
CHUNK_BYTES = 2**20
_HDF5, _CLASSIC = b"\x89HDF\r\n\x1a\n", (b"CDF\x01", b"CDF\x02")


def save(dataset: xr.Dataset, path: Path) -> None:
    """Write an encoded dataset in one step, strings as text."""
    texts = {name: as_text(v) for name, v in dataset.variables.items() if name in dataset.coords}
    dataset = dataset.assign_coords({k: v for k, v in texts.items() if v.dtype.kind == "U"})
    chunks = {name: chunk_shape(var, CHUNK_BYTES) for name, var in dataset.variables.items()}
    encoding = {name: _encoding(dataset[name], chunks[name]) for name in dataset.variables}
    with replace_file(path) as new:
        with _Written(new, "w+") as file:
            streamed(dataset, chunks).to_netcdf(file, engine="h5netcdf", encoding=encoding)
        if file.error is not None:
            raise file.error
        seal_file(new)


class _Written(io.FileIO):
    """A file whose first failed write is kept in ``error`` and ends all writing.

    An error of a write makes the HDF5 library crash later. So a failed write reports success to
    the library; the caller reads ``error`` and discards the file.
    """

    error: OSError | None = None

    def write(self, content: Any) -> int:
        """Write all bytes."""
        rest = memoryview(content).cast("B")
        with self._kept_error():
            while rest and self.error is None:
                rest = rest[super().write(rest) :]
        return memoryview(content).nbytes

    def truncate(self, size: int | None = None) -> int:
        """Change the size."""
        with self._kept_error():
            if self.error is None:
                return super().truncate(size)
        return size or 0

    def readinto(self, buffer: Any) -> int:
        """Read; zeros where bytes could not be written."""
        n = super().readinto(buffer) or 0
        if self.error is not None:
            memoryview(buffer).cast("B")[n:] = bytes(len(buffer) - n)
            return len(buffer)
        return n

    @contextmanager
    def _kept_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.error = error


def _encoding(variable: xr.DataArray, chunks: tuple[int, ...]) -> dict[str, Any]:
    if variable.dtype.kind == "U":
        return {"dtype": "S1"}  # characters, which every program can read
    # NaN as fill value is for other programs; coordinates must not have one (CF 2.5.1).
    data = variable.dtype.kind == "f" and variable.name not in variable.coords
    encoding: dict[str, Any] = {"_FillValue": np.nan if data else None}
    if chunks and variable.size:
        encoding |= {"zlib": True, "complevel": 1, "shuffle": True, "fletcher32": True}
        encoding["chunksizes"] = chunks
    return encoding


def open_raw(path: Path, verify: bool, allow_external: bool = False) -> xr.Dataset:
    """Open a file lazily; values are unpacked, times are left as numbers."""
    engine = _engine(path)
    options: dict[str, Any] = {}
    if engine == "h5netcdf":
        if verify:
            check_file(path)
        _check_superblock(path)
        _check_hdf5(path, allow_external)
        # Dims without a name get one, which the contract then refuses by that name.
        options = {"phony_dims": "access"}
    return xr.open_dataset(
        path, engine=engine, decode_times=False, decode_timedelta=False, cache=False, **options
    )


def _engine(path: Path) -> str:
    with open(path, "rb") as file:
        start = file.read(8)
    if start == _HDF5:
        return "h5netcdf"
    if start[:4] in _CLASSIC:
        return "scipy"
    got = f"a file that starts with {start!r}" if start else "an empty file"
    fix = "convert it to NetCDF-4; a table of columns is a .csv"
    raise FileError(str(path), expected="a NetCDF file", got=got, fix=fix)


def _check_superblock(path: Path) -> None:
    """Refuse a damaged start of a file: the HDF5 library may loop on it for ever.

    In versions 0 and 1 the addresses of the end of the file and of a driver's block follow each
    other. NetCDF has no driver's block, so that a number there is damage.
    """
    with open(path, "rb") as file:
        head = file.read(64)
    size = path.stat().st_size
    if len(head) < 64 or head[8] > 1 or head[13] != 8:
        return  # later versions have a checksum of their own
    start = 24 + 4 * head[8]
    base, _, end, driver = (
        int.from_bytes(head[at : at + 8], "little") for at in range(start, start + 32, 8)
    )
    if base != 0 or end > size or driver != 2**64 - 1:
        got, fix = "addresses that lead nowhere", "restore it from a backup or write it again"
        raise FileError(str(path), expected="the start of an HDF5 file", got=got, fix=fix)


def _check_hdf5(path: Path, allow_external: bool) -> None:
    """Open the file, and refuse data outside of it: it could name any file of this machine."""
    # h5netcdf complains on stderr about a file that it could not open; h5py just raises.
    import h5py

    def check(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset) and (node.external or node.is_virtual):
            raise external_data(path, f"values of {name} in another file")
        for child in node if isinstance(node, h5py.Group) else ():
            if isinstance(node.get(child, getlink=True), h5py.ExternalLink):
                raise external_data(path, f"{child} as a link to another file")

    with h5py.File(path, "r") as file:
        if not allow_external:
            check("/", file)
            file.visititems(check)

"""Seals: SHA-256 of every byte that was written, checked before a library parses any.

The filters of NetCDF and Zarr protect chunks of data. What describes the chunks is not
protected: one flipped bit there can change values in silence, or send HDF5 into an endless
loop. A seal covers all of it. Other programs do not see it:

* a file ends in one more line, after the end that HDF5 has on record;
* a Zarr directory has a list in the format of ``sha256sum`` in the folder of one array.

When another program rewrites a file, the seal is gone, and the file counts as unsealed.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from spdelaw.errors import FileError

_LINE = re.compile(rb"\nspdelaw sha256 ([0-9a-f]{64})\n")
_LINE_BYTES = 81
LIST = "spdelaw.sha256"
_CHUNK = 2**20


def seal_file(path: Path) -> None:
    """Append the line that seals a file."""
    digest = _hash(path, path.stat().st_size)
    with open(path, "ab") as file:
        file.write(b"\nspdelaw sha256 " + digest.encode() + b"\n")


def check_file(path: Path) -> None:
    """Raise FileError if a sealed file was damaged; a file without seal passes."""
    size = max(0, path.stat().st_size - _LINE_BYTES)
    with open(path, "rb") as file:
        file.seek(size)
        line = _LINE.fullmatch(file.read())
    if line and line[1].decode() != _hash(path, size):
        _raise_damaged(path, "other bytes")


def seal_directory(path: Path, folder: str) -> None:
    """Write the list that seals a directory, into one of its folders."""
    lines = [f"{_hash(path / name)}  {name}\n" for name in _files(path)]
    (path / folder / LIST).write_text("".join(lines), encoding="utf-8")


def sealed_files(path: Path) -> list[str]:
    """Names of all files that were written with a seal, itself included; none without one."""
    lists = sorted(path.glob(f"*/{LIST}"))
    try:
        return [*_read_list(path, lists[0]), lists[0].relative_to(path).as_posix()]
    except (IndexError, FileError):  # no list, or one that nobody can read
        return []


def check_directory(path: Path) -> None:
    """Raise FileError if a sealed directory was damaged; one without seal passes."""
    lists = sorted(path.glob(f"*/{LIST}"))
    if not lists:
        return
    listed = _read_list(path, lists[0])
    present = set(_files(path))
    for name in sorted(present.symmetric_difference(listed)):
        _raise_damaged(path, f"{name} {'added' if name in present else 'missing'}")
    for name, digest in listed.items():
        if _hash(path / name) != digest:
            _raise_damaged(path, f"other bytes in {name}")


def _read_list(path: Path, file: Path) -> dict[str, str]:
    try:
        pairs = [line.split("  ", 1) for line in file.read_text(encoding="utf-8").splitlines()]
        return {name: digest for digest, name in pairs}
    except ValueError:  # also a byte that is no longer text
        _raise_damaged(path, f"an unreadable {LIST}")
        raise  # for the type checker: never reached


def _files(path: Path) -> list[str]:
    """Names of all files, hidden ones and the seal aside."""
    found = []
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(folder, n) for n in names if not n.startswith(".") and n != LIST]
    return sorted(file.relative_to(path).as_posix() for file in found)


def _hash(path: Path, size: int | None = None) -> str:
    left = path.stat().st_size if size is None else size
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while left > 0 and (block := file.read(min(_CHUNK, left))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()


def _raise_damaged(path: Path, got: str) -> None:
    raise FileError(
        str(path),
        expected="the bytes that write() stored",
        got=got,
        fix="restore it from a backup or write it again; if it was changed on purpose, "
        "read(path, verify=False)",
    )

"""Only regular files are opened: a pipe or a device never ends, and whoever reads it waits."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from spdelaw.errors import FileError

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def refuse_special(path: Path) -> None:
    """Raise `FileError` where a name stands for a pipe, a socket or a device."""
    try:
        kind = _KINDS.get(stat.S_IFMT(os.stat(path).st_mode))
    except OSError:
        return  # nothing there, or out of reach: whoever opens it says so
    if kind is not None:
        fix = "copy its content into a file"
        raise FileError(str(path), expected="a regular file", got=kind, fix=fix)


def refuse_special_in(directory: Path) -> None:
    """Raise `FileError` where a directory holds a pipe, a socket or a device anywhere."""
    for folder, _, files in os.walk(directory):
        for name in files:
            refuse_special(Path(folder, name))


def read_regular(path: Path) -> Any:
    """JSON document of a regular file.

    Raises:
        FileError: a pipe, a socket, a device, or JSON nested too deeply to be read.
        OSError, ValueError: as for any file that is missing, or is not JSON.
    """
    refuse_special(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        expected, got = "JSON of a few levels", "lists or dicts nested without end"
        raise FileError(str(path), expected=expected, got=got, fix="write it again") from error

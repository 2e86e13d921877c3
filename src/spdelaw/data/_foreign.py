"""Whose files are in a directory: what its writer did not put there is never removed."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from spdelaw.errors import FileError

#: Tells which files of a directory, by their names relative to it, its writer put there.
Written = Callable[[Path], Collection[str]]
#: Files that file managers leave behind: nobody's work.
_LITTER = frozenset({".DS_Store", "Thumbs.db"})
#: Foreign files that a message names.
_NAMED = 3


def refuse_foreign(path: str | Path, written: Written) -> None:
    """Raise where ``path`` is a file, or a directory with more in it than its writer put there.

    Args:
        path: directory that is to be replaced; it need not exist.
        written: tells which files of a directory are its writer's.

    Raises:
        FileError: there is something of somebody else.

    Example:
        >>> from spdelaw.data.atomic import refuse_foreign
        >>> refuse_foreign("never_written", lambda old: [])
    """
    target = Path(os.path.realpath(path))
    if not target.is_dir():
        if target.exists():
            expected = "the name of a directory"
            raise FileError(str(path), expected=expected, got="a file", fix="choose another name")
        return
    with as_file_error(path):
        foreign = _foreign(target, written)
    if foreign:
        more = f" and {len(foreign) - _NAMED} more" if len(foreign) > _NAMED else ""
        expected = "a free name, or a directory that holds only what spdelaw wrote"
        got = f"something else in it: {', '.join(foreign[:_NAMED])}{more}"
        fix = "choose another name, or move it elsewhere; nothing was deleted"
        raise FileError(str(path), expected=expected, got=got, fix=fix)


def _foreign(directory: Path, written: Written) -> list[str]:
    """Names in a directory that are neither its writer's nor a folder of those."""
    found: set[str] = set()
    for folder, folders, files in os.walk(directory, onerror=_raise):
        names = [name for name in (*folders, *files) if name not in _LITTER]
        found.update(Path(folder, name).relative_to(directory).as_posix() for name in names)
    if not found:
        return []
    ours = set(written(directory))
    ours.update(parent.as_posix() for name in tuple(ours) for parent in PurePosixPath(name).parents)
    return sorted(found - ours)


def _raise(error: OSError) -> None:
    raise error


@contextmanager
def as_file_error(path: str | Path) -> Iterator[None]:
    """Errors of the system about a place as `FileError`."""
    try:
        yield
    except OSError as error:
        expected, got = "a place that can be written", f"{error.strerror or error}"
        fix = "check permissions and free space of the folder"
        raise FileError(str(path), expected=expected, got=got, fix=fix) from error

"""Replace files and directories in one step: a kill at any moment leaves the old or the new.

Everything is written into a hidden sibling, flushed to the disk, and then renamed. A
sibling that a killed process left behind is never read, and goes with the next write.

A directory goes only when every file in it was put there by its writer, who names them. One
file of somebody else, and the directory is refused before any work.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import socket
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spdelaw.data._foreign import Written, as_file_error, refuse_foreign
from spdelaw.errors import FileError

__all__ = ["recover_directory", "refuse_foreign", "replace_directory", "replace_file"]

_NEW, _OLD = ".new", ".old"
_WEEK = 7 * 86400.0
#: Siblings of this process, to tell them from those of a dead process with the same number.
_IN_USE: set[str] = set()
_RENAME_EXCHANGE = 2  # linux/fs.h
_AT_FDCWD = -100  # linux/fcntl.h


@contextmanager
def replace_file(path: str | Path) -> Iterator[Path]:
    """Write a file under a temporary name that replaces ``path`` when the block succeeds.

    If the block raises, the temporary file is removed and ``path`` is as before. A symbolic
    link is followed, and the permissions of a file that is replaced are kept.

    Args:
        path: file to create or replace.

    Yields:
        Path in the same folder to write to; it does not exist yet.

    Raises:
        FileError: the folder is missing or the file cannot be put in place.

    Example:
        >>> from pathlib import Path
        >>> from spdelaw.data.atomic import replace_file
        >>> with replace_file("note.txt") as new:
        ...     _ = new.write_text("complete or absent")
        >>> Path("note.txt").read_text()
        'complete or absent'
    """
    target = _prepare(path)
    if target.is_dir():
        fix = "choose another name"
        raise FileError(str(path), expected="the name of a file", got="a directory", fix=fix)
    with _sibling(target, _NEW) as new:
        try:
            yield new
            with as_file_error(path):
                if target.exists():
                    shutil.copymode(target, new)
                _sync(new)
                os.replace(new, target)
                _sync(target.parent)
        finally:
            new.unlink(missing_ok=True)


@contextmanager
def replace_directory(path: str | Path, written: Written) -> Iterator[Path]:
    """Fill a temporary directory that replaces ``path`` when the block succeeds.

    If the block raises, the temporary directory is removed and ``path`` is as before. Where
    the system can exchange two directories in one step (Linux) there is no moment without
    one. Elsewhere the old one is set aside for an instant; after a kill in that instant
    ``recover_directory`` puts it back.

    Args:
        path: directory to create or replace.
        written: tells which files of the old directory may go with it.

    Yields:
        Empty directory in the same folder to write into.

    Raises:
        FileError: the folder is missing, the directory holds files of somebody else, or it
            cannot be put in place.

    Example:
        >>> from pathlib import Path
        >>> from spdelaw.data.atomic import replace_directory
        >>> with replace_directory("results", lambda old: ["numbers.txt"]) as new:
        ...     _ = (new / "numbers.txt").write_text("1 2 3")
        >>> [file.name for file in Path("results").iterdir()]
        ['numbers.txt']
    """
    target = _prepare(path)
    refuse_foreign(path, written)
    with _sibling(target, _NEW) as new:
        with as_file_error(path):
            new.mkdir()
        try:
            yield new
            with as_file_error(path):
                _sync_tree(new)
            refuse_foreign(path, written)  # the work took time, in which files may have come
            with as_file_error(path):
                _swap_in(new, target)
                _sync(target.parent)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def recover_directory(path: str | Path) -> None:
    """Put back a directory that a killed process had set aside and not replaced.

    Does nothing while ``path`` exists or there is nothing to put back. Call it before reading.

    Example:
        >>> from spdelaw.data.atomic import recover_directory
        >>> recover_directory("never_written")
    """
    target = Path(os.path.realpath(path))
    if target.exists():
        return
    for old in sorted(_siblings(target, _OLD)):
        if _is_abandoned(old):
            with as_file_error(path):
                old.rename(target)
            return


def _prepare(path: str | Path) -> Path:
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        expected, got = "an existing folder to write to", f"no folder {target.parent}"
        raise FileError(str(path), expected=expected, got=got, fix=f"mkdir -p {target.parent}")
    recover_directory(target)
    for sibling in [*_siblings(target, _NEW), *_siblings(target, _OLD)]:
        if _is_abandoned(sibling):
            _remove(sibling)
    return target


def _swap_in(new: Path, target: Path) -> None:
    try:
        new.rename(target)  # the name is free, or that of an empty directory
        return
    except OSError:
        if not target.exists():
            raise
    if _exchange(new, target):  # the old one is now called new, and the caller removes it
        return
    with _sibling(target, _OLD) as old:
        target.rename(old)
        try:
            new.rename(target)
        except OSError:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step if the system and the file system can."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    names = os.fsencode(one), os.fsencode(other)
    return swap(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0


@contextmanager
def _sibling(target: Path, kind: str) -> Iterator[Path]:
    """Free hidden name next to ``target``, which tells whose it is."""
    # Cut short: file systems refuse names of more than 255 bytes.
    owner = f"{_host()}~{os.getpid()}~{uuid.uuid4().hex[:8]}"
    sibling = target.with_name(f".{target.name[:40]}~{owner}{kind}")
    _IN_USE.add(sibling.name)
    try:
        yield sibling
    finally:
        _IN_USE.discard(sibling.name)


def _siblings(target: Path, kind: str) -> list[Path]:
    names = os.listdir(target.parent) if target.parent.is_dir() else []
    start = f".{target.name[:40]}~"
    return [target.with_name(n) for n in names if n.startswith(start) and n.endswith(kind)]


def _host() -> str:
    return "".join(c for c in socket.gethostname() if c.isalnum() or c in "-.")[:40]


def _is_abandoned(sibling: Path) -> bool:
    """Whether the process that made it is gone; of another host, whether it is a week old."""
    host, process = [*sibling.name.rsplit("~", 3), "", ""][1:3]
    if host != _host() or not process.isdigit() or os.name == "nt":
        return time.time() - sibling.lstat().st_mtime > _WEEK
    if int(process) == os.getpid():
        return sibling.name not in _IN_USE
    try:
        os.kill(int(process), 0)  # signal 0 only asks
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _sync_tree(directory: Path) -> None:
    for folder, _, files in os.walk(directory, topdown=False):
        for name in files:
            _sync(Path(folder, name))
        _sync(Path(folder))


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # Windows cannot open directories
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() or os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems cannot flush a directory; a rename is all they offer.
        if not (path.is_dir() and error.errno in (errno.EINVAL, errno.ENOTSUP)):
            raise
    finally:
        os.close(handle)

"""What can go wrong with a file, as one error that names it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spdelaw.data._regular import refuse_special
from spdelaw.data.atomic import recover_directory
from spdelaw.errors import FileError, SpdeLawError


def checked_path(path: str | Path) -> Path:
    """The name of a file as a path."""
    try:
        return Path(path)
    except TypeError as error:
        expected, fix = "the name of a file", 'pass "fields.nc"'
        raise FileError("path", expected=expected, got=repr(path), fix=fix) from error


@contextmanager
def undisturbed(path: Path) -> Iterator[None]:
    """Refuse a mixture: the files of a directory that was replaced while it was read."""
    recover_directory(path)
    refuse_special(path)
    before = path.stat().st_ino if path.is_dir() else None
    yield
    if before is not None and path.stat().st_ino != before:
        expected, got = "the same directory throughout", "a new one in its place while it was read"
        raise FileError(str(path), expected=expected, got=got, fix="read it again")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Errors of the libraries that read, as `FileError`."""
    try:
        yield
    except SpdeLawError:
        raise
    except FileNotFoundError as error:
        fix = f"check the name; the folder is {path.absolute().parent}"
        raise FileError(str(path), expected="a file", got="none of this name", fix=fix) from error
    except Exception as error:  # damaged files make the libraries raise almost anything
        got = f"{type(error).__name__}: {_line(error)}"
        fix = "restore it from a backup or write it again"
        raise FileError(str(path), expected="a readable file", got=got, fix=fix) from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Errors of the libraries that write, as `FileError`."""
    try:
        yield
    except SpdeLawError:
        raise
    except Exception as error:  # disk full, quota, refused names: all end here
        expected, got = "a place that can be written", f"{type(error).__name__}: {_line(error)}"
        fix = "check free space and permissions; the old file, if any, is untouched"
        raise FileError(str(path), expected=expected, got=got, fix=fix) from error


def _line(error: Exception) -> str:
    return (str(error).strip() or "no message").splitlines()[0][:300]

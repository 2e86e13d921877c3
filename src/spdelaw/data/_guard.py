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
        raise FileError(
            "path", expected="the name of a file", got=repr(path), fix='pass "fields.nc"'
        ) from error


@contextmanager
def undisturbed(path: Path) -> Iterator[None]:
    """Refuse a mixture: the files of a directory that was replaced while it was read."""
    recover_directory(path)
    refuse_special(path)
    before = path.stat().st_ino if path.is_dir() else None
    yield
    if before is not None and path.stat().st_ino != before:
        raise FileError(
            str(path), expected="the same directory throughout",
            got="a new one in its place while it was read", fix="read it again",
        )  # fmt: skip


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Errors of the libraries that read, as `FileError`."""
    try:
        yield
    except SpdeLawError:
        raise
    except FileNotFoundError as error:
        raise FileError(
            str(path), expected="a file", got="none of this name",
            fix=f"check the name; the folder is {path.absolute().parent}",
        ) from error  # fmt: skip
    except Exception as error:  # damaged files make the libraries raise almost anything
        raise FileError(
            str(path), expected="a readable file", got=f"{type(error).__name__}: {_line(error)}",
            fix="restore it from a backup or write it again",
        ) from error  # fmt: skip


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Errors of the libraries that write, as `FileError`."""
    try:
        yield
    except SpdeLawError:
        raise
    except Exception as error:  # disk full, quota, refused names: all end here
        raise FileError(
            str(path), expected="a place that can be written",
            got=f"{type(error).__name__}: {_line(error)}",
            fix="check free space and permissions; the old file, if any, is untouched",
        ) from error  # fmt: skip


def _line(error: Exception) -> str:
    return (str(error).strip() or "no message").splitlines()[0][:300]

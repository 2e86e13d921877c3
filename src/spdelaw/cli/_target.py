"""Checks of a file to be written, made before any work."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from spdelaw.data import check_replaceable as check_store_replaceable
from spdelaw.errors import FileError, InputError
from spdelaw.law import check_replaceable

FORMATS = (".nc", ".zarr")
FIGURES = (".png", ".pdf", ".svg")
#: Share of the memory of the machine that one result may take.
MEMORY_SHARE = 0.5


def needed(out: Path | None, example: str) -> Path:
    """What ``--out`` names; it may be left out for a dry run alone."""
    if out is None:
        raise InputError(
            "--out", expected="the name of what to write", got="nothing",
            fix=f"pass --out {example}, or --dry-run to see what would be done",
        )  # fmt: skip
    return out


def check_target(path: Path, *, force: bool) -> Path:
    """Return a path that can be written to, or raise `FileError`."""
    if path.suffix not in FORMATS:
        raise FileError(
            "--out", expected="a name that ends in .nc or .zarr", got=str(path),
            fix=f"pass --out {path.stem or 'paths'}.nc",
        )  # fmt: skip
    _check_folder(path)
    if path.exists() or path.is_symlink():
        _check_replaceable(path, force)
    return path


def check_law_target(path: Path, *, force: bool) -> Path:
    """Return a path that a law can be written to, or raise `FileError`."""
    if not path.name or path.suffix in FORMATS:
        raise FileError(
            "--out", expected="the name of a law", got=repr(str(path)),
            fix=f"pass --out {path.stem or 'heat'}.law",
        )  # fmt: skip
    _check_folder(path)
    if not (path.exists() or path.is_symlink()):
        return path
    if not force:
        raise _taken(path)
    if path.is_symlink():
        raise _something_else(path, "a law")
    check_replaceable(path)
    return path


def check_page_target(path: Path, *, force: bool) -> Path:
    """Return a path that a page can be written to, or raise `FileError`."""
    return check_file_target(path, (".html", ".htm"), force=force)


def check_file_target(path: Path, endings: tuple[str, ...], *, force: bool) -> Path:
    """Return a path that one file of a kind can be written to, or raise `FileError`."""
    if not path.name.endswith(endings):
        raise FileError(
            "--out", expected=f"a name that ends in {endings[0]}", got=str(path),
            fix=f"pass --out {path.stem or 'result'}{endings[0]}",
        )  # fmt: skip
    _check_folder(path)
    if path.is_dir() or ((path.exists() or path.is_symlink()) and not force):
        raise _taken(path)
    return path


def check_figure_target(path: Path, *, force: bool) -> Path:
    """Return a path that a figure can be written to, or raise `FileError`."""
    if path.suffix not in FIGURES:
        raise FileError(
            "--figure", expected=f"a name that ends in one of {', '.join(FIGURES)}", got=str(path),
            fix=f"pass --figure {path.stem or 'skill'}.png",
        )  # fmt: skip
    _check_folder(path)
    if path.is_dir() or ((path.exists() or path.is_symlink()) and not force):
        raise _taken(path)
    return path


def _check_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise FileError(
            "--out", expected="an existing folder", got=str(path.parent),
            fix=f"mkdir -p '{path.parent}'",
        )  # fmt: skip
    if not os.access(path.parent, os.W_OK):
        raise FileError(
            "--out", expected="a folder that can be written to", got=str(path.parent),
            fix="choose another folder",
        )  # fmt: skip


def _taken(path: Path) -> FileError:
    return FileError(
        "--out", expected="a name that is free", got=f"{path} exists",
        fix="pass --force to replace it, or choose another name",
    )  # fmt: skip


def _check_replaceable(path: Path, force: bool) -> None:
    if not force:
        raise _taken(path)
    if path.is_dir() != (path.suffix == ".zarr") or not path.exists():
        raise _something_else(path, f"a {path.suffix} file")
    if path.is_dir():
        check_store_replaceable(path)


def _something_else(path: Path, wanted: str) -> FileError:
    return FileError(
        "--out",
        expected=f"{wanted} for --force to replace",
        got=f"{path}, which is something else",
        fix="choose another name",
    )


def check_room(path: Path, n_bytes: int) -> None:
    """Raise where the result fits neither the disk nor, as NetCDF, the memory."""
    free = shutil.disk_usage(path.parent).free
    if n_bytes > free:
        raise FileError(
            "--out", expected=f"at most the {free / 1e9:.3g} GB that are free on the disk",
            got=f"{n_bytes / 1e9:.3g} GB", fix="ask for fewer paths, times or points",
        )  # fmt: skip
    memory = _memory()
    if path.suffix == ".nc" and memory is not None and n_bytes > MEMORY_SHARE * memory:
        raise InputError(
            "--out", expected=f"at most {MEMORY_SHARE * memory / 1e9:.3g} GB as NetCDF",
            got=f"{n_bytes / 1e9:.3g} GB",
            fix=f"pass --out {path.stem}.zarr, which is written batch by batch",
        )  # fmt: skip


def _memory() -> int | None:
    """Bytes of physical memory, where the system tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None

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
        fix = f"pass --out {example}, or --dry-run to see what would be done"
        raise InputError("--out", expected="the name of what to write", got="nothing", fix=fix)
    return out


def check_target(path: Path, *, force: bool) -> Path:
    """Return a path that can be written to, or raise `FileError`."""
    if path.suffix not in FORMATS:
        expected, fix = "a name that ends in .nc or .zarr", f"pass --out {path.stem or 'paths'}.nc"
        raise FileError("--out", expected=expected, got=str(path), fix=fix)
    _check_folder(path)
    if path.exists() or path.is_symlink():
        _check_replaceable(path, force)
    return path


def check_law_target(path: Path, *, force: bool) -> Path:
    """Return a path that a law can be written to, or raise `FileError`."""
    if not path.name or path.suffix in FORMATS:
        fix = f"pass --out {path.stem or 'heat'}.law"
        raise FileError("--out", expected="the name of a law", got=repr(str(path)), fix=fix)
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
        got, fix = str(path), f"pass --out {path.stem or 'result'}{endings[0]}"
        raise FileError("--out", expected=f"a name that ends in {endings[0]}", got=got, fix=fix)
    _check_folder(path)
    if path.is_dir() or ((path.exists() or path.is_symlink()) and not force):
        raise _taken(path)
    return path


def check_figure_target(path: Path, *, force: bool) -> Path:
    """Return a path that a figure can be written to, or raise `FileError`."""
    if path.suffix not in FIGURES:
        expected = f"a name that ends in one of {', '.join(FIGURES)}"
        fix = f"pass --figure {path.stem or 'skill'}.png"
        raise FileError("--figure", expected=expected, got=str(path), fix=fix)
    _check_folder(path)
    if path.is_dir() or ((path.exists() or path.is_symlink()) and not force):
        raise _taken(path)
    return path


def _check_folder(path: Path) -> None:
    if not path.parent.is_dir():
        fix = f"mkdir -p '{path.parent}'"
        raise FileError("--out", expected="an existing folder", got=str(path.parent), fix=fix)
    if not os.access(path.parent, os.W_OK):
        expected, got = "a folder that can be written to", str(path.parent)
        raise FileError("--out", expected=expected, got=got, fix="choose another folder")


def _taken(path: Path) -> FileError:
    fix = "pass --force to replace it, or choose another name"
    return FileError("--out", expected="a name that is free", got=f"{path} exists", fix=fix)


def _check_replaceable(path: Path, force: bool) -> None:
    if not force:
        raise _taken(path)
    if path.is_dir() != (path.suffix == ".zarr") or not path.exists():
        raise _something_else(path, f"a {path.suffix} file")
    if path.is_dir():
        check_store_replaceable(path)


def _something_else(path: Path, wanted: str) -> FileError:
    expected, got = f"{wanted} for --force to replace", f"{path}, which is something else"
    return FileError("--out", expected=expected, got=got, fix="choose another name")


def check_room(path: Path, n_bytes: int) -> None:
    """Raise where the result fits neither the disk nor, as NetCDF, the memory."""
    free = shutil.disk_usage(path.parent).free
    if n_bytes > free:
        expected = f"at most the {free / 1e9:.3g} GB that are free on the disk"
        fix = "ask for fewer paths, times or points"
        raise FileError("--out", expected=expected, got=f"{n_bytes / 1e9:.3g} GB", fix=fix)
    memory = _memory()
    if path.suffix == ".nc" and memory is not None and n_bytes > MEMORY_SHARE * memory:
        expected = f"at most {MEMORY_SHARE * memory / 1e9:.3g} GB as NetCDF"
        fix = f"pass --out {path.stem}.zarr, which is written batch by batch"
        raise InputError("--out", expected=expected, got=f"{n_bytes / 1e9:.3g} GB", fix=fix)


def _memory() -> int | None:
    """Bytes of physical memory, where the system tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None

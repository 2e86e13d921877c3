"""Batches of paths to a Zarr directory that appears only when it is complete."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import xarray as xr

from spdelaw.checks import optional
from spdelaw.errors import FileError


def stream_to_zarr(
    out: Path,
    batches: Iterator[xr.DataArray | xr.Dataset],
    n_paths: int,
    progress: Callable[[int, int], None] | None,
) -> xr.DataArray | xr.Dataset:
    """Append batches along ``path`` in a hidden sibling, then rename it to ``out``."""
    _check_target(out)
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        store, done, single = work / "store", 0, False
        for batch in batches:
            single = isinstance(batch, xr.DataArray)
            data = batch.to_dataset(name="field") if isinstance(batch, xr.DataArray) else batch
            at = "path" if done else None
            data.to_zarr(store, append_dim=at, zarr_format=3, consolidated=False)
            done += data.sizes["path"]
            if progress is not None:
                progress(done, n_paths)
        store.rename(out)
    finally:
        _remove(work)
    stored = xr.open_zarr(out, chunks=None, consolidated=False)
    return stored["field"] if single else stored


def _remove(folder: Path) -> None:
    """Remove a folder that writing threads may still be filling after an interrupt."""
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.02)


def _check_target(out: Path) -> None:
    optional("zarr", "simulate(out=...)", "zarr")
    if out.suffix != ".zarr":
        expected = "a directory name ending in .zarr"
        raise FileError("out", expected=expected, got=str(out), fix="out='paths.zarr'")
    if out.exists():
        fix = "remove it or choose another name"
        raise FileError("out", expected="a name that is free", got=f"{out} exists", fix=fix)
    if not out.parent.is_dir():
        fix = "create the folder first"
        raise FileError("out", expected="an existing folder", got=str(out.parent), fix=fix)

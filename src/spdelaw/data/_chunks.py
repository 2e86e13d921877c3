"""Chunks of stored arrays: whole paths where they fit."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import xarray as xr


def chunk_shape(variable: xr.Variable, target: int) -> tuple[int, ...]:
    """Largest chunk of at most ``target`` bytes that cuts the leading dims first."""
    chunk, left = [], max(1, target // variable.dtype.itemsize)
    for size in reversed(variable.shape):
        chunk.append(max(1, min(size, left)))
        left = max(1, left // chunk[-1])
    return tuple(reversed(chunk))


def streamed(dataset: xr.Dataset, chunks: Mapping[Hashable, tuple[int, ...]]) -> xr.Dataset:
    """Dataset whose lazy variables have the chunks of the file, so that they are never whole."""
    lazy = {
        name: variable.chunk(dict(zip(variable.dims, chunks[name], strict=True)))
        for name, variable in dataset.variables.items()
        if name in dataset.data_vars and not variable._in_memory
    }
    return dataset.assign(lazy)

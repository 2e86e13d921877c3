"""One pass over the values of fields, block by block, with as many observers as needed.

Memory stays flat for lazy arrays, each stored chunk is read once, and the order of the
blocks (time outside, path inside) lets an observer follow every path in time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import xarray as xr

#: Bytes of a block in memory, unless one stored chunk is larger.
BLOCK_BYTES = 2**25

Index = tuple[slice, slice]


class Observer(Protocol):
    """Sees every block once; ``block`` is ``variable[index]``."""

    def update(self, index: Index, block: np.ndarray) -> None:
        """Take one block into account."""


def sweep(variable: xr.Variable, *observers: Observer) -> None:
    """Show each block of a variable with two or more dims to all observers."""
    for index, block in _blocks(variable):
        for observer in observers:
            observer.update(index, block)


def _blocks(variable: xr.Variable) -> Iterator[tuple[Index, np.ndarray]]:
    n_paths, n_times = variable.shape[:2]
    path_step, time_step = _steps(variable)
    for t in range(0, n_times, time_step):
        for p in range(0, n_paths, path_step):
            index = slice(p, min(p + path_step, n_paths)), slice(t, min(t + time_step, n_times))
            yield index, variable[index].values


def _steps(variable: xr.Variable) -> tuple[int, int]:
    """Block lengths along the first two dims, whole multiples of the stored chunks."""
    n_paths, n_times = variable.shape[:2]
    path_chunk, time_chunk = _chunk(variable, 0) or 1, _chunk(variable, 1) or n_times
    row = max(1, variable.dtype.itemsize * int(np.prod(variable.shape[2:])))
    times = _fit(n_times, time_chunk, BLOCK_BYTES // (row * path_chunk))
    paths = _fit(n_paths, path_chunk, BLOCK_BYTES // (row * times))
    return paths, times


def _fit(size: int, chunk: int, room: int) -> int:
    return max(1, min(size, chunk * max(1, room // chunk)))


def _chunk(variable: xr.Variable, axis: int) -> int | None:
    dim = variable.dims[axis]
    if variable.chunks is not None:
        return max(variable.chunks[axis])
    if isinstance(variable._data, np.ndarray):
        return None
    preferred = variable.encoding.get("preferred_chunks", {})
    return preferred.get(dim)


class Values:
    """How many values there are, are missing, and are infinite."""

    def __init__(self) -> None:
        self.size = self.missing = self.infinite = 0
        self.first_infinite: tuple[int, ...] | None = None

    def update(self, index: Index, block: np.ndarray) -> None:
        """Take one block into account."""
        self.size += block.size
        self.missing += int(np.isnan(block).sum())
        places = np.argwhere(np.isinf(block))
        if len(places):
            start = (index[0].start, index[1].start, *[0] * (block.ndim - 2))
            first = tuple(int(a + b) for a, b in zip(start, places[0], strict=True))
            self.infinite += len(places)
            self.first_infinite = min(first, self.first_infinite or first)


class Moments:
    """Range, mean and standard deviation of the values that are not missing."""

    def __init__(self) -> None:
        self.minimum, self.maximum = np.inf, -np.inf
        self.mean = self._squares = 0.0
        self._n = 0

    def update(self, index: Index, block: np.ndarray) -> None:
        """Take one block into account."""
        known = block[~np.isnan(block)]
        if known.size == 0:
            return
        self.minimum = min(self.minimum, float(known.min()))
        self.maximum = max(self.maximum, float(known.max()))
        with np.errstate(over="ignore", invalid="ignore"):  # beyond 1e154 squares overflow
            self._merge(known)

    def _merge(self, known: np.ndarray) -> None:
        # Two samples combined by their means: stable where a plain sum of squares would cancel.
        before, self._n = self._n, self._n + known.size
        mean = float(known.mean())
        shift = mean - self.mean
        self.mean += shift * (known.size / self._n)
        within = float(np.square(known - mean).sum())
        self._squares += within + shift * shift * (before * known.size / self._n)

    @property
    def std(self) -> float:
        """Standard deviation, divided by the number of values."""
        return float(np.sqrt(self._squares / max(1, self._n)))

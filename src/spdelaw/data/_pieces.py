"""A data set cut in paths and times as it is stored: pieces that are read where they are used.

Chunks of times stay as they are. Chunks of paths stay too, but neighbours that are small are taken
together, so that a task has something to do.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

#: Bytes of a block of paths that neighbouring chunks are joined up to.
ENOUGH = 16e6
#: Blocks that values in memory are cut into for a cluster, at most.
CUTS = 32


class Pieces(NamedTuple):
    """Arrays (paths, times, points), lazy or not, that make up a data set.

    Attributes:
        blocks: by block of paths, then by time.
        paths: of each block.
        times: of each piece of a block.
    """

    blocks: list[list[Any]]
    paths: list[slice]
    times: list[slice]

    @property
    def flat(self) -> list[Any]:
        """All pieces, block after block."""
        return [piece for block in self.blocks for piece in block]

    def by_block(self, results: Sequence[Any]) -> list[list[Any]]:
        """Results for each piece, by block of paths."""
        n = len(self.times)
        return [list(results[i : i + n]) for i in range(0, len(results), n)]


def pieces_of(values: Any) -> Pieces:
    """The pieces in which values are stored.

    Args:
        values: (P, T, M), a Dask array, or a NumPy array that is cut in paths alone.
    """
    if isinstance(values, np.ndarray):
        step = max(1, -(-len(values) // CUTS))
        paths = [slice(i, min(i + step, len(values))) for i in range(0, len(values), step)]
        return Pieces([[values[part]] for part in paths], paths, [slice(0, values.shape[1])])
    import dask

    chunks = values.to_delayed()
    groups = _groups(values.chunks[0], 8.0 * values.shape[1] * values.shape[2])
    join = dask.delayed(_joined, pure=False)
    pieces = [
        [join(chunks[first:last, t].tolist()) for t in range(chunks.shape[1])]
        for first, last in groups
    ]
    ends = np.cumsum([0, *values.chunks[0]])
    paths = [slice(int(ends[first]), int(ends[last])) for first, last in groups]
    return Pieces(pieces, paths, slices_of(values.chunks[1]))


def _groups(sizes: Sequence[int], row: float) -> list[tuple[int, int]]:
    """Ranges of neighbouring chunks of paths that are worth a task."""
    found, first, held = [], 0, 0.0
    for i, size in enumerate(sizes):
        held += size * row
        if held >= ENOUGH or i == len(sizes) - 1:
            found.append((first, i + 1))
            first, held = i + 1, 0.0
    return found


def slices_of(sizes: Sequence[int]) -> list[slice]:
    """Chunks of these sizes, one after the other."""
    ends = np.cumsum([0, *sizes])
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]


def _joined(chunks: list[list[np.ndarray]]) -> np.ndarray:
    """Chunks (path, point) of the same times in one array."""
    rows = [row[0] if len(row) == 1 else np.concatenate(row, axis=-1) for row in chunks]
    return np.asarray(rows[0] if len(rows) == 1 else np.concatenate(rows))

"""Random numbers in blocks of paths, so that the first paths never depend on how many follow."""

from __future__ import annotations

import numpy as np

Array = np.ndarray

#: Paths that share one random stream. A path's numbers depend on the seed and its index only.
BLOCK = 16

#: Streams of one block: adding one never shifts the others.
PATHS, INITIAL, OBSERVATION, BRIDGE = range(4)


def normals(seed: int, stream: int, start: int, n_paths: int, shape: tuple[int, ...]) -> Array:
    """Standard normals (n_paths, *shape) for paths ``start, start + 1, ...`` of one stream.

    ``start`` is a multiple of `BLOCK`; a last, partial block draws only the paths it needs,
    which come first in its stream.
    """
    out = np.empty((n_paths, *shape))
    for i in range(0, n_paths, BLOCK):
        key = np.random.SeedSequence(seed, spawn_key=((start + i) // BLOCK, stream))
        generator = np.random.Generator(np.random.SFC64(key))
        generator.standard_normal(out=out[i : i + BLOCK])
    return out

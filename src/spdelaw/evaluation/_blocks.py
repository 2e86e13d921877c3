"""Moving blocks of forecast origins: neighbouring forecasts share most of their future."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def block_bootstrap(n: int, length: int, replicates: int, seed: int) -> Array:
    """Origins of each replicate: blocks of neighbours with replacement; (replicates, n)."""
    length = max(1, min(length, n))
    generator = np.random.default_rng(seed)
    starts = generator.integers(0, n - length + 1, (replicates, -(-n // length)))
    return (starts[..., None] + np.arange(length)).reshape(replicates, -1)[:, :n]

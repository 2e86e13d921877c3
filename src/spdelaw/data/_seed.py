"""Randomness is an explicit seed or a Generator."""

from __future__ import annotations

import numpy as np

from spdelaw.errors import InputError

Seed = int | np.random.Generator


def generator(seed: Seed) -> np.random.Generator:
    """The Generator itself, or a new one from a non-negative integer."""
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        expected = "a non-negative integer or a numpy Generator"
        raise InputError("seed", expected=expected, got=repr(seed), fix="pass seed=0")
    return np.random.default_rng(seed)

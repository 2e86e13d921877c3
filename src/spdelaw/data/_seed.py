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
        raise InputError(
            "seed", expected="a non-negative integer or a numpy Generator", got=repr(seed),
            fix="pass seed=0",
        )  # fmt: skip
    return np.random.default_rng(seed)

"""All that is asked of every single value, in one pass: is it a number, a fill, the same data?

A block of values is read from memory once and stays in the processor's cache for every question.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

Array = np.ndarray

#: Values of a run, which has a sum of its own, and of a block, which stays in the cache.
RUN, BLOCK = 2**14, 2**17


class Reading(NamedTuple):
    """What one pass over values has found.

    Attributes:
        low, high: least and largest finite value; infinite and the wrong way round without any.
        is_finite: whether nothing is missing and nothing infinite.
        sums: of each run of `RUN` values and of each place in a run, their bits taken for whole
            numbers modulo 2^64, and the bits of what is left over. Every NaN counts as the same.
    """

    low: float
    high: float
    is_finite: bool
    sums: Array


def read_values(pieces: Iterable[Array]) -> Reading:
    """Read arrays that follow one another, as if they were one."""
    runs, places, left = list[Array](), np.zeros(RUN, np.uint64), np.zeros(0)
    found: list[tuple[float, float, bool]] = []
    for values in pieces:
        flat = np.ascontiguousarray(values, dtype="<f8").reshape(-1)
        flat = np.concatenate([left, flat]) if len(left) else flat
        whole = len(flat) // RUN * RUN
        for start in range(0, whole, BLOCK):
            block = flat[start : min(start + BLOCK, whole)]
            found.append(_ends(block))
            bits = _bits(block, found[-1][2]).reshape(-1, RUN)
            runs.append(bits.sum(1))
            places += bits.sum(0)
        left = flat[whole:]
    found.append(_ends(left))
    low, high, finite = zip(*found, strict=True)
    sums = np.concatenate([*runs, places, _bits(left, found[-1][2])])
    return Reading(min(low), max(high), all(finite), sums)


def _ends(block: Array) -> tuple[float, float, bool]:
    """Least and largest finite value, and whether all are finite."""
    if not block.size:
        return np.inf, -np.inf, True
    low, high = float(block.min()), float(block.max())
    if np.isfinite(low) and np.isfinite(high):
        return low, high, True
    known = block[np.isfinite(block)]
    return float(known.min(initial=np.inf)), float(known.max(initial=-np.inf)), False


def _bits(block: Array, is_finite: bool) -> Array:
    if not is_finite:
        block = np.where(np.isnan(block), np.nan, block)
    return block.view(np.uint64)

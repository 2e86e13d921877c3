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
        has_infinite: whether a value is infinite.
        sums: of each run of `RUN` values and of each place in a run, their bits taken for whole
            numbers modulo 2^64, and the bits of what is left over. Every NaN counts as the same.
    """

    low: float
    high: float
    has_infinite: bool
    sums: Array

    @property
    def is_data(self) -> bool:
        """Whether there is a number, and nothing that is neither a number nor missing."""
        return self.low <= self.high and not self.has_infinite


def read_values(pieces: Iterable[Array]) -> Reading:
    """Read arrays that follow one another, as if they were one."""
    runs, places, left = list[Array](), np.zeros(RUN, np.uint64), np.zeros(0)
    found: list[tuple[float, float, bool]] = []
    for values in pieces:
        flat = np.ascontiguousarray(values, dtype="<f8").reshape(-1)
        flat = np.concatenate([left, flat]) if len(left) else flat
        whole = len(flat) // RUN * RUN
        for start in range(0, whole, BLOCK):
            ends, bits = _look(flat[start : min(start + BLOCK, whole)])
            found.append(ends)
            table = bits.reshape(-1, RUN)
            runs.append(table.sum(1))
            places += table.sum(0)
        left = flat[whole:]
    ends, rest = _look(left)
    low, high, infinite = zip(*found, ends, strict=True)
    return Reading(min(low), max(high), any(infinite), np.concatenate([*runs, places, rest]))


def _look(block: Array) -> tuple[tuple[float, float, bool], Array]:
    """Least and largest finite value, whether any is infinite, and the bits of all."""
    low, high = block.min(initial=np.inf), block.max(initial=-np.inf)
    infinite = False
    if block.size and not (np.isfinite(low) and np.isfinite(high)):
        missing = np.isnan(block)
        known, block = block[~missing], np.where(missing, np.nan, block)
        finite = np.isfinite(known)
        infinite = not finite.all()
        known = known[finite] if infinite else known
        low, high = known.min(initial=np.inf), known.max(initial=-np.inf)
    return (float(low), float(high), infinite), block.view(np.uint64)

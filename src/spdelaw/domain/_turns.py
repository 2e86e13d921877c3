"""Modes that a motion of the domain into itself turns into one another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Array = np.ndarray


class Turn(NamedTuple):
    """Cosine and sine of one wave: a shift by ``s`` turns them by ``wavenumber * s``.

    Attributes:
        cosine: index of the mode, from 0.
        sine: index of its partner.
        wavenumber: angle for a unit of the shift, a length on a ring, radians on a sphere.
    """

    cosine: int
    sine: int
    wavenumber: float


def turns_of_neighbours(is_sine: Array, wavenumber: Array) -> tuple[Turn, ...]:
    """Turns where each sine comes right after its cosine; a last cosine may stand alone."""
    return tuple(Turn(int(n) - 1, int(n), float(wavenumber[n])) for n in np.flatnonzero(is_sine))

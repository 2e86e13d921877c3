"""Pairs of modes that transport turns into one another."""

from __future__ import annotations

import numpy as np

from spdelaw.domain import AbstractDomain, Interval
from spdelaw.errors import EquationError

Array = np.ndarray


def rotating_pairs(domain: AbstractDomain, n_modes: int) -> tuple[tuple[int, int], ...]:
    """Indices, from 0, of the cosine and the sine of each wavenumber on a periodic domain."""
    if not (isinstance(domain, Interval) and domain.boundary == "periodic"):
        raise EquationError(
            "drift", expected="a periodic domain, whose modes come in pairs that can rotate",
            got=repr(domain), fix="use sl.Interval(a, b, 'periodic'), or drift='dense'",
        )  # fmt: skip
    return tuple((k, k + 1) for k in range(1, n_modes - 1, 2))


def advection_matrix(domain: AbstractDomain, n_modes: int, speed: float) -> Array:
    """``<speed h_m', h_n>``: what ``dX = -speed X_x dt`` adds to the drift matrix; (N, N).

    For ``u = c cos kx + s sin kx`` it is ``dc = -k speed s dt, ds = k speed c dt``.
    """
    out = np.zeros((n_modes, n_modes))
    wavenumbers = np.sqrt(domain.eigenvalues(n_modes))
    for c, s in rotating_pairs(domain, n_modes):
        out[c, s], out[s, c] = wavenumbers[c] * speed, -wavenumbers[c] * speed
    return out

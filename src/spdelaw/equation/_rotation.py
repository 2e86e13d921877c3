"""Pairs of modes that transport turns into one another."""

from __future__ import annotations

import numpy as np

from spdelaw.domain import AbstractDomain, Turn
from spdelaw.errors import EquationError

Array = np.ndarray


def rotating_pairs(domain: AbstractDomain, n_modes: int) -> tuple[tuple[int, int], ...]:
    """Indices, from 0, of the cosine and the sine of each wave that goes around the domain."""
    return tuple((turn.cosine, turn.sine) for turn in _turns(domain, n_modes))


def whole_pairs(domain: AbstractDomain, n_modes: int) -> int:
    """Least number of modes, from ``n_modes`` on, that leaves no cosine without its sine."""
    last, total = float(domain.eigenvalues(n_modes)[-1]), n_modes + 1
    while domain.eigenvalues(total)[-1] <= last * (1.0 + 1e-6):  # partners share theirs
        total *= 2
    n = n_modes
    for cosine, sine in sorted(rotating_pairs(domain, total)):
        n = max(n, sine + 1) if cosine < n else n
    return n


def advection_matrix(domain: AbstractDomain, n_modes: int, speed: float) -> Array:
    """``<speed dh_m, h_n>``: what ``dX = -speed X' dt`` adds to the drift matrix; (N, N).

    The derivative is along the ring, or by the angle of a sphere or disk, whose speed is in
    radians. For ``u = c cos kx + s sin kx`` it is ``dc = -k speed s dt, ds = k speed c dt``.
    """
    out = np.zeros((n_modes, n_modes))
    for c, s, k in _turns(domain, n_modes):
        out[c, s], out[s, c] = k * speed, -k * speed
    return out


def _turns(domain: AbstractDomain, n_modes: int) -> tuple[Turn, ...]:
    found = domain.turns(n_modes)
    if found is None:
        expected = (
            "a domain whose modes come in pairs that can rotate: a periodic interval, a box with "
            "one periodic side, a disk or a sphere"
        )
        fix = "use sl.Interval(a, b, 'periodic') or sl.Sphere(), or drift='dense'"
        raise EquationError("drift", expected=expected, got=repr(domain), fix=fix)
    return found

"""What a bent drift has: projections ``<g(u), h_n>`` of powers, and of products with slopes."""

from __future__ import annotations

import numpy as np

from spdelaw.data import Observed
from spdelaw.domain import AbstractDomain, Box, Interval
from spdelaw.equation import bind

Array = np.ndarray

#: Values of fields that are powered at once.
AT_ONCE = 1_000_000
#: Modes up to which products are made on a grid of their own.
MOST_MODES = 400
POWERS = ("u^2", "u^3")


def bend_terms(domain: AbstractDomain, n_modes: int) -> tuple[str, ...]:
    """Terms that are looked for; those with slopes where the domain has them."""
    if n_modes > MOST_MODES or not isinstance(domain, Interval | Box):
        return POWERS
    slopes = ("u u_x", "u_x^2") if isinstance(domain, Interval) else ("|grad u|^2",)
    return (*POWERS, *slopes)


def projections(state: Array, own: Observed, domain: AbstractDomain) -> Array:
    """Each term of states (P, T, N) on the modes, some rows at a time; (terms, P, T, N).

    On an interval or a box products are exact; elsewhere they are those at the points of the data.
    """
    rows = state.reshape(-1, state.shape[-1])
    terms = bend_terms(domain, rows.shape[-1])
    exact = None if terms == POWERS else bind(terms, domain, rows.shape[-1])
    basis = own.basis(rows.shape[-1]) if exact is None else exact.analysis
    out, step = np.empty((len(terms), *rows.shape)), max(1, AT_ONCE // len(basis))
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        out[:, start : start + step] = _powers(some, basis) if exact is None else exact.values(some)
    return out.reshape(len(terms), *state.shape)


def _powers(rows: Array, basis: Array) -> Array:
    field, back = rows @ basis.T, np.linalg.pinv(basis).T
    return np.stack([field**2 @ back, field**3 @ back])

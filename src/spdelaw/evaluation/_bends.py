"""What a bent drift has: projections ``<g(u), h_n>`` of powers, and of products with slopes."""

from __future__ import annotations

import numpy as np

from spdelaw.data import Observed
from spdelaw.domain import AbstractDomain, Box, Interval
from spdelaw.equation import bind

Array = np.ndarray

#: Values of fields that are powered at once.
AT_ONCE = 1_000_000
POWERS = ("u^2", "u^3")


def bend_terms(domain: AbstractDomain) -> tuple[str, ...]:
    """Terms that are looked for; those with slopes where the domain has them."""
    if isinstance(domain, Interval):
        return (*POWERS, "u u_x", "u_x^2")
    return (*POWERS, "|grad u|^2") if isinstance(domain, Box) else POWERS


def projections(state: Array, own: Observed, domain: AbstractDomain) -> Array:
    """Each term of states (P, T, N) on the modes, some rows at a time; (terms, P, T, N).

    On an interval or a box products are exact; elsewhere they are those at the points of the data.
    """
    rows, terms = state.reshape(-1, state.shape[-1]), bend_terms(domain)
    exact = bind(terms, domain, rows.shape[-1]) if isinstance(domain, Interval | Box) else None
    basis = own.basis(rows.shape[-1]) if exact is None else exact.analysis
    out, step = np.empty((len(terms), *rows.shape)), max(1, AT_ONCE // len(basis))
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        out[:, start : start + step] = _powers(some, basis) if exact is None else exact.values(some)
    return out.reshape(len(terms), *state.shape)


def _powers(rows: Array, basis: Array) -> Array:
    field, back = rows @ basis.T, np.linalg.pinv(basis).T
    return np.stack([field**2 @ back, field**3 @ back])

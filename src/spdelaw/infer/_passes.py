"""Passes over observed fields for a design, piece by piece.

Each answers a question about all values and brings back few numbers, so that lazy data are never
whole in the memory of one process.
"""

from __future__ import annotations

import numpy as np

from spdelaw.data import Observed
from spdelaw.domain import Products
from spdelaw.infer._nuisance import SAMPLE, components_of, every_row
from spdelaw.model import Collapsed, collapse_pieces

Array = np.ndarray

#: Energy outside the modes, relative to that of the fields, that is rounding.
ROUNDING = 1e-20


def collapsed_pieces(
    observed: Observed, basis: Array, weights: Array | None, products: Products | None
) -> Collapsed:
    """The data on the modes, kept where they were collapsed."""
    own = observed.surveyed()
    return collapse_pieces(
        own.pieces(),
        own.times,
        basis,
        own.place,
        weights,
        products,
        with_gaps=own.survey is not None and own.survey.has_partial_rows,
    )


def components(observed: Observed) -> tuple[Array, float] | None:
    """`principal_components` of complete fields."""
    pieces, shape = observed.pieces(), observed.values.shape
    step = every_row(*shape[:2])
    blocks = [
        [piece, path.start, time.start]
        for block, path in zip(pieces.blocks, pieces.paths, strict=True)
        for piece, time in zip(block, pieces.times, strict=True)
    ]
    rows = np.concatenate(observed.place.over(_some_rows, blocks, shape[1], step))
    return components_of(rows, observed.first(SAMPLE))


def _some_rows(part: list, n_times: int, step: int) -> Array:
    """Every ``step``-th row of the whole data set that lies in a piece; (R, M)."""
    values, path, time = part
    index = n_times * (path + np.arange(len(values)))[:, None] + time + np.arange(values.shape[1])
    return values[index % step == 0]


def modes_suffice(observed: Observed, phi: Array) -> bool:
    """Whether modes hold complete fields to rounding, on more points than modes."""
    if len(phi) <= phi.shape[1]:
        return False
    parts = observed.place.over(_left_over, observed.pieces().flat, phi, np.linalg.pinv(phi))
    left, energy = np.sum(parts, axis=0)
    return bool(left <= ROUNDING * energy)


def _left_over(values: Array, phi: Array, inverse: Array) -> tuple[float, float]:
    left = values - values @ inverse.T @ phi.T
    return float((left**2).sum()), float((values**2).sum())


def projected(observed: Observed, keep: Array) -> Array:
    """Principal components of all fields, (P, T, r): few enough to be in memory."""
    pieces = observed.pieces()
    parts = pieces.by_block(observed.place.over(np.matmul, pieces.flat, keep))
    return np.concatenate([np.concatenate(block, axis=1) for block in parts])

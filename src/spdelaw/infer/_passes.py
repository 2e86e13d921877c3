"""Passes over observed fields for a design, piece by piece.

Each answers a question about all values and brings back few numbers, so that lazy data are never
whole in the memory of one process.
"""

from __future__ import annotations

import numpy as np

from spdelaw.data import Observed
from spdelaw.infer._nuisance import SAMPLE

Array = np.ndarray

#: Rows that the principal components are found from, about.
ROWS = 4000
#: Principal components with less than this share of the first one's variance are dropped.
COMPONENT_TOLERANCE = 1e-6
#: Working noise variance of the components, relative to their least increment.
COMPONENT_NOISE = 1e-5
#: Energy outside the modes, relative to that of the fields, that is rounding.
ROUNDING = 1e-20


def principal_components(observed: Observed) -> tuple[Array, float] | None:
    """Directions (M, r) that hold complete, noise-free fields, and a working noise variance.

    None where the spectrum has no gap to rounding, that is, where there is noise.
    """
    pieces, shape = observed.pieces(), observed.values.shape
    step = max(1, shape[0] * shape[1] // ROWS)
    blocks = [
        [piece, path.start, time.start]
        for block, path in zip(pieces.blocks, pieces.paths, strict=True)
        for piece, time in zip(block, pieces.times, strict=True)
    ]
    rows = np.concatenate(observed.place.over(_some_rows, blocks, shape[1], step))
    _, s, directions = np.linalg.svd(rows, full_matrices=False)
    share = (s / s[0]) ** 2
    if share[int(0.7 * len(share))] > 1e-10:
        return None
    keep = directions[: int((share > COMPONENT_TOLERANCE).sum())].T
    increments = np.diff(np.asarray(observed.first(SAMPLE) @ keep), axis=1).var((0, 1))
    return keep, float(COMPONENT_NOISE * increments.min())


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

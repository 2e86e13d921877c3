"""Least-squares projection of paths on the span of the truncated decoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spdelaw.chaos import CosineBasis, propagate
from spdelaw.model._chaos_rows import rows_of, single_patterns
from spdelaw.model._collapse import Block, Collapsed
from spdelaw.model._threads import one_thread

Array = np.ndarray


class Projected(NamedTuple):
    """Projection of the paths of one pattern.

    Attributes:
        paths: their indices, (P,).
        coefficients: ``c_n(t)`` of the projection at all times, (T, N, P).
        residual: ``sum_t (c_hat - c)' G (c_hat - c)`` over the times fitted, (P,).
    """

    paths: Array
    coefficients: Array
    residual: Array


def project_on_decoder(
    collapsed: Collapsed, eigenvalues: Array, n_time: int, horizon: float
) -> Iterator[Projected]:
    """Best coefficients ``e^(-lambda t) z0 + sum_{k <= K} psi_k(t; lambda) x_k`` for each path.

    All ``z0`` and ``x_k`` are free. The first time is not fitted: paths are scored on later ones.
    """
    for block in collapsed.blocks:
        for one in single_patterns(block):
            ages = one.times[:, 0] - one.times[0, 0]
            yield _project(one, _columns(ages, eigenvalues, n_time, horizon))


def _columns(ages: Array, eigenvalues: Array, n_time: int, horizon: float) -> Array:
    """Decay and responses of each mode, (T, N, 1 + K)."""
    ones = np.ones(len(eigenvalues))
    curves = propagate(CosineBasis(horizon), ages, eigenvalues, ones, n_time)
    return np.concatenate([curves.decay[..., None], curves.response.transpose(0, 2, 1)], axis=2)


@one_thread
def _project(block: Block, columns: Array) -> Projected:
    rows, n = rows_of(block), columns.shape[1]
    if rows.is_coupled:
        wide = columns[:, :, None, :] * np.eye(n)[:, :, None]
        columns = wide.reshape(*columns.shape[:2], -1)
    later = rows.after_first()
    design, w = later.whiten(columns[1:]), later.whiten(later.estimate)
    weights = np.linalg.pinv(design) @ w
    residual = ((w - design @ weights) ** 2).sum((0, 1))
    product = "tnd,dp->tnp" if rows.is_coupled else "tnd,ndp->tnp"
    found = weights[0] if rows.is_coupled else weights
    return Projected(block.paths, np.einsum(product, columns, found, optimize=True), residual)

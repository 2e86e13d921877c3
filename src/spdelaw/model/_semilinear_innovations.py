"""One-step-ahead errors of a semilinear law, standardised: independent N(0, 1) where it fits.

Complete states: ``z = L^-1 (y - m)`` with ``P = L L'``. Behind gaps and noise the error of the
collapsed observation, ``delta = c_hat - m ~ N(0, W^-1)``, is turned by the root of W; directions
that were not observed are NaN.
"""

from __future__ import annotations

import numpy as np

from spdelaw.equation import Closure, advance
from spdelaw.model._collapse import Block
from spdelaw.model._semilinear_filter import Prior, predictions
from spdelaw.model._semilinear_likelihood import Transitions, batches

Array = np.ndarray

#: Directions with less than this part of the largest precision count as not observed.
UNSEEN = 1e-9


def transition_innovations(closure: Closure, data: Transitions, n_steps: int = 1) -> Array:
    """Standardised errors of complete states; (n, N)."""
    out = np.empty_like(data.after)
    for rows, dt, steps in batches(data):
        found, _ = advance(closure, data.before[rows], None, dt, n_steps * steps)
        root = np.linalg.cholesky(found.covariance)
        residual = data.after[rows] - found.mean
        out[rows] = np.linalg.solve(root, residual[..., None])[..., 0]
    return out


def filter_innovations(
    closure: Closure, block: Block, r: float, prior: Prior, n_steps: int = 1
) -> Array:
    """Standardised errors of the predictions of a block; (T, P, N)."""
    rows = []
    for delta, precision in predictions(closure, block, r, prior, n_steps):
        values, vectors = np.linalg.eigh(0.5 * (precision + precision.transpose(0, 2, 1)))
        seen = values > UNSEEN * np.maximum(values[:, -1:], 1e-300)
        z = np.sqrt(np.maximum(values, 0.0)) * np.einsum("bij,bi->bj", vectors, delta)
        rows.append(np.where(seen, z, np.nan))
    return np.array(rows)

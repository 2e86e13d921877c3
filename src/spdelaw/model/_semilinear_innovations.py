"""One-step-ahead errors of a semilinear law, standardised: independent N(0, 1) where it fits.

``z = L^-1 (y - m)`` with ``P = L L'``, of complete states.
"""

from __future__ import annotations

import numpy as np

from spdelaw.equation import Closure, advance
from spdelaw.model._semilinear_likelihood import Transitions, batches

Array = np.ndarray


def transition_innovations(closure: Closure, data: Transitions, n_steps: int = 1) -> Array:
    """Standardised errors of complete states; (n, N)."""
    out = np.empty_like(data.after)
    for rows, dt, steps in batches(data):
        found, _ = advance(closure, data.before[rows], None, dt, n_steps * steps)
        root = np.linalg.cholesky(found.covariance)
        residual = data.after[rows] - found.mean
        out[rows] = np.linalg.solve(root, residual[..., None])[..., 0]
    return out

"""Many paths with one pattern, compressed to few: a likelihood whose cost forgets their number.

Where all paths share their pattern and modes are uncoupled, the log-likelihood of all paths and
its score are sums over paths of quadratic forms in ``(c_hat_1, ..., c_hat_T, 1)`` of each mode.
Such sums do not change when the paths are mixed by an orthogonal matrix, so the P paths of a
mode may be replaced by the T + 1 rows of R, with ``Q R = (c_hat, 1)`` its QR decomposition: as many
"paths" as there are times, whose constant is no longer 1 but `Block.unit`.
"""

from __future__ import annotations

import numpy as np

from spdelaw.model._collapsed import Block, Collapsed

#: Paths for each row of R from which on the decomposition pays for itself within a fit.
WORTHWHILE = 2


def rotate(collapsed: Collapsed) -> Collapsed:
    """The same data for sums over paths; blocks that gain nothing stay as they are.

    `evaluate_likelihood` gives every path of a rotated block their mean log-likelihood.
    """
    if collapsed.records is not None:  # each part would turn its paths another way
        return collapsed
    return collapsed.changed(_rotated)


def _rotated(block: Block) -> Block:
    n_times, n_modes, n_paths = block.estimate.shape
    shared = block.is_diagonal and block.gram.shape[-1] == 1 and block.times.shape[1] == 1
    if not shared or n_paths < WORTHWHILE * (n_times + 1):
        return block
    rows = np.empty((n_modes, n_paths, n_times + 1))
    rows[..., :-1] = block.estimate.transpose(1, 2, 0)
    rows[..., -1] = 1.0
    r = np.asarray(np.linalg.qr(rows, mode="r"))  # (N, T + 1, T + 1): row, then time
    estimate = np.ascontiguousarray(r[..., :-1].transpose(2, 0, 1))
    return block._replace(
        estimate=estimate, vector=block.gram * estimate, unit=np.ascontiguousarray(r[..., -1])
    )

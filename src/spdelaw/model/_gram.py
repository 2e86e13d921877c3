"""Gram matrices against states: products and quadratic forms, in full or diagonal.

``G`` is (T, N, N, B), or its diagonal (T, N, B); the batch B is 1 where all paths share it.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def apply_gram(gram: Array, x: Array) -> Array:
    """``G x`` of one time, (N, P), or of all, (T, N, P)."""
    if gram.ndim == x.ndim:
        return gram * x
    return gram[..., 0] @ x if gram.shape[-1] == 1 else np.einsum("...ijp,...jp->...ip", gram, x)


def quadratic(gram: Array, error: Array) -> Array:
    """``sum_t e' G e`` for each path; (P,)."""
    if gram.ndim == 3:
        return weighted_sum(gram, error**2)
    return np.einsum("tnp,tnp->p", apply_gram(gram, error), error)


def weighted_sum(weight: Array, values: Array) -> Array:
    """Sum over times and modes of ``weight`` (T, N, 1 or P) times ``values`` (T, N, P); (P,)."""
    if weight.shape[-1] == 1:
        return weight.reshape(-1) @ values.reshape(-1, values.shape[-1])
    return np.einsum("tnp,tnp->p", weight, values)

"""Sums over paths and times that the likelihoods share; the last axis is the batch of paths."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def over_paths(values: Array, n_paths: int) -> Array:
    """Sum over the last axis, which is 1 where all paths share the value."""
    return values.sum(-1) * (n_paths if values.shape[-1] == 1 else 1)


def quadratic(gram: Array, error: Array) -> Array:
    """``sum_t e' G e`` for each path; (P,)."""
    if gram.ndim == 3:
        return weighted_sum(gram, error**2)
    if gram.shape[-1] == 1:
        return np.einsum("tnp,tnp->p", gram[..., 0] @ error, error)
    return np.einsum("tnp,tnp->p", np.einsum("tijp,tjp->tip", gram, error), error)


def weighted_sum(weight: Array, values: Array) -> Array:
    """Sum over times and modes of ``weight`` (T, N, 1 or P) times ``values`` (T, N, P); (P,)."""
    if weight.shape[-1] == 1:
        return weight.reshape(-1) @ values.reshape(-1, values.shape[-1])
    return np.einsum("tnp,tnp->p", weight, values)


def as_matrix(x: Array) -> Array:
    """Diagonal (N, B) to matrix (N, N, B); matrices pass."""
    if x.ndim == 3:
        return x
    out = np.zeros((len(x), *x.shape))
    out[np.arange(len(x)), np.arange(len(x))] = x
    return out

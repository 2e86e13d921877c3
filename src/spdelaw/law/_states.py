"""States of new data under a law: collapse, smooth, draw, and back to fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spdelaw.model import (
    AnyParameters,
    Block,
    Collapsed,
    collapse,
    sample_states,
    smooth_states,
)

Array = np.ndarray

#: Paths smoothed at once: covariances of one batch stay in memory together.
BATCH = 64
#: Bytes of their Gram matrices, where each path has gaps of its own.
BATCH_BYTES = 400e6


class FieldMoments(NamedTuple):
    """Mean and variance of the modelled field; each (P, T, M)."""

    mean: Array
    variance: Array


def batches(values: Array, times: Array, basis: Array, weights: Array | None) -> Iterator[Block]:
    """Collapsed blocks of at most `BATCH` paths; ``paths`` index the whole."""
    per_path = 8.0 * values.shape[1] * basis.shape[1] ** 2
    step = int(np.clip(BATCH_BYTES / per_path, 1, BATCH))
    for start in range(0, len(values), step):
        own = times if times.ndim == 1 else times[start : start + step]
        part: Collapsed = collapse(values[start : start + step], own, basis, weights)
        for block in part.blocks:
            yield block._replace(paths=block.paths + start)


def smooth_fields(
    values: Array, times: Array, basis: Array, parameters: AnyParameters, out_basis: Array,
    weights: Array | None = None,
) -> FieldMoments:  # fmt: skip
    """Posterior moments of ``out_basis c_t`` for every path and time."""
    shape = (len(values), values.shape[1], len(out_basis))
    mean, variance = np.empty(shape), np.empty(shape)
    for block in batches(values, times, basis, weights):
        states = smooth_states(block, parameters)
        mean[block.paths] = states.mean.transpose(2, 0, 1) @ out_basis.T
        variance[block.paths] = _field_variance(states.covariance, out_basis)
    return FieldMoments(mean, np.maximum(variance, 0.0))


def _field_variance(covariance: Array, basis: Array) -> Array:
    """``diag(Phi C Phi')``; (B, T, M)."""
    if covariance.ndim == 3:
        return covariance.transpose(2, 0, 1) @ (basis**2).T
    c = np.moveaxis(covariance, -1, 0)
    return np.einsum("btmj,mj->btm", basis @ c, basis)


def draw_fields(
    values: Array, times: Array, basis: Array, parameters: AnyParameters, out_basis: Array,
    n_samples: int, generator: np.random.Generator, weights: Array | None = None,
) -> Array:  # fmt: skip
    """Draws of ``out_basis c_t`` from the posterior; (n_samples, P, T, M)."""
    out = np.empty((n_samples, len(values), values.shape[1], len(out_basis)))
    for block in batches(values, times, basis, weights):
        states = sample_states(block, parameters, n_samples, generator)
        out[:, block.paths] = states.transpose(0, 3, 1, 2) @ out_basis.T
    return out

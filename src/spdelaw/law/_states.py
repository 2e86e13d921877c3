"""States of new data under a law: collapse, smooth, draw, and back to fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spdelaw.domain import Products
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
#: Bytes of a table of products of modes.
PAIR_BYTES = 8e6


class FieldMoments(NamedTuple):
    """Mean and variance of the modelled field; each (P, T, M)."""

    mean: Array
    variance: Array


def batches(
    values: Array,
    times: Array,
    basis: Array,
    weights: Array | None,
    products: Products | None = None,
) -> Iterator[Block]:
    """Collapsed blocks of at most `BATCH` paths; ``paths`` index the whole."""
    per_path = 8.0 * values.shape[1] * basis.shape[1] ** 2
    step = int(np.clip(BATCH_BYTES / per_path, 1, BATCH))
    for start in range(0, len(values), step):
        own = times if times.ndim == 1 else times[start : start + step]
        part: Collapsed = collapse(values[start : start + step], own, basis, weights, products)
        for block in part.blocks:
            yield block._replace(paths=block.paths + start)


def smooth_fields(
    values: Array, times: Array, basis: Array, parameters: AnyParameters, out_basis: Array,
    weights: Array | None = None, products: Products | None = None,
) -> FieldMoments:  # fmt: skip
    """Posterior moments of ``out_basis c_t`` for every path and time."""
    shape = (len(values), values.shape[1], len(out_basis))
    mean, variance = np.empty(shape), np.empty(shape)
    for block in batches(values, times, basis, weights, products):
        states = smooth_states(block, parameters)
        for p, path in enumerate(block.paths):
            np.matmul(states.mean[..., p], out_basis.T, out=mean[path])
        _write_variance(states.covariance, out_basis, block.paths, variance)
    return FieldMoments(mean, np.maximum(variance, 0.0, out=variance))


def _write_variance(covariance: Array, basis: Array, paths: Array, out: Array) -> None:
    """``diag(Phi C Phi') = sum_ij C_ij phi_i phi_j`` into the paths of ``out`` (P, T, M).

    C is symmetric: a product with the table of pairs ``i >= j`` does half the work of
    ``Phi C Phi'``, all of it in one call of BLAS. Few points at a time keep the table small.
    """
    n = basis.shape[1]
    i, j = np.tril_indices(n) if covariance.ndim == 4 else (np.arange(n),) * 2
    rows = covariance[:, i, j] if covariance.ndim == 4 else covariance
    twice = np.where(i == j, 1.0, 2.0)
    step = max(1, int(PAIR_BYTES / (8 * len(i))))
    for first in range(0, len(basis), step):
        some = basis[first : first + step]
        pairs = some[:, i] * some[:, j] * twice
        for b in range(rows.shape[-1]):
            here = paths if rows.shape[-1] == 1 else paths[b]
            out[here, :, first : first + step] = rows[..., b] @ pairs.T


def draw_fields(
    values: Array, times: Array, basis: Array, parameters: AnyParameters, out_basis: Array,
    n_samples: int, generator: np.random.Generator, weights: Array | None = None,
    products: Products | None = None,
) -> Array:  # fmt: skip
    """Draws of ``out_basis c_t`` from the posterior; (n_samples, P, T, M)."""
    out = np.empty((n_samples, len(values), values.shape[1], len(out_basis)))
    for block in batches(values, times, basis, weights, products):
        states = sample_states(block, parameters, n_samples, generator)
        out[:, block.paths] = states.transpose(0, 3, 1, 2) @ out_basis.T
    return out

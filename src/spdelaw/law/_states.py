"""States of new data under a law: collapse, smooth, draw, and back to fields.

Linear dynamics go through the exact chain over all times at once. Any other dynamics go through the
forward filter and the backward smoother path by path, and their draws through ``Dynamics.sample``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from spdelaw.domain import Products
from spdelaw.equation import Linear, operators
from spdelaw.model import (
    Block,
    Smoothed,
    StateSpace,
    collapse,
    forward_filter,
    sample_states,
    smooth_block,
    smooth_states,
)

Array = np.ndarray

#: Paths smoothed at once: covariances of one batch stay in memory together.
BATCH = 64
#: Bytes of their Gram matrices, where each path has gaps of its own.
BATCH_BYTES = 400e6
#: Bytes of a table of products of modes.
PAIR_BYTES = 8e6
#: Paths that share one random stream, so that the first never depend on how many follow.
STREAM = 16


class FieldMoments(NamedTuple):
    """Mean and variance of the modelled field, each (P, T, M), and draws, (n, P, T, M)."""

    mean: Array
    variance: Array
    draws: Array


def batches(
    values: Array,
    times: Array,
    basis: Array,
    weights: Array | None,
    products: Products | None = None,
    *,
    fitted: bool = True,
) -> Iterator[Block]:
    """Collapsed blocks of at most `BATCH` paths; ``paths`` index the whole.

    ``fitted`` as in `spdelaw.model.collapse`.
    """
    per_path = 8.0 * values.shape[1] * basis.shape[1] ** 2
    step = int(np.clip(BATCH_BYTES / per_path, 1, BATCH))
    for start in range(0, len(values), step):
        some = slice(start, start + step)
        own = times if times.ndim == 1 else times[some]
        precision = weights[some] if weights is not None and weights.ndim > 1 else weights
        part = collapse(values[some], own, basis, precision, products, fitted=fitted)
        for block in part.blocks:
            yield block._replace(paths=block.paths + start)


def smooth_fields(
    values: Array,
    times: Array,
    basis: Array,
    space: StateSpace,
    out_basis: Array,
    weights: Array | None = None,
    products: Products | None = None,
    n_samples: int = 0,
    generator: Any = None,
) -> FieldMoments:
    """Posterior moments of ``out_basis c_t`` for every path and time, and draws of it."""
    linear = isinstance(space.dynamics, Linear)
    smooth, draw = (smooth_states, sample_states) if linear else (smooth_block, _sample_states)
    shape = (len(values), values.shape[1], len(out_basis))
    found = FieldMoments(np.empty(shape), np.empty(shape), np.empty((n_samples, *shape)))
    for block in batches(values, times, basis, weights, products, fitted=not linear):
        write_moments(smooth(block, space), out_basis, block.paths, *found[:2])
        if n_samples:
            states = draw(block, space, n_samples, generator)
            found.draws[:, block.paths] = states.transpose(0, 3, 1, 2) @ out_basis.T
    return found


def write_moments(
    states: Smoothed, basis: Array, paths: Array, mean: Array, variance: Array
) -> None:
    """Moments of ``Phi c_t`` into some paths of ``mean`` and ``variance``, (P, T, M) each.

    ``diag(Phi C Phi') = sum_ij C_ij phi_i phi_j`` with a symmetric C: a product with the table of
    pairs ``i >= j`` does half the work of ``Phi C Phi'``, all of it in one call of BLAS. Few points
    at a time keep the table small.
    """
    for p, path in enumerate(paths):
        np.matmul(states.mean[..., p], basis.T, out=mean[path])
    covariance, n = states.covariance, basis.shape[1]
    i, j = np.tril_indices(n) if covariance.ndim == 4 else (np.arange(n),) * 2
    rows = covariance[:, i, j] if covariance.ndim == 4 else covariance
    twice = np.where(i == j, 1.0, 2.0)
    step = max(1, int(PAIR_BYTES / (8 * len(i))))
    for first in range(0, len(basis), step):
        some = basis[first : first + step]
        pairs = some[:, i] * some[:, j] * twice
        for b in range(rows.shape[-1]):
            one, *others = paths if rows.shape[-1] == 1 else paths[b : b + 1]
            own = variance[one, :, first : first + step]
            np.matmul(rows[..., b], pairs.T, out=own)
            variance[others, :, first : first + step] = np.maximum(own, 0.0, out=own)


def _sample_states(
    block: Block, space: StateSpace, n_samples: int, generator: np.random.Generator
) -> Array:
    """Draws of the states of any dynamics given a block; (n_samples, T, N, P).

    Backwards from the last observed row by the Gaussian closure,
    ``c_t | c_{t+1} ~ N(m_t + J (c_{t+1} - m^-_{t+1}), P_t - J P^-_{t+1} J')``, and on from there by
    the dynamics themselves.
    """
    n_times, n_modes = block.estimate.shape[:2]
    out = np.empty((n_samples, n_times, n_modes, len(block.paths)))
    for path in range(len(block.paths)):
        times = block.times[:, path % block.times.shape[1]]
        seen = block.gram[..., path % block.gram.shape[-1]].reshape(n_times, -1).any(1)
        last = int(np.flatnonzero(seen)[-1]) if seen.any() else 0
        own, found = out[..., path], forward_filter(block, space, path)
        mean, covariance = found.mean[last], found.covariance[last]
        own[:, last] = mean + _noise(covariance, n_samples, generator)
        for t in range(last - 1, -1, -1):
            step = found.steps[t]
            gain = np.linalg.lstsq(step.covariance, step.cross.T, rcond=1e-13)[0].T
            left = found.covariance[t] - gain @ step.covariance @ gain.T
            mean = found.mean[t] + (own[:, t + 1] - step.mean) @ gain.T
            own[:, t] = mean + _noise(left, n_samples, generator)
        for t in range(last + 1, n_times):
            dt = float(times[t] - times[t - 1])
            own[:, t] = space.dynamics.sample(own[:, t - 1], float(times[t - 1]), dt, generator)
    return out


def draw_paths(space: StateSpace, start: float, times: Array, n_paths: int, seed: int) -> Array:
    """New paths of any dynamics that have the initial state at ``start``; (n_paths, T, N)."""
    out = np.empty((n_paths, len(times), space.n_modes))
    for first in range(0, n_paths, STREAM):
        key = np.random.SeedSequence(seed, spawn_key=(first // STREAM,))
        generator = np.random.default_rng(key)
        state = space.initial.mean + _noise(space.initial.covariance, STREAM, generator)
        now = start
        for i, t in enumerate(map(float, times)):
            if t > now:
                state = space.dynamics.sample(state, now, t - now, generator)
            out[first : first + STREAM, i], now = state[: n_paths - first], t
    return out


def _noise(covariance: Array, n: int, generator: np.random.Generator) -> Array:
    """Draws of N(0, covariance); (n, N)."""
    z = generator.standard_normal((n, len(covariance)))
    return operators.apply(operators.root(covariance), z)

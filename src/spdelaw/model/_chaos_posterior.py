"""Chaos coordinates given the data: the exact Gaussian posterior that an encoder stands in for.

Without a prior it is the least-squares projection of paths on the span of the truncated decoder.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spdelaw.chaos import CosineBasis, propagate
from spdelaw.errors import DataError
from spdelaw.model._blocks import apply_gram
from spdelaw.model._chain import chain_mean, chain_prior, sweep
from spdelaw.model._chaos import errors_of, given_rows, whitened
from spdelaw.model._chaos_map import (
    ChaosModel,
    dense_columns,
    full_covariance,
    latent_map,
    mode_covariance,
)
from spdelaw.model._chaos_rows import Rows, factored, rows_of, single_patterns
from spdelaw.model._collapsed import Block, Collapsed
from spdelaw.model._state_space import StateSpace
from spdelaw.model._threads import one_thread

Array = np.ndarray


class Latents(NamedTuple):
    """Chaos coordinates of the paths of one pattern, given their data.

    Attributes:
        paths: indices of the paths, (P,).
        initial_mean, initial_std: of ``z0``, (N, P) and (N,); the std is 0 where it is shared.
        mean, std: of ``xi``, (K, L, P) and (K, L).
        coefficients: ``c_n(t)`` of the truncated model at the mean coordinates, (T, N, P).
        covariance: of all coordinates, (S, D, D): a matrix per mode, or one for all.
    """

    paths: Array
    initial_mean: Array
    initial_std: Array
    mean: Array
    std: Array
    coefficients: Array
    covariance: Array


#: Mean (S, D, P) and covariance (S, D, D) of the coordinates of a stack of problems.
Posterior = tuple[Array, Array]
#: Most rows of one covariance matrix: 3000 take 70 MB and seconds.
MOST_ROWS = 3000


def chaos_latents(
    collapsed: Collapsed, state_space: StateSpace, model: ChaosModel
) -> list[Latents]:
    """Exact posterior of ``(z0, xi)``, one entry for each set of paths with one pattern."""
    return [
        _of_pattern(one, state_space, model)
        for block in collapsed.blocks
        for one in single_patterns(block)
    ]


def _of_pattern(block: Block, state_space: StateSpace, model: ChaosModel) -> Latents:
    ages = block.times[:, 0] - block.times[0, 0]
    if model.noise_factor is None and model.tail == "modelled":
        found = _smoothed(block, ages, state_space, model)
        return _collected(block, ages, found, state_space, model)
    rows = rows_of(block, couple=model.noise_factor is not None)
    columns = whitened(rows, state_space, model)
    if model.tail == "modelled":
        found = _with_tail(rows, columns, state_space, model)
    else:
        density = given_rows(rows, columns, state_space)
        found = density.mean, density.covariance
    return _collected(block, ages, found, state_space, model)


def _with_tail(
    rows: Rows, columns: Array, state_space: StateSpace, model: ChaosModel
) -> tuple[Array, Array]:
    """Coordinates of modes that the noise couples, with their tail: all rows in one matrix.

    ``Sigma = Cov(rows) + r``, ``E[u | w] = F' Sigma^-1 w``, ``Cov(u | w) = 1 - F' Sigma^-1 F``.
    """
    size = columns.shape[1]
    if size > MOST_ROWS:
        expected = f"at most {MOST_ROWS} times x modes where the noise couples modes"
        fix = "use tail='dropped', or engine='exact'"
        raise DataError("data", expected=expected, got=str(size), fix=fix)
    covariance = full_covariance(state_space, rows.ages, model)
    half = rows.whiten(covariance.reshape(*rows.root.shape[:2], size))[0]
    signal = rows.whiten(half.T.reshape(*rows.root.shape[:2], size))
    r = float(state_space.observation_variance)
    back = np.swapaxes(columns, 1, 2) @ factored(signal + r * np.eye(size))[1]
    return back @ errors_of(rows, state_space), np.eye(columns.shape[2]) - back @ columns


def _smoothed(block: Block, ages: Array, state_space: StateSpace, model: ChaosModel) -> Posterior:
    """Coordinates of modes with a modelled tail from the smoothed states, linear in T.

    Given all states the data say nothing more: with ``A_n = Cov(c_n)^-1 Cov(c_n, u_n)``,
    ``E[u_n | y] = A_n' E[c_n | y]`` about the mean, and
    ``Cov(u_n | y) = I - A_n' Cov(c_n, u_n) + A_n' Cov(c_n | y) A_n``. The chain's elimination
    applies ``Cov(c | y)`` to data and to all ``A_n`` in one sweep.
    """
    start = int(state_space.initial.kind == "deterministic")
    mapped = latent_map(state_space, ages[start:], model)
    known = mapped.columns.transpose(1, 0, 2)  # (N, T, D)
    gains = np.linalg.solve(mode_covariance(state_space, ages[start:], known, model), known)
    n, n_times, size = gains.shape
    at = np.arange(n)
    wide = np.zeros((n_times, n, n, size))
    wide[:, at, at] = gains.transpose(1, 0, 2)
    r, n_paths = float(state_space.observation_variance), len(block.paths)
    gram = block.gram[start:] / r
    mean = (mapped.decay * state_space.initial.mean)[..., None]
    data = block.vector[start:] / r - apply_gram(gram, mean)
    centred = state_space._replace(initial=state_space.initial._replace(mean=np.zeros(n)))
    sides = np.concatenate([data, wide.reshape(n_times, n, -1)], axis=2)
    prior = chain_prior(centred, block.times)
    states = chain_mean(*sweep(gram, sides, prior)[:2], prior)
    spread = states[..., n_paths:].reshape(n_times, n, n, size)[:, at, at].transpose(1, 0, 2)
    back = np.swapaxes(gains, 1, 2)
    covariance = np.eye(size) - back @ known + back @ spread
    return back @ states[..., :n_paths].transpose(1, 0, 2), covariance


def _collected(
    block: Block, ages: Array, found: Posterior, state_space: StateSpace, model: ChaosModel
) -> Latents:
    """Latents from the coordinates of each mode, (N, D, P), or of one problem, (1, D, P).

    The latter are initial states by mode, then (k, l) with l fastest.
    """
    (mean, covariance), initial = found, state_space.initial
    n, n_paths = state_space.n_modes, len(block.paths)
    deviation = np.sqrt(np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0.0))
    if len(mean) == 1 < n or model.noise_factor is not None:
        driven = dense_columns(state_space, ages, model) @ mean[0]
    else:
        columns = latent_map(state_space, ages, model).columns
        driven = np.einsum("tnd,ndp->tnp", columns, mean, optimize=True)
    # By coordinate, then by mode.
    mean, deviation = mean.transpose(1, 0, 2).reshape(-1, n_paths), deviation.T.ravel()
    z0, z0_std = np.broadcast_to(initial.mean[:, None], (n, n_paths)), np.zeros(n)
    if initial.kind != "deterministic":
        scale = np.sqrt(initial.covariance)
        z0, z0_std = z0 + scale[:, None] * mean[:n], scale * deviation[:n]
        mean, deviation = mean[n:], deviation[n:]
    xi, xi_std = (x.reshape(model.n_time, -1, *x.shape[1:]) for x in (mean, deviation))
    decay = np.exp(-ages[:, None] * state_space.linear.drift)
    coefficients = (decay * initial.mean)[..., None] + driven
    return Latents(block.paths, z0, z0_std, xi, xi_std, coefficients, covariance)


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

"""States given the data: smoothed moments, draws from the posterior, one-step innovations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.model._chain import (
    Prior,
    Sweep,
    covariances_dense,
    diagonal,
    mean_dense,
    sweep_dense,
    sweep_diagonal,
)
from spdelaw.model._collapse import Block
from spdelaw.model._parameters import Parameters, chain_prior

Array = np.ndarray


class Smoothed(NamedTuple):
    """``E[c_t | y]`` (T, N, P) and ``Cov(c_t | y)``, (T, N, N, B) or its diagonal (T, N, B)."""

    mean: Array
    covariance: Array


def smooth_states(block: Block, parameters: Parameters) -> Smoothed:
    """Posterior mean and covariance of the states at every time of the block."""
    gram, vector, prior, start = _inputs(block, parameters)
    if block.is_diagonal:
        post = diagonal(gram, vector, prior)
        mean, covariance = post.mean, post.variance
    else:
        sweep = sweep_dense(gram, vector, prior)
        mean, covariance = mean_dense(sweep), covariances_dense(sweep)[0]
    if start:
        fixed = np.broadcast_to(parameters.initial_mean[:, None], mean.shape[1:])
        mean = np.concatenate([fixed[None], mean])
        covariance = np.concatenate([np.zeros_like(covariance[:1]), covariance])
    return Smoothed(mean, covariance)


def sample_states(
    block: Block, parameters: Parameters, n_samples: int, generator: np.random.Generator
) -> Array:
    """Draws from the joint posterior of all states; (n_samples, T, N, P).

    Backward sampling: ``c_T ~ N(V_T b_T', V_T)``, then
    ``c_t | c_{t+1} ~ N(V_t (b_t' + D_t c_{t+1}), V_t)``.
    """
    gram, vector, prior, start = _inputs(block, parameters)
    sweep = (sweep_diagonal if block.is_diagonal else sweep_dense)(gram, vector, prior)
    n_times, n_modes, n_paths = sweep.vector.shape
    draws = np.empty((n_samples, n_times + start, n_modes, n_paths))
    draws[:, :start] = parameters.initial_mean[:, None]
    following: Array | float = 0.0
    for t in range(n_times - 1, -1, -1):
        target = sweep.vector[t] + following
        z = generator.standard_normal((n_samples, n_modes, n_paths))
        draws[:, t + start] = _draw(sweep, t, target, z, block.is_diagonal)
        if t:
            following = sweep.coupling[t - 1] * draws[:, t + start]
    return draws


def _draw(sweep: Sweep, t: int, target: Array, z: Array, is_diagonal: bool) -> Array:
    v = sweep.inverse[t]
    if is_diagonal:
        return v * target + np.sqrt(v) * z
    root = np.linalg.cholesky(np.moveaxis(v, -1, 0))
    if v.shape[-1] == 1:
        return v[..., 0] @ np.broadcast_to(target, z.shape) + root[0] @ z
    mean = np.einsum("ijb,...jb->...ib", v, np.broadcast_to(target, z.shape))
    return mean + np.einsum("bij,sjb->sib", root, z)


def innovations(block: Block, parameters: Parameters) -> Array:
    """Standardised one-step prediction errors of the estimates ``c_hat``; (T, N, P).

    Independent standard normals if the model is true. NaN where a row does not determine all
    modes, and at a fixed initial state.
    """
    gram, vector, prior, start = _inputs(block, parameters)
    r = float(parameters.observation_variance)
    out = np.full(block.estimate.shape, np.nan)
    if block.is_diagonal:
        sweep = sweep_diagonal(gram, vector, prior)
        mean, variance = _predicted_diagonal(sweep, prior)
        observed = np.broadcast_to(gram > 0, mean.shape)
        noise = np.divide(1.0, gram, out=np.full(gram.shape, np.nan), where=gram > 0)
        z = (block.estimate[start:] - mean) / np.sqrt(variance + noise)
        out[start:] = np.where(observed, z, np.nan)
        return out
    sweep = sweep_dense(gram, vector, prior)
    for t in range(len(gram)):
        mean, covariance = _predicted_dense(sweep, prior, t)
        out[t + start] = _whiten(
            block.estimate[t + start] - mean,
            covariance,
            np.moveaxis(block.gram[t + start], -1, 0),
            r,
        )
    return out


def component_innovations(
    block: Block, parameters: Parameters, values: Array, basis: Array
) -> Array:
    """Standardised one-step prediction errors of the observed values themselves; (P, T, M).

    For complete values (P, T, M) of few components on more modes than they determine; the
    block is their collapse.
    """
    gram, vector, prior, start = _inputs(block, parameters)
    sweep = sweep_dense(gram, vector, prior)
    out = np.full(values.shape, np.nan)
    noise = float(parameters.observation_variance) * np.eye(len(basis))
    for t in range(len(gram)):
        mean, covariance = _predicted_dense(sweep, prior, t)
        root = np.linalg.cholesky(basis @ covariance[0] @ basis.T + noise)
        error = values[:, t + start].T - basis @ mean
        out[:, t + start] = np.linalg.solve(root, error).T
    return out


def _predicted_diagonal(sweep: Sweep, prior: Prior) -> tuple[Array, Array]:
    """Mean and variance of each state given the times before it; (T, N, B or P)."""
    own = 1.0 / sweep.inverse
    own[:-1] -= prior.factor**2 / prior.noise
    filtered = 1.0 / own
    mean = np.broadcast_to(prior.mean, sweep.vector.shape[1:])[None]
    variance = np.broadcast_to(prior.variance, own.shape[1:])[None]
    a, omega = prior.factor, prior.noise
    return (
        np.concatenate([mean, a * (filtered[:-1] * sweep.vector[:-1])]),
        np.concatenate([variance, a**2 * filtered[:-1] + omega]),
    )


def _predicted_dense(sweep: Sweep, prior: Prior, t: int) -> tuple[Array, Array]:
    n = sweep.vector.shape[1]
    if t == 0:
        variance = np.moveaxis(np.asarray(prior.variance), -1, 0)
        return prior.mean, variance[:, :, None] * np.eye(n)
    a, omega = prior.factor[t - 1], prior.noise[t - 1]
    precision = np.linalg.inv(np.moveaxis(sweep.inverse[t - 1], -1, 0))
    index = np.arange(n)
    precision[:, index, index] -= (a**2 / omega).T
    filtered = np.linalg.inv(precision)
    if len(filtered) == 1:
        mean = filtered[0] @ sweep.vector[t - 1]
    else:
        mean = np.einsum("bij,jb->ib", filtered, sweep.vector[t - 1])
    covariance = a.T[:, :, None] * filtered * a.T[:, None, :]
    covariance[:, index, index] += omega.T
    return a * mean, covariance


def _whiten(error: Array, covariance: Array, gram: Array, r: float) -> Array:
    """``L^-1 e`` with ``L L' = covariance + r G^-1``; NaN where G is singular."""
    out = np.full(error.shape, np.nan)
    scale = np.einsum("bii->bi", gram)
    regular = (scale > 0).all(-1)
    unit = gram[regular] / np.sqrt(scale[regular][:, :, None] * scale[regular][:, None, :])
    regular[regular] = np.linalg.eigvalsh(unit)[:, 0] > 1e-8
    if not regular.any():
        return out
    noise = r * np.linalg.inv(gram[regular])
    shared = len(covariance) == 1
    root = np.linalg.cholesky((covariance if shared else covariance[regular]) + noise)
    if len(gram) == 1:
        return np.linalg.solve(root[0], error)
    columns = np.flatnonzero(regular)
    out[:, columns] = np.linalg.solve(root, error.T[columns][..., None])[..., 0].T
    return out


def _inputs(block: Block, parameters: Parameters) -> tuple[Array, Array, Prior, int]:
    start = 1 if parameters.initial_kind == "deterministic" else 0
    r = parameters.observation_variance
    prior = chain_prior(parameters, block.times)
    return block.gram[start:] / r, block.vector[start:] / r, prior, start

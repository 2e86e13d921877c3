"""States given the data: smoothed moments, draws from the posterior, one-step innovations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from spdelaw.model._chain import (
    Prior,
    Sweep,
    covariances_dense,
    diagonal,
    is_shared,
    mean_dense,
    solve_shared,
    sweep_dense,
    sweep_diagonal,
)
from spdelaw.model._collapse import Block
from spdelaw.model._coupled_chain import (
    CoupledSweep,
    all_covariances,
    coupled_prior,
    following,
    mean_coupled,
    predicted_coupled,
    sweep_coupled,
)
from spdelaw.model._parameters import AnyParameters, CoupledParameters, Parameters, chain_prior
from spdelaw.model._path_sums import as_matrix

Array = np.ndarray


class Smoothed(NamedTuple):
    """``E[c_t | y]`` (T, N, P) and ``Cov(c_t | y)``, (T, N, N, B) or its diagonal (T, N, B)."""

    mean: Array
    covariance: Array


def smooth_states(block: Block, parameters: AnyParameters) -> Smoothed:
    """Posterior mean and covariance of the states at every time of the block."""
    start = _n_fixed(parameters)
    if isinstance(parameters, CoupledParameters):
        coupled = _coupled_sweep(block, parameters)
        mean, covariance = mean_coupled(coupled), all_covariances(coupled)
    elif block.is_diagonal:
        post = diagonal(*_inputs(block, parameters))
        mean, covariance = post.mean, post.variance
    else:
        mean, covariance = _smooth_dense(*_inputs(block, parameters))
    if start:
        fixed = np.broadcast_to(parameters.initial_mean[:, None], mean.shape[1:])
        mean = np.concatenate([fixed[None], mean])
        covariance = np.concatenate([np.zeros_like(covariance[:1]), covariance])
    return Smoothed(mean, covariance)


def _smooth_dense(gram: Array, vector: Array, prior: Prior) -> tuple[Array, Array]:
    if is_shared(gram, prior):
        found = solve_shared(gram, vector, prior)
        return found.mean, found.covariance[..., None]
    sweep = sweep_dense(gram, vector, prior)
    return mean_dense(sweep), covariances_dense(sweep)[0]


def sample_states(
    block: Block, parameters: AnyParameters, n_samples: int, generator: np.random.Generator
) -> Array:
    """Draws from the joint posterior of all states; (n_samples, T, N, P).

    Backward sampling: ``c_T ~ N(V_T b_T', V_T)``, then
    ``c_t | c_{t+1} ~ N(V_t (b_t' + D_t c_{t+1}), V_t)``.
    """
    start, sweep = _n_fixed(parameters), _sweep(block, parameters)
    n_times, n_modes, n_paths = sweep.vector.shape
    draws = np.empty((n_samples, n_times + start, n_modes, n_paths))
    draws[:, :start] = parameters.initial_mean[:, None]
    pull: Array | float = 0.0
    for t in range(n_times - 1, -1, -1):
        target = sweep.vector[t] + pull
        z = generator.standard_normal((n_samples, n_modes, n_paths))
        draws[:, t + start] = _draw(sweep, t, target, z)
        if t:
            state = draws[:, t + start]
            pull = (
                following(sweep, t - 1, state)
                if isinstance(sweep, CoupledSweep)
                else sweep.coupling[t - 1] * state
            )
    return draws


def _sweep(block: Block, parameters: AnyParameters) -> Sweep | CoupledSweep:
    if isinstance(parameters, CoupledParameters):
        return _coupled_sweep(block, parameters)
    return (sweep_diagonal if block.is_diagonal else sweep_dense)(*_inputs(block, parameters))


def _draw(sweep: Sweep | CoupledSweep, t: int, target: Array, z: Array) -> Array:
    v = sweep.inverse[t]
    if v.ndim == 2:
        return v * target + np.sqrt(v) * z
    root = np.linalg.cholesky(np.moveaxis(v, -1, 0))
    if v.shape[-1] == 1:
        return v[..., 0] @ np.broadcast_to(target, z.shape) + root[0] @ z
    mean = np.einsum("ijb,...jb->...ib", v, np.broadcast_to(target, z.shape))
    return mean + np.einsum("bij,sjb->sib", root, z)


def innovations(block: Block, parameters: AnyParameters) -> Array:
    """Standardised one-step prediction errors of the estimates ``c_hat``; (T, N, P).

    Independent standard normals if the model is true. NaN where a row does not determine all
    modes, and at a fixed initial state.
    """
    start = _n_fixed(parameters)
    r = float(parameters.observation_variance)
    out = np.full(block.estimate.shape, np.nan)
    if block.is_diagonal and isinstance(parameters, Parameters):
        gram, vector, prior = _inputs(block, parameters)
        sweep = sweep_diagonal(gram, vector, prior)
        mean, variance = _predicted_diagonal(sweep, prior)
        observed = np.broadcast_to(gram > 0, mean.shape)
        noise = np.divide(1.0, gram, out=np.full(gram.shape, np.nan), where=gram > 0)
        z = (block.estimate[start:] - mean) / np.sqrt(variance + noise)
        out[start:] = np.where(observed, z, np.nan)
        return out
    predicted = _predictor(block, parameters)
    for t in range(len(block.gram) - start):
        mean, covariance = predicted(t)
        gram = np.moveaxis(as_matrix(block.gram[t + start]), -1, 0)
        out[t + start] = _whiten(block.estimate[t + start] - mean, covariance, gram, r)
    return out


def _predictor(block: Block, parameters: AnyParameters) -> Callable[[int], tuple[Array, Array]]:
    """Function from t to the mean and covariance of free state t given the times before it."""
    if isinstance(parameters, CoupledParameters):
        return functools.partial(predicted_coupled, _coupled_sweep(block, parameters))
    gram, vector, prior = _inputs(block, parameters)
    return functools.partial(_predicted_dense, sweep_dense(gram, vector, prior), prior)


def component_innovations(
    block: Block, parameters: AnyParameters, values: Array, basis: Array
) -> Array:
    """Standardised one-step prediction errors of the observed values themselves; (P, T, M).

    For complete values (P, T, M) of few components on more modes than they determine; the
    block is their collapse.
    """
    start, predicted = _n_fixed(parameters), _predictor(block, parameters)
    out = np.full(values.shape, np.nan)
    noise = float(parameters.observation_variance) * np.eye(len(basis))
    for t in range(len(block.gram) - start):
        mean, covariance = predicted(t)
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


def _n_fixed(parameters: AnyParameters) -> int:
    return 1 if parameters.initial_kind == "deterministic" else 0


def _inputs(block: Block, parameters: Parameters) -> tuple[Array, Array, Prior]:
    start, r = _n_fixed(parameters), parameters.observation_variance
    prior = chain_prior(parameters, block.times)
    return block.gram[start:] / r, block.vector[start:] / r, prior


def _coupled_sweep(block: Block, parameters: CoupledParameters) -> CoupledSweep:
    start, r = _n_fixed(parameters), parameters.observation_variance
    prior = coupled_prior(parameters, block.times)
    return sweep_coupled(block.gram[start:] / r, block.vector[start:] / r, prior)

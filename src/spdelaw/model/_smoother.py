"""States given the data: smoothed moments, draws from the posterior, one-step innovations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.model._blocks import apply, transpose
from spdelaw.model._chain import (
    Prior,
    Sweep,
    chain_covariances,
    chain_mean,
    chain_prior,
    full_covariance,
    predicted,
    predicted_from,
    sweep,
)
from spdelaw.model._collapse import Block
from spdelaw.model._forced import without_response
from spdelaw.model._posterior import is_shared, solve_shared
from spdelaw.model._state_space import StateSpace
from spdelaw.model._stitch import chain_of, informed

Array = np.ndarray

#: Blocks of one path that are predicted at once.
BATCH_BYTES = 4e6


class Smoothed(NamedTuple):
    """``E[c_t | y]`` (T, N, P) and ``Cov(c_t | y)``, (T, N, N, B) or its diagonal (T, N, B)."""

    mean: Array
    covariance: Array


def smooth_states(block: Block, state_space: StateSpace) -> Smoothed:
    """Posterior mean and covariance of the states at every time of the block."""
    gram, vector, prior = _inputs(block, state_space)
    return _with_start(_smoothed(gram, vector, prior), prior, block, state_space)


def smooth_part(pair: list, state_space: StateSpace) -> Smoothed:
    """The same for a part of a long record, given what the other parts say of its ends."""
    part, message = pair
    r = float(state_space.observation_variance)
    chain = informed(chain_of(part, state_space), message)
    prior = chain.prior._replace(mean=np.zeros_like(chain.prior.mean)).scaled(r)
    found = _smoothed(chain.gram, chain.vector, prior)
    own = Smoothed(found.mean[chain.n_before :], r * found.covariance[chain.n_before :])
    return _with_start(own, chain.prior, part.block, state_space)


def _smoothed(gram: Array, vector: Array, prior: Prior) -> Smoothed:
    """Moments of the free states."""
    if is_shared(gram, prior) and not (gram.ndim == 3 and prior.precision.ndim == 2):
        solved = solve_shared(gram, vector, prior, crosses=False)
        return Smoothed(solved.mean, solved.covariance[..., None])
    found = sweep(gram, vector, prior)
    return Smoothed(chain_mean(found), chain_covariances(found))


def _with_start(free: Smoothed, prior: Prior, block: Block, state_space: StateSpace) -> Smoothed:
    """Moments at all times: with a fixed first state, mean and response to a forcing."""
    mean, covariance = free
    if prior.n_fixed:
        fixed = np.broadcast_to(state_space.initial.mean[:, None], mean.shape[1:])
        mean = np.concatenate([fixed[None], mean])
        covariance = np.concatenate([np.zeros_like(covariance[:1]), covariance])
    return Smoothed(mean + _response(block, state_space), covariance)


class PathNormals:
    """Normal numbers of each path from a generator of its own, whatever block it is in."""

    def __init__(self, seed: int, paths: Array) -> None:
        self.generators = [np.random.default_rng([seed, int(path)]) for path in paths]

    def standard_normal(self, size: tuple[int, ...]) -> Array:
        """Numbers of that shape, paths last."""
        own = [generator.standard_normal(size[:-1]) for generator in self.generators]
        return np.stack(own, axis=-1)


def sample_states(
    block: Block,
    state_space: StateSpace,
    n_samples: int,
    generator: np.random.Generator | PathNormals,
) -> Array:
    """Draws from the joint posterior of all states; (n_samples, T, N, P).

    Backward sampling: ``c_T ~ N(V_T b_T', V_T)``, then
    ``c_t | c_{t+1} ~ N(V_t (b_t' + D_t' c_{t+1}), V_t)``.
    """
    found = _sweep(block, state_space)
    start, (n_times, n_modes, n_paths) = found.prior.n_fixed, found.vector.shape
    draws = np.empty((n_samples, n_times + start, n_modes, n_paths))
    draws[:, :start] = state_space.initial.mean[:, None]
    if found.prior.coupling.ndim == 3 and found.inverse.shape[-1] == 1:
        _draw_shared(found, draws[:, start:], generator)
        return draws + _response(block, state_space)
    pull: Array | float = 0.0
    for t in range(n_times - 1, -1, -1):
        z = generator.standard_normal((n_samples, n_modes, n_paths))
        draws[:, t + start] = _draw(found.inverse[t], found.vector[t] + pull, z)
        if t:
            pull = apply(transpose(found.coupling(t - 1)), draws[:, t + start])
    return draws + _response(block, state_space)


def _draw_shared(found: Sweep, draws: Array, generator: np.random.Generator | PathNormals) -> None:
    """The same in place, where all paths share their matrices: roots of all times at once."""
    inverse, which = found.inverse[..., 0], found.prior.free[:, 0]
    turned = np.ascontiguousarray(np.moveaxis(found.prior.coupling, -1, 0).swapaxes(1, 2))
    z = generator.standard_normal((len(inverse), *draws[:, 0].shape))[::-1]
    noise = np.linalg.cholesky(inverse)[:, None] @ z
    pull: Array | float = 0.0
    for t in range(len(inverse) - 1, -1, -1):
        draws[:, t] = inverse[t] @ (found.vector[t] + pull) + noise[t]
        if t:
            pull = turned[which[t - 1]] @ draws[:, t]


def _draw(v: Array, target: Array, z: Array) -> Array:
    mean = apply(v, np.broadcast_to(target, z.shape))
    if v.ndim == 2:
        return mean + np.sqrt(v) * z
    root = np.linalg.cholesky(np.moveaxis(v, -1, 0))
    return mean + apply(np.moveaxis(root, 0, -1), z)


class OneStep(NamedTuple):
    """Standardised prediction errors ``L^-1 e``, predictions and ``diag L``; each (T, N, P)."""

    error: Array
    predicted: Array
    deviation: Array


def innovations(block: Block, state_space: StateSpace) -> OneStep:
    """Standardised one-step prediction errors of the estimates ``c_hat``, and the predictions.

    Independent standard normals if the model is true. NaN where a row does not determine all
    modes, and at a fixed initial state. Predictions are those of the deviation from the mean.
    """
    found, r = _sweep(block, state_space), float(state_space.observation_variance)
    free, bare = slice(found.prior.n_fixed, None), without_response(block, state_space.linear)
    of = _steps_of_one if block.estimate.shape[-1] == 1 else _steps_of_all
    out = np.full((3, *block.estimate.shape), np.nan)
    out[:, free] = of(found, bare.estimate[free], block.gram[free], r)
    return OneStep(*out)


def _steps_of_all(found: Sweep, estimate: Array, gram: Array, r: float) -> Array:
    """Errors, predictions and deviations of free states, time by time; (3, T, N, P)."""
    out = np.empty((3, *estimate.shape))
    for t in range(len(gram)):
        out[1, t], covariance = predicted(found, t)
        out[0, t], out[2, t] = _standardised(estimate[t] - out[1, t], covariance, gram[t], r)
    return out


def _steps_of_one(found: Sweep, estimate: Array, gram: Array, r: float) -> Array:
    """The same of one path, whose times are the batch; many at once."""
    out = np.empty((3, *estimate.shape))
    out[:, :1] = _steps_of_all(found, estimate[:1], gram[:1], r)
    many = max(1, int(BATCH_BYTES / found.inverse[0].nbytes))
    for first in range(1, len(gram), many):
        rows = slice(first, min(first + many, len(gram)))
        mean, covariance = predicted_from(found, slice(rows.start - 1, rows.stop - 1))
        own = np.moveaxis(gram[rows, ..., 0], 0, -1)
        error, size = _standardised(estimate[rows, :, 0].T - mean, covariance, own, r)
        out[:, rows, :, 0] = error.T, mean.T, size.T
    return out


def component_innovations(
    block: Block, state_space: StateSpace, values: Array, basis: Array
) -> tuple[Array, Array]:
    """Standardised one-step prediction errors of the observed values, and ``diag L``; (P, T, M).

    For complete values (P, T, M) of few components on more modes than they determine; the
    block is their collapse.
    """
    found = _sweep(block, state_space)
    start, response = found.prior.n_fixed, _response(block, state_space)
    out, size = np.full((2, *values.shape), np.nan)
    noise = float(state_space.observation_variance) * np.eye(len(basis))
    for t in range(start, len(block.gram)):
        mean, covariance = predicted(found, t - start)
        root = np.linalg.cholesky(basis @ full_covariance(covariance)[0] @ basis.T + noise)
        error = values[:, t].T - basis @ (mean + response[t])
        out[:, t], size[:, t] = np.linalg.solve(root, error).T, np.diag(root)
    return out, size


def _sweep(block: Block, state_space: StateSpace) -> Sweep:
    return sweep(*_inputs(block, state_space))


def _inputs(block: Block, state_space: StateSpace) -> tuple[Array, Array, Prior]:
    r, prior = state_space.observation_variance, chain_prior(state_space, block.times)
    bare = without_response(block, state_space.linear)
    return bare.gram[prior.n_fixed :] / r, bare.vector[prior.n_fixed :] / r, prior


def _response(block: Block, state_space: StateSpace) -> Array:
    """Mean that a forcing drives, (T, N, 1 or P)."""
    return np.moveaxis(state_space.linear.response(block.times), -1, 1)


def _standardised(error: Array, covariance: Array, gram: Array, r: float) -> tuple[Array, Array]:
    """``L^-1 e`` and ``diag L`` of errors (N, P)."""
    whiten = _whiten_diagonal if covariance.ndim == gram.ndim == 2 else _whiten
    return whiten(error, covariance, gram, r)


def _whiten_diagonal(error: Array, variance: Array, gram: Array, r: float) -> tuple[Array, Array]:
    noise = np.divide(r, gram, out=np.full(gram.shape, np.nan), where=gram > 0)
    size = np.sqrt(variance + noise)
    return error / size, size


def _whiten(error: Array, covariance: Array, gram: Array, r: float) -> tuple[Array, Array]:
    """``L^-1 e`` with ``L L' = covariance + r G^-1``, and ``diag L``; NaN where G is singular."""
    out, size = np.full((2, *error.shape), np.nan)
    covariance, gram = full_covariance(covariance), full_covariance(gram)
    scale = np.einsum("bii->bi", gram)
    regular = (scale > 0).all(-1)
    unit = gram[regular] / np.sqrt(scale[regular][:, :, None] * scale[regular][:, None, :])
    regular[regular] = np.linalg.eigvalsh(unit)[:, 0] > 1e-8
    if not regular.any():
        return out, size
    noise = r * np.linalg.inv(gram[regular])
    shared = len(covariance) == 1
    own = covariance if shared or len(gram) == 1 else covariance[regular]
    root = np.linalg.cholesky(own + noise)
    diagonal = np.einsum("bii->ib", root)
    if len(gram) == 1 and shared:
        return np.linalg.solve(root[0], error), np.broadcast_to(diagonal, error.shape)
    columns = np.arange(error.shape[1]) if len(gram) == 1 else np.flatnonzero(regular)
    out[:, columns] = np.linalg.solve(root, error.T[columns][..., None])[..., 0].T
    size[:, columns] = diagonal
    return out, size

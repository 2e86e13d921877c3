"""Log-likelihood of collapsed observations with its exact score.

For one path with n observed values,

    log p(y) = -1/2 [ n log(2 pi r) + log|S| - log|S_prior| + prior energy + misfit / r ],

both energies taken at the smoothed mean, where they are a sum of squares without
cancellation. The score follows from the smoother's moments by Fisher's identity.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, overload

import numpy as np

from spdelaw.model._chain import Posterior, Prior, dense, diagonal
from spdelaw.model._collapse import Block, Collapsed
from spdelaw.model._coupled_likelihood import CoupledEvaluation, evaluate_coupled_block
from spdelaw.model._moments import Moments, transition_score
from spdelaw.model._parameters import AnyParameters, CoupledParameters, Parameters, chain_prior
from spdelaw.model._path_sums import as_matrix, over_paths, quadratic, weighted_sum
from spdelaw.model._seasonal import seasonal_score

Array = np.ndarray


class Evaluation(NamedTuple):
    """Log-likelihood per path and the gradient of its sum.

    Attributes:
        log_likelihood: (P,).
        by_eigenvalue, by_noise_variance: (N,), with the initial variance held.
        by_initial_mean, by_initial_variance: (N,).
        by_observation_variance: one number.
        initial_information: ``-d2 log p / d m0 d m0'``, (N, N); constant in ``m0``.
        by_season: by the weights of the seasons, (K,); a zero without them.
    """

    log_likelihood: Array
    by_eigenvalue: Array
    by_noise_variance: Array
    by_initial_mean: Array
    by_initial_variance: Array
    by_observation_variance: float
    initial_information: Array
    by_season: Array = np.zeros(1)


AnyEvaluation = Evaluation | CoupledEvaluation


@overload
def evaluate_likelihood(
    collapsed: Collapsed, parameters: Parameters, *, use_misfit: bool = ..., threads: int = ...
) -> Evaluation: ...
@overload
def evaluate_likelihood(
    collapsed: Collapsed, parameters: AnyParameters, *, use_misfit: bool = ..., threads: int = ...
) -> AnyEvaluation: ...
def evaluate_likelihood(
    collapsed: Collapsed, parameters: AnyParameters, *, use_misfit: bool = True, threads: int = 1
) -> AnyEvaluation:
    """Likelihood and score of all paths.

    ``use_misfit=False`` is the likelihood of the collapsed estimates alone: what lies outside
    the modes, be it noise or further modes, then says nothing about the noise.
    """

    def one(block: Block) -> AnyEvaluation:
        if isinstance(parameters, CoupledParameters):
            return evaluate_coupled_block(block, parameters, *_density(block, use_misfit))
        return evaluate_block(block, parameters, use_misfit)[0]

    return add_up(collapsed, in_threads(one, collapsed.blocks, threads))


def add_up(collapsed: Collapsed, parts: list[AnyEvaluation]) -> AnyEvaluation:
    """Evaluation of all paths from those of the blocks."""
    log_likelihood = np.empty(collapsed.n_paths)
    for block, part in zip(collapsed.blocks, parts, strict=True):
        log_likelihood[block.paths] = part.log_likelihood
    sums: list[Any] = [sum(values) for values in zip(*(p[1:] for p in parts), strict=True)]
    return type(parts[0])(log_likelihood, *sums)


def in_threads(function: Callable, items: tuple, threads: int) -> list:
    """Map over independent blocks; NumPy releases the interpreter lock inside its loops."""
    if threads <= 1 or len(items) <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))


def posterior(block: Block, parameters: Parameters) -> tuple[Posterior, Prior]:
    """Posterior of the block's free states."""
    prior = chain_prior(parameters, block.times)
    prior = prior._replace(mean=prior.mean * block.unit)
    start = _n_fixed(parameters)
    r = parameters.observation_variance
    kernel = diagonal if block.is_diagonal else dense
    # In units of r: dividing the few numbers of the prior spares a pass over G and b.
    scaled = prior._replace(variance=prior.variance / r, noise=prior.noise / r)
    post = kernel(block.gram[start:], block.vector[start:], scaled)
    return post._replace(
        variance=r * post.variance,
        lag_covariance=r * post.lag_covariance,
        first_covariance=r * post.first_covariance,
    ), prior


def _n_fixed(parameters: Parameters) -> int:
    return 1 if parameters.initial_kind == "deterministic" else 0


def _smoothed_mean(block: Block, post: Posterior, parameters: Parameters) -> Array:
    """``E[c_t | y]`` at all times, the fixed initial state included; (T, N, P)."""
    if not _n_fixed(parameters):
        return post.mean
    fixed = np.broadcast_to(parameters.initial_mean[:, None] * block.unit, post.mean.shape[1:])
    return np.concatenate([fixed[None], post.mean])


def evaluate_block(
    block: Block, parameters: Parameters, use_misfit: bool
) -> tuple[Evaluation, Array]:
    """Likelihood and score of the paths of a block, and their smoothed states (T, N, P)."""
    post, prior = posterior(block, parameters)
    r = float(parameters.observation_variance)
    mean = _smoothed_mean(block, post, parameters)
    outside, count, volume = _density(block, use_misfit)
    misfit = outside + _of_paths(block, quadratic(block.gram, block.estimate - mean))
    energy = _of_paths(block, _prior_energy(post.mean, prior)) + misfit / r
    log_likelihood = -0.5 * (count * np.log(2 * np.pi * r) + post.log_determinant + energy - volume)
    n_paths = len(block.paths)
    by_r = 0.5 * ((misfit / r**2 - count / r).sum() + over_paths(post.gram_trace, n_paths) / r)
    by_lambda, by_q, by_season = _by_spectra(block, parameters, mean, post)
    found = Evaluation(
        log_likelihood,
        by_lambda,
        by_q,
        *_by_initial(block, parameters, post, prior),
        float(by_r),
        _initial_information(block, parameters, post, prior),
        by_season,
    )
    return found, mean


def _of_paths(block: Block, columns: Array) -> Array:
    """What columns add up to, path by path; its mean where the paths were rotated."""
    n_paths = len(block.paths)
    return columns if len(columns) == n_paths else np.full(n_paths, columns.sum() / n_paths)


def _density(block: Block, use_misfit: bool) -> tuple[Array, Array, Array]:
    """Misfit outside the modes, numbers that have a density, twice its log change of variables.

    Density of ``c_hat`` instead of y: the Gram matrix is the Jacobian of the change.
    """
    if use_misfit:
        return block.misfit, block.n_values, block.log_weight
    return np.zeros(len(block.paths)), _collapsed_count(block), block.log_gram


def _prior_energy(mean: Array, prior: Prior) -> Array:
    first = (mean[0] - prior.mean) ** 2 / prior.variance
    step = prior.factor * mean[:-1]
    np.subtract(mean[1:], step, out=step)
    return first.sum(0) + weighted_sum(1.0 / prior.noise, np.square(step, out=step))


def _collapsed_count(block: Block) -> Array:
    """Numbers of estimates ``c_hat`` that the data determine."""
    if block.is_diagonal:
        n = (block.gram > 0).sum((0, 1))
    else:
        n = (np.einsum("tiib->tib", block.gram) > 0).sum((0, 1))
    return np.broadcast_to(n, len(block.paths)).astype(float)


def _by_spectra(
    block: Block, parameters: Parameters, mean: Array, post: Posterior
) -> tuple[Array, Array, Array]:
    """Transition score at the smoother's moments (Fisher's identity): lambda, q, seasons."""
    lam, q, season = parameters.eigenvalues, parameters.noise_variance, parameters.season
    moments, times = _moments(block, parameters, mean, post), block.times
    if times.shape[1] == 1:
        times = times[:, 0]
    else:
        lam, q = lam[:, None], q[:, None]
    if season is not None:
        by_lambda, by_q, by_season = seasonal_score(moments, times, season, lam, q)
    else:
        dt = np.diff(times, axis=0)[:, None]
        by_lambda, by_q = transition_score(moments, dt, lam, q)
        by_season = np.zeros(1)
    if by_lambda.ndim == 2:
        by_lambda, by_q = by_lambda.sum(-1), by_q.sum(-1)
    return by_lambda, by_q, by_season


def _moments(block: Block, parameters: Parameters, mean: Array, post: Posterior) -> Moments:
    """Second moments of the states, of all paths together where they share a clock."""
    start, n_paths = _n_fixed(parameters), len(block.paths)
    if block.times.shape[1] == 1:
        square = np.einsum("tnp,tnp->tn", mean, mean)
        square[start:] += over_paths(post.variance, n_paths)
        cross = np.einsum("tnp,tnp->tn", mean[:-1], mean[1:])
        cross[start:] += over_paths(post.lag_covariance, n_paths)
        return Moments(square, cross, n_paths)
    square, cross = mean**2, mean[:-1] * mean[1:]
    square[start:] += post.variance
    cross[start:] += post.lag_covariance
    return Moments(square, cross, 1.0)


def _by_initial(
    block: Block, parameters: Parameters, post: Posterior, prior: Prior
) -> tuple[Array, Array]:
    """Gradient by ``m0`` and ``v0``; each (N,)."""
    error = post.mean[0] - prior.mean
    pull = error / prior.variance
    n_paths = len(block.paths)
    if parameters.initial_kind == "deterministic":
        factor = np.exp(-parameters.eigenvalues[:, None] * np.diff(block.times[:2], axis=0))
        at_start = block.estimate[0] - parameters.initial_mean[:, None] * block.unit
        observed = apply_gram(block.gram[0], at_start) / parameters.observation_variance
        return ((factor * pull + observed) * block.unit).sum(-1), np.zeros(len(pull))
    v = prior.variance
    spread = (error**2 / v**2).sum(-1) + over_paths(post.variance[0] / v**2 - 1.0 / v, n_paths)
    return (pull * block.unit).sum(-1), 0.5 * spread


def apply_gram(gram: Array, x: Array) -> Array:
    """``G x`` of one time, (N, P), or of all, (T, N, P); G in full or its diagonal."""
    if gram.ndim == x.ndim:
        return gram * x
    return gram[..., 0] @ x if gram.shape[-1] == 1 else np.einsum("...ijp,...jp->...ip", gram, x)


def _initial_information(
    block: Block, parameters: Parameters, post: Posterior, prior: Prior
) -> Array:
    """``K = a0^2/omega0 + G_0 - D Cov(c_1 | y) D`` summed over paths, or its Gaussian twin."""
    n_paths = len(block.paths)
    if parameters.initial_kind == "deterministic":
        factor = np.exp(-parameters.eigenvalues[:, None] * np.diff(block.times[:2], axis=0))
        d = factor / prior.variance
        own, gram = factor * d, block.gram[0] / parameters.observation_variance
    else:
        d = 1.0 / prior.variance
        own, gram = d, np.zeros((len(d), 1))
    first = post.first_covariance
    known = d * first * d if first.ndim == 2 else d[:, None] * first * d[None]
    # Paths are summed up before a diagonal becomes a matrix: one for each would be large.
    summed = (over_paths(part, n_paths)[..., None] for part in (gram, known, own))
    total, less, more = (as_matrix(part)[..., 0] for part in summed)
    return total - less + more

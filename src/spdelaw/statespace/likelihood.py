"""Log-likelihood of collapsed observations with its exact score."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from spdelaw.data.executors import Executor, LocalExecutor
from spdelaw.processes import operators
from spdelaw.statespace.blocks import (
    apply,
    apply_gram,
    multiply,
    quadratic,
    sandwich,
    transpose,
)
from spdelaw.statespace.chain import (
    Prior,
    StateSpace,
    add_response_score,
    along,
    chain_of,
    gradients,
)
from spdelaw.statespace.collapse import Block, Collapsed
from spdelaw.statespace.posterior import Posterior, over_paths, posterior, step_sums

# ---------- Log-likelihood of collapsed observations with its exact score
#
# For one path with n observed values,
#
#     log p(y) = -1/2 [ n log(2 pi r) + log|S| - log|S_prior| + prior energy + misfit / r ],
#
# both energies taken at the smoothed mean, where they are a sum of squares without cancellation.
# The score follows from the smoother's moments by Fisher's identity. Under a known forcing the
# state is ``c = u + m(Lambda)`` with u the state without it: the data less ``Phi m`` have the
# likelihood of u, and the chain rule adds the share of m in the score by the drift.


Array = np.ndarray


class Evaluation(NamedTuple):
    """Log-likelihood per path and the gradient of its sum.

    Gradients by operators have the shape of the operator, (N,) or (N, N).

    Attributes:
        log_likelihood: (P,).
        by_drift, by_noise: with the initial covariance held.
        by_initial_mean: (N,).
        by_initial_covariance: of its operator.
        by_observation_variance: one number.
        initial_information: ``-d2 log p / d m0 d m0'``, (N, N); constant in ``m0``.
        by_season: by the weights of the seasons, (K,); a zero without them.
        by_mean: by a mean of the law whose start stays where it is, (N,); a zero without one.
    """

    log_likelihood: Array
    by_drift: Array
    by_noise: Array
    by_initial_mean: Array
    by_initial_covariance: Array
    by_observation_variance: float
    initial_information: Array
    by_season: Array = np.zeros(1)
    by_mean: Array = np.zeros(1)


def evaluate_likelihood(
    collapsed: Collapsed, state_space: StateSpace, *, use_misfit: bool = True, threads: int = 1
) -> Evaluation:
    """Likelihood and score of all paths under linear dynamics.

    ``use_misfit=False`` is the likelihood of the collapsed estimates alone: the residual outside
    the modes, be it noise or further modes, then carries no information on the noise.
    """
    with executor_of(collapsed, threads) as executor:
        evaluations = executor.map(evaluate_block, collapsed.blocks, state_space, use_misfit)
    return join_evaluations(
        [block.paths for block in collapsed.facts], evaluations, collapsed.n_paths
    )


@contextlib.contextmanager
def executor_of(collapsed: Collapsed, threads: int) -> Iterator[Executor]:
    """Where the blocks are, or several threads for several blocks."""
    if threads > 1 and len(collapsed.blocks) > 1:
        with ThreadPoolExecutor(threads) as pool:
            yield LocalExecutor(pool.map)
    else:
        yield collapsed.executor


def join_evaluations(paths: list[Array], evaluations: list[Evaluation], n_paths: int) -> Evaluation:
    """Likelihood and score of all paths from those of some at a time."""
    log_likelihood = np.empty(n_paths)
    for some, evaluation in zip(paths, evaluations, strict=True):
        log_likelihood[some] = evaluation.log_likelihood
    sums: list[Any] = [sum(values) for values in zip(*(p[1:] for p in evaluations), strict=True)]
    return Evaluation(log_likelihood, *sums)


def evaluate_block(forced: Block, state_space: StateSpace, use_misfit: bool) -> Evaluation:
    """Likelihood and score of the paths of a block."""
    r = float(state_space.observation_variance)
    block, gram, vector, prior = chain_of(forced, state_space)
    # In units of r: dividing the few numbers of the prior spares a pass over G and b.
    post = posterior(gram, vector, prior.scaled(r), len(block.paths)).scaled(r)
    return score(block, state_space, prior, post, use_misfit)


def score(
    block: Block, state_space: StateSpace, prior: Prior, post: Posterior, use_misfit: bool
) -> Evaluation:
    """Likelihood and score from the posterior of the free states."""
    dynamics, initial = state_space.linear, state_space.initial
    r, n_paths = float(state_space.observation_variance), len(block.paths)
    states = post.mean
    if prior.n_fixed:
        first = np.broadcast_to(initial.mean[:, None] * block.unit, post.mean.shape[1:])
        states = np.concatenate([first[None], post.mean])
    outside, count, volume = density(block, use_misfit)
    by_mean = np.zeros(1) if dynamics.mean is None else _mean_gradient(block, states, prior)
    misfit = outside + _per_path(block, quadratic(block.gram, block.estimate - states))
    energy = _per_path(block, _prior_energy(post.mean, prior)) + misfit / r
    value = -0.5 * (count * np.log(2 * np.pi * r) + post.log_determinant + energy - volume)
    by_r = 0.5 * ((misfit / r**2 - count / r).sum() + post.gram_trace / r)
    sums = step_sums(states, post, prior, n_paths)
    pull = prior.transition.pull_back(*gradients(*sums, prior.transition))
    evaluation = Evaluation(
        value,
        operators.like(dynamics.drift, pull[0]),
        operators.like(dynamics.noise, pull[1]),
        *_initial_gradients(block, state_space, post, prior),
        float(by_r),
        _initial_information(block, state_space, post, prior),
        pull[2],
        by_mean,
    )
    return add_response_score(evaluation, block, dynamics, states, r)


def _mean_gradient(block: Block, states: Array, prior: Prior) -> Array:
    """``sum_t (1 - F)' Omega^-1 (u_{t+1} - F u_t)`` over all paths, (N,)."""
    f, weight = along(prior.factor, prior.which), along(prior.weight, prior.which)
    pulled = apply_gram(weight, states[1:] - apply_gram(f, states[:-1]))
    turned = f if f.ndim == 3 else np.swapaxes(f, 1, 2)
    return np.asarray(((pulled - apply_gram(turned, pulled)) * block.unit).sum((0, 2)))


def _per_path(block: Block, columns: Array) -> Array:
    """Values of columns, path by path; their mean where the paths were rotated."""
    n_paths = len(block.paths)
    return columns if len(columns) == n_paths else np.full(n_paths, columns.sum() / n_paths)


def density(block: Block, use_misfit: bool) -> tuple[Array, Array, Array]:
    """Misfit outside the modes, numbers that have a density, twice its log change of variables.

    Density of ``c_hat`` instead of y: the Gram matrix is the Jacobian of the change.
    """
    if use_misfit:
        return block.misfit, block.n_values, block.log_weight
    return np.zeros(len(block.paths)), block.n_states, block.log_gram


def _prior_energy(mean: Array, prior: Prior) -> Array:
    """``e' V^-1 e`` of the first state and ``sum_t e' Omega^-1 e`` of the steps; (columns,)."""
    first = mean[0] - prior.mean
    first_energy = (first * apply(prior.precision, first)).sum(0)
    if prior.factor.ndim == 3 and prior.factor.shape[-1] == 1:  # one matrix for all steps
        flat = np.ascontiguousarray(np.moveaxis(mean, 1, 0))
        now, then = (x.reshape(len(flat), -1) for x in (flat[:, :-1], flat[:, 1:]))
        gap = then - prior.factor[..., 0] @ now
        squares = (gap * (prior.weight[..., 0] @ gap)).sum(0)
        return first_energy + squares.reshape(-1, mean.shape[-1]).sum(0)
    f, weight = along(prior.factor, prior.free), along(prior.weight, prior.free)
    return first_energy + quadratic(weight, mean[1:] - apply_gram(f, mean[:-1]))


def _initial_gradients(
    block: Block, state_space: StateSpace, post: Posterior, prior: Prior
) -> tuple[Array, Array]:
    """Gradient by ``m0`` and by ``V0``, in its shape."""
    covariance, w = state_space.initial.covariance, prior.precision
    pull = apply(w, post.mean[0] - prior.mean)
    if prior.n_fixed:
        f = prior.factor[..., prior.which[0]]
        at_start = block.estimate[0] - state_space.initial.mean[:, None] * block.unit
        observed = apply_gram(block.gram[0], at_start) / state_space.observation_variance
        by_mean = ((apply(transpose(f), pull) + observed) * block.unit).sum(-1)
        return by_mean, np.zeros_like(covariance)
    n_paths, by_mean = len(block.paths), (pull * block.unit).sum(-1)
    by_spread = over_paths(sandwich(w, post.first_as(prior)) - w, n_paths)
    by_square = (pull**2).sum(-1) if w.ndim == 2 else pull @ pull.T
    return by_mean, operators.like(covariance, 0.5 * (by_square + by_spread))


def _initial_information(
    block: Block, state_space: StateSpace, post: Posterior, prior: Prior
) -> Array:
    """``F' W F + G_0 - D' Cov(c_1 | y) D`` over paths with ``D = W F``, or its Gaussian twin."""
    d = prior_precision = prior.precision
    observed = np.zeros((len(d), 1))
    if prior.n_fixed:
        f = prior.factor[..., prior.which[0]]
        observed = block.gram[0] / state_space.observation_variance
        prior_precision, d = sandwich(transpose(f), d), transpose(multiply(d, f))
    explained = sandwich(d, post.first)
    # Paths are summed up before a diagonal becomes a matrix: one for each would be large.
    sums = (over_paths(term, len(block.paths)) for term in (observed, prior_precision, explained))
    total, more, less = map(operators.as_matrix, sums)
    return total + more - less

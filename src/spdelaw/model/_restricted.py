"""Restricted likelihood: the mean m that all paths share, integrated out under a flat prior.

Given the other parameters the data are linear in m, so with the information ``I`` and the
gradient ``g`` at zero,

    m_hat = I^-1 g,    log p_R = log p(y; m_hat) - 1/2 log|I| + N/2 log 2 pi

(Patterson and Thompson 1971). Maximum likelihood with an estimated mean takes slow modes for
faster ones, because the mean follows the path; the restricted likelihood does not.

The deviation u given m has the mean ``u_bar - K m``, where ``K_t`` solves the chain for the
right-hand sides ``G_t``. Under the posterior of m, N(m_hat, C), second moments of u gain
``K_t C K_s'``, and by Fisher's identity the score is the one at m_hat plus what these add, which is
linear in them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.equation import operators
from spdelaw.model._blocks import apply, as_matrix, transpose
from spdelaw.model._chain import Prior, Sweep, chain_mean, chain_prior, sweep
from spdelaw.model._collapse import Block, Collapsed
from spdelaw.model._forced import without_response
from spdelaw.model._gram import apply_gram
from spdelaw.model._likelihood import Evaluation, evaluate_likelihood
from spdelaw.model._posterior import over_paths
from spdelaw.model._state_space import StateSpace
from spdelaw.model._statistics import Statistics, evaluate_statistics
from spdelaw.model._step_sums import StepSums, gradients, grouped

Array = np.ndarray

#: Directions of the mean with less than this share of the largest information are not seen.
UNSEEN = 1e-12


class Restricted(NamedTuple):
    """Restricted likelihood and score, and the mean given the other parameters.

    Attributes:
        evaluation: as of `evaluate_likelihood`; the total is shared equally by the paths.
        mean: ``m_hat``, (N,).
        covariance: ``C = I^-1``, (N, N); zero in directions that the data do not see.
    """

    evaluation: Evaluation
    mean: Array
    covariance: Array


class Response(NamedTuple):
    """How the deviations of a block answer to the mean.

    Attributes:
        slope: ``K``, (T, N, N, B), or (T, N, B) where all blocks are diagonal; fixed first states
            included.
        information, gradient: of the mean at zero, (N, N) and (N,).
        prior: of the free states.
    """

    slope: Array
    information: Array
    gradient: Array
    prior: Prior


def evaluate_restricted(
    collapsed: Collapsed, state_space: StateSpace, *, use_misfit: bool = True, threads: int = 1
) -> Restricted:
    """Restricted likelihood and score of all paths; a mean of the dynamics is not looked at."""
    bare = state_space._replace(dynamics=state_space.linear.with_mean(None))
    parts = [_response(block, bare) for block in collapsed.blocks]
    mean, covariance, logs = _posterior_of_mean(parts)
    at = state_space._replace(dynamics=state_space.linear.with_mean(mean))
    found = evaluate_likelihood(collapsed, at, use_misfit=use_misfit, threads=threads)
    for block, part in zip(collapsed.blocks, parts, strict=True):
        found = _add_spread(found, block, part, bare, covariance)
    found = found._replace(log_likelihood=found.log_likelihood + logs / collapsed.n_paths)
    return Restricted(_given_mean(found, collapsed, parts, bare, covariance), mean, covariance)


def _posterior_of_mean(parts: list[Response]) -> tuple[Array, Array, float]:
    """``m_hat``, ``C`` and ``-1/2 log|I| + N/2 log 2 pi`` on the directions that are seen."""
    information = np.sum([p.information for p in parts], axis=0)
    gradient = np.sum([p.gradient for p in parts], axis=0)
    return solve_mean(information, gradient)


def solve_mean(information: Array, gradient: Array) -> tuple[Array, Array, float]:
    """The same from information and gradient."""
    scale = np.sqrt(np.maximum(np.diag(information), 1e-300))
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    seen = values > UNSEEN * max(float(values[-1]), 1e-300)
    part = vectors[:, seen] / scale[:, None]
    covariance = (part / values[seen]) @ part.T
    volume = np.log(values[seen]).sum() + 2.0 * np.log(scale).sum()
    logs = 0.5 * (seen.sum() * np.log(2 * np.pi) - volume)
    return covariance @ gradient, covariance, float(logs)


def _response(forced: Block, state_space: StateSpace) -> Response:
    r, initial = float(state_space.observation_variance), state_space.initial
    block = without_response(forced, state_space.linear)
    prior = chain_prior(state_space, block.times)
    prior = prior._replace(mean=prior.mean * block.unit)
    gram = block.gram[prior.n_fixed :] / r
    found = sweep(gram, block.vector[prior.n_fixed :] / r, prior)
    slope, state = _columns(found, gram), chain_mean(found)
    if prior.n_fixed:
        slope = np.concatenate([np.zeros_like(slope[:1]), slope])
        first = np.broadcast_to(initial.mean[:, None] * block.unit, state.shape[1:])
        state = np.concatenate([first[None], state])
    pull = apply_gram(block.gram, block.estimate - state) / r * block.unit
    information = _information(block.gram / r, slope, len(block.paths))
    return Response(slope, information, pull.sum((0, 2)), prior)


def _columns(found: Sweep, gram: Array) -> Array:
    """``K`` of the free states: the chain solved for the columns of ``G``."""
    if found.inverse.ndim == 3:
        return _solved(found, gram)
    full = (
        gram if gram.ndim == 4 else operators.embed(np.moveaxis(gram, 1, -1)).transpose(0, 2, 3, 1)
    )
    n, batch = full.shape[1], found.inverse.shape[-1]
    if batch == 1:
        return _solved(found, full[..., 0])[..., None]
    wide = np.broadcast_to(full, (*full.shape[:3], batch))
    return np.stack([_solved(found, wide[:, :, k]) for k in range(n)], axis=2)


def _solved(found: Sweep, columns: Array) -> Array:
    """``S^-1`` times columns (T, N, X), with the elimination that is there already."""
    vectors = np.array(np.broadcast_to(columns, np.broadcast_shapes(columns.shape, (1, 1, 1))))
    for t in range(1, len(vectors)):
        vectors[t] += apply(found.coupling(t - 1), apply(found.inverse[t - 1], vectors[t - 1]))
    return chain_mean(found._replace(vector=vectors))


def _information(gram: Array, slope: Array, n_paths: int) -> Array:
    """``sum_t G_t (1 - K_t)`` over paths; (N, N)."""
    if slope.ndim == 3:
        return np.diag(over_paths((gram * (1.0 - slope)).sum(0), n_paths))
    left = np.eye(len(slope[0]))[..., None] - slope
    if gram.ndim == 3:
        total = (gram[:, :, None] * left).sum(0)
    else:
        total = np.einsum("tijb,tjkb->ikb", *np.broadcast_arrays(gram, left), optimize=True)
    found = over_paths(total, n_paths)
    return 0.5 * (found + found.T)


# -- what the spread of the mean adds to the score ---------------------------------------------


def _add_spread(
    found: Evaluation, block: Block, part: Response, state_space: StateSpace, covariance: Array
) -> Evaluation:
    dynamics, prior, r = state_space.linear, part.prior, float(state_space.observation_variance)
    n_paths = len(block.paths)
    sums = _spread_sums(part, covariance, n_paths)
    pull = prior.transition.pull_back(*gradients(sums, prior.transition))
    left = np.eye(len(covariance))[..., None] - _full(part.slope)
    spread = np.einsum("tijb,jk,tlkb->tilb", left, covariance, left, optimize=True)
    trace = over_paths(_trace(block.gram, spread), n_paths)
    by_initial = found.by_initial_covariance
    if not prior.n_fixed:
        w = as_matrix(prior.precision)[..., 0]
        first = _full(part.slope[:1])[0]
        grown = over_paths(np.einsum("ijb,jk,lkb->ilb", first, covariance, first), n_paths)
        by_initial = by_initial + operators.like(by_initial, 0.5 * w @ grown @ w)
    return found._replace(
        by_drift=found.by_drift + operators.like(dynamics.drift, pull[0]),
        by_noise=found.by_noise + operators.like(dynamics.noise, pull[1]),
        by_season=found.by_season + pull[2],
        by_initial_covariance=by_initial,
        by_observation_variance=found.by_observation_variance + 0.5 * float(trace) / r**2,
    )


def _full(slope: Array) -> Array:
    """Diagonals (T, N, B) as matrices (T, N, N, B); matrices pass."""
    if slope.ndim == 4:
        return slope
    return operators.embed(np.moveaxis(slope, 1, -1)).transpose(0, 2, 3, 1)


def _trace(gram: Array, spread: Array) -> Array:
    """``sum_t tr(G_t M_t)``; (B,)."""
    if gram.ndim == 3:
        return (gram * np.einsum("tiib->tib", spread)).sum((0, 1))
    return (gram * spread).sum((0, 1, 2))


def _spread_sums(part: Response, covariance: Array, n_paths: int) -> StepSums:
    """``K C K'`` over the steps of each transition, and no steps of their own."""
    k, prior = _full(part.slope), part.prior
    square = np.einsum("tijb,jk,tlkb->tbil", k, covariance, k, optimize=True)
    cross = np.einsum("tijb,jk,tlkb->tbil", k[:-1], covariance, k[1:], optimize=True)
    if prior.precision.ndim == 2:
        square, cross = (np.einsum("tbii->tbi", x) for x in (square, cross))
    which, n = prior.which, len(prior.transition.factor)
    if which.shape[1] == 1:
        count = n_paths if square.shape[1] == 1 else 1
        square, cross, which = count * square.sum(1), count * cross.sum(1), which[:, 0]
    parts = (square[:-1], cross, square[1:])
    flat = (x.reshape(which.size, *x.shape[which.ndim :]) for x in parts)
    return StepSums(np.zeros(n), *(grouped(x, which.ravel(), n) for x in flat))


def _given_mean(
    found: Evaluation, collapsed: Collapsed, parts: list[Response], state_space: StateSpace,
    covariance: Array,
) -> Evaluation:  # fmt: skip
    """Information on the initial mean where the mean is not known: less what they share."""
    shared = np.sum(
        [
            _shared_information(block, part, state_space)
            for block, part in zip(collapsed.blocks, parts, strict=True)
        ],
        axis=0,
    )
    known = shared @ covariance @ shared.T
    return found._replace(initial_information=found.initial_information - known)


def _shared_information(block: Block, part: Response, state_space: StateSpace) -> Array:
    """``-d2 log p / d m0 d m'``; (N, N)."""
    prior, n_paths = part.prior, len(block.paths)
    first = _full(part.slope[prior.n_fixed :][:1])[0]
    w, batch = as_matrix(prior.precision), first.shape[-1]
    w = np.broadcast_to(w, (*w.shape[:2], max(batch, w.shape[-1])))
    pulled = np.einsum("ijb,jkb->ikb", *np.broadcast_arrays(w, first))
    if not prior.n_fixed:
        return over_paths(pulled, n_paths)
    f = as_matrix(transpose(prior.factor[..., prior.which[0]]))
    carried = np.einsum("ijb,jkb->ikb", *np.broadcast_arrays(f, pulled))
    seen = as_matrix(block.gram[0]) / float(state_space.observation_variance)
    return over_paths(carried, n_paths) + over_paths(seen, n_paths)


# -- complete, noise-free paths ------------------------------------------------------------------


def evaluate_restricted_statistics(s: Statistics, state_space: StateSpace) -> Restricted:
    """The same from sufficient statistics: ``e_t = (c_{t+1} - m) - F (c_t - m)``.

    A deterministic initial state is that of the data, given; it says nothing about the mean.
    """
    dynamics, initial = state_space.linear, state_space.initial
    bare = dynamics.with_mean(None)
    step, which = bare.over(s.lengths[0]), s.lengths[1]
    first = s.first - s.n_paths * bare.response(s.times)
    f, omega = (x if x.ndim == 3 else operators.embed(x) for x in (step.factor, step.covariance))
    pull = np.linalg.solve(omega, np.eye(len(initial.mean)) - f)  # Omega^-1 (1 - F)
    counts = s.n_paths * np.bincount(which, minlength=len(f))
    information = np.einsum("u,uji,ujk->ik", counts, np.eye(len(initial.mean)) - f, pull)
    error = first[1:] - np.einsum("tij,tj->ti", f[which], first[:-1])
    gradient = np.einsum("tji,tj->i", pull[which], error)
    if initial.kind != "deterministic":
        weight = np.linalg.inv(operators.as_matrix(initial.covariance))
        information = information + s.n_paths * weight
        gradient = gradient + weight @ (first[0] - s.n_paths * initial.mean)
    mean, covariance, logs = solve_mean(0.5 * (information + information.T), gradient)
    found = evaluate_statistics(s, state_space._replace(dynamics=dynamics.with_mean(mean)))
    spread = covariance if not dynamics.is_diagonal else np.diag(covariance)
    grown = counts.reshape(-1, *(1,) * spread.ndim) * spread
    added = step.pull_back(*gradients(StepSums(np.zeros(len(f)), grown, grown, grown), step))
    found = found._replace(
        log_likelihood=found.log_likelihood + logs,
        by_drift=found.by_drift + operators.like(dynamics.drift, added[0]),
        by_noise=found.by_noise + operators.like(dynamics.noise, added[1]),
    )
    if initial.kind != "deterministic":
        both = s.n_paths * weight
        found = found._replace(
            by_initial_covariance=found.by_initial_covariance
            + operators.like(initial.covariance, 0.5 * s.n_paths * weight @ covariance @ weight),
            initial_information=found.initial_information - both @ covariance @ both,
        )
    return Restricted(found, mean, covariance)

"""Restricted likelihood: the mean m that all paths share, integrated out.

Given the other parameters the data are linear in m, so with the information ``I`` and the
gradient ``g`` at zero,

    m_hat = I^-1 g,    C = I^-1,    log p_R = log p(y; m_hat) + log(volume).

A prior of m gives the volume (Patterson and Thompson 1971):

    flat:               (2 pi)^(N/2) |I|^(-1/2)
    N(m_hat, P):        |1 + P I|^(-1/2)          P = stationary covariance of the law

Maximum likelihood with an estimated mean takes slow modes for faster ones, because the mean follows
the path; the restricted likelihood does not. The flat prior needs a stationary start. Where the
start is known or has a law of its own, ``I`` goes to zero with the decay squared, because a state
that does not decay has no mean, and the flat volume would prefer no decay whatever the data say.
The second is as wide as the law itself; for complete paths it is the very volume that a stationary
start gives the flat one.

The deviation u given m has the mean ``u_bar - K m`` (`spdelaw.model._mean_response`). Under the
posterior of m, N(m_hat, C), second moments of u gain ``K_t C K_s'``, and by Fisher's identity the
score is the one at m_hat plus what these add, which is linear in them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.equation import Linear, operators
from spdelaw.model._blocks import multiply, multiply_grams, sandwich, transpose
from spdelaw.model._collapsed import Collapsed
from spdelaw.model._likelihood import Evaluation, evaluate_likelihood
from spdelaw.model._mean_response import (
    Response,
    response_of,
    response_of_part,
    slopes_link,
)
from spdelaw.model._posterior import over_paths, squares_of
from spdelaw.model._state_space import StateSpace
from spdelaw.model._step_sums import gradients
from spdelaw.model._stitch import heard

Array = np.ndarray
#: Directions of the mean with less than this share of the largest information are not seen.
UNSEEN = 1e-12


def evaluate_restricted(
    collapsed: Collapsed,
    state_space: StateSpace,
    *,
    anchored: bool = False,
    use_misfit: bool = True,
    threads: int = 1,
) -> Evaluation:
    """Restricted likelihood and score of all paths; a mean of the dynamics is not looked at.

    The total is shared equally by the paths; `mean_given` has the mean.

    Args:
        collapsed: observations.
        state_space: the law, whatever its mean.
        anchored: the mean of the initial state is that of the state itself, and not of its
            deviation from m. The prior of m is then as wide as the law, and not flat.
        use_misfit: as of `evaluate_likelihood`.
        threads: likewise.
    """
    bare = state_space._replace(dynamics=state_space.linear.with_mean(None))
    parts = _responses(collapsed, bare, anchored)
    information, gradient = _totals(collapsed, parts)
    mean, covariance, flat = solve_mean(information, gradient)
    log, spread, *through = volume(bare.linear, information, (covariance, flat), anchored)
    at = with_mean(state_space, mean, anchored)
    found = evaluate_likelihood(collapsed, at, use_misfit=use_misfit, threads=threads)
    added = collapsed.place.over(_spread_of, parts, bare, spread)
    total: list[Any] = [sum(part) for part in zip(*added, strict=True)]
    by_drift, by_noise, by_season, by_initial, by_r, shared = total
    return found._replace(
        log_likelihood=found.log_likelihood + log / collapsed.n_paths,
        by_drift=found.by_drift + by_drift + through[0],
        by_noise=found.by_noise + by_noise + through[1],
        by_season=found.by_season + by_season,
        by_initial_covariance=found.by_initial_covariance + by_initial,
        by_observation_variance=found.by_observation_variance + by_r,
        initial_information=found.initial_information - shared @ covariance @ shared.T,
    )


def mean_given(
    collapsed: Collapsed, state_space: StateSpace, *, anchored: bool = False
) -> tuple[Array, Array]:
    """``m_hat`` and ``C`` alone, at a third of the cost."""
    bare = state_space._replace(dynamics=state_space.linear.with_mean(None))
    return solve_mean(*_totals(collapsed, _responses(collapsed, bare, anchored)))[:2]


def with_mean(state_space: StateSpace, mean: Array, anchored: bool) -> StateSpace:
    """The law around a mean; an anchored start stays where it is."""
    dynamics, start = state_space.linear.with_mean(mean), state_space.initial
    if anchored:
        start = start._replace(mean=start.mean - mean)
    return state_space._replace(dynamics=dynamics, initial=start)


def _responses(collapsed: Collapsed, bare: StateSpace, anchored: bool) -> list[Response]:
    """The response of each block, or part of a record, under the law without a mean."""
    place = collapsed.place
    if collapsed.records is None:
        return place.keep(response_of, collapsed.blocks, bare, anchored)
    how = (bare, anchored, collapsed.is_diagonal and bare.is_diagonal)
    return place.keep(response_of_part, heard(collapsed, slopes_link, *how), *how)


def _totals(collapsed: Collapsed, parts: list[Response]) -> tuple[Array, Array]:
    """Information and gradient of the mean from all blocks."""
    found = collapsed.place.over(_about_mean, parts)
    information, gradient = (np.sum(part, axis=0) for part in zip(*found, strict=True))
    return information, gradient


def _about_mean(part: Response) -> tuple[Array, Array]:
    return part.information, part.gradient


# -- what the spread of the mean adds to the score ---------------------------------------------


def _spread_of(part: Response, state_space: StateSpace, covariance: Array) -> tuple[Any, ...]:
    """By drift, noise, season, initial covariance and r, of the response of a block.

    Last, what m shares with the start, (N, N).
    """
    block = part.block
    dynamics, prior, r = state_space.linear, part.prior, float(state_space.observation_variance)
    n_paths = len(block.paths)
    if part.slope.ndim == 3:  # modes apart: each sees its own variance alone
        covariance = np.diag(covariance)
    sums = _spread_sums(part, covariance, n_paths)
    pull = prior.transition.pull_back(*gradients(0.0, sums, prior.transition))
    rows = part.slope[-len(block.gram) :]
    left = 1.0 - rows if rows.ndim == 3 else np.eye(len(covariance))[..., None] - rows
    trace = over_paths(_trace(block.gram, left, operators.root(covariance)), n_paths)
    by_initial = np.zeros_like(state_space.initial.covariance)
    if not prior.n_fixed:
        grown = over_paths(sandwich(part.first, covariance[..., None]), n_paths)
        own = sandwich(prior.precision, grown[..., None])[..., 0]
        by_initial = by_initial + operators.like(by_initial, 0.5 * own)
    return (
        operators.like(dynamics.drift, pull[0]),
        operators.like(dynamics.noise, pull[1]),
        pull[2],
        by_initial,
        0.5 * float(trace) / r**2,
        _shared_information(part, r),
    )


def _trace(gram: Array, left: Array, root: Array) -> Array:
    """``sum_t tr(G_t L_t C L_t')`` with ``C = root root'``; (B,)."""
    turned = _times(left, root)
    return (turned * multiply_grams(gram, turned)).sum(tuple(range(turned.ndim - 1)))


def _times(stack: Array, matrix: Array) -> Array:
    """``stack_t matrix`` for a stack (T, N, N, B); both may be diagonal."""
    if stack.ndim == 3:
        return stack * matrix[:, None]
    if stack.shape[-1] == 1:
        return (stack[..., 0] @ matrix)[..., None]
    return np.einsum("tijb,jk->tikb", stack, matrix, optimize=True)


def _spread_sums(part: Response, covariance: Array, n_paths: int) -> Array:
    """``K C K'`` over the steps of each transition."""
    turned, prior = _times(part.slope, operators.root(covariance)), part.prior
    if prior.which.shape[1] == 1:  # directions of the mean, and paths, are columns of one clock
        count = n_paths if turned.shape[-1] == 1 else 1
        return count * squares_of(turned.reshape(*turned.shape[:2], -1), prior)
    directions = turned[None] if turned.ndim == 3 else np.moveaxis(turned, 2, 0)
    return np.sum([squares_of(x, prior) for x in directions], axis=0)


def _shared_information(part: Response, r: float) -> Array:
    """``-d2 log p / d m0 d m'``; (N, N)."""
    prior, n_paths = part.prior, len(part.block.paths)
    pulled = multiply(prior.precision, part.first)
    if not prior.n_fixed:
        return operators.as_matrix(over_paths(pulled, n_paths))
    carried = multiply(transpose(prior.factor[..., prior.which[0]]), pulled)
    total = operators.as_matrix(over_paths(carried, n_paths))
    if part.carry is not None:
        return total
    return total + operators.as_matrix(over_paths(part.block.gram[0], n_paths) / r)


# -- the mean given all else, and the volume of its prior -----------------------------------------


def solve_mean(information: Array, gradient: Array) -> tuple[Array, Array, float]:
    """``m_hat``, ``C`` and the log of the flat volume, on the directions that are seen."""
    scale = np.sqrt(np.maximum(np.diag(information), 1e-300))
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    seen = values > UNSEEN * max(float(values[-1]), 1e-300)
    part = vectors[:, seen] / scale[:, None]
    covariance = (part / values[seen]) @ part.T
    volume = np.log(values[seen]).sum() + 2.0 * np.log(scale).sum()
    logs = 0.5 * (seen.sum() * np.log(2 * np.pi) - volume)
    return covariance @ gradient, covariance, float(logs)


def volume(
    dynamics: Linear, information: Array, flat: tuple[Array, float], anchored: bool
) -> tuple[float, Array, Array, Array]:
    """Logarithm of a volume, its spread, and its gradient by drift and noise through the prior.

    The spread ``S = (I + prior precision)^-1``, (N, N), is minus twice the gradient by ``I``. By P
    the gradient is ``-1/2 (I - I S I)``.

    Args:
        dynamics: the law.
        information: ``I``, (N, N).
        flat: ``C`` and the log of the flat volume.
        anchored: whether the prior is the one as wide as the law.
    """
    drift, noise = dynamics.drift, dynamics.noise
    if not anchored:
        return flat[1], flat[0], np.zeros_like(drift), np.zeros_like(noise)
    p = operators.stationary_covariance(drift, noise)
    root = operators.root(operators.as_matrix(p))
    inner = np.eye(len(root)) + root @ information @ root
    spread = root @ np.linalg.solve(inner, root)
    by_p = -0.5 * (information - information @ spread @ information)
    own = operators.stationary_pull_back(drift, noise, p, operators.like(p, by_p))
    return -0.5 * float(np.linalg.slogdet(inner)[1]), spread, *own

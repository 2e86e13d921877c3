"""Restricted likelihood: the mean m that all paths share, integrated out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.processes import operators
from spdelaw.processes.linear import Linear, Transition
from spdelaw.statespace.blocks import (
    add,
    apply,
    apply_gram,
    as_matrix,
    in_full,
    multiply,
    multiply_grams,
    sandwich,
    transpose,
)
from spdelaw.statespace.chain import (
    Prior,
    StateSpace,
    chain_of,
    gradients,
    grouped,
    log_likelihood,
)
from spdelaw.statespace.collapse import Block, Collapsed
from spdelaw.statespace.likelihood import (
    Evaluation,
    executor_of,
    join_evaluations,
    score,
)
from spdelaw.statespace.posterior import (
    Posterior,
    is_shared,
    over_paths,
    posterior,
    squares_of,
)
from spdelaw.statespace.statistics import Statistics, evaluate_statistics

# ---------- Response of the deviations of a block to the mean m
#
# The deviation u given m has the mean ``u_bar - K m``, where ``K_t`` solves the chain for the
# right-hand sides ``G_t``, and
#
#     I = sum_t G_t (1 - K_t),    g = sum_t G_t (c_hat_t - u_bar_t)
#
# With an anchored start the state, and not its deviation, has a given mean: the prior of the first
# free state then follows m by A: one, or ``F`` after a fixed state. The right-hand side gains
# ``W A`` there, I gains ``A' W (A - K)`` and g loses ``A' W (u_bar - prior mean)``.


Array = np.ndarray


class Response(NamedTuple):
    """Response of the deviations of a block to the mean.

    Attributes:
        block: the paths, less the response to a forcing.
        posterior: of the free states where the mean is zero.
        slope: ``K``, (T, N, N, B), or (T, N, B) where all blocks are diagonal; fixed first states
            included.
        information, gradient: of the mean at zero, (N, N) and (N,).
        prior: of the free states.
        carry: how far the prior of the first free state follows an anchored start, None without.
    """

    block: Block
    posterior: Posterior
    slope: Array
    information: Array
    gradient: Array
    prior: Prior
    carry: Array | None

    @property
    def first(self) -> Array:
        """``K`` of the first free state, less what its prior follows; a block."""
        slope = self.slope[self.prior.n_fixed]
        return slope if self.carry is None else add(slope, -self.carry)


def response_of(forced: Block, state_space: StateSpace, anchored: bool) -> Response:
    """The response of a block."""
    block, gram, vector, prior = chain_of(forced, state_space)
    r, n_fixed, n_paths = float(state_space.observation_variance), prior.n_fixed, len(block.paths)
    carry, apart = _anchored_carry(prior, anchored), gram.ndim == 3 and prior.precision.ndim == 2
    columns = _columns(gram, prior, carry, r, apart, vector.shape[-1])
    post = posterior(gram, vector, prior.scaled(r), n_paths, columns).scaled(r)
    slope = post.columns if post.columns.ndim == 4 else post.columns[..., None]
    slope, state = slope[:, :, 0] if apart else slope, post.mean
    start_pull = apply(prior.precision, state[0] - prior.mean)
    if n_fixed:
        fixed = np.zeros_like(slope[:1])
        if carry is not None:  # the deviation of an anchored start follows the mean
            fixed += 1.0 if apart else np.eye(slope.shape[1])[..., None]
        slope = np.concatenate([fixed, slope])
        first = np.broadcast_to(state_space.initial.mean[:, None] * block.unit, state.shape[1:])
        state = np.concatenate([first[None], state])
    pull = apply_gram(block.gram, block.estimate - state) / r * block.unit
    information = _information(block.gram, slope, n_paths) / r
    response = Response(block, post, slope, information, pull.sum((0, 2)), prior, carry)
    if carry is None:
        return response
    back = apply(transpose(carry), start_pull) * block.unit
    # A' W (A - K) of the first free state, with A what its prior follows
    start_information = multiply(multiply(transpose(carry), prior.precision), -response.first)
    at_start = operators.as_matrix(over_paths(start_information, n_paths))
    return response._replace(
        information=information + 0.5 * (at_start + at_start.T),
        gradient=pull[n_fixed:].sum((0, 2)) - back.sum(-1),
    )


def _columns(
    gram: Array, prior: Prior, carry: Array | None, r: float, apart: bool, n_paths: int
) -> Array:
    """The columns of ``G`` and the slope of the start in m, as further right-hand sides.

    One where all blocks are diagonal, else N: (T, N, C), or (T, N, C, P) where paths differ.
    """
    columns = gram[:, :, None] if apart else in_full(gram)
    if carry is not None:
        extra = r * multiply(prior.precision, carry)
        first = columns[0] + (extra[:, None] if apart else as_matrix(extra))
        later = np.broadcast_to(columns[1:], (*columns[1:].shape[:-1], first.shape[-1]))
        columns = np.concatenate([first[None], later])
    if is_shared(gram, prior):
        return columns[..., 0]
    return np.broadcast_to(columns, (*columns.shape[:-1], n_paths))


def _anchored_carry(prior: Prior, anchored: bool) -> Array | None:
    """How far the prior of the first free state follows an anchored start; a block.

    ``F`` of the first step after a fixed one, else the identity.
    """
    if not anchored:
        return None
    if prior.n_fixed:
        return prior.factor[..., prior.which[0]]
    one = np.ones((len(prior.mean), 1))
    return one if prior.precision.ndim == 2 else as_matrix(one)


def _information(gram: Array, slope: Array, n_paths: int) -> Array:
    """``sum_t G_t (1 - K_t)`` over paths; (N, N)."""
    left = 1.0 - slope if slope.ndim == 3 else np.eye(slope.shape[1])[..., None] - slope
    if gram.ndim == 4 and gram.shape[-1] == left.shape[-1] == 1:  # one product for all times
        n = gram.shape[1]
        information = n_paths * (gram.reshape(-1, n).T @ left.reshape(-1, n))  # G_t is symmetric
    elif gram.ndim == 4 and gram.shape[-1] == left.shape[-1]:
        information = np.tensordot(gram, left, ((0, 1, 3), (0, 1, 3)))
    else:
        information = operators.as_matrix(over_paths(multiply_grams(gram, left).sum(0), n_paths))
    return 0.5 * (information + information.T)


# ---------- Restricted likelihood: the shared mean m integrated out
#
# Given the other parameters the data are linear in m, so with the information ``I`` and the
# gradient ``g`` at zero,
#
#     m_hat = I^-1 g,    C = I^-1,    log p_R = log p(y; m_hat) + log(volume).
#
# A prior of m gives the volume (Patterson and Thompson 1971):
#
#     flat:               (2 pi)^(N/2) |I|^(-1/2)
#     N(m_hat, P):        |1 + P I|^(-1/2)          P = stationary covariance of the law
#
# Maximum likelihood with an estimated mean takes slow modes for faster ones, because the mean
# follows the path; the restricted likelihood does not. The flat prior needs a stationary start.
# Where the start is known or has a law of its own, ``I`` goes to zero with the decay squared,
# because a state that does not decay has no mean, and the flat volume would prefer no decay
# whatever the data say. The second is as wide as the law itself; for complete paths it is the very
# volume that a stationary start gives the flat one.
#
# The deviation u given m has the mean ``u_bar - K m`` (`spdelaw.statespace.mean`). Under the
# posterior of m, N(m_hat, C), second moments of u gain ``K_t C K_s'``, and by Fisher's identity the
# score is the one at m_hat plus a term that is linear in these.


#: Directions of the mean with less than this share of the largest information are dropped.
UNDETERMINED_SHARE = 1e-12


def evaluate_restricted(
    collapsed: Collapsed,
    state_space: StateSpace,
    *,
    anchored: bool = False,
    farthest: float = np.inf,
    use_misfit: bool = True,
    threads: int = 1,
) -> Evaluation:
    """Restricted likelihood and score of all paths; a mean of the dynamics is ignored.

    The total is shared equally by the paths; `mean_given` has the mean.

    Args:
        collapsed: observations.
        state_space: the law, whatever its mean.
        anchored: the mean of the initial state is that of the state itself, and not of its
            deviation from m. The prior of m is then as wide as the law, and not flat.
        farthest: largest mean; beyond it sums have no digits left, and there is no likelihood.
        use_misfit: as of `evaluate_likelihood`.
        threads: likewise.
    """
    bare = state_space._replace(dynamics=state_space.linear.with_mean(None))
    responses = _responses(collapsed, bare, anchored)
    information, gradient = _mean_information(collapsed, responses)
    mean, covariance, flat = solve_mean(information, gradient)
    _check_distance(mean, farthest)
    log, spread, *through = volume(bare.linear, information, (covariance, flat), anchored)
    arguments = bare, mean, spread, anchored, use_misfit
    with executor_of(collapsed, threads) as executor:
        pairs = executor.map(_evaluate_response, responses, *arguments)
    evaluations, shared = zip(*pairs, strict=True)
    paths = [block.paths for block in collapsed.facts]
    evaluation, both = join_evaluations(paths, list(evaluations), collapsed.n_paths), sum(shared)
    return evaluation._replace(
        log_likelihood=evaluation.log_likelihood + log / collapsed.n_paths,
        by_drift=evaluation.by_drift + through[0],
        by_noise=evaluation.by_noise + through[1],
        initial_information=evaluation.initial_information - both @ covariance @ both.T,
    )


def mean_given(
    collapsed: Collapsed, state_space: StateSpace, *, anchored: bool = False
) -> tuple[Array, Array, Array]:
    """``m_hat``, ``C`` and ``-d2 log p / d m0 d m'`` alone, at a third of the cost."""
    bare = state_space._replace(dynamics=state_space.linear.with_mean(None))
    responses, r = _responses(collapsed, bare, anchored), float(bare.observation_variance)
    shared = np.sum(collapsed.executor.map(_shared_information, responses, r), axis=0)
    return *solve_mean(*_mean_information(collapsed, responses))[:2], shared


def with_mean(state_space: StateSpace, mean: Array, anchored: bool) -> StateSpace:
    """The law around a mean; an anchored start stays where it is."""
    dynamics, start = state_space.linear.with_mean(mean), state_space.initial
    if anchored:
        start = start._replace(mean=start.mean - mean)
    return state_space._replace(dynamics=dynamics, initial=start)


def _responses(collapsed: Collapsed, bare: StateSpace, anchored: bool) -> list[Response]:
    """The response of each block under the law without a mean."""
    return collapsed.executor.map_persist(response_of, collapsed.blocks, bare, anchored)


def _mean_information(collapsed: Collapsed, responses: list[Response]) -> tuple[Array, Array]:
    """Information and gradient of the mean from all blocks."""
    pairs = collapsed.executor.map(_response_terms, responses)
    information, gradient = (np.sum(terms, axis=0) for terms in zip(*pairs, strict=True))
    return information, gradient


def _response_terms(response: Response) -> tuple[Array, Array]:
    return response.information, response.gradient


# -- likelihood around the mean, and the share of its spread in the score --------------------------
def _evaluate_response(
    response: Response,
    bare: StateSpace,
    mean: Array,
    spread: Array,
    anchored: bool,
    use_misfit: bool,
) -> tuple[Evaluation, Array]:
    """Likelihood and score of a block around the mean, and what m shares with the start, (N, N).

    The posterior of the deviations is that of a mean of zero, moved by ``-K m``.
    """
    block, prior, post = response.block, response.prior, response.posterior
    unit_mean, follows = mean[:, None] * block.unit, response.slope[prior.n_fixed :]
    moved = follows * mean[:, None] if follows.ndim == 3 else np.moveaxis(follows, 3, 1) @ mean
    if follows.ndim == 4:
        moved = np.swapaxes(moved, 1, 2)
    prior_mean = prior.mean
    if response.carry is not None:
        prior_mean = prior_mean - apply(response.carry, unit_mean)
    evaluation = score(
        block._replace(estimate=block.estimate - unit_mean),
        bare._replace(initial=with_mean(bare, mean, anchored).initial),
        prior._replace(mean=prior_mean),
        post._replace(mean=post.mean - moved * block.unit),
        use_misfit,
    )
    r = float(bare.observation_variance)
    return _with_spread(evaluation, response, spread, r), _shared_information(response, r)


def _with_spread(evaluation: Evaluation, response: Response, spread: Array, r: float) -> Evaluation:
    """The evaluation with the share of a spread S of the mean in the score.

    Second moments of the deviations gain ``K_t S K_s'``, and with the prior energy Q of these

        sum_t tr(G_t (1 - K_t) S (1 - K_t)') / r = tr(I S) - Q.
    """
    prior, n_paths = response.prior, len(response.block.paths)
    observed = float((response.information * spread).sum())
    if response.slope.ndim == 3:  # modes apart: each sees its own variance alone
        spread = np.diag(spread)
    step, sums = prior.transition, _spread_sums(response, spread, n_paths)
    pull = step.pull_back(*gradients(0.0, sums, step))
    energy = -2.0 * log_likelihood(np.zeros(len(step.factor)), sums, step)
    by_initial = evaluation.by_initial_covariance
    if not prior.n_fixed:
        grown = over_paths(sandwich(response.first, spread[..., None]), n_paths)
        by_covariance = sandwich(prior.precision, grown[..., None])[..., 0]
        by_initial = by_initial + operators.like(by_initial, 0.5 * by_covariance)
        start = map(operators.as_matrix, (prior.precision[..., 0], grown))
        energy += float(np.multiply(*start).sum())
    by_drift, by_noise = evaluation.by_drift, evaluation.by_noise
    return evaluation._replace(
        by_drift=by_drift + operators.like(by_drift, pull[0]),
        by_noise=by_noise + operators.like(by_noise, pull[1]),
        by_season=evaluation.by_season + pull[2],
        by_initial_covariance=by_initial,
        by_observation_variance=evaluation.by_observation_variance + 0.5 * (observed - energy) / r,
    )


def _multiply_stack(stack: Array, matrix: Array) -> Array:
    """``stack_t matrix`` for a stack (T, N, N, B); both may be diagonal."""
    if stack.ndim == 3:
        return stack * matrix[:, None]
    if stack.shape[-1] == 1:
        return (stack.reshape(-1, len(matrix)) @ matrix).reshape(stack.shape)
    return np.einsum("tijb,jk->tikb", stack, matrix, optimize=True)


def _spread_sums(response: Response, covariance: Array, n_paths: int) -> Array:
    """``K C K'`` over the steps of each transition."""
    turned, prior = _multiply_stack(response.slope, operators.root(covariance)), response.prior
    if prior.which.shape[1] == 1:  # directions of the mean, and paths, are columns of one clock
        count = n_paths if turned.shape[-1] == 1 else 1
        return count * squares_of(turned.reshape(*turned.shape[:2], -1), prior)
    directions = turned[None] if turned.ndim == 3 else np.moveaxis(turned, 2, 0)
    return np.sum([squares_of(x, prior) for x in directions], axis=0)


def _shared_information(response: Response, r: float) -> Array:
    """``-d2 log p / d m0 d m'``; (N, N)."""
    prior, n_paths = response.prior, len(response.block.paths)
    pulled = multiply(prior.precision, response.first)
    if not prior.n_fixed:
        return operators.as_matrix(over_paths(pulled, n_paths))
    carried = multiply(transpose(prior.factor[..., prior.which[0]]), pulled)
    total = operators.as_matrix(over_paths(carried, n_paths))
    if response.carry is not None:
        return total
    return total + operators.as_matrix(over_paths(response.block.gram[0], n_paths) / r)


# -- the mean given all else, and the volume of its prior -----------------------------------------
def solve_mean(information: Array, gradient: Array) -> tuple[Array, Array, float]:
    """``m_hat``, ``C`` and the log of the flat volume, on the determined directions.

    A mode without decay has no information on its mean: what rounding leaves there is dropped.
    """
    is_informed = np.diag(information) > 0
    scale = np.sqrt(np.where(is_informed, np.diag(information), 1.0))
    unit = np.where(np.outer(is_informed, is_informed), information / np.outer(scale, scale), 0.0)
    values, vectors = np.linalg.eigh(unit)
    determined = values > UNDETERMINED_SHARE * max(float(values[-1]), 1e-300)
    directions = vectors[:, determined] / scale[:, None]
    covariance = (directions / values[determined]) @ directions.T
    volume = np.log(values[determined]).sum() + 2.0 * np.log(scale).sum()
    logs = 0.5 * (determined.sum() * np.log(2 * np.pi) - volume)
    return covariance @ gradient, covariance, float(logs)


def _check_distance(mean: Array, farthest: float) -> None:
    if not (np.abs(mean) <= farthest).all():
        raise np.linalg.LinAlgError("a mean too far from the data for sums of squares")


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
    through_prior = operators.stationary_pull_back(drift, noise, p, operators.like(p, by_p))
    return -0.5 * float(np.linalg.slogdet(inner)[1]), spread, *through_prior


# ---------- Restricted likelihood of complete, noise-free paths
#
# With ``e_t = (c_{t+1} - m) - F (c_t - m)`` the sum over steps is quadratic in m:
#
#     I = sum (1 - F)' Omega^-1 (1 - F),    g = sum (1 - F)' Omega^-1 (c_{t+1} - F c_t)
#
# A deterministic initial state is that of the data, given; it carries no information on the mean,
# and neither does an anchored one, whose mean is that of the state. Any other adds its own
# precision.


def evaluate_restricted_statistics(
    s: Statistics, state_space: StateSpace, *, anchored: bool = False, farthest: float = np.inf
) -> Evaluation:
    """Restricted likelihood and score, as `evaluate_restricted` from sufficient statistics."""
    dynamics = state_space.linear
    information, gradient, step, weight = _statistics_about_mean(s, state_space, anchored)
    mean, covariance, flat = solve_mean(information, gradient)
    _check_distance(mean, farthest)
    log, spread, *through = volume(dynamics, information, (covariance, flat), anchored)
    each = np.diag(spread) if dynamics.is_diagonal else spread
    evaluation = evaluate_statistics(s, with_mean(state_space, mean, anchored), each, step)
    evaluation = evaluation._replace(
        log_likelihood=evaluation.log_likelihood + log,
        by_drift=evaluation.by_drift + through[0],
        by_noise=evaluation.by_noise + through[1],
    )
    if weight is None:
        return evaluation
    both = s.n_paths * weight  # information that the first states share with the mean
    by_initial = evaluation.by_initial_covariance
    return evaluation._replace(
        by_initial_covariance=by_initial
        + operators.like(by_initial, 0.5 * both @ spread @ both / s.n_paths),
        initial_information=evaluation.initial_information - both @ covariance @ both,
    )


def mean_given_statistics(
    s: Statistics, state_space: StateSpace, *, anchored: bool = False
) -> tuple[Array, Array, Array]:
    """``m_hat``, its covariance and ``-d2 log p / d m0 d m'`` alone."""
    information, gradient, _, weight = _statistics_about_mean(s, state_space, anchored)
    shared = np.zeros_like(information) if weight is None else s.n_paths * weight
    return *solve_mean(information, gradient)[:2], shared


def mean_gradient_statistics(s: Statistics, state_space: StateSpace, *, anchored: bool) -> Array:
    """``d log p / dm`` of a law around its mean, (N,)."""
    information, gradient = _statistics_about_mean(s, state_space, anchored)[:2]
    return np.asarray(gradient - information @ state_space.linear.mean)


def _statistics_about_mean(
    s: Statistics, state_space: StateSpace, anchored: bool
) -> tuple[Array, Array, Transition, Array | None]:
    """Information and gradient of the mean at zero, transitions, precision of a first state.

    The last is None where the first state carries no information.
    """
    bare, initial = state_space.linear.with_mean(None), state_space.initial
    step, which = bare.over(s.lengths[0]), s.lengths[1]
    start, first = s.first[0], s.first_steps
    if bare.forcing is not None:
        driven = s.first - s.n_paths * bare.response(s.times)
        start, n = driven[0], len(s.lengths[0])
        first = grouped(driven[:-1], which, n), grouped(driven[1:], which, n)
    counts = s.n_paths * np.bincount(which, minlength=len(step.factor))
    information, gradient = _step_information(step, counts, first)
    if initial.kind == "deterministic" or anchored:
        return information, gradient, step, None
    weight = np.linalg.inv(operators.as_matrix(initial.covariance))
    information = information + s.n_paths * weight
    gradient = gradient + weight @ (start - s.n_paths * initial.mean)
    return 0.5 * (information + information.T), gradient, step, weight


def _step_information(
    step: Transition, counts: Array, first: tuple[Array, Array]
) -> tuple[Array, Array]:
    """``sum (1 - F)' Omega^-1 (1 - F)`` and ``sum (1 - F)' Omega^-1 (c_{t+1} - F c_t)``.

    ``first`` are the sums of ``c_t`` and of ``c_{t+1}`` over the steps of each transition.
    """
    f, omega = step.factor, step.covariance
    if f.ndim == omega.ndim == 2:
        pull = (1.0 - f) / omega
        information = np.diag(counts @ (pull * (1.0 - f)))
        return information, (pull * (first[1] - f * first[0])).sum(0)
    f, omega = (x if x.ndim == 3 else operators.embed(x) for x in (f, omega))
    left = np.eye(f.shape[-1]) - f
    pull = np.linalg.solve(omega, left)  # Omega^-1 (1 - F)
    information = np.einsum("u,uji,ujk->ik", counts, left, pull)
    error = first[1] - np.einsum("uij,uj->ui", f, first[0])
    return 0.5 * (information + information.T), np.einsum("uji,uj->i", pull, error)

"""Log-likelihood of collapsed observations with its exact score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from spdelaw.data.executors import LocalExecutor
from spdelaw.processes import operators
from spdelaw.statespace.blocks import (
    add,
    apply,
    apply_gram,
    as_matrix,
    in_full,
    invert,
    multiply,
    quadratic,
    sandwich,
    transpose,
)
from spdelaw.statespace.chain import (
    Chain,
    Prior,
    StateSpace,
    add_response_score,
    along,
    chain_of,
    gradients,
)
from spdelaw.statespace.collapse import Block, Collapsed
from spdelaw.statespace.posterior import Posterior, over_paths, posterior, step_sums

# ---------- Long records in parts, condensed to the states at their ends
#
# A part has the states ``x = c_{s-1}`` before it and ``c_s, ..., c_e`` of its own. Its inner states
# ``c_s, ..., c_{e-1}`` have the precision S and meet the ends by ``D_l`` and ``D_r``. To integrate
# them out leaves a function of ``x`` and ``z = c_e`` alone,
#
#     A = F' Omega^-1 F - D_l' S^-1 D_l,    C = D_r S^-1 D_l,    B = G_e + Omega^-1 - D_r S^-1 D_r',
#
# precisions of x and z and minus the coupling between them. The ends of all parts are a block
# tridiagonal chain again, as short as there are parts. Its elimination from the left gives the
# information of all earlier parts on x, that from the right the information of all later ones on z;
# with these two in the place of a prior and of one more observation, the posterior of a part is
# that of the whole record. Nothing is approximated: only the order of elimination differs.
#
# All precisions are in units of the observation variance, as in `spdelaw.statespace.likelihood`.


Array = np.ndarray

#: Rows of a part, at least: one inner state is left when the first is fixed and the last an end.
FEWEST_ROWS = 3


class Link(NamedTuple):
    """A part as a function of the states at its ends.

    Attributes:
        left: ``A``, (N, 1) or (N, N, 1); without meaning in the first part, which begins by its
            prior, as are the coupling and the vector of that side.
        coupling: ``C``, likewise.
        right: ``B``.
        left_vector, right_vector: pull of the observations on the ends, (N, columns).
        log_determinant: of the precision of the inner states, (1,).
    """

    left: Array
    coupling: Array
    right: Array
    left_vector: Array
    right_vector: Array
    log_determinant: Array

    @property
    def turned(self) -> Link:
        """The same with its ends exchanged."""
        ends = self.right, transpose(self.coupling), self.left
        return Link(*ends, self.right_vector, self.left_vector, self.log_determinant)


#: Information on the state at an end: its precision, and a vector (N, columns).
EndInformation = tuple[Array, Array]


class Message(NamedTuple):
    """Information of the other parts on the state before a part and on its last; zeros if none.

    ``log_determinant`` is that of the whole record, (1,), and stands with the first part.
    """

    before: EndInformation
    after: EndInformation
    log_determinant: Array


def condense(chain: Chain, r: float) -> Link:
    """The part with its inner states integrated out, ``r`` the observation variance."""
    block, gram, vector, prior = chain
    prior, k = prior.scaled(r), len(block.before)
    if prior.precision.ndim == 3:
        gram = in_full(gram)
    prior_blocks, d = prior.diagonal_blocks(), along(prior.coupling, prior.free)
    inner = gram[k:-1].copy()
    inner[-1] = add(inner[-1], prior.pull[..., prior.free[-1]])
    apart = gram.ndim == 3
    left, right = _as_columns(d[0], apart), _as_columns(transpose(d[-1]), apart)
    sides = np.zeros((len(inner), len(left), 2 * left.shape[1]))
    sides[-1, :, left.shape[1] :] = right
    if k:
        sides[0, :, : left.shape[1]] = left
    vectors = np.concatenate([vector[k:-1], sides], axis=-1)
    solved = posterior(inner, vectors, _inner_prior(prior, k), 1)
    first, last = apply(transpose(d[0]), solved.mean[0]), apply(d[-1], solved.mean[-1])
    n, m = vector.shape[-1], left.shape[1]
    return Link(
        add(prior_blocks[0], -_as_block(first[:, n : n + m], apart)),
        _as_block(last[:, n : n + m], apart),
        add(add(gram[-1], prior_blocks[-1]), -_as_block(last[:, n + m :], apart)),
        first[:, :n],
        vector[-1] + last[:, :n],
        solved.log_determinant,
    )


def _inner_prior(prior: Prior, n_before: int) -> Prior:
    """Prior of the inner states: those of a later part follow the state before it."""
    first = prior.weight[..., prior.free[0]] if n_before else prior.precision
    return prior._replace(
        precision=first,
        which=prior.free[n_before:-1],
        n_fixed=0,
        log_determinant=np.zeros(1),
    )


def _as_columns(d: Array, apart: bool) -> Array:
    """A block as columns of a right-hand side: one where all blocks are diagonal, else N."""
    return d if apart else as_matrix(d)[..., 0]


def _as_block(columns: Array, apart: bool) -> Array:
    return columns if apart else columns[..., None]


def stitch(links: Sequence[Link]) -> list[Message]:
    """The message to each part, from the chain over the ends of all parts."""
    nothing = [(np.zeros_like(x.right), np.zeros_like(x.right_vector)) for x in links]
    before, after = nothing[:1], nothing[-1:]
    information, logs = (
        (links[0].right, links[0].right_vector),
        sum(x.log_determinant for x in links),
    )
    for link in links[1:]:
        before.append(information)
        information, log = _pass_message(link, information)
        logs = logs + log
    logs = logs + invert(information[0])[1]
    for link in links[:0:-1]:
        after.insert(0, _pass_message(link.turned, after[0])[0])
    later = [logs, *(np.zeros_like(logs) for _ in links[1:])]
    return list(map(Message, before, after, later))


def _pass_message(link: Link, information: EndInformation) -> tuple[EndInformation, Array]:
    """Information on the right end of a part, its left one integrated out, and ``log |.|``."""
    inverse, log = invert(add(information[0], link.left))
    precision = add(link.right, -sandwich(link.coupling, inverse))
    pulled = apply(link.coupling, apply(inverse, information[1] + link.left_vector))
    return (precision, link.right_vector + pulled), log


def parts_with_messages(collapsed: Collapsed, link: Callable, *parameters: Any) -> list[list[Any]]:
    """Each part of long records with the message of the others; ``link`` condenses a part."""
    links = collapsed.by_record(collapsed.over_rows(link, *parameters))
    messages = [message for record in links for message in stitch(record)]
    return [list(pair) for pair in zip(collapsed.parts, messages, strict=True)]


def informed(chain: Chain, message: Message) -> Chain:
    """The chain of a part with the message of the other parts at its ends."""
    block, gram, vector, prior = chain
    is_wider = gram.ndim == 3 and any(x[0].ndim == 3 for x in message[:2])
    gram, vector = in_full(gram) if is_wider else gram.copy(), vector.copy()
    for t, (precision, pulled) in ((0, message.before), (-1, message.after)):
        gram[t] = add(gram[t], precision)
        vector[t] += pulled
    return block, gram, vector, prior


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
    """

    log_likelihood: Array
    by_drift: Array
    by_noise: Array
    by_initial_mean: Array
    by_initial_covariance: Array
    by_observation_variance: float
    initial_information: Array
    by_season: Array = np.zeros(1)


def evaluate_likelihood(
    collapsed: Collapsed, state_space: StateSpace, *, use_misfit: bool = True, threads: int = 1
) -> Evaluation:
    """Likelihood and score of all paths under linear dynamics.

    ``use_misfit=False`` is the likelihood of the collapsed estimates alone: the residual outside
    the modes, be it noise or further modes, then carries no information on the noise.
    """
    if collapsed.records is not None:
        pairs = parts_with_messages(
            collapsed, link_of, state_space
        )  # two passes over the parts of each
        part_evaluations = collapsed.executor.map(evaluate_part, pairs, state_space, use_misfit)
        evaluations = [
            Evaluation(*(sum(values) for values in zip(*of_record, strict=True)))
            for of_record in collapsed.by_record(part_evaluations)
        ]
    elif threads > 1 and len(collapsed.blocks) > 1:
        with ThreadPoolExecutor(threads) as pool:
            evaluations = LocalExecutor(pool.map).map(
                evaluate_block, collapsed.blocks, state_space, use_misfit
            )
    else:
        evaluations = collapsed.map(evaluate_block, state_space, use_misfit)
    return join_evaluations(
        [block.paths for block in collapsed.facts], evaluations, collapsed.n_paths
    )


def join_evaluations(paths: list[Array], evaluations: list[Evaluation], n_paths: int) -> Evaluation:
    """Likelihood and score of all paths from those of some at a time."""
    log_likelihood = np.empty(n_paths)
    for some, evaluation in zip(paths, evaluations, strict=True):
        log_likelihood[some] = evaluation.log_likelihood
    sums: list[Any] = [sum(values) for values in zip(*(p[1:] for p in evaluations), strict=True)]
    return Evaluation(log_likelihood, *sums)


def link_of(block: Block, state_space: StateSpace) -> Link:
    """A part condensed to its ends."""
    return condense(chain_of(block, state_space), float(state_space.observation_variance))


def evaluate_part(pair: list, state_space: StateSpace, use_misfit: bool) -> Evaluation:
    """Share of a part in the likelihood and score of its record, given the other parts."""
    part, message = pair
    block, gram, vector, prior = informed(chain_of(part, state_space), message)
    r, n_paths = float(state_space.observation_variance), len(block.paths)
    scaled, n = prior.scaled(r), len(prior.mean) * len(block.before)
    solved = posterior(gram, vector, scaled, n_paths)
    # The share of the part in trace and determinant: the state before counts with the part before.
    logs = message.log_determinant + scaled.log_determinant + n * np.log(r)
    post = solved._replace(gram_trace=solved.gram_trace - n * n_paths, log_determinant=logs)
    return score(block, state_space, prior, post.scaled(r), use_misfit)


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
    """Likelihood and score from the posterior of the free states.

    These may begin with one state before the rows of the block (`spdelaw.statespace.likelihood`).
    """
    dynamics, initial = state_space.linear, state_space.initial
    r, n_paths = float(state_space.observation_variance), len(block.paths)
    states = post.mean
    if prior.n_fixed:
        first = np.broadcast_to(initial.mean[:, None] * block.unit, post.mean.shape[1:])
        states = np.concatenate([first[None], post.mean])
    mean = states[-len(block.gram) :]
    outside, count, volume = density(block, use_misfit)
    misfit = outside + _per_path(block, quadratic(block.gram, block.estimate - mean))
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
    )
    return add_response_score(evaluation, block, dynamics, mean, r)


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

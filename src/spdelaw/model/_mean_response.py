"""How the deviations of a block of paths answer to the mean m of the law.

The deviation u given m has the mean ``u_bar - K m``, where ``K_t`` solves the chain for the
right-hand sides ``G_t``, and

    I = sum_t G_t (1 - K_t),    g = sum_t G_t (c_hat_t - u_bar_t)

With an anchored start the state, and not its deviation, has a given mean: the prior of the first
free state then follows m by A: one, or ``F`` after a fixed state. The right-hand side gains
``W A`` there, I gains ``A' W (A - K)`` and g loses ``A' W (u_bar - prior mean)``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.equation import operators
from spdelaw.model._blocks import (
    add,
    apply,
    apply_gram,
    as_matrix,
    in_full,
    multiply,
    multiply_grams,
    transpose,
)
from spdelaw.model._chain import Chain, Prior, chain_mean, chain_of, sweep
from spdelaw.model._collapsed import Block
from spdelaw.model._posterior import is_shared, over_paths, solve_shared
from spdelaw.model._state_space import StateSpace
from spdelaw.model._stitch import Link, condense, informed

Array = np.ndarray


class Response(NamedTuple):
    """How the deviations of a block answer to the mean.

    Attributes:
        block: the paths, less the response to a forcing.
        slope: ``K``, (T, N, N, B), or (T, N, B) where all blocks are diagonal; fixed first states
            included.
        information, gradient: of the mean at zero, (N, N) and (N,).
        prior: of the free states.
        carry: how far the prior of the first free state follows an anchored start, None without.
    """

    block: Block
    slope: Array
    information: Array
    gradient: Array
    prior: Prior
    carry: Array | None

    @property
    def first(self) -> Array:
        """``K`` of the first free state, less what its prior follows; a block."""
        own = self.slope[self.prior.n_fixed]
        return own if self.carry is None else add(own, -self.carry)


def response_of(block: Block, state_space: StateSpace, anchored: bool) -> Response:
    """The response of a block."""
    chain = chain_of(block, state_space)
    how = state_space, anchored, chain[1].ndim == 3 and chain[3].precision.ndim == 2
    return _response(_with_slopes(chain, *how), *how)


def slopes_link(part: Block, state_space: StateSpace, anchored: bool, apart: bool) -> Link:
    """A part of a record condensed to its ends, with the right-hand sides of ``K``.

    ``apart`` where all blocks of all parts are diagonal.
    """
    chain = _with_slopes(chain_of(part, state_space), state_space, anchored, apart)
    return condense(chain, float(state_space.observation_variance))


def response_of_part(pair: list, state_space: StateSpace, anchored: bool, apart: bool) -> Response:
    """`response_of` a part of a record, given what the other parts say of its ends.

    ``K`` of a later part begins with the state before it.
    """
    part, message = pair
    chain = _with_slopes(chain_of(part, state_space), state_space, anchored, apart)
    return _response(informed(chain, message), state_space, anchored, apart)


def _with_slopes(chain: Chain, state_space: StateSpace, anchored: bool, apart: bool) -> Chain:
    """The chain with the columns of ``G`` and what m moves at the start, to be solved for.

    One where all blocks are diagonal, else N: beside the data, (T, N, P + C), or with those of each
    path where paths differ, (T, N, 1 + C, P).
    """
    block, gram, vector, prior = chain
    columns = gram[:, :, None] if apart else in_full(gram)
    if (carry := _carried(block, prior, anchored)) is not None:
        extra = state_space.observation_variance * multiply(prior.precision, carry)
        first = columns[0] + (extra[:, None] if apart else as_matrix(extra))
        later = np.broadcast_to(columns[1:], (*columns[1:].shape[:-1], first.shape[-1]))
        columns = np.concatenate([first[None], later])
    if is_shared(gram, prior):
        return block, gram, np.concatenate([vector, columns[..., 0]], axis=-1), prior
    every = np.broadcast_to(columns, (*columns.shape[:-1], vector.shape[-1]))
    return block, gram, np.concatenate([vector[:, :, None], every], axis=2), prior


def _carried(block: Block, prior: Prior, anchored: bool) -> Array | None:
    """How far the prior of the first free state follows an anchored start; a block.

    ``F`` of the first step after a fixed one, else the identity.
    """
    if not anchored or len(block.before):
        return None
    if prior.n_fixed:
        return prior.factor[..., prior.which[0]]
    one = np.ones((len(prior.mean), 1))
    return one if prior.precision.ndim == 2 else as_matrix(one)


def _response(chain: Chain, state_space: StateSpace, anchored: bool, apart: bool) -> Response:
    """The response from a chain with slopes: ``K``, ``u_bar``, and what follows from them."""
    block, gram, sides, prior = chain
    n_fixed, n_paths, n_columns = prior.n_fixed, len(block.paths), block.estimate.shape[-1]
    r, carry = float(state_space.observation_variance), _carried(block, prior, anchored)
    scaled = prior.scaled(r)
    if is_shared(gram, prior) and (gram.ndim == 4 or prior.precision.ndim == 3):
        found = solve_shared(gram, sides, scaled, crosses=False).mean
    else:
        inverse, vectors, _ = sweep(gram, sides, scaled)
        found = chain_mean(inverse, vectors, scaled)
    if found.ndim == 4:
        slope, state = found[:, :, 1:], found[:, :, 0]
    else:
        slope, state = found[..., n_columns:, None], found[..., :n_columns]
    slope = slope[:, :, 0] if apart else slope
    start_pull = apply(prior.precision, state[0] - prior.mean)
    if n_fixed:
        fixed = np.zeros_like(slope[:1])
        if carry is not None:  # the deviation of an anchored start follows the mean
            fixed += 1.0 if apart else np.eye(slope.shape[1])[..., None]
        slope = np.concatenate([fixed, slope])
        first = np.broadcast_to(state_space.initial.mean[:, None] * block.unit, state.shape[1:])
        state = np.concatenate([first[None], state])
    rows = slice(-len(block.gram), None)
    pull = apply_gram(block.gram, block.estimate - state[rows]) / r * block.unit
    information = _information(block.gram / r, slope[rows], n_paths)
    part = Response(block, slope, information, pull.sum((0, 2)), prior, carry)
    if carry is None:
        return part
    back = apply(transpose(carry), start_pull) * block.unit
    # A' W (A - K) of the first free state, with A what its prior follows
    own = multiply(multiply(transpose(carry), prior.precision), -part.first)
    at_start = operators.as_matrix(over_paths(own, n_paths))
    return part._replace(
        information=information + 0.5 * (at_start + at_start.T),
        gradient=pull[n_fixed:].sum((0, 2)) - back.sum(-1),
    )


def _information(gram: Array, slope: Array, n_paths: int) -> Array:
    """``sum_t G_t (1 - K_t)`` over paths; (N, N)."""
    left = 1.0 - slope if slope.ndim == 3 else np.eye(slope.shape[1])[..., None] - slope
    if gram.ndim == 4 and gram.shape[-1] == left.shape[-1] == 1:  # one product for all times
        found = n_paths * np.tensordot(gram[..., 0], left[..., 0], ((0, 2), (0, 1)))
    else:
        found = operators.as_matrix(over_paths(multiply_grams(gram, left).sum(0), n_paths))
    return 0.5 * (found + found.T)

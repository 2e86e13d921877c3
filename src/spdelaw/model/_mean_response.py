"""How the deviations of a block of paths answer to the mean m of the law.

The deviation u given m has the mean ``u_bar - K m``, where ``K_t`` solves the chain for the
right-hand sides ``G_t``, and

    I = sum_t G_t (1 - K_t),    g = sum_t G_t (c_hat_t - u_bar_t)

With an anchored start the state, and not its deviation, has a given mean: the prior of the first
free state then follows m by A: one, or ``F`` after a fixed state. The right-hand side gains
``W A`` there, I gains ``A' W (A - K)`` and g loses ``A' W (u_bar - prior mean)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from spdelaw.equation import operators
from spdelaw.model._blocks import add, apply, apply_gram, as_matrix, in_full, multiply, transpose
from spdelaw.model._chain import Prior, Sweep, chain_mean, chain_prior, sweep
from spdelaw.model._collapse import Block
from spdelaw.model._forced import without_response
from spdelaw.model._posterior import is_shared, over_paths, solve_shared
from spdelaw.model._state_space import StateSpace
from spdelaw.model._stitch import Chain, Link, Part, chain_of, condense, informed, posterior_of

Array = np.ndarray
#: Of a block with columns: `apply` or `multiply`.
Product = Callable[[Array, Array], Array]


class Response(NamedTuple):
    """How the deviations of a block answer to the mean.

    Attributes:
        slope: ``K``, (T, N, N, B), or (T, N, B) where all blocks are diagonal; fixed first states
            included.
        information, gradient: of the mean at zero, (N, N) and (N,).
        prior: of the free states.
        carry: how far the prior of the first free state follows an anchored start, None without.
    """

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


def response_of(forced: Block, state_space: StateSpace, anchored: bool) -> Response:
    r = float(state_space.observation_variance)
    block = without_response(forced, state_space.linear)
    prior = chain_prior(state_space, block.times)
    prior = prior._replace(mean=prior.mean * block.unit)
    carry = _carried(prior) if anchored else None
    gram, vector = block.gram[prior.n_fixed :] / r, block.vector[prior.n_fixed :] / r
    slope, state = _slope_and_state(gram, vector, prior, carry)
    return _from_states(block, state_space, prior, carry, slope, state)


def slopes_link(part: Part, state_space: StateSpace, anchored: bool, apart: bool) -> Link:
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
    r, own = float(state_space.observation_variance), chain_of(part, state_space)
    chain = informed(_with_slopes(own, state_space, anchored, apart), message)
    found = posterior_of(chain, r, message.log_determinant).mean
    n = own.vector.shape[-1]
    state, slope = found[..., :n], found[..., n:]
    carry = _carried(own.prior) if anchored and not own.n_before else None
    slope = slope if apart else slope[..., None]
    return _from_states(own.block, state_space, own.prior, carry, slope, state)


def _with_slopes(chain: Chain, state_space: StateSpace, anchored: bool, apart: bool) -> Chain:
    """The chain with the columns of ``G`` beside its vector: one where all blocks are diagonal."""
    columns = chain.gram if apart else in_full(chain.gram)[..., 0]
    if anchored and not chain.n_before:
        r, prior = float(state_space.observation_variance), chain.prior
        extra = r * multiply(prior.precision, _carried(prior))
        first = columns[:1] + (extra if apart else as_matrix(extra)[..., 0])
        columns = np.concatenate([first, columns[1:]])
    return chain._replace(vector=np.concatenate([chain.vector, columns], axis=-1))


def _from_states(
    block: Block,
    state_space: StateSpace,
    prior: Prior,
    carry: Array | None,
    slope: Array,
    state: Array,
) -> Response:
    """Information and gradient from ``K`` and ``u_bar`` of the free states."""
    r, initial = float(state_space.observation_variance), state_space.initial
    start_pull = None if carry is None else apply(prior.precision, state[0] - prior.mean)
    if prior.n_fixed:
        slope = np.concatenate([_fixed_slope(slope, carry is not None), slope])
        first = np.broadcast_to(initial.mean[:, None] * block.unit, state.shape[1:])
        state = np.concatenate([first[None], state])
    rows = slice(-len(block.gram), None)
    pull = apply_gram(block.gram, block.estimate - state[rows]) / r * block.unit
    information = _information(block.gram / r, slope[rows], len(block.paths))
    if carry is None or start_pull is None:
        return Response(slope, information, pull.sum((0, 2)), prior, None)
    back = apply(transpose(carry), start_pull) * block.unit
    gradient = pull[prior.n_fixed :].sum((0, 2)) - back.sum(-1)
    part = Response(slope, information, gradient, prior, carry)
    own = _start_information(part.first, carry, prior, len(block.paths))
    return part._replace(information=information + own)


def _slope_and_state(
    gram: Array, vector: Array, prior: Prior, carry: Array | None
) -> tuple[Array, Array]:
    """``K`` and ``u_bar`` of the free states."""
    if is_shared(gram, prior) and (gram.ndim == 4 or prior.precision.ndim == 3):
        # One system: the columns of G stand beside the data, what m moves at the start in the mean.
        n, n_paths = vector.shape[1:]
        full = gram[..., 0] if gram.ndim == 4 else operators.embed(gram[..., 0])
        start = np.zeros((n, n)) if carry is None else as_matrix(carry)[..., 0]
        mean = np.hstack([np.broadcast_to(prior.mean, (n, n_paths)), start])
        columns = np.concatenate([vector, full], axis=-1)
        found = solve_shared(gram, columns, prior._replace(mean=mean), crosses=False).mean
        return found[..., n_paths:, None], found[..., :n_paths]
    swept = sweep(gram, vector, prior)
    extra = None if carry is None else multiply(prior.precision, carry)
    return _columns(swept, gram, extra), chain_mean(swept)


def _carried(prior: Prior) -> Array:
    """``F`` of the first step after a fixed start, else the identity; a block."""
    if prior.n_fixed:
        return prior.factor[..., prior.which[0]]
    one = np.ones((len(prior.mean), 1))
    return one if prior.precision.ndim == 2 else as_matrix(one)


def _fixed_slope(slope: Array, anchored: bool) -> Array:
    """``K`` of a fixed first state, whose deviation follows the mean where it is anchored."""
    out = np.zeros_like(slope[:1])
    if anchored:
        out += np.eye(slope.shape[1])[None, ..., None] if slope.ndim == 4 else 1.0
    return out


def _start_information(first: Array, carry: Array, prior: Prior, n_paths: int) -> Array:
    """``A' W (A - K)`` of the first free state, with A what its prior follows; (N, N)."""
    pull = multiply(transpose(carry), prior.precision)
    found = operators.as_matrix(over_paths(multiply(pull, -first), n_paths))
    return 0.5 * (found + found.T)


def _columns(found: Sweep, gram: Array, extra: Array | None) -> Array:
    """``K`` of the free states: the chain solved for the columns of ``G``, and more at its head."""
    if found.inverse.ndim == 3:
        return _solved(found, gram if extra is None else _with_first(gram, extra), apply)
    full = in_full(gram)
    if extra is not None:
        full = _with_first(full, as_matrix(extra))
    batch = found.inverse.shape[-1]
    return _solved(found, np.broadcast_to(full, (*full.shape[:3], batch)), multiply)


def _with_first(columns: Array, extra: Array) -> Array:
    batch = max(columns.shape[-1], extra.shape[-1])
    out = np.array(np.broadcast_to(columns, (*columns.shape[:-1], batch)))
    out[0] += extra
    return out


def _solved(found: Sweep, columns: Array, product: Product) -> Array:
    """``S^-1`` times columns (T, N, X) or (T, N, N, B), with the elimination that is there."""
    out, inverse = np.array(columns), found.inverse
    for t in range(1, len(out)):
        out[t] += product(found.coupling(t - 1), product(inverse[t - 1], out[t - 1]))
    out[-1] = product(inverse[-1], out[-1])
    for t in range(len(out) - 2, -1, -1):
        back = product(transpose(found.coupling(t)), out[t + 1])
        out[t] = product(inverse[t], out[t] + back)
    return out


def _information(gram: Array, slope: Array, n_paths: int) -> Array:
    """``sum_t G_t (1 - K_t)`` over paths; (N, N)."""
    if slope.ndim == 3:
        return np.diag(over_paths((gram * (1.0 - slope)).sum(0), n_paths))
    left = np.eye(len(slope[0]))[..., None] - slope
    if gram.ndim == 3:
        total = (gram[:, :, None] * left).sum(0)
    elif gram.shape[-1] == left.shape[-1] == 1:
        total = np.tensordot(gram[..., 0], left[..., 0], ((0, 2), (0, 1)))[..., None]
    else:
        total = np.einsum("tijb,tjkb->ikb", *np.broadcast_arrays(gram, left), optimize=True)
    found = over_paths(total, n_paths)
    return 0.5 * (found + found.T)

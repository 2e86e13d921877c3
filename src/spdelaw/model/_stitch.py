"""One long record in parts of times: each condensed to its ends, the ends a chain, then back.

A part has the states ``x = c_{s-1}`` before it and ``c_s, ..., c_e`` of its own. Its inner states
``c_s, ..., c_{e-1}`` have the precision S and meet the ends by ``D_l`` and ``D_r``. To integrate
them out leaves a function of ``x`` and ``z = c_e`` alone,

    A = F' Omega^-1 F - D_l' S^-1 D_l,    C = D_r S^-1 D_l,    B = G_e + Omega^-1 - D_r S^-1 D_r',

precisions of x and z and minus what stands between them. The ends of all parts are a block
tridiagonal chain again, as short as there are parts. Its elimination from the left gives what all
earlier parts say of x, that from the right what all later ones say of z; with these two in
the place of a prior and of one more observation, the posterior of a part is that of the whole
record. Nothing is approximated: only the order of elimination differs.

All precisions are in units of the observation variance, as in `spdelaw.model._likelihood`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spdelaw.equation import InitialState
from spdelaw.model._blocks import add, apply, as_matrix, in_full, invert, sandwich, transpose
from spdelaw.model._chain import Prior, along, chain_prior
from spdelaw.model._collapse import Block
from spdelaw.model._forced import without_response
from spdelaw.model._posterior import Posterior, posterior
from spdelaw.model._state_space import StateSpace

Array = np.ndarray

#: Rows of a part, at least: one inner state is left when the first is fixed and the last an end.
FEWEST_ROWS = 3


class Part(NamedTuple):
    """Times of a record that follow one another; all its paths share their pattern.

    Attributes:
        block: the observations.
        before: time of the row before the first, None where there is none.
    """

    block: Block
    before: float | None


class Link(NamedTuple):
    """A part as a function of the states at its ends.

    Attributes:
        left: ``A``, (N, 1) or (N, N, 1); without meaning in the first part, which begins by its
            prior, as are the coupling and the vector of that side.
        coupling: ``C``, likewise.
        right: ``B``.
        left_vector, right_vector: what the observations pull the ends by, (N, columns).
        log_determinant: of the precision of the inner states, (1,).
    """

    left: Array
    coupling: Array
    right: Array
    left_vector: Array
    right_vector: Array
    log_determinant: Array


class Message(NamedTuple):
    """What the other parts say of the ends of one: precisions with vectors (N, columns).

    ``log_determinant`` is that of the whole record, (1,), and stands with the first part.
    """

    before: Array | None
    before_vector: Array | None
    after: Array
    after_vector: Array
    log_determinant: Array


class Chain(NamedTuple):
    """A part as a chain of free states; those of later parts begin with the state before it.

    Attributes:
        block: the observations, less the response to mean and forcing.
        gram, vector: of the states, (T, ..., 1) and (T, N, columns); the pull of the initial mean
            is part of the vector.
        prior: of the states, in the units of the data; flat for a state before.
        n_before: 1 where the state before is the first one, else 0.
    """

    block: Block
    gram: Array
    vector: Array
    prior: Prior
    n_before: int


def chain_of(part: Part, state_space: StateSpace) -> Chain:
    """The chain of a part by itself."""
    block = without_response(part.block, state_space.linear)
    if part.before is None:
        prior = chain_prior(state_space, block.times)
        n, r = prior.n_fixed, float(state_space.observation_variance)
        gram, vector = block.gram[n:], block.vector[n:].copy()
        vector[0] += r * apply(prior.precision, prior.mean)
    else:
        prior = _flat_prior(state_space, np.concatenate([[[part.before]], block.times]))
        gram = np.concatenate([np.zeros_like(block.gram[:1]), block.gram])
        vector = np.concatenate([np.zeros_like(block.vector[:1]), block.vector])
    if gram.ndim == 3 and prior.precision.ndim == 3:
        gram = in_full(gram)
    return Chain(block, gram, vector, prior, int(part.before is not None))


def _flat_prior(state_space: StateSpace, times: Array) -> Prior:
    """Steps alone: the first state has no prior of its own."""
    n = state_space.n_modes
    unit = np.ones(n) if state_space.is_diagonal else np.eye(n)
    prior = chain_prior(state_space._replace(initial=_any_state(unit)), times)
    return prior._replace(precision=np.zeros_like(prior.precision))


def _any_state(covariance: Array) -> InitialState:
    return InitialState("gaussian", np.zeros(len(covariance)), covariance)


def condense(chain: Chain, r: float) -> Link:
    """The part with its inner states integrated out, ``r`` the observation variance."""
    prior, k = chain.prior.scaled(r), chain.n_before
    own, d = prior.own(), along(prior.coupling, prior.free)
    gram = chain.gram[k:-1].copy()
    gram[-1] = add(gram[-1], prior.pull[..., prior.free[-1]])
    apart = gram.ndim == 3
    left, right = _columns(d[0], apart), _columns(transpose(d[-1]), apart)
    sides = np.zeros((len(gram), len(left), 2 * left.shape[1]))
    sides[-1, :, left.shape[1] :] = right
    if k:
        sides[0, :, : left.shape[1]] = left
    vectors = np.concatenate([chain.vector[k:-1], sides], axis=-1)
    found = posterior(gram, vectors, _inner(prior, k), 1)
    first, last = apply(transpose(d[0]), found.mean[0]), apply(d[-1], found.mean[-1])
    n, m = chain.vector.shape[-1], left.shape[1]
    return Link(
        add(own[0], -_block(first[:, n : n + m], apart)),
        _block(last[:, n : n + m], apart),
        add(add(chain.gram[-1], own[-1]), -_block(last[:, n + m :], apart)),
        first[:, :n],
        chain.vector[-1] + last[:, :n],
        found.log_determinant,
    )


def _inner(prior: Prior, n_before: int) -> Prior:
    """Prior of the inner states: those of a later part follow the state before it."""
    first = prior.weight[..., prior.free[0]] if n_before else prior.precision
    return prior._replace(
        precision=first,
        mean=np.zeros_like(prior.mean),
        which=prior.free[n_before:-1],
        n_fixed=0,
        log_determinant=np.zeros(1),
    )


def _columns(d: Array, apart: bool) -> Array:
    """A block as columns of a right-hand side: one where all blocks are diagonal, else N."""
    return d if apart else as_matrix(d)[..., 0]


def _block(columns: Array, apart: bool) -> Array:
    return columns if apart else columns[..., None]


def stitch(links: Sequence[Link]) -> list[Message]:
    """The chain over the ends of all parts: what each part hears from the others."""
    before: list[tuple[Array | None, Array | None]] = [(None, None)]
    precision, vector = links[0].right, links[0].right_vector
    logs = np.sum([link.log_determinant for link in links], axis=0)
    for link in links[1:]:
        before.append((precision, vector))
        inverse, log = invert(add(precision, link.left))
        logs = logs + log
        pulled = apply(inverse, vector + link.left_vector)
        precision = add(link.right, -sandwich(link.coupling, inverse))
        vector = link.right_vector + apply(link.coupling, pulled)
    logs = logs + invert(precision)[1]
    after = [(np.zeros_like(links[-1].right), np.zeros_like(links[-1].right_vector))]
    for link in links[:0:-1]:
        precision, vector = after[0]
        inverse, _ = invert(add(link.right, precision))
        pulled = apply(inverse, link.right_vector + vector)
        back = transpose(link.coupling)
        after.insert(0, (
            add(link.left, -sandwich(back, inverse)), link.left_vector + apply(back, pulled)
        ))  # fmt: skip
    return [
        Message(*early, *late, logs if k == 0 else np.zeros(1))
        for k, (early, late) in enumerate(zip(before, after, strict=True))
    ]


def informed(chain: Chain, message: Message) -> Chain:
    """The chain of a part with what the other parts say of its ends."""
    gram, vector = chain.gram, chain.vector.copy()
    said = [x for x in (message.before, message.after) if x is not None]
    is_wider = gram.ndim == 3 and any(x.ndim == 3 for x in said)
    gram = in_full(gram) if is_wider else gram.copy()
    gram[-1] = add(gram[-1], message.after)
    vector[-1] += message.after_vector
    if message.before is not None:
        gram[0] = add(gram[0], message.before)
        vector[0] += message.before_vector
    return chain._replace(gram=gram, vector=vector)


def posterior_of(chain: Chain, r: float, log_determinant: Array) -> Posterior:
    """Posterior of an informed chain, with the share of its part in trace and determinant."""
    prior, n = chain.prior.scaled(r), len(chain.prior.mean) * chain.n_before
    bare, n_paths = prior._replace(mean=np.zeros_like(prior.mean)), len(chain.block.paths)
    found = posterior(chain.gram, chain.vector, bare, n_paths)
    # The state before counts with the part before.
    logs = log_determinant + prior.log_determinant + n * np.log(r)
    trace = found.gram_trace - n * n_paths
    return found._replace(gram_trace=trace, log_determinant=logs).scaled(r)

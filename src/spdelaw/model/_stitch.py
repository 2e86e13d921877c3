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

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from spdelaw.model._blocks import add, apply, as_matrix, in_full, invert, sandwich, transpose
from spdelaw.model._chain import Chain, Prior, along
from spdelaw.model._collapsed import Collapsed
from spdelaw.model._posterior import posterior

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
        left_vector, right_vector: what the observations pull the ends by, (N, columns).
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


#: What is said of the state at an end: its precision, and a vector (N, columns).
Said = tuple[Array, Array]


class Message(NamedTuple):
    """What the other parts say of the state before one and of its last state; nothing is zeros.

    ``log_determinant`` is that of the whole record, (1,), and stands with the first part.
    """

    before: Said
    after: Said
    log_determinant: Array


def condense(chain: Chain, r: float) -> Link:
    """The part with its inner states integrated out, ``r`` the observation variance."""
    block, gram, vector, prior = chain
    prior, k = prior.scaled(r), len(block.before)
    if prior.precision.ndim == 3:
        gram = in_full(gram)
    own, d = prior.own(), along(prior.coupling, prior.free)
    inner = gram[k:-1].copy()
    inner[-1] = add(inner[-1], prior.pull[..., prior.free[-1]])
    apart = gram.ndim == 3
    left, right = _columns(d[0], apart), _columns(transpose(d[-1]), apart)
    sides = np.zeros((len(inner), len(left), 2 * left.shape[1]))
    sides[-1, :, left.shape[1] :] = right
    if k:
        sides[0, :, : left.shape[1]] = left
    vectors = np.concatenate([vector[k:-1], sides], axis=-1)
    found = posterior(inner, vectors, _inner(prior, k), 1)
    first, last = apply(transpose(d[0]), found.mean[0]), apply(d[-1], found.mean[-1])
    n, m = vector.shape[-1], left.shape[1]
    return Link(
        add(own[0], -_block(first[:, n : n + m], apart)),
        _block(last[:, n : n + m], apart),
        add(add(gram[-1], own[-1]), -_block(last[:, n + m :], apart)),
        first[:, :n],
        vector[-1] + last[:, :n],
        found.log_determinant,
    )


def _inner(prior: Prior, n_before: int) -> Prior:
    """Prior of the inner states: those of a later part follow the state before it."""
    first = prior.weight[..., prior.free[0]] if n_before else prior.precision
    return prior._replace(
        precision=first,
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
    nothing = [(np.zeros_like(x.right), np.zeros_like(x.right_vector)) for x in links]
    before, after = nothing[:1], nothing[-1:]
    said, logs = (links[0].right, links[0].right_vector), sum(x.log_determinant for x in links)
    for link in links[1:]:
        before.append(said)
        said, log = _beyond(link, said)
        logs = logs + log
    logs = logs + invert(said[0])[1]
    for link in links[:0:-1]:
        after.insert(0, _beyond(link.turned, after[0])[0])
    later = [logs, *(np.zeros_like(logs) for _ in links[1:])]
    return list(map(Message, before, after, later))


def _beyond(link: Link, said: Said) -> tuple[Said, Array]:
    """What is said of the right end of a part, its left one integrated out, and ``log |.|``."""
    inverse, log = invert(add(said[0], link.left))
    precision = add(link.right, -sandwich(link.coupling, inverse))
    pulled = apply(link.coupling, apply(inverse, said[1] + link.left_vector))
    return (precision, link.right_vector + pulled), log


def heard(collapsed: Collapsed, link: Callable, *parameters: Any) -> list[list[Any]]:
    """Each part of long records with what the others say of its ends; ``link`` condenses a part."""
    links = collapsed.by_record(collapsed.over_rows(link, *parameters))
    said = [message for record in links for message in stitch(record)]
    return [list(pair) for pair in zip(collapsed.parts, said, strict=True)]


def informed(chain: Chain, message: Message) -> Chain:
    """The chain of a part with what the other parts say of its ends."""
    block, gram, vector, prior = chain
    is_wider = gram.ndim == 3 and any(x[0].ndim == 3 for x in message[:2])
    gram, vector = in_full(gram) if is_wider else gram.copy(), vector.copy()
    for t, (precision, pulled) in ((0, message.before), (-1, message.after)):
        gram[t] = add(gram[t], precision)
        vector[t] += pulled
    return block, gram, vector, prior

"""Mean and covariance of a semilinear equation over a step, by Gaussian closure.

For ``dc = (-lambda c + F(c)) dt + dW``, ``Cov dW = q dt``, a Gaussian with mean m and covariance P
stays one to the order of the closure, and

    m' = -lambda m + E F(c),     P' = (J - lambda) P + P (J - lambda)' + q,     J = E dF/dc,
    C' = C (J - lambda)'         with C the covariance of the state at the start with c.

The means are exact for polynomials. All three are ``U' = -rate U + N(U)`` with diagonal rates
``lambda_i``, ``lambda_i + lambda_j`` and ``lambda_j``: one exponential Runge-Kutta step of order 4
advances them together (`_exponential`); `_closure_gradient` has its exact gradients.

Arrays have a batch of states first: m (B, N), P and C (B, N, N).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import numpy as np

from spdelaw.equation._exponential import STAGES, Weights, combine, weights
from spdelaw.equation._polynomial import Means, Polynomial, derivative
from spdelaw.equation._terms import Reaction

Array = np.ndarray


class Moments(NamedTuple):
    """Mean (B, N), covariance (B, N, N) and, where asked for, cross-covariance (B, N, N)."""

    mean: Array
    covariance: Array
    cross: Array | None = None


class Rules(NamedTuple):
    """Weights of a step for mean, covariance and cross-covariance."""

    mean: Weights
    covariance: Weights
    cross: Weights


@dataclasses.dataclass(frozen=True, eq=False)
class Closure:
    """Numbers of a semilinear equation, ready to move Gaussians.

    Attributes:
        reaction: terms on the modes.
        coefficients: ``theta``, (n_terms,).
        rates: ``lambda``, (N,); may be negative.
        noise: ``q``, (N,).
    """

    reaction: Reaction
    coefficients: Array
    rates: Array
    noise: Array
    _known_rules: dict[float, Rules] = dataclasses.field(
        default_factory=dict, repr=False, init=False
    )

    @functools.cached_property
    def total(self) -> Polynomial:
        """``f = sum_t theta_t g_t``."""
        return self.reaction.total(self.coefficients)

    @functools.cached_property
    def first(self) -> dict[int, Polynomial]:
        """``d f / d a_j``."""
        return {j: derivative(self.total, j) for j in self.reaction.features}

    @functools.cached_property
    def second(self) -> dict[tuple[int, int], Polynomial]:
        """``d2 f / d a_j d a_k`` for all j, k."""
        every = self.reaction.features
        return {(j, k): derivative(self.first[j], k) for j in every for k in every}

    @functools.cached_property
    def third(self) -> dict[tuple[int, int, int], Polynomial]:
        """``d3 f / d a_i d a_j d a_k`` for all i and each pair (j, k) that matters."""
        every, pairs = self.reaction.features, self.reaction.pairs
        return {(i, j, k): derivative(self.second[j, k], i) for i in every for j, k in pairs}

    def rules(self, h: Array | float) -> Rules:
        """Weights of a step, or of one step per batch entry (B,), for m, P and C."""
        lam, h = self.rates, np.asarray(h, float)
        pairs = lam[:, None] + lam[None, :]
        if h.ndim == 0:
            if float(h) not in self._known_rules:
                one = weights(lam, h)
                self._known_rules[float(h)] = Rules(one, weights(pairs, h), one)
            return self._known_rules[float(h)]
        square = h[:, None, None]
        return Rules(weights(lam, h[:, None]), weights(pairs, square), weights(lam[None], square))


class Stage(NamedTuple):
    """What the pull-back of one stage needs."""

    covariance: Array | None
    cross: Array | None
    means: Means
    jacobian: Array | None


class SubStep(NamedTuple):
    """One sub-step: where it started, the slopes of its stages, and their records."""

    rules: Rules
    start: tuple[Array, Array | None, Array | None]
    slopes: tuple[list[Array], list[Array], list[Array]]
    stages: list[Stage]


Tape = list[SubStep]


def advance(
    closure: Closure, mean: Array, covariance: Array | None, dt: Array | float, n_steps: int = 1,
    cross: bool = False,
) -> tuple[Moments, Tape]:  # fmt: skip
    """Moments after ``dt`` by ``n_steps`` equal steps.

    Args:
        closure: the equation.
        mean: (B, N).
        covariance: (B, N, N); None for states that are known.
        dt: one for all, or (B,).
        n_steps: sub-steps.
        cross: whether to carry the covariance of the start with the end.

    Returns:
        The moments, and what `pull_back` needs.
    """
    rules = closure.rules(np.asarray(dt, float) / n_steps)
    linked = covariance if cross else None
    tape: Tape = []
    for _ in range(n_steps):
        mean, covariance, linked, step = _advance(closure, rules, mean, covariance, linked)
        tape.append(step)
    if covariance is None:
        covariance = np.zeros((*mean.shape, mean.shape[1]))
    return Moments(mean, covariance, linked), tape


def _advance(
    closure: Closure, rules: Rules, m: Array, p: Array | None, c: Array | None
) -> tuple[Array, Array, Array | None, SubStep]:
    one, two, three = rules
    slopes: tuple[list[Array], list[Array], list[Array]] = ([], [], [])
    stages: list[Stage] = []
    # A known start has no covariance to multiply; zero keeps the weights' shapes.
    zero = np.zeros((1, 1, 1)) if p is None else p
    for i in range(STAGES):
        at = combine(one, i, m, slopes[0]) if i else m
        spread = combine(two, i, zero, slopes[1]) if i else p
        linked = combine(three, i, c, slopes[2]) if i and c is not None else c
        stage, found = _slope(closure, at, spread, linked)
        stages.append(stage)
        for keep, value in zip(slopes, found, strict=True):
            keep.append(value)
    end = combine(one, STAGES, m, slopes[0])
    wide = combine(two, STAGES, zero, slopes[1])
    last = None if c is None else combine(three, STAGES, c, slopes[2])
    return end, wide, last, SubStep(rules, (m, p, c), slopes, stages)


def _slope(
    closure: Closure, m: Array, p: Array | None, c: Array | None
) -> tuple[Stage, tuple[Array, Array, Array]]:
    """``E F``, ``J P + P J' + q`` and ``C J'``."""
    r, n = closure.reaction, m.shape[1]
    flat = None if p is None else p.reshape(-1, n * n)
    spread = {} if flat is None else {k: flat @ s.T for k, s in r.covariance_products.items()}
    means = Means(r.at_points(m), spread)
    shape = (len(m), len(r.analysis))
    drift = np.broadcast_to(means.of(closure.total), shape) @ r.analysis
    noise = np.diag(closure.noise)
    if p is None:
        return Stage(None, c, means, None), (drift, noise[None], np.zeros((1, 1, 1)))
    jacobian = np.zeros((len(m), n, n))
    for j, products in r.jacobian_products.items():
        jacobian += (np.broadcast_to(means.of(closure.first[j]), shape) @ products).reshape(
            -1, n, n
        )
    growth = jacobian @ p
    turned = np.zeros((1, 1, 1)) if c is None else c @ jacobian.transpose(0, 2, 1)
    spreading = growth + growth.transpose(0, 2, 1) + noise
    return Stage(p, c, means, jacobian), (drift, spreading, turned)

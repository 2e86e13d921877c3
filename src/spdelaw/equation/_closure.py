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


#: Mean, covariance, None where a state is known, and cross-covariance where it is carried.
State = tuple[Array, Array | None, Array | None]
#: Weights of a step for each of the three.
Rules = tuple[Weights, Weights, Weights]


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
    _known_rules: dict[float, Rules] = dataclasses.field(default_factory=dict, init=False)

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
                self._known_rules[float(h)] = (one, weights(pairs, h), one)
            return self._known_rules[float(h)]
        square = h[:, None, None]
        return weights(lam, h[:, None]), weights(pairs, square), weights(lam[None], square)


class Stage(NamedTuple):
    """What the pull-back of one stage needs: its state, means at the points, and ``J``."""

    state: State
    means: Means
    jacobian: Array | None


class SubStep(NamedTuple):
    """One sub-step: where it started, the slopes of its stages, and their records."""

    rules: Rules
    start: State
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
    state: State = (mean, covariance, covariance if cross else None)
    tape: Tape = []
    for _ in range(n_steps):
        step = SubStep(rules, state, ([], [], []), [])
        for i in range(STAGES):
            stage, found = _slope(closure, state_at(step, i))
            step.stages.append(stage)
            for slopes, slope in zip(step.slopes, found, strict=True):
                slopes.append(slope)
        state = state_at(step, STAGES)
        tape.append(step)
    m, p, c = state
    return Moments(m, np.zeros((*m.shape, m.shape[1])) if p is None else p, c), tape


def state_at(step: SubStep, stage: int) -> State:
    """Mean, covariance and cross-covariance at a stage, or at the end of the step."""
    if stage == 0:
        return step.start
    m, p, c = step.start
    # A known start has no covariance to multiply; zero keeps the weights' shapes.
    start = (m, np.zeros((1, 1, 1)) if p is None else p, c)
    moments = zip(step.rules, start, step.slopes, strict=True)
    return tuple(u if u is None else combine(w, stage, u, slopes) for w, u, slopes in moments)  # type: ignore[return-value]


def _slope(closure: Closure, state: State) -> tuple[Stage, tuple[Array, Array, Array]]:
    """``E F``, ``J P + P J' + q`` and ``C J'``."""
    r, (m, p, c), nothing = closure.reaction, state, np.zeros((1, 1, 1))
    n_batch, n = m.shape
    flat = None if p is None else p.reshape(-1, n * n)
    spread = {} if flat is None else {k: flat @ s.T for k, s in r.covariance_products.items()}
    means = Means(r.at_points(m), spread)
    drift, noise = r.project(means.of(closure.total), (n_batch,)), np.diag(closure.noise)
    if p is None:
        return Stage(state, means, None), (drift, noise[None], nothing)
    jacobian = np.zeros((n_batch, n, n))
    for j, products in r.jacobian_products.items():
        slope = np.broadcast_to(means.of(closure.first[j]), (n_batch, len(products)))
        jacobian += (slope @ products).reshape(-1, n, n)
    growth = jacobian @ p
    spreading = growth + growth.transpose(0, 2, 1) + noise
    turned = nothing if c is None else c @ jacobian.transpose(0, 2, 1)
    return Stage(state, means, jacobian), (drift, spreading, turned)

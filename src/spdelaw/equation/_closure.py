"""Mean and covariance of a semilinear equation over a step, by Gaussian closure.

For ``dc = (-lambda c + F(c)) dt + dW``, ``Cov dW = q dt``, a Gaussian with mean m and covariance P
stays one to the order of the closure, and

    m' = -lambda m + E F(c),     P' = (J - lambda) P + P (J - lambda)' + q,     J = E dF/dc,
    C' = C (J - lambda)'         with C the covariance of the state at the start with c.

The means are exact for polynomials. All three are ``U' = -rate U + N(U)`` with diagonal rates
``lambda_i``, ``lambda_i + lambda_j`` and ``lambda_j``: one exponential Runge-Kutta step of order 4
advances them together (`_exponential`), and its pull-back gives exact gradients.

Arrays have a batch of states first: m (B, N), P and C (B, N, N).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import numpy as np

from spdelaw.equation._exponential import STAGES, Weights, combine, combine_rate, weights
from spdelaw.equation._polynomial import Means, Polynomial, derivative
from spdelaw.equation._terms import Reaction

Array = np.ndarray


class Moments(NamedTuple):
    """Mean (B, N), covariance (B, N, N) and, where asked for, cross-covariance (B, N, N)."""

    mean: Array
    covariance: Array
    cross: Array | None = None


class Pulled(NamedTuple):
    """Gradients by what a step starts from, (B, N) and (B, N, N), and by its parameters.

    Attributes:
        rate: by ``lambda``, (B, N).
        noise: by ``q``, (B, N).
        coefficient: by ``theta``, (B, n_terms).
    """

    mean: Array
    covariance: Array
    rate: Array
    noise: Array
    coefficient: Array


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


class _Stage(NamedTuple):
    """What the pull-back of one stage needs."""

    covariance: Array | None
    cross: Array | None
    means: Means
    jacobian: Array | None


class _Step(NamedTuple):
    """One sub-step: where it started, the slopes of its stages, and their records."""

    rules: Rules
    start: tuple[Array, Array | None, Array | None]
    slopes: tuple[list[Array], list[Array], list[Array]]
    stages: list[_Stage]


Tape = list[_Step]


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
) -> tuple[Array, Array, Array | None, _Step]:
    one, two, three = rules
    slopes: tuple[list[Array], list[Array], list[Array]] = ([], [], [])
    stages: list[_Stage] = []
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
    return end, wide, last, _Step(rules, (m, p, c), slopes, stages)


def _slope(
    closure: Closure, m: Array, p: Array | None, c: Array | None
) -> tuple[_Stage, tuple[Array, Array, Array]]:
    """``E F``, ``J P + P J' + q`` and ``C J'``."""
    r, n = closure.reaction, m.shape[1]
    flat = None if p is None else p.reshape(-1, n * n)
    spread = {} if flat is None else {k: flat @ s.T for k, s in r.covariance_products.items()}
    means = Means(r.at_points(m), spread)
    shape = (len(m), len(r.analysis))
    drift = np.broadcast_to(means.of(closure.total), shape) @ r.analysis
    noise = np.diag(closure.noise)
    if p is None:
        return _Stage(None, c, means, None), (drift, noise[None], np.zeros((1, 1, 1)))
    jacobian = np.zeros((len(m), n, n))
    for j, products in r.jacobian_products.items():
        jacobian += (np.broadcast_to(means.of(closure.first[j]), shape) @ products).reshape(
            -1, n, n
        )
    growth = jacobian @ p
    turned = np.zeros((1, 1, 1)) if c is None else c @ jacobian.transpose(0, 2, 1)
    spreading = growth + growth.transpose(0, 2, 1) + noise
    return _Stage(p, c, means, jacobian), (drift, spreading, turned)


def pull_back(closure: Closure, tape: Tape, by: Moments) -> Pulled:
    """Gradients by the start and the parameters from gradients by the moments at the end.

    Args:
        closure: the same that `advance` had.
        tape: its second result.
        by: gradient by mean, covariance (symmetric) and, where there is one, cross-covariance.
    """
    n_batch, n = by.mean.shape
    rate, noise = np.zeros((n_batch, n)), np.zeros((n_batch, n))
    theta = np.zeros((n_batch, len(closure.coefficients)))
    m, p, c = by
    for step in reversed(tape):
        m, p, c = _pull_step(closure, step, m, p, c, rate, noise, theta)
    if c is not None:  # the cross-covariance starts as the covariance
        p = p + 0.5 * (c + c.transpose(0, 2, 1))
    return Pulled(m, p, rate, noise, theta)


def _pull_step(
    closure: Closure, step: _Step, m: Array, p: Array, c: Array | None, rate: Array, noise: Array,
    theta: Array,
) -> tuple[Array, Array, Array | None]:  # fmt: skip
    """Gradients at the end of a sub-step become those at its start; parameters are added to."""
    (one, two, three), start, slopes = step.rules, step.start, step.slopes
    by_m: list[Array] = [np.zeros(1)] * STAGES
    by_p: list[Array] = [np.zeros(1)] * STAGES
    by_c: list[Array] = [np.zeros(1)] * STAGES
    m0 = p0 = c0 = np.zeros(1)
    for i in range(STAGES, -1, -1):
        if i < STAGES:
            m, p, c = _pull_slope(
                closure, step.stages[i], by_m[i], by_p[i], by_c[i], noise, theta, i == 0
            )
        m0 = m0 + one.decay[i] * m
        p0 = p0 + two.decay[i] * p
        c0 = c0 + three.decay[i] * c if c is not None else c0
        if not i:
            break
        for j, weight in one.stage[i]:
            by_m[j] = by_m[j] + weight * m
        for j, weight in two.stage[i]:
            by_p[j] = by_p[j] + weight * p
        rate += m * combine_rate(one, i, start[0], slopes[0])
        zero = np.zeros((1, 1, 1)) if start[1] is None else start[1]
        rate += 2.0 * np.einsum("bij,bij->bi", p, combine_rate(two, i, zero, slopes[1]))
        if c is not None and start[2] is not None:
            for j, weight in three.stage[i]:
                by_c[j] = by_c[j] + weight * c
            rate += np.einsum("bij,bij->bj", c, combine_rate(three, i, start[2], slopes[2]))
    return m0, p0, (None if c is None else c0)


def _pull_slope(
    closure: Closure, stage: _Stage, by_drift: Array, by_spreading: Array, by_turned: Array,
    noise: Array, theta: Array, is_first: bool,
) -> tuple[Array, Array, Array | None]:  # fmt: skip
    """Pull-back of `_slope`."""
    r, means = closure.reaction, stage.means
    n_batch, n = by_drift.shape
    noise += np.einsum("bii->bi", by_spreading)
    by_value = by_drift @ r.analysis.T
    by_first: dict[int, Array] = {}
    p = np.zeros((n_batch, n, n))
    c = None
    if stage.jacobian is not None:
        half = by_spreading @ stage.jacobian
        p = half + half.transpose(0, 2, 1)
        by_jacobian = 2.0 * (by_spreading @ stage.covariance)
        if stage.cross is not None:
            by_jacobian += by_turned.transpose(0, 2, 1) @ stage.cross
            c = by_turned @ stage.jacobian
        flat = by_jacobian.reshape(n_batch, -1)
        by_first = {j: flat @ t.T for j, t in r.jacobian_products.items()}
    _pull_coefficients(closure, means, by_value, by_first, theta)
    m = np.zeros((n_batch, n))
    for j, operator in zip(r.features, r.operators, strict=True):
        by_point = by_value * means.of(closure.first[j])
        for k, by_slope in by_first.items():
            by_point = by_point + by_slope * means.of(closure.second[j, k])
        m += by_point @ operator
    if stage.jacobian is not None:
        for (j, k), products in r.covariance_products.items():
            by_pair = by_value * means.of(closure.second[j, k])
            for i, by_slope in by_first.items():
                by_pair = by_pair + by_slope * means.of(closure.third[i, j, k])
            p += ((0.5 if j == k else 1.0) * by_pair @ products).reshape(-1, n, n)
    return m, p, c


def _pull_coefficients(
    closure: Closure, means: Means, by_value: Array, by_first: dict[int, Array], theta: Array
) -> None:
    for t, g in enumerate(closure.reaction.polynomials):
        theta[:, t] += (by_value * means.of(g)).sum(1)
        for j, by_slope in by_first.items():
            theta[:, t] += (by_slope * means.of(derivative(g, j))).sum(1)

"""Mean and covariance of a semilinear equation over a step: exact, or by Gaussian closure."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import numpy as np
import scipy

from spdelaw.processes.state_noise import AbstractStateNoise, second_moment
from spdelaw.processes.terms import Means, Polynomial, Reaction, derivative

# ---------- Exact moments over a step where drift and noise are linear in the state
#
# For ``dc = (A c + a) dt + sum_l sqrt(q_l) (B_l c + gamma b_l) dw_l`` (Ito) the mean ``m = E c``
# and the second moment ``M = E c c'`` obey linear equations,
#
#     m' = A m + a,
#     M' = A M + M A' + a m' + m a'
#          + sum_l q_l (B_l M B_l' + gamma (B_l m b_l' + b_l m' B_l') + gamma^2 b_l b_l'),
#
# so that ``z = (1, m, M)`` has ``z' = G z`` and ``z(dt) = e^(G dt) z(0)``. Symmetric matrices are
# vectors of their upper triangle, with entries off the diagonal times ``sqrt(2)``, so that inner
# products stay as they are. G is linear in the rates, q and the coefficients of the terms.
#
# The derivative of the exponential along E is ``int_0^1 e^((1 - s) G) E e^(s G) ds``: by
# Gauss-Legendre nodes over a part of the step over which G is small, and from there by doubling.


Array = np.ndarray

#: Most modes whose moments are lifted: G has ``1 + N + N (N + 1) / 2`` rows.
MOST_LIFTED = 16
#: Largest norm over which the nodes integrate, and how many; they err by less than 1e-9.
LARGEST_NORM, NODES = 1.0, 5


@dataclasses.dataclass(frozen=True, eq=False)
class Lift:
    """Parts of the generator G, each (n, n) with ``n = 1 + N + N (N + 1) / 2``.

    Attributes:
        n_modes: N.
        rates: by ``lambda``, (N, n, n).
        terms: by ``theta``, (n_terms, n, n).
        noise: by q times the powers 0, 1 and 2 of ``gamma``, (3, L, n, n).
    """

    n_modes: int
    rates: Array
    terms: Array
    noise: Array

    def generator(self, rates: Array, noise: Array, coefficients: Array, offset: float) -> Array:
        """G of these numbers."""
        slopes = self.slopes(noise, offset)
        return np.tensordot(np.concatenate([rates, noise, coefficients]), slopes[:-1], 1)

    def slopes(self, noise: Array, offset: float) -> Array:
        """Derivatives of G by ``lambda``, q, ``theta`` and ``gamma``, one after the other."""
        by_noise = self.noise[0] + offset * self.noise[1] + offset**2 * self.noise[2]
        by_offset = np.tensordot(noise, self.noise[1] + 2.0 * offset * self.noise[2], 1)
        return np.concatenate([self.rates, by_noise, self.terms, by_offset[None]])

    def pack(self, mean: Array, second: Array, one: float = 1.0) -> Array:
        """``(1, m, M)`` of means (..., N) and symmetric matrices (..., N, N)."""
        i, j, w = _triangle(self.n_modes)
        ones = np.full((*mean.shape[:-1], 1), one)
        return np.concatenate([ones, mean, w * second[..., i, j]], axis=-1)

    def unpack(self, z: Array) -> tuple[Array, Array]:
        """Means and symmetric matrices of vectors (..., n)."""
        n = self.n_modes
        place, weight = _square(n)
        return z[..., 1 : n + 1], np.take(z[..., n + 1 :], place, axis=-1) * weight


@functools.lru_cache(maxsize=16)
def lift(reaction: Reaction, noise: AbstractStateNoise | None) -> Lift | None:
    """Parts of the generator; None where moments do not close, or modes are too many."""
    n = reaction.n_modes
    is_linear = all(sum(powers) <= 1 for g in reaction.polynomials for powers in g)
    if noise is None or not noise.is_linear or not is_linear or n > MOST_LIFTED:
        return None
    states = np.concatenate([np.zeros((1, n)), np.eye(n)])
    ends = [reaction.drift(g, states) for g in reaction.polynomials]
    constants = np.array([end[0] for end in ends]).reshape(-1, n)
    matrices = np.array([(end[1:] - end[0]).T for end in ends]).reshape(-1, n, n)
    decay = -np.einsum("ki,kj->kij", np.eye(n), np.eye(n))
    operators, b = noise.operators, noise.constants
    nothing = np.zeros_like(operators), np.zeros_like(b)
    # The cross terms are what a constant of one adds, less what each part has alone.
    both, linear = _noise_part(operators, b), _noise_part(operators, nothing[1])
    square = _noise_part(nothing[0], b)
    return Lift(
        n,
        _drift_part(decay, np.zeros((n, n))),
        _drift_part(matrices, constants),
        np.stack([linear, both - linear - square, square]),
    )


@functools.lru_cache(maxsize=32)
def _triangle(n: int) -> tuple[Array, Array, Array]:
    """Rows and columns of the upper triangle, and the weights of its entries."""
    i, j = np.triu_indices(n)
    return i, j, np.where(i == j, 1.0, np.sqrt(2.0))


@functools.lru_cache(maxsize=32)
def _square(n: int) -> tuple[Array, Array]:
    """Entry of a triangle that stands for each of a symmetric matrix, and its weight."""
    i, j, w = _triangle(n)
    place, weight = np.zeros((n, n), int), np.zeros((n, n))
    place[i, j] = place[j, i] = np.arange(len(i))
    weight[i, j] = weight[j, i] = 1.0 / w
    return place, weight


def _congruence(a: Array, b: Array) -> Array:
    """``M -> (A M B' + B M A') / 2`` on triangles; (..., n, n)."""
    i, j, w = _triangle(a.shape[-1])

    def at(matrix: Array, rows: Array, columns: Array) -> Array:
        return matrix[..., rows[:, None], columns[None, :]]

    both = at(a, i, i) * at(b, j, j) + at(a, i, j) * at(b, j, i)
    both += at(b, i, i) * at(a, j, j) + at(b, i, j) * at(a, j, i)
    return 0.25 * np.outer(w, w) * both


def _product(matrix: Array, vector: Array) -> Array:
    """``m -> A m b' + b m' A'`` on triangles; (..., n_pairs, N)."""
    i, j, w = _triangle(vector.shape[-1])
    first = matrix[..., i, :] * vector[..., j, None]
    return w[:, None] * (first + matrix[..., j, :] * vector[..., i, None])


def _drift_part(a: Array, constant: Array) -> Array:
    """G of ``dc = (A c + a) dt``; (k, n, n) of k drifts."""
    n = constant.shape[-1]
    identity = np.broadcast_to(np.eye(n), a.shape)
    out = np.zeros((len(a), *[1 + n + n * (n + 1) // 2] * 2))
    out[:, 1 : n + 1, 0] = constant
    out[:, 1 : n + 1, 1 : n + 1] = a
    out[:, n + 1 :, 1 : n + 1] = _product(identity, constant)
    out[:, n + 1 :, n + 1 :] = 2.0 * _congruence(a, identity)
    return out


def _noise_part(operators: Array, constant: Array) -> Array:
    """G of ``dc = (B c + b) dw``; (L, n, n) of L noises."""
    n = constant.shape[-1]
    i, j, w = _triangle(n)
    out = np.zeros((len(operators), *[1 + n + n * (n + 1) // 2] * 2))
    out[:, n + 1 :, 0] = w * constant[:, i] * constant[:, j]
    out[:, n + 1 :, 1 : n + 1] = _product(operators, constant)
    out[:, n + 1 :, n + 1 :] = _congruence(operators, operators)
    return out


def exponential_slopes(generator: Array, along: Array, n_modes: int) -> Array:
    """Derivatives of ``e^G`` along (k, n, n).

    The norm that determines the doublings is that of the moments: what couples them to 1 is
    nilpotent, and of any size.
    """
    norm = np.abs(generator[n_modes + 1 :, n_modes + 1 :]).sum(0).max()
    doublings = int(np.ceil(np.log2(max(norm / LARGEST_NORM, 1.0))))
    part, slopes = generator / 2**doublings, along / 2**doublings
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    times = np.append(0.5 * (1.0 + nodes), 1.0)
    flows: Any = scipy.linalg.expm(times[:, None, None] * part)
    whole, flows, n = flows[-1], flows[:-1], len(part)
    # Nodes are symmetric: those of 1 - s are the same ones backwards.
    left = (0.5 * weights[:, None, None] * flows[::-1]).transpose(1, 0, 2).reshape(n, -1)
    slopes = left @ (slopes[:, None] @ flows).reshape(len(slopes), -1, n)
    for _ in range(doublings):
        slopes = slopes @ whole + whole @ slopes
        whole = whole @ whole
    return slopes


# ---------- Exponential Runge-Kutta steps for ``U' = -rate U + N(U)`` with a diagonal, stiff rate
#
# With ``z = -rate h`` and ``phi_k(z) = int_0^1 e^((1-s) z) s^(k-1) / (k-1)! ds``, a step is
#
#     U_i = e^(c_i z) u + h sum_{j<i} a_ij(z) N(U_j),    u_next = e^z u + h sum_j b_j(z) N(U_j).
#
# A constant N is integrated exactly whatever the stiffness. The weights are those of Krogstad
# (2005), order 4. Derivatives follow from ``phi_k' = phi_k - k phi_{k+1}``.


#: Stages of a step.
STAGES = 4


class Weights(NamedTuple):
    """Weights of one step and their derivatives by z, each shaped like the rate.

    Attributes:
        decay: ``e^(c_i z)`` of each stage and, last, of the step.
        stage: ``h a_ij`` by stage i, as pairs (j, weight); row 4 holds ``h b_j``.
        slope: both by the rate, as weights.
    """

    decay: tuple[Array, ...]
    stage: tuple[tuple[tuple[int, Array], ...], ...]
    slope: Any = None


def phi(z: Array, most: int) -> list[Array]:
    """``phi_0 = e^z, phi_1, ..., phi_most`` without loss of digits near 0."""
    z = np.asarray(z, float)
    small = np.abs(z) < 1.0
    near = np.where(small, z, 0.0)
    top = np.zeros_like(near)
    for j in range(18, -1, -1):
        top = near * top + 1.0 / math.factorial(most + j)
    series = [top]
    for k in range(most - 1, -1, -1):
        series.insert(0, near * series[0] + 1.0 / math.factorial(k))
    far = np.where(small, 1.0, z)
    direct = [np.exp(far)]
    for k in range(most):
        direct.append((direct[-1] - 1.0 / math.factorial(k)) / far)
    return [np.where(small, s, d) for s, d in zip(series, direct, strict=True)]


def weights(rate: Array, h: Array | float) -> Weights:
    """Weights of a step ``h`` for each rate; arrays broadcast."""
    z = -np.asarray(rate, float) * h
    p, half = phi(z, 4), phi(0.5 * z, 3)
    slope = [p[k] - k * p[k + 1] for k in range(4)]
    half_slope = [0.5 * (half[k] - k * half[k + 1]) for k in range(3)]
    one = np.ones_like(z)
    decay = (one, half[0], half[0], p[0], p[0])
    # dz / d(rate) = -h
    decay_slope = (0.0 * one, *(-h * s for s in (half_slope[0], half_slope[0], slope[0], slope[0])))
    by_rate = Weights(decay_slope, _stage_weights(half_slope, slope, -h * h))
    return Weights(decay, _stage_weights(half, p, h), by_rate)


def _stage_weights(
    half: list[Array], p: list[Array], h: Array | float
) -> tuple[tuple[tuple[int, Array], ...], ...]:
    both = h * (2.0 * p[2] - 4.0 * p[3])
    return (
        (),
        ((0, 0.5 * h * half[1]),),
        ((0, h * (0.5 * half[1] - half[2])), (1, h * half[2])),
        ((0, h * (p[1] - 2.0 * p[2])), (2, 2.0 * h * p[2])),
        (
            (0, h * (p[1] - 3.0 * p[2] + 4.0 * p[3])),
            (1, both),
            (2, both),
            (3, h * (4.0 * p[3] - p[2])),
        ),
    )


def combine(w: Weights, stage: int, start: Array, slopes: list[Array]) -> Array:
    """``e^(c_i z) u + h sum_j a_ij N_j``; stage 4 is the end of the step.

    With ``w.slope`` its derivative by the rate.
    """
    out = w.decay[stage] * start
    for j, weight in w.stage[stage]:
        out = out + weight * slopes[j]  # a shared start broadcasts against its slopes
    return out


# ---------- Mean and covariance of a semilinear equation over a step, by Gaussian closure
#
# For ``dc = (-lambda c + F(c)) dt + B(c) dW`` (Ito) a Gaussian with mean m and covariance P stays
# one to the order of the closure, and
#
#     m' = -lambda m + E F(c),     P' = (J - lambda) P + P (J - lambda)' + Q(m, P),   J = E dF/dc,
#     C' = C (J - lambda)'         with C the covariance of the state at the start with c.
#
# Additive noise has the rate ``Q = diag(q)``; others are in `spdelaw.processes.state_noise`. The
# means are exact for polynomials, and both moments where drift and noise are linear. All three are
# ``U' = -rate U + N(U)`` with diagonal rates
# ``lambda_i``, ``lambda_i + lambda_j`` and ``lambda_j``: one exponential Runge-Kutta step of order
# 4 advances them together; `pull_back` has its exact gradients. Where drift and noise are linear in
# the state, and the step is one for all states, the moments are exact (`Lift`).
#
# Arrays have a batch of states first: m (B, N), P and C (B, N, N).


class Moments(NamedTuple):
    """Mean (B, N), covariance (B, N, N) and, where requested, cross-covariance (B, N, N)."""

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
        noise: ``q``, (N,), of the driving noise W.
        state_noise: how the noise depends on the state; None for additive noise.
        offset: ``gamma`` of affine noise.
    """

    reaction: Reaction
    coefficients: Array
    rates: Array
    noise: Array
    state_noise: AbstractStateNoise | None = None
    offset: float = 0.0
    _rules_by_step: dict[float, Rules] = dataclasses.field(default_factory=dict, init=False)
    _flows: dict[Any, Array] = dataclasses.field(default_factory=dict, init=False)

    @property
    def lift(self) -> Lift | None:
        """The generator of the first two moments, where these are linear."""
        return lift(self.reaction, self.state_noise)

    @property
    def generator(self) -> Array:
        """G of the lifted moments, ``z' = G z``."""
        numbers = self.rates, self.noise, self.coefficients, self.offset
        return self.lift.generator(*numbers)  # type: ignore[union-attr]

    def flow(self, dt: float) -> Array:
        """``e^(G dt)``."""
        if dt not in self._flows:
            self._flows[dt] = scipy.linalg.expm(dt * self.generator)
        return self._flows[dt]

    def flow_slopes(self, dt: float, directions: Array | None = None) -> Array:
        """Derivatives of the flow by the parameters, or along directions of them, (K, k).

        Parameters are the rates, the noise, the coefficients and the offset, one after the other.
        """
        if directions is None and (dt, "slopes") in self._flows:
            return self._flows[dt, "slopes"]
        slopes = self.lift.slopes(self.noise, self.offset)  # type: ignore[union-attr]
        if directions is not None:
            slopes = np.tensordot(directions, slopes, (0, 0))
        out = exponential_slopes(dt * self.generator, dt * slopes, len(self.rates))
        if directions is None:
            self._flows[dt, "slopes"] = out
        return out

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
            if float(h) not in self._rules_by_step:
                one = weights(lam, h)
                self._rules_by_step[float(h)] = (one, weights(pairs, h), one)
            return self._rules_by_step[float(h)]
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


class LiftedStep(NamedTuple):
    """A step by the exact flow: where it started, and the mean at its end."""

    dt: float
    start: State
    mean: Array


Tape = list[SubStep] | LiftedStep


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
    state: State = (mean, covariance, covariance if cross else None)
    if closure.lift is not None and np.ndim(dt) == 0:
        return _lifted_step(closure, closure.lift, state, float(dt))
    rules = closure.rules(np.asarray(dt, float) / n_steps)
    tape: list[SubStep] = []
    for _ in range(n_steps):
        step = SubStep(rules, state, ([], [], []), [])
        for i in range(STAGES):
            stage, stage_slopes = _moment_slopes(closure, state_at(step, i))
            step.stages.append(stage)
            for slopes, slope in zip(step.slopes, stage_slopes, strict=True):
                slopes.append(slope)
        state = state_at(step, STAGES)
        tape.append(step)
    m, p, c = state
    return Moments(m, np.zeros((*m.shape, m.shape[1])) if p is None else p, c), tape


def _lifted_step(
    closure: Closure, lifted: Lift, start: State, dt: float
) -> tuple[Moments, LiftedStep]:
    """Exact moments after ``dt``."""
    flow, (m, p, c) = closure.flow(dt), start
    mean, second = lifted.unpack(lifted.pack(m, second_moment(m, p)) @ flow.T)
    turn = flow[1 : lifted.n_modes + 1, 1 : lifted.n_modes + 1]
    end = Moments(mean, second - second_moment(mean, None), None if c is None else c @ turn.T)
    return end, LiftedStep(dt, start, mean)


def state_at(step: SubStep, stage: int) -> State:
    """Mean, covariance and cross-covariance at a stage, or at the end of the step."""
    if stage == 0:
        return step.start
    m, p, c = step.start
    # A known start has no covariance to multiply; zero keeps the weights' shapes.
    start = (m, np.zeros((1, 1, 1)) if p is None else p, c)
    moments = zip(step.rules, start, step.slopes, strict=True)
    return tuple(u if u is None else combine(w, stage, u, slopes) for w, u, slopes in moments)  # type: ignore[return-value]


def _moment_slopes(closure: Closure, state: State) -> tuple[Stage, tuple[Array, Array, Array]]:
    """``E F``, ``J P + P J' + Q(m, P)`` and ``C J'``."""
    r, (m, p, c), nothing = closure.reaction, state, np.zeros((1, 1, 1))
    n_batch, n = m.shape
    flat = None if p is None else p.reshape(-1, n * n)
    spread = {} if flat is None else {k: flat @ s.T for k, s in r.covariance_products.items()}
    means = Means(r.at_points(m), spread)
    drift, noise = r.project(means.of(closure.total), (n_batch,)), _noise_rate(closure, m, p)
    if p is None or not r.features:
        return Stage(state, means, None), (drift, noise, nothing)
    jacobian = np.zeros((n_batch, n, n))
    for j, products in r.jacobian_products.items():
        slope = np.broadcast_to(means.of(closure.first[j]), (n_batch, len(products)))
        jacobian += (slope @ products).reshape(-1, n, n)
    growth = jacobian @ p
    spreading = growth + growth.transpose(0, 2, 1) + noise
    turned = nothing if c is None else c @ jacobian.transpose(0, 2, 1)
    return Stage(state, means, jacobian), (drift, spreading, turned)


def _noise_rate(closure: Closure, mean: Array, covariance: Array | None) -> Array:
    """``Q(m, P)``, (B or 1, N, N)."""
    if closure.state_noise is None:
        return np.diag(closure.noise)[None]
    return closure.state_noise.rate(closure.noise, closure.offset, mean, covariance)


# ---------- Gradients of the Gaussian closure by reverse differentiation of its steps
#
# With gradients written as starred letters, the slopes of a stage pull back as
#
#     P* += N* J + (N* J)',   J* = 2 N* P + C*' C,   a_j* = E[f]* E f_j + sum_k J_k* E f_jk,
#     V_jk* = (E[f]* E f_jk + sum_i J_i* E f_ijk) (1/2 where j = k),
#
# where f_j is the derivative of f by feature j, and V the covariance of features at a point: the
# derivative of a Gaussian mean by the covariance is half the mean of the second derivative.


#: How rates enter mean, covariance (both its rows and its columns) and cross-covariance.
RATE_SUM = ("bi,bi->bi", "bij,bij->bi", "bij,bij->bj")
RATE_FACTOR = (1.0, 2.0, 1.0)


class Pulled(NamedTuple):
    """Gradients by what a step starts from, (B, N) and (B, N, N), and by its parameters.

    Attributes:
        rate: by ``lambda``, (B, N).
        noise: by ``q``, (B, N).
        coefficient: by ``theta``, (B, n_terms).
        offset: by ``gamma``, (B,).
    """

    mean: Array
    covariance: Array
    rate: Array
    noise: Array
    coefficient: Array
    offset: Array


def pull_back(closure: Closure, tape: Tape, by: Moments) -> Pulled:
    """Gradients by the start and the parameters from gradients by the moments at the end.

    Args:
        closure: the same that `advance` had.
        tape: its second result.
        by: gradient by mean, covariance (symmetric) and, where there is one, cross-covariance.
    """
    if isinstance(tape, LiftedStep):
        return _pull_lifted(closure, tape, by)
    n_batch, n = by.mean.shape
    numbers = Pulled(
        by.mean,
        by.covariance,
        np.zeros((n_batch, n)),
        np.zeros((n_batch, len(closure.noise))),
        np.zeros((n_batch, len(closure.coefficients))),
        np.zeros(n_batch),
    )
    for step in reversed(tape):
        by = _pull_step(closure, step, by, numbers)
    m, p, c = by
    if c is not None:  # the cross-covariance starts as the covariance
        p = p + 0.5 * (c + c.transpose(0, 2, 1))
    return numbers._replace(mean=m, covariance=p)


def _pull_lifted(closure: Closure, step: LiftedStep, by: Moments) -> Pulled:
    """Gradients through ``z(dt) = e^(G dt) z``, with ``P = M - m m'`` at both ends."""
    lifted: Any = closure.lift
    flow, slopes, (m, p, c) = closure.flow(step.dt), closure.flow_slopes(step.dt), step.start
    n, among = lifted.n_modes, slice(1, lifted.n_modes + 1)
    by_mean = by.mean - 2.0 * (by.covariance @ step.mean[..., None])[..., 0]
    by_end = lifted.pack(by_mean, by.covariance, 0.0)
    by_number = ((lifted.pack(m, second_moment(m, p)) @ slopes.swapaxes(1, 2)) * by_end).sum(2).T
    by_mean, by_covariance = lifted.unpack(by_end @ flow)
    by_mean = by_mean + 2.0 * (by_covariance @ m[..., None])[..., 0]
    if by.cross is not None and c is not None:  # ``C = P F'``, from ``C = P``
        turned = by.cross @ flow[among, among]
        by_covariance = by_covariance + 0.5 * (turned + turned.swapaxes(1, 2))
        by_number = by_number + np.einsum("bki,bkj,cij->bc", by.cross, c, slopes[:, among, among])
    ends = np.cumsum([n, len(closure.noise), len(closure.coefficients)])
    rate, noise, coefficient, offset = np.split(by_number, ends, axis=1)
    return Pulled(by_mean, by_covariance, rate, noise, coefficient, offset[:, 0])


def _pull_step(closure: Closure, step: SubStep, by: Moments, numbers: Pulled) -> Moments:
    """Gradients at the end of a sub-step become those at its start; parameters are added to."""
    nothing, has_cross = np.zeros(1), by.cross is not None
    start = [np.zeros((1, 1, 1)) if value is None else value for value in step.start]
    by_start: list[Array] = [nothing] * 3
    by_slopes: list[list[Array]] = [[nothing] * STAGES for _ in range(3)]
    for i in range(STAGES, -1, -1):
        if i < STAGES:
            of_stage = [slopes[i] for slopes in by_slopes]
            by = _pull_slope(closure, step.stages[i], of_stage, numbers)
        for k, (rule, gradient) in enumerate(zip(step.rules, by, strict=True)):
            if gradient is None:
                continue
            by_start[k] = by_start[k] + rule.decay[i] * gradient
            for j, weight in rule.stage[i]:
                by_slopes[k][j] = by_slopes[k][j] + weight * gradient
            if i:
                by_rate = combine(rule.slope, i, start[k], step.slopes[k])
                numbers.rate[:] += RATE_FACTOR[k] * np.einsum(RATE_SUM[k], gradient, by_rate)
    return Moments(by_start[0], by_start[1], by_start[2] if has_cross else None)


def _pull_slope(closure: Closure, stage: Stage, by: list[Array], numbers: Pulled) -> Moments:
    """Pull-back of the slopes of a stage."""
    r, (state, means, jacobian) = closure.reaction, stage
    (mean, covariance, cross), (by_drift, by_spreading, by_turned) = state, by
    n_batch, n = by_drift.shape
    by_value = by_drift @ r.analysis.T
    by_first: dict[int, Array] = {}
    m, p, c = np.zeros((n_batch, n)), np.zeros((n_batch, n, n)), None
    if closure.state_noise is None:
        numbers.noise[:] += np.einsum("bii->bi", by_spreading)
    else:
        q, gamma = closure.noise, closure.offset
        pulled = closure.state_noise.pull_back(q, gamma, mean, covariance, by_spreading)
        m, p = m + pulled.mean, p + pulled.covariance
        numbers.noise[:] += pulled.noise
        numbers.offset[:] += pulled.offset
    if jacobian is not None:
        half = by_spreading @ jacobian
        p = p + half + half.transpose(0, 2, 1)
        by_jacobian = 2.0 * (by_spreading @ covariance)
        if cross is not None and by_turned.ndim == 3:
            by_jacobian += by_turned.transpose(0, 2, 1) @ cross
            c = by_turned @ jacobian
        flat = by_jacobian.reshape(n_batch, -1)
        by_first = {j: flat @ t.T for j, t in r.jacobian_products.items()}
        for (j, k), products in r.covariance_products.items():
            by_pair = by_value * means.of(closure.second[j, k])
            for i, by_slope in by_first.items():
                by_pair = by_pair + by_slope * means.of(closure.third[i, j, k])
            p += ((0.5 if j == k else 1.0) * by_pair @ products).reshape(-1, n, n)
    for t, g in enumerate(r.polynomials):
        numbers.coefficient[:, t] += (by_value * means.of(g)).sum(1)
        for j, by_slope in by_first.items():
            numbers.coefficient[:, t] += (by_slope * means.of(derivative(g, j))).sum(1)
    for j, operator in r.operators.items():
        by_point = by_value * means.of(closure.first[j])
        for k, by_slope in by_first.items():
            by_point = by_point + by_slope * means.of(closure.second[j, k])
        m += by_point @ operator
    return Moments(m, p, c)

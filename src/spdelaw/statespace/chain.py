"""Gaussian chains: a Markov prior over the states, collapsed observations, exact posterior."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spdelaw.errors import EquationError
from spdelaw.processes import operators
from spdelaw.processes.linear import Dynamics, Linear, Transition
from spdelaw.processes.specification import InitialState
from spdelaw.statespace.blocks import (
    add,
    apply,
    apply_gram,
    as_matrix,
    invert,
    multiply,
    sandwich,
    transpose,
)
from spdelaw.statespace.collapse import Block

if TYPE_CHECKING:
    from spdelaw.statespace.likelihood import Evaluation


# ---------- State space: dynamics, initial state, observation noise


Array = np.ndarray


class StateSpace(NamedTuple):
    """Law of N coefficients and of their observation.

    Attributes:
        dynamics: law of a step of the state.
        initial: law of the first state.
        observation_variance: ``r``, one number, or one per point.
    """

    dynamics: Dynamics
    initial: InitialState
    observation_variance: Array

    @property
    def n_modes(self) -> int:
        """Number of modes N."""
        return self.dynamics.n_modes

    @property
    def is_diagonal(self) -> bool:
        """Whether the modes are independent of one another before they are observed."""
        linear = isinstance(self.dynamics, Linear) and self.dynamics.is_diagonal
        return linear and operators.is_diagonal(self.initial.covariance)

    @property
    def linear(self) -> Linear:
        """The dynamics, where they are linear."""
        if not isinstance(self.dynamics, Linear):
            got = type(self.dynamics).__name__
            fix = "use forward_filter and rts_smoother, which take any dynamics"
            raise EquationError("dynamics", expected="linear dynamics", got=got, fix=fix)
        return self.dynamics

    def with_noise(self, observation_variance: Any) -> StateSpace:
        """The same with another observation variance."""
        return self._replace(observation_variance=np.asarray(observation_variance, float))

    def leading(self, n: int) -> StateSpace:
        """The first ``n`` modes."""
        return self._replace(dynamics=self.dynamics.leading(n), initial=self.initial.leading(n))


def linear_state_space(
    drift: Array,
    noise: Array,
    initial_mean: Array,
    initial_covariance: Array,
    r: Any,
    kind: Any = "deterministic",
    season: Any = None,
) -> StateSpace:
    """A linear state space from its numbers."""
    initial = InitialState(kind, np.asarray(initial_mean, float), np.asarray(initial_covariance))
    return StateSpace(Linear(drift, noise, season), initial, np.asarray(r, float))


# ---------- Likelihood and score from second moments of the states
#
# With ``R = S11 - F S01 - S01' F' + F S00 F'`` over all steps that share a transition,
#
#     log p = -1/2 sum [ n log |2 pi Omega| + tr(Omega^-1 R) ].
#
# The n of each of U transitions are ``n_steps``, (U,). Sums of ``c_t c_t'``, ``c_t c_{t+1}'`` and
# ``c_{t+1} c_{t+1}'`` over their steps, S00, S01 and S11, are one array: (3, U, N) where modes are
# independent, (3, U, N, N) else.
#
# For complete, noise-free data the sums are those of the data. For anything else they are the
# smoother's expectations, and the gradient of this function at them is the exact score of the
# observed likelihood (Fisher's identity). One formula serves both, and diagonal operators as well
# as matrices.


def center_sums(n_steps: Array, sums: Array, mean: Array, first: tuple[Array, Array]) -> Array:
    """Sums of ``c - m`` for a constant m (N,), or one of each transition (U, N).

    ``first`` are the sums of ``c_t`` and of ``c_{t+1}``, (U, N) each.
    """
    apart, m = sums.ndim == 3, np.broadcast_to(mean, first[0].shape)

    def product(a: Array, b: Array) -> Array:
        return a * b if apart else a[:, :, None] * b[:, None]

    both = n_steps.reshape(-1, *(1,) * (sums.ndim - 2)) * product(m, m)
    lags = ((0, 0), (0, 1), (1, 1))
    return sums + both - [product(first[i], m) + product(m, first[j]) for i, j in lags]


def grouped(values: Array, which: Array, n: int) -> Array:
    """Sums of ``values`` (K, ...) over entries with equal ``which`` (K,); (n, ...)."""
    if n == 1:
        return values.sum(0, keepdims=True)
    if n == len(which) and np.array_equal(which, np.arange(n)):
        return values
    order = np.argsort(which, kind="stable")
    occurring, first = np.unique(which[order], return_index=True)
    out = np.zeros((n, *values.shape[1:]))
    out[occurring] = np.add.reduceat(values[order], first, axis=0)
    return out


def log_likelihood(n_steps: Array, sums: Array, step: Transition) -> float:
    """Log-likelihood of all transitions."""
    residual = _residual(sums, step.factor)
    if residual.ndim == 2:
        omega = step.covariance
        logs = n_steps[:, None] * np.log(2.0 * np.pi * omega)
        return float(-0.5 * (logs + residual / omega).sum())
    sign, logs = np.linalg.slogdet(2.0 * np.pi * step.covariance)
    if (sign <= 0).any():
        raise np.linalg.LinAlgError("a transition covariance is not positive definite")
    energy = np.einsum("uii->u", np.linalg.solve(step.covariance, residual))
    return float(-0.5 * (n_steps * logs + energy).sum())


def gradients(n_steps: Array | float, sums: Array, step: Transition) -> tuple[Array, Array]:
    """Gradient of `log_likelihood` by ``F`` and ``Omega`` of each transition."""
    f, residual = step.factor, _residual(sums, step.factor)
    before, cross, _ = sums
    count = np.reshape(n_steps, (-1, *(1,) * (f.ndim - 1)))
    if residual.ndim == 2:
        omega = step.covariance
        return (cross - f * before) / omega, 0.5 * (residual / omega - count) / omega
    inverse = np.linalg.inv(step.covariance)
    by_factor = inverse @ (np.swapaxes(cross, 1, 2) - f @ before)
    by_omega = inverse @ residual @ inverse - count * inverse
    return by_factor, 0.25 * (by_omega + np.swapaxes(by_omega, 1, 2))


def _residual(sums: Array, f: Array) -> Array:
    before, cross, after = sums
    if sums.ndim == 3:
        return after - 2.0 * f * cross + f**2 * before
    carried = f @ cross
    spread = f @ before @ np.swapaxes(f, 1, 2)
    return after - carried - np.swapaxes(carried, 1, 2) + spread


# ---------- Response to mean and forcing, and its share of the score
#
# d log p / d Lambda = (score of the unforced state) + sum_t (d log p / d m(t)) (d m(t) / d Lambda)


def without_response(block: Block, dynamics: Linear) -> Block:
    """Collapsed data of the deviation: less the mean and the response to a forcing."""
    if not dynamics.is_driven:
        return block
    m = np.moveaxis(dynamics.response(block.times), -1, 1) * block.unit  # (T, N, columns)
    return block._replace(
        estimate=block.estimate - m, vector=block.vector - apply_gram(block.gram, m)
    )


def add_response_score(
    evaluation: Evaluation, block: Block, dynamics: Linear, mean: Array, r: float
) -> Evaluation:
    """The evaluation with the share of the response in the score by the drift.

    ``d log p / d m = G (c_hat - c) / r``, the pull of the observations on the state.
    """
    if dynamics.forcing is None:
        return evaluation
    pull = apply_gram(block.gram, block.estimate - mean) / r * block.unit
    by = np.moveaxis(pull, 1, -1)  # (T, columns, N)
    if block.times.shape[1] == 1:
        by = by.sum(1, keepdims=True)
    return evaluation._replace(
        by_drift=evaluation.by_drift + dynamics.response_pull_back(block.times, by)
    )


# ---------- Gaussian chains: Markov prior, collapsed observations, posterior
#
# The states ``c_1, ..., c_T`` (vectors of N modes) have the prior
#
#     c_1 ~ N(m, V),    c_{t+1} | c_t ~ N(F_t c_t, Omega_t)
#
# and the observations of time t enter as ``-1/2 c' G_t c + b_t' c`` with ``G = Phi' R^-1 Phi``,
# ``b = Phi' R^-1 y``. The posterior precision is block tridiagonal with diagonal blocks
#
#     S_t = G_t + Omega_{t-1}^-1 + F_t' Omega_t^-1 F_t    and  -D_t = -Omega_t^-1 F_t  below them,
#
# so one sweep of block elimination forward (the information filter) and one backward (the
# Rauch-Tung-Striebel smoother) give everything. Elimination keeps each block symmetric positive
# definite by construction, as a Joseph or square-root form would, at the price of a single
# inverse per step. Nothing depends on the number of points behind ``G`` and ``b``.
#
# Prior and observations may each leave the modes apart or couple them (`blocks`);
# where neither couples them every block is diagonal. The batch B is 1 where all paths share
# their pattern, else the number of paths.


class Prior(NamedTuple):
    """Markov prior of the free states.

    A deterministic initial state is no random variable: the chain then starts at the second time,
    with mean ``F_0 m0`` and covariance ``Omega_0``.

    Attributes:
        transition: of the U steps that differ.
        which: step of the whole record, (T_all - 1, B).
        n_fixed: number of fixed states before the first free one, 0 or 1.
        mean: ``m``, (N, B or P).
        precision: ``V^-1``, (N, B) or (N, N, B).
        log_determinant: ``log |prior covariance|``, (B,).
        factor: ``F``, (N, U) or (N, N, U).
        weight: ``Omega^-1``, likewise.
        coupling: ``D = Omega^-1 F``.
        pull: ``F' Omega^-1 F``.
    """

    transition: Transition
    which: Array
    n_fixed: int
    mean: Array
    precision: Array
    log_determinant: Array
    factor: Array
    weight: Array
    coupling: Array
    pull: Array

    @property
    def free(self) -> Array:
        """Steps between free states, (T - 1, B)."""
        return self.which[self.n_fixed :]

    def coupling_after(self, t: int) -> Array:
        """``D`` of the step from free state t to the next."""
        return self.coupling[..., self.free[t]]

    def scaled(self, r: float) -> Prior:
        """The same in units of the observation variance: all covariances divided by r."""
        n = len(self.mean) * (len(self.free) + 1)
        return self._replace(
            precision=r * self.precision,
            log_determinant=self.log_determinant - n * np.log(r),
            weight=r * self.weight,
            coupling=r * self.coupling,
            pull=r * self.pull,
        )

    def diagonal_blocks(self) -> Array:
        """Prior share of each diagonal block of the precision; (T, ..., B)."""
        batch = max(self.precision.shape[-1], self.free.shape[-1])
        out = np.empty((len(self.free) + 1, *self.precision.shape[:-1], batch))
        out[0] = self.precision
        out[1:] = along(self.weight, self.free)
        out[:-1] += along(self.pull, self.free)
        return out


#: The observations less the response to mean and forcing; ``G`` and ``b`` of the free states in
#: units of the observation variance, the pull of the initial mean being part of b; their prior.
Chain = tuple[Block, Array, Array, Prior]


def along(stack: Array, which: Array) -> Array:
    """Blocks (..., U) of all steps in time, (T, ..., B)."""
    return np.moveaxis(stack[..., which], -2, 0)


def chain_prior(state_space: StateSpace, times: Array) -> Prior:
    """Markov prior of the free states at ``times`` (T, 1) or (T, P)."""
    dynamics, initial = state_space.linear, state_space.initial
    step, which = dynamics.transitions(times)
    whole = state_space.is_diagonal
    f, omega = (_batch_last(x, whole) for x in (step.factor, step.covariance))
    weight, logs = _invert_covariances(omega)
    coupling = multiply(weight, f)
    mean = initial.mean[:, None]
    n_fixed = int(initial.kind == "deterministic")
    if n_fixed:
        first = which[0]
        mean = apply(f[..., first], np.broadcast_to(mean, (len(mean), len(first))))
        precision, log = weight[..., first], logs[first]
    else:
        v = initial.covariance if whole else operators.as_matrix(initial.covariance)
        precision, log = invert(v[..., None])
    log_determinant = log + logs[which[n_fixed:]].sum(0)
    pull = multiply(transpose(f), coupling)
    return Prior(step, which, n_fixed, mean, precision, log_determinant, f, weight, coupling, pull)


def chain_of(forced: Block, state_space: StateSpace) -> Chain:
    """A block as a chain of free states."""
    block = without_response(forced, state_space.linear)
    prior = chain_prior(state_space, block.times)
    prior = prior._replace(mean=prior.mean * block.unit)
    gram, vector = block.gram[prior.n_fixed :], block.vector[prior.n_fixed :].copy()
    vector[0] += state_space.observation_variance * apply(prior.precision, prior.mean)
    return block, gram, vector, prior


def _batch_last(stack: Array, diagonal: bool) -> Array:
    """(U, ...) to blocks with the batch last."""
    if stack.ndim == 2 and not diagonal:
        stack = operators.embed(stack)
    return np.ascontiguousarray(np.moveaxis(stack, 0, -1))


def _invert_covariances(omega: Array) -> tuple[Array, Array]:
    """Inverses and log-determinants of U covariances."""
    if omega.ndim == 2:
        return invert(omega)
    sign = np.linalg.slogdet(np.moveaxis(omega, -1, 0))[0]
    if (sign <= 0).any():
        raise np.linalg.LinAlgError("a transition covariance is not positive definite")
    return invert(omega)


def sweep(gram: Array, vector: Array, prior: Prior) -> tuple[Array, Array, Array]:
    """Forward elimination: ``V_t = S_t'^-1``, ``b_t'`` and ``log |S|``.

    ``S_t' = S_t - D V_{t-1} D'``, ``b_t' = b_t + D V_{t-1} b_{t-1}'``.

    Args:
        gram: ``G``, (T, N, N, B) or its diagonal (T, N, B).
        vector: ``b``, (T, N, P), or several columns for each path, (T, N, C, P); the pull of the
            initial mean is part of it.
        prior: of the same free states.

    Returns:
        Blocks (T, ..., B), vectors like ``b``, and one number per path or for all, (B,).
    """
    prior_blocks = prior.diagonal_blocks()
    batch = max(gram.shape[-1], prior_blocks.shape[-1])
    full = gram.ndim == 4 or prior_blocks.ndim == 4
    n_times, n_modes = gram.shape[:2]
    inverse = np.empty((n_times, *(n_modes,) * (1 + full), batch))
    vectors = np.array(vector)
    log_determinant = np.zeros(batch)
    for t in range(n_times):
        block = add(gram[t], prior_blocks[t])
        if t:
            d = prior.coupling_after(t - 1)
            block -= sandwich(d, inverse[t - 1])
            vectors[t] += _apply_columns(d, _apply_columns(inverse[t - 1], vectors[t - 1]))
        inverse[t], logs = invert(block)
        log_determinant += logs
    return inverse, vectors, log_determinant


def _apply_columns(a: Array, x: Array) -> Array:
    """``a x`` for columns (N, P), or several for each path, (N, C, P)."""
    return apply(a, x) if x.ndim == 2 else multiply(a, x)


def chain_mean(inverse: Array, vectors: Array, prior: Prior) -> Array:
    """Back substitution after `sweep`, ``c_t = V_t (b_t' + D_t' c_{t+1})``; like the vectors."""
    mean = np.empty_like(vectors)
    mean[-1] = _apply_columns(inverse[-1], vectors[-1])
    for t in range(len(mean) - 2, -1, -1):
        back = _apply_columns(transpose(prior.coupling_after(t)), mean[t + 1])
        mean[t] = _apply_columns(inverse[t], vectors[t] + back)
    return mean


def moments_backward(
    inverse: Array, vectors: Array, prior: Prior
) -> Iterator[tuple[int, Array, Array, Array | None]]:
    """``t``, ``c_t``, ``Cov_t`` and ``Cov(c_t, c_{t+1})`` after `sweep`, from the last t on.

    ``Cov_t = V + V D' Cov_{t+1} D V``. The last time has no following one, and no cross-covariance.
    """
    mean, covariance = _apply_columns(inverse[-1], vectors[-1]), inverse[-1]
    yield len(inverse) - 1, mean, covariance, None
    for t in range(len(inverse) - 2, -1, -1):
        back = transpose(prior.coupling_after(t))
        mean = _apply_columns(inverse[t], vectors[t] + _apply_columns(back, mean))
        gain = multiply(inverse[t], back)
        cross = multiply(gain, covariance)
        covariance = multiply(cross, transpose(gain)) + inverse[t]
        yield t, mean, covariance, cross


def predicted(inverse: Array, vectors: Array, prior: Prior, t: int) -> tuple[Array, Array]:
    """Mean (N, P) and covariance of free state t given the times before it."""
    if t == 0:
        return prior.mean, invert(prior.precision)[0]
    return predict_step(prior, prior.free[t - 1], inverse[t - 1], vectors[t - 1])


def predict_step(prior: Prior, which: Array, inverse: Array, vector: Array) -> tuple[Array, Array]:
    """Prediction one step on from eliminated states: remove the pull of the next, then move.

    The batch are paths, or states of one path at several times.
    """
    precision = add(invert(inverse)[0], -prior.pull[..., which])
    filtered = invert(precision)[0]
    f = prior.factor[..., which]
    state = apply(f, apply(filtered, vector))
    omega = _batch_last(prior.transition.covariance[which], f.ndim == 2)
    return state, add(sandwich(f, filtered), omega)


def full_covariance(block: Array) -> Array:
    """A block as a stack of matrices (B, N, N)."""
    return np.moveaxis(as_matrix(block), -1, 0)

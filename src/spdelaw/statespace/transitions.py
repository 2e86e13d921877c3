"""Likelihood and score of completely observed states of a semilinear law."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from spdelaw.processes.closure import Closure, Moments, Tape, advance, pull_back
from spdelaw.processes.linear import distinct_steps
from spdelaw.processes.state_noise import second_moment
from spdelaw.statespace.filter import Scores

# ---------- Likelihood and score of completely observed coefficients
#
# Given the state x before, the next state is Gaussian to the order of the closure, so the
# log-likelihood is a sum over transitions of
#
#     -1/2 (r' P^-1 r + log |P| + N log 2 pi),    r = y - m(x),  P = P(x),
#
# and its gradient by m and P, ``P^-1 r`` and ``(P^-1 r r' P^-1 - P^-1) / 2``, is pulled back
# through the closure to the parameters. Each transition has a score of its own.
#
# Fields that were made by the semi-implicit scheme follow the scheme and not the equation. Theirs
# is Gaussian without any closure, with ``m = (x + dt F(x)) / (1 + lambda dt)`` and ``P = q dt / (1
# + lambda dt)^2``.
#
# One-step-ahead errors of complete states, ``z = L^-1 (y - m)`` with ``P = L L'``, are independent
# N(0, 1) where the law fits.


Array = np.ndarray

#: Transitions that are worked on together; their matrices should stay in cache.
BATCH_TRANSITIONS = 128
#: Lengths of steps up to which each is worked on by itself.
FEW_STEPS = 8
#: Triangles that are inverted as they are.
SMALL_TRIANGLE = 8


class Transitions(NamedTuple):
    """Pairs of successive states.

    Attributes:
        before: (n, N).
        after: (n, N).
        dt: time between them, (n,).
        path: which path each belongs to, (n,).
        steps: how many more sub-steps each needs than a slow one, (n,).
    """

    before: Array
    after: Array
    dt: Array
    path: Array
    steps: Array

    def take(self, rows: Array) -> Transitions:
        """Some of the transitions."""
        return Transitions(*(values[rows] for values in self))

    def draw(self, n: int) -> Transitions:
        """At most n transitions, drawn at random, the same every time.

        A fixed stride could fall into step with the paths and see only their first states.
        """
        if n >= len(self.dt):
            return self
        chosen = np.random.default_rng(0).choice(len(self.dt), n, replace=False)
        return self.take(np.sort(chosen))


def has_few_steps(data: Transitions) -> bool:
    """Whether steps have few lengths, so that it pays to prepare each of them."""
    return len(distinct_steps(data.dt)[0]) <= FEW_STEPS


def transitions(coefficients: Array, times: Array) -> Transitions:
    """Pairs from coefficients (P, T, N) at times (T,) or (P, T); rows with NaN break a pair."""
    n_paths, n_times = coefficients.shape[:2]
    dt = np.diff(np.broadcast_to(times, (n_paths, n_times)), axis=1)
    whole = np.isfinite(coefficients).all(2)
    keep = whole[:, 1:] & whole[:, :-1]
    path = np.broadcast_to(np.arange(n_paths)[:, None], keep.shape)
    before, after = coefficients[:, :-1][keep], coefficients[:, 1:][keep]
    return Transitions(before, after, dt[keep], path[keep], np.ones(len(before), int))


def closure_scores(closure: Closure, data: Transitions, n_steps: int) -> Scores:
    """Log-likelihood and score of each transition; NaN where a covariance is not positive."""
    n, shape = len(data.before), data.before.shape
    value, rate, noise = np.empty(n), np.empty(shape), np.empty((n, len(closure.noise)))
    coefficient, offset = np.empty((n, len(closure.coefficients))), np.empty(n)
    for rows, error, covariance, tape in _prediction_errors(closure, data, n_steps):
        with np.errstate(over="ignore", invalid="ignore"):
            value[rows], by = gaussian(error, covariance)
            pulled = pull_back(closure, tape, by)
        rate[rows], noise[rows], coefficient[rows], offset[rows] = pulled[2:]
    by_number = {"eigenvalue": rate, "noise_variance": noise, "coefficient": coefficient}
    return Scores(value, by_number | {"noise_offset": offset})


def linear_scores(
    closure: Closure, data: Transitions, directions: Array
) -> tuple[Array, Array, Array]:
    """The same where moments are linear, along directions (K, k) of the parameters.

    Returns the log-likelihood of each transition (n,), scores (n, k), and the expected information

        I_jk = sum_n (d_j m' P^-1 d_k m + tr(P^-1 d_j P P^-1 d_k P) / 2),

    which needs no more than the first two moments of a transition.
    """
    n, k = len(data.dt), directions.shape[1]
    value, scores, information = np.empty(n), np.empty((n, k)), np.zeros((k, k))
    lengths, which = distinct_steps(data.dt)
    for number, dt in enumerate(map(float, lengths)):
        slopes = closure.flow_slopes(dt, directions)
        index = np.flatnonzero(which == number)
        for start in range(0, len(index), BATCH_TRANSITIONS):
            rows = index[start : start + BATCH_TRANSITIONS]
            batch = data.before[rows], data.after[rows]
            value[rows], scores[rows], part = _linear_batch(closure, dt, slopes, *batch)
            information += part
    return value, scores, information


def _linear_batch(
    closure: Closure, dt: float, slopes: Array, before: Array, after: Array
) -> tuple[Array, Array, Array]:
    """Log-likelihood, scores and information of some transitions of one length."""
    lifted: Any = closure.lift
    z = lifted.pack(before, second_moment(before, None))
    mean, second = lifted.unpack(z @ closure.flow(dt).T)
    by_mean, by_second = lifted.unpack(z @ slopes.transpose(0, 2, 1))
    both = mean[:, :, None] * by_mean[:, :, None, :]
    by_covariance = by_second - both - both.swapaxes(-1, -2)
    # All in units of the deviations of the transition, ``W P W' = 1``.
    whitener, log_det = whitening(second - second_moment(mean, None))
    error = (whitener @ (after - mean)[..., None])[..., 0]
    by_mean = (whitener @ by_mean[..., None])[..., 0]
    by_covariance = whitener @ by_covariance @ whitener.transpose(0, 2, 1)
    n = mean.shape[1]
    value = -0.5 * ((error**2).sum(1) + log_det + n * np.log(2.0 * np.pi))
    excess = second_moment(error, None) - np.eye(n)
    scores = (by_mean * error).sum(-1) + 0.5 * (by_covariance * excess).sum((-2, -1))
    flat_mean, flat = by_mean.reshape(len(slopes), -1), by_covariance.reshape(len(slopes), -1)
    return value, scores.T, flat_mean @ flat_mean.T + 0.5 * flat @ flat.T


def closure_log_likelihood(closure: Closure, data: Transitions) -> Array:
    """Log-likelihood of each transition alone; (n,)."""
    out = np.empty(len(data.dt))
    for rows, error, covariance, _ in _prediction_errors(closure, data):
        out[rows] = gaussian(error, covariance)[0]
    return out


def _prediction_errors(
    closure: Closure, data: Transitions, n_steps: int = 1
) -> Iterator[tuple[Array, Array, Array, Tape]]:
    """Rows that share the length of the step and the number of sub-steps, and their errors.

    Errors of the predictions (B, N), their covariance (B, N, N), and the tape of the move.
    """
    lengths, which = distinct_steps(data.dt)
    if not has_few_steps(data):
        which = np.zeros(len(which), int)
    for k, steps in {*zip(which.tolist(), data.steps.tolist(), strict=True)}:
        index = np.flatnonzero((which == k) & (data.steps == steps))
        for start in range(0, len(index), BATCH_TRANSITIONS):
            rows = index[start : start + BATCH_TRANSITIONS]
            dt: Any = float(lengths[k]) if has_few_steps(data) else data.dt[rows]
            with np.errstate(over="ignore", invalid="ignore"):
                prediction, tape = advance(closure, data.before[rows], None, dt, n_steps * steps)
            yield rows, data.after[rows] - prediction.mean, prediction.covariance, tape


def gaussian(residual: Array, covariance: Array) -> tuple[Array, Moments]:
    """``log N(r; 0, P)`` (B,) and its gradients by the mean, (B, N), and by P, (B, N, N)."""
    nothing = np.full(len(residual), np.nan)
    try:
        whitener, log_det = whitening(covariance)
    except np.linalg.LinAlgError:
        return nothing, Moments(np.zeros_like(residual), np.zeros_like(covariance))
    inverse = whitener.transpose(0, 2, 1) @ whitener
    z = np.einsum("bij,bj->bi", inverse, residual)
    value = -0.5 * ((residual * z).sum(1) + log_det + residual.shape[1] * np.log(2.0 * np.pi))
    return value, Moments(z, 0.5 * (z[:, :, None] * z[:, None, :] - inverse))


def whitening(covariance: Array) -> tuple[Array, Array]:
    """Triangles W with ``W P W' = 1``, (B, N, N), and ``log |P|``, (B,)."""
    # Modes differ by orders of magnitude: the correlation matrix is what one can invert.
    scale = np.sqrt(np.einsum("bii->bi", covariance))
    factor = np.linalg.cholesky(covariance / (scale[:, :, None] * scale[:, None, :]))
    log_det = 2.0 * np.log(np.einsum("bii->bi", factor) * scale).sum(1)
    return _triangular_inverse(factor) / scale[:, None, :], log_det


def _triangular_inverse(lower: Array) -> Array:
    """Inverses of lower triangles (B, N, N) by halves.

    Products of a batch are five times as fast as LAPACK on matrices of this size.
    """
    n = lower.shape[-1]
    if n <= SMALL_TRIANGLE:
        return np.linalg.inv(lower)
    half, out = n // 2, np.zeros_like(lower)
    first = _triangular_inverse(lower[:, :half, :half])
    last = _triangular_inverse(lower[:, half:, half:])
    out[:, :half, :half], out[:, half:, half:] = first, last
    out[:, half:, :half] = -last @ (lower[:, half:, :half] @ first)
    return out


def scheme_scores(closure: Closure, data: Transitions, values: Array) -> Scores:
    """The same for data of the semi-implicit scheme.

    Args:
        closure: the equation.
        data: pairs of successive states, one step of the scheme apart.
        values: ``<g_t(x), h_n>`` of each term at the states before, (n_terms, n, N).
    """
    dt = data.dt[:, None]
    damp = 1.0 / (1.0 + closure.rates * dt)
    explicit = data.before + dt * np.tensordot(closure.coefficients, values, 1)
    variance = closure.noise * dt * damp**2
    residual = data.after - damp * explicit
    z = residual / variance
    value = -0.5 * (residual * z + np.log(2.0 * np.pi * variance)).sum(1)
    # d damp / d lambda = -dt damp^2; the mean scales with damp, the variance with its square.
    by_variance = 0.5 * (z**2 - 1.0 / variance)
    rate = -dt * damp * (z * damp * explicit + 2.0 * by_variance * variance)
    coefficient = np.einsum("nk,tnk->nt", z * dt * damp, values)
    noise = by_variance * variance / closure.noise
    by_number = {"eigenvalue": rate, "noise_variance": noise, "coefficient": coefficient}
    return Scores(value, by_number)


def scheme_innovations(closure: Closure, data: Transitions) -> Array:
    """Standardised errors of states of the semi-implicit scheme; (n, N)."""
    dt = data.dt[:, None]
    damp = 1.0 / (1.0 + closure.rates * dt)
    explicit = data.before + dt * closure.reaction.drift(closure.total, data.before)
    return np.asarray((data.after - damp * explicit) / (np.sqrt(closure.noise * dt) * damp))


def transition_innovations(closure: Closure, data: Transitions, n_steps: int = 1) -> Array:
    """Standardised errors of complete states; (n, N)."""
    out = np.empty_like(data.after)
    for rows, error, covariance, _ in _prediction_errors(closure, data, n_steps):
        root = np.linalg.cholesky(covariance)
        out[rows] = np.linalg.solve(root, error[..., None])[..., 0]
    return out

"""Likelihood, score, filter and smoother of a semilinear state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from spdelaw.processes import operators
from spdelaw.processes.closure import Closure, Moments, Tape, advance, pull_back
from spdelaw.processes.linear import distinct_steps
from spdelaw.processes.specification import InitialState
from spdelaw.statespace.blocks import in_full
from spdelaw.statespace.collapse import Block

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


class Scores(NamedTuple):
    """Log-likelihood (n,) of each transition, or of each path, and its gradients.

    Attributes:
        value: (n,).
        rate: by ``lambda``, (n, N).
        noise: by ``q``, (n, N).
        coefficient: by ``theta``, (n, n_terms).
        observation: by r, (n,); None where there is no noise of observations.
    """

    value: Array
    rate: Array
    noise: Array
    coefficient: Array
    observation: Any = None


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
    shape = data.before.shape
    coefficient = np.empty((shape[0], len(closure.coefficients)))
    out = Scores(np.empty(shape[0]), np.empty(shape), np.empty(shape), coefficient)
    for rows, error, covariance, tape in _prediction_errors(closure, data, n_steps):
        with np.errstate(over="ignore", invalid="ignore"):
            out.value[rows], by = gaussian(error, covariance)
            pulled = pull_back(closure, tape, by)
        out.rate[rows], out.noise[rows], out.coefficient[rows] = pulled[2:]
    return out


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
    for k, dt in enumerate(lengths):
        for steps in np.unique(data.steps[which == k]):
            index = np.flatnonzero((which == k) & (data.steps == steps))
            for start in range(0, len(index), BATCH_TRANSITIONS):
                rows = index[start : start + BATCH_TRANSITIONS]
                with np.errstate(over="ignore", invalid="ignore"):
                    n = n_steps * int(steps)
                    prediction, tape = advance(closure, data.before[rows], None, float(dt), n)
                yield rows, data.after[rows] - prediction.mean, prediction.covariance, tape


def gaussian(residual: Array, covariance: Array) -> tuple[Array, Moments]:
    """``log N(r; 0, P)`` (B,) and its gradients by the mean, (B, N), and by P, (B, N, N)."""
    n = residual.shape[1]
    # Modes differ by orders of magnitude: the correlation matrix is what one can invert.
    scale = np.sqrt(np.einsum("bii->bi", covariance))
    try:
        factor = np.linalg.cholesky(covariance / (scale[:, :, None] * scale[:, None, :]))
    except np.linalg.LinAlgError:
        nothing = np.full(len(residual), np.nan)
        return nothing, Moments(np.zeros_like(residual), np.zeros_like(covariance))
    log_det = 2.0 * np.log(np.einsum("bii->bi", factor) * scale).sum(1)
    whitener = _triangular_inverse(factor)
    inverse = whitener.transpose(0, 2, 1) @ whitener / (scale[:, :, None] * scale[:, None, :])
    z = np.einsum("bij,bj->bi", inverse, residual)
    value = -0.5 * ((residual * z).sum(1) + log_det + n * np.log(2.0 * np.pi))
    return value, Moments(z, 0.5 * (z[:, :, None] * z[:, None, :] - inverse))


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
    return Scores(value, rate, by_variance * variance / closure.noise, coefficient)


def transition_innovations(closure: Closure, data: Transitions, n_steps: int = 1) -> Array:
    """Standardised errors of complete states; (n, N)."""
    out = np.empty_like(data.after)
    for rows, error, covariance, _ in _prediction_errors(closure, data, n_steps):
        root = np.linalg.cholesky(covariance)
        out[rows] = np.linalg.solve(root, error[..., None])[..., 0]
    return out


# ---------- Filter, score and smoother with gaps and observation noise
#
# Between observations a Gaussian moves by the closure. At a time with collapsed observations
# ``G, c_hat, RSS`` (`collapse`) and noise variance r,
#
#     M = I + P G / r,   W = (G / r) M^-1,   delta = c_hat - m,   g = W delta,   s = M^-1 delta,
#     log p = -1/2 (n log 2 pi r - log w + log |M| + RSS / r + delta' g),
#     m+ = m + P g,      P+ = M^-1 P.
#
# Nothing is inverted but M, so points may be missing altogether (G = 0). Gradients run backwards
# through the same steps; the stages of the moves are kept where they fit into `TAPE_BYTES`, and
# computed anew on the way where they do not.
#
# The first states of a bistable field are not Gaussian, and no Gaussian start makes their
# likelihood honest. Terms before ``burn`` are left out: what is left is the density of the later
# observations given the first ones.


#: Most bytes of kept stages, and matrices that a sub-step keeps.
TAPE_BYTES, TAPE_MATRICES = 3e8, 14


class _Row(NamedTuple):
    """One time of the filter, as its pull-back needs it.

    Attributes:
        gram: ``G``, (B, N, N) or (1, N, N).
        before, after: state before and after the update; means (P, N).
        inverse, gain, residual: ``M^-1``, g and s.
        value: log density without terms that do not depend on the state, (P,).
        tape: stages of the move to this time, where they are kept.
    """

    gram: Array
    before: Moments
    after: Moments
    inverse: Array
    gain: Array
    residual: Array
    value: Array
    tape: Tape | None


def filter_scores(
    closure: Closure, block: Block, r: float, prior: InitialState, n_steps: int = 1,
    burn: float = 0.0, value_only: bool = False,
) -> Scores:  # fmt: skip
    """Log-likelihood of the observations of a block and its gradients.

    Args:
        closure: the equation.
        block: paths with collapsed observations.
        r: variance of the observation noise.
        prior: state at the first time.
        n_steps: sub-steps of the closure between observations.
        burn: time from the first observation on within which terms do not count.
        value_only: leave the gradients at zero.
    """
    n_times, n, n_paths = block.vector.shape
    size = 8 * TAPE_MATRICES * n_times * n_steps * n_paths * n**2
    rows = _filter_rows(closure, block, r, prior, n_steps, not value_only and size <= TAPE_BYTES)
    age = block.times - block.times[:1]
    counts = np.broadcast_to(age >= burn, (n_times, n_paths)).astype(float)
    # The residual, RSS, carries information on r at every time: only the numbers that determine
    # the state, as many as the rank of G, are left out where a term does not count.
    n_values = block.n_values.astype(float)
    for t in np.flatnonzero((counts == 0.0).any(1)):
        ranks = np.linalg.matrix_rank(rows[t].gram, hermitian=True)
        n_values = n_values - (1.0 - counts[t]) * ranks
    constant = n_values * np.log(2.0 * np.pi * r) - block.log_weight + block.misfit / r
    value = (counts * np.array([row.value for row in rows])).sum(0) - 0.5 * constant
    rate, noise, by_r = np.zeros((n_paths, n)), np.zeros((n_paths, n)), np.zeros(n_paths)
    theta = np.zeros((n_paths, len(closure.coefficients)))
    if value_only or not np.isfinite(value).all():
        return Scores(value, rate, noise, theta, by_r)
    by_r -= 0.5 * (n_values / r - block.misfit / r**2)
    dt, by = _time_steps(block), Moments(np.zeros((n_paths, n)), np.zeros((n_paths, n, n)))
    while rows:
        row = rows.pop()
        by, change = _pull_back_update(row, r, counts[len(rows)], by)
        by_r += change
        if rows:
            start, tape = rows[-1].after, row.tape
            if tape is None:
                last = dt[len(rows) - 1]
                _, tape = advance(closure, start.mean, start.covariance, last, n_steps)
            pulled = pull_back(closure, tape, by)
            by = Moments(pulled.mean, pulled.covariance)
            rate, noise = rate + pulled.rate, noise + pulled.noise
            theta = theta + pulled.coefficient
    return Scores(value, rate, noise, theta, by_r)


def _time_steps(block: Block) -> list[Array | float]:
    """Time since the observation before: a number where shared, else (P,)."""
    dt = np.diff(block.times, axis=0)
    if block.times.shape[1] == 1 or np.ptp(dt, axis=1).max(initial=0.0) == 0.0:
        return [float(row[0]) for row in dt]
    return list(dt)


def _filter_rows(
    closure: Closure, block: Block, r: float, prior: InitialState, n_steps: int, keep: bool = False
) -> list[_Row]:
    n_paths, dt = block.vector.shape[2], _time_steps(block)
    wide = operators.as_matrix(prior.covariance)
    state = Moments(np.tile(prior.mean, (n_paths, 1)), np.tile(wide, (n_paths, 1, 1)))
    tape: Tape | None = None
    rows: list[_Row] = []
    for t, (gram, estimate) in enumerate(zip(block.matrices, block.estimate, strict=True)):
        if t:
            state, tape = advance(closure, state.mean, state.covariance, dt[t - 1], n_steps)
        rows.append(_update_row(state, gram, estimate.T, r, tape if keep else None))
        state = rows[-1].after
    return rows


def _update_row(before: Moments, gram: Array, estimate: Array, r: float, tape: Tape | None) -> _Row:
    m, p, _ = before
    matrix = np.eye(m.shape[1]) + p @ (gram / r)
    inverse = np.linalg.inv(matrix)
    _, log_det = np.linalg.slogdet(matrix)
    delta = estimate - m
    residual = np.einsum("bij,bj->bi", inverse, delta)
    gain = np.einsum("bij,bj->bi", np.broadcast_to(gram / r, p.shape), residual)
    wide = inverse @ p
    value = -0.5 * (log_det + (delta * gain).sum(1))
    mean = m + np.einsum("bij,bj->bi", p, gain)
    after = Moments(mean, 0.5 * (wide + wide.transpose(0, 2, 1)))
    return _Row(gram, before, after, inverse, gain, residual, value, tape)


def _pull_back_update(row: _Row, r: float, count: Array, by: Moments) -> tuple[Moments, Array]:
    """Gradients before an update, and by r, from those after it and from its own term.

    ``dm+ = M^-1 (dm + dP g)``, ``dP+ = M^-1 dP M^-T``, and by r
    ``dm+ = -P W s / r``, ``dP+ = P+ G P+ / r^2``.
    """
    (m, p, _), spread, gain = by, row.before.covariance, row.gain
    turned = np.einsum("bij,bi->bj", row.inverse, m)
    w = np.broadcast_to(row.gram / r, spread.shape) @ row.inverse
    term_gradient = 0.5 * count[:, None, None] * (gain[:, :, None] * gain[:, None, :] - w)
    outer = turned[:, :, None] * gain[:, None, :]
    by_p = row.inverse.transpose(0, 2, 1) @ p @ row.inverse
    by_p += 0.5 * (outer + outer.transpose(0, 2, 1)) + 0.5 * (
        term_gradient + term_gradient.transpose(0, 2, 1)
    )
    # d/dr of the term at this time: (tr(W P) + g's) / (2 r)
    of_term = np.einsum("bij,bji->b", w, spread) + (gain * row.residual).sum(1)
    shrink = np.einsum("bij,bjk,bk->bi", spread, w, row.residual, optimize=True)
    widen = row.after.covariance @ np.broadcast_to(row.gram, spread.shape) @ row.after.covariance
    by_r = 0.5 * count * of_term / r - (m * shrink).sum(1) / r + (p * widen).sum((1, 2)) / r**2
    return Moments(turned + count[:, None] * gain, by_p), by_r


def smooth_semilinear(
    closure: Closure, block: Block, r: float, prior: InitialState, n_steps: int = 1
) -> Moments:
    """States given all observations of their path (Rauch, Tung and Striebel); times first.

    ``m_t|T = m_t + C P_{t+1}^-1 (m_{t+1}|T - m_{t+1})`` with C the covariance of the state at t
    with the next one. Means (T, P, N) and covariances (T, P, N, N).
    """
    rows, dt = _filter_rows(closure, block, r, prior, n_steps), _time_steps(block)
    out = [rows[-1].after]
    for t in range(len(rows) - 2, -1, -1):
        (m, p, _), ahead, (later, wide, _) = rows[t].after, rows[t + 1].before, out[-1]
        moved, _ = advance(closure, m, p, dt[t], n_steps, cross=True)
        gain = np.linalg.solve(ahead.covariance, moved.cross.transpose(0, 2, 1)).transpose(0, 2, 1)  # type: ignore[union-attr]
        mean = m + np.einsum("bij,bj->bi", gain, later - ahead.mean)
        out.append(Moments(mean, p + gain @ (wide - ahead.covariance) @ gain.transpose(0, 2, 1)))
    means, spreads, _ = zip(*reversed(out), strict=True)
    return Moments(np.array(means), np.array(spreads))


# ---------- Long records cut into segments that are filtered in parallel
#
# After a run-in of a few time scales the state of a filter hardly depends on where it began.
# A record is cut into segments that each begin one run-in early; terms of the run-in do not count
# (``burn`` of `filter_scores`), so every term counts once, given the observations of its segment
# before it.


#: Segments and paths that are filtered together.
PARALLEL_SEGMENTS = 16
#: A segment is at least this many times as long as its run-in, and this many times long.
FEWEST_RUN_INS, FEWEST_TIMES = 4, 40
#: Steps count as equal when they differ by less than this part.
STEP_TOLERANCE = 1e-9


def in_segments(block: Block, burn: float) -> Block:
    """The same block in segments, or as it is where that would not help.

    Misfit and values that do not depend on the state stay with the first segment of each path; the
    others have the values that their run-in leaves out.
    """
    n_times, _, n_paths = block.vector.shape
    dt = np.diff(block.times[:, 0])
    if block.times.shape[1] > 1 or n_times < 2 or np.ptp(dt) > STEP_TOLERANCE * dt.max():
        return block
    run_in = int((block.times[:, 0] - block.times[0, 0] < burn).sum())
    least = max(FEWEST_TIMES, FEWEST_RUN_INS * run_in)
    n_segments = min(PARALLEL_SEGMENTS // n_paths, (n_times - run_in) // least)
    if n_segments < 2:
        return block
    length = -(-(n_times - run_in) // n_segments)
    missing = run_in + n_segments * length - n_times

    def cut(values: Array) -> Array:
        """(T, ..., P) as (run_in + length, ..., P * n_segments), empty past the end."""
        values = np.broadcast_to(values, (*values.shape[:-1], n_paths))
        padded = np.concatenate([values, np.zeros((missing, *values.shape[1:]))])
        parts = [padded[k * length :][: run_in + length] for k in range(n_segments)]
        return np.stack(parts, axis=-1).reshape(*parts[0].shape[:-1], -1)

    def first(values: Array, others: Array | float = 0.0) -> Array:
        """What belongs to a whole path, with its first segment; (P * n_segments,)."""
        out = np.zeros(n_paths * n_segments) + others
        out[::n_segments] = values
        return out

    gram = cut(block.gram)
    ranks = np.linalg.matrix_rank(np.moveaxis(in_full(gram[:run_in]), -1, 1), hermitian=True)
    times = block.times[0, 0] + dt.mean() * np.arange(run_in + length)[:, None]
    return Block(
        np.repeat(block.paths, n_segments), times, gram, cut(block.vector), cut(block.estimate),
        first(block.misfit), first(block.n_values, ranks.sum(0)), first(block.log_weight),
        np.zeros(gram.shape[-1]),
    )  # fmt: skip

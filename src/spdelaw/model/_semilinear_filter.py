"""Filter, likelihood, score and smoother of a semilinear state behind gaps and noise.

Between observations a Gaussian moves by the closure. At a time with collapsed observations
``G, c_hat, RSS`` (`_collapse`) and noise variance r,

    M = I + P G / r,   W = (G / r) M^-1,   delta = c_hat - m,   g = W delta,   s = M^-1 delta,
    log p = -1/2 (n log 2 pi r - log w + log |M| + RSS / r + delta' g),
    m+ = m + P g,      P+ = M^-1 P.

Nothing is inverted but M, so points may be missing altogether (G = 0). Gradients run backwards
through the same steps; the stages of the moves are kept where they fit into `TAPE_BYTES`, and
computed anew on the way where they do not.

The first states of a bistable field are not Gaussian, and no Gaussian start makes their
likelihood honest. Terms before ``burn`` are left out: what is left is the density of the later
observations given the first ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.equation import (
    Closure,
    InitialState,
    Moments,
    Tape,
    advance,
    operators,
    pull_back,
)
from spdelaw.model._collapsed import Block
from spdelaw.model._semilinear_likelihood import Scores

Array = np.ndarray

#: Most bytes of kept stages, and matrices that a sub-step keeps.
TAPE_BYTES, TAPE_MATRICES = 3e8, 14


class _Row(NamedTuple):
    """One time of the filter, as its pull-back needs it.

    Attributes:
        gram: ``G``, (B, N, N) or (1, N, N).
        before, after: state before and after the update; means (P, N).
        inverse, gain, residual: ``M^-1``, g and s.
        value: log density without what no state enters, (P,).
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
    rows = _forward(closure, block, r, prior, n_steps, not value_only and size <= TAPE_BYTES)
    age = block.times - block.times[:1]
    counts = np.broadcast_to(age >= burn, (n_times, n_paths)).astype(float)
    # What the modes leave over, RSS, says something about r at every time: only the numbers that
    # tell of the state, as many as G has ranks, are left out where a term does not count.
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
    dt, by = _steps(block), Moments(np.zeros((n_paths, n)), np.zeros((n_paths, n, n)))
    while rows:
        row = rows.pop()
        by, change = _pull_update(row, r, counts[len(rows)], by)
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


def _steps(block: Block) -> list[Array | float]:
    """Time since the observation before: a number where shared, else (P,)."""
    dt = np.diff(block.times, axis=0)
    if block.times.shape[1] == 1 or np.ptp(dt, axis=1).max(initial=0.0) == 0.0:
        return [float(row[0]) for row in dt]
    return list(dt)


def _forward(
    closure: Closure, block: Block, r: float, prior: InitialState, n_steps: int, keep: bool = False
) -> list[_Row]:
    n_paths, dt = block.vector.shape[2], _steps(block)
    wide = operators.as_matrix(prior.covariance)
    state = Moments(np.tile(prior.mean, (n_paths, 1)), np.tile(wide, (n_paths, 1, 1)))
    tape: Tape | None = None
    rows: list[_Row] = []
    for t, (gram, estimate) in enumerate(zip(block.matrices, block.estimate, strict=True)):
        if t:
            state, tape = advance(closure, state.mean, state.covariance, dt[t - 1], n_steps)
        rows.append(_update(state, gram, estimate.T, r, tape if keep else None))
        state = rows[-1].after
    return rows


def _update(before: Moments, gram: Array, estimate: Array, r: float, tape: Tape | None) -> _Row:
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


def _pull_update(row: _Row, r: float, count: Array, by: Moments) -> tuple[Moments, Array]:
    """Gradients before an update, and by r, from those after it and from its own term.

    ``dm+ = M^-1 (dm + dP g)``, ``dP+ = M^-1 dP M^-T``, and by r
    ``dm+ = -P W s / r``, ``dP+ = P+ G P+ / r^2``.
    """
    (m, p, _), spread, gain = by, row.before.covariance, row.gain
    turned = np.einsum("bij,bi->bj", row.inverse, m)
    w = np.broadcast_to(row.gram / r, spread.shape) @ row.inverse
    own = 0.5 * count[:, None, None] * (gain[:, :, None] * gain[:, None, :] - w)
    outer = turned[:, :, None] * gain[:, None, :]
    by_p = row.inverse.transpose(0, 2, 1) @ p @ row.inverse
    by_p += 0.5 * (outer + outer.transpose(0, 2, 1)) + 0.5 * (own + own.transpose(0, 2, 1))
    # d/dr of the own term: (tr(W P) + g's) / (2 r)
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
    rows, dt = _forward(closure, block, r, prior, n_steps), _steps(block)
    out = [rows[-1].after]
    for t in range(len(rows) - 2, -1, -1):
        (m, p, _), ahead, (later, wide, _) = rows[t].after, rows[t + 1].before, out[-1]
        moved, _ = advance(closure, m, p, dt[t], n_steps, cross=True)
        gain = np.linalg.solve(ahead.covariance, moved.cross.transpose(0, 2, 1)).transpose(0, 2, 1)  # type: ignore[union-attr]
        mean = m + np.einsum("bij,bj->bi", gain, later - ahead.mean)
        out.append(Moments(mean, p + gain @ (wide - ahead.covariance) @ gain.transpose(0, 2, 1)))
    means, spreads, _ = zip(*reversed(out), strict=True)
    return Moments(np.array(means), np.array(spreads))

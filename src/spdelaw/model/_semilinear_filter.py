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

from spdelaw.equation import Closure, Moments, Tape, advance, pull_back
from spdelaw.model._collapsed import Block
from spdelaw.model._semilinear_likelihood import Scores

Array = np.ndarray

#: Most bytes of kept stages, and matrices that a sub-step keeps.
TAPE_BYTES, TAPE_MATRICES = 3e8, 14


class Prior(NamedTuple):
    """Mean and variance (N,) of the state at the first time, modes independent."""

    mean: Array
    variance: Array


class SemilinearStates(NamedTuple):
    """Mean (T, P, N) and covariance (T, P, N, N) of the states given all observations."""

    mean: Array
    covariance: Array


class _Update(NamedTuple):
    """What an update leaves for its pull-back."""

    mean: Array
    covariance: Array
    inverse: Array
    gain: Array
    residual: Array
    value: Array


def filter_scores(
    closure: Closure, block: Block, r: float, prior: Prior, n_steps: int = 1, burn: float = 0.0,
    value_only: bool = False,
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
    gram, dt = block.matrices, _steps(block)
    counts = _counted(block, burn)
    tapes: list[Tape] | None = None if value_only or _is_long(block, n_steps) else []
    before, updates = _forward(closure, block, gram, dt, r, prior, n_steps, tapes)
    value = (counts * np.array([u.value for u in updates])).sum(0)
    value += _constant(block, gram, counts, r)
    if value_only or not np.isfinite(value).all():
        zero = np.zeros_like(updates[0].mean)
        return Scores(value, zero, zero, zero[:, : len(closure.coefficients)], value * 0.0)
    return _backward(closure, block, gram, dt, r, n_steps, counts, before, updates, value, tapes)


def _is_long(block: Block, n_steps: int) -> bool:
    """Whether the stages of all moves are too much to keep."""
    n_times, n, n_paths = block.vector.shape
    return 8 * TAPE_MATRICES * n_times * n_steps * n_paths * n**2 > TAPE_BYTES


def _steps(block: Block) -> list[Array | float]:
    """Time since the observation before: a number where shared, else (P,)."""
    dt = np.diff(block.times, axis=0)
    if block.times.shape[1] == 1 or np.ptp(dt, axis=1).max(initial=0.0) == 0.0:
        return [float(row[0]) for row in dt]
    return list(dt)


def _counted(block: Block, burn: float) -> Array:
    """One for the terms that count, zero for those within ``burn``; (T, P)."""
    age = block.times - block.times[:1]
    return np.broadcast_to(age >= burn, (len(age), block.vector.shape[2])).astype(float)


def _constant(block: Block, gram: Array, counts: Array, r: float) -> Array:
    """``-1/2 (n log 2 pi r - log w + RSS / r)``; (P,).

    What the modes leave over, RSS, says something about r at every time: only the k numbers that
    tell of the state are left out where a term does not count.
    """
    n = block.n_values - _left_out(gram, counts)
    return -0.5 * (n * np.log(2.0 * np.pi * r) - block.log_weight + block.misfit / r)


def _left_out(gram: Array, counts: Array) -> Array:
    """Rank of G summed over the times that do not count; (P,)."""
    out = np.zeros(counts.shape[1])
    for t in np.flatnonzero((counts == 0.0).any(1)):
        out += (1.0 - counts[t]) * np.linalg.matrix_rank(gram[t], hermitian=True)
    return out


def _forward(
    closure: Closure, block: Block, gram: Array, dt: list, r: float, prior: Prior, n_steps: int,
    tapes: list[Tape] | None = None,
) -> tuple[list[Moments], list[_Update]]:  # fmt: skip
    n_paths = block.vector.shape[2]
    m = np.tile(prior.mean, (n_paths, 1))
    p = np.tile(np.diag(prior.variance), (n_paths, 1, 1))
    before: list[Moments] = []
    updates: list[_Update] = []
    for t in range(len(gram)):
        if t:
            state = updates[-1]
            (m, p, _), tape = advance(closure, state.mean, state.covariance, dt[t - 1], n_steps)
            if tapes is not None:
                tapes.append(tape)
        before.append(Moments(m, p))
        updates.append(_update(m, p, gram[t], block.estimate[t].T, r))
    return before, updates


def _update(m: Array, p: Array, gram: Array, estimate: Array, r: float) -> _Update:
    n = m.shape[1]
    matrix = np.eye(n) + p @ (gram / r)
    inverse = np.linalg.inv(matrix)
    _, log_det = np.linalg.slogdet(matrix)
    delta = estimate - m
    residual = np.einsum("bij,bj->bi", inverse, delta)
    gain = np.einsum("bij,bj->bi", np.broadcast_to(gram / r, p.shape), residual)
    wide = inverse @ p
    value = -0.5 * (log_det + (delta * gain).sum(1))
    m_next = m + np.einsum("bij,bj->bi", p, gain)
    return _Update(m_next, 0.5 * (wide + wide.transpose(0, 2, 1)), inverse, gain, residual, value)


def _backward(
    closure: Closure, block: Block, gram: Array, dt: list, r: float, n_steps: int, counts: Array,
    before: list[Moments], updates: list[_Update], value: Array, tapes: list[Tape] | None,
) -> Scores:  # fmt: skip
    n_paths, n = block.vector.shape[2], block.vector.shape[1]
    rate, noise = np.zeros((n_paths, n)), np.zeros((n_paths, n))
    theta = np.zeros((n_paths, len(closure.coefficients)))
    n_values = block.n_values - _left_out(gram, counts)
    by_r = -0.5 * (n_values / r - block.misfit / r**2)
    m, p = np.zeros((n_paths, n)), np.zeros((n_paths, n, n))
    for t in range(len(gram) - 1, -1, -1):
        m, p, change = _pull_update(before[t], updates[t], gram[t], r, counts[t], m, p)
        by_r += change
        if t:
            state = updates[t - 1]
            if tapes is None:
                _, tape = advance(closure, state.mean, state.covariance, dt[t - 1], n_steps)
            else:
                tape = tapes.pop()
            pulled = pull_back(closure, tape, Moments(m, p))
            m, p = pulled.mean, pulled.covariance
            rate, noise = rate + pulled.rate, noise + pulled.noise
            theta = theta + pulled.coefficient
    return Scores(value, rate, noise, theta, by_r)


def _pull_update(
    before: Moments, u: _Update, gram: Array, r: float, count: Array, m: Array, p: Array
) -> tuple[Array, Array, Array]:
    """Gradients before an update, and by r, from those after it and from its own term.

    ``dm+ = M^-1 (dm + dP g)``, ``dP+ = M^-1 dP M^-T``, and by r
    ``dm+ = -P W s / r``, ``dP+ = P+ G P+ / r^2``.
    """
    turned = np.einsum("bij,bi->bj", u.inverse, m)
    w = np.broadcast_to(gram / r, before.covariance.shape) @ u.inverse
    own = 0.5 * count[:, None, None] * (u.gain[:, :, None] * u.gain[:, None, :] - w)
    outer = turned[:, :, None] * u.gain[:, None, :]
    by_p = u.inverse.transpose(0, 2, 1) @ p @ u.inverse + 0.5 * (outer + outer.transpose(0, 2, 1))
    # d/dr of the own term: (tr(W P) + g's) / (2 r)
    spread = np.einsum("bij,bji->b", w, before.covariance) + (u.gain * u.residual).sum(1)
    shrink = np.einsum("bij,bjk,bk->bi", before.covariance, w, u.residual, optimize=True)
    widen = u.covariance @ np.broadcast_to(gram, before.covariance.shape) @ u.covariance
    by_r = 0.5 * count * spread / r - (m * shrink).sum(1) / r + (p * widen).sum((1, 2)) / r**2
    symmetric = by_p + 0.5 * (own + own.transpose(0, 2, 1))
    return turned + count[:, None] * u.gain, symmetric, by_r


def smooth_semilinear(
    closure: Closure, block: Block, r: float, prior: Prior, n_steps: int = 1
) -> SemilinearStates:
    """States given all observations of their path (Rauch, Tung and Striebel).

    ``m_t|T = m_t + C P_{t+1}^-1 (m_{t+1}|T - m_{t+1})`` with C the covariance of the state at t
    with the next one.
    """
    gram, dt = block.matrices, _steps(block)
    before, updates = _forward(closure, block, gram, dt, r, prior, n_steps)
    m, p = updates[-1].mean, updates[-1].covariance
    means, spreads = [m], [p]
    for t in range(len(gram) - 2, -1, -1):
        state, ahead = updates[t], before[t + 1]
        moved, _ = advance(closure, state.mean, state.covariance, dt[t], n_steps, cross=True)
        gain = np.linalg.solve(ahead.covariance, moved.cross.transpose(0, 2, 1)).transpose(0, 2, 1)  # type: ignore[union-attr]
        m = state.mean + np.einsum("bij,bj->bi", gain, m - ahead.mean)
        p = state.covariance + gain @ (p - ahead.covariance) @ gain.transpose(0, 2, 1)
        means.insert(0, m)
        spreads.insert(0, p)
    return SemilinearStates(np.array(means), np.array(spreads))

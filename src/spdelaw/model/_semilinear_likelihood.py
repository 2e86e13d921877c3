"""Likelihood of semilinear coefficients that are observed completely, with its score.

Given the state x before, the next state is Gaussian to the order of the closure, so the
log-likelihood is a sum over transitions of

    -1/2 (r' P^-1 r + log |P| + N log 2 pi),    r = y - m(x),  P = P(x),

and its gradient by m and P, ``P^-1 r`` and ``(P^-1 r r' P^-1 - P^-1) / 2``, is pulled back through the
closure to the parameters. Each transition has a score of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spdelaw.equation import Closure, Moments, Pulled, advance, distinct_steps, pull_back

Array = np.ndarray

#: Transitions that are worked on together; their matrices should stay in cache.
AT_ONCE = 128


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

    def every(self, stride: int) -> Transitions:
        """One in ``stride`` transitions."""
        return Transitions(*(part[::stride] for part in self))


class Scores(NamedTuple):
    """Log-likelihood (n,) of each transition and its gradients, (n, N), (n, N), (n, n_terms)."""

    value: Array
    rate: Array
    noise: Array
    coefficient: Array


def transitions(coefficients: Array, times: Array) -> Transitions:
    """Pairs from coefficients (P, T, N) at times (T,) or (P, T); rows with NaN break a pair."""
    n_paths, n_times, n = coefficients.shape
    dt = np.diff(np.broadcast_to(times, (n_paths, n_times)), axis=1)
    whole = np.isfinite(coefficients).all(2)
    keep = whole[:, 1:] & whole[:, :-1]
    path = np.broadcast_to(np.arange(n_paths)[:, None], keep.shape)
    before, after = coefficients[:, :-1][keep], coefficients[:, 1:][keep]
    return Transitions(before, after, dt[keep], path[keep], np.ones(len(before), int))


def closure_scores(closure: Closure, data: Transitions, n_steps: int) -> Scores:
    """Log-likelihood and score of each transition; NaN where a covariance is not positive."""
    n, n_modes = data.before.shape
    out = Scores(
        np.empty(n), np.empty((n, n_modes)), np.empty((n, n_modes)),
        np.empty((n, len(closure.coefficients))),
    )  # fmt: skip
    for rows, dt, steps in _batches(data):
        before, after = data.before[rows], data.after[rows]
        value, pulled = _batch(closure, before, after, dt, n_steps * steps)
        out.value[rows], out.rate[rows] = value, pulled.rate
        out.noise[rows], out.coefficient[rows] = pulled.noise, pulled.coefficient
    return out


def _batches(data: Transitions) -> Iterator[tuple[Array, float, int]]:
    """Rows that share the length of the step and the number of sub-steps."""
    lengths, which = distinct_steps(data.dt)
    for k, dt in enumerate(lengths):
        for steps in np.unique(data.steps[which == k]):
            index = np.flatnonzero((which == k) & (data.steps == steps))
            for start in range(0, len(index), AT_ONCE):
                yield index[start : start + AT_ONCE], float(dt), int(steps)


def _batch(
    closure: Closure, before: Array, after: Array, dt: float, n_steps: int
) -> tuple[Array, Pulled]:
    with np.errstate(over="ignore", invalid="ignore"):
        found, tape = advance(closure, before, None, dt, n_steps)
        value, by = gaussian(after - found.mean, found.covariance)
        return value, pull_back(closure, tape, by)


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
    whitener = np.linalg.inv(factor)
    inverse = whitener.transpose(0, 2, 1) @ whitener / (scale[:, :, None] * scale[:, None, :])
    z = np.einsum("bij,bj->bi", inverse, residual)
    value = -0.5 * ((residual * z).sum(1) + log_det + n * np.log(2.0 * np.pi))
    return value, Moments(z, 0.5 * (z[:, :, None] * z[:, None, :] - inverse))

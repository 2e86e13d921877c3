"""Forward filter and backward smoother for any dynamics, on collapsed observations.

A row with ``G = L L'`` tells of the state what ``L' c`` with white noise of variance r would. The
state before it is N(m, P); with ``S = L' P L + r`` and the gain ``K = P L S^-1`` it is after it

    m+ = m + K L' (c_hat - m),    P+ = (1 - K L') P (1 - K L')' + r K K',

and ``Dynamics.moments`` carries it to the next time. The log density of a row is

    -1/2 [ n log(2 pi r) + log|S / r| + misfit / r + e' S^-1 e ],    e = L' (c_hat - m).

Nothing is divided by r but what is known, so that noise may be as small as rounding. For linear
dynamics this is the likelihood of `evaluate_likelihood` in another order of summation; for others
it is that of the Gaussian closure which their moments are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.equation import Step, operators
from spdelaw.model._collapsed import Block
from spdelaw.model._smoother import Smoothed
from spdelaw.model._state_space import StateSpace

Array = np.ndarray

#: Eigenvalues of a Gram matrix below this share of the largest are zero.
RANK_TOLERANCE = 1e-14


class Filtered(NamedTuple):
    """One path through the filter.

    Attributes:
        log_likelihood: one term per time, (T,).
        mean, covariance: after each observation, (T, N) and (T, N, N).
        predicted_mean, predicted_covariance: before it.
        steps: the moments of each step, T - 1 of them.
    """

    log_likelihood: Array
    mean: Array
    covariance: Array
    predicted_mean: Array
    predicted_covariance: Array
    steps: tuple[Step, ...]


def forward_filter(block: Block, state_space: StateSpace, path: int = 0) -> Filtered:
    """Filter one path of a block."""
    dynamics, r = state_space.dynamics, float(state_space.observation_variance)
    times = block.times[:, 0 if block.times.shape[1] == 1 else path]
    gram = block.gram[..., 0 if block.gram.shape[-1] == 1 else path]
    gram = gram if gram.ndim == 3 else operators.embed(gram)
    m = state_space.initial.mean + dynamics.response(times[:1])[0]
    p = operators.as_matrix(state_space.initial.covariance)
    logs, after, before, steps = [], [], [], []
    for t, row in enumerate(zip(gram, block.estimate[..., path], strict=True)):
        if t:
            step = dynamics.moments(m, p, float(times[t - 1]), float(times[t] - times[t - 1]))
            steps.append(step)
            m, p = step.mean, step.covariance
        before.append((m, p))
        log, m, p = update(m, p, *row, r)
        logs.append(log)
        after.append((m, p))
    # What no state enters goes to the first row.
    count, misfit = block.n_values[path] * np.log(2 * np.pi * r), block.misfit[path] / r
    logs[0] += float(-0.5 * (count + misfit - block.log_weight[path]))
    m, p, earlier, wider = (np.stack(x) for y in (after, before) for x in zip(*y, strict=True))
    return Filtered(np.array(logs), m, p, earlier, wider, tuple(steps))


def update(
    m: Array, p: Array, gram: Array, estimate: Array, r: float
) -> tuple[float, Array, Array]:
    """Log density of a row given the past, and the moments of the state after it.

    Without what no state enters, ``-1/2 [n log(2 pi r) + misfit / r]``.
    """
    if not gram.any():
        return 0.0, m, p
    root = _root(gram)
    spread = p @ root
    inner = root.T @ spread
    inner[np.diag_indices_from(inner)] += r
    gain = np.linalg.solve(inner, spread.T).T
    error = root.T @ (estimate - m)
    energy = error @ np.linalg.solve(inner, error)
    rest = np.eye(len(m)) - gain @ root.T
    log_ratio = np.linalg.slogdet(inner)[1] - len(inner) * np.log(r)
    after = rest @ p @ rest.T + r * gain @ gain.T
    return float(-0.5 * (log_ratio + energy)), m + gain @ error, after


def _root(gram: Array) -> Array:
    """``L`` with ``G = L L'``, (N, rank)."""
    try:
        return np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(gram)
        kept = values > RANK_TOLERANCE * values[-1]
        return vectors[:, kept] * np.sqrt(values[kept])


def rts_smoother(filtered: Filtered) -> tuple[Array, Array]:
    """Means (T, N) and covariances (T, N, N) given all data (Rauch, Tung and Striebel 1965)."""
    mean, covariance = filtered.mean.copy(), filtered.covariance.copy()
    for t in range(len(mean) - 2, -1, -1):
        step = filtered.steps[t]
        gain = np.linalg.lstsq(step.covariance, step.cross.T, rcond=1e-13)[0].T
        mean[t] += gain @ (mean[t + 1] - step.mean)
        covariance[t] += gain @ (covariance[t + 1] - step.covariance) @ gain.T
    return mean, covariance


def filter_log_likelihood(block: Block, state_space: StateSpace) -> Array:
    """Log-likelihood of each path of a block; (P,)."""
    paths = range(len(block.paths))
    return np.array([forward_filter(block, state_space, p).log_likelihood.sum() for p in paths])


def smooth_block(block: Block, state_space: StateSpace) -> Smoothed:
    """Smoothed means (T, N, P) and covariances (T, N, N, P) of every path of a block."""
    parts = [rts_smoother(forward_filter(block, state_space, p)) for p in range(len(block.paths))]
    means, covariances = zip(*parts, strict=True)
    return Smoothed(np.stack(means, -1), np.stack(covariances, -1))

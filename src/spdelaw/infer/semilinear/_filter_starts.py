"""Start values where fields have gaps or noise: rough states, then increments of them.

1. Each time on its own: ``c ~ N(0, v)`` and the observations, v by expectation-maximisation.
2. Exponential-Euler estimate from the increments of these states (`_starts`).
3. The filter's likelihood chooses among smaller noises: rough states move too much.
4. Steps 2 and 3 again with the states of the smoother.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from spdelaw.infer.semilinear._layout import Layout
from spdelaw.infer.semilinear._starts import start
from spdelaw.model import (
    Collapsed,
    Prior,
    Transitions,
    filter_scores,
    in_segments,
    smooth_semilinear,
    some_paths,
    transitions,
)

Array = np.ndarray

#: Rounds of expectation-maximisation for the variances of the modes.
ROUNDS = 8
#: Paths that are enough for rough states, and records that choose among starts.
PATHS, FEW = 12, 6
#: What a value costs, as a part of a value with its gradient.
VALUE_COST = 0.4
#: Factors tried on the noise.
FACTORS = np.exp([-4.0, -3.0, -2.0, -1.0, 0.0])
#: Noise of observations is no smaller than this part of their variance to begin with.
LEAST = 1e-6


def noise_guess(collapsed: Collapsed) -> float:
    """What the modes leave over per value; where they leave nothing, 1 % of the variance."""
    spent = 0
    for b in collapsed.blocks:
        ranks = np.linalg.matrix_rank(b.matrices, hermitian=True)
        spent += np.broadcast_to(ranks, (len(ranks), len(b.paths))).sum()
    power = sum(float((b.vector * b.estimate).sum()) for b in collapsed.blocks)
    total = (power + collapsed.misfit) / max(collapsed.n_values, 1.0)
    free = collapsed.n_values - spent
    if free > 0.02 * collapsed.n_values:
        return max(collapsed.misfit / free, LEAST * total)
    return 0.01 * total


class Rough(NamedTuple):
    """States (P, T, N) of the first paths, times (P, T), and the prior they were found with."""

    states: Array
    times: Array
    prior: Prior


def rough_states(collapsed: Collapsed, r: float) -> Rough:
    """States of the first paths, each time on its own."""
    block = collapsed.blocks[0]
    n_times, n, n_paths = block.vector.shape
    n_paths = min(n_paths, PATHS)
    grams = np.broadcast_to(block.matrices, (n_times, len(block.paths), n, n))[:, :n_paths]
    grams = grams.reshape(-1, n, n)
    vectors = block.vector[..., :n_paths].transpose(0, 2, 1).reshape(-1, n)
    v = np.full(n, max(float((block.estimate**2).mean()), 1e-300))
    for _ in range(ROUNDS):
        spread = np.linalg.inv(grams / r + np.diag(1.0 / v))
        c = np.einsum("bij,bj->bi", spread, vectors / r)
        error = np.einsum("bii->bi", spread)
        v = np.maximum((c**2 + error).mean(0), 1e-12 * v.max())
    states = c.reshape(n_times, n_paths, n).transpose(1, 0, 2)
    times = np.broadcast_to(block.times, (n_times, block.vector.shape[2]))[:, :n_paths].T
    return Rough(states, times, Prior(np.zeros(n), v))


def filter_start(
    layout: Layout, collapsed: Collapsed, r: float, rough: Rough
) -> tuple[Array, Transitions, float]:
    """Free vector, pairs of smoothed states, and the evaluations of all records that it cost."""
    block = in_segments(collapsed.blocks[0], 0.0)
    part = some_paths(block, np.arange(len(block.paths)) < FEW)
    shape = (len(part.times), part.vector.shape[2])
    times = np.broadcast_to(part.times, shape).T

    def value(x: Array) -> float:
        found = filter_scores(layout.closure(x), part, r, rough.prior, value_only=True).value.sum()
        return float(found) if np.isfinite(found) else -np.inf

    def smooth(x: Array) -> Transitions:
        found = smooth_semilinear(layout.closure(x), part, r, rough.prior)
        return transitions(found.mean.transpose(1, 0, 2), times)

    x, spent = _best_noise(layout, start(layout, transitions(rough.states, rough.times)), value)
    for _ in range(2):
        trial, more = _best_noise(layout, start(layout, smooth(x)), value)
        spent += more
        if value(trial) <= value(x):
            break
        x = trial
    share = VALUE_COST * part.vector.size / sum(b.vector.size for b in collapsed.blocks)
    return x, smooth(x), spent * share


def _best_noise(layout: Layout, x: Array, value: Callable[[Array], float]) -> tuple[Array, int]:
    """The same vector with the noise, times one of `FACTORS`, that the likelihood prefers."""
    log = layout.is_log[layout.free].astype(float)
    trials = [x + np.log(f) * log for f in FACTORS]
    values = [value(trial) for trial in trials]
    return trials[int(np.argmax(values))], len(trials)

"""Start values where fields have gaps or noise: rough states, then increments of them.

1. Each time on its own: ``c ~ N(0, v)`` and the observations, v by expectation-maximisation.
2. Exponential-Euler estimate from the increments of these states (`_starts`).
3. The filter's likelihood chooses among smaller noises: rough states move too much.
4. Steps 2 and 3 again with the states of the smoother.
"""

from __future__ import annotations

import numpy as np

from spdelaw.equation import InitialState
from spdelaw.infer.semilinear._layout import OBSERVATION, Layout
from spdelaw.infer.semilinear._starts import start
from spdelaw.model import (
    Collapsed,
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


def rough_states(collapsed: Collapsed, r: float) -> tuple[Array, Array, InitialState]:
    """States (P, T, N) of the first paths, each time on its own, times (P, T), and their law."""
    block = collapsed.blocks[0]
    n_times, n, n_paths = block.vector.shape
    few = min(n_paths, PATHS)
    grams = np.broadcast_to(block.matrices, (n_times, n_paths, n, n))[:, :few].reshape(-1, n, n)
    vectors = block.vector[..., :few].transpose(0, 2, 1).reshape(-1, n)
    v = np.full(n, max(float((block.estimate**2).mean()), 1e-300))
    for _ in range(ROUNDS):
        spread = np.linalg.inv(grams / r + np.diag(1.0 / v))
        c = np.einsum("bij,bj->bi", spread, vectors / r)
        v = np.maximum((c**2 + np.einsum("bii->bi", spread)).mean(0), 1e-12 * v.max())
    states = c.reshape(n_times, few, n).transpose(1, 0, 2)
    times = np.broadcast_to(block.times, (n_times, n_paths))[:, :few].T
    return states, times, InitialState("gaussian", np.zeros(n), v)


def filter_start(
    form: Layout, collapsed: Collapsed, r: float, pairs: Transitions, prior: InitialState
) -> tuple[Array, Transitions, float]:
    """Free vector from pairs of rough states, pairs of smoothed ones, and what it cost.

    The cost is in evaluations of all records.
    """
    block = in_segments(collapsed.blocks[0], 0.0)
    part = some_paths(block, np.arange(len(block.paths)) < FEW)
    times = np.broadcast_to(part.times, (len(part.times), part.vector.shape[2])).T
    is_noise = form.is_log & (np.array(form.free_names) != OBSERVATION)
    spent = 0

    def best_noise(pairs: Transitions) -> tuple[float, Array]:
        """Value and start by increments, its noise times the factor that the filter prefers."""
        nonlocal spent
        x, found = start(form, pairs, **{OBSERVATION: r}), []
        for trial in x + np.outer(np.log(FACTORS), is_noise):
            value = filter_scores(form.closure(trial), part, r, prior, value_only=True).value.sum()
            found.append((float(value) if np.isfinite(value) else -np.inf, trial))
        spent += len(found)
        return max(found, key=lambda pair: pair[0])

    def smooth(x: Array) -> Transitions:
        mean = smooth_semilinear(form.closure(x), part, r, prior).mean
        return transitions(mean.transpose(1, 0, 2), times)

    value, x = best_noise(pairs)
    for _ in range(2):
        height, trial = best_noise(smooth(x))
        if height <= value:
            break
        value, x = height, trial
    share = VALUE_COST * part.vector.size / sum(b.vector.size for b in collapsed.blocks)
    return x, smooth(x), spent * share

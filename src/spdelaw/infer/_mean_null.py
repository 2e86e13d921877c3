"""How much a mean gains by chance: the likelihood-ratio statistic where there is none.

For one mode the statistic is that of an intercept in an autoregression,

    D = n log(RSS_0 / RSS_1),    RSS_0 = min |c' - F c|^2,    RSS_1 = min |c' - a - F c|^2,

with F between 0 and 1. Many independent paths, or a long one, give it a chi-square law; one slow
path does not (its 99 % point is near 12 instead of 6.6), because a state that hardly decays has no
mean. So D is simulated: from the law without a mean, and again with decay rates at the lower end of
what the data leave open, where chance gains more. Coupled modes have a null of their own
(`spdelaw.infer._coupled_null`).
"""

from __future__ import annotations

import numpy as np

from spdelaw.equation import Linear, operators
from spdelaw.infer._coupled_null import coupled_upper_point
from spdelaw.model import StateSpace

Array = np.ndarray

#: Draws, and the most paths and steps of one: more of either bring D closer to chi-square.
DRAWS, MOST_PATHS, MOST_STEPS = 1999, 8, 48
SEED = 20


def upper_point(space: StateSpace, span: float, n_steps: int, n_paths: int, level: float) -> float:
    """What D, summed over modes, exceeds at the rate ``level`` without a mean.

    Args:
        space: the law without a mean.
        span: duration of a path.
        n_steps: steps of a path.
        n_paths: number of paths.
        level: the rate.
    """
    if not space.linear.is_diagonal:
        return coupled_upper_point(space, span, n_steps, n_paths, level)
    rates, total = space.linear.drift, span * n_paths
    slower = np.maximum(rates - 2.0 / total - np.sqrt(2.0 * rates / total), 0.0)
    size = min(n_steps, MOST_STEPS), min(n_paths, MOST_PATHS)
    draws = [_gains(space, lam, span, *size) for lam in (rates, slower)]
    return float(np.quantile(draws, 1.0 - level, axis=1).max())


def _gains(space: StateSpace, rates: Array, span: float, n_steps: int, n_paths: int) -> Array:
    """Draws of D summed over modes, at these decay rates; (DRAWS,)."""
    step = Linear(rates, space.linear.noise).over(np.array([span / n_steps]))
    factor, deviation = step.factor[0], np.sqrt(step.covariance[0])
    spread = np.sqrt(np.maximum(operators.diagonal(space.initial.covariance), 0.0))
    total = np.zeros(DRAWS)
    for n in range(len(rates)):
        draw, sums = np.random.default_rng([SEED, n]).standard_normal, np.zeros((5, DRAWS))
        now = space.initial.mean[n] + spread[n] * draw((n_paths, DRAWS))
        for _ in range(n_steps):
            then = factor[n] * now + deviation[n] * draw(now.shape)
            sums += [part.sum(0) for part in (now, then, now * now, now * then, then * then)]
            now = then
        total += _statistic(sums, n_steps * n_paths)
    return total


def _statistic(sums: Array, n: int) -> Array:
    """``n log(RSS_0 / RSS_1)`` from sums of ``c, c', c^2, c c', c'^2``."""
    x, y, xx, xy, yy = sums
    without = _residual(xx, xy, yy)
    around = _residual(xx - x * x / n, xy - x * y / n, yy - y * y / n)
    return n * np.log(np.maximum(without / np.maximum(around, 1e-300), 1.0))


def _residual(xx: Array, xy: Array, yy: Array) -> Array:
    f = np.clip(xy / np.maximum(xx, 1e-300), 0.0, 1.0)
    return yy - 2.0 * f * xy + f * f * xx

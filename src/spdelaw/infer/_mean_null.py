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

from typing import Any

import numpy as np

from spdelaw.equation import operators
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
    how = (space, span, n_steps, n_paths)
    if space.linear.drift.ndim == 2 or space.linear.noise.ndim == 2:
        return coupled_upper_point(*how, level)
    return max(float(np.quantile(draws, 1.0 - level)) for draws in null_gains(*how))


def null_gains(space: StateSpace, span: float, n_steps: int, n_paths: int) -> list[Array]:
    """Draws of D summed over modes, (DRAWS,): at the decay rates of a law, and at slower ones."""
    rates, q = space.linear.drift, operators.diagonal(space.linear.noise)
    start = space.initial.mean
    spread = np.sqrt(np.maximum(operators.diagonal(space.initial.covariance), 0.0))
    paths, steps = min(n_paths, MOST_PATHS), min(n_steps, MOST_STEPS)
    total = span * n_paths
    slower = np.maximum(rates - 2.0 / total - np.sqrt(2.0 * rates / total), 0.0)
    return [_sum(lam, q, start, spread, span / steps, steps, paths) for lam in (rates, slower)]


def _sum(
    rates: Array, q: Array, start: Array, spread: Array, dt: float, n_steps: int, n_paths: int
) -> Array:
    f, slow = np.exp(-rates * dt), rates * dt < 1e-12
    omega = q * np.where(slow, dt, -np.expm1(-2.0 * rates * dt) / np.where(slow, 1.0, 2.0 * rates))
    total = np.zeros(DRAWS)
    for n in range(len(rates)):
        draw = np.random.default_rng([SEED, n]).standard_normal
        first = start[n] + spread[n] * draw((n_paths, DRAWS))
        total += _gains(first, float(f[n]), float(np.sqrt(omega[n])), n_steps, draw)
    return total


def _gains(now: Array, f: float, deviation: float, n_steps: int, draw: Any) -> Array:
    """D of simulated paths of one mode, from their first states (paths, DRAWS); (DRAWS,)."""
    n_paths, sums = len(now), np.zeros((5, DRAWS))
    for _ in range(n_steps):
        then = f * now + deviation * draw(now.shape)
        sums += [part.sum(0) for part in (now, then, now * now, now * then, then * then)]
        now = then
    return _statistic(sums, n_steps * n_paths)


def _statistic(sums: Array, n: int) -> Array:
    """``n log(RSS_0 / RSS_1)`` from sums of ``c, c', c^2, c c', c'^2``."""
    x, y, xx, xy, yy = sums
    without = _residual(xx, xy, yy)
    around = _residual(xx - x * x / n, xy - x * y / n, yy - y * y / n)
    return n * np.log(np.maximum(without / np.maximum(around, 1e-300), 1.0))


def _residual(xx: Array, xy: Array, yy: Array) -> Array:
    f = np.clip(xy / np.maximum(xx, 1e-300), 0.0, 1.0)
    return yy - 2.0 * f * xy + f * f * xx

"""Closed-form Kullback-Leibler divergence between two laws of the coefficients.

Both laws are Markov and independent over modes, so the chain rule over transitions gives

    KL = KL(initial) + 1/2 sum_t [ log(w2/w1) - 1 + w1/w2 + (a1 - a2)^2 E1 c_t^2 / w2 ],

with ``E1 c_t^2`` the second moment under the first law.
"""

from __future__ import annotations

import numpy as np

from spdelaw.equation import mode_variance, transition
from spdelaw.model import Parameters

Array = np.ndarray


def kl_divergence(first: Parameters, second: Parameters, times: Array) -> float:
    """``KL(first || second)`` per path for states at ``times`` (the first is the initial one)."""
    dt = np.diff(times)[:, None]
    a1, w1 = transition(first.eigenvalues, first.noise_variance, dt)
    a2, w2 = transition(second.eigenvalues, second.noise_variance, dt)
    age = (times[:-1] - times[0])[:, None]
    mean = np.exp(-age * first.eigenvalues) * first.initial_mean
    square = mean**2 + mode_variance(
        first.eigenvalues, first.noise_variance, first.initial_variance, age
    )
    steps = np.log(w2 / w1) - 1.0 + w1 / w2 + (a1 - a2) ** 2 * square / w2
    return float(0.5 * steps.sum() + _initial(first, second, w2[0]))


def _initial(first: Parameters, second: Parameters, unit: Array) -> float:
    v1, v2 = first.initial_variance, second.initial_variance
    gap = (first.initial_mean - second.initial_mean) ** 2
    if first.initial_kind == "deterministic" and second.initial_kind == "deterministic":
        # Two points: equal or singular. Estimates of a point differ by rounding or noise, so
        # they are compared through the first transition, which sees the difference too.
        return float(0.5 * (gap / unit).sum())
    if (v2 == 0).any() or (v1 == 0).any():
        return float("inf")
    return float(0.5 * (np.log(v2 / v1) - 1.0 + v1 / v2 + gap / v2).sum())

"""Exact transitions of an Ornstein-Uhlenbeck mode: the formulas all rooms below share.

``dc = -lambda c dt + sqrt(q) dbeta`` over a step ``dt`` is
``c(t + dt) = a c(t) + sqrt(omega) N(0, 1)``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray

#: Below this the quotients of `decay_means` lose digits; their series take over.
SMALL = 0.5


class Transition(NamedTuple):
    """Factor ``a = exp(-lambda dt)`` and variance ``omega = q (1 - a^2) / (2 lambda)``."""

    factor: Array
    variance: Array


def transition(eigenvalues: Array, noise_variance: Array, dt: Array) -> Transition:
    """Exact transition for steps ``dt`` (..., 1) against modes (n_modes,)."""
    x = np.asarray(eigenvalues) * np.asarray(dt)
    return Transition(np.exp(-x), noise_variance * np.asarray(dt) * decay_mean(2.0 * x))


def decay_mean(x: Array) -> Array:
    """``(1 - exp(-x)) / x``, the mean of ``exp(-x s)`` over s in [0, 1]; 1 at x = 0.

    expm1 keeps full precision for small x, where the plain quotient is 0 / 0.
    """
    x = np.asarray(x, dtype=float)
    safe = np.where(x == 0.0, 1.0, x)
    return np.where(x == 0.0, 1.0, -np.expm1(-safe) / safe)


def decay_means(x: Array) -> tuple[Array, Array]:
    """``p1 = (1 - e^-x) / x`` and ``p2 = (x - 1 + e^-x) / x^2``; x may be complex."""
    small = np.abs(x) < SMALL
    safe = np.where(small, 1.0, x)
    # p2 = sum_j (-x)^j / (j + 2)!, by Horner; p1 = 1 - x p2.
    series: Any = 0.0
    for j in range(14, -1, -1):
        series = (1.0 - x * series) / (j + 2)
    series = np.where(small, series, 0.0)
    second = np.where(small, series, (safe + np.expm1(-safe)) / safe**2)
    return np.where(small, 1.0 - x * series, -np.expm1(-safe) / safe), second


def mode_variance(
    eigenvalues: Array, noise_variance: Array, initial_variance: Array, t: Array
) -> Array:
    """``Var c(t) = e^(-2 lambda t) v0 + q (1 - e^(-2 lambda t)) / (2 lambda)``."""
    a, omega = transition(eigenvalues, noise_variance, t)
    return a**2 * initial_variance + omega

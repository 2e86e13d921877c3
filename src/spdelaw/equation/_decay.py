"""Means of a decaying exponential, with all digits at small and at large rates."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray

#: Below this the quotients of `decay_means` lose digits; their series take over.
SMALL = 0.5


def decay_mean(x: Array) -> Array:
    """``(1 - exp(-x)) / x``, the mean of ``exp(-x s)`` over s in [0, 1]; 1 at x = 0.

    expm1 keeps full precision for small x, where the plain quotient is 0 / 0.
    """
    x = np.asarray(x, dtype=float)
    safe = np.where(x == 0.0, 1.0, x)
    return np.where(x == 0.0, 1.0, -np.expm1(-safe) / safe)


def decay_mean_slope(x: Array) -> Array:
    """Derivative of ``(1 - e^-x) / x``.

    The quotient ``(e^-x (1 + x) - 1) / x^2`` loses all digits for small x; a series takes over.
    """
    x = np.asarray(x, dtype=float)
    small = np.abs(x) < 1e-2
    safe, x = np.where(small, 1.0, x), np.where(small, x, 0.0)
    series = -1 / 2 + x * (1 / 3 - x * (1 / 8 - x * (1 / 30 - x * (1 / 144 - x / 840))))
    return np.where(small, series, (np.exp(-safe) * (1.0 + safe) - 1.0) / safe**2)


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

"""Sufficient statistics of Ornstein-Uhlenbeck paths and the likelihood built on them.

With ``R_t = sum_p (c_{t+1} - a_t c_t)^2 = S11 - 2 a S01 + a^2 S00`` over paths,

    log p = -1/2 sum_t [ n log(2 pi omega_t) + R_t / omega_t ],
    a = exp(-lambda dt),    omega = q g(lambda),   g = (1 - e^(-2 lambda dt)) / (2 lambda).

For complete, noise-free data the sums are those of the data. For anything else they are the
smoother's expectations, and the gradient of this function at them is the exact score of the
observed likelihood (Fisher's identity). One formula serves both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.equation import decay_mean

Array = np.ndarray


class Moments(NamedTuple):
    """Second moments summed over paths; they add up over disjoint sets of paths.

    Attributes:
        square: ``sum_p E c_t^2``, (T, N).
        cross: ``sum_p E c_t c_{t+1}``, (T - 1, N).
        count: number of paths.
    """

    square: Array
    cross: Array
    count: float


class StepFunctions(NamedTuple):
    """``a``, ``g`` and their derivatives by ``lambda``; each (T - 1, N)."""

    a: Array
    g: Array
    da: Array
    dg: Array


def step_functions(eigenvalues: Array, dt: Array) -> StepFunctions:
    """``a = e^(-lambda dt)`` and ``g = dt (1 - e^(-2 x)) / (2 x)``, ``x = lambda dt``."""
    x = eigenvalues * dt
    a = np.exp(-x)
    g = dt * decay_mean(2.0 * x)
    return StepFunctions(a, g, -dt * a, 2.0 * dt**2 * decay_mean_slope(2.0 * x))


def decay_mean_slope(x: Array) -> Array:
    """Derivative of ``(1 - e^-x) / x``.

    The quotient ``(e^-x (1 + x) - 1) / x^2`` loses all digits for small x; a series takes over.
    """
    x = np.asarray(x, dtype=float)
    small = np.abs(x) < 1e-2
    safe = np.where(small, 1.0, x)
    series = -1 / 2 + x * (1 / 3 - x * (1 / 8 - x * (1 / 30 - x * (1 / 144 - x / 840))))
    return np.where(small, series, (np.exp(-safe) * (1.0 + safe) - 1.0) / safe**2)


def transition_residual(moments: Moments, a: Array) -> Array:
    """``R_t = S11 - 2 a S01 + a^2 S00``; (T - 1, N)."""
    return moments.square[1:] - 2.0 * a * moments.cross + a**2 * moments.square[:-1]


def transition_log_likelihood(
    moments: Moments, dt: Array, eigenvalues: Array, noise_variance: Array
) -> Array:
    """Log-likelihood of all transitions, one number a mode; ``dt`` is (T - 1, 1)."""
    f = step_functions(eigenvalues, dt)
    omega = noise_variance * f.g
    terms = moments.count * np.log(2 * np.pi * omega) + transition_residual(moments, f.a) / omega
    return -0.5 * terms.sum(0)


def transition_score(
    moments: Moments, dt: Array, eigenvalues: Array, noise_variance: Array
) -> tuple[Array, Array]:
    """Gradient of `transition_log_likelihood` by ``lambda`` and ``q``; each (N,)."""
    f = step_functions(eigenvalues, dt)
    q = noise_variance
    residual = transition_residual(moments, f.a)
    slope = 2.0 * (f.a * moments.square[:-1] - moments.cross)  # dR / da
    by_g = -0.5 * (moments.count / f.g - residual / (q * f.g**2))
    by_lambda = (by_g * f.dg - 0.5 * slope * f.da / (q * f.g)).sum(0)
    by_q = -0.5 * (moments.count / q - residual / (f.g * q**2)).sum(0)
    return by_lambda, by_q

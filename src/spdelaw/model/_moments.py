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
        n_paths: number of paths.
    """

    square: Array
    cross: Array
    n_paths: float


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


class Steps(NamedTuple):
    """Moments by length of step: steps of equal length share one row, so U is mostly 1.

    Attributes:
        dt: length, (U, 1).
        n_steps: transitions of that length, (U, 1).
        before, cross, after: sums of ``c_t^2``, ``c_t c_{t+1}``, ``c_{t+1}^2``, (U, N).
    """

    dt: Array
    n_steps: Array | float
    before: Array
    cross: Array
    after: Array


#: Steps that differ by less than this share of the longest are the same: times carry rounding.
SAME_STEP = 1e-12


def steps_of(moments: Moments, dt: Array) -> Steps:
    """One row a step; ``dt`` is (T - 1, 1) and may carry further axes, as the moments do."""
    square, cross, count = moments
    return Steps(dt, count, square[:-1], cross, square[1:])


def merge_steps(steps: Steps) -> Steps:
    """Sum the rows of steps of equal length: the likelihood depends on nothing else."""
    dt = steps.dt[:, 0]
    order = np.argsort(dt, kind="stable")
    is_new = np.diff(dt[order], prepend=-np.inf) > SAME_STEP * dt.max()
    first = np.flatnonzero(is_new)
    count = np.broadcast_to(steps.n_steps, steps.dt.shape)
    merged = (np.add.reduceat(x[order], first) for x in (count, *steps[2:]))
    return Steps(steps.dt[order][first], *merged)


def step_residual(steps: Steps, a: Array) -> Array:
    """``R = S11 - 2 a S01 + a^2 S00``; (U, N)."""
    return steps.after - 2.0 * a * steps.cross + a**2 * steps.before


def step_log_likelihood(steps: Steps, f: StepFunctions, noise_variance: Array) -> Array:
    """Log-likelihood of all transitions, one number a mode."""
    omega = noise_variance * f.g
    terms = steps.n_steps * np.log(2 * np.pi * omega) + step_residual(steps, f.a) / omega
    return -0.5 * terms.sum(0)


def step_score_by_g(steps: Steps, f: StepFunctions, noise_variance: Array) -> Array:
    """Derivative of the log-likelihood of each step by its ``g``; (U, N)."""
    residual = step_residual(steps, f.a)
    return -0.5 * (steps.n_steps / f.g - residual / (noise_variance * f.g**2))


def step_score(steps: Steps, f: StepFunctions, noise_variance: Array) -> tuple[Array, Array]:
    """Gradient of `step_log_likelihood` by ``lambda`` and ``q``; each (N,)."""
    q = noise_variance
    residual = step_residual(steps, f.a)
    slope = 2.0 * (f.a * steps.before - steps.cross)  # dR / da
    by_g = step_score_by_g(steps, f, q)
    by_lambda = (by_g * f.dg - 0.5 * slope * f.da / (q * f.g)).sum(0)
    by_q = -0.5 * (steps.n_steps / q - residual / (f.g * q**2)).sum(0)
    return by_lambda, by_q


def transition_log_likelihood(
    moments: Moments, dt: Array, eigenvalues: Array, noise_variance: Array
) -> Array:
    """Log-likelihood of all transitions, one number a mode; ``dt`` is (T - 1, 1)."""
    f = step_functions(eigenvalues, dt)
    return step_log_likelihood(steps_of(moments, dt), f, noise_variance)


def transition_score(
    moments: Moments, dt: Array, eigenvalues: Array, noise_variance: Array
) -> tuple[Array, Array]:
    """Gradient of `transition_log_likelihood` by ``lambda`` and ``q``; each (N,)."""
    f = step_functions(eigenvalues, dt)
    return step_score(steps_of(moments, dt), f, noise_variance)

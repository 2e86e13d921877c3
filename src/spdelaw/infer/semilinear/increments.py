"""Likelihood of the increments of many modes, whose variances have the mean slope of the drift."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy

from spdelaw.processes.closure import Closure, phi
from spdelaw.processes.linear import distinct_steps
from spdelaw.processes.semilinear import Reacting
from spdelaw.processes.terms import Means
from spdelaw.statespace.transitions import Transitions

# For mode n of a field, with the reaction along the predicted mean instead of frozen at the state x
# before (exponential Runge-Kutta of order 2, with ``z = -lambda dt``),
#
#     y = e^z x + sum_t theta_t G_t + e,
#     G_t = dt phi_1(z) g_t(x) + dt phi_2(z) (E g_t(c) - g_t(x)),
#
# c being Gaussian about the predicted state, and ``Var e = q dt phi_1(2 z')`` with
# ``z' = (a - lambda) dt``, a being the mean slope of the field's own reaction. The scores take the
# columns ``G_t`` and the slope a as given: a search for their zero is least squares with the
# weights of the noise. The error is of order ``(rate dt)^2 / 12`` of a coefficient.


Array = np.ndarray

#: Numbers of one batch of values of terms.
BATCH_NUMBERS = 4_000_000
#: Transitions that determine the mean slope of a reaction.
SLOPE_TRANSITIONS = 64


def increment_scores(
    dynamics: Reacting, data: Transitions, directions: Array
) -> tuple[Array, Array, Array]:
    """Log-likelihood (n,), scores (n, k) along directions (K, k), expected information (k, k).

    Directions are those of the rates, the noise and the coefficients, one after the other
    (`spdelaw.infer.semilinear.layout.Layout.directions`).
    """
    closure, (n, n_modes) = dynamics.closure, data.after.shape
    by_rate, by_noise, by_coefficient = np.split(directions, (n_modes, 2 * n_modes))
    by_coefficient = by_coefficient[: len(closure.coefficients)]
    drift = np.flatnonzero(np.abs(by_rate).sum(0) + np.abs(by_coefficient).sum(0))
    noise = scipy.sparse.csr_array(by_noise)  # one number per mode in the usual case
    value, scores = np.empty(n), np.zeros((n, directions.shape[1]))
    information = 0.5 * n * (noise.T @ noise.multiply(closure.noise[:, None] ** -2.0)).toarray()
    for rows, made, slope, residual, unit in batches(closure, data, dynamics.n_steps or 1):
        precision = 1.0 / (closure.noise * unit)
        weighted = residual * precision
        value[rows] = 0.5 * (np.log(precision / (2.0 * np.pi)) - residual * weighted).sum(1)
        scores[rows] = (0.5 * (residual * weighted - 1.0) / closure.noise) @ noise
        columns = np.einsum("tbn,td->bnd", made, by_coefficient[:, drift])
        columns += slope[..., None] * by_rate[:, drift]
        scores[np.ix_(rows, drift)] += np.einsum("bnd,bn->bd", columns, weighted)
        root = (columns * np.sqrt(precision)[:, None]).reshape(-1, len(drift))
        information[np.ix_(drift, drift)] += root.T @ root
    return value, scores, information


def standardised_increments(closure: Closure, data: Transitions, n_steps: int) -> Array:
    """Errors of the predictions, standardised; (n, N)."""
    out = np.empty_like(data.after)
    for rows, _, _, residual, unit in batches(closure, data, n_steps):
        out[rows] = residual / np.sqrt(closure.noise * unit)
    return out


def batches(
    closure: Closure, data: Transitions, n_steps: int
) -> Iterator[tuple[Array, Array, Array, Array, Array]]:
    """Rows of the data, columns and slopes of `predict`, residuals (B, N), units (N,).

    The unit is the variance of a step for noise of one.
    """
    slopes = mean_slopes(closure, data)
    size = max(1, BATCH_NUMBERS // max(len(closure.coefficients) * data.after.shape[1], 1))
    lengths, which = distinct_steps(data.dt)
    for k, dt in enumerate(map(float, lengths)):
        unit = _variance(closure.rates - slopes, dt)
        index = np.flatnonzero(which == k)
        for first in range(0, len(index), size):
            rows = index[first : first + size]
            made, by_rate, mean = predict(closure, data.before[rows], dt, n_steps, slopes)
            yield rows, made, by_rate, data.after[rows] - mean, unit


def predict(
    closure: Closure, before: Array, dt: float, n_steps: int, slopes: Array
) -> tuple[Array, Array, Array]:
    """Columns ``G_t`` (n_terms, B, N), derivative of the mean by lambda, and the mean, (B, N)."""
    r, theta, lam = closure.reaction, closure.coefficients, closure.rates
    h = dt / n_steps
    p = phi(-lam * h, 3)
    decay, one, two = p[0], h * p[1], h * p[2]
    # phi_k' = phi_k - k phi_{k+1} and dz / d lambda = -h
    decay_slope, one_slope = -h * p[0], -h * h * (p[1] - p[2])
    two_slope = -h * h * (p[2] - 2.0 * p[3])
    mean, values = before, r.values(before)
    made, by_rate = np.zeros_like(values), np.zeros_like(before)
    for k in range(n_steps):
        force = np.tensordot(theta, values, 1)
        ahead = decay * mean + one * force
        by_rate = decay * by_rate + decay_slope * mean + one_slope * force
        made = decay * made + one * values
        spread = r.spread(closure.noise * _variance(lam - slopes, (k + 1) * h))
        change = r.values(ahead, spread) - values
        moved = np.tensordot(theta, change, 1)
        by_rate, made = by_rate + two_slope * moved, made + two * change
        mean = ahead + two * moved
        values = r.values(mean, spread) if k + 1 < n_steps else values
    return made, by_rate, mean


def _variance(rates: Array, dt: float) -> Array:
    """``dt phi_1(-2 rate dt)``: variance of a step for noise of one."""
    return np.asarray(dt * phi(-2.0 * rates * dt, 1)[1])


def mean_slopes(closure: Closure, data: Transitions) -> Array:
    """Mean slope of each field's own reaction, for each of its modes; (N,)."""
    features = closure.reaction.features
    n_fields, n_modes = len(features), len(closure.rates)
    means = Means(closure.reaction.at_points(data.draw(SLOPE_TRANSITIONS).before), {})
    out = np.zeros((n_modes // n_fields, n_fields))
    for f in features:
        slopes = np.asarray(means.of(closure.first[f]))
        if slopes.ndim:
            out[:, f] = slopes.reshape(*slopes.shape[:-1], n_fields, -1)[..., f, :].mean()
    return out.ravel()

"""Increments of many modes as a regression: columns, residuals and their sums over time.

For mode n of a field, with the reaction along the predicted mean instead of frozen at the state x
before (exponential Runge-Kutta of order 2, with ``z = -lambda dt``),

    y = e^z x + sum_t theta_t G_t + e,
    G_t = dt phi_1(z) g_t(x) + dt phi_2(z) (E g_t(c) - g_t(x)),

c being Gaussian about the state that the last estimate predicts, and ``Var e = q dt phi_1(2 z')``
with ``z' = (a - lambda) dt``, a being the mean slope of the field's own reaction.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spdelaw.equation import Closure, Means, distinct_steps, field_of, phi
from spdelaw.infer.semilinear._layout import Layout
from spdelaw.model import Transitions

Array = np.ndarray

#: Numbers of one batch of values of terms.
BATCH = 4_000_000
#: Transitions that tell the mean slope of a reaction.
FEW = 64


def column_names(form: Layout, field: str) -> list[str]:
    """The diffusivity of a field, then its terms."""
    return [f"nu {field}", *(name for name in form.reaction.names if field_of(name) == field)]


def sums(form: Layout, x: Array, data: Transitions, n_steps: int) -> tuple[list[Array], Array]:
    """Products of one pass over the data, and the logarithms of the units of each mode, (N,).

    For each field and each of its modes, the columns and after them the residuals, in units of the
    noise of a step, are multiplied with one another: (n, p + 1, p + 1).
    """
    n_fields = len(form.fields)
    owners = np.array([field_of(name) for name in form.reaction.names], str)
    sizes = [1 + len(column_names(form, field)) for field in form.fields]
    out, log_unit = [np.zeros((len(form.mu), p, p)) for p in sizes], 0.0
    for rows, made, by_rate, residual, unit in batches(form, x, data, n_steps):
        log_unit = log_unit + len(rows) * np.log(unit)
        for f, field in enumerate(form.fields):
            own = slice(f, None, n_fields)
            slope = (by_rate[:, own] * form.mu)[None]
            parts = [slope, made[owners == field][..., own], residual[None, :, own]]
            by_mode = (np.concatenate(parts) / np.sqrt(unit[own])).transpose(2, 0, 1)
            out[f] += by_mode @ by_mode.transpose(0, 2, 1)
    return out, np.asarray(log_unit)


def batches(
    form: Layout, x: Array, data: Transitions, n_steps: int
) -> Iterator[tuple[Array, Array, Array, Array, Array]]:
    """Rows of the data, what `predict` says of their means, residuals (B, N), units (N,).

    The unit is the variance of a step for noise of one; no steps freeze the reaction.
    """
    closure, slopes = form.closure(x), mean_slopes(form, x, data)
    size = max(1, BATCH // max(len(form.reaction.names) * data.after.shape[1], 1))
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
    """Columns ``G_t`` (n_terms, B, N), derivative of the mean by lambda, and the mean, (B, N).

    Without any steps the reaction is frozen at the state before.
    """
    r, theta, lam = closure.reaction, closure.coefficients, closure.rates
    h = dt / max(n_steps, 1)
    p = phi(-lam * h, 3)
    decay, one, two = p[0], h * p[1], h * p[2]
    # phi_k' = phi_k - k phi_{k+1} and dz / d lambda = -h
    decay_slope, one_slope = -h * p[0], -h * h * (p[1] - p[2])
    two_slope = -h * h * (p[2] - 2.0 * p[3])
    mean, values = before, r.values(before)
    made, by_rate = np.zeros_like(values), np.zeros_like(before)
    for k in range(max(n_steps, 1)):
        force = np.tensordot(theta, values, 1)
        ahead = decay * mean + one * force
        by_rate = decay * by_rate + decay_slope * mean + one_slope * force
        made = decay * made + one * values
        if n_steps:
            spread = r.spread(closure.noise * _variance(lam - slopes, (k + 1) * h))
            change = r.values(ahead, spread) - values
            moved = np.tensordot(theta, change, 1)
            by_rate, made = by_rate + two_slope * moved, made + two * change
            ahead = ahead + two * moved
            values = r.values(ahead, spread) if k + 1 < n_steps else values
        mean = ahead
    return made, by_rate, mean


def _variance(rates: Array, dt: float) -> Array:
    """``dt phi_1(-2 rate dt)``: variance of a step for noise of one."""
    return np.asarray(dt * phi(-2.0 * rates * dt, 1)[1])


def mean_slopes(form: Layout, x: Array, data: Transitions) -> Array:
    """Mean slope of each field's own reaction, for each of its modes; (N,)."""
    closure, n_fields = form.closure(x), len(form.fields)
    at = closure.reaction.at_points(data.draw(FEW).before)
    means, out = Means(at, {}), np.zeros((len(form.mu), n_fields))
    for f in closure.reaction.features:
        found = np.asarray(means.of(closure.first[f]))
        if found.ndim:
            out[:, f] = found.reshape(*found.shape[:-1], n_fields, -1)[..., f, :].mean()
    return out.ravel()

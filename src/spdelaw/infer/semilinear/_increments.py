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
from typing import NamedTuple

import numpy as np

from spdelaw.equation import Closure, Means, distinct_steps, field_of, phi
from spdelaw.infer.semilinear._layout import Layout
from spdelaw.model import Transitions

Array = np.ndarray

#: Numbers of one batch of values of terms.
BATCH = 4_000_000
#: Transitions that tell the mean slope of a reaction.
FEW = 64


class Sums(NamedTuple):
    """Products summed over time for each mode of one field, in units of the noise of a step.

    Attributes:
        names: of the columns: the diffusivity, then the terms of the field.
        normal: columns with columns, (N, p, p).
        right: columns with residuals, (N, p).
        square: of residuals, (N,).
        log_unit: of the unit, (N,).
        n_rows: how many transitions.
    """

    names: tuple[str, ...]
    normal: Array
    right: Array
    square: Array
    log_unit: Array
    n_rows: int

    def left(self, at: list[int], change: Array) -> Array:
        """Squares that are left when the columns ``at`` take part with these weights; (N,)."""
        part = self.normal[:, at][:, :, at]
        return (
            self.square
            - 2.0 * self.right[:, at] @ change
            + np.einsum("i,nij,j->n", change, part, change)
        )


class Batch(NamedTuple):
    """Rows of the data, and for each field its columns (p, B, N), residuals and units (B, N)."""

    rows: Array
    fields: list[tuple[Array, Array, Array]]


def column_names(form: Layout, f: int) -> tuple[str, ...]:
    """The diffusivity of a field, then its terms."""
    field = form.fields[f]
    return (f"nu {field}", *(name for name in form.reaction.names if field_of(name) == field))


def sums(form: Layout, x: Array, data: Transitions, n_steps: int) -> list[Sums]:
    """Products of one pass over the data, field by field."""
    n, out = len(form.mu), []
    for f in range(len(form.fields)):
        names = column_names(form, f)
        p = len(names)
        empty = (np.zeros((n, p, p)), np.zeros((n, p)), np.zeros(n), np.zeros(n))
        out.append(Sums(names, *empty, len(data.dt)))
    for batch in batches(form, x, data, n_steps):
        for s, (columns, residual, unit) in zip(out, batch.fields, strict=True):
            by_mode = columns.transpose(2, 0, 1)
            s.normal[:] += by_mode @ by_mode.transpose(0, 2, 1)
            s.right[:] += np.einsum("nib,bn->ni", by_mode, residual)
            s.square[:] += (residual**2).sum(0)
            s.log_unit[:] += np.log(unit).sum(0)
    return out


def batches(form: Layout, x: Array, data: Transitions, n_steps: int) -> Iterator[Batch]:
    """Columns and residuals at x, in units of the noise of a step; no steps freeze the reaction."""
    closure, slopes, n_fields = form.closure(x), mean_slopes(form, x, data), len(form.fields)
    size = max(1, BATCH // max(len(form.reaction.names) * data.after.shape[1], 1))
    owner = np.array([form.fields.index(field_of(name)) for name in form.reaction.names], int)
    lengths, which = distinct_steps(data.dt)
    for k, dt in enumerate(lengths):
        variance = _variance(closure.rates - slopes, float(dt))
        index = np.flatnonzero(which == k)
        for first in range(0, len(index), size):
            rows, fields = index[first : first + size], []
            made, by_rate, mean = predict(closure, data.before[rows], float(dt), n_steps, slopes)
            for f in range(n_fields):
                own = slice(f, None, n_fields)
                unit = np.broadcast_to(variance[own], (len(rows), len(form.mu)))
                slope = by_rate[:, own] * form.mu
                columns = np.concatenate([slope[None], made[owner == f][..., own]])
                residual = data.after[rows][:, own] - mean[:, own]
                fields.append((columns / np.sqrt(unit), residual / np.sqrt(unit), unit))
            yield Batch(rows, fields)


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

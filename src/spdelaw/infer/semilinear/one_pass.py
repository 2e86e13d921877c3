"""Fit of many modes by weighted least squares on their increments."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spdelaw.errors import ConvergenceError, InputError
from spdelaw.infer.optimise import Estimate, Optimum
from spdelaw.infer.semilinear.fits import ALLOWED_SHIFT, SemilinearFit
from spdelaw.infer.semilinear.layout import Layout, check_amount, noise_names
from spdelaw.infer.semilinear.scoring import ScoredPosterior, invert_information
from spdelaw.infer.semilinear.starts import start
from spdelaw.processes.closure import Closure, phi
from spdelaw.processes.linear import distinct_steps
from spdelaw.processes.terms import Means, field_of
from spdelaw.statespace.transitions import Transitions

# ---------- Increments of many modes as a regression: columns, residuals and their sums
#
# For mode n of a field, with the reaction along the predicted mean instead of frozen at the state x
# before (exponential Runge-Kutta of order 2, with ``z = -lambda dt``),
#
#     y = e^z x + sum_t theta_t G_t + e,
#     G_t = dt phi_1(z) g_t(x) + dt phi_2(z) (E g_t(c) - g_t(x)),
#
# c being Gaussian about the state that the last estimate predicts, and ``Var e = q dt phi_1(2 z')``
# with ``z' = (a - lambda) dt``, a being the mean slope of the field's own reaction.


Array = np.ndarray

#: Numbers of one batch of values of terms.
BATCH_NUMBERS = 4_000_000
#: Transitions that determine the mean slope of a reaction.
SLOPE_TRANSITIONS = 64


def column_names(form: Layout, field: str) -> list[str]:
    """The diffusivity of a field, then its terms."""
    return [f"nu {field}", *(name for name in form.terms if field_of(name) == field)]


def sums(form: Layout, x: Array, data: Transitions, n_steps: int) -> tuple[list[Array], Array]:
    """Products of one pass over the data, and the logarithms of the units of each mode, (N,).

    For each field and each of its modes, the columns and after them the residuals, in units of the
    noise of a step, are multiplied with one another: (n, p + 1, p + 1).
    """
    n_fields = len(form.fields)
    owners = np.array([field_of(name) for name in form.terms], str)
    sizes = [1 + len(column_names(form, field)) for field in form.fields]
    out, log_unit = [np.zeros((len(form.mu), p, p)) for p in sizes], 0.0
    for rows, made, by_rate, residual, unit in batches(form, x, data, n_steps):
        log_unit = log_unit + len(rows) * np.log(unit)
        for f, field in enumerate(form.fields):
            modes = slice(f, None, n_fields)
            slope = (by_rate[:, modes] * form.mu)[None]
            parts = [slope, made[owners == field][..., modes], residual[None, :, modes]]
            by_mode = (np.concatenate(parts) / np.sqrt(unit[modes])).transpose(2, 0, 1)
            out[f] += by_mode @ by_mode.transpose(0, 2, 1)
    return out, np.asarray(log_unit)


def batches(
    form: Layout, x: Array, data: Transitions, n_steps: int
) -> Iterator[tuple[Array, Array, Array, Array, Array]]:
    """Rows of the data, columns and slopes of `predict`, residuals (B, N), units (N,).

    The unit is the variance of a step for noise of one; no steps freeze the reaction.
    """
    closure, slopes = form.closure(x), mean_slopes(form, x, data)
    size = max(1, BATCH_NUMBERS // max(len(form.terms) * data.after.shape[1], 1))
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
    at = closure.reaction.at_points(data.draw(SLOPE_TRANSITIONS).before)
    means, out = Means(at, {}), np.zeros((len(form.mu), n_fields))
    for f in closure.reaction.features:
        slopes = np.asarray(means.of(closure.first[f]))
        if slopes.ndim:
            out[:, f] = slopes.reshape(*slopes.shape[:-1], n_fields, -1)[..., f, :].mean()
    return out.ravel()


# ---------- Fit of many modes by weighted least squares on their increments, in a few passes
#
# Given the columns of `predict` the mean is linear in theta, and nearly so in nu; a pass keeps only
# sums of products over time, for each mode. The first passes freeze the reaction over a step, an
# error of some ``rate dt / 2`` of a coefficient (``frozen_shift``, in standard errors); the next
# ones follow it along the prediction of the estimate before. The remaining error is of order
# ``(rate dt)^2 / 12`` of a coefficient; steps are halved while it matters.
#
# Noise is independent between fields, so the information is one block for each field's equation and
# one for its noise.


#: Passes at most, and the change in standard errors that ends them.
MOST_PASSES, NEAR = 12, 0.05
#: Most steps of the prediction between two times.
MOST_STEPS = 8
#: Newton steps for the exponent of the noise.
NEWTON_STEPS = 30


def fit_one_pass(form: Layout, data: Transitions) -> SemilinearFit:
    """Learn a law of several fields from complete states of many modes.

    Args:
        form: parameters and terms.
        data: pairs of successive states, by `spdelaw.statespace.transitions.transitions`.
    """
    _check_data(form, data)
    few, n, passes, free = data.draw(SLOPE_TRANSITIONS), 1, 0, form.free
    full = frozen = _iterate(form, start(form, few), data, 0)[0]
    while True:
        full, covariance, value, moved, more = _iterate(form, full, data, n)
        passes += more
        finer, coarser = (_scores(form, full, few, k).sum(0) for k in (2 * n, n))
        change = covariance @ (finer - coarser) * (len(data.dt) / len(few.dt))
        errors = np.sqrt(np.diag(covariance))[free]
        shift = float(np.abs(change[free] / errors).max())
        if shift <= ALLOWED_SHIFT or 2 * n > MOST_STEPS:
            break
        n *= 2
    scores, among = _scores(form, full, data, n), np.ix_(free, free)
    posterior = ScoredPosterior.of(form, None, full)
    inverse = np.linalg.inv(covariance[among])
    optimum = Optimum(np.zeros(len(free)), value, inverse, passes, 0.5 * moved**2)
    root = posterior.columns @ np.linalg.cholesky(covariance[among])
    return SemilinearFit(
        Estimate(form.state_space(full), full, root, value, optimum, posterior),
        covariance @ (scores.T @ scores) @ covariance,
        scores,
        data.path,
        {
            "n_steps": n,
            "step_shift": shift,
            "converged": moved < NEAR,
            "rate_dt": form.rate(full, few.before) * float(np.median(data.dt)),
            "n_transitions": len(data.dt),
            "frozen_shift": float(np.abs((frozen - full)[free] / errors).max()),
            "n_values": data.after.size // len(form.fields),
        },
    )


def _iterate(
    form: Layout, x: Array, data: Transitions, n_steps: int
) -> tuple[Array, Array, float, float, int]:
    """Passes until the estimate converges.

    Returns it, its covariance and log-likelihood, the last change in standard errors, and passes.
    """
    for k in range(1, MOST_PASSES + 1):
        new, covariance, value = _solve(form, x, data, n_steps)
        errors = np.sqrt(np.diag(covariance))[form.free]
        change = float(np.abs((new - x)[form.free] / errors).max())
        x = new
        if change < NEAR:
            return x, covariance, value, change, k
        if not np.isfinite(change):
            break
    expected = f"an estimate that settles within {MOST_PASSES} passes"
    got = f"one that still moves by {change:.2g} standard errors"
    fix = "observe more often, or use fewer terms"
    raise ConvergenceError("fit", expected=expected, got=got, fix=fix)


def _solve(form: Layout, x: Array, data: Transitions, n_steps: int) -> tuple[Array, Array, float]:
    """Least squares with the weights of the noise at x, then the noise of the residuals.

    Returns the full vector, its covariance and its log-likelihood.
    """
    products, log_unit = sums(form, x, data, n_steps)
    x, position = x.copy(), {form.names[k]: k for k in form.free}
    noise, count, covariance = form.closure(x).noise, len(data.dt), np.zeros((len(x), len(x)))
    log = -0.5 * float((count * np.log(2 * np.pi * noise) + log_unit).sum())
    for f, field in enumerate(form.fields):
        names, q = column_names(form, field), noise[f :: len(form.fields)]
        at = [k for k, name in enumerate(names) if name in position]
        normal = np.tensordot(1.0 / q, products[f], 1)
        spread = normal[np.ix_(at, at)]
        spread = invert_information(spread) if at else spread
        change = np.append(np.zeros(len(names)), -1.0)
        change[at] = spread @ normal[at, -1]
        left = np.einsum("i,nij,j->n", change, products[f], change)
        log -= 0.5 * float((left / q).sum())
        positions = [position[names[k]] for k in at]
        x[positions] += change[at]
        covariance[np.ix_(positions, positions)] = spread
        names = noise_names(field, form.noise, len(q))
        positions = [position[name] for name in names if name in position]
        among = np.ix_(positions, positions)
        x[positions], covariance[among] = _fit_noise(form, f, positions, left, count, x)
    return x, covariance, log


def _fit_noise(
    form: Layout, f: int, free: list[int], left: Array, count: int, x: Array
) -> tuple[Array, Array]:
    """Free coordinates of the noise of field f from squares (N,), and their covariance.

    ``-1/2 sum_n (count log q_n + left_n / q_n)`` with ``log q = A x``, by Newton steps.
    """
    x, where = x.copy(), form.slices["noise_variance"]
    matrix = form.parts["noise_variance"].matrix[f :: len(form.fields)]  # type: ignore[attr-defined]
    columns = matrix[:, np.array(free, int) - where.start]
    for _ in range(NEWTON_STEPS):
        ratio = left / np.exp(matrix @ x[where])
        curvature = columns.T @ (np.minimum(ratio, 10.0 * count)[:, None] * columns) / 2.0
        step = np.linalg.solve(curvature, columns.T @ (ratio - count) / 2.0)
        x[free] += np.clip(step, -2.0, 2.0)
        if np.abs(step).max(initial=0.0) < 1e-10:
            break
    return x[free], np.linalg.inv(curvature)


def _scores(form: Layout, x: Array, data: Transitions, n_steps: int) -> Array:
    """Slope of the log-likelihood of each transition by the full vector; (n, p)."""
    noise, coefficient = form.closure(x).noise, np.empty((len(data.dt), len(form.terms)))
    by_rate, by_noise = np.empty_like(data.after), np.empty_like(data.after)
    for rows, made, slope, residual, unit in batches(form, x, data, n_steps):
        weighted = residual / (noise * unit)
        by_rate[rows] = slope * weighted
        by_noise[rows] = 0.5 * (residual * weighted - 1.0) / noise
        coefficient[rows] = np.einsum("tbn,bn->bt", made, weighted)
    by = {"eigenvalue": by_rate, "noise_variance": by_noise, "coefficient": coefficient}
    return form.scores(x, by)


def residuals(fit: SemilinearFit, data: Transitions) -> Array:
    """Errors of the predictions of a fit, standardised; (n, N)."""
    form, out, full = fit.layout, np.empty_like(data.after), fit.estimate.full
    noise = form.closure(full).noise
    for rows, _, _, residual, unit in batches(form, full, data, fit.diagnostics["n_steps"]):
        out[rows] = residual / np.sqrt(noise * unit)
    return out


def _check_data(form: Layout, data: Transitions) -> None:
    check_amount(form, data.after)
    first = {f: noise_names(f, form.noise, len(form.mu))[0] for f in form.fields}
    noiseless = [f for f, name in first.items() if form.fixed.get(name) == 0.0]
    if noiseless:
        expected = "noise in every field of this many modes"
        fix = "fit fewer modes, which the closure does without noise in one of them"
        raise InputError("fixed", expected=expected, got=f"none in {noiseless[0]}", fix=fix)

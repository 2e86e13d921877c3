"""Fit of many modes by weighted least squares on their increments, a few passes over the states.

Given the columns of `_increments` the mean is linear in theta, and nearly so in nu; sums of
products over time, kept for each mode, are all that a pass leaves. The first passes freeze the
reaction over a step, which is off by some ``rate dt / 2`` of a coefficient (``frozen_shift`` says
by how many standard errors); the next ones follow it along the prediction of the estimate before.
What is left is of order ``(rate dt)^2 / 12`` of a coefficient; steps are halved while it matters.

Noise is independent between fields, so the information is one block for each field's equation and
one for its noise.
"""

from __future__ import annotations

import numpy as np

from spdelaw.errors import ConvergenceError, InputError
from spdelaw.infer.semilinear._increments import FEW, batches, column_names, sums
from spdelaw.infer.semilinear._layout import Layout, check_amount, noise_names
from spdelaw.infer.semilinear._optimise import ALLOWED_SHIFT, invert_information
from spdelaw.infer.semilinear._result import SemilinearFit
from spdelaw.infer.semilinear._starts import start
from spdelaw.model import Transitions

Array = np.ndarray

#: Passes at most, and the change in standard errors that ends them.
MOST_PASSES, NEAR = 12, 0.05
#: Most steps of the prediction between two times.
MOST_STEPS = 8
#: Newton steps for the exponent of the noise.
NEWTON = 30


def fit_one_pass(form: Layout, data: Transitions) -> SemilinearFit:
    """Learn a law of several fields from complete states of many modes.

    Args:
        form: parameters and terms.
        data: pairs of successive states, by `spdelaw.model.transitions`.
    """
    _check(form, data)
    few, n, passes = data.draw(FEW), 1, 0
    x = frozen = _iterate(form, start(form, few), data, 0)[0]
    while True:
        x, covariance, value, moved, more = _iterate(form, x, data, n)
        passes += more
        errors = np.sqrt(np.diag(covariance))
        finer, coarser = (_scores(form, x, few, k).sum(0) for k in (2 * n, n))
        change = covariance @ (finer - coarser) * (len(data.dt) / len(few.dt))
        shift = float(np.abs(change / errors).max())
        if shift <= ALLOWED_SHIFT or 2 * n > MOST_STEPS:
            break
        n *= 2
    scores = _scores(form, x, data, n)
    return SemilinearFit(
        form, x, covariance, covariance @ (scores.T @ scores) @ covariance, value,
        data.after.size, scores, data.path,
        {
            "n_steps": n, "step_shift": shift, "converged": moved < NEAR,
            "rate_dt": form.rate(x, few.before) * float(np.median(data.dt)),
            "n_evaluations": passes,
            "n_transitions": len(data.dt), "remaining_gain": 0.5 * moved**2,
            "frozen_shift": float(np.abs((frozen - x) / errors).max()),
            "n_values": data.after.size // len(form.fields),
        },
    )  # fmt: skip


def _iterate(
    form: Layout, x: Array, data: Transitions, n_steps: int
) -> tuple[Array, Array, float, float, int]:
    """Passes until the estimate stays where it is.

    Returns it, its covariance and log-likelihood, the last change in standard errors, and passes.
    """
    for k in range(1, MOST_PASSES + 1):
        new, covariance, value = _solve(form, x, data, n_steps)
        change = float(np.abs((new - x) / np.sqrt(np.diag(covariance))).max())
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
    """Least squares with the weights of the noise at x, then the noise of what it leaves.

    Returns the free vector, its covariance and its log-likelihood.
    """
    products, log_unit = sums(form, x, data, n_steps)
    values, place = form.values(x), {name: k for k, name in enumerate(form.free_names)}
    noise, count, covariance = form.closure(x).noise, len(data.dt), np.zeros((len(x), len(x)))
    log = -0.5 * float((count * np.log(2 * np.pi * noise) + log_unit).sum())
    for f, field in enumerate(form.fields):
        names, q = column_names(form, field), noise[f :: len(form.fields)]
        at = [k for k, name in enumerate(names) if name in place]
        normal = np.tensordot(1.0 / q, products[f], 1)
        spread = normal[np.ix_(at, at)]
        spread = invert_information(spread) if at else spread
        change = np.append(np.zeros(len(names)), -1.0)
        change[at] = spread @ normal[at, -1]
        left = np.einsum("i,nij,j->n", change, products[f], change)
        log -= 0.5 * float((left / q).sum())
        values |= {name: values[name] + d for name, d in zip(names, change[:-1], strict=True)}
        own, of_noise = _noise(form, field, left, count, values)
        values |= own
        for free, block in (([names[k] for k in at], spread), (list(own), of_noise)):
            here = [place[name] for name in free]
            covariance[np.ix_(here, here)] = block
    return form.vector(values), covariance, log


def _noise(
    form: Layout, field: str, left: Array, count: int, values: dict[str, float]
) -> tuple[dict[str, float], Array]:
    """Free numbers of a field's noise from squares (N,), and their covariance as free vector.

    ``-1/2 sum_n (count log q_n + left_n / q_n)``; for ``q = scale n^-exponent`` by Newton steps.
    """
    names = noise_names(field, form.noise, len(left))
    free = [k for k, name in enumerate(names) if name not in form.fixed]
    if form.noise == "diagonal":
        return {names[k]: float(left[k] / count) for k in free}, np.eye(len(free)) * 2.0 / count
    p, among = np.array([np.log(values[names[0]]), values[names[1]]]), np.ix_(free, free)
    for _ in range(NEWTON):
        ratio = left / np.exp(p @ form.spectrum)
        curvature = (form.spectrum * np.minimum(ratio, 10.0 * count)) @ form.spectrum.T / 2.0
        slope = form.spectrum @ (ratio - count) / 2.0
        step = np.linalg.solve(curvature[among], slope[free])
        p[free] += np.clip(step, -2.0, 2.0)
        if np.abs(step).max(initial=0.0) < 1e-10:
            break
    found = float(np.exp(p[0])), float(p[1])
    return {names[k]: found[k] for k in free}, np.linalg.inv(curvature[among])


def _scores(form: Layout, x: Array, data: Transitions, n_steps: int) -> Array:
    """Slope of the log-likelihood of each transition by the free vector; (n, n_free)."""
    noise, coefficient = form.closure(x).noise, np.empty((len(data.dt), len(form.reaction.names)))
    by_rate, by_noise = np.empty_like(data.after), np.empty_like(data.after)
    for rows, made, slope, residual, unit in batches(form, x, data, n_steps):
        weighted = residual / (noise * unit)
        by_rate[rows] = slope * weighted
        by_noise[rows] = 0.5 * (residual * weighted - 1.0) / noise
        coefficient[rows] = np.einsum("tbn,bn->bt", made, weighted)
    return form.pull(x, by_rate, by_noise, coefficient)


def residuals(fit: SemilinearFit, data: Transitions) -> Array:
    """Errors of the predictions of a fit, standardised; (n, N)."""
    form, out = fit.layout, np.empty_like(data.after)
    noise = form.closure(fit.x).noise
    for rows, _, _, residual, unit in batches(form, fit.x, data, fit.diagnostics["n_steps"]):
        out[rows] = residual / np.sqrt(noise * unit)
    return out


def _check(form: Layout, data: Transitions) -> None:
    check_amount(form, len(data.dt), "transitions")
    quiet = [f for f in form.fields if form.fixed.get(f"scale {f}") == 0.0]
    if quiet:
        expected = "noise in every field of this many modes"
        fix = "fit fewer modes, which the closure does without noise in one of them"
        raise InputError("fixed", expected=expected, got=f"none in {quiet[0]}", fix=fix)

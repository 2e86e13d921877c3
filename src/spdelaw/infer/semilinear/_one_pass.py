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

from typing import NamedTuple

import numpy as np

from spdelaw.equation import reaction_rate
from spdelaw.errors import ConvergenceError, InputError
from spdelaw.infer.semilinear._increments import FEW, Sums, batches, column_names, sums
from spdelaw.infer.semilinear._layout import Layout
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


class Solved(NamedTuple):
    """Free vector, its covariance and log-likelihood, and what the last pass changed."""

    x: Array
    covariance: Array
    value: float
    change: float
    passes: int


def fit_one_pass(form: Layout, data: Transitions) -> SemilinearFit:
    """Learn a law of several fields from complete states of many modes.

    Args:
        form: parameters and terms.
        data: pairs of successive states, by `spdelaw.model.transitions`.
    """
    _check(form, data)
    few, n, passes = data.draw(FEW), 1, 0
    x = frozen = _iterate(form, start(form, few), data, 0).x
    while True:
        found = _iterate(form, x, data, n)
        passes += found.passes
        shift = _step_shift(form, found, few, len(data.dt), n)
        if shift <= ALLOWED_SHIFT or 2 * n > MOST_STEPS:
            break
        x, n = found.x, 2 * n
    errors, scores = np.sqrt(np.diag(found.covariance)), _scores(form, found.x, data, n)
    rate = np.median(reaction_rate(form.closure(found.x), few.before))
    moved = np.abs((frozen - found.x) / errors).max()
    return SemilinearFit(
        form, found.x, found.covariance,
        found.covariance @ (scores.T @ scores) @ found.covariance, found.value, data.after.size,
        scores, data.path,
        {
            "n_steps": n, "step_shift": shift, "converged": found.change < NEAR,
            "rate_dt": float(rate * np.median(data.dt)), "n_evaluations": passes,
            "n_transitions": len(data.dt), "remaining_gain": 0.5 * found.change**2,
            "frozen_shift": float(moved), "n_values": data.after.size // len(form.fields),
        },
    )  # fmt: skip


def _iterate(form: Layout, x: Array, data: Transitions, n_steps: int) -> Solved:
    """Passes until the estimate stays where it is."""
    change = np.inf
    for k in range(1, MOST_PASSES + 1):
        found = _solve(form, sums(form, x, data, n_steps), x)
        change = float(np.abs((found.x - x) / np.sqrt(np.diag(found.covariance))).max())
        x = found.x
        if change < NEAR:
            return found._replace(change=change, passes=k)
        if not np.isfinite(change):
            break
    expected = f"an estimate that settles within {MOST_PASSES} passes"
    got = f"one that still moves by {change:.2g} standard errors"
    fix = "observe more often, or use fewer terms"
    raise ConvergenceError("fit", expected=expected, got=got, fix=fix)


def _solve(form: Layout, found: list[Sums], x: Array) -> Solved:
    """Least squares with the weights of the noise at x, then the noise of what it leaves."""
    values, place = form.values(x), {name: k for k, name in enumerate(form.free_names)}
    noise, n_fields = form.closure(x).noise, len(form.fields)
    covariance, log = np.zeros((len(x), len(x))), 0.0
    for f, s in enumerate(found):
        at = [k for k, name in enumerate(s.names) if name in place]
        q = noise[f::n_fields]
        normal = np.tensordot(1.0 / q, s.normal, 1)[np.ix_(at, at)]
        spread = invert_information(normal) if at else normal
        change = spread @ ((1.0 / q) @ s.right)[at]
        values |= {s.names[k]: values[s.names[k]] + d for k, d in zip(at, change, strict=True)}
        left = s.left(at, change)
        own, of_noise = _noise(form, f, left, s.n_rows, values)
        values |= own
        for names, block in (([s.names[k] for k in at], spread), (list(own), of_noise)):
            here = [place[name] for name in names]
            covariance[np.ix_(here, here)] = block
        log -= 0.5 * float((left / q + s.n_rows * np.log(2 * np.pi * q) + s.log_unit).sum())
    return Solved(form.vector(values), covariance, log, np.inf, 1)


def _noise(
    form: Layout, f: int, left: Array, count: int, values: dict[str, float]
) -> tuple[dict[str, float], Array]:
    """Free numbers of a field's noise from squares (N,), and their covariance as free vector.

    ``-1/2 sum_n (count log q_n + left_n / q_n)``; for ``q = scale n^-exponent`` by Newton steps.
    """
    field = form.fields[f]
    if form.noise == "diagonal":
        names = [f"q {field} {n}" for n in range(1, len(left) + 1)]
        free = [k for k, name in enumerate(names) if name not in form.fixed]
        own = {names[k]: float(left[k] / count) for k in free}
        return own, np.eye(len(free)) * 2.0 / count
    names = [f"scale {field}", f"exponent {field}"]
    free = [k for k, name in enumerate(names) if name not in form.fixed]
    basis = np.stack([np.ones(len(left)), -np.log(np.arange(1.0, len(left) + 1.0))])
    p = np.array([np.log(values[names[0]]), values[names[1]]])
    curvature = np.eye(2)
    for _ in range(NEWTON):
        ratio = left / np.exp(p @ basis)
        curvature = (basis * np.minimum(ratio, 10.0 * count)) @ basis.T / 2.0
        slope = basis @ (ratio - count) / 2.0
        step = np.linalg.solve(curvature[np.ix_(free, free)], slope[free]) if free else slope[:0]
        p[free] += np.clip(step, -2.0, 2.0)
        if np.abs(step).max(initial=0.0) < 1e-10:
            break
    found = {names[0]: float(np.exp(p[0])), names[1]: float(p[1])}
    return {names[k]: found[names[k]] for k in free}, np.linalg.inv(curvature[np.ix_(free, free)])


def _scores(form: Layout, x: Array, data: Transitions, n_steps: int) -> Array:
    """Slope of the log-likelihood of each transition by the free vector; (n, n_free)."""
    place = {name: k for k, name in enumerate(form.free_names)}
    noise, n_fields = form.closure(x).noise, len(form.fields)
    out = np.zeros((len(data.dt), len(x)))
    basis = np.stack([np.ones(len(form.mu)), -np.log(np.arange(1.0, len(form.mu) + 1.0))])
    for batch in batches(form, x, data, n_steps):
        for f, (field, (columns, residual, _)) in enumerate(
            zip(form.fields, batch.fields, strict=True)
        ):
            q = noise[f::n_fields]
            slopes = np.einsum("ibn,bn->ib", columns, residual / q)
            by = dict(zip(column_names(form, f), slopes, strict=True))
            surplus = 0.5 * (residual**2 / q - 1.0)
            if form.noise == "diagonal":
                by |= {f"q {field} {n + 1}": surplus[:, n] for n in range(len(q))}
            else:
                of_noise = (f"scale {field}", f"exponent {field}")
                by |= dict(zip(of_noise, (surplus @ row for row in basis), strict=True))
            for name, score in by.items():
                if name in place:
                    out[batch.rows, place[name]] = score
    return out


def residuals(fit: SemilinearFit, data: Transitions) -> Array:
    """Errors of the predictions of a fit, standardised; (n, N)."""
    form = fit.layout
    out = np.empty_like(data.after)
    noise, n_fields = form.closure(fit.x).noise, len(form.fields)
    for batch in batches(form, fit.x, data, fit.diagnostics["n_steps"]):
        for f, (_, residual, _) in enumerate(batch.fields):
            out[batch.rows, f::n_fields] = residual / np.sqrt(noise[f::n_fields])
    return out


def _step_shift(form: Layout, found: Solved, few: Transitions, n: int, steps: int) -> float:
    """What twice the steps of the prediction would change, in standard errors, from a few."""
    finer, coarser = (_scores(form, found.x, few, k).sum(0) for k in (2 * steps, steps))
    change = found.covariance @ (finer - coarser) * (n / len(few.dt))
    return float(np.abs(change / np.sqrt(np.diag(found.covariance))).max())


def _check(form: Layout, data: Transitions) -> None:
    if len(data.dt) < 2 * len(form.free):
        raise InputError(
            "fields", expected=f"at least {2 * len(form.free)} transitions for "
            f"{len(form.free)} parameters", got=str(len(data.dt)),
            fix="bring more paths or times, or fewer terms",
        )  # fmt: skip
    quiet = [f for f in form.fields if form.fixed.get(f"scale {f}") == 0.0]
    if quiet:
        expected = "noise in every field of this many modes"
        fix = "fit fewer modes, which the closure does without noise in one of them"
        raise InputError("fixed", expected=expected, got=f"none in {quiet[0]}", fix=fix)

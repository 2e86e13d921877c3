"""Fit of a semilinear law to coefficients that are observed completely.

Exponential-Euler start, scoring on a part of the transitions, then on all; observed information;
and the closure with twice the sub-steps, whose score at the estimate gives, times the inverse
information, what the sub-steps still change. For these two a part of the transitions is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from spdelaw.checks import one_of
from spdelaw.domain import AbstractDomain
from spdelaw.equation import reaction_rate, substeps
from spdelaw.errors import ConvergenceError, InputError
from spdelaw.infer.semilinear._fields_layout import layout
from spdelaw.infer.semilinear._layout import Layout
from spdelaw.infer.semilinear._optimise import (
    ALLOWED_SHIFT,
    Maximum,
    Objective,
    information,
    invert_information,
    maximise,
    pseudo_inverse,
    warn_if_coarse,
)
from spdelaw.infer.semilinear._result import SemilinearFit
from spdelaw.infer.semilinear._starts import start
from spdelaw.model import Transitions, closure_scores, scheme_scores, transitions

Array = np.ndarray
Maker = Callable[[Layout, Transitions, int], Objective]

#: What moves fields: the equation itself, or a scheme from one time to the next.
SCHEMES = ("exact", "semi_implicit")
#: The warm-up uses this many transitions per parameter.
WARM = 50
#: Beyond this many standard errors the change is too large for one Newton step.
LARGEST_SHIFT = 2.0
#: Transitions from which curvature and change by finer steps are computed: scheme, closure.
CURVATURE = (4000, 500)
#: Most sub-steps.
MOST_STEPS = 32
#: Warm-up ends this near its maximum, in squared standard errors.
WARM_NEAR = 0.05
#: The search on all transitions ends this near; one Newton step goes the rest of the way.
FULL_NEAR = 0.02


def fit_complete(
    coefficients: Array,
    times: Array,
    domain: AbstractDomain,
    terms: Sequence[str],
    *,
    noise: str = "parametric",
    fixed: Mapping[str, float] | None = None,
    scheme: str = "exact",
) -> SemilinearFit:
    """Learn ``nu``, the coefficients of the terms and the noise from coefficients (P, T, N).

    Args:
        coefficients: modes of complete fields, (paths, times, modes); NaN breaks a path in two.
        times: (T,), or (P, T).
        domain: where the modes live.
        terms: names, such as ("u", "u^3").
        noise: "parametric", ``scale n^-exponent``, or "diagonal", one variance per mode.
        fixed: parameters to hold; ``kappa`` is held at 0 beside ``u``.
        scheme: "exact", or "semi_implicit" for fields that this scheme made, step by step.

    Returns:
        `SemilinearFit`.
    """
    c = np.asarray(coefficients, float)
    form = layout(domain, c.shape[-1], terms, noise=noise, fixed=fixed)
    return fit_transitions(form, transitions(c, np.asarray(times, float)), scheme=scheme)


def fit_transitions(
    form: Layout,
    data: Transitions,
    *,
    scheme: str = "exact",
) -> SemilinearFit:
    """Fit of a layout to pairs of successive states.

    Args:
        form: parameters and terms.
        data: pairs, by `spdelaw.model.transitions`.
        scheme: "exact" or "semi_implicit".
    """
    one_of("scheme", scheme, SCHEMES)
    _check_amount(data, form)
    x = start(form, data)
    make = _closure_objective if scheme == "exact" else _scheme_objective
    data, used = _stepped(form, data, x), 0.0
    some = data.draw(WARM * max(len(x), 4))
    if len(some.dt) < len(data.dt):
        warm = maximise(make(form, some, 1), x, WARM_NEAR)
        used, x = warm.n_evaluations * len(some.dt) / len(data.dt), warm.x
        data = _stepped(form, data, x)  # a start from increments is far too slow
    return _finish(make, form, data, x, used)


def _stepped(form: Layout, data: Transitions, x: Array) -> Transitions:
    """The same with as many sub-steps as the reaction at x is fast."""
    return data._replace(steps=substeps(form.closure(x), data.before, data.dt))


def _finish(make: Maker, form: Layout, data: Transitions, x: Array, used: float) -> SemilinearFit:
    """Maximum on all transitions, its curvature, and as many sub-steps as it needs."""
    covariance, n = None, 1
    while True:
        best = maximise(make(form, data, n), x, FULL_NEAR)
        _check_value(best)
        rows, weight = _important(best.scores, CURVATURE[make is _closure_objective])
        some, share = data.take(rows), len(rows) / len(data.dt)
        base = best.scores[rows] * weight
        if covariance is None:
            part = _weighted(make(form, some, n), weight)
            curvature = information(part, best._replace(scores=base))
            covariance = invert_information(curvature, _rate_dt(form, data, best.x))
            used += len(x) * share
        # Both closures on the same transitions: their difference hardly varies.
        finer = _weighted(make(form, some, 2 * n), weight)(best.x)[1]
        change = covariance @ (finer - base).sum(0)
        shift = float(np.abs(change / np.sqrt(np.diag(covariance))).max())
        used += best.n_evaluations + 2.0 * share
        if shift <= ALLOWED_SHIFT or 2 * n >= MOST_STEPS:
            break
        x, n = best.x + change, 2 * n
    warn_if_coarse(shift)
    # What is left of the score, and what finer steps change, is one Newton step.
    end = best.x + covariance @ best.scores.sum(0) + (change if shift < LARGEST_SHIFT else 0.0)
    meat = best.scores.T @ best.scores
    return SemilinearFit(
        form, end, covariance, covariance @ meat @ covariance, best.value, data.after.size,
        best.scores, data.path,
        {
            "n_steps": n, "step_shift": shift, "converged": bool(best.converged),
            "rate_dt": _rate_dt(form, data, end), "n_evaluations": used,
            "n_transitions": len(data.dt), "remaining_gain": 0.5 * best.distance**2,
            "scheme": SCHEMES[make is _scheme_objective],
        },
    )  # fmt: skip


def _rate_dt(form: Layout, data: Transitions, x: Array) -> float:
    """Rate of the reaction at the usual state times the usual step."""
    rate = np.median(reaction_rate(form.closure(x), data.before[:2000]))
    return float(rate * np.median(data.dt))


def _important(scores: Array, n: int) -> tuple[Array, Array]:
    """About n rows drawn by their leverage, and the weights (rows, 1) that make up for the rest.

    The first steps of a path can carry most of what is known about a term.
    """
    if n >= len(scores):
        return np.arange(len(scores)), np.ones((len(scores), 1))
    factor = pseudo_inverse(scores.T @ scores)
    leverage = np.einsum("ni,ij,nj->n", scores, factor, scores, optimize=True)
    chance = np.minimum(1.0, n * (0.5 / len(scores) + 0.5 * leverage / leverage.sum()))
    rows = np.flatnonzero(np.random.default_rng(0).random(len(scores)) < chance)
    return rows, 1.0 / chance[rows, None]


def _weighted(objective: Objective, weight: Array) -> Objective:
    """The same with weights on the scores; its value is not used."""

    def weighted(x: Array) -> tuple[float, Array]:
        value, scores = objective(x)
        return value, weight * scores

    return weighted


def _closure_objective(form: Layout, data: Transitions, n_steps: int) -> Objective:
    def objective(x: Array) -> tuple[float, Array]:
        found = closure_scores(form.closure(x), data, n_steps)
        return float(found.value.sum()), form.pull(x, *found[1:])

    return objective


def _scheme_objective(form: Layout, data: Transitions, n_steps: int) -> Objective:
    values = form.reaction.values(data.before)

    def objective(x: Array) -> tuple[float, Array]:
        found = scheme_scores(form.closure(x), data, values)
        return float(found.value.sum()), form.pull(x, *found[1:])

    return objective


def _check_value(best: Maximum) -> None:
    if not np.isfinite(best.value):
        got = "a covariance that is not positive, or states that run away"
        fix = "observe more often: the reaction is too fast for these time steps"
        raise ConvergenceError("fit", expected="a finite likelihood at the start", got=got, fix=fix)


def _check_amount(data: Transitions, form: Layout) -> None:
    need = 2 * len(form.free)
    if data.after.size < need or len(data.dt) < 2:
        raise InputError(
            "fields", expected=f"at least {need} values after a first time, for "
            f"{len(form.free)} parameters", got=str(data.after.size),
            fix="bring more paths or times, or fewer terms",
        )  # fmt: skip

"""Fit of a semilinear law to coefficients that are observed completely.

Exponential-Euler start, scoring on a part of the transitions, then on all; observed information;
and the closure with twice the sub-steps, whose score at the estimate gives, times the inverse
information, what the sub-steps still change. For these two a part of the transitions is enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from spdelaw.checks import one_of
from spdelaw.domain import AbstractDomain
from spdelaw.equation import substeps
from spdelaw.infer.semilinear._layout import Layout, check_amount, layout
from spdelaw.infer.semilinear._optimise import (
    Maximum,
    Objective,
    information,
    invert_information,
    maximise,
    pseudo_inverse,
    refine,
)
from spdelaw.infer.semilinear._result import SemilinearFit
from spdelaw.infer.semilinear._starts import start
from spdelaw.model import Transitions, closure_scores, scheme_scores, transitions

Array = np.ndarray

#: What moves fields: the equation itself, or a scheme from one time to the next.
SCHEMES = ("exact", "semi_implicit")
#: The warm-up uses this many transitions per parameter.
WARM = 50
#: Transitions from which curvature and change by finer steps are computed.
CURVATURE = {"exact": 500, "semi_implicit": 4000}
#: Transitions whose states tell how fast the reaction is.
FEW = 2000
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


def fit_transitions(form: Layout, data: Transitions, *, scheme: str = "exact") -> SemilinearFit:
    """Fit of a layout to pairs of successive states.

    Args:
        form: parameters and terms.
        data: pairs, by `spdelaw.model.transitions`.
        scheme: "exact" or "semi_implicit".
    """
    one_of("scheme", scheme, SCHEMES)
    n_values = data.after.size if len(data.dt) > 1 else 0  # one pair alone tells of no spread
    check_amount(form, n_values, "values after a first time,")
    like, x = _Likelihood(form, scheme, len(data.dt)), start(form, data)
    data = _stepped(form, data, x)
    some = data.draw(WARM * max(len(x), 4))
    if len(some.dt) < len(data.dt):
        x = maximise(like.of(some), x, WARM_NEAR).x
        data = _stepped(form, data, x)  # a start from increments is far too slow

    def climb(x: Array, n: int, covariance: Array | None) -> tuple[Maximum, Array]:
        best = maximise(like.of(data, n), x, FULL_NEAR)
        if covariance is None:
            rows, weight = _important(best.scores, CURVATURE[scheme])
            part = like.of(data.take(rows), n, weight)
            curvature = information(part, best._replace(scores=weight * best.scores[rows]))
            rate = form.rate(best.x, data.before[:FEW]) * float(np.median(data.dt))
            covariance = invert_information(curvature, rate)
        return best, covariance

    def finer(best: Maximum, n: int) -> Array:
        # Both closures on the same transitions: their difference hardly varies.
        rows, weight = _important(best.scores, CURVATURE[scheme])
        fine = like.of(data.take(rows), 2 * n, weight)(best.x)[1]
        return (fine - weight * best.scores[rows]).sum(0)

    best, covariance, step, found = refine(climb, finer, x)
    # What is left of the score, and what finer steps change, is one Newton step.
    end = best.x + covariance @ best.scores.sum(0) + step
    meat = best.scores.T @ best.scores
    return SemilinearFit(
        form, end, covariance, covariance @ meat @ covariance, best.value, data.after.size,
        best.scores, data.path,
        {
            **found, "converged": best.promise < FULL_NEAR, "n_evaluations": like.spent,
            "rate_dt": form.rate(end, data.before[:FEW]) * float(np.median(data.dt)),
            "n_transitions": len(data.dt), "remaining_gain": 0.5 * abs(best.promise),
            "scheme": scheme,
        },
    )  # fmt: skip


def _stepped(form: Layout, data: Transitions, x: Array) -> Transitions:
    """The same with as many sub-steps as the reaction at x is fast."""
    return data._replace(steps=substeps(form.closure(x), data.before, data.dt))


class _Likelihood:
    """Log-likelihood of pairs; ``spent`` counts how often that of all n was computed."""

    def __init__(self, form: Layout, scheme: str, n: int) -> None:
        self.form, self.scheme, self.n, self.spent = form, scheme, n, 0.0

    def of(self, data: Transitions, n_steps: int = 1, weight: Array | float = 1.0) -> Objective:
        """Value at a free vector, and scores times weights, of these pairs."""
        form = self.form
        values = None if self.scheme == "exact" else form.reaction.values(data.before)

        def objective(x: Array) -> tuple[float, Array]:
            self.spent += len(data.dt) / self.n
            closure = form.closure(x)
            if values is None:
                found = closure_scores(closure, data, n_steps)
            else:
                found = scheme_scores(closure, data, values)
            return float(found.value.sum()), weight * form.pull(x, *found[1:])

        return objective


def _important(scores: Array, n: int) -> tuple[Array, Array]:
    """About n rows drawn by their leverage, and the weights (rows, 1) that make up for the rest.

    The first steps of a path can carry most of what is known about a term.
    """
    if n >= len(scores):
        return np.arange(len(scores)), np.ones((len(scores), 1))
    factor = pseudo_inverse(scores.T @ scores)
    leverage = ((scores @ factor) * scores).sum(1)
    chance = np.minimum(1.0, n * (0.5 / len(scores) + 0.5 * leverage / leverage.sum()))
    rows = np.flatnonzero(np.random.default_rng(0).random(len(scores)) < chance)
    return rows, 1.0 / chance[rows, None]

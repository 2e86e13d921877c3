"""Maximum of a likelihood whose terms have scores of their own, and its curvature.

Scoring with the sum of squared scores (Berndt, Hall, Hall and Hausman) needs no Hessian; steps are
halved until the value rises. The promise of a step, ``g' A^-1 g``, is the squared distance to the
maximum in standard errors. From the start by increments it takes 3 or 4 evaluations of complete
data, where the quasi-Newton search of `infer._optimise`, which has no scores of terms, takes 10 to
14, and 21 to 25 with its curvature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from spdelaw.errors import ConvergenceError
from spdelaw.infer._held import learned

Array = np.ndarray

#: Value (a number) and scores (n, n_free) at a free vector.
Objective = Callable[[Array], tuple[float, Array]]

#: Squared distance to the maximum, in standard errors, that is near enough.
NEAR = 1e-3
#: Longest step, in standard errors of its own metric a parameter.
LONGEST = 20.0
#: Halvings of one step.
HALVINGS = 12
#: Change, in standard errors, that twice the sub-steps of the closure may make, the one that is too
#: large for one Newton step, and most sub-steps.
ALLOWED_SHIFT, LARGEST_SHIFT, MOST_STEPS = 0.3, 2.0, 16
#: Rate of the reaction times the step above which the closure has not been seen to be honest.
FAST = 1.0
#: Least eigenvalue of the information, parameters scaled to 1, that is not nothing.
LEAST_CURVATURE = 1e-10
#: Differences of the score are taken over this part of a standard error.
DIFFERENCE = 0.05


class Maximum(NamedTuple):
    """Where the search ended.

    Attributes:
        x: free vector.
        value: log-likelihood there.
        scores: of each term, (n, n_free).
        promise: squared distance to the maximum, in standard errors.
        metric: what the search knows about the information, (n_free, n_free).
    """

    x: Array
    value: float
    scores: Array
    promise: float
    metric: Array


def maximise(
    objective: Objective,
    x: Array,
    near: float = NEAR,
    most: int = 200,
    metric: Array | None = None,
) -> Maximum:
    """Climb from x until the promise of a step is below ``near``.

    `ConvergenceError` where there is no likelihood to start from.

    Args:
        objective: value and scores.
        x: where to start.
        near: promise of a step that ends the search.
        most: evaluations.
        metric: guess of the information, (n_free, n_free), that learns on the way (BFGS), for
            scores too few to make one; without it the sum of squared scores.
    """
    inverse = None if metric is None else pseudo_inverse(metric)
    value, scores = objective(x)
    if not np.isfinite(value):
        expected, fix = "a finite likelihood at the start", "observe more often, or use fewer modes"
        got = "a covariance that is not positive, or states that run away"
        raise ConvergenceError("fit", expected=expected, got=got, fix=fix)
    count, promise = 1, np.inf
    while count < most:
        slope = scores.sum(0)
        step = solve(scores.T @ scores, slope) if inverse is None else inverse @ slope
        promise = float(slope @ step)
        if promise < near or not np.isfinite(promise):
            break
        step = step * min(1.0, LONGEST * np.sqrt(len(x)) / np.sqrt(promise))
        for k in range(HALVINGS):
            trial = x + 0.5**k * step
            height, found = objective(trial)
            if np.isfinite(height) and height >= value:
                break
        else:
            break
        count += k + 1
        if inverse is not None:
            inverse = learned(inverse, trial - x, slope - found.sum(0))
        x, value, scores = trial, height, found
    known = scores.T @ scores if inverse is None else pseudo_inverse(inverse)
    return Maximum(x, value, scores, promise, known)


def refine(
    climb: Callable[[Array, int, Array | None], tuple[Maximum, Array]],
    finer: Callable[[Maximum, int], Array],
    x: Array,
) -> tuple[Maximum, Array, Array, dict[str, float]]:
    """Maximum of a likelihood with as many sub-steps of the closure as it needs.

    Args:
        climb: the maximum from x with so many sub-steps, and its covariance, given one or anew.
        finer: what twice as many sub-steps change in the score at a maximum.
        x: where to start.

    Returns:
        The maximum, its covariance, the Newton step to where twice the sub-steps would lead, and
        ``n_steps`` with ``step_shift``, that step in standard errors.
    """
    covariance, n = None, 1
    while True:
        best, covariance = climb(x, n, covariance)
        change = covariance @ finer(best, n)
        shift = float(np.abs(change / np.sqrt(np.diag(covariance))).max())
        if shift <= ALLOWED_SHIFT or n >= MOST_STEPS:
            break
        x, n = best.x + change, 2 * n
    step = change if shift < LARGEST_SHIFT else np.zeros_like(x)
    return best, covariance, step, {"n_steps": n, "step_shift": shift}


def solve(matrix: Array, vector: Array) -> Array:
    """Solution of normal equations, the shortest where there are many."""
    scale = _units(matrix)
    return np.linalg.lstsq(matrix / np.outer(scale, scale), vector / scale, rcond=1e-12)[0] / scale


def _units(matrix: Array) -> Array:
    """Roots of the diagonal: coefficients of u and u^3 have units apart by those of the field."""
    return np.sqrt(np.maximum(np.abs(np.diag(matrix)), 1e-300))


def pseudo_inverse(matrix: Array) -> Array:
    """Inverse of a sum of squares, parameters scaled to 1, without directions that have none."""
    scale = np.outer(_units(matrix), _units(matrix))
    return np.linalg.pinv(matrix / scale, rcond=1e-14, hermitian=True) / scale


def information(objective: Objective, at: Maximum) -> Array:
    """Observed information: minus the slope of the score, by differences; (n_free, n_free).

    Steps are small parts of a standard error by the metric of the search.
    """
    spread = np.sqrt(np.maximum(np.diag(pseudo_inverse(at.metric)), 0.0))
    width = DIFFERENCE * np.where(spread > 0, spread, 1e-6)
    base = at.scores.sum(0)
    moved = at.x + np.diag(width)
    slope = np.array([base - objective(x)[1].sum(0) for x in moved]) / width[:, None]
    return 0.5 * (slope + slope.T)


def coarse(shift: float) -> str:
    """What to say where finer sub-steps of the closure would still move an estimate."""
    return (
        f"twice the sub-steps of the closure would move an estimate by {shift:.2g} standard "
        "errors: the reaction is fast for these time steps; observe more often"
    )


def positive(curvature: Array, otherwise: Array) -> Array:
    """The curvature where it is positive definite."""
    return curvature if _inverse(curvature) is not None else otherwise


def _inverse(curvature: Array) -> Array | None:
    scale = _units(curvature)
    values, vectors = np.linalg.eigh(curvature / np.outer(scale, scale))
    if not values[0] > LEAST_CURVATURE:
        return None
    return (vectors / values) @ vectors.T / np.outer(scale, scale)


def invert_information(curvature: Array, rate_dt: float = 0.0) -> Array:
    """Covariance from the information, or `ConvergenceError` where it has no maximum.

    ``rate_dt`` is how many times itself the reaction changes the field between observations.
    """
    covariance = _inverse(curvature)
    if covariance is not None:
        return covariance
    if rate_dt > FAST:
        expected = "observations close enough in time to see the reaction act"
        got = f"a reaction that changes the field by {rate_dt:.1f} times itself between them"
        raise ConvergenceError("fit", expected=expected, got=got, fix="observe more often")
    raise ConvergenceError(
        "fit",
        expected="a likelihood with a maximum in every direction",
        got="parameters that these data cannot tell apart",
        fix="use fewer terms (u, u^2 and u^3 are alike inside one well), hold one, or bring more "
        "data; check a noise that is given",
    )

"""Maximum of a log-posterior whose terms have scores of their own, and its curvature."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from spdelaw.errors import ConvergenceError
from spdelaw.infer.objective import LogPosterior
from spdelaw.infer.optimise import Counted, FactoredHessian, Optimum, balanced, learned_metric
from spdelaw.infer.semilinear.layout import Layout
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.filter import Scores

# Scoring with the sum of squared scores (Berndt, Hall, Hall and Hausman) needs no Hessian; steps
# are halved until the value rises. The expected gain of a step, ``g' A^-1 g``, is the squared
# distance to the maximum in standard errors. From the start by increments it takes 3 or 4
# evaluations of complete data, where the quasi-Newton search of `spdelaw.infer.optimise`, which has
# no scores of terms, takes 10 to 14, and 21 to 25 with its curvature. Where terms are too few, such
# as the paths of a filter, a guess of the information takes the place of the sum, and learns on the
# way (BFGS). So does the expected information, where terms have it.


Array = np.ndarray

#: Expected gain that ends a search which has ended short of the maximum before.
NEARER = 1e-4
#: Standard error of the logarithm of a variance that the data do not determine.
VAGUE = 10.0
#: Longest step, in standard errors per parameter by the metric of the search.
LONGEST_STEP = 20.0
#: Halvings of one step.
HALVINGS = 12
#: Newton steps that follow the search with one curvature, and how often that is computed.
MOST_NEWTON, CURVATURES = 5, 2
#: Rate of the reaction times the step above which no test confirms the intervals of the closure.
FAST = 1.0
#: Least eigenvalue of the information, parameters scaled to 1, that counts as positive.
LEAST_CURVATURE = 1e-10
#: Part of a standard error over which the score is differenced.
DIFFERENCE = 0.01
#: Least part that a parameter has in a direction without a maximum to be listed.
LARGE_PART = 0.3
#: Rough standard error of every coordinate: so large that the information alone sets the scale.
UNKNOWN_ERROR = 1e100


class Terms(NamedTuple):
    """Scores of the terms of a log-likelihood, (n, free), and its information where that is known.

    Attributes:
        scores: one row per term.
        information: the expected one, (free, free).
    """

    scores: Array
    information: Array | None = None

    @property
    def slope(self) -> Array:
        """Sum of the scores."""
        return self.scores.sum(0)

    @property
    def squares(self) -> Array:
        """Sum of squared scores."""
        return self.scores.T @ self.scores


class Point(NamedTuple):
    """A free vector with its value, the terms there, and a metric."""

    x: Array
    value: float
    terms: Terms
    expected_gain: float
    metric: Array


@dataclasses.dataclass(frozen=True, eq=False)
class ScoredPosterior(LogPosterior):
    """Log-posterior with a score for each term: a transition, or a path behind gaps and noise.

    Attributes:
        near: expected gain of a step that ends the search, in squared standard errors.
        near_newton: the same of Newton steps, of which the last is not evaluated any more.
        most: evaluations of the search.
        share: of the data that the terms contain.
        guess: of the information, (free, free), from which the search learns; without it the
            expected information at the start, or else the sum of squared scores.
        curvature: the information where it is known from fewer sub-steps, (free, free).
        sampled: from the scores of all terms to a likelihood of some of them, with weights, that
            has the same curvature.
        rate_dt: how many times its size the reaction changes the field between observations.
    """

    near: float = 1e-3
    near_newton: float = np.inf
    most: int = 200
    share: float = 1.0
    guess: Array | None = None
    curvature: Array | None = None
    sampled: Callable[[Array], Callable[[StateSpace], Scores]] | None = None
    rate_dt: Callable[[Array], float] = lambda full: 0.0

    @classmethod
    def of(cls, form: Layout, evaluate: Any, full: Array, **search: Any) -> ScoredPosterior:
        """Around a full vector, without priors; held parameters stay."""
        columns, n = np.eye(len(full))[:, form.free], len(form.free)
        scale, tilt = np.full(n, UNKNOWN_ERROR), np.zeros(len(full))
        return cls(form, evaluate, [], full, columns, scale, n, tilt, **search)

    def scored(self, x: Array) -> tuple[float, Terms]:
        """Value, minus infinity where there is none, and the terms."""
        nothing = -np.inf, Terms(np.zeros((1, len(x))))
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                value, terms = self.at_full(self.full(x))
        except np.linalg.LinAlgError:
            return nothing
        return (value, terms) if np.isfinite(value + terms.slope.sum()) else nothing

    def at_full(self, full: Array) -> tuple[float, Terms]:
        """Value and terms at a full vector."""
        evaluation: Any = self.evaluate(self.parametrisation.state_space(full))
        value = float(evaluation.log_likelihood.sum())
        if not np.isfinite(value):
            return -np.inf, Terms(np.zeros((1, 1)))
        return value, Terms(self.parametrisation.scores(full, evaluation.by) @ self.columns)  # type: ignore[attr-defined]

    def slope(self, x: Array) -> Array:
        """Slope of the log-likelihood; (free,)."""
        return self.scored(x)[1].slope

    def with_steps(self, n: int) -> ScoredPosterior:
        """The same with so many sub-steps of the closure."""
        return dataclasses.replace(self, parametrisation=self.parametrisation.with_steps(n))  # type: ignore[attr-defined]

    def sample(self, scores: Array) -> ScoredPosterior:
        """Log-posterior of fewer terms with the same curvature and slope, up to sampling."""
        return self if self.sampled is None else self.of_terms(self.sampled(scores))

    def of_terms(self, evaluate: Any) -> ScoredPosterior:
        """The same with the likelihood of other terms."""
        return dataclasses.replace(self, evaluate=evaluate)

    def with_curvature(self, optimum: Optimum) -> ScoredPosterior:
        """The same with the curvature of a maximum near by, also as the guess where it has one."""
        known = optimum.information
        guess = None if self.guess is None else known
        return dataclasses.replace(self, curvature=known, guess=guess)

    def maximum_by_scores(self) -> Optimum:
        """Search, curvature, and Newton steps; the last one is not evaluated any more."""
        counted = Counted(self.scored)
        best = self.climb(counted)
        for k in range(CURVATURES):
            is_known = self.curvature is not None and k == 0
            information: Any = self.curvature if is_known else self._information(counted, best)
            if positive_inverse(information) is None:  # short of the maximum, on a flat ridge
                best = dataclasses.replace(self, near=NEARER).climb(counted, best.x)
                is_log = self.parametrisation.is_log @ self.columns > 0
                information = _with_vague(self._information(counted, best), is_log)
            names, rate_dt = self.parametrisation.free_names, self.rate_dt(self.full(best.x))  # type: ignore[attr-defined]
            covariance = invert_information(information, rate_dt, names)
            best = self._newton_steps(counted, best, covariance)
            if best.expected_gain < self.near_newton:
                break
        is_near = best.expected_gain < max(self.near_newton, 1.0)  # else a step leads anywhere
        end = best.x + is_near * (covariance @ best.terms.slope)
        # A Newton step leaves an error of second order.
        decrement = 0.5 * best.expected_gain * min(best.expected_gain, 1.0)
        hessian = FactoredHessian.of(information, balanced(information, self.scale))
        return Optimum(
            end, best.value, information, counted.calls, decrement, 0.0, hessian, "differenced",
            best.terms.scores,
        )  # fmt: skip

    def _information(self, counted: Counted, best: Point) -> Array:
        """Information at a point: the expected one, or else the observed one.

        The latter comes from a sample of the terms where there are many.
        """
        if best.terms.information is not None:
            return best.terms.information
        fewer = self.sample(best.terms.scores)
        if fewer.evaluate is self.evaluate:
            return information_at(counted, best, best.terms.slope)
        return information_at(fewer.scored, best, fewer.slope(best.x))

    def _newton_steps(self, counted: Any, best: Point, covariance: Array) -> Point:
        """Steps with one curvature, until one more would gain less than ``near_newton``."""
        for _ in range(MOST_NEWTON):
            slope = best.terms.slope
            best = best._replace(expected_gain=float(slope @ covariance @ slope))
            if best.expected_gain < self.near_newton:
                break
            value, terms = counted(best.x + covariance @ slope)
            if not value >= best.value:
                break
            best = best._replace(x=best.x + covariance @ slope, value=value, terms=terms)
        return best

    def climb(self, objective: Any, start: Array | None = None) -> Point:
        """Climb, from the origin by default, until a step gains less than ``near``.

        `ConvergenceError` where there is no likelihood to start from.
        """
        x = np.zeros(len(self.scale)) if start is None else start
        value, terms = objective(x)
        guess = terms.information if self.guess is None else self.guess
        inverse = None if guess is None else pseudo_inverse(guess)
        if not np.isfinite(value):
            expected = "a finite likelihood at the start"
            got = "a covariance that is not positive, or states that diverge"
            fix = "observe more often, or use fewer modes"
            raise ConvergenceError("fit", expected=expected, got=got, fix=fix)
        count, expected_gain = 1, np.inf
        while count < self.most:
            slope = terms.slope
            step = solve(terms.squares, slope) if inverse is None else inverse @ slope
            expected_gain = float(slope @ step)
            if expected_gain < self.near or not np.isfinite(expected_gain):
                break
            step = step * min(1.0, LONGEST_STEP * np.sqrt(len(x)) / np.sqrt(expected_gain))
            for k in range(HALVINGS):
                trial = x + 0.5**k * step
                trial_value, trial_terms = objective(trial)
                if np.isfinite(trial_value) and trial_value >= value:
                    break
            else:
                break
            count += k + 1
            if inverse is not None:
                inverse = learned_metric(inverse, trial - x, slope - trial_terms.slope)
            x, value, terms = trial, trial_value, trial_terms
        metric = terms.squares if inverse is None else pseudo_inverse(inverse)
        return Point(x, value, terms, expected_gain, metric)


def solve(matrix: Array, vector: Array) -> Array:
    """Solution of normal equations, the shortest where there are many."""
    scale = _diagonal_roots(matrix)
    return np.linalg.lstsq(matrix / np.outer(scale, scale), vector / scale, rcond=1e-12)[0] / scale


def _diagonal_roots(matrix: Array) -> Array:
    """Roots of the diagonal: coefficients of u and u^3 have units apart by those of the field."""
    return np.sqrt(np.maximum(np.abs(np.diag(matrix)), 1e-300))


def pseudo_inverse(matrix: Array) -> Array:
    """Inverse of a sum of squares, parameters scaled to 1, without directions that have none."""
    scale = np.outer(_diagonal_roots(matrix), _diagonal_roots(matrix))
    return np.linalg.pinv(matrix / scale, rcond=1e-14, hermitian=True) / scale


def information_at(objective: Any, at: Point, base: Array) -> Array:
    """Observed information: minus the slope of the score, by differences; (free, free).

    Steps are a small part of a standard error along the principal axes of the metric: a single
    coefficient of u, u^2 and u^3 that are nearly collinear moves the score far off its tangent.
    ``base`` is the score.
    """
    scale = _diagonal_roots(at.metric)
    values, vectors = np.linalg.eigh(at.metric / np.outer(scale, scale))
    roots = np.sqrt(np.maximum(values, LEAST_CURVATURE))
    axes, inverse = vectors / roots / scale[:, None], vectors * roots * scale[:, None]
    moved = at.x + DIFFERENCE * axes.T
    slope = np.array([base - objective(x)[1].slope for x in moved]) @ axes / DIFFERENCE
    return np.asarray(inverse @ (0.5 * (slope + slope.T)) @ inverse.T)


def positive_inverse(curvature: Array) -> Array | None:
    """Inverse of an information, or None where it is not positive definite."""
    scale = _diagonal_roots(curvature)
    values, vectors = np.linalg.eigh(curvature / np.outer(scale, scale))
    if not values[0] > LEAST_CURVATURE:
        return None
    return (vectors / values) @ vectors.T / np.outer(scale, scale)


def _weakest(curvature: Array) -> Array:
    """Direction with the least curvature, parameters scaled to 1."""
    scale = _diagonal_roots(curvature)
    return np.asarray(np.linalg.eigh(curvature / np.outer(scale, scale))[1][:, 0])


def _with_vague(curvature: Array, is_log: Array) -> Array:
    """The information with variances that have no maximum held, and known to `VAGUE`.

    The logarithm of a variance that is compatible with zero has no lower end.
    """
    curvature, is_free = curvature.copy(), is_log.copy()
    while positive_inverse(curvature) is None:
        k = int(np.argmax(np.abs(_weakest(curvature))))
        if not is_free[k]:
            break
        curvature[k], curvature[:, k], is_free[k] = 0.0, 0.0, False
        curvature[k, k] = 1.0 / VAGUE**2
    return curvature


def invert_information(curvature: Array, rate_dt: float = 0.0, names: Sequence[str] = ()) -> Array:
    """Covariance from the information, or `ConvergenceError` where it has no maximum.

    ``rate_dt`` is how many times its size the reaction changes the field between observations, and
    ``names`` are those of the parameters.
    """
    covariance = positive_inverse(curvature)
    if covariance is not None:
        return covariance
    if rate_dt > FAST:
        expected = "observations close enough in time to resolve the reaction"
        got = f"a reaction that changes the field by {rate_dt:.1f} times its size between them"
        raise ConvergenceError("fit", expected=expected, got=got, fix="observe more often")
    weakest = _weakest(curvature)
    alike = [name for name, part in zip(names, weakest, strict=False) if abs(part) > LARGE_PART]
    raise ConvergenceError(
        "fit",
        expected="a likelihood with a maximum in every direction",
        got=f"none along {', '.join(alike) or 'some'}, which these data cannot separate",
        fix=(
            "use fewer terms (u, u^2 and u^3 are almost collinear near one stable state) or fewer "
            "modes, hold a parameter with fixed=, or use more data"
        ),
    )

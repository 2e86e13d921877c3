"""Fits of a semilinear law: a search by scores, complete coefficients, or gaps and noise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from spdelaw.checks import one_of
from spdelaw.domains.base import AbstractDomain
from spdelaw.errors import ConvergenceError, DataError, InputError
from spdelaw.infer.objective import LogPosterior, estimate
from spdelaw.infer.optimise import (
    Counted,
    Estimate,
    FactoredHessian,
    Optimum,
    balanced,
    learned_metric,
)
from spdelaw.infer.semilinear.increments import SLOPE_TRANSITIONS, increment_scores
from spdelaw.infer.semilinear.layout import (
    Layout,
    check_amount,
    diagonal_roots,
    filter_start,
    layout,
    noise_guess,
    noise_names,
    rough_states,
    solve,
    start,
)
from spdelaw.processes.closure import advance
from spdelaw.processes.semilinear import Reacting, substeps
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.collapse import Block, Collapsed, some_paths
from spdelaw.statespace.filter import Scores, filter_scores, gram_roots, in_segments
from spdelaw.statespace.transitions import (
    Transitions,
    closure_scores,
    has_few_steps,
    linear_scores,
    scheme_scores,
    transitions,
)

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
    def of(cls, form: Layout, evaluate: Any, full: Array, **search: Any) -> Self:
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


def pseudo_inverse(matrix: Array) -> Array:
    """Inverse of a sum of squares, parameters scaled to 1, without directions that have none."""
    scale = np.outer(diagonal_roots(matrix), diagonal_roots(matrix))
    return np.linalg.pinv(matrix / scale, rcond=1e-14, hermitian=True) / scale


def information_at(objective: Any, at: Point, base: Array) -> Array:
    """Observed information: minus the slope of the score, by differences; (free, free).

    Steps are a small part of a standard error along the principal axes of the metric: a single
    coefficient of u, u^2 and u^3 that are nearly collinear moves the score far off its tangent.
    ``base`` is the score.
    """
    scale = diagonal_roots(at.metric)
    values, vectors = np.linalg.eigh(at.metric / np.outer(scale, scale))
    roots = np.sqrt(np.maximum(values, LEAST_CURVATURE))
    axes, inverse = vectors / roots / scale[:, None], vectors * roots * scale[:, None]
    moved = at.x + DIFFERENCE * axes.T
    slope = np.array([base - objective(x)[1].slope for x in moved]) @ axes / DIFFERENCE
    return np.asarray(inverse @ (0.5 * (slope + slope.T)) @ inverse.T)


def positive_inverse(curvature: Array) -> Array | None:
    """Inverse of an information, or None where it is not positive definite."""
    scale = diagonal_roots(curvature)
    values, vectors = np.linalg.eigh(curvature / np.outer(scale, scale))
    if not values[0] > LEAST_CURVATURE:
        return None
    return (vectors / values) @ vectors.T / np.outer(scale, scale)


def _weakest(curvature: Array) -> Array:
    """Direction with the least curvature, parameters scaled to 1."""
    scale = diagonal_roots(curvature)
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


# ---------- A fit with as many sub-steps of the closure as it needs


#: Change, in standard errors, that twice the sub-steps of the closure may make, the one that is too
#: large for one Newton step, and most sub-steps.
ALLOWED_SHIFT, LARGEST_SHIFT, MOST_STEPS = 0.3, 2.0, 16


@dataclasses.dataclass(frozen=True, eq=False)
class SemilinearFit:
    """Estimate of a semilinear law with its uncertainty.

    Attributes:
        estimate: the numbers, with the covariance by the observed information.
        sandwich: covariance of the full vector, robust against a wrong model; (p, p).
        scores: of each transition, or of each path behind gaps and noise, (n, p).
        groups: path of each score, (n,).
        diagnostics: ``n_steps`` (sub-steps of the closure), ``step_shift`` (what twice as many
            would change, in standard errors), ``rate_dt``, ``converged`` and more.
    """

    estimate: Estimate
    sandwich: Array
    scores: Array
    groups: Array
    diagnostics: dict[str, Any]

    @property
    def layout(self) -> Layout:
        """Names and coordinates of the parameters."""
        return self.estimate.parametrisation  # type: ignore[return-value]

    @property
    def log_likelihood(self) -> float:
        """At the estimate."""
        return self.estimate.log_likelihood

    @property
    def values(self) -> dict[str, float]:
        """Every parameter by name, held ones included."""
        return self.layout.by_name(self.estimate.full)

    @property
    def standard_errors(self) -> dict[str, float]:
        """Of each free parameter in its own units, by the observed information."""
        return self._errors(self.estimate.covariance)

    @property
    def robust_errors(self) -> dict[str, float]:
        """Of each free parameter in its own units, by the sandwich."""
        return self._errors(self.sandwich)

    def _errors(self, covariance: Array) -> dict[str, float]:
        form, numbers = self.layout, np.array(list(self.values.values()))
        errors = np.sqrt(np.diag(covariance)) * np.where(form.is_log, numbers, 1.0)
        return {name: float(errors[i]) for i, name in zip(form.free, form.free_names, strict=True)}


def refined(
    posterior: ScoredPosterior,
    trial: Callable[[ScoredPosterior, Array], ScoredPosterior] | None,
    groups: Array | None,
    **diagnostics: Any,
) -> SemilinearFit:
    """Fit with as many sub-steps of the closure as it needs.

    Args:
        posterior: of all terms, with its start.
        trial: a log-posterior with a part of its data, by the scores of all terms, that shows what
            twice the sub-steps change in the score; None where the moments are exact.
        groups: path of each term; None where terms are the records themselves.
        diagnostics: to report.

    The estimate is moved by the Newton step to where twice the sub-steps would lead.
    """
    n, calls = 1, 0
    while True:
        maximum = estimate(posterior.with_steps(n))
        optimum, calls = maximum.optimum, calls + maximum.optimum.n_evaluations
        if trial is None:
            shift, end = 0.0, optimum.x
            break
        few, covariance = trial(posterior, optimum.scores), np.linalg.inv(optimum.information)
        fine, coarse = (few.with_steps(k).slope(optimum.x) for k in (2 * n, n))
        change = covariance @ (fine - coarse) / few.share
        shift = float(np.abs(change / np.sqrt(np.diag(covariance))).max(initial=0.0))
        end = optimum.x + (change if shift < LARGEST_SHIFT else 0.0)
        if shift <= ALLOWED_SHIFT or n >= MOST_STEPS:
            break
        n, posterior = 2 * n, posterior.moved(end).with_curvature(optimum)
    full = maximum.posterior.full(end)
    form, scores = maximum.parametrisation, optimum.scores @ posterior.columns.T
    maximum = maximum._replace(
        full=full,
        state_space=form.state_space(full),
        optimum=optimum._replace(n_evaluations=calls),
    )
    # The sandwich. At the maximum k parameters have turned the scores of n records towards zero,
    # for which ``n / (n - k)`` makes up; fewer records tell of no spread.
    sandwich, n_scores, k = maximum.covariance, len(scores), posterior.columns.shape[1]
    has_state_noise = form.dynamics.amplitude is not None  # type: ignore[attr-defined]
    if n_scores >= 2 * k or (groups is not None and not has_state_noise):
        factor = n_scores / (n_scores - k) if groups is None or has_state_noise else 1.0
        sandwich = factor * sandwich @ scores.T @ scores @ sandwich
        if has_state_noise:
            maximum = maximum._replace(columns=_root(sandwich, posterior.columns))
    diagnostics |= {"n_steps": n, "step_shift": shift, "converged": optimum.converged}
    diagnostics |= {"rate_dt": posterior.rate_dt(full)}
    groups = np.arange(n_scores) if groups is None else groups
    return SemilinearFit(maximum, sandwich, scores, groups, diagnostics)


def check_own_noises(data: Transitions) -> None:
    """Refuse states that one Brownian motion drives in the same proportion; report what they tell.

    Under ``dc_n = -lambda_n c_n dt + s c_n dw`` (Cialenco and Lototsky 2009)

        log(c_n(t + dt) / c_n(t)) = -(lambda_n + s^2 / 2) dt + s dw

    has the same noise for all n: differences of rates have no error, and there is no likelihood.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.log(data.after / data.before) / data.dt[:, None]
    differences = change - change[:, :1]
    if data.after.shape[1] < 2 or not np.isfinite(change).all():
        return
    if differences.std(0).max() > SAME_NOISE * change.std(0).max():
        return
    rates = ", ".join(f"{-rate:.6g}" for rate in differences.mean(0))
    variance = float((change[:, 0] * np.sqrt(data.dt)).var())
    sum_of_both = -float(np.average(change[:, 0], weights=data.dt))
    error = np.sqrt(variance / data.dt.sum())
    raise DataError(
        "data",
        expected="noise that differs between the modes",
        got=f"one Brownian motion for all of them: lambda_n - lambda_1 is exactly {rates}; "
        f"s^2 is {variance:.4g}, and lambda_1 + s^2 / 2 is {sum_of_both:.4g} +- {error:.2g}",
        fix="use these numbers: differences of the rates need no estimate, and the others are the "
        "drift and the variance of the logarithm of one mode",
    )


def _root(covariance: Array, columns: Array) -> Array:
    """Directions of unit variance of the free parameters, which the columns select; (p, k).

    Noise that depends on the state gives transitions that are not Gaussian. Their first two moments
    hold, so that scores are martingale differences and the sandwich is their covariance.
    """
    free = columns.T @ covariance @ columns
    scale = np.sqrt(np.maximum(np.diag(free), 1e-300))  # units differ by parameter
    values, vectors = np.linalg.eigh(free / np.outer(scale, scale))
    return np.asarray(columns @ (scale[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))))


# ---------- Fit of a semilinear law to coefficients that are observed completely
#
# Exponential-Euler start, scoring on a part of the transitions, then on all; observed information;
# and the closure with twice the sub-steps, whose score at the estimate, times the inverse
# information, gives the change by finer sub-steps. A sample of the transitions is enough for both.


#: Deviation of differences of growth rates, relative to that of one, that is rounding.
SAME_NOISE = 1e-6
#: Dynamics of the fields: the equation itself, or a scheme from one time to the next.
SCHEMES = ("exact", "semi_implicit")
#: The warm-up uses this many transitions per parameter.
WARM_PER_PARAMETER = 50
#: Transitions from which curvature and change by finer steps are computed.
CURVATURE_TRANSITIONS = {"exact": 500, "semi_implicit": 4000}
#: Transitions whose states determine the rate of the reaction.
RATE_TRANSITIONS = 2000
#: Warm-up ends this near its maximum, in squared standard errors.
WARM_NEAR = 0.05
#: Most evaluations under noise that depends on the state: it takes ten where this is its kind, or
#: three where moments are exact, which are cheap.
MOST_STATE_NOISE, MOST_INFORMED = 30, 60
#: The same of a search by increments, whose evaluations are cheap.
NEAR_INCREMENTS = 1e-3
#: The search on all transitions ends this near; one Newton step completes it. Where
#: squared scores are no information, as of a wrong model, more of them come this near.
FULL_NEAR, FULL_NEAR_NEWTON = 0.02, 0.1


class TransitionLikelihood(NamedTuple):
    """Likelihood of pairs of successive states.

    Attributes:
        data: the pairs.
        scheme: "exact" or "semi_implicit".
        values: of the terms at the states before, (n_terms, n, N), which a scheme needs.
        weight: of each pair, (n,).
    """

    data: Transitions
    scheme: str = "exact"
    values: Array | None = None
    weight: Array | None = None

    def __call__(self, space: StateSpace) -> Scores:
        """Log-likelihood of each pair and its gradients."""
        dynamics: Any = space.dynamics
        if self.values is None:
            scores = closure_scores(dynamics.closure, self.data, dynamics.n_steps)
        else:
            scores = scheme_scores(dynamics.closure, self.data, self.values)
        if self.weight is None:
            return scores
        by = {name: (self.weight * slope.T).T for name, slope in scores.by.items()}
        return Scores(self.weight * scores.log_likelihood, by)

    def sampled(self, scores: Array) -> TransitionLikelihood:
        """Pairs drawn by their leverage, with weights that keep sums unbiased.

        The first steps of a path can carry most of the information about a term.
        """
        n = CURVATURE_TRANSITIONS[self.scheme]
        if n >= len(scores):
            return self
        leverage = ((scores @ pseudo_inverse(scores.T @ scores)) * scores).sum(1)
        chance = np.minimum(1.0, n * (0.5 / len(scores) + 0.5 * leverage / leverage.sum()))
        rows = np.flatnonzero(np.random.default_rng(0).random(len(scores)) < chance)
        values = None if self.values is None else self.values[:, rows]
        return TransitionLikelihood(self.data.take(rows), self.scheme, values, 1.0 / chance[rows])


@dataclasses.dataclass(frozen=True, eq=False)
class InformedPosterior(ScoredPosterior):
    """Log-posterior of complete states with the expected information.

    Attributes:
        data: pairs of successive states.
        scores_of: log-likelihoods, scores and information of dynamics and pairs, along directions.
    """

    data: Transitions | None = None
    scores_of: Callable[..., tuple[Array, Array, Array]] | None = None

    def at_full(self, full: Array) -> tuple[float, Terms]:
        """Value and terms."""
        form: Any = self.parametrisation
        dynamics, directions = form.state_space(full).dynamics, form.directions(full)
        value, scores, information = self.scores_of(dynamics, self.data, directions)  # type: ignore[misc]
        return float(value.sum()), Terms(scores, information)


def fit_complete(
    coefficients: Array,
    times: Array,
    domain: AbstractDomain,
    terms: Sequence[str],
    *,
    scheme: str = "exact",
    **words: Any,
) -> SemilinearFit:
    """Learn ``nu``, the coefficients of the terms and the noise from coefficients (P, T, N).

    Args:
        coefficients: modes of complete fields, (paths, times, modes); NaN breaks a path in two.
        times: (T,), or (P, T).
        domain: where the modes live.
        terms: names, such as ("u", "u^3").
        scheme: "exact", or "semi_implicit" for fields that this scheme made, step by step.
        words: of `layout`: ``noise``, ``drift``, ``state_noise`` and ``fixed``.

    Returns:
        `SemilinearFit`.
    """
    c = np.asarray(coefficients, float)
    form = layout(domain, c.shape[-1], terms, **words)
    return fit_transitions(form, transitions(c, np.asarray(times, float)), scheme=scheme)


def fit_transitions(form: Layout, data: Transitions, *, scheme: str = "exact") -> SemilinearFit:
    """Fit of a layout to pairs of successive states.

    Args:
        form: parameters and terms.
        data: pairs, by `spdelaw.statespace.transitions.transitions`.
        scheme: "exact" or "semi_implicit".
    """
    one_of("scheme", scheme, SCHEMES)
    check_amount(form, data.after)
    if form.dynamics.amplitude is not None:  # type: ignore[union-attr]
        check_own_noises(data)
    reaction, full = form.dynamics.reaction, start(form, data)  # type: ignore[union-attr]
    if form.closure(full).lift is not None and has_few_steps(data):
        return fit_linear(form, data, full)
    states, dt = data.before[:RATE_TRANSITIONS], float(np.median(data.dt))

    def likelihood(data: Transitions) -> TransitionLikelihood:
        values = None if scheme == "exact" else reaction.values(data.before)
        # As many sub-steps as the rate of the reaction needs at each state.
        steps = substeps(form.closure(full), data.before, data.dt)
        return TransitionLikelihood(data._replace(steps=steps), scheme, values)

    some = data.draw(WARM_PER_PARAMETER * max(len(form.free), 4))
    search: dict[str, Any] = {}
    if form.dynamics.amplitude is not None:  # type: ignore[union-attr]
        search["most"] = MOST_STATE_NOISE
    if len(some.dt) < len(data.dt):
        warm = ScoredPosterior.of(form, likelihood(some), full, near=WARM_NEAR, **search)
        full = warm.full(warm.climb(warm.scored).x)  # a start from increments is far too slow
    terms = likelihood(data)
    search |= {"near": FULL_NEAR, "near_newton": FULL_NEAR_NEWTON, "sampled": terms.sampled}
    posterior = ScoredPosterior.of(
        form, terms, full, rate_dt=lambda full: form.rate(full, states) * dt, **search
    )
    return refined(
        posterior, ScoredPosterior.sample, data.path, n_transitions=len(data.dt), scheme=scheme
    )


def fit_linear(form: Layout, data: Transitions, full: Array) -> SemilinearFit:
    """Fit where drift and noise are linear in the state, from a start: Fisher scoring."""

    def scores_of(dynamics: Reacting, *more: Array) -> tuple[Array, Array, Array]:
        return linear_scores(dynamics.closure, *more)  # type: ignore[arg-type]

    search = {"near": FULL_NEAR, "near_newton": FULL_NEAR_NEWTON, "most": MOST_INFORMED}
    posterior = InformedPosterior.of(form, None, full, data=data, scores_of=scores_of, **search)
    fit = refined(posterior, None, data.path, n_transitions=len(data.dt), scheme="exact")
    if not fit.diagnostics["converged"]:  # an expected information does not show a missing maximum
        got = f"a search that goes on after {MOST_INFORMED} evaluations"
        raise ConvergenceError("fit", expected="a maximum", got=got, fix="use another state_noise")
    return fit


def fit_increments(form: Layout, data: Transitions) -> SemilinearFit:
    """Fit of several fields of many modes to complete states, by the same search.

    Args:
        form: parameters and terms.
        data: pairs of successive states, by `spdelaw.statespace.transitions.transitions`.
    """
    check_amount(form, data.after)
    first = {f: noise_names(f, form.noise, len(form.mu))[0] for f in form.fields}
    noiseless = [f for f, name in first.items() if form.fixed.get(name) == 0.0]
    if noiseless:
        expected = "noise in every field of this many modes"
        fix = "fit fewer modes, which the closure does without noise in one of them"
        raise InputError("fixed", expected=expected, got=f"none in {noiseless[0]}", fix=fix)
    few, dt = data.draw(SLOPE_TRANSITIONS), float(np.median(data.dt))
    search = {"near": FULL_NEAR, "near_newton": NEAR_INCREMENTS, "most": MOST_INFORMED}
    search |= {"data": data, "scores_of": increment_scores}
    posterior = InformedPosterior.of(
        form,
        None,
        start(form, few),
        rate_dt=lambda full: form.rate(full, few.before) * dt,
        **search,
    )

    def trial(at: Any, scores: Array) -> ScoredPosterior:
        return dataclasses.replace(at, data=few, share=len(few.dt) / len(data.dt))

    counts = {"n_transitions": len(data.dt), "n_values": data.after.size // len(form.fields)}
    return refined(posterior, trial, data.path, scheme="exact", **counts)


# ---------- Fit of a semilinear law to fields with gaps, noise, different times or few sensors
#
# The closure predicts, collapsed observations correct (`spdelaw.statespace.filter`). The search
# starts from rough states with the information that complete data would carry as its metric.


#: Terms count from this many times the time scale of the reaction on, ``1 / rate``.
BURN_TIME_SCALES = 2.0
#: Largest share of a record within the burn-in.
LARGEST_BURN_SHARE = 0.5
#: Records on which the search begins.
FIRST_RECORDS = 8
#: A search ends this near, in squared standard errors; Newton steps follow and end nearer.
NEAR, NEAR_NEWTON = 0.3, 0.01
#: Product ``nu mu_max dt`` from which a second search starts where sensors are few.
NU_START = 0.1
#: Most evaluations of the search.
MOST_EVALUATIONS = 60
#: Records on which finer sub-steps are tried, and paths that determine the rate of the reaction.
TRIAL_RECORDS, RATE_PATHS = 6, 6


class FilterLikelihood(NamedTuple):
    """Likelihood of records through the filter.

    Attributes:
        blocks: the records, in segments.
        roots: `gram_roots` of each block.
        burn: time within which terms do not count.
        share: of all records.
    """

    blocks: list[Block]
    roots: list[Array]
    burn: float
    share: float = 1.0

    @classmethod
    def of(cls, collapsed: Collapsed, burn: float, most: float = np.inf) -> FilterLikelihood:
        """All records in segments, or about ``most`` of these spread over all."""
        blocks, share = [in_segments(block, burn) for block in collapsed.blocks], 1.0
        counts = np.array([len(block.paths) for block in blocks])
        if counts.sum() > most:
            chosen = np.zeros(counts.sum(), bool)
            chosen[np.linspace(0, counts.sum() - 1, int(most)).astype(int)] = True
            parts = np.split(chosen, np.cumsum(counts)[:-1])
            pairs = zip(blocks, parts, strict=True)
            blocks = [some_paths(block, keep) for block, keep in pairs if keep.any()]
            share = float(chosen.mean())
        return cls(blocks, [gram_roots(block) for block in blocks], burn, share)

    def __call__(self, space: StateSpace) -> Scores:
        """Log-likelihood of each record and its gradients."""
        pairs = zip(self.blocks, self.roots, strict=True)
        scores = [filter_scores(block, space, roots, self.burn) for block, roots in pairs]
        names = scores[0].by if all(score.by for score in scores) else ()
        by = {name: np.concatenate([score.by[name] for score in scores]) for name in names}
        return Scores(np.concatenate([score.log_likelihood for score in scores]), by)


def fit_filtered(
    collapsed: Collapsed,
    domain: AbstractDomain,
    terms: Sequence[str],
    *,
    observation_variance: float | None = None,
    burn: float | None = None,
    **words: Any,
) -> SemilinearFit:
    """Learn a semilinear law from observations collapsed onto its modes.

    Args:
        collapsed: observations, by `spdelaw.statespace.collapse.collapse`.
        domain: where the modes live.
        terms: names, such as ("u", "u^3").
        observation_variance: where it is known; otherwise estimated.
        burn: time within which terms do not count; by default `BURN_TIME_SCALES` time
            scales of the reaction.
        words: of `layout`: ``noise``, ``drift``, ``state_noise`` and ``fixed``.

    Returns:
        `SemilinearFit`; the noise of observations is the parameter ``observation_std``.
    """
    r = noise_guess(collapsed) if observation_variance is None else observation_variance
    states, times, prior = rough_states(collapsed, r)
    words |= {"prior": prior, "observation_variance": observation_variance}
    form = layout(domain, collapsed.n_modes, terms, **words)
    full, smooth = filter_start(form, collapsed, r, transitions(states, times))
    longest = LARGEST_BURN_SHARE * float((times[:, -1] - times[:, 0]).min())
    flat = states.reshape(-1, states.shape[-1])

    def burn_at(full: Array) -> float:
        if burn is not None or not form.terms:  # a linear drift has Gaussian first states
            return burn or 0.0
        return min(BURN_TIME_SCALES / max(form.rate(full, flat), 1e-300), longest)

    # Rough states are too lively; the time scale of the reaction is that of a first estimate.
    search = {"near": NEAR, "near_newton": NEAR_NEWTON, "most": MOST_EVALUATIONS}
    some = FilterLikelihood.of(collapsed, burn_at(full), FIRST_RECORDS)
    guess = some.share * _complete_information(form, full, smooth, collapsed)
    first = ScoredPosterior.of(form, some, full, guess=guess, **search)
    starts = [np.zeros(len(form.free))]
    if _are_few(collapsed):
        unit = float(form.mu.max() * np.median(np.diff(times)))
        starts.append(form.is_diffusivity[form.free] * (NU_START / unit - full[form.free]))
    best = max((first.climb(first.scored, x) for x in starts), key=lambda point: point.value)
    curvature = information_at(first.scored, best, best.terms.slope)
    guess = (best.metric if positive_inverse(curvature) is None else curvature) / some.share

    block, full = collapsed.blocks[0], first.full(best.x)
    usual = block.estimate[..., :RATE_PATHS].transpose(0, 2, 1).reshape(-1, collapsed.n_modes)
    dt = float(np.median(np.diff(block.times, axis=0)))
    whole = FilterLikelihood.of(collapsed, burn_at(full))
    few = FilterLikelihood.of(collapsed, whole.burn, TRIAL_RECORDS)
    posterior = ScoredPosterior.of(
        form, whole, full, guess=guess, rate_dt=lambda full: form.rate(full, usual) * dt, **search
    )

    def trial(at: ScoredPosterior, scores: Array) -> ScoredPosterior:
        return dataclasses.replace(at.of_terms(few), share=few.share)

    return refined(posterior, trial, None, burn=whole.burn, n_transitions=_n_transitions(collapsed))


def _are_few(collapsed: Collapsed) -> bool:
    """Whether rows do not determine all modes: their states hardly differ by wavelength."""
    grams = (block.matrices for block in collapsed.blocks)
    return any((np.linalg.matrix_rank(g, hermitian=True) < g.shape[-1]).any() for g in grams)


def _complete_information(
    form: Layout, full: Array, data: Transitions, collapsed: Collapsed
) -> Array:
    """Information of complete data like these, by squared scores of simulated next states."""
    space, data = form.state_space(full), data.draw(500)
    closure, rows = space.dynamics.closure, []  # type: ignore[attr-defined]
    generator = np.random.default_rng(0)
    for k in range(len(data.dt)):
        ahead, _ = advance(closure, data.before[k : k + 1], None, float(data.dt[k]))
        root = np.linalg.cholesky(ahead.covariance[0])
        rows.append(ahead.mean[0] + root @ generator.standard_normal(len(root)))
    scores = TransitionLikelihood(data._replace(after=np.array(rows)))(space)
    by = {**scores.by, "observation": np.zeros(len(rows))}
    free = form.scores(full, by)[:, form.free]
    n_times = collapsed.blocks[0].vector.shape[0]
    out = collapsed.n_paths * (n_times - 1) / len(rows) * free.T @ free
    if "observation" in form.parts:
        out[-1, -1] = 2.0 * collapsed.n_values
    return out


def _n_transitions(collapsed: Collapsed) -> int:
    """Number of rows with observations, without the first of each path."""
    rows = 0
    for block in collapsed.blocks:
        n_times, n_paths = len(block.gram), len(block.paths)
        is_observed = block.gram.reshape(n_times, -1, block.gram.shape[-1]).any(1)
        rows += int(np.broadcast_to(is_observed, (n_times, n_paths)).sum())
    return max(rows - collapsed.n_paths, 1)

"""Noise, initial state and mean of a law, selected on fits; the last search goes on from there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import scipy

from spdelaw.errors import ConvergenceError
from spdelaw.infer.model import Decision, Model
from spdelaw.infer.objective import Objective, estimate
from spdelaw.infer.optimise import Estimate
from spdelaw.infer.parameters import Parametrisation
from spdelaw.processes import operators

# A process that returns to a mean which is not zero looks like a slow one that returns to zero: a
# test that starts from the law without a mean lets a slow mode explain the mean away. So the law
# is fitted with a mean, which costs little where there is none, and the mean is dropped where it is
# compatible with zero in every mode.
#
# Several paths have a common first state where the score by its variance V, at V = 0,
#
#     d log p / dV = sum over paths of (g^2 - I) / 2,     g ~ N(0, I) where V = 0,
#
# is within chance in every mode; g is the score by the first state of a path and I its
# information. One path is stationary where its first state is neither too far from the mean nor
# too close to it for the stationary law of a fit with a free first state.


Array = np.ndarray

#: Largest absolute z-value of the means of all modes up to which a law has none.
LARGEST_MEAN_Z = 1.6
#: Score by the initial variance, in standard errors, from which on first states differ.
LARGEST_SPREAD_Z = 3.0
#: Variance at which the score is taken, and information below which a first state has none, both
#: relative.
SMALL_VARIANCE, NO_INFORMATION = 1e-3, 1e-9
#: Probability of a first state that is farther from the mean, or closer, under the stationary law.
UNLIKELY_START = 1e-3
#: Errors of one search that do not end the fit, because there is another one.
FAILURES = (ConvergenceError, np.linalg.LinAlgError)
#: A maximisation with all decisions taken.
P = TypeVar("P", bound=Objective)
#: Makes the objective of a model whose mean is zero or constant.
BuildObjective = Callable[[Model], P]


def select(build_objective: BuildObjective[P], model: Model) -> tuple[P, Estimate]:
    """The objective with its noise, initial state and mean, by the model or by the data.

    Returns it with its maximum.

    Args:
        build_objective: makes the objective of a model; the mean is "zero" or "constant".
        model: what is assumed.
    """
    if model.mean == "auto" and not _has_fixed_start(model):
        try:
            return _select_mean(build_objective, dataclasses.replace(model, mean="constant"))
        except FAILURES:  # modes that the points do not separate have no single means
            pass
    mean = "zero" if model.mean == "auto" else str(model.mean)
    problem, fitted = _select_noise_and_start(
        build_objective, dataclasses.replace(model, mean=mean)
    )
    return problem.decided(mean=Decision(mean, {})), problem.finished(fitted)


def _select_mean(build_objective: BuildObjective[P], model: Model) -> tuple[P, Estimate]:
    """Whether the mean stays, once noise and initial state are selected around it."""
    problem, quick = _select_noise_and_start(build_objective, model, polish=False)
    z = _largest_mean_z(problem, quick)
    compared = {"largest_z_of_mean": z, "mean_from_z": LARGEST_MEAN_Z}
    if z >= LARGEST_MEAN_Z:
        fitted = problem.finished(estimate(problem.posterior(quick.full), polish=problem.polish))
        return problem.decided(mean=Decision("constant", compared)), fitted
    zero = problem.without_mean()
    start = _with_initial_mean_moved(quick, problem.centre)
    fitted = estimate(zero.posterior(start), polish=zero.polish)
    return zero.decided(mean=Decision("zero", compared)), fitted


def _select_noise_and_start(
    build_objective: BuildObjective[P], model: Model, *, polish: bool = True
) -> tuple[P, Estimate]:
    """Select noise and initial state on a fit; another fit follows where that changes them."""
    problem = build_objective(model)
    polish = polish and problem.polish
    fitted = dataclasses.replace(problem, polish=polish).run()
    revised = problem.revised(fitted)
    if revised.parametrisation is not problem.parametrisation:
        fitted = dataclasses.replace(revised, polish=polish).run()
    if not revised.initial_is_open:
        return revised, fitted
    return _with_initial_state(build_objective, model, revised, fitted)


def _with_initial_state(
    build_objective: BuildObjective[P], model: Model, problem: P, fitted: Estimate
) -> tuple[P, Estimate]:
    """The objective with the initial state that a fit shows, and its maximum."""
    decide = _decide_one_path if problem.size[2] == 1 else _decide_several_paths
    decision = decide(problem, fitted)
    if decision.answer != problem.parametrisation.initial_kind:
        decisions, polish = problem.decisions, fitted.optimum.hessian is not None
        problem = build_objective(dataclasses.replace(model, initial=str(decision.answer)))
        problem = problem.decided(**decisions)
        start = _with_shared_groups(problem.start, problem.parametrisation, fitted)
        fitted = estimate(problem.posterior(start), polish=polish)
    return problem.decided(initial_state=decision), fitted


def _decide_several_paths(problem: Objective, quick: Estimate) -> Decision:
    """Whether first states differ more than chance around their common mean."""
    z = _largest_spread_z(problem, quick)
    compared = {"score_z_of_spread": z, "spread_from_z": LARGEST_SPREAD_Z}
    return Decision("gaussian" if z > LARGEST_SPREAD_Z else "deterministic", compared)


def _largest_spread_z(problem: Objective, fitted: Estimate) -> float:
    """Largest score by the initial variance of a mode, in standard errors, near a common start."""
    space, n_paths = fitted.state_space, problem.size[2]
    information = np.diag(problem.at_mean(space).initial_information)
    informed = information > NO_INFORMATION * information.max(initial=0.0)
    if not informed.any():
        return 0.0
    nearly_zero = SMALL_VARIANCE * n_paths / np.where(informed, information, np.inf)
    initial = space.initial._replace(kind="gaussian", covariance=nearly_zero)
    evaluation = problem.at_mean(space._replace(initial=initial))
    score = operators.diagonal(evaluation.by_initial_covariance)
    return float((score * np.sqrt(2.0 * n_paths) / information)[informed].max())


def _decide_one_path(problem: Objective, fitted: Estimate) -> Decision:
    """Whether the first state is a likely one under the stationary law of the fit.

    The fit has a free first state: a stationary one would explain any by slow decay.
    """
    space, n = fitted.state_space, fitted.state_space.n_modes
    drift, noise = space.linear.drift, space.linear.noise
    if not (operators.decay_rates(drift) > 0).all():
        return Decision("deterministic", {"slowest_decay": 0.0})
    mean = problem.mean_given(space)[0] if problem.has_mean else np.zeros(n)
    gap = space.initial.mean - mean
    stationary = operators.as_matrix(operators.stationary_covariance(drift, noise))
    distance = float(gap @ np.linalg.lstsq(stationary, gap, rcond=None)[0])
    least, most = (scipy.special.chdtri(n, p) for p in (1.0 - UNLIKELY_START, UNLIKELY_START))
    compared = {"first_state_chi2": distance, "chi2_above": float(least), "chi2_below": float(most)}
    return Decision("stationary" if least < distance < most else "deterministic", compared)


def _has_fixed_start(model: Model) -> bool:
    """Whether the user fixed the first state or gave it a prior, which a mean would contradict."""
    user_names = [*(model.fixed or {}), *(model.priors or {})]
    return any(name.startswith("initial_mean") for name in user_names)


def _largest_mean_z(problem: Objective, around: Estimate) -> float:
    """``max_n |m_n| / std(m_n)``, given the other parameters of the estimate."""
    value, covariance = problem.mean_given(around.state_space)
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    z = np.abs(value + problem.centre)[error > 0] / error[error > 0]
    return float(np.nan_to_num(z).max(initial=0.0))


def _with_initial_mean_moved(fitted: Estimate, by: Array) -> Array:
    """Full vector of an estimate, its initial mean plus ``by``."""
    full = fitted.full.copy()
    where = fitted.parametrisation.slices.get("initial_mean")
    if where is not None:
        full[where] += by
    return full


def _with_shared_groups(full: Array, parametrisation: Parametrisation, source: Estimate) -> Array:
    """Full vector with the groups that it shares with another estimate copied from there."""
    full, other = full.copy(), source.parametrisation
    for group in parametrisation.parts:
        if group in other.parts:
            full[parametrisation.slices[group]] = source.full[other.slices[group]]
    return full

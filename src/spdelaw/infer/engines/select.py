"""Noise, initial state and mean of a law, selected on one quick fit; the last search goes on."""

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
from spdelaw.processes.linear import Linear

# A process that returns to a mean which is not zero looks like a slow one that returns to zero: a
# test that starts from the law without a mean lets a slow mode explain the mean away. So the quick
# fit has the rich law, around the mean of the data and with a first state of its own, and what is
# compatible with less is dropped:
#
# - the mean, where it is compatible with zero in every mode;
# - the free first state of a single path, where it is neither too far from the mean nor too close
#   to it for the stationary law.


Array = np.ndarray

#: Largest absolute z-value of the means of all modes up to which a law has none.
LARGEST_MEAN_Z = 1.6
#: Degrees of freedom that are none.
LEAST_DEGREES = 0.1
#: Rounds of a quick fit, and change of the mean, in its standard errors, that ends them; the
#: farthest mean from that of the data, in their deviations: beyond it is a trend.
MEAN_ROUNDS, SETTLED_MEAN, FARTHEST_MEAN = 3, 0.5, 10.0
#: Probability of a first state that is farther from the mean, or closer, under the stationary law.
UNLIKELY_START = 1e-3
#: Errors of a search around a mean: modes that the points do not separate have no single means.
NO_MEAN = (ConvergenceError, np.linalg.LinAlgError)
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
            return _fit(build_objective, dataclasses.replace(model, mean="constant"), True)
        except NO_MEAN:
            pass
    mean = "zero" if model.mean == "auto" else str(model.mean)
    return _fit(build_objective, dataclasses.replace(model, mean=mean), False)


def _fit(build_objective: BuildObjective[P], model: Model, drops: bool) -> tuple[P, Estimate]:
    """A quick fit, the decisions on it, and the last search.

    ``drops`` allows a law without a mean. Where nothing is open the quick fit is the last one.
    """
    problem = build_objective(model)
    if not (problem.has_mean or problem.is_open):
        return problem.decided(mean=Decision("zero", {})), problem.run()
    problem, quick, given = _quick_fit(problem)
    revised = problem.revised(quick)
    if revised.parametrisation is not problem.parametrisation:
        revised, quick, given = _quick_fit(revised)
    mean, problem, start = Decision("zero", {}), revised, quick.full
    if problem.has_mean:
        mean = _decide_mean(given[0] + problem.centre, given[1], drops, quick.state_space.linear)
    if problem.initial_is_open:
        problem, start = _with_initial_state(build_objective, model, problem, quick)
    if problem.has_mean and mean.answer == "zero":
        problem, start = problem.shifted(-problem.centre, start)
        problem = dataclasses.replace(problem, has_mean=False)
    fitted = estimate(problem.posterior(start), polish=problem.polish, near=True)
    return problem.decided(mean=mean), problem.finished(fitted)


def _quick_fit(problem: P) -> tuple[P, Estimate, tuple[Array, ...]]:
    """A fit without standard errors, with the mean held at what such a fit makes of it.

    The mean of the data is not that of the law where paths begin far from it. Last, the mean given
    the other parameters, and its covariance.
    """
    quick = problem.quick().run()
    if not problem.has_mean:
        return problem, quick, ()
    most = FARTHEST_MEAN * problem.mean_and_deviation[1]
    for rounds_left in reversed(range(MEAN_ROUNDS + 1)):
        given = problem.mean_given(quick.state_space)
        value, error = given[0], np.sqrt(np.diag(given[1]))
        if not rounds_left or (np.abs(value) <= SETTLED_MEAN * error).all():
            break
        problem, start = problem.shifted(np.clip(value, -most, most), quick.full)
        quick = estimate(problem.quick().posterior(start), polish=False, rough=True)
    return problem, quick, given


def _decide_mean(mean: Array, covariance: Array, drops: bool, linear: Linear) -> Decision:
    """Whether the law has a mean: its largest ``|m_n| / std(m_n)``, given the other parameters.

    With ``nu_n = Var c_n / Var m_n = lambda_n T / 2`` independent states, a rate that is estimated
    together with a mean is too large by ``4 / T`` (Tang and Chen 2009), and the error of the mean
    too small by ``1 - 2 / nu_n``. The ratio has Student's distribution of ``nu_n - 2`` degrees of
    freedom; it counts as the normal one that is as unlikely.
    """
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    stationary = operators.stationary_covariance(linear.drift, linear.noise)
    with np.errstate(divide="ignore", invalid="ignore"):
        nu = operators.diagonal(stationary) / error**2
        ratio = np.abs(mean) / error * np.maximum(1.0 - 2.0 / nu, 0.0)
        tail = scipy.special.stdtr(np.maximum(nu - 2.0, LEAST_DEGREES), -ratio)
        each = np.where(tail > 0.0, -scipy.special.ndtri(tail), ratio)  # where it has digits
    z = float(np.nan_to_num(each).max(initial=0.0))
    keeps = z >= LARGEST_MEAN_Z or not drops
    compared = {"largest_z_of_mean": z, "mean_from_z": LARGEST_MEAN_Z}
    return Decision("constant" if keeps else "zero", compared)


def _with_initial_state(
    build_objective: BuildObjective[P], model: Model, problem: P, quick: Estimate
) -> tuple[P, Array]:
    """The objective with the initial state that the quick fit shows, and where it starts."""
    decision = _decide_one_path(quick)
    if decision.answer == problem.parametrisation.initial_kind:
        return problem.decided(initial_state=decision), quick.full
    other = build_objective(dataclasses.replace(model, initial=str(decision.answer)))
    other = other.decided(**{**problem.decisions, "initial_state": decision})
    start = _with_shared_groups(other.start, other.parametrisation, quick)
    by = problem.centre - other.centre
    return other.shifted(by, start) if by.any() else (other, start)


def _decide_one_path(fitted: Estimate) -> Decision:
    """Whether the first state is a likely one under the stationary law of the fit.

    The fit has a free first state: a stationary one would explain any by slow decay.
    """
    space, n = fitted.state_space, fitted.state_space.n_modes
    drift, noise = space.linear.drift, space.linear.noise
    if not (operators.decay_rates(drift) > 0).all():
        return Decision("deterministic", {"slowest_decay": 0.0})
    stationary = operators.as_matrix(operators.stationary_covariance(drift, noise))
    # Unscaled, all modes but a slow one would count as rounding; one without noise is left out.
    scale = np.sqrt(np.where(np.diag(stationary) > 0, np.diag(stationary), np.inf))
    gap, unit = space.initial.mean / scale, stationary / np.outer(scale, scale)
    distance = float(gap @ np.linalg.lstsq(unit, gap, rcond=None)[0])
    least, most = (scipy.special.chdtri(n, p) for p in (1.0 - UNLIKELY_START, UNLIKELY_START))
    compared = {"first_state_chi2": distance, "chi2_above": float(least), "chi2_below": float(most)}
    return Decision("stationary" if least < distance < most else "deterministic", compared)


def _has_fixed_start(model: Model) -> bool:
    """Whether the user fixed the first state or gave it a prior, which a mean would contradict."""
    user_names = [*(model.fixed or {}), *(model.priors or {})]
    return any(name.startswith("initial_mean") for name in user_names)


def _with_shared_groups(full: Array, parametrisation: Parametrisation, source: Estimate) -> Array:
    """Full vector with the groups that it shares with another estimate copied from there."""
    full, other = full.copy(), source.parametrisation
    for group in parametrisation.parts:
        if group in other.parts:
            full[parametrisation.slices[group]] = source.full[other.slices[group]]
    return full

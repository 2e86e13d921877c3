"""Has the law a mean, and where does it start then?

A process that returns to a mean which is not zero looks like a slow one that returns to zero. Both
are fitted, and the mean has to gain more than chance gives it in 99 of 100 cases
(`spdelaw.infer._mean_null`), all modes together.

Around a mean a few paths start as they go on, from the stationary law, unless this costs their
steps more likelihood than chance: a start that is known says nothing about a mean, and what it
leaves unsaid makes slow modes too fast (Kendall 1954).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import scipy

from spdelaw.errors import ConvergenceError
from spdelaw.infer._estimate import Decision, Estimate
from spdelaw.infer._mean_null import upper_point
from spdelaw.infer._model import Model
from spdelaw.infer._optimise import SLOW
from spdelaw.infer._parametrisation import Parametrisation
from spdelaw.infer._posed import Posed
from spdelaw.infer._posterior import estimate

Array = np.ndarray

#: Rate at which a law without a mean is given one.
LEVEL = 0.01
#: Share of the gain needed below which a Newton step decides.
NEARLY = 0.6
#: Mean of the data, in deviations, from which on they lie far from zero, and from which on nothing
#: ties them to zero: a path without a mean that is slow enough to get there (decay over the record
#: 0.05) stays there once in 6,000 cases.
FAR, BEYOND = 3.0, 30.0
#: Mean and variance per mode of what steps lose by chance where their start is stationary, and how
#: many deviations more they may lose.
LOSS, LOSS_VARIANCE, DEVIATIONS = 3.0, 6.0, 3.0


#: What a search may end with that is only one of several.
FAILURES = (ConvergenceError, np.linalg.LinAlgError)
#: A maximisation with all decisions taken.
P = TypeVar("P", bound=Posed)
#: Makes the one of a model whose mean is zero or constant.
Pose = Callable[[Model], P]


def solve(pose: Pose[P], model: Model, away: float) -> tuple[P, Estimate]:
    """The problem and its estimate, with or without a mean, as the model or the data say.

    Args:
        pose: makes the problem.
        model: what is assumed.
        away: mean of the data, relative to their deviations from it.
    """
    if model.mean == "zero" or (model.mean == "auto" and _knows_start(model)):
        problem = pose(dataclasses.replace(model, mean="zero"))
        return problem.decided(mean=Decision("zero", {})), problem.run()
    around = dataclasses.replace(model, mean="constant")
    if model.mean == "constant":
        return _around_mean(pose, around, Decision("constant", {}))
    if away > BEYOND:
        compared = {"mean_over_deviation": away, "mean_beyond": BEYOND}
        return _around_mean(pose, around, Decision("constant", compared))
    # A law without a mean is hard to find far from zero, and often not needed.
    if away > FAR and (decision := _from_mean(pose(around))).answer == "constant":
        return _around_mean(pose, around, decision)
    try:
        problem = pose(dataclasses.replace(model, mean="zero"))
        found = problem.run()
    except ConvergenceError as wrong:
        try:
            return _around_mean(pose, around, Decision("constant", {}))
        except ConvergenceError:
            raise wrong from None
    decision = _from_zero(problem, found)
    if decision.answer == "constant":
        other, better = _around_mean(pose, around, decision)
        if better.optimum.converged or not found.optimum.converged:
            return other, better
        # Modes that the points cannot tell apart have no mean each, and no maximum with one.
        decision = Decision("zero", {**decision.compared, "converged_with_mean": 0.0})
    return problem.decided(mean=decision), found


def _knows_start(model: Model) -> bool:
    """Whether something is said about the first state; a mean would explain away what it says."""
    said = [*(model.fixed or {}), *(model.priors or {})]
    return any(name.startswith("initial_mean") for name in said)


def _from_zero(problem: Posed, found: Estimate) -> Decision:
    """Whether a mean gains enough over the law without one, all other decisions the same.

    A mean within the deviations of its mode is close to none, and one Newton step tells about what
    it gains; only where that comes near what is needed is it looked for. For a larger mean the
    search starts anew from the data less a rough mean. No search finds less than its start has:
    where that is enough, and searches take long, there is none.
    """
    rough, deviation = problem.mean_and_deviation
    around, near = problem.shifted(rough, has_mean=True), found._replace(full=_moved(found, rough))
    is_far = bool((np.abs(rough) > deviation).any())
    if not is_far and problem.polish:
        height = _height_by_a_step(around, near)
        if 2.0 * (height - found.log_likelihood) < NEARLY * _least(found):
            return _decision(height, found, problem.size)
    for full in (near.full, around.start) if around.seconds >= SLOW else ():
        height = _height_around(around, near._replace(full=full), search=False)
        decision = _decision(height, found, problem.size)
        if decision.answer == "constant":
            return decision
    height = _height_around(around, near)
    decision = _decision(height, found, problem.size)
    if is_far and not (decision.answer == "constant" and around.seconds >= SLOW):
        height = max(height, _height_around(around))
        decision = _decision(height, found, problem.size)
    return decision


def _height_by_a_step(problem: Posed, near: Estimate) -> float:
    """Likelihood around a mean at an estimate without one, and what a Newton step would add."""
    try:
        with np.errstate(all="ignore"):
            posterior = problem.posterior(near.full).from_estimate(near, 1.0)
            slope = posterior.at(np.zeros(len(posterior.scale)))[1]
            at = _height_around(problem, near, search=False) + 0.5 * slope @ slope
            return float(np.nan_to_num(at, nan=np.inf))
    except FAILURES:
        return np.inf


def _least(found: Estimate) -> float:
    """Twice the gain that chance leaves behind, where it is chi-square."""
    return float(scipy.special.chdtri(found.state_space.n_modes, LEVEL))


def _from_mean(problem: Posed) -> Decision:
    """The same, from a problem with a mean."""
    height = _height_around(dataclasses.replace(problem, polish=False))
    try:
        with np.errstate(all="ignore"):
            zero = problem.shifted(-problem.centre, has_mean=False).run()
    except FAILURES:
        return Decision("zero", {})
    return _decision(height, zero, problem.size)


def _decision(height: float, zero: Estimate, size: tuple[float, int, int]) -> Decision:
    """Whether the likelihood with a mean is higher than without by more than chance."""
    gain, space, least = height - zero.log_likelihood, zero.state_space, _least(zero)
    compared = {"gain_of_mean": gain, "gain_needed": 0.5 * least, "level": LEVEL}
    if 2.0 * gain <= least:
        return Decision("zero", compared)
    needed = max(least, upper_point(space, *size, LEVEL))
    compared["gain_needed"] = 0.5 * needed
    return Decision("constant" if 2.0 * gain > needed else "zero", compared)


def _height_around(problem: Posed, near: Estimate | None = None, *, search: bool = True) -> float:
    """Likelihood around a mean, from the data, from an estimate, or right there; none if it fails.

    A search ends where there is a likelihood; a full vector may have none.
    """
    try:
        with np.errstate(all="ignore"):
            if near is None:
                found = problem.run()
            elif search:
                start = problem.posterior(near.full).from_estimate(near, 1.0)
                found = estimate(start, polish=False)
            else:
                space = problem.parametrisation.state_space(near.full)
                found = near._replace(state_space=space)
            height = float(problem.finished(found).log_likelihood)
    except FAILURES:
        return -np.inf
    return height if search or height < np.inf else -np.inf


def _moved(found: Estimate, by: Array) -> Array:
    """Full vector of an estimate, its initial mean less ``by``."""
    full = found.full.copy()
    where = found.parametrisation.slices.get("initial_mean")
    if where is not None:
        full[where] -= by
    return full


def _around_mean(pose: Pose[P], model: Model, decision: Decision) -> tuple[P, Estimate]:
    problem = pose(model)
    kind = problem.decisions["initial_state"]
    few = kind.answer == "deterministic" and problem.size[2] == 1
    if model.initial != "auto" or model.season is not None or not few:
        return problem.decided(mean=decision), problem.finished(problem.run())
    given = dataclasses.replace(problem, polish=False).run()
    stationary = pose(dataclasses.replace(model, initial="stationary"))
    try:
        with np.errstate(all="ignore"):
            found = _beside(stationary, given)
            lost = 2.0 * (given.log_likelihood - _height(problem, given, found))
    except FAILURES:
        lost = np.inf
    n = problem.parametrisation.n_modes
    most = LOSS * n + DEVIATIONS * np.sqrt(LOSS_VARIANCE * n)
    compared = {**kind.compared, "loss_of_a_stationary_start": 0.5 * lost, "loss_allowed": most / 2}
    if lost < most:
        problem, kind = stationary, Decision("stationary", compared)
    else:
        found, kind = _beside(problem, given), kind._replace(compared=compared)
    return problem.decided(mean=decision, initial_state=kind), problem.finished(found)


def _beside(problem: Posed, known: Estimate) -> Estimate:
    """Estimate of a problem that differs in its initial state at most, from there if it is slow."""
    if problem.seconds < SLOW:
        return problem.run()
    start = _taken_over(problem.start, problem.parametrisation, known)
    return estimate(problem.posterior(start), polish=problem.polish)


def _taken_over(full: Array, own: Parametrisation, found: Estimate) -> Array:
    """Full vector with the parts that another estimate has, too."""
    full, other = full.copy(), found.parametrisation
    for part in own.parts:
        if part in other.parts:
            full[own.slices[part]] = found.full[other.slices[part]]
    return full


def _height(problem: Posed, given: Estimate, found: Estimate) -> float:
    """Height of a problem at the drift, noise and errors of another estimate, its start its own."""
    posterior = problem.posterior(_taken_over(given.full, given.parametrisation, found))
    return float(posterior.start_value() - posterior.log_prior(posterior.base)[0])

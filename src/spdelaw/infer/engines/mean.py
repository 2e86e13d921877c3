"""Whether a law has a mean: what it gains, beside what it gains by chance."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import scipy

from spdelaw.errors import ConvergenceError
from spdelaw.infer.model import Decision, Model
from spdelaw.infer.objective import Objective, estimate
from spdelaw.infer.optimise import SLOW, Estimate
from spdelaw.infer.parameters import Parametrisation
from spdelaw.processes import operators
from spdelaw.processes.linear import Linear
from spdelaw.statespace.chain import StateSpace

# ---------- How much a mean gains by chance where modes are coupled
#
# The likelihood-ratio statistic of an intercept in a vector autoregression,
#
#     D = n log(|S_0| / |S_1|),    S_0 of c' - F c,    S_1 of c' - a - F c,
#
# has heavier tails than chi-square: every row of F is estimated (Wilks' law for a fixed design),
# and coupled states have slow directions. So D is simulated with F estimated in each draw as it was
# in the fit: the entries that the law couples, noise independent or not. Estimates are faster than
# the truth; the draws around one say by how much, and those of the law that is slower by as much
# count as well (Kilian 1998).


Array = np.ndarray

#: Most and fewest draws, and values of all draws together that are multiplied by one another.
COUPLED_DRAWS, FEWEST, WORK = 1999, 150, 4e8
#: Most paths, and most steps for each mode; more of either bring D closer to Wilks' law.
COUPLED_PATHS, STEPS = 8, 30
#: Fewest steps for each mode that F is estimated from.
FEWEST_STEPS = 3
#: Numbers held at once.
AT_ONCE = 4e6
SEED = 20


def coupled_upper_point(
    space: StateSpace, span: float, n_steps: int, n_paths: int, level: float
) -> float:
    """What D exceeds at the rate ``level`` without a mean; arguments as of `upper_point`."""
    n, linear, initial = space.n_modes, space.linear, space.initial
    paths, steps = min(n_paths, COUPLED_PATHS), min(n_steps, STEPS * n)
    if steps * paths < FEWEST_STEPS * n:
        return _wilks(n, n_steps * n_paths, level)
    one = linear.over(np.array([span / steps]), np.zeros(1))
    factor, *covariances = map(
        operators.as_matrix, (one.factor[0], initial.covariance, one.covariance[0])
    )
    first = functools.partial(_paths, initial.mean, *map(operators.root, covariances))
    free = (operators.as_matrix(linear.drift) != 0) | np.eye(n, dtype=bool)
    how = (first, (steps, paths), free, linear.noise.ndim == 2)
    more = _wilks(n, n_steps * n_paths, level) / _wilks(n, steps * paths, level)
    gains, found = _draws(factor, *how)
    slower, _ = _draws(_unbiased(factor, found), *how)
    return more * max(_upper(gains, level), _upper(slower, level))


def _draws(
    factor: Array, paths: Callable, shape: tuple[int, int], free: Array, correlated: bool
) -> tuple[Array, Array]:
    """Draws of D, and the mean of the estimates of F.

    Args:
        factor: F of the law that is drawn from, (N, N).
        paths: draws them.
        shape: steps and paths of a draw.
        free: entries of F that are estimated, (N, N).
        correlated: whether the noise is.
    """
    n, size = len(factor), shape[0] * shape[1]
    total = int(np.clip(WORK / (size * n**2), FEWEST, COUPLED_DRAWS))
    some = int(np.clip(AT_ONCE / (size * n), 1, total))
    generator, gains, factors = np.random.default_rng(SEED), [], np.zeros((n, n))
    for first in range(0, total, some):
        noise = generator.standard_normal((min(some, total - first), shape[0] + 1, shape[1], n))
        c = paths(factor, noise)
        x, y = (part.reshape(len(c), -1, n) for part in (c[:, :-1], c[:, 1:]))
        xx, xy, yy = _sums(x, y, c[:, 0], c[:, -1])
        by_zero, found = _residuals(xx, xy, yy, free)
        x, y = x.mean(1, keepdims=True), y.mean(1, keepdims=True)
        less = [size * np.swapaxes(a, 1, 2) @ b for a, b in ((x, x), (x, y), (y, y))]
        by_mean = _residuals(xx - less[0], xy - less[1], yy - less[2], free)[0]
        gains.append(size * (_log_size(by_zero, correlated) - _log_size(by_mean, correlated)))
        factors += found.sum(0) / total
    return np.concatenate(gains), factors


def _paths(start: Array, spread: Array, root: Array, factor: Array, c: Array) -> Array:
    """States (draw, step, path, mode) of ``c' = F c + root e``, from numbers of unit variance."""
    c[:, 0] = start + c[:, 0] @ spread.T
    c[:, 1:] = c[:, 1:] @ root.T
    for t in range(c.shape[1] - 1):
        c[:, t + 1] += c[:, t] @ factor.T
    return c


def _sums(x: Array, y: Array, first: Array, last: Array) -> tuple[Array, Array, Array]:
    """Sums of ``x x'``, ``x y'`` and ``y y'``; all states but the ends are in both."""
    before, across, start, end = (
        np.swapaxes(a, 1, 2) @ b for a, b in ((x, x), (x, y), (first, first), (last, last))
    )
    return before, across, before - start + end


def _residuals(xx: Array, xy: Array, yy: Array, free: Array) -> tuple[Array, Array]:
    """Sums of products of what regressions on free entries leave, and the entries.

    ``sum (y - F x)(y - F x)' = yy - F xy - (F xy)' + F xx F'`` from sums of products.
    """
    if free.all():
        factor = np.linalg.solve(xx, xy)
    else:
        factor = np.zeros(xx.shape)
        for i, own in enumerate(free):
            factor[:, own, i] = np.linalg.solve(xx[:, own][:, :, own], xy[:, own, i, None])[..., 0]
    turned = np.swapaxes(factor, 1, 2)
    crossed = turned @ xy
    left = yy - crossed - np.swapaxes(crossed, 1, 2) + turned @ xx @ factor
    return left, turned


def _log_size(products: Array, correlated: bool) -> Array:
    if correlated:
        return np.asarray(np.linalg.slogdet(products)[1])
    return np.asarray(np.log(np.einsum("dii->di", products)).sum(1))


def _unbiased(factor: Array, found: Array) -> Array:
    """``F - (mean of estimates - F)``, as much of it as leaves the law stable."""
    for share in np.linspace(1.0, 0.0, 21):
        out = factor - share * (found - factor)
        if np.abs(np.linalg.eigvals(out)).max() < 1.0:
            return np.asarray(out)
    return factor


def _upper(gains: Array, level: float) -> float:
    """Point that a gamma law with the moments of the draws exceeds at a rate."""
    mean, variance = float(gains.mean()), float(gains.var())
    return float(scipy.special.gammainccinv(mean**2 / variance, level)) * variance / mean


def _wilks(n_modes: int, size: int, level: float) -> float:
    """The same of ``size log(1 + N / (size - 2 N) F)``, D for a fixed design and free noise."""
    left = max(size - 2 * n_modes, 1)
    f = scipy.special.fdtri(n_modes, left, 1.0 - level)
    return float(size * np.log1p(n_modes / left * f))


# ---------- How much a mean gains by chance: the likelihood-ratio statistic where there is none
#
# For one mode the statistic is that of an intercept in an autoregression,
#
#     D = n log(RSS_0 / RSS_1),    RSS_0 = min |c' - F c|^2,    RSS_1 = min |c' - a - F c|^2,
#
# with F between 0 and 1. Many independent paths, or a long one, give it a chi-square law; one slow
# path does not (its 99 % point is near 12 instead of 6.6), because a state that hardly decays has
# no mean. So D is simulated: from the law without a mean, and again with decay rates at the lower
# end of what the data leave open, where chance gains more. Coupled modes have a null of their own
# (`spdelaw.infer.engines.mean`).


#: Draws, and the most paths and steps of one: more of either bring D closer to chi-square.
DRAWS, MOST_PATHS, MOST_STEPS = 1999, 8, 48


def upper_point(space: StateSpace, span: float, n_steps: int, n_paths: int, level: float) -> float:
    """What D, summed over modes, exceeds at the rate ``level`` without a mean.

    Args:
        space: the law without a mean.
        span: duration of a path.
        n_steps: steps of a path.
        n_paths: number of paths.
        level: the rate.
    """
    if not space.linear.is_diagonal:
        return coupled_upper_point(space, span, n_steps, n_paths, level)
    rates, total = space.linear.drift, span * n_paths
    slower = np.maximum(rates - 2.0 / total - np.sqrt(2.0 * rates / total), 0.0)
    size = min(n_steps, MOST_STEPS), min(n_paths, MOST_PATHS)
    draws = [_gains(space, lam, span, *size) for lam in (rates, slower)]
    return float(np.quantile(draws, 1.0 - level, axis=1).max())


def _gains(space: StateSpace, rates: Array, span: float, n_steps: int, n_paths: int) -> Array:
    """Draws of D summed over modes, at these decay rates; (DRAWS,)."""
    step = Linear(rates, space.linear.noise).over(np.array([span / n_steps]))
    factor, deviation = step.factor[0], np.sqrt(step.covariance[0])
    spread = np.sqrt(np.maximum(operators.diagonal(space.initial.covariance), 0.0))
    total = np.zeros(DRAWS)
    for n in range(len(rates)):
        draw, sums = np.random.default_rng([SEED, n]).standard_normal, np.zeros((5, DRAWS))
        now = space.initial.mean[n] + spread[n] * draw((n_paths, DRAWS))
        for _ in range(n_steps):
            then = factor[n] * now + deviation[n] * draw(now.shape)
            sums += [part.sum(0) for part in (now, then, now * now, now * then, then * then)]
            now = then
        total += _statistic(sums, n_steps * n_paths)
    return total


def _statistic(sums: Array, n: int) -> Array:
    """``n log(RSS_0 / RSS_1)`` from sums of ``c, c', c^2, c c', c'^2``."""
    x, y, xx, xy, yy = sums
    without = _residual(xx, xy, yy)
    around = _residual(xx - x * x / n, xy - x * y / n, yy - y * y / n)
    return n * np.log(np.maximum(without / np.maximum(around, 1e-300), 1.0))


def _residual(xx: Array, xy: Array, yy: Array) -> Array:
    f = np.clip(xy / np.maximum(xx, 1e-300), 0.0, 1.0)
    return yy - 2.0 * f * xy + f * f * xx


# ---------- Has the law a mean, and where does it start then?
#
# A process that returns to a mean which is not zero looks like a slow one that returns to zero.
# Both are fitted, and the mean has to gain more than chance gives it in 99 of 100 cases
# (`spdelaw.infer.engines.mean`), all modes together.
#
# Around a mean a few paths start as they go on, from the stationary law, unless this costs their
# steps more likelihood than chance: a start that is known says nothing about a mean, and what it
# leaves unsaid makes slow modes too fast (Kendall 1954).


#: Rate at which a law without a mean is given one.
LEVEL = 0.01
#: Share of the gain needed below which a Newton step decides.
NEARLY = 0.6
#: Mean of the data, in deviations, from which on they lie far from zero, and from which on nothing
#: ties them to zero: a path without a mean that is slow enough to get there (decay over the record
#: 0.05) stays there once in 6,000 cases.
FAR_FROM_ZERO, NOT_TIED_TO_ZERO = 3.0, 30.0
#: Mean and variance per mode of what steps lose by chance where their start is stationary, and how
#: many deviations more they may lose.
LOSS, LOSS_VARIANCE, DEVIATIONS = 3.0, 6.0, 3.0

#: What a search may end with that is only one of several.
FAILURES = (ConvergenceError, np.linalg.LinAlgError)
#: A maximisation with all decisions taken.
P = TypeVar("P", bound=Objective)
#: Makes the one of a model whose mean is zero or constant.
BuildObjective = Callable[[Model], P]


def estimate_with_mean(
    build_objective: BuildObjective[P], model: Model, mean_over_std: float
) -> tuple[P, Estimate]:
    """The problem and its estimate, with or without a mean, as the model or the data say.

    Args:
        build_objective: makes the objective of a model.
        model: what is assumed.
        mean_over_std: mean of the data, relative to their deviations from it.
    """
    if model.mean == "zero" or (model.mean == "auto" and _has_fixed_start(model)):
        problem = build_objective(dataclasses.replace(model, mean="zero"))
        return problem.decided(mean=Decision("zero", {})), problem.run()
    around = dataclasses.replace(model, mean="constant")
    if model.mean == "constant":
        return _around_mean(build_objective, around, Decision("constant", {}))
    if mean_over_std > NOT_TIED_TO_ZERO:
        compared = {"mean_over_deviation": mean_over_std, "mean_beyond": NOT_TIED_TO_ZERO}
        return _around_mean(build_objective, around, Decision("constant", compared))
    # A law without a mean is hard to find far from zero, and often not needed.
    if (
        mean_over_std > FAR_FROM_ZERO
        and (decision := _from_mean(build_objective(around))).answer == "constant"
    ):
        return _around_mean(build_objective, around, decision)
    try:
        problem = build_objective(dataclasses.replace(model, mean="zero"))
        found = problem.run()
    except ConvergenceError as wrong:
        try:
            return _around_mean(build_objective, around, Decision("constant", {}))
        except ConvergenceError:
            raise wrong from None
    decision = _from_zero(problem, found)
    if decision.answer == "constant":
        other, better = _around_mean(build_objective, around, decision)
        if better.optimum.converged or not found.optimum.converged:
            return other, better
        # Modes that the points cannot tell apart have no mean each, and no maximum with one.
        decision = Decision("zero", {**decision.compared, "converged_with_mean": 0.0})
    return problem.decided(mean=decision), found


def _has_fixed_start(model: Model) -> bool:
    """Whether the user fixed the first state or gave it a prior, which a mean would contradict."""
    said = [*(model.fixed or {}), *(model.priors or {})]
    return any(name.startswith("initial_mean") for name in said)


def _from_zero(problem: Objective, found: Estimate) -> Decision:
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
        log_likelihood = _one_step_log_likelihood(around, near)
        if 2.0 * (log_likelihood - found.log_likelihood) < NEARLY * _least(found):
            return _decision(log_likelihood, found, problem.size)
    for full in (near.full, around.start) if around.seconds >= SLOW else ():
        log_likelihood = _max_log_likelihood_around(around, near._replace(full=full), search=False)
        decision = _decision(log_likelihood, found, problem.size)
        if decision.answer == "constant":
            return decision
    log_likelihood = _max_log_likelihood_around(around, near)
    decision = _decision(log_likelihood, found, problem.size)
    if is_far and not (decision.answer == "constant" and around.seconds >= SLOW):
        log_likelihood = max(log_likelihood, _max_log_likelihood_around(around))
        decision = _decision(log_likelihood, found, problem.size)
    return decision


def _one_step_log_likelihood(problem: Objective, near: Estimate) -> float:
    """Likelihood around a mean at an estimate without one, and what a Newton step would add."""
    try:
        with np.errstate(all="ignore"):
            posterior = problem.posterior(near.full).from_estimate(near, 1.0)
            slope = posterior.at(np.zeros(len(posterior.scale)))[1]
            at = _max_log_likelihood_around(problem, near, search=False) + 0.5 * slope @ slope
            return float(np.nan_to_num(at, nan=np.inf))
    except FAILURES:
        return np.inf


def _least(found: Estimate) -> float:
    """Twice the gain that chance leaves behind, where it is chi-square."""
    return float(scipy.special.chdtri(found.state_space.n_modes, LEVEL))


def _from_mean(problem: Objective) -> Decision:
    """The same, from a problem with a mean."""
    log_likelihood = _max_log_likelihood_around(dataclasses.replace(problem, polish=False))
    try:
        with np.errstate(all="ignore"):
            zero = problem.shifted(-problem.centre, has_mean=False).run()
    except FAILURES:
        return Decision("zero", {})
    return _decision(log_likelihood, zero, problem.size)


def _decision(log_likelihood: float, zero: Estimate, size: tuple[float, int, int]) -> Decision:
    """Whether the likelihood with a mean is higher than without by more than chance."""
    gain, space, least = log_likelihood - zero.log_likelihood, zero.state_space, _least(zero)
    compared = {"gain_of_mean": gain, "gain_needed": 0.5 * least, "level": LEVEL}
    if 2.0 * gain <= least:
        return Decision("zero", compared)
    needed = max(least, upper_point(space, *size, LEVEL))
    compared["gain_needed"] = 0.5 * needed
    return Decision("constant" if 2.0 * gain > needed else "zero", compared)


def _max_log_likelihood_around(
    problem: Objective, near: Estimate | None = None, *, search: bool = True
) -> float:
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
            log_likelihood = float(problem.finished(found).log_likelihood)
    except FAILURES:
        return -np.inf
    return log_likelihood if search or log_likelihood < np.inf else -np.inf


def _moved(found: Estimate, by: Array) -> Array:
    """Full vector of an estimate, its initial mean less ``by``."""
    full = found.full.copy()
    where = found.parametrisation.slices.get("initial_mean")
    if where is not None:
        full[where] -= by
    return full


def _around_mean(
    build_objective: BuildObjective[P], model: Model, decision: Decision
) -> tuple[P, Estimate]:
    problem = build_objective(model)
    kind = problem.decisions["initial_state"]
    few = kind.answer == "deterministic" and problem.size[2] == 1
    if model.initial != "auto" or model.season is not None or not few:
        return problem.decided(mean=decision), problem.finished(problem.run())
    given = dataclasses.replace(problem, polish=False).run()
    stationary = build_objective(dataclasses.replace(model, initial="stationary"))
    try:
        with np.errstate(all="ignore"):
            found = _beside(stationary, given)
            lost = 2.0 * (given.log_likelihood - _max_log_likelihood(problem, given, found))
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


def _beside(problem: Objective, known: Estimate) -> Estimate:
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


def _max_log_likelihood(problem: Objective, given: Estimate, found: Estimate) -> float:
    """Height of a problem at the drift, noise and errors of another estimate, its start its own."""
    posterior = problem.posterior(_taken_over(given.full, given.parametrisation, found))
    return float(posterior.start_value() - posterior.log_prior(posterior.base)[0])

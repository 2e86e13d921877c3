"""Whether a law has a mean: its likelihood gain, compared with the gain by chance."""

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

# ---------- Gain of a mean by chance, coupled modes
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

#: Most and fewest draws, and multiplications of all draws together.
MOST_COUPLED_DRAWS, FEWEST_COUPLED_DRAWS, DRAW_BUDGET = 1999, 150, 4e8
#: Most paths, and most steps for each mode; more of either bring D closer to Wilks' law.
COUPLED_PATHS, STEPS_PER_MODE = 8, 30
#: Fewest steps for each mode that F is estimated from.
FEWEST_STEPS_PER_MODE = 3
#: Numbers held at once.
NUMBERS_AT_ONCE = 4e6
SEED = 20


def coupled_upper_point(
    space: StateSpace, span: float, n_steps: int, n_paths: int, level: float
) -> float:
    """Point that D exceeds at the rate ``level`` without a mean; arguments as of `upper_point`."""
    n, linear, initial = space.n_modes, space.linear, space.initial
    paths, steps = min(n_paths, COUPLED_PATHS), min(n_steps, STEPS_PER_MODE * n)
    if steps * paths < FEWEST_STEPS_PER_MODE * n:
        return _wilks_upper_point(n, n_steps * n_paths, level)
    one = linear.over(np.array([span / steps]), np.zeros(1))
    factor, *covariances = map(
        operators.as_matrix, (one.factor[0], initial.covariance, one.covariance[0])
    )
    first = functools.partial(_simulate_states, initial.mean, *map(operators.root, covariances))
    free = (operators.as_matrix(linear.drift) != 0) | np.eye(n, dtype=bool)
    how = (first, (steps, paths), free, linear.noise.ndim == 2)
    more = _wilks_upper_point(n, n_steps * n_paths, level) / _wilks_upper_point(
        n, steps * paths, level
    )
    gains, mean_estimate = _simulate_coupled_gains(factor, *how)
    slower, _ = _simulate_coupled_gains(_bias_corrected(factor, mean_estimate), *how)
    return more * max(_gamma_upper_point(gains, level), _gamma_upper_point(slower, level))


def _simulate_coupled_gains(
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
    total = int(np.clip(DRAW_BUDGET / (size * n**2), FEWEST_COUPLED_DRAWS, MOST_COUPLED_DRAWS))
    some = int(np.clip(NUMBERS_AT_ONCE / (size * n), 1, total))
    generator, gains, factors = np.random.default_rng(SEED), [], np.zeros((n, n))
    for first in range(0, total, some):
        noise = generator.standard_normal((min(some, total - first), shape[0] + 1, shape[1], n))
        c = paths(factor, noise)
        x, y = (states.reshape(len(c), -1, n) for states in (c[:, :-1], c[:, 1:]))
        xx, xy, yy = _sums_of_products(x, y, c[:, 0], c[:, -1])
        by_zero, estimates = _regress(xx, xy, yy, free)
        x, y = x.mean(1, keepdims=True), y.mean(1, keepdims=True)
        less = [size * np.swapaxes(a, 1, 2) @ b for a, b in ((x, x), (x, y), (y, y))]
        by_mean = _regress(xx - less[0], xy - less[1], yy - less[2], free)[0]
        gains.append(
            size * (_log_determinant(by_zero, correlated) - _log_determinant(by_mean, correlated))
        )
        factors += estimates.sum(0) / total
    return np.concatenate(gains), factors


def _simulate_states(start: Array, spread: Array, root: Array, factor: Array, c: Array) -> Array:
    """States (draw, step, path, mode) of ``c' = F c + root e``, from numbers of unit variance."""
    c[:, 0] = start + c[:, 0] @ spread.T
    c[:, 1:] = c[:, 1:] @ root.T
    for t in range(c.shape[1] - 1):
        c[:, t + 1] += c[:, t] @ factor.T
    return c


def _sums_of_products(x: Array, y: Array, first: Array, last: Array) -> tuple[Array, Array, Array]:
    """Sums of ``x x'``, ``x y'`` and ``y y'``; all states but the ends are in both."""
    before, across, start, end = (
        np.swapaxes(a, 1, 2) @ b for a, b in ((x, x), (x, y), (first, first), (last, last))
    )
    return before, across, before - start + end


def _regress(xx: Array, xy: Array, yy: Array, free: Array) -> tuple[Array, Array]:
    """Sums of products of the residuals of regressions on free entries, and the entries.

    ``sum (y - F x)(y - F x)' = yy - F xy - (F xy)' + F xx F'`` from sums of products.
    """
    if free.all():
        factor = np.linalg.solve(xx, xy)
    else:
        factor = np.zeros(xx.shape)
        for i, row in enumerate(free):
            factor[:, row, i] = np.linalg.solve(xx[:, row][:, :, row], xy[:, row, i, None])[..., 0]
    turned = np.swapaxes(factor, 1, 2)
    crossed = turned @ xy
    left = yy - crossed - np.swapaxes(crossed, 1, 2) + turned @ xx @ factor
    return left, turned


def _log_determinant(products: Array, correlated: bool) -> Array:
    if correlated:
        return np.asarray(np.linalg.slogdet(products)[1])
    return np.asarray(np.log(np.einsum("dii->di", products)).sum(1))


def _bias_corrected(factor: Array, mean_estimate: Array) -> Array:
    """``F - (mean of estimates - F)``, as much of it as leaves the law stable."""
    for share in np.linspace(1.0, 0.0, 21):
        out = factor - share * (mean_estimate - factor)
        if np.abs(np.linalg.eigvals(out)).max() < 1.0:
            return np.asarray(out)
    return factor


def _gamma_upper_point(gains: Array, level: float) -> float:
    """Point that a gamma law with the moments of the draws exceeds at a rate."""
    mean, variance = float(gains.mean()), float(gains.var())
    return float(scipy.special.gammainccinv(mean**2 / variance, level)) * variance / mean


def _wilks_upper_point(n_modes: int, size: int, level: float) -> float:
    """Upper point of ``size log(1 + N / (size - 2 N) F)``: D for a fixed design, free noise."""
    left = max(size - 2 * n_modes, 1)
    f = scipy.special.fdtri(n_modes, left, 1.0 - level)
    return float(size * np.log1p(n_modes / left * f))


# ---------- Gain of a mean by chance: the likelihood-ratio statistic of a law without one
#
# For one mode the statistic is that of an intercept in an autoregression,
#
#     D = n log(RSS_0 / RSS_1),    RSS_0 = min |c' - F c|^2,    RSS_1 = min |c' - a - F c|^2,
#
# with F between 0 and 1. Many independent paths, or a long one, give it a chi-square law; one slow
# path does not (its 99 % point is near 12 instead of 6.6), because a state that hardly decays has
# no mean. So D is simulated: from the law without a mean, and again with decay rates at the lower
# end of their confidence interval, where chance gains more. Coupled modes have another null
# distribution (`coupled_upper_point`).


#: Draws, and the most paths and steps of one: more of either bring D closer to chi-square.
DRAWS, MOST_PATHS, MOST_STEPS = 1999, 8, 48


def upper_point(space: StateSpace, span: float, n_steps: int, n_paths: int, level: float) -> float:
    """Point that D, summed over modes, exceeds at the rate ``level`` without a mean.

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
    draws = [_simulate_gains(space, lam, span, *size) for lam in (rates, slower)]
    return float(np.quantile(draws, 1.0 - level, axis=1).max())


def _simulate_gains(
    space: StateSpace, rates: Array, span: float, n_steps: int, n_paths: int
) -> Array:
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
            sums += [product.sum(0) for product in (now, then, now * now, now * then, then * then)]
            now = then
        total += _likelihood_ratio(sums, n_steps * n_paths)
    return total


def _likelihood_ratio(sums: Array, n: int) -> Array:
    """``n log(RSS_0 / RSS_1)`` from sums of ``c, c', c^2, c c', c'^2``."""
    x, y, xx, xy, yy = sums
    without = _residual_sum(xx, xy, yy)
    around = _residual_sum(xx - x * x / n, xy - x * y / n, yy - y * y / n)
    return n * np.log(np.maximum(without / np.maximum(around, 1e-300), 1.0))


def _residual_sum(xx: Array, xy: Array, yy: Array) -> Array:
    f = np.clip(xy / np.maximum(xx, 1e-300), 0.0, 1.0)
    return yy - 2.0 * f * xy + f * f * xx


# ---------- Decision on the mean, and on the initial state of a law with one
#
# A process that returns to a mean which is not zero looks like a slow one that returns to zero.
# Both are fitted, and the mean has to gain more than chance gives it in 99 of 100 cases
# (`upper_point`), all modes together.
#
# Around a mean a few paths start as they go on, from the stationary law, unless this costs their
# steps more likelihood than chance: a known start carries no information about a mean, and without
# that information slow modes come out too fast (Kendall 1954).


#: Rate at which a law without a mean is given one.
MEAN_LEVEL = 0.01
#: Share of the gain needed below which a Newton step decides.
NEWTON_DECIDES_BELOW = 0.6
#: Mean of the data, in deviations, from which on they lie far from zero, and from which on nothing
#: ties them to zero: a path without a mean that is slow enough to get there (decay over the record
#: 0.05) stays there once in 6,000 cases.
FAR_FROM_ZERO, NOT_TIED_TO_ZERO = 3.0, 30.0
#: Mean and variance per mode of what steps lose by chance where their start is stationary, and how
#: many deviations more they may lose.
LOSS_PER_MODE, LOSS_VARIANCE_PER_MODE, LOSS_DEVIATIONS = 3.0, 6.0, 3.0

#: Errors of one search that do not end the fit, because there are other searches.
FAILURES = (ConvergenceError, np.linalg.LinAlgError)
#: A maximisation with all decisions taken.
P = TypeVar("P", bound=Objective)
#: Makes the objective of a model whose mean is zero or constant.
BuildObjective = Callable[[Model], P]


def estimate_with_mean(
    build_objective: BuildObjective[P], model: Model, mean_over_std: float
) -> tuple[P, Estimate]:
    """The objective and its estimate, with or without a mean, by the model or by the data.

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
        return _estimate_around_mean(build_objective, around, Decision("constant", {}))
    if mean_over_std > NOT_TIED_TO_ZERO:
        compared = {"mean_over_deviation": mean_over_std, "mean_beyond": NOT_TIED_TO_ZERO}
        return _estimate_around_mean(build_objective, around, Decision("constant", compared))
    # A law without a mean is hard to find far from zero, and often not needed.
    if (
        mean_over_std > FAR_FROM_ZERO
        and (decision := _decide_from_mean(build_objective(around))).answer == "constant"
    ):
        return _estimate_around_mean(build_objective, around, decision)
    try:
        problem = build_objective(dataclasses.replace(model, mean="zero"))
        zero = problem.run()
    except ConvergenceError as wrong:
        try:
            return _estimate_around_mean(build_objective, around, Decision("constant", {}))
        except ConvergenceError:
            raise wrong from None
    decision = _decide_from_zero(problem, zero)
    if decision.answer == "constant":
        other, better = _estimate_around_mean(build_objective, around, decision)
        if better.optimum.converged or not zero.optimum.converged:
            return other, better
        # Modes that the points do not separate have no single means, and no maximum with one.
        decision = Decision("zero", {**decision.compared, "converged_with_mean": 0.0})
    return problem.decided(mean=decision), zero


def _has_fixed_start(model: Model) -> bool:
    """Whether the user fixed the first state or gave it a prior, which a mean would contradict."""
    user_names = [*(model.fixed or {}), *(model.priors or {})]
    return any(name.startswith("initial_mean") for name in user_names)


def _decide_from_zero(problem: Objective, zero: Estimate) -> Decision:
    """Whether a mean gains enough over the law without one, all other decisions the same.

    A mean within the deviations of its mode is close to none, and one Newton step predicts its
    gain; a search follows only where the prediction is near the gain needed. For a larger mean the
    search starts anew from the data less a rough mean. No search ends below its start: where the
    start is enough, and searches take long, there is no search.
    """
    rough, deviation = problem.mean_and_deviation
    around, near = (
        problem.shifted(rough, has_mean=True),
        zero._replace(full=_shift_initial_mean(zero, rough)),
    )
    is_far = bool((np.abs(rough) > deviation).any())
    if not is_far and problem.polish:
        log_likelihood = _one_step_log_likelihood(around, near)
        if 2.0 * (log_likelihood - zero.log_likelihood) < NEWTON_DECIDES_BELOW * _chi_square_gain(
            zero
        ):
            return _decision(log_likelihood, zero, problem.size)
    for full in (near.full, around.start) if around.seconds >= SLOW else ():
        log_likelihood = _max_log_likelihood_around(around, near._replace(full=full), search=False)
        decision = _decision(log_likelihood, zero, problem.size)
        if decision.answer == "constant":
            return decision
    log_likelihood = _max_log_likelihood_around(around, near)
    decision = _decision(log_likelihood, zero, problem.size)
    if is_far and not (decision.answer == "constant" and around.seconds >= SLOW):
        log_likelihood = max(log_likelihood, _max_log_likelihood_around(around))
        decision = _decision(log_likelihood, zero, problem.size)
    return decision


def _one_step_log_likelihood(problem: Objective, near: Estimate) -> float:
    """Likelihood around a mean at an estimate without one, plus the gain of a Newton step."""
    try:
        with np.errstate(all="ignore"):
            posterior = problem.posterior(near.full).from_estimate(near, 1.0)
            slope = posterior.at(np.zeros(len(posterior.scale)))[1]
            at = _max_log_likelihood_around(problem, near, search=False) + 0.5 * slope @ slope
            return float(np.nan_to_num(at, nan=np.inf))
    except FAILURES:
        return np.inf


def _chi_square_gain(zero: Estimate) -> float:
    """Twice the gain by chance at `MEAN_LEVEL`, where it is chi-square."""
    return float(scipy.special.chdtri(zero.state_space.n_modes, MEAN_LEVEL))


def _decide_from_mean(problem: Objective) -> Decision:
    """Whether a mean gains enough, from an objective with a mean."""
    log_likelihood = _max_log_likelihood_around(dataclasses.replace(problem, polish=False))
    try:
        with np.errstate(all="ignore"):
            zero = problem.shifted(-problem.centre, has_mean=False).run()
    except FAILURES:
        return Decision("zero", {})
    return _decision(log_likelihood, zero, problem.size)


def _decision(log_likelihood: float, zero: Estimate, size: tuple[float, int, int]) -> Decision:
    """Whether the likelihood with a mean is higher than without by more than chance."""
    gain, space, least = (
        log_likelihood - zero.log_likelihood,
        zero.state_space,
        _chi_square_gain(zero),
    )
    compared = {"gain_of_mean": gain, "gain_needed": 0.5 * least, "level": MEAN_LEVEL}
    if 2.0 * gain <= least:
        return Decision("zero", compared)
    needed = max(least, upper_point(space, *size, MEAN_LEVEL))
    compared["gain_needed"] = 0.5 * needed
    return Decision("constant" if 2.0 * gain > needed else "zero", compared)


def _max_log_likelihood_around(
    problem: Objective, near: Estimate | None = None, *, search: bool = True
) -> float:
    """Log-likelihood around a mean, searched from the data or ``near``, or at ``near`` itself.

    Minus infinity where it fails. A search ends at a finite likelihood; at a full vector it may be
    infinite.
    """
    try:
        with np.errstate(all="ignore"):
            if near is None:
                fitted = problem.run()
            elif search:
                start = problem.posterior(near.full).from_estimate(near, 1.0)
                fitted = estimate(start, polish=False)
            else:
                space = problem.parametrisation.state_space(near.full)
                fitted = near._replace(state_space=space)
            log_likelihood = float(problem.finished(fitted).log_likelihood)
    except FAILURES:
        return -np.inf
    return log_likelihood if search or log_likelihood < np.inf else -np.inf


def _shift_initial_mean(fitted: Estimate, by: Array) -> Array:
    """Full vector of an estimate, its initial mean less ``by``."""
    full = fitted.full.copy()
    where = fitted.parametrisation.slices.get("initial_mean")
    if where is not None:
        full[where] -= by
    return full


def _estimate_around_mean(
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
            fitted = _fit_near(stationary, given)
            lost = 2.0 * (given.log_likelihood - _log_likelihood_with(problem, given, fitted))
    except FAILURES:
        lost = np.inf
    n = problem.parametrisation.n_modes
    most = LOSS_PER_MODE * n + LOSS_DEVIATIONS * np.sqrt(LOSS_VARIANCE_PER_MODE * n)
    compared = {**kind.compared, "loss_of_a_stationary_start": 0.5 * lost, "loss_allowed": most / 2}
    if lost < most:
        problem, kind = stationary, Decision("stationary", compared)
    else:
        fitted, kind = _fit_near(problem, given), kind._replace(compared=compared)
    return problem.decided(mean=decision, initial_state=kind), problem.finished(fitted)


def _fit_near(problem: Objective, near: Estimate) -> Estimate:
    """Estimate of an objective with another initial state, started near the first if it is slow."""
    if problem.seconds < SLOW:
        return problem.run()
    start = _copy_shared_groups(problem.start, problem.parametrisation, near)
    return estimate(problem.posterior(start), polish=problem.polish)


def _copy_shared_groups(full: Array, parametrisation: Parametrisation, source: Estimate) -> Array:
    """Full vector with the groups that it shares with another estimate copied from there."""
    full, other = full.copy(), source.parametrisation
    for group in parametrisation.parts:
        if group in other.parts:
            full[parametrisation.slices[group]] = source.full[other.slices[group]]
    return full


def _log_likelihood_with(problem: Objective, given: Estimate, source: Estimate) -> float:
    """Log-likelihood at the drift and noise of ``source`` and the initial state of ``given``."""
    posterior = problem.posterior(_copy_shared_groups(given.full, given.parametrisation, source))
    return float(posterior.start_value() - posterior.log_prior(posterior.base)[0])

"""Start values of a semilinear fit, and its maximiser."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from spdelaw.errors import ConvergenceError
from spdelaw.infer.semilinear.layout import OBSERVATION, Layout, noise_names
from spdelaw.infer.uncertainty import learned
from spdelaw.processes.operators import decay_mean
from spdelaw.processes.specification import InitialState
from spdelaw.processes.terms import field_of
from spdelaw.statespace.collapse import Collapsed, some_paths
from spdelaw.statespace.semilinear import (
    Transitions,
    filter_scores,
    in_segments,
    smooth_semilinear,
    transitions,
)

# ---------- Maximum of a likelihood with one score per term, and its curvature
#
# Scoring with the sum of squared scores (Berndt, Hall, Hall and Hausman) needs no Hessian; steps
# are halved until the value rises. The expected gain of a step, ``g' A^-1 g``, is the squared
# distance to the maximum in standard errors. From the start by increments it takes 3 or 4
# evaluations of complete data, where the quasi-Newton search of `spdelaw.infer.optimise`, which has
# no scores of terms, takes 10 to 14, and 21 to 25 with its curvature.


Array = np.ndarray

#: Value (a number) and scores (n, n_free) at a free vector.
ScoredFunction = Callable[[Array], tuple[float, Array]]

#: Squared distance to the maximum, in standard errors, that is near enough.
NEAR = 1e-3
#: Longest step, in standard errors per parameter by the metric of the search.
LONGEST_STEP = 20.0
#: Halvings of one step.
HALVINGS = 12
#: Change, in standard errors, that twice the sub-steps of the closure may make, the one that is too
#: large for one Newton step, and most sub-steps.
ALLOWED_SHIFT, LARGEST_SHIFT, MOST_STEPS = 0.3, 2.0, 16
#: Rate of the reaction times the step above which no test confirms the intervals of the closure.
FAST = 1.0
#: Least eigenvalue of the information, parameters scaled to 1, that counts as positive.
LEAST_CURVATURE = 1e-10
#: Differences of the score are taken over this part of a standard error, and over the second one
#: where a change of the curvature over the first leaves it without a maximum in some direction.
DIFFERENCES = (0.05, 0.005)


class Maximum(NamedTuple):
    """Where the search ended.

    Attributes:
        x: free vector.
        value: log-likelihood there.
        scores: of each term, (n, n_free).
        expected_gain: squared distance to the maximum, in standard errors.
        metric: the search's approximation of the information, (n_free, n_free).
    """

    x: Array
    value: float
    scores: Array
    expected_gain: float
    metric: Array


def maximise(
    objective: ScoredFunction,
    x: Array,
    near: float = NEAR,
    most: int = 200,
    metric: Array | None = None,
) -> Maximum:
    """Climb from x until the expected gain of a step is below ``near``.

    `ConvergenceError` where there is no likelihood to start from.

    Args:
        objective: value and scores.
        x: where to start.
        near: expected gain of a step that ends the search.
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
    count, expected_gain = 1, np.inf
    while count < most:
        slope = scores.sum(0)
        step = solve(scores.T @ scores, slope) if inverse is None else inverse @ slope
        expected_gain = float(slope @ step)
        if expected_gain < near or not np.isfinite(expected_gain):
            break
        step = step * min(1.0, LONGEST_STEP * np.sqrt(len(x)) / np.sqrt(expected_gain))
        for k in range(HALVINGS):
            trial = x + 0.5**k * step
            trial_value, trial_scores = objective(trial)
            if np.isfinite(trial_value) and trial_value >= value:
                break
        else:
            break
        count += k + 1
        if inverse is not None:
            inverse = learned(inverse, trial - x, slope - trial_scores.sum(0))
        x, value, scores = trial, trial_value, trial_scores
    final_metric = scores.T @ scores if inverse is None else pseudo_inverse(inverse)
    return Maximum(x, value, scores, expected_gain, final_metric)


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
    scale = _diagonal_roots(matrix)
    return np.linalg.lstsq(matrix / np.outer(scale, scale), vector / scale, rcond=1e-12)[0] / scale


def _diagonal_roots(matrix: Array) -> Array:
    """Roots of the diagonal: coefficients of u and u^3 have units apart by those of the field."""
    return np.sqrt(np.maximum(np.abs(np.diag(matrix)), 1e-300))


def pseudo_inverse(matrix: Array) -> Array:
    """Inverse of a sum of squares, parameters scaled to 1, without directions that have none."""
    scale = np.outer(_diagonal_roots(matrix), _diagonal_roots(matrix))
    return np.linalg.pinv(matrix / scale, rcond=1e-14, hermitian=True) / scale


def information(objective: ScoredFunction, at: Maximum) -> Array:
    """Observed information: minus the slope of the score, by differences; (n_free, n_free).

    Steps are small parts of a standard error by the metric of the search.
    """
    spread = np.sqrt(np.maximum(np.diag(pseudo_inverse(at.metric)), 0.0))
    base = at.scores.sum(0)
    for part in DIFFERENCES:
        width = part * np.where(spread > 0, spread, 1e-6)
        moved = at.x + np.diag(width)
        slope = np.array([base - objective(x)[1].sum(0) for x in moved]) / width[:, None]
        curvature = 0.5 * (slope + slope.T)
        if _positive_inverse(curvature) is not None:
            break
    return curvature


def coarse(shift: float) -> str:
    """Warning that finer sub-steps of the closure would still move an estimate."""
    return (
        f"twice the sub-steps of the closure would move an estimate by {shift:.2g} standard "
        "errors: the reaction is fast for these time steps; observe more often"
    )


def positive(curvature: Array, otherwise: Array) -> Array:
    """The curvature where it is positive definite."""
    return curvature if _positive_inverse(curvature) is not None else otherwise


def _positive_inverse(curvature: Array) -> Array | None:
    scale = _diagonal_roots(curvature)
    values, vectors = np.linalg.eigh(curvature / np.outer(scale, scale))
    if not values[0] > LEAST_CURVATURE:
        return None
    return (vectors / values) @ vectors.T / np.outer(scale, scale)


def invert_information(curvature: Array, rate_dt: float = 0.0) -> Array:
    """Covariance from the information, or `ConvergenceError` where it has no maximum.

    ``rate_dt`` is how many times itself the reaction changes the field between observations.
    """
    covariance = _positive_inverse(curvature)
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


# ---------- Start values from increments, in closed form but for one search
#
# With the reaction frozen over a step (exponential Euler),
#
#     y = e^(-lambda dt) x + dt phi(lambda dt) sum_t theta_t g_t(x) + e,   phi(z) = (1 - e^-z) / z,
#
# so for a given nu the coefficients are weighted least squares, the residuals give the noise, and
# a search along its profile gives nu, one field after the other. Freezing biases the result, so it
# only starts the likelihood.


#: Products ``nu mu_max dt`` between which nu is searched, and how many on the first round.
NU_RANGE, NU_TRIALS = (1e-3, 1e3), 9
#: Rounds of least squares with weights from the residuals before.
REWEIGHTING_ROUNDS = 3
#: Transitions that are enough for a start.
START_TRANSITIONS = 800


def start(form: Layout, data: Transitions, **given: float) -> Array:
    """The free vector of the exponential-Euler estimate, with given values by name."""
    data, values = data.draw(START_TRANSITIONS), dict(given)
    terms = form.reaction.values(data.before)
    for f, field in enumerate(form.fields):
        at = [k for k, name in enumerate(form.reaction.names) if field_of(name) == field]
        modes = slice(f, None, len(form.fields))
        field_data = data._replace(before=data.before[:, modes], after=data.after[:, modes])
        names = ["kappa", *(form.reaction.names[k] for k in at)]
        values |= _start_of_field(form, field, field_data, names, terms[at][..., modes])
    return form.vector(values)


def _start_of_field(
    form: Layout, field: str, data: Transitions, names: list[str], terms: Array
) -> dict[str, float]:
    """Values of one field by name, from its terms at the states before, (n_terms, n, N)."""
    dt, columns = data.dt[:, None], np.concatenate([-data.before[None], terms])
    held = [form.fixed.get(name, np.nan if name in form.names else 0.0) for name in names]
    free, held_values = np.isnan(held), np.nan_to_num(held)

    def profile(nu: float) -> tuple[float, Array, Array]:
        """Minus the log-likelihood at one nu, the coefficients and the noise."""
        z = nu * form.mu * dt
        made, unit = columns * (dt * decay_mean(z)), dt * decay_mean(2.0 * z)
        target = data.after - np.exp(-z) * data.before - np.tensordot(held_values, made, 1)
        theta, noise = held_values.copy(), _residual_noise(target, unit)
        for _ in range(REWEIGHTING_ROUNDS):
            if free.any():
                theta[free] = _weighted_least_squares(made[free], target, 1.0 / (noise * unit))
            noise = _residual_noise(target - np.tensordot(theta * free, made, 1), unit)
        return float(np.log(noise * unit).sum()), theta, noise

    nu = form.fixed.get(f"nu {field}".strip())
    if nu is None:
        highest = max(float(form.mu.max() * np.median(data.dt)), 1e-300)
        low, high = (np.log(edge / highest) for edge in NU_RANGE)
        for _ in range(3):  # a grid of logarithms, then finer ones around its best
            grid = np.linspace(low, high, NU_TRIALS)
            best = grid[int(np.argmin([profile(float(np.exp(g)))[0] for g in grid]))]
            low, high = best - (grid[1] - grid[0]), best + (grid[1] - grid[0])
        nu = float(np.exp(best))
    _, theta, noise = profile(nu)
    values = {f"nu {field}".strip(): nu, **dict(zip(names, theta, strict=True))}
    if form.noise == "parametric":
        n = np.log(np.arange(1.0, len(noise) + 1.0))
        line = np.polyfit(n, np.log(noise), 1) if len(n) > 1 else (0.0, np.log(noise[0]))
        noise = np.array([np.exp(line[1]), -line[0]])
    return values | dict(zip(noise_names(field, form.noise, len(noise)), noise, strict=True))


def _residual_noise(residual: Array, unit: Array) -> Array:
    """``q_n`` whose noise over a step has the variance of the residuals."""
    q = (residual**2 / unit).mean(0)
    return np.maximum(q, 1e-12 * max(float(q.max()), 1e-300))


def _weighted_least_squares(columns: Array, target: Array, weight: Array) -> Array:
    normal = np.einsum("ink,jnk,nk->ij", columns, columns, weight, optimize=True)
    return solve(normal, np.einsum("ink,nk->i", columns, weight * target))


# ---------- Start values where fields have gaps or noise: rough states, then increments of them
#
# 1. Each time on its own: ``c ~ N(0, v)`` and the observations, v by expectation-maximisation.
# 2. Exponential-Euler estimate from the increments of these states (`start`).
# 3. The filter's likelihood chooses among smaller noises: rough states move too much.
# 4. Steps 2 and 3 again with the states of the smoother.


#: Rounds of expectation-maximisation for the variances of the modes.
EM_ROUNDS = 8
#: Paths that are enough for rough states, and records that choose among starts.
ROUGH_PATHS, TRIAL_RECORDS = 12, 6
#: Cost of a value, as a share of the cost of a value with its gradient.
VALUE_COST = 0.4
#: Factors tried on the noise.
NOISE_FACTORS = np.exp([-4.0, -3.0, -2.0, -1.0, 0.0])
#: Noise of observations is no smaller than this part of their variance to begin with.
LEAST_NOISE_SHARE = 1e-6


def noise_guess(collapsed: Collapsed) -> float:
    """Residual variance of the modes; 1 % of the variance where there is no residual."""
    spent = 0
    for b in collapsed.blocks:
        ranks = np.linalg.matrix_rank(b.matrices, hermitian=True)
        spent += np.broadcast_to(ranks, (len(ranks), len(b.paths))).sum()
    power = sum(float((b.vector * b.estimate).sum()) for b in collapsed.blocks)
    total = (power + collapsed.misfit) / max(collapsed.n_values, 1.0)
    free = collapsed.n_values - spent
    if free > 0.02 * collapsed.n_values:
        return max(collapsed.misfit / free, LEAST_NOISE_SHARE * total)
    return 0.01 * total


def rough_states(collapsed: Collapsed, r: float) -> tuple[Array, Array, InitialState]:
    """States (P, T, N) of the first paths, each time on its own, times (P, T), and their law."""
    block = collapsed.blocks[0]
    n_times, n, n_paths = block.vector.shape
    few = min(n_paths, ROUGH_PATHS)
    grams = np.broadcast_to(block.matrices, (n_times, n_paths, n, n))[:, :few].reshape(-1, n, n)
    vectors = block.vector[..., :few].transpose(0, 2, 1).reshape(-1, n)
    v = np.full(n, max(float((block.estimate**2).mean()), 1e-300))
    for _ in range(EM_ROUNDS):
        spread = np.linalg.inv(grams / r + np.diag(1.0 / v))
        c = np.einsum("bij,bj->bi", spread, vectors / r)
        v = np.maximum((c**2 + np.einsum("bii->bi", spread)).mean(0), 1e-12 * v.max())
    states = c.reshape(n_times, few, n).transpose(1, 0, 2)
    times = np.broadcast_to(block.times, (n_times, n_paths))[:, :few].T
    return states, times, InitialState("gaussian", np.zeros(n), v)


def filter_start(
    form: Layout, collapsed: Collapsed, r: float, pairs: Transitions, prior: InitialState
) -> tuple[Array, Transitions, float]:
    """Free vector from pairs of rough states, pairs of smoothed ones, and the cost.

    The cost is in evaluations of all records.
    """
    block = in_segments(collapsed.blocks[0], 0.0)
    records = some_paths(block, np.arange(len(block.paths)) < TRIAL_RECORDS)
    times = np.broadcast_to(records.times, (len(records.times), records.vector.shape[2])).T
    is_noise = form.is_log & (np.array(form.free_names) != OBSERVATION)
    spent = 0

    def best_noise(pairs: Transitions) -> tuple[float, Array]:
        """Value and start by increments, its noise times the factor that the filter prefers."""
        nonlocal spent
        x, candidates = start(form, pairs, **{OBSERVATION: r}), []
        for trial in x + np.outer(np.log(NOISE_FACTORS), is_noise):
            value = filter_scores(
                form.closure(trial), records, r, prior, value_only=True
            ).value.sum()
            candidates.append((float(value) if np.isfinite(value) else -np.inf, trial))
        spent += len(candidates)
        return max(candidates, key=lambda pair: pair[0])

    def smooth(x: Array) -> Transitions:
        mean = smooth_semilinear(form.closure(x), records, r, prior).mean
        return transitions(mean.transpose(1, 0, 2), times)

    value, x = best_noise(pairs)
    for _ in range(2):
        trial_value, trial = best_noise(smooth(x))
        if trial_value <= value:
            break
        value, x = trial_value, trial
    share = VALUE_COST * records.vector.size / sum(b.vector.size for b in collapsed.blocks)
    return x, smooth(x), spent * share

"""Intervals: standard errors, profiles of the likelihood, the parametric bootstrap."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
import xarray as xr

from spdelaw.data.executors import LocalExecutor, as_executor
from spdelaw.data.observed import Observed
from spdelaw.errors import ConvergenceError, IdentifiabilityWarning
from spdelaw.infer.engines.registry import Engine
from spdelaw.infer.model import Model
from spdelaw.infer.optimise import (
    SLOW,
    Counted,
    Estimate,
    MeanEstimate,
    SmoothFunction,
    balanced,
    learned_metric,
)
from spdelaw.infer.parameters import Parametrisation
from spdelaw.law.law import Law

# ---------- Constrained maxima of a log-likelihood: the points of a profile
#
#     L(c) = max of log p over all x with g(x) = c,        c one number or several.
#
# A quasi-Newton method on ``g(x) = c`` finds the maximum; the multipliers of the constraints are
# the slopes of ``L``.


Array = np.ndarray
#: A number and its gradient.
Target = Callable[[Array], tuple[float, Array]]

#: Log-likelihood that a maximum may lack (the value includes it), and the longest step in standard
#: errors.
INNER_GAIN, INNER_REACH = 0.01, 3.0


class Point(NamedTuple):
    """A maximum with numbers held.

    Attributes:
        x: where.
        value: of the log-likelihood; minus infinity where there is none.
        slopes: of that maximum by the numbers, (k,).
        metric: inverse curvature around it, as far as it was learned.
        remaining_gain: log-likelihood that a further step would gain, part of ``value``.
    """

    x: Array
    value: float
    slopes: Array
    metric: Array
    remaining_gain: float = 0.0

    @classmethod
    def top(cls, size: int, value: float) -> Point:
        """The maximum itself, at zero in coordinates of about unit variance."""
        return cls(np.zeros(size), value, np.zeros(1), np.eye(size))


@dataclasses.dataclass(frozen=True, eq=False)
class ConstrainedMaximum:
    """A log-likelihood in coordinates of about unit variance, and k numbers to hold.

    Attributes:
        objective: log-likelihood and gradient.
        targets: the numbers and their gradients.
        top: where the log-likelihood is highest.
    """

    objective: SmoothFunction
    targets: Sequence[Target]
    top: Point

    def numbers(self, x: Array) -> tuple[Array, Array]:
        """Numbers and their gradients, (k,) and (k, size)."""
        evaluated = [target(x) for target in self.targets]
        return np.array([value for value, _ in evaluated]), np.array(
            [slope for _, slope in evaluated]
        )

    def at(self, numbers: Array, near: Point, n_steps: int) -> Point:
        """Maximum where the numbers have these values, in some steps from a point nearby."""
        metric = near.metric
        x = self._project(numbers, near.x, metric)
        value, slope = self.objective(x)
        for _ in range(n_steps):
            normals = self.numbers(x)[1]
            if not (np.isfinite(value) and np.isfinite(normals).all()):
                return Point(x, -np.inf, np.zeros(len(normals)), metric, np.inf)
            multipliers = slope @ _metric_normals(normals, metric)
            tangential_slope = slope - multipliers @ normals
            uphill = metric @ tangential_slope
            gain = 0.5 * float(uphill @ tangential_slope)
            moved = self._higher(numbers, x, value, uphill, gain, metric)
            if moved is None:
                break
            constraint_change = multipliers @ (self.numbers(moved[0])[1] - normals)
            metric = learned_metric(metric, moved[0] - x, slope - moved[2] + constraint_change)
            x, value, slope = moved
        return Point(x, value + gain, multipliers, metric, gain)

    def _higher(
        self, numbers: Array, x: Array, value: float, uphill: Array, gain: float, metric: Array
    ) -> tuple[Array, float, Array] | None:
        """A higher point uphill, its value and slope; None where the gain is too small."""
        if gain < INNER_GAIN:
            return None
        step = uphill * min(1.0, INNER_REACH / float(np.linalg.norm(uphill)))
        for _ in range(6):
            trial = self._project(numbers, x + step, metric)
            trial_value, slope = self.objective(trial)
            if trial_value > value + 1e-4 * gain:
                return trial, trial_value, slope
            step = 0.4 * step
        return None

    def _project(self, numbers: Array, x: Array, metric: Array) -> Array:
        """The point next to x at which the numbers have these values.

        One step where they are linear; as far as it gets where they overflow.
        """
        for _ in range(20):
            values, normals = self.numbers(x)
            remaining_gain = numbers - values
            is_there = not (np.abs(remaining_gain) > 1e-10 * np.maximum(1.0, np.abs(numbers))).any()
            if is_there or not (np.isfinite(remaining_gain).all() and np.isfinite(normals).all()):
                break
            x = x + _metric_normals(normals, metric) @ remaining_gain
        return x


def _metric_normals(normals: Array, metric: Array) -> Array:
    """The cheapest steps that move one number by one each and hold the others; (size, k).

    Least squares: far out, numbers may stop to depend on the coordinates.
    """
    along = metric @ normals.T
    return along @ np.linalg.pinv(normals @ along, hermitian=True)


# ---------- Ends of a profile likelihood interval
#
# The profile of a number ``g`` is ``L(c) = max of log p over all x with g(x) = c``, and its
# interval of a level holds all c with
#
#     r(c) = sqrt(2 (max log p - L(c))) <= z,        z the normal quantile of the level.
#
# Where log p is quadratic this is the interval of the standard error. It needs no such thing, is
# the same on whatever scale the number is written, and has an infinite end on a flat side. The
# curve is followed outwards, each point from the one before, and Newton
# steps on r, which is nearly a straight line, find the end.


#: Steps to a point of the curve.
INNER_STEPS = 40
#: Distance of r from z, and share of the way, within which a last step is exact enough, and points
#: to try.
END_TOLERANCE, END_POINTS = 0.05, 25
#: Ratio of an outer to an inner reach below which a jump of r shows a lost curve.
CLIFF_RATIO = 1.1
#: Longest first step of a logarithm, growth of the steps, reach beyond which an end is infinite:
#: no data distinguish a rate from one that is ten billion times larger.
FIRST_STEP, REACH_GROWTH, ENDLESS_REACH = 2.0, 2.5, 23.0
#: The same for other numbers, in standard errors.
ENDLESS_ERRORS = 1e3


def profile_end(
    constrained: ConstrainedMaximum, side: int, z: float, is_log: bool, power: float = 0.0
) -> float:
    """End of the interval of one number on a side; infinite where the likelihood stays flat.

    Args:
        constrained: the log-likelihood with the number held.
        side: +1 for the upper end, -1 for the lower.
        z: normal quantile of the level.
        is_log: whether the number is a logarithm.
        power: of the number behind a logarithm, in which r is about a straight line; 0 for the
            logarithm itself. The search starts where that line ends.
    """
    near, top, inside, outside = constrained.top, constrained.top.value, 0.0, np.inf
    centre, normal = constrained.targets[0](near.x)
    error = float(np.linalg.norm(normal))
    limit = ENDLESS_REACH if is_log else ENDLESS_ERRORS * error
    reach = _first_reach(z * error, side * power) if is_log else z * error
    for _ in range(END_POINTS):
        point = constrained.at(np.array([centre + side * reach]), near, INNER_STEPS)
        top = max(top, point.value)
        r = float(np.sqrt(2.0 * (top - point.value)))
        step = _newton_step(r, z, -side * float(point.slopes[0]))
        # On a plateau near z a small distance of r is none of c: the search goes on.
        if abs(r - z) < END_TOLERANCE and abs(step) < END_TOLERANCE * reach:
            return centre + side * (reach + step)
        if r < z:
            inside, near = reach, point
            if reach >= limit:
                return side * np.inf
            if outside < CLIFF_RATIO * inside and r < z - 2.0 * END_TOLERANCE:
                # No likelihood falls off a cliff: the point beyond was no maximum.
                outside, near = np.inf, point._replace(metric=np.eye(len(point.x)))
        else:
            outside = reach
        reach = min(_next_reach(reach + step, inside, outside), limit)
    return centre + side * (inside if np.isinf(outside) else outside)


def _first_reach(reach: float, power: float) -> float:
    """Where ``(e^(p x) - 1) / p`` has reached that far; a first step of a logarithm at most."""
    if power == 0.0 or 1.0 + power * reach <= 0.0:
        return min(reach, FIRST_STEP)
    return float(min(np.log1p(power * reach) / power, FIRST_STEP))


def _newton_step(r: float, z: float, fall: float) -> float:
    """Step outwards to ``r = z``, where the profile falls by ``fall`` a unit."""
    if not (np.isfinite(r) and r > 0 and fall > 0):
        return np.inf if r < z else -np.inf
    return (z - r) * r / fall


def _next_reach(newton_reach: float, inside: float, outside: float) -> float:
    """Next reach: the Newton step, kept within the bracket and not too far beyond ``inside``."""
    if np.isinf(outside):
        return min(max(newton_reach, 1.05 * inside), max(REACH_GROWTH * inside, 1e-12))
    margin = 0.05 * (outside - inside)
    if inside + margin < newton_reach < outside - margin:
        return newton_reach
    return 0.5 * (inside + outside)


# ---------- Ends of many profile intervals at once, of nearly independent numbers
#
# Numbers of different modes share almost no information, so all of them may be held away from the
# maximum together. Where ``L(c_1, ..., c_k)`` is the maximum with all numbers held and ``m_i`` its
# slopes (the multipliers), the profile of a single number falls by
#
#     D_i(c_i) = - int (m_i + sum_j (M - diag(1 / C_ii))_ij d_j) dc_i
#
# along the way: the second part takes off what the others, ``d_j`` away, add to the slope, with C
# the covariance of the numbers and ``M = C^-1``. A polynomial through the slopes at a few points of
# the way gives ``D_i``, and ``2 D_i = z^2`` the end. The value of L tells whether the slopes
# account for it; where they do not, each number is profiled by itself.


#: Largest correlation of numbers that are held together, and fewest of them.
LOOSE_CORRELATION, FEWEST_TOGETHER = 0.15, 3
#: Points on the way to the ends, as shares of it; rounds of ends; steps to a maximum.
WAY_SHARES, JOINT_ROUNDS, JOINT_STEPS = (0.5, 1.0), 3, 12
#: Share of the way by which an end may lie beyond the last point, and the most an end moves.
BEYOND_SHARE, LARGEST_MOVE = 0.04, 1.6
#: Log-likelihood per number that the slopes may leave unexplained.
UNEXPLAINED = 0.02
#: Least power of a positive number, relative to that at the maximum, that is followed this way.
LEAST_POWER = 0.4


def joint_ends(constrained: ConstrainedMaximum, powers: Array, side: int, z: float) -> Array:
    """Ends of the intervals of k logarithms on a side, +-1; NaN where not found this way; (k,).

    Args:
        constrained: the log-likelihood with the logarithms held.
        powers: of the numbers behind them in which r is about a straight line, (k,).
        side: +1 for the upper ends, -1 for the lower.
        z: normal quantile of the level.
    """
    normals = constrained.numbers(constrained.top.x)[1]
    covariance, out = normals @ normals.T, np.full(len(powers), np.nan)
    is_near = 1.0 + side * powers * z * np.sqrt(np.diag(covariance)) > LEAST_POWER
    for group in _loose_groups(covariance, is_near):
        group_maximum = dataclasses.replace(
            constrained, targets=[constrained.targets[i] for i in group]
        )
        out[group] = _group_ends(
            group_maximum, powers[group], side * z, covariance[np.ix_(group, group)]
        )
    return out


def _group_ends(
    constrained: ConstrainedMaximum, powers: Array, z: float, covariance: Array
) -> Array:
    """Ends of logarithms that are held together, upper ones for a positive z."""
    centre, error = constrained.numbers(constrained.top.x)[0], np.sqrt(np.diag(covariance))
    other = np.linalg.inv(covariance) - np.diag(1.0 / error**2)
    end, nothing, point = z * error, np.full(len(error), np.nan), constrained.top
    nodes, joint, alone = list[Array](), list[Array](), list[Array]()

    def logarithms(v: Array) -> Array:
        """Where powers are ``v`` away from those of the maximum, ``(e^(p x) - 1) / p = v``."""
        p = np.where(powers == 0.0, 1.0, powers)
        return centre + np.where(powers == 0.0, v, np.log1p(p * v) / p)

    for attempt in range(JOINT_ROUNDS):
        for fraction in WAY_SHARES if attempt == 0 else (1.0,):
            v = fraction * end
            point = constrained.at(logarithms(v), point, JOINT_STEPS)
            if not point.remaining_gain < INNER_GAIN:
                return nothing
            slope = point.slopes / (1.0 + powers * v)
            nodes.append(v)
            joint.append(slope)
            alone.append(slope + other @ v)
        falls = _profile_fall(nodes, joint, error)
        if not abs(constrained.top.value - point.value - falls(end).sum()) < UNEXPLAINED * len(end):
            return nothing
        share = _crossing_shares(_profile_fall(nodes, alone, error), end, 0.5 * z**2)
        share[~(powers * share * end > LEAST_POWER - 1.0)] = np.nan
        lost = np.isnan(share)
        if (lost | (np.abs(share - 1.0) < BEYOND_SHARE)).all():
            break
        end = np.where(lost, 1.0, share) * end
    share[np.abs(share - 1.0) >= BEYOND_SHARE] = np.nan
    return logarithms(share * end)


def _loose_groups(covariance: Array, is_near: Array) -> list[Array]:
    """Numbers to hold together: those near enough, no two of which are correlated."""
    error = np.sqrt(np.diag(covariance))
    loose = np.abs(covariance) <= LOOSE_CORRELATION * np.outer(error, error)
    groups: list[list[int]] = []
    for i in np.flatnonzero(is_near):
        fitting = next((group for group in groups if loose[i, group].all()), None)
        if fitting is None:
            groups.append([int(i)])
        else:
            fitting.append(int(i))
    return [np.array(group) for group in groups if len(group) >= FEWEST_TOGETHER]


def _profile_fall(
    nodes: list[Array], slopes: list[Array], error: Array
) -> Callable[[Array], Array]:
    """How far profiles have fallen: ``int (v / C - polynomial of v times v^2) dv``, by number."""
    # In units of the error; a number that stays where it was has the same node twice.
    at = np.transpose(nodes) / error[:, None]
    beyond = (np.transpose(slopes) * error[:, None] + at) / at**2
    powers = at[..., None] ** np.arange(len(nodes))
    terms, degree = (np.linalg.pinv(powers) @ beyond[..., None])[..., 0], 3 + np.arange(len(nodes))

    def fallen(v: Array) -> Array:
        at = (v / error)[:, None]
        return 0.5 * at[:, 0] ** 2 - (terms * at**degree / degree).sum(1)

    return fallen


def _crossing_shares(fall: Callable[[Array], Array], end: Array, drop: float) -> Array:
    """Shares of the way at which profiles have fallen by ``drop``; NaN far from it."""
    low, high = np.full(len(end), 1.0 / LARGEST_MOVE), np.full(len(end), LARGEST_MOVE)
    is_between = (fall(low * end) < drop) & (fall(high * end) > drop)
    for _ in range(40):
        middle = 0.5 * (low + high)
        below = fall(middle * end) < drop
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(is_between, 0.5 * (low + high), np.nan)


# ---------- Interval of the mean of a slow mode
#
# Given all else the mean of a mode is a Gaussian regression, ``N(m_hat, C)``, and where the mode
# hardly decays within the record ``C`` grows like ``1 / lambda`` or faster: no single lambda gives
# a valid interval. So the distribution of m is the mixture over the decay,
#
#     p(m) = int N(m; m_hat(t), C(t)) exp(L(t)) e^(a t) dt,    t = log lambda,
#
# with L the profile of the restricted likelihood, Student's t for the Gaussian because the noise
# variance is estimated, and the weight ``a`` zero where L falls for small lambda by itself. A
# single path never forbids that it does not decay; L is then flat below, and a is such that m has a
# tail ``P(|m| > M) ~ M^-3/4``: 3/8 with a stationary start, 3/4 with one of its own. Of one path
# with lambda T of 0.05, 0.2, 1 and 5 it holds the mean in 93, 97, 99 and 98 of 100 (`python -m
# benchmarks.calibration_intervals --kinds "mean estimated"`). With `TAIL_EXPONENT` at 1, the
# reference prior of Berger and Yang (1994), it held too few below 0.2, and at 1/2 it was six times
# as wide. L is followed from its maximum to both sides; below the last point all is a power of
# lambda.


#: ``m_hat`` and ``C`` of a mode where a profile is.
Given = Callable[[Array], tuple[float, float]]

#: Tail of m at least: beyond M it has the share ``M^-TAIL``, so that its total is finite.
TAIL_EXPONENT = 0.75
#: Steps of ``log lambda``: the first in standard errors and at most, growth, longest; points.
FIRST_LOG_STEP, FIRST_MOST, STEP_GROWTH, LONGEST_LOG, SIDE_POINTS = 0.8, 0.8, 1.4, 2.0, 16
#: Fall of the profile after which points no longer count, and the largest fall of one step.
FORBIDDEN_FALL, MOST_FALL = 9.0, 4.0
#: Change of slopes below which a side counts as a power of lambda.
SETTLED_SLOPE = 0.03
#: Reach of the power below the last point, and step of the integral.
POWER_REACH, INTEGRAL_STEP = 80.0, 0.04
#: Distance, in errors at the maximum, beyond which an end is infinite.
ENDLESS_LOG = 1e8


def mean_interval(
    constrained: ConstrainedMaximum, given: Given, level: float, degrees: float
) -> tuple[float, float]:
    """Ends of the interval of the mean of a mode; NaN where no curve can be followed.

    Args:
        constrained: the log-likelihood with the logarithm of its decay rate held.
        given: its mean and the variance of that, given the other parameters.
        level: of the interval.
        degrees: of freedom of its noise variance.
    """
    t, normal = constrained.targets[0](constrained.top.x)
    step = min(FIRST_LOG_STEP * float(np.linalg.norm(normal)), FIRST_MOST)
    low, high = (_follow_side(constrained, given, t, way * step) for way in (-1, 1))
    middle = _curve_node(given, constrained.top, t)
    if middle is None or not low + high:
        return np.nan, np.nan
    return _mixture_quantiles([*reversed(low), middle, *high], 0.5 * (1.0 - level), degrees)


def _curve_node(given: Given, point: Point, t: float) -> Array | None:
    """Point of the curve: t, log-likelihood, slope, the mean given it and its deviation.

    None where the data do not determine the mean.
    """
    try:
        mean, variance = given(point.x)
    except np.linalg.LinAlgError:
        return None
    node = np.array([t, point.value, point.slopes[0], mean, np.sqrt(variance)])
    return node if np.isfinite(node).all() and variance > 0 else None


def _follow_side(
    constrained: ConstrainedMaximum, given: Given, t: float, step: float
) -> list[Array]:
    """Nodes to one side, as far as they count."""
    near, nodes = constrained.top, list[Array]()
    for _ in range(SIDE_POINTS):
        point = constrained.at(np.array([t + step]), near, INNER_STEPS)
        if not point.value > near.value - MOST_FALL and abs(step) > 0.1:
            step = 0.4 * step
            continue
        node = _curve_node(given, point, t + step)
        if node is None:
            break
        t, near = t + step, point
        nodes.append(node)
        if _is_settled(nodes[-3:]) or point.value < constrained.top.value - FORBIDDEN_FALL:
            break
        step = float(np.clip(STEP_GROWTH * step, -LONGEST_LOG, LONGEST_LOG))
    return nodes


def _is_settled(last: list[Array]) -> bool:
    """Whether a side has become a power of lambda; of fast modes, one on which nothing depends."""
    t, _, slope, _, std = np.transpose(last)
    if len(last) < 3 or abs(slope[2] - slope[1]) > SETTLED_SLOPE:
        return False
    before, now = np.diff(np.log(std)) / np.diff(t)
    return bool(abs(now - before) < SETTLED_SLOPE and (t[2] < t[0] or abs(now) < SETTLED_SLOPE))


def _mixture_quantiles(nodes: list[Array], tail: float, degrees: float) -> tuple[float, float]:
    """Quantiles of the mixture that the nodes are points of."""
    t, log_likelihood, slope, mean, std = np.transpose(nodes)
    weight, centre, spread = _mixture(t, log_likelihood, slope, mean, np.log(std))
    weight /= weight.sum()

    def below(x: float) -> float:
        return float(weight @ scipy.special.stdtr(degrees, (x - centre) / spread))

    best = int(np.argmax(log_likelihood))
    lower, upper = (_quantile(below, p, mean[best], std[best]) for p in (tail, 1.0 - tail))
    return lower, upper


def _mixture(
    t: Array, log_likelihood: Array, slope: Array, mean: Array, log_std: Array
) -> tuple[Array, Array, Array]:
    """Weights, means and deviations along the integral."""
    fall = float(np.clip((log_std[1] - log_std[0]) / (t[1] - t[0]), -1.0, 0.0))
    is_open = log_likelihood[0] > log_likelihood.max() - FORBIDDEN_FALL
    growth = max(-TAIL_EXPONENT * fall - slope[0], 0.0) if is_open else 0.0
    inner = np.arange(t[0], t[-1] + INTEGRAL_STEP, INTEGRAL_STEP).clip(max=t[-1])
    spline = scipy.interpolate.CubicHermiteSpline(t, log_likelihood - log_likelihood.max(), slope)
    curve = spline(inner)
    inner_mean, inner_std = (
        scipy.interpolate.PchipInterpolator(t, x)(inner) for x in (mean, log_std)
    )
    outer = np.arange(-POWER_REACH, 0.0, INTEGRAL_STEP)
    at = np.concatenate([outer + t[0], inner])
    log_weight = np.concatenate(
        [log_likelihood[0] - log_likelihood.max() + slope[0] * outer, curve]
    )
    log_weight = log_weight + growth * (at - t[0])
    centre = np.concatenate([np.full(len(outer), mean[0]), inner_mean])
    spread = np.concatenate([log_std[0] + fall * outer, inner_std])
    return np.exp(log_weight - log_weight.max()), centre, np.exp(spread)


def _quantile(below: Callable[[float], float], share: float, start: float, unit: float) -> float:
    """Quantile of a distribution; infinite beyond `ENDLESS_LOG` units."""
    reach = unit
    while not below(start - reach) < share < below(start + reach):
        reach *= 2.0
        if reach > ENDLESS_LOG * unit:
            return float(np.copysign(np.inf, share - 0.5))
    ends = start - reach, start + reach
    return float(scipy.optimize.brentq(lambda x: below(x) - share, *ends, xtol=1e-6 * unit))


# ---------- Choice of the numbers with profile intervals, and these intervals
#
# The interval of a standard error is right where the likelihood of the logarithm is a parabola as
# far out as the ends. For an eigenvalue whose logarithm has the standard error s, r bends away from
# a straight line by ``s z / 2`` of itself at the end: with ``s = 0.1`` 5.4 % of intervals miss
# instead of 5, with ``s = 0.2`` 6.7 %, and slow modes, modes faster than a step and short records
# are far beyond. Those numbers, and no others, are profiled.


#: Standard error of a logarithm above which its interval is that of the profile.
WIDE_ERROR = 0.1
#: Mean over its standard error from which on its interval is that of the mixture: one that is
#: compatible with zero is a nuisance parameter.
CLEAR_MEAN = 1.6
#: Largest standard error of a logarithm as a unit of the search.
LARGEST_ERROR = 3.0
#: Parts with one positive number per mode, and the names of these.
SPECTRA = {
    "drift": "eigenvalue",
    "noise": "noise_variance",
    "initial_variance": "initial_variance",
}
#: Bounds for slow evaluations: rough seconds of all profiles, and evaluations they may always take.
PROFILE_SECONDS, MINIMUM_EVALUATIONS = 4.0, 24
#: Powers of numbers in which r is about a straight line: the information on a decay rate is
#: ``T / (2 lambda)``, and so is that on a stationary variance through it.
POWERS = {"eigenvalue": 0.5, "stationary_variance": -0.5}
#: What follows from drift and noise of a mode, ``q / (2 lambda)``.
STATIONARY = "stationary_variance"


class Number(NamedTuple):
    """A reported number: its name, its mode or None, and how it follows from a full vector."""

    name: str
    mode: int | None
    target: Target
    is_log: bool

    @property
    def label(self) -> str:
        """As in ``fixed``: ``eigenvalue[1]`` or ``nu``."""
        return self.name if self.mode is None else f"{self.name}[{self.mode + 1}]"


@np.errstate(all="ignore")  # far out a likelihood may overflow: such a point is no end
def likelihood_ends(
    estimate: Estimate, n_modes: int, level: float, *, all_means: bool = False
) -> tuple[dict[str, Array], list[str], int]:
    """Ends of the intervals of all numbers whose standard errors are too coarse.

    By name of a quantity, (2,) or (N, 2), NaN where the standard error serves; names of the numbers
    that have the interval of their profile; and how often the likelihood was computed for them.
    Where that would take long the last numbers, and means, keep the intervals of their standard
    errors. So do means that are compatible with zero, unless ``all_means``.
    """
    z, ends, profiled = normal_quantile(level), dict[str, Array](), list[str]()
    numbers, is_maximum = list(_reported_numbers(estimate, n_modes)), estimate.optimum.converged
    wide = [x for x in numbers if is_maximum and _standard_error(estimate, x) > WIDE_ERROR]
    around = _LocalLikelihood.of(estimate, is_needed=bool(wide))
    intervals = around.ends_of_ties(wide, z)
    if at_bound := {
        label: interval for label, interval in intervals.items() if np.isneginf(interval[0])
    }:
        z, intervals = beside_bound(level), at_bound
    intervals |= around.ends_together([x for x in wide if x.label not in intervals], z)
    for number in numbers:
        interval = intervals.get(number.label, np.full(2, np.nan))
        if number in wide and not (np.isnan(interval).any() and around.objective.is_spent):
            interval = around.ends(number, z, interval)
            profiled += [number.label] if number.name != STATIONARY else []
        elif number.name == STATIONARY:
            error = _standard_error(estimate, number)
            interval = number.target(estimate.full)[0] + z * error * np.array([-1.0, 1.0])
        interval = np.exp(interval) if number.is_log else interval
        if number.mode is None:
            ends[number.name] = interval
        else:
            ends.setdefault(number.name, np.full((n_modes, 2), np.nan))[number.mode] = interval
    if estimate.mean is not None:
        z_of_mean = np.abs(estimate.mean.value) / np.maximum(estimate.mean.errors, 1e-300)
        clear = np.flatnonzero((z_of_mean >= CLEAR_MEAN) | all_means)
        is_slow = estimate.posterior.seconds >= SLOW
        rates = [x for x in wide if not is_slow and x.name == "eigenvalue" and x.mode in clear]
        means = around.ends_of_means(estimate.mean, rates, level)
        ends["mean"] = np.full((n_modes, 2), np.nan)
        ends["mean"][list(means)] = np.reshape(list(means.values()), (-1, 2))
        profiled += [f"mean[{mode + 1}]" for mode in means]
    return ends, profiled, around.objective.calls


def beside_bound(level: float) -> float:
    """Root of the likelihood ratio that a level takes where a coefficient of the law is near zero.

    Near a bound the ratio of another parameter is no longer chi-square with one degree of freedom.
    Where the two are most correlated it is half of that and a quarter of one with two degrees, and
    zero otherwise (Self and Liang 1987): 2.06 in place of 1.96.
    """

    def surplus(square: float) -> float:
        beyond = 0.5 * scipy.special.chdtrc(1, square) + 0.25 * scipy.special.chdtrc(2, square)
        return float(beyond - (1.0 - level))

    return max(float(np.sqrt(scipy.optimize.brentq(surplus, 0.0, 200.0))), normal_quantile(level))


def normal_quantile(level: float) -> float:
    """Half the width of the central interval of a standard normal variable."""
    return float(scipy.special.ndtri(0.5 * (1.0 + level)))


class _LocalLikelihood(NamedTuple):
    """The likelihood around a maximum, in coordinates of about unit variance along ``columns``."""

    estimate: Estimate
    objective: Counted
    columns: Array

    @classmethod
    def of(cls, estimate: Estimate, *, is_needed: bool) -> _LocalLikelihood:
        """Around an estimate; without coordinates unless ``is_needed``."""
        posterior, x = estimate.posterior, estimate.optimum.x
        root = _covariance_root(estimate) if is_needed else np.zeros((len(x), 0))

        def objective(u: Array) -> tuple[float, Array]:
            value, slope, _ = posterior.at(x + root @ u)
            return value, root.T @ slope

        seconds = posterior.seconds
        most = max(PROFILE_SECONDS / seconds, MINIMUM_EVALUATIONS) if seconds >= SLOW else np.inf
        return cls(estimate, Counted(objective, most), posterior.columns @ root)

    def constrained(self, numbers: list[Number]) -> ConstrainedMaximum:
        """The likelihood with these numbers held."""
        top = Point.top(self.columns.shape[1], self.estimate.optimum.value)
        return ConstrainedMaximum(self.objective, [self._target(number) for number in numbers], top)

    def _target(self, number: Number) -> Target:
        def target(u: Array) -> tuple[float, Array]:
            value, slope = number.target(self.estimate.full + self.columns @ u)
            return value, self.columns.T @ slope

        return target

    def ends(self, number: Number, z: float, given_ends: Array) -> Array:
        """Lower and upper end of a number, where they are not known."""
        constrained, power = self.constrained([number]), POWERS.get(number.name, 0.0)
        return np.array(
            [
                profile_end(constrained, side, z, number.is_log, power) if np.isnan(end) else end
                for side, end in zip((-1, 1), given_ends, strict=True)
            ]
        )

    def ends_of_ties(self, numbers: list[Number], z: float) -> dict[str, Array]:
        """Ends of the positive coefficients that tie a law, by label: some may reach to zero."""
        tied = [x for x in numbers if x.mode is None and x.is_log and x.name != "observation_std"]
        unknown, objective = np.full(2, np.nan), self.objective
        return {x.label: self.ends(x, z, unknown) for x in tied if not objective.is_spent}

    def ends_together(self, numbers: list[Number], z: float) -> dict[str, Array]:
        """Ends of numbers of many modes, by label; NaN where each needs a profile of its own."""
        out: dict[str, Array] = {}
        for name in dict.fromkeys(number.name for number in numbers if number.mode is not None):
            if self.objective.is_spent:
                break
            group = [number for number in numbers if number.name == name]
            constrained, powers = (
                self.constrained(group),
                np.full(len(group), POWERS.get(name, 0.0)),
            )
            ends = np.transpose([joint_ends(constrained, powers, side, z) for side in (-1, 1)])
            out |= {number.label: pair for number, pair in zip(group, ends, strict=True)}
        return out

    def ends_of_means(
        self, mean: MeanEstimate, rates: list[Number], level: float
    ) -> dict[int, tuple[float, float]]:
        """Ends of the means of modes whose decay rates are not well known, by mode.

        The variance of a mean includes the part due to other numbers than such rates.
        """
        estimate, out = self.estimate, dict[int, tuple[float, float]]()
        parametrisation = estimate.parametrisation
        along = np.transpose([estimate.columns.T @ rate.target(estimate.full)[1] for rate in rates])
        apart = np.linalg.qr(along)[0] if rates else along
        for rate in rates:
            if self.objective.is_spent or rate.mode is None:
                break
            mode, slopes = rate.mode, mean.slopes[rate.mode]
            other = float(np.sum((slopes - apart @ (apart.T @ slopes)) ** 2))

            def given(u: Array, mode: int = mode, other: float = other) -> tuple[float, float]:
                space = parametrisation.state_space(estimate.full + self.columns @ u)
                value, covariance = mean.at(space)
                return float(value[mode]), float(covariance[mode, mode]) + other

            noise = _log_of_mode(parametrisation, "noise", mode)
            error = _standard_error(estimate, Number("", mode, noise, True))
            degrees = 2.0 / max(error, 1e-6) ** 2
            out[mode] = mean_interval(self.constrained([rate]), given, level, degrees)
        return out


def _standard_error(estimate: Estimate, number: Number) -> float:
    """Standard error of a number."""
    return float(np.linalg.norm(estimate.columns.T @ number.target(estimate.full)[1]))


def _covariance_root(estimate: Estimate) -> Array:
    """Root of the covariance, with `LARGEST_ERROR` as the largest error of a logarithm."""
    posterior = estimate.posterior
    logs = posterior.columns[estimate.parametrisation.is_log] / LARGEST_ERROR
    information = estimate.optimum.information + logs.T @ logs
    scale = balanced(information, posterior.scale)
    values, vectors = np.linalg.eigh(scale[:, None] * information * scale)
    values = np.maximum(values, 1e-10 * values.max(initial=1e-300))
    return scale[:, None] * (vectors / np.sqrt(values))


def _reported_numbers(estimate: Estimate, n_modes: int) -> Iterator[Number]:
    """Positive numbers of uncoupled modes, observation noise, and coefficients of a tied law."""
    parametrisation = estimate.parametrisation
    if estimate.state_space.linear.is_diagonal:
        for part, name in SPECTRA.items():
            # The initial variance is a nuisance parameter: its standard error serves.
            if part in parametrisation.parts and part != "initial_variance":
                yield from (
                    Number(name, n, _log_of_mode(parametrisation, part, n), True)
                    for n in range(n_modes)
                )
        for n in range(n_modes):
            ratio = _log_stationary_variance(
                _log_of_mode(parametrisation, "noise", n), _log_of_mode(parametrisation, "drift", n)
            )
            yield Number(STATIONARY, n, ratio, True)
    for i, name in sorted(
        enumerate(parametrisation.names), key=lambda one: one[1] != "observation_std"
    ):
        if not ("[" in name or name.startswith("nuisance")):
            yield Number(name, None, _coordinate_target(i), bool(parametrisation.is_log[i]))


def _log_of_mode(parametrisation: Parametrisation, name: str, mode: int) -> Target:
    """Logarithm of a number of a part."""
    coordinates, where = parametrisation.parts[name], parametrisation.slices[name]

    def target(full: Array) -> tuple[float, Array]:
        value, slope = coordinates.values(full[where])[mode], np.zeros(len(full))
        if value == 0:  # held there
            return -np.inf, slope
        slope[where] = coordinates.jacobian(full[where])[mode] / value
        return float(np.log(value)), slope

    return target


def _log_stationary_variance(noise: Target, drift: Target) -> Target:
    """``log(q / (2 lambda))``."""

    def target(full: Array) -> tuple[float, Array]:
        (q, by_noise), (rate, by_drift) = noise(full), drift(full)
        return q - rate - float(np.log(2.0)), by_noise - by_drift

    return target


def _coordinate_target(i: int) -> Target:
    def target(full: Array) -> tuple[float, Array]:
        slope = np.zeros(len(full))
        slope[i] = 1.0
        return float(full[i]), slope

    return target


# ---------- Parametric bootstrap: refits of paths simulated from the law


def bootstrap(
    law: Law, observed: Observed, engine: Engine, model: Model, n: int, run: dict[str, Any]
) -> Law:
    """The law with standard errors and intervals from refits of simulated data.

    Intervals are the basic ones, ``2 estimate - quantiles`` (on the log scale for positive
    numbers), so that a bias of the estimator is taken out of them. Replicates run on
    ``run["executor"]`` where there is one.
    """
    kind, extra = law.initial.kind, law.info["n_nuisance"]
    mean = {"mean": law.info["mean"]} if "mean" in law.info else {}
    same = dataclasses.replace(model, initial=kind, nuisance=extra, **mean)
    silent_run = {**run, "executor": None, "progress": None}
    # Each replicate is as large as the data, and is made where it is fitted.
    here = observed.in_memory()._replace(executor=LocalExecutor())
    seeds = range(run["seed"] + 1, run["seed"] + n + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        executor = as_executor(run["executor"])
        replicates = executor.map(_refit, seeds, law, here, engine, same, silent_run)
        tables = [table for table in replicates if table is not None]
    if len(tables) < max(2, n // 2):
        expected = "most refits to converge"
        fix = "the law is too weakly determined; tie or fix parameters"
        raise ConvergenceError("bootstrap", expected=expected, got=f"{len(tables)} of {n}", fix=fix)
    table = _bootstrap_intervals(law, tables, run["level"])
    used = {"replicates": n, "used": len(tables)}
    law = law.with_info(bootstrap=used, standard_errors="bootstrap")
    return dataclasses.replace(law, parameters=table)


def _refit(
    seed: int, law: Law, observed: Observed, engine: Engine, model: Model, run: dict[str, Any]
) -> xr.Dataset | None:
    """Parameters of one replicate; None where its search does not converge."""
    values = _replicate(law, observed, seed)
    values[np.isnan(observed.values)] = np.nan
    copy = observed._replace(values=values)
    try:
        refit = engine.learn(copy, law.domain, law.n_modes, model, **run)
    except ConvergenceError:
        return None
    return refit.parameters if refit.info.get("converged", True) else None


def _replicate(law: Law, observed: Observed, seed: int) -> Array:
    """Paths of the law on the observed clock, with its observation noise."""
    times, points = observed.times, observed.points
    places = law.domain.places(points)
    if times.ndim == 1:
        paths = law.sample(observed.n_paths, times, points, seed=seed, observation_noise=True)
        return places.flatten(paths.values)
    rows = [
        law.sample(1, t, points, seed=seed * 100003 + i, observation_noise=True)
        for i, t in enumerate(times)
    ]
    return np.concatenate([places.flatten(row.values) for row in rows])


def _bootstrap_intervals(law: Law, tables: list[xr.Dataset], level: float) -> xr.Dataset:
    out = law.parameters.copy(deep=True)
    tail = 0.5 * (1.0 - level)
    for name in out.data_vars:
        draws = np.stack([t[name].sel(statistic="estimate").values for t in tables])
        x = law.parameters[name].sel(statistic="estimate").values
        low, high = np.quantile(draws, [tail, 1.0 - tail], axis=0)
        signed = name in ("initial_mean", "mean")
        positive = not signed and (np.asarray(x) > 0).all() and (low > 0).all()
        ends = (x**2 / high, x**2 / low) if positive else (2 * x - high, 2 * x - low)
        statistics = {"stderr": draws.std(0, ddof=1), "lower": ends[0], "upper": ends[1]}
        for statistic, value in statistics.items():
            out[name].loc[{"statistic": statistic}] = value
    out.attrs["intervals"] = f"parametric bootstrap, {len(tables)} replicates"
    return out

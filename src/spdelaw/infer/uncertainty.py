"""Intervals: standard errors, profiles of the likelihood, the parametric bootstrap."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
import xarray as xr

from spdelaw.data.executors import LocalExecutor, over_blocks
from spdelaw.data.observed import Observed
from spdelaw.errors import ConvergenceError, IdentifiabilityWarning
from spdelaw.infer.engines.registry import Engine
from spdelaw.infer.model import Model
from spdelaw.infer.optimise import SLOW, Counted, Estimate, MeanEstimate, SmoothFunction, balanced
from spdelaw.infer.parameters import Parametrisation
from spdelaw.law.law import Law

# ---------- Maxima of a log-likelihood where some numbers are held: the points that profiles are
# made of
#
#     L(c) = max of log p over all x with g(x) = c,        c one number or several.
#
# A quasi-Newton method on ``g(x) = c`` finds the maximum; the multipliers of the constraints are
# the slopes of ``L``.


Array = np.ndarray
#: A number and its gradient.
Target = Callable[[Array], tuple[float, Array]]

#: Log-likelihood that a maximum may lack (what it lacks is added), and how far a step goes, in
#: standard errors.
INNER_GAIN, INNER_REACH = 0.01, 3.0


class Point(NamedTuple):
    """A maximum with numbers held.

    Attributes:
        x: where.
        value: of the log-likelihood; minus infinity where there is none.
        slopes: of that maximum by the numbers, (k,).
        metric: inverse curvature around it, as far as it was learned.
        lack: log-likelihood that a further step would gain, part of ``value``.
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
        found = [target(x) for target in self.targets]
        return np.array([value for value, _ in found]), np.array([slope for _, slope in found])

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
            left = slope - multipliers @ normals
            uphill = metric @ left
            gain = 0.5 * float(uphill @ left)
            moved = self._higher(numbers, x, value, uphill, gain, metric)
            if moved is None:
                break
            bend = multipliers @ (self.numbers(moved[0])[1] - normals)
            metric = learned(metric, moved[0] - x, slope - moved[2] + bend)
            x, value, slope = moved
        return Point(x, value + gain, multipliers, metric, gain)

    def _higher(
        self, numbers: Array, x: Array, value: float, uphill: Array, gain: float, metric: Array
    ) -> tuple[Array, float, Array] | None:
        """A higher point uphill, its value and slope; None where there is none worth a step."""
        if gain < INNER_GAIN:
            return None
        step = uphill * min(1.0, INNER_REACH / float(np.linalg.norm(uphill)))
        for _ in range(6):
            trial = self._project(numbers, x + step, metric)
            height, slope = self.objective(trial)
            if height > value + 1e-4 * gain:
                return trial, height, slope
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


def learned(metric: Array, step: Array, change: Array) -> Array:
    """Inverse curvature after a step along which the slope fell by ``change`` (BFGS)."""
    curvature = float(step @ change)
    if not curvature > 1e-10 * float(np.linalg.norm(step) * np.linalg.norm(change)):
        return metric
    along = metric @ change
    scale = (1.0 + float(change @ along) / curvature) / curvature
    mixed = np.outer(along, step) / curvature
    return metric + scale * np.outer(step, step) - mixed - mixed.T


# ---------- Ends of likelihood intervals: how far a number can go before the likelihood forbids it
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
#: Distance of two points, one inside and one far outside, that shows a lost curve.
CLIFF = 1.1
#: First step of a logarithm at most, growth of the steps, and where a logarithm counts as endless:
#: no data tell a rate from one that is ten billion times larger.
FIRST_STEP, GROWTH, ENDLESS = 2.0, 2.5, 23.0
#: The same for other numbers, in standard errors.
ENDLESS_ERRORS = 1e3


def profile_end(
    constrained: ConstrainedMaximum, side: int, z: float, is_log: bool, power: float = 0.0
) -> float:
    """End of the interval of one number on a side; infinite where nothing forbids more.

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
    limit = ENDLESS if is_log else ENDLESS_ERRORS * error
    reach = _straight(z * error, side * power) if is_log else z * error
    for _ in range(END_POINTS):
        point = constrained.at(np.array([centre + side * reach]), near, INNER_STEPS)
        top = max(top, point.value)
        r = float(np.sqrt(2.0 * (top - point.value)))
        step = _newton(r, z, -side * float(point.slopes[0]))
        # On a plateau near z a small distance of r is none of c: the search goes on.
        if abs(r - z) < END_TOLERANCE and abs(step) < END_TOLERANCE * reach:
            return centre + side * (reach + step)
        if r < z:
            inside, near = reach, point
            if reach >= limit:
                return side * np.inf
            if outside < CLIFF * inside and r < z - 2.0 * END_TOLERANCE:
                # No likelihood falls off a cliff: the point beyond was no maximum.
                outside, near = np.inf, point._replace(metric=np.eye(len(point.x)))
        else:
            outside = reach
        reach = min(_reach(reach + step, inside, outside), limit)
    return centre + side * (inside if np.isinf(outside) else outside)


def _straight(reach: float, power: float) -> float:
    """Where ``(e^(p x) - 1) / p`` has reached that far; a first step of a logarithm at most."""
    if power == 0.0 or 1.0 + power * reach <= 0.0:
        return min(reach, FIRST_STEP)
    return float(min(np.log1p(power * reach) / power, FIRST_STEP))


def _newton(r: float, z: float, fall: float) -> float:
    """Step outwards to ``r = z``, where the profile falls by ``fall`` a unit."""
    if not (np.isfinite(r) and r > 0 and fall > 0):
        return np.inf if r < z else -np.inf
    return (z - r) * r / fall


def _reach(wanted: float, inside: float, outside: float) -> float:
    """Where to look next: where wanted, within what is known, not too far beyond it."""
    if np.isinf(outside):
        return min(max(wanted, 1.05 * inside), max(GROWTH * inside, 1e-12))
    margin = 0.05 * (outside - inside)
    if inside + margin < wanted < outside - margin:
        return wanted
    return 0.5 * (inside + outside)


# ---------- Ends of many likelihood intervals at once, of numbers that hardly know of one another
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


#: Correlation of numbers up to which they are held together, and fewest that are worth it.
LOOSE, FEWEST = 0.15, 3
#: Points on the way to the ends, as shares of it; rounds of ends; steps to a maximum.
SHARES, ROUNDS, JOINT_STEPS = (0.5, 1.0), 3, 12
#: Share of the way by which an end may lie beyond the last point, and the most an end moves.
BEYOND, LONGEST = 0.04, 1.6
#: Log-likelihood per number that the slopes may leave unexplained.
UNEXPLAINED = 0.02
#: Least power of a positive number, relative to that at the maximum, that is followed this way.
LEAST = 0.4


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
    is_near = 1.0 + side * powers * z * np.sqrt(np.diag(covariance)) > LEAST
    for group in _groups(covariance, is_near):
        part = dataclasses.replace(constrained, targets=[constrained.targets[i] for i in group])
        out[group] = _of_group(part, powers[group], side * z, covariance[np.ix_(group, group)])
    return out


def _of_group(constrained: ConstrainedMaximum, powers: Array, z: float, covariance: Array) -> Array:
    """Ends of logarithms that are held together, upper ones for a positive z."""
    centre, error = constrained.numbers(constrained.top.x)[0], np.sqrt(np.diag(covariance))
    other = np.linalg.inv(covariance) - np.diag(1.0 / error**2)
    end, nothing, point = z * error, np.full(len(error), np.nan), constrained.top
    nodes, joint, alone = list[Array](), list[Array](), list[Array]()

    def logarithms(v: Array) -> Array:
        """Where powers are ``v`` away from those of the maximum, ``(e^(p x) - 1) / p = v``."""
        p = np.where(powers == 0.0, 1.0, powers)
        return centre + np.where(powers == 0.0, v, np.log1p(p * v) / p)

    for attempt in range(ROUNDS):
        for part in SHARES if attempt == 0 else (1.0,):
            v = part * end
            point = constrained.at(logarithms(v), point, JOINT_STEPS)
            if not point.remaining_gain < INNER_GAIN:
                return nothing
            slope = point.slopes / (1.0 + powers * v)
            nodes.append(v)
            joint.append(slope)
            alone.append(slope + other @ v)
        falls = _fall(nodes, joint, error)
        if not abs(constrained.top.value - point.value - falls(end).sum()) < UNEXPLAINED * len(end):
            return nothing
        share = _where(_fall(nodes, alone, error), end, 0.5 * z**2)
        share[~(powers * share * end > LEAST - 1.0)] = np.nan
        lost = np.isnan(share)
        if (lost | (np.abs(share - 1.0) < BEYOND)).all():
            break
        end = np.where(lost, 1.0, share) * end
    share[np.abs(share - 1.0) >= BEYOND] = np.nan
    return logarithms(share * end)


def _groups(covariance: Array, is_near: Array) -> list[Array]:
    """Numbers to hold together: those near enough, no two of which know of one another."""
    error = np.sqrt(np.diag(covariance))
    loose = np.abs(covariance) <= LOOSE * np.outer(error, error)
    groups: list[list[int]] = []
    for i in np.flatnonzero(is_near):
        fitting = next((group for group in groups if loose[i, group].all()), None)
        if fitting is None:
            groups.append([int(i)])
        else:
            fitting.append(int(i))
    return [np.array(group) for group in groups if len(group) >= FEWEST]


def _fall(nodes: list[Array], slopes: list[Array], error: Array) -> Callable[[Array], Array]:
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


def _where(fall: Callable[[Array], Array], end: Array, height: float) -> Array:
    """Shares of the way at which profiles have fallen by ``height``; NaN far from it."""
    low, high = np.full(len(end), 1.0 / LONGEST), np.full(len(end), LONGEST)
    is_between = (fall(low * end) < height) & (fall(high * end) > height)
    for _ in range(40):
        middle = 0.5 * (low + high)
        below = fall(middle * end) < height
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(is_between, 0.5 * (low + high), np.nan)


# ---------- Interval of the mean of a slow mode, which is no wider known than the decay is
#
# Given all else the mean of a mode is a Gaussian regression, ``N(m_hat, C)``, and where the mode
# hardly decays within the record ``C`` grows like ``1 / lambda`` or faster: at one lambda nothing
# true can be said. So the distribution of m is the mixture over the decay,
#
#     p(m) = int N(m; m_hat(t), C(t)) exp(L(t)) e^(a t) dt,    t = log lambda,
#
# with L the profile of the restricted likelihood, Student's t for the Gaussian because the noise
# variance is estimated, and the weight ``a`` zero where L falls for small lambda by itself. A
# single path never forbids that it does not decay; L is then flat below, and a is such that m has a
# tail ``P(|m| > M) ~ M^-3/4``: 3/8 with a stationary start, 3/4 with one of its own. Of one path
# with lambda T of 0.05, 0.2, 1 and 5 it holds the mean in 93, 97, 99 and 98 of 100 (`python -m
# benchmarks.calibration_intervals --kinds "mean estimated"`). With `TAIL` at 1, the reference prior
# of Berger and Yang (1994), it held too few below 0.2, and at 1/2 it was six times as wide. L is
# followed from its maximum to both sides; below the last point all is a power of lambda.


#: ``m_hat`` and ``C`` of a mode where a profile is.
Given = Callable[[Array], tuple[float, float]]

#: Tail of m at least: beyond M it has the share ``M^-TAIL``, so that its total is finite.
TAIL = 0.75
#: Steps of ``log lambda``: the first in standard errors and at most, growth, longest; points.
FIRST_LOG_STEP, FIRST_MOST, STEP_GROWTH, LONGEST_LOG, POINTS = 0.8, 0.8, 1.4, 2.0, 16
#: Fall of the profile after which nothing counts, and most of one step.
FORBIDDEN, MOST_FALL = 9.0, 4.0
#: Change of slopes from which on a side counts as a power of lambda.
SETTLED = 0.03
#: Reach of the power below the last point, and step of the integral.
BELOW, FINE = 80.0, 0.04
#: Width, in errors at the maximum, from which on an end is infinite.
ENDLESS_LOG = 1e8


def mean_interval(
    constrained: ConstrainedMaximum, given: Given, level: float, degrees: float
) -> tuple[float, float]:
    """Ends of the interval of the mean of a mode; NaN where no curve can be followed.

    Args:
        constrained: the log-likelihood with the logarithm of its decay rate held.
        given: its mean and the variance of that, given the rest.
        level: of the interval.
        degrees: of freedom of its noise variance.
    """
    t, normal = constrained.targets[0](constrained.top.x)
    step = min(FIRST_LOG_STEP * float(np.linalg.norm(normal)), FIRST_MOST)
    low, high = (_side(constrained, given, t, way * step) for way in (-1, 1))
    middle = _node(given, constrained.top, t)
    if middle is None or not low + high:
        return np.nan, np.nan
    return _ends([*reversed(low), middle, *high], 0.5 * (1.0 - level), degrees)


def _node(given: Given, point: Point, t: float) -> Array | None:
    """A point of the curve: where, height, slope, the mean given it and the deviation of that.

    None where there is no mean, because nothing is seen of it.
    """
    try:
        mean, variance = given(point.x)
    except np.linalg.LinAlgError:
        return None
    node = np.array([t, point.value, point.slopes[0], mean, np.sqrt(variance)])
    return node if np.isfinite(node).all() and variance > 0 else None


def _side(constrained: ConstrainedMaximum, given: Given, t: float, step: float) -> list[Array]:
    """Nodes to one side, as far as they count."""
    near, nodes = constrained.top, list[Array]()
    for _ in range(POINTS):
        point = constrained.at(np.array([t + step]), near, INNER_STEPS)
        if not point.value > near.value - MOST_FALL and abs(step) > 0.1:
            step = 0.4 * step
            continue
        node = _node(given, point, t + step)
        if node is None:
            break
        t, near = t + step, point
        nodes.append(node)
        if _is_settled(nodes[-3:]) or point.value < constrained.top.value - FORBIDDEN:
            break
        step = float(np.clip(STEP_GROWTH * step, -LONGEST_LOG, LONGEST_LOG))
    return nodes


def _is_settled(last: list[Array]) -> bool:
    """Whether a side has become a power of lambda; of fast modes, one on which nothing depends."""
    t, _, slope, _, std = np.transpose(last)
    if len(last) < 3 or abs(slope[2] - slope[1]) > SETTLED:
        return False
    before, now = np.diff(np.log(std)) / np.diff(t)
    return bool(abs(now - before) < SETTLED and (t[2] < t[0] or abs(now) < SETTLED))


def _ends(nodes: list[Array], tail: float, degrees: float) -> tuple[float, float]:
    """Quantiles of the mixture that the nodes are points of."""
    t, height, slope, mean, std = np.transpose(nodes)
    weight, centre, spread = _mixture(t, height, slope, mean, np.log(std))
    weight /= weight.sum()

    def below(x: float) -> float:
        return float(weight @ scipy.special.stdtr(degrees, (x - centre) / spread))

    best = int(np.argmax(height))
    lower, upper = (_quantile(below, p, mean[best], std[best]) for p in (tail, 1.0 - tail))
    return lower, upper


def _mixture(
    t: Array, height: Array, slope: Array, mean: Array, log_std: Array
) -> tuple[Array, Array, Array]:
    """Weights, means and deviations along the integral."""
    fall = float(np.clip((log_std[1] - log_std[0]) / (t[1] - t[0]), -1.0, 0.0))
    is_open = height[0] > height.max() - FORBIDDEN
    growth = max(-TAIL * fall - slope[0], 0.0) if is_open else 0.0
    inner = np.arange(t[0], t[-1] + FINE, FINE).clip(max=t[-1])
    curve = scipy.interpolate.CubicHermiteSpline(t, height - height.max(), slope)(inner)
    inner_mean, inner_std = (
        scipy.interpolate.PchipInterpolator(t, x)(inner) for x in (mean, log_std)
    )
    outer = np.arange(-BELOW, 0.0, FINE)
    at = np.concatenate([outer + t[0], inner])
    log_weight = np.concatenate([height[0] - height.max() + slope[0] * outer, curve])
    log_weight = log_weight + growth * (at - t[0])
    centre = np.concatenate([np.full(len(outer), mean[0]), inner_mean])
    spread = np.concatenate([log_std[0] + fall * outer, inner_std])
    return np.exp(log_weight - log_weight.max()), centre, np.exp(spread)


def _quantile(below: Callable[[float], float], share: float, start: float, unit: float) -> float:
    """Where a distribution has a share; infinite where that is out of sight."""
    reach = unit
    while not below(start - reach) < share < below(start + reach):
        reach *= 2.0
        if reach > ENDLESS_LOG * unit:
            return float(np.copysign(np.inf, share - 0.5))
    ends = start - reach, start + reach
    return float(scipy.optimize.brentq(lambda x: below(x) - share, *ends, xtol=1e-6 * unit))


# ---------- Which numbers get the interval of their profile, and those intervals
#
# The interval of a standard error is right where the likelihood of the logarithm is a parabola as
# far out as the ends. For an eigenvalue whose logarithm has the standard error s, r bends away from
# a straight line by ``s z / 2`` of itself at the end: with ``s = 0.1`` 5.4 % of intervals miss
# instead of 5, with ``s = 0.2`` 6.7 %, and slow modes, modes faster than a step and short records
# are far beyond. Those numbers, and no others, are profiled.


#: Standard error of a logarithm from which on its interval is that of the profile.
WIDE = 0.1
#: Standard error of a logarithm that the data do not tell, as a unit for the search.
UNKNOWN = 3.0
#: Parts with one positive number per mode, and the names of these.
SPECTRA = {
    "drift": "eigenvalue",
    "noise": "noise_variance",
    "initial_variance": "initial_variance",
}
#: Where one evaluation takes long: seconds of all profiles, about, and evaluations that they may
#: take however long these are.
PROFILE_SECONDS, ENOUGH = 15.0, 300
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
    found: Estimate, n_modes: int, level: float
) -> tuple[dict[str, Array], list[str], int]:
    """Ends of the intervals of all numbers that their standard errors say too little about.

    By name of a quantity, (2,) or (N, 2), NaN where the standard error serves; names of the numbers
    that have the interval of their profile; and how often the likelihood was computed for them.
    Where that would take long the last numbers are left to their standard errors.
    """
    z, ends, profiled = _normal(level), dict[str, Array](), list[str]()
    numbers, is_maximum = list(_numbers(found, n_modes)), found.optimum.converged
    wide = [number for number in numbers if is_maximum and _error(found, number) > WIDE]
    around = _Around.of(found, is_needed=bool(wide))
    known = around.ends_of_ties(wide, z)
    if at_bound := {label: own for label, own in known.items() if np.isneginf(own[0])}:
        z, known = beside_bound(level), at_bound
    known |= around.ends_together([x for x in wide if x.label not in known], z)
    for number in numbers:
        own = known.get(number.label, np.full(2, np.nan))
        if number in wide and not (np.isnan(own).any() and around.objective.is_spent):
            own = around.ends(number, z, own)
            profiled += [number.label] if number.name != STATIONARY else []
        elif number.name == STATIONARY:
            error = _error(found, number)
            own = number.target(found.full)[0] + z * error * np.array([-1.0, 1.0])
        own = np.exp(own) if number.is_log else own
        if number.mode is None:
            ends[number.name] = own
        else:
            ends.setdefault(number.name, np.full((n_modes, 2), np.nan))[number.mode] = own
    if found.mean is not None:
        rates = [x for x in wide if x.name == "eigenvalue"]
        means = around.ends_of_means(found.mean, rates, level)
        ends["mean"] = np.full((n_modes, 2), np.nan)
        ends["mean"][list(means)] = np.reshape(list(means.values()), (-1, 2))
        profiled += [f"mean[{mode + 1}]" for mode in means]
    return ends, profiled, around.objective.calls


def beside_bound(level: float) -> float:
    """Root of the likelihood ratio that a level takes where a coefficient of the law is near zero.

    Beside a bound the ratio of another number is no longer chi-square with one degree of freedom.
    Where the two know most of one another it is half of that and a quarter of one with two degrees,
    and zero otherwise (Self and Liang 1987): 2.06 in place of 1.96.
    """

    def surplus(square: float) -> float:
        beyond = 0.5 * scipy.special.chdtrc(1, square) + 0.25 * scipy.special.chdtrc(2, square)
        return float(beyond - (1.0 - level))

    return max(float(np.sqrt(scipy.optimize.brentq(surplus, 0.0, 200.0))), _normal(level))


def _normal(level: float) -> float:
    return float(scipy.special.ndtri(0.5 * (1.0 + level)))


class _Around(NamedTuple):
    """The likelihood around a maximum, in coordinates of about unit variance along ``columns``."""

    found: Estimate
    objective: Counted
    columns: Array

    @classmethod
    def of(cls, found: Estimate, *, is_needed: bool) -> _Around:
        """Around an estimate; without coordinates where nobody needs them."""
        posterior, x = found.posterior, found.optimum.x
        root = _root(found) if is_needed else np.zeros((len(x), 0))

        def objective(u: Array) -> tuple[float, Array]:
            value, slope, _ = posterior.at(x + root @ u)
            return value, root.T @ slope

        seconds = posterior.seconds
        most = max(PROFILE_SECONDS / seconds, ENOUGH) if seconds >= SLOW else np.inf
        return cls(found, Counted(objective, most), posterior.columns @ root)

    def constrained(self, numbers: list[Number]) -> ConstrainedMaximum:
        """The likelihood with these numbers held."""
        top = Point.top(self.columns.shape[1], self.found.optimum.value)
        return ConstrainedMaximum(self.objective, [self._target(number) for number in numbers], top)

    def _target(self, number: Number) -> Target:
        def target(u: Array) -> tuple[float, Array]:
            value, slope = number.target(self.found.full + self.columns @ u)
            return value, self.columns.T @ slope

        return target

    def ends(self, number: Number, z: float, known: Array) -> Array:
        """Lower and upper end of a number, where they are not known."""
        constrained, power = self.constrained([number]), POWERS.get(number.name, 0.0)
        return np.array(
            [
                profile_end(constrained, side, z, number.is_log, power) if np.isnan(end) else end
                for side, end in zip((-1, 1), known, strict=True)
            ]
        )

    def ends_of_ties(self, numbers: list[Number], z: float) -> dict[str, Array]:
        """Ends of the positive coefficients that tie a law, by label: some may reach to zero."""
        tied = [x for x in numbers if x.mode is None and x.is_log and x.name != "observation_std"]
        unknown, objective = np.full(2, np.nan), self.objective
        return {x.label: self.ends(x, z, unknown) for x in tied if not objective.is_spent}

    def ends_together(self, numbers: list[Number], z: float) -> dict[str, Array]:
        """Ends of numbers of many modes, by label; NaN where each has to be looked at by itself."""
        out: dict[str, Array] = {}
        for name in dict.fromkeys(number.name for number in numbers if number.mode is not None):
            if self.objective.is_spent:
                break
            own = [number for number in numbers if number.name == name]
            constrained, powers = self.constrained(own), np.full(len(own), POWERS.get(name, 0.0))
            ends = np.transpose([joint_ends(constrained, powers, side, z) for side in (-1, 1)])
            out |= {number.label: pair for number, pair in zip(own, ends, strict=True)}
        return out

    def ends_of_means(
        self, mean: MeanEstimate, rates: list[Number], level: float
    ) -> dict[int, tuple[float, float]]:
        """Ends of the means of modes whose decay rates are not well known, by mode.

        What a mean owes to other numbers than such rates is added to its variance.
        """
        found, out = self.found, dict[int, tuple[float, float]]()
        own = found.parametrisation
        along = np.transpose([found.columns.T @ rate.target(found.full)[1] for rate in rates])
        apart = np.linalg.qr(along)[0] if rates else along
        for rate in rates:
            if self.objective.is_spent or rate.mode is None:
                break
            mode, slopes = rate.mode, mean.slopes[rate.mode]
            other = float(np.sum((slopes - apart @ (apart.T @ slopes)) ** 2))

            def given(u: Array, mode: int = mode, other: float = other) -> tuple[float, float]:
                space = own.state_space(found.full + self.columns @ u)
                value, covariance = mean.at(space)
                return float(value[mode]), float(covariance[mode, mode]) + other

            noise = _log_of(own, "noise", mode)
            error = _error(found, Number("", mode, noise, True))
            degrees = 2.0 / max(error, 1e-6) ** 2
            out[mode] = mean_interval(self.constrained([rate]), given, level, degrees)
        return out


def _error(found: Estimate, number: Number) -> float:
    """Standard error of a number."""
    return float(np.linalg.norm(found.columns.T @ number.target(found.full)[1]))


def _root(found: Estimate) -> Array:
    """Root of the covariance, with a limit to how unknown a logarithm is."""
    posterior = found.posterior
    logs = posterior.columns[found.parametrisation.is_log] / UNKNOWN
    information = found.optimum.information + logs.T @ logs
    scale = balanced(information, posterior.scale)
    values, vectors = np.linalg.eigh(scale[:, None] * information * scale)
    values = np.maximum(values, 1e-10 * values.max(initial=1e-300))
    return scale[:, None] * (vectors / np.sqrt(values))


def _numbers(found: Estimate, n_modes: int) -> Iterator[Number]:
    """Positive numbers of modes that are apart, observation noise, and what ties a law."""
    own = found.parametrisation
    if found.state_space.linear.is_diagonal:
        for part, name in SPECTRA.items():
            if part in own.parts:
                yield from (Number(name, n, _log_of(own, part, n), True) for n in range(n_modes))
        for n in range(n_modes):
            ratio = _ratio(_log_of(own, "noise", n), _log_of(own, "drift", n))
            yield Number(STATIONARY, n, ratio, True)
    for i, name in sorted(enumerate(own.names), key=lambda one: one[1] != "observation_std"):
        if not ("[" in name or name.startswith("nuisance")):
            yield Number(name, None, _coordinate(i), bool(own.is_log[i]))


def _log_of(parametrisation: Parametrisation, name: str, mode: int) -> Target:
    """Logarithm of a number of a part."""
    part, where = parametrisation.parts[name], parametrisation.slices[name]

    def target(full: Array) -> tuple[float, Array]:
        value, slope = part.values(full[where])[mode], np.zeros(len(full))
        if value == 0:  # held there
            return -np.inf, slope
        slope[where] = part.jacobian(full[where])[mode] / value
        return float(np.log(value)), slope

    return target


def _ratio(noise: Target, drift: Target) -> Target:
    """``log(q / (2 lambda))``."""

    def target(full: Array) -> tuple[float, Array]:
        (q, by_noise), (rate, by_drift) = noise(full), drift(full)
        return q - rate - float(np.log(2.0)), by_noise - by_drift

    return target


def _coordinate(i: int) -> Target:
    def target(full: Array) -> tuple[float, Array]:
        slope = np.zeros(len(full))
        slope[i] = 1.0
        return float(full[i]), slope

    return target


# ---------- Parametric bootstrap: refit paths simulated from the law, observed as the data were


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
    quiet = {**run, "executor": None, "progress": None}
    # Each replicate is as large as the data, and is made where it is fitted.
    here = observed.in_memory()._replace(executor=LocalExecutor())
    seeds = range(run["seed"] + 1, run["seed"] + n + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        found = over_blocks(_refit, seeds, law, here, engine, same, quiet, executor=run["executor"])
        tables = [table for table in found if table is not None]
    if len(tables) < max(2, n // 2):
        expected = "most refits to converge"
        fix = "the law is too weakly determined; tie or fix parameters"
        raise ConvergenceError("bootstrap", expected=expected, got=f"{len(tables)} of {n}", fix=fix)
    table = _intervals(law, tables, run["level"])
    used = {"replicates": n, "used": len(tables)}
    law = law.with_info(bootstrap=used, standard_errors="bootstrap")
    return dataclasses.replace(law, parameters=table)


def _refit(
    seed: int, law: Law, observed: Observed, engine: Engine, model: Model, run: dict[str, Any]
) -> xr.Dataset | None:
    """Parameters of one replicate; None where its search has no end."""
    values = _replicate(law, observed, seed)
    values[np.isnan(observed.values)] = np.nan
    copy = observed._replace(values=values)
    try:
        found = engine.learn(copy, law.domain, law.n_modes, model, **run)
    except ConvergenceError:
        return None
    return found.parameters if found.info.get("converged", True) else None


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


def _intervals(law: Law, tables: list[xr.Dataset], level: float) -> xr.Dataset:
    out = law.parameters.copy(deep=True)
    tail = 0.5 * (1.0 - level)
    for name in out.data_vars:
        draws = np.stack([t[name].sel(statistic="estimate").values for t in tables])
        x = law.parameters[name].sel(statistic="estimate").values
        low, high = np.quantile(draws, [tail, 1.0 - tail], axis=0)
        signed = name in ("initial_mean", "mean")
        positive = not signed and (np.asarray(x) > 0).all() and (low > 0).all()
        ends = (x**2 / high, x**2 / low) if positive else (2 * x - high, 2 * x - low)
        found = {"stderr": draws.std(0, ddof=1), "lower": ends[0], "upper": ends[1]}
        for statistic, value in found.items():
            out[name].loc[{"statistic": statistic}] = value
    out.attrs["intervals"] = f"parametric bootstrap, {len(tables)} replicates"
    return out

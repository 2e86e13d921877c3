"""Interval of the mean of a slow mode, which is no wider known than the decay is.

Given all else the mean of a mode is a Gaussian regression, ``N(m_hat, C)``, and where the mode
hardly decays within the record ``C`` grows like ``1 / lambda`` or faster: at one lambda nothing
true can be said. So the distribution of m is the mixture over the decay,

    p(m) = int N(m; m_hat(t), C(t)) exp(L(t)) e^(a t) dt,    t = log lambda,

with L the profile of the restricted likelihood, Student's t for the Gaussian because the noise
variance is estimated, and the weight ``a`` zero where L falls for small lambda by itself. A single
path never forbids that it does not decay; L is then flat below, and a is such that m has a tail
``P(|m| > M) ~ M^-3/4``: 3/8 with a stationary start, 3/4 with one of its own. Of one
path with lambda T of 0.05, 0.2, 1 and 5 it holds the mean in 93, 97, 99 and 98 of 100 (`python -m
benchmarks.calibration_intervals --kinds "mean estimated"`). With `TAIL` at 1, the reference prior
of Berger and Yang (1994), it held too few below 0.2, and at 1/2 it was six times as wide. L is
followed from its maximum to both sides; below the last point all is a power of lambda.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from spdelaw.infer._held import Held, Point
from spdelaw.infer._profile import INNER_STEPS

Array = np.ndarray
#: ``m_hat`` and ``C`` of a mode where a profile is.
Given = Callable[[Array], tuple[float, float]]

#: Tail of m at least: beyond M it has the share ``M^-TAIL``, so that its total is finite.
TAIL = 0.75
#: Steps of ``log lambda``: the first in standard errors and at most, growth, longest; points.
FIRST_STEP, FIRST_MOST, STEP_GROWTH, LONGEST, POINTS = 0.8, 0.8, 1.4, 2.0, 16
#: Fall of the profile after which nothing counts, and most of one step.
FORBIDDEN, MOST_FALL = 9.0, 4.0
#: Change of slopes from which on a side counts as a power of lambda.
SETTLED = 0.03
#: Reach of the power below the last point, and step of the integral.
BELOW, FINE = 80.0, 0.04
#: Width, in errors at the maximum, from which on an end is infinite.
ENDLESS = 1e8


def mean_interval(held: Held, given: Given, level: float, degrees: float) -> tuple[float, float]:
    """Ends of the interval of the mean of a mode; NaN where no curve can be followed.

    Args:
        held: the log-likelihood with the logarithm of its decay rate held.
        given: its mean and the variance of that, given the rest.
        level: of the interval.
        degrees: of freedom of its noise variance.
    """
    t, normal = held.targets[0](held.top.x)
    step = min(FIRST_STEP * float(np.linalg.norm(normal)), FIRST_MOST)
    low, high = (_side(held, given, t, way * step) for way in (-1, 1))
    middle = _node(given, held.top, t)
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


def _side(held: Held, given: Given, t: float, step: float) -> list[Array]:
    """Nodes to one side, as far as they count."""
    near, nodes = held.top, list[Array]()
    for _ in range(POINTS):
        point = held.at(np.array([t + step]), near, INNER_STEPS)
        if not point.value > near.value - MOST_FALL and abs(step) > 0.1:
            step = 0.4 * step
            continue
        node = _node(given, point, t + step)
        if node is None:
            break
        t, near = t + step, point
        nodes.append(node)
        if _is_settled(nodes[-3:]) or point.value < held.top.value - FORBIDDEN:
            break
        step = float(np.clip(STEP_GROWTH * step, -LONGEST, LONGEST))
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
        if reach > ENDLESS * unit:
            return float(np.copysign(np.inf, share - 0.5))
    ends = start - reach, start + reach
    return float(scipy.optimize.brentq(lambda x: below(x) - share, *ends, xtol=1e-6 * unit))

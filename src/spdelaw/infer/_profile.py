"""Ends of likelihood intervals: how far a number can go before the likelihood forbids it.

The profile of a number ``g`` is ``L(c) = max of log p over all x with g(x) = c``, and its interval
of a level holds all c with

    r(c) = sqrt(2 (max log p - L(c))) <= z,        z the normal quantile of the level.

Where log p is quadratic this is the interval of the standard error. It needs no such thing, is the
same on whatever scale the number is written, and has an infinite end on a flat side. The curve is
followed outwards, each point from the one before (`spdelaw.infer._held`), and Newton steps on r,
which is nearly a straight line, find the end.
"""

from __future__ import annotations

import numpy as np

from spdelaw.infer._held import Held

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


def profile_end(held: Held, side: int, z: float, is_log: bool, power: float = 0.0) -> float:
    """End of the interval of one number on a side; infinite where nothing forbids more.

    Args:
        held: the log-likelihood with the number held.
        side: +1 for the upper end, -1 for the lower.
        z: normal quantile of the level.
        is_log: whether the number is a logarithm.
        power: of the number behind a logarithm, in which r is about a straight line; 0 for the
            logarithm itself. The search starts where that line ends.
    """
    near, top, inside, outside = held.top, held.top.value, 0.0, np.inf
    centre, normal = held.targets[0](near.x)
    error = float(np.linalg.norm(normal))
    limit = ENDLESS if is_log else ENDLESS_ERRORS * error
    reach = _straight(z * error, side * power) if is_log else z * error
    for _ in range(END_POINTS):
        point = held.at(np.array([centre + side * reach]), near, INNER_STEPS)
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

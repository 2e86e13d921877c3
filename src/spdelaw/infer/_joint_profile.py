"""Ends of many likelihood intervals at once, of numbers that hardly know of one another.

Numbers of different modes share almost no information, so all of them may be held away from the
maximum together. Where ``L(c_1, ..., c_k)`` is the maximum with all numbers held and ``m_i`` its
slopes (the multipliers), the profile of a single number falls by

    D_i(c_i) = - int (m_i + sum_j (M - diag(1 / C_ii))_ij d_j) dc_i

along the way: the second part takes off what the others, ``d_j`` away, add to the slope, with C the
covariance of the numbers and ``M = C^-1``. A polynomial through the slopes at a few points of the
way gives ``D_i``, and ``2 D_i = z^2`` the end. The value of L tells whether the slopes account for
it; where they do not, nothing is said, and `spdelaw.infer._profile` looks at each number by itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from spdelaw.infer._held import INNER_GAIN, Held

Array = np.ndarray

#: Correlation of numbers up to which they are held together, and fewest that are worth it.
LOOSE, FEWEST = 0.15, 3
#: Points on the way to the ends, as shares of it; rounds of ends; steps to a maximum.
SHARES, ROUNDS, INNER_STEPS = (0.5, 1.0), 3, 12
#: Share of the way by which an end may lie beyond the last point, and the most an end moves.
BEYOND, LONGEST = 0.04, 1.6
#: Log-likelihood per number that the slopes may leave unexplained.
UNEXPLAINED = 0.02
#: Least power of a positive number, relative to that at the maximum, that is followed this way.
LEAST = 0.4


def joint_ends(held: Held, powers: Array, side: int, z: float) -> Array:
    """Ends of the intervals of k logarithms on a side, +-1; NaN where not found this way; (k,).

    Args:
        held: the log-likelihood with the logarithms held.
        powers: of the numbers behind them in which r is about a straight line, (k,).
        side: +1 for the upper ends, -1 for the lower.
        z: normal quantile of the level.
    """
    normals = held.numbers(held.top.x)[1]
    covariance, out = normals @ normals.T, np.full(len(powers), np.nan)
    is_near = 1.0 + side * powers * z * np.sqrt(np.diag(covariance)) > LEAST
    for group in _groups(covariance, is_near):
        part = dataclasses.replace(held, targets=[held.targets[i] for i in group])
        out[group] = _of_group(part, powers[group], side * z, covariance[np.ix_(group, group)])
    return out


def _of_group(held: Held, powers: Array, z: float, covariance: Array) -> Array:
    """Ends of logarithms that are held together, upper ones for a positive z."""
    centre, error = held.numbers(held.top.x)[0], np.sqrt(np.diag(covariance))
    other = np.linalg.inv(covariance) - np.diag(1.0 / error**2)
    end, nothing, point = z * error, np.full(len(error), np.nan), held.top
    nodes, joint, alone = list[Array](), list[Array](), list[Array]()

    def logarithms(v: Array) -> Array:
        """Where powers are ``v`` away from those of the maximum, ``(e^(p x) - 1) / p = v``."""
        p = np.where(powers == 0.0, 1.0, powers)
        return centre + np.where(powers == 0.0, v, np.log1p(p * v) / p)

    for attempt in range(ROUNDS):
        for part in SHARES if attempt == 0 else (1.0,):
            v = part * end
            point = held.at(logarithms(v), point, INNER_STEPS)
            if not point.lack < INNER_GAIN:
                return nothing
            slope = point.slopes / (1.0 + powers * v)
            nodes.append(v)
            joint.append(slope)
            alone.append(slope + other @ v)
        falls = _fall(nodes, joint, error)
        if not abs(held.top.value - point.value - falls(end).sum()) < UNEXPLAINED * len(end):
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

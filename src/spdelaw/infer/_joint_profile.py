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

import numpy as np

from spdelaw.infer._curvature import Objective
from spdelaw.infer._profile import INNER_GAIN, Target, learned

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


@dataclasses.dataclass(frozen=True, eq=False)
class JointProfile:
    """Profiles of k numbers, in coordinates of about unit variance with the maximum at zero.

    Attributes:
        objective: log-likelihood and gradient.
        targets: the numbers, logarithms, and their gradients.
        powers: of the numbers in which r is about a straight line, (k,).
        size: of a vector of coordinates.
    """

    objective: Objective
    targets: list[Target]
    powers: Array
    size: int

    def ends(self, side: int, z: float, top: float) -> Array:
        """Ends of the intervals on a side, +-1; NaN where they are not found this way; (k,)."""
        centre, normals = self._numbers(np.zeros(self.size))
        covariance, out = normals @ normals.T, np.full(len(centre), np.nan)
        for group in _groups(covariance, self._reach(side, z, covariance)):
            part = dataclasses.replace(
                self, targets=[self.targets[i] for i in group], powers=self.powers[group]
            )
            out[group] = part.of_group(side, z, top, covariance[np.ix_(group, group)])
        return out

    def _reach(self, side: int, z: float, covariance: Array) -> Array:
        """Whether an end is so near that its power stays well above zero."""
        return 1.0 + side * self.powers * z * np.sqrt(np.diag(covariance)) > LEAST

    def of_group(self, side: int, z: float, top: float, covariance: Array) -> Array:
        """Ends of numbers that are held together."""
        error = np.sqrt(np.diag(covariance))
        other = np.linalg.inv(covariance) - np.diag(1.0 / error**2)
        end, nothing = side * z * error, np.full(len(error), np.nan)
        x, metric = np.zeros(self.size), np.eye(self.size)
        nodes, joint, alone = list[Array](), list[Array](), list[Array]()
        for attempt in range(ROUNDS):
            for part in SHARES if attempt == 0 else (1.0,):
                v = part * end
                found = self._held(self._logarithm(v), x, metric)
                if found is None:
                    return nothing
                x, value, slopes, metric = found
                slope = slopes / (1.0 + self.powers * v)
                nodes, joint = [*nodes, v], [*joint, slope]
                alone = [*alone, slope + other @ v]
            falls = _Fall(np.array(nodes), np.array(joint), error)
            if not abs(top - value - falls(end).sum()) < UNEXPLAINED * len(end):
                return nothing
            own = _Fall(np.array(nodes), np.array(alone), error)
            share = _where(own, end, 0.5 * z**2)
            share[~(self.powers * share * end > LEAST - 1.0)] = np.nan
            lost = np.isnan(share)
            if (lost | (np.abs(share - 1.0) < BEYOND)).all():
                break
            end = np.where(lost, 1.0, share) * end
        share[np.abs(share - 1.0) >= BEYOND] = np.nan
        return self._logarithm(share * end)

    def _straight(self, v: Array) -> Array:
        """Logarithms from powers, ``(e^(p x) - 1) / p = v``."""
        p = np.where(self.powers == 0.0, 1.0, self.powers)
        return np.where(self.powers == 0.0, v, np.log1p(p * v) / p)

    def _logarithm(self, v: Array) -> Array:
        """Numbers at which powers are ``v`` away from those of the maximum."""
        return self._numbers(np.zeros(self.size))[0] + self._straight(v)

    def _numbers(self, x: Array) -> tuple[Array, Array]:
        """Numbers and their gradients, (k,) and (k, size)."""
        found = [target(x) for target in self.targets]
        return np.array([value for value, _ in found]), np.array([slope for _, slope in found])

    def _held(
        self, numbers: Array, x: Array, metric: Array
    ) -> tuple[Array, float, Array, Array] | None:
        """Maximum with the numbers held: where, its value, its slopes and the metric there."""
        start = self._onto(numbers, x, metric)
        if start is None:
            return None
        x, (value, slope) = start, self.objective(start)
        for _ in range(INNER_STEPS):
            if not np.isfinite(value):
                return None
            normals = self._numbers(x)[1]
            multipliers = np.linalg.lstsq(normals @ metric @ normals.T, normals @ metric @ slope)[0]
            uphill = metric @ (slope - multipliers @ normals)
            gain = 0.5 * float(uphill @ (slope - multipliers @ normals))
            if gain < INNER_GAIN:
                return x, value + gain, multipliers, metric
            moved = self._onto(numbers, x + uphill, metric)
            if moved is None:
                return None
            height, new = self.objective(moved)
            if not height > value:
                return None
            bend = multipliers @ (self._numbers(moved)[1] - normals)
            metric = learned(metric, moved - x, slope - new + bend)
            x, value, slope = moved, height, new
        return None

    def _onto(self, numbers: Array, x: Array, metric: Array) -> Array | None:
        """The point next to x at which the numbers have these values; None where they overflow."""
        for _ in range(20):
            values, normals = self._numbers(x)
            lack = numbers - values
            if not (np.isfinite(lack).all() and np.isfinite(normals).all()):
                return None
            if not (np.abs(lack) > 1e-10).any():
                break
            across = normals @ metric
            # Least squares: far out, numbers may stop to depend on the coordinates.
            x = x + across.T @ np.linalg.lstsq(across @ normals.T, lack)[0]
        return x


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


class _Fall:
    """How far profiles have fallen: ``int (v / C - polynomial of v times v^2) dv``, by number."""

    def __init__(self, nodes: Array, slopes: Array, error: Array) -> None:
        # In units of the error; a number that stays where it was has the same node twice.
        at = nodes.T / error[:, None]
        beyond = (slopes.T * error[:, None] + at) / at**2
        powers = at[..., None] ** np.arange(len(nodes))
        self.error, self.terms = error, (np.linalg.pinv(powers) @ beyond[..., None])[..., 0]

    def __call__(self, v: Array) -> Array:
        at, degree = (v / self.error)[:, None], 3 + np.arange(self.terms.shape[1])
        return 0.5 * at[:, 0] ** 2 - (self.terms * at**degree / degree).sum(1)


def _where(fall: _Fall, end: Array, height: float) -> Array:
    """Shares of the way at which profiles have fallen by ``height``; NaN far from it."""
    low, high = np.full(len(end), 1.0 / LONGEST), np.full(len(end), LONGEST)
    is_between = (fall(low * end) < height) & (fall(high * end) > height)
    for _ in range(40):
        middle = 0.5 * (low + high)
        below = fall(middle * end) < height
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(is_between, 0.5 * (low + high), np.nan)

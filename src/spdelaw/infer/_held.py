"""Maxima of a log-likelihood where some numbers are held: the points that profiles are made of.

    L(c) = max of log p over all x with g(x) = c,        c one number or several.

A quasi-Newton method on ``g(x) = c`` finds the maximum; the multipliers of the constraints are the
slopes of ``L``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from spdelaw.infer._curvature import Objective

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
    lack: float = 0.0

    @classmethod
    def top(cls, size: int, value: float) -> Point:
        """The maximum itself, at zero in coordinates of about unit variance."""
        return cls(np.zeros(size), value, np.zeros(1), np.eye(size))


@dataclasses.dataclass(frozen=True, eq=False)
class Held:
    """A log-likelihood in coordinates of about unit variance, and k numbers to hold.

    Attributes:
        objective: log-likelihood and gradient.
        targets: the numbers and their gradients.
        top: where the log-likelihood is highest.
    """

    objective: Objective
    targets: Sequence[Target]
    top: Point

    def numbers(self, x: Array) -> tuple[Array, Array]:
        """Numbers and their gradients, (k,) and (k, size)."""
        found = [target(x) for target in self.targets]
        return np.array([value for value, _ in found]), np.array([slope for _, slope in found])

    def at(self, numbers: Array, near: Point, n_steps: int) -> Point:
        """Maximum where the numbers have these values, in some steps from a point nearby."""
        metric = near.metric
        x = self._onto(numbers, near.x, metric)
        value, slope = self.objective(x)
        for _ in range(n_steps):
            normals = self.numbers(x)[1]
            if not (np.isfinite(value) and np.isfinite(normals).all()):
                return Point(x, -np.inf, np.zeros(len(normals)), metric, np.inf)
            multipliers = slope @ _across(normals, metric)
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
            trial = self._onto(numbers, x + step, metric)
            height, slope = self.objective(trial)
            if height > value + 1e-4 * gain:
                return trial, height, slope
            step = 0.4 * step
        return None

    def _onto(self, numbers: Array, x: Array, metric: Array) -> Array:
        """The point next to x at which the numbers have these values.

        One step where they are linear; as far as it gets where they overflow.
        """
        for _ in range(20):
            values, normals = self.numbers(x)
            lack = numbers - values
            is_there = not (np.abs(lack) > 1e-10 * np.maximum(1.0, np.abs(numbers))).any()
            if is_there or not (np.isfinite(lack).all() and np.isfinite(normals).all()):
                break
            x = x + _across(normals, metric) @ lack
        return x


def _across(normals: Array, metric: Array) -> Array:
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

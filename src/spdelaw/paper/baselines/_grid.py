"""Where a network lives: the clock and the points of the fields it learns from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spdelaw.domain import AbstractDomain, Interval
from spdelaw.errors import DataError

Array = np.ndarray
#: Relative difference of two steps that still counts as the same step.
EQUAL = 1e-6


class Grid(NamedTuple):
    """Times (T,), points (M,) and domain of the fields."""

    times: Array
    points: Array
    domain: AbstractDomain

    @property
    def shape(self) -> tuple[int, int]:
        """(T, M)."""
        return len(self.times), len(self.points)

    @property
    def dt(self) -> float:
        """Step of a regular clock."""
        return float(np.ptp(self.times) / (len(self.times) - 1))

    @property
    def dx(self) -> float:
        """Step of regular points."""
        return float(np.ptp(self.points) / (len(self.points) - 1))

    def unit(self) -> tuple[Tensor, Tensor]:
        """Times and points scaled to [0, 1], float32."""
        return _unit(self.times), _unit(self.points)

    def require_regular(self, system: str) -> None:
        """Raise `DataError` where times or points are not equidistant."""
        for what, values in (("time", self.times), (self.domain.dims[0], self.points)):
            steps = np.diff(values)
            if len(values) < 3 or np.ptp(steps) > EQUAL * abs(steps).max():
                raise DataError(
                    what,
                    expected=f"at least three equidistant values, which {system} needs",
                    got=f"{len(values)} values, steps from {steps.min():g} to {steps.max():g}"
                    if len(steps)
                    else "a single value",
                    fix="interpolate to a regular grid, or use DeepONet or SVNN",
                )

    def without_known_end(self) -> Grid:
        """Grid without its last point where a Dirichlet end makes the field vanish there.

        The published loader leaves the last of the 101 points of Regime B out. Nothing is to be
        learned at such an end, and the prediction there is the boundary value, 0.
        """
        d = self.domain
        if not isinstance(d, Interval) or d.boundary != "dirichlet":
            return self
        at_end = abs(self.points[-1] - d.b) <= EQUAL * d.volume
        return self._replace(points=self.points[:-1]) if at_end else self


def _unit(values: Array) -> Tensor:
    return torch.from_numpy((values - values[0]) / max(np.ptp(values), 1e-300)).float()

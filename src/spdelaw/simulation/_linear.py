"""Paths of a linear equation: one recursion over its times, without an error of the step."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np

from spdelaw.equation import SpectralSPDE, operators
from spdelaw.simulation._noise import BRIDGE, PATHS, normals
from spdelaw.simulation._request import Request
from spdelaw.simulation._schemes import Steps, recurse, steps

Array = np.ndarray


@dataclasses.dataclass(frozen=True)
class LinearPaths:
    """Paths of a linear equation."""

    request: Request
    equation: SpectralSPDE
    attributes: ClassVar[dict[str, Any]] = {}

    @property
    def width(self) -> int:
        """Numbers per time that a path needs."""
        return self.equation.n_modes

    @functools.cached_property
    def rule(self) -> Steps:
        """Operators of the recursion."""
        return steps(self.equation, self.request.times, self.request.scheme)

    def draw(self, start: int, n: int) -> tuple[Array, Array | None]:
        """Coefficients (n, T, N) of paths ``start, ...``, and their noise increments if wanted."""
        e, r = self.equation, self.request
        z = normals(r.seed, PATHS, start, n, (len(r.times), e.n_modes))
        noise = self._increments(start, z) if r.return_noise else None
        c = recurse(r.initial_states(start, n), z, self.rule)
        return (c + e.forced_mean(r.times) if e.dynamics.is_driven else c), noise

    def _increments(self, start: int, z: Array) -> Array:
        """``sqrt(q) (beta(t_{i+1}) - beta(t_i))`` that belongs to the path of the normals z."""
        increments = operators.apply_each(self.rule.driving, z)
        if self.rule.bridge.any():
            rest = normals(self.request.seed, BRIDGE, start, len(z), z.shape[1:])
            increments += operators.apply_each(self.rule.bridge, rest)
        return increments

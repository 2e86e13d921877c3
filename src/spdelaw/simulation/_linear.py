"""Paths of a linear equation: one recursion over its times, without an error of the step."""

from __future__ import annotations

import functools

import numpy as np

from spdelaw.equation import operators
from spdelaw.simulation._noise import BRIDGE, PATHS
from spdelaw.simulation._paths import Paths
from spdelaw.simulation._schemes import Steps, recurse, steps

Array = np.ndarray


class LinearPaths(Paths):
    """Paths of a linear equation."""

    @functools.cached_property
    def rule(self) -> Steps:
        """Operators of the recursion."""
        return steps(self.equation, self.times, self.scheme)

    def draw(self, start: int, n: int) -> tuple[Array, Array | None]:
        """Coefficients (n, T, N) of paths ``start, ...``, and their noise increments if wanted."""
        e, shape = self.equation, (len(self.times), *self.noise_shape)
        z, noise = self.normals(PATHS, start, n, shape), None
        if self.return_noise:  # sqrt(q) (beta(t_{i+1}) - beta(t_i)) that belongs to these normals
            noise = operators.apply_each(self.rule.driving, z)
            if self.rule.bridge.any():
                rest = self.normals(BRIDGE, start, n, shape)
                noise += operators.apply_each(self.rule.bridge, rest)
        c = recurse(self.initial_states(start, n), z, self.rule)
        return (c + e.forced_mean(self.times) if e.dynamics.is_driven else c), noise

"""Paths of a semilinear equation.

``exact`` is Strang's splitting: half a linear step with its exact noise, the reaction by RK4, half
a linear step; strong order 1, weak order 2. Sub-steps are doubled until a step from the same state
with the same noise moves by no more than `TOLERANCE` of the step's own noise; the last move is kept
as the error of the result. Errors of this size cannot be told from the noise of some 1 / error^2
values.

``semi_implicit`` is ``(1 + lambda dt) c_{t+1} = c_t + dt F(c_t) + sqrt(q dt) N(0, 1)`` from a time
to the next, the scheme of SPDEBench: its fields follow the scheme and not the equation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from spdelaw.equation import distinct_steps
from spdelaw.errors import ConvergenceError, InputError
from spdelaw.simulation._paths import PATHS, Paths

Array = np.ndarray

#: Root mean square move of a step, relative to the noise of each mode, that ends the doubling.
TOLERANCE = 1e-2
#: Paths and times that decide on the number of sub-steps.
PILOT_PATHS, PILOT_TIMES = 4, 50
#: Most sub-steps of one step.
MOST = 512


@dataclasses.dataclass(frozen=True, eq=False)
class SemilinearPaths(Paths):
    """Paths by so many sub-steps per step, each with about this error."""

    n_steps: int = 1
    error: float = 0.0

    @property
    def noise_shape(self) -> tuple[int, ...]:
        """One number per mode, or two for each sub-step."""
        per_step = (2 * self.n_steps,) if self.scheme == "exact" else ()
        return (*per_step, self.equation.n_modes)

    @property
    def attributes(self) -> dict[str, Any]:
        """What the fields say about their steps."""
        return {"sub_steps": self.n_steps, "step_error": self.error}

    def draw(self, start: int, n: int) -> tuple[Array, None]:
        """Coefficients (n, n_times, n_modes) of paths ``start, start + 1, ...``."""
        steps, state, noise = self._setting(start, n)
        lengths, which = distinct_steps(steps)
        rules = [self._rule(float(dt), self.n_steps) for dt in lengths]
        out = np.empty((n, len(steps), self.equation.n_modes))
        with np.errstate(over="ignore", invalid="ignore"):
            for k, dt in enumerate(steps):
                state = rules[which[k]](state, float(dt), noise[:, k])
                out[:, k] = state
        if not np.isfinite(out).all():
            raise _runs_away(self.equation.terms)
        return out, None

    def _setting(self, start: int, n: int) -> tuple[Array, Array, Array]:
        """Lengths of the steps, initial states, and standard normals of the paths."""
        steps = np.diff(self.times, prepend=self.linear.initial_time)
        noise = self.normals(PATHS, start, n, (len(steps), *self.noise_shape))
        return steps, self.initial_states(start, n), noise

    def _rule(self, dt: float, n_steps: int) -> Callable[[Array, float, Array], Array]:
        """State after a step of about ``dt``, from a state, the step and normals.

        With fewer sub-steps than the normals have, theirs are summed up.
        """
        e, drawn = self.equation, self.n_steps
        if self.scheme == "semi_implicit":
            return self._semi_implicit
        decay, variance = e.dynamics.half_step(dt / drawn)
        decays = []
        while drawn > n_steps:
            decays.append(decay)
            decay, drawn = decay**2, drawn // 2

        def strang(state: Array, dt: float, noise: Array) -> Array:
            pieces = np.sqrt(variance) * np.moveaxis(noise, 1, 0)
            for earlier in decays:
                pieces = earlier * pieces[0::2] + pieces[1::2]
            return e.dynamics.strang(state, dt, pieces, decay)

        return strang

    def _semi_implicit(self, state: Array, dt: float, noise: Array) -> Array:
        d = self.equation.dynamics
        kick = np.sqrt(d.noise * dt) * noise
        return (state + dt * d.reaction.drift(d.closure.total, state) + kick) / (1.0 + d.rates * dt)

    def with_steps(self) -> SemilinearPaths:
        """Sub-steps doubled, on the same noise, until a step no longer moves."""
        if self.return_noise:
            expected, fix = "False for a semilinear equation", "leave it out"
            raise InputError("return_noise", expected=expected, got="True", fix=fix)
        n, error = 1, 0.0 if self.scheme == "semi_implicit" else np.inf
        while error > TOLERANCE:
            n *= 2
            if n > MOST:
                raise _runs_away(self.equation.terms)
            error = dataclasses.replace(self, times=self.times[:PILOT_TIMES], n_steps=n)._move()
        return dataclasses.replace(self, n_steps=n, error=error)

    def _move(self) -> float:
        """What half as many sub-steps change in one step, relative to the noise of the step."""
        steps, state, noise = self._setting(0, min(self.n_paths, PILOT_PATHS))
        squares = []
        with np.errstate(over="ignore", invalid="ignore"):
            for k in np.flatnonzero(steps):
                dt = float(steps[k])
                fine, half = (self._rule(dt, n) for n in (self.n_steps, self.n_steps // 2))
                coarse, state = half(state, dt, noise[:, k]), fine(state, dt, noise[:, k])
                scale = self.linear.dynamics.over(steps[[k]]).covariance[0]
                squares.append((((state - coarse) ** 2)[:, scale > 0] / scale[scale > 0]).mean())
        error = float(np.sqrt(np.mean(squares))) if squares else 0.0
        return error if np.isfinite(error) else np.inf


def _runs_away(terms: Mapping[str, float]) -> ConvergenceError:
    expected = "a field that stays finite with steps this fine"
    got = f"one that runs away under {dict(terms)}"
    fix = "check the signs of the terms (the highest power should pull back), or lower the noise"
    return ConvergenceError("equation", expected=expected, got=got, fix=fix)

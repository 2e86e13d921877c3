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
from typing import Any, NamedTuple

import numpy as np

from spdelaw.equation import Semilinear, distinct_steps
from spdelaw.errors import ConvergenceError, InputError
from spdelaw.simulation._noise import PATHS, normals
from spdelaw.simulation._request import Request

Array = np.ndarray

#: Root mean square move of a step, relative to the noise of each mode, that ends the doubling.
TOLERANCE = 1e-2
#: Paths and times that decide on the number of sub-steps.
PILOT_PATHS, PILOT_TIMES = 4, 50
#: Most sub-steps of one step.
MOST = 512


class SemilinearPaths(NamedTuple):
    """Paths by so many sub-steps per step, each with about this error."""

    request: Request
    equation: Semilinear
    n_steps: int = 1
    error: float = 0.0

    @property
    def width(self) -> int:
        """Numbers per time that a path needs."""
        return 2 * self.n_steps * self.equation.n_modes

    @property
    def attributes(self) -> dict[str, Any]:
        """What the fields say about their steps."""
        return {"sub_steps": self.n_steps, "step_error": self.error}

    def draw(self, start: int, n: int) -> tuple[Array, None]:
        """Coefficients (n, n_times, n_modes) of paths ``start, start + 1, ...``."""
        e, noise = self.equation, _draw(self, start, n)
        steps = np.diff(self.request.times, prepend=e.linear.initial_time)
        lengths, which = distinct_steps(steps)
        rules = [_rule(e, float(dt), self.n_steps, self.n_steps) for dt in lengths]
        state, out = self.request.initial_states(start, n), np.empty((n, len(steps), e.n_modes))
        with np.errstate(over="ignore", invalid="ignore"):
            for k, dt in enumerate(steps):
                state = _next(self, state, float(dt), noise[:, k], rules[which[k]])
                out[:, k] = state
        if not np.isfinite(out).all():
            raise _runs_away(e)
        return out, None


def semilinear_paths(request: Request, equation: Semilinear) -> SemilinearPaths:
    """Paths whose steps are short enough."""
    if request.return_noise:
        expected, fix = "False for a semilinear equation", "leave it out"
        raise InputError("return_noise", expected=expected, got="True", fix=fix)
    found = SemilinearPaths(request, equation)
    return found if request.scheme == "semi_implicit" else _with_steps(found)


def _with_steps(s: SemilinearPaths) -> SemilinearPaths:
    """Sub-steps doubled, on the same noise, until a step no longer moves."""
    n_paths, n, error = min(s.request.n_paths, PILOT_PATHS), 1, np.inf
    pilot = s._replace(request=dataclasses.replace(s.request, times=s.request.times[:PILOT_TIMES]))
    while error > TOLERANCE:
        n *= 2
        if n > MOST:
            raise _runs_away(s.equation)
        error = _move(pilot._replace(n_steps=n), n_paths)
    return s._replace(n_steps=n, error=error)


def _move(s: SemilinearPaths, n_paths: int) -> float:
    """What half as many sub-steps change in one step, relative to the noise of the step."""
    half = s._replace(n_steps=s.n_steps // 2)
    steps = np.diff(s.request.times, prepend=s.equation.linear.initial_time)
    noise = _draw(s, 0, n_paths)
    state, squares = s.request.initial_states(0, n_paths), []
    with np.errstate(over="ignore", invalid="ignore"):
        for k in np.flatnonzero(steps):
            dt = float(steps[k])
            rules = [_rule(s.equation, dt, s.n_steps, n) for n in (s.n_steps, half.n_steps)]
            coarse = _next(half, state, dt, noise[:, k], rules[1])
            state = _next(s, state, dt, noise[:, k], rules[0])
            scale = s.equation.linear.dynamics.over(np.array([dt])).covariance[0]
            squares.append((((state - coarse) ** 2)[:, scale > 0] / scale[scale > 0]).mean())
    error = float(np.sqrt(np.mean(squares))) if squares else 0.0
    return error if np.isfinite(error) else np.inf


def _draw(s: SemilinearPaths, start: int, n: int) -> Array:
    """Standard normals: one per step, or two for each sub-step."""
    per_step = (2 * s.n_steps,) if s.request.scheme == "exact" else ()
    shape = (len(s.request.times), *per_step, s.equation.n_modes)
    return normals(s.request.seed, PATHS, start, n, shape)


class _Rule(NamedTuple):
    std: Array
    decays: tuple[Array, ...]
    decay: Array


def _rule(e: Semilinear, dt: float, drawn: int, n_steps: int) -> _Rule:
    """Standard deviation of the noise as drawn, factors that sum it up, factor of a half step."""
    factor, variance = e.dynamics.half_step(dt / drawn)
    decays = []
    while drawn > n_steps:
        decays.append(factor)
        factor, drawn = factor**2, drawn // 2
    return _Rule(np.sqrt(variance), tuple(decays), factor)


def _next(s: SemilinearPaths, state: Array, dt: float, noise: Array, rule: _Rule) -> Array:
    e = s.equation
    if dt == 0.0:
        return state
    if s.request.scheme == "semi_implicit":
        kick = np.sqrt(e.linear.noise_variance * dt) * noise
        reaction = e.reaction.drift(e.closure.total, state)
        return (state + dt * reaction + kick) / (1.0 + e.linear.eigenvalues * dt)
    pieces = rule.std * np.moveaxis(noise, 1, 0)
    for decay in rule.decays:
        pieces = decay * pieces[0::2] + pieces[1::2]
    return e.dynamics.strang(state, dt, pieces, rule.decay)


def _runs_away(e: Semilinear) -> ConvergenceError:
    expected = "a field that stays finite with steps this fine"
    got = f"one that runs away under {dict(e.terms)}"
    fix = "check the signs of the terms (the highest power should pull back), or lower the noise"
    return ConvergenceError("equation", expected=expected, got=got, fix=fix)

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

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.equation import Semilinear, distinct_steps
from spdelaw.errors import ConvergenceError, InputError
from spdelaw.simulation._noise import BLOCK, INITIAL, OBSERVATION, PATHS, normals
from spdelaw.simulation._request import Request
from spdelaw.simulation._schemes import SCHEMES
from spdelaw.simulation._stream import stream_to_zarr

Array = np.ndarray
Progress = Callable[[int, int], None]

#: Root mean square move of a step, relative to the noise of each mode, that ends the doubling.
TOLERANCE = 1e-2
#: Paths and times that decide on the number of sub-steps.
PILOT_PATHS, PILOT_TIMES = 4, 50
#: Most sub-steps of one step.
MOST = 512
#: Bytes of random numbers of one step of one batch of paths.
BATCH_BYTES = 32e6


class Settings(NamedTuple):
    """A simulation, checked once."""

    equation: Semilinear
    n_paths: int
    times: Array
    grid: Array
    scheme: str
    seed: int
    observation_std: float
    n_steps: int
    error: float


def simulate_semilinear(
    equation: Semilinear, request: Request, out: str | Path | None, progress: Progress | None
) -> xr.DataArray:
    """Fields (path, time, x); see `simulate`."""
    settings = _settings(equation, request)
    if out is not None:
        found = stream_to_zarr(Path(out), _batches(settings), settings.n_paths, progress)
        return found["field"] if isinstance(found, xr.Dataset) else found
    parts = []
    for part in _batches(settings):
        parts.append(part)
        if progress is not None:
            progress(int(part["path"].values[-1]) + 1, settings.n_paths)
    return parts[0] if len(parts) == 1 else xr.concat(parts, "path", combine_attrs="override")


def _settings(e: Semilinear, r: Request) -> Settings:
    if r.scheme not in SCHEMES:
        raise InputError(
            "scheme", expected=f"one of {SCHEMES}", got=repr(r.scheme), fix="pass scheme='exact'"
        )
    if r.return_noise:
        raise InputError(
            "return_noise", expected="False for a semilinear equation", got="True",
            fix="leave it out",
        )  # fmt: skip
    s = Settings(e, r.n_paths, r.times, r.grid, r.scheme, r.seed, r.observation_std, 1, 0.0)
    return s if r.scheme == "semi_implicit" else _with_steps(s)


def _with_steps(s: Settings) -> Settings:
    """Sub-steps doubled, on the same noise, until a step no longer moves."""
    n_paths, n, error = min(s.n_paths, PILOT_PATHS), 1, np.inf
    pilot = s._replace(times=s.times[:PILOT_TIMES])
    while error > TOLERANCE:
        n *= 2
        if n > MOST:
            raise _runs_away(s.equation)
        error = _move(pilot._replace(n_steps=n), n_paths)
    return s._replace(n_steps=n, error=error)


def _move(s: Settings, n_paths: int) -> float:
    """What half as many sub-steps change in one step, relative to the noise of the step."""
    half = s._replace(n_steps=s.n_steps // 2)
    steps = np.diff(s.times, prepend=s.equation.linear.initial_time)
    noise = _draw(s, 0, n_paths)
    state, squares = _start(s.equation, s.seed, 0, n_paths), []
    with np.errstate(over="ignore", invalid="ignore"):
        for k in np.flatnonzero(steps):
            dt = float(steps[k])
            rules = [_rule(s.equation, dt, s.n_steps, n) for n in (s.n_steps, half.n_steps)]
            coarse = _next(half, state, dt, noise[:, k], rules[1])
            state = _next(s, state, dt, noise[:, k], rules[0])
            scale = transition_variance(s.equation, dt)
            squares.append((((state - coarse) ** 2)[:, scale > 0] / scale[scale > 0]).mean())
    error = float(np.sqrt(np.mean(squares))) if squares else 0.0
    return error if np.isfinite(error) else np.inf


def transition_variance(e: Semilinear, dt: float) -> Array:
    """Variance that the noise adds to each mode in a linear step."""
    return e.linear.dynamics.over(np.array([dt])).covariance[0]


def _draw(s: Settings, start: int, n: int) -> Array:
    """Standard normals: one a step, or two for each sub-step."""
    per_step = (2 * s.n_steps,) if s.scheme == "exact" else ()
    shape = (len(s.times), *per_step, s.equation.n_modes)
    return normals(s.seed, PATHS, start, n, shape)


def paths(s: Settings, start: int, n: int) -> Array:
    """Coefficients (n, n_times, n_modes) of paths ``start, start + 1, ...``."""
    e, noise = s.equation, _draw(s, start, n)
    steps = np.diff(s.times, prepend=e.linear.initial_time)
    lengths, which = distinct_steps(steps)
    rules = [_rule(e, float(dt), s.n_steps, s.n_steps) for dt in lengths]
    state, out = _start(e, s.seed, start, n), np.empty((n, len(steps), e.n_modes))
    with np.errstate(over="ignore", invalid="ignore"):
        for k, dt in enumerate(steps):
            state = _next(s, state, float(dt), noise[:, k], rules[which[k]])
            out[:, k] = state
    return out


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


def _next(s: Settings, state: Array, dt: float, noise: Array, rule: _Rule) -> Array:
    e = s.equation
    if dt == 0.0:
        return state
    if s.scheme == "semi_implicit":
        kick = np.sqrt(e.linear.noise_variance * dt) * noise
        reaction = e.reaction.drift(e.closure.total, state)
        return (state + dt * reaction + kick) / (1.0 + e.linear.eigenvalues * dt)
    pieces = rule.std * np.moveaxis(noise, 1, 0)
    for decay in rule.decays:
        pieces = decay * pieces[0::2] + pieces[1::2]
    return e.dynamics.strang(state, dt, pieces, rule.decay)


def _start(e: Semilinear, seed: int, start: int, n: int) -> Array:
    mean, variance = e.linear.initial_mean, e.linear.initial_variance
    if not variance.any():
        return np.broadcast_to(mean, (n, e.n_modes))
    return mean + np.sqrt(variance) * normals(seed, INITIAL, start, n, (e.n_modes,))


def _batches(s: Settings) -> Iterator[xr.DataArray]:
    per_path = 8 * len(s.times) * max(2 * s.n_steps * s.equation.n_modes, len(s.grid))
    size = BLOCK * max(1, int(BATCH_BYTES / per_path / BLOCK))
    h = s.equation.domain.eigenfunctions(s.grid, s.equation.n_modes)
    for start in range(0, s.n_paths, size):
        n = min(size, s.n_paths - start)
        c = paths(s, start, n)
        if not np.isfinite(c).all():
            raise _runs_away(s.equation)
        fields = c @ h.T
        if s.observation_std > 0:
            fields += s.observation_std * normals(s.seed, OBSERVATION, start, n, fields.shape[1:])
        yield _label(s, fields, start)


def _label(s: Settings, fields: Array, start: int) -> xr.DataArray:
    places = s.equation.domain.places(s.grid)
    coords: dict[str, Any] = {
        "path": np.arange(start, start + len(fields)),
        "time": s.times,
        **places.coords,
    }
    attrs = {
        "title": s.equation.label or "semilinear SPDE",
        "equation": json.dumps(s.equation.to_dict()),
        "scheme": s.scheme,
        "seed": s.seed,
        "observation_std": s.observation_std,
        "sub_steps": s.n_steps,
        "step_error": s.error,
        "source": "spdelaw.simulate",
    }
    dims = ("path", "time", *places.dims)
    return xr.DataArray(places.unflatten(fields), coords, dims, name="field", attrs=attrs)


def _runs_away(e: Semilinear) -> ConvergenceError:
    return ConvergenceError(
        "equation", expected="a field that stays finite with steps this fine",
        got=f"one that runs away under {dict(e.terms)}",
        fix="check the signs of the terms (the highest power should pull back), or lower the noise",
    )  # fmt: skip

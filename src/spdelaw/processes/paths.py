"""Simulated paths of an equation as labelled fields, in memory or streamed to Zarr."""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
import json
import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import xarray as xr

from spdelaw.checks import checked, one_of, optional
from spdelaw.errors import ConvergenceError, FileError, InputError
from spdelaw.processes import operators
from spdelaw.processes.linear import Linear, distinct_steps, transition
from spdelaw.processes.operators import decay_mean
from spdelaw.processes.semilinear import Semilinear
from spdelaw.processes.spde import SpectralSPDE

# ---------- Settings and random streams of a simulation, linear or semilinear
#
# Random numbers come in blocks of paths, so that the first paths never depend on how many follow.


Array = np.ndarray
SCHEMES = ("exact", "semi_implicit")

#: Paths that share one random stream. A path's numbers depend on the seed and its index only.
BLOCK = 16

#: Streams of one block: adding one never shifts the others.
PATHS, INITIAL, OBSERVATION, BRIDGE = range(4)


@dataclasses.dataclass(frozen=True, eq=False)
class Paths(abc.ABC):
    """Arguments of `spdelaw.simulate`, and its paths, some at a time.

    Once made, times (T,) and points of the grid (M, ...) are arrays.
    """

    equation: Any
    n_paths: int
    times: Any
    grid: Any
    seed: int
    scheme: str
    observation_std: float
    return_noise: bool

    def __post_init__(self) -> None:
        """Check all, or raise `InputError`."""
        e = self.equation
        if not isinstance(e, (SpectralSPDE, Semilinear)):
            got, fix = type(e).__name__, "pass sl.catalogue.heat()"
            raise InputError("equation", expected="a SpectralSPDE", got=got, fix=fix)
        checked = {
            "n_paths": int(self.n_paths),
            "times": self.linear._times(self.times),
            "grid": e.domain.check_points(e.default_grid() if self.grid is None else self.grid),
            "seed": int(self.seed),
            "scheme": one_of("scheme", self.scheme, SCHEMES),
            "observation_std": float(self.observation_std),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def noise_shape(self) -> tuple[int, ...]:
        """Shape of the normals that a path needs per time: one for each mode."""
        return (self.equation.n_modes,)

    @property
    def attributes(self) -> dict[str, Any]:
        """Further attributes of the fields."""
        return {}

    @abc.abstractmethod
    def draw(self, start: int, n: int) -> tuple[Array, Array | None]:
        """Coefficients (n, T, N) of paths ``start, ...``, and noise increments if requested."""

    @property
    def linear(self) -> SpectralSPDE:
        """The equation, or its linear part."""
        return self.equation.linear if isinstance(self.equation, Semilinear) else self.equation

    @functools.cached_property
    def eigenfunctions(self) -> Array:
        """Modes on the grid, (M, N)."""
        return self.equation.domain.eigenfunctions(self.grid, self.equation.n_modes)

    def normals(self, stream: int, start: int, n: int, shape: tuple[int, ...]) -> Array:
        """Standard normals (n, *shape) of paths ``start, start + 1, ...`` of one stream.

        ``start`` is a multiple of `BLOCK`; a last, partial block draws only the paths it needs,
        which come first in its stream.
        """
        out = np.empty((n, *shape))
        for i in range(0, n, BLOCK):
            key = np.random.SeedSequence(self.seed, spawn_key=((start + i) // BLOCK, stream))
            generator = np.random.Generator(np.random.SFC64(key))
            generator.standard_normal(out=out[i : i + BLOCK])
        return out

    def initial_states(self, start: int, n: int) -> Array:
        """States of paths ``start, start + 1, ...`` at the initial time; (n, N)."""
        _, mean, covariance = self.linear.initial_state
        if not covariance.any():
            return np.broadcast_to(mean, (n, len(mean)))
        z = self.normals(INITIAL, start, n, mean.shape)
        if operators.is_diagonal(covariance):
            return mean + np.sqrt(covariance) * z
        values, vectors = np.linalg.eigh(covariance)
        return mean + (z * np.sqrt(np.maximum(values, 0.0))) @ vectors.T

    def empty(self, n: int) -> Array:
        """Uninitialised array for the fields of ``n`` paths; (n, T, M)."""
        return np.empty((n, len(self.times), len(self.grid)))

    def fill(self, fields: Array, start: int) -> Array | None:
        """Fill ``fields`` with paths ``start, ...``; return their noise increments if requested."""
        c, noise = self.draw(start, len(fields))
        flat = fields.reshape(-1, fields.shape[-1])
        np.matmul(c.reshape(-1, c.shape[-1]), self.eigenfunctions.T, out=flat)
        if self.observation_std > 0:
            z = self.normals(OBSERVATION, start, len(fields), fields.shape[1:])
            fields += self.observation_std * z
        return noise

    def label(self, fields: Array, start: int, noise: Array | None) -> xr.DataArray | xr.Dataset:
        """Fields (P, T, M) with coordinates and where they come from; and their noise, if given."""
        places = self.equation.domain.places(self.grid)
        kind = "spectral" if self.linear is self.equation else "semilinear"
        attrs = {
            "title": self.equation.label or f"{kind} SPDE",
            "equation": json.dumps(self.equation.to_dict()),
            "scheme": self.scheme,
            "seed": self.seed,
            "observation_std": self.observation_std,
            **self.attributes,
            "source": "spdelaw.simulate",
        }
        rows = {"path": np.arange(start, start + len(fields)), "time": self.times}
        dims, coords = (*rows, *places.dims), rows | places.coords
        field = xr.DataArray(places.unflatten(fields), coords, dims, name="field", attrs=attrs)
        if noise is None:
            return field
        modes = rows | {"mode": np.arange(1, noise.shape[-1] + 1)}
        variables = {
            "field": field,
            "noise_increment": xr.DataArray(noise, modes, tuple(modes)),
            "noise_field": (dims, places.unflatten(noise @ self.eigenfunctions.T)),
        }
        return xr.Dataset(variables, attrs=attrs)


# ---------- Paths of a linear equation: a recursion over its times, exact or semi-implicit
#
# Both are ``c_{t+1} = F_t c_t + S_t z_t`` with standard normals z, so a scheme is a pair of stacks
# of operators (F, S); two more say which increments of the driving noise W belong to those normals.


class LinearPaths(Paths):
    """Paths of a linear equation."""

    @functools.cached_property
    def rule(self) -> Steps:
        """Operators of the recursion."""
        return steps(self.equation, self.times, self.scheme)

    def draw(self, start: int, n: int) -> tuple[Array, Array | None]:
        """Coefficients (n, T, N) of paths ``start, ...``, and noise increments if requested."""
        e, shape = self.equation, (len(self.times), *self.noise_shape)
        z, noise = self.normals(PATHS, start, n, shape), None
        if self.return_noise:  # sqrt(q) (beta(t_{i+1}) - beta(t_i)) that belongs to these normals
            noise = operators.apply_each(self.rule.driving, z)
            if self.rule.bridge.any():
                bridge_normals = self.normals(BRIDGE, start, n, shape)
                noise += operators.apply_each(self.rule.bridge, bridge_normals)
        c = recurse(self.initial_states(start, n), z, self.rule)
        return (c + e.forced_mean(self.times) if e.dynamics.is_driven else c), noise


class Steps(NamedTuple):
    """Operators of the recursion, (n_steps, N) or (n_steps, N, N) each.

    Attributes:
        factor: ``F``.
        amplitude: ``S``.
        driving: share of the step's own normals in the increment of W.
        bridge: amplitude of the residual of that increment given those normals.
    """

    factor: Array
    amplitude: Array
    driving: Array
    bridge: Array


def steps(equation: SpectralSPDE, times: Array, scheme: str) -> Steps:
    """Operators of a scheme for the steps that end at ``times`` (n_steps,)."""
    dynamics, dt = equation.dynamics, np.diff(times, prepend=equation.initial_time)
    lengths, which, start = dt, np.arange(len(dt)), times - dt
    if dynamics.season is None:
        lengths, which = distinct_steps(dt)
        start = np.zeros(len(lengths))
    if scheme == "semi_implicit":
        rule = _semi_implicit(dynamics, lengths, start)
    elif dynamics.is_diagonal:
        rule = _exact_diagonal(dynamics, lengths, start)
    else:
        rule = _exact_matrix(dynamics, lengths, start)
    return Steps(*(stack[which] for stack in rule))


def _exact_diagonal(dynamics: Linear, dt: Array, start: Array) -> Steps:
    """``F = e^(-lambda dt)`` and ``S^2 = Omega``.

    The increment of W has variance ``int q w`` and covariance ``int q w e^(-lambda (end - u)) du``
    with the step's noise; the bridge is its part independent of it.
    """
    step = dynamics.over(dt, start)
    s = np.sqrt(step.covariance)
    cross = dynamics.noise * _exposure(dynamics, dynamics.drift, dt, start)
    driving = np.divide(cross, s, out=np.zeros_like(s), where=s > 0)
    variance = dynamics.noise * _exposure(dynamics, np.zeros_like(dynamics.drift), dt, start)
    return Steps(step.factor, s, driving, np.sqrt(np.maximum(variance - driving**2, 0.0)))


def _exposure(dynamics: Linear, rates: Array, dt: Array, start: Array) -> Array:
    """``int w(u) e^(-rate (end - u)) du`` over each step; (n_steps, N)."""
    begin, length = start[:, None], dt[:, None]
    if dynamics.season is None:
        return length * decay_mean(rates * length)
    return dynamics.season.integral(rates, begin, begin + length)


def _exact_matrix(dynamics: Linear, dt: Array, start: Array) -> Steps:
    """``F = e^(-Lambda dt)`` and ``S S' = Omega``.

    The state and the increment of W form one linear system, so its transition holds their
    joint covariance ``[[Omega, C], [C', Q dt]]``; the bridge is the residual of ``Q dt`` given
    ``Omega``.
    """
    drift, noise = operators.as_matrix(dynamics.drift), operators.as_matrix(dynamics.noise)
    n = len(drift)
    joint = operators.block_diagonal(drift, np.zeros(n))
    both = transition(joint, np.tile(noise, (2, 2)), dt, start, dynamics.season)
    omega, cross = both.covariance[:, :n, :n], both.covariance[:, :n, n:]
    root, inverse = operators.roots(omega)
    driving = np.swapaxes(inverse @ cross, 1, 2)
    bridge_covariance = both.covariance[:, n:, n:] - driving @ np.swapaxes(driving, 1, 2)
    return Steps(both.factor[:, :n, :n], root, driving, operators.roots(bridge_covariance)[0])


def _semi_implicit(dynamics: Linear, dt: Array, start: Array) -> Steps:
    """``c <- (1 + Lambda dt)^-1 (c + sqrt(Q dt) N)`` (paper, section 3.2), at the mean strength.

    Weak order 1: with lambda dt = 0.32 the effective lambda is 13 % and q 25 % too small.
    """
    strength = _exposure(dynamics, np.zeros(1), dt, start)  # int w, (n_steps, 1)
    if dynamics.is_diagonal:
        a = 1.0 / (1.0 + dynamics.drift * dt[:, None])
        increment = np.sqrt(dynamics.noise * strength)
        return Steps(a, a * increment, increment, np.zeros_like(increment))
    drift = operators.as_matrix(dynamics.drift)
    a = np.linalg.inv(np.eye(len(drift)) + dt[:, None, None] * drift)
    noise = operators.as_matrix(operators.root(dynamics.noise))
    increment = np.sqrt(strength)[..., None] * noise
    return Steps(a, a @ increment, increment, np.zeros_like(increment))


def recurse(state: Array, noise: Array, rule: Steps) -> Array:
    """``c_{t+1} = F_t c_t + S_t z_t``; normals (n_paths, n_steps, N) become the path, in place."""
    if rule.amplitude.ndim == 2:
        noise *= rule.amplitude
    else:
        noise[...] = operators.apply_each(rule.amplitude, noise)
    previous = state
    for t in range(noise.shape[1]):
        now = noise[:, t]
        now += operators.apply(rule.factor[t], previous)
        previous = now
    return noise


# ---------- Paths of a semilinear equation
#
# ``exact`` is Strang's splitting: half a linear step with its exact noise, the reaction by RK4,
# half a linear step; strong order 1, weak order 2. Sub-steps are doubled until a step from the same
# state with the same noise moves by no more than `TOLERANCE` of the step's own noise; the last move
# is kept as the error of the result. It takes some 1 / error^2 values to distinguish errors of this
# size from the noise.
#
# ``semi_implicit`` is ``(1 + lambda dt) c_{t+1} = c_t + dt F(c_t) + sqrt(q dt) N(0, 1)`` from a
# time to the next, the scheme of SPDEBench: its fields follow the scheme and not the equation.
#
# Noise that depends on the state takes the splitting of `Reacting.multiplied`. Its moves are those
# of the noise itself, half of whose increments stiff modes forget, so a larger one ends the
# doubling: the error of the law is about its square.


#: Root mean square move of a step, relative to the noise of each mode, that ends the doubling.
TOLERANCE = 1e-2
#: The same of noise that depends on the state.
STATE_NOISE_TOLERANCE = 0.1
#: Paths and times that decide on the number of sub-steps.
PILOT_PATHS, PILOT_TIMES = 4, 50
#: Most sub-steps of one step.
MAX_SUBSTEPS = 512


@dataclasses.dataclass(frozen=True, eq=False)
class SemilinearPaths(Paths):
    """Paths by ``n_steps`` sub-steps per step, each step with about this error."""

    n_steps: int = 1
    error: float = 0.0

    @property
    def noise_shape(self) -> tuple[int, ...]:
        """One number per mode, or two for each sub-step."""
        noise = self.equation.dynamics.amplitude
        if noise is not None:
            return (self.n_steps, noise.n_drivers)
        per_step = (2 * self.n_steps,) if self.scheme == "exact" else ()
        return (*per_step, self.equation.n_modes)

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes about the sub-steps."""
        return {"sub_steps": self.n_steps, "step_error": self.error}

    def draw(self, start: int, n: int) -> tuple[Array, None]:
        """Coefficients (n, n_times, n_modes) of paths ``start, start + 1, ...``."""
        steps, state, noise = self._steps_and_normals(start, n)
        lengths, which = distinct_steps(steps)
        rules = [self._step_rule(float(dt), self.n_steps) for dt in lengths]
        out = np.empty((n, len(steps), self.equation.n_modes))
        with np.errstate(over="ignore", invalid="ignore"):
            for k, dt in enumerate(steps):
                state = rules[which[k]](state, float(dt), noise[:, k])
                out[:, k] = state
        if not np.isfinite(out).all():
            raise _divergence_error(self.equation.terms)
        return out, None

    def _steps_and_normals(self, start: int, n: int) -> tuple[Array, Array, Array]:
        """Lengths of the steps, initial states, and standard normals of the paths."""
        steps = np.diff(self.times, prepend=self.linear.initial_time)
        noise = self.normals(PATHS, start, n, (len(steps), *self.noise_shape))
        return steps, self.initial_states(start, n), noise

    def _step_rule(self, dt: float, n_steps: int) -> Callable[[Array, float, Array], Array]:
        """State after a step of about ``dt``, from a state, the step and normals.

        With fewer sub-steps than the normals have, theirs are summed up.
        """
        e, drawn = self.equation, self.n_steps
        if e.dynamics.amplitude is not None:
            return functools.partial(self._multiplied, n_steps=n_steps)
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

    def _multiplied(self, state: Array, dt: float, noise: Array, n_steps: int) -> Array:
        """A step under noise that depends on the state; the normals of finer steps are summed."""
        paths, drawn, n_drivers = noise.shape
        z = noise.reshape(paths, n_steps, drawn // n_steps, n_drivers).sum(2)
        z = z.transpose(1, 0, 2) * np.sqrt(n_steps / drawn)
        return self.equation.dynamics.multiplied(state, dt, z)

    def _semi_implicit(self, state: Array, dt: float, noise: Array) -> Array:
        d = self.equation.dynamics
        kick = np.sqrt(d.noise * dt) * noise
        return (state + dt * d.reaction.drift(d.closure.total, state) + kick) / (1.0 + d.rates * dt)

    def with_steps(self) -> SemilinearPaths:
        """Sub-steps doubled, on the same noise, until a step no longer moves."""
        if self.return_noise:
            expected, fix = "False for a semilinear equation", "leave it out"
            raise InputError("return_noise", expected=expected, got="True", fix=fix)
        has_state_noise = self.equation.dynamics.amplitude is not None
        if has_state_noise and self.scheme == "semi_implicit":
            expected, fix = "'exact' for noise that depends on the state", "leave scheme out"
            raise InputError("scheme", expected=expected, got=repr(self.scheme), fix=fix)
        tolerance = STATE_NOISE_TOLERANCE if has_state_noise else TOLERANCE
        n, error = 1, 0.0 if self.scheme == "semi_implicit" else np.inf
        while error > tolerance:
            n *= 2
            if n > MAX_SUBSTEPS:
                raise _divergence_error(self.equation.terms)
            error = dataclasses.replace(
                self, times=self.times[:PILOT_TIMES], n_steps=n
            )._pilot_error()
        return dataclasses.replace(self, n_steps=n, error=error)

    def _pilot_error(self) -> float:
        """What half as many sub-steps change in one step, relative to the noise of the step."""
        steps, state, noise = self._steps_and_normals(0, min(self.n_paths, PILOT_PATHS))
        squares = []
        with np.errstate(over="ignore", invalid="ignore"):
            for k in np.flatnonzero(steps):
                dt = float(steps[k])
                fine, half = (self._step_rule(dt, n) for n in (self.n_steps, self.n_steps // 2))
                scale = self._noise_of_step(state, dt)
                coarse, state = half(state, dt, noise[:, k]), fine(state, dt, noise[:, k])
                squares.append((((state - coarse) ** 2)[:, scale > 0] / scale[scale > 0]).mean())
        error = float(np.sqrt(np.mean(squares))) if squares else 0.0
        return error if np.isfinite(error) else np.inf

    def _noise_of_step(self, state: Array, dt: float) -> Array:
        """Variance of each mode after a step; of states that it depends on, their mean; (N,)."""
        dynamics = self.equation.dynamics
        if dynamics.amplitude is None:
            return np.asarray(self.linear.dynamics.over(np.array([dt])).covariance[0])
        none = np.zeros((*state.shape, state.shape[-1]))
        covariance = dynamics.moments(np.array(state), none, 0.0, dt).covariance
        return np.einsum("pii->i", covariance) / len(state)


def _divergence_error(terms: Mapping[str, float]) -> ConvergenceError:
    expected = "a field that stays finite with steps this fine"
    got = f"a field that diverges under {dict(terms)}"
    fix = "check the signs of the terms (the highest power should stabilise), or lower the noise"
    return ConvergenceError("equation", expected=expected, got=got, fix=fix)


# ---------- Batches of paths to a Zarr directory, renamed into place when complete


def stream_to_zarr(
    out: Path,
    batches: Iterator[xr.DataArray | xr.Dataset],
    n_paths: int,
    progress: Callable[[int, int], None] | None,
) -> xr.DataArray | xr.Dataset:
    """Append batches along ``path`` in a hidden sibling, then rename it to ``out``."""
    _check_target(out)
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        store, done, single = work / "store", 0, False
        for batch in batches:
            single = isinstance(batch, xr.DataArray)
            data = batch.to_dataset(name="field") if isinstance(batch, xr.DataArray) else batch
            at = "path" if done else None
            data.to_zarr(store, append_dim=at, zarr_format=3, consolidated=False)
            done += data.sizes["path"]
            if progress is not None:
                progress(done, n_paths)
        store.rename(out)
    finally:
        _remove(work)
    stored = xr.open_zarr(out, chunks=None, consolidated=False)
    return stored["field"] if single else stored


def _remove(folder: Path) -> None:
    """Remove a folder that writing threads may still be filling after an interrupt."""
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.02)


def _check_target(out: Path) -> None:
    optional("zarr", "simulate(out=...)", "zarr")
    if out.suffix != ".zarr":
        expected = "a directory name ending in .zarr"
        raise FileError("out", expected=expected, got=str(out), fix="out='paths.zarr'")
    if out.exists():
        fix = "remove it or choose another name"
        raise FileError("out", expected="a new name", got=f"{out} exists", fix=fix)
    if not out.parent.is_dir():
        fix = "create the folder first"
        raise FileError("out", expected="an existing folder", got=str(out.parent), fix=fix)


# ---------- Paths of a spectral SPDE as labelled fields


Progress = Callable[[int, int], None]

#: Bytes of one batch of fields; batches are whole blocks of paths.
BATCH_BYTES = 32e6


@overload
def simulate(
    equation: SpectralSPDE | Semilinear, n_paths: int, times: Any = ..., grid: Any = ..., *,
    seed: int = ..., scheme: str = ..., observation_std: float = ...,
    return_noise: Literal[False] = ..., out: str | Path | None = ...,
    chunks: int | None = ..., progress: Progress | None = ...,
) -> xr.DataArray: ...  # fmt: skip


@overload
def simulate(
    equation: SpectralSPDE | Semilinear, n_paths: int, times: Any = ..., grid: Any = ..., *,
    seed: int = ..., scheme: str = ..., observation_std: float = ..., return_noise: bool,
    out: str | Path | None = ..., chunks: int | None = ..., progress: Progress | None = ...,
) -> xr.DataArray | xr.Dataset: ...  # fmt: skip


@checked()
def simulate(
    equation: SpectralSPDE | Semilinear,
    n_paths: int,
    times: Any = None,
    grid: Any = None,
    *,
    seed: int = 0,
    scheme: str = "exact",
    observation_std: float = 0.0,
    return_noise: bool = False,
    out: str | Path | None = None,
    chunks: int | None = None,
    progress: Progress | None = None,
) -> xr.DataArray | xr.Dataset:
    """Simulate paths of an equation.

    Args:
        equation: what to simulate.
        n_paths: number of paths; the first k do not depend on it.
        times: increasing observation times, by default the equation's own.
        grid: spatial points, by default the domain's regular grid; in several dimensions a tuple
            of axes, or an array (n, d) of scattered points.
        seed: non-negative integer; the same seed gives the same paths.
        scheme: "exact" (no time-step error; for semilinear equations Strang steps, halved until
            the error stated in ``attrs["step_error"]`` is below 1 % of the noise of a step), or
            "semi_implicit" (the paper's and SPDEBench's, biased).
        observation_std: standard deviation of white noise added to each value.
        return_noise: also return the driving noise, without changing the paths.
        out: Zarr directory to stream to, for ensembles larger than memory; the result is
            then read lazily from there.
        chunks: approximate number of paths per block of a lazy result (Dask), which is simulated
            when it is computed; not with ``return_noise``.
        progress: called with (paths done, paths in all) after each batch.

    Returns:
        DataArray (path, time, x), or the domain's dims in place of x. With ``return_noise`` a
        Dataset with ``field``, ``noise_increment`` (path, time, mode), the increment of
        ``sqrt(q_n) beta_n`` since the time before, and ``noise_field`` (path, time, x), the same
        in space.

    Example:
        >>> import spdelaw as sl
        >>> fields = sl.simulate(sl.catalogue.heat(n_modes=8), n_paths=3, seed=0)
        >>> dict(fields.sizes)
        {'path': 3, 'time': 201, 'x': 101}
    """
    settings = (equation, n_paths, times, grid, seed, scheme, observation_std, return_noise)
    paths: Paths
    if isinstance(equation, Semilinear):
        paths = SemilinearPaths(*settings).with_steps()
    else:
        paths = LinearPaths(*settings)
    if out is not None:
        batches = (_simulate_batch(paths, *both) for both in _memory_batches(paths))
        return stream_to_zarr(Path(out), batches, paths.n_paths, progress)
    if chunks is not None:
        return _simulate_lazily(paths, chunks)
    return _simulate_in_memory(paths, progress)


def _simulate_lazily(paths: Paths, size: int) -> xr.DataArray:
    """All paths as a lazy array in blocks of about ``size``."""
    if paths.return_noise:
        expected, fix = "False with chunks=", "leave one of them out, or write with out="
        raise InputError("return_noise", expected=expected, got="True", fix=fix)
    da = optional("dask.array", "simulate(chunks=...)", "distributed")
    dask = optional("dask", "simulate(chunks=...)", "distributed")
    one = paths.label(paths.empty(1), 0, None)
    draw, delayed_paths = (
        dask.delayed(_simulate_batch, pure=False),
        dask.delayed(paths, pure=False, traverse=False),
    )
    blocks = [
        da.from_delayed(
            draw(delayed_paths, start, stop).values, (stop - start, *one.shape[1:]), float
        )
        for start, stop in _batch_ranges(paths.n_paths, size)
    ]
    coords = {name: c for name, c in one.coords.items() if "path" not in c.dims}
    labels = coords | {"path": np.arange(paths.n_paths)}
    return xr.DataArray(da.concatenate(blocks), labels, one.dims, one.name, one.attrs)


def _batch_ranges(n_paths: int, size: int) -> Iterator[tuple[int, int]]:
    """First and last path of batches of about ``size``, each of whole blocks."""
    return itertools.pairwise([*range(0, n_paths, BLOCK * -(-size // BLOCK)), n_paths])


def _memory_batches(paths: Paths) -> Iterator[tuple[int, int]]:
    """Batches of at most `BATCH_BYTES`, or of one block."""
    per_path = 8 * len(paths.times) * max(len(paths.grid), math.prod(paths.noise_shape))
    return _batch_ranges(paths.n_paths, BLOCK * max(1, int(BATCH_BYTES / per_path / BLOCK)))


def _simulate_in_memory(paths: Paths, progress: Progress | None) -> xr.DataArray | xr.Dataset:
    fields, noise = paths.empty(paths.n_paths), None
    if paths.return_noise:
        noise = np.empty((*fields.shape[:2], paths.equation.n_modes))
    for start, stop in _memory_batches(paths):
        increments = paths.fill(fields[start:stop], start)
        if noise is not None:
            noise[start:stop] = increments
        if progress is not None:
            progress(stop, paths.n_paths)
    return paths.label(fields, 0, noise)


def _simulate_batch(paths: Paths, start: int, stop: int) -> xr.DataArray | xr.Dataset:
    fields = paths.empty(stop - start)
    noise = paths.fill(fields, start)
    return paths.label(fields, start, noise)

"""Paths of a spectral SPDE as labelled fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import xarray as xr

from spdelaw.equation import Semilinear, SpectralSPDE, operators
from spdelaw.simulation._noise import (
    BLOCK,
    BRIDGE,
    INITIAL,
    OBSERVATION,
    PATHS,
    normals,
)
from spdelaw.simulation._request import Request, check_request
from spdelaw.simulation._schemes import Steps, recurse, steps
from spdelaw.simulation._semilinear import simulate_semilinear
from spdelaw.simulation._stream import stream_to_zarr

Array = np.ndarray
Progress = Callable[[int, int], None]

#: Bytes of one batch of fields; batches are whole blocks of paths.
BATCH_BYTES = 32e6


class Plan(NamedTuple):
    """Everything a batch of paths needs, checked once."""

    equation: SpectralSPDE
    n_paths: int
    times: Array
    grid: Array
    eigenfunctions: Array
    rule: Steps
    scheme: str
    seed: int
    observation_std: float
    return_noise: bool


@overload
def simulate(
    equation: SpectralSPDE | Semilinear, n_paths: int, times: Any = ..., grid: Any = ..., *,
    seed: int = ..., scheme: str = ..., observation_std: float = ...,
    return_noise: Literal[False] = ..., out: str | Path | None = ...,
    progress: Progress | None = ...,
) -> xr.DataArray: ...  # fmt: skip
@overload
def simulate(
    equation: SpectralSPDE | Semilinear, n_paths: int, times: Any = ..., grid: Any = ..., *,
    seed: int = ..., scheme: str = ..., observation_std: float = ..., return_noise: bool,
    out: str | Path | None = ..., progress: Progress | None = ...,
) -> xr.DataArray | xr.Dataset: ...  # fmt: skip
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
    progress: Progress | None = None,
) -> xr.DataArray | xr.Dataset:
    """Simulate paths of an equation.

    Args:
        equation: what to simulate.
        n_paths: how many paths; the first k never depend on it.
        times: increasing observation times, by default the equation's own.
        grid: spatial points, by default the domain's regular grid; in several dimensions a tuple
            of axes, or an array (n, d) of scattered points.
        seed: non-negative integer; the same seed gives the same paths.
        scheme: "exact" (no time-step error; for semilinear equations Strang steps, halved until
            the error stated in ``attrs["step_error"]`` is below 0.1 %), or "semi_implicit" (the
            paper's and SPDEBench's, biased).
        observation_std: standard deviation of white noise added to each value.
        return_noise: also return the driving noise, without changing the paths.
        out: Zarr directory to stream to, for ensembles larger than memory; the result is
            then read lazily from there.
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
    request = check_request(
        equation, n_paths, times, grid, seed=seed, scheme=scheme, observation_std=observation_std,
        return_noise=return_noise,
    )  # fmt: skip
    if isinstance(equation, Semilinear):
        return simulate_semilinear(equation, request, out, progress)
    plan = _plan(equation, request)
    if out is not None:
        return stream_to_zarr(Path(out), _batches(plan), plan.n_paths, progress)
    return _in_memory(plan, progress)


def _plan(e: SpectralSPDE, r: Request) -> Plan:
    h = e.domain.eigenfunctions(r.grid, e.n_modes)
    rule = steps(e, r.times, r.scheme)
    return Plan(
        e, r.n_paths, r.times, r.grid, h, rule, r.scheme, r.seed, r.observation_std, r.return_noise
    )


def _batch_size(plan: Plan) -> int:
    per_path = 8 * len(plan.times) * max(len(plan.grid), plan.equation.n_modes)
    return BLOCK * max(1, int(BATCH_BYTES / per_path / BLOCK))


def _in_memory(plan: Plan, progress: Progress | None) -> xr.DataArray | xr.Dataset:
    shape = (plan.n_paths, len(plan.times), len(plan.grid))
    fields = np.empty(shape)
    noise = np.empty((*shape[:2], plan.equation.n_modes)) if plan.return_noise else None
    size = _batch_size(plan)
    for start in range(0, plan.n_paths, size):
        stop = min(start + size, plan.n_paths)
        increments = _write_batch(plan, start, fields[start:stop])
        if noise is not None:
            noise[start:stop] = increments
        if progress is not None:
            progress(stop, plan.n_paths)
    return _label(plan, fields, noise, 0)


def _batches(plan: Plan) -> Iterator[xr.DataArray | xr.Dataset]:
    size = _batch_size(plan)
    for start in range(0, plan.n_paths, size):
        n = min(size, plan.n_paths - start)
        fields = np.empty((n, len(plan.times), len(plan.grid)))
        noise = _write_batch(plan, start, fields)
        yield _label(plan, fields, noise, start)


def _write_batch(plan: Plan, start: int, fields: Array) -> Array | None:
    """Fill ``fields`` with paths ``start, ...``; return their noise increments if wanted."""
    e, n = plan.equation, len(fields)
    shape = (len(plan.times), e.n_modes)
    z = normals(plan.seed, PATHS, start, n, shape)
    noise = _increments(plan, start, z) if plan.return_noise else None
    c = recurse(_initial_states(plan, start, n), z, plan.rule)
    if e.dynamics.is_driven:
        c = c + e.forced_mean(plan.times)
    np.matmul(
        c.reshape(-1, e.n_modes), plan.eigenfunctions.T, out=fields.reshape(-1, len(plan.grid))
    )
    if plan.observation_std > 0:
        fields += plan.observation_std * normals(plan.seed, OBSERVATION, start, n, fields.shape[1:])
    return noise


def _initial_states(plan: Plan, start: int, n: int) -> Array:
    e = plan.equation
    if not e.initial_variance.any():
        return np.broadcast_to(e.initial_mean, (n, e.n_modes))
    z = normals(plan.seed, INITIAL, start, n, (e.n_modes,))
    covariance = e.initial_state.covariance
    if operators.is_diagonal(covariance):
        return e.initial_mean + np.sqrt(covariance) * z
    values, vectors = np.linalg.eigh(covariance)
    return e.initial_mean + (z * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def _increments(plan: Plan, start: int, z: Array) -> Array:
    """``sqrt(q) (beta(t_{i+1}) - beta(t_i))`` that belongs to the path of the normals z."""
    increments = operators.apply_each(plan.rule.driving, z)
    if plan.rule.bridge.any():
        rest = normals(plan.seed, BRIDGE, start, len(z), z.shape[1:])
        increments += operators.apply_each(plan.rule.bridge, rest)
    return increments


def _label(plan: Plan, fields: Array, noise: Array | None, start: int) -> xr.DataArray | xr.Dataset:
    places = plan.equation.domain.places(plan.grid)
    dims = ("path", "time", *places.dims)
    coords: dict[str, Any] = {
        "path": np.arange(start, start + len(fields)),
        "time": plan.times,
        **places.coords,
    }
    field = xr.DataArray(places.unflatten(fields), coords, dims, name="field")
    field.attrs = _attributes(plan)
    if noise is None:
        return field
    increments = xr.DataArray(
        noise,
        dims=("path", "time", "mode"),
        coords={**{k: coords[k] for k in ("path", "time")}, "mode": plan.equation._modes},
    )
    in_space = (dims, places.unflatten(noise @ plan.eigenfunctions.T))
    return xr.Dataset(
        {"field": field, "noise_increment": increments, "noise_field": in_space},
        attrs=field.attrs,
    )


def _attributes(plan: Plan) -> dict[str, Any]:
    return {
        "title": plan.equation.label or "spectral SPDE",
        "equation": json.dumps(plan.equation.to_dict()),
        "scheme": plan.scheme,
        "seed": plan.seed,
        "observation_std": plan.observation_std,
        "source": "spdelaw.simulate",
    }

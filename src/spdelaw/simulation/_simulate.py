"""Paths of a spectral SPDE as labelled fields."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import xarray as xr

from spdelaw.checks import optional, whole
from spdelaw.equation import Semilinear, SpectralSPDE
from spdelaw.errors import InputError
from spdelaw.simulation._linear import LinearPaths
from spdelaw.simulation._noise import BLOCK
from spdelaw.simulation._request import check_request
from spdelaw.simulation._semilinear import SemilinearPaths, semilinear_paths
from spdelaw.simulation._stream import stream_to_zarr

Array = np.ndarray
Progress = Callable[[int, int], None]
#: Paths of a request: ``draw`` gives their coefficients and, where wanted, their noise.
Paths = LinearPaths | SemilinearPaths

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
        chunks: paths of each block of a lazy result (Dask), drawn where and when it is asked for;
            about so many, and without ``return_noise``.
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
    asked = (equation, n_paths, times, grid, seed, scheme, observation_std, return_noise)
    request = check_request(*asked)
    paths: Paths
    if isinstance(equation, Semilinear):
        paths = semilinear_paths(request, equation)
    else:
        paths = LinearPaths(request, equation)
    if out is not None:
        return stream_to_zarr(Path(out), _batches(paths), request.n_paths, progress)
    if chunks is not None:
        return _lazy(paths, whole("chunks", chunks, 1))
    return _in_memory(paths, progress)


def _lazy(paths: Paths, size: int) -> xr.DataArray:
    """All paths as a lazy array in blocks of about ``size``."""
    if paths.request.return_noise:
        expected, fix = "False with chunks=", "leave one of them out, or write with out="
        raise InputError("return_noise", expected=expected, got="True", fix=fix)
    da = optional("dask.array", "simulate(chunks=...)", "distributed")
    dask = optional("dask", "simulate(chunks=...)", "distributed")
    r, step = paths.request, BLOCK * -(-size // BLOCK)
    one = r.label(np.zeros((1, len(r.times), len(r.grid))), 0, paths.attributes)
    draw, own = dask.delayed(_drawn, pure=False), dask.delayed(paths, pure=False, traverse=False)
    ends = [*range(0, r.n_paths, step), r.n_paths]
    blocks = [
        da.from_delayed(draw(own, start, stop), (stop - start, *one.shape[1:]), float)
        for start, stop in itertools.pairwise(ends)
    ]
    coords = {name: c for name, c in one.coords.items() if "path" not in c.dims}
    values = da.concatenate(blocks)
    labels = coords | {"path": np.arange(r.n_paths)}
    return xr.DataArray(values, labels, one.dims, one.name, one.attrs)


def _drawn(paths: Paths, start: int, stop: int) -> Array:
    fields = np.empty((stop - start, len(paths.request.times), len(paths.request.grid)))
    _write_batch(paths, start, fields)
    return np.asarray(paths.request.label(fields, start, paths.attributes).values)


def _ranges(paths: Paths) -> Iterator[tuple[int, int]]:
    """First and last path of each batch."""
    r = paths.request
    per_path = 8 * len(r.times) * max(len(r.grid), paths.width)
    size = BLOCK * max(1, int(BATCH_BYTES / per_path / BLOCK))
    for start in range(0, r.n_paths, size):
        yield start, min(start + size, r.n_paths)


def _in_memory(paths: Paths, progress: Progress | None) -> xr.DataArray | xr.Dataset:
    r = paths.request
    fields = np.empty((r.n_paths, len(r.times), len(r.grid)))
    noise = np.empty((*fields.shape[:2], r.equation.n_modes)) if r.return_noise else None
    for start, stop in _ranges(paths):
        increments = _write_batch(paths, start, fields[start:stop])
        if noise is not None:
            noise[start:stop] = increments
        if progress is not None:
            progress(stop, r.n_paths)
    return _label(paths, fields, noise, 0)


def _batches(paths: Paths) -> Iterator[xr.DataArray | xr.Dataset]:
    r = paths.request
    for start, stop in _ranges(paths):
        fields = np.empty((stop - start, len(r.times), len(r.grid)))
        noise = _write_batch(paths, start, fields)
        yield _label(paths, fields, noise, start)


def _write_batch(paths: Paths, start: int, fields: Array) -> Array | None:
    """Fill ``fields`` with paths ``start, ...``; return their noise increments if wanted."""
    c, noise = paths.draw(start, len(fields))
    flat = fields.reshape(-1, fields.shape[-1])
    np.matmul(c.reshape(-1, c.shape[-1]), paths.request.eigenfunctions.T, out=flat)
    paths.request.add_noise(fields, start)
    return noise


def _label(
    paths: Paths, fields: Array, noise: Array | None, start: int
) -> xr.DataArray | xr.Dataset:
    field = paths.request.label(fields, start, paths.attributes)
    if noise is None:
        return field
    mode = np.arange(1, noise.shape[-1] + 1)
    coords = {"path": field["path"].values, "time": field["time"].values, "mode": mode}
    places = paths.request.equation.domain.places(paths.request.grid)
    in_space = places.unflatten(noise @ paths.request.eigenfunctions.T)
    variables = {
        "field": field,
        "noise_increment": xr.DataArray(noise, coords, ("path", "time", "mode")),
        "noise_field": (field.dims, in_space),
    }
    return xr.Dataset(variables, attrs=field.attrs)

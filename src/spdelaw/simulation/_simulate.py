"""Paths of a spectral SPDE as labelled fields."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import xarray as xr

from spdelaw.checks import optional, whole
from spdelaw.equation import Semilinear, SpectralSPDE
from spdelaw.errors import InputError
from spdelaw.simulation._linear import LinearPaths
from spdelaw.simulation._paths import BLOCK, Paths
from spdelaw.simulation._semilinear import SemilinearPaths
from spdelaw.simulation._stream import stream_to_zarr

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
            the error stated in ``attrs["step_error"]`` is below 1 % of the noise of a step), or
            "semi_implicit" (the paper's and SPDEBench's, biased).
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
    paths: Paths
    if isinstance(equation, Semilinear):
        paths = SemilinearPaths(*asked).with_steps()
    else:
        paths = LinearPaths(*asked)
    if out is not None:
        batches = (_batch(paths, *both) for both in _usual(paths))
        return stream_to_zarr(Path(out), batches, paths.n_paths, progress)
    if chunks is not None:
        return _lazy(paths, whole("chunks", chunks, 1))
    return _in_memory(paths, progress)


def _lazy(paths: Paths, size: int) -> xr.DataArray:
    """All paths as a lazy array in blocks of about ``size``."""
    if paths.return_noise:
        expected, fix = "False with chunks=", "leave one of them out, or write with out="
        raise InputError("return_noise", expected=expected, got="True", fix=fix)
    da = optional("dask.array", "simulate(chunks=...)", "distributed")
    dask = optional("dask", "simulate(chunks=...)", "distributed")
    one = paths.label(paths.empty(1), 0, None)
    draw, own = dask.delayed(_batch, pure=False), dask.delayed(paths, pure=False, traverse=False)
    blocks = [
        da.from_delayed(draw(own, start, stop).values, (stop - start, *one.shape[1:]), float)
        for start, stop in _ranges(paths.n_paths, size)
    ]
    coords = {name: c for name, c in one.coords.items() if "path" not in c.dims}
    labels = coords | {"path": np.arange(paths.n_paths)}
    return xr.DataArray(da.concatenate(blocks), labels, one.dims, one.name, one.attrs)


def _ranges(n_paths: int, size: int) -> Iterator[tuple[int, int]]:
    """First and last path of batches of about ``size``, each of whole blocks."""
    return itertools.pairwise([*range(0, n_paths, BLOCK * -(-size // BLOCK)), n_paths])


def _usual(paths: Paths) -> Iterator[tuple[int, int]]:
    """Batches of at most `BATCH_BYTES`, or of one block."""
    per_path = 8 * len(paths.times) * max(len(paths.grid), math.prod(paths.noise_shape))
    return _ranges(paths.n_paths, BLOCK * max(1, int(BATCH_BYTES / per_path / BLOCK)))


def _in_memory(paths: Paths, progress: Progress | None) -> xr.DataArray | xr.Dataset:
    fields, noise = paths.empty(paths.n_paths), None
    if paths.return_noise:
        noise = np.empty((*fields.shape[:2], paths.equation.n_modes))
    for start, stop in _usual(paths):
        increments = paths.fill(fields[start:stop], start)
        if noise is not None:
            noise[start:stop] = increments
        if progress is not None:
            progress(stop, paths.n_paths)
    return paths.label(fields, 0, noise)


def _batch(paths: Paths, start: int, stop: int) -> xr.DataArray | xr.Dataset:
    fields = paths.empty(stop - start)
    noise = paths.fill(fields, start)
    return paths.label(fields, start, noise)

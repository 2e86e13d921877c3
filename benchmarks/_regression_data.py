"""Small data sets of every kind for `benchmarks.regression`, from plain NumPy and fixed seeds.

The numbers must be the same on every machine and under every version of the package: nothing is
drawn by ``sl.simulate``, and what comes from exponentials, sines and linear algebra is rounded to
eleven decimals before it is used, so that only sums and products of equal numbers are left.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable
from typing import Any

from benchmarks import _timing  # noqa: F401  (sets the number of threads before NumPy loads)

import numpy as np  # isort: skip
import xarray as xr  # isort: skip
from scipy import linalg  # isort: skip

import spdelaw as sl  # isort: skip

Array = np.ndarray

DECIMALS = 11
INTERVAL = sl.Interval(0, np.pi)
#: Paths that no fit sees, for what a law says of new data. The first two share their gaps and
#: their clock, and so do the last two: a constant cancels in the difference of a pair.
N_NEW = 4


@dataclasses.dataclass(frozen=True)
class Data:
    """One data set: fields to learn from, new fields, and bare arrays of the former.

    Attributes:
        train, new: labelled fields.
        values: (path, time, point), NaN where missing; those of ``train``.
        times: (time,), or (path, time).
        points: (point,), or (point, d).
        domain: where the fields live.
    """

    train: xr.DataArray
    new: xr.DataArray
    values: Array
    times: Array
    points: Array
    domain: sl.AbstractDomain

    @property
    def sha256(self) -> str:
        """Of all values and times, learned from and new."""
        own = [f["path_time"] if "path_time" in f.coords else f["time"] for f in self._fields]
        times = [t.values.astype("M8[ns]").astype(int) if t.dtype.kind == "M" else t for t in own]
        parts = [np.ascontiguousarray(a) for a in (*self._fields, *times)]
        return hashlib.sha256(b"".join(a.tobytes() for a in parts)).hexdigest()

    @property
    def _fields(self) -> tuple[xr.DataArray, xr.DataArray]:
        return self.train, self.new


def make(
    domain: sl.AbstractDomain = INTERVAL,
    *,
    points: Any = 17,
    n_true: int = 3,
    n_paths: int = 12,
    n_times: int = 16,
    drift: Any = None,
    noise: Any = None,
    start: float = 1.0,
    spread: float = 0.0,
    error: Any = 0.0,
    gaps: str = "none",
    clock: str = "even",
    push: Callable[[float], Array] | None = None,
    season: Callable[[float], float] | None = None,
    seed: int = 0,
) -> Data:
    """Fields of ``n_true`` modes with exact transitions.

    Args:
        domain: where they live.
        points: how many on the grid of the domain, a tuple of axes, or the points themselves.
        n_true: modes of the fields.
        n_paths: to learn from.
        n_times: of each path, a tenth apart.
        drift: ``Lambda``, (N, N), or its diagonal; one half more than the domain's eigenvalues.
        noise: ``Q``, (N, N), or its diagonal; ``1 / n`` by default.
        start: initial state of the first mode; that of the n-th is ``start / n``.
        spread: standard deviation of the initial states around it.
        error: standard deviation of the observation noise, or one a point.
        gaps: "none", "random", "rows", "sensors" or "blocks".
        clock: "even", "uneven", "own" (each path its own times) or "ragged" (of its own length).
        push: known forcing of the modes at a time, held over each step.
        season: strength of the noise at a time, held over each step.
        seed: of everything random.
    """
    rng = np.random.default_rng(seed)
    total = n_paths + N_NEW
    times = _times(rng, total, n_times, clock)
    lam = np.round(domain.eigenvalues(n_true), DECIMALS) + 0.5 if drift is None else drift
    q = 1.0 / np.arange(1, n_true + 1) if noise is None else noise
    step = functools.cache(functools.partial(_step, _matrix(lam), _matrix(q)))
    mean = start / np.arange(1, n_true + 1)
    paths = [_path(rng, t, step, mean, spread, push, season) for t in times]
    table = _points(domain, points)
    modes = np.round(domain.eigenfunctions(table, n_true), DECIMALS)
    values = (np.stack(paths)[:, :, None] * modes).sum(-1)
    values = values + np.asarray(error) * rng.standard_normal(values.shape)
    values[_hidden(rng, values.shape, gaps)] = np.nan
    if clock == "ragged":
        _cut(values, times)
    shared = clock in ("even", "uneven")
    return _labelled(values, times[0] if shared else times, points, table, domain, n_paths)


def dated(data: Data) -> Data:
    """The same fields, monthly, warmer towards summer: something to prepare."""
    n = data.train.sizes["time"]
    months = np.arange(n)
    dates = (np.datetime64("2001-01") + months).astype("M8[D]").astype("M8[ns]")
    cycle = 20.0 + np.round(3.0 * np.cos(2.0 * np.pi * months / 12.0), DECIMALS)
    warm = xr.DataArray(cycle, dims="time", coords={"time": dates})
    train, new = ((f.assign_coords(time=dates) * 2.0 + warm) for f in (data.train, data.new))
    return dataclasses.replace(data, train=train, new=new)


# -- paths ---------------------------------------------------------------------------------


def _times(rng: np.random.Generator, n_paths: int, n_times: int, clock: str) -> Array:
    """Times of each path, (path, time); pairs of new paths share theirs."""
    even = np.arange(n_times) / 10.0
    if clock == "even":
        return np.tile(even, (n_paths, 1))
    shift = np.round(rng.uniform(-0.03, 0.03, (n_paths, n_times)), 4)
    if clock == "uneven":
        return np.tile(even + shift[0] - shift[0, 0], (n_paths, 1))
    shift[:, 0] = np.where(np.arange(n_paths) % 3 == 0, 0.0, np.abs(shift[:, 0]))  # some join late
    return _in_pairs(even + shift)


def _in_pairs(rows: Array) -> Array:
    """Rows in which the last four are two, twice."""
    rows[-3], rows[-1] = rows[-4], rows[-2]
    return rows


def _path(
    rng: np.random.Generator, times: Array, step: Callable, mean: Array, spread: float,
    push: Callable[[float], Array] | None, season: Callable[[float], float] | None,
) -> Array:  # fmt: skip
    """Coefficients of one path, (time, mode)."""
    c = np.empty((len(times), len(mean)))
    c[0] = mean + spread * rng.standard_normal(len(mean))
    for t, dt in enumerate(np.round(np.diff(times), DECIMALS)):
        factor, root = step(float(dt))
        z = rng.standard_normal(len(mean))
        strength = 1.0 if season is None else np.sqrt(season(times[t] + 0.5 * dt))
        drive = 0.0 if push is None else dt * push(times[t])
        c[t + 1] = (factor * c[t]).sum(-1) + strength * (root * z).sum(-1) + drive
    return c


def _step(drift: Array, noise: Array, dt: float) -> tuple[Array, Array]:
    """``F = e^(-Lambda dt)`` and a root of ``Omega``, by Van Loan's block exponential."""
    n = len(drift)
    block = linalg.expm(dt * np.block([[drift, noise], [np.zeros((n, n)), -drift.T]]))
    factor = block[n:, n:].T
    omega = factor @ block[:n, n:]
    root = np.linalg.cholesky(0.5 * (omega + omega.T))
    return np.round(factor, DECIMALS), np.round(root, DECIMALS)


def _matrix(given: Any) -> Array:
    a = np.asarray(given, float)
    return np.diag(a) if a.ndim == 1 else a


# -- what is seen of them ------------------------------------------------------------------


def _hidden(rng: np.random.Generator, shape: tuple[int, ...], gaps: str) -> Array:
    """What is missing; pairs of new paths miss the same."""
    hidden = np.zeros(shape, bool)
    if gaps == "random":
        hidden = rng.random(shape) < 0.3
    elif gaps == "rows":
        hidden[rng.random(shape[:2]) < 0.25] = True
        hidden[:, 0] = False
    elif gaps == "sensors":
        hidden[..., rng.permutation(shape[2])[: shape[2] // 3]] = True
    elif gaps == "blocks":
        for path in hidden:
            t, m = rng.integers(0, shape[1] - 4), rng.integers(0, shape[2] - 5)
            path[t : t + 4, m : m + 5] = True
    return _in_pairs(hidden)


def _cut(values: Array, times: Array) -> None:
    """End every other pair of paths three times early."""
    short = np.arange(len(values)) // 2 % 2 == 1
    values[short, -3:] = np.nan
    times[short, -3:] = np.nan


def _points(domain: sl.AbstractDomain, points: Any) -> Array:
    return domain.grid(points) if isinstance(points, int) else domain.check_points(points)


def _labelled(
    values: Array, times: Array, points: Any, table: Array, domain: sl.AbstractDomain, n: int
) -> Data:
    """Fields with coordinates; values on a tuple of axes become a grid, NaN outside the domain."""

    def fields(part: slice) -> xr.DataArray:
        own = times if times.ndim == 1 else times[part]
        given, where = values[part], table
        if isinstance(points, tuple):
            where, given = points, given.reshape(*given.shape[:2], *map(len, points))
        return sl.as_fields(given, times=own, points=where, dims=domain.dims)

    own = times if times.ndim == 1 else times[:n]
    return Data(fields(slice(n)), fields(slice(n, None)), values[:n], own, table, domain)


def gridded(data: Data) -> Data:
    """Scattered points of a grid as that grid, NaN in its holes."""
    dims = list(data.domain.dims)

    def grid(fields: xr.DataArray) -> xr.DataArray:
        return fields.set_index(point=dims).unstack("point").transpose("path", "time", *dims)

    return dataclasses.replace(data, train=grid(data.train), new=grid(data.new))

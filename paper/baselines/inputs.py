"""What a system is given: a grid, complete fields, a tier of noise, and the tensors of both.

The noise comes in three tiers:

- hidden: nothing, as when only paths are observed; the input is zero;
- independent: a draw that is independent of the path (the paper's setting for SV&NN);
- observed: the increments that drove the path, which these systems were built for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

import spdelaw as sl
from spdelaw.errors import DataError, InputError

Array = np.ndarray
#: Relative difference below which two steps count as equal.
EQUAL = 1e-6
#: Share of the paths held out for validation where the caller passes none.
HELD_OUT = 0.15
TIERS = ("hidden", "independent", "observed")


class Grid(NamedTuple):
    """Times (T,), points (M,) and domain of the fields."""

    times: Array
    points: Array
    domain: sl.AbstractDomain

    @property
    def shape(self) -> tuple[int, int]:
        """(T, M)."""
        return len(self.times), len(self.points)

    @property
    def dt(self) -> float:
        """Step between equidistant times."""
        return float(np.ptp(self.times) / (len(self.times) - 1))

    @property
    def dx(self) -> float:
        """Step between equidistant points."""
        return float(np.ptp(self.points) / (len(self.points) - 1))

    def unit(self) -> tuple[Tensor, Tensor]:
        """Times and points scaled to [0, 1], float32."""
        return _unit(self.times), _unit(self.points)

    def matches(self, other: Grid) -> bool:
        """Whether the other grid has the same times and points."""
        if self.shape != other.shape:
            return False
        return np.allclose(self.times, other.times) and np.allclose(self.points, other.points)

    def require_regular(self, system: str) -> None:
        """Raise `DataError` where times or points are not equidistant."""
        for what, values in (("time", self.times), (self.domain.dims[0], self.points)):
            steps = np.diff(values)
            if len(values) < 3 or np.ptp(steps) > EQUAL * abs(steps).max():
                raise DataError(
                    what,
                    expected=f"at least three equidistant values, which {system} needs",
                    got=f"{len(values)} values, steps from {steps.min():g} to {steps.max():g}"
                    if len(steps)
                    else "a single value",
                    fix="interpolate to a regular grid, or use DeepONet or SVNN",
                )

    def without_dirichlet_end(self) -> Grid:
        """Grid without its last point where a Dirichlet end makes the field vanish there.

        The published loader leaves out the last of the 101 points of Regime B. A network has
        nothing to learn at such an end: the prediction there is the boundary value, 0.
        """
        d = self.domain
        if not isinstance(d, sl.Interval) or d.boundary != "dirichlet":
            return self
        at_end = abs(self.points[-1] - d.b) <= EQUAL * d.volume
        return self._replace(points=self.points[:-1]) if at_end else self


def _unit(values: Array) -> Tensor:
    return torch.from_numpy((values - values[0]) / max(np.ptp(values), 1e-300)).float()


# ------------------------------------------------------------------ fields


def fields_of(data: Any, domain: sl.AbstractDomain) -> xr.DataArray:
    """Complete fields (path, time, x) of data, or `DataError`."""
    given = data["field"] if isinstance(data, xr.Dataset) and "field" in data else data
    fields = sl.as_fields(given, dims=domain.dims)
    if len(domain.dims) != 1:
        expected = "one dimension of space, which these systems are for"
        fix = "use sl.fit, which supports other domains"
        raise DataError("domain", expected=expected, got=f"{len(domain.dims)}", fix=fix)
    if "path_time" in fields.coords or not np.isfinite(fields.values).all():
        expected = "complete fields with the same times for all paths, which these systems need"
        got = "times that differ by path" if "path_time" in fields.coords else "missing values"
        fix = "use sl.fit, which learns through gaps, or leave such paths out"
        raise DataError("fields", expected=expected, got=got, fix=fix)
    if fields.sizes["time"] < 3 or not np.any(fields.values[:, 1:], axis=(1, 2)).all():
        expected = "at least three times, and no path that is zero throughout"
        fix = "leave out such paths: they have no norm"
        raise DataError("fields", expected=expected, got=f"{fields.sizes['time']} times", fix=fix)
    return fields


def grid_of(fields: xr.DataArray, domain: sl.AbstractDomain) -> Grid:
    """Times and points of fields."""
    points = domain.check_points(fields[domain.dims[0]].values)
    return Grid(np.asarray(fields["time"].values, float), points, domain)


def split_off(data: Any, seed: int) -> tuple[Any, Any]:
    """Training and validation data, split by path; a Dataset keeps its noise."""
    is_dataset = isinstance(data, xr.Dataset)
    fields = data["field"] if is_dataset and "field" in data else sl.as_fields(data)
    train, validation = sl.split(fields, (1.0 - HELD_OUT, HELD_OUT), seed=seed)
    if not is_dataset:
        return train, validation
    return data.sel(path=train["path"]), data.sel(path=validation["path"])


def labelled(values: Array, grid: Grid) -> xr.DataArray:
    """Values (path, time, x) on a grid as fields."""
    coords = {"path": np.arange(len(values)), "time": grid.times, grid.domain.dims[0]: grid.points}
    return xr.DataArray(values, dims=tuple(coords), coords=coords)


# ------------------------------------------------------------------ noise


def check_tier(noise: Any, tiers: tuple[str, ...] = TIERS) -> str:
    """One of the tiers of a system, or `InputError`."""
    if noise not in tiers:
        expected, fix = f"one of {tiers}", f"pass noise={tiers[0]!r}"
        raise InputError("noise", expected=expected, got=repr(noise), fix=fix)
    return noise


def noise_variable(data: Any, name: str) -> Array:
    """A variable of the driving noise, or `DataError` where the data have none."""
    if not (isinstance(data, xr.Dataset) and name in data):
        raise DataError(
            "data",
            expected=f"a Dataset with 'field' and '{name}' for noise='observed'",
            got=f"a Dataset with {sorted(map(str, data))}"
            if isinstance(data, xr.Dataset)
            else type(data).__name__,
            fix="pass sl.simulate(..., return_noise=True), or noise='hidden'",
        )
    values = np.asarray(data[name].transpose("path", "time", ...).values, float)
    if not np.isfinite(values).all():
        fix = "leave out the paths whose noise is missing"
        raise DataError(name, expected="finite increments", got="NaN or infinite values", fix=fix)
    return values


def independent_increments(n_paths: int, times: Array, n_points: int, seed: int) -> Array:
    """Increments of variance ``dt`` at every point, zero at the first time; (P, T, M)."""
    z = np.random.default_rng(seed).standard_normal((n_paths, len(times), n_points))
    return z * np.sqrt(np.diff(times, prepend=times[0]))[:, None]


# ------------------------------------------------------------------ tensors


@dataclasses.dataclass(frozen=True)
class Cases:
    """Paths as the tensors that a network takes.

    Attributes:
        initial: states at the first time, (P, M).
        drive: noise that the system is given, (P, ...).
        target: fields after the first time, (P, T - 1, M).

    Where all paths have the same inputs, `initial` and `drive` have one row: one forward pass
    then serves the whole batch, exactly.
    """

    initial: Tensor
    drive: Tensor
    target: Tensor

    def __len__(self) -> int:
        return len(self.target)

    @property
    def shared(self) -> bool:
        """Whether all paths share one input."""
        return len(self.initial) == 1

    def take(self, where: Tensor | slice) -> Cases:
        """Some of the paths."""
        if self.shared:
            return Cases(self.initial, self.drive, self.target[where])
        return Cases(self.initial[where], self.drive[where], self.target[where])

    def batches(self, size: int, order: Array | None = None) -> Iterator[Cases]:
        """Consecutive batches in the given order; the last one may be short."""
        for start in range(0, len(self.target), size):
            rows = slice(start, start + size)
            yield self.take(rows if order is None else torch.from_numpy(order[rows]))

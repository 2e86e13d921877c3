"""What a fit sees: bare arrays from checked fields, with the checks a fit adds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data import as_fields
from spdelaw.domain import AbstractDomain
from spdelaw.errors import DataError

Array = np.ndarray

#: Bytes of one chunk of the single pass over complete data; it should stay in cache.
CHUNK_BYTES = 2e6


class Observed(NamedTuple):
    """Fields as arrays: values (P, T, M), times (T,) or (P, T), points (M,)."""

    values: Any
    times: Array
    points: Array
    fields: xr.DataArray

    @property
    def n_paths(self) -> int:
        """Number of paths."""
        return int(self.fields.sizes["path"])

    @property
    def span(self) -> float:
        """Longest time between the first and the last observation of a path."""
        return float(np.ptp(self.times, axis=-1).max())

    def chunks(self) -> Iterator[Array]:
        """Whole paths, a few at a time; lazy arrays are loaded chunk by chunk."""
        per_path = 8 * int(np.prod(self.fields.shape[1:]))
        step = max(1, int(CHUNK_BYTES / per_path))
        if not isinstance(self.values, np.ndarray):
            step = max(step, int(32e6 / per_path))
        for start in range(0, self.n_paths, step):
            yield np.asarray(self.values[start : start + step])

    def load(self) -> Array:
        """All values in memory."""
        return np.asarray(self.values)


def observe(data: Any, domain: AbstractDomain, **adapter: Any) -> Observed:
    """Fields of the domain as arrays, or `DataError`."""
    fields = as_fields(data, dims=domain.dims, **adapter)
    (dim,) = domain.dims
    points = domain.check_points(fields[dim].values)
    if fields.sizes["time"] < 2:
        raise DataError(
            "time", expected="at least two times", got=str(fields.sizes["time"]),
            fix="a law is learned from change; observe the field more than once",
        )  # fmt: skip
    if "path_time" in fields.coords:
        times = _common_start(fields["path_time"].values)
        return Observed(*_with_start(fields, times), points, fields)
    values = fields.variable._data if fields.chunks is not None else fields.values
    return Observed(values, fields["time"].values, points, fields)


def _common_start(own: Array) -> Array:
    """Padding after the last time of a ragged path continues its clock without observations."""
    times = np.array(own, dtype=float)
    step = np.nanmedian(np.diff(times, axis=1))
    for row in times:
        gap = np.flatnonzero(np.isnan(row))
        if gap.size:
            row[gap] = row[gap[0] - 1] + step * np.arange(1, gap.size + 1)
    return times


def _with_start(fields: xr.DataArray, times: Array) -> tuple[Array, Array]:
    """All paths start at the earliest time, unobserved where they joined later."""
    values = fields.values
    start = times[:, 0].min()
    late = times[:, 0] > start
    if not late.any():
        return values, times
    empty = np.full((len(values), 1, values.shape[2]), np.nan)
    step = np.median(np.diff(times, axis=1))
    first = np.hstack([np.full((len(times), 1), start), times])
    # A path that is there from the start needs no extra node; give it one after its end.
    first[~late] = np.hstack([times[~late], times[~late, -1:] + step])
    padded = np.concatenate([empty, values], axis=1)
    padded[~late] = np.concatenate([values[~late], empty[~late]], axis=1)
    return padded, first

"""Per-path clocks: ragged paths get one matrix of times without holes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import xarray as xr

Array = np.ndarray

#: Times that differ by less than this share of the record are one.
SAME_TIME = 1e-10


def shared_clock(fields: xr.DataArray, start: float | None = None) -> tuple[Array, Array]:
    """Values (P, T, M) and times (T,) from ``start`` on, unobserved where the data come later."""
    times, values = fields["time"].values, np.asarray(fields.values)
    if start is None or not times[0] > start:
        return values, times
    return np.insert(values, 0, np.nan, axis=1), np.insert(times, 0, start)


def own_rows(fields: xr.DataArray, times: Array) -> Array:
    """Where the rows of the fields are on a clock of this module; (P, T)."""
    own = fields["path_time"].values[:, 0] if times.ndim == 2 else fields["time"].values[0]
    first = np.broadcast_to(times[..., 0] < own, fields.sizes["path"]).astype(int)
    return first[:, None] + np.arange(fields.sizes["time"])


def own_clock(fields: xr.DataArray, start: float | None = None) -> tuple[Array, Array]:
    """Values (P, T, M) and times (P, T) of fields with a ``path_time`` coordinate.

    Padding after a path's last time continues its clock without observations, which changes
    no likelihood. All paths start at the earliest time, or at ``start`` where that is earlier,
    unobserved where they joined later, because the initial state belongs to that time.
    """
    times = _continued(np.array(fields["path_time"].values, dtype=float))
    values = np.asarray(fields.values)
    start = min(times[:, 0].min(), np.inf if start is None else start)
    late = times[:, 0] > start
    if not late.any():
        return values, times
    step = np.median(np.diff(times, axis=1))
    empty = np.full((len(values), 1, values.shape[2]), np.nan)
    # Late paths get the node in front; the others get one after their end, to stay aligned.
    clock = np.hstack([np.full((len(times), 1), start), times])
    clock[~late] = np.hstack([times[~late], times[~late, -1:] + step])
    padded = np.concatenate([empty, values], axis=1)
    padded[~late] = np.concatenate([values[~late], empty[~late]], axis=1)
    return padded, clock


def _continued(times: Array) -> Array:
    step = np.nanmedian(np.diff(times, axis=1))
    for row in times:
        gap = np.flatnonzero(np.isnan(row))
        if gap.size:
            row[gap] = row[gap[0] - 1] + step * np.arange(1, gap.size + 1)
    return times


def extended_clocks(
    own: Array, wanted: Array, values: Array
) -> Iterator[tuple[Array, Array, Array]]:
    """Clocks of observed and wanted times, values on them, and where the wanted ones are.

    One for all paths that share a clock, else one per path. A wanted time that is an observed one
    but for rounding is that one: two states a rounding apart would have no transition.
    """
    shared = own.ndim == 1
    for clock, seen in [(own, values)] if shared else zip(own, values[:, None], strict=True):
        nearest = clock[np.abs(clock[:, None] - wanted).argmin(0)]
        close = np.abs(nearest - wanted) <= SAME_TIME * np.ptp(np.append(clock, wanted))
        asked = np.where(close, nearest, wanted)
        merged = np.union1d(clock, asked)
        extended = np.full((len(seen), len(merged), seen.shape[2]), np.nan)
        extended[:, np.searchsorted(merged, clock)] = seen
        yield merged, extended, np.searchsorted(merged, asked)

"""Per-path clocks: ragged paths get one matrix of times without holes."""

from __future__ import annotations

import numpy as np
import xarray as xr

Array = np.ndarray


def own_clock(fields: xr.DataArray) -> tuple[Array, Array]:
    """Values (P, T, M) and times (P, T) of fields with a ``path_time`` coordinate.

    Padding after a path's last time continues its clock without observations, which changes
    no likelihood. All paths start at the earliest time, unobserved where they joined later,
    because the initial state belongs to that time.
    """
    times = _continued(np.array(fields["path_time"].values, dtype=float))
    values = np.asarray(fields.values)
    start = times[:, 0].min()
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

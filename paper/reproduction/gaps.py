"""Test paths with gaps, and scores of their completion with a standard deviation."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.evaluation import gaussian_crps
from spdelaw.law import rmse

Array = np.ndarray
#: Paths with gaps, the share of values that is hidden, and the times at which all of them are.
N_PATHS, SHARE, BREAK = 20, 0.8, (0.4, 0.6)


class Gappy(NamedTuple):
    """Paths with gaps.

    Attributes:
        fields: what is observed, NaN where a value is hidden; complete at the first time.
        truth: values of the same shape.
        hidden: where a value is hidden and not zero by the boundary condition.
    """

    fields: xr.DataArray
    truth: Array
    hidden: Array


def make_gaps(fields: xr.DataArray, seed: int) -> Gappy:
    """Hide most values, and all of them in the middle of the time."""
    some = fields.isel(path=slice(N_PATHS))
    truth, rng = some.values, np.random.default_rng(seed)
    share = (some["time"].values - some["time"].values[0]) / np.ptp(some["time"].values)
    inside = (share > BREAK[0]) & (share <= BREAK[1])
    hidden = (rng.random(truth.shape) < SHARE) | inside[:, None]
    hidden[:, 0] = False
    return Gappy(
        some.where(~xr.DataArray(hidden, dims=some.dims)),
        truth,
        hidden & (np.abs(truth).max((0, 1)) > 1e-12),
    )


def completion_scores(
    complete: Callable[[xr.DataArray], Any], fields: xr.DataArray, seed: int
) -> dict[str, float]:
    """Scores of the hidden values; ``complete`` gives their "mean" and "std"."""
    gappy, start = make_gaps(fields, seed), time.perf_counter()
    result = complete(gappy.fields)
    seconds = time.perf_counter() - start
    names = ("mean", "std")
    mean, std = (result[n].transpose(*fields.dims).values[gappy.hidden] for n in names)
    truth, std = gappy.truth[gappy.hidden], np.maximum(std, 1e-12)
    return {
        "rmse": rmse(mean, truth),
        "crps": float(np.mean(gaussian_crps(mean, std, truth))),
        "coverage": float(np.mean(np.abs(mean - truth) <= 1.96 * std)),
        "seconds_per_path": seconds / len(gappy.truth),
    }

"""What a system is told about the noise, in three tiers.

- hidden: nothing, as when only paths are observed; the input is zero;
- independent: a draw that has nothing to do with the path (the paper's setting for SV&NN);
- observed: the increments that drove the path, which these systems were built for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from spdelaw.errors import DataError, InputError

Array = np.ndarray
TIERS = ("hidden", "independent", "observed")


def check_tier(noise: Any) -> str:
    """One of `TIERS`, or `InputError`."""
    if noise not in TIERS:
        expected = f"one of {TIERS}"
        raise InputError("noise", expected=expected, got=repr(noise), fix="pass noise='hidden'")
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
        fix = "leave out the paths whose noise is not known"
        raise DataError(name, expected="finite increments", got="NaN or infinite values", fix=fix)
    return values


def independent_increments(n_paths: int, times: Array, n_points: int, seed: int) -> Array:
    """Increments of variance ``dt`` at every point, zero at the first time; (P, T, M)."""
    z = np.random.default_rng(seed).standard_normal((n_paths, len(times), n_points))
    return z * np.sqrt(np.diff(times, prepend=times[0]))[:, None]

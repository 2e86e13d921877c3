"""CF attributes ``valid_range``, ``valid_min`` and ``valid_max``: values outside are missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr


def mask_invalid(dataset: xr.Dataset) -> tuple[xr.Dataset, list[str]]:
    """Data set without the values that it declares to be invalid, and what was left out."""
    notes = []
    for name in dataset.data_vars:
        variable = dataset[name]
        low, high = _limits(variable)
        if variable.dtype.kind not in "iuf" or (low, high) == (-np.inf, np.inf):
            continue
        outside = (variable < low) | (variable > high)
        count = int(outside.sum())
        if count:
            masked = variable.where(~outside)
            masked.encoding = variable.encoding
            dataset = dataset.assign({name: masked})
            notes.append(f"{count} values of {name} outside its valid range are missing")
    return dataset, notes


def _limits(variable: xr.DataArray) -> tuple[float, float]:
    attrs = variable.attrs
    low, high = attrs.get("valid_min", -np.inf), attrs.get("valid_max", np.inf)
    if np.size(attrs.get("valid_range", ())) == 2:
        low, high = np.ravel(attrs["valid_range"])
    try:
        ends = sorted(_unpacked(variable, limit) for limit in (low, high))
    except (TypeError, ValueError):
        return -np.inf, np.inf  # not numbers
    return ends[0], ends[1]


def _unpacked(variable: xr.DataArray, limit: Any) -> float:
    """A limit in the units of the values: that of packed values is stated as they are packed.

    CF (section 8.1): the attributes have the type of the packed data.
    """
    value, packing = float(limit), variable.encoding
    packed = np.dtype(packing.get("dtype", float)).kind in "iu"
    scaled = "scale_factor" in packing or "add_offset" in packing
    if not (packed and scaled and np.asarray(limit).dtype.kind in "iu" and np.isfinite(value)):
        return value
    return value * float(packing.get("scale_factor", 1)) + float(packing.get("add_offset", 0))

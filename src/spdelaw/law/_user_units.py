"""Between data and law: preparation, forcing and dates on the way in, undone on the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.data import as_fields, from_dates, on_clock, to_dates
from spdelaw.domain._places import places_of_fields
from spdelaw.law._forced import with_response, without_response

if TYPE_CHECKING:
    from spdelaw.law._law import Law


def to_law(law: Law, data: Any) -> xr.DataArray:
    """Canonical fields in the units of the law, on its clock."""
    if law.preparation is not None:
        fields = law.preparation.apply(data, law.domain.dims)
    else:
        fields = on_clock(as_fields(data, dims=law.domain.dims), law.info.get("time", {}))
    return without_response(law, fields)


def to_user(law: Law, result: xr.Dataset, like: Any = None) -> xr.Dataset:
    """Means, deviations and draws in the user's units; dates where ``like`` has them.

    ``X = offset + scale y`` for values, ``scale y`` for deviations.
    """
    result = with_response(law, result)
    if "path_time" in result.coords:  # the dim time merely counts
        return result
    clock = law.info.get("time", {})
    time = result["time"]
    if law.preparation is not None and law.preparation.how.is_affine:
        places = places_of_fields(next(iter(result.data_vars.values())), law.domain.dims)
        offset, scale = law.preparation.affine(time.values, places.points)
        by_point = xr.DataArray(places.unflatten(scale), dims=places.dims)
        by_time = xr.DataArray(places.unflatten(offset), dims=("time", *places.dims))
        for name in result.data_vars:
            values = result[name] * by_point + (0.0 if name == "std" else by_time)
            result[name] = values.transpose(*result[name].dims)
        if "observation_std" in result.attrs:
            result.attrs["observation_std"] *= float(np.nanmean(scale))
    if has_dates(like):
        return result.assign_coords(time=("time", to_dates(time.values, clock)))
    return result.assign_coords(time=("time", time.values, {**time.attrs, **clock}))


def has_dates(data: Any) -> bool:
    """Whether the times of data, or times themselves, are dates."""
    if isinstance(data, xr.Dataset | xr.DataArray) and "time" in data.coords:
        data = data["time"].values
    values = np.asarray(data)
    if values.dtype.kind == "M":
        return True
    first = values.flat[0] if values.size and values.dtype.kind == "O" else None
    return hasattr(first, "year") and hasattr(first, "month")


def to_clock(law: Law, times: Any) -> Any:
    """Dates as numbers on the clock of the law; anything else as it is."""
    return from_dates(times, law.info.get("time", {})) if has_dates(times) else times

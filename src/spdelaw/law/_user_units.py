"""Between data and law: preparation, forcing and dates on the way in, undone on the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.data import as_fields, from_dates, on_clock, to_dates
from spdelaw.domain import places_of_fields
from spdelaw.equation import Linear

if TYPE_CHECKING:
    from spdelaw.law._law import Law


def to_law(law: Law, data: Any) -> xr.DataArray:
    """Canonical fields in the units of the law, on its clock, less the response to its forcing."""
    if law.preparation is not None:
        fields = law.preparation.apply(data, law.domain.dims)
    else:
        fields = on_clock(as_fields(data, dims=law.domain.dims), law.info.get("time", {}))
    driven = _response(law, fields)
    if driven is None:
        return fields
    return (fields - driven).transpose(*fields.dims).assign_attrs(fields.attrs)


def to_user(law: Law, result: xr.Dataset, like: Any = None) -> xr.Dataset:
    """Means, deviations and draws in the user's units; dates where ``like`` has them.

    ``X = offset + scale y`` for values, ``scale y`` for deviations; the response to a forcing is a
    part of y.
    """
    for name, values in result.data_vars.items():
        driven = None if name == "std" else _response(law, values)
        if driven is not None:
            result[name] = (values + driven).transpose(*values.dims)
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


def _response(law: Law, fields: xr.DataArray) -> xr.DataArray | None:
    """``sum_n m_n(t) h_n(x)`` on the clock and at the places of labelled fields.

    None where nothing drives a mean of its own: other dynamics than linear ones have no such part.
    """
    dynamics = law.dynamics
    if not isinstance(dynamics, Linear) or dynamics.forcing is None:
        return None
    time = fields.coords.get("path_time", fields["time"])
    when = np.where(np.isnan(time.values), dynamics.origin, time.values)  # padding of shorter paths
    places = law.domain.places(fields)
    basis = law.domain.eigenfunctions(places.points, dynamics.n_modes)
    driven = places.unflatten(dynamics.response(when) @ basis.T)
    return xr.DataArray(driven, dims=(*time.dims, *places.dims))


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

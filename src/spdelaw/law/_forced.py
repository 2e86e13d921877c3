"""The part of a field that a known forcing drives: taken off data, added to results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from spdelaw.equation import Forcing

if TYPE_CHECKING:
    from spdelaw.law._law import Law


def without_response(law: Law, fields: xr.DataArray) -> xr.DataArray:
    """Canonical fields less the response to the law's forcing."""
    if law.forcing is None:
        return fields
    rest = fields - _response(law, law.forcing, fields)
    return rest.transpose(*fields.dims).assign_attrs(fields.attrs)


def with_response(law: Law, result: xr.Dataset) -> xr.Dataset:
    """Results with the response added to everything but deviations."""
    if law.forcing is None:
        return result
    for name, values in result.data_vars.items():
        if name != "std":
            total = values + _response(law, law.forcing, values)
            result[name] = total.transpose(*values.dims)
    return result


def _response(law: Law, forcing: Forcing, fields: xr.DataArray) -> xr.DataArray:
    """``sum_n m_n(t) h_n(x)`` on the clock and at the places of labelled fields.

    It begins at the law's first time, where the state is the initial one.
    """
    time = fields.coords.get("path_time", fields["time"])
    start = float(law.times[0])
    when = np.where(np.isnan(time.values), start, time.values)  # padding of shorter paths
    state = law.state
    m = forcing.response(state.eigenvalues, when, start)  # type: ignore[union-attr]
    places = law.domain.places(fields)
    basis = law.domain.eigenfunctions(places.points, state.n_modes)
    return xr.DataArray(places.unflatten(m @ basis.T), dims=(*time.dims, *places.dims))

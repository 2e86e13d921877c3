"""Between data and law: preparation, forcing and dates on the way in, undone on the way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.checks import whole
from spdelaw.data import (
    apply_in_blocks,
    as_fields,
    from_dates,
    go_on,
    on_clock,
    restore_names,
    step_of,
    to_dates,
    unchecked_fields,
)
from spdelaw.domain import Places, places_of_fields
from spdelaw.equation import Linear
from spdelaw.errors import InputError
from spdelaw.law._rest import same_points

if TYPE_CHECKING:
    from spdelaw.law._law import Law

Array = np.ndarray


def to_law(law: Law, data: Any, *, check: bool = True) -> xr.DataArray:
    """Canonical fields in the units of the law, on its clock, less its mean and its response.

    ``check=False`` is for a part of fields, all of whose values may be missing.
    """
    if law.preparation is not None:
        fields = law.preparation.apply(data, law.domain.dims, check=check)
    else:
        fields_of = as_fields if check else unchecked_fields
        fields = on_clock(fields_of(data, dims=law.domain.dims), law.info.get("time", {}))
    if fields.chunks is not None and "path_time" not in fields.coords:
        return _driven_in_blocks(law, fields)
    driven = _response(law, fields)
    if driven is None:
        return fields
    return (fields - driven).transpose(*fields.dims).assign_attrs(fields.attrs)


def _driven_in_blocks(law: Law, fields: xr.DataArray) -> xr.DataArray:
    """Lazy fields less mean and response, which are as large as they are, block by block."""
    places = law.domain.places(fields)
    driven = _driven(law, places)
    if driven is None:
        return fields

    def affine(times: Array, points: Array) -> tuple[Array, Array]:
        return np.broadcast_to(driven(times), (len(times), len(points))), np.ones(len(points))

    return apply_in_blocks(fields, places, affine)


def to_user(
    law: Law, result: xr.Dataset, like: Any = None, fields: xr.DataArray | None = None
) -> xr.Dataset:
    """Means, deviations and draws in the units and under the names of the data.

    ``X = offset + scale y`` for values, ``scale y`` for deviations; the mean of the law and the
    response to a forcing are parts of y. Dates where ``like`` has them. ``fields`` are those that
    the results are about, whose stations and members they keep.
    """
    for name, values in result.data_vars.items():
        driven = None if name == "std" else _response(law, values)
        if driven is not None:
            result[name] = (values + driven).transpose(*values.dims)
    return restore_names(_in_units(law, result, like), law.info.get("labels", {}), fields)


def _in_units(law: Law, result: xr.Dataset, like: Any) -> xr.Dataset:
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
        dates = to_dates(time.values, clock)
        return result.assign_coords(time=("time", dates, {"standard_name": "time"}))
    return result.assign_coords(time=("time", time.values, {**time.attrs, **clock}))


def _response(law: Law, fields: xr.DataArray) -> xr.DataArray | None:
    """Mean and response to a forcing, ``sum_n m_n(t) h_n(x)``, at the places of labelled fields.

    With the part of a known mean outside the modes; None where there is nothing of this.
    """
    places, time = law.domain.places(fields), fields.coords.get("path_time", fields["time"])
    driven = _driven(law, places)
    if driven is None:
        return None
    values = places.unflatten(driven(time.values))
    lead = time.dims if values.ndim > len(places.dims) else ()
    return xr.DataArray(values, dims=(*lead, *places.dims))


def _driven(law: Law, places: Places) -> Callable[[Array], Array] | None:
    """The same at times (T,) or (P, T), as (..., T, M), or (M,) where it does not change."""
    dynamics, offset = law.dynamics, law.offset
    if offset is not None:  # zero where the data were not, so that the modes alone have it
        offset = np.append(offset, 0.0)[same_points(law.points, places.points)]
    if not isinstance(dynamics, Linear) or not dynamics.is_driven:
        return None if offset is None else lambda _: offset
    basis = law.domain.eigenfunctions(places.points, dynamics.n_modes)

    def at(times: Array) -> Array:
        when = np.where(np.isnan(times), dynamics.origin, times)  # padding of shorter paths
        return dynamics.response(when) @ basis.T + (0.0 if offset is None else offset)

    return at


def has_dates(data: Any) -> bool:
    """Whether the times of data, or times themselves, are dates, or text that says dates."""
    if isinstance(data, xr.Dataset | xr.DataArray) and "time" in data.coords:
        data = data["time"].values
    values = np.asarray(data)
    if values.dtype.kind in "MUT" and values.size:
        return True
    first = values.flat[0] if values.size and values.dtype.kind == "O" else None
    return hasattr(first, "year") and hasattr(first, "month")


def to_clock(law: Law, times: Any) -> Any:
    """Dates as numbers on the clock of the law; anything else as it is."""
    clock = law.info.get("time", {})
    values = np.asarray(times)
    dated = " since " in str(clock.get("units", ""))
    if dated and values.dtype.kind in "UT":  # such as "2011-03-15"
        times = _parsed(values)
    return from_dates(times, clock) if has_dates(times) else times


def _parsed(texts: np.ndarray) -> np.ndarray:
    try:
        return texts.astype("datetime64[ns]")
    except ValueError as error:
        expected, fix = "dates such as 2011-03-15, or numbers", 'pass times=["2011-03-15"]'
        raise InputError("times", expected=expected, got=repr(texts.flat[0]), fix=fix) from error


def wanted_times(law: Law, fields: xr.DataArray, times: Any, steps: int | None) -> Any:
    """Times of a forecast: those given, or the next steps of the record that ``fields`` are.

    A lone number is refused where the record has dates: it might mean steps, days or a date.
    """
    if (times is None) == (steps is None):
        got = "neither" if times is None else "both"
        fix = "pass steps=6, or times= with the dates or numbers you want"
        raise InputError("times", expected="either times or steps", got=got, fix=fix)
    clock = law.info.get("time", {})
    if steps is None:
        dated = " since " in str(clock.get("units", ""))
        if dated and np.ndim(times) == 0 and np.asarray(times).dtype.kind in "iuf":
            expected = "dates, or a list of numbers on the clock of the data"
            fix = f"pass steps={times:g} for the next {times:g} times"
            raise InputError("times", expected=expected, got=f"{times}", fix=fix)
        return to_clock(law, times)
    return next_times(law, fields, whole("steps", steps, 1))


def next_times(law: Law, fields: xr.DataArray, steps: int) -> np.ndarray:
    """The next times of prepared fields on the clock of the law, by the step of the record.

    Where one record is too short to have a step, by that of the data the law was learned from.
    """
    own, clock = _clock_of(fields), law.info.get("time", {})
    step = step_of(own if len(own) > 1 else law.times, clock)
    return go_on(float(own[-1]), step, clock, steps)


def _clock_of(fields: xr.DataArray) -> np.ndarray:
    """Times of a record; with clocks of each path's own, of the path that ends last."""
    if "path_time" not in fields.coords:
        return np.asarray(fields["time"].values)
    own = fields["path_time"].values
    last = own[int(np.nanargmax(np.nanmax(own, axis=1)))]
    return np.asarray(last[np.isfinite(last)])

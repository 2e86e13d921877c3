"""Between data and law: preparation, forcing and dates on the way in, undone on the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.checks import whole
from spdelaw.data import from_dates, go_on, has_dates, restore_names, step_of, to_dates
from spdelaw.domain import places_of_fields
from spdelaw.equation import Linear
from spdelaw.errors import InputError
from spdelaw.law._rest import same_points

if TYPE_CHECKING:
    from spdelaw.law._law import Law


def to_user(
    law: Law, result: xr.Dataset, dated: bool = False, fields: xr.DataArray | None = None
) -> xr.Dataset:
    """Means, deviations and draws in the units and under the names of the data.

    ``X = offset + scale y`` for values, ``scale y`` for deviations; the mean of the law and the
    response to a forcing are parts of y. Times are dates where ``dated``. ``fields`` are those that
    the results are about, whose stations and members they keep.
    """
    for name, values in result.data_vars.items():
        driven = None if name == "std" else _response(law, values)
        if driven is not None:
            result[name] = (values + driven).transpose(*values.dims)
    return restore_names(_in_units(law, result, dated), law.info.get("labels", {}), fields)


def _in_units(law: Law, result: xr.Dataset, dated: bool) -> xr.Dataset:
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
    if dated:
        dates = to_dates(time.values, clock)
        return result.assign_coords(time=("time", dates, {"standard_name": "time"}))
    return result.assign_coords(time=("time", time.values, {**time.attrs, **clock}))


def _response(law: Law, fields: xr.DataArray) -> xr.DataArray | None:
    """`response` at the places of labelled fields."""
    places, time = law.domain.places(fields), fields.coords.get("path_time", fields["time"])
    driven = response(law, time.values, places.points)
    if driven is None:
        return None
    dims = (*time.dims, *places.dims)[-places.unflatten(driven).ndim :]
    return xr.DataArray(places.unflatten(driven), dims=dims)


def response(law: Law, times: np.ndarray, points: np.ndarray) -> np.ndarray | None:
    """Mean and response to a forcing, ``sum_n m_n(t) h_n(x)``, at times (T,) or (P, T) and points.

    With the part of a known mean outside the modes, which is all there may be: (M,), else
    (..., T, M). None where there is nothing of this.
    """
    dynamics, offset = law.dynamics, law.offset
    if offset is not None:  # zero where the data were not, so that the modes alone have it
        offset = np.append(offset, 0.0)[same_points(law.points, points)]
    if not isinstance(dynamics, Linear) or not dynamics.is_driven:
        return offset
    when = np.where(np.isnan(times), dynamics.origin, times)  # padding of shorter paths
    basis = law.domain.eigenfunctions(points, dynamics.n_modes)
    return dynamics.response(when) @ basis.T + (0.0 if offset is None else offset)


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

"""Forecasts from all origins as labelled fields, in the units and under the names of the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data import labels_of, restore_names, to_dates
from spdelaw.domain import places_of_fields
from spdelaw.evaluation._hindcast import Issued

Array = np.ndarray


def forecasts_dataset(
    issued: list[Issued],
    fields: xr.DataArray,
    seen: Array,
    dims: tuple[str, ...],
    leads: tuple[int, ...],
) -> xr.Dataset:
    """``mean`` and ``std`` (predictor, lead, origin, path, space) and ``observed``.

    Args:
        issued: from every origin.
        fields: canonical, as they came.
        seen: which of their points were forecast.
        dims: of space.
        leads: in steps.
    """
    places = places_of_fields(fields, dims)
    places = places if seen.all() else places.only(seen)
    space = ("lead", "origin", "path", *places.dims)
    methods = list(issued[0].outlooks)
    mean = np.stack([_stacked([_raw(i, i.outlooks[m].mean) for i in issued]) for m in methods])
    std = np.stack([_stacked([i.outlooks[m].std * i.scale for i in issued]) for m in methods])
    truth = _stacked([_raw(i, i.truth) for i in issued])
    result = xr.Dataset(
        {
            "mean": (("predictor", *space), places.unflatten(mean)),
            "std": (("predictor", *space), places.unflatten(std)),
            "observed": (space, places.unflatten(truth)),
        },
        coords={
            "predictor": ("predictor", methods, _flags(methods)),
            "lead": ("lead", list(leads), {"long_name": "steps ahead"}),
            "path": fields["path"].values,
            **places.coords,
            **_clock(fields["time"], [one.origin for one in issued], leads),
        },
    )
    named = restore_names(result, labels_of(fields), fields)
    named["std"].attrs["comment"] = "of a new value, noise included"
    return named


def _flags(names: list[str]) -> dict[str, str]:
    """Names as CF has them, for programs that see numbers in the file."""
    return {"flag_meanings": " ".join(name.replace(" ", "_") for name in names)}


def _stacked(each: list[Array]) -> Array:
    """(lead, path, point) of each origin as (lead, origin, path, point)."""
    return np.stack(each, axis=1)


def _raw(one: Issued, values: Array) -> Array:
    return one.offset + one.scale * values


def _clock(time: xr.DataArray, origins: list[int], leads: tuple[int, ...]) -> dict[str, Any]:
    """Last time that is seen, and the times that are forecast; dates where the data have them."""
    last = np.asarray(origins) - 1
    valid = last[None] + np.asarray(leads)[:, None]
    clock = {k: time.attrs[k] for k in ("units", "calendar") if k in time.attrs}
    values = np.asarray(time.values)
    attrs = dict(clock)
    if " since " in str(clock.get("units", "")):
        values, attrs = to_dates(values, clock), {}
    return {
        "origin": ("origin", values[last], {"long_name": "last time seen", **attrs}),
        "valid_time": (("lead", "origin"), values[valid], {"long_name": "time forecast", **attrs}),
    }

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
    mean = [[_raw(one, one.outlooks[m].mean) for one in issued] for m in methods]
    std = [[one.outlooks[m].std * one.scale for one in issued] for m in methods]
    truth = np.stack([_raw(one, one.truth) for one in issued], axis=1)
    # (predictor, origin, lead, ...) so far; the clock of a forecast reads better lead first.
    mean, std = (np.stack([np.stack(rows, axis=1) for rows in part]) for part in (mean, std))
    result = xr.Dataset(
        {
            "mean": (("predictor", *space), places.unflatten(mean)),
            "std": (("predictor", *space), places.unflatten(std)),
            "observed": (space, places.unflatten(truth)),
        },
        coords={
            "predictor": methods,
            "lead": ("lead", list(leads), {"long_name": "steps ahead"}),
            "path": fields["path"].values,
            **places.coords,
            **_clock(fields["time"], [one.origin for one in issued], leads),
        },
    )
    named = restore_names(result, labels_of(fields), fields)
    named["std"].attrs["comment"] = "of a new value, noise included"
    return named


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

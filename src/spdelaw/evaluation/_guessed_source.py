"""Domain and preparation of raw data, guessed as the shell does where nobody says them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data import (
    Preparation,
    guess_boundary,
    guess_domain,
    guess_layout,
    guess_side,
    guess_unit,
)
from spdelaw.domain import AbstractDomain, Box, Interval, Sphere
from spdelaw.errors import InputError

#: Spatial dims of the domains that can be guessed.
DIMS = {"interval": ("x",), "box": ("x", "y", "z"), "sphere": ("lat", "lon")}


def guess_source(data: Any, prepare: Preparation | None) -> tuple[AbstractDomain, Preparation]:
    """A domain for labelled data, and their preparation with names and dims filled in."""
    how = prepare or Preparation()
    raw = _dataset(data)
    cut = dataclasses.replace(
        how, average=(), rename={}, coarsen={}, anomalies=None, detrend=False, standardise=None,
        area_weights=False,
    )  # fmt: skip
    selected = raw
    if how.select:
        reduced = cut.reduce(raw)
        selected = reduced.to_dataset(name=reduced.name or "field")
    name, _ = guess_domain(selected, how.variable, how.average)
    guess = guess_layout(selected, how.variable, None, how.average, DIMS[name])
    found = guess.preparation
    how = dataclasses.replace(
        how, variable=found.variable, select={**found.select, **how.select}, average=found.average,
        rename={**found.rename, **how.rename}, time_unit=how.time_unit or _unit(raw, guess.time),
    )  # fmt: skip
    fields = how.learn(raw, guess.dims).apply(raw, guess.dims)
    return _domain(name, fields, guess.dims), how


def _dataset(data: Any) -> xr.Dataset:
    if isinstance(data, xr.Dataset):
        return data
    if isinstance(data, xr.DataArray):
        return data.to_dataset(name=str(data.name or "field"))
    expected = "a domain, where the data have no coordinates to guess it from"
    got = f"none, and data of type {type(data).__name__}"
    fix = "pass domain=sl.Interval(a, b), or an xarray object"
    raise InputError("domain", expected=expected, got=got, fix=fix)


def _unit(raw: xr.Dataset, time: str) -> str | None:
    if time not in raw.coords or raw[time].ndim != 1 or raw.sizes[time] < 2:
        return None
    values = raw[time].values
    dated = values.dtype.kind in "Mm" or hasattr(np.ravel(values)[0], "calendar")
    return guess_unit(values) if dated else None


def _domain(name: str, fields: xr.DataArray, dims: tuple[str, ...]) -> AbstractDomain:
    if name == "sphere":
        return Sphere()
    if name == "interval":
        side = guess_boundary(fields)
        return Interval(*side.ends, side.boundary)  # type: ignore[arg-type]
    sides = [guess_side(fields, d) for d in dims]
    boundary: Any = tuple(side.boundary for side in sides)
    return Box(*(side.ends for side in sides), boundary=boundary)

"""Names, units and attributes of data, kept by a law and put back on its results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data._encode import plain_attrs
from spdelaw.data._layout import FIELD, LABEL, ORIGINAL, PATH, POINT, TIME
from spdelaw.data._recognise import is_latitude, is_longitude
from spdelaw.errors import DataError

#: Attributes about the values that were stored, which new values need not obey.
OF_VALUES = (
    "actual_range", "valid_range", "valid_min", "valid_max", "missing_value", "_FillValue",
    "equation", "scale_factor", "add_offset", "cell_methods", "ancillary_variables",
)  # fmt: skip
#: Variables of results: what they are in words, and as a cell method of CF.
KINDS = {
    "mean": ("mean of {}", "realization: mean"),
    "std": ("standard deviation of {}", "realization: standard_deviation"),
    "sample": ("draws of {}", "realization: point"),
}


def labels_of(fields: xr.DataArray) -> dict[str, Any]:
    """Name and attributes of canonical fields and of their coordinates, as plain data."""
    found = {str(name): _plain(c.attrs) for name, c in fields.coords.items() if name != TIME}
    coords = {name: attrs for name, attrs in found.items() if attrs}
    if ORIGINAL in fields[TIME].attrs:
        coords[TIME] = {ORIGINAL: str(fields[TIME].attrs[ORIGINAL])}
    return {"name": str(fields.name), "attrs": _plain(fields.attrs), "coords": coords}


def _plain(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Attributes that describe, as JSON; what JSON cannot hold is left out."""
    kept: dict[str, Any] = {}
    for name, value in attrs.items():
        try:
            plain = plain_attrs("field", {name: value})
        except DataError:
            continue
        finite = not isinstance(value, float) or np.isfinite(value)
        kept |= plain if name not in OF_VALUES and finite else {}
    return kept


def restore_names(
    result: xr.Dataset, labels: Mapping[str, Any], fields: xr.DataArray | None = None
) -> xr.Dataset:
    """Results under the names of the data, with their attributes and those of CF.

    Args:
        result: over canonical dims.
        labels: of `labels_of`.
        fields: canonical fields at the same paths and points, whose further coordinates (names
            of stations, starts of forecasts) belong to the result too.
    """
    result = result if fields is None else result.assign_coords(_beside(result, fields))
    known = labels.get("coords", {})
    for name in [str(n) for n in result.coords if n in known]:
        attrs = {k: v for k, v in known[name].items() if k != ORIGINAL}
        if name != PATH or fields is not None:
            result = result.assign_coords({name: result[name].assign_attrs(attrs)})
    for each in result.data_vars:
        result[each].attrs = _described(str(each), labels) | result[each].attrs
    return _renamed(_unstacked(result), known, fields is not None)


def _beside(result: xr.Dataset, fields: xr.DataArray) -> dict[str, xr.Variable]:
    """Coordinates along paths or points that are no part of the contract."""
    return {
        str(name): coordinate.variable
        for name, coordinate in fields.coords.items()
        if name not in result.coords
        and coordinate.dims in ((PATH,), (POINT,))
        and all(result.sizes.get(d) == n for d, n in coordinate.sizes.items())
    }


def _described(variable: str, labels: Mapping[str, Any]) -> dict[str, Any]:
    attrs = dict(labels.get("attrs", {}))
    what = str(attrs.get("long_name") or attrs.get("standard_name") or labels.get("name", FIELD))
    if variable not in KINDS:
        return attrs
    words, method = KINDS[variable]
    kept = {k: attrs[k] for k in ("standard_name", "units") if k in attrs}
    return kept | {"long_name": words.format(what), "cell_methods": method}


def _unstacked(result: xr.Dataset) -> xr.Dataset:
    """Points of a curvilinear grid back on its two indices."""
    along = [str(n) for n, c in result.coords.items() if c.attrs.get(LABEL) == "index"]
    along = [name for name in along if result[name].dims == (POINT,)]
    if len(along) < 2:
        return result
    attrs = {n: {k: v for k, v in result[n].attrs.items() if k != LABEL} for n in along}
    grid = result.set_index({POINT: tuple(along)}).unstack(POINT)
    return grid.assign_coords({n: grid[n].assign_attrs(attrs[n]) for n in along})


def _renamed(result: xr.Dataset, known: Mapping[str, Any], paths: bool) -> xr.Dataset:
    for name, attrs in [*known.items(), *known.items()]:  # a name may have to get free first
        old = attrs.get(ORIGINAL)
        if (name not in result.variables and name not in result.dims) or not isinstance(old, str):
            continue
        if name == old or (name == PATH and not paths):
            continue
        if old in result.coords and result[old].dims == (name,):  # labels of text stood for it
            result = result.swap_dims({name: old}).drop_vars(name)
        elif old not in result.variables and old not in result.dims:
            result = result.rename({name: old})
    result = _latitudes_first(result)
    for each in result.coords:
        result[each].attrs.pop(LABEL, None)
        result[each].attrs.pop(ORIGINAL, None)
    return result


def _latitudes_first(result: xr.Dataset) -> xr.Dataset:
    """Maps in the order (..., latitude, longitude), as files have them."""
    dims = [str(d) for d in result.dims]
    lat = [d for d in dims if is_latitude(result, d)]
    lon = [d for d in dims if is_longitude(result, d)]
    if len(lat) != 1 or len(lon) != 1:
        return result
    return result.transpose(..., lat[0], lon[0])

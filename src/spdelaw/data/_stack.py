"""Single paths, each with its own times, as one array of fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data._clock import check_unit, earliest, is_date, to_numbers
from spdelaw.data._contract import as_fields
from spdelaw.data._layout import PATH, PATH_TIME, TIME, check_dims
from spdelaw.errors import DataError


def stack(
    paths: Sequence[xr.DataArray],
    *,
    dims: str | Sequence[str] = ("x",),
    time_unit: str | None = None,
) -> xr.DataArray:
    """Stack single paths ``(time, *dims)`` into fields, whatever the times of each.

    Paths with the same times share the coordinate ``time``. Otherwise each keeps its own in
    the coordinate ``path_time`` with dims ``(path, time)``, shorter paths are padded with NaN
    at the end, and ``time`` counts 0, 1, ... Dates of all paths are counted from the earliest.

    Args:
        paths: DataArrays with dims ``(time, *dims)``, in any order, on the same points.
        dims: names of the spatial dims.
        time_unit: unit of dates and durations, "days" by default.

    Returns:
        Canonical fields. Labels of paths are kept if each path has one of its own.

    Raises:
        DataError: a path breaks the contract, or its points are not those of the first.

    Example:
        >>> import numpy as np, xarray as xr
        >>> from spdelaw.data import stack
        >>> short = xr.DataArray(np.ones((2, 3)), {"time": [0, 1], "x": [0, 1, 2]})
        >>> long = xr.DataArray(np.ones((3, 3)), {"time": [0, 0.5, 2], "x": [0, 1, 2]})
        >>> stack([short, long]).path_time.values
        array([[0. , 1. , nan],
               [0. , 0.5, 2. ]])
    """
    names, unit = check_dims(dims), check_unit(time_unit)
    singles = [_single(i, path, names, unit) for i, path in enumerate(_check_list(paths))]
    singles = _on_one_clock(singles, unit)
    _check_same_points(singles, names)
    if not all(np.array_equal(one[TIME], singles[0][TIME]) for one in singles):
        n_times = max(one.sizes[TIME] for one in singles)
        singles = [_padded(one, n_times) for one in singles]
    return as_fields(_joined(singles), dims=names)


def _check_list(paths: Any) -> list[xr.DataArray]:
    fine = not isinstance(paths, xr.DataArray) and isinstance(paths, Sequence) and len(paths) > 0
    if not fine or not all(isinstance(path, xr.DataArray) for path in paths):
        expected = "a list of DataArrays, one per path"
        fix = "fields that are one array already go to as_fields"
        raise DataError("paths", expected=expected, got=type(paths).__name__, fix=fix)
    return list(paths)


def _single(
    position: int, path: xr.DataArray, dims: tuple[str, ...], unit: str | None
) -> xr.DataArray:
    """A path with dims (path, time, *dims), its dates still dates."""
    dated = TIME in path.coords and is_date(path[TIME].variable)
    try:
        one = as_fields(path, dims=dims, time_unit=unit)
    except DataError as error:
        raise DataError(
            f"paths[{position}], {error.what}",
            expected=error.expected,
            got=error.got,
            fix=error.fix,
        ) from error
    if one.sizes[PATH] != 1 or PATH_TIME in one.coords:
        expected = "one path with its times in 'time'"
        got = f"{one.sizes[PATH]} paths" + (" with path_time" if PATH_TIME in one.coords else "")
        fix = 'for arrays of several paths: xarray.concat(arrays, "path")'
        raise DataError(f"paths[{position}]", expected=expected, got=got, fix=fix)
    return one.assign_coords({TIME: path[TIME].sortby(TIME).variable}) if dated else one


def _on_one_clock(singles: list[xr.DataArray], unit: str | None) -> list[xr.DataArray]:
    times = [one[TIME].variable.to_base_variable() for one in singles]
    dated = {is_date(time) for time in times}
    units = {str(time.attrs.get("units")) for time in times}
    if len(dated) > 1 or (dated == {False} and len(units) > 1):
        expected = "times of one kind in all paths"
        got = "dates and numbers" if len(dated) > 1 else f"units {', '.join(sorted(units))}"
        fix = "convert the times of all paths to the same unit first"
        raise DataError("coordinate 'time'", expected=expected, got=got, fix=fix)
    if dated == {True}:
        origin = min(earliest(time) for time in times)
        times = [to_numbers(time, unit, origin) for time in times]
    return [one.assign_coords({TIME: time}) for one, time in zip(singles, times, strict=True)]


def _check_same_points(singles: list[xr.DataArray], dims: tuple[str, ...]) -> None:
    first = singles[0]
    for i, one in enumerate(singles):
        for dim in dims:
            if not np.array_equal(one[dim], first[dim]):
                raise DataError(
                    f"paths[{i}], coordinate '{dim}'",
                    expected=f"the {first[dim].size} points of paths[0]",
                    got=f"{one[dim].size} points, not the same",
                    fix=f"interpolate it: path.interp({dim}=points), or mark gaps with NaN: "
                    f"path.reindex({dim}=points)",
                )


def _padded(one: xr.DataArray, n_times: int) -> xr.DataArray:
    """A path whose time merely counts, its times in ``path_time``."""
    times = one[TIME].variable
    row = np.full((1, n_times), np.nan)
    row[0, : times.size] = times.values
    counted = one.assign_coords({TIME: np.arange(times.size, dtype=float)})
    counted = counted.reindex({TIME: np.arange(n_times, dtype=float)})
    return counted.assign_coords({PATH_TIME: ((PATH, TIME), row, times.attrs)})


def _joined(singles: list[xr.DataArray]) -> xr.DataArray:
    labels = [one[PATH].values[0] for one in singles]
    if len({type(label) for label in labels}) > 1 or len(set(labels)) < len(labels):
        labels = list(range(len(singles)))
    joined = xr.concat(
        singles, PATH, coords="different", compat="equals", join="exact", combine_attrs="override"
    )
    return joined.assign_coords({PATH: labels})

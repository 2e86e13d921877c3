"""From what people hold (NumPy, torch, Dataset, DataArray) to one labelled array."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data._familiar import familiar, with_places
from spdelaw.data._layout import FIELD, PATH, PATH_TIME, POINT, TIME
from spdelaw.domain import VARIABLE
from spdelaw.errors import DataError


def to_array(
    data: Any, times: Any, points: Any, variable: str | None, dims: tuple[str, ...]
) -> xr.DataArray:
    """Any accepted object as a DataArray with named dims; values are neither read nor copied."""
    if isinstance(data, xr.Dataset):
        data = select(with_places(data), variable, dims)
    elif variable is not None and getattr(data, "name", None) != variable:
        expected, got = "a Dataset to choose from", type(data).__name__
        raise DataError("variable", expected=expected, got=got, fix="leave variable out")
    if not isinstance(data, xr.DataArray):
        return _label(_bare(data), times, points, dims)
    given = {} if times is None else _times(times)
    if points is not None:
        given |= _points(points, dims, POINT in data.dims)
    return familiar(_with_coordinates(data, given), dims)


def select(dataset: xr.Dataset, variable: str | None, dims: tuple[str, ...]) -> xr.DataArray:
    """Variable of a Dataset: the one named, the only one, or the only one that fits."""
    names = sorted(str(name) for name in dataset.data_vars)
    if not names:
        fix = "check how the Dataset was made"
        raise DataError("variable", expected="at least one variable", got="none", fix=fix)
    if variable is not None and variable in dataset.data_vars:
        return dataset[variable]
    if (
        variable is None
        and dims[:1] == (VARIABLE,)
        and not any(VARIABLE in v.dims for v in dataset.values())
    ):
        return _stacked(dataset, {TIME, *dims[1:]})
    if variable is None:
        wanted = {TIME, *dims}
        fitting = [n for n in names if wanted <= {*dataset[n].dims, *dataset[n].coords}]
        for choice in (names, fitting, [name for name in fitting if name == FIELD]):
            if len(choice) == 1:
                return dataset[choice[0]]
    got = "several to choose from" if variable is None else repr(variable)
    fix = f'pass variable="{max(names, key=lambda name: dataset[name].ndim)}"'
    raise DataError("variable", expected=f"one of {', '.join(names)}", got=got, fix=fix)


def _stacked(dataset: xr.Dataset, wanted: set[str]) -> xr.DataArray:
    """Variables that are fields, one beside the other along the dim ``variable``."""
    names = [str(n) for n, v in dataset.data_vars.items() if wanted <= {*v.dims, *v.coords}]
    if len(names) < 2:
        expected = f"at least two variables over {', '.join(sorted(wanted))}"
        got = f"{len(names)} of {', '.join(sorted(map(str, dataset.data_vars)))}"
        fix = "pass a Dataset with one variable per field, or an array with a dim 'variable'"
        raise DataError("data", expected=expected, got=got, fix=fix)
    return dataset[names].to_array(VARIABLE).rename(FIELD)


def _bare(data: Any) -> Any:
    if isinstance(data, str | Path):
        got = f"the name {str(data)!r}"
        raise DataError("data", expected="an array", got=got, fix="use read(path)")
    if hasattr(data, "detach"):  # a torch tensor, told without importing torch
        return _from_torch(data)
    if isinstance(data, np.ma.MaskedArray):
        return np.ma.filled(data.astype(float), np.nan) if data.dtype.kind in "iuf" else data.data
    if hasattr(data, "dask"):  # stays lazy
        return data
    try:
        values = np.asarray(data)
    except (TypeError, ValueError) as error:
        got, fix = f"{type(data).__name__}: {error}", "for paths of different lengths use stack()"
        raise DataError("data", expected="an array of numbers", got=got, fix=fix) from error
    if values.ndim == 0:
        expected = "an array of numbers"
        fix = "pass a DataArray, a Dataset or a bare array with times= and points="
        raise DataError("data", expected=expected, got=f"a {type(data).__name__}", fix=fix)
    return values


def _from_torch(tensor: Any) -> np.ndarray:
    tensor = tensor.detach().cpu()
    try:
        return tensor.numpy()
    except TypeError:  # bfloat16 and other types that NumPy lacks
        return tensor.double().numpy()


def _label(values: Any, times: Any, points: Any, dims: tuple[str, ...]) -> xr.DataArray:
    for name, given in (("times", times), ("points", points)):
        if given is None:
            fix = f"pass {name}= with one value per {name[:-1]}"
            raise DataError(name, expected="coordinates of a bare array", got="none", fix=fix)
    scattered = len(dims) > 1 and not _is_grid(points, dims)
    space = (POINT,) if scattered else dims
    layouts = {len(space) + 1: (TIME, *space), len(space) + 2: (PATH, TIME, *space)}
    if values.ndim not in layouts:
        expected = " or ".join(f"({', '.join(names)})" for names in layouts.values())
        fix = "reshape it, or name its axes with dims="
        raise DataError("data", expected=expected, got=f"an array of shape {values.shape}", fix=fix)
    array = xr.DataArray(values, dims=layouts[values.ndim], name=FIELD)
    return _with_coordinates(array, _times(times) | _points(points, dims, scattered))


def _times(times: Any) -> dict[str, xr.Variable]:
    values: Any = times.values if isinstance(times, xr.DataArray) else times
    if getattr(values, "tz", None) is not None:  # dates of pandas with a time zone, as UTC
        values = values.tz_convert("UTC").tz_localize(None)
    per_path = getattr(values, "ndim", 1) == 2 or _is_nested(values)
    if per_path:
        return {PATH_TIME: _coordinate("times", (PATH, TIME), values)}
    return {TIME: _coordinate("times", (TIME,), values)}


def _is_nested(values: Any) -> bool:
    return isinstance(values, list | tuple) and any(np.ndim(entry) > 0 for entry in values)


def _points(points: Any, dims: tuple[str, ...], scattered: bool) -> dict[str, xr.Variable]:
    if scattered:
        table = np.asarray(points)
        if table.ndim != 2 or table.shape[1] != len(dims):
            expected = f"an array (n, {len(dims)}) of scattered points"
            fix = "one row per point, one column per spatial dim"
            raise DataError("points", expected=expected, got=f"shape {table.shape}", fix=fix)
        return {dim: _coordinate("points", (POINT,), table[:, i]) for i, dim in enumerate(dims)}
    columns = _columns(points, dims)
    if len(columns) != len(dims):
        expected = f"one sequence for each of {', '.join(dims)}"
        fix = "pass points=(y, x) or points={'y': y, 'x': x}"
        raise DataError("points", expected=expected, got=f"{len(columns)} of them", fix=fix)
    pairs = zip(dims, columns, strict=True)
    return {dim: _coordinate("points", (dim,), column) for dim, column in pairs}


def _columns(points: Any, dims: tuple[str, ...]) -> list[Any]:
    if isinstance(points, Mapping):
        return [points[dim] for dim in dims if dim in points]
    return [points] if len(dims) == 1 else list(points)


def _is_grid(points: Any, dims: tuple[str, ...]) -> bool:
    """A mapping, or one 1-D sequence per dim, is a grid; a table (n, d) is scattered points."""
    if isinstance(points, Mapping):
        return True
    return isinstance(points, list | tuple) and len(points) == len(dims)


def _coordinate(what: str, dims: tuple[str, ...], values: Any) -> xr.Variable:
    values = values.detach().cpu().numpy() if hasattr(values, "detach") else values
    try:
        return xr.Variable(dims, values)
    except (TypeError, ValueError) as error:
        expected, fix = f"{len(dims)}-dimensional coordinates", "pass one number per entry"
        raise DataError(what, expected=expected, got=str(error), fix=fix) from error


def _with_coordinates(array: xr.DataArray, given: Mapping[str, xr.Variable]) -> xr.DataArray:
    for name, values in given.items():
        if name in array.coords:
            got = "it in the data and as an argument"
            fix = "leave the argument out, or drop the coordinate of the data"
            raise DataError(f"coordinate '{name}'", expected="it once", got=got, fix=fix)
        sizes = {dim: array.sizes.get(dim) for dim in values.dims}
        if sizes != dict(values.sizes):
            expected, got = f"sizes {sizes} of the data", f"sizes {dict(values.sizes)}"
            fix = "pass one value per entry of each dim"
            raise DataError(f"coordinate '{name}'", expected=expected, got=got, fix=fix)
    return array.assign_coords(given)

"""The data contract: what fields look like everywhere in the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr

from spdelaw.checks import LARGEST_VALUE, checked
from spdelaw.data.clock import check_unit, on_clock, to_dates
from spdelaw.data.executors import pieces_of
from spdelaw.data.layout import (
    FIELD,
    PATH,
    PATH_TIME,
    POINT,
    TIME,
    arrange,
    check_dims,
    infer_dims,
    label_paths,
    order_space,
    order_time,
)
from spdelaw.data.names import standardise_names, with_places
from spdelaw.domains.places import VARIABLE
from spdelaw.errors import DataError

# ---------- From NumPy, torch, Dataset or DataArray to one labelled array


@checked(DataError)
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
        return _label_bare_array(_bare_array(data), times, points, dims)
    given = {} if times is None else _time_coordinate(times)
    if points is not None:
        given |= _point_coordinates(points, dims, POINT in data.dims)
    return standardise_names(_with_coordinates(data, given), dims)


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
        return _stack_variables(dataset, {TIME, *dims[1:]})
    if variable is None:
        required_dims = {TIME, *dims}
        fitting = [n for n in names if required_dims <= {*dataset[n].dims, *dataset[n].coords}]
        for choice in (names, fitting, [name for name in fitting if name == FIELD]):
            if len(choice) == 1:
                return dataset[choice[0]]
    got = "several to choose from" if variable is None else repr(variable)
    fix = f'pass variable="{max(names, key=lambda name: dataset[name].ndim)}"'
    raise DataError("variable", expected=f"one of {', '.join(names)}", got=got, fix=fix)


def _stack_variables(dataset: xr.Dataset, required_dims: set[str]) -> xr.DataArray:
    """Variables that are fields, next to one another along the dim ``variable``."""
    names = [str(n) for n, v in dataset.data_vars.items() if required_dims <= {*v.dims, *v.coords}]
    if len(names) < 2:
        expected = f"at least two variables over {', '.join(sorted(required_dims))}"
        got = f"{len(names)} of {', '.join(sorted(map(str, dataset.data_vars)))}"
        fix = "pass a Dataset with one variable per field, or an array with a dim 'variable'"
        raise DataError("data", expected=expected, got=got, fix=fix)
    return dataset[names].to_array(VARIABLE).rename(FIELD)


def _bare_array(data: Any) -> Any:
    if isinstance(data, str | Path):
        got = f"the name {str(data)!r}"
        raise DataError("data", expected="an array", got=got, fix="use read(path)")
    if hasattr(data, "detach"):  # a torch tensor, recognised without importing torch
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


def _label_bare_array(values: Any, times: Any, points: Any, dims: tuple[str, ...]) -> xr.DataArray:
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
    return _with_coordinates(
        array, _time_coordinate(times) | _point_coordinates(points, dims, scattered)
    )


def _time_coordinate(times: Any) -> dict[str, xr.Variable]:
    values: Any = times.values if isinstance(times, xr.DataArray) else times
    if getattr(values, "tz", None) is not None:  # dates of pandas with a time zone, as UTC
        values = values.tz_convert("UTC").tz_localize(None)
    nested = isinstance(values, list | tuple) and any(np.ndim(entry) > 0 for entry in values)
    if nested or getattr(values, "ndim", 1) == 2:
        return {PATH_TIME: _coordinate("times", (PATH, TIME), values)}
    return {TIME: _coordinate("times", (TIME,), values)}


def _point_coordinates(
    points: Any, dims: tuple[str, ...], scattered: bool
) -> dict[str, xr.Variable]:
    if scattered:
        table = np.asarray(points)
        if table.ndim != 2 or table.shape[1] != len(dims):
            expected = f"an array (n, {len(dims)}) of scattered points"
            fix = "one row per point, one column per spatial dim"
            raise DataError("points", expected=expected, got=f"shape {table.shape}", fix=fix)
        return {dim: _coordinate("points", (POINT,), table[:, i]) for i, dim in enumerate(dims)}
    if isinstance(points, Mapping):
        columns = [points[dim] for dim in dims if dim in points]
    else:
        columns = [points] if len(dims) == 1 else list(points)
    if len(columns) != len(dims):
        expected = f"one sequence for each of {', '.join(dims)}"
        fix = "pass points=(y, x) or points={'y': y, 'x': x}"
        raise DataError("points", expected=expected, got=f"{len(columns)} of them", fix=fix)
    pairs = zip(dims, columns, strict=True)
    return {dim: _coordinate("points", (dim,), column) for dim, column in pairs}


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
            got = "one in the data and one as an argument"
            fix = "leave the argument out, or drop the coordinate of the data"
            raise DataError(f"coordinate '{name}'", expected="it once", got=got, fix=fix)
        sizes = {dim: array.sizes.get(dim) for dim in values.dims}
        if sizes != dict(values.sizes):
            expected, got = f"sizes {sizes} of the data", f"sizes {dict(values.sizes)}"
            fix = "pass one value per entry of each dim"
            raise DataError(f"coordinate '{name}'", expected=expected, got=got, fix=fix)
    return array.assign_coords(given)


# ---------- The data contract: what fields look like everywhere in the package


@checked()
def as_fields(
    data: Any,
    *,
    times: Any = None,
    points: Any = None,
    variable: str | None = None,
    dims: str | Sequence[str] = ("x",),
    time_unit: str | None = None,
) -> xr.DataArray:
    """Bring data into the canonical form of fields, or raise an error that gives the reason.

    Canonical fields are a float64 DataArray with dims ``(path, time, *dims)``; NaN means
    missing. ``time`` and the space coordinates are float64 and strictly increasing, ``path`` has
    distinct labels. Descending coordinates are reversed, space points are sorted, and a single path
    gets a path dim of size 1. Canonical data are not copied. Dask arrays stay lazy: their values
    are checked block by block, in one pass.

    Paths with times of their own carry a second coordinate ``path_time`` with dims
    ``(path, time)``, increasing in each path and padded with NaN at the end where the data
    are missing too; ``time`` then counts 0, 1, ... Scattered points in more than one dimension lie
    along one dim ``point``, with a coordinate along it for each name in ``dims``.

    Dates (datetime64, cftime) become numbers since the first of them, durations become
    numbers; ``time.attrs["units"]`` records it.

    Args:
        data: DataArray with dims in any order; Dataset; or a bare array (NumPy, masked,
            torch, Dask, nested lists) of shape ``(T, *M)`` or ``(P, T, *M)``.
        times: times ``(T,)`` of a bare array, or ``(P, T)`` for times per path.
        points: space points of a bare array: ``(M,)`` in one dimension; for several, one
            sequence per dim (a grid) or an array ``(M, d)`` (scattered points).
        variable: variable of a Dataset; by default the only one that fits.
        dims: names of the spatial dims.
        time_unit: unit of dates and durations ("days" by default); recorded for numbers.

    Returns:
        Canonical fields.

    Raises:
        DataError: the data break the contract.

    Example:
        >>> import numpy as np
        >>> from spdelaw.data import as_fields
        >>> values = np.arange(6.0).reshape(2, 3)  # two times, three points
        >>> fields = as_fields(values, times=[0.0, 0.1], points=[3.0, 2.0, 1.0])
        >>> fields.dims, fields.shape
        (('path', 'time', 'x'), (1, 2, 3))
        >>> fields.sel(x=3.0).values  # the points were turned round, and the data with them
        array([[0., 3.]])
    """
    fields = unchecked_fields(
        data, times=times, points=points, variable=variable, dims=dims, time_unit=time_unit
    )
    check_values(fields)
    return fields


def unchecked_fields(
    data: Any,
    *,
    times: Any = None,
    points: Any = None,
    variable: str | None = None,
    dims: str | Sequence[str] = ("x",),
    time_unit: str | None = None,
) -> xr.DataArray:
    """`as_fields` without a check of the values, for callers that read all values themselves."""
    data = getattr(data, "labelled", data)  # of `Observed`
    array = to_array(data, times, points, variable, check_dims(dims))
    return canonical(array, dims, time_unit)


def canonical(
    array: xr.DataArray, dims: str | Sequence[str] | None = None, time_unit: str | None = None
) -> xr.DataArray:
    """Canonical layout, coordinates and dtype; values are not read."""
    array = getattr(array, "labelled", array)
    _check_kind(array)
    names = infer_dims(array) if dims is None else check_dims(dims)
    fields = label_paths(arrange(array, names))
    fields = order_space(order_time(fields, check_unit(time_unit)), names)
    return fields if fields.dtype == np.float64 else fields.astype(np.float64)


def check_values(fields: xr.DataArray, largest: float = np.finfo(float).max) -> None:
    """Refuse infinite values, fields without a value, and data without a time; one pass.

    Values beyond ``largest`` count as infinite.
    """
    missing, infinite, first = 0, 0, cast("tuple[float, ...]", (np.inf,))
    for where, block in pieces_of(fields.variable.data).read():
        # One NaN, infinity or huge value makes the sum of squares fail this.
        flat = block.reshape(-1)
        if np.vdot(flat, flat) < largest:
            continue
        missing += int(np.isnan(block).sum())
        places = np.argwhere(np.abs(block) > largest)
        if len(places):
            places[:, :2] += [where[0].start, where[1].start]
            infinite, first = infinite + len(places), min(first, tuple(places[0].tolist()))
    if infinite:
        index = ", ".join(f"{dim}={i}" for dim, i in zip(fields.dims, first, strict=True))
        got = f"{infinite} infinite, the first at index {index}"
        expected = "finite numbers, or NaN where missing"
        fix = "if they mean missing: data.where(np.isfinite(data))"
        if largest == LARGEST_VALUE:
            expected = f"finite numbers up to {largest:g}, or NaN where missing"
            fix = f"change the unit; if they mean missing: data.where(abs(data) < {largest:g})"
        raise DataError("values", expected=expected, got=got, fix=fix)
    if missing == fields.size:
        expected = "at least one known value"
        fix = "check the variable, the selection and the fill value of the file"
        raise DataError("values", expected=expected, got=f"{missing} times NaN", fix=fix)
    if PATH_TIME in fields.coords:
        _check_padding(fields)


def _check_kind(array: Any) -> None:
    if not isinstance(array, xr.DataArray):
        got, fix = type(array).__name__, "make it one with as_fields(data, times=..., points=...)"
        raise DataError("fields", expected="an xarray DataArray", got=got, fix=fix)
    kind = array.dtype.kind
    if kind in "iuf":
        return
    fixes = {
        "b": "convert it if 0 and 1 are meant: data.astype(float)",
        "c": "choose data.real or data.imag, or take its modulus",
        "M": "dates belong into the time coordinate",
        "m": "divide by a unit: data / np.timedelta64(1, 's')",
    }
    fix = fixes.get(kind, "convert it: data.astype(float)")
    raise DataError("values", expected="real numbers", got=f"dtype {array.dtype}", fix=fix)


def _check_padding(fields: xr.DataArray) -> None:
    """Where a path has no time, it has no data."""
    has_data = fields.notnull().any(fields.dims[2:])
    wrong = np.argwhere((has_data & fields[PATH_TIME].isnull()).values)
    if len(wrong):
        expected = "a time for every row of data"
        got = "data at a time that is NaN, at index path={}, time={}".format(*wrong[0])
        fix = "give the time, or set these data to NaN"
        raise DataError("coordinate 'path_time'", expected=expected, got=got, fix=fix)


# ---------- Standard deviations of single values, kept as a coordinate of the fields
#
# Instruments and retrievals often come with a field of errors. As the coordinate
# ``observation_std`` of the fields it is cut, split and masked with them.


#: Name of the coordinate.
OBSERVATION_STD = "observation_std"


def with_value_noise(data: Any, std: Any, dims: Sequence[str], **adapter: Any) -> xr.DataArray:
    """Fields with the standard deviation of each value.

    Args:
        data: fields, as `spdelaw.as_fields` takes them.
        std: standard deviations, a DataArray on the times and points of the data or an array of
            their shape; one record of them serves all paths.
        dims: names of the spatial dims.
        adapter: words of `spdelaw.as_fields`.
    """
    fields = as_fields(data, dims=dims, **adapter).compute()
    if isinstance(std, xr.DataArray):
        deviations = as_fields(std, dims=dims, time_unit=adapter.get("time_unit"))
    elif isinstance(data, xr.DataArray):
        if np.shape(std) != data.shape:
            raise _value_noise_error(
                f"the shape of the data, {data.shape}", f"shape {np.shape(std)}"
            )
        deviations = as_fields(data.copy(data=std), dims=dims, time_unit=adapter.get("time_unit"))
    else:
        deviations = as_fields(std, dims=dims, **adapter)
    _check_same_coordinates(fields, deviations)
    values = np.broadcast_to(deviations.values, fields.shape)
    return fields.assign_coords({OBSERVATION_STD: (fields.dims, values)})


def value_noise(fields: xr.DataArray) -> xr.DataArray | None:
    """The standard deviations that belong to fields, in their layout; None where there are none."""
    if OBSERVATION_STD not in fields.coords:
        return None
    std = fields[OBSERVATION_STD].variable.set_dims(dict(fields.sizes)).transpose(*fields.dims)
    observed = ~np.isnan(fields.values)
    bad = observed & ~(np.isfinite(std.values) & (std.values > 0))
    if bad.any():
        got = (
            f"{int(bad.sum())} of {int(observed.sum())} values without one, or with one not above 0"
        )
        raise _value_noise_error("a positive standard deviation for every known value", got)
    bare = fields.drop_vars(OBSERVATION_STD)
    return bare.copy(data=np.where(observed, std.values, np.nan))


def check_not_averaged(data: Any, averages: bool) -> None:
    """Refuse to average values that have standard deviations of their own."""
    if averages and isinstance(data, xr.DataArray | xr.Dataset) and OBSERVATION_STD in data.coords:
        raise _value_noise_error("values that are not averaged", "average= or coarsen=")


def _check_same_coordinates(fields: xr.DataArray, deviations: xr.DataArray) -> None:
    for dim in fields.dims:
        n, m = fields.sizes[dim], deviations.sizes.get(dim, 0)
        if m != n and not (dim == "path" and m == 1):
            raise _value_noise_error(f"{n} along '{dim}', as the data have", f"{m}")
    for name, there in fields.coords.items():
        if name == "path" or name not in deviations.coords or there.dtype.kind != "f":
            continue
        here, size = deviations[name].values, np.nanmax(np.abs(there.values), initial=0.0)
        if here.shape != there.shape or not np.allclose(
            here, there.values, rtol=0.0, atol=1e-5 * size, equal_nan=True
        ):
            raise _value_noise_error(f"the data's coordinate '{name}'", "another one")


def _value_noise_error(expected: str, got: str) -> DataError:
    fix = "give the standard deviation of each value on the times and points of the data"
    return DataError("observation_noise", expected=expected, got=got, fix=fix)


# ---------- Single paths, each with its own times, as one array of fields


@checked()
def stack(
    paths: Sequence[xr.DataArray],
    *,
    dims: str | Sequence[str] = ("x",),
    time_unit: str | None = None,
) -> xr.DataArray:
    """Stack single paths ``(time, *dims)`` with any times into fields.

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
    names = check_dims(dims)
    fine = isinstance(paths, Sequence) and len(paths) > 0
    if not fine or not all(isinstance(path, xr.DataArray) for path in paths):
        expected = "a list of DataArrays, one per path"
        fix = "fields that are one array already go to as_fields"
        raise DataError("paths", expected=expected, got=type(paths).__name__, fix=fix)
    singles = [_check_single_path(i, path, names, time_unit) for i, path in enumerate(paths)]
    singles = _on_one_clock(singles)
    for i, one in enumerate(singles):
        for dim in names:
            if not np.array_equal(one[dim], singles[0][dim]):
                raise DataError(
                    f"paths[{i}], coordinate '{dim}'",
                    expected=f"the {singles[0][dim].size} points of paths[0]",
                    got=f"{one[dim].size} points, not the same",
                    fix=f"interpolate it: path.interp({dim}=points), or mark gaps with NaN: "
                    f"path.reindex({dim}=points)",
                )
    if not all(np.array_equal(one[TIME], singles[0][TIME]) for one in singles):
        n_times = max(one.sizes[TIME] for one in singles)
        singles = [_pad_path(one, n_times) for one in singles]
    labels = [one[PATH].values[0] for one in singles]
    if len({type(label) for label in labels}) > 1 or len(set(labels)) < len(labels):
        labels = list(range(len(singles)))
    joined = xr.concat(
        singles, PATH, coords="different", compat="equals", join="exact", combine_attrs="override"
    )
    return as_fields(joined.assign_coords({PATH: labels}), dims=names)


def _check_single_path(
    position: int, path: xr.DataArray, dims: tuple[str, ...], unit: str | None
) -> xr.DataArray:
    """A path with dims (path, time, *dims)."""
    try:
        one = as_fields(path, dims=dims, time_unit=unit)
    except DataError as error:
        where = f"paths[{position}], {error.what}"
        words = {"expected": error.expected, "got": error.got, "fix": error.fix}
        raise DataError(where, **words) from error
    if one.sizes[PATH] != 1 or PATH_TIME in one.coords:
        expected = "one path with its times in 'time'"
        got = f"{one.sizes[PATH]} paths" + (" with path_time" if PATH_TIME in one.coords else "")
        fix = 'for arrays of several paths: xarray.concat(arrays, "path")'
        raise DataError(f"paths[{position}]", expected=expected, got=got, fix=fix)
    return one


def _on_one_clock(singles: list[xr.DataArray]) -> list[xr.DataArray]:
    """Paths whose dates count from the earliest of all."""
    clocks = [one[TIME].attrs for one in singles]
    units = {str(clock.get("units")) for clock in clocks}
    dated = {" since " in unit for unit in units}
    if len(dated) > 1 or (dated == {False} and len(units) > 1):
        expected = "times of one kind in all paths"
        got = "dates and numbers" if len(dated) > 1 else f"units {', '.join(sorted(units))}"
        fix = "convert the times of all paths to the same unit first"
        raise DataError("coordinate 'time'", expected=expected, got=got, fix=fix)
    if len(units) < 2:
        return singles
    starts = [
        to_dates(one[TIME].values[:1], clock)[0] for one, clock in zip(singles, clocks, strict=True)
    ]
    first = clocks[min(range(len(starts)), key=starts.__getitem__)]
    return [
        on_clock(one, {k: first[k] for k in ("units", "calendar") if k in first}) for one in singles
    ]


def _pad_path(one: xr.DataArray, n_times: int) -> xr.DataArray:
    """A path whose time merely counts, its times in ``path_time``."""
    times = one[TIME].variable
    row = np.full((1, n_times), np.nan)
    row[0, : times.size] = times.values
    counted = one.assign_coords({TIME: np.arange(times.size, dtype=float)})
    counted = counted.reindex({TIME: np.arange(n_times, dtype=float)})
    return counted.assign_coords({PATH_TIME: ((PATH, TIME), row, times.attrs)})

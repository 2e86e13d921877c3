"""What the dims of a file mean, by the CF conventions and by common names, with the reasons."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data._prepare import Preparation
from spdelaw.data._recognise import dim_that, is_latitude, is_longitude, is_path, is_time
from spdelaw.errors import DataError

#: A band of latitudes no wider than this, in degrees, may be averaged without asking.
BAND = 20.0
#: Mean square at the ends, relative to that of the whole, below which they count as zero.
PINNED = 1e-3
#: Longest step for which a finer unit of time than days is used, in days.
HOURLY, SECONDLY = 0.25, 1.0 / 288


@dataclasses.dataclass(frozen=True)
class Guess:
    """How to read a raw file, and why.

    Attributes:
        preparation: variable, names of dims and means over dims.
        reasons: a sentence for each thing that was guessed.
    """

    preparation: Preparation
    reasons: list[str]


def guess_layout(
    dataset: xr.Dataset, variable: str | None = None, along: str | None = None,
    average: tuple[str, ...] = (), dims: tuple[str, ...] = ("x",),
) -> Guess:  # fmt: skip
    """Variable, time, paths and space of a raw data set.

    Args:
        dataset: of any layout, with dates decoded.
        variable: overrules the guess.
        along: dim that becomes the spatial one, overrules the guess.
        average: dims to average over, in addition.
        dims: what the domain calls its spatial dims; a ``z`` among them may be absent.
    """
    name = _variable(dataset, variable)
    array = dataset[name]
    reasons = [] if variable or len(dataset.data_vars) == 1 else [f"variable {name}"]
    rename: dict[str, str] = {}
    time = dim_that(array, is_time)
    if time is None:
        raise DataError(
            f"variable '{name}'", expected="a dim of time", got=f"dims {tuple(array.dims)}",
            fix='name it "time", or give it the attribute axis="T"',
        )  # fmt: skip
    path = dim_that(array, is_path)
    for found, meant in ((time, "time"), (path, "path")):
        if found is not None and found != meant:
            rename[found] = meant
            reasons.append(f"{found} is {meant}")
    space = [str(d) for d in array.dims if d not in (time, path, *average)]
    why: list[str] = []
    if len(dims) > 1:
        named, extra, why = _several(array, space, dims)
    elif along is not None:
        if along not in space:
            raise DataError(
                "along", expected=f"one of {', '.join(space)}", got=repr(along),
                fix=f"pass --along {space[0]}" if space else "check the dims of the variable",
            )  # fmt: skip
        named, extra = {along: "x"}, [d for d in space if d != along]
    else:
        chosen, extra, why = _space(array, space)
        named = {chosen: "x"}
    changed = {old: new for old, new in named.items() if old != new}
    if changed:
        rename |= changed
        told = [old if len(named) == 1 else f"{new} = {old}" for old, new in named.items()]
        reasons.append(f"space is {', '.join(told)}")
    how = Preparation(variable=name, average=(*average, *extra), rename=rename)
    return Guess(how, reasons + why)


def _variable(dataset: xr.Dataset, variable: str | None) -> str:
    names = [str(name) for name in dataset.data_vars]
    if variable is not None:
        if variable in names:
            return variable
        raise DataError(
            "variable", expected=f"one of {', '.join(names)}", got=repr(variable),
            fix=f"pass --variable {names[0]}" if names else "check the file",
        )  # fmt: skip
    bounds = {str(c.attrs.get("bounds")) for c in dataset.variables.values()}
    fields = [
        name for name in names
        if name not in bounds and not name.endswith(("_bnds", "_bounds"))
        and dataset[name].dtype.kind in "iuf" and dim_that(dataset[name], is_time) is not None
        and dataset[name].ndim >= 2
    ]  # fmt: skip
    if len(fields) == 1:
        return fields[0]
    raise DataError(
        "variable", expected=f"one field over time, of {', '.join(names) or 'none'}",
        got="several to choose from" if fields else "none",
        fix=f"pass --variable {fields[0]}" if fields else "check the file: spdelaw info FILE",
    )  # fmt: skip


def _without_single(
    array: xr.DataArray, space: list[str]
) -> tuple[list[str], list[str], list[str]]:
    """Dims with more than one entry, the others, and that this is why."""
    single = [dim for dim in space if array.sizes[dim] == 1]
    rest = [dim for dim in space if dim not in single] or single[:1]
    single = [dim for dim in single if dim not in rest]
    return rest, single, [f"{dim} has one entry" for dim in single]


def _several(
    array: xr.DataArray, space: list[str], dims: tuple[str, ...]
) -> tuple[dict[str, str], list[str], list[str]]:
    """Old to new names of several spatial dims, dims to average over, and why.

    A longitude is ``lon`` or ``x``, a latitude ``lat`` or ``y``; without them the order counts.
    """
    rest, single, why = _without_single(array, space)
    if "z" in dims:
        dims = dims[: max(len(rest), 2)]
    lat = [dim for dim in rest if is_latitude(array, dim)]
    lon = [dim for dim in rest if dim in array.coords and is_longitude(array, dim)]
    if set(rest) == set(dims):
        return {dim: dim for dim in rest}, single, why
    if len(rest) == 2 and len(dims) == 2 and len(lat) == len(lon) == 1:
        meant = ("lon", "lat") if "lon" in dims else ("x", "y")
        return dict(zip((lon[0], lat[0]), meant, strict=True)), single, why
    if len(rest) == len(dims) and "lon" not in dims:
        return dict(zip(rest, dims, strict=True)), single, why
    raise DataError(
        f"variable '{array.name}'", expected=f"spatial dims that can be {', '.join(dims)}",
        got=f"spatial dims {' and '.join(rest) or 'none'}",
        fix="average over the others with --average DIM, or choose another domain",
    )  # fmt: skip


def _space(array: xr.DataArray, space: list[str]) -> tuple[str, list[str], list[str]]:
    """The spatial dim, dims to average over, and why."""
    rest, single, why = _without_single(array, space)
    if len(rest) == 1:
        return rest[0], single, why
    latitudes = [dim for dim in rest if is_latitude(array, dim)]
    others = [dim for dim in rest if dim not in latitudes]
    if len(latitudes) == 1 and len(others) == 1:
        width = float(np.ptp(array[latitudes[0]].values.astype(float)))
        if width <= BAND:
            told = f"mean over {latitudes[0]} by area, a band of {width:.3g} degrees"
            return others[0], [*single, latitudes[0]], [*why, told]
    dims = " and ".join(rest) or "none"
    raise DataError(
        f"variable '{array.name}'", expected="one spatial dim, or a narrow band of latitudes",
        got=f"spatial dims {dims}",
        fix=f"pass --along {rest[-1]} with --average {rest[0]}, or cut a band out: "
        f"--select {rest[0]}=-2:2, or keep all with --domain box or sphere" if len(rest) > 1
        else "check the dims of the variable",
    )  # fmt: skip


def guess_boundary(fields: xr.DataArray) -> tuple[str, tuple[float, float], str]:
    """Boundary, bounds and reason for fields (path, time, x) on an interval."""
    coordinate = fields["x"]
    x = coordinate.values
    if x.size < 2:
        raise DataError(
            "coordinate 'x'", expected="at least two points", got=str(x.size),
            fix="a single point has no space; use a time-series model",
        )  # fmt: skip
    step = float(np.median(np.diff(x)))
    if is_longitude(fields, "x") and abs(x[-1] - x[0] + step - 360.0) < 0.5 * step:
        start = float(x[0])
        return "periodic", (start, start + 360.0), "periodic, because the longitudes go all around"
    ends = (float(x[0]), float(x[-1]))
    with np.errstate(invalid="ignore"):
        edge = np.nanmean(np.concatenate([fields.values[..., 0], fields.values[..., -1]]) ** 2)
        whole = np.nanmean(fields.values**2)
    if np.isfinite(edge) and edge <= PINNED * whole:
        return "dirichlet", ends, "dirichlet, because the field is zero at both ends"
    return "neumann", ends, "neumann, because the field is free at its ends"


def guess_unit(times: np.ndarray) -> str:
    """Unit in which dates are counted: days, or hours or seconds where steps are short."""
    step = float(np.median(np.diff(times)) / np.timedelta64(1, "s")) / 86400.0
    if step >= HOURLY:
        return "days"
    return "hours" if step >= SECONDLY else "seconds"

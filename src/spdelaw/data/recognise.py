"""Layout, domain and preparation of raw data, recognised from names, coordinates and values."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data.clock import is_date, to_numbers
from spdelaw.data.layout import (
    coordinate,
    in_radians,
    is_latitude,
    is_longitude,
    is_path,
    is_time,
    longitudes_together,
)
from spdelaw.data.names import roles, with_places
from spdelaw.data.prepare import Preparation, Prepared
from spdelaw.data.quality import advised_anomalies
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.box import Box
from spdelaw.domains.interval import Interval
from spdelaw.domains.sphere import Sphere
from spdelaw.errors import DataError, InputError

# ---------- Layout: what the dims of a file mean, by the CF conventions and by common names


#: A band of latitudes no wider than this, in degrees, is averaged for a domain of one dim.
NARROW_BAND = 20.0
#: Degrees beyond the ends of a range, so that rounding leaves no longitude out.
LONGITUDE_MARGIN = 1e-4


#: Spatial dims of the domains that can be recognised.
DOMAIN_DIMS = {"interval": ("x",), "box": ("x", "y", "z"), "sphere": ("lat", "lon")}


@dataclasses.dataclass(frozen=True)
class Layout:
    """How to read raw data, and why.

    Attributes:
        preparation: that of the user, with variable, names, means over dims and unit of time.
        domain: name of the domain; None where the caller states its dims.
        dims: spatial dims that the fields will have.
        time: name of the dim of time.
        domain_reason: why this domain.
        reasons: a sentence for each other thing that was recognised, but for the unit of time.
    """

    preparation: Preparation
    domain: str | None
    dims: tuple[str, ...]
    time: str
    domain_reason: str
    reasons: list[str]


def recognise(
    dataset: xr.Dataset, how: Preparation | None = None, *,
    dims: tuple[str, ...] | None = None, along: str | None = None,
) -> Layout:  # fmt: skip
    """Variable, time, paths, space and domain of a raw data set.

    Args:
        dataset: of any layout, with dates decoded.
        how: what the user states about it, which is never overruled.
        dims: what the domain calls its spatial dims, None to recognise the domain as well; a ``z``
            among them may be absent.
        along: dim that becomes the spatial one.
    """
    how = how or Preparation()
    whole = with_places(dataset)
    name = guess_variable(whole, how.variable)
    array = _select(whole, dataclasses.replace(how, variable=name))
    reasons = [] if how.variable or len(whole.data_vars) == 1 else [f"variable {name}"]
    time, paths, rename, time_reasons = _time_and_paths(array)
    space = [str(d) for d in array.dims if d not in (time, *paths, *how.average)]
    domain, why = (None, "") if dims is not None else _domain_name(array, space)
    dims = dims or DOMAIN_DIMS[str(domain)]
    named, extra, space_reasons = _space_names(array, space, dims, along)
    changed = {old: new for old, new in named.items() if old != new}
    if changed:
        rename |= {old: new for old, new in changed.items() if old in array.dims}
        words = [old if len(named) == 1 else f"{new} = {old}" for old, new in named.items()]
        time_reasons.append(f"space is {', '.join(words)}")
    select, longitude_reasons = _longitudes_across_jump(
        array, [old for old, new in named.items() if new != "lon"]
    )
    preparation = dataclasses.replace(
        how, variable=name, select={**select, **how.select}, average=(*how.average, *extra),
        rename={**rename, **how.rename}, time_unit=how.time_unit or _time_unit(dataset, time),
    )  # fmt: skip
    reasons += time_reasons + space_reasons + longitude_reasons
    present = tuple(d for d in dims if d in named.values())
    return Layout(preparation, domain, present, time, why, reasons)


def _select(dataset: xr.Dataset, how: Preparation) -> xr.DataArray:
    """The variable within the ranges that the user selects, for guesses about its extent."""
    if not how.select:
        return dataset[how.variable]
    cut = Preparation(variable=how.variable, select=how.select, missing=how.missing)
    reduced: xr.DataArray = cut.reduce(dataset)
    return reduced


def _time_unit(raw: xr.Dataset, time: str) -> str | None:
    """Unit in which to count dates; None for times that are numbers."""
    if time not in raw.coords or raw[time].ndim != 1 or raw.sizes[time] < 2:
        return None
    values = raw[time].values
    return guess_unit(values) if values.dtype.kind == "m" or is_date(raw[time].variable) else None


def guess_variable(dataset: xr.Dataset, variable: str | None = None) -> str:
    """The only variable that is a field over time, or the one that the user names."""
    names = [str(name) for name in dataset.data_vars]
    if variable is not None:
        if variable in names:
            return variable
        expected = f"one of {', '.join(names)}"
        fix = f"pass --variable {names[0]}" if names else "check the file"
        raise DataError("variable", expected=expected, got=repr(variable), fix=fix)
    bounds = {str(c.attrs.get("bounds")) for c in dataset.variables.values()}
    series = [
        name for name in names
        if name not in bounds and not _is_bounds(name)
        and dataset[name].dtype.kind in "iuf" and roles(dataset[name]).time is not None
    ]  # fmt: skip
    fields = [name for name in series if dataset[name].ndim >= 2]
    if len(fields) == 1:
        return fields[0]
    got, fix = "none", "give the time dim the name 'time', or the attribute axis=\"T\""
    moments = [str(n) for n, c in dataset.coords.items() if c.ndim == 0 and is_date(c.variable)]
    others = [n for n in names if dataset[n].dtype.kind not in "iuf" and dataset[n].ndim > 1]
    if others:
        kind = "booleans" if dataset[others[0]].dtype.kind == "b" else "text"
        got, fix = f"'{others[0]}' of {kind}", f"store numbers: data[{others[0]!r}].astype(float)"
    elif moments:
        got = f"fields of one '{moments[0]}' only"
        fix = "a law describes changes in time: join the files of several times along a dim 'time'"
    if fields:
        largest = max(fields, key=lambda name: dataset[name].size)
        got, fix = "several to choose from", f"pass --variable {largest}"
    elif series:
        got = f"'{series[0]}' over time alone"
        fix = "a law describes fields: provide values at several points, such as stations or a grid"
    shown = [n for n in names if n not in bounds and dataset[n].ndim and not _is_bounds(n)]
    expected = f"one field over time and space, of {', '.join(shown) or 'none'}"
    raise DataError("variable", expected=expected, got=got, fix=fix)


def _is_bounds(name: str) -> bool:
    return name.endswith(("_bnds", "_bounds")) or name.startswith("bounds_")


def _time_and_paths(array: xr.DataArray) -> tuple[str, list[str], dict[str, str], list[str]]:
    """The dim of time, those of paths, names to change, and the reasons."""
    time, paths, has_lead = roles(array)
    if time is None:
        got, fix = f"dims {tuple(array.dims)}", 'name it "time", or give it the attribute axis="T"'
        raise DataError(f"variable '{array.name}'", expected="a dim of time", got=got, fix=fix)
    if has_lead or len(paths) > 1:  # paths are stacked later, under other names
        reasons = [f"{time} is time"] if time != "time" else []
        which = f"pair of {' and '.join(paths)}" if len(paths) > 1 else f"entry of {''.join(paths)}"
        return time, paths, {}, reasons + ([f"each {which} is a path"] if paths else [])
    changed = [(time, "time"), *((path, "path") for path in paths)]
    rename = {old: new for old, new in changed if old != new}
    return time, paths, rename, [f"{old} is {new}" for old, new in rename.items()]


def _space_names(
    array: xr.DataArray, space: list[str], dims: tuple[str, ...], along: str | None
) -> tuple[dict[str, str], list[str], list[str]]:
    """Old to new names of the spatial dims, dims to average over, and why."""
    if along is not None:
        if along not in space:
            expected = f"one of {', '.join(space)}"
            fix = f"pass --along {space[0]}" if space else "check the dims of the variable"
            raise DataError("along", expected=expected, got=repr(along), fix=fix)
        return {along: "x"}, [d for d in space if d != along], []
    places = scattered_places(array, space)
    if places is not None and len(dims) > 1:
        return _names_of_scattered_points(array, places, dims)
    if len(dims) > 1:
        return _names_of_several_dims(array, space, dims)
    chosen, extra, why = _single_space_dim(array, space)
    return {chosen: "x"}, extra, why


def scattered_places(array: xr.DataArray, space: list[str]) -> tuple[str, ...] | None:
    """Coordinates of latitude and longitude, or x and y, that lie along other dims than their own.

    Stations have them along one dim, curvilinear grids along two.
    """
    pairs = [(coordinate(array, is_latitude), coordinate(array, is_longitude)), ("x", "y")]
    for pair in pairs:
        if any(name is None or name not in array.coords for name in pair):
            continue
        first, second = (array[str(name)].dims for name in pair)
        if first == second and 1 <= len(first) <= 2 and set(first) <= set(space):
            return tuple(str(name) for name in pair)
    return None


def _names_of_scattered_points(
    array: xr.DataArray, places: tuple[str, ...], dims: tuple[str, ...]
) -> tuple[dict[str, str], list[str], list[str]]:
    along = [str(d) for d in array[places[0]].dims]
    meant = dims if "lat" in dims else (("x", "y") if places == ("x", "y") else ("y", "x"))
    extra = [str(d) for d in array.dims if d not in along and array.sizes[d] == 1]
    kind = "stations along" if len(along) == 1 else "a curvilinear grid over"
    named = dict(zip(places, meant, strict=True))
    return (
        named,
        [d for d in extra if not is_path(array, d) and not is_time(array, d)],
        [f"{kind} {' and '.join(along)}, taken as scattered points"],
    )


def without_single(array: xr.DataArray, space: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Dims with more than one entry, the others, and the reason for each of these."""
    single = [dim for dim in space if array.sizes[dim] == 1]
    long_dims = [dim for dim in space if dim not in single] or single[:1]
    single = [dim for dim in single if dim not in long_dims]
    return long_dims, single, [f"{dim} has one entry" for dim in single]


def _names_of_several_dims(
    array: xr.DataArray, space: list[str], dims: tuple[str, ...]
) -> tuple[dict[str, str], list[str], list[str]]:
    """Old to new names of several spatial dims, dims to average over, and why.

    A longitude is ``lon`` or ``x``, a latitude ``lat`` or ``y``; without them the order counts.
    """
    long_dims, single, why = without_single(array, space)
    if "z" in dims:
        dims = dims[: max(len(long_dims), 2)]
    lat = [dim for dim in long_dims if is_latitude(array, dim)]
    lon = [dim for dim in long_dims if is_longitude(array, dim)]
    if set(long_dims) == set(dims):
        return {dim: dim for dim in long_dims}, single, why
    if len(long_dims) == 2 and len(dims) == 2 and len(lat) == len(lon) == 1:
        meant = ("lon", "lat") if "lon" in dims else ("x", "y")
        return dict(zip((lon[0], lat[0]), meant, strict=True)), single, why
    if len(long_dims) == len(dims) and "lon" not in dims:
        across = [*lon, *lat] if len(lat) == len(lon) == 1 else []
        ordered = across + [dim for dim in long_dims if dim not in across]
        return dict(zip(ordered, dims, strict=True)), single, why
    raise DataError(
        f"variable '{array.name}'",
        expected=f"spatial dims that can be {', '.join(dims)}",
        got=f"spatial dims {' and '.join(long_dims) or 'none'}",
        fix="choose one entry of a dim with --select DIM=VALUE, average it with --average DIM, "
        "or choose another domain",
    )


def _single_space_dim(array: xr.DataArray, space: list[str]) -> tuple[str, list[str], list[str]]:
    """The spatial dim, dims to average over, and why."""
    long_dims, single, why = without_single(array, space)
    if len(long_dims) == 1:
        return long_dims[0], single, why
    band = _narrow_band(array, long_dims)
    if band is not None:
        width = float(np.ptp(array[band].values.astype(float)))
        band_reason = f"mean over {band} by area, a band of {width:.3g} degrees"
        (other,) = [dim for dim in long_dims if dim != band]
        return other, [*single, band], [*why, band_reason]
    dims = " and ".join(long_dims) or "none"
    raise DataError(
        f"variable '{array.name}'",
        expected="one spatial dim, or a narrow band of latitudes",
        got=f"spatial dims {dims}",
        fix=f"pass --along {long_dims[-1]} with --average {long_dims[0]}, or cut a band out: "
        f"--select {long_dims[0]}=-2:2, or keep all with --domain box or sphere"
        if len(long_dims) > 1
        else "check the dims of the variable",
    )


def _narrow_band(array: xr.DataArray, space: list[str]) -> str | None:
    """The latitude of two spatial dims, where it is a narrow band."""
    latitudes = [dim for dim in space if is_latitude(array, dim)]
    if len(space) != 2 or len(latitudes) != 1 or latitudes[0] not in array.coords:
        return None
    band = latitudes[0]
    (other,) = [dim for dim in space if dim != band]
    if other in array.coords and in_radians(array, band, other):
        return None
    width: Any = np.ptp(array[band].values.astype(float))
    return band if width <= NARROW_BAND else None


def _longitudes_across_jump(
    array: xr.DataArray, space: list[str]
) -> tuple[dict[str, tuple[float, float]], list[str]]:
    """Range of longitudes that lie together, where their numbers jump between them, and why."""
    for name in [n for n in space if n in array.coords and is_longitude(array, n)]:
        lon = np.asarray(array[name].values, dtype=float)
        west, east = longitudes_together(lon)
        if east - west >= np.ptp(lon[np.isfinite(lon)]) - LONGITUDE_MARGIN:
            continue
        reason = f"{name} from {west:g} to {east:g}, continued where its numbers jump by 360"
        return {name: (west - LONGITUDE_MARGIN, east + LONGITUDE_MARGIN)}, [reason]
    return {}, []


# ---------- Domain and boundary conditions, from coordinates and values


#: Mean square at the ends, relative to that of the whole, below which they count as zero.
ZERO_ENDS_SHARE = 1e-3
#: Degrees of longitude and latitude from which a field is one on the globe.
GLOBAL_LON, GLOBAL_LAT = 270.0, 90.0
#: Longest step for which a finer unit of time than days is used, in days.
SHORTEST_DAILY_STEP, SHORTEST_HOURLY_STEP = 0.25, 1.0 / 288


class Side(NamedTuple):
    """Boundary condition of a field at the two ends of a coordinate."""

    boundary: str
    ends: tuple[float, float]
    reason: str


def _domain_name(array: xr.DataArray, space: list[str]) -> tuple[str, str]:
    """Name of a domain for an array with these spatial dims, and the reason."""
    places = scattered_places(array, space)
    long_dims, _, _ = without_single(array, space)
    lat = [d for d in long_dims if is_latitude(array, d) and d in array.coords]
    lon = [d for d in long_dims if is_longitude(array, d) and d in array.coords]
    if places is None and len(long_dims) == 2 and lat and lon:
        places = (lat[0], lon[0])
    if places is None and len(long_dims) < 2:
        return "interval", "interval, because there is one spatial dim"
    if places is None:
        return "box", f"box, because there are {len(long_dims)} spatial dims"
    if not is_latitude(array, places[0]):
        return "box", "box, because there are two coordinates of space"
    if in_radians(array, *places):
        return "box", f"box, because {' and '.join(places)} look like radians, not degrees"
    y, x = (array[name].values for name in places)
    west, east = longitudes_together(x)
    high = float(np.nanmax(y) - np.nanmin(y))
    span = f"{east - west:.3g} degrees of longitude and {high:.3g} of latitude"
    if east - west >= GLOBAL_LON and high >= GLOBAL_LAT:
        return "sphere", f"sphere, because it covers {span}"
    return "box", f"box in degrees, because it covers {span}; --domain sphere keeps true distances"


def guess_side(fields: xr.DataArray, dim: str = "x") -> Side:
    """Boundary condition of canonical fields along a coordinate, on a grid or scattered."""
    x = np.sort(np.asarray(fields[dim].values, dtype=float))
    ends = (float(x[0]), float(x[-1]))
    if ends[0] == ends[1]:
        expected = "at least two points that differ in it"
        fix = "a law in space needs different points; remove the dim, or use a time-series model"
        raise DataError(f"coordinate '{dim}'", expected=expected, got=f"{ends[0]:g} only", fix=fix)
    if dim not in fields.dims:
        return Side("neumann", ends, "neumann, because the points are scattered")
    step = float(np.median(np.diff(x)))
    whole = np.diff(x).max() <= 2.0 * step
    if is_longitude(fields, dim) and whole and abs(x[-1] - x[0] + step - 360.0) < 0.5 * step:
        around = (ends[0], ends[0] + 360.0)
        return Side("periodic", around, "periodic, because the longitudes cover the globe")
    outer = fields.isel({dim: [0, -1]}).values
    with np.errstate(invalid="ignore"):
        has_edge_values = np.isfinite(outer).any()
        edge = np.nanmean(outer**2) if has_edge_values else np.inf
        overall = np.nanmean(fields.values**2)
    if edge <= ZERO_ENDS_SHARE * overall:
        return Side("dirichlet", ends, "dirichlet, because the field is zero at both ends")
    return Side("neumann", ends, "neumann, because the field is free at its ends")


def guess_unit(times: np.ndarray) -> str:
    """Unit in which dates are counted: days, or hours or seconds where steps are short."""
    seconds = to_numbers(xr.Variable("time", times), "seconds").values
    step = float(np.median(np.diff(np.sort(seconds)))) / 86400.0
    if step >= SHORTEST_DAILY_STEP:
        return "days"
    return "hours" if step >= SHORTEST_HOURLY_STEP else "seconds"


# ---------- Domain and preparation of raw data where the user gives neither


def guess_source(
    data: Any, prepare: Preparation | None, *, climate: bool | None = None
) -> tuple[AbstractDomain, Preparation]:
    """A domain for labelled data, and their preparation with names, dims and climatology.

    Args:
        data: raw.
        prepare: what the user states.
        climate: whether to choose a climatology; by default where nothing is stated.
    """
    chooses = prepare is None if climate is None else climate
    layout, prepared, fields = prepare_as_recognised(data, prepare, climate=chooses)
    return _build_domain(str(layout.domain), fields, layout.dims), prepared.how


def prepare_as_recognised(
    data: Any, prepare: Preparation | None, *, climate: bool = False
) -> tuple[Layout, Prepared, xr.DataArray]:
    """Layout of labelled data, what their preparation learned, and the prepared fields.

    ``climate`` chooses a climatology where none is stated.
    """
    raw = _dataset(data)
    layout = recognise(raw, prepare)
    return layout, *learned_with_climate(layout, raw, climate)[:2]


def learned_with_climate(
    layout: Layout, raw: xr.Dataset, chooses: bool
) -> tuple[Prepared, xr.DataArray, list[str]]:
    """The learned preparation, its fields, and why it has anomalies by default.

    ``chooses`` a climatology by the values where the preparation leaves them as they are. Lazy data
    are not read for it.
    """
    prepared, fields = layout.preparation.learned(raw, layout.dims)
    if not chooses or layout.preparation.is_affine or fields.chunks is not None:
        return prepared, fields, []
    advised = advised_anomalies(fields)
    if advised is None and not _is_dated_record(fields):
        return prepared, fields, []
    word, reason = advised or ("mean", "it is a record with dates")
    how = dataclasses.replace(layout.preparation, anomalies=word)
    return *how.learned(raw, layout.dims), [f"anomalies {word}, because {reason}"]


def _is_dated_record(fields: xr.DataArray) -> bool:
    """Whether this is one record of nature, whose mean no modes represent."""
    return fields.sizes["path"] == 1 and " since " in str(fields["time"].attrs.get("units", ""))


def _dataset(data: Any) -> xr.Dataset:
    if isinstance(data, xr.Dataset):
        return data
    if isinstance(data, xr.DataArray):
        is_free = data.name is not None and data.name not in data.coords
        return data.to_dataset(name=str(data.name) if is_free else "field")
    expected = "a domain, where the data have no coordinates to guess it from"
    got = f"none, and data of type {type(data).__name__}"
    fix = "pass domain=sl.Interval(a, b), points=, or an xarray object"
    raise InputError("domain", expected=expected, got=got, fix=fix)


def _build_domain(name: str, fields: xr.DataArray, dims: tuple[str, ...]) -> AbstractDomain:
    if name == "sphere":
        return Sphere()
    sides = [guess_side(fields, d) for d in dims]
    boundary: Any = tuple(side.boundary for side in sides)
    if name == "interval":
        return Interval(*sides[0].ends, boundary[0])
    return Box(*(side.ends for side in sides), boundary=boundary)

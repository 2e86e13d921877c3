"""Paths as space-time images or maps, their reconstructions, and the shapes of modes."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.checks import checked, real_array
from spdelaw.data.layout import infer_dims
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.places import places_of_fields
from spdelaw.errors import DataError, InputError
from spdelaw.processes.spde import SpectralSPDE
from spdelaw.report.figures.charts import (
    Chart,
    Colours,
    Image,
    Line,
    Panel,
    colour_scale,
    symmetric_scale,
    thinned,
)
from spdelaw.report.figures.draw import as_paths, draw
from spdelaw.report.maps import Canvas, canvas_of, is_geographic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray

#: Times at which a path in two dimensions is drawn, and panels of modes in a row.
MAP_TIMES, MODE_COLUMNS = 4, 6
#: Points per dim of a grid on which modes are drawn.
GRID_POINTS = 61


# ---------- Fields on a line or on a map


def space_dims(fields: xr.DataArray) -> tuple[str, ...]:
    """Dims that are neither path nor time."""
    return tuple(str(d) for d in fields.dims if d not in ("path", "time"))


def space_names(fields: xr.DataArray) -> tuple[str, ...]:
    """Names of the spatial coordinates: the dims, or the coordinates along ``point``."""
    dims = space_dims(fields)
    return infer_dims(fields) if dims == ("point",) else dims


def globe_axes(fields: xr.DataArray, names: tuple[str, ...]) -> tuple[int, ...]:
    """Positions of longitude and latitude among coordinates; empty where they are others."""
    attributes = [
        {"name": name, **{k: str(v) for k, v in fields[name].attrs.items()}} for name in names
    ]
    pairs = itertools.permutations(range(len(names)), 2)
    return next((pair for pair in pairs if is_geographic(*(attributes[i] for i in pair))), ())


def field_panel(values: Any, times: Any, space: Array | Canvas, colours: Any, **more: Any) -> Panel:
    """Values over time and a line (..., t, s), or at one time on a map (..., M), as one panel."""
    bar, by = more.pop("bar", False), more.pop("by", "")
    if isinstance(space, Canvas):
        return Panel((Image(space.x, space.y, values, colours, bar, by, space),), **more)
    return Panel((Image(times, space, values, colours, bar, by),), **more)


@dataclasses.dataclass(frozen=True)
class Shown:
    """Labelled fields (..., time, space) of one or two dimensions, ready to be drawn."""

    fields: xr.DataArray

    def __post_init__(self) -> None:
        """Three dimensions raise `DataError`."""
        names = space_names(self.fields)
        if len(names) > 2:
            expected = "one or two spatial dims to draw"
            fix = f"choose a slice first: fields.sel({names[-1]}=0, method='nearest')"
            raise DataError("fields", expected=expected, got=f"{len(names)}: {names}", fix=fix)

    @functools.cached_property
    def space(self) -> Array | Canvas:
        """Points on a line, or the canvas of a map."""
        names = space_names(self.fields)
        if len(names) == 1:
            return np.asarray(self.fields[names[0]].values)
        places = places_of_fields(self.fields, names)
        globe = globe_axes(self.fields, names)
        canvas = canvas_of(None, places, names, globe, most=len(places.points))
        return canvas  # type: ignore[return-value]

    @property
    def titles(self) -> tuple[str, str]:
        """Of the horizontal and the vertical axis."""
        space = self.space
        return space.titles if isinstance(space, Canvas) else ("time", space_names(self.fields)[0])

    def panel(self, values: xr.DataArray, colours: Colours, **more: Any) -> Panel:
        """Panel of values (time, space) of these fields, of one time where they are maps."""
        space = self.space
        if isinstance(space, Canvas):
            flat = values.values.reshape(-1) if "point" not in values.dims else values.values
            return field_panel(space.shown(flat), None, space, colours, **more)
        return field_panel(values.values, values["time"].values, space, colours, **more)


def one_path(what: str, fields: Any, path: int) -> xr.DataArray:
    """The path at a position as (time, *space) with its times of observation.

    Args:
        what: name of the argument, for messages.
        fields: DataArray (path, time, x) or (time, x), with or without ``path_time``.
        path: position, from zero.
    """
    dims = set(fields.dims) if isinstance(fields, xr.DataArray) else set()
    space = space_dims(fields) if dims else ()
    labelled = bool(space) and all(d in fields.coords or d == "point" for d in space)
    if "time" not in dims or not labelled:
        expected = "a DataArray with dims (path, time, x) and their coordinates"
        got = f"dims {tuple(fields.dims)}" if dims else type(fields).__name__
        fix = "pass the result of sl.read, law.reconstruct(...)['mean'] or sl.as_fields"
        raise DataError(what, expected=expected, got=got, fix=fix)
    if "path" not in dims:
        return fields.transpose("time", *space)
    check_path(path, fields.sizes["path"])
    chosen = fields.isel(path=path).transpose("time", *space)
    if "path_time" not in chosen.coords:
        return chosen
    times = chosen["path_time"].values
    has_time = np.isfinite(times)
    observed = chosen.isel(time=np.flatnonzero(has_time)).drop_vars("path_time")
    return observed.assign_coords(time=times[has_time])


def check_path(path: int, n_paths: int) -> None:
    """Refuse the position of a path that is not there."""
    if not 0 <= path < n_paths:
        expected = f"a position from 0 to {n_paths - 1}"
        raise InputError("path", expected=expected, got=str(path), fix="pass path=0")


def moments_of(what: str, result: Any, path: int) -> tuple[xr.DataArray, xr.DataArray]:
    """Mean and standard deviation (time, x) of the field of one path of a result."""
    if not (isinstance(result, xr.Dataset) and {"mean", "std"} <= set(result.data_vars)):
        got, fix = type(result).__name__, "pass the result of law.reconstruct or law.forecast"
        raise DataError(what, expected="a Dataset with mean and std", got=got, fix=fix)
    std = result["std_field"] if "std_field" in result else result["std"]
    return one_path(what, result["mean"], path), one_path(what, std, path)


def nearest(fields: xr.DataArray, point: Any = None) -> xr.DataArray:
    """Fields at the point nearest to ``point``; at the middle one where that is None."""
    names, dims = space_names(fields), space_dims(fields)
    if point is None and dims != ("point",):
        return fields.isel({d: fields.sizes[d] // 2 for d in dims})
    values = [fields[name].values for name in names]
    is_given = point is not None
    target = real_array("point", point, DataError) if is_given else np.mean(values, axis=1)
    target = np.atleast_1d(target)
    if np.shape(target) != (len(names),):
        expected = f"one number for each of {', '.join(names)}"
        fix = "leave it out for the middle of the grid"
        raise DataError("point", expected=expected, got=repr(point), fix=fix)
    if dims == ("point",):
        gaps = sum((v - w) ** 2 for v, w in zip(values, target, strict=True))
        return fields.isel(point=int(np.argmin(gaps)))
    pairs = zip(names, values, target, strict=True)
    return fields.isel({name: int(np.abs(v - w).argmin()) for name, v, w in pairs})


def time_text(time: Any) -> str:
    """A time as a date or as a number."""
    value = np.asarray(time)
    if value.dtype.kind == "M":
        return str(np.datetime_as_string(value, unit="D"))
    return f"t = {float(value):.3g}" if value.dtype.kind in "iuf" else str(time)[:10]


# ---------- A few paths as space-time images, or as maps at a few times


@checked()
def plot_fields(
    fields: xr.DataArray, equation: SpectralSPDE | None = None, *, n_paths: int = 3
) -> Figure:
    """Draw the first paths over time and space on one colour scale; NaN is grey.

    In two dimensions a path is a row of maps at `MAP_TIMES` times. With the equation two more
    panels, or rows, compare the mean of all paths with its closed form.

    Args:
        fields: DataArray (path, time, x), or with two spatial dims, or scattered points.
        equation: adds the two panels of the mean.
        n_paths: how many paths to draw.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import plot_fields
        >>> fields = sl.simulate(sl.catalogue.heat(n_modes=4), n_paths=2, seed=0)
        >>> [ax.get_title("left") for ax in plot_fields(fields).axes[:2]]
        ['path 0', 'path 1']
    """
    fields = as_paths(fields)
    if not np.isfinite(fields[:n_paths]).any():
        fix = "check the file, or select other paths"
        raise DataError("fields", expected="at least one value to draw", got="NaN only", fix=fix)
    shown, names = Shown(fields), fields["path"].values
    drawn = {f"path {names[i]}": fields[i] for i in range(min(n_paths, len(fields)))}
    if equation is not None:
        grid = equation.domain.places(fields).points
        drawn[f"mean of {len(fields)} paths"] = fields.mean("path")
        exact = equation.mean(fields["time"].values, grid)
        drawn["mean, closed form"] = exact.transpose(*fields.dims[1:])
    colours = colour_scale(np.concatenate([p.values.ravel() for p in drawn.values()]))
    (right, up), last, label = shown.titles, list(drawn)[-1], str(fields.name or "field")
    if not isinstance(shown.space, Canvas):
        row = [shown.panel(values, colours, title=title, x=right, shared=i > 0,
                           y="" if i else up, bar=label if title == last else False)
               for i, (title, values) in enumerate(drawn.items())]  # fmt: skip
        return draw(Chart("paths", (row,)), (1.0 + 1.75 * len(row), 2.4))
    at = thinned(fields.sizes["time"], MAP_TIMES)
    when = [time_text(t) for t in fields["time"].values[at]]
    rows = [
        [shown.panel(values[i], colours, x=right if title == last else "", shared=k > 0,
                     title=when[k] if title == next(iter(drawn)) else "",
                     y="" if k else f"{title}\n{up}",
                     bar=label if (title, k) == (last, len(at) - 1) else False)
         for k, i in enumerate(at)]
        for title, values in drawn.items()
    ]  # fmt: skip
    height = max(1.1, 0.3 + 1.2 * float(np.clip(shown.space.shape, 0.3, 1.5)))  # of a row
    return draw(Chart("paths", rows), (1.0 + 1.6 * len(at), 0.4 + height * len(rows)))


# ---------- One path: observed, reconstructed, and its standard deviation


@checked()
def plot_reconstruction(
    observed: xr.DataArray, reconstruction: xr.Dataset, path: int = 0, time: float | None = None
) -> Figure:
    """Draw one path as observed (gaps in grey), its reconstructed mean and the std of that.

    Over time and space; in two dimensions as maps at one time.

    Args:
        observed: fields (path, time, x); NaN is missing.
        reconstruction: of the same paths, from ``law.reconstruct``.
        path: position of the path to draw.
        time: of maps; the nearest one is drawn, the middle one by default.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import plot_reconstruction
        >>> equation = sl.catalogue.heat(n_modes=2)
        >>> data = sl.simulate(equation, 8, seed=0)
        >>> law = sl.fit(data, equation.domain, 2)
        >>> gappy = sl.mask(data, "blocks", 0.3, seed=0)
        >>> figure = plot_reconstruction(gappy, law.reconstruct(gappy))
        >>> [ax.get_title("left") for ax in figure.axes[:3]]
        ['observed, 30 % missing', 'reconstructed mean', 'standard deviation']
    """
    field = one_path("observed", observed, path)
    mean, std = moments_of("reconstruction", reconstruction, path)
    if not np.isfinite(field).any():
        expected = "at least one value to draw"
        raise DataError("observed", expected=expected, got="NaN only", fix="choose another path")
    shown = Shown(field)
    (right, up), space, size = shown.titles, shown.space, (7.4, 2.5)
    if isinstance(space, Canvas):
        at = field.sizes["time"] // 2
        if time is not None:
            at = int(np.abs(field["time"].values - np.asarray(time)).argmin())
        field, mean, std = (one.transpose(*field.dims).isel(time=at) for one in (field, mean, std))
        up = f"{time_text(field['time'].values)}\n{up}"
        size = 7.4, 0.8 + 1.7 * float(np.clip(space.shape, 0.3, 1.5))
    both = colour_scale(np.concatenate([field.values.ravel(), mean.values.ravel()]))
    missing = 100 * float(np.isnan(field.values).mean())
    more: dict[str, Any] = {"x": right, "shared": True}
    row = (
        shown.panel(field, both, title=f"observed, {missing:.3g} % missing", x=right, y=up),
        shown.panel(mean, both, title="reconstructed mean", bar=True, **more),
        shown.panel(std, Colours("cividis", 0.0, float(std.max()) or 1.0), bar=True,
                    title="standard deviation", **more),
    )  # fmt: skip
    return draw(Chart("reconstruction", (row,)), size)


# ---------- The first modes of a domain


def mode_lines(x: Array, modes: Array, names: list[str], title: str, y: str = "mode") -> Panel:
    """A few modes (M, n) over one coordinate, each with its dash."""
    looks = zip(("law", "second", "third", "fourth"), ("-", "--", ":", "-."), strict=True)
    order = np.argsort(x)
    lines = [Line(x[order], h[order], name, colour, dash)
             for h, name, (colour, dash) in zip(modes.T, names, looks, strict=False)]  # fmt: skip
    return Panel(lines, x=title, y=y, height=250)


@checked()
def plot_modes(domain: AbstractDomain, n_modes: int = 6, *, n_points: int = GRID_POINTS) -> Figure:
    """Draw the first eigenfunctions of a domain, each with its eigenvalue, on one scale.

    Args:
        domain: any domain in one or two dimensions.
        n_modes: how many, at most as many as the domain has.
        n_points: points per dim of the grid that is drawn, where the domain has none of its own.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import plot_modes
        >>> figure = plot_modes(sl.Disk(), 3)
        >>> [ax.get_title("left") for ax in figure.axes[:3]]
        ['1: 5.78', '2: 14.7', '3: 14.7']
    """
    n = domain.check_modes(domain.available(n_modes))
    places = domain.places(domain.grid(n_points))
    modes, mu = domain.eigenfunctions(places.points, n), domain.eigenvalues(n)
    canvas = canvas_of(domain, places, domain.dims, most=len(places.points))
    reach = float(np.abs(modes).max())
    panels = []
    for i in range(n):
        more: dict[str, Any] = {"title": f"{i + 1}: {mu[i]:.3g}"}
        if canvas is None:
            panel = mode_lines(places.points, modes[:, [i]], [""], domain.dims[0], "")
            panels.append(dataclasses.replace(panel, y_range=(-1.1 * reach, 1.1 * reach), **more))
        else:
            colours = Colours(symmetric_scale(modes).name, -reach, reach)
            more |= {"x": canvas.titles[0], "y": "" if i % MODE_COLUMNS else canvas.titles[1]}
            panels.append(field_panel(canvas.shown(modes[:, i]), None, canvas, colours, **more))
    rows = [panels[i : i + MODE_COLUMNS] for i in range(0, n, MODE_COLUMNS)]
    shape = 0.9 if canvas is None else float(np.clip(canvas.shape, 0.3, 1.5))
    size = 1.35 * len(rows[0]) + 0.4, (0.5 + 1.05 * shape) * len(rows)
    return draw(Chart("modes", rows), size)

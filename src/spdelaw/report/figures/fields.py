"""Paths as space-time images or maps, and the shapes of modes."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.data.layout import infer_dims
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.graph import Graph
from spdelaw.domains.mesh import Mesh
from spdelaw.errors import DataError, InputError
from spdelaw.processes.spde import SpectralSPDE
from spdelaw.report.figures.style import GREY, SAMPLE, as_paths, new_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# ---------- Maps of fields in two dimensions


#: Dims that run to the right in a map, whatever their order in the data.
HORIZONTAL = ("x", "lon", "longitude")
#: Colour of missing values.
MISSING = "#BDBDBD"


def space_dims(fields: xr.DataArray) -> tuple[str, ...]:
    """Dims that are neither path nor time."""
    return tuple(str(d) for d in fields.dims if d not in ("path", "time"))


def space_names(fields: xr.DataArray) -> tuple[str, ...]:
    """Names of the spatial coordinates: the dims, or the coordinates along ``point``."""
    dims = space_dims(fields)
    if dims != ("point",):
        return dims
    return infer_dims(fields)


def is_map(fields: xr.DataArray) -> bool:
    """Whether fields are drawn as maps; False in one dimension, `DataError` in three."""
    names = space_names(fields)
    if len(names) > 2:
        expected = "one or two spatial dims to draw"
        fix = f"choose a slice first: fields.sel({names[-1]}=0, method='nearest')"
        raise DataError("fields", expected=expected, got=f"{len(names)}: {names}", fix=fix)
    return len(names) == 2


def axis_names(panel: xr.DataArray) -> tuple[str, str]:
    """Names of the horizontal and the vertical coordinate."""
    first, second = space_names(panel)
    return (second, first) if second in HORIZONTAL else (first, second)


def map_shape(panel: xr.DataArray) -> float:
    """Height over width of a map, clipped to what a figure can hold."""
    right, up = axis_names(panel)
    width, height = (float(np.ptp(panel[name].values)) for name in (right, up))
    return float(np.clip(height / width, 0.3, 1.5)) if width > 0 and height > 0 else 1.0


def draw_map(
    ax: Any, panel: xr.DataArray, scale: dict[str, Any], triangles: np.ndarray | None = None
) -> Any:
    """Draw one field over two coordinates; NaN shows the grey background of a grid."""
    right, up = axis_names(panel)
    ax.grid(False)
    ax.set_aspect("equal")
    if "point" not in panel.dims:
        ax.set_facecolor(MISSING)
        cells = np.ma.masked_invalid(panel.transpose(up, right).values)
        where = (edges(panel[right].values), edges(panel[up].values))
        return ax.pcolormesh(*where, cells, rasterized=True, **scale)
    x, y, values = panel[right].values, panel[up].values, panel.values
    if triangles is not None:
        return ax.tripcolor(x, y, triangles, values, shading="gouraud", rasterized=True, **scale)
    size = float(np.clip(4000.0 / len(x), 2.0, 60.0))
    return ax.scatter(x, y, c=values, s=size, linewidths=0, rasterized=True, **scale)


def time_text(time: Any) -> str:
    """A time as a date or as a number."""
    value = np.asarray(time)
    if value.dtype.kind == "M":
        return str(np.datetime_as_string(value, unit="D"))
    return f"t = {float(value):.3g}" if value.dtype.kind in "iuf" else str(time)[:10]


def edges(points: np.ndarray) -> np.ndarray:
    """Ends of cells around points."""
    if len(points) == 1:
        half = np.timedelta64(12, "h") if points.dtype.kind == "M" else 0.5
        return np.array([points[0] - half, points[0] + half])
    middle = points[:-1] + 0.5 * np.diff(points)
    return np.concatenate([points[:1], middle, points[-1:]])


def nearest(fields: xr.DataArray, point: Any = None) -> xr.DataArray:
    """Fields at the point nearest to ``point``; at the middle one where that is None."""
    names, dims = space_names(fields), space_dims(fields)
    if point is None and dims != ("point",):
        return fields.isel({d: fields.sizes[d] // 2 for d in dims})
    values = [fields[name].values for name in names]
    target = np.atleast_1d(point) if point is not None else np.mean(values, axis=1)
    if np.shape(target) != (len(names),):
        expected = f"one number for each of {', '.join(names)}"
        fix = "leave it out for the middle of the grid"
        raise DataError("point", expected=expected, got=repr(point), fix=fix)
    if dims == ("point",):
        gaps = sum((v - w) ** 2 for v, w in zip(values, target, strict=True))
        return fields.isel(point=int(np.argmin(gaps)))
    pairs = zip(names, values, target, strict=True)
    return fields.isel({name: int(np.abs(v - w).argmin()) for name, v, w in pairs})


# ---------- One path of fields at its own times


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
    if not 0 <= path < fields.sizes["path"]:
        expected = f"a position from 0 to {fields.sizes['path'] - 1}"
        raise InputError("path", expected=expected, got=str(path), fix="pass path=0")
    chosen = fields.isel(path=path).transpose("time", *space)
    if "path_time" not in chosen.coords:
        return chosen
    times = chosen["path_time"].values
    has_time = np.isfinite(times)
    observed = chosen.isel(time=np.flatnonzero(has_time)).drop_vars("path_time")
    return observed.assign_coords(time=times[has_time])


def moments_of(what: str, result: Any, path: int) -> tuple[xr.DataArray, xr.DataArray]:
    """Mean and standard deviation (time, x) of the field of one path of a result."""
    if not (isinstance(result, xr.Dataset) and {"mean", "std"} <= set(result.data_vars)):
        got, fix = type(result).__name__, "pass the result of law.reconstruct or law.forecast"
        raise DataError(what, expected="a Dataset with mean and std", got=got, fix=fix)
    std = result["std_field"] if "std_field" in result else result["std"]
    return one_path(what, result["mean"], path), one_path(what, std, path)


# ---------- A few paths as space-time images, or as maps at a few times


#: Perceptually uniform, and read the same with every common form of colour blindness.
ONE_SIGN, TWO_SIGNS = "viridis", "RdBu_r"
#: Share of values beyond either end of the colour scale, so that a spike does not set it.
CLIPPED_SHARE = 0.002
#: Times at which a path in two dimensions is drawn.
MAP_TIMES = 4


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
    fields = _check_fields(fields, n_paths)
    panels = _field_panels(fields, equation, n_paths)
    scale = colour_scale(np.concatenate([p.values.ravel() for p in panels.values()]))
    if is_map(fields):
        return _map_rows(panels, scale, str(fields.name or "field"))
    with style():
        figure = new_figure(1.0 + 1.75 * len(panels), 2.4)
        row = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        for ax, (title, panel) in zip(row, panels.items(), strict=True):
            image = draw_image(ax, panel, scale)
            ax.set(title=title, xlabel="time")
        row[0].set_ylabel(str(fields.dims[-1]))
        row[0].locator_params(axis="x", nbins=2)
        bar = figure.colorbar(image, ax=list(row), extend="both", pad=0.01, aspect=25)
        bar.outline.set_visible(False)
        bar.set_label(str(fields.name or "field"))
    return figure


def _map_rows(panels: dict[str, xr.DataArray], scale: dict[str, Any], name: str) -> Figure:
    """One row a panel, one column a time."""
    n_times = len(next(iter(panels.values()))["time"])
    at = np.unique(np.linspace(0, n_times - 1, MAP_TIMES).round().astype(int))
    with style():
        shape = map_shape(next(iter(panels.values())).isel(time=0))
        row_height = max(1.1, 0.3 + 1.2 * shape)  # of a row, with room for its title
        figure = new_figure(1.0 + 1.6 * len(at), 0.4 + row_height * len(panels))
        figure.set_layout_engine("compressed")  # maps keep their shape and stay together
        grid = figure.subplots(len(panels), len(at), sharex=True, sharey=True, squeeze=False)
        for row, (title, panel) in zip(grid, panels.items(), strict=True):
            for ax, i in zip(row, at, strict=True):
                image = draw_map(ax, panel.isel(time=i), scale)
                ax.set_title(f"t = {float(panel['time'][i]):.3g}" if ax in grid[0] else "")
            right, up = axis_names(panel.isel(time=0))
            row[0].set_ylabel("\n".join([*textwrap.wrap(title, 13), up]))
        for ax in grid[-1]:
            ax.set_xlabel(right)
        bar = figure.colorbar(image, ax=grid, extend="both", pad=0.01, aspect=25)
        bar.outline.set_visible(False)
        bar.set_label(name)
    return figure


def _check_fields(fields: xr.DataArray, n_paths: int) -> xr.DataArray:
    fields = as_paths(fields)
    if n_paths < 1:
        raise InputError("n_paths", expected="at least 1", got=str(n_paths), fix="n_paths=3")
    if not np.isfinite(fields[:n_paths]).any():
        fix = "check the file, or select other paths"
        raise DataError("fields", expected="at least one value to draw", got="NaN only", fix=fix)
    return fields


def _field_panels(
    fields: xr.DataArray, equation: SpectralSPDE | None, n_paths: int
) -> dict[str, xr.DataArray]:
    names = fields["path"].values
    panels = {f"path {names[i]}": fields[i] for i in range(min(n_paths, len(fields)))}
    if equation is not None:
        grid = equation.domain.places(fields).points
        panels[f"mean of {len(fields)} paths"] = fields.mean("path")
        panels["mean, closed form"] = equation.mean(fields["time"].values, grid)
    return panels


def colour_scale(values: np.ndarray) -> dict[str, Any]:
    """Colour map and limits that suit the values, all but a few of them."""
    values = values[np.isfinite(values)]
    low, high = np.quantile(values, [CLIPPED_SHARE, 1.0 - CLIPPED_SHARE])
    # Centred at zero only where both sides are in use: else half of the colours is wasted.
    if low < 0 < high and min(-low, high) > 0.5 * max(-low, high):
        reach = max(-low, high)
        return {"cmap": TWO_SIGNS, "vmin": -reach, "vmax": reach}
    return {"cmap": ONE_SIGN, "vmin": low, "vmax": high if high > low else low + 1.0}


def draw_image(ax: Any, panel: xr.DataArray, scale: dict[str, Any]) -> Any:
    """Draw one field (time, x) as cells; NaN shows the grey background."""
    time, x = (panel[d].values for d in panel.dims)
    ax.set_facecolor(MISSING)
    ax.grid(False)
    # Cells around the points: true for irregular times and grids; pixels keep files small.
    return ax.pcolormesh(
        edges(time), edges(x), np.ma.masked_invalid(panel.values.T), rasterized=True, **scale
    )


# ---------- The first modes of a domain


#: Panels in a row, and points per dim of a grid that is drawn.
MODE_COLUMNS, GRID_POINTS = 6, 61


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
    if not isinstance(domain, AbstractDomain):
        raise InputError(
            "domain", expected="a domain", got=type(domain).__name__, fix="pass sl.Disk()"
        )
    n = domain.check_modes(domain.available(n_modes))
    places = domain.places(domain.grid(n_points))
    values = domain.eigenfunctions(places.points, n)
    panels = [xr.DataArray(places.unflatten(h), places.coords, places.dims) for h in values.T]
    reach = float(np.abs(values).max())
    scale: dict[str, Any] = {"cmap": TWO_SIGNS, "vmin": -reach, "vmax": reach}
    rows = -(-n // MODE_COLUMNS)
    with style():
        shape = map_shape(panels[0]) if is_map(panels[0]) else 0.9
        figure = new_figure(1.35 * min(n, MODE_COLUMNS) + 0.4, (0.5 + 1.05 * shape) * rows)
        figure.set_layout_engine("compressed")
        grid = figure.subplots(rows, min(n, MODE_COLUMNS), squeeze=False, sharex=True, sharey=True)
        mu = domain.eigenvalues(n)
        for i, ax in enumerate(grid.ravel()):
            if i >= n:
                ax.set_visible(False)
                continue
            _draw_mode(ax, domain, panels[i], scale)
            ax.set_title(f"{i + 1}: {mu[i]:.3g}")
            ax.tick_params(labelsize=6)
    return figure


def _draw_mode(ax: Any, domain: AbstractDomain, panel: xr.DataArray, scale: dict[str, Any]) -> None:
    if isinstance(domain, Graph) and len(domain.positions):
        _draw_graph(ax, domain, panel.values, scale)
    elif is_map(panel):
        draw_map(ax, panel, scale, domain.triangles if isinstance(domain, Mesh) else None)
        right, up = axis_names(panel)
        ax.set_xlabel(right, fontsize=7)
        ax.set_ylabel(up, fontsize=7)
        ax.label_outer()
    else:
        ax.plot(panel[panel.dims[0]].values, panel.values, color=SAMPLE, linewidth=1.2)
        ax.set_ylim(1.1 * scale["vmin"], 1.1 * scale["vmax"])
        ax.set_xlabel(str(panel.dims[0]), fontsize=7)


def _draw_graph(ax: Any, graph: Graph, values: np.ndarray, scale: dict[str, Any]) -> None:
    from matplotlib.collections import LineCollection

    ends = graph.positions[graph.adjacency[:, :2].astype(int)]
    ax.add_collection(LineCollection(list(ends), colors=GREY, linewidths=0.3, zorder=1))
    look = {"s": 14, "linewidths": 0.2, "edgecolors": GREY, "zorder": 2}
    ax.scatter(*graph.positions.T, c=values, **look, **scale)
    ax.set_aspect("equal")
    ax.axis("off")

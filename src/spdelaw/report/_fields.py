"""A few paths as space-time images, or as maps at a few times."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.equation import SpectralSPDE
from spdelaw.errors import DataError, InputError
from spdelaw.report._maps import MISSING, axis_names, draw_map, edges, is_map, map_shape
from spdelaw.report._paths import as_paths
from spdelaw.report._style import new_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Perceptually uniform, and read the same with every common form of colour blindness.
ONE_SIGN, TWO_SIGNS = "viridis", "RdBu_r"
#: Share of values beyond the colour scale, so that one spike does not flatten the rest.
BEYOND = 0.002
#: Times at which a path in two dimensions is drawn.
MAPS = 4


def plot_fields(
    fields: xr.DataArray, equation: SpectralSPDE | None = None, *, n_paths: int = 3
) -> Figure:
    """Draw the first paths over time and space on one colour scale; NaN is grey.

    In two dimensions a path is a row of maps at `MAPS` times. With the equation two more
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
    fields = _check(fields, n_paths)
    panels = _panels(fields, equation, n_paths)
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
    at = np.unique(np.linspace(0, n_times - 1, MAPS).round().astype(int))
    with style():
        shape = map_shape(next(iter(panels.values())).isel(time=0))
        height = max(1.1, 0.3 + 1.2 * shape)  # of a row, with room for its title
        figure = new_figure(1.0 + 1.6 * len(at), 0.4 + height * len(panels))
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


def _check(fields: xr.DataArray, n_paths: int) -> xr.DataArray:
    fields = as_paths(fields)
    if n_paths < 1:
        raise InputError("n_paths", expected="at least 1", got=str(n_paths), fix="n_paths=3")
    if not np.isfinite(fields[:n_paths]).any():
        fix = "check the file, or select other paths"
        raise DataError("fields", expected="at least one value to draw", got="NaN only", fix=fix)
    return fields


def _panels(
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
    low, high = np.quantile(values, [BEYOND, 1.0 - BEYOND])
    # Centred at zero only where both sides are in use: else half of the colours is wasted.
    if low < 0 < high and min(-low, high) > 0.5 * max(-low, high):
        reach = max(-low, high)
        return {"cmap": TWO_SIGNS, "vmin": -reach, "vmax": reach}
    return {"cmap": ONE_SIGN, "vmin": low, "vmax": high if high > low else low + 1.0}


def draw_image(ax: Any, panel: xr.DataArray, scale: dict[str, Any]) -> Any:
    """Draw one field (time, x) as cells; NaN shows the grey ground."""
    time, x = (panel[d].values for d in panel.dims)
    ax.set_facecolor(MISSING)
    ax.grid(False)
    # Cells around the points: true for irregular times and grids; pixels keep files small.
    return ax.pcolormesh(
        edges(time), edges(x), np.ma.masked_invalid(panel.values.T), rasterized=True, **scale
    )

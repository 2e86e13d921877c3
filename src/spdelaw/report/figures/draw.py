"""Charts drawn by matplotlib, for papers and notebooks, in one style."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr

from spdelaw.checks import checked, instance, optional
from spdelaw.data.io.safe_files import replace_file
from spdelaw.errors import DataError, FileError
from spdelaw.report.figures.charts import Band, Bars, Chart, Contour, Image, Line, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray

# ---------- The style of all figures, without changes to the settings of the process


#: Files of this package.
ASSETS = resources.files("spdelaw.report")
#: Colours by role: Okabe and Ito's on light ground, distinct with every common form of colour
#: blindness, and lighter neighbours of the same hues on dark. Print has the light ones.
PALETTES = json.loads(ASSETS.joinpath("palettes.json").read_text(encoding="utf-8"))
PALETTE = PALETTES["light"]
GREY = PALETTE["muted"]
#: Dots per inch of a figure in a notebook.
NOTEBOOK_DPI = 110
#: Width in inches of a column of text; heights follow.
COLUMN = 4.2


def require_figures() -> None:
    """Raise `MissingExtraError` where figures cannot be drawn: a check to make before work."""
    optional("matplotlib", "figures", "report")


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw in the house style, and restore the caller's rcParams."""
    require_figures()
    import matplotlib.style

    # The settings of a notebook do not leak into the figure either.
    with (
        resources.as_file(ASSETS.joinpath("paper.mplstyle")) as file,
        matplotlib.style.context(file, after_reset=True),
    ):
        yield


def new_figure(width: float = COLUMN, height: float = 0.7 * COLUMN) -> Figure:
    """A figure outside of pyplot: no window, no list of open figures."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def figure_of(ax: Axes) -> Figure:
    """The figure that holds the axes."""
    return cast("Figure", ax.figure)


def figure_as_png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG file."""
    file = io.BytesIO()
    with style():
        figure.savefig(file, format="png", dpi=NOTEBOOK_DPI)
    return file.getvalue()


@checked()
def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure whole or not at all; the suffix is the format.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import plot_fields, save_figure
        >>> fields = sl.simulate(sl.catalogue.heat(n_modes=4), n_paths=2, seed=0)
        >>> save_figure(plot_fields(fields), "paths.png").name
        'paths.png'
    """
    instance(
        "figure",
        figure,
        optional("matplotlib.figure", "figures", "report").Figure,
        "pass ax.figure",
    )
    path = Path(path)
    kind = path.suffix.lstrip(".").lower()
    formats = sorted(figure.canvas.get_supported_filetypes())
    if kind not in formats:
        expected = f"a name that ends in one of {', '.join(formats)}"
        fix = f"write {path.stem}.png or {path.stem}.pdf"
        raise FileError("figure", expected=expected, got=path.name, fix=fix)
    with replace_file(path) as new, style():
        figure.savefig(new, format=kind)
    return path


# ---------- The check of fields


def as_paths(
    fields: Any, space: tuple[str, ...] | None = None, *, at_least: int = 1
) -> xr.DataArray:
    """Fields as (path, time, *space) with enough paths on common times, or raise `DataError`.

    Args:
        fields: DataArray with these dims in any order.
        space: the spatial dims of a domain; None takes whatever dims there are.
        at_least: how many paths are needed.
    """
    dims = tuple(fields.dims) if isinstance(fields, xr.DataArray) else ()
    space = tuple(str(d) for d in dims if d not in ("path", "time")) if space is None else space
    names = space
    if len(space) > 1 and "point" in dims:
        space = ("point",)
    expected_dims = ("path", "time", *space)
    if not space or set(dims) != set(expected_dims):
        expected = f"a DataArray with dims {expected_dims if space else '(path, time, x)'}"
        got = f"dims {dims}" if dims else type(fields).__name__
        fix = "pass the result of sl.simulate, sl.read or sl.as_fields"
        raise DataError("fields", expected=expected, got=got, fix=fix)
    missing = [d for d in ("time", *names) if d not in fields.coords and d != "point"]
    if missing or "path_time" in fields.coords:
        expected = "coordinates time and space that all paths share"
        got = f"no coordinate {missing[0]}" if missing else "times of their own for each path"
        fix = "fields.assign_coords(...)" if missing else "select paths with common times"
        raise DataError("fields", expected=expected, got=got, fix=fix)
    if fields.sizes["path"] < at_least:
        expected, fix = f"at least {at_least} paths", "pass more paths; a sample moment needs them"
        raise DataError("fields", expected=expected, got=str(fields.sizes["path"]), fix=fix)
    return fields.transpose(*expected_dims)


# ---------- Charts drawn by matplotlib, for papers and notebooks


#: Sizes of symbols and widths of lines in print, relative to those of the page.
SIZE, WIDTH = 0.5, 0.75
#: Module of the axes of matplotlib.
AXES = "matplotlib.axes"
#: Colour of missing values.
MISSING = "#BDBDBD"


def draw(
    chart: Chart,
    size: tuple[float, float] = (COLUMN, 0.7 * COLUMN),
    ax: Axes | None = None,
    heights: tuple[float, ...] | None = None,
) -> Figure:
    """Draw a chart into a new figure of a size in inches, or its first panel into given axes.

    ``heights`` are relative ones of the rows. A colour bar holds for its panel and for those before
    it that have none.
    """
    with style():
        if ax is not None:
            instance("ax", ax, optional(AXES, "figures", "report").Axes, "pass ax=plt.gca()")
            _draw_panel(ax, chart.rows[0][0], chart.start)
            _add_legend(ax)
            return figure_of(ax)
        figure = new_figure(*size)
        panels = [panel for row in chart.rows for panel in row]
        if panels[0].canvas is not None:
            figure.set_layout_engine("compressed")  # maps keep their shape and stay together
        same_x = len({panel.x for panel in panels if panel.x}) < 2
        same_y = len({panel.y for panel in panels if panel.y}) < 2 and len(panels) > 1
        grid = figure.subplots(len(chart.rows), max(map(len, chart.rows)), squeeze=False,
                               sharex=same_x, sharey=same_y, height_ratios=heights)  # fmt: skip
        without_bar: list[Axes] = []
        for axes, row in zip(grid, chart.rows, strict=True):
            for one, panel in zip(axes, row, strict=False):
                without_bar.append(one)
                for image, bar in _draw_panel(one, panel, chart.start):
                    made = figure.colorbar(image, ax=without_bar, pad=0.02, aspect=25)
                    made.outline.set_visible(False)
                    made.set_label(bar if isinstance(bar, str) else "")
                    without_bar = []
            for unused in axes[len(row) :]:
                unused.set_visible(False)
        _add_legend(grid[0, 0])
    return figure


def _add_legend(ax: Axes) -> None:
    if ax.get_legend_handles_labels()[1]:
        ax.legend(loc="best", frameon=True, framealpha=0.8, edgecolor="none")


def _draw_panel(ax: Axes, panel: Panel, start: Mapping[str, int]) -> list[tuple[Any, bool | str]]:
    """Draw marks and axes; what colour bars there are, with their titles."""
    bars = []
    for mark in panel.marks:
        drawn = DRAWINGS[type(mark)](ax, mark, start)
        if getattr(mark, "bar", False):
            bars.append((drawn, mark.bar))
    if panel.cursor is not None:
        control, at = panel.cursor
        ax.axvline(at[start.get(control, 0)], color=PALETTE["muted"], linewidth=0.8, linestyle=":")
    ax.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    if panel.log:
        ax.set_yscale("log")
    for limit, ends in ((ax.set_xlim, panel.x_range), (ax.set_ylim, panel.y_range)):
        if ends is not None:
            limit(*ends)
    if panel.from_zero:
        ax.set_ylim(bottom=0.0)
    if panel.ticks is not None:
        ax.set_xticks(panel.ticks)
    elif panel.whole:
        ax.locator_params(axis="x", integer=True)
    if any(np.asarray(mark.x).dtype.kind == "M" for mark in panel.marks if hasattr(mark, "x")):
        ax.tick_params(axis="x", rotation=30)
    return bars


def _chosen(values: Any, start: Mapping[str, int]) -> Array:
    """Values at the choices where the controls start."""
    if isinstance(values, xr.DataArray):
        values = values.isel({dim: i for dim, i in start.items() if dim in values.dims})
    return np.asarray(values)


def _draw_line(ax: Axes, line: Line, start: Mapping[str, int]) -> None:
    is_open = line.symbol == "O"
    look: dict[str, Any] = {
        "color": PALETTE[line.colour],
        "linestyle": line.dash or "none",
        "linewidth": WIDTH * line.width,
        "marker": "o" if is_open else line.symbol or None,
        "markersize": SIZE * line.size,
        "label": line.name or None,
    }
    look |= {"markerfacecolor": "none"} if is_open else {}
    x, y = (_chosen(values, start) for values in (line.x, line.y))
    if line.error is None:
        ax.plot(x, y, **look)
    else:
        ax.errorbar(x, y, line.error, line.x_error, elinewidth=1.0, capsize=2.0, **look)


def _draw_band(ax: Axes, band: Band, start: Mapping[str, int]) -> None:
    x, low, high = (_chosen(values, start) for values in (band.x, band.low, band.high))
    look = {"color": PALETTE[band.colour], "alpha": band.darkness, "label": band.name or None}
    ax.fill_between(x, low, high, linewidth=0, **look)


def _draw_bars(ax: Axes, bars: Bars, start: Mapping[str, int]) -> None:
    width = 0.92 * (bars.x[1] - bars.x[0])
    ax.bar(bars.x, bars.y, width=width, color=PALETTE[bars.colour], label=bars.name or None)


def _colours(mark: Image, start: Mapping[str, int]) -> dict[str, Any]:
    chosen = mark.colours[start[mark.by]] if mark.by else mark.colours
    return {"cmap": chosen.name, "vmin": chosen.low, "vmax": chosen.high, "rasterized": True}


def _draw_image(ax: Axes, image: Image, start: Mapping[str, int]) -> Any:
    """Cells around the points: true for irregular times and grids; pixels keep files small."""
    canvas, values, look = image.canvas, _chosen(image.z, start), _colours(image, start)
    ax.grid(False)
    if canvas is not None:
        ax.set_aspect("equal")
        ax.locator_params(axis="x", nbins=2)
        ax.plot(*canvas.coast.T, color=PALETTE["ink"], linewidth=0.5)
    if canvas is None or canvas.is_grid:
        ax.set_facecolor(MISSING)
        cells = np.ma.masked_invalid(values.T if canvas is None else values)
        x, y = edges(np.asarray(image.x)), edges(np.asarray(image.y))
        ax.set(xlim=x[[0, -1]], ylim=y[[0, -1]])  # a coast may go beyond
        return ax.pcolormesh(x, y, cells, **look)
    if len(canvas.triangles):
        # One colour scale over the whole mesh, smooth between its nodes.
        mesh: Any = (canvas.x, canvas.y, canvas.triangles, values)
        return ax.tripcolor(*mesh, shading="gouraud", **look)
    if len(canvas.edges):
        from matplotlib.collections import LineCollection

        lines = list(canvas.edges)
        ax.add_collection(LineCollection(lines, colors=PALETTE["axis"], linewidths=0.3, zorder=1))
        ax.axis("off")
    size = float(np.clip(4000.0 / len(canvas.x), 2.0, 60.0))
    return ax.scatter(canvas.x, canvas.y, c=values, s=size, linewidths=0, **look)


def _draw_contour(ax: Axes, line: Contour, start: Mapping[str, int]) -> None:
    look: dict[str, Any] = {"colors": [PALETTE[line.colour]], "linestyles": [line.dash]}
    ax.contour(line.x, line.y, line.z, [0.0], **look)


DRAWINGS: Any = {
    Line: _draw_line, Band: _draw_band, Bars: _draw_bars, Image: _draw_image,
    Contour: _draw_contour,
}  # fmt: skip


def edges(points: Array) -> Array:
    """Ends of cells around points; numbers that count have whole cells."""
    if points.dtype.kind == "i":
        return np.append(points - 0.5, points[-1] + 0.5)
    if len(points) == 1:
        half = np.timedelta64(12, "h") if points.dtype.kind == "M" else 0.5
        return np.array([points[0] - half, points[0] + half])
    middle = points[:-1] + 0.5 * np.diff(points)
    return np.concatenate([points[:1], middle, points[-1:]])

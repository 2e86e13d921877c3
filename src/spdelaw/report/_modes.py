"""The first modes of a domain: curves in one dimension, maps in two, coloured vertices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.domain import AbstractDomain, Graph, Mesh
from spdelaw.errors import InputError
from spdelaw.report._fields import TWO_SIGNS
from spdelaw.report._maps import axis_names, draw_map, is_map, map_shape
from spdelaw.report._style import GREY, SAMPLE, new_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Panels in a row, and points per dim of a grid that is drawn.
COLUMNS, FINE = 6, 61


def plot_modes(domain: AbstractDomain, n_modes: int = 6, *, n_points: int = FINE) -> Figure:
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
    rows = -(-n // COLUMNS)
    with style():
        shape = map_shape(panels[0]) if is_map(panels[0]) else 0.9
        figure = new_figure(1.35 * min(n, COLUMNS) + 0.4, (0.5 + 1.05 * shape) * rows)
        figure.set_layout_engine("compressed")
        grid = figure.subplots(rows, min(n, COLUMNS), squeeze=False, sharex=True, sharey=True)
        mu = domain.eigenvalues(n)
        for i, ax in enumerate(grid.ravel()):
            if i >= n:
                ax.set_visible(False)
                continue
            _draw(ax, domain, panels[i], scale)
            ax.set_title(f"{i + 1}: {mu[i]:.3g}")
            ax.tick_params(labelsize=6)
    return figure


def _draw(ax: Any, domain: AbstractDomain, panel: xr.DataArray, scale: dict[str, Any]) -> None:
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

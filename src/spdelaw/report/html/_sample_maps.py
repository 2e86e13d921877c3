"""Data above and draws of the law below, as maps at one time."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from spdelaw.report.html._canvas import Canvas
from spdelaw.report.html._figure import Control, Figure, layout, panel_title, thinned
from spdelaw.report.html._images import colour_bar, ground, scale
from spdelaw.report.html._material import Material

Array = np.ndarray

#: Most times to walk through.
TIMES = 24
#: Pixels: width of three maps in a row, and of what a row needs besides its maps.
WIDTH, ROOM = 285, 70


def figure(
    material: Material, canvas: Canvas, seen: list[xr.DataArray], drawn: list[Array]
) -> Figure:
    """Maps of paths (time, point) that share their times."""
    n, times = len(seen), seen[0]["time"].values
    at = thinned(len(times), TIMES)
    when, start = material.clock(times[at]), len(at) // 2
    data = [path.values for path in seen]
    colours = scale(np.concatenate([values.ravel() for values in data]))
    width = min(0.45, (0.94 - 0.04 * (n - 1)) / n)
    high = canvas.height(int(width / 0.287 * WIDTH))
    inner = 2 * (high + ROOM)
    traces: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    binds, arrays, titles, panels = [], {}, [], []
    for k, path in enumerate([*data, *drawn]):
        row, column = divmod(k, n)
        panel, x, y = "" if k == 0 else str(k + 1), column * (width + 0.04), (1 - row) * 0.5
        up = [y + (ROOM - 26) / inner, y + (ROOM - 26 + high) / inner]
        arrays[f"map{k}"] = canvas.shown(path[at])
        bar = colour_bar("", 0.95, len=1.0) if k == 0 else {}
        traces += canvas.draw(arrays[f"map{k}"][start], panel, **colours, **bar)
        binds.append(canvas.bind(len(traces) - 1, f"map{k}", ("time",)))
        axes |= canvas.axes(panel, [x, x + width], up, first=column == 0)
        text = f"draw {column + 1}" if row else f"data, path {seen[column]['path'].item()}"
        titles.append(panel_title(text, x, up[1] + 3 / inner))
        panels.append(panel)
    caption = "Observed paths (above) and draws from the law (below) at the chosen time, on one "
    return Figure(
        "samples", f"{caption}colour scale. {canvas.note}".strip(), traces,
        layout(**axes, annotations=titles, margin={"l": 64, "r": 60, "t": 30, "b": 20},
               shapes=[ground(p) for p in panels] if canvas.is_grid else []),
        inner + 50, controls=(Control("time", when.texts, start),), binds=tuple(binds),
        arrays=arrays,
    )  # fmt: skip

"""A path of the data and a draw of the law as maps at one time."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from spdelaw.report.html._canvas import PAGE, Canvas
from spdelaw.report.html._figure import Control, Figure, layout, panel_title, thinned
from spdelaw.report.html._images import colour_bar, ground, scale
from spdelaw.report.html._material import Material

Array = np.ndarray

#: Most times to walk through, of one pair of paths and of all.
TIMES, ALL_TIMES = 24, 36
#: Pixels that a row needs besides its maps, and part of the width that maps take.
ROOM, RIGHT = 70, 0.94


def figure(
    material: Material, canvas: Canvas, seen: list[xr.DataArray], drawn: list[Array]
) -> Figure:
    """Maps of paths (time, point) that share their times; land is empty in draws, too."""
    times = seen[0]["time"].values
    at = thinned(len(times), min(TIMES, max(ALL_TIMES // len(seen), 8)))
    when, start = material.clock(times[at]), len(at) // 2
    rows = {"data": [path.values[at] for path in seen], "draw": [path[at] for path in drawn]}
    arrays = {
        name: canvas.shown(np.where(material.seen, np.stack(row), np.nan))
        for name, row in rows.items()
    }
    panels, inner, maps = _panels(canvas)
    colours = scale(arrays["data"].ravel())
    traces: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    binds, titles = [], []
    for k, (name, title) in enumerate((("data", "data"), ("draw", "draw from the law"))):
        suffix, (right, up) = "2" if k else "", panels[k]
        bar = {} if k else colour_bar("", RIGHT + 0.01, len=1.0)
        traces += canvas.draw(arrays[name][0, start], suffix, **colours, **bar)
        binds.append(canvas.bind(len(traces) - 1, name, ("pair", "time")))
        axes |= canvas.axes(suffix, right, up, first=right[0] == 0.0)
        titles.append(panel_title(title, right[0], up[1] + 3 / inner))
    labels = [f"path {path['path'].item()}, draw {i + 1}" for i, path in enumerate(seen)]
    caption = "An observed path and a draw from the law at the chosen time, on one colour scale."
    return Figure(
        "samples", f"{caption} {canvas.note}".strip(), traces,
        layout(**axes, annotations=titles, margin={"l": 64, "r": 24, "t": 30, "b": 20},
               shapes=[ground(s) for s in ("", "2")] if canvas.is_grid else []),
        inner + 50,
        controls=(Control("pair", labels, kind="select"), Control("time", when.texts, start)),
        binds=tuple(binds), arrays=arrays, maps=maps,
    )  # fmt: skip


def _panels(
    canvas: Canvas,
) -> tuple[list[tuple[list[float], list[float]]], int, tuple[tuple[int, int], ...]]:
    """Where both maps stand (right, up), pixels of their height, and the part that is maps."""
    if canvas.is_wide:
        high = canvas.height()
        rows = (high + 2 * ROOM - 26, ROOM - 26)
        inner = 2 * (high + ROOM)
        places = [([0.0, RIGHT], [low / inner, (low + high) / inner]) for low in rows]
        return places, inner, tuple((low, low + high) for low in reversed(rows))
    high = canvas.height(PAGE // 2)
    inner, low = high + ROOM, ROOM - 26
    up = [low / inner, (low + high) / inner]
    half = RIGHT / 2
    return [([0.0, half - 0.03], up), ([half + 0.03, RIGHT], up)], inner, ((low, low + high),)

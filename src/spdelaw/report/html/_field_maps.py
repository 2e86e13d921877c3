"""Observed, reconstructed and their difference as maps at one time, and one place over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.report.html._canvas import Canvas
from spdelaw.report.html._figure import (
    Bind,
    Control,
    Cursor,
    Figure,
    axis,
    layout,
    panel_title,
    thinned,
)
from spdelaw.report.html._images import colour_bar, ground, scale, symmetric_scale
from spdelaw.report.html._material import Material
from spdelaw.report.html._reconstructed import Reconstructed, curve
from spdelaw.report.html._spots import spots

Array = np.ndarray
Traces = list[dict[str, Any]]

#: Most maps of a path, most times and places of the line below them.
MAPS, TIMES, PLACES = 36, 160, 40
#: Subplots of the maps, where they stand from left to right, and their names.
PANELS = ("", "2", "3")
COLUMNS = ([0.0, 0.29], [0.325, 0.615], [0.70, 0.99])
TITLES = ("observed", "reconstructed", "observed minus reconstructed")
#: Pixels: width of a map, height of the line below and of what lies between.
WIDTH, LINE, BETWEEN = 270, 170, 105
#: A place on a map, seen on any ground.
MARK = {"symbol": "circle", "size": 9, "color": "#ffffff", "line": {"color": "#000000", "width": 2}}


def figure(material: Material, canvas: Canvas, paths: Reconstructed) -> Figure:
    """Three maps with a slider for the time, and a line with one for the place."""
    at, place = spots(material, paths.observed[0], PLACES)
    maps, line = thinned(len(paths.times), MAPS), thinned(len(paths.times), TIMES)
    when, along = material.clock(paths.times[maps]), material.clock(paths.times[line])
    start = len(maps) // 2
    fields = {
        "observed": canvas.shown(paths.observed[:, maps]),
        "mean": canvas.shown(paths.mean[:, maps]),
        "left": canvas.shown((paths.observed - paths.mean)[:, maps]),
    }
    # One place over time: (path, place, time).
    seen, mean, reach = (np.swapaxes(part, 1, 2) for part in paths.at(line, at)[:3])
    lines = {"low": mean - reach, "high": mean + reach, "line": mean, "seen": seen}
    where = np.array([canvas.where(point) for point in at])
    inner, up = _heights(canvas)
    traces, binds = _maps(canvas, fields, start, up)
    binds += [Bind(len(traces) + i, "y", name, ("path", place.name))
              for i, name in enumerate(lines)]  # fmt: skip
    first = 0, place.start
    traces += curve(along.positions, seen[first], mean[first], reach[first])
    binds += [Bind(len(traces) + i, name, name, (place.name,)) for i in range(3) for name in "xy"]
    traces += _marks(*where[place.start])
    arrays = fields | lines
    if not paths.choice:
        arrays = {name: values[0] for name, values in arrays.items()}
        binds = [_without_path(bind) for bind in binds]
    titles = along.title, material.quantity
    return Figure(
        "fields", _caption(canvas), traces, _layout(canvas, titles, along.axis, inner, up),
        inner + 88, controls=(*paths.choice, Control("time", when.texts, start), place),
        binds=tuple(binds), cursors=(Cursor("time", when.positions, ("4",)),),
        arrays=arrays | {"x": where[:, 0], "y": where[:, 1]},
    )  # fmt: skip


def _caption(canvas: Canvas) -> str:
    grey = "missing, or outside the domain" if canvas.is_grid else "missing"
    return (
        f"Above: maps at the chosen time; grey is {grey}. Below: the field over time at the white "
        "mark, with the band in which 95 % of the observations should lie. " + canvas.note
    ).strip()


def _without_path(bind: Bind) -> Bind:
    index = tuple(name for name in bind.index if name != "path")
    return Bind(bind.trace, bind.attribute, bind.array, index)


def _maps(
    canvas: Canvas, fields: dict[str, Array], start: int, up: list[float]
) -> tuple[Traces, list[Bind]]:
    shared = scale(np.concatenate([fields["observed"].ravel(), fields["mean"].ravel()]))
    size: dict[str, Any] = {"len": 1.08 * (up[1] - up[0]), "y": 0.5 * (up[0] + up[1])}
    colours = (
        shared,
        shared | colour_bar("", 0.625, **size),
        symmetric_scale(fields["left"]) | colour_bar("", 1.005, **size),
    )
    traces: Traces = []
    binds: list[Bind] = []
    for name, panel, colour in zip(fields, PANELS, colours, strict=True):
        traces += canvas.draw(fields[name][0, start], panel, **colour)
        binds.append(canvas.bind(len(traces) - 1, name, ("path", "time")))
    return traces, binds


def _marks(x: float, y: float) -> Traces:
    """The chosen place on each map."""
    mark = {"type": "scatter", "mode": "markers", "x": [float(x)], "y": [float(y)],
            "marker": MARK, "showlegend": False, "hoverinfo": "skip"}  # fmt: skip
    return [{**mark, "xaxis": f"x{panel}", "yaxis": f"y{panel}"} for panel in PANELS]


def _heights(canvas: Canvas) -> tuple[int, list[float]]:
    """Pixels from the lowest axis to the titles, and the part of them that is maps."""
    high = canvas.height(WIDTH)
    inner = LINE + BETWEEN + high + 22
    return inner, [(LINE + BETWEEN) / inner, (LINE + BETWEEN + high) / inner]


def _layout(
    canvas: Canvas, titles: tuple[str, str], time: dict[str, Any], inner: int, up: list[float]
) -> dict[str, Any]:
    axes: dict[str, Any] = {}
    for panel, right in zip(PANELS, COLUMNS, strict=True):
        axes |= canvas.axes(panel, right, up, first=not panel)
    line = LINE / inner
    return layout(
        **axes,
        xaxis4=axis(titles[0], domain=[0.0, 0.99], anchor="y4", **time),
        yaxis4=axis(titles[1], domain=[0.0, line], anchor="x4"),
        annotations=[panel_title(t, c[0], up[1] + 4 / inner)
                     for t, c in zip(TITLES, COLUMNS, strict=True)],
        shapes=[ground(panel) for panel in PANELS] if canvas.is_grid else [],
        margin={"l": 64, "r": 60, "t": 36, "b": 52},
        legend={"orientation": "h", "x": 0, "y": line + 4 / inner, "yanchor": "bottom",
                "bgcolor": "rgba(0,0,0,0)"},
    )  # fmt: skip

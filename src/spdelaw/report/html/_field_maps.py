"""One map as wide as the page, of what the reader chooses to see, and one place over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.report.html._canvas import Canvas
from spdelaw.report.html._figure import Bind, Control, Cursor, Figure, Swap, axis, layout, thinned
from spdelaw.report.html._images import colour_bar, ground, scale, symmetric_scale
from spdelaw.report.html._material import Material
from spdelaw.report.html._reconstructed import Reconstructed, curve
from spdelaw.report.html._spots import spots

Array = np.ndarray
Traces = list[dict[str, Any]]

#: Most maps of one path and of all, most times and places of the line below them.
MAPS, ALL_MAPS, TIMES, PLACES = 36, 48, 160, 40
#: What a map can show.
SHOWN = ("observed", "reconstructed", "observed minus reconstructed", "half width of the 95 % band")
#: Pixels: height of the line below and of what lies between.
LINE, BETWEEN = 190, 105
#: Part of the width that maps and line take; the colour bar has the rest.
RIGHT = [0.0, 0.94]
#: A place on a map, seen on any ground.
MARK = {"symbol": "circle", "size": 9, "color": "#ffffff", "line": {"color": "#000000", "width": 2}}


def figure(material: Material, canvas: Canvas, paths: Reconstructed) -> Figure:
    """A map with controls for what it shows and when, and a line with one for the place."""
    at, place = spots(material, paths.observed[0], PLACES)
    most = min(MAPS, max(ALL_MAPS // len(paths.labels), 12))
    maps, line = thinned(len(paths.times), most), thinned(len(paths.times), TIMES)
    when, along = material.clock(paths.times[maps]), material.clock(paths.times[line])
    start = len(maps) // 2
    fields = _fields(material, canvas, paths, maps)
    # One place over time: (path, place, time).
    seen, mean, reach = (np.swapaxes(part, 1, 2) for part in paths.at(line, at)[:3])
    lines = {"low": mean - reach, "high": mean + reach, "line": mean, "seen": seen}
    where = np.array([canvas.where(point) for point in at])
    inner, up = _heights(canvas)
    traces, swaps = _map(canvas, fields, start, up)
    binds = [canvas.bind(len(traces) - 1, "map", ("show", "path", "time"))]
    binds += [
        Bind(len(traces) + i, "y", name, ("path", place.name)) for i, name in enumerate(lines)
    ]
    first = 0, place.start
    traces += curve(along.positions, seen[first], mean[first], reach[first])
    binds += [Bind(len(traces), name, name, (place.name,)) for name in "xy"]
    traces.append(_mark(*where[place.start]))
    arrays = {"map": fields, **lines}
    if not paths.choice:
        arrays = {"map": fields[:, 0], **{name: values[0] for name, values in lines.items()}}
        binds = [_without_path(bind) for bind in binds]
    controls = (Control("show", SHOWN, kind="select"), *paths.choice,
                Control("time", when.texts, start), place)  # fmt: skip
    titles = along.title, material.quantity
    return Figure(
        "fields", _caption(canvas), traces, _layout(canvas, titles, along.axis, inner, up),
        inner + 78, controls=controls, binds=tuple(binds), swaps=tuple(swaps),
        cursors=(Cursor("time", when.positions, ("4",)),),
        arrays=arrays | {"x": where[:, 0], "y": where[:, 1]},
        maps=((LINE + BETWEEN, LINE + BETWEEN + canvas.height()),),
    )  # fmt: skip


def _fields(material: Material, canvas: Canvas, paths: Reconstructed, maps: Array) -> Array:
    """What can be shown, (what, path, time, ...), empty at points that were never seen."""
    seen, mean, reach = (part[:, maps] for part in paths[:3])
    parts = (seen, mean, seen - mean, np.broadcast_to(reach, seen.shape))
    return np.stack([canvas.shown(np.where(material.seen, part, np.nan)) for part in parts])


def _caption(canvas: Canvas) -> str:
    grey = "missing, or outside the domain" if canvas.is_grid else "missing"
    coast = "Coastline: Natural Earth. " if len(canvas.coast) else ""
    return (
        f"Above: the map at the chosen time; grey is {grey}. Below: the field over time at the "
        f"white mark, with the band in which 95 % of the observations should lie. {coast}"
        + canvas.note
    ).strip()


def _without_path(bind: Bind) -> Bind:
    index = tuple(name for name in bind.index if name != "path")
    return Bind(bind.trace, bind.attribute, bind.array, index)


def _map(canvas: Canvas, fields: Array, start: int, up: list[float]) -> tuple[Traces, list[Swap]]:
    """Traces of the map, and how its colours change with what is shown."""
    shared = scale(fields[:2].ravel())
    colours = (shared, shared, symmetric_scale(fields[2]), scale(fields[3].ravel()))
    size: dict[str, Any] = {"len": 1.04 * (up[1] - up[0]), "y": 0.5 * (up[0] + up[1])}
    first = {**shared, **colour_bar("", RIGHT[1] + 0.01, **size)}
    traces = canvas.draw(fields[0, 0, start], "", **first)
    inside, names = ("", ("zmin", "zmax")) if canvas.is_grid else ("marker.", ("cmin", "cmax"))
    swaps = [
        Swap(len(traces) - 1, inside + name, "show", [c[key] for c in colours])
        for name, key in zip((*names, "colorscale"), ("zmin", "zmax", "colorscale"), strict=True)
    ]
    return traces, swaps


def _mark(x: float, y: float) -> dict[str, Any]:
    """The chosen place on the map."""
    return {"type": "scatter", "mode": "markers", "x": [float(x)], "y": [float(y)],
            "marker": MARK, "showlegend": False, "hoverinfo": "skip", "xaxis": "x",
            "yaxis": "y"}  # fmt: skip


def _heights(canvas: Canvas) -> tuple[int, list[float]]:
    """Pixels from the lowest axis to the top, and the part of them that is the map."""
    high = canvas.height()
    inner = LINE + BETWEEN + high
    return inner, [(LINE + BETWEEN) / inner, 1.0]


def _layout(
    canvas: Canvas, titles: tuple[str, str], time: dict[str, Any], inner: int, up: list[float]
) -> dict[str, Any]:
    line = LINE / inner
    return layout(
        **canvas.axes("", RIGHT, up, first=True),
        xaxis4=axis(titles[0], domain=RIGHT, anchor="y4", **time),
        yaxis4=axis(titles[1], domain=[0.0, line], anchor="x4"),
        shapes=[ground("")] if canvas.is_grid else [],
        margin={"l": 64, "r": 24, "t": 26, "b": 52},
        legend={"orientation": "h", "x": 0, "y": line + 4 / inner, "yanchor": "bottom",
                "bgcolor": "rgba(0,0,0,0)"},
    )  # fmt: skip

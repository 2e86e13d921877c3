"""Observed and reconstructed fields, and their difference, with a time slider."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.report.data import Reconstructed, ReportData, curve, point_slider, reconstructed
from spdelaw.report.maps import Canvas
from spdelaw.report.plots import (
    Bind,
    Control,
    Cursor,
    Figure,
    Section,
    Swap,
    TimeLabels,
    axis,
    colour_bar,
    ground,
    image,
    layout,
    panel_title,
    scale,
    symmetric_scale,
    thinned,
)

# ---------- A map of the chosen variable, and one point over time


Array = np.ndarray
Traces = list[dict[str, Any]]

#: Most maps of one path and of all, most times and places of the line below them.
MAPS, ALL_MAPS, TIMES, PLACES = 36, 48, 160, 40
#: Variables that a map can show.
MAP_CHOICES = (
    "observed",
    "reconstructed",
    "observed minus reconstructed",
    "half width of the 95 % band",
)
#: Pixels: height of the line plot, and of the gap between it and the map.
LINE_HEIGHT, GAP_HEIGHT = 190, 105
#: Share of the width for maps and line; the colour bar takes the remainder.
MAP_WIDTH = [0.0, 0.94]
#: Marker of a point on a map, visible on any colour.
MARK = {"symbol": "circle", "size": 9, "color": "#ffffff", "line": {"color": "#000000", "width": 2}}


def map_figure(material: ReportData, canvas: Canvas, paths: Reconstructed) -> Figure:
    """A map with controls for its variable and time, and a line with one for its point."""
    at, place_control = point_slider(material, paths.observed[0], PLACES)
    most = min(MAPS, max(ALL_MAPS // len(paths.labels), 12))
    maps, line = thinned(len(paths.times), most), thinned(len(paths.times), TIMES)
    when, along = material.time_labels(paths.times[maps]), material.time_labels(paths.times[line])
    start = len(maps) // 2
    fields = _map_values(material, canvas, paths, maps)
    # One point over time: (path, point, time).
    observed, mean, reach = (np.swapaxes(array, 1, 2) for array in paths.at(line, at)[:3])
    lines = {"low": mean - reach, "high": mean + reach, "line": mean, "seen": observed}
    where = np.array([canvas.where(point) for point in at])
    inner, up = _panel_heights(canvas)
    traces, swaps = _map_traces(canvas, fields, start, up)
    binds = [canvas.bind(len(traces) - 1, "map", ("show", "path", "time"))]
    binds += [
        Bind(len(traces) + i, "y", name, ("path", place_control.name))
        for i, name in enumerate(lines)
    ]
    first = 0, place_control.start
    traces += curve(along.positions, observed[first], mean[first], reach[first])
    binds += [Bind(len(traces), name, name, (place_control.name,)) for name in "xy"]
    traces.append(_place_marker(*where[place_control.start]))
    arrays = {"map": fields, **lines}
    if not paths.choice:
        arrays = {"map": fields[:, 0], **{name: values[0] for name, values in lines.items()}}
        binds = [_without_path(bind) for bind in binds]
    controls = (Control("show", MAP_CHOICES, kind="select"), *paths.choice,
                Control("time", when.texts, start), place_control)  # fmt: skip
    titles = along.title, material.quantity
    return Figure(
        "fields", _caption(canvas), traces, _layout(canvas, titles, along.axis, inner, up),
        inner + 78, controls=controls, binds=tuple(binds), swaps=tuple(swaps),
        cursors=(Cursor("time", when.positions, ("4",)),),
        arrays=arrays | {"x": where[:, 0], "y": where[:, 1]},
        maps=((LINE_HEIGHT + GAP_HEIGHT, LINE_HEIGHT + GAP_HEIGHT + canvas.height()),),
    )  # fmt: skip


def _map_values(material: ReportData, canvas: Canvas, paths: Reconstructed, maps: Array) -> Array:
    """Values of all maps, (variable, path, time, ...); NaN at points without observations."""
    observed, mean, reach = (array[:, maps] for array in paths[:3])
    parts = (observed, mean, observed - mean, np.broadcast_to(reach, observed.shape))
    return np.stack(
        [canvas.shown(np.where(material.ever_observed, array, np.nan)) for array in parts]
    )


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


def _map_traces(
    canvas: Canvas, fields: Array, start: int, up: list[float]
) -> tuple[Traces, list[Swap]]:
    """Traces of the map, and the colours of each variable."""
    shared = scale(fields[:2].ravel())
    colours = (shared, shared, symmetric_scale(fields[2]), scale(fields[3].ravel()))
    size: dict[str, Any] = {"len": 1.04 * (up[1] - up[0]), "y": 0.5 * (up[0] + up[1])}
    first = {**shared, **colour_bar("", MAP_WIDTH[1] + 0.01, **size)}
    traces = canvas.draw(fields[0, 0, start], "", **first)
    inside, names = ("", ("zmin", "zmax")) if canvas.is_grid else ("marker.", ("cmin", "cmax"))
    swaps = [
        Swap(len(traces) - 1, inside + name, "show", [c[key] for c in colours])
        for name, key in zip((*names, "colorscale"), ("zmin", "zmax", "colorscale"), strict=True)
    ]
    return traces, swaps


def _place_marker(x: float, y: float) -> dict[str, Any]:
    """The chosen point on the map."""
    return {"type": "scatter", "mode": "markers", "x": [float(x)], "y": [float(y)],
            "marker": MARK, "showlegend": False, "hoverinfo": "skip", "xaxis": "x",
            "yaxis": "y"}  # fmt: skip


def _panel_heights(canvas: Canvas) -> tuple[int, list[float]]:
    """Pixels from the lowest axis to the top, and the part of them that is the map."""
    high = canvas.height()
    inner = LINE_HEIGHT + GAP_HEIGHT + high
    return inner, [(LINE_HEIGHT + GAP_HEIGHT) / inner, 1.0]


def _layout(
    canvas: Canvas, titles: tuple[str, str], time: dict[str, Any], inner: int, up: list[float]
) -> dict[str, Any]:
    line = LINE_HEIGHT / inner
    return layout(
        **canvas.axes("", MAP_WIDTH, up, first=True),
        xaxis4=axis(titles[0], domain=MAP_WIDTH, anchor="y4", **time),
        yaxis4=axis(titles[1], domain=[0.0, line], anchor="x4"),
        shapes=[ground("")] if canvas.is_grid else [],
        margin={"l": 64, "r": 24, "t": 26, "b": 52},
        legend={"orientation": "h", "x": 0, "y": line + 4 / inner, "yanchor": "bottom",
                "bgcolor": "rgba(0,0,0,0)"},
    )  # fmt: skip


# ---------- Section: observed and reconstructed fields, and their difference
#
# A field over one coordinate is an image over time and space with the profile at the chosen time
# below; elsewhere the panels are maps at that time.


#: Most times and points of an image.
IMAGE_TIMES, POINTS = 160, 100


def field_section(material: ReportData) -> Section:
    """Images of all times with the profile at one, or maps with one point over time."""
    missing = 100 * material.missing
    gaps = f"{missing:.3g} % of the values are missing (grey). " if missing else ""
    lead = (
        f"{gaps}The law fills gaps and removes observation noise. The difference should look like "
        "noise without a pattern. The slider selects the time."
    )
    figures = []
    for field_data in material.each:
        paths, canvas = reconstructed(field_data), field_data.canvas
        drawn = (
            _image_figure(field_data, paths)
            if canvas is None
            else map_figure(field_data, canvas, paths)
        )
        figures.append(field_data.named(drawn))
    return Section("fields", "Fields: observed, reconstructed, difference", lead, tuple(figures))


def _image_figure(material: ReportData, paths: Reconstructed) -> Figure:
    some = thinned(len(material.points), POINTS)
    observed, mean, reach, times, labels = paths.at(thinned(len(paths.times), IMAGE_TIMES), some)
    when, points = material.time_labels(times), material.points[some]
    difference = observed - mean
    colours = scale(np.concatenate([observed.ravel(), mean.ravel()]))
    x, start = when.positions, len(when.positions) // 2
    traces = [
        image(observed[0], x, points, "", **colours),
        image(mean[0], x, points, "2", **colours,
              **colour_bar("", 0.625, len=0.56, y=0.72)),
        image(difference[0], x, points, "3", **symmetric_scale(difference),
              **colour_bar("", 1.005, len=0.56, y=0.72)),
        *curve(points.tolist(), observed[0, start], mean[0, start], reach[0, start]),
    ]  # fmt: skip
    binds = [Bind(i, "z", name, ("path",)) for i, name in enumerate(("observed", "mean", "left"))]
    for i, name in enumerate(("low", "high", "mean", "observed")):
        binds.append(Bind(3 + i, "y", name, ("path", "time")))
    return Figure(
        "fields",
        "Above: time to the right, space upwards. Below: the field at the chosen time, with the "
        "band in which 95 % of the observations should lie.",
        traces,
        _image_layout(material, when, _profile_limits(observed, mean, reach)),
        620,
        controls=(*paths.choice, Control("time", when.texts, start)),
        binds=tuple(binds if len(labels) > 1 else _images_without_path(binds)),
        cursors=(Cursor("time", x, ("", "2", "3")),),
        arrays=_image_arrays(observed, mean, difference, reach, len(labels) > 1),
    )


def _image_arrays(
    observed: Array, mean: Array, difference: Array, reach: Array, many: bool
) -> dict[str, Array]:
    arrays = {"low": mean - reach, "high": mean + reach, "mean": mean, "observed": observed}
    if not many:
        return {name: values[0] for name, values in arrays.items()}
    return arrays | {"left": difference}


def _images_without_path(binds: list[Bind]) -> list[Bind]:
    return [Bind(b.trace, b.attribute, b.array, ("time",)) for b in binds if b.index[-1] == "time"]


def _profile_limits(observed: Array, mean: Array, reach: Array) -> list[float]:
    low = float(min(np.nanmin(observed), np.nanmin(mean - reach)))
    high = float(max(np.nanmax(observed), np.nanmax(mean + reach)))
    return [low - 0.04 * (high - low), high + 0.04 * (high - low)]


def _image_layout(material: ReportData, when: TimeLabels, limits: list[float]) -> dict:
    columns = ((0.0, 0.29), (0.325, 0.615), (0.70, 0.99))
    titles = ("observed", "reconstructed", "observed minus reconstructed")
    top = [0.46, 0.97]
    axes: dict = {}
    for i, domain in enumerate(columns):
        n = str(i + 1) if i else ""
        follows = {"matches": "y", "showticklabels": False} if i else {}
        axes[f"xaxis{n}"] = axis(
            when.title, domain=domain, anchor=f"y{n}", nticks=4, **when.axis, showgrid=False
        )
        axes[f"yaxis{n}"] = axis(
            "" if i else material.axes[0], domain=top, anchor=f"x{n}", showgrid=False, **follows
        )
    return layout(
        **axes,
        xaxis4=axis(material.axes[0], domain=[0.0, 0.99], anchor="y4"),
        yaxis4=axis(material.quantity, domain=[0.0, 0.29], anchor="x4", range=limits),
        annotations=[
            panel_title(t, c[0], top[1] + 0.005) for t, c in zip(titles, columns, strict=True)
        ],
        shapes=[ground(n) for n in ("", "2", "3")],
        margin={"l": 64, "r": 60, "t": 36, "b": 52},
        legend={"orientation": "h", "x": 0, "y": 0.295, "yanchor": "bottom",
                "bgcolor": "rgba(0,0,0,0)"},
    )  # fmt: skip

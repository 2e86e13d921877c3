"""Modes, reconstructed fields and samples: the data and their description by the law."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from spdelaw.report.data import ReportData
from spdelaw.report.figures.charts import (
    Z95,
    Band,
    Chart,
    Control,
    Line,
    Panel,
    colour_scale,
    symmetric_scale,
    thinned,
)
from spdelaw.report.figures.fields import field_panel, mode_lines
from spdelaw.report.maps import Canvas
from spdelaw.report.sections.summary import mode_labels

Array = np.ndarray

#: Most times and points of an image, of the line below maps, and of the slider over points.
IMAGE_TIMES, IMAGE_POINTS, LINE_TIMES, PLACES = 160, 100, 160, 40
#: Most maps of one path and of all.
MAPS, ALL_MAPS = 36, 48
#: Largest numbers of modes of a map and of lines, and of points of a line.
MAP_MODES, LINE_MODES, LINE_POINTS = 9, 4, 200


def labelled(name: str, values: Array, *dims: str) -> xr.DataArray:
    """An array whose dims may be controls; a path alone is no choice."""
    array = xr.DataArray(values, dims=dims, name=name)
    return array.squeeze("path") if array.sizes.get("path") == 1 else array


# ---------- Shapes of the leading modes


def modes_chart(data: ReportData) -> Chart:
    """The first modes: one map with a list to choose from, or a few lines."""
    n_fields, data = len(data.each), data.each[0]
    n = min(MAP_MODES if data.canvas else LINE_MODES, data.law.n_modes // n_fields)
    modes = data.domain.eigenfunctions(data.points, n)
    modes = np.where(data.ever_observed[:, None], modes, np.nan)
    caption = "The first modes over space, scaled so that the square of each has the integral 1."
    names = mode_labels(data, n)
    if data.canvas is None:
        at = thinned(len(data.points), LINE_POINTS)
        return Chart("modes", caption, ((mode_lines(data.points[at], modes[at], names,
                                                    data.axes[0]),),))  # fmt: skip
    maps = labelled("map", data.canvas.shown(modes.T), "mode", *"yx"[-data.canvas.at.ndim :])
    panel = field_panel(maps, None, data.canvas, symmetric_scale(maps.values), bar=True)
    control = Control("mode", names, kind="select")
    return Chart("modes", f"{caption} {data.canvas.note}".strip(), ((panel,),), (control,))


# ---------- Observed and reconstructed fields, and their difference


def field_chart(data: ReportData) -> Chart:
    """Images of all times with the profile at one, or a map with one point over time."""
    at = data.together
    paths = [data.path(i) for i in at]
    observed, times = np.stack([path.values for path in paths]), paths[0]["time"].values
    mean, std = data.reconstructed(at)
    reach = Z95 * np.sqrt(std**2 + data.noise)
    labels = [f"path {name}" for name in data.fields["path"].values[at]]
    choice = (Control("path", labels, kind="select"),) if len(at) > 1 else ()
    if data.canvas is None:
        return _image_chart(data, times, observed, mean, reach, choice)
    return _map_chart(data, data.canvas, times, observed, mean, reach, choice)


def _band_marks(x: Any, numbers: dict[str, Array], at: Any, *dims: str) -> list[Any]:
    """Band and mean of the law, and observations, as arrays that follow the controls."""
    low, high, mean, observed = (
        labelled(name, numbers[name][at], *dims) for name in ("low", "high", "line", "observed")
    )
    return [
        Band(x, low, high, "95 % band"),
        Line(x, mean, "reconstructed"),
        Line(x, observed, "observed", "data", "", "o", size=5),
    ]


def _image_chart(
    data: ReportData, times: Array, observed: Array, mean: Array, reach: Array, choice: Any
) -> Chart:
    at = np.ix_(np.arange(len(mean)), thinned(len(times), IMAGE_TIMES),
                thinned(len(data.points), IMAGE_POINTS))  # fmt: skip
    when, points = data.time_labels(times[at[1].ravel()]), data.points[at[2].ravel()]
    difference = observed - mean
    both = colour_scale(np.concatenate([observed.ravel(), mean.ravel()]))
    images = (
        ("observed", observed, both, False),
        ("reconstructed", mean, both, True),
        ("observed minus reconstructed", difference, symmetric_scale(difference), True),
    )
    cursor = ("time", when.positions)
    row = [
        field_panel(labelled(title, values[at], "path", "t", "s"), when.positions, points, colours,
                    bar=bar, title=title, x=when.title, y="" if i else data.axes[0], shared=i > 0,
                    cursor=cursor)
        for i, (title, values, colours, bar) in enumerate(images)
    ]  # fmt: skip
    numbers = {"low": mean - reach, "high": mean + reach, "line": mean, "observed": observed}
    marks = _band_marks(points, numbers, at, "path", "time", "s")
    ends = [f(numbers[k]) for f, k in ((np.nanmin, "low"), (np.nanmax, "high"))]
    ends = [min(ends[0], np.nanmin(observed)), max(ends[1], np.nanmax(observed))]
    margin = 0.04 * (ends[1] - ends[0])
    profile = Panel(marks, x=data.axes[0], y=data.quantity, height=180,
                    y_range=(float(ends[0] - margin), float(ends[1] + margin)))  # fmt: skip
    caption = (
        "Above: time to the right, space upwards. Below: the field at the chosen time, with the "
        "band in which 95 % of the observations should lie."
    )
    slider = Control("time", when.texts, len(when.texts) // 2)
    return Chart("fields", caption, (row, (profile,)), (*choice, slider))


def _map_chart(
    data: ReportData, canvas: Canvas, times: Array, observed: Array, mean: Array, reach: Array,
    choice: Any,
) -> Chart:  # fmt: skip
    points, slider = data.point_slider(observed[0], PLACES)
    most = min(MAPS, max(ALL_MAPS // len(mean), 12))
    maps, along = thinned(len(times), most), thinned(len(times), LINE_TIMES)
    when, line_times = data.time_labels(times[maps]), data.time_labels(times[along])
    parts = {
        "observed": observed,
        "reconstructed": mean,
        "observed minus reconstructed": observed - mean,
        "half width of the 95 % band": np.broadcast_to(reach, observed.shape),
    }
    values = np.stack(
        [canvas.shown(np.where(data.ever_observed, v[:, maps], np.nan)) for v in parts.values()]
    )
    both = colour_scale(values[:2].ravel())
    colours = (both, both, symmetric_scale(values[2]), colour_scale(values[3].ravel()))
    cells = labelled("map", values, "show", "path", "time", *"yx"[-canvas.at.ndim :])
    panel = field_panel(cells, None, canvas, colours, by="show", bar=True)
    where = np.array([canvas.where(point) for point in points])
    x, y = (labelled(name, where[:, i], slider.name) for i, name in enumerate("xy"))
    # A white point with a dark rim is visible on any colour.
    rim, mark = (Line(x, y, "", c, "", "o", size=s) for c, s in (("ink", 12), ("card", 8)))
    panel = Panel((*panel.marks, rim, mark))
    numbers = {"low": mean - reach, "high": mean + reach, "line": mean, "observed": observed}
    swapped = {name: np.swapaxes(v, 1, 2) for name, v in numbers.items()}
    at = np.ix_(np.arange(len(mean)), points, along)
    marks = _band_marks(line_times.positions, swapped, at, "path", slider.name, "t")
    below = Panel(marks, x=line_times.title, y=data.quantity, height=190,
                  cursor=("time", when.positions))  # fmt: skip
    grey = "missing, or outside the domain" if canvas.is_grid else "missing"
    coast = "Coastline: Natural Earth. " if len(canvas.coast) else ""
    caption = (
        f"Above: the map at the chosen time; grey is {grey}. Below: the field over time at the "
        f"white mark, with the band in which 95 % of the observations should lie. {coast}"
        + canvas.note
    ).strip()
    controls = (Control("show", tuple(parts), kind="select"), *choice,
                Control("time", when.texts, len(maps) // 2), slider)  # fmt: skip
    return Chart("fields", caption, ((panel,), (below,)), controls)


# ---------- Draws and observed paths


def samples_chart(data: ReportData) -> Chart:
    """Observed paths and draws from the law on one colour scale: images, or maps."""
    at = data.shown if data.canvas is None else data.together
    paths = [data.path(i) for i in at]
    drawn = [
        data.drawn(data.law, i, path["time"].values, 1, data.seed + 1 + i)[0]
        for i, path in zip(at, paths, strict=True)
    ]
    if data.canvas is not None:
        return _sample_maps(data, data.canvas, paths, drawn)
    colours = colour_scale(np.concatenate([path.values.ravel() for path in paths]))
    rows = []
    for r, values in enumerate(([path.values for path in paths], drawn)):
        row = []
        for c, (path, one) in enumerate(zip(paths, values, strict=True)):
            t, s = thinned(len(one), IMAGE_TIMES), thinned(one.shape[1], IMAGE_POINTS)
            when = data.time_labels(path["time"].values[t])
            title = f"draw {c + 1}" if r else f"data, path {path['path'].item()}"
            row.append(
                field_panel(one[np.ix_(t, s)], when.positions, data.points[s], colours, title=title,
                            x=when.title if r else "", y="" if c else data.axes[0], shared=c > 0,
                            bar=c == len(paths) - 1, height=180)
            )  # fmt: skip
        rows.append(row)
    caption = "Observed paths (above) and draws from the law (below), on one colour scale."
    return Chart("samples", caption, rows)


def _sample_maps(
    data: ReportData, canvas: Canvas, paths: list[xr.DataArray], drawn: list[Array]
) -> Chart:
    """Maps of paths (time, point) that share their times; land is empty in draws, too."""
    times = paths[0]["time"].values
    at = thinned(len(times), min(MAPS, max(ALL_MAPS // len(paths), 12)))
    when = data.time_labels(times[at])
    panels: list[Panel] = []
    colours = None
    for name, title, values in (
        ("data", "data", [path.values for path in paths]),
        ("draw", "draw from the law", drawn),
    ):
        some = np.where(data.ever_observed, np.stack(values)[:, at], np.nan)
        cells = labelled(name, canvas.shown(some), "pair", "time", *"yx"[-canvas.at.ndim :])
        colours = colours or colour_scale(cells.values.ravel())
        side_by_side = bool(panels) and not canvas.is_wide
        panels.append(field_panel(cells, None, canvas, colours, title=title, shared=side_by_side,
                                  bar=canvas.is_wide or side_by_side))  # fmt: skip
    labels = [f"path {path['path'].item()}, draw {i + 1}" for i, path in enumerate(paths)]
    controls = (Control("pair", labels, kind="select"), Control("time", when.texts, len(at) // 2))
    caption = "An observed path and a draw from the law at the chosen time, on one colour scale."
    rows = [(panel,) for panel in panels] if canvas.is_wide else (panels,)
    return Chart("samples", f"{caption} {canvas.note}".strip(), rows, controls)

"""Section: observed and reconstructed fields, and their difference, with a time slider.

A field over one coordinate is an image over time and space with the profile at the chosen time
below; elsewhere the panels are maps at that time.
"""

from __future__ import annotations

import numpy as np

from spdelaw.report.html import _field_maps
from spdelaw.report.html._clock import Clock
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
from spdelaw.report.html._images import colour_bar, ground, image, scale, symmetric_scale
from spdelaw.report.html._material import Material
from spdelaw.report.html._reconstructed import Reconstructed, curve, reconstructed
from spdelaw.report.html._section import Section

Array = np.ndarray

#: Most times and points of an image.
TIMES, POINTS = 160, 100


def section(material: Material) -> Section:
    """Images of all times with the profile at one, or maps with a place over time."""
    missing = 100 * material.missing
    gaps = f"{missing:.3g} % of the values are missing (grey). " if missing else ""
    lead = (
        f"{gaps}The law fills gaps and removes observation noise; what it leaves over should look "
        "like noise without a pattern. Move the slider to walk through time."
    )
    figures = []
    for own in material.each:
        paths, canvas = reconstructed(own), own.canvas
        drawn = _figure(own, paths) if canvas is None else _field_maps.figure(own, canvas, paths)
        figures.append(own.named(drawn))
    return Section("fields", "Fields: observed, reconstructed, difference", lead, tuple(figures))


def _figure(material: Material, paths: Reconstructed) -> Figure:
    some = thinned(len(material.points), POINTS)
    observed, mean, reach, times, labels = paths.at(thinned(len(paths.times), TIMES), some)
    when, points = material.clock(times), material.points[some]
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
        _layout(material, when, _limits(observed, mean, reach)),
        620,
        controls=(*paths.choice, Control("time", when.texts, start)),
        binds=tuple(binds if len(labels) > 1 else _without_path(binds)),
        cursors=(Cursor("time", x, ("", "2", "3")),),
        arrays=_arrays(observed, mean, difference, reach, len(labels) > 1),
    )


def _arrays(
    observed: Array, mean: Array, difference: Array, reach: Array, many: bool
) -> dict[str, Array]:
    arrays = {"low": mean - reach, "high": mean + reach, "mean": mean, "observed": observed}
    if not many:
        return {name: values[0] for name, values in arrays.items()}
    return arrays | {"left": difference}


def _without_path(binds: list[Bind]) -> list[Bind]:
    return [Bind(b.trace, b.attribute, b.array, ("time",)) for b in binds if b.index[-1] == "time"]


def _limits(observed: Array, mean: Array, reach: Array) -> list[float]:
    low = float(min(np.nanmin(observed), np.nanmin(mean - reach)))
    high = float(max(np.nanmax(observed), np.nanmax(mean + reach)))
    return [low - 0.04 * (high - low), high + 0.04 * (high - low)]


def _layout(material: Material, when: Clock, limits: list[float]) -> dict:
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

"""Section: the shapes of the leading modes, which all numbers of a law are about."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.report.html._canvas import Canvas
from spdelaw.report.html._figure import (
    LAW_COLOURS,
    Control,
    Figure,
    axis,
    layout,
    packed,
    thinned,
)
from spdelaw.report.html._images import colour_bar, ground, symmetric_scale
from spdelaw.report.html._material import Material, OneField
from spdelaw.report.html._section import Section
from spdelaw.report.html._words import number

Array = np.ndarray

#: Most modes of a map and of lines, and most points of a line.
MAPPED, LINES, POINTS = 9, 4, 200
#: Part of the width that the map takes, and pixels below it.
RIGHT, BELOW = [0.0, 0.94], 10
CAPTION = "The first modes over space, scaled so that the square of each has the integral 1."


def section(material: Material) -> Section:
    """One map with a list of modes, or a few lines."""
    lead = (
        "The field is a sum of these shapes, each times a number that changes in time; decay and "
        "noise of the section above belong to them."
    )
    n_fields, material = len(material.each), material.each[0]
    n = min(MAPPED if material.canvas else LINES, material.law.n_modes // n_fields)
    modes = material.domain.eigenfunctions(material.points, n)
    modes = np.where(material.seen[:, None], modes, np.nan)
    if material.canvas is None:
        figure = _lines(material, modes)
    else:
        figure = _map(material, material.canvas, modes)
    return Section("modes", "Shapes of the leading modes", lead, (figure,))


def names(material: Material, n: int) -> list[str]:
    """Modes by number, with the time after which each has forgotten its past."""
    table = material.law.parameters.get("eigenvalue")
    if table is None or table.dims != ("mode", "statistic") or isinstance(material, OneField):
        return [f"mode {i + 1}" for i in range(n)]
    unit = str(material.fields["time"].attrs.get("units", "")).split(" since ")[0]
    rates = table.sel(statistic="estimate").values[:n]
    memory = [f", memory {number(1 / rate)} {unit}".rstrip() if rate > 0 else "" for rate in rates]
    return [f"mode {i + 1}{told}" for i, told in enumerate(memory)]


def _map(material: Material, canvas: Canvas, modes: Array) -> Figure:
    maps, high = canvas.shown(modes.T), canvas.height()
    inner = high + BELOW
    up = [BELOW / inner, 1.0]
    bar = colour_bar("", RIGHT[1] + 0.01, len=1.0)
    traces = canvas.draw(maps[0], "", **symmetric_scale(maps), **bar)
    control = Control("mode", names(material, len(maps)), kind="select")
    return Figure(
        "modes", f"{CAPTION} {canvas.note}".strip(), traces,
        layout(**canvas.axes("", RIGHT, up, first=True), shapes=[ground("")] * canvas.is_grid,
               margin={"l": 64, "r": 24, "t": 20, "b": 52}),
        inner + 72, controls=(control,), binds=(canvas.bind(len(traces) - 1, "map", ("mode",)),),
        arrays={"map": maps}, maps=((BELOW, BELOW + high),),
    )  # fmt: skip


def _lines(material: Material, modes: Array) -> Figure:
    at = thinned(len(material.points), POINTS)
    order = at[np.argsort(material.points[at])]
    dashes = ("solid", "dash", "dot", "dashdot")
    traces: list[dict[str, Any]] = [
        {"type": "scatter", "mode": "lines", "x": material.points[order].tolist(),
         "y": packed(modes[order, i]), "name": name,
         "line": {"color": LAW_COLOURS[i], "width": 2, "dash": dashes[i]}}
        for i, name in enumerate(names(material, modes.shape[1]))
    ]  # fmt: skip
    return Figure(
        "modes", CAPTION, traces,
        layout(xaxis=axis(material.axes[0]), yaxis=axis("mode")), 330,
    )  # fmt: skip

"""Section: observed and reconstructed fields, and their difference, with a time slider.

A field in one dimension is an image over time and space with the profile at the chosen time
below. In two dimensions the panels would be maps at that time: the same controls bind the
attribute ``z`` of a heat map to the last two axes of an array.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.report._one_path import moments_of, one_path
from spdelaw.report.html._clock import Clock, clock
from spdelaw.report.html._figure import (
    Bind,
    Control,
    Cursor,
    Figure,
    axis,
    layout,
    packed,
    panel_title,
    thinned,
)
from spdelaw.report.html._images import colour_bar, ground, image, scale, symmetric_scale
from spdelaw.report.html._material import Material
from spdelaw.report.html._section import Section

Array = np.ndarray

#: Most paths to choose from, times and points that the page carries.
PATHS, TIMES, POINTS = 3, 160, 100
Z95 = 1.959963984540054


class Shown(NamedTuple):
    """Thinned arrays (path, time, x) of what the section shows."""

    observed: Array
    mean: Array
    std: Array
    clock: Clock
    points: Array
    labels: list[str]


def section(material: Material) -> Section:
    """Images of all times, the profile at one."""
    missing = 100 * material.description["missing"]["fraction"]
    gaps = f"{missing:.3g} % of the values are missing (grey). " if missing else ""
    lead = (
        f"{gaps}The law fills gaps and removes observation noise; what it leaves over should look "
        "like noise without a pattern. Move the slider to walk through time."
    )
    return Section("fields", "Fields: observed, reconstructed, difference", lead,
                   (_figure(material, _shown(material)),))  # fmt: skip


def _shown(material: Material) -> Shown:
    fields, own_times = material.fields, "path_time" in material.fields.coords
    chosen = [0] if own_times else list(range(min(PATHS, fields.sizes["path"])))
    some = fields.isel(path=chosen)
    result = material.law.reconstruct(some)
    observed = [one_path("observed", some, i) for i in range(len(chosen))]
    moments = [moments_of("reconstruction", result, i) for i in range(len(chosen))]
    t = thinned(observed[0].sizes["time"], TIMES)
    x = thinned(observed[0].sizes[material.dim], POINTS)
    at = np.ix_(t, x)
    time = fields["path_time" if own_times else "time"]
    return Shown(
        np.stack([o.values[at] for o in observed]),
        np.stack([m.values[at] for m, _ in moments]),
        np.stack([s.values[at] for _, s in moments]),
        clock(observed[0]["time"].values[t], time.attrs),
        material.points[x],
        [f"path {name}" for name in some["path"].values],
    )


def _figure(material: Material, shown: Shown) -> Figure:
    observed, mean, std, when, points, labels = shown
    noise = np.sqrt(np.mean(material.law.state.observation_variance))
    difference = observed - mean
    reach = Z95 * np.sqrt(std**2 + noise**2)
    colours = scale(np.concatenate([observed.ravel(), mean.ravel()]))
    x, start = when.positions, len(when.positions) // 2
    traces = [
        image(observed[0], x, points, "", **colours),
        image(mean[0], x, points, "2", **colours,
              **colour_bar("", 0.625, len=0.56, y=0.72)),
        image(difference[0], x, points, "3", **symmetric_scale(difference),
              **colour_bar("", 1.005, len=0.56, y=0.72)),
        *_profile(points, observed[0, start], mean[0, start], reach[0, start]),
    ]  # fmt: skip
    binds = [Bind(i, "z", name, ("path",)) for i, name in enumerate(("observed", "mean", "left"))]
    for i, name in enumerate(("low", "high", "mean", "observed")):
        binds.append(Bind(3 + i, "y", name, ("path", "time")))
    return Figure(
        "fields",
        "Above: time to the right, space upwards. Below: the field at the chosen time, with the "
        "band in which 95 % of the observations should lie.",
        traces, _layout(material, when, _limits(observed, mean, reach)), 620,
        controls=(
            *([Control("path", labels, kind="select")] if len(labels) > 1 else []),
            Control("time", when.texts, start),
        ),
        binds=tuple(binds if len(labels) > 1 else _without_path(binds)),
        cursors=(Cursor("time", x, ("", "2", "3")),),
        arrays=_arrays(observed, mean, difference, reach, len(labels) > 1),
    )  # fmt: skip


def _arrays(
    observed: Array, mean: Array, difference: Array, reach: Array, many: bool
) -> dict[str, Array]:
    arrays = {"low": mean - reach, "high": mean + reach, "mean": mean, "observed": observed}
    if not many:
        return {name: values[0] for name, values in arrays.items()}
    return arrays | {"left": difference}


def _without_path(binds: list[Bind]) -> list[Bind]:
    return [Bind(b.trace, b.attribute, b.array, ("time",)) for b in binds if b.index[-1] == "time"]


def _profile(points: Array, observed: Array, mean: Array, reach: Array) -> list[dict]:
    line = {"type": "scatter", "mode": "lines", "x": points.tolist(), "xaxis": "x4", "yaxis": "y4"}
    edge = {**line, "line": {"width": 0}, "hoverinfo": "skip"}
    return [
        {**edge, "y": packed(mean - reach), "showlegend": False},
        {**edge, "y": packed(mean + reach), "fill": "tonexty", "fillcolor": "@lawband",
         "name": "95 % band"},
        {**line, "y": packed(mean), "name": "reconstructed",
         "line": {"color": "@law", "width": 2}},
        {**line, "y": packed(observed), "mode": "markers", "name": "observed",
         "marker": {"color": "@data", "size": 5}},
    ]  # fmt: skip


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
        axes[f"xaxis{n}"] = axis(when.title, domain=domain, anchor=f"y{n}", nticks=4, **when.axis,
                                 showgrid=False)  # fmt: skip
        axes[f"yaxis{n}"] = axis("" if i else material.place, domain=top, anchor=f"x{n}",
                                 showgrid=False, **follows)  # fmt: skip
    return layout(
        **axes,
        xaxis4=axis(material.place, domain=[0.0, 0.99], anchor="y4"),
        yaxis4=axis(material.quantity, domain=[0.0, 0.29], anchor="x4", range=limits),
        annotations=[
            panel_title(t, c[0], top[1] + 0.005) for t, c in zip(titles, columns, strict=True)
        ],
        shapes=[ground(n) for n in ("", "2", "3")],
        margin={"l": 64, "r": 60, "t": 36, "b": 52},
        legend={"orientation": "h", "x": 0, "y": 0.295, "yanchor": "bottom",
                "bgcolor": "rgba(0,0,0,0)"},
    )  # fmt: skip

"""Section: paths drawn from the law beside paths of the data."""

from __future__ import annotations

import numpy as np
import xarray as xr

from spdelaw.report.html import _sample_maps
from spdelaw.report.html._figure import Figure, axis, layout, panel_title, thinned
from spdelaw.report.html._images import colour_bar, ground, image, scale
from spdelaw.report.html._material import Material
from spdelaw.report.html._section import Section

Array = np.ndarray

#: Most times and points of an image.
TIMES, POINTS = 200, 100


def section(material: Material) -> Section:
    """Data above, draws below, on one colour scale."""
    lead = (
        "New paths drawn from the learned law, observation noise included, at the times and "
        "points of the data. If the law is right, nobody can tell the two rows apart."
    )
    figures = tuple(own.named(_figure(own)) for own in material.each)
    return Section("samples", "Sample paths beside data", lead, figures)


def _figure(material: Material) -> Figure:
    """Images over time and space, or maps."""
    at = material.shown if material.canvas is None else material.together
    paths = [material.path(i) for i in at]
    drawn = [
        material.drawn(i, path["time"].values, 1, material.seed + 1 + i)[0]
        for i, path in zip(at, paths, strict=True)
    ]
    if material.canvas is None:
        return _images(material, paths, drawn)
    return _sample_maps.figure(material, material.canvas, paths, drawn)


def _images(material: Material, seen: list[xr.DataArray], drawn: list[Array]) -> Figure:
    n = len(seen)
    colours = scale(np.concatenate([p.values.ravel() for p in seen]))
    traces, axes, titles = [], {}, []
    width = (0.94 - 0.04 * (n - 1)) / n
    data = [path.values for path in seen]
    for row, (paths, y) in enumerate(((data, (0.57, 0.97)), (drawn, (0.0, 0.40)))):
        for column, path in enumerate(paths):
            number = row * n + column + 1
            suffix = "" if number == 1 else str(number)
            x0 = column * (width + 0.04)
            t, x = thinned(len(path), TIMES), thinned(path.shape[1], POINTS)
            when = material.clock(seen[column]["time"].values[t])
            bar = colour_bar("", 0.95, len=1.0) if number == 1 else {}
            traces.append(image(path[np.ix_(t, x)], when.positions, material.points[x],
                                suffix, **colours, **bar))  # fmt: skip
            axes[f"xaxis{suffix}"] = axis(when.title if row else "", domain=[x0, x0 + width],
                                          anchor=f"y{suffix}", nticks=4, showgrid=False,
                                          **when.axis)  # fmt: skip
            axes[f"yaxis{suffix}"] = axis("" if column else material.axes[0], domain=list(y),
                                          anchor=f"x{suffix}", showgrid=False,
                                          showticklabels=column == 0)  # fmt: skip
            text = f"draw {column + 1}" if row else f"data, path {seen[column]['path'].item()}"
            titles.append(panel_title(text, x0, y[1] + 0.005))
    suffixes = ["" if k == 0 else str(k + 1) for k in range(2 * n)]
    return Figure(
        "samples", "Observed paths (above) and draws from the law (below), on one colour scale.",
        traces, layout(**axes, annotations=titles, shapes=[ground(s) for s in suffixes],
                       margin={"l": 64, "r": 60, "t": 36, "b": 52}), 520,
    )  # fmt: skip

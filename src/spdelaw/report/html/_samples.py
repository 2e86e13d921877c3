"""Section: paths drawn from the law beside paths of the data."""

from __future__ import annotations

import numpy as np
import xarray as xr

from spdelaw.report._one_path import one_path
from spdelaw.report.html._clock import clock
from spdelaw.report.html._figure import Figure, axis, layout, panel_title, thinned
from spdelaw.report.html._images import colour_bar, ground, image, scale
from spdelaw.report.html._material import Material
from spdelaw.report.html._section import Section

#: Columns of the figure, and most times and points of an image.
COLUMNS, TIMES, POINTS = 3, 200, 100


def section(material: Material) -> Section:
    """Data above, draws below, on one colour scale."""
    lead = (
        "New paths drawn from the learned law, observation noise included, at the times and "
        "points of the data. If the law is right, nobody can tell the two rows apart."
    )
    return Section("samples", "Sample paths beside data", lead, (_figure(material),))


def _figure(material: Material) -> Figure:
    fields = material.fields
    n = min(COLUMNS, fields.sizes["path"])
    seen = [one_path("data", fields, i) for i in range(n)]
    drawn = [_draw(material, path, i) for i, path in enumerate(seen)]
    colours = scale(np.concatenate([p.values.ravel() for p in seen]))
    names = [str(label) for label in fields["path"].values[:n]]
    time = fields["path_time" if "path_time" in fields.coords else "time"]
    traces, axes, titles = [], {}, []
    width = (0.94 - 0.04 * (n - 1)) / n
    for row, (paths, y) in enumerate(((seen, (0.57, 0.97)), (drawn, (0.0, 0.40)))):
        for column, path in enumerate(paths):
            number = row * n + column + 1
            suffix = "" if number == 1 else str(number)
            x0 = column * (width + 0.04)
            t = thinned(path.sizes["time"], TIMES)
            x = thinned(path.sizes[material.dim], POINTS)
            when = clock(path["time"].values[t], time.attrs)
            bar = colour_bar("", 0.95, len=1.0) if number == 1 else {}
            traces.append(image(path.values[np.ix_(t, x)], when.positions, material.points[x],
                                suffix, **colours, **bar))  # fmt: skip
            axes[f"xaxis{suffix}"] = axis(when.title if row else "", domain=[x0, x0 + width],
                                          anchor=f"y{suffix}", nticks=4, showgrid=False,
                                          **when.axis)  # fmt: skip
            axes[f"yaxis{suffix}"] = axis("" if column else material.place, domain=list(y),
                                          anchor=f"x{suffix}", showgrid=False,
                                          showticklabels=column == 0)  # fmt: skip
            text = f"draw {column + 1}" if row else f"data, path {names[column]}"
            titles.append(panel_title(text, x0, y[1] + 0.005))
    suffixes = ["" if k == 0 else str(k + 1) for k in range(2 * n)]
    return Figure(
        "samples", "Observed paths (above) and draws from the law (below), on one colour scale.",
        traces, layout(**axes, annotations=titles, shapes=[ground(s) for s in suffixes],
                       margin={"l": 64, "r": 60, "t": 36, "b": 52}), 520,
    )  # fmt: skip


def _draw(material: Material, path: xr.DataArray, i: int) -> xr.DataArray:
    """One draw at the times of a path, with all that the law says an observation has."""
    law = material.law
    draws = law.sample(i + 1, path["time"].values, material.points, seed=material.seed + 1,
                       observation_noise=True)  # fmt: skip
    rest = np.random.default_rng([material.seed, i]).standard_normal(path.shape)
    return draws.isel(path=i) + np.sqrt(law.unresolved_variance) * rest

"""Section: variance over time and energy of the modes, data against draws of the law."""

from __future__ import annotations

import numpy as np

from spdelaw.report.html._figure import (
    Figure,
    axis,
    band,
    layout,
    log_axis,
    packed,
    panel_title,
)
from spdelaw.report.html._material import Material
from spdelaw.report.html._replicates import DRAWS, Compared, compare
from spdelaw.report.html._section import Section


def section(material: Material) -> Section:
    """Both statistics of each field, or the energy alone where paths have their own times."""
    lead = (
        f"The same two statistics of the data and of {DRAWS} data sets drawn from the law with the "
        "same gaps and noise. About 95 % of the points should lie inside the band."
    )
    figures = tuple(
        own.named(_figure(own, *found))
        for own, found in zip(material.each, compare(material), strict=True)
    )
    return Section("moments", "Variance and energy", lead, figures)


def _figure(material: Material, over_time: Compared | None, energy: Compared) -> Figure:
    single = material.fields.sizes["path"] < 2
    title = "mean square about the law's mean" if single else "spatially averaged variance"
    right = (0.57, 1.0) if over_time is not None else (0.0, 1.0)
    titles = [panel_title("energy of each mode, E c<sub>n</sub><sup>2</sup>", right[0])]
    traces: list[dict] = []
    axes: dict[str, dict] = {}
    if over_time is not None:
        when = material.clock(over_time.at)
        traces += _compared(over_time, when.positions, "")
        axes |= {
            "xaxis": axis(when.title, domain=[0.0, 0.44], **when.axis),
            "yaxis": axis(rangemode="tozero"),
        }
        titles.append(panel_title(f"{title} over time", 0.0))
    suffix = "2" if over_time is not None else ""
    traces += _compared(energy, energy.at.tolist(), suffix, legend=over_time is None)
    axes[f"xaxis{suffix}"] = axis("mode n", domain=list(right), anchor=f"y{suffix}")
    axes[f"yaxis{suffix}"] = log_axis(energy.data, anchor=f"x{suffix}")
    figure_layout = layout(**axes, annotations=titles, margin={"l": 64, "r": 24, "t": 70, "b": 52})
    figure_layout["legend"] |= {"y": 1.1}
    return Figure(
        "moments",
        f"{title.capitalize()} and energy of the modes: points are the data, the band holds 95 % "
        "of draws from the law.",
        traces,
        figure_layout,
        390,
    )


def _compared(part: Compared, x: list, axes: str, legend: bool = True) -> list[dict]:
    where = {"xaxis": f"x{axes}", "yaxis": f"y{axes}", "type": "scatter"}
    edges = band(x, part.low, part.high, "@lawband", "95 % of draws", **where)
    edges[1]["showlegend"] = legend
    mode = "markers" if len(x) < 60 else "lines"
    return [
        *edges,
        {**where, "mode": "lines", "x": x, "y": packed(part.middle), "name": "median of draws",
         "line": {"color": "@law", "width": 1.5, "dash": "dash"}, "showlegend": legend},
        {**where, "mode": mode, "x": x, "y": packed(np.asarray(part.data)), "name": "data",
         "marker": {"color": "@data", "size": 6}, "line": {"color": "@data", "width": 1.6},
         "showlegend": legend},
    ]  # fmt: skip

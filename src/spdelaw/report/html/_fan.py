"""Section: the second part of some paths, forecast from the first."""

from __future__ import annotations

import numpy as np

from spdelaw.report._forecast import BANDS
from spdelaw.report.html._figure import Bind, Cursor, Figure, axis, layout, packed, thinned
from spdelaw.report.html._material import Material
from spdelaw.report.html._section import Section
from spdelaw.report.html._spots import spots

Array = np.ndarray

#: Share of a path that the forecast sees; most times and points on the page.
SEEN, TIMES, POINTS = 0.6, 200, 60
#: Colours of the bands, wide first, and how many standard deviations they reach.
REACH = {0.95: 1.959963984540054, 0.5: 0.6744897501960817}


def section(material: Material) -> Section | None:
    """Fan of the first path shown; None where it is too short to cut, or was seen too late."""
    path = material.path(material.shown[0])
    n = max(2, int(SEEN * path.sizes["time"]))
    if path.sizes["time"] - n < 2 or not np.isfinite(path.values[:n]).any():
        return None
    lead = (
        "The law saw the path up to the dotted line and nothing after it. The dark band should "
        "hold half of what really happened, the light one 95 %. Observation noise is part of the "
        "bands. Move the slider to change the place."
    )
    figures = tuple(own.named(_figure(own, n)) for own in material.each)
    return Section("forecast", "Forecast against what happened", lead, figures)


def _figure(material: Material, n: int) -> Figure:
    path = material.path(material.shown[0])
    history, later = path.isel(time=slice(n)), path.isel(time=slice(n, None))
    when = later["time"].values[thinned(later.sizes["time"], TIMES)]
    mean, std = material.forecast(material.shown[0], n, when)
    x, place = spots(material, path.values, POINTS)
    then, scale = material.raw(when, np.asarray(x))
    now, _ = material.raw(path["time"].values, np.asarray(x))
    std = (scale * np.sqrt(std**2 + material.noise)[:, x]).T
    mean, seen = (then + scale * mean[:, x]).T, (now + scale * path.values[:, x]).T
    before = thinned(path.sizes["time"], 2 * TIMES)
    past, future = material.clock(path["time"].values[before]), material.clock(when)
    arrays = {"observed": seen[:, before], "mean": mean}
    for probability, z in REACH.items():
        key = f"{100 * probability:g}"
        arrays |= {f"low{key}": mean - z * std, f"high{key}": mean + z * std}
    start = place.start
    traces, binds = _bands(arrays, future.positions, start, place.name)
    line = {"type": "scatter", "mode": "lines"}
    traces += [
        {**line, "x": future.positions, "y": packed(mean[start]), "name": "forecast mean",
         "line": {"color": "@law", "width": 2}},
        {**line, "x": past.positions, "y": packed(arrays["observed"][start]), "name": "observed",
         "mode": "lines+markers", "marker": {"size": 3}, "line": {"color": "@data", "width": 1.5}},
    ]  # fmt: skip
    binds += [
        Bind(len(traces) - 2, "y", "mean", (place.name,)),
        Bind(len(traces) - 1, "y", "observed", (place.name,)),
    ]
    end = material.clock(history["time"].values[-1:]).positions[0]
    return Figure(
        "forecast",
        "Forecast of one path from its first part, with 50 % and 95 % bands, beside what happened.",
        traces,
        layout(xaxis=axis(past.title, **past.axis), yaxis=axis(material.raw_quantity)), 400,
        controls=(place,), binds=tuple(binds),
        cursors=(Cursor("", [end], ("",)),), arrays=arrays,
    )  # fmt: skip


def _bands(
    arrays: dict[str, Array], when: list, start: int, dim: str
) -> tuple[list[dict], list[Bind]]:
    """Edges of each band in pairs, the wide band first."""
    traces: list[dict] = []
    binds: list[Bind] = []
    for probability in BANDS:
        key = f"{100 * probability:g}"
        edge = {"type": "scatter", "mode": "lines", "x": when, "line": {"width": 0},
                "hoverinfo": "skip"}  # fmt: skip
        colour = "@lawband" if probability > 0.9 else "@lawcore"
        binds += [
            Bind(len(traces), "y", f"low{key}", (dim,)),
            Bind(len(traces) + 1, "y", f"high{key}", (dim,)),
        ]
        traces += [
            {**edge, "y": packed(arrays[f"low{key}"][start]), "showlegend": False},
            {**edge, "y": packed(arrays[f"high{key}"][start]), "fill": "tonexty",
             "fillcolor": colour, "name": f"{key} % band"},
        ]  # fmt: skip
    return traces, binds

"""Forecasts with bands, and their skill beside reference methods."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spdelaw.errors import InputError
from spdelaw.evaluation.forecast_skill import Skill
from spdelaw.report.data import ReportData, point_slider
from spdelaw.report.figures.numbers import BAND_PROBABILITIES, forecast_fan, skill_curves
from spdelaw.report.plots import (
    Bind,
    Cursor,
    Figure,
    Section,
    Table,
    axis,
    hover_text,
    layout,
    packed,
    panel_title,
    thinned,
)

# ---------- Section: a path forecast from its first part


Array = np.ndarray

#: Share of a path that is its history; largest numbers of times and points on the page.
HISTORY_SHARE, TIMES, POINTS = 0.6, 200, 60


def forecast_section(material: ReportData) -> Section | None:
    """Forecast of the first path; None where it is too short or has no early observations."""
    path = material.path(material.shown[0])
    n = max(2, int(HISTORY_SHARE * path.sizes["time"]))
    if path.sizes["time"] - n < 2 or not np.isfinite(path.values[:n]).any():
        return None
    lead = (
        "The forecast uses the path up to the dotted line. The dark band should contain half of "
        "the later observations, the light band 95 %. The bands include observation noise. The "
        "slider selects the place."
    )
    figures = tuple(
        field_data.named(_forecast_fan_figure(field_data, n)) for field_data in material.each
    )
    return Section("forecast", "Forecast and later observations", lead, figures)


def _forecast_fan_figure(material: ReportData, n: int) -> Figure:
    path = material.path(material.shown[0])
    history, later = path.isel(time=slice(n)), path.isel(time=slice(n, None))
    when = later["time"].values[thinned(later.sizes["time"], TIMES)]
    mean, std = material.forecast(material.shown[0], n, when)
    x, place_control = point_slider(material, path.values, POINTS)
    then, scale = material.raw(when, np.asarray(x))
    now, _ = material.raw(path["time"].values, np.asarray(x))
    std = (scale * np.sqrt(std**2 + material.noise)[:, x]).T
    mean, observed = (then + scale * mean[:, x]).T, (now + scale * path.values[:, x]).T
    before = thinned(path.sizes["time"], 2 * TIMES)
    past, future = material.time_labels(path["time"].values[before]), material.time_labels(when)
    arrays = {"observed": observed[:, before], "mean": mean}
    for probability, (low, high) in forecast_fan(mean, std).bands.items():
        key = f"{100 * probability:g}"
        arrays |= {f"low{key}": low, f"high{key}": high}
    start = place_control.start
    traces, binds = _band_traces(arrays, future.positions, start, place_control.name)
    line = {"type": "scatter", "mode": "lines"}
    traces += [
        {**line, "x": future.positions, "y": packed(mean[start]), "name": "forecast mean",
         "line": {"color": "@law", "width": 2}},
        {**line, "x": past.positions, "y": packed(arrays["observed"][start]), "name": "observed",
         "mode": "lines+markers", "marker": {"size": 3}, "line": {"color": "@data", "width": 1.5}},
    ]  # fmt: skip
    binds += [
        Bind(len(traces) - 2, "y", "mean", (place_control.name,)),
        Bind(len(traces) - 1, "y", "observed", (place_control.name,)),
    ]
    end = material.time_labels(history["time"].values[-1:]).positions[0]
    return Figure(
        "forecast",
        "Forecast of one path from its first part, with 50 % and 95 % bands, and the later "
        "observations.",
        traces,
        layout(xaxis=axis(past.title, **past.axis), yaxis=axis(material.raw_quantity)), 400,
        controls=(place_control,), binds=tuple(binds),
        cursors=(Cursor("", [end], ("",)),), arrays=arrays,
    )  # fmt: skip


def _band_traces(
    arrays: dict[str, Array], when: list, start: int, dim: str
) -> tuple[list[dict], list[Bind]]:
    """Edges of each band in pairs, the wide band first."""
    traces: list[dict] = []
    binds: list[Bind] = []
    for probability in BAND_PROBABILITIES:
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


# ---------- Section: skill of forecasts beside reference methods


#: Colours and marks of the methods, distinct in black and white too.
LOOKS = {
    "law": ("@law", "circle"),
    "climatology": ("@muted", "square"),
    "persistence": ("@third", "triangle-up"),
    "damped persistence": ("@data", "triangle-down"),
    "LIM": ("@second", "diamond"),
}
#: Panels: score, name, and where on the page.
PANELS = (("rmse", "RMSE", [0.0, 0.44]), ("crps", "CRPS", [0.57, 1.0]))
#: Required keys of a skill document.
SKILL_KEYS = ("leads", "scores", "verdict", "facts", "level")


def document_of(skill: Skill | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The plain form of a result, or `InputError`."""
    document = skill.to_dict() if isinstance(skill, Skill) else skill
    if document is None:
        return None
    if not isinstance(document, Mapping) or any(key not in document for key in SKILL_KEYS):
        expected = "what sl.skill returned, or its to_dict()"
        fix = "spdelaw skill data.nc --json > skill.json"
        raise InputError("skill", expected=expected, got=type(document).__name__, fix=fix)
    return dict(document)


def skill_section(material: ReportData) -> Section | None:
    """RMSE and CRPS by lead with intervals; None where no skill was given."""
    document = material.skill
    if document is None:
        return None
    lead = (
        "Hindcasts: the law and the reference methods use earlier times only. "
        f"{document['verdict'][:1].upper()}{document['verdict'][1:]}."
    )
    unit = document.get("units", "")
    parts = (_skill_figure(document, unit), _score_table(document, unit))
    return Section("skill", "Skill of forecasts", lead, parts)


def _skill_figure(document: Mapping[str, Any], unit: str) -> Figure:
    leads = document["leads"]
    traces: list[dict[str, Any]] = []
    for i, (score, name, _) in enumerate(PANELS):
        for method, curve in skill_curves(document, score).items():
            colour, mark = LOOKS.get(method, ("@muted", "x"))
            below, above = curve.bars.tolist()
            traces.append({
                "type": "scatter", "mode": "lines+markers", "name": method, "legendgroup": method,
                "showlegend": i == 0, "x": curve.leads.tolist(), "y": curve.estimate.tolist(),
                "xaxis": "x" if i == 0 else "x2", "yaxis": "y" if i == 0 else "y2",
                "line": {"color": colour, "width": 2 if method == "law" else 1.2},
                "marker": {"symbol": mark, "size": 7, "color": colour},
                "error_y": {"type": "data", "symmetric": False, "thickness": 1, "width": 0,
                            "color": colour, "array": above, "arrayminus": below},
                "hovertemplate": f"{hover_text(method)}: {name} %{{y:.4g}}<extra></extra>",
            })  # fmt: skip
    ticks = {"tickvals": list(leads), "ticktext": [str(lead) for lead in leads]}
    right, left = PANELS[1][2], PANELS[0][2]
    in_unit = f" ({unit})" if unit else ""
    figure_layout = layout(
        xaxis=axis("steps ahead", domain=left, **ticks),
        yaxis=axis(rangemode="tozero"),
        xaxis2=axis("steps ahead", domain=right, anchor="y2", **ticks),
        yaxis2=axis(anchor="x2", rangemode="tozero"),
        annotations=[panel_title(f"{name}{in_unit}", where[0], 1.0) for _, name, where in PANELS],
        legend={"orientation": "h", "x": 0, "y": -0.22, "xanchor": "left", "yanchor": "top"},
        margin={"l": 56, "r": 24, "t": 36, "b": 96},
    )
    caption = (
        f"Error of the mean and CRPS by lead, lower is better; bars are "
        f"{100 * document['level']:.0f} % intervals from blocks of origins."
    )
    return Figure("skill", caption, traces, figure_layout, 400)


def _score_table(document: Mapping[str, Any], unit: str) -> Table:
    header = ["", *(f"lead {lead}" for lead in document["leads"])]
    rows: list[list[str]] = []
    for score, name, _ in PANELS:
        rows.append([name + (f" ({unit})" if unit else "")])
        rows += [
            [method, *(_cell(row) for row in scores[score])]
            for method, scores in document["scores"].items()
        ]
    return Table("Scores", header, rows, True, "; ".join(document["facts"]))


def _cell(row: Mapping[str, float]) -> str:
    return f"{row['estimate']:.3g} [{row['lower']:.3g}, {row['upper']:.3g}]"


def read_skill(path: Path) -> dict[str, Any]:
    """The document that ``spdelaw skill --json`` printed into a file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        expected, fix = "the JSON of a skill", f"spdelaw skill data.nc --json > {path.name}"
        raise InputError("--skill", expected=expected, got=f"{path}: {error}", fix=fix) from error
    return document_of(document) or {}

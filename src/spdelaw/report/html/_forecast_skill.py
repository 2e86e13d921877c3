"""Section: skill of forecasts of the past beside what people use now."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spdelaw.errors import InputError
from spdelaw.evaluation import Skill
from spdelaw.report.html._figure import Figure, axis, layout, panel_title
from spdelaw.report.html._material import Material
from spdelaw.report.html._section import Section, Table

#: Colours and marks of the methods, told apart in black and white too.
LOOKS = {
    "law": ("@law", "circle"),
    "climatology": ("@muted", "square"),
    "persistence": ("@third", "triangle-up"),
    "damped persistence": ("@data", "triangle-down"),
    "LIM": ("@second", "diamond"),
}
#: Panels: score, name, and where on the page.
PANELS = (("rmse", "RMSE", [0.0, 0.44]), ("crps", "CRPS", [0.57, 1.0]))
#: What such a document has at least.
KEYS = ("leads", "scores", "verdict", "facts", "level")


def document_of(skill: Skill | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The plain form of a result, or `InputError`."""
    found = skill.to_dict() if isinstance(skill, Skill) else skill
    if found is None:
        return None
    if not isinstance(found, Mapping) or any(key not in found for key in KEYS):
        expected = "what sl.skill returned, or its to_dict()"
        fix = "spdelaw skill data.nc --json > skill.json"
        raise InputError("skill", expected=expected, got=type(found).__name__, fix=fix)
    return dict(found)


def section(material: Material) -> Section | None:
    """RMSE and CRPS by lead with intervals; None where no skill was given."""
    found = material.skill
    if found is None:
        return None
    lead = (
        "The past, forecast as it would have been done: law and rivals see earlier times only. "
        f"{found['verdict'][:1].upper()}{found['verdict'][1:]}."
    )
    unit = found.get("units", "")
    parts = (_figure(found, unit), _table(found, unit))
    return Section("skill", "Skill of forecasts", lead, parts)


def _figure(found: Mapping[str, Any], unit: str) -> Figure:
    leads, room = found["leads"], _room(found["leads"])
    traces: list[dict[str, Any]] = []
    for i, (score, name, _) in enumerate(PANELS):
        for k, (method, scores) in enumerate(found["scores"].items()):
            colour, mark = LOOKS.get(method, ("@muted", "x"))
            rows = scores[score]
            x = [lead + room * (k - (len(found["scores"]) - 1) / 2) for lead in leads]
            traces.append({
                "type": "scatter", "mode": "lines+markers", "name": method, "legendgroup": method,
                "showlegend": i == 0, "x": x, "y": [row["estimate"] for row in rows],
                "xaxis": "x" if i == 0 else "x2", "yaxis": "y" if i == 0 else "y2",
                "line": {"color": colour, "width": 2 if method == "law" else 1.2},
                "marker": {"symbol": mark, "size": 7, "color": colour},
                "error_y": {"type": "data", "symmetric": False, "thickness": 1, "width": 0,
                            "color": colour, "array": _reach(rows, "upper", 1),
                            "arrayminus": _reach(rows, "lower", -1)},
                "hovertemplate": f"{method}: {name} %{{y:.4g}}<extra></extra>",
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
        f"{100 * found['level']:.0f} % intervals from blocks of origins."
    )
    return Figure("skill", caption, traces, figure_layout, 400)


def _room(leads: list[int]) -> float:
    gaps = [b - a for a, b in itertools.pairwise(leads)]
    return 0.06 * min(gaps, default=1)


def _reach(rows: list[dict[str, float]], end: str, sign: int) -> list[float]:
    return [max(sign * (row[end] - row["estimate"]), 0.0) for row in rows]


def _table(found: Mapping[str, Any], unit: str) -> Table:
    header = ["", *(f"lead {lead}" for lead in found["leads"])]
    rows: list[list[str]] = []
    for score, name, _ in PANELS:
        rows.append([name + (f" ({unit})" if unit else "")])
        rows += [
            [method, *(_cell(row) for row in scores[score])]
            for method, scores in found["scores"].items()
        ]
    return Table("Scores", header, rows, True, "; ".join(found["facts"]))


def _cell(row: Mapping[str, float]) -> str:
    return f"{row['estimate']:.3g} [{row['lower']:.3g}, {row['upper']:.3g}]"


def read_skill(path: Path) -> dict[str, Any]:
    """The document that ``spdelaw skill --json`` printed into a file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        expected, fix = "the JSON of a skill", f"spdelaw skill data.nc --json > {path.name}"
        raise InputError("--skill", expected=expected, got=f"{path}: {error}", fix=fix) from error
    return document_of(found) or {}

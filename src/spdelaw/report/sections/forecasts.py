"""Forecasts, their skill and calibration, and the reaction of a semilinear law."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from spdelaw.checks import checked
from spdelaw.data.io.safe_files import read_regular, reading
from spdelaw.domains.fields import Fields
from spdelaw.errors import InputError
from spdelaw.evaluation.forecast_skill import Skill
from spdelaw.evaluation.tasks import predict_tier
from spdelaw.processes.semilinear import Reacting
from spdelaw.processes.terms import term_values
from spdelaw.report.data import TIERS, ReportData
from spdelaw.report.figures.charts import Chart, thinned
from spdelaw.report.figures.predictions import coverage_chart, forecast_chart, innovations_chart
from spdelaw.report.figures.reaction import phase_plane_chart, reaction_chart
from spdelaw.report.sections.fields import labelled

Array = np.ndarray

#: Share of a path that is its history; largest numbers of times and points on the page.
HISTORY_SHARE, TIMES, POINTS = 0.6, 200, 60
#: Fewest innovations that make a histogram.
MIN_INNOVATIONS = 20
#: Required keys of a skill document.
SKILL_KEYS = ("leads", "scores", "verdict", "facts", "level")


def history_length(data: ReportData) -> int:
    """Times of the first path that are its history; 0 where it cannot be forecast."""
    path = data.path(data.shown[0])
    n = max(2, int(HISTORY_SHARE * path.sizes["time"]))
    return n if path.sizes["time"] - n >= 2 and np.isfinite(path.values[:n]).any() else 0


def path_forecast_chart(data: ReportData) -> Chart:
    """The first path forecast from its first part, in the units and dates of the raw data."""
    path, n = data.path(data.shown[0]), history_length(data)
    points, slider = data.point_slider(path.values, POINTS)
    times = path["time"].values
    before, after = thinned(n, TIMES), n + thinned(len(times) - n, TIMES)
    mean, std = data.forecast(data.shown[0], n, times[after])
    offset, scale = data.raw(times)

    def raw(name: str, values: Array, rows: Array) -> Any:
        moved = (offset[rows] + scale * values)[:, points]
        return labelled(name, moved.T, slider.name, "t")

    past, future = (data.time_labels(times[rows]) for rows in (before, after))
    band = labelled("std", (scale * np.sqrt(std**2 + data.noise))[:, points].T, slider.name, "t")
    return forecast_chart(
        (past.positions, raw("history", path.values[before], before)),
        (future.positions, raw("mean", mean, after), band),
        (future.positions, raw("later", path.values[after], after)),
        (past.title, data.raw_quantity),
        controls=(slider,),
    )


def calibration_charts(data: ReportData) -> list[Chart]:
    """Innovations, where there are enough for a histogram, and coverage."""
    check, law = data.card.check, data.law.without_preparation_and_mean
    enough = (~np.isnan(check.innovations)).sum() >= MIN_INNOVATIONS
    predicted = {tier: predict_tier(law, data.centred, tier, data.seed) for tier in TIERS}
    return [innovations_chart(check)] * bool(enough) + [coverage_chart(predicted)]


# ---------- The reaction of a semilinear law


def reaction_charts(data: ReportData) -> list[Chart]:
    """A curve for each field, with the others at their medians, and the phase plane of two."""
    dynamics = cast("Reacting", data.law.dynamics)
    if not isinstance(data.law.domain, Fields):
        if all(any(any(p[1:]) for p in g) for g in dynamics.reaction.polynomials):
            return []  # all terms have derivatives
        values = data.fields.values
        return [
            reaction_chart(data.law, values, data.quantity,
                           lambda u: term_values(dynamics.terms, {"u": u}))
        ]  # fmt: skip
    by_name = {one.label: one.fields.values.ravel() for one in data.each}
    middles = {name: float(np.nanmedian(v)) for name, v in by_name.items()}
    charts = []
    for one in data.each:

        def along(u: Array, name: str = one.label) -> Array:
            at = {n: u if n == name else np.full_like(u, m) for n, m in middles.items()}
            return term_values(dynamics.terms, at, name)

        chart = reaction_chart(data.law, one.fields.values, one.quantity, along)
        charts.append(chart.of_field(one.label))
    return [*charts, phase_plane_chart(dynamics, by_name)] if len(by_name) == 2 else charts


# ---------- Skill documents


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


@checked()
def read_skill(path: str | Path) -> dict[str, Any]:
    """The document that ``spdelaw skill --json`` printed into a file."""
    path = Path(path)
    with reading(path, "the JSON of a skill", f"spdelaw skill data.nc --json > {path.name}"):
        document = json.loads(read_regular(path))
    return document_of(document) or {}

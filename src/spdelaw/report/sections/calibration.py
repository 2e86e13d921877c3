"""Innovations and calibration: the evidence for and against the model."""

from __future__ import annotations

import numpy as np

from spdelaw.evaluation.tasks import predict_tier
from spdelaw.report.data import TIERS, ReportData
from spdelaw.report.figures.numbers import (
    LEVELS,
    InnovationStatistics,
    coverage_curve,
    innovation_statistics,
)
from spdelaw.report.plots import Figure, Section, Table, axis, band, layout, packed, panel_title

#: Fewest innovations that make a histogram.
MIN_INNOVATIONS = 20


def calibration_section(material: ReportData) -> Section:
    """PIT, correlation in time and coverage, with the tests in a table."""
    check = material.card.check
    z = check.innovations
    lead = (
        "An innovation is the error of a one-step forecast of a mode, divided by its standard "
        "deviation. Under the right law innovations are independent and standard normal. "
        f"{_sentence(check.verdict)}"
    )
    lead += "".join(f" {_sentence(line)}" for line in check.advice)
    parts: list[Figure | Table] = []
    if (~np.isnan(z)).sum() >= MIN_INNOVATIONS:
        parts.append(_innovations(innovation_statistics(z), check.unit))
    parts += [_coverage(material), _tests(material), _scores(material)]
    return Section("calibration", "Innovations and calibration", lead, tuple(parts))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _innovations(statistics: InnovationStatistics, unit: str) -> Figure:
    reach = statistics.density_reach
    figure_layout = layout(
        xaxis=axis("probability integral transform", domain=[0.0, 0.44], range=[0, 1]),
        yaxis=axis("density", rangemode="tozero"),
        xaxis2=axis("lag in time steps", domain=[0.57, 1.0], anchor="y2", dtick=1),
        yaxis2=axis("correlation", anchor="x2"),
        annotations=[panel_title("PIT of one-step forecasts: flat if calibrated", 0.0),
                     panel_title(f"autocorrelation of each {unit}: zero if right", 0.57)],
        bargap=0.06, showlegend=False,
    )  # fmt: skip
    traces = [
        {"type": "bar", "x": statistics.bins.tolist(), "y": statistics.density.tolist(),
         "marker": {"color": "@data"},
         "hovertemplate": "PIT %{x:.3f}: density %{y:.3f}<extra></extra>"},
        *band([0, 1], np.full(2, 1 - reach), np.full(2, 1 + reach), "@neutralband", "",
              type="scatter"),
        {"type": "scatter", "mode": "lines", "x": [0, 1], "y": [1, 1], "hoverinfo": "skip",
         "line": {"color": "@law", "dash": "dash", "width": 1.5}},
        *_correlations(statistics, unit),
    ]  # fmt: skip
    return Figure(
        "innovations",
        "Left: histogram of the probability integral transform (PIT), with its 95 % band. "
        f"Right: autocorrelation of the innovations, one line per {unit}, with its 95 % band.",
        traces,
        figure_layout,
        360,
    )


def _correlations(statistics: InnovationStatistics, unit: str) -> list[dict]:
    axes = {"xaxis": "x2", "yaxis": "y2", "type": "scatter"}
    lags, reach = statistics.lags.tolist(), statistics.correlation_reach
    traces = band(lags, -reach, reach, "@neutralband", "", **axes)
    for n, line in enumerate(statistics.correlation):
        name = f"{unit} {n + 1}"
        traces.append({
            **axes, "mode": "lines+markers", "x": lags, "y": packed(line), "name": name,
            "line": {"color": "@data", "width": 1}, "marker": {"size": 4}, "opacity": 0.75,
            "hovertemplate": f"{name}, lag %{{x}}: %{{y:.3f}}<extra></extra>",
        })  # fmt: skip
    return traces


def _coverage(material: ReportData) -> Figure:
    colours = {"forecast": "@law", "gaps": "@data"}
    dashes = {"forecast": "solid", "gaps": "dot"}
    levels = (100 * LEVELS).tolist()
    traces: list[dict] = [
        {"type": "scatter", "mode": "lines", "x": [0, 100], "y": [0, 100], "name": "ideal",
         "line": {"color": "@muted", "dash": "dash", "width": 1.2}, "hoverinfo": "skip"}
    ]  # fmt: skip
    for tier in TIERS:
        share = coverage_curve(*predict_tier(material.law, material.observed, tier, material.seed))
        traces.append({
            "type": "scatter", "mode": "lines+markers", "name": tier, "x": levels,
            "y": packed(100 * share), "marker": {"size": 5},
            "line": {"color": colours[tier], "dash": dashes[tier], "width": 2},
            "hovertemplate": "%{x:g} % interval holds %{y:.1f} %<extra>" + tier + "</extra>",
        })  # fmt: skip
    return Figure(
        "coverage",
        "Share of held-out values inside intervals of each level: on the diagonal if calibrated. "
        "'forecast' holds out the second half of each path, 'gaps' a random fifth of the values. "
        "The errors of one forecast are correlated, so with few paths the curve is uncertain.",
        traces,
        layout(xaxis=axis("level of the interval (%)", range=[0, 100]),
               yaxis=axis("values inside (%)", range=[0, 101])), 360,
    )  # fmt: skip


def _tests(material: ReportData) -> Table:
    check = material.card.check
    table = check.p_values
    tests = [str(name) for name in table.data_vars]
    rows = [
        [f"{check.unit} {int(n)}", *(_p_value_text(float(table[t].values[i])) for t in tests)]
        for i, n in enumerate(table["series"].values)
    ]
    rows += [
        [name, _p_value_text(p), *[""] * (len(tests) - 1)] for name, p in check.overall.items()
    ]
    return Table(
        "Tests of the innovations (p-values; judged jointly by Holm's method)",
        (check.unit, *tests),
        rows,
        folded=True,
    )


def _p_value_text(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def _scores(material: ReportData) -> Table:
    card = material.card
    rows = [
        [tier, *(f"{v:.4g}" for v in score[:3]), f"{100 * score.coverage:.1f} %"]
        for tier, score in card.tiers.items()
    ]
    level = f"inside {100 * card.level:g} % intervals"
    return Table("Scores on held-out values", ("task", "rel L2", "RMSE", "CRPS", level), rows)

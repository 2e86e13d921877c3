"""Shapes of the modes, learned spectra with intervals, laws side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from spdelaw.law.law import Law
from spdelaw.report.data import TIERS, OneField, ReportData
from spdelaw.report.figures.numbers import error_bars, spectra
from spdelaw.report.maps import Canvas
from spdelaw.report.plots import (
    LAW_COLOURS,
    MARKERS,
    Control,
    Figure,
    Section,
    Table,
    axis,
    colour_bar,
    ground,
    layout,
    log_axis,
    packed,
    panel_title,
    symmetric_scale,
    thinned,
)
from spdelaw.report.sections.summary import mode_names, number

# ---------- Section: shapes of the leading modes


Array = np.ndarray

#: Largest numbers of modes of a map and of lines, and of points of a line.
MAP_MODES, LINE_MODES, LINE_POINTS = 9, 4, 200
#: Share of the width for the map, and pixels below it.
MAP_WIDTH, SPACE_BELOW = [0.0, 0.94], 10
CAPTION = "The first modes over space, scaled so that the square of each has the integral 1."


def shapes_section(material: ReportData) -> Section:
    """One map with a list of modes, or a few lines."""
    lead = (
        "The field is a sum of these shapes, each times a coefficient that changes in time. The "
        "decay rates and noise variances above describe these coefficients."
    )
    n_fields, material = len(material.each), material.each[0]
    n = min(MAP_MODES if material.canvas else LINE_MODES, material.law.n_modes // n_fields)
    modes = material.domain.eigenfunctions(material.points, n)
    modes = np.where(material.ever_observed[:, None], modes, np.nan)
    if material.canvas is None:
        figure = _mode_lines(material, modes)
    else:
        figure = _mode_map(material, material.canvas, modes)
    return Section("modes", "Shapes of the leading modes", lead, (figure,))


def mode_labels(material: ReportData, n: int) -> list[str]:
    """Modes by number, with the e-folding time of each."""
    table = material.law.parameters.get("eigenvalue")
    if table is None or table.dims != ("mode", "statistic") or isinstance(material, OneField):
        return [f"mode {i + 1}" for i in range(n)]
    unit = str(material.fields["time"].attrs.get("units", "")).split(" since ")[0]
    rates = table.sel(statistic="estimate").values[:n]
    memory = [f", memory {number(1 / rate)} {unit}".rstrip() if rate > 0 else "" for rate in rates]
    return [f"mode {i + 1}{suffix}" for i, suffix in enumerate(memory)]


def _mode_map(material: ReportData, canvas: Canvas, modes: Array) -> Figure:
    maps, high = canvas.shown(modes.T), canvas.height()
    inner = high + SPACE_BELOW
    up = [SPACE_BELOW / inner, 1.0]
    bar = colour_bar("", MAP_WIDTH[1] + 0.01, len=1.0)
    traces = canvas.draw(maps[0], "", **symmetric_scale(maps), **bar)
    control = Control("mode", mode_labels(material, len(maps)), kind="select")
    return Figure(
        "modes", f"{CAPTION} {canvas.note}".strip(), traces,
        layout(**canvas.axes("", MAP_WIDTH, up, first=True), shapes=[ground("")] * canvas.is_grid,
               margin={"l": 64, "r": 24, "t": 20, "b": 52}),
        inner + 72, controls=(control,), binds=(canvas.bind(len(traces) - 1, "map", ("mode",)),),
        arrays={"map": maps}, maps=((SPACE_BELOW, SPACE_BELOW + high),),
    )  # fmt: skip


def _mode_lines(material: ReportData, modes: Array) -> Figure:
    at = thinned(len(material.points), LINE_POINTS)
    order = at[np.argsort(material.points[at])]
    dashes = ("solid", "dash", "dot", "dashdot")
    traces: list[dict[str, Any]] = [
        {"type": "scatter", "mode": "lines", "x": material.points[order].tolist(),
         "y": packed(modes[order, i]), "name": name,
         "line": {"color": LAW_COLOURS[i], "width": 2, "dash": dashes[i]}}
        for i, name in enumerate(mode_labels(material, modes.shape[1]))
    ]  # fmt: skip
    return Figure(
        "modes", CAPTION, traces,
        layout(xaxis=axis(material.axes[0]), yaxis=axis("mode")), 330,
    )  # fmt: skip


# ---------- Section: learned spectra with intervals, and all parameters


#: Attribute of `Spectra` and the title of its panel.
PANELS = {
    "decay": "eigenvalue λₙ: decay rate of the mode",
    "noise": "noise variance qₙ: strength of the forcing",
}
#: Panels side by side, as shares of the width.
DOMAINS = ((0.0, 0.45), (0.55, 1.0))


def spectra_section(material: ReportData) -> Section:
    """Both spectra of all laws, against the truth where it is known.

    A law that is not linear has no spectra: only the tables show its parameters.
    """
    level = 100 * float(material.law.parameters.attrs["interval_level"])
    tables = (_mode_table(material), _scalar_table(material))
    if spectra(material.law) is None:
        lead = f"All parameters of the law with {level:g} % intervals."
        return Section("spectra", "What was learned", lead, tables)
    lead = (
        f"Each mode is a pattern in space. It decays at the rate λ and is forced by noise of "
        f"variance q per unit of time. Bars are {level:g} % intervals; a missing bar means that "
        "the data do not determine the parameter."
    )
    parts: list[Figure | Table] = [_spectra_figure(material), tables[0]]
    if "drift" in material.law.parameters:
        lead += (
            " Drift or noise couple these modes. The rates shown are those of the eigenmodes of "
            "the drift, which decay independently of each other; some oscillate while they decay."
        )
        parts.append(_eigenmode_table(material))
    return Section("spectra", "What was learned", lead, (*parts, tables[1]))


def _spectra_figure(material: ReportData) -> Figure:
    numbers = {name: spectra(law, material.truth) for name, law in material.laws.items()}
    linear = {name: of_law for name, of_law in numbers.items() if of_law is not None}
    first, n_modes = next(iter(linear.values())), material.law.n_modes
    traces: list[dict[str, Any]] = []
    y_axes = []
    for panel, name in enumerate(PANELS):
        axes = {
            "xaxis": f"x{panel + 1 if panel else ''}",
            "yaxis": f"y{panel + 1 if panel else ''}",
        }
        true = getattr(first, f"true_{name}")
        traces += [_truth_trace(true, axes, panel == 0)] if material.truth else []
        rows = [getattr(of_law, name) for of_law in linear.values()]
        for i, (label, values) in enumerate(zip(linear, rows, strict=True)):
            traces.append(_estimate_trace(values, label, i, len(linear), axes, panel == 0))
        values = np.concatenate(rows)
        y_axes.append((np.append(values[:, 0], true), values[:, 2:]))
    figure_layout = layout(
        xaxis=axis(f"{first.unit} n", domain=DOMAINS[0], dtick=_tick(n_modes)),
        xaxis2=axis("mode n", domain=DOMAINS[1], dtick=_tick(n_modes), anchor="y2"),
        yaxis=log_axis(*y_axes[0]),
        yaxis2=log_axis(*y_axes[1], anchor="x2"),
        annotations=[
            panel_title(title, x) for title, (x, _) in zip(PANELS.values(), DOMAINS, strict=True)
        ],
        margin={"l": 64, "r": 24, "t": 70, "b": 52},
    )
    figure_layout["legend"] |= {"y": 1.1}
    return Figure(
        "spectra",
        "Eigenvalues (left) and noise variances (right) over the mode number, on logarithmic axes.",
        traces,
        figure_layout,
        400,
    )


def _estimate_trace(
    values: np.ndarray, label: str, i: int, n_laws: int, axes: dict[str, str], legend: bool
) -> dict[str, Any]:
    estimate, _, lower, upper = values.T
    below, above = error_bars(values).tolist()
    shift = 0.16 * (i - 0.5 * (n_laws - 1))
    return {
        "type": "scatter", "mode": "markers", "name": label if n_laws > 1 else "learned",
        "showlegend": legend, **axes,
        "x": (np.arange(1, len(estimate) + 1) + shift).tolist(), "y": estimate.tolist(),
        "error_y": {"type": "data", "symmetric": False, "thickness": 1.6, "width": 4,
                    "array": above, "arrayminus": below},
        "marker": {"color": LAW_COLOURS[i], "symbol": MARKERS[i], "size": 7},
        "customdata": [[f"{lo:.4g}", f"{up:.4g}"] for lo, up in zip(lower, upper, strict=True)],
        "hovertemplate": "mode %{x:.0f}: %{y:.4g} [%{customdata[0]}, %{customdata[1]}]",
    }  # fmt: skip


def _truth_trace(values: np.ndarray, axes: dict[str, str], legend: bool) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "lines+markers", "name": "truth", "showlegend": legend, **axes,
        "x": list(range(1, len(values) + 1)), "y": values.tolist(),
        "line": {"color": "@data", "dash": "dash", "width": 1.5},
        "marker": {"symbol": "circle-open", "size": 12, "color": "@data"},
        "hovertemplate": "truth, mode %{x}: %{y:.4g}",
    }  # fmt: skip


def _tick(n_modes: int) -> int:
    return max(1, round(n_modes / 8))


def _mode_table(material: ReportData) -> Table:
    law = material.law
    names = [n for n, t in law.parameters.data_vars.items() if t.dims == ("mode", "statistic")]
    shown = {"eigenvalue": "λ", "noise_variance": "q"}
    header = ["mode", *(h for n in names for h in (_column_title(str(n), shown), "interval"))]
    rows = [
        [name, *(c for n in names for c in cells(law.parameters[n].values[i]))]
        for i, name in enumerate(mode_names(law))
    ]
    return Table("Parameters of each mode", header, rows, folded=True)


def _eigenmode_table(material: ReportData) -> Table:
    eigenmodes = material.law.eigenmodes()
    names = {"e_folding_time": "e-folding time", "period": "period"}
    header = ["eigenmode", *(h for title in names.values() for h in (title, "interval"))]
    rows = []
    for i in range(eigenmodes.sizes["eigenmode"]):
        row = [str(i + 1)]
        for name in names:
            values = eigenmodes[name].values[i]
            row += cells(values) if np.isfinite(values[0]) else ("does not oscillate", "")
        rows.append(row)
    return Table("Eigenmodes of the drift", header, rows)


def _scalar_table(material: ReportData) -> Table:
    law = material.law
    rows, names = [], law.parameters.data_vars
    for name, values in names.items():
        if values.dims == ("statistic",):
            rows.append([str(name).replace("_", " "), *cells(values.values)])
    for k, values in enumerate(
        law.parameters["season"].values if "season" in law.parameters else ()
    ):
        rows.append([f"noise in season {k + 1}, relative", *cells(values)])
    if "point" in law.parameters.sizes:
        std = law.parameters["observation_std"].sel(statistic="estimate").values
        rows.append(
            ["observation std", f"{std.min():.4g} to {std.max():.4g}", "one for each point"]
        )
    return Table("Other parameters", ("parameter", "estimate", "interval"), rows)


def _column_title(name: str, shown: dict[str, str]) -> str:
    return shown.get(name, name.replace("_", " "))


def cells(values: np.ndarray) -> tuple[str, str]:
    """Estimate and interval as text."""
    estimate, stderr, lower, upper = values
    if stderr == 0:
        return f"{estimate:.4g}" if abs(estimate) > 1e-12 else "0", "fixed"
    if not (np.isfinite(lower) and np.isfinite(upper)):
        return f"{estimate:.4g}", "not determined"
    return f"{estimate:.4g}", f"{lower:.4g} to {upper:.4g}"


# ---------- Section: several laws of the same data side by side


HEADER = (
    *("law", "engine", "modes", "parameters", "log-likelihood per path", "fit (s)"),
    *(f"CRPS, {tier}" for tier in TIERS),
    *(f"inside, {tier}" for tier in TIERS),
    "model",
)


def laws_section(material: ReportData) -> Section | None:
    """Table of the laws; None for one."""
    if len(material.laws) < 2:
        return None
    likelihoods = material.likelihoods
    kinds = [str(likelihood.attrs["of"]) for likelihood in likelihoods.values()]
    rows = [
        _law_row(material, name, law, likelihoods[name], len(set(kinds)) > 1)
        for name, law in material.laws.items()
    ]
    lead = (
        "The log-likelihood of these data uses the exact model with the parameters of each law: "
        f"the log density of the {kinds[0]}. Engines are therefore comparable. Higher is better, "
        "and a difference of one is one nat per path. "
        if len(set(kinds)) == 1
        else "The log-likelihoods are densities of different quantities, named in the table, and "
        "cannot be compared. "
    )
    lead += "Lower CRPS is better; 'inside' should be close to the level of the interval."
    return Section(
        "engines", "Laws compared", lead, (Table("The laws on these data", HEADER, rows),)
    )


def _law_row(
    material: ReportData, name: str, law: Law, likelihood: xr.DataArray, with_kind: bool
) -> list[str]:
    card = material.cards[name]
    seconds = law.info.get("seconds", {})
    scores = [card.tiers[tier] for tier in TIERS]
    return [
        name,
        law.info.engine or "?",
        str(law.n_modes),
        str(law.info.get("n_law_parameters", law.info.get("n_parameters", "?"))),
        f"{float(likelihood.mean()):.2f}" + (f" ({likelihood.attrs['of']})" if with_kind else ""),
        f"{float(np.sum(list(seconds.values()))):.2f}",
        *(f"{score.crps:.4g}" for score in scores),
        *(f"{100 * score.coverage:.1f} %" for score in scores),
        "fits" if card.check.fits else "does not fit",
    ]

"""Section: the learned spectra with their intervals, and every parameter in a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.report.html._figure import (
    LAW_COLOURS,
    MARKERS,
    Figure,
    axis,
    layout,
    log_axis,
    panel_title,
)
from spdelaw.report.html._material import Material
from spdelaw.report.html._rates import mode_names, rates, true_rates
from spdelaw.report.html._section import Section, Table

#: Part of `Rates` and the title of its panel.
PANELS = {
    "decay": "eigenvalue λ<sub>n</sub>: how fast a mode decays",
    "noise": "noise variance q<sub>n</sub>: how strongly it is forced",
}
#: Panels side by side, as shares of the width.
DOMAINS = ((0.0, 0.45), (0.55, 1.0))


def section(material: Material) -> Section:
    """Both spectra of all laws, against the truth where it is known.

    A law that is not linear has no spectra: its numbers stand in the tables alone.
    """
    level = 100 * float(material.law.parameters.attrs["interval_level"])
    tables = (_modes(material), _rest(material))
    if rates(material.law) is None:
        lead = f"Every number of the law with its {level:g} % interval."
        return Section("spectra", "What was learned", lead, tables)
    lead = (
        f"Each mode is a pattern in space that decays at its rate λ and is kicked by noise of "
        f"variance q per unit of time. Bars are {level:g} % intervals; a missing bar means that "
        "the data do not determine the number."
    )
    parts: list[Figure | Table] = [_figure(material), tables[0]]
    if "drift" in material.law.parameters:
        lead += (
            " Drift or noise couple these modes: the rates shown are those of the eigenmodes of "
            "the drift, patterns that decay on their own; some turn while they decay."
        )
        parts.append(_eigenmodes(material))
    return Section("spectra", "What was learned", lead, (*parts, tables[1]))


def _figure(material: Material) -> Figure:
    found = {name: rates(law) for name, law in material.laws.items()}
    known = {name: own for name, own in found.items() if own is not None}
    unit, n_modes = next(iter(known.values())).unit, material.law.n_modes
    traces: list[dict[str, Any]] = []
    for panel, name in enumerate(PANELS):
        axes = {
            "xaxis": f"x{panel + 1 if panel else ''}",
            "yaxis": f"y{panel + 1 if panel else ''}",
        }
        traces += [_truth(material, name, axes, panel == 0)] if material.truth else []
        for i, (label, own) in enumerate(known.items()):
            values = getattr(own, name)
            traces.append(_estimates(values, label, i, len(known), axes, panel == 0))
    decay, noise = (
        np.concatenate([getattr(own, name) for own in known.values()]) for name in PANELS
    )
    truth = true_rates(material.truth, material.law) if material.truth else (np.zeros(0),) * 2
    figure_layout = layout(
        xaxis=axis(f"{unit} n", domain=DOMAINS[0], dtick=_tick(n_modes)),
        xaxis2=axis("mode n", domain=DOMAINS[1], dtick=_tick(n_modes), anchor="y2"),
        yaxis=log_axis(np.append(decay[:, 0], truth[0]), decay[:, 2:]),
        yaxis2=log_axis(np.append(noise[:, 0], truth[1]), noise[:, 2:], anchor="x2"),
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


def _estimates(
    values: np.ndarray, label: str, i: int, n_laws: int, axes: dict[str, str], legend: bool
) -> dict[str, Any]:
    estimate, _, lower, upper = values.T
    known = np.isfinite(lower) & np.isfinite(upper)
    shift = 0.16 * (i - 0.5 * (n_laws - 1))
    return {
        "type": "scatter", "mode": "markers", "name": label if n_laws > 1 else "learned",
        "showlegend": legend, **axes,
        "x": (np.arange(1, len(estimate) + 1) + shift).tolist(), "y": estimate.tolist(),
        "error_y": {
            "type": "data", "symmetric": False, "thickness": 1.6, "width": 4,
            "array": np.where(known, upper - estimate, 0.0).tolist(),
            "arrayminus": np.where(known, estimate - lower, 0.0).tolist(),
        },
        "marker": {"color": LAW_COLOURS[i], "symbol": MARKERS[i], "size": 7},
        "customdata": [[f"{lo:.4g}", f"{up:.4g}"] for lo, up in zip(lower, upper, strict=True)],
        "hovertemplate": "mode %{x:.0f}: %{y:.4g} [%{customdata[0]}, %{customdata[1]}]",
    }  # fmt: skip


def _truth(material: Material, name: str, axes: dict[str, str], legend: bool) -> dict[str, Any]:
    truth: Any = material.truth
    values = true_rates(truth, material.law)[0 if name == "decay" else 1]
    n = len(values)
    return {
        "type": "scatter", "mode": "lines+markers", "name": "truth", "showlegend": legend, **axes,
        "x": list(range(1, n + 1)), "y": values[:n].tolist(),
        "line": {"color": "@data", "dash": "dash", "width": 1.5},
        "marker": {"symbol": "circle-open", "size": 12, "color": "@data"},
        "hovertemplate": "truth, mode %{x}: %{y:.4g}",
    }  # fmt: skip


def _tick(n_modes: int) -> int:
    return max(1, round(n_modes / 8))


def _modes(material: Material) -> Table:
    law = material.law
    names = [n for n, t in law.parameters.data_vars.items() if t.dims == ("mode", "statistic")]
    shown = {"eigenvalue": "λ", "noise_variance": "q"}
    header = ["mode", *(h for n in names for h in (_title(str(n), shown), "interval"))]
    rows = [
        [name, *(c for n in names for c in cells(law.parameters[n].values[i]))]
        for i, name in enumerate(mode_names(law))
    ]
    return Table("Every mode in numbers", header, rows, folded=True)


def _eigenmodes(material: Material) -> Table:
    found = material.law.eigenmodes()
    names = {"e_folding_time": "e-folding time", "period": "period"}
    header = ["eigenmode", *(h for title in names.values() for h in (title, "interval"))]
    rows = []
    for i in range(found.sizes["eigenmode"]):
        row = [str(i + 1)]
        for name in names:
            values = found[name].values[i]
            row += cells(values) if np.isfinite(values[0]) else ("does not turn", "")
        rows.append(row)
    return Table("Eigenmodes of the drift", header, rows)


def _rest(material: Material) -> Table:
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
    return Table("Numbers that belong to no mode", ("parameter", "estimate", "interval"), rows)


def _title(name: str, shown: dict[str, str]) -> str:
    return shown.get(name, name.replace("_", " "))


def cells(values: np.ndarray) -> tuple[str, str]:
    """Estimate and interval as text."""
    estimate, stderr, lower, upper = values
    if stderr == 0:
        return f"{estimate:.4g}" if abs(estimate) > 1e-12 else "0", "held or known"
    if not (np.isfinite(lower) and np.isfinite(upper)):
        return f"{estimate:.4g}", "not determined"
    return f"{estimate:.4g}", f"{lower:.4g} to {upper:.4g}"

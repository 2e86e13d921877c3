"""The reaction of a semilinear law as a curve with its band, and its terms.

Of several fields each has a curve, over its own values and
with the others at their medians; two fields also have a phase plane with their nullclines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from spdelaw.domains.fields import Fields
from spdelaw.law.law import Law
from spdelaw.processes.semilinear import Reacting
from spdelaw.processes.terms import term_values
from spdelaw.report.data import ReportData
from spdelaw.report.figures.numbers import BARS, CURVE_QUANTILES, POINTS, reaction_figure
from spdelaw.report.plots import LAW_COLOURS, Figure, Section, Table, axis, band, layout, packed

Array = np.ndarray

#: Colours of few and many values, for the light and the dark theme.
SHARE_COLOURS = [[0.0, "rgba(0, 114, 178, 0.1)"], [1.0, "rgba(0, 114, 178, 1)"]]


def reaction_section(material: ReportData) -> Section | None:
    """Curve and terms of a semilinear law; None for others."""
    law = material.law
    if not isinstance(law.dynamics, Reacting):
        return None
    lead = (
        "The drift is a linear part plus a sum of terms. Where the curve crosses zero downwards "
        "the reaction is stable, where it crosses upwards it is unstable. The curve leaves out "
        "diffusion and terms with derivatives. "
        + str(law.info.get("discovery", {}).get("sentence", ""))
    )
    parts: list[Figure | Table] = []
    if len(material.each) > 1:
        lead += " Each field has a curve, with the other fields at their medians."
    parts += _curves(material, law.dynamics)
    parts += [_term_table(law), *_candidate_table(law)]
    return Section("reaction", "Reaction", lead.strip(), tuple(parts))


def _curves(material: ReportData, dynamics: Reacting) -> list[Figure | Table]:
    """A curve for each field, and the phase plane of two."""
    fields = material.each
    if len(fields) == 1:
        derivative_free = [
            g for g in dynamics.reaction.polynomials if not any(any(p[1:]) for p in g)
        ]
        return (
            [_curve(material, lambda u: term_values(dynamics.terms, {"u": u}))]
            if derivative_free
            else []
        )
    names = cast("Fields", material.domain).names
    middles = {n: float(np.nanmedian(f.fields.values)) for n, f in zip(names, fields, strict=True)}
    out: list[Figure | Table] = []
    for name, field_data in zip(names, fields, strict=True):

        def along(u: Array, name: str = name) -> Array:
            at = {n: u if n == name else np.full_like(u, m) for n, m in middles.items()}
            return term_values(dynamics.terms, at, name)

        out.append(field_data.named(_curve(field_data, along)))
    return [*out, _phase_plane(material, dynamics, names)] if len(names) == 2 else out


def _curve(material: ReportData, terms: Callable[[Array], Array]) -> Figure:
    curve = reaction_figure(material.law, material.fields.values, terms)
    x, name = curve.values.tolist(), f"{100 * curve.level:g} % band"
    traces = [
        *band(x, curve.low, curve.high, "@lawband", name, type="scatter"),
        {"type": "scatter", "mode": "lines", "x": x, "y": packed(curve.reaction),
         "name": "reaction", "line": {"color": "@law", "width": 2},
         "hovertemplate": "%{x:.3g}: %{y:.3g}<extra></extra>"},
        {"type": "scatter", "mode": "lines", "x": [x[0], x[-1]], "y": [0, 0], "hoverinfo": "skip",
         "showlegend": False, "line": {"color": "@muted", "dash": "dash", "width": 1.2}},
        {"type": "bar", "x": curve.bins.tolist(), "y": curve.share.tolist(), "yaxis": "y2",
         "name": "values of the data", "marker": {"color": "@data"},
         "hovertemplate": "%{y:.1%} near %{x:.3g}<extra></extra>"},
    ]  # fmt: skip
    return Figure(
        "reaction",
        "Rate of change of the field by the reaction at each value, with the band from the "
        "uncertainty of the coefficients. Below: histogram of the data. Where there are few data, "
        "the curve is an extrapolation.",
        traces,
        layout(
            xaxis=axis(material.quantity, anchor="y2"),
            yaxis=axis("reaction", domain=[0.28, 1.0]),
            yaxis2=axis("share", domain=[0.0, 0.2]),
            bargap=0.05,
        ),
        430,
    )


def _phase_plane(material: ReportData, dynamics: Reacting, names: tuple[str, ...]) -> Figure:
    """Histogram of pairs of values, and the nullcline of each field."""
    values = [field_data.fields.values.ravel() for field_data in material.each]
    there = np.isfinite(values[0]) & np.isfinite(values[1])
    ends = [np.quantile(v[there], CURVE_QUANTILES) for v in values]
    count, x, y = np.histogram2d(values[0][there], values[1][there], BARS, ends)
    fine = [np.linspace(low, high, POINTS) for low, high in ends]
    mesh = dict(zip(names, np.meshgrid(*fine), strict=True))
    share = np.where(count > 0, count / count.sum(), np.nan).T
    traces: list[dict] = [
        {"type": "heatmap", "x": (0.5 * (x[1:] + x[:-1])).tolist(),
         "y": (0.5 * (y[1:] + y[:-1])).tolist(), "z": packed(share), "colorscale": SHARE_COLOURS,
         "showscale": False, "hovertemplate": "%{z:.2%} of the values<extra></extra>"},
    ]  # fmt: skip
    for name, colour, dash in zip(names, LAW_COLOURS[:2], ("solid", "dash"), strict=True):
        drift = np.tensordot(dynamics.coefficients, term_values(dynamics.terms, mesh, name), 1)
        line = {"color": colour, "width": 2, "dash": dash}
        traces.append(
            {"type": "contour", "x": fine[0].tolist(), "y": fine[1].tolist(), "z": packed(drift),
             "contours": {"coloring": "none", "start": 0, "end": 0, "size": 1}, "line": line,
             "name": f"nullcline of {name}", "showlegend": True, "hoverinfo": "skip"}
        )  # fmt: skip
    return Figure(
        "plane",
        f"Values of {names[0]} and {names[1]} at the same place and time (darker: more), and the "
        "nullclines, on which the reaction of a field is zero. Where they cross is a fixed point.",
        traces,
        layout(xaxis=axis(names[0]), yaxis=axis(names[1])),
        430,
    )


def _term_table(law: Law) -> Table:
    table, robust = law.parameters["coefficient"], law.info.get("robust_errors", {})
    level = f"{100 * float(law.parameters.attrs['interval_level']):g} % interval"
    rows = []
    for name in map(str, table["term"].values):
        estimate, error, lower, upper = table.sel(term=name).values
        shown = "fixed" if error == 0 else f"{error:.3g}"
        other = f"{robust[name]:.3g}" if name in robust else ""
        rows.append([name, f"{estimate:.4g}", f"[{lower:.4g}, {upper:.4g}]", shown, other])
    header = ("term", "coefficient", level, "standard error", "robust error")
    note = (
        "The robust error is also valid if the model is slightly wrong; prefer it where it is much "
        "larger. The coefficients depend on the number of modes."
    )
    return Table("Terms", header, rows, note=note)


def _candidate_table(law: Law) -> list[Table]:
    candidates = law.info.get("discovery", {}).get("candidates", [])
    rows = []
    for row in candidates:
        log_likelihood = row["log_likelihood"]
        shown = "not fitted" if log_likelihood is None else f"{log_likelihood:.1f}"
        chosen = "" if row["frequency"] is None else f"{100 * row['frequency']:.0f} %"
        rows.append([row["terms"], shown, f"{row['bic']:.1f}", chosen])
    header = ("terms", "log-likelihood", "BIC above the best", "chosen")
    note = "Last column: share of block-bootstrap samples that select the same terms."
    return [Table("Candidates", header, rows, folded=True, note=note)] if rows else []

"""Section: the reaction of a semilinear law as a curve with its band, and its terms.

``f(u) = sum_t theta_t g_t(u) - kappa u`` for the terms that are powers of u, with the standard
deviation ``(g' Cov(theta) g)^(1/2)``.
"""

from __future__ import annotations

import numpy as np
import scipy

from spdelaw.equation import Reacting
from spdelaw.law import Law
from spdelaw.report.html._figure import Figure, axis, band, layout, packed
from spdelaw.report.html._material import Material
from spdelaw.report.html._section import Section, Table

Array = np.ndarray

#: Points of the curve, and bars of the histogram below it.
POINTS, BARS = 121, 40
#: Shares of the values of the data between which the curve is drawn.
ENDS = (0.002, 0.998)


def section(material: Material) -> Section | None:
    """Curve and terms of a semilinear law; None for others."""
    law = material.law
    if not isinstance(law.dynamics, Reacting):
        return None
    lead = (
        "Beyond its linear part the drift is a sum of terms. Where the curve crosses zero "
        "downwards the reaction holds the field, where it crosses upwards it pushes it away; "
        "diffusion and terms with slopes come on top. "
        + str(law.info.get("discovery", {}).get("sentence", ""))
    )
    parts: list[Figure | Table] = []
    if _powers(law.dynamics).any():
        parts.append(_curve(material, law.dynamics))
    parts += [_terms(law), *_candidates(law)]
    return Section("reaction", "Reaction", lead.strip(), tuple(parts))


def reaction_curve(law: Law, dynamics: Reacting, u: Array) -> tuple[Array, Array]:
    """``f(u)`` of the powers of u, and its standard deviation."""
    table = np.array([[_power(g, v) for v in u] for g in dynamics.reaction.polynomials])
    kappa = float(law.info.get("estimates", {}).get("kappa", 0.0))
    n = len(table)
    covariance = np.asarray(law.info.get("term_covariance", np.zeros((n, n))), float)
    variance = np.einsum("tu,ts,su->u", table, covariance.reshape(n, n), table)
    values = dynamics.coefficients @ table - kappa * u
    return values, np.sqrt(np.maximum(variance, 0.0))


def _power(polynomial: dict, u: float) -> float:
    """A polynomial at u, its parts with slopes left out."""
    return sum(c * u ** powers[0] for powers, c in polynomial.items() if not any(powers[1:]))


def _powers(dynamics: Reacting) -> Array:
    """Which terms are functions of u alone."""
    polynomials = dynamics.reaction.polynomials
    return np.array([all(not any(powers[1:]) for powers in g) for g in polynomials], bool)


def _curve(material: Material, dynamics: Reacting) -> Figure:
    law, values = material.law, material.fields.values
    seen = values[np.isfinite(values)]
    low, high = np.quantile(seen, ENDS)
    u = np.linspace(low, high, POINTS)
    f, std = reaction_curve(law, dynamics, u)
    level = float(law.parameters.attrs["interval_level"])
    z = float(scipy.special.ndtri(0.5 + 0.5 * level))
    count, edges = np.histogram(seen, BARS, (low, high))
    x = u.tolist()
    name = f"{100 * level:g} % band"
    traces = [
        *band(x, f - z * std, f + z * std, "@lawband", name, type="scatter"),
        {"type": "scatter", "mode": "lines", "x": x, "y": packed(f), "name": "reaction f(u)",
         "line": {"color": "@law", "width": 2},
         "hovertemplate": "u = %{x:.3g}: f = %{y:.3g}<extra></extra>"},
        {"type": "scatter", "mode": "lines", "x": [x[0], x[-1]], "y": [0, 0], "hoverinfo": "skip",
         "showlegend": False, "line": {"color": "@muted", "dash": "dash", "width": 1.2}},
        {"type": "bar", "x": (0.5 * (edges[1:] + edges[:-1])).tolist(),
         "y": (count / count.sum()).tolist(), "yaxis": "y2", "name": "values of the data",
         "marker": {"color": "@data"}, "hovertemplate": "%{y:.1%} near %{x:.3g}<extra></extra>"},
    ]  # fmt: skip
    return Figure(
        "reaction",
        "What the reaction does to a value of the field, in its units by time, with the band of "
        "its coefficients. Below: how often the data have each value. Where there are few, the "
        "curve is a continuation of the terms and not of the data.",
        traces,
        layout(
            xaxis=axis(material.quantity, anchor="y2"),
            yaxis=axis("f(u)", domain=[0.28, 1.0]),
            yaxis2=axis("share", domain=[0.0, 0.2]),
            bargap=0.05,
        ),
        430,
    )


def _terms(law: Law) -> Table:
    table, robust = law.parameters["coefficient"], law.info.get("robust_errors", {})
    level = f"{100 * float(law.parameters.attrs['interval_level']):g} % interval"
    rows = []
    for name in map(str, table["term"].values):
        estimate, error, lower, upper = table.sel(term=name).values
        shown = "held" if error == 0 else f"{error:.3g}"
        other = f"{robust[name]:.3g}" if name in robust else ""
        rows.append([name, f"{estimate:.4g}", f"[{lower:.4g}, {upper:.4g}]", shown, other])
    header = ("term", "coefficient", level, "standard error", "robust error")
    note = (
        "The robust error also holds where the model is not quite right; where it is much larger, "
        "trust it. Coefficients are those at this number of modes."
    )
    return Table("Terms", header, rows, note=note)


def _candidates(law: Law) -> list[Table]:
    found = law.info.get("discovery", {}).get("candidates", [])
    rows = []
    for row in found:
        height = row["log_likelihood"]
        shown = "not fitted" if height is None else f"{height:.1f}"
        chosen = "" if row["frequency"] is None else f"{100 * row['frequency']:.0f} %"
        rows.append([row["terms"], shown, f"{row['bic']:.1f}", chosen])
    header = ("terms", "log-likelihood", "BIC above the best", "chosen")
    note = "The last column: how often records resampled in blocks choose the same terms."
    return [Table("Candidates", header, rows, folded=True, note=note)] if rows else []

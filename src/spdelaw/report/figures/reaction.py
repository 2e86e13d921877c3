"""The reaction of a semilinear law as a curve with its band, and the phase plane of two fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy

from spdelaw.law.law import Law
from spdelaw.processes.semilinear import Reacting
from spdelaw.processes.terms import term_values
from spdelaw.report.figures.charts import (
    Band,
    Bars,
    Chart,
    Colours,
    Contour,
    Image,
    Line,
    Panel,
)

Array = np.ndarray

#: Points of the curve, and bars of the histogram below it.
POINTS, BARS = 121, 40
#: Quantiles of the data between which the curve is drawn.
CURVE_QUANTILES = (0.002, 0.998)


def reaction_curve(law: Law, table: Array, u: Array) -> tuple[Array, Array]:
    """``f(u) = sum_t theta_t g_t(u) - kappa u`` and its standard deviation.

    ``table`` has the values ``g_t(u)`` of the terms, (n_terms, n). The standard deviation is
    ``(g' Cov(theta) g)^(1/2)``.
    """
    kappa = float(law.info.get("estimates", {}).get("kappa", 0.0))
    n = len(table)
    covariance = np.asarray(law.info.get("term_covariance", np.zeros((n, n))), float)
    variance = np.einsum("tu,ts,su->u", table, covariance.reshape(n, n), table)
    values = law.dynamics.parameters["coefficient"] @ table - kappa * u
    return values, np.sqrt(np.maximum(variance, 0.0))


def reaction_chart(law: Law, data: Array, quantity: str, terms: Callable[[Array], Array]) -> Chart:
    """Curve over the values of the data, whose terms ``terms(u)`` gives, and their histogram."""
    observed = data[np.isfinite(data)]
    low, high = np.quantile(observed, CURVE_QUANTILES)
    u = np.linspace(low, high, POINTS)
    f, std = reaction_curve(law, terms(u), u)
    level = float(law.parameters.attrs["interval_level"])
    reach = float(scipy.special.ndtri(0.5 + 0.5 * level)) * std
    count, edges = np.histogram(observed, BARS, (low, high))
    marks = (
        Band(u, f - reach, f + reach, f"{100 * level:g} % band"),
        Line(u, f, "reaction"),
        Line(u[[0, -1]], [0, 0], "", "muted", "--", width=1.2),
    )
    bars = Bars(0.5 * (edges[1:] + edges[:-1]), count / count.sum())
    rows = (
        (Panel(marks, y="reaction", height=280, x_range=(low, high)),),
        (Panel((bars,), x=quantity, y="share of data", height=90, x_range=(low, high)),),
    )
    caption = (
        "Rate of change of the field by the reaction at each value, with the band from the "
        "uncertainty of the coefficients. Below: histogram of the data. Where there are few data, "
        "the curve is an extrapolation."
    )
    return Chart("reaction", caption, rows)


def phase_plane_chart(dynamics: Reacting, values: Mapping[str, Array]) -> Chart:
    """Histogram of pairs of values of two fields, and the nullcline of each field."""
    names = tuple(values)
    there = np.isfinite([values[name] for name in names]).all(0)
    u, v = (values[name][there] for name in names)
    ends = [np.quantile(one, CURVE_QUANTILES) for one in (u, v)]
    count, *edges = np.histogram2d(u, v, BARS, ends)
    share = count / count.sum()
    fine_u, fine_v = (np.linspace(low, high, POINTS) for low, high in ends)
    mesh = dict(zip(names, np.meshgrid(fine_u, fine_v), strict=True))
    x, y = (0.5 * (e[1:] + e[:-1]) for e in edges)
    marks: list[Any] = [Image(x, y, share, Colours("Blues", 0.0, float(share.max())))]
    for name, colour, dash in zip(names, ("law", "second"), ("-", "--"), strict=True):
        drift = np.tensordot(dynamics.coefficients, term_values(dynamics.terms, mesh, name), 1)
        marks.append(Contour(fine_u, fine_v, drift, f"nullcline of {name}", colour, dash))
    caption = (
        f"Values of {names[0]} and {names[1]} at the same place and time (darker: more), and the "
        "nullclines, on which the reaction of a field is zero. Where they cross is a fixed point."
    )
    return Chart("plane", caption, ((Panel(marks, x=names[0], y=names[1], height=340),),))

"""Figures of laws: spectra with intervals, drift and noise matrices, ratios, the reaction."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from spdelaw.checks import checked
from spdelaw.errors import InputError
from spdelaw.law.law import Law
from spdelaw.processes import operators
from spdelaw.processes.linear import Linear
from spdelaw.processes.semilinear import Reacting
from spdelaw.processes.spde import SpectralSPDE
from spdelaw.processes.terms import term_values
from spdelaw.report.figures.charts import (
    LAW_LOOKS,
    Z95,
    Band,
    Bars,
    Chart,
    Colours,
    Contour,
    Image,
    Line,
    Panel,
    apart,
    error_bars,
    symmetric_scale,
)
from spdelaw.report.figures.draw import COLUMN, draw

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray

#: Largest distance of the marks of two laws, in modes.
LAW_DISTANCE = 0.15


# ---------- Spectra: decay rates and noise variances with intervals


@dataclasses.dataclass(frozen=True)
class Spectra:
    """Decay rates and noise variances of a linear law.

    Attributes:
        decay: decay rate of each mode, or of each eigenmode of a drift that couples modes;
            (n, 4), estimate, standard error and interval.
        noise: noise variance of each mode; (n_modes, 4).
        unit: "mode", or "eigenmode", that ``decay`` runs over.
        true_decay, true_noise: those of the true equation; empty where it is not known.
    """

    decay: Array
    noise: Array
    unit: str
    true_decay: Array
    true_noise: Array


def spectra(law: Law, truth: SpectralSPDE | None = None) -> Spectra | None:
    """Spectra of a linear or semilinear law, with the true ones; None for other dynamics."""
    if not isinstance(law.dynamics, Linear | Reacting):
        return None
    true = (np.zeros(0), np.zeros(0)) if truth is None else _true_spectra(law, truth)
    table = law.parameters
    if "eigenvalue" in table:
        return Spectra(table["eigenvalue"].values, table["noise_variance"].values, "mode", *true)
    diagonal = np.arange(law.n_modes)
    noise = table["noise_covariance"].values[diagonal, diagonal]
    return Spectra(law.eigenmodes()["decay_rate"].values, noise, "eigenmode", *true)


def _true_spectra(law: Law, truth: SpectralSPDE) -> tuple[Array, Array]:
    """Decay rates and noise variances of an equation, in the order of the law's."""
    n = min(law.n_modes, truth.n_modes)
    if "eigenvalue" in law.parameters:
        return np.diag(truth.drift_matrix)[:n], truth.noise_variance[:n]
    # A pair of complex eigenvalues is one eigenmode.
    eigenvalues = np.linalg.eigvals(truth.drift_matrix[:n, :n])
    return np.sort(eigenvalues[eigenvalues.imag >= 0].real), truth.noise_variance[:n]


def spectra_chart(laws: Mapping[str, Law], truth: SpectralSPDE | None = None) -> Chart:
    """Both spectra of linear laws on logarithmic axes, and where the truth is known, errors.

    The errors are in units of the standard error: decades hide an error of 10 %.
    """
    numbers = {name: spectra(law, truth) for name, law in laws.items()}
    linear = {name: of_law for name, of_law in numbers.items() if of_law is not None}
    first = next(iter(linear.values()))
    level = 100 * float(next(iter(laws.values())).parameters.attrs["interval_level"])
    above, below = [], []
    for which, title in (("decay", "eigenvalue λₙ"), ("noise", "noise variance qₙ")):
        unit = first.unit if which == "decay" else "mode"
        true, marks = getattr(first, f"true_{which}"), []
        n = np.arange(1, max(len(getattr(one, which)) for one in linear.values()) + 1)
        if truth is not None:
            marks = [Line(n[: len(true)], true[: len(n)], "truth", "data", "--", "O", 1.3, 11)]
        errors: list[Any] = [Band((n[0] - 0.5, n[-1] + 0.5), [-Z95] * 2, [Z95] * 2, colour="axis")]
        for i, (name, one) in enumerate(linear.items()):
            colour, symbol = LAW_LOOKS[i]
            values = getattr(one, which)
            x = n[: len(values)] + apart(i, len(linear), LAW_DISTANCE)
            label = name if len(linear) > 1 else f"learned, {level:g} % interval"
            marks.append(Line(x, values[:, 0], label, colour, "", symbol, error=error_bars(values)))
            z = _standard_errors(values, true)
            errors.append(Line(x[: len(z)], z, "", colour, "", symbol))
        limits = float(n[0]) - 0.6, float(n[-1]) + 0.6
        bottom: dict[str, Any] = {"x": f"{unit} n", "whole": True, "x_range": limits}
        above.append(
            Panel(marks, y=title, log=True, **(bottom if truth is None else {"x_range": limits}))
        )
        reach = max([3.5, *(1.1 * np.nanmax(np.abs(e.y), initial=0.0) for e in errors[1:])])
        below.append(Panel(errors, y="z-score", y_range=(-reach, reach), height=110, **bottom))
    return Chart("spectra", (above,) if truth is None else (above, below))


def _standard_errors(values: Array, true: Array) -> Array:
    """Errors in standard errors; NaN where the data do not determine a number."""
    n = min(len(true), len(values))
    estimate, stderr = values[:n, :2].T
    # An infinite standard error would draw an undetermined number as a perfect one, at zero.
    determined = (stderr > 0) & np.isfinite(stderr)
    return np.divide(estimate - true[:n], stderr, out=np.full(n, np.nan), where=determined)


@checked()
def plot_spectrum(law: Law, truth: SpectralSPDE | Law | None = None) -> Figure:
    """Draw the eigenvalues and noise variances of a law with their intervals.

    Above on logarithmic axes; with the truth, below in units of the standard error, where
    nineteen points in twenty should lie in the grey band.

    Args:
        law: what was learned.
        truth: equation (or law) of at least as many modes to compare with.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> from spdelaw.report import plot_spectrum
        >>> equation = sl.catalogue.heat(n_modes=4)
        >>> law = sl.fit(sl.simulate(equation, 20, seed=0), equation.domain, 4)
        >>> figure = plot_spectrum(law, equation)
        >>> [ax.get_yscale() for ax in figure.axes[:2]]
        ['log', 'log']
    """
    if "eigenvalue" not in law.parameters or spectra(law) is None:
        expected = "a linear law with uncoupled modes, one eigenvalue each"
        got = "coupled modes" if "drift" in law.parameters else "other dynamics"
        fix = "draw it with spdelaw.report.plot_operator, or law.sample(...)"
        raise InputError("law", expected=expected, got=got, fix=fix)
    chart = spectra_chart({"law": law}, None if truth is None else _equation(law, truth))
    heights = None if truth is None else (3.0, 1.2)
    return draw(chart, (1.75 * COLUMN, (0.6 if truth is None else 0.85) * COLUMN), None, heights)


def _equation(law: Law, truth: SpectralSPDE | Law) -> SpectralSPDE:
    """The true equation, or `InputError` where it has too few modes."""
    equation = truth.equation if isinstance(truth, Law) else truth
    if equation.n_modes < law.n_modes:
        expected, got = f"an equation of at least {law.n_modes} modes", f"{equation.n_modes} modes"
        fix = "pass sl.catalogue.heat(n_modes=50)"
        raise InputError("truth", expected=expected, got=got, fix=fix)
    return equation


@checked()
def plot_ratios(laws: Mapping[str, Law], truth: SpectralSPDE) -> Figure:
    """Draw learned over true eigenvalues and noise variances of up to six laws.

    Intervals are drawn where a law has them; on the line at 1 a number is right.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import plot_ratios
        >>> heat = sl.catalogue.heat(n_modes=4)
        >>> law = sl.fit(sl.simulate(heat, 20, seed=0), heat.domain, 4)
        >>> len(plot_ratios({"exact": law}, heat).axes)
        2
    """
    if not 1 <= len(laws) <= len(LAW_LOOKS):
        expected, got = f"one to {len(LAW_LOOKS)} laws by name", str(len(laws))
        raise InputError("laws", expected=expected, got=got, fix="pass {'exact': law}")
    panels = []
    for name, y in (("eigenvalue", "learned λₙ / true"), ("noise_variance", "learned qₙ / true")):
        most = max(law.n_modes for law in laws.values())
        marks = [Line([0.5, most + 0.5], [1.0, 1.0], "", "muted", "--", width=1.3)]
        true = getattr(truth, "eigenvalues" if name == "eigenvalue" else name)
        for i, (label, law) in enumerate(laws.items()):
            values = law.parameters[name].values / np.asarray(true)[: law.n_modes, None]
            x = np.arange(1, law.n_modes + 1) + apart(i, len(laws), LAW_DISTANCE)
            colour, symbol = LAW_LOOKS[i]
            marks.append(Line(x, values[:, 0], label, colour, "", symbol, error=error_bars(values)))
        panels.append(Panel(marks, x="mode n", y=y, log=True, whole=True))
    return draw(Chart("ratios", (panels,)), (1.75 * COLUMN, 0.7 * COLUMN))


# ---------- The energy of each mode under a law


@checked()
def plot_law_energy(law: Law, time: float | None = None) -> Figure:
    """Draw ``E c_n(t)^2`` of the reported modes at a time, the last of the data by default.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import plot_law_energy
        >>> equation = sl.catalogue.heat(n_modes=3)
        >>> law = sl.fit(sl.simulate(equation, 8, seed=0), equation.domain, 3)
        >>> len(plot_law_energy(law).axes[0].lines[0].get_xdata())
        3
    """
    at = float(law.times[-1] if time is None else time)
    energy = _energy(law, at)[: law.n_modes]
    line = Line(np.arange(1, law.n_modes + 1), energy, symbol="o")
    panel = Panel((line,), x="mode n", y=f"energy E cₙ² at t = {at:g}", log=True, whole=True)
    return draw(Chart("energy", ((panel,),)))


def _energy(law: Law, at: float) -> Array:
    """``E c_n(t)^2``; of a semilinear law by the steps of its moments."""
    if not isinstance(law.dynamics, Reacting):
        return law.equation.energy_spectrum([at]).values[0]
    times = np.append(law.times[law.times < at], at)
    mean, covariance = law.initial.mean, operators.as_matrix(law.initial.covariance)
    for t, dt in zip(times[:-1], np.diff(times), strict=True):
        mean, covariance = law.dynamics.moments(mean, covariance, t, dt)[:2]
    return np.asarray(mean**2 + np.diag(covariance))


# ---------- Matrices of drift and noise, and eigenvalues of the drift


@checked()
def plot_operator(law: Law, truth: SpectralSPDE | None = None) -> Figure:
    """Draw drift matrix, noise covariance and the eigenvalues of the drift.

    Entries whose interval holds zero are marked with a dot. On the right, each eigenmode by its
    decay rate and the angle it turns by per unit of time.

    Args:
        law: what was learned.
        truth: equation of at least as many modes, whose eigenvalues are drawn too.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import plot_operator
        >>> ring = sl.catalogue.advection_diffusion(3, speed=2.0)
        >>> law = sl.fit(sl.simulate(ring, 50, seed=0), ring.domain, 3, drift="normal")
        >>> len(plot_operator(law, ring).axes)
        5
    """
    truth = None if truth is None else _equation(law, truth)
    d = law.linear.leading(law.n_modes)
    panels = [
        _matrix_panel(law, operators.as_matrix(d.drift), "drift", "from mode", "to mode"),
        _matrix_panel(law, operators.as_matrix(d.noise), "noise_covariance", "mode", "mode"),
    ]
    marks = []
    if truth is not None:
        mu = np.linalg.eigvals(truth.drift_matrix[: law.n_modes, : law.n_modes])
        mu = mu[mu.imag >= 0]
        marks.append(Line(mu.real, mu.imag, "truth", "data", "", "O", size=12))
    modes, level = law.eigenmodes(), 100 * float(law.parameters.attrs["interval_level"])
    x, y = modes["decay_rate"].values, modes["frequency"].values
    label = f"learned, {level:g} % interval"
    marks.append(Line(x[:, 0], y[:, 0], label, "law", "", "o", error=error_bars(y),
                      x_error=error_bars(x)))  # fmt: skip
    panels.append(Panel(marks, "eigenvalues of the drift", "decay rate", "frequency [rad/time]"))
    return draw(Chart("operator", (panels,)), (2.5 * COLUMN, 0.72 * COLUMN))


def _matrix_panel(law: Law, matrix: Array, name: str, x: str, y: str) -> Panel:
    """A matrix with its first row on top; dots where the interval of an entry holds zero."""
    mode = np.arange(1, len(matrix) + 1)
    marks: list[Any] = [Image(mode, mode, matrix.T, symmetric_scale(matrix), bar=True)]
    if name in law.parameters:
        _, stderr, lower, upper = np.moveaxis(law.parameters[name].values, -1, 0)
        rows, columns = np.nonzero((stderr > 0) & (lower < 0) & (upper > 0))
        marks.append(Line(mode[columns], mode[rows], "", "ink", "", "o", size=3))
    ends = len(matrix) + 0.5, 0.5
    return Panel(marks, name.replace("_", " "), x, y, whole=True, y_range=ends, x_range=ends[::-1])


# ---------- The reaction of a semilinear law with its band, and the phase plane of two fields


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
    return Chart("reaction", rows)


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
    return Chart("plane", ((Panel(marks, x=names[0], y=names[1], height=340),),))

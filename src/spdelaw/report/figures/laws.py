"""Figures of laws: spectra with intervals, drift and noise matrices, ratios to the truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import numpy as np

from spdelaw.errors import InputError
from spdelaw.law.law import Law
from spdelaw.processes import operators
from spdelaw.processes.spde import SpectralSPDE
from spdelaw.report.figures.numbers import Z95, Spectra, error_bars, spectra
from spdelaw.report.figures.style import (
    CLOSED_FORM,
    COLUMN,
    GREY,
    SAMPLE,
    axes_for,
    figure_of,
    new_figure,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# ---------- The learned spectra with their intervals, and the truth


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
    if "eigenvalue" not in law.parameters:
        expected = "a linear law of modes on their own, with one eigenvalue each"
        got = "coupled modes" if "drift" in law.parameters else "other dynamics"
        fix = "draw it with spdelaw.report.plot_operator, or law.sample(...)"
        raise InputError("law", expected=expected, got=got, fix=fix)
    numbers = cast("Spectra", spectra(law, None if truth is None else _equation(law, truth)))
    panels = (
        (numbers.decay, numbers.true_decay, r"eigenvalue $\lambda_n$"),
        (numbers.noise, numbers.true_noise, r"noise variance $q_n$"),
    )
    rows = 1 if truth is None else 2
    with style():
        figure = new_figure(1.75 * COLUMN, (0.6 if truth is None else 0.85) * COLUMN)
        ratios = (3.0, 1.2)[:rows]
        axes = figure.subplots(rows, 2, sharex=True, squeeze=False, height_ratios=ratios)
        for column, (values, true, label) in enumerate(panels):
            _draw_spectrum(axes[0, column], values, true, _label(law))
            axes[0, column].set_ylabel(label)
            if truth is not None:
                _draw_errors(axes[1, column], values, true)
            axes[-1, column].set_xlabel("mode n")
            axes[-1, column].set_xlim(0.4, law.n_modes + 0.6)
            axes[-1, column].locator_params(axis="x", integer=True)
        axes[0, 0].legend(loc="best")
    return figure


def _draw_spectrum(ax: Axes, values: np.ndarray, true: np.ndarray, label: str) -> None:
    mode = np.arange(1, len(values) + 1)
    if len(true):
        ax.plot(
            mode, true, color=CLOSED_FORM, linestyle="--", marker="o", markersize=6,
            markerfacecolor="none", linewidth=1.0, label="truth", zorder=2,
        )  # fmt: skip
    ax.errorbar(
        mode, values[:, 0], yerr=error_bars(values), color=SAMPLE, fmt="o",
        markersize=2.8, elinewidth=1.2, capsize=2.5, zorder=3, label=label,
    )  # fmt: skip
    ax.set_yscale("log")


def _draw_errors(ax: Axes, values: np.ndarray, true: np.ndarray) -> None:
    """Decades hide an error of 10 %; standard errors do not."""
    estimate, stderr = values.T[:2]
    # An infinite standard error would draw an undetermined number as a perfect one, at zero.
    determined = (stderr > 0) & np.isfinite(stderr)
    z = np.divide(estimate - true, stderr, out=np.full_like(true, np.nan), where=determined)
    ax.axhspan(-Z95, Z95, color="#EDEDED", linewidth=0, zorder=0)
    ax.axhline(0.0, color=CLOSED_FORM, linestyle="--", linewidth=1.0)
    ax.plot(np.arange(1, len(z) + 1), z, "o", color=SAMPLE, markersize=3.0)
    reach = max(3.5, 1.1 * float(np.nanmax(np.abs(z), initial=0.0)))
    ax.set(ylabel="z-score", ylim=(-reach, reach), yticks=(-2, 0, 2))


def _label(law: Law) -> str:
    level = 100 * float(law.parameters.attrs["interval_level"])
    return f"learned, {level:g} % interval"


def _equation(law: Law, truth: SpectralSPDE | Law) -> SpectralSPDE:
    """The true equation, or `InputError` where it has too few modes."""
    equation = truth.equation if isinstance(truth, Law) else truth
    if not isinstance(equation, SpectralSPDE) or equation.n_modes < law.n_modes:
        raise InputError(
            "truth", expected=f"an equation of at least {law.n_modes} modes",
            got=f"{equation.n_modes} modes" if isinstance(equation, SpectralSPDE)
            else type(truth).__name__, fix="pass sl.catalogue.heat(n_modes=50)",
        )  # fmt: skip
    return equation


# ---------- The energy of each mode under a law


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
    energy = law.equation.energy_spectrum([at]).values[0, : law.n_modes]
    with style():
        ax = axes_for(None)
        ax.plot(np.arange(1, law.n_modes + 1), energy, "o-", color=SAMPLE, markersize=3)
        ax.set(yscale="log", xlabel="mode n", ylabel=rf"energy $E\,c_n^2$ at t = {at:g}")
        ax.locator_params(axis="x", integer=True)
    return figure_of(ax)


# ---------- Matrices of drift and noise, and eigenvalues of the drift


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
    drift, noise = operators.as_matrix(d.drift), operators.as_matrix(d.noise)
    with style():
        figure = new_figure(2.5 * COLUMN, 0.72 * COLUMN)
        left, middle, right = figure.subplots(1, 3)
        _draw_matrix(left, drift, _interval_holds_zero(law, "drift"), "drift")
        left.set(xlabel="from mode", ylabel="to mode")
        _draw_matrix(
            middle, noise, _interval_holds_zero(law, "noise_covariance"), "noise covariance"
        )
        _draw_eigenvalues(right, law, truth)
    return figure


def _interval_holds_zero(law: Law, name: str) -> np.ndarray:
    """Entries that were estimated and whose interval holds zero."""
    if name not in law.parameters:
        return np.zeros((law.n_modes, law.n_modes), bool)
    _, stderr, lower, upper = np.moveaxis(law.parameters[name].values, -1, 0)
    return (stderr > 0) & (lower < 0) & (upper > 0)


def _draw_matrix(ax: Axes, matrix: np.ndarray, is_open: np.ndarray, title: str) -> None:
    reach = float(np.abs(matrix).max())
    mode = np.arange(1, len(matrix) + 1)
    image = ax.imshow(
        matrix, cmap="RdBu_r", vmin=-reach, vmax=reach,
        extent=(0.5, len(matrix) + 0.5, len(matrix) + 0.5, 0.5),
    )  # fmt: skip
    rows, columns = np.nonzero(is_open)
    ax.plot(mode[columns], mode[rows], ".", color="#333333", markersize=3)
    ax.set(title=title, xlabel="mode", ylabel="mode")
    ax.locator_params(integer=True)
    ax.grid(False)
    ax.figure.colorbar(image, ax=ax, shrink=0.85)


def _draw_eigenvalues(ax: Axes, law: Law, truth: SpectralSPDE | None) -> None:
    if truth is not None:
        mu = np.linalg.eigvals(truth.drift_matrix[: law.n_modes, : law.n_modes])
        mu = mu[mu.imag >= 0]
        ax.plot(
            mu.real, mu.imag, linestyle="none", marker="o", markersize=7, markerfacecolor="none",
            color=CLOSED_FORM, label="truth",
        )  # fmt: skip
    modes, level = law.eigenmodes(), 100 * float(law.parameters.attrs["interval_level"])
    x, y = modes["decay_rate"].values, modes["frequency"].values
    ax.errorbar(
        x[:, 0], y[:, 0], xerr=error_bars(x), yerr=error_bars(y), fmt="o", color=SAMPLE,
        markersize=3, elinewidth=1.2, capsize=2.5, label=f"learned, {level:g} % interval",
    )  # fmt: skip
    ax.set(title="eigenvalues of the drift", xlabel="decay rate", ylabel="frequency [rad/time]")
    ax.set_xlim(left=0.0)
    ax.legend(loc="best")


# ---------- Ratios of learned to true parameters of several laws


#: Okabe and Ito's colours with a marker each: six laws remain distinct in print.
LOOKS = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "D"), ("#CC79A7", "^"), ("#E69F00", "v"),
         ("#595959", "P"))  # fmt: skip


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
    if not 1 <= len(laws) <= len(LOOKS):
        expected, got = f"one to {len(LOOKS)} laws by name", str(len(laws))
        raise InputError("laws", expected=expected, got=got, fix="pass {'exact': law}")
    with style():
        figure = new_figure(1.75 * COLUMN, 0.7 * COLUMN)
        left, right = figure.subplots(1, 2, sharex=True)
        for ax, name, true in (
            (left, "eigenvalue", truth.eigenvalues),
            (right, "noise_variance", truth.noise_variance),
        ):
            _draw_ratios(ax, laws, name, np.asarray(true))
        left.set_ylabel(r"learned $\lambda_n$ / true")
        right.set_ylabel(r"learned $q_n$ / true")
        left.legend(loc="best")
    return figure


def _draw_ratios(ax: Axes, laws: Mapping[str, Law], name: str, true: np.ndarray) -> None:
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    ax.axhline(1.0, color=GREY, linewidth=1.0, linestyle="--")
    for i, (label, law) in enumerate(laws.items()):
        values = law.parameters[name].values / true[: law.n_modes, None]
        at = np.arange(1, law.n_modes + 1) + 0.14 * (i - 0.5 * (len(laws) - 1))
        color, marker = LOOKS[i]
        ax.errorbar(
            at, values[:, 0], yerr=error_bars(values), color=color, fmt=marker,
            markersize=4.0, elinewidth=1.0, capsize=2.0, label=label,
        )  # fmt: skip
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("mode n")
    ax.locator_params(axis="x", integer=True)

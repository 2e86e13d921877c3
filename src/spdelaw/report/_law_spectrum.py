"""The learned spectra with their intervals, against the truth where it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spdelaw.equation import SpectralSPDE
from spdelaw.errors import InputError
from spdelaw.law import Law
from spdelaw.report._estimates import Z95
from spdelaw.report._style import CLOSED_FORM, COLUMN, SAMPLE, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Variable of the law, and the label of its axis.
PANELS = {
    "eigenvalue": r"eigenvalue $\lambda_n$",
    "noise_variance": r"noise variance $q_n$",
}


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
    exact = None if truth is None else _true_spectra(law, truth)
    rows = 1 if exact is None else 2
    with style():
        figure = new_figure(1.75 * COLUMN, (0.6 if exact is None else 0.85) * COLUMN)
        ratios = (3.0, 1.2)[:rows]
        axes = figure.subplots(rows, 2, sharex=True, squeeze=False, height_ratios=ratios)
        for column, (name, label) in enumerate(PANELS.items()):
            values = law.parameters[name].values
            true = None if exact is None else exact[name]
            _draw_spectrum(axes[0, column], values, true, _label(law))
            axes[0, column].set_ylabel(label)
            if true is not None:
                _draw_errors(axes[1, column], values, true)
            axes[-1, column].set_xlabel("mode n")
            axes[-1, column].set_xlim(0.4, law.n_modes + 0.6)
            axes[-1, column].locator_params(axis="x", integer=True)
        axes[0, 0].legend(loc="best")
    return figure


def _draw_spectrum(ax: Axes, values: np.ndarray, true: np.ndarray | None, label: str) -> None:
    estimate, _, lower, upper = values.T
    mode = np.arange(1, len(estimate) + 1)
    if true is not None:
        ax.plot(
            mode, true, color=CLOSED_FORM, linestyle="--", marker="o", markersize=6,
            markerfacecolor="none", linewidth=1.0, label="truth", zorder=2,
        )  # fmt: skip
    reach = np.stack([estimate - lower, upper - estimate])
    ax.errorbar(
        mode, estimate, yerr=np.where(np.isfinite(reach), reach, 0.0), color=SAMPLE, fmt="o",
        markersize=2.8, elinewidth=1.2, capsize=2.5, zorder=3, label=label,
    )  # fmt: skip
    ax.set_yscale("log")


def _draw_errors(ax: Axes, values: np.ndarray, true: np.ndarray) -> None:
    """Decades hide an error of 10 %; standard errors do not."""
    estimate, stderr = values.T[:2]
    # An infinite standard error would draw an undetermined number as a perfect one, at zero.
    known = (stderr > 0) & np.isfinite(stderr)
    z = np.divide(estimate - true, stderr, out=np.full_like(true, np.nan), where=known)
    ax.axhspan(-Z95, Z95, color="#EDEDED", linewidth=0, zorder=0)
    ax.axhline(0.0, color=CLOSED_FORM, linestyle="--", linewidth=1.0)
    ax.plot(np.arange(1, len(z) + 1), z, "o", color=SAMPLE, markersize=3.0)
    reach = max(3.5, 1.1 * float(np.nanmax(np.abs(z), initial=0.0)))
    ax.set(ylabel="z-score", ylim=(-reach, reach), yticks=(-2, 0, 2))


def _label(law: Law) -> str:
    level = 100 * float(law.parameters.attrs["interval_level"])
    return f"learned, {level:g} % interval"


def _true_spectra(law: Law, truth: SpectralSPDE | Law) -> dict[str, np.ndarray]:
    equation = truth.equation if isinstance(truth, Law) else truth
    if not isinstance(equation, SpectralSPDE) or equation.n_modes < law.n_modes:
        raise InputError(
            "truth", expected=f"an equation of at least {law.n_modes} modes",
            got=f"{equation.n_modes} modes" if isinstance(equation, SpectralSPDE)
            else type(truth).__name__, fix="pass sl.catalogue.heat(n_modes=50)",
        )  # fmt: skip
    n = slice(law.n_modes)
    decay = np.diag(equation.drift_matrix)
    return {"eigenvalue": decay[n], "noise_variance": equation.noise_variance[n]}

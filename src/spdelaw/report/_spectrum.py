"""The energy of each mode at one time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from spdelaw.equation import SpectralSPDE
from spdelaw.report._estimates import Estimate, coefficients_at, energy
from spdelaw.report._paths import as_paths
from spdelaw.report._style import CLOSED_FORM, COLUMN, SAMPLE, figure_of, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_energy_spectrum(
    fields: xr.DataArray,
    equation: SpectralSPDE,
    *,
    time: float | None = None,
    n_modes: int | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw ``E c_n(t)^2`` of each mode against its closed form (paper, Appendix A).

    Args:
        fields: DataArray (path, time, x).
        equation: the law to compare with; its domain gives the coefficients.
        time: the nearest observed time is drawn; the last one by default.
        n_modes: how many modes; all of the equation by default. With fewer the grid has to
            keep the others out, or an `AliasingWarning` says that it does not.
        ax: axes to draw into; by default a new figure, with the ratio of the two below.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import plot_energy_spectrum
        >>> equation = sl.catalogue.heat(n_modes=4)
        >>> figure = plot_energy_spectrum(sl.simulate(equation, 20, seed=0), equation)
        >>> figure.axes[0].get_yscale()
        'log'
    """
    fields = as_paths(fields, equation.domain.dims, at_least=2)
    at = fields["time"].values[-1] if time is None else time
    c = coefficients_at(fields, equation, at, n_modes).isel(time=0)
    t, mode = float(c["time"]), c["mode"].values
    sample = energy(c)
    exact = equation.energy_spectrum([t]).values[0, : len(mode)]
    with style():
        top, bottom = (ax, None) if ax is not None else _two_axes()
        top.plot(mode, exact, color=CLOSED_FORM, linestyle="--", label="closed form", zorder=2)
        _points(top, mode, sample, f"{c.sizes['path']} paths, 95 % interval")
        top.set(yscale="log", ylabel=rf"energy $E\,c_n^2$ at t = {t:g}", xlim=(0.4, mode[-1] + 0.6))
        top.legend(loc="upper right")
        if bottom is not None:
            bottom.axhline(1.0, color=CLOSED_FORM, linestyle="--")
            _points(bottom, mode, Estimate(sample.value / exact, sample.error / exact), None)
            bottom.set_ylabel("ratio")
        (bottom or top).set_xlabel("mode n")
        (bottom or top).locator_params(axis="x", integer=True)
    return figure_of(top)


def _two_axes() -> tuple[Axes, Axes]:
    """Spectrum above, ratio to the closed form below: decades hide an error of 10 %."""
    figure = new_figure(COLUMN, 0.9 * COLUMN)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1.2))
    return top, bottom


def _points(ax: Axes, mode: np.ndarray, sample: Estimate, label: str | None) -> None:
    low, high = sample.interval()
    ax.errorbar(
        mode, sample.value, yerr=np.stack([sample.value - low, high - sample.value]),
        color=SAMPLE, fmt="o", markersize=2.5, elinewidth=1.0, zorder=3, label=label,
    )  # fmt: skip

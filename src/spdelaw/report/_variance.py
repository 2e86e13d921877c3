"""The spatially averaged variance over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xarray as xr

from spdelaw.domain import Line, Plane
from spdelaw.equation import SpectralSPDE
from spdelaw.report._estimates import averaged_variance, spatial_weights
from spdelaw.report._paths import as_paths
from spdelaw.report._style import CLOSED_FORM, GREY, SAMPLE, axes_for, figure_of, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_variance(
    fields: xr.DataArray, equation: SpectralSPDE, *, ax: Axes | None = None
) -> Figure:
    """Draw the spatially averaged variance over time against its closed form.

    ``E_x Var X(t, x)`` of the paper's Appendix A, ``1/|D| int Var X dx`` on an interval and
    ``int Var X gamma dx`` on the line. Sample and closed form use the same rule on the grid
    of the fields, so on the line both are the integral over the part the grid covers.

    Args:
        fields: DataArray (path, time, x); NaN is missing.
        equation: the law to compare with.
        ax: axes to draw into; by default those of a new figure.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import plot_variance
        >>> equation = sl.catalogue.heat(n_modes=4)
        >>> figure = plot_variance(sl.simulate(equation, n_paths=20, seed=0), equation)
        >>> figure.axes[0].get_xlabel()
        'time'
    """
    fields = as_paths(fields, equation.domain.dims, at_least=2)
    domain, time = equation.domain, fields["time"].values
    grid = domain.places(fields).points
    sample = averaged_variance(fields, domain)
    exact = domain.flatten(equation.variance(time, grid)).values @ spatial_weights(domain, grid)
    with style():
        ax = axes_for(ax)
        ax.fill_between(
            time, *sample.interval(), color=SAMPLE, alpha=0.25, linewidth=0, label="95 % band"
        )
        ax.plot(time, sample.value, color=SAMPLE, label=f"{fields.sizes['path']} paths")
        ax.plot(time, exact, color=CLOSED_FORM, linestyle="--", label="closed form")
        ax.set(xlabel="time", ylabel="spatially averaged variance")
        ax.set_title(_definition(equation), color=GREY)
        ax.set_ylim(bottom=0.0)
        ax.legend(loc="lower right")
    return figure_of(ax)


def _definition(equation: SpectralSPDE) -> str:
    if isinstance(equation.domain, Line | Plane):
        return r"$\int \mathrm{Var}\,X(t,x)\,\gamma(x)\,dx$ over the grid"
    return r"$|D|^{-1} \int_D \mathrm{Var}\,X(t,x)\,dx$"

"""A forecast at one point as a fan of bands that widen with time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import scipy
import xarray as xr

from spdelaw.report._maps import nearest, space_names
from spdelaw.report._one_path import moments_of, one_path
from spdelaw.report._style import (
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

#: Probability inside each band, wide first, with how dark it is.
BANDS = {0.95: 0.18, 0.5: 0.38}


def plot_forecast(
    history: xr.DataArray,
    forecast: xr.Dataset,
    truth: xr.DataArray | None = None,
    *,
    point: Any = None,
    path: int = 0,
    ax: Axes | None = None,
) -> Figure:
    """Draw history and forecast of one path at one point, with 50 and 95 % bands.

    Args:
        history: fields that the forecast started from, (path, time, x).
        forecast: Dataset with ``mean`` and ``std`` from ``law.forecast``.
        truth: what really happened, fields (path, time, x).
        point: the nearest point is drawn, x or (x, y); the middle one by default.
        path: position of the path.
        ax: axes to draw into; by default those of a new figure.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> from spdelaw.report import plot_forecast
        >>> equation = sl.catalogue.heat(n_modes=2)
        >>> data = sl.simulate(equation, 8, seed=0)
        >>> law = sl.fit(data, equation.domain, 2)
        >>> history, later = data[:, :150], data[:, 150:]
        >>> figure = plot_forecast(history, law.forecast(history, later.time), later, point=1.0)
        >>> figure.axes[0].get_title("left")
        'x = 1.01'
    """
    seen = one_path("history", history, path)
    mean, std = moments_of("forecast", forecast, path)
    names = space_names(mean)
    mean = nearest(mean, point)
    at = tuple(float(mean[name]) for name in names)
    std, before = nearest(std, at), nearest(seen, at)
    with style():
        ax = axes_for(ax) if ax is not None else new_figure(1.3 * COLUMN).add_subplot()
        ax.plot(before["time"], before, color=GREY, linewidth=1.1, label="history")
        _fan(ax, mean, std)
        ax.plot(mean["time"], mean, color=SAMPLE, label="forecast mean")
        if truth is not None:
            later = nearest(one_path("truth", truth, path), at)
            ax.plot(later["time"], later, color=CLOSED_FORM, linewidth=1.1, label="what happened")
        ax.axvline(before["time"].values[-1], color=GREY, linewidth=0.8, linestyle=":")
        ax.set(xlabel="time", ylabel=_quantity(seen))
        if before["time"].dtype.kind == "M":
            ax.tick_params(axis="x", rotation=30)
        place = ", ".join(f"{name} = {x:.3g}" for name, x in zip(names, at, strict=True))
        ax.set_title(place, color=GREY)
        ax.legend(loc="best", ncols=2)
    return figure_of(ax)


def _quantity(fields: xr.DataArray) -> str:
    units = fields.attrs.get("units")
    return f"{fields.name or 'field'}" + (f" [{units}]" if units else "")


def _fan(ax: Axes, mean: xr.DataArray, std: xr.DataArray) -> None:
    for probability, darkness in BANDS.items():
        z = scipy.special.ndtri(0.5 + 0.5 * probability)
        ax.fill_between(
            mean["time"], mean - z * std, mean + z * std, color=SAMPLE, alpha=darkness,
            linewidth=0, label=f"{100 * probability:g} % band",
        )  # fmt: skip

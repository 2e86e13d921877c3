"""``law.plot``: figures of a law for a paper, as matplotlib axes."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.checks import checked, real_array
from spdelaw.data.clock import to_dates
from spdelaw.data.io.sources import is_labelled
from spdelaw.data.observed import Observed
from spdelaw.errors import DataError
from spdelaw.evaluation.checks.verdict import check_model
from spdelaw.law.law import Law, register_accessor
from spdelaw.law.observations import (
    forecast_times,
    less_response,
    subtract_mean_and_forcing,
    to_user,
)
from spdelaw.processes.spde import SpectralSPDE
from spdelaw.report.figures.draw import figure_as_png, figure_of
from spdelaw.report.figures.fields import check_path, plot_reconstruction, space_names
from spdelaw.report.figures.laws import plot_law_energy, plot_operator, plot_spectrum
from spdelaw.report.figures.predictions import plot_forecast, plot_innovations

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Panels(list):
    """Axes of the panels of one figure, which a notebook shows as the figure."""

    @property
    def figure(self) -> Figure:
        """The figure that holds the axes."""
        return figure_of(self[0])

    def _repr_png_(self) -> bytes:
        return figure_as_png(self.figure)


def displayed(ax: Axes) -> Axes:
    """The same axes, which a notebook shows as their figure."""
    ax._repr_png_ = functools.partial(figure_as_png, figure_of(ax))  # type: ignore[attr-defined]
    return ax


@register_accessor("plot")
class LawPlots:
    """Figures of a law; each method returns the axes, whose ``figure`` can be saved.

    A notebook shows what a method returns as the figure.

    Data have any form that `spdelaw.fit` takes, bare arrays with ``times=`` and ``points=``; fields
    and forecasts are shown in their units and dates.

    Example:
        >>> import spdelaw as sl
        >>> equation = sl.catalogue.heat(n_modes=2)
        >>> data = sl.simulate(equation, 8, seed=0)
        >>> law = sl.fit(data, equation.domain, 2)
        >>> [ax.get_yscale() for ax in law.plot.spectrum()]
        ['log', 'log']
        >>> law.plot.forecast(data[:, :150], data.time[150:]).figure.savefig("forecast.pdf")
    """

    def __init__(self, law: Law) -> None:
        self._law = law

    @checked()
    def spectrum(self, truth: SpectralSPDE | Law | None = None) -> Panels:
        """Eigenvalues and noise variances with intervals, or the matrices of coupled modes."""
        if "drift" in self._law.parameters:
            truth = truth.equation if isinstance(truth, Law) else truth
            return Panels(plot_operator(self._law, truth).axes[:3])
        return Panels(plot_spectrum(self._law, truth).axes[:2])

    @checked()
    def energy(self, time: float | None = None) -> Axes:
        """Energy ``E c_n^2`` of each mode under the law at a time, the last one by default."""
        return displayed(plot_law_energy(self._law, time).axes[0])

    @checked()
    def field(self, data: Any, path: int = 0, **adapter: Any) -> Panels:
        """One path observed, reconstructed, and the standard deviation; axes of the panels."""
        law, observed = self._one_path(data, path, **adapter)
        figure = plot_reconstruction(_in_user_units(law, observed), law.reconstruct(observed))
        return Panels(figure.axes[:3])

    @checked()
    def forecast(
        self, history: Any, at: Any = None, truth: Any = None, *, steps: int | None = None,
        point: Any = None, path: int = 0, ax: Axes | None = None, times: Any = None,
        **adapter: Any,
    ) -> Axes:  # fmt: skip
        """History and forecast of one path at one point, with 50 and 95 % bands.

        In the units and dates of the data. ``at``, ``steps``, ``times`` and ``points`` as in
        `Law.forecast`; a bare ``truth`` has the times ``at``. ``point`` in the order of the domain:
        x, (x, y) of a box whatever x and y are called, (lat, lon) of a sphere; the nearest one is
        drawn.
        """
        if times is not None and at is None and is_labelled(history):
            at, times = times, None
        given = adapter | ({} if times is None else {"times": times})
        law, observed = self._one_path(history, path, **given)
        later = forecast_times(law, observed.fields, at, steps)
        clock = law.info.get("time", {})
        result = law.forecast(observed, to_dates(later, clock) if observed.dated else later)
        if truth is not None and not is_labelled(truth):
            given = adapter | {"times": later}
        happened = None if truth is None else _in_user_units(*self._one_path(truth, path, **given))
        at = self._in_figure_order(point, space_names(result["mean"].isel(path=0)))
        before = _in_user_units(law, observed)
        figure = plot_forecast(before, result, happened, point=at, ax=ax)
        return displayed(figure.axes[0] if ax is None else ax)

    @checked()
    def innovations(self, data: Any, **adapter: Any) -> Panels:
        """Probabilities of the innovations of data, and their correlation in time."""
        observed = subtract_mean_and_forcing(self._law, self._law.observe(data, **adapter))
        check = check_model(self._law.without_preparation_and_mean, observed)
        return Panels(plot_innovations(check).axes[:2])

    def _one_path(self, data: Any, path: int, **adapter: Any) -> tuple[Law, Observed]:
        """The law with the names of paths and times that figures use, and one path of the data.

        Times are dates where the clock of the law counts from one that a figure can draw.
        """
        law, labels = self._law, dict(self._law.info.get("labels", {}))
        kept = {k: v for k, v in labels.get("coords", {}).items() if k not in ("path", "time")}
        clock = law.info.get("time", {})
        dated = " since " in str(clock.get("units", ""))
        dated = dated and to_dates(law.times[:1], clock).dtype.kind == "M"
        observed = law.observe(data, **adapter)
        check_path(path, observed.fields.sizes["path"])
        observed = observed.paths([path]).in_memory()
        return law.with_info(labels=labels | {"coords": kept}), observed._replace(dated=dated)

    def _in_figure_order(self, point: Any, shown: tuple[str, ...]) -> Any:
        """Coordinates of a point in the order that figures use."""
        coords = self._law.info.get("labels", {}).get("coords", {})
        domain_order = [coords.get(d, {}).get("original_name", d) for d in self._law.domain.dims]
        point = None if point is None else real_array("point", point, DataError)
        if np.ndim(point) == 0 or len(point) != len(shown) or sorted(domain_order) != sorted(shown):
            return point
        return tuple(point[domain_order.index(name)] for name in shown)


def _in_user_units(law: Law, observed: Observed) -> xr.DataArray:
    """Observed values in the units and dates of the data."""
    name = str(law.info.get("labels", {}).get("name", "field"))
    labelled = less_response(law, observed).labelled  # to_user adds the response
    fields = labelled.drop_attrs(deep=False).to_dataset(name=name)
    return to_user(law, fields, observed.dated, labelled)[name]

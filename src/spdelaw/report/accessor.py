"""``law.plot``: figures of a law for a paper, as matplotlib axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.data.clock import to_dates
from spdelaw.data.observed import Observed
from spdelaw.evaluation.checks.verdict import check_model
from spdelaw.law.law import Law, register_accessor
from spdelaw.law.observations import forecast_times, subtract_mean_and_forcing, to_user
from spdelaw.processes.spde import SpectralSPDE
from spdelaw.report.figures.fields import space_names
from spdelaw.report.figures.laws import plot_law_energy, plot_spectrum
from spdelaw.report.figures.predictions import plot_forecast, plot_innovations, plot_reconstruction

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@register_accessor("plot")
class LawPlots:
    """Figures of a law; each method returns the axes, whose ``figure`` can be saved.

    Data go in as they are; fields and forecasts are shown in their units and dates.

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

    def spectrum(self, truth: SpectralSPDE | Law | None = None) -> list[Axes]:
        """Eigenvalues and noise variances with their intervals; axes of the two panels."""
        return plot_spectrum(self._law, truth).axes[:2]

    def energy(self, time: float | None = None) -> Axes:
        """Energy ``E c_n^2`` of each mode under the law at a time, the last one by default."""
        return plot_law_energy(self._law, time).axes[0]

    def field(self, data: Any, path: int = 0) -> list[Axes]:
        """One path observed, reconstructed, and how sure that is; axes of the three panels."""
        law, seen = self._in_units(data, path)
        return plot_reconstruction(self._shown(law, seen), self._result(law, seen)).axes[:3]

    def forecast(
        self, history: Any, times: Any = None, truth: Any = None, *, steps: int | None = None,
        point: Any = None, path: int = 0, ax: Axes | None = None,
    ) -> Axes:  # fmt: skip
        """History and forecast of one path at one point, with 50 and 95 % bands.

        In the units and dates of the data. ``times`` or ``steps`` as in `Law.forecast`. ``point``
        in the order of the domain: x, (x, y) of a box whatever x and y are called, (lat, lon) of a
        sphere; the nearest one is drawn.
        """
        law, seen = self._in_units(history, path)
        result = self._result(law, seen, forecast_times(law, seen.fields, times, steps))
        later = None if truth is None else self._shown(law, self._in_units(truth, path)[1])
        at = self._in_order(point, space_names(result["mean"].isel(path=0)))
        return plot_forecast(self._shown(law, seen), result, later, point=at, ax=ax).axes[0]

    def _in_order(self, point: Any, shown: tuple[str, ...]) -> Any:
        """A point of the domain in the order in which figures name its coordinates."""
        coords = self._law.info.get("labels", {}).get("coords", {})
        own = [coords.get(d, {}).get("original_name", d) for d in self._law.domain.dims]
        if np.ndim(point) == 0 or len(point) != len(shown) or sorted(own) != sorted(shown):
            return point
        return tuple(point[own.index(name)] for name in shown)

    def _in_units(self, data: Any, path: int) -> tuple[Law, Observed]:
        """One path as the law sees it, and the law with the names that figures know."""
        law = self._law
        labels = dict(law.info.get("labels", {}))
        kept = {k: v for k, v in labels.get("coords", {}).items() if k not in ("path", "time")}
        shown = law.with_info(labels=labels | {"coords": kept})
        return shown, subtract_mean_and_forcing(law, data).paths([path]).in_memory()._replace(
            dated=False
        )

    def _shown(self, law: Law, own: Observed) -> xr.DataArray:
        """What was seen, in the units and dates of the data."""
        name, seen = str(law.info.get("labels", {}).get("name", "field")), own.labelled
        shown = to_user(law, seen.drop_attrs(deep=False).to_dataset(name=name), _dates(law), seen)
        return shown[name]

    def _result(self, law: Law, own: Observed, times: Any = None) -> xr.Dataset:
        bare = law.without_preparation_and_mean
        made = bare.reconstruct(own) if times is None else bare.forecast(own, times)
        return to_user(law, made, _dates(law), own.fields)

    def innovations(self, data: Any) -> list[Axes]:
        """Probabilities of the innovations of data, and their correlation in time."""
        own = subtract_mean_and_forcing(self._law, data)
        return plot_innovations(check_model(self._law.without_preparation_and_mean, own)).axes[:2]


def _dates(law: Law) -> bool:
    """Whether the law's clock counts from a date that a figure can draw."""
    clock = law.info.get("time", {})
    if " since " not in str(clock.get("units", "")):
        return False
    return bool(to_dates(law.times[:1], clock).dtype.kind == "M")

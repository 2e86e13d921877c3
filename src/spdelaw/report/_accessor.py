"""``law.plot``: figures of a law for a paper, as matplotlib axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spdelaw.equation import SpectralSPDE
from spdelaw.evaluation import check_model
from spdelaw.law import Law, register_accessor, to_clock
from spdelaw.report._energy_of_law import plot_law_energy
from spdelaw.report._forecast import plot_forecast
from spdelaw.report._innovations import plot_innovations
from spdelaw.report._law_spectrum import plot_spectrum
from spdelaw.report._reconstruction import plot_reconstruction

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@register_accessor("plot")
class LawPlots:
    """Figures of a law; each method returns the axes, whose ``figure`` can be saved.

    Data go in as they are; where the law prepares them, the figures show them prepared.

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
        seen = self._law.prepared(data).isel(path=[path])
        return plot_reconstruction(seen, self._law.bare.reconstruct(seen)).axes[:3]

    def forecast(
        self, history: Any, times: Any, truth: Any = None, *, point: float | None = None,
        path: int = 0, ax: Axes | None = None,
    ) -> Axes:  # fmt: skip
        """History and forecast of one path at one point, with 50 and 95 % bands."""
        seen = self._law.prepared(history).isel(path=[path])
        later = None if truth is None else self._law.prepared(truth).isel(path=[path])
        result = self._law.bare.forecast(seen, np.asarray(to_clock(self._law, times)))
        return plot_forecast(seen, result, later, point=point, ax=ax).axes[0]

    def innovations(self, data: Any) -> list[Axes]:
        """Probabilities of the innovations of data, and their correlation in time."""
        fields = self._law.prepared(data)
        return plot_innovations(check_model(self._law.bare, fields)).axes[:2]

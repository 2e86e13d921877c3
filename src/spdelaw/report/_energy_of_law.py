"""The energy of each mode under a law."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spdelaw.law import Law
from spdelaw.report._style import SAMPLE, axes_for, figure_of, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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

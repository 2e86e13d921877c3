"""Figures, tables and the HTML report."""

from spdelaw.report.accessor import LawPlots as LawPlots
from spdelaw.report.figures.draw import require_figures as require_figures
from spdelaw.report.figures.draw import save_figure as save_figure
from spdelaw.report.figures.fields import plot_fields as plot_fields
from spdelaw.report.figures.fields import plot_modes as plot_modes
from spdelaw.report.figures.fields import plot_reconstruction as plot_reconstruction
from spdelaw.report.figures.laws import plot_law_energy as plot_law_energy
from spdelaw.report.figures.laws import plot_operator as plot_operator
from spdelaw.report.figures.laws import plot_ratios as plot_ratios
from spdelaw.report.figures.laws import plot_spectrum as plot_spectrum
from spdelaw.report.figures.moments import Verdict as Verdict
from spdelaw.report.figures.moments import compare_moments as compare_moments
from spdelaw.report.figures.moments import plot_energy_spectrum as plot_energy_spectrum
from spdelaw.report.figures.moments import plot_variance as plot_variance
from spdelaw.report.figures.moments import verdict as verdict
from spdelaw.report.figures.predictions import plot_forecast as plot_forecast
from spdelaw.report.figures.predictions import plot_innovations as plot_innovations
from spdelaw.report.figures.predictions import plot_skill as plot_skill
from spdelaw.report.page import require_report as require_report
from spdelaw.report.page import write_report as write_report
from spdelaw.report.sections import read_skill as read_skill

#: Sub-modules are no part of the list.
__all__ = [name for name, value in list(globals().items()) if callable(value)]


def __dir__() -> list[str]:
    return __all__

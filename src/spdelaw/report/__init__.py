"""Figures, tables and the HTML report."""

from spdelaw.report.accessor import LawPlots
from spdelaw.report.figures.draw import require_figures, save_figure
from spdelaw.report.figures.fields import plot_fields, plot_modes, plot_reconstruction
from spdelaw.report.figures.laws import plot_law_energy, plot_operator, plot_ratios, plot_spectrum
from spdelaw.report.figures.moments import (
    Verdict,
    compare_moments,
    plot_energy_spectrum,
    plot_variance,
    verdict,
)
from spdelaw.report.figures.predictions import plot_forecast, plot_innovations, plot_skill
from spdelaw.report.page import require_report, write_report
from spdelaw.report.sections import read_skill

__all__ = [
    "LawPlots",
    "Verdict",
    "compare_moments",
    "plot_energy_spectrum",
    "plot_fields",
    "plot_forecast",
    "plot_innovations",
    "plot_law_energy",
    "plot_modes",
    "plot_operator",
    "plot_ratios",
    "plot_reconstruction",
    "plot_skill",
    "plot_spectrum",
    "plot_variance",
    "read_skill",
    "require_figures",
    "require_report",
    "save_figure",
    "verdict",
    "write_report",
]


def __dir__() -> list[str]:
    return __all__

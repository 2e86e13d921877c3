"""SHOW: figures and tables.

Figures need the extra ``report``; importing this package does not load it.
"""

from spdelaw.report._accessor import LawPlots
from spdelaw.report._energy_of_law import plot_law_energy
from spdelaw.report._fields import plot_fields
from spdelaw.report._forecast import plot_forecast
from spdelaw.report._innovations import plot_innovations
from spdelaw.report._law_spectrum import plot_spectrum
from spdelaw.report._modes import plot_modes
from spdelaw.report._moments import Verdict, compare_moments, verdict
from spdelaw.report._operator import plot_operator
from spdelaw.report._ratios import plot_ratios
from spdelaw.report._reconstruction import plot_reconstruction
from spdelaw.report._skill import plot_skill
from spdelaw.report._spectrum import plot_energy_spectrum
from spdelaw.report._style import require_figures, save_figure
from spdelaw.report._variance import plot_variance
from spdelaw.report.html import read_skill, require_report, write_report

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

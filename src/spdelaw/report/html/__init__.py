"""One-file report: HTML that opens offline, and the parts that such pages are made of."""

from spdelaw.report.html._figure import Figure, axis, layout, log_axis, packed, panel_title
from spdelaw.report.html._forecast_skill import read_skill
from spdelaw.report.html._page import render
from spdelaw.report.html._section import Section, Table
from spdelaw.report.html._words import Answer
from spdelaw.report.html._write import require_report, write_report

__all__ = [
    "Answer",
    "Figure",
    "Section",
    "Table",
    "axis",
    "layout",
    "log_axis",
    "packed",
    "panel_title",
    "read_skill",
    "render",
    "require_report",
    "write_report",
]

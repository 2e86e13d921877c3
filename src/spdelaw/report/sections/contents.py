"""Contents of the report: every section with its parts, and which laws have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from spdelaw.report.data import ReportData
from spdelaw.report.figures.charts import Chart
from spdelaw.report.figures.laws import spectra_chart
from spdelaw.report.figures.predictions import skill_chart
from spdelaw.report.plots import Section, plotly_figure
from spdelaw.report.sections import tables
from spdelaw.report.sections.fields import field_chart, modes_chart, samples_chart
from spdelaw.report.sections.forecasts import (
    calibration_charts,
    history_length,
    path_forecast_chart,
    reaction_charts,
)
from spdelaw.report.sections.moments import moments_charts
from spdelaw.report.sections.summary import text_of


class Entry(NamedTuple):
    """A section that a report may have; its text is the block of this name in ``texts.html``.

    Attributes:
        name, title: anchor and heading.
        parts: makes charts and tables, in order.
        applies: whether a report has the section.
    """

    name: str
    title: str
    parts: Callable[[ReportData], list[Any]]
    applies: Callable[[ReportData], bool] = lambda data: True


def of_each_field(make: Callable[[ReportData], Chart]) -> Callable[[ReportData], list[Any]]:
    """A figure of each field of a law of several; the one figure of others."""
    return lambda data: [make(one).of_field(one.label) for one in data.each]


def _parameters(data: ReportData) -> list[Any]:
    return [
        *([spectra_chart(data.laws, data.truth)] if data.is_linear else []),
        tables.mode_table(data),
        *([tables.eigenmode_table(data)] if data.is_coupled else []),
        tables.scalar_table(data),
    ]


def _reaction(data: ReportData) -> list[Any]:
    law = data.law
    return [*reaction_charts(data), tables.term_table(law), tables.candidate_table(law)]


def _skill(data: ReportData) -> list[Any]:
    document = data.skill or {}
    return [skill_chart(document), tables.skill_table(document)]


def _calibration(data: ReportData) -> list[Any]:
    return [*calibration_charts(data), tables.test_table(data), tables.score_table(data)]


#: In the order of the page.
CONTENTS = (
    Entry("spectra", "What was learned", _parameters),
    Entry("modes", "Shapes of the leading modes", lambda data: [modes_chart(data)]),
    Entry("reaction", "Reaction", _reaction,
          lambda data: bool(getattr(data.law.dynamics, "terms", ()))),
    Entry("fields", "Fields: observed, reconstructed, difference", of_each_field(field_chart)),
    Entry("samples", "Data and sample paths", of_each_field(samples_chart)),
    Entry("forecast", "Forecast and later observations", of_each_field(path_forecast_chart),
          lambda data: history_length(data) > 0),
    Entry("skill", "Skill of forecasts", _skill, lambda data: data.skill is not None),
    Entry("moments", "Variance and energy", moments_charts),
    Entry("calibration", "Innovations and calibration", _calibration),
    Entry("engines", "Laws compared", lambda data: [tables.law_table(data)],
          lambda data: len(data.laws) > 1),
    Entry("provenance", "Provenance", tables.provenance_tables),
)  # fmt: skip


def sections_of(data: ReportData) -> list[Section]:
    """The sections of a report, in the order of the page."""

    def section(entry: Entry) -> Section:
        parts = (plotly_figure(p) if isinstance(p, Chart) else p for p in entry.parts(data))
        text = " ".join(text_of(data, entry.name))
        return Section(entry.name, entry.title, text, tuple(parts))

    return [section(entry) for entry in CONTENTS if entry.applies(data)]

"""Contents of the report: every section with its text, its parts, and the laws that have it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from spdelaw.processes.linear import Linear
from spdelaw.processes.semilinear import Reacting
from spdelaw.report.data import ReportData
from spdelaw.report.figures.charts import Chart
from spdelaw.report.figures.laws import spectra_chart
from spdelaw.report.figures.predictions import skill_chart
from spdelaw.report.plots import Section, Table, plotly_figure
from spdelaw.report.sections import tables
from spdelaw.report.sections.fields import field_chart, modes_chart, samples_chart
from spdelaw.report.sections.forecasts import (
    calibration_charts,
    history_length,
    path_forecast_chart,
    reaction_charts,
)
from spdelaw.report.sections.moments import DRAWS, moments_charts

Parts = Sequence[Chart | Table]


@dataclasses.dataclass(frozen=True)
class Entry:
    """A section that a report may have.

    Attributes:
        name, title: anchor and heading.
        text: sentences above the figures; words in braces are attributes of `Words`.
        parts: figures and tables, in order.
        applies: whether a report has the section.
    """

    name: str
    title: str
    text: str
    parts: Callable[[ReportData], Parts]
    applies: Callable[[ReportData], bool] = lambda data: True


def sections_of(data: ReportData) -> list[Section]:
    """The sections of a report, in the order of the page."""
    return [
        Section(
            entry.name, entry.title, " ".join(entry.text.format(is_=Words(data)).split()),
            tuple(plotly_figure(p) if isinstance(p, Chart) else p for p in entry.parts(data)),
        )
        for entry in CONTENTS
        if entry.applies(data)
    ]  # fmt: skip


def of_each_field(make: Callable[[ReportData], Chart]) -> Callable[[ReportData], Parts]:
    """A figure of each field of a law of several; the one figure of others."""
    return lambda data: [make(one).of_field(one.label) for one in data.each]


class Words:
    """Words of the texts that depend on law and data."""

    def __init__(self, data: ReportData) -> None:
        self.data = data

    @property
    def level(self) -> str:
        """Level of the intervals."""
        return f"{100 * float(self.data.law.parameters.attrs['interval_level']):g} %"

    @property
    def coupling(self) -> str:
        """What the rates of a drift that couples modes are."""
        coupled = "drift" in self.data.law.parameters
        return COUPLED * coupled

    @property
    def gaps(self) -> str:
        """How much is missing."""
        missing = 100 * self.data.missing
        return f"{missing:.3g} % of the values are missing (grey)." if missing else ""

    @property
    def discovery(self) -> str:
        """How the terms were selected."""
        return str(self.data.law.info.get("discovery", {}).get("sentence", ""))

    @property
    def other_fields(self) -> str:
        """Where other fields are."""
        several = len(self.data.each) > 1
        return "Each field has a curve, with the other fields at their medians." * several

    @property
    def skill(self) -> str:
        """Verdict on the skill."""
        return _sentence((self.data.skill or {}).get("verdict", ""))

    @property
    def verdict(self) -> str:
        """Verdict of the tests, and advice."""
        check = self.data.card.check
        return " ".join(map(_sentence, [check.verdict, *check.advice]))

    @property
    def likelihoods(self) -> str:
        """Whether the log-likelihoods of the laws can be compared."""
        kinds = sorted({str(values.attrs["of"]) for values in self.data.likelihoods.values()})
        return COMPARABLE.format(kind=kinds[0]) if len(kinds) == 1 else NOT_COMPARABLE


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


COUPLED = """Drift or noise couple these modes. The rates shown are those of the eigenmodes of the
drift, which decay independently of each other; some oscillate while they decay."""
COMPARABLE = """The log-likelihood of these data uses the exact model with the parameters of each
law: the log density of the {kind}. Engines are therefore comparable. Higher is better, and a
difference of one is one nat per path."""
NOT_COMPARABLE = """The log-likelihoods are densities of different quantities, named in the table,
and cannot be compared."""


def _is_linear(data: ReportData) -> bool:
    return isinstance(data.law.dynamics, Linear)


def _spectra_parts(data: ReportData) -> list[Any]:
    coupled = [tables.eigenmode_table(data)] if "drift" in data.law.parameters else []
    chart = spectra_chart(data.laws, data.truth)
    return [chart, tables.mode_table(data), *coupled, tables.scalar_table(data)]


CONTENTS = (
    Entry(
        "spectra", "What was learned",
        """Each mode is a pattern in space. It decays at the rate λ and is forced by noise of
        variance q per unit of time. Bars are {is_.level} intervals; a missing bar means that the
        data do not determine the parameter. {is_.coupling}""",
        _spectra_parts, _is_linear,
    ),
    Entry(
        "spectra", "What was learned", "All parameters of the law with {is_.level} intervals.",
        lambda data: [tables.mode_table(data), tables.scalar_table(data)],
        lambda data: not _is_linear(data),
    ),
    Entry(
        "modes", "Shapes of the leading modes",
        """The field is a sum of these shapes, each times a coefficient that changes in time. The
        parameters above describe these coefficients.""",
        lambda data: [modes_chart(data)],
    ),
    Entry(
        "reaction", "Reaction",
        """The drift is a linear part plus a sum of terms. Where the curve crosses zero downwards
        the reaction is stable, where it crosses upwards it is unstable. The curve leaves out
        diffusion and terms with derivatives. {is_.discovery} {is_.other_fields}""",
        lambda data: [*reaction_charts(data), tables.term_table(data.law),
                      tables.candidate_table(data.law)],
        lambda data: isinstance(data.law.dynamics, Reacting),
    ),
    Entry(
        "fields", "Fields: observed, reconstructed, difference",
        """{is_.gaps} The law fills gaps and removes observation noise. The difference should look
        like noise without a pattern. The slider selects the time.""",
        of_each_field(field_chart),
    ),
    Entry(
        "samples", "Data and sample paths",
        """New paths drawn from the learned law with observation noise, at the times and points of
        the data. If the law is right, data and draws look alike.""",
        of_each_field(samples_chart),
    ),
    Entry(
        "forecast", "Forecast and later observations",
        """The forecast uses the path up to the dotted line. The dark band should contain half of
        the later observations, the light band 95 %. The bands include observation noise. The slider
        selects the place.""",
        of_each_field(path_forecast_chart), lambda data: history_length(data) > 0,
    ),
    Entry(
        "skill", "Skill of forecasts",
        """Hindcasts: the law and the reference methods use earlier times only. {is_.skill}""",
        lambda data: [skill_chart(data.skill or {}), tables.skill_table(data.skill or {})],
        lambda data: data.skill is not None,
    ),
    Entry(
        "moments", "Variance and energy",
        f"""Two statistics of the data and of {DRAWS} data sets drawn from the law with the same
        gaps and noise. About 95 % of the points should lie inside the band.""",
        lambda data: [chart.of_field(one.label) for chart, one in
                      zip(moments_charts(data), data.each, strict=True)],
    ),
    Entry(
        "calibration", "Innovations and calibration",
        """An innovation is the error of a one-step forecast of a mode, divided by its standard
        deviation. Under the right law innovations are independent and standard normal.
        {is_.verdict}""",
        lambda data: [*calibration_charts(data), tables.test_table(data),
                      tables.score_table(data)],
    ),
    Entry(
        "engines", "Laws compared",
        """{is_.likelihoods} Lower CRPS is better; 'inside' should be close to the level of the
        interval.""",
        lambda data: [tables.law_table(data)], lambda data: len(data.laws) > 1,
    ),
    Entry(
        "provenance", "Provenance",
        "All numbers and figures of this page come from these data and laws.",
        tables.provenance_tables,
    ),
)  # fmt: skip

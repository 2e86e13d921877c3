"""A report from laws and data to one HTML file: its sections, and the page."""

from __future__ import annotations

import base64
import dataclasses
import functools
import gzip
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spdelaw.checks import checked, optional
from spdelaw.data.io.safe_files import replace_file
from spdelaw.errors import FileError
from spdelaw.evaluation.forecast_skill import Skill
from spdelaw.law.law import Law
from spdelaw.processes.spde import SpectralSPDE
from spdelaw.report import tables
from spdelaw.report.data import ReportData, gather
from spdelaw.report.figures.charts import Chart
from spdelaw.report.figures.draw import ASSETS
from spdelaw.report.figures.laws import spectra_chart
from spdelaw.report.figures.predictions import skill_chart
from spdelaw.report.plots import Figure, Section, plotly_figure
from spdelaw.report.sections import (
    calibration_charts,
    document_of,
    field_chart,
    history_length,
    modes_chart,
    moments_charts,
    path_forecast_chart,
    reaction_charts,
    samples_chart,
)
from spdelaw.report.summary import Answer, summary_text, text_of

# ---------- The HTML page: template, style, script and data in one file
#
# The plotting library is inside as gzip in base64, two fifths of its size; browsers unpack it.


def render(title: str, answers: Sequence[Answer], sections: Sequence[Section]) -> str:
    """HTML with everything inline: no request leaves the file.

    The template escapes all text; only style, script and JSON go in as they are.
    """
    import jinja2

    figures = [part for s in sections for part in s.parts if isinstance(part, Figure)]
    # An undefined name in the template is an error.
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_asset("page.html")).render(
        title=title,
        answers=answers,
        sections=sections,
        style=_asset("page.css"),
        palettes=_asset("palettes.json"),
        figures=_json([figure.document() for figure in figures]),
        version=_plotly_version(),
        plotly=_packed_plotly(),
        script=_asset("page.js"),
    )


def _asset(name: str) -> str:
    return ASSETS.joinpath(name).read_text(encoding="utf-8")


@functools.cache
def _packed_plotly() -> str:
    from plotly.offline import get_plotlyjs

    # Without a time stamp, so that the same report twice is the same file.
    packed = gzip.compress(get_plotlyjs().encode("utf-8"), compresslevel=9, mtime=0)
    return base64.b64encode(packed).decode("ascii")


def _plotly_version() -> str:
    from plotly.offline import get_plotlyjs_version

    return str(get_plotlyjs_version())


def _json(value: Any) -> str:
    """JSON that no text in it can break out of."""
    text = json.dumps(
        _json_value(value), allow_nan=False, ensure_ascii=False, separators=(",", ":")
    )
    return text.replace("<", "\\u003c")


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _json_value(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# ---------- Write a report of laws and data


def require_report() -> None:
    """Raise `MissingExtraError` where plotly or jinja2 is missing: a check to make before work."""
    optional("plotly", "the report", "report")
    optional("jinja2", "the report", "report")


@checked()
def write_report(
    path: str | Path,
    laws: Law | Mapping[str, Law],
    data: Any,
    *,
    truth: SpectralSPDE | None = None,
    title: str | None = None,
    source: Mapping[str, str] | None = None,
    skill: Skill | Mapping[str, Any] | None = None,
    max_paths: int = 100,
    seed: int = 0,
) -> Path:
    """Write an HTML report about laws and data, which opens offline.

    It has a summary, spectra with intervals, modes, fields with a time slider, sample paths, a
    forecast, the skill of forecasts if you pass it, moments, innovations and calibration, a
    comparison of laws, and provenance.

    Args:
        path: file to write, ending in .html.
        laws: one law, or up to four by name; the report is about the first and compares the others.
        data: fields to evaluate the laws on, preferably not used in the fit.
        truth: equation behind simulated data.
        title: heading of the page.
        source: text on the origin of "data" and of each "law NAME"; "same" is "yes" if the first
            law was fitted to these data, else "no".
        skill: result of `spdelaw.skill`, or its ``to_dict()``, for a section on forecast skill.
        max_paths: paths to use at most.
        seed: of draws and of values held out.

    Returns:
        The path.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import write_report
        >>> equation = sl.catalogue.heat(n_modes=2)
        >>> data = sl.simulate(equation, 8, times=[0, 0.1, 0.2, 0.3, 0.5], seed=0)
        >>> law = sl.fit(data, equation.domain, 2)
        >>> write_report("report.html", law, data).stat().st_size > 1_000_000
        True
    """
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        expected, fix = "a name that ends in .html", f"write {target.stem or 'report'}.html"
        raise FileError(str(path), expected=expected, got=repr(target.suffix), fix=fix)
    require_report()
    scores = document_of(skill)
    report = dataclasses.replace(gather(laws, data, truth, source, max_paths, seed), skill=scores)
    name = report.source.get("data")
    default = f"The law of {Path(name).name}" if name else "A learned law"
    page = render(title or default, summary_text(report), sections_of(report))
    with replace_file(target) as new:
        new.write_text(page, encoding="utf-8", errors="replace")
    return target


# ---------- Contents of the report: every section with its parts, and which laws have it


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
        tables.mode_table(data.law),
        tables.eigenmode_table(data.law),
        tables.scalar_table(data.law),
        tables.mode_table(data.law, initial=True),
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


def _figure(data: ReportData, chart: Chart) -> Figure:
    """A chart with its caption, the block of its name."""
    field = f"Field {chart.field}. " if chart.field else ""
    caption = text_of(data, f"caption_{chart.name}", chart=chart, field=field)
    return plotly_figure(chart, " ".join(caption))


def sections_of(data: ReportData) -> list[Section]:
    """The sections of a report, in the order of the page."""

    def section(entry: Entry) -> Section:
        parts = (_figure(data, p) if isinstance(p, Chart) else p for p in entry.parts(data))
        text = " ".join(text_of(data, entry.name))
        return Section(entry.name, entry.title, text, tuple(parts))

    return [section(entry) for entry in CONTENTS if entry.applies(data)]

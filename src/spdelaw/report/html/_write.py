"""A report from laws and data to one HTML file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spdelaw.checks import optional, whole
from spdelaw.data.atomic import replace_file
from spdelaw.equation import SpectralSPDE
from spdelaw.errors import FileError
from spdelaw.evaluation import Skill
from spdelaw.law import Law
from spdelaw.report.html import (
    _calibration,
    _engines,
    _fan,
    _field_view,
    _forecast_skill,
    _moments_view,
    _provenance,
    _reaction,
    _samples,
    _shapes,
    _spectra,
)
from spdelaw.report.html._material import gather
from spdelaw.report.html._page import render
from spdelaw.report.html._words import answers

#: In the order of the page. A section is a module with ``section(material)``.
SECTIONS = (
    _spectra,
    _shapes,
    _reaction,
    _field_view,
    _samples,
    _fan,
    _forecast_skill,
    _moments_view,
    _calibration,
    _engines,
    _provenance,
)


def require_report() -> None:
    """Raise `MissingExtraError` where plotly is missing: a check to make before work."""
    optional("plotly", "the report", "report")


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
    """Write one HTML file that shows laws and how they describe data; it opens offline.

    A summary in plain words, spectra with intervals, shapes of the modes, fields with a time
    slider, sample paths, a forecast, skill of forecasts where it is given, moments, innovations and
    calibration, laws side by side, and provenance.

    Args:
        path: file to write, ending in .html.
        laws: one law, or up to four by name; the report is about the first and compares the rest.
        data: fields to judge the laws on, best ones they have not seen.
        truth: equation behind simulated data.
        title: heading of the page.
        source: where things come from, in words: keys "data" and "law NAME"; "same" is "yes"
            where the first law was learned from these data and "no" where not.
        skill: what `spdelaw.skill` returned for such a law, or its ``to_dict()``: a section shows
            it beside its rivals.
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
    whole("max_paths", max_paths, 1)
    require_report()
    scores = _forecast_skill.document_of(skill)
    material = gather(laws, data, truth, source, max_paths, seed)
    material = dataclasses.replace(material, skill=scores)
    found = [module.section(material) for module in SECTIONS]
    sections = [section for section in found if section is not None]
    page = render(title or _title(material.source), answers(material), sections)
    with replace_file(target) as new:
        new.write_text(page, encoding="utf-8")
    return target


def _title(source: Mapping[str, str]) -> str:
    name = source.get("data")
    return f"The law of {Path(name).name}" if name else "A learned law"

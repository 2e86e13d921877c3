"""The comparison as one HTML file, made of records only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spdelaw.data.atomic import replace_file
from spdelaw.paper.reproduce._answers import answers
from spdelaw.paper.reproduce._data import TITLES
from spdelaw.paper.reproduce._sheets import Row, Sheet, sheets, spread
from spdelaw.paper.reproduce._tables import tables
from spdelaw.paper.reproduce._views import errors_figure, law_figures
from spdelaw.report.html import Figure, Section, Table, render

Record = dict[str, Any]


def write_page(out: Path, records: list[Record], command: str) -> Path:
    """Write ``report.html`` into a folder: answers, figures, tables and every run.

    Args:
        out: folder, which exists.
        records: of one profile, as `read_records` gives them.
        command: that made them.
    """
    found = tables(records)
    sections = [_regime(regime, rows, records) for regime, rows in found.items()]
    profile = f", profile {records[0]['profile']}" if records else ""
    title = f"The paper's comparison, run again{profile}"
    page = render(title, answers(found), [*sections, _runs(records, command)])
    target = out / "report.html"
    with replace_file(target) as new:
        new.write_text(page, encoding="utf-8")
    return target


def _regime(regime: str, rows: list[Row], records: list[Record]) -> Section:
    own = [r for r in records if r["regime"] == regime]
    lead = (
        "What a system was told about a test path decides how well it can do, so the tasks are "
        "kept apart, each with the limit that no system can beat."
    )
    errors, *others = (_table(sheet) for sheet in sheets(rows))
    figures = law_figures(regime, own)
    parts: list[Figure | Table] = [errors_figure(regime, rows), errors, *figures, *others]
    return Section(f"regime-{regime}", TITLES[regime], lead, tuple(parts))


def _table(sheet: Sheet) -> Table:
    lines: list[list[str]] = []
    for heading, own in sheet.groups.items():
        lines += [[f"A system that {heading}"]] if heading else []
        lines += [
            [cell.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}") for cell in line]
            for line in own
        ]
    return Table(sheet.title, sheet.header, lines, note=sheet.note)


def _runs(records: list[Record], command: str) -> Section:
    lead = (
        "Every number of this page is from one of these runs; each has a record in JSON with its "
        "whole configuration. A number at the end of a name is that of the network's "
        "initialisation, all on one data set, or of the data set where there is no network."
    )
    header = ("run", "epochs", "best epoch", "training", "seconds", "finished")
    lines = [
        [r["name"], _whole(r.get("epochs")), _whole(r.get("best_epoch")), _training(r),
         spread([r["seconds"]], 1) if r.get("seconds") is not None else "", r["finished"]]
        for r in records
    ]  # fmt: skip
    versions: dict[str, list[str]] = {}
    for record in records:
        text = ", ".join(f"{name} {value}" for name, value in record["versions"].items())
        versions.setdefault(text, []).append(record["name"])
    facts = [["command", command]]
    facts += [[f"{len(names)} runs made with", text] for text, names in versions.items()]
    parts = (Table("Software", ("", ""), facts), Table("Every run", header, lines, folded=True))
    return Section("runs", "Provenance", lead, parts)


def _whole(value: int | None) -> str:
    return "" if value is None else str(value)


def _training(record: Record) -> str:
    if record["shortened"]:
        return ", ".join(record["shortened"])
    if record.get("epochs") is None:
        return "none"
    return "ended early, by its rule" if record.get("stopped_early") else "in full"

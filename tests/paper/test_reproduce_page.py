"""The page of the comparison: what it says, and how it lives in a real browser."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
from tests.paper.reproduce_cases import records, small_data  # noqa: F401
from tests.report.browser import Page
from tests.report.pages import figures_of, in_browser, open_whole, unpacked

from spdelaw.paper.reproduce import tables, write_page
from spdelaw.paper.reproduce._answers import answers
from spdelaw.paper.reproduce._sheets import name_of, sheets

FIGURES = {"errors-b", "moments-b", "spectra-b"}
COMMITTED = Path(__file__).parents[2] / "docs" / "reproduce"


@pytest.fixture(scope="module")
def page(records):  # noqa: F811
    found, _, out = records
    return write_page(out, found, "the <command>")


@pytest.fixture
def rows():
    """Rows of the full run that is part of the documentation."""
    return json.loads((COMMITTED / "full" / "tables.json").read_text())["regimes"]


def test_the_page_has_every_cell_of_the_tables_and_every_run(page, records):  # noqa: F811
    text = page.read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    for sheet in sheets(tables(records[0])["b"]):
        cells = {cell for lines in sheet.groups.values() for line in lines for cell in line}
        assert all(f">{cell.replace(chr(39), '&#x27;')}<" in text for cell in cells)
    assert all(f">{record['name']}<" in text for record in records[0])
    assert "the &lt;command&gt;" in text
    assert "2 of 1000 epochs" in text


def test_figures_show_the_records(page, records):  # noqa: F811
    found = {figure["name"]: figure for figure in figures_of(page)}
    assert set(found) == FIGURES
    points = {
        (name, x)
        for trace in found["errors-b"]["data"]
        for name, x in zip(trace["y"], trace["x"], strict=True)
    }
    assert ("FNO, noise hidden †", 0.4783) in points  # the paper's
    for row in tables(records[0])["b"]:
        assert (name_of(row), np.mean(row["relative_l2"])) in points
    variance = next(t for t in found["moments-b"]["data"] if t.get("name") == "exact")
    curves = [r["curves"]["averaged_variance"] for r in records[0] if r["entry"] == "exact"]
    np.testing.assert_allclose(unpacked(variance["y"]), np.mean(curves, axis=0), rtol=1e-6)


def test_answers_follow_the_numbers(rows):
    reached, hidden, law = answers(rows)
    assert reached.short == "In Regime A, not in Regime B"
    assert (hidden.short, hidden.mood) == ("The mean path, and no more", "good")
    assert law.short == "3 of 6"
    assert "exact" in law.sentences[1]
    assert "tail dropped" in law.sentences[2]


def test_answers_change_with_the_numbers(rows):
    changed = copy.deepcopy(rows)
    for row in (row for own in changed.values() for row in own):
        row["shortened"] = ["30 of 640 epochs"] if row["entry"] == "amortized-paper" else []
        if row["entry"] == "fno-hidden":
            row["relative_l2"] = [0.7]
        if row["kl_per_path"]:
            row["kl_per_path"] = [0.9 * row["kl_limit"]]
    reached, hidden, law = answers(changed)
    assert reached.short.startswith("Not settled")
    assert hidden.mood == "fair"
    assert "FNO, noise hidden (Regime B) by +0.2" in hidden.sentences[1]
    assert (law.short, law.mood) == ("6 of 6", "good")
    for error, expected in ((0.2, "No"), (0.05, "Yes")):
        for row in (row for own in changed.values() for row in own):
            if row["entry"] == "amortized-paper":
                row |= {"relative_l2": [error], "shortened": []}
        assert answers(changed)[0].short == expected


def test_what_was_not_run_is_not_answered(rows):
    assert answers({}) == []
    only_limits = {"b": [row for row in rows["b"] if row["kind"] == "reference"]}
    assert answers(only_limits) == []


def test_a_page_of_one_kind_of_run(records, tmp_path):  # noqa: F811
    """Limits alone, or systems without a law, still make a page."""
    for entry, figures in (("limits", {"errors-b"}), ("fno-hidden", {"errors-b"})):
        some = [r for r in records[0] if r["entry"] == entry]
        written = write_page(tmp_path, some, "the command")
        assert {figure["name"] for figure in figures_of(written)} == figures


@in_browser
def test_page_loads_alone_and_draws_every_figure(page, tmp_path):
    browser = Page(tmp_path / "profile")
    try:
        open_whole(browser, page, FIGURES)
    finally:
        browser.close()

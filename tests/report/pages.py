"""What the tests of the report look for in a page."""

import base64
import json
import re

import numpy as np
import pytest
from tests.report.browser import PROGRAM

in_browser = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")
FIGURES = {
    "spectra",
    "modes",
    "fields",
    "samples",
    "forecast",
    "moments",
    "innovations",
    "coverage",
}
#: Name, marks, width and scroll width of every plot.
DRAWN = """[...document.querySelectorAll('.plot')].map(plot => [
    plot.id.slice(5), plot.querySelectorAll('.trace, .hm').length, plot.clientWidth,
    plot.scrollWidth])"""


def figures_of(file) -> list[dict]:
    found = re.search(
        r'<script type="application/json" id="figures">(.*?)</script>', file.read_text(), re.DOTALL
    )
    return json.loads(found[1])


def open_whole(browser, page, figures=FIGURES) -> None:
    """Open a page that loads alone, without a complaint, and draws every figure."""
    browser.media()
    browser.open(page)
    assert browser.complaints() == []
    assert browser.requests() == []
    drawn = browser.run(DRAWN)
    assert {name for name, *_ in drawn} == figures
    assert all(marks > 0 and width > 300 for _, marks, width, _ in drawn), drawn


def unpacked(document) -> np.ndarray:
    """Array that `packed` wrote."""
    shape = [int(n) for n in document["shape"].split(",")]
    return np.frombuffer(base64.b64decode(document["bdata"]), "<f4").reshape(shape)

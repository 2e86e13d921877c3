"""What a newcomer meets first: completion, help, and objects in a notebook."""

import pydoc
import re
import textwrap
from html.parser import HTMLParser

import numpy as np
import pytest

import spdelaw as sl

#: Lines and columns of a small window.
SCREEN = (32, 100)
INTERVAL = sl.Interval(0, np.pi)


@pytest.fixture(scope="module")
def law():
    return sl.fit(sl.simulate(sl.catalogue.heat(n_modes=2), 20, seed=0), INTERVAL, 2)


def test_completion_shows_public_names_alone(law):
    assert dir(sl) == sorted(sl.__all__)
    for module in (sl.catalogue, sl.datasets, sl.report):
        assert dir(module) == sorted(module.__all__)
    shown = dir(law)
    assert {"parameters", "forecast", "reconstruct", "plot", "save"} <= set(shown)
    assert [name for name in shown if name.startswith("_")] == []
    assert [name for name in shown if not hasattr(law, name)] == []
    assert [name for name in dir(INTERVAL) if name.startswith("_")] == []
    assert {"analyse", "eigenvalues", "grid"} <= set(dir(INTERVAL))


def test_help_of_fit_fits_a_screen():
    text = pydoc.render_doc(sl.fit, renderer=pydoc.plaintext)
    # Python 3.13 writes a line for each argument.
    text = re.sub(
        r"\(\n.*?\n\)", lambda found: " ".join(found[0].split()), text, count=1, flags=re.S
    )
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, SCREEN[1]) or [""]]
    assert len(lines) <= SCREEN[0], "\n".join(lines)
    for name in ("spdelaw.Model", "spdelaw.Exact", "spdelaw.Preparation", "spdelaw.Law"):
        assert name in text


class Cells(HTMLParser):
    """Tags that are open, and the text of all cells."""

    def __init__(self, page):
        super().__init__()
        self.open, self.cells = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("td", "th"):
            self.cells.append(data)


GRAPH = sl.Graph(np.ones((4, 4)) - np.eye(4), n_modes=3)


@pytest.mark.parametrize(
    "domain",
    [INTERVAL, sl.Line(), sl.Box((0, 1), (0, 2)), sl.Disk(), sl.Sphere(), sl.Plane(), GRAPH],
    ids=lambda domain: domain.name,
)
def test_domain_in_a_notebook(domain):
    page = Cells(domain._repr_html_())
    assert page.open == []
    n = min(6, domain.most_modes or 6)
    shown = page.cells[page.cells.index("eigenvalue") + 1 :]
    np.testing.assert_allclose([float(x) for x in shown], domain.eigenvalues(n), rtol=1e-5)


@pytest.mark.parametrize("equation", [sl.catalogue.heat(n_modes=8), sl.catalogue.allen_cahn()])
def test_equation_in_a_notebook(equation):
    text = equation._repr_html_()
    page = Cells(text)
    linear = getattr(equation, "linear", equation)
    at = page.cells.index("lambda")
    rates = [float(x) for x in page.cells[at + 1 : at + 1 + min(6, linear.n_modes)]]
    np.testing.assert_allclose(rates, linear.eigenvalues[:6], rtol=1e-3)
    assert repr(equation).splitlines()[0].split(":")[0] in text

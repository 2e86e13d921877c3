"""The code on every page runs and prints what the page shows; the site builds and stands alone."""

import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks import collect_paper
from tests.report.browser import Page
from tests.report.pages import in_browser

import spdelaw

CHECKOUT = Path(__file__).resolve().parents[2]
FROM_NETWORK = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?:https?:)?//[^"]+"')
#: Pages that take 10 s or more; each topic has a shorter one that stays in `make test`.
LONG = {
    "sst-with-land.md",  # climate: ensemble.md, linear-inverse-models.md
    "equatorial-pacific.md",
    "stations.md",  # stations: quickstart.md, coming-from.md
    "filling-gaps.md",
    "fronts.md",  # semilinear laws: semilinear.md
    "how-to.md",  # how-to: larger-than-one-machine.md, extending.md
    "gallery.md",
    "shell.md",  # the shell: README.md, quickstart.md
}
PAGES = [
    pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name in LONG else [])
    for page in sorted([*CHECKOUT.glob("docs/*.md"), CHECKOUT / "README.md"])
]


def hook(name: str):
    """A module of docs/_hooks, which is no package."""
    spec = importlib.util.spec_from_file_location(
        f"docs_hook_{name}", CHECKOUT / "docs" / "_hooks" / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


execute, math = hook("execute"), hook("math")


# ------------------------------------------------------------------ the pages


@pytest.mark.parametrize("page", PAGES)
def test_code_on_the_page_runs_and_prints_what_is_shown(page, tmp_path):
    execute.run_page(page.read_text(encoding="utf-8"), page.name, tmp_path)


def test_quickstart_is_not_empty():
    blocks = execute.blocks((CHECKOUT / "docs" / "quickstart.md").read_text(encoding="utf-8"))
    assert sum(block.language == "python" for block in blocks) >= 8
    assert sum(block.output is not None for block in blocks) >= 8


GLOSSARY = (CHECKOUT / "docs/conventions.md").read_text("utf-8").split("## Glossary\n")[1]
DOTTED = re.findall(r"`([A-Za-z]+\.[A-Za-z_]+)`", GLOSSARY)


def test_names_in_the_glossary_exist():
    assert len(DOTTED) > 20
    for name in {*DOTTED}:
        owner, member = name.split(".")
        if owner[0].isupper():
            cls = getattr(spdelaw, owner)
            assert hasattr(cls, member) or member in cls.__dataclass_fields__, name
        else:
            place = "spdelaw.processes.catalogue" if owner == "catalogue" else f"spdelaw.{owner}"
            assert hasattr(importlib.import_module(place), member), name


def test_reference_has_every_public_name():
    pages = sorted((CHECKOUT / "docs/reference").glob("*.md"))
    reference = "".join(page.read_text("utf-8") for page in pages)
    listed = set(re.findall(r"::: spdelaw\.(?:\w+\.)*(\w+)", reference))
    members = {
        name for row in re.findall(r"members: \[(.*)\]", reference) for name in row.split(", ")
    }
    modules = {"catalogue", "datasets", "report", "__version__"}
    folders = (spdelaw.report, spdelaw.datasets, importlib.import_module("spdelaw.testing"))
    functions = {name for folder in folders for name in folder.__all__} - {"NAMES"}
    assert {*spdelaw.__all__, *functions} - modules - listed == set()
    catalogue = {name for name in spdelaw.catalogue.__all__ if name.islower()}
    law = {name for name in dir(spdelaw.Law) if not name.startswith("_")} - {"bare"}  # deprecated
    assert (catalogue | law) - members == set()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    run = subprocess.run(
        build, cwd=CHECKOUT, env=quiet, capture_output=True, text=True, timeout=900
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "WARNING" not in run.stderr
    return folder


@pytest.mark.slow  # builds the site, which runs every page once more
def test_site_stands_alone(site):
    theory = (site / "theory.html").read_text(encoding="utf-8")
    assert theory.count("<math ") > 40
    assert "arithmatex" not in theory
    assert "<svg" in (site / "quickstart.svg").read_text(encoding="utf-8")
    for page in site.glob("*.html"):
        assert FROM_NETWORK.findall(page.read_text(encoding="utf-8")) == [], page.name


@pytest.mark.slow
@in_browser
def test_search_works_from_the_file_system(site, tmp_path):
    """As a reader does: the page is opened as a file, words are typed, a hit is there."""
    page = Page(tmp_path)
    try:
        page.open(site / "index.html", "document.readyState === 'complete'")
        hits = "[...document.querySelectorAll('.md-search-result__item a')].map(a => a.href)"
        addresses = []
        for turn in range(300):
            if turn % 20 == 0:  # words that were typed before the script was ready are lost
                page.run("document.querySelector('.md-search__input').blur()")
                page.run("document.querySelector('.md-search__input').focus()")
                page.run("document.querySelector('.md-search__input').select()")
                page.call("Input.insertText", text="irregular times")
            if addresses := page.run(hits):
                break
            time.sleep(0.2)
        assert any("how-to.html" in address for address in addresses)
        assert page.complaints() == []
        assert page.requests() == []
    finally:
        page.close()


# ------------------------------------------------------------------ the mechanism itself

PAGE = """
```python
x = 1
```

```python
print(x + 1, "a   b")
```

```text
2 a b
```

<!-- not run -->
```python
raise SystemExit
```

```sh
pip install something
```
"""


def test_blocks_share_a_namespace_and_check_their_output(tmp_path):
    execute.run_page(PAGE, "page.md", tmp_path)
    assert [block.line for block in execute.blocks(PAGE)] == [3, 7, 20]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2 a b", "3 a b", r"page\.md:7 shows\n3 a b"),
        ("x = 1", "raise ValueError('no')", r"page\.md:3 fails\n(?s:.*)ValueError: no"),
        ("pip install something", "spdelaw no-such-command", r"page\.md:20 .* exits with 2"),
    ],
)
def test_a_page_that_lies_is_named(tmp_path, old, new, message):
    with pytest.raises(execute.PageError, match=message):
        execute.run_page(PAGE.replace(old, new), "page.md", tmp_path)


def test_formulas_become_mathml():
    page = r'<p><span class="arithmatex">\(a &lt; b\)</span></p>'
    html = math.on_page_content(page)
    assert html.startswith('<p><math xmlns="http://www.w3.org/1998/Math/MathML" display="inline">')
    assert "arithmatex" not in html
    page = '<div class="arithmatex">\\[\nx^2\n\\]</div>'
    assert math.on_page_content(page).startswith('<div class="formula"><math')


@pytest.mark.parametrize("latex", [r"\nosuchcommand x", r"\left( x"])
def test_formula_that_cannot_be_converted_is_an_error(latex):
    with pytest.raises(math.PluginError, match="formula"):
        math.to_mathml(latex, "inline")


def test_table_of_the_readme_is_that_of_the_committed_run():
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    run = json.loads((CHECKOUT / "docs/reproduce/full/tables.json").read_text(encoding="utf-8"))
    assert collect_paper.with_table(readme, run) == readme
    table = readme.split(collect_paper.START)[1].split(collect_paper.END)[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + len(collect_paper.HEADLINE) == 7
    results = [row for regime in run["regimes"].values() for row in regime]
    assert not any(row["shortened"] for row in results)


def test_the_variance_of_an_older_record_follows_from_its_lambda_and_q():
    """It lacks the observation noise alone, which this record has."""
    path = CHECKOUT / "docs/reproduce/full/records/a-amortized-paper-0.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    stored = np.array(record["curves"].pop("averaged_variance"))
    network, domain = record["network"], spdelaw.Line()
    weights = domain.grid_weights(np.array(network["x"])) / domain.volume
    noise = weights @ np.array(network["observation_std"]) ** 2
    computed = collect_paper.completed(record)["curves"]["averaged_variance"]
    np.testing.assert_allclose(computed, stored - noise, rtol=1e-6, atol=1e-9)


def test_committed_records_are_those_of_the_committed_tables():
    folder = CHECKOUT / "docs/reproduce/full"
    run = json.loads((folder / "tables.json").read_text(encoding="utf-8"))
    rows = [
        (regime, row)
        for regime, rows in run["regimes"].items()
        for row in rows
        if row["kind"] == "predictor"
    ]
    for regime, row in rows:
        records = [
            json.loads(file.read_text(encoding="utf-8"))
            for file in sorted((folder / "records").glob(f"{regime}-{row['entry']}-?.json"))
        ]
        assert [r["seed"] for r in records] == row["seeds"]
        starts = [r["initialisation"] for r in records]
        assert [start for start in starts if start is not None] == row["initialisations"]
        score = "predict" if row["task"] == "observed" else row["task"]
        assert [r["scores"][score]["rmse"] for r in records] == row["rmse"]

"""The notebooks in ``examples/`` run from the first to the last cell, stored without outputs."""

import ast
import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.ipynb"))


def cells(path):
    """Code of a notebook, a text per cell."""
    document = json.loads(path.read_text("utf-8"))
    return [c for c in document["cells"] if c["cell_type"] == "code"]


def test_there_is_one_for_each_field():
    assert [path.stem for path in NOTEBOOKS] == ["climate", "spde_research", "stations"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stripped_and_cells_are_python(path):
    for cell in cells(path):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
        ast.parse("".join(cell["source"]))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path, monkeypatch):
    """As Jupyter runs it: one namespace; the last expression of a cell is shown."""
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for cell in cells(path):
        body = ast.parse("".join(cell["source"])).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), path.name, "exec"), namespace)
        if last is None:
            continue
        shown = eval(compile(ast.Expression(last.value), path.name, "eval"), namespace)
        if shown is not None:
            html = getattr(shown, "_repr_html_", shown.__repr__)()
            assert html

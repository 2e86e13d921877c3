"""The paper is a user of the package: it imports no private name, and lists what it needs."""

import ast
from pathlib import Path

import paper
import spdelaw as sl

ROOT = Path(paper.__file__).parent
#: Modules whose names are public: ``sl.errors`` and ``sl.report``.
PUBLIC = ("spdelaw", "spdelaw.errors", "spdelaw.report")


def imports(source):
    """Module and name of every import of the package; the name is '' for a whole module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            pairs = [(node.module or "", alias.name) for alias in node.names]
        else:
            pairs = [(a.name, "") for a in node.names] if isinstance(node, ast.Import) else []
        yield from (pair for pair in pairs if pair[0].split(".")[0] == "spdelaw")


def private(pairs):
    return [pair for pair in pairs if "._" in ".".join(pair)]


def test_the_paper_imports_public_names_and_lists_the_others():
    pairs = {pair for file in ROOT.rglob("*.py") for pair in imports(file.read_text("utf-8"))}
    assert private(pairs) == []
    assert {name for module, name in pairs if module == "spdelaw"} <= {"", *sl.__all__}
    listed = {(module, name) for module, names in paper.BEYOND_PUBLIC.items() for name in names}
    assert {pair for pair in pairs if pair[0] not in PUBLIC} == listed


def test_a_private_import_is_detected():
    source = "from spdelaw.law._clock import x\nimport spdelaw.report._style\n"
    assert len(private(imports(source + "from spdelaw.law import _clock, Law"))) == 3

"""The paper is a user of the package: it imports public names only."""

import ast
from pathlib import Path

import pytest

import spdelaw.paper

ROOT = Path(spdelaw.paper.__file__).parent


def private_imports(source: str, folder: str) -> list[str]:
    """Modules with an underscore that are not of the folder itself."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found += [
            name for name in names
            if "._" in name and name.startswith("spdelaw.") and not name.startswith(f"{folder}._")
        ]  # fmt: skip
    return found


@pytest.mark.parametrize("file", sorted(ROOT.rglob("*.py")), ids=lambda f: f.stem)
def test_the_paper_imports_public_names_only(file):
    folder = ".".join(("spdelaw", "paper", *file.relative_to(ROOT).parts[:-1]))
    assert private_imports(file.read_text(encoding="utf-8"), folder) == []


def test_a_private_import_is_seen():
    source = "from spdelaw.law._clock import own_clock\nimport spdelaw.report._style\n"
    assert len(private_imports(source, "spdelaw.paper")) == 2
    assert private_imports("from spdelaw.paper.demo._laws import learn", "spdelaw.paper.demo") == []

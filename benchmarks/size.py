"""How large the package is, how it is spread over files, and what a fit walks through.

    python -m benchmarks.size                 # tables in Markdown
    python -m benchmarks.size --json FILE     # and as JSON
    python -m benchmarks.size --write         # and into results/size.json and the docs

Folders are discovered, so that the tables stay valid where code moves. Code lines are lines that
are neither empty, comment nor docstring. ``results/size.json`` holds the last run under "now" and
the first one ever recorded under "before". Functions that count as maximisations are listed in
`benchmarks._walks.OPTIMISERS`.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import statistics
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._size_page import ability_rows, write_page
from benchmarks._walks import FITS, SOURCE, WALKS, trace_apart

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "size.json"
#: Local variables whose names do not say what they hold.
VAGUE = ("found", "own", "known", "seen", "told", "wanted", "asked")
#: The other words that the design note avoids.
AVOIDED = ("door", "room", "place", "said", "sight", "bend", "height", "quiet", "beside",
           "entered", "undriven", "rest")  # fmt: skip
#: Tokens that make no line of code.
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
          tokenize.ENDMARKER}  # fmt: skip
Table = list[dict[str, Any]]


class Module(NamedTuple):
    """Counts of one file."""

    code: int
    imports: int
    names: list[tuple[str, str]]
    exported: int


def main() -> int:
    """Print the tables, and write them with --write."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables as JSON")
    parser.add_argument("--write", action="store_true", help="write the results and the page")
    options = parser.parse_args()
    report = measure()
    print(as_markdown(report))
    if options.json:
        options.json.write_text(as_json(report), encoding="utf-8")
    if options.write:
        before = json.loads(RESULTS.read_text())["before"] if RESULTS.exists() else report
        RESULTS.write_text(as_json({"before": before, "now": report}), encoding="utf-8")
        write_page(before, report)
    return 0


def measure() -> dict[str, Any]:
    """All counts, by table."""
    modules = {path: read_module(path) for path in sorted(SOURCE.rglob("*.py"))}
    folders = {folder: _modules_in(folder, modules) for folder in sorted(_folders(modules))}
    rows = [folder_row(_name(folder), list(inside.values())) for folder, inside in folders.items()]
    return {
        "commit": commit(),
        "folders": rows,
        "package": package_row(modules, rows),
        "abilities": ability_rows(
            {path.relative_to(SOURCE).as_posix(): module.code for path, module in modules.items()}
        ),
        "names": [name_row(_name(f), list(inside.values())) for f, inside in folders.items()],
        "words": word_rows(list(modules.values())),
        "other code": [other_row(folder) for folder in other_folders()],
        "walks": [{"walk": name, **trace_apart(name)} for name in WALKS],
        "maximisations": [
            {"gappy fit": name, "maximisations": trace_apart(name)["maximisations"]}
            for name in FITS
        ],
    }


# -- one file ------------------------------------------------------------------------------


def read_module(path: Path) -> Module:
    """Counts of one file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    code = code_lines(text, tree)
    bound = BoundNames()
    bound.visit(tree)
    return Module(len(code), len(code & import_lines(tree)), bound.names, exported_names(tree))


def code_lines(text: str, tree: ast.Module) -> set[int]:
    """Lines that are neither empty, comment nor docstring."""
    docstrings = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in _span(node)
    }
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    used = {
        line
        for token in tokens
        if token.type not in SILENT
        for line in range(token.start[0], token.end[0] + 1)
    }
    return used - docstrings


def import_lines(tree: ast.Module) -> set[int]:
    """Lines of imports and of ``__all__``."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_all(node)
        for line in _span(node)
    }


def exported_names(tree: ast.Module) -> int:
    """Number of names in a literal ``__all__``, or imported as themselves: ``import X as X``."""
    lists = [node.value for node in tree.body if _is_all(node)]
    listed = sum(len(value.elts) for value in lists if isinstance(value, ast.List | ast.Tuple))
    imported = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return listed + sum(alias.name == alias.asname for node in imported for alias in node.names)


def _is_all(node: ast.AST) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def _span(node: Any) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


class BoundNames(ast.NodeVisitor):
    """Names that functions bind, as pairs of the function's qualified name and the local name.

    A name is bound by assignment in any form, as target of ``for``, ``with`` and comprehensions,
    by ``:=`` and as parameter. What classes and modules bind is no local variable.
    """

    def __init__(self) -> None:
        self.scopes: list[ast.AST] = []
        self.names: list[tuple[str, str]] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Enter a function; its parameters belong to it."""
        self._visit_scope(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """Enter a function; its parameters belong to it."""
        self._visit_scope(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Enter a lambda."""
        self._visit_scope(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Enter a class, whose attributes are no local variables."""
        self._visit_scope(node)

    def visit_arg(self, node: ast.arg) -> None:
        """Take down a parameter."""
        self._bind(node.arg)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        """Take down a name that is assigned to."""
        if isinstance(node.ctx, ast.Store):
            self._bind(node.id)

    def _visit_scope(self, node: ast.AST) -> None:
        self.scopes.append(node)
        self.generic_visit(node)
        self.scopes.pop()

    def _bind(self, name: str) -> None:
        if self.scopes and not isinstance(self.scopes[-1], ast.ClassDef):
            path = ".".join(f"{getattr(s, 'name', '<lambda>')}:{s.lineno}" for s in self.scopes)  # type: ignore[attr-defined]
            self.names.append((path, name))


# -- folders -------------------------------------------------------------------------------


def _folders(modules: dict[Path, Module]) -> set[Path]:
    return {path.parent for path in modules}


def _modules_in(folder: Path, modules: dict[Path, Module]) -> dict[Path, Module]:
    return {path: module for path, module in modules.items() if path.parent == folder}


def _name(folder: Path) -> str:
    return folder.relative_to(SOURCE.parent).as_posix()


def folder_row(name: str, modules: list[Module]) -> dict[str, Any]:
    """Sizes of the files of a folder, without those of its sub-folders."""
    sizes, imports = [m.code for m in modules], sum(m.imports for m in modules)
    return {
        "folder": name,
        "files": len(sizes),
        "code lines": sum(sizes),
        "import lines": imports,
        "import %": round(100 * imports / max(sum(sizes), 1), 1),
        "largest": max(sizes),
        "median": round(statistics.median(sizes)),
    }


def package_row(modules: dict[Path, Module], rows: Table) -> dict[str, Any]:
    """Totals of the package."""
    fullest = max(rows, key=lambda row: row["files"])
    return {
        **folder_row("all", list(modules.values())),
        "most files in one folder": f"{fullest['files']} ({fullest['folder']})",
        "names exported by sub-packages": sum(
            module.exported
            for path, module in modules.items()
            if path.name == "__init__.py" and path.parent != SOURCE
        ),
    }


def name_row(folder: str, modules: list[Module]) -> dict[str, Any]:
    """Bindings of vague local names in a folder, by name, and in how many functions."""
    counts = Counter(name for module in modules for _, name in module.names)
    return {
        "folder": folder,
        **{name: counts[name] for name in VAGUE},
        "bindings": sum(counts[name] for name in VAGUE),
        "(function, name) pairs": _pairs(modules, VAGUE),
    }


def word_rows(modules: list[Module]) -> Table:
    """Bindings and pairs of every word that is avoided."""
    counts = Counter(name for module in modules for _, name in module.names)
    return [
        {
            "local name": word,
            "bindings": counts[word],
            "(function, name) pairs": _pairs(modules, (word,)),
        }
        for word in (*VAGUE, *AVOIDED)
    ]


def _pairs(modules: list[Module], words: tuple[str, ...]) -> int:
    return sum(len({pair for pair in m.names if pair[1] in words}) for m in modules)


def other_folders() -> list[Path]:
    """Folders next to the sources that hold Python files: tests, benchmarks and what else."""
    visible = (f for f in sorted(ROOT.iterdir()) if f.is_dir() and not f.name.startswith("."))
    return [f for f in visible if f.name != SOURCE.parent.name and any(f.rglob("*.py"))]


def other_row(folder: Path) -> dict[str, Any]:
    """Size of a folder, sub-folders included."""
    sizes = [read_module(path).code for path in folder.rglob("*.py")]
    return {"folder": folder.name, "files": len(sizes), "code lines": sum(sizes)}


def commit() -> str:
    """Short hash of the commit; "+" where the sources differ from it."""
    short = _git("rev-parse", "--short", "HEAD")
    return short + ("+" if _git("status", "--porcelain", "--", "src", "tests") else "")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


# -- output --------------------------------------------------------------------------------


def as_markdown(report: dict[str, Any]) -> str:
    """All tables."""
    package = report["package"]
    totals = [{"what": key, "value": value} for key, value in package.items() if key != "folder"]
    names = [*report["names"], _sum_row(report["names"])]
    sections = {
        f"Size at {report['commit']}": [*report["folders"]],
        "The package": totals,
        "Local names by folder": [row for row in names if row["bindings"]],
        "Local names by word": report["words"],
        "Other code": report["other code"],
        "Walks": [
            {key: value for key, value in row.items() if key != "maximisations"}
            for row in report["walks"]
        ],
        "Maximisations": report["maximisations"],
    }
    return "\n\n".join(f"## {title}\n\n{_table(rows)}" for title, rows in sections.items())


def _sum_row(rows: Table) -> dict[str, Any]:
    counts = {key: sum(row[key] for row in rows) for key in rows[0] if key != "folder"}
    return {"folder": "all", **counts}


def _table(rows: Table) -> str:
    head = list(rows[0])
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    lines += ["| " + " | ".join(_cell(row[key]) for key in head) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def as_json(report: dict[str, Any]) -> str:
    """JSON with one row of a table per line."""
    text = json.dumps(report, indent=1)
    rows = re.sub(r"\{[^{}]*\}", lambda row: " ".join(row[0].split()), text)
    return rows + "\n"


if __name__ == "__main__":
    sys.exit(main())

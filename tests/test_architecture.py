"""The import order of the package and a few things its source must never hold."""

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "spdelaw"
SOURCE = Path(__file__).resolve().parents[1] / "src" / PACKAGE

# Each stage may import itself and the ones before it.
ORDER = (
    *("_version", "errors", "checks", "domains", "processes", "data", "statespace", "chaos"),
    *("law", "infer", "amortized", "evaluation", "report", "cli"),
)
RANK = {stage: rank for rank, stage in enumerate(ORDER)}
RANK |= {"datasets": RANK["data"]}
FREE = {"__init__", "__main__", "_moved", "_public", "testing"}  # may import anything
ROOT_NAMES = {"__version__"}  # what a stage may take from the package itself
#: What no import of the package may load. SciPy loads its parts when they are used if they are
#: written as ``import scipy`` and ``scipy.special.ndtri(...)``.
HEAVY = (
    *("torch", "numba", "matplotlib", "plotly", "zarr", "dask", "h5py", "pydantic", "typer"),
    *(
        f"scipy.{part}"
        for part in ["fft", "linalg", "optimize", "sparse", "spatial", "special", "stats"]
    ),
)


# ------------------------------------------------------------------ the checkers


def modules(root: Path) -> Iterator[tuple[Path, tuple[str, ...], ast.Module]]:
    """Every file of the package below ``root``: path, dotted parts, syntax tree."""
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        yield path, parts, parsed(path.read_text(encoding="utf-8"), str(path))


@functools.cache
def parsed(source: str, file: str) -> ast.Module:
    """Syntax tree, once for all checkers."""
    return ast.parse(source, filename=file)


def imported(node: ast.AST, parts: tuple[str, ...]) -> Iterator[str]:
    """First name below the package that ``node`` imports; '' for the package itself."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top, _, rest = alias.name.partition(".")
            if top == PACKAGE:
                yield rest.partition(".")[0]
    elif isinstance(node, ast.ImportFrom):
        target = (node.module or "").split(".") if node.module else []
        if node.level:  # a package's __init__ counts as one of its modules
            target = [PACKAGE, *parts[: len(parts) - node.level], *target]
        if target[0] != PACKAGE:
            return
        if len(target) > 1:
            yield target[1]
        else:
            yield from (alias.name for alias in node.names)


def order_violations(root: Path) -> list[str]:
    """Imports that go against the order, one line each."""
    found = []
    for path, parts, tree in modules(root):
        stage, where = parts[0], path.relative_to(root)
        if stage in FREE:
            continue
        if stage not in RANK:
            found.append(f"{where}: '{stage}' has no place in the order {', '.join(ORDER)}")
            continue
        for node in ast.walk(tree):
            for name in imported(node, parts):
                line = f"{where}:{node.lineno}: "
                if name in RANK and RANK[name] > RANK[stage]:
                    found.append(line + f"'{stage}' must not import from '{name}', a later stage")
                elif name not in RANK and name not in ROOT_NAMES:
                    shown = f"{PACKAGE}.{name}" if name else PACKAGE
                    found.append(line + f"'{stage}' imports '{shown}', not one of the stages")
    return found


def private_imports(root: Path) -> list[str]:
    """Imports of a private module or name of another room, one line each."""
    found = []
    for path, parts, tree in modules(root):
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
                continue
            top, *rest = [*node.module.split("."), *(alias.name for alias in node.names)]
            if top != PACKAGE or rest[0] == parts[0] or len(rest) < 2:
                continue
            if any(name.startswith("_") and not name.startswith("__") for name in rest[1:]):
                where = f"{path.relative_to(root)}:{node.lineno}"
                found.append(f"{where}: {node.module} is private to '{rest[0]}'")
    return found


def content_violations(root: Path) -> list[str]:
    """``assert`` outside testing, pickle, ``torch.load``: one line each."""
    found = []
    for path, parts, tree in modules(root):
        for node in ast.walk(tree):
            line = f"{path.relative_to(root)}:{getattr(node, 'lineno', 0)}: "
            if isinstance(node, ast.Assert) and parts[0] != "testing":
                found.append(line + "assert: raise an error of spdelaw.errors instead")
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                module = node.module or ""
                names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                names = [f"{node.value.id}.{node.attr}"]
            for name in names:
                if name.split(".")[0] in {"pickle", "cloudpickle", "dill", "joblib"}:
                    found.append(line + f"{name}: a pickle runs code when it is read")
                elif name == "torch.load":
                    found.append(line + "torch.load: a pickle runs code when it is read")
    return found


def heavy_imports(statement: str) -> list[str]:
    """Heavy packages that a fresh interpreter has loaded after ``statement``."""
    code = f"{statement}\nimport sys\nprint(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return run.stdout.split()


# ------------------------------------------------------------------ the package


def test_each_stage_imports_only_from_the_ones_above_it():
    assert order_violations(SOURCE) == []


def test_no_room_imports_what_is_private_to_another():
    assert private_imports(SOURCE) == []


def test_private_imports_are_seen(tree):
    root = tree(
        {
            "law/a.py": "from spdelaw.data._clock import now",
            "law/b.py": "from spdelaw.data import _clock",
            "law/c.py": "from spdelaw.law._a import thing\nfrom spdelaw.data import clock",
        }
    )
    assert [line.split(":")[0] for line in private_imports(root)] == ["law/a.py", "law/b.py"]


def test_no_assert_and_no_pickle_in_the_source():
    assert content_violations(SOURCE) == []


def test_import_loads_nothing_heavy():
    assert heavy_imports(f"from {PACKAGE} import fit") == []


def test_import_alone_loads_no_numbers():
    """Names are loaded when the first is used; the shell answers before that."""
    code = f"import sys, {PACKAGE}; print(*{{'numpy', 'xarray', 'scipy'}} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_public_names_are_found_listed_and_the_same():
    code = f"""
import {PACKAGE} as package
from {PACKAGE} import *
from {PACKAGE} import _public
assert set(_public.__all__) | {{"__version__"}} == set(package.__all__) <= set(dir(package))
assert all(getattr(package, name) is getattr(_public, name) for name in _public.__all__)
assert isinstance(package.Law.plot, property)
assert fit is package.fit and package.errors.InputError
try:
    package.nonsense
except AttributeError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == f"module '{PACKAGE}' has no attribute 'nonsense'\n"


def test_import_leaves_the_process_as_it_was():
    # SciPy adds warning filters of its own, so the dependencies come first.
    code = f"""
import logging, random, warnings
import numpy, scipy.optimize, scipy.sparse, scipy.special, scipy.stats, xarray

def state():
    return dict(
        filters=warnings.filters[:],
        logging=(logging.root.level, logging.root.handlers[:]),
        floating_point=numpy.geterr(),
        numpy_seed=numpy.random.get_state()[1].tolist(),
        python_seed=random.getstate(),
        xarray=repr(xarray.get_options()),
    )

before = state()
import {PACKAGE}; {PACKAGE}.fit
after = state()
print(*(key for key in before if before[key] != after[key]))
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert run.stdout.split() == []


# ------------------------------------------------------------------ the checkers themselves


@pytest.fixture
def tree(tmp_path):
    """Write a small package: ``tree({"domains/a.py": "import os"})`` gives its root."""

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / PACKAGE / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path / PACKAGE

    return write


@pytest.mark.parametrize(
    "statement",
    [
        "import spdelaw.law",
        "import spdelaw.law.thing as t",
        "from spdelaw.law import Law",
        "from spdelaw import law",
        "from ..law import Law",
        "from .. import law",
        "def later():\n    from spdelaw.law import Law",
        "import spdelaw",
        "from spdelaw import simulate_paths",
        "from spdelaw.testing import contract",
    ],
)
def test_order_checker_sees_every_form_of_import(tree, statement):
    (violation,) = order_violations(tree({"domains/a.py": statement}))
    assert violation.startswith("domains/a.py:")
    assert "'domains'" in violation


def test_order_checker_names_the_line(tree):
    root = tree({"data/__init__.py": "import os\n\nfrom ..cli import main\n"})
    expected = "data/__init__.py:3: 'data' must not import from 'cli', a later stage"
    assert order_violations(root) == [expected]


def test_order_checker_allows_what_is_allowed(tree):
    root = tree(
        {
            "__init__.py": "from spdelaw.cli import main",
            "errors.py": "import math",
            "law/a.py": "from spdelaw import __version__\nfrom spdelaw.errors import SpdeLawError",
            "law/b.py": "from . import a\nfrom .a import thing\nfrom ..data.io import read",
            "law/deep/c.py": "from .. import a\nfrom ...domains import Line",
            "datasets/__init__.py": "from spdelaw.data import read",
            "testing/contract.py": "from spdelaw.cli import main",
            "cli.py": "from spdelaw import law, domains",
        }
    )
    assert order_violations(root) == []


def test_order_checker_asks_for_a_place(tree):
    (violation,) = order_violations(tree({"utils.py": "import os"}))
    assert "'utils' has no place" in violation


@pytest.mark.parametrize(
    "statement",
    [
        "def f(x):\n    assert x",
        "import pickle",
        "from pickle import loads",
        "def f():\n    import cloudpickle",
        "import torch\ntorch.load('x')",
        "from torch import load",
    ],
)
def test_content_checker_sees(tree, statement):
    assert content_violations(tree({"law/a.py": statement}))


def test_content_checker_allows_assert_in_testing(tree):
    assert content_violations(tree({"testing/contract.py": "assert True"})) == []


def test_heavy_imports_are_seen():
    assert heavy_imports("import typer") == ["typer"]

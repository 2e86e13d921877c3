"""What the package declares agrees with itself."""

import ast
import os
import re
import shutil
import subprocess
import tomllib
from itertools import chain

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import spdelaw


@pytest.fixture(scope="module")
def project(checkout):
    """The table ``[project]`` of pyproject.toml."""
    return tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def pins(checkout):
    """Version by package, from constraints.txt."""
    lines = (checkout / "constraints.txt").read_text(encoding="utf-8").splitlines()
    rows = [re.fullmatch(r"([\w.-]+)==([\w.!]+)", x).groups() for x in lines if x[0] != "#"]
    return {canonicalize_name(name): version for name, version in rows}


def test_every_declared_package_has_a_tested_version_within_its_bounds(project, pins):
    declared = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    for requirement in map(Requirement, declared):
        if requirement.name != project["name"]:
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])
    assert pins["torch"] == "2.13.0"  # without a local build tag


def test_missing_extras_that_errors_name_can_be_installed(checkout, project):
    extras, calls = set(project["optional-dependencies"]), 0
    for path in chain((checkout / "src").rglob("*.py"), (checkout / "paper").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            # The check passes on what it was told; those who call it say which extra.
            if called in ("MissingExtraError", "optional") and path.name != "checks.py":
                extra = ast.literal_eval(node.args[-1])
                assert extra in extras, f"{path.name}:{node.lineno}"
                calls += 1
    assert calls > 5


def test_citation_has_the_version_of_the_package(checkout):
    citation = (checkout / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {spdelaw.__version__}\n" in citation


@pytest.mark.parametrize(
    ("python", "words"),
    [
        ("./python3.9", ("needs Python 3.11 or newer", "is Python 3.9.2")),
        ("no-such-python", ("'no-such-python' was not found",)),
    ],
)
def test_make_says_that_python_is_too_old_or_missing(checkout, tmp_path, python, words):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(checkout / name, tmp_path)
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2 && exit 0\nexit 1\n')
    old.chmod(0o755)
    clean = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    how = {"cwd": tmp_path, "env": clean, "capture_output": True, "text": True, "timeout": 60}
    run = subprocess.run(["make", "demo", f"PYTHON={python}"], check=False, **how)
    assert run.returncode != 0
    assert all(word in run.stderr for word in words)
    assert not (tmp_path / ".venv").exists()

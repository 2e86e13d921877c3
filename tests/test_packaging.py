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
    found = {}
    for line in lines:
        if not line.startswith("#"):
            name, version = re.fullmatch(r"([\w.-]+)==([\w.!]+)", line).groups()
            found[canonicalize_name(name)] = version
    return found


def test_every_declared_package_has_a_tested_version_within_its_bounds(project, pins):
    declared = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    for requirement in map(Requirement, declared):
        if requirement.name != project["name"]:
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])


def test_torch_is_pinned_without_a_local_build_tag(pins):
    assert pins["torch"] == "2.13.0"


def test_missing_extras_that_errors_name_can_be_installed(checkout, project):
    extras, found = set(project["optional-dependencies"]), 0
    for path in chain((checkout / "src").rglob("*.py"), (checkout / "paper").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            # The check passes on what it was told; those who call it say which extra.
            if called in ("MissingExtraError", "optional") and path.name != "checks.py":
                extra = ast.literal_eval(node.args[-1])
                assert extra in extras, f"{path.name}:{node.lineno}"
                found += 1
    assert found > 5


def test_citation_has_the_version_of_the_package(checkout):
    citation = (checkout / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {spdelaw.__version__}\n" in citation


def run_make(checkout, directory, python):
    """``make demo`` in an empty checkout with a chosen interpreter."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(checkout / name, directory)
    clean = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(
        ["make", "demo", f"PYTHON={python}"],
        cwd=directory,
        env=clean,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_make_says_that_python_is_too_old(checkout, tmp_path):
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2 && exit 0\nexit 1\n')
    old.chmod(0o755)
    run = run_make(checkout, tmp_path, old)
    assert run.returncode != 0
    assert "needs Python 3.11 or newer" in run.stderr
    assert "is Python 3.9.2" in run.stderr
    assert not (tmp_path / ".venv").exists()


def test_make_says_that_there_is_no_python(checkout, tmp_path):
    run = run_make(checkout, tmp_path, "no-such-python")
    assert run.returncode != 0
    assert "'no-such-python' was not found" in run.stderr

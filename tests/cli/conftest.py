"""The shell in one process (quick) and in its own (true exit codes and signals)."""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable

import pytest
from tests.cli.law_files import write_files
from typer.testing import CliRunner, Result

from spdelaw.cli.shell import app


def words(args: tuple[object, ...]) -> list[str]:
    """One text as a shell would cut it, and everything else as it is."""
    first, *rest = args
    return [*shlex.split(str(first)), *map(str, rest)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """The files and laws that many tests read, made once."""
    return write_files(tmp_path_factory.mktemp("files"))


@pytest.fixture
def stocked(files, folder):
    """A folder to work in that holds them all."""
    for path in files.iterdir():
        (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture
def run(folder) -> Callable[..., Result]:
    """Run a command that has to succeed."""

    def call(*args: object) -> Result:
        result = CliRunner().invoke(app, words(args))
        assert result.exit_code == 0, result.stderr or result.exception
        return result

    return call


@pytest.fixture
def run_json(run) -> Callable[..., dict]:
    """Run a command with --json: stdout is one document and stderr is empty."""

    def call(*args: object) -> dict:
        result = run(*args, "--json")
        assert result.stderr == ""
        return json.loads(result.stdout)

    return call


@pytest.fixture
def fails() -> Callable[..., str]:
    """Run a command that has to fail on bad input: one line on stderr, exit code 2."""

    def call(*args: object) -> str:
        result = CliRunner().invoke(app, words(args))
        assert result.exit_code == 2, (result.exit_code, result.output, result.exception)
        assert result.stdout == ""
        (line,) = result.stderr.splitlines()
        assert line.startswith("error: ")
        return line

    return call


@pytest.fixture
def shell(folder) -> Callable[..., subprocess.CompletedProcess]:
    """Run a command in a process of its own."""

    def call(*args: object) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "spdelaw", *words(args)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)

    return call

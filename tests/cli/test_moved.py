"""``spdelaw demo`` and ``spdelaw reproduce``: aliases of commands in the source repository."""

import json
import sys

import pytest
from typer.testing import CliRunner

from spdelaw.cli.shell import MOVED, app


@pytest.mark.parametrize("name", MOVED)
def test_an_alias_hands_its_arguments_over_and_warns(folder, name):
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert "--out" in result.stdout
    command = f"run `python -m paper {name}` or `make {name}`."
    assert result.stderr == f"warning: `spdelaw {name}` is deprecated: {command}\n"


def test_an_alias_runs(folder):
    result = CliRunner().invoke(app, ["reproduce", "--list", "--regime", "b", "--json"])
    assert json.loads(result.stdout)["command"] == "reproduce"


@pytest.mark.parametrize("name", MOVED)
def test_without_the_folder_there_is_one_error(fails, monkeypatch, name):
    for module in [key for key in sys.modules if key.split(".")[0] == "paper"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "paper", None)
    line = f"`spdelaw {name}` moved to the source repository: run `make {name}` in a checkout."
    assert fails(name, "--out", "anything") == f"error: {line}"


def test_aliases_are_not_in_the_help(run):
    text = run("--help").stdout
    assert all(f" {name} " not in text for name in MOVED)

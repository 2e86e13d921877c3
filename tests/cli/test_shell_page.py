"""The page about the shell names what there is: every command, and no option that is none."""

import re
from pathlib import Path

import typer

from spdelaw.cli import app

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "shell.md").read_text(encoding="utf-8")
COMMANDS = typer.main.get_command(app).commands


def test_table_lists_every_command():
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`([a-z]+)`", "".join(rows))) == set(COMMANDS)


def test_options_on_the_page_exist():
    known = {flag for command in COMMANDS.values() for p in command.params for flag in p.opts}
    known |= {flag for p in typer.main.get_command(app).params for flag in p.opts}
    named = set(re.findall(r"--[a-z][a-z-]*", PAGE))
    assert {"--domain", "--config", "--json"} <= named
    assert named <= known | {"--help"}


def test_options_in_the_example_of_a_file_exist():
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    names = {f"--{line.split(':')[0]}" for line in example.strip().splitlines()}
    assert names <= {flag for p in COMMANDS["fit"].params for flag in p.opts}


def test_every_command_takes_json_and_quiet():
    for name, command in COMMANDS.items():
        flags = {flag for p in command.params for flag in p.opts}
        assert {"--json", "--quiet"} <= flags, name

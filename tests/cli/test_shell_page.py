"""The page about the shell names what there is: every command, and no option that is none."""

import re
import runpy
from pathlib import Path

import typer

from spdelaw.cli import shell as shell_module
from spdelaw.cli.entry import INTERRUPTED
from spdelaw.cli.output import BAD_INPUT
from spdelaw.cli.shell import app

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "shell.md").read_text(encoding="utf-8")
COMMANDS = {name: shell_module.load_command(name) for name in shell_module.COMMANDS}


def reference() -> str:
    """The generated part of the page."""
    hook = Path(__file__).resolve().parents[2] / "docs" / "_hooks" / "commands.py"
    namespace = runpy.run_path(str(hook))
    return namespace["on_page_markdown"](PAGE)


def test_the_reference_has_every_command_and_every_option():
    sections = dict(
        section.split("\n", 1) for section in reference().split("\n## ") if "\n" in section
    )
    for name, command in COMMANDS.items():
        listed = set(re.findall(r"`(-[a-zA-Z-]+)`", sections[name]))
        flags = {flag for p in command.params for flag in (*p.opts, *p.secondary_opts)}
        assert {flag for flag in flags if flag.startswith("-")} - {"--help"} == listed, name
        assert command.help in sections[name]


def test_options_on_the_page_exist():
    flags = {flag for command in COMMANDS.values() for p in command.params for flag in p.opts}
    flags |= {flag for p in typer.main.get_command(app).params for flag in p.opts}
    named = set(re.findall(r"--[a-z][a-z-]*", PAGE))
    assert {"--domain", "--config", "--json"} <= named
    assert named <= flags | {"--help"}


def test_options_in_the_example_of_a_file_exist():
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    names = {f"--{line.split(':')[0]}" for line in example.strip().splitlines()}
    assert names <= {flag for p in COMMANDS["fit"].params for flag in p.opts}


def test_the_list_has_the_first_sentence_of_every_command():
    for name, command in COMMANDS.items():
        assert shell_module.COMMANDS[name] == command.help.split("\n\n")[0].replace("\n", " "), name


def test_exit_codes_of_the_page_are_those_of_the_shell():
    table = PAGE.split("## Exit codes")[1].split("##")[0]
    codes = {int(line.split("|")[1]) for line in table.splitlines() if re.match(r"\| \d", line)}
    assert codes == {0, 1, BAD_INPUT, INTERRUPTED, 128 + 13}  # 13: SIGPIPE

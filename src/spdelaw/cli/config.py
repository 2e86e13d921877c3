"""``--config``: options from a YAML file; errors name the line."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import typer
import yaml  # type: ignore[import-untyped]

from spdelaw.cli.values import regular_file
from spdelaw.errors import FileError, InputError

#: Key in a command's context: maps each option to its line in the file.
CONFIG_LINES = "spdelaw.config"
#: Options that a file may not set.
NOT_IN_FILE = ("config", "help", "file")
_TAG = "tag:yaml.org,2002:"


def load_config(file: Path, ctx: typer.Context) -> None:
    """Make the entries of a file the defaults of a command, each checked as an option is."""
    parameters = {
        str(p.opts[0]).lstrip("-"): p for p in ctx.command.params if p.name not in NOT_IN_FILE
    }
    values: dict[str, Any] = {}
    lines: dict[str, str] = {}
    for key, entry in _entries(file):
        position = f"{file}, line {key.start_mark.line + 1}"
        name = str(key.value).replace("_", "-")
        if not isinstance(key, yaml.ScalarNode) or name not in parameters:
            near = difflib.get_close_matches(name, parameters, 1)
            fix = f"did you mean {near[0]}?" if near else f"one of {', '.join(sorted(parameters))}"
            raise _error(position, "an option of the command", repr(key.value), fix)
        if f"--{name}" in lines:
            first = lines[f"--{name}"].split(", ")[-1]
            raise _error(position, f"{name} once", f"it on {first} too", "remove one")
        lines[f"--{name}"] = position
        parameter = parameters[name]
        values[str(parameter.name)] = _check_value(ctx, parameter, entry, position, name)
    ctx.default_map = {**(ctx.default_map or {}), **values}
    ctx.meta[CONFIG_LINES] = lines


def _entries(file: Path) -> list[tuple[Any, Any]]:
    """Keys and values of the file as YAML nodes, which know their lines."""
    try:
        text = regular_file(file).read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        position = f"{file}, line {mark.line + 1}, column {mark.column + 1}" if mark else str(file)
        problem = str(getattr(error, "problem", None) or error).splitlines()[0]
        raise _error(position, "YAML", problem, "correct this line") from error
    except RecursionError as error:
        raise _error(str(file), "a flat list of options", "deep nesting", "remove it") from error
    except (OSError, UnicodeDecodeError) as error:
        expected, got = "a regular YAML file", getattr(error, "got", f"{file}: {error}")
        raise FileError("--config", expected=expected, got=got, fix="check the file") from error
    if node is None:
        return []
    if not isinstance(node, yaml.MappingNode):
        position = f"{file}, line {node.start_mark.line + 1}"
        raise _error(position, "options as 'name: value'", node.id, "write modes: 8")
    return node.value


def _check_value(ctx: Any, parameter: Any, node: Any, position: str, name: str) -> Any:
    """The value, after the option has accepted it."""
    value = _plain_value(node, position, name)
    several = parameter.multiple or parameter.nargs != 1
    is_flag = getattr(parameter, "is_flag", False)
    fix = f"see spdelaw {ctx.info_name} --help"
    if isinstance(value, list) != several:
        expected = "a list such as [0, 1]" if several else "one value"
        raise _error(position, f"{expected} for {name}", repr(value), fix)
    if is_flag != isinstance(value, bool):
        expected = "true or false" if is_flag else "no true or false"
        raise _error(position, f"{expected} for {name}", repr(value), fix)
    try:
        parameter.process_value(ctx, value)
    except typer.BadParameter as error:
        got = f"{value!r}: {error.format_message()}"
        raise _error(position, f"a value for {name}", got, fix) from error
    return value


def _plain_value(node: Any, position: str, name: str) -> Any:
    """Text, true or false, or a list of text; options convert text themselves."""
    if isinstance(node, yaml.SequenceNode):
        return [_plain_value(entry, position, name) for entry in node.value]
    expected = f"a value for {name}"
    if not isinstance(node, yaml.ScalarNode):
        raise _error(position, expected, "nested options", "write each on its own line")
    if node.tag == _TAG + "null":
        raise _error(position, expected, "nothing", "remove the line, or give a value")
    is_bool = node.tag == _TAG + "bool"
    return node.value.lower() in ("true", "yes", "on") if is_bool else str(node.value)


def _error(position: str, expected: str, got: str, fix: str) -> InputError:
    return InputError(position, expected=expected, got=got, fix=fix)

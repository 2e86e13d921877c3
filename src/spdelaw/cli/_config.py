"""``--config``: options from a YAML file, wrong ones named with their line."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml  # type: ignore[import-untyped]

from spdelaw.errors import FileError, InputError, SpdeLawError

#: Key of the lines by option in the context of a command.
LINES = "spdelaw.config"
#: Options that a file may not set: they are about this very call.
NOT_IN_FILE = ("config", "help", "file")


def _load(ctx: typer.Context, file: Path | None) -> Path | None:
    if file is None or ctx.resilient_parsing:
        return file
    values, lines = _checked(ctx, file, _mapping(file))
    ctx.default_map = {**(ctx.default_map or {}), **values}
    ctx.meta[LINES] = {option: f"{file}, line {line}" for option, line in lines.items()}
    return file


Config = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", callback=_load, is_eager=True,
        help="YAML file with options by their long names; the command line overrules it.",
    ),
]  # fmt: skip


def _mapping(file: Path) -> Any:
    """Top node of the file, a mapping with scalar keys."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        expected, got = "a YAML file of text", f"{file}: {error}"
        raise FileError("--config", expected=expected, got=got, fix="check the name") from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}, line {mark.line + 1}, column {mark.column + 1}" if mark else str(file)
        problem = str(getattr(error, "problem", None) or error).splitlines()[0]
        raise _wrong(place, "YAML", problem, "mend this line") from error
    except RecursionError as error:
        raise _wrong(str(file), "a flat list of options", "deep nesting", "remove it") from error
    if node is None:
        return yaml.MappingNode("tag:yaml.org,2002:map", [])
    if not isinstance(node, yaml.MappingNode):
        line = node.start_mark.line + 1
        raise _wrong(f"{file}, line {line}", "options as 'name: value'", node.id, "write modes: 8")
    return node


def _checked(ctx: typer.Context, file: Path, node: Any) -> tuple[dict[str, Any], dict[str, int]]:
    """Values by parameter and lines by option, each converted as the command line would."""
    known = {str(p.opts[0]).lstrip("-"): p for p in ctx.command.params if p.name not in NOT_IN_FILE}
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for key, entry in node.value:
        line = key.start_mark.line + 1
        place = f"{file}, line {line}"
        name = str(key.value).replace("_", "-")
        if not isinstance(key, yaml.ScalarNode) or name not in known:
            near = difflib.get_close_matches(name, known, 1)
            fix = f"did you mean {near[0]}?" if near else f"one of {', '.join(sorted(known))}"
            raise _wrong(place, "an option of the command", repr(key.value), fix)
        if f"--{name}" in lines:
            raise _wrong(
                place, f"{name} once", f"it on line {lines[f'--{name}']} too", "remove one"
            )
        lines[f"--{name}"] = line
        parameter = known[name]
        values[str(parameter.name)] = _value(ctx, parameter, entry, place, name)
    return values, lines


def _value(ctx: Any, parameter: Any, node: Any, place: str, name: str) -> Any:
    value = _plain(node, place, name)
    several = parameter.multiple or parameter.nargs != 1
    if isinstance(value, list) != several:
        wanted = "a list such as [0, 1]" if several else "one value"
        raise _wrong(place, f"{wanted} for {name}", repr(value), "see spdelaw fit --help")
    is_flag = getattr(parameter, "is_flag", False)
    if is_flag != isinstance(value, bool):
        wanted = "true or false" if is_flag else "no true or false"
        raise _wrong(place, f"{wanted} for {name}", repr(value), "see spdelaw fit --help")
    try:
        parameter.process_value(ctx, value)
    except typer.BadParameter as error:
        raise _wrong(
            place,
            f"a value for {name}",
            f"{value!r}: {error.format_message()}",
            "see spdelaw fit --help",
        ) from error
    return value


def _plain(node: Any, place: str, name: str) -> Any:
    """Text, true or false, or a list of text; options convert text themselves."""
    if isinstance(node, yaml.SequenceNode):
        return [_plain(entry, place, name) for entry in node.value]
    if not isinstance(node, yaml.ScalarNode):
        raise _wrong(place, f"a value for {name}", "nested options", "write each on its own line")
    if node.tag == "tag:yaml.org,2002:bool":
        return node.value.lower() in ("true", "yes", "on")
    if node.tag == "tag:yaml.org,2002:null":
        raise _wrong(place, f"a value for {name}", "nothing", "remove the line, or give a value")
    return str(node.value)


@contextlib.contextmanager
def lines_named(ctx: typer.Context) -> Iterator[None]:
    """Add the line of the file to errors about options that come from it."""
    try:
        yield
    except SpdeLawError as error:
        place = ctx.meta.get(LINES, {}).get(error.what)
        if place is None:
            raise
        raise type(error)(
            f"{place}, {error.what.lstrip('-')}",
            expected=error.expected,
            got=error.got,
            fix=error.fix,
        ) from error


def _wrong(place: str, expected: str, got: str, fix: str) -> InputError:
    return InputError(place, expected=expected, got=got, fix=fix)

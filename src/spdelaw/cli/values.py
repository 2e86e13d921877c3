"""Values from the text of an option, or from a YAML file of options."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
import yaml  # type: ignore[import-untyped]

from spdelaw.cli.entry import ending_interrupts
from spdelaw.errors import FileError, InputError

# ---------- Values from text; each function takes the option's name for its errors


#: Digits of a count.
MAX_DIGITS = 15


def refused(option: str, expected: str, got: Any, example: str) -> InputError:
    """The error about a value that cannot be used, with one that can."""
    return InputError(option, expected=expected, got=str(got), fix=f"pass {option} {example}")


def positive(option: str, value: int) -> int:
    """A count of at least one."""
    if value < 1:
        raise refused(option, "a positive integer", value, "100")
    return value


def positive_number(option: str, value: float) -> float:
    """A finite number above zero."""
    if not (math.isfinite(value) and value > 0):
        raise refused(option, "a finite number above 0", f"{value:g}", "1.0")
    return value


def time_limit(option: str, seconds: float) -> float | None:
    """Seconds, or None for 0, which means no limit."""
    return None if seconds == 0 else positive_number(option, seconds)


def share_or_count(_: str, value: float) -> float:
    """A whole number as an integer, a share as it is."""
    return int(value) if value >= 1 and value.is_integer() else value


def numbers(option: str, text: str) -> list[float]:
    """Numbers separated by commas."""
    try:
        return [float(entry) for entry in text.split(",")]
    except ValueError as error:
        raise refused(option, "numbers separated by commas", repr(text), "0,0.1,0.5") from error


def counts(option: str, text: str) -> list[int]:
    """Whole numbers separated by commas."""
    parts = [entry.strip() for entry in text.split(",")]
    if not all(is_count(entry) and int(entry) > 0 for entry in parts):
        expected = "whole numbers of at least 1, separated by commas"
        raise refused(option, expected, repr(text), "1,3,6")
    return [int(entry) for entry in parts]


def names(option: str, text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    parts = tuple(" ".join(entry.split()) for entry in text.split(","))
    if not all(parts):
        raise refused(option, "names separated by commas", repr(text), "u,u^3")
    return parts


def is_count(text: str) -> bool:
    """Whether a text is a whole number that is not absurd."""
    return text.isdecimal() and len(text) <= MAX_DIGITS


def auto_or_count(option: str, text: str, least: int = 1) -> int | str:
    """The word auto, or a whole number of at least ``least``."""
    if text == "auto":
        return text
    if not is_count(text) or int(text) < least:
        raise refused(option, f"auto or an integer of at least {least}", repr(text), "auto")
    return int(text)


def auto_or_counts(option: str, text: str) -> int | str | list[int]:
    """The word auto, a whole number, or several separated by commas."""
    if text == "auto":
        return text
    parts = counts(option, text)
    return parts[0] if len(parts) == 1 else parts


def _pairs(option: str, texts: list[str], example: str) -> Iterator[tuple[str, str]]:
    """Names and values from texts such as ``lon=150:270``."""
    for text in texts:
        name, _, value = (" ".join(entry.split()) for entry in text.rpartition("="))
        if not (name and value):
            raise refused(option, f"name=value, such as {example}", repr(text), example)
        yield name, value


def fixed_values(option: str, text: str) -> dict[str, float]:
    """Values by name from a list such as ``nu=0.05,kappa=0``."""
    pairs = _pairs(option, text.split(","), "nu=0.05")
    try:
        return {name: float(value) for name, value in pairs}
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        expected = "name=value with numbers, separated by commas"
        raise refused(option, expected, repr(text), "nu=0.05") from error


def ranges(option: str, texts: list[str]) -> dict[str, Any]:
    """Ends of each range as numbers, those of the time as text; one number is both ends."""
    out: dict[str, Any] = {}
    for name, value in _pairs(option, texts, "longitude=150:270"):
        low, colon, high = value.partition(":")
        if name == "time":
            out[name] = (low.strip(), high.strip())
            continue
        try:
            out[name] = (float(low), float(high) if colon else float(low))
        except ValueError as error:
            expected = "a dimension and a range"
            raise refused(option, expected, repr(value), "longitude=150:270") from error
    return out


def block_sizes(option: str, texts: list[str]) -> dict[str, int]:
    """Whole numbers by dimension."""
    pairs = dict(_pairs(option, texts, "x=2"))
    if not all(is_count(value) for value in pairs.values()):
        raise refused(option, "a dimension and a whole number", repr(" ".join(texts)), "x=2")
    return {name: int(value) for name, value in pairs.items()}


def settings(option: str, texts: list[str]) -> dict[str, Any]:
    """Values by name; numbers, true and false are read as JSON, everything else is text."""
    import json

    out: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (name.isidentifier() and sign):
            raise refused(option, "name=value", repr(text), "epochs=100")
        try:
            out[name] = json.loads(value)
        except ValueError:
            out[name] = value
    return out


def existing(path: Path, _: Any = None, kind: str = "a file") -> Path:
    """A file or directory that is there; one that an interrupted write left aside is put back."""
    if not path.exists():
        with ending_interrupts():
            from spdelaw.data.io.safe_files import recover_directory
        recover_directory(path)
    if not path.exists():
        fix = f"check the name; the folder is {path.absolute().parent}"
        raise FileError(str(path), expected=kind, got="none of this name", fix=fix)
    return path


def existing_data(path: Path, _: Any = None) -> Path:
    """A file or directory that may hold data: no law."""
    if (existing(path) / "law.json").exists():
        fix = "name a file of data; commands that take both take the law first"
        raise FileError(str(path), expected="a file of data", got="a law", fix=fix)
    return path


def existing_law_or_data(path: Path, _: Any = None) -> Path:
    """A law, or the data that follow the laws."""
    return existing(path, kind="a law or a file of data")


def existing_law(path: Path, _: Any = None) -> Path:
    """A directory, which may hold a law."""
    if existing(path, kind="a law").is_file():
        fix = f"name the law before the data, or fit one: spdelaw fit {path} --out {path.stem}.law"
        raise FileError(str(path), expected="a law, which is a directory", got="a file", fix=fix)
    return path


def regular_file(path: Path, _: Any = None) -> Path:
    """A file whose content ends: no pipe and no device."""
    if not existing(path).is_file():
        kind = "a directory" if path.is_dir() else "a pipe or a device"
        fix = "copy its content into a file"
        raise FileError(str(path), expected="a regular file", got=kind, fix=fix)
    return path


# ---------- ``--config``: options from a YAML file; errors name the line


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

"""Values from the text of an option; each function takes the option's name for its errors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spdelaw.cli.entry import ending_interrupts
from spdelaw.errors import FileError, InputError

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

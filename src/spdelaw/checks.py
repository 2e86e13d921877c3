"""Checks of single arguments: each returns the value, or raises `InputError`."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from spdelaw.errors import InputError, MissingExtraError

__all__ = [
    "from_settings",
    "instance",
    "is_number",
    "numbers",
    "one_of",
    "optional",
    "positive",
    "probability",
    "whole",
]

T = TypeVar("T")


def whole(what: str, value: Any, least: int) -> int:
    """An integer of at least ``least``; no bool, no float.

    Example:
        >>> whole("n_modes", 8, 1)
        8
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        words = {0: "a non-negative integer", 1: "a positive integer"}
        expected = words.get(least, f"an integer of at least {least}")
        raise InputError(what, expected=expected, got=repr(value), fix=f"pass {what}={least}")
    return int(value)


def positive(what: str, value: Any) -> float:
    """A finite number above zero."""
    if not is_number(value) or value <= 0:
        expected = "a finite number above 0"
        raise InputError(what, expected=expected, got=repr(value), fix=f"pass {what}=1.0")
    return float(value)


def probability(what: str, value: Any) -> float:
    """A number strictly between 0 and 1."""
    if not is_number(value) or not 0 < value < 1:
        expected = "a probability between 0 and 1"
        raise InputError(what, expected=expected, got=repr(value), fix=f"pass {what}=0.95")
    return float(value)


def one_of(what: str, value: Any, words: Sequence[str]) -> str:
    """One of the words; the message proposes the first."""
    if not isinstance(value, str) or value not in words:
        expected = f"one of {tuple(words)}"
        raise InputError(what, expected=expected, got=repr(value), fix=f"pass {what}={words[0]!r}")
    return value


def instance(what: str, value: Any, kind: type[T], fix: str) -> T:
    """An object of ``kind``; ``fix`` says how to make one."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        expected = f"{article} {kind.__name__}"
        raise InputError(what, expected=expected, got=type(value).__name__, fix=fix)
    return value


def numbers(value: Any) -> np.ndarray:
    """The value as a float array, a single NaN where it holds anything but numbers."""
    try:
        return np.array(value, dtype=float)
    except (TypeError, ValueError):
        return np.array(np.nan)


def from_settings(
    what: str,
    kinds: Mapping[str, type[T]],
    description: Mapping[str, Any],
    error: type[InputError] = InputError,
) -> T:
    """An object from its plain description: ``name`` is its kind, the other keys its settings."""
    settings = dict(description)
    name = settings.pop("name", None)
    if name not in kinds:
        expected, fix = f"one of {sorted(kinds)}", "check the name in the description"
        raise error(what, expected=expected, got=repr(name), fix=fix)
    try:
        return kinds[name](**settings)
    except TypeError as wrong:
        expected, got = f"the settings of {name}", f"{sorted(settings)}"
        raise error(what, expected=expected, got=got, fix=str(wrong)) from wrong


def optional(module: str, feature: str, extra: str) -> Any:
    """A module that only an extra brings, or `MissingExtraError` that names the extra.

    Example:
        >>> optional("math", "roots", "none").sqrt(4.0)
        2.0
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(feature, extra) from error


def is_number(value: Any) -> bool:
    """Whether the value is a finite real number; no bool."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return math.isfinite(float(value))

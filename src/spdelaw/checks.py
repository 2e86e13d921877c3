"""Checks of arguments: of single ones, and of all that a public function declares.

`checked` compares the arguments of a call with the annotations of the function, and with the
ranges that arguments of some names have everywhere (`RANGES`). The other functions check one value:
they return it, or raise `InputError`.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from spdelaw.errors import DomainError, InputError, MissingExtraError

__all__ = [
    "checked",
    "from_settings",
    "instance",
    "is_number",
    "non_negative",
    "numbers",
    "one_of",
    "optional",
    "positive",
    "probability",
    "real_array",
    "whole",
]

T = TypeVar("T")


#: Largest number of anything that is counted, and largest seed.
LARGEST_COUNT, LARGEST_SEED = 10**9, 2**128


def whole(what: str, value: Any, least: int, error: type[InputError] = InputError) -> int:
    """An integer of at least ``least``; no bool, no float.

    Example:
        >>> whole("n_modes", 8, 1)
        8
    """
    most = LARGEST_SEED if what == "seed" else LARGEST_COUNT
    is_whole = not isinstance(value, bool) and isinstance(value, Integral)
    number = int(value) if is_whole else None
    if number is None or not least <= number <= most:
        words = {0: "a non-negative integer", 1: "a positive integer"}
        expected = words.get(least, f"an integer of at least {least}")
        expected += f" up to {most:.0e}" if number is not None and number > most else ""
        raise error(what, expected=expected, got=repr(value), fix=f"pass {what}={least}")
    return number


def positive(what: str, value: Any, error: type[InputError] = InputError) -> float:
    """A finite number above zero."""
    is_valid = is_number(value) and value > 0
    return _number(what, value, is_valid, "a finite number above 0", 1.0, error)


def probability(what: str, value: Any, error: type[InputError] = InputError) -> float:
    """A number strictly between 0 and 1."""
    is_valid = is_number(value) and 0 < value < 1
    return _number(what, value, is_valid, "a probability between 0 and 1", 0.95, error)


def non_negative(what: str, value: Any, error: type[InputError] = InputError) -> float:
    """A finite number of at least zero."""
    is_valid = is_number(value) and value >= 0
    return _number(what, value, is_valid, "a finite number of at least 0", 0.0, error)


def _number(
    what: str, value: Any, is_valid: bool, expected: str, example: float, error: type[InputError]
) -> float:
    if not is_valid:
        raise error(what, expected=expected, got=repr(value), fix=f"pass {what}={example}")
    return float(value)


def one_of(what: str, value: Any, words: Sequence[str]) -> str:
    """One of the words; the message proposes the one that is closest, else the first."""
    if not isinstance(value, str) or value not in words:
        near = [word for word in words if str(value) and word.startswith(str(value))]
        near = near or difflib.get_close_matches(str(value), words, 1)
        expected, fix = f"one of {tuple(words)}", f"pass {what}={(near or words)[0]!r}"
        raise InputError(what, expected=expected, got=repr(value), fix=fix)
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


def real_array(what: str, value: Any, error: type[InputError] = DomainError) -> np.ndarray:
    """The value as a float array, such as points of a domain."""
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        fix = f"pass {what} as a NumPy array"
        got = type(value).__name__
        raise error(what, expected="an array of numbers", got=got, fix=fix) from None


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


# ---------- Arguments of a public function, by its annotations


#: Checks one value by its name; the last argument is the class of the error.
Rule = Callable[[str, Any, type[InputError]], Any]
F = TypeVar("F", bound=Callable[..., Any])


def at_least(least: int) -> Rule:
    """The rule of an integer."""
    return lambda what, value, error: whole(what, value, least, error)


#: Ranges of arguments that mean the same in every function.
RANGES: dict[str, Rule] = {
    **dict.fromkeys(("level", "false_alarm_rate"), probability),
    **dict.fromkeys(
        ("n_modes", "n_paths", "n_points", "n_time", "order", "threads", "batch", "max_paths",
         "replicates", "refits", "most_origins", "refit", "n_draws", "chunks", "steps", "rank",
         "noise_rank"), at_least(1),
    ),
    **dict.fromkeys(
        ("seed", "bootstrap", "n_samples", "parameter_draws", "nuisance"), at_least(0)
    ),
    **dict.fromkeys(("seconds", "period", "length", "smoothness", "median", "sigma", "std"),
                    positive),
    **dict.fromkeys(("observation_std", "scale"), non_negative),
}  # fmt: skip
#: Arguments by their earlier names, which still work.
RENAMED = {"rest": "residual"}
#: Errors of arguments that describe a domain, in every function.
ERRORS: dict[str, type[InputError]] = {"domain": DomainError, "n_modes": DomainError}
#: Fixes that no default value can give.
FIXES = {"domain": "pass domain=sl.Interval(0, 1)"}


def checked(error: type[InputError] = InputError) -> Callable[[F], F]:
    """Compare the arguments of every call with annotations and `RANGES`; a class: of its making.

    Arguments of an earlier name (`RENAMED`) get the present one.

    Data (`xarray`, NumPy) are left to the contract of data, and what is annotated with ``Any`` to
    the function itself. A default need not be of its type.

    Args:
        error: class of the errors of this function; `ERRORS` by name come first.

    Raises:
        InputError: the first argument that is of another type, or out of range.

    Example:
        >>> @checked()
        ... def draw(n_paths: int, level: float = 0.95) -> str:
        ...     return f"{n_paths} {level}"
        >>> draw(3)
        '3 0.95'
        >>> draw(3, level=1e30)
        Traceback (most recent call last):
        ...
        spdelaw.errors.InputError: level: expected a probability between 0 and 1, got 1e+30. ...
    """

    def decorate(target: Any) -> Any:
        if isinstance(target, type):
            target.__init__ = decorate(target.__init__)  # type: ignore[misc]
            return target
        signature = inspect.signature(target)
        # Annotations are resolved at the first call, when all modules are imported.
        hints = functools.cache(lambda: get_type_hints(target))

        @functools.wraps(target)
        def call(*args: Any, **words: Any) -> Any:
            words = {RENAMED.get(name, name): value for name, value in words.items()}
            try:
                given = signature.bind(*args, **words).arguments
            except TypeError:  # a missing or unknown argument, which Python names
                return target(*args, **words)
            for name, value in given.items():
                parameter = signature.parameters[name]
                is_open = name not in hints() or parameter.kind is parameter.VAR_KEYWORD
                if is_open or value is parameter.default:
                    continue
                for entry in value if parameter.kind is parameter.VAR_POSITIONAL else (value,):
                    kind = ERRORS.get(name, error)
                    _check_argument(name, entry, hints()[name], parameter.default, kind)
            return target(*args, **words)

        return call

    return decorate


def _check_argument(
    name: str, value: Any, hint: Any, default: Any, error: type[InputError]
) -> None:
    rule = RANGES.get(name)
    is_open = value is None or isinstance(value, str) or hint is Any
    if not _accepts(value, hint):
        if rule is not None and get_origin(hint) is None:
            rule(name, value, error)
        has_default = default is not inspect.Parameter.empty
        fix = f"pass {name}={default!r}" if has_default else f"see the documentation of {name}"
        got = f"{value!r}"[:80] if isinstance(value, _PLAIN) else type(value).__name__
        raise error(name, expected=_in_words(hint), got=got, fix=FIXES.get(name, fix))
    if rule is not None and not is_open and is_number(value):
        rule(name, value, error)


_PLAIN = (str, bytes, bool, int, float, type(None), list, tuple, dict)
#: Kinds of data, which the contract of data checks.
_DATA_MODULES = ("numpy", "xarray", "pandas", "matplotlib")


def _accepts(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return any(_accepts(value, part) for part in parts)
    if kind is Literal:
        return isinstance(value, str) and value in parts
    if kind in (tuple, list, Sequence):
        is_row = kind is tuple and Ellipsis not in parts
        if not is_row and _accepts(value, parts[0]):  # one in place of several
            return True
        if isinstance(value, str | bytes | Mapping | set) or not np.iterable(value):
            return False
        entries = list(value)
        if is_row:
            pairs = zip(entries, parts, strict=False)
            return len(entries) == len(parts) and all(_accepts(*pair) for pair in pairs)
        return all(_accepts(entry, parts[0]) for entry in entries)
    if kind is Mapping:
        return isinstance(value, Mapping) and all(
            _accepts(*pair) for entry in value.items() for pair in zip(entry, parts, strict=True)
        )
    if kind is not None:
        return isinstance(value, kind) if isinstance(kind, type) else True
    if hint in _SIMPLE:
        return _SIMPLE[hint][0](value)
    if not isinstance(hint, type) or hint.__module__.split(".")[0] in _DATA_MODULES:
        return True
    return isinstance(value, hint)


def _in_words(hint: Any) -> str:
    """The annotated type for an error."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return " or ".join(dict.fromkeys(_in_words(part) for part in parts))
    if kind is Literal:
        return f"one of {parts}"
    if kind in (tuple, list, Sequence):
        return f"several, each {_in_words(parts[0])}"
    if kind is not None:
        return {Mapping: "a dict", Callable: "a function"}.get(kind, kind.__name__)
    if hint in _SIMPLE:
        return _SIMPLE[hint][1]
    name = getattr(hint, "__name__", str(hint))
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


_SIMPLE: dict[Any, tuple[Callable[[Any], bool], str]] = {
    Any: (lambda v: True, "anything"),
    bool: (lambda v: isinstance(v, bool | np.bool_), "True or False"),
    int: (lambda v: isinstance(v, Integral) and not isinstance(v, bool), "an integer"),
    float: (is_number, "a finite number"),
    str: (lambda v: isinstance(v, str) and "\0" not in v, "text"),
    Path: (lambda v: isinstance(v, os.PathLike) and "\0" not in str(v), "a path"),
    None: (lambda v: v is None, "None"),
    type(None): (lambda v: v is None, "None"),
}

"""Checks of arguments: of single ones, and of all that a public function declares.

A `Rule` says what was expected where a value is wrong. `checked` makes one of each annotation of a
function, with the ranges that arguments of some names have everywhere (`RANGES`). The other
functions check one value: they return it, or raise `InputError`.
"""

from __future__ import annotations

import builtins
import difflib
import functools
import importlib
import inspect
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from spdelaw.errors import DataError, DomainError, InputError, MissingExtraError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
#: What was expected in place of a value; empty where the value is right.
Rule = Callable[[Any], str]

# ---------- Rules


class Range(NamedTuple):
    """Numbers that an argument may be, and one that a message proposes."""

    rule: Rule
    example: float


def fits(words: str, accepts: Callable[[Any], bool]) -> Rule:
    """The rule of values that a function accepts."""
    return lambda value: "" if accepts(value) else words


def is_number(value: Any) -> bool:
    """Whether the value is a finite real number; no bool."""
    try:
        return _is_real(value) and math.isfinite(float(value))
    except OverflowError:  # an integer beyond the largest float
        return False


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


#: Largest absolute value of data to compute with: squares and products of larger ones overflow.
LARGEST_VALUE = 1e100
#: Largest number of anything that is counted, and largest seed.
LARGEST_COUNT, LARGEST_SEED = 10**9, 2**128


def integers(least: int, most: int = LARGEST_COUNT) -> Range:
    """Integers from ``least`` on; no bool, no float."""
    words = {0: "a non-negative integer", 1: "a positive integer"}
    expected = words.get(least, f"an integer of at least {least}")

    def rule(value: Any) -> str:
        if not _is_integer(value) or int(value) < least:
            return expected
        return "" if int(value) <= most else f"{expected} up to {most:.0e}"

    return Range(rule, least)


POSITIVE = Range(fits("a finite number above 0", lambda v: is_number(v) and v > 0), 1.0)
NOT_NEGATIVE = Range(fits("a finite number of at least 0", lambda v: is_number(v) and v >= 0), 0.0)
PROBABILITY = Range(
    fits("a probability between 0 and 1", lambda v: is_number(v) and 0 < v < 1), 0.95
)

#: Ranges of arguments that mean the same in every function.
RANGES: dict[str, Range] = {
    **dict.fromkeys(("level", "false_alarm_rate"), PROBABILITY),
    **dict.fromkeys(
        ("n_modes", "n_paths", "n_points", "n_time", "order", "threads", "batch", "max_paths",
         "replicates", "refits", "most_origins", "refit", "n_draws", "chunks", "rank",
         "noise_rank"), integers(1),
    ),
    "steps": integers(1, 10**6),
    "seed": integers(0, LARGEST_SEED),
    **dict.fromkeys(
        ("bootstrap", "n_samples", "parameter_draws", "nuisance", "path"), integers(0)
    ),
    **dict.fromkeys(("seconds", "period", "length", "smoothness", "median", "sigma", "std"),
                    POSITIVE),
    **dict.fromkeys(("observation_std", "scale"), NOT_NEGATIVE),
}  # fmt: skip

# ---------- Checks of one value


def shown(value: Any) -> str:
    """A wrong value in a message: short, on one line."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an object that cannot even be shown, or a number of 5,000 digits
        text = _a(type(value))
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


SHOWN_CHARACTERS = 80


def within(what: str, value: Any, range_: Range, error: type[InputError] = InputError) -> Any:
    """A number of a range."""
    if expected := range_.rule(value):
        fix = f"pass {what}={range_.example}"
        raise error(what, expected=expected, got=shown(value), fix=fix)
    return value


def whole(what: str, value: Any, least: int, error: type[InputError] = InputError) -> int:
    """An integer of at least ``least``; no bool, no float.

    Example:
        >>> whole("n_modes", 8, 1)
        8
    """
    return int(within(what, value, integers(least), error))


def positive(what: str, value: Any, error: type[InputError] = InputError) -> float:
    """A finite number above zero."""
    return float(within(what, value, POSITIVE, error))


def probability(what: str, value: Any, error: type[InputError] = InputError) -> float:
    """A number strictly between 0 and 1."""
    return float(within(what, value, PROBABILITY, error))


def non_negative(what: str, value: Any, error: type[InputError] = InputError) -> float:
    """A finite number of at least zero."""
    return float(within(what, value, NOT_NEGATIVE, error))


def one_of(
    what: str, value: Any, words: Sequence[str], error: type[InputError] = InputError
) -> str:
    """One of the words; the message proposes the one that is closest, else the first."""
    if not isinstance(value, str) or value not in words:
        text = value if isinstance(value, str) else ""
        near = [word for word in words if text and word.startswith(text)]
        near = near or difflib.get_close_matches(text, words, 1)
        expected, fix = f"one of {tuple(words)}", f"pass {what}={(near or words)[0]!r}"
        raise error(what, expected=expected, got=shown(value), fix=fix)
    return value


def instance(what: str, value: Any, kind: type[T], fix: str) -> T:
    """An object of ``kind``; ``fix`` says how to make one."""
    if not isinstance(value, kind):
        raise InputError(what, expected=_a(kind), got=type(value).__name__, fix=fix)
    return value


def numbers(value: Any) -> np.ndarray:
    """The value as a float array, a single NaN where it holds anything but numbers."""
    try:
        return np.array(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        return np.array(np.nan)


def real_array(
    what: str, value: Any, error: type[InputError] = DomainError, columns: int = 0
) -> np.ndarray:
    """The value as a float array, (n, ``columns``) where that is given, such as points."""
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        array = None
    if array is None or (columns and array.shape[1:] != (columns,)):
        expected = f"an array of numbers{f' (n, {columns})' if columns else ''}"
        got = type(value).__name__ if array is None else f"shape {array.shape}"
        raise error(what, expected=expected, got=got, fix=f"pass {what} as a NumPy array")
    return array


def from_settings(
    what: str,
    kinds: Mapping[str, type[T]],
    description: Mapping[str, Any],
    error: type[InputError] = InputError,
) -> T:
    """An object from its plain description: ``name`` is its kind, the other keys its settings."""
    settings = dict(description)
    name = settings.pop("name", None)
    if not isinstance(name, str) or name not in kinds:
        expected, fix = f"one of {sorted(kinds)}", "check the name in the description"
        raise error(what, expected=expected, got=shown(name), fix=fix)
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


# ---------- Arguments of a public function, by its annotations


#: Errors and fixes of arguments that mean the same in every function.
ADVICE: dict[str, tuple[type[InputError], str]] = {
    "domain": (DomainError, "pass domain=sl.Interval(0, 1)"),
    "n_modes": (DomainError, "pass n_modes=8"),
    "equation": (InputError, "pass an equation, such as sl.catalogue.heat()"),
    "law": (InputError, "pass what sl.fit(...) or sl.load(...) returns"),
    **dict.fromkeys(
        ("fields", "observed", "history", "paths"),
        (DataError, "pass labelled fields, such as those of sl.read or sl.as_fields"),
    ),
    "forecast": (DataError, "pass what law.forecast(...) returns"),
    "reconstruction": (DataError, "pass what law.reconstruct(...) returns"),
}
#: Arguments by their earlier names, which still work.
RENAMED = {"rest": "residual"}


def checked(error: type[InputError] = InputError) -> Callable[[F], F]:
    """Compare the arguments of every call with annotations and `RANGES`; a class: of its making.

    Arguments of an earlier name (`RENAMED`) get the present one.

    Arrays are left to the contract of data, and what is annotated with ``Any`` to the function
    itself. A default need not be of its type. ``Annotated[float, POSITIVE]`` states a range that
    differs from that of the name.

    Args:
        error: class of the errors of this function; those of `ADVICE` come first.

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
        rules = functools.cache(lambda: _rules_of(target, signature))

        @functools.wraps(target)
        def call(*args: Any, **words: Any) -> Any:
            words = {RENAMED.get(name, name): value for name, value in words.items()}
            try:
                given = signature.bind(*args, **words).arguments
            except TypeError:  # a missing or unknown argument, which Python names
                return target(*args, **words)
            for name, value in given.items():
                parameter = signature.parameters[name]
                if value is not parameter.default:
                    for key, entry in _entries(parameter, value):
                        if expected := rules()[name](entry):
                            raise _wrong_argument(key, parameter, expected, entry, error)
            return target(*args, **words)

        return call

    return decorate


def _entries(parameter: inspect.Parameter, value: Any) -> list[tuple[str, Any]]:
    """The values of an argument with their names: several for ``*args`` and ``**words``."""
    if parameter.kind is parameter.VAR_KEYWORD:
        return list(value.items())
    several = value if parameter.kind is parameter.VAR_POSITIONAL else (value,)
    return [(parameter.name, entry) for entry in several]


def _wrong_argument(
    name: str, parameter: inspect.Parameter, expected: str, value: Any, error: type[InputError]
) -> InputError:
    default, fix = parameter.default, f"see the documentation of {name}"
    if name in RANGES:
        fix = f"pass {name}={RANGES[name].example}"
    if isinstance(default, PLAIN):
        fix = f"pass {name}={default!r}"
    kind, advice = ADVICE.get(name, (error, fix))
    text = shown(value)
    is_short = isinstance(value, PLAIN) and not text.endswith("...")
    got = text if is_short else type(value).__name__
    return kind(name, expected=expected, got=got, fix=advice)


def _rules_of(target: Any, signature: inspect.Signature) -> dict[str, Rule]:
    names = _Names(target.__globals__)
    hints = get_type_hints(target, localns=names, include_extras=True)
    return {name: rule_of(hints.get(name, Any), RANGES.get(name)) for name in signature.parameters}


class _Names(dict):
    """The names of a module; those that only a type checker imports are public, or anything."""

    def __missing__(self, name: str) -> Any:
        public = sys.modules.get("spdelaw._public")
        return getattr(builtins, name, getattr(public, name, Any))


def rule_of(hint: Any, range_: Range | None = None) -> Rule:
    """The rule of an annotation; ``range_`` is that of its numbers."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind is Annotated:
        return rule_of(parts[0], next(part for part in parts[1:] if isinstance(part, Range)))
    if kind in (Union, UnionType):
        return _any_of([rule_of(part, range_) for part in parts])
    if kind is Literal:
        return fits(f"one of {parts}", lambda v: isinstance(v, str) and v in parts)
    if kind is tuple and Ellipsis not in parts:
        return _row([rule_of(part, range_) for part in parts])
    if kind in (tuple, list, Sequence):
        return _several(rule_of(parts[0], range_))
    if kind is Mapping:
        return _mapping(*(rule_of(part) for part in parts))
    hint = kind or hint
    if hint in (int, float) and range_ is not None:
        return range_.rule
    if hint in SIMPLE:
        return SIMPLE[hint]
    if hint is Callable:
        return _function(parts[0] if parts else Ellipsis)
    if not isinstance(hint, type):
        return SIMPLE[Any]
    return fits(_a(hint), lambda v: isinstance(v, hint))


def _function(arguments: Any) -> Rule:
    """A function that takes as many arguments as its annotation has."""
    if arguments is Ellipsis:
        return fits("a function", callable)
    n = len(arguments)

    def accepts(value: Any) -> bool:
        if not callable(value):
            return False
        try:
            inspect.signature(value).bind(*arguments)
        except TypeError:
            return False
        except ValueError:  # a compiled function, which does not say what it takes
            pass
        return True

    return fits(f"a function of {n} argument{'s' if n > 1 else ''}", accepts)


def _any_of(rules: list[Rule]) -> Rule:
    def rule(value: Any) -> str:
        complaints = [rule(value) for rule in rules]
        return " or ".join(dict.fromkeys(complaints)) if all(complaints) else ""

    return rule


def _several(each: Rule) -> Rule:
    """A sequence, or one in place of several."""

    def rule(value: Any) -> str:
        if not each(value) or (_is_sequence(value) and not any(map(each, value))):
            return ""
        return f"several, each {each(UNFIT)}"

    return rule


def _row(each: list[Rule]) -> Rule:
    """A sequence with a rule for each of its entries."""

    def rule(value: Any) -> str:
        is_row = _is_sequence(value) and len(value) == len(each)
        if is_row and not any(one(entry) for one, entry in zip(each, value, strict=True)):
            return ""
        return f"({', '.join(one(UNFIT) for one in each)})"

    return rule


def _mapping(key: Rule, entry: Rule) -> Rule:
    def accepts(value: Any) -> bool:
        return isinstance(value, Mapping) and not any(
            key(name) or entry(one) for name, one in value.items()
        )

    each = entry(UNFIT)
    return fits(f"a dict with values that are each {each}" if each else "a dict", accepts)


def _is_sequence(value: Any) -> bool:
    sized = hasattr(value, "__len__") and np.iterable(value)
    return sized and not isinstance(value, str | bytes | Mapping | set)


def _a(kind: type) -> str:
    name = kind.__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


#: A value that no rule accepts, to ask what it expects.
UNFIT = object()
#: Types whose values a message shows; of others it names the type.
PLAIN = (str, bytes, bool, int, float, complex, type(None), list, tuple, dict, np.generic)
SIMPLE: dict[Any, Rule] = {
    Any: lambda value: "",
    np.ndarray: lambda value: "",  # the contract of data checks arrays, also nested lists
    bool: fits("True or False", lambda v: isinstance(v, bool | np.bool_)),
    int: fits("an integer", _is_integer),
    float: fits("a finite number", is_number),
    str: fits("text", lambda v: isinstance(v, str) and "\0" not in v),
    Path: fits("a path", lambda v: isinstance(v, os.PathLike) and "\0" not in str(v)),
    type(None): fits("None", lambda v: v is None),
}

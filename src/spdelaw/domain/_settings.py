"""What domains are built from: numbers, tables of numbers and words, checked one way."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from spdelaw.errors import DomainError

Array = np.ndarray

#: Characters of a wrong value that a message shows.
SHOWN = 60


def real(what: str, value: Any, fix: str, *, positive: bool = False) -> float:
    """A finite number as float, or `DomainError`; text and truth values are no numbers."""
    number = np.nan
    plain = np.ndim(value) == 0 if hasattr(value, "dtype") else isinstance(value, numbers.Real)
    if plain and not isinstance(value, bool) and np.asarray(value).dtype.kind in "iufO":
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = np.nan
    if not np.isfinite(number) or (positive and number <= 0):
        kind = "positive" if positive else "finite"
        raise DomainError(what, expected=f"a {kind} number", got=shown(value), fix=fix)
    return number


def table(what: str, value: Any, expected: str, fix: str) -> Array:
    """Numbers as an array of float64 of any shape, NaN allowed, or `DomainError`."""
    try:
        found = np.asarray(value)
        if found.dtype.kind in "iufbO":
            return found.astype(float)
    except Exception as error:  # objects may raise anything when they are turned into an array
        raise DomainError(what, expected=expected, got=shown(value), fix=fix) from error
    raise DomainError(what, expected=expected, got=shown(value), fix=fix)


def restored(what: str, value: Any) -> Array:
    """A table out of a description."""
    return table(what, value, "a table of numbers", "write it with domain.to_dict()")


def pair(what: str, value: Any, expected: str, fix: str) -> tuple[float, float]:
    """Two finite numbers, or `DomainError`."""
    found = table(what, value, expected, fix)
    if found.shape != (2,) or not np.isfinite(found).all():
        raise DomainError(what, expected=expected, got=shown(value), fix=fix)
    return float(found[0]), float(found[1])


def word(what: str, value: Any, words: tuple[str, ...]) -> str:
    """One of the words, or `DomainError`."""
    if not isinstance(value, str) or value not in words:
        fix = f"pass {what}={words[0]!r}"
        raise DomainError(what, expected=f"one of {words}", got=shown(value), fix=fix)
    return value


def shown(value: Any) -> str:
    """A wrong value in a message: short, with its type where it is text or unknown."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an object that cannot even be shown
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."

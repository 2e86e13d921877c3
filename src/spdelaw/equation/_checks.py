"""Checks of what an equation is given."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.checks import numbers
from spdelaw.errors import EquationError

Array = np.ndarray


def check_part(what: str, given: Any, kind: type) -> None:
    """Refuse anything but ``kind`` or None."""
    if given is not None and not isinstance(given, kind):
        expected, got = f"a {kind.__name__}", type(given).__name__
        fix = f"build it with sl.{kind.__name__}(...)"
        raise EquationError(what, expected=expected, got=got, fix=fix)


def frozen(values: Array) -> Array:
    """A copy that nobody can write to."""
    values = np.array(values)
    if np.isrealobj(values):
        values = values.astype(float)
    values.setflags(write=False)
    return values


def check_times(times: Any) -> Array:
    """Times as float64, strictly increasing, or raise `EquationError`."""
    t = np.atleast_1d(numbers(times))
    if t.ndim != 1 or t.size == 0 or not np.isfinite(t).all() or (np.diff(t) <= 0).any():
        got = f"shape {t.shape}" if t.ndim != 1 or t.size == 0 else "unsorted, repeated or NaN"
        expected = "a strictly increasing vector of finite times"
        fix = "np.unique(times), or np.linspace(0, 1, 201)"
        raise EquationError("times", expected=expected, got=got, fix=fix)
    return t

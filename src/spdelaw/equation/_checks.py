"""Checks of what an equation is given."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.errors import EquationError

Array = np.ndarray


def check_part(what: str, given: Any, kind: type) -> None:
    """Refuse anything but ``kind`` or None."""
    if given is not None and not isinstance(given, kind):
        raise EquationError(
            what,
            expected=f"a {kind.__name__}",
            got=type(given).__name__,
            fix=f"build it with sl.{kind.__name__}(...)",
        )


def frozen(values: Array) -> Array:
    """A copy that nobody can write to."""
    values = np.array(values)
    if np.isrealobj(values):
        values = values.astype(float)
    values.setflags(write=False)
    return values


def check_times(times: Any) -> Array:
    """Times as float64, strictly increasing, or raise `EquationError`."""
    try:
        t = np.atleast_1d(np.asarray(times, dtype=float))
    except (TypeError, ValueError) as error:
        raise EquationError(
            "times", expected="numbers", got=repr(times), fix="np.linspace(0, 1, 201)"
        ) from error
    if t.ndim != 1 or t.size == 0 or not np.isfinite(t).all() or (np.diff(t) <= 0).any():
        raise EquationError(
            "times", expected="a strictly increasing vector of finite times",
            got=f"shape {t.shape}" if t.ndim != 1 or t.size == 0 else "unsorted, repeated or NaN",
            fix="np.unique(times), or np.linspace(0, 1, 201)",
        )  # fmt: skip
    return t

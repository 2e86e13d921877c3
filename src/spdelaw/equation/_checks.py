"""Checks of what an equation is given."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.equation._matrices import Coupling
from spdelaw.errors import EquationError

Array = np.ndarray


def check_part(what: str, given: Any, kind: type, coupling: Coupling | None) -> None:
    """Refuse anything but ``kind`` or None, and parts that coupled modes cannot have."""
    if given is None:
        return
    if not isinstance(given, kind):
        raise EquationError(
            what, expected=f"a {kind.__name__}", got=type(given).__name__,
            fix=f"build it with sl.{kind.__name__}(...)",
        )  # fmt: skip
    if coupling is not None:
        raise EquationError(
            what, expected="modes that are not coupled, where there is one",
            got="a drift or a noise given as a matrix", fix=f"give spectra, or leave {what} out",
        )  # fmt: skip


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

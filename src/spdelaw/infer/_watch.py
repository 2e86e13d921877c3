"""What a search says while it goes on: evaluations, what was gained, how long it took.

Fits that end within two seconds say nothing. How many evaluations are left is not known.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from spdelaw.errors import InputError

#: Seconds of silence at the start, and between two reports.
PATIENCE, EVERY = 2.0, 1.0


@dataclasses.dataclass(frozen=True)
class SearchProgress:
    """State of a fit.

    Attributes:
        evaluations: of the likelihood so far.
        log_likelihood: highest of the present search.
        gain: of it since the last report; NaN where another search has begun.
        seconds: since the fit began.
    """

    evaluations: int
    log_likelihood: float
    gain: float
    seconds: float

    def __str__(self) -> str:
        """One line."""
        gained = "" if self.gain != self.gain else f"  gained {self.gain:.3g}"
        return (
            f"{self.evaluations} evaluations  log-likelihood {self.log_likelihood:.8g}{gained}  "
            f"{self.seconds:.0f} s"
        )


class Watch:
    """Counts evaluations and reports now and then."""

    def __init__(self, report: Callable[[SearchProgress], None]) -> None:
        self.report, self.evaluations = report, 0
        self.begin = self.last = time.monotonic()
        self.best = self.told = -float("inf")

    def search(self) -> None:
        """Another search begins, whose likelihood may be one of other numbers."""
        self.best, self.told = -float("inf"), float("nan")

    def tell(self, value: float) -> None:
        """Take one evaluation into account."""
        self.evaluations, self.best = self.evaluations + 1, max(self.best, value)
        now = time.monotonic()
        if now - self.begin < PATIENCE or now - self.last < EVERY:
            return
        gain, self.told, self.last = self.best - self.told, self.best, now
        self.report(SearchProgress(self.evaluations, self.best, gain, now - self.begin))


_CURRENT: ContextVar[Watch | None] = ContextVar("watch", default=None)


def current_watch() -> Watch | None:
    """Whoever watches the present fit."""
    return _CURRENT.get()


@contextlib.contextmanager
def watched(progress: Any) -> Iterator[None]:
    """Watch all searches inside.

    Args:
        progress: False or None for silence, True for lines on standard error, or a function of
            `SearchProgress`.
    """
    if progress is None or progress is False:
        yield
        return
    if progress is not True and not callable(progress):
        expected, fix = "True, False or a function", "progress=True"
        raise InputError("progress", expected=expected, got=repr(progress), fix=fix)
    token = _CURRENT.set(Watch(_print if progress is True else progress))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _print(state: SearchProgress) -> None:
    print(state, file=sys.stderr, flush=True)

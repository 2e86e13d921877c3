"""What a run says about itself while it goes on."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

from spdelaw.errors import InputError
from spdelaw.train._event_file import EventFile
from spdelaw.train._processes import is_first


@dataclasses.dataclass(frozen=True)
class Progress:
    """State after an epoch.

    Attributes:
        epoch, epochs: done and in all.
        loss: mean training loss of the epoch, nats a path.
        relative_l2: of the reconstruction of the validation paths.
        rate: factor of the learning rates in this epoch.
        seconds: since this run started.
        eta: expected seconds to the end.
    """

    epoch: int
    epochs: int
    loss: float
    relative_l2: float
    rate: float
    seconds: float
    eta: float

    def __str__(self) -> str:
        """One line."""
        return (
            f"epoch {self.epoch}/{self.epochs}  loss {self.loss:.4g}  rel L2 "
            f"{self.relative_l2:.4f}  rate x{self.rate:.3f}  {_clock(self.eta)} to go"
        )


Report = Callable[[Progress], None]


def reporter(progress: Any) -> Report:
    """Function to call after each epoch.

    Args:
        progress: False or None for silence, True for lines on standard error (one that rewrites
            itself on a terminal, else one every twentieth of the way), or a function of
            `Progress`.
    """
    if progress is None or progress is False or (progress is True and not is_first()):
        return lambda state: None
    if progress is True:
        return _print
    if callable(progress):
        return progress
    expected = "True, False or a function"
    raise InputError("progress", expected=expected, got=repr(progress), fix="progress=True")


def with_tensorboard(report: Report, folder: Any) -> Report:
    """The same report, and the numbers of each epoch to a folder that TensorBoard shows."""
    if folder is None or not is_first():
        return report
    events = EventFile(folder)

    def both(state: Progress) -> None:
        scalars = {"loss": state.loss, "relative_l2": state.relative_l2, "rate": state.rate}
        events.add(state.epoch, scalars)
        report(state)

    return both


def _print(state: Progress) -> None:
    last = state.epoch == state.epochs
    if sys.stderr.isatty():
        print(f"\r{state}\x1b[K", end="\n" if last else "", file=sys.stderr, flush=True)
    elif last or state.epoch % max(1, state.epochs // 20) == 0:
        print(state, file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02d}:{s:02d}"

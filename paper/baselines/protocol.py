"""Rules of training, one set for all systems, with the published numbers of each.

Learning rate and end of training are functions of the validation losses so far, so a run that
resumes from a checkpoint needs no other state.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal

from spdelaw.errors import InputError


@dataclasses.dataclass(frozen=True)
class Protocol:
    """Rules of training; the defaults are those of SPDEBench in one dimension.

    Attributes:
        epochs: largest number of passes over the training paths.
        batch_size: paths in one step of Adam.
        rate: learning rate at the start.
        weight_decay: weight decay of all weights.
        loss: "relative_l2", the sum over a batch of ``|u_hat - u| / |u|`` with norms over times
            after the first and points; "mse", the mean square; or "own", that of the network.
        schedule: "plateau" (the rate falls after ``patience`` epochs without progress),
            "cosine" (half a cosine over ``epochs``) or "constant".
        patience, factor, threshold, least_rate: rule of the plateau: epochs, factor, smallest
            relative progress, and smallest rate.
        stop_after, delta: training ends after ``stop_after`` epochs without an improvement of
            ``delta``.
        checkpoint_every: epochs between two checkpoints.
    """

    epochs: int = 1000
    batch_size: int = 20
    rate: float = 2.5e-3
    weight_decay: float = 1e-4
    loss: Literal["relative_l2", "mse", "own"] = "relative_l2"
    schedule: Literal["plateau", "cosine", "constant"] = "plateau"
    patience: int = 50
    factor: float = 0.1
    threshold: float = 1e-6
    least_rate: float = 1e-7
    stop_after: int = 100
    delta: float = 1e-4
    checkpoint_every: int = 10

    def changed(self, **values: Any) -> Protocol:
        """Copy with some rules replaced, checked."""
        names = [f.name for f in dataclasses.fields(self)]
        unknown = sorted(set(values) - set(names))
        if unknown:
            expected, got = f"a rule of training ({', '.join(names)})", repr(unknown[0])
            raise InputError("keyword", expected=expected, got=got, fix="check the spelling")
        for name, value in values.items():
            _check(name, value, getattr(self, name))
        return dataclasses.replace(self, **values)


#: Rules that are words, with their values; the others are numbers.
WORDS = {"loss": ("relative_l2", "mse", "own"), "schedule": ("plateau", "cosine", "constant")}
#: Numbers that may be zero.
MAY_BE_ZERO = ("weight_decay", "threshold", "least_rate", "delta")


def _check(name: str, value: Any, default: Any) -> None:
    if name in WORDS:
        valid, expected = value in WORDS[name], f"one of {WORDS[name]}"
    else:
        whole = isinstance(default, int)
        number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
        least = 0 if name in MAY_BE_ZERO else 1 if whole else math.ulp(0.0)
        valid = number and least <= value < math.inf
        expected = "a positive integer" if whole else "a finite number of at least 0"
    if not valid:
        got = repr(value)
        raise InputError(name, expected=expected, got=got, fix=f"the published one is {default!r}")


def rate_factor(losses: Sequence[float], protocol: Protocol) -> float:
    """Factor of the learning rate in the epoch after these validation losses.

    Example:
        >>> flat = [1.0] * 120
        >>> rule = Protocol()
        >>> [round(rate_factor(flat[:n], rule), 6) for n in (0, 51, 52, 102, 103)]
        [1.0, 1.0, 0.1, 0.1, 0.01]
    """
    if protocol.schedule == "constant":
        return 1.0
    if protocol.schedule == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * min(1.0, len(losses) / protocol.epochs)))
    rate, best, bad = protocol.rate, math.inf, 0
    for loss in losses:
        if loss < best * (1.0 - protocol.threshold):
            best, bad = loss, 0
        else:
            bad += 1
        if bad > protocol.patience:
            rate, bad = max(rate * protocol.factor, protocol.least_rate), 0
    return rate / protocol.rate


def is_over(losses: Sequence[float], protocol: Protocol) -> bool:
    """Whether training ends after these validation losses.

    Example:
        >>> [is_over([1.0, 0.5] + [0.5] * n, Protocol()) for n in (99, 100)]
        [False, True]
    """
    if len(losses) >= protocol.epochs:
        return True
    best, since = math.inf, 0
    for loss in losses:
        best, since = (loss, 0) if loss < best - protocol.delta else (best, since + 1)
        if since >= protocol.stop_after:
            return True
    return False

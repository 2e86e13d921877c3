"""Training of whatever learns: epochs, warm-up and cosine, checkpoints and interruptions.

Memory that a step gives back is kept for the next one.
"""

from __future__ import annotations

import abc
import ctypes
import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np

from spdelaw.train._checkpoint import Snapshot, find_checkpoint, write_checkpoint
from spdelaw.train._processes import is_first
from spdelaw.train._progress import Progress, Report

#: Names of the random streams of a run, by their numbers.
STREAMS = ("weights", "order", "noise", "hold out")
#: Options of glibc's ``mallopt``, and the largest size it takes.
TRIM_THRESHOLD, MMAP_THRESHOLD, LARGEST = -1, -3, 2**31 - 1
#: The thresholds glibc's own adaptation goes up to in a process that frees large pieces.
USUAL_MMAP, USUAL_TRIM = 2**25, 2**26


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C during training; says what was saved and how to go on."""


class Run(abc.ABC):
    """Something that learns epoch by epoch and can be put back to any of them.

    Its config has ``epochs``, ``checkpoint_every`` and, unless it has rates of its own, what
    `rate_factor` takes.
    """

    config: Any
    snapshot: Snapshot

    @abc.abstractmethod
    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot."""

    @abc.abstractmethod
    def epoch(self, epoch: int) -> float:
        """One pass over the data; mean loss."""

    @abc.abstractmethod
    def finish(self, epoch: int, loss: float, seconds: float) -> None:
        """Score the epoch and replace the snapshot."""

    def rate(self, epoch: int) -> float:
        """Factor of the learning rates in an epoch."""
        return rate_factor(epoch, self.config)

    def is_over(self) -> bool:
        """Whether the last epoch is done."""
        return self.snapshot.epoch >= self.config.epochs


def rate_factor(epoch: int, config: Any) -> float:
    """Linear warm-up to 1, then half a cosine to 0, in each cycle.

    A cycle that began at the full rate would undo what the last one learned: Adam's scale of a
    gradient is small at its end.

    Args:
        epoch: counted from 0.
        config: ``epochs`` in all, ``warmup_epochs``, and a ``schedule`` of cycles if it has one.

    Example:
        >>> from spdelaw.infer.amortized import AmortizedConfig
        >>> config = AmortizedConfig(epochs=170, warmup_epochs=10, schedule=(110, 60))
        >>> [round(rate_factor(e, config), 3) for e in (0, 9, 10, 60, 109, 110, 120, 145)]
        [0.1, 1.0, 1.0, 0.5, 0.0, 0.1, 1.0, 0.5]
    """
    start, end = cycle_of(epoch, config.epochs, getattr(config, "schedule", ()))
    done, warm = epoch - start, min(config.warmup_epochs, (end - start) // 3)
    if done < warm:
        return (done + 1) / warm
    return 0.5 * (1.0 + math.cos(math.pi * (done - warm) / (end - start - warm)))


def cycle_of(epoch: int, epochs: int, lengths: Sequence[int]) -> tuple[int, int]:
    """First epoch of the cycle an epoch lies in, and the first after it.

    The last length repeats; a cycle that would pass the last epoch is cut there.

    Example:
        >>> cycle_of(95, 130, (60, 30)), cycle_of(125, 130, (60, 30)), cycle_of(7, 130, ())
        ((90, 120), (120, 130), (0, 130))
    """
    start = 0
    for length in chain(lengths, repeat(lengths[-1] if lengths else epochs)):
        if epoch < start + length:
            return start, min(start + length, epochs)
        start += length
    raise AssertionError("lengths are positive")


def stream(seed: int, name: str | int, *more: int) -> int:
    """Seed of a random stream, 64 bits: one of `STREAMS`, or of a number of its own."""
    key = (STREAMS.index(name) if isinstance(name, str) else name, *more)
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)[0])


def train(
    run: Run, *, identity: dict[str, Any], checkpoint: Path | None, report: Report
) -> Snapshot:
    """Take a run to its end, or go on with it.

    Args:
        run: what learns.
        identity: what a checkpoint has to agree on before it is gone on with.
        checkpoint: folder, or None.
        report: called after every epoch.

    Raises:
        ConvergenceError: something is not finite.
        TrainingInterrupted: Ctrl-C; the last whole epoch is saved.
    """
    if checkpoint is not None and (found := find_checkpoint(checkpoint, identity)) is not None:
        run.restore(found)
    folder = checkpoint if is_first() else None
    start, done, epochs = time.perf_counter(), run.snapshot.epoch, run.config.epochs
    before, saved = run.snapshot.seconds, run.snapshot.epoch
    try:
        with reused_memory():
            while not run.is_over():
                epoch = run.snapshot.epoch
                rate, loss = run.rate(epoch), run.epoch(epoch)
                seconds = time.perf_counter() - start
                run.finish(epoch, loss, before + seconds)
                if folder is not None and (epoch + 1) % run.config.checkpoint_every == 0:
                    write_checkpoint(folder, run.snapshot, identity)
                    saved = run.snapshot.epoch
                loss, _, relative_l2 = run.snapshot.history[-1]
                left = (epochs - epoch - 1) * seconds / (epoch + 1 - done)
                report(Progress(epoch + 1, epochs, loss, relative_l2, rate, seconds, left))
    except KeyboardInterrupt as error:
        raise _interrupted(run.snapshot, epochs, checkpoint, identity) from error
    if folder is not None and saved < run.snapshot.epoch:
        write_checkpoint(folder, run.snapshot, identity)
    return run.snapshot


def _interrupted(
    snapshot: Snapshot, epochs: int, checkpoint: Path | None, identity: dict[str, Any]
) -> TrainingInterrupted:
    where = f"stopped after epoch {snapshot.epoch} of {epochs}"
    if checkpoint is None:
        return TrainingInterrupted(f"{where}; nothing was saved: pass checkpoint='run' to keep it")
    if snapshot.epoch == 0:
        return TrainingInterrupted(f"{where}; there was nothing to save yet")
    if is_first():
        write_checkpoint(checkpoint, snapshot, identity)
    return TrainingInterrupted(
        f"{where}; saved in {checkpoint}. To go on, repeat the call with the same checkpoint"
    )


# -- memory ---------------------------------------------------------------------------------------


@contextmanager
def reused_memory() -> Iterator[None]:
    """Within the block, freed memory stays with the process.

    A step allocates and frees tens of megabytes. glibc hands large pieces back to the system at
    once, and touching them anew costs a page fault for each 4 kB: a fifth of a step. On other
    systems this does nothing.
    """
    libc = _glibc()
    if libc is None:
        yield
        return
    libc.mallopt(MMAP_THRESHOLD, LARGEST)
    libc.mallopt(TRIM_THRESHOLD, LARGEST)
    try:
        yield
    finally:
        libc.mallopt(MMAP_THRESHOLD, USUAL_MMAP)
        libc.mallopt(TRIM_THRESHOLD, USUAL_TRIM)
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None

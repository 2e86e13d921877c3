"""LOOP: what any training needs: epochs, rates, checkpoints, progress, interruptions.

`spdelaw.train.torch_run` holds what trainings in torch share and is imported only where torch is.
"""

from spdelaw.train._checkpoint import Snapshot, read_checkpoint
from spdelaw.train._loop import (
    HOLD_OUT,
    NOISE,
    ORDER,
    WEIGHTS,
    Run,
    TrainingInterrupted,
    rate_factor,
    reused_memory,
    stream,
    train,
)
from spdelaw.train._processes import ALONE, Processes, is_first, joined
from spdelaw.train._progress import EventFile, Progress, Report, reporter, with_tensorboard

__all__ = [
    "ALONE",
    "HOLD_OUT",
    "NOISE",
    "ORDER",
    "WEIGHTS",
    "EventFile",
    "Processes",
    "Progress",
    "Report",
    "Run",
    "Snapshot",
    "TrainingInterrupted",
    "is_first",
    "joined",
    "rate_factor",
    "read_checkpoint",
    "reporter",
    "reused_memory",
    "stream",
    "train",
    "with_tensorboard",
]

"""LOOP: what any training needs: epochs, rates, checkpoints, progress, interruptions.

`spdelaw.train.torch_run` holds what trainings in torch share and is imported only where torch is.
"""

from spdelaw.train._checkpoint import Snapshot, read_checkpoint
from spdelaw.train._loop import Run, TrainingInterrupted, reused_memory, stream, train
from spdelaw.train._processes import ALONE, Processes, joined
from spdelaw.train._progress import Progress, Report, reporter, with_tensorboard

__all__ = [
    "ALONE",
    "Processes",
    "Progress",
    "Report",
    "Run",
    "Snapshot",
    "TrainingInterrupted",
    "joined",
    "read_checkpoint",
    "reporter",
    "reused_memory",
    "stream",
    "train",
    "with_tensorboard",
]

"""Processes that train one model together, started by ``torchrun``.

Each holds all data and takes its share of every batch. Gradients are summed over processes, so that
a step is the step of one process on the whole batch, whatever their number. The first process
scores epochs and writes checkpoints.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from spdelaw.errors import ExecutorError

if TYPE_CHECKING:
    from torch import Tensor

#: What ``torchrun`` says to each process that it starts.
NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Processes(NamedTuple):
    """This process among all that train together.

    Attributes:
        rank: its number, from 0.
        size: how many there are.
    """

    rank: int = 0
    size: int = 1

    def share(self, n: int) -> slice:
        """Which of ``n`` paths are for this process; shares differ by one path at most."""
        return slice(self.rank * n // self.size, (self.rank + 1) * n // self.size)

    def total(self, numbers: Tensor) -> Tensor:
        """Sum over all processes."""
        return self._shared("all_reduce", numbers)

    def first(self, numbers: Tensor) -> Tensor:
        """The numbers of the first process."""
        return self._shared("broadcast", numbers, 0)

    def _shared(self, verb: str, numbers: Tensor, *more: int) -> Tensor:
        """Numbers after a verb of ``torch.distributed``; of one process as they are."""
        if self.size > 1:
            import torch.distributed as distributed

            with _together():
                getattr(distributed, verb)(numbers, *more)
        return numbers


#: One process, without torchrun.
ALONE = Processes()


def is_first() -> bool:
    """Whether this process is the one that writes: the only one, or the first of ``torchrun``."""
    return not _started() or int(os.environ["RANK"]) == 0


def joined() -> Processes:
    """The processes that ``torchrun`` started, connected; this one alone without it."""
    if not _started():
        return ALONE
    import torch.distributed as distributed

    with _together():
        if not distributed.is_initialized():
            distributed.init_process_group("gloo")
    return Processes(distributed.get_rank(), distributed.get_world_size())


def _started() -> bool:
    return all(name in os.environ for name in NAMES) and int(os.environ["WORLD_SIZE"]) > 1


@contextlib.contextmanager
def _together() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as error:  # of torch.distributed, whatever the transport
        expected = "all processes until the training is over"
        got = f"one that went away ({str(error).splitlines()[0][:80]})"
        fix = "repeat the call with the same checkpoint, with any number of processes"
        raise ExecutorError("torchrun", expected=expected, got=got, fix=fix) from error

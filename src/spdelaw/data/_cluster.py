"""Blocks on a Dask cluster: read, condensed and kept on its workers.

The scheduler knows the whole history of each result, so that what is lost with a worker is made
again on another. Blocks in memory are sent with their tasks for the same reason: scattered ones
would have no history. Only a scheduler that goes away, or a block that kills every worker, ends the
work.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from spdelaw.data._blocks import Place
from spdelaw.errors import ExecutorError


@dataclasses.dataclass(frozen=True)
class Cluster(Place):
    """The workers of a Dask ``Client``."""

    client: Any
    remote = True

    @property
    def workers(self) -> int:
        """Threads of all workers that are there now."""
        with _one_error():
            return sum(self.client.nthreads().values())

    def guard(self) -> contextlib.AbstractContextManager:
        """Errors of the cluster as one error."""
        return _one_error()

    def over(self, function: Callable, blocks: Sequence, *parameters: Any) -> list:
        """Results here, in the order of the blocks: one task per block."""
        futures = self.keep(function, blocks, *parameters)
        with _one_error():
            return self.client.gather(futures)

    def keep(self, function: Callable, blocks: Sequence, *parameters: Any) -> list:
        """Results on the workers, as futures."""
        with _one_error():
            if all(map(_is_future, blocks)):
                return self.client.map(
                    _call, blocks, function=function, parameters=parameters, pure=False
                )
            return self._compute(function, blocks, parameters)

    def _compute(self, function: Callable, blocks: Sequence, parameters: tuple) -> list:
        """Tasks with all that they need: lazy blocks, futures, or arrays of this process."""
        import dask

        # One node of the graph holds the parameters of all tasks.
        shared = dask.delayed(parameters, pure=False, traverse=False)
        call = dask.delayed(_call, pure=False)
        tasks = [call(block, function, shared) for block in blocks]
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self.client.compute(tasks)


def _call(block: Any, function: Callable, parameters: tuple) -> Any:
    return function(block, *parameters)


def _is_future(block: Any) -> bool:
    from distributed import Future

    return isinstance(block, Future)


@contextlib.contextmanager
def _one_error() -> Iterator[None]:
    """Whatever a cluster that fails raises, as one error; those of the work itself pass."""
    from distributed import CancelledError, KilledWorker
    from distributed.client import ClosedClientError
    from distributed.comm import CommClosedError

    try:
        yield
    except KilledWorker as error:
        expected = "workers with memory for one block"
        got = f"a block that killed {error.allowed_failures + 1} workers"
        fix = "store the data in smaller chunks of paths, or give each worker more memory"
        raise ExecutorError("executor", expected=expected, got=got, fix=fix) from error
    except (CancelledError, ClosedClientError, CommClosedError, TimeoutError) as error:
        expected = "a Dask scheduler that stays until the work is done"
        got = f"one that went away ({type(error).__name__})"
        fix = "start the cluster again and repeat the call; nothing was written"
        raise ExecutorError("executor", expected=expected, got=got, fix=fix) from error

"""Where blocks of data are computed: in this process, in threads, or on a Dask cluster."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from spdelaw.errors import ExecutorError, InputError

# ---------- One pass over blocks of data: in this process, in threads, or on a Dask cluster
#
# Every pass is ``function(block, *parameters)``. Results come back in the order of the blocks, or
# stay where they were made (`Executor.map_persist`), so that only parameters and sums travel
# afterwards. A block is any object, or a lazy one (Dask) that is read where the function runs.


class Executor(abc.ABC):
    """Computes functions of blocks."""

    #: Whether results that are kept live in the memory of other processes.
    remote = False

    @abc.abstractmethod
    def map(self, function: Callable, blocks: Sequence, *parameters: Any) -> list:
        """Results here, in the order of the blocks."""

    @abc.abstractmethod
    def map_persist(self, function: Callable, blocks: Sequence, *parameters: Any) -> list:
        """Results where they are made; each can be a block of a later pass."""

    def guard(self) -> contextlib.AbstractContextManager:
        """A context in which every failure of a cluster raises the same error."""
        return contextlib.nullcontext()

    def tree(self, function: Callable, blocks: Sequence) -> Any:
        """``function(a, b)`` of neighbours until one is left, here."""
        kept = list(blocks)
        while len(kept) > 1:
            pairs = [kept[i : i + 2] for i in range(0, len(kept) - 1, 2)]
            last = kept[2 * len(pairs) :]
            kept = self.map_persist(_apply_to_pair, pairs, function) + last
        return self.map(_identity, kept)[0]


def _apply_to_pair(pair: Sequence, function: Callable) -> Any:
    return function(*pair)


def _identity(block: Any) -> Any:
    return block


@dataclasses.dataclass(frozen=True)
class LocalExecutor(Executor):
    """One after the other, or through the ``map`` of an executor."""

    pool_map: Callable = map

    def map(self, function: Callable, blocks: Sequence, *parameters: Any) -> list:
        """Results in the order of the blocks."""
        return list(self.pool_map(functools.partial(_call, function, parameters), blocks))

    map_persist = map


def _call(function: Callable, parameters: tuple, block: Any) -> Any:
    return function(loaded(block), *parameters)


def loaded(block: Any) -> Any:
    """A lazy block in memory, anything else as it is."""
    if isinstance(block, list):
        return [loaded(entry) for entry in block]
    return block.compute() if is_lazy(block) else block


def is_lazy(block: Any) -> bool:
    """Whether a block is still to be read."""
    return hasattr(block, "__dask_graph__")


def as_executor(executor: Any) -> Executor:
    """The executor for the argument of a user, or `InputError`."""
    if executor is None:
        return LocalExecutor()
    if isinstance(executor, Executor):
        return executor
    if hasattr(executor, "scatter") and hasattr(executor, "gather"):
        return DaskExecutor(executor)
    if callable(getattr(executor, "map", None)):
        return LocalExecutor(executor.map)
    expected = "None, an executor with a method map, or a Dask Client"
    fix = "pass executor=concurrent.futures.ThreadPoolExecutor(4), or distributed.Client(...)"
    raise InputError("executor", expected=expected, got=type(executor).__name__, fix=fix)


# ---------- Blocks on a Dask cluster: read, condensed and kept on its workers
#
# The scheduler knows the whole history of each result, so that what is lost with a worker is made
# again on another. Blocks in memory are sent with their tasks for the same reason: scattered ones
# would have no history. Only a scheduler that goes away, or a block that kills every worker, ends
# the work.


@dataclasses.dataclass(frozen=True)
class DaskExecutor(Executor):
    """The workers of a Dask ``Client``."""

    client: Any
    remote = True

    def guard(self) -> contextlib.AbstractContextManager:
        """Errors of the cluster as one error."""
        return _cluster_errors()

    def map(self, function: Callable, blocks: Sequence, *parameters: Any) -> list:
        """Results here, in the order of the blocks: one task per block."""
        futures = self.map_persist(function, blocks, *parameters)
        with _cluster_errors():
            return self.client.gather(futures)

    def map_persist(self, function: Callable, blocks: Sequence, *parameters: Any) -> list:
        """Results on the workers, as futures."""
        with _cluster_errors():
            if all(map(_is_future, blocks)):
                return self.client.map(
                    _call_remotely, blocks, function=function, parameters=parameters, pure=False
                )
            return self._compute(function, blocks, parameters)

    def _compute(self, function: Callable, blocks: Sequence, parameters: tuple) -> list:
        """Tasks with all that they need: lazy blocks, futures, or arrays of this process."""
        import dask

        # One node of the graph holds the parameters of all tasks.
        shared = dask.delayed(parameters, pure=False, traverse=False)
        call = dask.delayed(_call_remotely, pure=False)
        tasks = [call(block, function, shared) for block in blocks]
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self.client.compute(tasks)


def _call_remotely(block: Any, function: Callable, parameters: tuple) -> Any:
    return function(block, *parameters)


def _is_future(block: Any) -> bool:
    from distributed import Future

    return isinstance(block, Future)


@contextlib.contextmanager
def _cluster_errors() -> Iterator[None]:
    """Errors of a failing cluster as `ExecutorError`; errors of the function itself pass."""
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
        expected = "a Dask scheduler that runs until the end"
        got = f"a scheduler that stopped ({type(error).__name__})"
        fix = "start the cluster again and repeat the call; nothing was written"
        raise ExecutorError("executor", expected=expected, got=got, fix=fix) from error


# ---------- Pieces of a data set, cut in paths and times along its stored chunks
#
# Chunks of times stay as they are. Chunks of paths stay too, but neighbours that are small are
# taken together, so that a task is worth its overhead.


#: Bytes of a block of paths that neighbouring chunks are joined up to.
MIN_BLOCK_BYTES = 16e6
#: Blocks that values in memory are cut into for a cluster, at most.
MAX_CUTS = 32


class Pieces(NamedTuple):
    """Arrays (paths, times, points), lazy or not, that make up a data set.

    Attributes:
        blocks: by block of paths, then by time.
        paths: of each block.
        times: of each piece of a block.
    """

    blocks: list[list[Any]]
    paths: list[slice]
    times: list[slice]

    @property
    def flat(self) -> list[Any]:
        """All pieces, block after block."""
        return [piece for block in self.blocks for piece in block]

    def read(self) -> Iterator[tuple[tuple[slice, slice], np.ndarray]]:
        """Paths and times of each piece, and its values, one after the other."""
        for paths, block in zip(self.paths, self.blocks, strict=True):
            for times, piece in zip(self.times, block, strict=True):
                yield (paths, times), loaded(piece)

    def by_block(self, results: Sequence[Any]) -> list[list[Any]]:
        """Results for each piece, by block of paths."""
        n = len(self.times)
        return [list(results[i : i + n]) for i in range(0, len(results), n)]


def pieces_of(values: Any) -> Pieces:
    """The pieces in which values are stored.

    Args:
        values: (P, T, ...), a Dask array, or another one that is cut in paths alone.
    """
    if not is_lazy(values):
        values = np.asarray(values)
        step = max(1, -(-len(values) // MAX_CUTS))
        paths = [slice(i, min(i + step, len(values))) for i in range(0, len(values), step)]
        blocks = [[values[path_slice]] for path_slice in paths]
        return Pieces(blocks, paths, [slice(0, values.shape[1])])
    import dask

    chunks = values.to_delayed()
    groups = _chunk_ranges(values.chunks[0], 8.0 * np.prod(values.shape[1:]))
    join = dask.delayed(np.block, pure=False)
    pieces = [
        [join(chunks[first:last, t : t + 1].tolist()) for t in range(chunks.shape[1])]
        for first, last in groups
    ]
    ends = np.cumsum([0, *values.chunks[0]])
    paths = [slice(int(ends[first]), int(ends[last])) for first, last in groups]
    return Pieces(pieces, paths, slices_of(values.chunks[1]))


def _chunk_ranges(sizes: Sequence[int], path_bytes: float) -> list[tuple[int, int]]:
    """Ranges of neighbouring chunks of paths that are worth a task."""
    ranges, first, n_bytes = [], 0, 0.0
    for i, size in enumerate(sizes):
        n_bytes += size * path_bytes
        if n_bytes >= MIN_BLOCK_BYTES or i == len(sizes) - 1:
            ranges.append((first, i + 1))
            first, n_bytes = i + 1, 0.0
    return ranges


def slices_of(sizes: Sequence[int]) -> list[slice]:
    """Chunks of these sizes, one after the other."""
    ends = np.cumsum([0, *sizes])
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]

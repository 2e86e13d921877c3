"""One pass over data in blocks: here, in threads, or on a Dask cluster, with the same answers.

Every pass is ``function(block, *parameters)``. Results come back in the order of the blocks, or
stay where they were made (`Place.keep`) so that only parameters and sums travel afterwards. A block
is any object, or a lazy one (Dask) that is read where the function runs.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from spdelaw.errors import InputError


def over_blocks(
    function: Callable, blocks: Sequence, *parameters: Any, executor: Any = None
) -> list:
    """``[function(block, *parameters) for block in blocks]`` where the executor runs.

    Args:
        function: of a block and the parameters; importable by name where processes run it.
        blocks: arrays, lazy arrays, or anything else.
        parameters: the same for every block.
        executor: None for here, anything with ``map`` (a ``ThreadPoolExecutor``), or a Dask
            ``Client``.
    """
    return place_of(executor).over(function, blocks, *parameters)


class Place(abc.ABC):
    """Where blocks are worked on."""

    #: Whether results that are kept live in the memory of other processes.
    remote = False

    @property
    @abc.abstractmethod
    def workers(self) -> int:
        """How many blocks are worked on at once."""

    @abc.abstractmethod
    def over(self, function: Callable, blocks: Sequence, *parameters: Any) -> list:
        """Results here, in the order of the blocks."""

    @abc.abstractmethod
    def keep(self, function: Callable, blocks: Sequence, *parameters: Any) -> list:
        """Results where they are made; each can be a block of a later pass."""

    def guard(self) -> contextlib.AbstractContextManager:
        """Within it, a place that goes away is one error whatever noticed it first."""
        return contextlib.nullcontext()

    def tree(self, function: Callable, blocks: Sequence) -> Any:
        """``function(a, b)`` of neighbours until one is left, here."""
        kept = list(blocks)
        while len(kept) > 1:
            pairs = [kept[i : i + 2] for i in range(0, len(kept) - 1, 2)]
            last = kept[2 * len(pairs) :]
            kept = self.keep(_of_two, pairs, function) + last
        return self.over(_itself, kept)[0]


def _of_two(pair: Sequence, function: Callable) -> Any:
    return function(*pair)


def _itself(block: Any) -> Any:
    return block


@dataclasses.dataclass(frozen=True)
class Here(Place):
    """One after the other, or through the ``map`` of an executor."""

    map: Callable = map
    n_workers: int = 1

    @property
    def workers(self) -> int:
        """One, or what the executor has."""
        return self.n_workers

    def over(self, function: Callable, blocks: Sequence, *parameters: Any) -> list:
        """Results in the order of the blocks."""
        return list(self.map(functools.partial(_call, function, parameters), blocks))

    keep = over


def _call(function: Callable, parameters: tuple, block: Any) -> Any:
    return function(loaded(block), *parameters)


def loaded(block: Any) -> Any:
    """A lazy block in memory, anything else as it is."""
    if isinstance(block, list):
        return [loaded(part) for part in block]
    return block.compute() if is_lazy(block) else block


def is_lazy(block: Any) -> bool:
    """Whether a block is still to be read."""
    return hasattr(block, "__dask_graph__")


def place_of(executor: Any) -> Place:
    """Where an executor runs, or `InputError`."""
    if executor is None:
        return Here()
    if isinstance(executor, Place):
        return executor
    if hasattr(executor, "scatter") and hasattr(executor, "gather"):
        from spdelaw.data._cluster import Cluster

        return Cluster(executor)
    if callable(getattr(executor, "map", None)):
        # Of the standard library's pools; others say nothing about themselves.
        return Here(executor.map, int(getattr(executor, "_max_workers", 1)))
    expected = "None, an executor with a method map, or a Dask Client"
    fix = "pass executor=concurrent.futures.ThreadPoolExecutor(4), or distributed.Client(...)"
    raise InputError("executor", expected=expected, got=type(executor).__name__, fix=fix)

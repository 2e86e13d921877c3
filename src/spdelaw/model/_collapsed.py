"""Collapsed observations: paths in blocks, and long records in parts of their times.

Parts stay where they were collapsed. Passes that go row by row look at the parts. Those that look
at steps, as moment estimates do, look at the rows of all times together, without what couples their
modes: ``8 T N`` bytes for each of three arrays in place of ``8 T N^2``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from spdelaw.data import Here, Place
from spdelaw.model._blocks import in_full

Array = np.ndarray


class Block(NamedTuple):
    """Paths that are worked on together.

    Attributes:
        paths: their indices, (P,).
        times: (T, 1) where shared, else (T, P).
        gram: ``G``, (T, N, N, B), or its diagonal (T, N, B); B is 1 where shared.
        vector: ``b``, (T, N, P).
        estimate: ``c_hat``, (T, N, P).
        misfit: ``RSS`` summed over times, (P,).
        n_values: observed values, (P,).
        log_weight: sum of ``log w`` over the observed values, (P,).
        log_gram: sum over times of ``log |G|`` where G is regular, (B,).
        unit: one, (1, 1); after `rotate` what stands for it in each column, (N, columns), when
            ``vector`` and ``estimate`` have fewer columns than there are paths.
        before: time of the row before the first, (1, 1), in a later part of a record; else (0, 1).
    """

    paths: Array
    times: Array
    gram: Array
    vector: Array
    estimate: Array
    misfit: Array
    n_values: Array
    log_weight: Array
    log_gram: Array
    unit: Array = np.ones((1, 1))
    before: Array = np.ones((0, 1))

    @property
    def is_diagonal(self) -> bool:
        """Whether the observations leave the modes uncoupled."""
        return self.gram.ndim == 3

    @property
    def diagonal(self) -> Array:
        """Diagonal of ``G``, (T, N, B)."""
        return self.gram if self.is_diagonal else np.einsum("tiib->tib", self.gram)

    @property
    def n_states(self) -> Array:
        """Coefficients that the rows of each path see, over all times; (P,)."""
        seen = (self.diagonal > 0).sum((0, 1)).astype(float)
        return np.broadcast_to(seen, len(self.paths))

    @property
    def matrices(self) -> Array:
        """``G`` in full, the batch before the modes; (T, B, N, N)."""
        return np.ascontiguousarray(np.moveaxis(in_full(self.gram), -1, 1))


class Collapsed(NamedTuple):
    """All paths of a data set in blocks, here or in the memory of a cluster.

    Attributes:
        blocks: each a `Block`, or what stands for one where it is elsewhere.
        n_paths: number of paths.
        n_modes: number of modes.
        decoupled: whether each mode stands for itself, to save memory.
        place: where the blocks are, and where they are worked on.
        known: blocks without their rows, where the blocks are elsewhere.
        records: blocks of each long record in the order of time, where they are kept apart; those
            of ``blocks`` are then their rows without what couples the modes.
    """

    blocks: tuple[Any, ...]
    n_paths: int
    n_modes: int
    decoupled: bool = False
    place: Place = Here()
    known: tuple[Block, ...] = ()
    records: tuple[tuple[Any, ...], ...] | None = None

    @property
    def facts(self) -> tuple[Any, ...]:
        """What is known here of each block: all where it is here, else all but its rows."""
        return self.known or self.blocks

    @property
    def n_values(self) -> float:
        """Observed values in all."""
        return float(sum(block.n_values.sum() for block in self.facts))

    @property
    def misfit(self) -> float:
        """Residual sum of squares in all."""
        return float(sum(block.misfit.sum() for block in self.facts))

    @property
    def n_states(self) -> float:
        """Coefficients that the rows see, over all paths and times."""
        return float(sum(states.sum() for states in self.over(_states)))

    @property
    def is_diagonal(self) -> bool:
        """Whether no block couples its modes."""
        return all(block.is_diagonal for block in self.facts)

    @property
    def parts(self) -> list[Any]:
        """Blocks with all that they have, those of long records in parts, record after record."""
        return list(self.blocks if self.records is None else itertools.chain(*self.records))

    def by_record(self, results: Sequence[Any]) -> list[list[Any]]:
        """Results of all parts, by record."""
        found = iter(results)
        return [[next(found) for _ in record] for record in self.records or ()]

    def over(self, function: Callable, *parameters: Any) -> list:
        """``function(block, *parameters)`` of each block, in their order."""
        return self.place.over(function, self.blocks, *parameters)

    def over_rows(self, function: Callable, *parameters: Any) -> list:
        """The same of blocks with all that they have; those of a long record are in parts."""
        return self.place.over(function, self.parts, *parameters)

    def over_first_rows(self, function: Callable, *parameters: Any) -> list:
        """The same of blocks that have at least the first rows of their paths."""
        heads = self.blocks if self.records is None else [record[0] for record in self.records]
        return self.place.over(function, heads, *parameters)

    def changed(self, function: Callable, *parameters: Any) -> Collapsed:
        """The same paths with other blocks, which stay where they are."""
        found = self.place.keep(function, self.parts, *parameters)
        if self.records is None:
            return self._replace(blocks=tuple(found))
        return self.with_records(self.by_record(found))

    def changed_heads(self, function: Callable, *parameters: Any) -> Collapsed:
        """The same as `changed` for what lies in the first rows alone."""
        if self.records is None:
            return self.changed(function, *parameters)
        heads = self.place.keep(function, [record[0] for record in self.records], *parameters)
        pairs = zip(heads, self.records, strict=True)
        return self.with_records([[head, *record[1:]] for head, record in pairs])

    def with_records(self, records: Sequence[Sequence[Any]]) -> Collapsed:
        """The same paths with other parts of their records."""
        found = self._replace(records=tuple(map(tuple, records)))
        slim = found.by_record(self.place.keep(_diagonals, found.parts))
        return found._replace(blocks=tuple(self.place.keep(in_time, slim)))


def _diagonals(block: Block) -> Block:
    return block if block.is_diagonal else block._replace(gram=block.diagonal.copy())


def _states(block: Block) -> Array:
    return block.n_states


def without_rows(block: Block) -> Block:
    """What has to be known here of a block that may be elsewhere."""
    rows = ("times", "gram", "vector", "estimate")
    return block._replace(**{name: getattr(block, name)[:0] for name in rows})


def in_time(blocks: list[Block]) -> Block:
    """Blocks of the same paths that follow one another in time, as one."""
    first, apart = blocks[0], all(block.is_diagonal for block in blocks)
    batch = max(block.gram.shape[-1] for block in blocks)

    def every(name: str) -> list[Array]:
        return [getattr(block, name) for block in blocks]

    grams = (gram if apart else in_full(gram) for gram in every("gram"))
    return first._replace(
        gram=np.concatenate([_for_all(gram, batch) for gram in grams]),
        log_gram=np.sum([_for_all(logs, batch) for logs in every("log_gram")], axis=0),
        **{name: np.concatenate(every(name)) for name in ("times", "vector", "estimate")},
        **{name: np.sum(every(name), axis=0) for name in ("misfit", "n_values", "log_weight")},
    )


def _for_all(part: Array, batch: int) -> Array:
    """What all paths share, once for each of them where some part differs."""
    return np.broadcast_to(part, (*part.shape[:-1], batch))


def first_paths(collapsed: Collapsed, n_paths: int) -> Collapsed:
    """The first paths of a data set, without another pass over their fields."""
    if n_paths >= collapsed.n_paths:
        return collapsed
    has_some = [bool((facts.paths < n_paths).any()) for facts in collapsed.facts]

    def some(of_each: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(itertools.compress(of_each, has_some))

    part = collapsed._replace(
        blocks=some(collapsed.blocks),
        n_paths=n_paths,
        known=tuple(_first_paths(block, n_paths) for block in some(collapsed.known)),
        records=None if collapsed.records is None else some(collapsed.records),
    )
    return part.changed(_first_paths, n_paths)


def _first_paths(block: Block, n_paths: int) -> Block:
    return some_paths(block, block.paths < n_paths)


def some_paths(block: Block, keep: Array) -> Block:
    """The paths of a block for which ``keep`` (P,) is true."""
    if keep.all():
        return block

    def of(part: Array) -> Array:
        shared = part.shape[-1] == 1 and len(keep) > 1
        return part if shared else np.ascontiguousarray(part[..., keep])

    own = [name for name in block._fields if name not in ("unit", "before")]
    return block._replace(**{name: of(getattr(block, name)) for name in own})

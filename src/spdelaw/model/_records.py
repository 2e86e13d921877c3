"""Long records in parts of times that stay where they were collapsed.

Passes that go row by row look at the parts. Those that look at steps, as moment estimates do, look
at the rows of all times together, without what couples their modes: ``8 T N`` bytes for each of
three arrays in place of ``8 T N^2``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from spdelaw.data import Place
from spdelaw.model._blocks import in_full
from spdelaw.model._collapse import Block, Collapsed, Facts, facts_of
from spdelaw.model._stitch import FEWEST_ROWS, Part, stitch

Array = np.ndarray

#: Rows from which on a record is kept in parts.
LONG = 2000
#: Workers for each path from which on parts are faster: they are 2.6 to 3.8 times the work.
WORTHWHILE = 4
#: Bytes of Gram matrices that make a part worth a task.
PART_BYTES = 16e6
#: Bytes of one record from which on it is kept in parts even if there are others to work on.
RECORD_BYTES = 400e6


class Records(NamedTuple):
    """Parts of each record in the order of time, as `Part` or what stands for one elsewhere."""

    parts: tuple[tuple[Any, ...], ...]

    @property
    def flat(self) -> list[Any]:
        """All parts, record after record."""
        return [part for record in self.parts for part in record]

    def over(self, place: Place, function: Callable, *parameters: Any) -> list:
        """``function(block, *parameters)`` of each part, in their order."""
        return place.over(_of_block, self.flat, function, parameters)

    def changed(self, place: Place, function: Callable, *parameters: Any) -> Records:
        """The same records with other blocks, which stay where they are."""
        found = place.keep(_changed, self.flat, function, parameters)
        return Records(tuple(map(tuple, self.by_record(found))))

    def rows(self, place: Place) -> tuple[Any, ...]:
        """One block for each record whose Gram matrices are their diagonals."""
        slim = self.by_record(place.keep(_diagonals, self.flat))
        return tuple(place.keep(in_time, slim))

    def facts(self, place: Place) -> tuple[Facts, ...]:
        """The facts about each record."""
        return tuple(map(_together, self.by_record(self.over(place, facts_of))))

    def heard(self, place: Place, link: Callable, *parameters: Any) -> list[list[Any]]:
        """Each part with what the others say of its ends; ``link`` condenses a part."""
        links = self.by_record(place.over(link, self.flat, *parameters))
        said = [message for record in links for message in stitch(record)]
        return [list(pair) for pair in zip(self.flat, said, strict=True)]

    @property
    def heads(self) -> Records:
        """The first part of each record."""
        return Records(tuple(record[:1] for record in self.parts))

    def with_heads(self, heads: Records) -> Records:
        """The same records with other first parts."""
        pairs = zip(heads.parts, self.parts, strict=True)
        return Records(tuple(head + record[1:] for head, record in pairs))

    def where(self, keep: Iterable[bool]) -> Records:
        """Some of the records."""
        return Records(tuple(itertools.compress(self.parts, keep)))

    def collapsed(self, n_paths: int, n_modes: int, place: Place) -> Collapsed:
        """The records as a data set of ``n_paths`` paths."""
        facts = self.facts(place)
        return Collapsed(self.rows(place), n_paths, n_modes, False, place, facts, self)

    def by_record(self, results: Sequence[Any]) -> list[list[Any]]:
        """Results of all parts, by record."""
        found = iter(results)
        return [[next(found) for _ in record] for record in self.parts]


def _of_block(part: Part, function: Callable, parameters: tuple) -> Any:
    return function(part.block, *parameters)


def _changed(part: Part, function: Callable, parameters: tuple) -> Part:
    return part._replace(block=function(part.block, *parameters))


def _diagonals(part: Part) -> Block:
    block = part.block
    if block.is_diagonal:
        return block
    return block._replace(gram=np.einsum("tiib->tib", block.gram).copy())


def _together(facts: list[Facts]) -> Facts:
    return Facts(
        facts[0].paths,
        np.sum([part.misfit for part in facts], axis=0),
        np.sum([part.n_values for part in facts], axis=0),
        all(part.is_diagonal for part in facts),
    )


def part_slices(times: Sequence[slice], n_parts: int) -> list[slice]:
    """Neighbouring chunks of times as at most ``n_parts`` parts of about one length.

    Returns ranges of chunks; every part has `FEWEST_ROWS` rows or more.
    """
    total = times[-1].stop
    length = max(FEWEST_ROWS, -(-total // max(n_parts, 1)))
    found, first, start = [], 0, 0
    for i, chunk in enumerate(times):
        if chunk.stop - start >= length and total - chunk.stop >= FEWEST_ROWS:
            found.append(slice(first, i + 1))
            first, start = i + 1, chunk.stop
    return [*found, slice(first, len(times))]


def in_time(blocks: list[Block]) -> Block:
    """Blocks of the same paths that follow one another in time, as one."""
    first, apart = blocks[0], all(block.is_diagonal for block in blocks)
    batch = max(block.gram.shape[-1] for block in blocks)

    def of(name: str) -> Array:
        return np.concatenate([getattr(block, name) for block in blocks])

    def total(name: str) -> Array:
        return np.sum([getattr(block, name) for block in blocks], axis=0)

    grams = (block.gram if apart else in_full(block.gram) for block in blocks)
    return Block(
        first.paths,
        of("times"),
        np.concatenate([_for_all(gram, batch) for gram in grams]),
        of("vector"),
        of("estimate"),
        total("misfit"),
        total("n_values"),
        total("log_weight"),
        np.sum([_for_all(block.log_gram, batch) for block in blocks], axis=0),
    )


def _for_all(part: Array, batch: int) -> Array:
    """What all paths share, once for each of them where some part differs."""
    return np.broadcast_to(part, (*part.shape[:-1], batch))

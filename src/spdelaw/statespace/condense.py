"""Data in pieces, each read once where it lies, condensed to statistics or to collapsed rows.

Both process one row of values at a time: a piece is condensed to the coefficients of its rows by
itself, and the pieces of a path are joined along time when they are small. Fields are never put
together, and chunks of times stay as they are stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spdelaw.data.executors import Executor, Pieces
from spdelaw.domains.products import Products
from spdelaw.statespace.collapse import (
    MOST_BYTES,
    Block,
    Collapsed,
    block_of,
    decoupled_block,
    join_in_time,
    some_paths,
    without_rows,
)
from spdelaw.statespace.likelihood import FEWEST_ROWS
from spdelaw.statespace.statistics import Statistics, coefficient_statistics

Array = np.ndarray

#: Rows from which on a record is kept in parts.
LONG_RECORD_ROWS = 2000
#: Workers for each path from which on parts are faster: they are 2.6 to 3.8 times the work.
WORKERS_PER_PATH = 4
#: Bytes of Gram matrices that make a part worth a task.
PART_BYTES = 16e6
#: Bytes of one record from which on it is kept in parts even if there are others to work on.
RECORD_BYTES = 400e6


def statistics_of_pieces(
    pieces: Pieces,
    times: Array,
    eigenfunctions: Array,
    executor: Executor,
    *,
    pairs: bool = False,
) -> Statistics | None:
    """Sufficient statistics of complete fields: one pass, then a tree of sums.

    Args:
        pieces: of the values.
        times: (T,).
        eigenfunctions: ``Phi``, (M, N).
        executor: where they are worked on.
        pairs: keep products of different modes too.
    """
    operator, gram = np.linalg.pinv(eigenfunctions), eigenfunctions.T @ eigenfunctions
    condensed = executor.map_persist(_coefficients, pieces.flat, operator)
    blocks = executor.map_persist(_statistics, pieces.by_block(condensed), times, gram, pairs)
    return executor.tree(_join_statistics, blocks)


def _coefficients(values: Array, operator: Array) -> tuple[Array, float, int]:
    """Coefficients of complete rows, (P, T, N), with the energy of their values and points."""
    return values @ operator.T, float(np.vdot(values, values)), values.shape[-1]


def _statistics(parts: list, times: Array, gram: Array, pairs: bool) -> Statistics | None:
    c, energy, n_points = zip(*parts, strict=True)
    joined = np.concatenate(c, axis=1)
    return coefficient_statistics(joined, times, sum(energy), n_points[0], gram, pairs)


def _join_statistics(a: Statistics | None, b: Statistics | None) -> Statistics | None:
    return None if a is None or b is None else a.joined(b)


def collapse_pieces(
    pieces: Pieces,
    times: Array,
    eigenfunctions: Array,
    executor: Executor,
    weights: Array | None = None,
    products: Products | None = None,
    *,
    with_gaps: bool = True,
) -> Collapsed:
    """`collapse` of data in pieces; the blocks stay where they are made.

    In the memory of this process modes are decoupled where their Gram matrices would not fit, as in
    `collapse`; on a cluster they are not.

    Args:
        pieces: of the values.
        times: (T,), shared by all paths.
        eigenfunctions: ``Phi``, (M, N).
        executor: where they are worked on.
        weights: relative precision of each point, (M,).
        products: ``domain.products`` of the same points and modes.
        with_gaps: whether each path has gaps of its own.
    """
    n_modes, n_paths = eigenfunctions.shape[1], pieces.paths[-1].stop
    whole = 8.0 * n_paths * len(times) * n_modes**2
    decoupled = with_gaps and not executor.remote and whole > MOST_BYTES
    clocks = [times[chunk] for chunk in pieces.times]
    rows = [[piece, i % len(clocks)] for i, piece in enumerate(pieces.flat)]
    given = clocks, eigenfunctions, weights, products, decoupled
    condensed = pieces.by_block(executor.map_persist(_collapse_piece, rows, *given))
    if not decoupled and _worth_splitting(pieces, n_modes, executor):
        return _collapse_records(condensed, pieces, times, n_modes, executor)
    parts = [[block, chunk.start] for block, chunk in zip(condensed, pieces.paths, strict=True)]
    blocks = executor.map_persist(_join_block_in_time, parts)
    metadata = tuple(executor.map(without_rows, blocks)) if executor.remote else ()
    return Collapsed(tuple(blocks), n_paths, n_modes, decoupled, executor, metadata)


def _collapse_piece(
    piece: list,
    clocks: list[Array],
    modes: Array,
    weights: Array | None,
    products: Products | None,
    decoupled: bool,
) -> Block:
    """Paths of one piece as one block; ``piece`` is its values and which times it has."""
    values, paths = piece[0], np.arange(len(piece[0]))
    given = values, clocks[piece[1]], modes, weights, products, paths
    if decoupled:
        return decoupled_block(*given)
    observed_mask = ~np.isnan(values)
    return block_of(*given, bool((observed_mask == observed_mask[:1]).all()))


def _worth_splitting(pieces: Pieces, n_modes: int, executor: Executor) -> bool:
    """Whether records are kept in parts: long ones that are few, or too large for one worker."""
    n_times, n_paths = pieces.times[-1].stop, pieces.paths[-1].stop
    if executor.workers < 2 or len(pieces.times) < 2 or n_times < LONG_RECORD_ROWS:
        return False
    return (
        n_paths * WORKERS_PER_PATH <= executor.workers or 8.0 * n_times * n_modes**2 > RECORD_BYTES
    )


def _collapse_records(
    condensed: list[list], pieces: Pieces, times: Array, n_modes: int, executor: Executor
) -> Collapsed:
    """Each path as a record in parts of neighbouring chunks of times."""
    whole, n_paths = 8.0 * len(times) * n_modes**2, pieces.paths[-1].stop
    ranges = part_slices(
        pieces.times, max(-(-executor.workers // n_paths), int(whole / PART_BYTES))
    )
    groups, starts = [], [pieces.times[chunks.start].start for chunks in ranges]
    for block, paths in zip(condensed, pieces.paths, strict=True):
        for path in range(paths.stop - paths.start):
            groups += [
                [block[chunks], path, paths.start, times[max(start - 1, 0) : start]]
                for chunks, start in zip(ranges, starts, strict=True)
            ]
    parts, n = executor.map_persist(_record_part, groups), len(ranges)
    records = [parts[i : i + n] for i in range(0, len(parts), n)]
    collapsed = Collapsed((), n_paths, n_modes, executor=executor).with_records(records)
    return collapsed._replace(
        metadata=tuple(map(join_in_time, collapsed.by_record(collapsed.over_rows(without_rows))))
    )


def _record_part(group: list) -> Block:
    """One path of neighbouring blocks in time, ``before`` them (1,) or (0,)."""
    blocks, path, start, before = group
    block_in_time = join_in_time(
        [some_paths(block, np.arange(len(block.paths)) == path) for block in blocks]
    )
    return block_in_time._replace(paths=block_in_time.paths + start, before=before[:, None])


def _join_block_in_time(group: list) -> Block:
    """Blocks that follow one another in time as one, from path ``start`` on."""
    blocks, start = group
    block = join_in_time(blocks)
    return block._replace(paths=block.paths + start)


def part_slices(times: Sequence[slice], n_parts: int) -> list[slice]:
    """Neighbouring chunks of times as at most ``n_parts`` parts of about one length.

    Returns ranges of chunks; every part has `FEWEST_ROWS` rows or more.
    """
    total = times[-1].stop
    length = max(FEWEST_ROWS, -(-total // max(n_parts, 1)))
    ranges, first, start = [], 0, 0
    for i, chunk in enumerate(times):
        if chunk.stop - start >= length and total - chunk.stop >= FEWEST_ROWS:
            ranges.append(slice(first, i + 1))
            first, start = i + 1, chunk.stop
    return [*ranges, slice(first, len(times))]

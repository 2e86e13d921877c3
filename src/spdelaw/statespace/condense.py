"""Data in pieces, each read once where it lies, condensed to statistics or to collapsed rows.

Both process one row of values at a time: a piece is condensed to the coefficients of its rows by
itself, and the pieces of a path are joined along time when they are small. Fields are never put
together, and chunks of times stay as they are stored.
"""

from __future__ import annotations

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
    without_rows,
)
from spdelaw.statespace.statistics import Statistics, coefficient_statistics

Array = np.ndarray


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
    """`collapse` of data in pieces; several blocks of paths stay where they are made.

    One block, such as one long record, comes here: ``8 T N^2`` bytes for a path with gaps. In the
    memory of this process modes of several paths are decoupled where their Gram matrices would not
    fit, as in `collapse`; on a cluster they are not.

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
    decoupled = with_gaps and n_paths > 1 and not executor.remote and whole > MOST_BYTES
    clocks = [times[chunk] for chunk in pieces.times]
    rows = [[piece, i % len(clocks)] for i, piece in enumerate(pieces.flat)]
    given = clocks, eigenfunctions, weights, products, decoupled
    condensed = pieces.by_block(executor.map_persist(_collapse_piece, rows, *given))
    parts = [[block, chunk.start] for block, chunk in zip(condensed, pieces.paths, strict=True)]
    if len(parts) == 1:
        return Collapsed(
            tuple(executor.map(_join_block_in_time, parts)), n_paths, n_modes, decoupled
        )
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


def _join_block_in_time(group: list) -> Block:
    """Blocks that follow one another in time as one, from path ``start`` on."""
    blocks, start = group
    block = join_in_time(blocks)
    return block._replace(paths=block.paths + start)

"""Data in pieces, each read once where it lies, surveyed and condensed to collapsed rows.

Each row of values is collapsed by itself, and the pieces of a path are joined along time when they
are small. Fields are never put together, and chunks of times stay as they are stored. Sufficient
statistics are sums over the collapsed rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spdelaw.checks import LARGEST_VALUE
from spdelaw.data.executors import Executor, Pieces
from spdelaw.data.observed import Observed, PieceSurvey, survey_piece
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


def condensed(observed: Observed, *n_modes: int) -> Observed:
    """The data with their survey and their rows on the first modes, from one pass over the values.

    Times without an observation are dropped. Where the Gram matrices of paths with gaps may not fit
    into memory, such paths are surveyed alone: `collapse_pieces` decouples their modes then.

    Args:
        observed: lazy, or in the memory of this process if there is a cluster.
        n_modes: numbers of modes to collapse onto.
    """
    pieces, executor = observed.pieces(), observed.executor
    is_large = _is_large(observed.n_paths, observed.times, max(n_modes), executor)
    has_gaps = observed.survey is not None and observed.survey.missing > 0
    if observed.collapsed or (is_large and has_gaps):
        return observed.at_observed_times()
    bases = [(observed.basis(n), observed.products(n)) for n in n_modes]
    parts = _map_pieces(_survey_and_collapse, pieces, observed.times, executor, bases, is_large)
    survey = observed.joined_survey(pieces, executor.map_persist(_entry, parts, 0), executor)
    surveyed = observed._replace(survey=survey)
    kept = surveyed.at_observed_times()
    if is_large and survey.missing:
        return kept
    collapsed = []
    for i, n in enumerate(n_modes, 1):
        rows = _joined(pieces, executor.map_persist(_entry, parts, i), n, False, executor)
        if kept is not surveyed:
            rows = rows.changed(_at_times, np.isin(surveyed.times, kept.times))
        collapsed.append(rows)
    return kept._replace(collapsed=tuple(collapsed))


def _survey_and_collapse(
    piece: list, clocks: list[Array], bases: list[tuple[Array, Products | None]], is_large: bool
) -> tuple[PieceSurvey | Block | None, ...]:
    part = survey_piece(piece[0])
    if part.survey.largest > LARGEST_VALUE or (is_large and part.survey.missing):
        return part, *(None for _ in bases)
    return part, *(_collapse_piece(piece, clocks, phi, None, b, False) for phi, b in bases)


def _entry(parts: tuple, which: int) -> Any:
    return parts[which]


def _at_times(block: Block, keep: Array) -> Block:
    """Some rows of a block; the others have no observation."""
    rows = ("times", "gram", "vector", "estimate")
    return block._replace(**{name: getattr(block, name)[keep] for name in rows})


def statistics_of_rows(
    collapsed: Collapsed, times: Array, eigenfunctions: Array, *, pairs: bool = False
) -> Statistics | None:
    """Sufficient statistics of complete fields from their collapsed rows: a tree of sums.

    None where a value is missing.

    Args:
        collapsed: all paths, not decoupled.
        times: (T,).
        eigenfunctions: ``Phi``, (M, N), of full rank.
        pairs: keep products of different modes too.
    """
    n_points, gram = len(eigenfunctions), eigenfunctions.T @ eigenfunctions
    if collapsed.n_values != collapsed.n_paths * len(times) * n_points:
        return None
    executor = collapsed.executor
    blocks = executor.map_persist(_statistics, collapsed.blocks, times, n_points, gram, pairs)
    return executor.tree(_join_statistics, blocks)


def _statistics(
    block: Block, times: Array, n_points: int, gram: Array, pairs: bool
) -> Statistics | None:
    c = np.ascontiguousarray(block.estimate.transpose(2, 0, 1))
    energy = float(block.misfit.sum() + np.vdot(c @ gram, c))  # y'y = RSS + c' G c
    return coefficient_statistics(c, times, energy, n_points, gram, pairs)


def _join_statistics(a: Statistics | None, b: Statistics | None) -> Statistics | None:
    return None if a is None or b is None else a.joined(b)


def collapsed_rows(
    observed: Observed,
    eigenfunctions: Array,
    weights: Array | None = None,
    products: Products | None = None,
) -> Collapsed:
    """Data in pieces on the modes; those that `condensed` collapsed onto them are not read again.

    Args:
        observed: the data.
        eigenfunctions: the first modes of the domain at the points, (M, N).
        weights: relative precision of each point, (M,).
        products: ``domain.products`` of the same points and modes.
    """
    for rows in observed.collapsed if weights is None else ():
        if rows.n_modes == eigenfunctions.shape[1]:
            return rows
    with_gaps = observed.survey is None or observed.survey.has_partial_rows
    given = observed.times, eigenfunctions, observed.executor, weights, products
    return collapse_pieces(observed.pieces(), *given, with_gaps=with_gaps)


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
    decoupled = with_gaps and _is_large(n_paths, times, n_modes, executor)
    given = eigenfunctions, weights, products, decoupled
    blocks = _map_pieces(_collapse_piece, pieces, times, executor, *given)
    return _joined(pieces, blocks, n_modes, decoupled, executor)


def _is_large(n_paths: int, times: Array, n_modes: int, executor: Executor) -> bool:
    """Whether a Gram matrix for each row of several paths is too much for this process."""
    n_bytes = 8.0 * n_paths * len(times) * n_modes**2
    return n_paths > 1 and not executor.remote and n_bytes > MOST_BYTES


def _map_pieces(
    function: Callable, pieces: Pieces, times: Array, executor: Executor, *given: Any
) -> list:
    """``function([values, which of the clocks], clocks, ...)`` of each piece, kept where made."""
    clocks = [times[chunk] for chunk in pieces.times]
    rows = [[piece, i % len(clocks)] for i, piece in enumerate(pieces.flat)]
    return executor.map_persist(function, rows, clocks, *given)


def _joined(
    pieces: Pieces, parts: list, n_modes: int, decoupled: bool, executor: Executor
) -> Collapsed:
    """Blocks of all pieces, those of the same paths joined along time."""
    groups = zip(pieces.by_block(parts), pieces.paths, strict=True)
    blocks = [[block, paths.start] for block, paths in groups]
    n_paths = pieces.paths[-1].stop
    if len(blocks) == 1:
        here = tuple(executor.map(_join_block_in_time, blocks))
        return Collapsed(here, n_paths, n_modes, decoupled)
    kept = executor.map_persist(_join_block_in_time, blocks)
    metadata = tuple(executor.map(without_rows, kept)) if executor.remote else ()
    return Collapsed(tuple(kept), n_paths, n_modes, decoupled, executor, metadata)


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

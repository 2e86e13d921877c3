"""Statistics and collapse of data in pieces (paths, times, points), each read once where it lies.

Both look at one row of values at a time: a piece is condensed to the coefficients of its rows by
itself, and the pieces of a path are joined along time when they are small. Fields are never put
together, and chunks of times stay as they are stored.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from spdelaw.data import Pieces, Place
from spdelaw.domain import Products
from spdelaw.model._collapse import (
    MOST_BYTES,
    Block,
    Collapsed,
    block_of,
    decoupled_block,
    facts_of,
    some_paths,
)
from spdelaw.model._pair_sums import pair_sums
from spdelaw.model._records import (
    LONG,
    PART_BYTES,
    RECORD_BYTES,
    WORTHWHILE,
    Records,
    in_time,
    part_slices,
)
from spdelaw.model._row_grams import Basis
from spdelaw.model._statistics import Statistics, of_coefficients
from spdelaw.model._stitch import Part

Array = np.ndarray


class Coefficients(NamedTuple):
    """Coefficients of complete rows, (P, T, N), with the energy of their values and points."""

    c: Array
    energy: float
    n_points: int


def statistics_of_pieces(
    pieces: Pieces,
    times: Array,
    eigenfunctions: Array,
    place: Place,
    *,
    pairs: bool = False,
) -> Statistics | None:
    """Sufficient statistics of complete fields: one pass, then a tree of sums.

    Args:
        pieces: of the values.
        times: (T,).
        eigenfunctions: ``Phi``, (M, N).
        place: where they are worked on.
        pairs: keep products of different modes too.
    """
    operator, gram = np.linalg.pinv(eigenfunctions), eigenfunctions.T @ eigenfunctions
    condensed = place.keep(_coefficients, pieces.flat, operator)
    blocks = place.keep(_statistics, pieces.by_block(condensed), times, gram, pairs)
    return place.tree(_sum, blocks)


def _coefficients(values: Array, operator: Array) -> Coefficients:
    c = values @ operator.T
    return Coefficients(c, float(np.vdot(values, values)), values.shape[-1])


def _statistics(
    parts: list[Coefficients], times: Array, gram: Array, pairs: bool
) -> Statistics | None:
    c = np.concatenate([part.c for part in parts], axis=1)
    energy = sum(part.energy for part in parts)
    found = of_coefficients(c, times, energy, parts[0].n_points, gram)
    if found is None or not pairs:
        return found
    return dataclasses.replace(found, pairs=pair_sums(c, times))


def _sum(a: Statistics | None, b: Statistics | None) -> Statistics | None:
    return None if a is None or b is None else a.joined(b)


def collapse_pieces(
    pieces: Pieces,
    times: Array,
    eigenfunctions: Array,
    place: Place,
    weights: Array | None = None,
    products: Products | None = None,
    *,
    with_gaps: bool = True,
) -> Collapsed:
    """`spdelaw.model.collapse` of data in pieces; the blocks stay where they are made.

    In the memory of this process modes are decoupled where their Gram matrices would not fit, as in
    `collapse`; on a cluster they are not.

    Args:
        pieces: of the values.
        times: (T,), shared by all paths.
        eigenfunctions: ``Phi``, (M, N).
        place: where they are worked on.
        weights: relative precision of each point, (M,).
        products: ``domain.products`` of the same points and modes.
        with_gaps: whether each path has gaps of its own.
    """
    n_modes, n_paths = eigenfunctions.shape[1], pieces.paths[-1].stop
    w = np.ones(len(eigenfunctions)) if weights is None else np.asarray(weights, float)
    basis = Basis(eigenfunctions, w, products)
    whole = 8.0 * n_paths * len(times) * n_modes**2
    decoupled = with_gaps and not place.remote and whole > MOST_BYTES
    clocks = [times[part] for part in pieces.times]
    rows = [[piece, i % len(clocks)] for i, piece in enumerate(pieces.flat)]
    condensed = pieces.by_block(place.keep(_rows, rows, clocks, basis, decoupled))
    if not decoupled and _are_long(pieces, n_modes, place):
        records = _records(condensed, pieces, times, n_modes, place)
        return records.collapsed(n_paths, n_modes, place)
    parts = [[block, part.start] for block, part in zip(condensed, pieces.paths, strict=True)]
    blocks = place.keep(_in_time, parts)
    known = tuple(place.over(facts_of, blocks)) if place.remote else ()
    return Collapsed(tuple(blocks), n_paths, n_modes, decoupled, place, known)


def _rows(piece: list, clocks: list[Array], basis: Basis, decoupled: bool) -> Block:
    """Paths of one piece as one block; ``piece`` is its values and which times it has."""
    values, times = piece[0], clocks[piece[1]]
    paths = np.arange(len(values))
    if decoupled:
        return decoupled_block(values, times, basis, paths)
    seen = ~np.isnan(values)
    return block_of(values, times, basis, paths, bool((seen == seen[:1]).all()))


def _are_long(pieces: Pieces, n_modes: int, place: Place) -> bool:
    """Whether records are worth being kept in parts: long ones, and few, or too large for one."""
    n_times, n_paths = pieces.times[-1].stop, pieces.paths[-1].stop
    if place.workers < 2 or len(pieces.times) < 2 or n_times < LONG:
        return False
    return n_paths * WORTHWHILE <= place.workers or 8.0 * n_times * n_modes**2 > RECORD_BYTES


def _records(
    condensed: list[list], pieces: Pieces, times: Array, n_modes: int, place: Place
) -> Records:
    """Each path as a record in parts of neighbouring chunks of times."""
    whole = 8.0 * len(times) * n_modes**2
    wanted = max(-(-place.workers // pieces.paths[-1].stop), int(whole / PART_BYTES))
    ranges = part_slices(pieces.times, wanted)
    groups, starts = [], [pieces.times[chunks.start].start for chunks in ranges]
    for block, paths in zip(condensed, pieces.paths, strict=True):
        for path in range(paths.stop - paths.start):
            groups += [
                [block[chunks], path, paths.start, times[start - 1] if start else None]
                for chunks, start in zip(ranges, starts, strict=True)
            ]
    parts, n = place.keep(_part, groups), len(ranges)
    return Records(tuple(tuple(parts[i : i + n]) for i in range(0, len(parts), n)))


def _part(group: list) -> Part:
    """One path of neighbouring blocks in time."""
    blocks, path, start, before = group
    own = in_time([some_paths(block, np.arange(len(block.paths)) == path) for block in blocks])
    return Part(own._replace(paths=own.paths + start), before)


def _in_time(part: list) -> Block:
    """Blocks that follow one another in time as one, from path ``start`` on."""
    blocks, start = part
    found = in_time(blocks)
    return found._replace(paths=found.paths + start)

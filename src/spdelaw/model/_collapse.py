"""Observations collapsed onto the modes, once, before any likelihood is computed.

At one time of one path, ``y = Phi c + e`` with ``e ~ N(0, r W^-1)``. The likelihood of ``c``
needs only

    G = Phi' W Phi,   b = Phi' W y,   c_hat = G^+ b,   RSS = (y - Phi c_hat)' W (y - Phi c_hat),

because ``(y - Phi c)' W (y - Phi c) = RSS + (c - c_hat)' G (c - c_hat)``. After this the cost
does not depend on the number of points. Writing the misfit around ``c_hat`` keeps all digits
where the noise is small; ``y'y - 2 b'c + c'G c`` would lose them.

Paths with gaps of their own have a G each, and all of them may not fit into memory. Then each
mode keeps its marginal ``c_hat_n ~ N(c_n, r (G^-1)_nn)``: a likelihood in its own right, without
the correlation of errors between modes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spdelaw.data import Here, Place
from spdelaw.domain import Products
from spdelaw.model._blocks import in_full
from spdelaw.model._least_squares import least_squares, marginal
from spdelaw.model._row_grams import Basis, few_rows, row_grams, single_grams

if TYPE_CHECKING:
    from spdelaw.model._records import Records

Array = np.ndarray

#: Off-diagonal entries of G below this share of the diagonal count as zero.
DIAGONAL_TOLERANCE = 1e-10
#: Patterns are worked off one by one while each serves at least this many paths.
PATHS_PER_PATTERN = 4
#: Bytes of G in one block of paths with patterns of their own: at one time, so that a step
#: stays in cache, and in all, so that memory stays bounded, but enough for a compiled kernel.
STEP_BYTES, FEWEST_BYTES, BLOCK_BYTES = 60e3, 4e6, 160e6
#: Fewer paths than this at once and calls cost more than arithmetic.
FEWEST_PATHS = 64
#: Paths of a block of decoupled modes.
DECOUPLED_PATHS = 16
#: Bytes of all G together from which on modes are decoupled.
MOST_BYTES = 1.5e9


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

    @property
    def is_diagonal(self) -> bool:
        """Whether the observations leave the modes uncoupled."""
        return self.gram.ndim == 3

    @property
    def matrices(self) -> Array:
        """``G`` in full, the batch before the modes; (T, B, N, N)."""
        return np.ascontiguousarray(np.moveaxis(in_full(self.gram), -1, 1))


class Facts(NamedTuple):
    """What has to be known here of a block that may be elsewhere; fields as in `Block`."""

    paths: Array
    misfit: Array
    n_values: Array
    is_diagonal: bool


def facts_of(block: Block) -> Facts:
    """The facts about a block."""
    return Facts(block.paths, block.misfit, block.n_values, block.is_diagonal)


class Collapsed(NamedTuple):
    """All paths of a data set in blocks, here or in the memory of a cluster.

    Attributes:
        blocks: each a `Block`, or what stands for one where it is elsewhere.
        n_paths: number of paths.
        n_modes: number of modes.
        decoupled: whether each mode stands for itself, to save memory.
        place: where the blocks are, and where they are worked on.
        known: facts about blocks that are elsewhere.
        records: parts of long records where they are kept apart; the blocks are then their rows
            without what couples the modes.
    """

    blocks: tuple[Any, ...]
    n_paths: int
    n_modes: int
    decoupled: bool = False
    place: Place = Here()
    known: tuple[Facts, ...] = ()
    records: Records | None = None

    @property
    def facts(self) -> tuple[Any, ...]:
        """The facts about each block: `Facts`, or the block itself where it is here."""
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
    def is_diagonal(self) -> bool:
        """Whether no block couples its modes."""
        return all(block.is_diagonal for block in self.facts)

    def over(self, function: Callable, *parameters: Any) -> list:
        """``function(block, *parameters)`` of each block, in their order."""
        return self.place.over(function, self.blocks, *parameters)

    def over_rows(self, function: Callable, *parameters: Any) -> list:
        """The same of blocks with all that they have; those of a long record are in parts."""
        if self.records is None:
            return self.over(function, *parameters)
        return self.records.over(self.place, function, *parameters)

    def over_first_rows(self, function: Callable, *parameters: Any) -> list:
        """The same of blocks that have at least the first rows of their paths."""
        if self.records is None:
            return self.over(function, *parameters)
        return self.records.heads.over(self.place, function, *parameters)

    def changed_heads(self, function: Callable, *parameters: Any) -> Collapsed:
        """The same as `changed` for what lies in the first rows alone."""
        if self.records is None:
            return self.changed(function, *parameters)
        records = self.records.with_heads(
            self.records.heads.changed(self.place, function, *parameters)
        )
        return self._replace(records=records, blocks=records.rows(self.place))

    def changed(self, function: Callable, *parameters: Any) -> Collapsed:
        """The same paths with other blocks, which stay where they are."""
        if self.records is not None:
            records = self.records.changed(self.place, function, *parameters)
            return self._replace(records=records, blocks=records.rows(self.place))
        return self._replace(blocks=tuple(self.place.keep(function, self.blocks, *parameters)))


def collapse(
    values: Array,
    times: Array,
    eigenfunctions: Array,
    weights: Array | None = None,
    products: Products | None = None,
    *,
    fitted: bool = True,
) -> Collapsed:
    """Collapse fields (P, T, M) with NaN for missing onto the columns of ``Phi`` (M, N).

    Args:
        values: fields; NaN where nothing was observed.
        times: (T,), or (P, T) where each path has its own.
        eigenfunctions: ``Phi``, (M, N).
        weights: relative precision of each point, (M,), or of each value, (P, T, M).
        products: ``domain.products`` of the same points and modes; many modes are faster with it.
        fitted: False leaves out what a smoother does not ask for, and has NaN for it: ``c_hat``,
            ``RSS`` and ``log |G|``.
    """
    n_paths, n_modes = len(values), eigenfunctions.shape[1]
    w = np.ones(len(eigenfunctions)) if weights is None else np.asarray(weights, float)
    precision = w if w.ndim > 1 else None
    shared = w if precision is None else np.ones(len(eigenfunctions))
    basis = Basis(eigenfunctions, shared, products)
    groups = list(_groups(values, times, n_modes, alike=precision is None))
    own = sum(len(paths) for paths, shared in groups if not shared)
    if 8.0 * own * values.shape[1] * n_modes**2 > MOST_BYTES:
        step = DECOUPLED_PATHS
        parts = [np.arange(n_paths)[start : start + step] for start in range(0, n_paths, step)]
        blocks = [decoupled_block(values, times, basis, paths, precision) for paths in parts]
        return Collapsed(tuple(blocks), n_paths, n_modes, True)
    blocks = [block_of(values, times, basis, *group, precision, fitted) for group in groups]
    return Collapsed(tuple(blocks), n_paths, n_modes)


def first_paths(collapsed: Collapsed, n_paths: int) -> Collapsed:
    """The first paths of a data set, without another pass over their fields."""
    if n_paths >= collapsed.n_paths:
        return collapsed
    has_some = [bool((facts.paths < n_paths).any()) for facts in collapsed.facts]
    if collapsed.records is not None:
        records = collapsed.records.where(has_some)
        records = records.changed(collapsed.place, _first_paths, n_paths)
        return records.collapsed(n_paths, collapsed.n_modes, collapsed.place)
    some = itertools.compress(collapsed.blocks, has_some)
    part = collapsed._replace(blocks=tuple(some), n_paths=n_paths, known=())
    part = part.changed(_first_paths, n_paths)
    return part._replace(known=tuple(part.over(facts_of))) if collapsed.known else part


def _first_paths(block: Block, n_paths: int) -> Block:
    return some_paths(block, block.paths < n_paths)


def some_paths(block: Block, keep: Array) -> Block:
    """The paths of a block for which ``keep`` (P,) is true."""
    if keep.all():
        return block

    def of(part: Array) -> Array:
        shared = part.shape[-1] == 1 and len(keep) > 1
        return part if shared else np.ascontiguousarray(part[..., keep])

    return block._replace(**{name: of(getattr(block, name)) for name in block._fields[:-1]})


def _groups(
    values: Array, times: Array, n_modes: int, *, alike: bool = True
) -> Iterator[tuple[Array, bool]]:
    """Index sets of paths to be worked on together, and whether they share one pattern.

    Not ``alike`` where each value has a precision of its own: no two patterns are the same then.
    """
    everything = np.arange(len(values))
    if len(values) == 1:
        yield everything, True
        return
    seen = ~np.isnan(values)
    if alike and times.ndim == 1 and seen.all():
        yield everything, True
        return
    keys = np.packbits(seen.reshape(len(seen), -1), axis=1)
    if times.ndim == 2:
        own = np.ascontiguousarray(times, float)
        keys = np.hstack([keys, own.view(np.uint8).reshape(len(own), -1)])
    patterns: dict[bytes, list[int]] = {}
    for path, key in enumerate(keys):
        patterns.setdefault(key.tobytes(), []).append(path)
    if alike and len(values) >= PATHS_PER_PATTERN * len(patterns):
        for paths in patterns.values():
            yield np.array(paths), True
        return
    one, whole = 8 * n_modes**2, 8 * n_modes**2 * values.shape[1]
    most = max(FEWEST_PATHS, round(STEP_BYTES / one), round(FEWEST_BYTES / whole))
    most = max(1, min(most, int(BLOCK_BYTES / whole)))
    step = -(-len(values) // -(-len(values) // most))  # blocks of equal size share threads well
    for start in range(0, len(values), step):
        yield everything[start : start + step], False


def block_of(
    values: Array,
    times: Array,
    basis: Basis,
    paths: Array,
    shared: bool,
    precision: Array | None = None,
    fitted: bool = True,
) -> Block:
    """Some paths as one block; ``shared`` where all have one pattern of gaps and one clock.

    ``precision`` (P, T, M) is that of each value, where they differ; ``fitted`` as in `collapse`.
    """
    y = _rows(values, paths)
    seen = ~np.isnan(y)
    own = None if precision is None else np.where(seen, _rows(precision, paths), 0.0)
    vector = _vector(y if own is None else own * y, seen, basis)
    rows = seen if own is None else own
    gram = row_grams(rows[:1] if shared else rows, basis)
    is_diagonal = _nearly_diagonal(gram)
    gram = np.einsum("tiib->tib", gram).copy() if is_diagonal else gram
    if not fitted:
        estimate, log_gram = np.full(vector.shape, np.nan), np.full(gram.shape[-1], np.nan)
    elif is_diagonal:
        estimate = np.divide(vector, gram, out=np.zeros_like(vector), where=gram > 0)
        log_gram = np.log(np.where(gram > 0, gram, 1.0)).sum((0, 1))
    else:
        estimate, log_gram = least_squares(gram, vector)
    clock = times[:, None] if times.ndim == 1 else times[paths[:1] if shared else paths].T
    counts = _counts(seen, basis, own)
    misfit = _misfit(y, seen, estimate, basis, own) if fitted else np.full(len(y), np.nan)
    return Block(paths, clock, gram, vector, estimate, misfit, *counts, log_gram)


def _rows(values: Array, paths: Array) -> Array:
    """``values[paths]``, a view where the paths follow one another."""
    first, last = int(paths[0]), int(paths[-1])
    return values[first : last + 1] if last - first + 1 == len(paths) else values[paths]


def _vector(y: Array, seen: Array, basis: Basis) -> Array:
    """``b = Phi' W y`` (T, N, P), contiguous along the paths as every later step needs it."""
    weighted = basis.weighted
    out = np.empty((y.shape[1], weighted.shape[1], len(y)))
    for p, t in few_rows(y.shape):
        known = np.where(seen[p, t], y[p, t], 0.0)
        out[t, :, p] = (known @ weighted).transpose(1, 2, 0)
    return out


def _misfit(y: Array, seen: Array, estimate: Array, basis: Basis, precision: Array | None) -> Array:
    """``RSS`` of each path; (P,)."""
    out = np.zeros(len(y))
    for p, t in few_rows(y.shape):
        residual = np.ascontiguousarray(estimate[t, :, p].transpose(2, 0, 1)) @ basis.modes.T
        np.subtract(y[p, t], residual, out=residual)
        residual[~seen[p, t]] = 0.0
        if precision is not None:
            residual *= np.sqrt(precision[p, t])
        out[p] += np.einsum("ptm,ptm->pm", residual, residual) @ basis.weights
    return out


def _counts(seen: Array, basis: Basis, precision: Array | None) -> tuple[Array, Array]:
    """Observed values of each path, and the sum of their ``log w``; (P,)."""
    if precision is not None:
        logs = np.log(np.where(seen, precision, 1.0)).sum((1, 2))
        return np.count_nonzero(seen, axis=(1, 2)).astype(float), logs
    if (basis.weights == 1.0).all():
        return np.count_nonzero(seen, axis=(1, 2)).astype(float), np.zeros(len(seen))
    per_point = seen.sum(1).astype(float)
    return per_point.sum(1), per_point @ np.log(basis.weights)


def decoupled_block(
    values: Array, times: Array, basis: Basis, paths: Array, precision: Array | None = None
) -> Block:
    """Block in which each mode has its marginal estimate: ``gram`` is ``1 / (G^-1)_nn``.

    A row whose G is too ill conditioned to invert counts as unobserved.
    """
    y = values[paths].copy()
    seen = ~np.isnan(y)
    own = None if precision is None else np.where(seen, precision[paths], 0.0)
    vector = _vector(y if own is None else own * y, seen, basis)
    gram, estimate = np.zeros(vector.shape), np.zeros(vector.shape)
    for p, t, matrix in single_grams(seen if own is None else own, basis):
        found = marginal(matrix, vector[t, :, p])
        if found is None:
            y[p, t] = np.nan
        else:
            estimate[t, :, p], gram[t, :, p] = found
    seen = ~np.isnan(y)
    clock = times[:, None] if times.ndim == 1 else times[paths].T
    log_gram = np.log(np.where(gram > 0, gram, 1.0)).sum((0, 1))
    misfit, counts = _misfit(y, seen, estimate, basis, own), _counts(seen, basis, own)
    return Block(paths, clock, gram, gram * estimate, estimate, misfit, *counts, log_gram)


def _nearly_diagonal(gram: Array) -> bool:
    diagonal = np.einsum("tiib->tib", gram)
    off = np.abs(gram).sum() - np.abs(diagonal).sum()
    return bool(off <= DIAGONAL_TOLERANCE * diagonal.sum())

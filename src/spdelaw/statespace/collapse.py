"""Observations collapsed onto the modes, once, before any likelihood is computed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy

from spdelaw.data.executors import Executor, LocalExecutor
from spdelaw.domains.products import Multiplied, Products
from spdelaw.statespace.blocks import LAPACK_SIZE, in_full, invert

# ---------- Collapsed observations: blocks of paths with all their times


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
        unit: one, (1, 1); after `rotate` its image in each column, (N, columns), when
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
    def diagonal(self) -> Array:
        """Diagonal of ``G``, (T, N, B)."""
        return self.gram if self.is_diagonal else np.einsum("tiib->tib", self.gram)

    @property
    def n_states(self) -> Array:
        """Coefficients that the rows of each path determine, over all times; (P,)."""
        n_determined = (self.diagonal > 0).sum((0, 1)).astype(float)
        return np.broadcast_to(n_determined, len(self.paths))

    @property
    def matrices(self) -> Array:
        """``G`` in full, the batch before the modes; (T, B, N, N)."""
        return np.ascontiguousarray(np.moveaxis(in_full(self.gram), -1, 1))


class Collapsed(NamedTuple):
    """All paths of a data set in blocks, here or in the memory of a cluster.

    Attributes:
        blocks: each a `Block`, or a handle of one on a remote worker.
        n_paths: number of paths.
        n_modes: number of modes.
        decoupled: whether each mode stands for itself, to save memory.
        executor: where the blocks are, and where they are worked on.
        metadata: blocks without their rows, where the blocks are remote.
    """

    blocks: tuple[Any, ...]
    n_paths: int
    n_modes: int
    decoupled: bool = False
    executor: Executor = LocalExecutor()
    metadata: tuple[Block, ...] = ()

    @property
    def facts(self) -> tuple[Any, ...]:
        """Local data of each block: all of it where it is local, else all but its rows."""
        return self.metadata or self.blocks

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
        """Coefficients that the rows determine, over all paths and times."""
        return float(sum(states.sum() for states in self.map(_n_states)))

    @property
    def is_diagonal(self) -> bool:
        """Whether no block couples its modes."""
        return all(block.is_diagonal for block in self.facts)

    def map(self, function: Callable, *parameters: Any) -> list:
        """``function(block, *parameters)`` of each block, in their order."""
        return self.executor.map(function, self.blocks, *parameters)

    def changed(self, function: Callable, *parameters: Any) -> Collapsed:
        """The same paths with other blocks, which stay where they are."""
        blocks = self.executor.map_persist(function, self.blocks, *parameters)
        return self._replace(blocks=tuple(blocks))


def _n_states(block: Block) -> Array:
    return block.n_states


def without_rows(block: Block) -> Block:
    """Metadata of a block: all but its rows."""
    rows = ("times", "gram", "vector", "estimate")
    return block._replace(**{name: getattr(block, name)[:0] for name in rows})


def join_in_time(blocks: list[Block]) -> Block:
    """Blocks of the same paths that follow one another in time, as one."""
    first, apart = blocks[0], all(block.is_diagonal for block in blocks)
    batch = max(block.gram.shape[-1] for block in blocks)

    def every(name: str) -> list[Array]:
        return [getattr(block, name) for block in blocks]

    grams = (gram if apart else in_full(gram) for gram in every("gram"))
    return first._replace(
        gram=np.concatenate([_broadcast_batch(gram, batch) for gram in grams]),
        log_gram=np.sum([_broadcast_batch(logs, batch) for logs in every("log_gram")], axis=0),
        **{name: np.concatenate(every(name)) for name in ("times", "vector", "estimate")},
        **{name: np.sum(every(name), axis=0) for name in ("misfit", "n_values", "log_weight")},
    )


def _broadcast_batch(array: Array, batch: int) -> Array:
    """An array that all paths share, broadcast to the batch of the others."""
    return np.broadcast_to(array, (*array.shape[:-1], batch))


def first_paths(collapsed: Collapsed, n_paths: int) -> Collapsed:
    """The first paths of a data set, without another pass over their fields."""
    if n_paths >= collapsed.n_paths:
        return collapsed
    has_some = [bool((facts.paths < n_paths).any()) for facts in collapsed.facts]

    def some(of_each: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(itertools.compress(of_each, has_some))

    selection = collapsed._replace(
        blocks=some(collapsed.blocks),
        n_paths=n_paths,
        metadata=tuple(_first_paths(block, n_paths) for block in some(collapsed.metadata)),
    )
    return selection.changed(_first_paths, n_paths)


def _first_paths(block: Block, n_paths: int) -> Block:
    return some_paths(block, block.paths < n_paths)


def some_paths(block: Block, keep: Array) -> Block:
    """The paths of a block for which ``keep`` (P,) is true."""
    if keep.all():
        return block

    def of(array: Array) -> Array:
        shared = array.shape[-1] == 1 and len(keep) > 1
        return array if shared else np.ascontiguousarray(array[..., keep])

    per_path = [name for name in block._fields if name != "unit"]
    return block._replace(**{name: of(getattr(block, name)) for name in per_path})


# ---------- Gram matrices of rows, ``G = Phi' W Phi`` over observed points
#
# With few modes all rows go through one product with a table of pairs of modes; with many, G is
# looked up in the products of modes of the domain, or else multiplied row by row.


#: Bytes of fields that are worked on together; they should stay in cache.
WORK_BYTES = 2e6
#: Bytes of single Gram matrices that are made together.
STACK_BYTES = 16e6
#: Bytes of the table of pairs of modes; beyond, each G is a product of its own.
PAIR_BYTES = 100e6
#: Modes from which on the products of modes of the domain are faster than such a table.
LOOKUP_MODES = 12


def few_rows(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Few paths, or few times of one path, at once: intermediate arrays stay in cache."""
    n_paths, n_times, n_points = shape
    rows = max(1, int(WORK_BYTES / (8 * n_points)))
    paths, times = max(1, rows // n_times), min(rows, n_times)
    for start in range(0, n_paths, paths):
        for first in range(0, n_times, times):
            yield slice(start, start + paths), slice(first, first + times)


def row_grams(
    observed_mask: Array, weights: Array | None, modes: Array, products: Products | None
) -> Array:
    """G of rows (P, T, M), each point with its weight where there are any; (T, N, N, P)."""
    n_points, n = modes.shape
    lookup = _lookup_products(products)
    if lookup is not None and n >= LOOKUP_MODES:
        return _grams_by_path(observed_mask, weights, n, lookup)
    if 4.0 * n_points * n * (n + 1) > PAIR_BYTES:
        return _grams_by_path(observed_mask, weights, n, Multiplied(modes))
    return _grams_by_pairs(observed_mask, weights, modes)


def _lookup_products(products: Products | None) -> Products | None:
    """Products that are more than matrix products."""
    return None if isinstance(products, Multiplied) else products


def _row_weights(observed_mask: Array, weights: Array | None, at: Any) -> Array:
    """Weights of some rows, zero where a value is missing."""
    return observed_mask[at] if weights is None else np.where(observed_mask[at], weights[at], 0.0)


def _grams_by_path(
    observed_mask: Array, weights: Array | None, n: int, products: Products
) -> Array:
    """From products of modes, path by path."""
    out = np.empty((observed_mask.shape[1], n, n, len(observed_mask)))
    for p in range(len(observed_mask)):
        rows = _row_weights(observed_mask, weights, p)
        new = np.ones(len(rows), bool)
        new[1:] = (rows[1:] != rows[:-1]).any(1)  # a pattern often lasts
        gram = products.gram(rows[new].astype(float))
        out[..., p] = gram if new.all() else gram[np.cumsum(new) - 1]
    return out


def _grams_by_pairs(observed_mask: Array, weights: Array | None, modes: Array) -> Array:
    """By one product with a table of all pairs of modes."""
    n = modes.shape[1]
    i, j = np.tril_indices(n)
    pairs = modes[:, i] * modes[:, j]
    packed = np.empty((observed_mask.shape[1], len(i), len(observed_mask)))
    for p, t in few_rows(observed_mask.shape):
        rows = _row_weights(observed_mask, weights, (p, t)).astype(float)
        packed[t, :, p] = (rows @ pairs).transpose(1, 2, 0)
    gram = np.empty((packed.shape[0], n, n, packed.shape[2]))
    gram[:, i, j] = packed
    gram[:, j, i] = packed
    return gram


def single_grams(
    observed_mask: Array, weights: Array | None, modes: Array, products: Products | None
) -> Iterator[tuple[int, int, Array]]:
    """Path, time and G of every row, a few rows in memory at once."""
    lookup = _lookup_products(products) or Multiplied(modes)
    step = max(1, int(STACK_BYTES / (8 * modes.shape[1] ** 2)))
    for p in range(len(observed_mask)):
        for start in range(0, observed_mask.shape[1], step):
            rows = _row_weights(observed_mask, weights, (p, slice(start, start + step)))
            grams = lookup.gram(rows.astype(float))
            yield from ((p, start + k, matrix) for k, matrix in enumerate(grams))


# ---------- Normal equations of many rows: ``c_hat``, ``log |G|``, marginals
#
# ``c_hat = G^+ b``. Scaled to a unit diagonal, the smallest eigenvalue of G is at least one over
# the trace of its inverse. From `SMALLEST_EIGENVALUE` on, a plain inverse is used; other matrices
# get a pseudo-inverse by eigenvectors.


#: Relative eigenvalue of G from which on a plain inverse is used.
SMALLEST_EIGENVALUE = 1e-6
#: Bytes of matrices that are inverted together; they should stay in cache.
INVERSE_BYTES = 500e3


def least_squares(gram: Array, vector: Array) -> tuple[Array, Array]:
    """``c_hat`` (T, N, P) and ``sum_t log |G|`` (B,) of gram (T, N, N, B), vector (T, N, P)."""
    if gram.shape[-1] == 1:
        return _least_squares_shared(gram[..., 0], vector)
    estimate, logs = np.empty(vector.shape), np.zeros(gram.shape[-1])
    for t, (g, b) in enumerate(zip(gram, vector, strict=True)):
        inverse, log = _inverses(np.moveaxis(g, -1, 0))
        estimate[t] = np.einsum("bij,jb->ib", inverse, b)
        logs += log
    return estimate, logs


def _least_squares_shared(gram: Array, vector: Array) -> tuple[Array, Array]:
    """The same where all paths share G (T, N, N): many times are one batch."""
    new = np.ones(len(gram), bool)
    new[1:] = (gram[1:] != gram[:-1]).any((1, 2))  # a pattern often lasts
    distinct = gram if new.all() else gram[new]
    inverses, logs = np.empty(distinct.shape), np.empty(len(distinct))
    step = max(1, int(INVERSE_BYTES / (8 * gram.shape[1] ** 2)))
    for start in range(0, len(distinct), step):
        rows = slice(start, start + step)
        inverses[rows], logs[rows] = _inverses(distinct[rows])
    which = np.cumsum(new) - 1
    estimate = (inverses if new.all() else inverses[which]) @ vector
    return estimate, np.array([logs[which].sum()])


def _inverses(gram: Array) -> tuple[Array, Array]:
    """``G^+`` (B, N, N), and ``log |G|`` (B,) where it is finite, else 0."""
    scale = np.sqrt(np.einsum("bii->bi", gram))
    with np.errstate(all="ignore"):
        outer = scale[:, :, None] * scale[:, None]
        inverse, log = _plain_inverses(gram / outer)
        trace = np.abs(np.einsum("bii->bi", inverse)).sum(1)
        inverse /= outer
        log = log + 2.0 * np.log(scale).sum(1)
    poor = np.flatnonzero(~(trace < 1.0 / SMALLEST_EIGENVALUE))
    if len(poor):
        singular = gram[poor]
        inverse[poor] = np.linalg.pinv(singular, rcond=1e-13, hermitian=True)
        sign, logs = np.linalg.slogdet(singular)
        log[poor] = np.where(sign > 0, logs, 0.0)
    return inverse, log


def _plain_inverses(unit: Array) -> tuple[Array, Array]:
    """Inverses (B, N, N) and log-determinants (B,); what is singular has no good trace."""
    batch, n, _ = unit.shape
    if n < LAPACK_SIZE and batch > 1:
        inverse, logs = invert(np.moveaxis(unit, 0, -1))
        return np.moveaxis(inverse, -1, 0), logs
    upper, pivots = np.empty((batch, n, n)), np.empty((batch, n))
    for b, matrix in enumerate(unit):
        factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1, clean=1)
        pivots[b] = factor.diagonal()
        # LAPACK fills the lower triangle by columns, which is the upper one by rows.
        upper[b] = (
            np.nan if failed else scipy.linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)[0].T
        )
    inverse = upper + np.swapaxes(upper, 1, 2)
    inverse[:, np.arange(n), np.arange(n)] *= 0.5
    return inverse, 2.0 * np.log(pivots).sum(1)


def marginal(gram: Array, vector: Array) -> tuple[Array, Array] | None:
    """``c_hat`` and ``1 / diag(G^-1)`` of one row; None where G has no good inverse.

    The matrix is used up: with hundreds of modes, fresh memory costs as much as a tenth of it all.
    """
    diagonal = gram.diagonal().copy()
    if not (diagonal > 0).all():
        return None
    scale = 1.0 / np.sqrt(diagonal)
    gram *= scale
    gram *= scale[:, None]
    factor, failed = scipy.linalg.lapack.dpotrf(gram.T, lower=1, clean=1, overwrite_a=1)
    if failed:
        return None
    half = scipy.linalg.lapack.dtrtri(factor, lower=1, overwrite_c=1)[0]
    spread = np.einsum("ij,ij->j", half, half)
    if not spread.sum() < 1.0 / SMALLEST_EIGENVALUE:
        return None
    return scale * (half.T @ (half @ (scale * vector))), diagonal / spread


# ---------- Observations collapsed onto the modes
#
# At one time of one path, ``y = Phi c + e`` with ``e ~ N(0, r W^-1)``. The likelihood of ``c``
# needs only
#
#     G = Phi' W Phi,   b = Phi' W y,   c_hat = G^+ b,   RSS = (y - Phi c_hat)' W (y - Phi c_hat),
#
# because ``(y - Phi c)' W (y - Phi c) = RSS + (c - c_hat)' G (c - c_hat)``. After this the cost
# does not depend on the number of points. Writing the misfit around ``c_hat`` keeps all digits
# where the noise is small; ``y'y - 2 b'c + c'G c`` would lose them.
#
# Paths with gaps of their own have a G each, and all of them may not fit into memory. Then each
# mode keeps its marginal ``c_hat_n ~ N(c_n, r (G^-1)_nn)``: a likelihood in its own right, without
# the correlation of errors between modes.


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
        fitted: False leaves out what a smoother does not need, and has NaN for it: ``c_hat``,
            ``RSS`` and ``log |G|``.
    """
    n_paths, n_modes = len(values), eigenfunctions.shape[1]
    groups = list(
        _path_groups(values, times, n_modes, alike=weights is None or np.ndim(weights) < 2)
    )
    given = values, times, eigenfunctions, weights, products
    n_unshared = sum(len(paths) for paths, shared in groups if not shared)
    if 8.0 * n_unshared * values.shape[1] * n_modes**2 > MOST_BYTES:
        step = DECOUPLED_PATHS
        parts = [np.arange(n_paths)[start : start + step] for start in range(0, n_paths, step)]
        blocks = [decoupled_block(*given, paths) for paths in parts]
        return Collapsed(tuple(blocks), n_paths, n_modes, True)
    blocks = [block_of(*given, *group, fitted) for group in groups]
    return Collapsed(tuple(blocks), n_paths, n_modes)


def _path_groups(
    values: Array, times: Array, n_modes: int, *, alike: bool = True
) -> Iterator[tuple[Array, bool]]:
    """Index sets of paths to be worked on together, and whether they share one pattern.

    Not ``alike`` where each value has a precision of its own: no two patterns are the same then.
    """
    everything = np.arange(len(values))
    if len(values) == 1:
        yield everything, True
        return
    observed_mask = ~np.isnan(values)
    if alike and times.ndim == 1 and observed_mask.all():
        yield everything, True
        return
    keys = np.packbits(observed_mask.reshape(len(observed_mask), -1), axis=1)
    if times.ndim == 2:
        clocks = np.ascontiguousarray(times, float)
        keys = np.hstack([keys, clocks.view(np.uint8).reshape(len(clocks), -1)])
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
    modes: Array,
    weights: Array | None,
    products: Products | None,
    paths: Array,
    shared: bool,
    fitted: bool = True,
) -> Block:
    """Some paths as one block; ``shared`` where all have one pattern of gaps and one clock.

    All other arguments are those of `collapse`.
    """
    y, w, observed_mask = _path_rows(values, weights, paths)
    vector, one = _vector(y, w, observed_mask, modes), slice(1 if shared else None)
    gram = row_grams(observed_mask[one], None if w is None else w[one], modes, products)
    is_diagonal = _nearly_diagonal(gram)
    gram = np.einsum("tiib->tib", gram).copy() if is_diagonal else gram
    if not fitted:
        estimate, log_gram = np.full(vector.shape, np.nan), np.full(gram.shape[-1], np.nan)
    elif is_diagonal:
        estimate = np.divide(vector, gram, out=np.zeros_like(vector), where=gram > 0)
        log_gram = np.log(np.where(gram > 0, gram, 1.0)).sum((0, 1))
    else:
        estimate, log_gram = least_squares(gram, vector)
    clock = times[:, None] if times.ndim == 1 else times[paths[one]].T
    misfit = _misfit(y, w, observed_mask, modes, estimate) if fitted else np.full(len(y), np.nan)
    return Block(
        paths, clock, gram, vector, estimate, misfit, *_value_counts(w, observed_mask), log_gram
    )


def decoupled_block(
    values: Array,
    times: Array,
    modes: Array,
    weights: Array | None,
    products: Products | None,
    paths: Array,
) -> Block:
    """Block in which each mode has its marginal estimate: ``gram`` is ``1 / (G^-1)_nn``.

    A row whose G is too ill conditioned to invert counts as unobserved.
    """
    y, w, observed_mask = _path_rows(values, weights, paths)
    vector = _vector(y, w, observed_mask, modes)
    gram, estimate = np.zeros((2, *vector.shape))
    for p, t, matrix in single_grams(observed_mask, w, modes, products):
        marginals = marginal(matrix, vector[t, :, p])
        if marginals is None:
            observed_mask[p, t] = False
        else:
            estimate[t, :, p], gram[t, :, p] = marginals
    clock = times[:, None] if times.ndim == 1 else times[paths].T
    log_gram = np.log(np.where(gram > 0, gram, 1.0)).sum((0, 1))
    misfit, counts = _misfit(y, w, observed_mask, modes, estimate), _value_counts(w, observed_mask)
    return Block(paths, clock, gram, gram * estimate, estimate, misfit, *counts, log_gram)


def _path_rows(
    values: Array, weights: Array | None, paths: Array
) -> tuple[Array, Array | None, Array]:
    """Values of some paths, their weights, and where there are any; each (P, T, M).

    Views where the paths follow one another.
    """
    first, last = int(paths[0]), int(paths[-1])
    some = slice(first, last + 1) if last - first + 1 == len(paths) else paths
    w = None if weights is None else np.broadcast_to(np.asarray(weights, float), values.shape)[some]
    return values[some], w, ~np.isnan(values[some])


def _vector(y: Array, w: Array | None, observed_mask: Array, modes: Array) -> Array:
    """``b = Phi' W y`` (T, N, P), contiguous along the paths as every later step needs it."""
    out = np.empty((y.shape[1], modes.shape[1], len(y)))
    for at in few_rows(y.shape):
        weighted = np.where(observed_mask[at], y[at] if w is None else w[at] * y[at], 0.0)
        out[at[1], :, at[0]] = (weighted @ modes).transpose(1, 2, 0)
    return out


def _misfit(
    y: Array, w: Array | None, observed_mask: Array, modes: Array, estimate: Array
) -> Array:
    """``RSS`` of each path; (P,)."""
    out = np.zeros(len(y))
    for p, t in few_rows(y.shape):
        residual = np.ascontiguousarray(estimate[t, :, p].transpose(2, 0, 1)) @ modes.T
        np.subtract(y[p, t], residual, out=residual)
        residual[~observed_mask[p, t]] = 0.0
        if w is not None:
            residual *= np.sqrt(w[p, t])
        out[p] += np.einsum("ptm,ptm->p", residual, residual)
    return out


def _value_counts(w: Array | None, observed_mask: Array) -> tuple[Array, Array]:
    """Observed values of each path, and the sum of their ``log w``; (P,)."""
    count, logs = (
        np.count_nonzero(observed_mask, axis=(1, 2)).astype(float),
        np.zeros(len(observed_mask)),
    )
    if w is not None:
        for p, t in few_rows(observed_mask.shape):
            logs[p] += np.log(np.where(observed_mask[p, t], w[p, t], 1.0)).sum((1, 2))
    return count, logs


def _nearly_diagonal(gram: Array) -> bool:
    diagonal = np.einsum("tiib->tib", gram)
    off = np.abs(gram).sum() - np.abs(diagonal).sum()
    return bool(off <= DIAGONAL_TOLERANCE * diagonal.sum())


# ---------- Many paths with one pattern, compressed to few
#
# The cost of the likelihood no longer depends on the number of paths.
#
# Where all paths share their pattern and modes are uncoupled, the log-likelihood of all paths and
# its score are sums over paths of quadratic forms in ``(c_hat_1, ..., c_hat_T, 1)`` of each mode.
# Such sums do not change when the paths are mixed by an orthogonal matrix, so the P paths of a mode
# may be replaced by the T + 1 rows of R, with ``Q R = (c_hat, 1)`` its QR decomposition: as many
# "paths" as there are times, whose constant is no longer 1 but `Block.unit`.


#: Paths for each row of R from which on the decomposition is worth its cost within a fit.
PATHS_PER_ROW = 2


def rotate(collapsed: Collapsed) -> Collapsed:
    """The same data for sums over paths; blocks that gain nothing stay as they are.

    `evaluate_likelihood` gives every path of a rotated block their mean log-likelihood.
    """
    return collapsed.changed(_rotate_block)


def _rotate_block(block: Block) -> Block:
    n_times, n_modes, n_paths = block.estimate.shape
    shared = block.is_diagonal and block.gram.shape[-1] == 1 and block.times.shape[1] == 1
    if not shared or n_paths < PATHS_PER_ROW * (n_times + 1):
        return block
    rows = np.empty((n_modes, n_paths, n_times + 1))
    rows[..., :-1] = block.estimate.transpose(1, 2, 0)
    rows[..., -1] = 1.0
    r = np.asarray(np.linalg.qr(rows, mode="r"))  # (N, T + 1, T + 1): row, then time
    estimate = np.ascontiguousarray(r[..., :-1].transpose(2, 0, 1))
    return block._replace(
        estimate=estimate, vector=block.gram * estimate, unit=np.ascontiguousarray(r[..., -1])
    )

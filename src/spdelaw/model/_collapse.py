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

from collections.abc import Iterator

import numpy as np

from spdelaw.domain import Products
from spdelaw.model._collapsed import Block, Collapsed
from spdelaw.model._least_squares import least_squares, marginal
from spdelaw.model._row_grams import few_rows, row_grams, single_grams

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
    groups = list(_groups(values, times, n_modes, alike=weights is None or np.ndim(weights) < 2))
    given = values, times, eigenfunctions, weights, products
    own = sum(len(paths) for paths, shared in groups if not shared)
    if 8.0 * own * values.shape[1] * n_modes**2 > MOST_BYTES:
        step = DECOUPLED_PATHS
        parts = [np.arange(n_paths)[start : start + step] for start in range(0, n_paths, step)]
        blocks = [decoupled_block(*given, paths) for paths in parts]
        return Collapsed(tuple(blocks), n_paths, n_modes, True)
    blocks = [block_of(*given, *group, fitted) for group in groups]
    return Collapsed(tuple(blocks), n_paths, n_modes)


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
    y, w, seen = _rows(values, weights, paths)
    vector, one = _vector(y, w, seen, modes), slice(1 if shared else None)
    gram = row_grams(seen[one], None if w is None else w[one], modes, products)
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
    misfit = _misfit(y, w, seen, modes, estimate) if fitted else np.full(len(y), np.nan)
    return Block(paths, clock, gram, vector, estimate, misfit, *_counts(w, seen), log_gram)


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
    y, w, seen = _rows(values, weights, paths)
    vector = _vector(y, w, seen, modes)
    gram, estimate = np.zeros((2, *vector.shape))
    for p, t, matrix in single_grams(seen, w, modes, products):
        found = marginal(matrix, vector[t, :, p])
        if found is None:
            seen[p, t] = False
        else:
            estimate[t, :, p], gram[t, :, p] = found
    clock = times[:, None] if times.ndim == 1 else times[paths].T
    log_gram = np.log(np.where(gram > 0, gram, 1.0)).sum((0, 1))
    misfit, counts = _misfit(y, w, seen, modes, estimate), _counts(w, seen)
    return Block(paths, clock, gram, gram * estimate, estimate, misfit, *counts, log_gram)


def _rows(values: Array, weights: Array | None, paths: Array) -> tuple[Array, Array | None, Array]:
    """Values of some paths, their weights, and where there are any; each (P, T, M).

    Views where the paths follow one another.
    """
    first, last = int(paths[0]), int(paths[-1])
    some = slice(first, last + 1) if last - first + 1 == len(paths) else paths
    w = None if weights is None else np.broadcast_to(np.asarray(weights, float), values.shape)[some]
    return values[some], w, ~np.isnan(values[some])


def _vector(y: Array, w: Array | None, seen: Array, modes: Array) -> Array:
    """``b = Phi' W y`` (T, N, P), contiguous along the paths as every later step needs it."""
    out = np.empty((y.shape[1], modes.shape[1], len(y)))
    for at in few_rows(y.shape):
        known = np.where(seen[at], y[at] if w is None else w[at] * y[at], 0.0)
        out[at[1], :, at[0]] = (known @ modes).transpose(1, 2, 0)
    return out


def _misfit(y: Array, w: Array | None, seen: Array, modes: Array, estimate: Array) -> Array:
    """``RSS`` of each path; (P,)."""
    out = np.zeros(len(y))
    for p, t in few_rows(y.shape):
        residual = np.ascontiguousarray(estimate[t, :, p].transpose(2, 0, 1)) @ modes.T
        np.subtract(y[p, t], residual, out=residual)
        residual[~seen[p, t]] = 0.0
        if w is not None:
            residual *= np.sqrt(w[p, t])
        out[p] += np.einsum("ptm,ptm->p", residual, residual)
    return out


def _counts(w: Array | None, seen: Array) -> tuple[Array, Array]:
    """Observed values of each path, and the sum of their ``log w``; (P,)."""
    count, logs = np.count_nonzero(seen, axis=(1, 2)).astype(float), np.zeros(len(seen))
    if w is not None:
        for p, t in few_rows(seen.shape):
            logs[p] += np.log(np.where(seen[p, t], w[p, t], 1.0)).sum((1, 2))
    return count, logs


def _nearly_diagonal(gram: Array) -> bool:
    diagonal = np.einsum("tiib->tib", gram)
    off = np.abs(gram).sum() - np.abs(diagonal).sum()
    return bool(off <= DIAGONAL_TOLERANCE * diagonal.sum())

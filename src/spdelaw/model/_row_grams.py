"""Gram matrices of rows, ``G = Phi' W Phi`` over the points that each row observes.

With few modes all rows go through one product with a table of pairs of modes; with many, G is
looked up in what the domain knows of products of modes, or else multiplied row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from spdelaw.domain import Multiplied, Products

Array = np.ndarray

#: Bytes of fields that are worked on together; they should stay in cache.
WORK_BYTES = 2e6
#: Bytes of single Gram matrices that are made together.
STACK_BYTES = 16e6
#: Bytes of the table of pairs of modes; beyond, each G is a product of its own.
PAIR_BYTES = 100e6
#: Modes from which on products of modes that the domain knows beat such a table.
LOOKUP_MODES = 12


def few_rows(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Few paths, or few times of one path, at once: what is computed on the way stays in cache."""
    n_paths, n_times, n_points = shape
    rows = max(1, int(WORK_BYTES / (8 * n_points)))
    paths, times = max(1, rows // n_times), min(rows, n_times)
    for start in range(0, n_paths, paths):
        for first in range(0, n_times, times):
            yield slice(start, start + paths), slice(first, first + times)


def row_grams(seen: Array, weights: Array | None, modes: Array, products: Products | None) -> Array:
    """G of rows (P, T, M), each point with its weight where there are any; (T, N, N, P)."""
    n_points, n = modes.shape
    known = _known(products)
    if known is not None and n >= LOOKUP_MODES:
        return _stacked(seen, weights, n, known)
    if 4.0 * n_points * n * (n + 1) > PAIR_BYTES:
        return _stacked(seen, weights, n, Multiplied(modes))
    return _by_pairs(seen, weights, modes)


def _known(products: Products | None) -> Products | None:
    """Products that are more than matrix products."""
    return None if isinstance(products, Multiplied) else products


def _weighted(seen: Array, weights: Array | None, at: Any) -> Array:
    """Weights of some rows, zero where nothing is seen."""
    return seen[at] if weights is None else np.where(seen[at], weights[at], 0.0)


def _stacked(seen: Array, weights: Array | None, n: int, products: Products) -> Array:
    """From products of modes, path by path."""
    out = np.empty((seen.shape[1], n, n, len(seen)))
    for p in range(len(seen)):
        rows = _weighted(seen, weights, p)
        new = np.ones(len(rows), bool)
        new[1:] = (rows[1:] != rows[:-1]).any(1)  # a pattern often lasts
        gram = products.gram(rows[new].astype(float))
        out[..., p] = gram if new.all() else gram[np.cumsum(new) - 1]
    return out


def _by_pairs(seen: Array, weights: Array | None, modes: Array) -> Array:
    """By one product with a table of all pairs of modes."""
    n = modes.shape[1]
    i, j = np.tril_indices(n)
    pairs = modes[:, i] * modes[:, j]
    packed = np.empty((seen.shape[1], len(i), len(seen)))
    for p, t in few_rows(seen.shape):
        rows = _weighted(seen, weights, (p, t)).astype(float)
        packed[t, :, p] = (rows @ pairs).transpose(1, 2, 0)
    gram = np.empty((packed.shape[0], n, n, packed.shape[2]))
    gram[:, i, j] = packed
    gram[:, j, i] = packed
    return gram


def single_grams(
    seen: Array, weights: Array | None, modes: Array, products: Products | None
) -> Iterator[tuple[int, int, Array]]:
    """Path, time and G of every row, a few rows in memory at once."""
    known = _known(products) or Multiplied(modes)
    step = max(1, int(STACK_BYTES / (8 * modes.shape[1] ** 2)))
    for p in range(len(seen)):
        for start in range(0, seen.shape[1], step):
            rows = _weighted(seen, weights, (p, slice(start, start + step)))
            grams = known.gram(rows.astype(float))
            yield from ((p, start + k, matrix) for k, matrix in enumerate(grams))

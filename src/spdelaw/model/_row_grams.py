"""Gram matrices of rows, ``G = Phi' W Phi`` over the points that each row observes.

With few modes all rows go through one product with a table of pairs of modes; with many, G is
looked up in what the domain knows of products of modes, or else multiplied row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

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


class Basis(NamedTuple):
    """``Phi`` (M, N), the precision of each point (M,), and products of modes where known."""

    modes: Array
    weights: Array
    products: Products | None

    @property
    def weighted(self) -> Array:
        """``W Phi``; (M, N)."""
        return self.weights[:, None] * self.modes

    @property
    def known(self) -> Products | None:
        """Products that are more than matrix products."""
        return None if isinstance(self.products, Multiplied) else self.products


def few_rows(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Few paths, or few times of one path, at once: what is computed on the way stays in cache."""
    n_paths, n_times, n_points = shape
    rows = max(1, int(WORK_BYTES / (8 * n_points)))
    paths, times = max(1, rows // n_times), min(rows, n_times)
    for start in range(0, n_paths, paths):
        for first in range(0, n_times, times):
            yield slice(start, start + paths), slice(first, first + times)


def row_grams(seen: Array, basis: Basis) -> Array:
    """G of rows (P, T, M); (T, N, N, P)."""
    n_points, n = basis.modes.shape
    if basis.known is not None and n >= LOOKUP_MODES:
        return _stacked(seen, basis, basis.known)
    if 4.0 * n_points * n * (n + 1) > PAIR_BYTES:
        return _stacked(seen, basis, Multiplied(basis.modes))
    return _by_pairs(seen, basis)


def _stacked(seen: Array, basis: Basis, products: Products) -> Array:
    """From products of modes, path by path."""
    out = np.empty((*seen.shape[1:2], *(basis.modes.shape[1],) * 2, len(seen)))
    for p, rows in enumerate(seen):
        new = np.ones(len(rows), bool)
        new[1:] = (rows[1:] != rows[:-1]).any(1)  # a pattern often lasts
        gram = products.gram(rows[new] * basis.weights)
        out[..., p] = gram if new.all() else gram[np.cumsum(new) - 1]
    return out


def _by_pairs(seen: Array, basis: Basis) -> Array:
    """By one product with a table of all pairs of modes."""
    n = basis.modes.shape[1]
    i, j = np.tril_indices(n)
    pairs = basis.weighted[:, i] * basis.modes[:, j]
    packed = np.empty((seen.shape[1], len(i), len(seen)))
    for p, t in few_rows(seen.shape):
        packed[t, :, p] = (seen[p, t].astype(float) @ pairs).transpose(1, 2, 0)
    gram = np.empty((packed.shape[0], n, n, packed.shape[2]))
    gram[:, i, j] = packed
    gram[:, j, i] = packed
    return gram


def single_grams(seen: Array, basis: Basis) -> Iterator[tuple[int, int, Array]]:
    """Path, time and G of every row, a few rows in memory at once."""
    products = basis.known or Multiplied(basis.modes)
    step = max(1, int(STACK_BYTES / (8 * basis.modes.shape[1] ** 2)))
    for p, rows in enumerate(seen):
        for start in range(0, len(rows), step):
            grams = products.gram(rows[start : start + step] * basis.weights)
            yield from ((p, start + k, matrix) for k, matrix in enumerate(grams))

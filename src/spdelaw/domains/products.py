"""Gram matrices of modes under weights, ``G_mn = sum_i w_i h_m(x_i) h_n(x_i)``, many at a time.

A mask of observed points, with or without the precision of each point, is such a row of weights.
Products of the modes of an interval are again cosines and sines,

    sin a sin b = [cos(a - b) - cos(a + b)] / 2,    cos a cos b = [cos(a - b) + cos(a + b)] / 2,
    sin a cos b = [sin(a + b) + sin(a - b)] / 2,

so all N^2 entries of G are looked up in the few sums of the weights against those waves. On
the grid of a box the sums are taken one dim after the other, and an entry of G is that of a
pair of modes of each dim. Where modes have no such products, their pairs stand for the waves.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

Array = np.ndarray

#: Bytes of what is worked on at once; it should stay in cache.
WORK_BYTES = 2e6
#: Bytes of all waves at scattered points; beyond, each G is a matrix product.
WAVE_BYTES = 100e6
#: Cells of the grid of all coordinates for each point, up to which it counts as a grid with holes.
CELLS_PER_POINT = 4


class Products(Protocol):
    """Products of the first N modes at M given points."""

    def gram(self, weights: Array) -> Array:
        """``G`` of each row of weights (R, M); (R, N, N)."""


class Pairs(NamedTuple):
    """Products of the K modes of one dim, each of them the sum of two waves.

    Attributes:
        waves: their values at the points of the dim, (M, F).
        low, high: waves of each pair, (K (K + 1) / 2,); pair ``m >= n`` is the
            ``m (m + 1) / 2 + n``-th.
        low_scale, high_scale: factors of both.
    """

    waves: Array
    low: Array
    high: Array
    low_scale: Array
    high_scale: Array

    def expand(self, sums: Array) -> Array:
        """Sums over pairs from sums over waves (R, F, ...), along the second axis."""
        lead = (slice(None), *(None,) * (sums.ndim - 2))
        out = np.take(sums, self.low, axis=1)
        out *= self.low_scale[lead]
        out += self.high_scale[lead] * np.take(sums, self.high, axis=1)
        return out


def pairs_of_modes(modes: Array) -> Pairs:
    """Pairs of any modes (M, K): each product is a wave of its own."""
    m, n = np.tril_indices(modes.shape[1])
    each = np.arange(len(m))
    return Pairs(modes[:, m] * modes[:, n], each, each, np.ones(len(m)), np.zeros(len(m)))


def pairs_of_waves(angle: Array, wavenumbers: Array, is_sine: Array, factor: Array) -> Pairs:
    """Pairs of modes ``factor_n cos(k_n angle)``, or the sine of it.

    Args:
        angle: (M,).
        wavenumbers: whole numbers ``k_n``, (K,).
        is_sine: (K,).
        factor: (K,).
    """
    k = wavenumbers.astype(int)
    m, n = np.tril_indices(len(k))
    count = 2 * int(k.max()) + 1
    inner = np.multiply.outer(angle, np.arange(count))
    mixed, both_sines = is_sine[m] != is_sine[n], is_sine[m] & is_sine[n]
    half = 0.5 * factor[m] * factor[n]
    # sin(k_m) cos(k_n) holds sin(k_m - k_n), cos(k_m) sin(k_n) its negative.
    sign = np.sign(k[m] - k[n]) * np.where(is_sine[m], 1, -1)
    shift = np.where(mixed, count, 0)
    waves = np.hstack([np.cos(inner), np.sin(inner)]) if mixed.any() else np.cos(inner)
    return Pairs(
        waves,
        np.abs(k[m] - k[n]) + shift,
        k[m] + k[n] + shift,
        np.where(mixed, half * sign, half),
        np.where(both_sines, -half, half),
    )


class LookedUp(NamedTuple):
    """Gram matrices of products of one-dimensional modes.

    Attributes:
        pairs: those of each dim.
        entries: where each entry of G stands among the pairs of all dims, flat; (N, N).
        cells: cell of the grid that each point is, flat; None where points are scattered.
    """

    pairs: tuple[Pairs, ...]
    entries: Array
    cells: Array | None

    def gram(self, weights: Array) -> Array:
        """``G`` of each row of weights (R, M); (R, N, N)."""
        out = np.empty((len(weights), *self.entries.shape))
        largest = max(weights.shape[1], self.entries.size)
        step = max(1, int(WORK_BYTES / (8 * largest)))
        for start in range(0, len(weights), step):
            rows = weights[start : start + step]
            sums = self._scattered_sums(rows) if self.cells is None else self._grid_sums(rows)
            for k, pairs in enumerate(self.pairs):
                if k:  # the dim that was expanded last goes behind the others
                    sums = np.ascontiguousarray(np.moveaxis(sums, 1, -1))
                sums = pairs.expand(sums)
            flat = sums.reshape(len(rows), -1)
            np.take(flat, self.entries, axis=1, out=out[start : start + step], mode="clip")
        return out

    def _grid_sums(self, weights: Array) -> Array:
        """Sums of weights on a grid over the waves of all dims; (R, F_1, F_2, ...)."""
        shape = tuple(len(pairs.waves) for pairs in self.pairs)
        values = np.zeros((len(weights), int(np.prod(shape))))
        values[:, self.cells] = weights
        sums = values.reshape(len(weights), *shape)
        for pairs in self.pairs:
            sums = np.tensordot(sums, pairs.waves, axes=(1, 0))
        return sums

    def _scattered_sums(self, weights: Array) -> Array:
        """The same at any points."""
        product = np.ones((weights.shape[1], 1))
        for pairs in self.pairs:
            product = (product[:, :, None] * pairs.waves[:, None]).reshape(len(product), -1)
        return (weights @ product).reshape(-1, *(pairs.waves.shape[1] for pairs in self.pairs))


def looked_up(pairs: tuple[Pairs, ...], index: Array, cells: Array | None) -> LookedUp:
    """Gram matrices of the modes that stand at ``index`` (N, d) in their dims."""
    entries = np.zeros((len(index), len(index)), int)
    # In the order in which `LookedUp.gram` leaves the dims behind.
    for k in (len(pairs) - 1, *range(len(pairs) - 1)):
        later = np.maximum.outer(index[:, k], index[:, k])
        earlier = np.minimum.outer(index[:, k], index[:, k])
        entries = entries * len(pairs[k].low) + later * (later + 1) // 2 + earlier
    return LookedUp(pairs, entries, cells)


def grid_of(points: Array) -> tuple[list[Array], Array] | None:
    """Axes of a grid, holes allowed, that points (M, d) lie on, and the cell of each.

    None where they are scattered, or where two of them are one.
    """
    columns = [np.unique(column, return_inverse=True) for column in points.T]
    axes, at = [axis for axis, _ in columns], [where.reshape(-1) for _, where in columns]
    shape = tuple(len(axis) for axis in axes)
    cells = np.ravel_multi_index(at, shape)
    if np.prod(shape) > CELLS_PER_POINT * len(points) or len(np.unique(cells)) < len(points):
        return None
    return axes, cells


class Multiplied(NamedTuple):
    """Gram matrices as matrix products, of any modes (M, N)."""

    modes: Array

    def gram(self, weights: Array) -> Array:
        """``G`` of each row of weights (R, M); (R, N, N).

        A row with most of the largest weights is the Gram matrix of these less that of the lacking
        weights.
        """
        full = weights.max(0, initial=0.0)
        whole = _weighted_gram(full, self.modes) if len(weights) > 1 else None
        out = np.empty((len(weights), *(self.modes.shape[1],) * 2))
        for row, matrix in zip(weights, out, strict=True):
            lacking = full - row
            if whole is None or 2 * np.count_nonzero(lacking) > np.count_nonzero(row):
                matrix[...] = _weighted_gram(row, self.modes)
            else:
                np.subtract(whole, _weighted_gram(lacking, self.modes), out=matrix)
        return out


def _weighted_gram(weights: Array, modes: Array) -> Array:
    positive = weights > 0
    rows = np.sqrt(weights[positive])[:, None] * modes[positive]
    return rows.T @ rows

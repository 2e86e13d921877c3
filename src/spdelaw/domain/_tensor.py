"""Products of one-dimensional domains: everything follows from the factors.

Modes are ``h_n(x) = prod_k h_{n_k}(x_k)`` with ``mu_n = sum_k mu_{n_k}``, in order of
eigenvalue; ties are broken by the indices ``(n_1, n_2, ...)``.
"""

from __future__ import annotations

import abc
import functools
import itertools
from typing import Any

import numpy as np

from spdelaw.domain._base import AbstractDomain, Array
from spdelaw.domain._places import as_points, grid_points, places_of_points
from spdelaw.domain._products import WAVE_BYTES, Products, grid_of, looked_up

#: Eigenvalues that agree to this part of the gap scale are a tie on every machine.
TIE = 1e-9


class TensorDomain(AbstractDomain):
    """A product of one-dimensional domains."""

    @property
    @abc.abstractmethod
    def factors(self) -> tuple[AbstractDomain, ...]:
        """One domain a dim."""

    def indices(self, n_modes: int) -> Array:
        """Position of each mode in its factors, from zero; shape (n_modes, d).

        A mode ``(n_1, ..., n_d)`` has ``prod (n_k + 1)`` modes that come no later, itself
        included, so only those with a product of at most ``n_modes`` need to be sorted.
        """
        return self._ordered(self.check_modes(n_modes))[0]

    def _ordered(self, n_modes: int) -> tuple[Array, Array]:
        return _ordered(self.factors, n_modes)

    def eigenvalues(self, n_modes: int) -> Array:
        """``mu_n = sum_k mu_{n_k}`` in increasing order."""
        return self._ordered(self.check_modes(n_modes))[1].copy()

    def eigenfunctions(self, points: Array, n_modes: int) -> Array:
        """Products of the factors' eigenfunctions; shape (n_points, n_modes)."""
        index, points = self.indices(n_modes), np.asarray(points, float)
        out = np.ones((len(points), n_modes))
        for k, factor in enumerate(self.factors):
            # On a grid each coordinate takes few values: evaluate there, then look up.
            axis, at = np.unique(points[:, k], return_inverse=True)
            table = factor.eigenfunctions(axis, int(index[:, k].max()) + 1)
            out *= table[:, index[:, k]][at.reshape(-1)]
        return out

    def products(self, points: Array, n_modes: int) -> Products:
        """Gram matrices looked up among sums of the weights over products in each dim."""
        index, points = self.indices(n_modes), np.asarray(points, float)
        grid = grid_of(points)
        columns, cells = (list(points.T), None) if grid is None else grid
        most = index.max(0) + 1
        pairs = tuple(
            factor.mode_pairs(x, int(n))
            for factor, x, n in zip(self.factors, columns, most, strict=True)
        )
        n_waves = np.prod([pair.waves.shape[1] for pair in pairs])
        if grid is None and 8.0 * len(points) * n_waves > WAVE_BYTES:
            return super().products(points, n_modes)
        return looked_up(pairs, index, cells)

    def weight(self, points: Array) -> Array:
        """Product of the factors' densities."""
        columns = np.asarray(points, float).T
        pairs = zip(self.factors, columns, strict=True)
        return np.prod([factor.weight(column) for factor, column in pairs], axis=0)

    def quadrature(self, n_points: int) -> tuple[Array, Array]:
        """Product rule with ``n_points`` a dim."""
        rules = [factor.quadrature(n_points) for factor in self.factors]
        weights = functools.reduce(np.multiply.outer, [w for _, w in rules])
        return grid_points([x for x, _ in rules]), weights.ravel()

    def quadrature_for(self, n_modes: int) -> tuple[Array, Array]:
        """Product rule fine enough for the highest mode of each factor, and a smooth function."""
        least = 64 if len(self.factors) == 2 else 24
        return self.quadrature(max(least, 4 * int(self.indices(n_modes).max() + 1)))

    def grid(self, n_points: Any) -> Array:
        """Regular points, ``n_points`` a dim, or one number for each."""
        counts = np.broadcast_to(np.asarray(n_points, int), len(self.factors))
        pairs = zip(self.factors, counts, strict=True)
        return grid_points([factor.grid(int(n)) for factor, n in pairs])

    def grid_weights(self, points: Array) -> Array:
        """Product of the factors' rules on a grid; equal weights on scattered points."""
        places = places_of_points(np.asarray(points, float), self.dims)
        if places.dims != self.dims:
            density = self.weight(places.points)
            return density * (self.volume / density.sum())
        axes = [places.coords[d][1] for d in self.dims]
        pairs = zip(self.factors, axes, strict=True)
        weights = functools.reduce(np.multiply.outer, [f.grid_weights(x) for f, x in pairs])
        return weights.ravel() if places.inside is None else weights.ravel()[places.inside]

    @property
    def volume(self) -> float:
        """Product of the factors' volumes."""
        return float(np.prod([factor.volume for factor in self.factors]))

    def contains(self, points: Array) -> Array:
        """Whether every coordinate lies in its factor."""
        columns = np.asarray(points, float).T
        pairs = zip(self.factors, columns, strict=True)
        return np.all([factor.contains(column) for factor, column in pairs], axis=0)

    def check_points(self, points: Any) -> Array:
        """Points (n, d) within the domain, from a table or from one axis a dim."""
        inside = self.contains(as_points(points, self.dims)).all()
        return self.points_inside(points, "" if inside else self._fix_outside(points))

    def _fix_outside(self, points: Any) -> str:
        """What to do about points outside."""
        return "rescale the coordinates, choose a larger domain, or set values outside to NaN"


@functools.lru_cache(maxsize=64)
def _ordered(factors: tuple[AbstractDomain, ...], n_modes: int) -> tuple[Array, Array]:
    """Indices (n_modes, d) and eigenvalues (n_modes,) in order."""
    index = np.array(list(_candidates(len(factors), n_modes)))
    parts = np.stack([f.eigenvalues(n_modes)[index[:, k]] for k, f in enumerate(factors)], axis=1)
    # Summed in order of size, so that (1, 2) and (2, 1) on a square are equal to the last bit.
    total = np.sort(parts, axis=1).sum(1)
    scale = TIE * max(float(f.eigenvalues(2)[-1]) for f in factors)
    order = np.lexsort((*index.T[::-1], np.round(total / scale)))[:n_modes]
    return index[order], np.maximum.accumulate(total[order])


def _candidates(d: int, most: int) -> itertools.chain[tuple[int, ...]] | list[tuple[int, ...]]:
    """Indices with ``prod (n_k + 1) <= most``."""
    if d == 1:
        return [(n,) for n in range(most)]
    return itertools.chain.from_iterable(
        ((n, *rest) for rest in _candidates(d - 1, most // (n + 1))) for n in range(most)
    )

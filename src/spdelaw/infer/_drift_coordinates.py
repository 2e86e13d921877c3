"""Free coordinates for a drift matrix: stable by construction.

A drift ``Lambda`` is stable if and only if it is ``(1/2 + K) M`` with a skew ``K`` and a
symmetric positive definite ``M``: then ``M^-1`` solves ``Lambda P + P Lambda' = 1``, and every
stable matrix has exactly one such pair. Modes are measured in units of their rough noise, so that
coordinates are of similar size.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from spdelaw.equation import operators
from spdelaw.infer._coordinates import AbstractCoordinates
from spdelaw.infer._covariance_coordinates import Covariance, entry_names

Array = np.ndarray

#: Least decay rate of a start, relative to its largest eigenvalue.
LEAST_DECAY = 1e-6


@dataclasses.dataclass(frozen=True)
class Rotating(AbstractCoordinates):
    """A normal matrix: pairs of modes that decay and turn, ``[[a, w], [-w, a]]``, others alone."""

    n_modes: int
    pairs: tuple[tuple[int, int], ...]

    @functools.cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Modes that share a decay rate, in order."""
        second = {b for _, b in self.pairs}
        partner = dict(self.pairs)
        first = (n for n in range(self.n_modes) if n not in second)
        return tuple((n, partner[n]) if n in partner else (n,) for n in first)

    @property
    def names(self) -> tuple[str, ...]:
        """``decay[n]`` and ``frequency[n]``, n the first mode of a pair."""
        decay = tuple(f"decay[{group[0] + 1}]" for group in self.groups)
        return decay + tuple(f"frequency[{a + 1}]" for a, _ in self.pairs)

    @property
    def is_log(self) -> Array:
        """Frequencies have either sign."""
        return np.arange(len(self.names)) < len(self.groups)

    @functools.cached_property
    def _units(self) -> Array:
        """One or two entries per coordinate: decay on the diagonal, frequencies beside it."""
        out = np.zeros((self.n_modes, self.n_modes, len(self.names)))
        for i, group in enumerate(self.groups):
            out[group, group, i] = 1.0
        for i, (a, b) in enumerate(self.pairs, len(self.groups)):
            out[a, b, i], out[b, a, i] = 1.0, -1.0
        return out

    def values(self, phi: Array) -> Array:
        """The sum of all entries, times their numbers."""
        return self._units @ self.numbers(phi)

    def jacobian(self, phi: Array) -> Array:
        """The entries, times the numbers of logarithms."""
        return self._units * np.where(self.is_log, self.numbers(phi), 1.0)

    def start(self, operator: Array) -> Array:
        """Means over each pair."""
        matrix, diagonal = operators.as_matrix(operator), operators.diagonal(operator)
        floor = 0.05 * np.abs(diagonal).max()
        decay = [max(float(diagonal[list(group)].mean()), floor) for group in self.groups]
        turn = [0.5 * (matrix[a, b] - matrix[b, a]) for a, b in self.pairs]
        return np.concatenate([np.log(decay), turn])


@dataclasses.dataclass(frozen=True)
class Stable(AbstractCoordinates):
    """``D (1/2 + K) M D^-1``: all stable matrices, each once."""

    scale: tuple[float, ...]

    @functools.cached_property
    def _root(self) -> Covariance:
        return Covariance("drift_root", (1.0,) * len(self.scale))

    @functools.cached_property
    def _below(self) -> tuple[Array, Array]:
        return np.tril_indices(len(self.scale), -1)

    @property
    def names(self) -> tuple[str, ...]:
        """Entries of the factor of M, then those of K."""
        return self._root.names + entry_names("drift_turn", self._below)

    @property
    def is_log(self) -> Array:
        """The diagonal of the factor."""
        return np.concatenate([self._root.is_log, np.zeros(len(self._below[0]), bool)])

    def _parts(self, phi: Array) -> tuple[Array, Array, Array]:
        """Coordinates of M, ``1/2 + K`` and M."""
        k = len(self._root.names)
        turn = np.zeros((len(self.scale), len(self.scale)))
        turn[self._below] = phi[k:]
        return phi[:k], 0.5 * np.eye(len(turn)) + turn - turn.T, self._root.values(phi[:k])

    @functools.cached_property
    def _units(self) -> Array:
        d = np.asarray(self.scale)
        return d[:, None] / d

    def values(self, phi: Array) -> Array:
        """``D (1/2 + K) M D^-1``."""
        _, half, m = self._parts(phi)
        return self._units * (half @ m)

    def jacobian(self, phi: Array) -> Array:
        """``D ((1/2 + K) dM + dK M) D^-1``."""
        root, half, m = self._parts(phi)
        by_m = np.tensordot(half, self._root.jacobian(root), 1)
        i, j = self._below
        by_turn = np.zeros((len(m), len(m), len(i)))
        at = np.arange(len(i))
        by_turn[i, :, at] = m[j]
        by_turn[j, :, at] -= m[i]
        return self._units[..., None] * np.concatenate([by_m, by_turn], axis=2)

    def pull_back(self, phi: Array, by: Array) -> Array:
        """``(1/2 + K)' G`` for M and the skew part of ``G M`` for K, with ``G = D by D^-1``."""
        root, half, m = self._parts(phi)
        scaled = self._units * by
        by_m, by_turn = half.T @ scaled, scaled @ m
        skew = (by_turn - by_turn.T)[self._below]
        return np.concatenate([self._root.pull_back(root, by_m), skew])

    def push(self, phi: Array, columns: Array) -> Array:
        """``D ((1/2 + K) dM + dK M) D^-1`` along columns, without the Jacobian."""
        root, half, m = self._parts(phi)
        k = len(root)
        turn = np.zeros((*m.shape, columns.shape[1]))
        turn[self._below] = columns[k:]
        turn -= np.swapaxes(turn, 0, 1)
        found = np.tensordot(half, self._root.push(root, columns[:k]), 1)
        found += np.moveaxis(np.tensordot(turn, m, (1, 0)), 1, 2)
        return self._units[..., None] * found

    def start(self, operator: Array) -> Array:
        """``M^-1`` solves ``Lambda P + P Lambda' = 1``, and ``K = Lambda P - 1/2``."""
        # A block of a stable matrix, such as the reported modes of all, need not be stable.
        a = operators.decaying(operators.as_matrix(operator) / self._units, LEAST_DECAY)
        p = operators.stationary_covariance(a, np.eye(len(a)))
        turn = a @ p
        return np.concatenate([self._root.start(np.linalg.inv(p)), turn[self._below]])

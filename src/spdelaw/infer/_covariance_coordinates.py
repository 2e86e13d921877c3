"""Free coordinates for a covariance matrix: positive by construction.

A covariance is written by a Cholesky factor with logarithms on its diagonal, or as noise of each
mode's own and a few patterns that modes share.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from spdelaw.equation import operators
from spdelaw.infer._coordinates import AbstractCoordinates

Array = np.ndarray

#: Least share of a mode's noise variance that a low-rank start leaves to the mode alone.
OWN_SHARE = 0.05
#: Least eigenvalue of a start, relative to its largest.
LEAST_EIGENVALUE = 1e-8


@dataclasses.dataclass(frozen=True)
class Covariance(AbstractCoordinates):
    """``D L L' D``: L lower triangular with logarithms on its diagonal, D the units of modes."""

    what: str
    scale: tuple[float, ...]

    @functools.cached_property
    def _entries(self) -> tuple[Array, Array]:
        return np.tril_indices(len(self.scale))

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """``what[i,j]``, the entries of the factor."""
        return entry_names(self.what, self._entries)

    @property
    def is_log(self) -> Array:
        """The diagonal."""
        i, j = self._entries
        return i == j

    def factor(self, phi: Array) -> Array:
        """``L``."""
        out = np.zeros((len(self.scale), len(self.scale)))
        out[self._entries] = self.numbers(phi)
        return out

    def values(self, phi: Array) -> Array:
        """``D L L' D``."""
        root = np.asarray(self.scale)[:, None] * self.factor(phi)
        return root @ root.T

    def jacobian(self, phi: Array) -> Array:
        """``D (dL L' + L dL') D``."""
        d, root = np.asarray(self.scale), self.factor(phi)
        unit = np.where(self.is_log, root[self._entries], 1.0)
        return np.outer(d, d)[..., None] * _by_root(root, self._entries, unit)

    def pull_back(self, phi: Array, by: Array) -> Array:
        """``(G + G') L`` with ``G = D by D``, times ``L_ii`` on the diagonal."""
        d, root = np.asarray(self.scale), self.factor(phi)
        scaled = np.outer(d, d) * by
        slope = (scaled + scaled.T) @ root
        return np.asarray(slope[self._entries] * np.where(self.is_log, root[self._entries], 1.0))

    def push(self, phi: Array, columns: Array) -> Array:
        """``D (dL L' + L dL') D`` along columns, without the Jacobian."""
        d, root = np.asarray(self.scale), self.factor(phi)
        moved = np.zeros((*root.shape, columns.shape[1]))
        unit = np.where(self.is_log, root[self._entries], 1.0)
        moved[self._entries] = np.nan_to_num(unit)[:, None] * columns
        half = np.tensordot(root, moved, (1, 1))  # (j, i, r)
        return np.outer(d, d)[..., None] * (half + np.swapaxes(half, 0, 1))

    def start(self, operator: Array) -> Array:
        """Cholesky factor."""
        d, matrix = np.asarray(self.scale), operators.as_matrix(operator)
        root = _factor(matrix / np.outer(d, d))[self._entries]
        return np.where(self.is_log, np.log(np.where(self.is_log, root, 1.0)), root)


@dataclasses.dataclass(frozen=True)
class LowRankCovariance(AbstractCoordinates):
    """``D (diag(d) + U U') D``: noise of each mode's own, and ``rank`` patterns they share.

    The first rows of U are lower triangular: any other U turns into one of these.
    """

    scale: tuple[float, ...]
    rank: int

    @functools.cached_property
    def _entries(self) -> tuple[Array, Array]:
        return np.tril_indices(len(self.scale), 0, self.rank)

    @property
    def names(self) -> tuple[str, ...]:
        """``noise_own[n]`` and ``noise_factor[n,k]``."""
        own = tuple(f"noise_own[{n}]" for n in range(1, len(self.scale) + 1))
        return own + entry_names("noise_factor", self._entries)

    @property
    def is_log(self) -> Array:
        """Own variances."""
        return np.arange(len(self.names)) < len(self.scale)

    def _factor(self, phi: Array) -> Array:
        out = np.zeros((len(self.scale), self.rank))
        out[self._entries] = phi[len(self.scale) :]
        return out

    def values(self, phi: Array) -> Array:
        """``D (diag(d) + U U') D``."""
        d, u = np.asarray(self.scale), self._factor(phi)
        return np.outer(d, d) * (np.diag(np.exp(phi[: len(d)])) + u @ u.T)

    def jacobian(self, phi: Array) -> Array:
        """Own variances, then ``dU U' + U dU'``."""
        d, u = np.asarray(self.scale), self._factor(phi)
        n = np.arange(len(d))
        own = np.zeros((len(d),) * 3)
        own[n, n, n] = np.exp(phi[: len(d)])
        shared = _by_root(u, self._entries, np.ones(len(phi) - len(d)))
        return np.outer(d, d)[..., None] * np.concatenate([own, shared], axis=2)

    def start(self, operator: Array) -> Array:
        """Principal factors, a few rounds; patterns of zero would stay zero."""
        d = np.asarray(self.scale)
        q = operators.as_matrix(operator) / np.outer(d, d)
        own = 0.5 * np.diag(q)
        for _ in range(50):
            values, vectors = np.linalg.eigh(q - np.diag(own))
            top = np.maximum(values[-self.rank :], OWN_SHARE * np.diag(q).mean())
            u = vectors[:, -self.rank :] * np.sqrt(top)
            own = np.maximum(np.diag(q - u @ u.T), OWN_SHARE * np.diag(q))
        turn = np.linalg.qr(u[: self.rank].T)[0]
        return np.concatenate([np.log(own), (u @ turn)[self._entries]])


def entry_names(what: str, entries: tuple[Array, Array]) -> tuple[str, ...]:
    """``what[i,j]`` for entries of a matrix."""
    return tuple(f"{what}[{a + 1},{b + 1}]" for a, b in zip(*entries, strict=True))


def _by_root(root: Array, entries: tuple[Array, Array], unit: Array) -> Array:
    """``dL L' + L dL'`` where each entry of a root L moves by its unit; (N, N, entries)."""
    i, j = entries
    half = np.zeros((len(root), len(root), len(i)))
    half[i, :, np.arange(len(i))] = unit[:, None] * root[:, j].T
    return half + np.swapaxes(half, 0, 1)


def _factor(matrix: Array) -> Array:
    """Cholesky factor of a covariance, of the nearest one where rounding left none."""
    try:
        return np.asarray(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
        floor = LEAST_EIGENVALUE * max(values[-1], np.finfo(float).tiny)
        # QR of the root instead of a factorisation that could fail once more.
        upper = np.linalg.qr((vectors * np.sqrt(np.maximum(values, floor))).T, mode="r")
        return (upper * np.sign(np.diag(upper))[:, None]).T

"""Free coordinates of drift, noise and start: one vector for all that is estimated."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from spdelaw.domains.base import AbstractDomain
from spdelaw.errors import InputError
from spdelaw.infer.model import Decision, Model
from spdelaw.infer.moments import MomentEstimates
from spdelaw.processes import operators
from spdelaw.processes.forcing import Forcing, Season
from spdelaw.processes.linear import Dynamics, Linear
from spdelaw.processes.operators import rotating_pairs
from spdelaw.processes.specification import InitialKind, InitialState
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.likelihood import Evaluation

# ---------- Free coordinates of diagonal operators: one positive number per mode, or tied
#
# A coordinate map sends an unconstrained vector ``phi`` to a drift, a noise covariance or an
# initial covariance and knows its Jacobian, which has one axis more; the score by ``phi`` is the
# score by the operator contracted with it. The maps of this module give one positive number per
# mode, (N,); those of the two sections below give matrices.


Array = np.ndarray

#: Least nu of a start, relative to the rates by the largest eigenvalue of the domain.
LEAST_SLOPE = 1e-3
#: Decay rate of a start in place of one that is not positive, relative to the largest.
LEAST_RATE = 1e-3
#: Variance that stands for none, relative to the unit of its mode.
VARIANCE_FLOOR = 1e-5


class AbstractCoordinates(abc.ABC):
    """Map from unconstrained coordinates to an operator, (N,) or (N, N)."""

    @property
    @abc.abstractmethod
    def names(self) -> tuple[str, ...]:
        """One name per coordinate, as used in ``fixed`` and ``priors``."""

    @abc.abstractmethod
    def values(self, phi: Array) -> Array:
        """Operator, (N,) or (N, N)."""

    @abc.abstractmethod
    def jacobian(self, phi: Array) -> Array:
        """``d operator / d phi``, (N, p) or (N, N, p)."""

    def pull_back(self, phi: Array, by: Array) -> Array:
        """Gradient by ``phi`` from the gradient ``by`` the operator; (p,)."""
        return np.tensordot(by, self.jacobian(phi), by.ndim)

    def push(self, phi: Array, columns: Array) -> Array:
        """Change of the operator along columns (p, r) of coordinates; its shape and (r,)."""
        return np.tensordot(np.nan_to_num(self.jacobian(phi)), columns, 1)

    @abc.abstractmethod
    def start(self, operator: Array) -> Array:
        """Coordinates near an operator of either shape."""

    @property
    def is_log(self) -> Array:
        """Whether each coordinate is the logarithm of the number people know; (p,)."""
        return np.ones(len(self.names), bool)

    def numbers(self, phi: Array) -> Array:
        """The numbers that people know: ``exp(phi)`` of logarithms, else ``phi``; (p,)."""
        return np.where(self.is_log, np.exp(np.where(self.is_log, phi, 0.0)), phi)


@dataclasses.dataclass(frozen=True)
class Single(AbstractCoordinates):
    """Numbers with a coordinate each, ``exp(power phi)``; ``phi`` itself where the power is 0.

    One number per mode, or a number of its own where ``n_modes`` is None. With power 2 the
    coordinate of a variance is the logarithm of its deviation.
    """

    what: str
    n_modes: int | None
    power: float = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        """``eigenvalue[1]``, ``eigenvalue[2]``, ..., or ``observation_std``."""
        if self.n_modes is None:
            return (self.what,)
        return tuple(f"{self.what}[{n}]" for n in range(1, self.n_modes + 1))

    @property
    def is_log(self) -> Array:
        """All of them, or none."""
        return np.full(len(self.names), self.power != 0)

    def values(self, phi: Array) -> Array:
        """``exp(power phi)``, (N,) or one number."""
        numbers = np.exp(self.power * phi) if self.power else phi
        return numbers[0] if self.n_modes is None else numbers

    def jacobian(self, phi: Array) -> Array:
        """``power exp(power phi)`` on the diagonal."""
        slope = self.power * np.exp(self.power * phi) if self.power else np.ones(len(phi))
        return slope if self.n_modes is None else np.diag(slope)

    def start(self, operator: Array) -> Array:
        """``log(x) / power`` of the diagonal."""
        numbers = np.reshape(operator, 1) if self.n_modes is None else operators.diagonal(operator)
        return np.log(np.maximum(numbers, 1e-300)) / self.power if self.power else numbers


@dataclasses.dataclass(frozen=True)
class Squared(AbstractCoordinates):
    """``V_n = unit_n^2 (phi_n^2 + floor)``: a variance of zero is a maximum at ``phi = 0``.

    The logarithm of such a variance would have its maximum at minus infinity. The floor is far
    below what the data resolve, and keeps ``1 / V`` finite.
    """

    what: str
    unit: tuple[float, ...]
    may_vanish = True

    @property
    def names(self) -> tuple[str, ...]:
        """``initial_variance[1]``, ``initial_variance[2]``, ..."""
        return tuple(f"{self.what}[{n}]" for n in range(1, len(self.unit) + 1))

    @property
    def is_log(self) -> Array:
        """A root has either sign."""
        return np.zeros(len(self.unit), bool)

    def values(self, phi: Array) -> Array:
        """``unit^2 (phi^2 + floor)``."""
        return np.square(self.unit) * (phi**2 + VARIANCE_FLOOR)

    def jacobian(self, phi: Array) -> Array:
        """``2 unit^2 phi`` on the diagonal."""
        return np.diag(2.0 * np.square(self.unit) * phi)

    def start(self, operator: Array) -> Array:
        """``sqrt(V / unit^2 - floor)`` of the diagonal."""
        ratio = operators.diagonal(operator) / np.square(self.unit)
        return np.sqrt(np.maximum(ratio - VARIANCE_FLOOR, 0.0))


@dataclasses.dataclass(frozen=True)
class OperatorTied(AbstractCoordinates):
    """``lambda_n = kappa + nu mu_n^s`` with the logarithms of kappa, nu and s as coordinates."""

    mu: tuple[float, ...]
    prefix: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Damping, diffusivity, order."""
        return tuple(self.prefix + name for name in ("kappa", "nu", "s"))

    def _powers(self, s: float) -> tuple[Array, Array]:
        mu = np.asarray(self.mu)
        positive = np.where(mu > 0, mu, 1.0)
        power = np.where(mu > 0, positive**s, 0.0)
        return power, np.log(positive)

    def values(self, phi: Array) -> Array:
        """``kappa + nu mu^s``."""
        kappa, nu, s = np.exp(phi)
        return kappa + nu * self._powers(s)[0]

    def jacobian(self, phi: Array) -> Array:
        """Columns ``kappa``, ``nu mu^s`` and ``nu mu^s s log mu``."""
        kappa, nu, s = np.exp(phi)
        power, logs = self._powers(s)
        return np.stack([np.full(len(power), kappa), nu * power, nu * power * s * logs], axis=1)

    def start(self, operator: Array) -> Array:
        """Least squares of the diagonal on ``1, mu`` with s = 1, kept positive."""
        spectrum, mu = operators.diagonal(operator), np.asarray(self.mu)
        # The diagonal of a stable matrix need not be positive.
        spectrum = np.where(spectrum > 0, spectrum, LEAST_RATE * np.abs(spectrum).max())
        # Rates have the unit of the data's clock: small means small relative to the other rates.
        ratio = float(np.median(spectrum)) / (float(mu.max()) or 1.0)
        slope = float(np.polyfit(mu, spectrum, 1)[0]) if np.ptp(mu) > 0 else 0.5 * ratio
        nu = max(slope, LEAST_SLOPE * ratio)
        kappa = float(np.median(spectrum - nu * mu))
        floor = 0.05 * float(spectrum.min())
        return np.log([max(kappa, floor), nu, 1.0])


@dataclasses.dataclass(frozen=True)
class PowerTied(AbstractCoordinates):
    """``q_n = scale n^-exponent`` for modes ``first, first + 1, ...``."""

    n_modes: int
    first: int = 1
    prefix: str = "noise_"

    @property
    def names(self) -> tuple[str, ...]:
        """Scale and exponent."""
        return (f"{self.prefix}scale", f"{self.prefix}exponent")

    @property
    def is_log(self) -> Array:
        """The exponent may have either sign."""
        return np.array([True, False])

    @property
    def _logs(self) -> Array:
        return np.log(np.arange(self.first, self.first + self.n_modes, dtype=float))

    def values(self, phi: Array) -> Array:
        """``scale n^-exponent``."""
        return np.exp(phi[0] - phi[1] * self._logs)

    def jacobian(self, phi: Array) -> Array:
        """Columns ``q`` and ``-q log n``."""
        q = self.values(phi)
        return np.stack([q, -q * self._logs], axis=1)

    def start(self, operator: Array) -> Array:
        """Straight line through the logarithms of the diagonal."""
        spectrum = operators.diagonal(operator)
        if len(spectrum) == 1:
            return np.array([np.log(spectrum[0]) + 2.0 * self._logs[0], 2.0])
        slope, level = np.polyfit(self._logs, np.log(spectrum), 1)
        return np.array([level, -slope])


@dataclasses.dataclass(frozen=True)
class WithNuisance(AbstractCoordinates):
    """Reported modes first, nuisance modes on their own after them."""

    reported: AbstractCoordinates
    nuisance: AbstractCoordinates
    n_reported: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of both."""
        return self.reported.names + self.nuisance.names

    @property
    def is_log(self) -> Array:
        """Of both."""
        return np.concatenate([self.reported.is_log, self.nuisance.is_log])

    def _split(self, phi: Array) -> tuple[Array, Array]:
        k = len(self.reported.names)
        return phi[:k], phi[k:]

    def values(self, phi: Array) -> Array:
        """Both operators, block diagonal."""
        a, b = self._split(phi)
        return operators.block_diagonal(self.reported.values(a), self.nuisance.values(b))

    def jacobian(self, phi: Array) -> Array:
        """Block diagonal for each coordinate."""
        a, b = self._split(phi)
        one, two = self.reported.jacobian(a), self.nuisance.jacobian(b)
        none, neither = np.zeros(one.shape[:-1]), np.zeros(two.shape[:-1])
        columns = [operators.block_diagonal(x, neither) for x in np.moveaxis(one, -1, 0)]
        columns += [operators.block_diagonal(none, x) for x in np.moveaxis(two, -1, 0)]
        return np.stack(columns, axis=-1)

    def pull_back(self, phi: Array, by: Array) -> Array:
        """Each from its own block."""
        k = self.n_reported
        blocks = operators.leading(by, k), by[k:] if by.ndim == 1 else by[k:, k:]
        parts = zip((self.reported, self.nuisance), self._split(phi), blocks, strict=True)
        return np.concatenate(
            [
                coordinates.pull_back(x, operators.like(coordinates.values(x), g))
                for coordinates, x, g in parts
            ]
        )

    def start(self, operator: Array) -> Array:
        """Starts of both."""
        k = self.n_reported
        beyond = operators.diagonal(operator)[k:]
        reported = self.reported.start(operators.leading(operator, k))
        return np.concatenate([reported, self.nuisance.start(beyond)])


@dataclasses.dataclass(frozen=True)
class Contrasts(AbstractCoordinates):
    """Weights of mean 1, ``w_k = K e^(x_k) / sum_j e^(x_j)`` with ``x_1 = 0``: the seasons."""

    n_parts: int

    @property
    def names(self) -> tuple[str, ...]:
        """``season[2]``, ...: each part against the first."""
        return tuple(f"season[{k}]" for k in range(2, self.n_parts + 1))

    @property
    def is_log(self) -> Array:
        """A contrast has either sign."""
        return np.zeros(self.n_parts - 1, bool)

    def values(self, phi: Array) -> Array:
        """``w``, (K,)."""
        x = np.concatenate([[0.0], phi])
        e = np.exp(x - x.max())
        return len(x) * e / e.sum()

    def jacobian(self, phi: Array) -> Array:
        """``dw_k / dx_j = w_k (delta_kj - w_j / K)``; (K, K - 1)."""
        w = self.values(phi)
        return (np.diag(w) - np.outer(w, w) / len(w))[:, 1:]

    def start(self, operator: Array) -> Array:
        """``log(w_k / w_1)``."""
        return np.log(operator[1:] / operator[0])


# ---------- Free coordinates of a covariance matrix: positive by construction
#
# A covariance is written by a Cholesky factor with logarithms on its diagonal, or as noise of each
# mode's own and a few patterns that modes share.


#: Least share of a mode's noise variance that a low-rank start does not share with other modes.
LEAST_MODE_SHARE = 0.05
#: Least eigenvalue of a start, relative to its largest.
LEAST_EIGENVALUE = 1e-8


@dataclasses.dataclass(frozen=True)
class Covariance(AbstractCoordinates):
    """``D L L' D``: L lower triangular with logarithms on its diagonal, D the units of modes.

    One that may vanish has no logarithms, so that zero is an ordinary maximum, and a floor.
    """

    what: str
    scale: tuple[float, ...]
    may_vanish: bool = False

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
        return (i == j) & (not self.may_vanish)

    def factor(self, phi: Array) -> Array:
        """``L``."""
        out = np.zeros((len(self.scale), len(self.scale)))
        out[self._entries] = self.numbers(phi)
        return out

    def values(self, phi: Array) -> Array:
        """``D L L' D``."""
        d = np.asarray(self.scale)
        root = d[:, None] * self.factor(phi)
        return root @ root.T + np.diag(self.may_vanish * VARIANCE_FLOOR * d**2)

    def jacobian(self, phi: Array) -> Array:
        """``D (dL L' + L dL') D``."""
        d, root = np.asarray(self.scale), self.factor(phi)
        unit = np.where(self.is_log, root[self._entries], 1.0)
        return np.outer(d, d)[..., None] * _root_jacobian(root, self._entries, unit)

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
        root = _cholesky_factor(matrix / np.outer(d, d))[self._entries]
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
        variance_names = tuple(f"noise_own[{n}]" for n in range(1, len(self.scale) + 1))
        return variance_names + entry_names("noise_factor", self._entries)

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
        by_variances = np.zeros((len(d),) * 3)
        by_variances[n, n, n] = np.exp(phi[: len(d)])
        shared = _root_jacobian(u, self._entries, np.ones(len(phi) - len(d)))
        return np.outer(d, d)[..., None] * np.concatenate([by_variances, shared], axis=2)

    def start(self, operator: Array) -> Array:
        """Principal factors, a few rounds; patterns of zero would stay zero."""
        d = np.asarray(self.scale)
        q = operators.as_matrix(operator) / np.outer(d, d)
        variances = 0.5 * np.diag(q)
        for _ in range(50):
            values, vectors = np.linalg.eigh(q - np.diag(variances))
            top = np.maximum(values[-self.rank :], LEAST_MODE_SHARE * np.diag(q).mean())
            u = vectors[:, -self.rank :] * np.sqrt(top)
            variances = np.maximum(np.diag(q - u @ u.T), LEAST_MODE_SHARE * np.diag(q))
        turn = np.linalg.qr(u[: self.rank].T)[0]
        return np.concatenate([np.log(variances), (u @ turn)[self._entries]])


def entry_names(what: str, entries: tuple[Array, Array]) -> tuple[str, ...]:
    """``what[i,j]`` for entries of a matrix."""
    return tuple(f"{what}[{a + 1},{b + 1}]" for a, b in zip(*entries, strict=True))


def _root_jacobian(root: Array, entries: tuple[Array, Array], unit: Array) -> Array:
    """``dL L' + L dL'`` where each entry of a root L moves by its unit; (N, N, entries)."""
    i, j = entries
    half = np.zeros((len(root), len(root), len(i)))
    half[i, :, np.arange(len(i))] = unit[:, None] * root[:, j].T
    return half + np.swapaxes(half, 0, 1)


def _cholesky_factor(matrix: Array) -> Array:
    """Cholesky factor of a covariance, of the nearest one where rounding left none."""
    try:
        return np.asarray(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
        floor = LEAST_EIGENVALUE * max(values[-1], np.finfo(float).tiny)
        # QR of the root instead of a factorisation that could fail once more.
        upper = np.linalg.qr((vectors * np.sqrt(np.maximum(values, floor))).T, mode="r")
        return (upper * np.sign(np.diag(upper))[:, None]).T


# ---------- Free coordinates of a drift matrix: stable by construction
#
# A drift ``Lambda`` is stable if and only if it is ``(1/2 + K) M`` with a skew ``K`` and a
# symmetric positive definite ``M``: then ``M^-1`` solves ``Lambda P + P Lambda' = 1``, and every
# stable matrix has exactly one such pair. Modes are measured in units of their rough noise, so that
# coordinates are of similar size.


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
        """One or two entries per coordinate: decay on the diagonal, frequencies next to it."""
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
        change = np.tensordot(half, self._root.push(root, columns[:k]), 1)
        change += np.moveaxis(np.tensordot(turn, m, (1, 0)), 1, 2)
        return self._units[..., None] * change

    def start(self, operator: Array) -> Array:
        """``M^-1`` solves ``Lambda P + P Lambda' = 1``, and ``K = Lambda P - 1/2``."""
        # A block of a stable matrix, such as the reported modes of all, need not be stable.
        a = operators.decaying(operators.as_matrix(operator) / self._units, LEAST_DECAY)
        p = operators.stationary_covariance(a, np.eye(len(a)))
        turn = a @ p
        return np.concatenate([self._root.start(np.linalg.inv(p)), turn[self._below]])


# ---------- The full vector of coordinates, and the score in it
#
# The vector is a sequence of parts: drift, noise, season, observation, initial_variance,
# initial_mean. Each part that is estimated has coordinates of its own; what is known or follows
# from other parts has none. With ``theta_p`` the numbers of a part and ``J_p`` their Jacobian, the
# score by the part's coordinates is ``d log p / d theta_p`` contracted with ``J_p`` over all axes
# of ``theta_p``.


@dataclasses.dataclass(frozen=True, eq=False)
class Parametrisation:
    """From one vector to a state-space model, and back for its gradient.

    Attributes:
        parts: coordinates of each part that is estimated, in the order of the vector.
        initial_kind: "deterministic", "gaussian" or "stationary".
        initial_mean: (N,), where it is no part.
        observation_variance: where it is no part.
        season: of the noise, or None; its weights are a part.
        forcing: known, or None.
        origin: when the forcing begins to act.
    """

    parts: Mapping[str, AbstractCoordinates]
    initial_kind: InitialKind
    initial_mean: Array
    observation_variance: float = 0.0
    season: Season | None = None
    forcing: Forcing | None = None
    origin: float = 0.0

    @property
    def n_modes(self) -> int:
        """Modes in all, nuisance included."""
        return len(self.initial_mean)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """One name per coordinate of the full vector."""
        return tuple(name for coordinates in self.parts.values() for name in coordinates.names)

    @functools.cached_property
    def is_log(self) -> Array:
        """Whether a coordinate is a logarithm; (p,)."""
        return np.concatenate([coordinates.is_log for coordinates in self.parts.values()])

    @functools.cached_property
    def slices(self) -> dict[str, slice]:
        """Slice of each part in the full vector."""
        stops = np.cumsum(
            [0, *(len(coordinates.names) for coordinates in self.parts.values())]
        ).tolist()
        return {name: slice(*stops[i : i + 2]) for i, name in enumerate(self.parts)}

    def values(self, full: Array) -> dict[str, Array]:
        """Numbers of every part."""
        return {
            name: coordinates.values(full[self.slices[name]])
            for name, coordinates in self.parts.items()
        }

    def jacobian(self, part: str, full: Array) -> Array:
        """Derivative of a part's numbers by its coordinates; one axis more than the numbers."""
        return self.parts[part].jacobian(full[self.slices[part]])

    def state_space(self, full: Array) -> StateSpace:
        """The model at a full vector."""
        values = self.values(full)
        season = self.season
        if season is not None:
            season = season.with_weights(values["season"])
        dynamics = Linear(values["drift"], values["noise"], season, self.forcing, self.origin)
        spread = values.get("initial_variance", np.zeros(self.n_modes))
        if self.initial_kind == "stationary":
            spread = operators.stationary_covariance(dynamics.drift, dynamics.noise)
        mean = values.get("initial_mean", self.initial_mean)
        variance = np.asarray(values.get("observation", self.observation_variance))
        return StateSpace(dynamics, InitialState(self.initial_kind, mean, spread), variance)

    def score(self, full: Array, model: StateSpace, evaluation: Evaluation) -> Array:
        """Gradient by the full vector from that by the numbers of ``model``."""
        by_drift, by_noise = evaluation.by_drift, evaluation.by_noise
        if self.initial_kind == "stationary":
            linear, spread = model.linear, model.initial.covariance
            by_stationary = operators.stationary_pull_back(
                linear.drift, linear.noise, spread, evaluation.by_initial_covariance
            )
            by_drift, by_noise = by_drift + by_stationary[0], by_noise + by_stationary[1]
        by = {
            "drift": by_drift,
            "noise": by_noise,
            "season": evaluation.by_season,
            "observation": np.asarray(evaluation.by_observation_variance),
            "initial_variance": evaluation.by_initial_covariance,
            "initial_mean": evaluation.by_initial_mean,
        }
        slopes = [
            coordinates.pull_back(full[self.slices[p]], by[p])
            for p, coordinates in self.parts.items()
        ]
        return np.concatenate(slopes)


@dataclasses.dataclass(frozen=True, eq=False)
class DynamicsParametrisation(Parametrisation):
    """The same for dynamics of any kind, whose parameters are parts under their own names.

    Attributes:
        dynamics: whose numbers are replaced.
        initial_variance: of the first state, (N,), where it is no part.
    """

    dynamics: Dynamics | None = None
    initial_variance: Array | None = None

    def values(self, full: Array) -> dict[str, Array]:
        """Numbers of every part, in the shapes that the dynamics have them in."""
        shapes = {name: np.shape(x) for name, x in self.dynamics.parameters.items()}  # type: ignore[union-attr]
        values = super().values(full)
        return {name: np.reshape(x, shapes.get(name, np.shape(x))) for name, x in values.items()}

    def state_space(self, full: Array) -> StateSpace:
        """The model at a full vector."""
        values = self.values(full)
        numbers = {name: values[name] for name in self.dynamics.parameters}  # type: ignore[union-attr]
        dynamics = self.dynamics.with_parameters(numbers)  # type: ignore[union-attr]
        mean = values.get("initial_mean", self.initial_mean)
        variance = values.get("initial_variance", self.initial_variance)
        initial = InitialState(self.initial_kind, mean, np.asarray(variance))
        r = np.asarray(values.get("observation", self.observation_variance))
        return StateSpace(dynamics, initial, r)

    def scores(self, full: Array, by: Mapping[str, Array]) -> Array:
        """Scores of n terms by the full vector, (n, p), from those by the numbers, (n, ...)."""
        slopes = []
        for part, where in self.slices.items():
            slope = by[part].reshape(len(by[part]), by[part][0].size)
            shape = slope.shape[1], where.stop - where.start  # there may be no term at all
            slopes.append(slope @ np.reshape(self.jacobian(part, full), shape))
        return np.concatenate(slopes, axis=1)

    def score(self, full: Array, model: StateSpace, evaluation: Any) -> Array:
        """Gradient by the full vector from that of each term by the numbers."""
        return np.asarray(self.scores(full, evaluation.by).sum(0))


# ---------- Coordinates of a fit from the words of its model
#
# The start of a search and the size of its first steps follow from moment estimates.


#: Least variance of a starting initial covariance, relative to the energy of its mode.
LEAST_INITIAL_SHARE = 1e-6
#: Least information that a coordinate is supposed to have.
LEAST_DETERMINED = 1e-2


def drift_coordinates(
    model: Model, domain: AbstractDomain, n_modes: int, units: Array
) -> AbstractCoordinates:
    """Coordinates of the drift of the reported modes; ``units`` are those of matrices, (N,)."""
    if model.drift == "dense":
        return Stable(tuple(map(float, units[:n_modes])))
    if model.drift == "normal":
        return Rotating(n_modes, rotating_pairs(domain, n_modes))
    if model.drift == "parametric":
        return OperatorTied(tuple(domain.eigenvalues(n_modes)))
    return Single("eigenvalue", n_modes)


def noise_coordinates(model: Model, n_modes: int, units: Array) -> AbstractCoordinates:
    """Coordinates of the noise of the reported modes."""
    scale = tuple(map(float, units[:n_modes]))
    if model.noise == "dense":
        return Covariance("noise_root", scale)
    if model.noise == "low_rank":
        return LowRankCovariance(scale, _checked_rank(model.noise_rank, n_modes))
    if model.noise == "parametric":
        return PowerTied(n_modes)
    return Single("noise_variance", n_modes)


def _checked_rank(rank: int, n_modes: int) -> int:
    """A rank that leaves fewer numbers than a full covariance has (Ledermann's bound)."""
    if rank >= n_modes or (n_modes - rank) ** 2 < n_modes + rank:
        expected = f"a rank that saves parameters with {n_modes} modes"
        fix = "pass a smaller noise_rank, or noise='dense'"
        raise InputError("noise_rank", expected=expected, got=str(rank), fix=fix)
    return rank


def parametrise(
    model: Model,
    domain: AbstractDomain,
    n_modes: int,
    initial: Decision,
    moments: MomentEstimates,
    *,
    known_variance: float | None,
    known_mean: Array | None = None,
    origin: float = 0.0,
) -> Parametrisation:
    """Coordinates of everything that a fit estimates.

    Args:
        model: what is assumed.
        domain: of the modes.
        n_modes: reported ones.
        initial: kind of the initial state.
        moments: of all modes, nuisance included; the deviations of the noise are units.
        known_variance: of the observations, None where it is estimated.
        known_mean: of the initial state, None where it is estimated.
        origin: when a forcing begins to act.
    """
    units, kind = np.sqrt(operators.diagonal(moments.noise)), cast(InitialKind, initial.answer)
    n, extra = len(units), len(units) - n_modes
    drift = drift_coordinates(model, domain, n_modes, units)
    noise = noise_coordinates(model, n_modes, units)
    if extra:
        beyond = tuple(domain.eigenvalues(n)[n_modes:])
        drift = WithNuisance(drift, OperatorTied(beyond, "nuisance_"), n_modes)
        noise = WithNuisance(noise, PowerTied(extra, n_modes + 1, "nuisance_"), n_modes)
    parts: dict[str, AbstractCoordinates] = {"drift": drift, "noise": noise}
    if model.season is not None:
        parts["season"] = Contrasts(model.season.n_parts)
    if known_variance is None:
        parts["observation"] = Single("observation_std", None, power=2)
    if kind == "gaussian":
        parts["initial_variance"] = _initial_coordinates(model, moments)
    if known_mean is None and kind != "stationary":
        parts["initial_mean"] = Single("initial_mean", n, power=0)
    mean = np.zeros(n) if known_mean is None else known_mean
    constants = (known_variance or 0.0, model.season, model.forcing, origin)
    return Parametrisation(parts, kind, mean, *constants)


def _initial_coordinates(model: Model, moments: MomentEstimates) -> AbstractCoordinates:
    """A variance per mode, or a full covariance of modes that drift or noise couple.

    With hardly more paths than modes that covariance would have no maximum. Fixed values and priors
    of a variance are those of its logarithm.
    """
    spread = operators.diagonal(moments.spread)
    size = np.minimum(np.where(spread > 0, spread, np.inf), moments.energy)
    unit, is_free = tuple(map(float, np.sqrt(size))), not model.states_initial
    if model.couples and moments.n_paths >= 2 * len(spread):
        return Covariance("initial_root", unit, may_vanish=is_free)
    if is_free:
        return Squared("initial_variance", unit)
    return Single("initial_variance", len(spread))


def starting_vector(parametrisation: Parametrisation, moments: MomentEstimates) -> Array:
    """Full vector near moment estimates."""
    spread, floor = moments.spread, LEAST_INITIAL_SHARE * moments.energy + 1e-300
    diagonal, season = operators.is_diagonal(spread), parametrisation.season
    near = {
        "drift": moments.drift,
        "noise": moments.noise,
        "season": np.ones(0 if season is None else season.n_parts),
        "observation": np.asarray(moments.observation_variance),
        "initial_variance": np.maximum(spread, floor) if diagonal else spread + np.diag(floor),
        "initial_mean": moments.mean,
    }
    parts = parametrisation.parts
    return np.concatenate([coordinates.start(near[name]) for name, coordinates in parts.items()])


def starting_scale(
    parametrisation: Parametrisation, full: Array, moments: MomentEstimates
) -> Array:
    """Rough standard errors of the coordinates from the information of noise-free paths.

    The information on ``Lambda_ij`` is about ``E c_j^2 span / q_i`` per path, that on ``Q_ij``
    half the number of transitions over ``q_i q_j``, that on the observation noise twice the
    number of values.
    """
    values = parametrisation.values(full)
    q, steps = operators.diagonal(moments.noise), moments.n_paths * moments.n_steps
    transitions = 0.5 * max(steps, 2)
    information = {"drift": moments.n_paths * moments.span * moments.energy / q[:, None]}
    if operators.is_diagonal(values["drift"]):
        # On a logarithm, and at least 1: a slow mode in a short record carries no information.
        lam = operators.diagonal(moments.drift)
        log_information = np.maximum(np.diagonal(information["drift"]) * lam**2, 1.0)
        information["drift"] = log_information / values["drift"] ** 2
    for part, count in (
        ("noise", transitions),
        ("initial_variance", 0.5 * max(moments.n_paths, 2)),
    ):
        if part in values:
            variances = operators.diagonal(values[part])
            information[part] = operators.like(values[part], count / np.outer(variances, variances))
    scale = np.ones(len(full))
    for part, on in information.items():
        total = np.tensordot(on, parametrisation.jacobian(part, full) ** 2, on.ndim)
        scale[parametrisation.slices[part]] = 1.0 / np.sqrt(np.maximum(total, LEAST_DETERMINED))
    if getattr(parametrisation.parts.get("initial_variance"), "may_vanish", False):
        where = parametrisation.slices["initial_variance"]
        scale[where] = np.maximum(np.abs(full[where]), 1.0) / np.sqrt(2.0 * moments.n_paths)
    if "season" in values:
        # Each part of the season has its share of all transitions, and so has the first.
        count = len(q) * transitions / len(values["season"])
        scale[parametrisation.slices["season"]] = np.sqrt(2.0 / count)
    if "observation" in values:
        log_information = max(2.0 * moments.n_values, 1.0)
        scale[parametrisation.slices["observation"]] = 1.0 / np.sqrt(log_information)
    return scale

"""Free coordinates for an operator on the modes: positive by construction, fixed or tied.

A coordinate map sends an unconstrained vector ``phi`` to a drift, a noise covariance or an initial
covariance and knows its Jacobian, which has one axis more; the score by ``phi`` is the score by the
operator contracted with it. The maps of this module give one positive number per mode, (N,); those
of `spdelaw.infer._drift_coordinates` and `spdelaw.infer._covariance_coordinates` give matrices.
"""

from __future__ import annotations

import abc
import dataclasses

import numpy as np

from spdelaw.equation import operators

Array = np.ndarray

#: Least nu of a start, relative to the rates by the largest eigenvalue of the domain.
LEAST_SLOPE = 1e-3
#: Decay rate of a start in place of one that is not positive, relative to the largest.
LEAST_RATE = 1e-3


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
        found = np.exp(self.power * phi) if self.power else phi
        return found[0] if self.n_modes is None else found

    def jacobian(self, phi: Array) -> Array:
        """``power exp(power phi)`` on the diagonal."""
        slope = self.power * np.exp(self.power * phi) if self.power else np.ones(len(phi))
        return slope if self.n_modes is None else np.diag(slope)

    def start(self, operator: Array) -> Array:
        """``log(x) / power`` of the diagonal."""
        numbers = np.reshape(operator, 1) if self.n_modes is None else operators.diagonal(operator)
        return np.log(np.maximum(numbers, 1e-300)) / self.power if self.power else numbers


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
        # Rates have the unit of the data's clock: what is small is so beside the rates alone.
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
            [part.pull_back(x, operators.like(part.values(x), g)) for part, x, g in parts]
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

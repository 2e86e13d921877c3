"""Free coordinates for a spectrum: positive by parametrisation, fixed or tied on request.

A coordinate map sends an unconstrained vector ``phi`` to one positive number a mode and knows
its Jacobian; the score by ``phi`` is the score by the spectrum times the Jacobian.
"""

from __future__ import annotations

import abc
import dataclasses

import numpy as np

Array = np.ndarray


class AbstractCoordinates(abc.ABC):
    """Map from unconstrained coordinates to a positive spectrum."""

    @property
    @abc.abstractmethod
    def names(self) -> tuple[str, ...]:
        """One name a coordinate, as used in ``fixed`` and ``priors``."""

    @abc.abstractmethod
    def values(self, phi: Array) -> Array:
        """Spectrum (N,)."""

    @abc.abstractmethod
    def jacobian(self, phi: Array) -> Array:
        """``d spectrum / d phi``, (N, len(phi))."""

    @abc.abstractmethod
    def start(self, spectrum: Array) -> Array:
        """Coordinates near a given spectrum."""

    @property
    def is_log(self) -> Array:
        """Whether each coordinate is the logarithm of the number people know; (len(phi),)."""
        return np.ones(len(self.names), bool)


@dataclasses.dataclass(frozen=True)
class Free(AbstractCoordinates):
    """One number a mode, ``exp(phi_n)``."""

    what: str
    n_modes: int

    @property
    def names(self) -> tuple[str, ...]:
        """``eigenvalue[1]``, ``eigenvalue[2]``, ..."""
        return tuple(f"{self.what}[{n}]" for n in range(1, self.n_modes + 1))

    def values(self, phi: Array) -> Array:
        """``exp(phi)``."""
        return np.exp(phi)

    def jacobian(self, phi: Array) -> Array:
        """``diag(exp(phi))``."""
        return np.diag(np.exp(phi))

    def start(self, spectrum: Array) -> Array:
        """``log``."""
        return np.log(spectrum)


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

    def start(self, spectrum: Array) -> Array:
        """Least squares of the spectrum on ``1, mu`` with s = 1, kept positive."""
        mu = np.asarray(self.mu)
        nu = max(float(np.polyfit(mu, spectrum, 1)[0]) if np.ptp(mu) > 0 else 1.0, 1e-3)
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

    def start(self, spectrum: Array) -> Array:
        """Straight line through the logarithms."""
        if len(spectrum) == 1:
            return np.array([np.log(spectrum[0]) + 2.0 * self._logs[0], 2.0])
        slope, level = np.polyfit(self._logs, np.log(spectrum), 1)
        return np.array([level, -slope])


@dataclasses.dataclass(frozen=True)
class Pair(AbstractCoordinates):
    """Reported modes first, nuisance modes after them, each with coordinates of their own."""

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


@dataclasses.dataclass(frozen=True)
class Joined(Pair):
    """Two spectra, one after the other."""

    def values(self, phi: Array) -> Array:
        """Both spectra, one after the other."""
        a, b = self._split(phi)
        return np.concatenate([self.reported.values(a), self.nuisance.values(b)])

    def jacobian(self, phi: Array) -> Array:
        """Block diagonal."""
        a, b = (
            part.jacobian(x)
            for part, x in zip((self.reported, self.nuisance), self._split(phi), strict=True)
        )
        out = np.zeros((len(a) + len(b), a.shape[1] + b.shape[1]))
        out[: len(a), : a.shape[1]], out[len(a) :, a.shape[1] :] = a, b
        return out

    def start(self, spectrum: Array) -> Array:
        """Starts of both."""
        k = self.n_reported
        return np.concatenate(
            [self.reported.start(spectrum[:k]), self.nuisance.start(spectrum[k:])]
        )

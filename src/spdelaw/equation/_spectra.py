"""Formulas for the drift and the noise spectrum."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar

import numpy as np

from spdelaw.checks import from_settings, is_number
from spdelaw.errors import EquationError

Array = np.ndarray


class AbstractSpectrum(abc.ABC):
    """A formula that gives one non-negative number per mode."""

    name: ClassVar[str]

    @abc.abstractmethod
    def values(self, operator_eigenvalues: Array) -> Array:
        """Values for modes with reference eigenvalues ``mu_n``; shape (n_modes,)."""

    def to_dict(self) -> dict[str, Any]:
        """Plain description."""
        return {"name": self.name, **dataclasses.asdict(self)}  # type: ignore[call-overload]

    def __post_init__(self) -> None:
        """Every setting is a finite number."""
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if not is_number(value):
                what, fix = f"{self.name}.{field.name}", f"pass {field.name}=1.0"
                raise EquationError(what, expected="a finite number", got=repr(value), fix=fix)
            object.__setattr__(self, field.name, float(value))


@dataclasses.dataclass(frozen=True)
class OperatorFormula(AbstractSpectrum):
    """Drift ``lambda_n = kappa + nu mu_n^s``: damping, diffusivity and fractional order.

    Example:
        >>> import numpy as np
        >>> OperatorFormula(kappa=1.0, nu=0.5).values(np.array([0.0, 2.0]))
        array([1., 2.])
    """

    kappa: float = 0.0
    nu: float = 1.0
    s: float = 1.0
    name: ClassVar[str] = "operator_formula"

    def values(self, operator_eigenvalues: Array) -> Array:
        """``kappa + nu mu^s``."""
        return self.kappa + self.nu * np.asarray(operator_eigenvalues, float) ** self.s


@dataclasses.dataclass(frozen=True)
class PowerLaw(AbstractSpectrum):
    """Noise ``q_n = scale n^(-exponent)``, n = 1, 2, ... (trace class for exponent > 1).

    Example:
        >>> import numpy as np
        >>> PowerLaw(2.0).values(np.zeros(3))
        array([1.        , 0.25      , 0.11111111])
    """

    exponent: float
    scale: float = 1.0
    name: ClassVar[str] = "power_law"

    def values(self, operator_eigenvalues: Array) -> Array:
        """``scale n^(-exponent)``."""
        n = np.arange(1, len(operator_eigenvalues) + 1, dtype=float)
        return self.scale * n ** (-self.exponent)


@dataclasses.dataclass(frozen=True)
class Matern(AbstractSpectrum):
    """Noise ``q_n = scale (1 + length^2 mu_n)^(-(smoothness + 1/2))``.

    The spectrum of a Matern field in one dimension with the domain's boundary, at most
    ``scale`` and flat for wavelengths above ``length``.

    Example:
        >>> import numpy as np
        >>> Matern(length=1.0, smoothness=0.5).values(np.array([0.0, 1.0]))
        array([1. , 0.5])
    """

    length: float
    smoothness: float = 1.5
    scale: float = 1.0
    name: ClassVar[str] = "matern"

    def values(self, operator_eigenvalues: Array) -> Array:
        """``scale (1 + length^2 mu)^(-smoothness - 1/2)``."""
        mu = np.asarray(operator_eigenvalues, float)
        return self.scale * (1.0 + self.length**2 * mu) ** (-self.smoothness - 0.5)


@dataclasses.dataclass(frozen=True)
class White(AbstractSpectrum):
    """Noise ``q_n = scale``: white in space on the modes that are kept.

    Example:
        >>> import numpy as np
        >>> White(0.3).values(np.zeros(2))
        array([0.3, 0.3])
    """

    scale: float = 1.0
    name: ClassVar[str] = "white"

    def values(self, operator_eigenvalues: Array) -> Array:
        """``scale`` for each mode."""
        return np.full(len(operator_eigenvalues), self.scale)


SPECTRA: dict[str, type[AbstractSpectrum]] = {
    cls.name: cls for cls in (OperatorFormula, PowerLaw, Matern, White)
}


def spectrum_from_dict(description: dict[str, Any]) -> AbstractSpectrum:
    """Spectrum from the plain description that ``to_dict`` gives."""
    return from_settings("spectrum", SPECTRA, description, EquationError)

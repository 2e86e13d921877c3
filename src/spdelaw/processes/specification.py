"""Specification of an equation: spectra, matrices, initial states, times; each checked once."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from spdelaw.checks import checked, is_number, numbers, shown
from spdelaw.domains.base import AbstractDomain
from spdelaw.errors import EquationError
from spdelaw.processes import operators

# ---------- Formulas for the drift and the noise spectrum


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


@checked(EquationError)
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


@checked(EquationError)
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


@checked(EquationError)
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


@checked(EquationError)
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


# ---------- Arguments of an equation, checked: spectra, matrices, initial states, times


InitialKind = Literal["deterministic", "gaussian", "stationary"]

#: Rounding of eigenvalues and of symmetry, relative to the largest entry.
ROUNDING = 1e-10


@dataclasses.dataclass(frozen=True)
class Gaussian:
    """Gaussian coefficients ``c_n(0) ~ N(mean_n, variance_n)``, independent over modes.

    Either may be one number for all modes, or one per mode; shorter than the number of modes
    means zero beyond. A matrix for the variance is the covariance of all coefficients.
    """

    mean: Any = 0.0
    variance: Any = 1.0


class InitialState(NamedTuple):
    """Law of ``c(0)``: its kind, mean ``m0`` (N,) and covariance ``V0``, (N,) or (N, N)."""

    kind: InitialKind
    mean: Array
    covariance: Array

    @property
    def given(self) -> Any:
        """The same as an equation takes it."""
        if self.kind == "gaussian":
            return Gaussian(self.mean, self.covariance)
        return "stationary" if self.kind == "stationary" else self.mean

    def leading(self, n: int) -> InitialState:
        """That of the first ``n`` modes."""
        return InitialState(self.kind, self.mean[:n], operators.leading(self.covariance, n))


def is_matrix(given: Any) -> bool:
    """Whether numbers come as a matrix instead of one per mode."""
    return isinstance(given, (np.ndarray, list, tuple)) and np.ndim(given) == 2


def resolve_drift(given: Any, mu: Array) -> Array:
    """``Lambda``, none of whose modes grows; (N,) or (N, N)."""
    if not is_matrix(given):
        return _resolve_spectrum("drift", given, mu)
    a = _square_matrix("drift", given, len(mu))
    slowest = np.linalg.eigvals(a).real.min()
    if slowest < -ROUNDING * np.abs(a).max():
        expected = "a matrix whose eigenvalues have no negative real part"
        got = f"an eigenvalue with real part {slowest:.4g}"
        fix = "it enters as dX = -drift X dt: check its sign, or add damping"
        raise EquationError("drift", expected=expected, got=got, fix=fix)
    return frozen(a)


def resolve_noise(given: Any, mu: Array) -> Array:
    """``Q``; (N,) or (N, N)."""
    if is_matrix(given):
        return frozen(check_covariance("noise", given, len(mu)))
    return _resolve_spectrum("noise", given, mu)


def check_covariance(what: str, matrix: Any, n_modes: int) -> Array:
    """A symmetric, positive semidefinite matrix (N, N), or `EquationError`."""
    q = _square_matrix(what, matrix, n_modes)
    largest = np.abs(q).max()
    gap = np.abs(q - q.T).max()
    if gap > ROUNDING * largest:
        got, fix = f"entries that differ by {gap:.4g}", "pass factor @ factor.T, or 0.5 * (q + q.T)"
        raise EquationError(what, expected="a symmetric matrix", got=got, fix=fix)
    q = 0.5 * (q + q.T)
    least = np.linalg.eigvalsh(q)[0]
    if least < -ROUNDING * largest:
        expected = "a covariance, without negative eigenvalues"
        got = f"an eigenvalue of {least:.4g}"
        raise EquationError(what, expected=expected, got=got, fix="pass factor @ factor.T")
    return q


def _square_matrix(what: str, matrix: Any, n: int) -> Array:
    fix = "give one row and one column per mode"
    return _finite_array(what, matrix, (n, n), f"a finite ({n}, {n}) matrix", fix)


def check_centre(centre: Any, n: int) -> Array:
    """Coefficients of a mean, (N,), or `EquationError`."""
    expected, fix = f"{n} finite coefficients, one per mode", "pass centre=np.zeros(n_modes)"
    return frozen(_finite_array("centre", centre, (n,), expected, fix))


def _finite_array(what: str, given: Any, shape: tuple[int, ...], expected: str, fix: str) -> Array:
    a = numbers(given)
    if a.shape != shape or not np.isfinite(a).all():
        got = f"shape {a.shape}" if a.shape != shape else "values that are not finite"
        raise EquationError(what, expected=expected, got=got if a.ndim else shown(given), fix=fix)
    return a


def _resolve_spectrum(what: str, given: Any, mu: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        v = numbers(given.values(mu) if isinstance(given, AbstractSpectrum) else given)
    if v.shape != mu.shape or not np.isfinite(v).all() or (v < 0).any():
        got = f"{shown(given)}, shape {v.shape}"
        if v.shape == mu.shape:
            got = f"values from {v.min()} to {v.max()}"
        expected = f"a spectrum, or {len(mu)} finite, non-negative numbers"
        fix = "give one number per mode; lambda_n and q_n enter as -lambda_n and sqrt(q_n)"
        raise EquationError(what, expected=expected, got=got, fix=fix)
    return frozen(v)


def resolve_initial(
    initial: Any, domain: AbstractDomain, drift: Array, noise: Array
) -> InitialState:
    """Mean and covariance of ``c(0)`` from any of the accepted forms."""
    n = len(drift)
    kind: InitialKind = "deterministic"
    mean = covariance = np.zeros(n)
    if isinstance(initial, str):
        kind, covariance = "stationary", _stationary_state(initial, drift, noise)
    elif isinstance(initial, Gaussian):
        kind, mean = "gaussian", _pad_modes("initial mean", initial.mean, n)
        covariance = _initial_covariance(initial.variance, n)
    else:
        mean = (
            domain.project(initial, n) if callable(initial) else _pad_modes("initial", initial, n)
        )
    return InitialState(kind, frozen(mean), frozen(covariance))


def _initial_covariance(variance: Any, n: int) -> Array:
    if is_matrix(variance):
        return check_covariance("initial variance", variance, n)
    values = _pad_modes("initial variance", variance, n)
    if (values < 0).any():
        got, fix = f"{values.min()}", "pass variances, not standard deviations with a sign"
        raise EquationError("initial variance", expected="non-negative numbers", got=got, fix=fix)
    return values


def _stationary_state(word: str, drift: Array, noise: Array) -> Array:
    if word != "stationary":
        expected = "a function, coefficients, Gaussian(...) or 'stationary'"
        fix = "pass initial='stationary'"
        raise EquationError("initial", expected=expected, got=repr(word), fix=fix)
    slowest = float(operators.decay_rates(drift).min())
    if slowest <= (0.0 if operators.is_diagonal(drift) else ROUNDING * np.abs(drift).max()):
        expected = "a drift that damps every mode for a stationary state"
        got, fix = f"a decay rate of {slowest:g}", "add damping (kappa > 0), or give a state"
        raise EquationError("initial", expected=expected, got=got, fix=fix)
    return operators.stationary_covariance(drift, noise)


def _pad_modes(what: str, values: Any, n: int) -> Array:
    v = numbers(values)
    if v.ndim == 0:
        v = np.full(n, float(v))
    if v.ndim != 1 or v.size > n or not np.isfinite(v).all():
        expected = f"at most {n} finite numbers"
        got = f"shape {v.shape}" if v.ndim != 1 or v.size > n else shown(values)
        fix = "pass one number per mode; fewer are filled up with zeros"
        raise EquationError(what, expected=expected, got=got, fix=fix)
    return np.concatenate([v, np.zeros(n - v.size)])


def check_part(what: str, given: Any, kind: type) -> None:
    """Refuse anything but ``kind`` or None."""
    if given is not None and not isinstance(given, kind):
        expected, got = f"a {kind.__name__}", type(given).__name__
        fix = f"build it with sl.{kind.__name__}(...)"
        raise EquationError(what, expected=expected, got=got, fix=fix)


def frozen(values: Array) -> Array:
    """A read-only copy."""
    values = np.array(values)
    if np.isrealobj(values):
        values = values.astype(float)
    values.setflags(write=False)
    return values


def check_times(times: Any) -> Array:
    """Times as float64, strictly increasing, or raise `EquationError`."""
    t = np.atleast_1d(numbers(times))
    if t.ndim != 1 or t.size == 0 or not np.isfinite(t).all() or (np.diff(t) <= 0).any():
        got = f"shape {t.shape}" if t.ndim != 1 or t.size == 0 else "unsorted, repeated or NaN"
        expected = "a strictly increasing vector of finite times"
        fix = "np.unique(times), or np.linspace(0, 1, 201)"
        raise EquationError("times", expected=expected, got=got, fix=fix)
    return t

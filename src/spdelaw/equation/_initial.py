"""Initial states: deterministic, Gaussian or stationary; a mean and a covariance."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple

import numpy as np

from spdelaw.checks import numbers
from spdelaw.domain import AbstractDomain
from spdelaw.equation import operators
from spdelaw.equation._given import ROUNDING, check_covariance, is_matrix
from spdelaw.errors import EquationError

Array = np.ndarray
Kind = Literal["deterministic", "gaussian", "stationary"]


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

    kind: Kind
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


def resolve_initial(
    initial: Any, domain: AbstractDomain, drift: Array, noise: Array
) -> InitialState:
    """Mean and covariance of ``c(0)`` from any of the accepted forms."""
    n = len(drift)
    if isinstance(initial, str):
        return _stationary(initial, drift, noise)
    if isinstance(initial, Gaussian):
        mean = _padded("initial mean", initial.mean, n)
        return InitialState("gaussian", mean, _spread(initial.variance, n))
    if callable(initial):
        return InitialState("deterministic", domain.project(initial, n), np.zeros(n))
    return InitialState("deterministic", _padded("initial", initial, n), np.zeros(n))


def _spread(variance: Any, n: int) -> Array:
    if is_matrix(variance):
        return check_covariance("initial variance", variance, n)
    found = _padded("initial variance", variance, n)
    if (found < 0).any():
        got, fix = f"{found.min()}", "pass variances, not standard deviations with a sign"
        raise EquationError("initial variance", expected="non-negative numbers", got=got, fix=fix)
    return found


def _stationary(word: str, drift: Array, noise: Array) -> InitialState:
    if word != "stationary":
        expected = "a function, coefficients, Gaussian(...) or 'stationary'"
        fix = "pass initial='stationary'"
        raise EquationError("initial", expected=expected, got=repr(word), fix=fix)
    slowest = float(operators.decay_rates(drift).min())
    if slowest <= (0.0 if operators.is_diagonal(drift) else ROUNDING * np.abs(drift).max()):
        expected = "a drift that damps every mode for a stationary state"
        got, fix = f"a decay rate of {slowest:g}", "add damping (kappa > 0), or give a state"
        raise EquationError("initial", expected=expected, got=got, fix=fix)
    covariance = operators.stationary_covariance(drift, noise)
    return InitialState("stationary", np.zeros(len(drift)), covariance)


def _padded(what: str, values: Any, n: int) -> Array:
    v = numbers(values)
    if v.ndim == 0:
        v = np.full(n, float(v))
    if v.ndim != 1 or v.size > n or not np.isfinite(v).all():
        expected = f"at most {n} finite numbers"
        got = f"shape {v.shape}" if v.ndim != 1 or v.size > n else repr(values)
        fix = "pass one number per mode; fewer are filled up with zeros"
        raise EquationError(what, expected=expected, got=got, fix=fix)
    return np.concatenate([v, np.zeros(n - v.size)])

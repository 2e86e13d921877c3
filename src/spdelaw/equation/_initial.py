"""Initial states: deterministic, Gaussian or stationary, one mean and variance a mode."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.errors import EquationError

Array = np.ndarray
Kind = Literal["deterministic", "gaussian", "stationary"]
InitialLike = (
    "Callable[[Array], Array] | Sequence[float] | Array | Gaussian | Literal['stationary']"
)


@dataclasses.dataclass(frozen=True)
class Gaussian:
    """Gaussian coefficients ``c_n(0) ~ N(mean_n, variance_n)``, independent over modes.

    Either may be one number for all modes, or one a mode; shorter than the number of modes
    means zero beyond. A matrix for the variance is the covariance of all coefficients.
    """

    mean: Any = 0.0
    variance: Any = 1.0


class InitialState(NamedTuple):
    """Resolved initial state: mean ``m0`` and variance ``v0`` of each coefficient."""

    kind: Kind
    mean: Array
    variance: Array


def resolve_initial(
    initial: Any, domain: AbstractDomain, eigenvalues: Array, noise_variance: Array
) -> InitialState:
    """Mean and variance of ``c_n(0)`` from any of the accepted forms."""
    n = len(eigenvalues)
    if isinstance(initial, str):
        return _stationary(initial, eigenvalues, noise_variance)
    if isinstance(initial, Gaussian):
        variance = _padded("initial variance", initial.variance, n)
        if (variance < 0).any():
            raise EquationError(
                "initial variance", expected="non-negative numbers", got=f"{variance.min()}",
                fix="pass variances, not standard deviations with a sign",
            )  # fmt: skip
        return InitialState("gaussian", _padded("initial mean", initial.mean, n), variance)
    if callable(initial):
        return InitialState("deterministic", domain.project(initial, n), np.zeros(n))
    return InitialState("deterministic", _padded("initial", initial, n), np.zeros(n))


def _stationary(word: str, eigenvalues: Array, noise_variance: Array) -> InitialState:
    if word != "stationary":
        raise EquationError(
            "initial", expected="a function, coefficients, Gaussian(...) or 'stationary'",
            got=repr(word), fix="pass initial='stationary'",
        )  # fmt: skip
    if (eigenvalues <= 0).any():
        raise EquationError(
            "initial", expected="lambda_n > 0 for a stationary state",
            got=f"lambda = {eigenvalues.min():g}", fix="add damping (kappa > 0), or give a state",
        )  # fmt: skip
    zero = np.zeros(len(eigenvalues))
    return InitialState("stationary", zero, noise_variance / (2.0 * eigenvalues))


def _padded(what: str, values: Any, n: int) -> Array:
    try:
        v = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise EquationError(
            what, expected="numbers", got=repr(values), fix="pass one number a mode"
        ) from error
    if v.ndim == 0:
        v = np.full(n, float(v))
    if v.ndim != 1 or v.size > n or not np.isfinite(v).all():
        raise EquationError(
            what, expected=f"at most {n} finite numbers", got=f"shape {v.shape}",
            fix="pass one number a mode; fewer are filled up with zeros",
        )  # fmt: skip
    return np.concatenate([v, np.zeros(n - v.size)])

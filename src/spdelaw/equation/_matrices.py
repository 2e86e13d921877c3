"""Drift and noise given as matrices: checked once, and the moments that follow from them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spdelaw.equation._matrix_transition import (
    distinct_steps,
    matrix_transition,
    stationary_covariance,
)
from spdelaw.errors import EquationError

Array = np.ndarray

#: Rounding of eigenvalues and of symmetry, relative to the largest entry.
ROUNDING = 1e-10


class Coupling(NamedTuple):
    """Drift ``Lambda``, noise covariance ``Q`` and initial covariance ``V0``, each (N, N)."""

    drift: Array
    noise: Array
    initial: Array


def is_matrix(given: Any) -> bool:
    """Whether numbers come as a matrix instead of one a mode."""
    return isinstance(given, (np.ndarray, list, tuple)) and np.ndim(given) == 2


def check_drift(matrix: Any, n_modes: int) -> Array:
    """``Lambda`` (N, N) none of whose modes grows, or `EquationError`."""
    a = _square("drift", matrix, n_modes)
    slowest = np.linalg.eigvals(a).real.min()
    if slowest < -ROUNDING * np.abs(a).max():
        raise EquationError(
            "drift", expected="a matrix whose eigenvalues have no negative real part",
            got=f"an eigenvalue with real part {slowest:.4g}",
            fix="it enters as dX = -drift X dt: check its sign, or add damping",
        )  # fmt: skip
    return a


def check_covariance(what: str, matrix: Any, n_modes: int) -> Array:
    """A symmetric, positive semidefinite matrix (N, N), or `EquationError`."""
    q = _square(what, matrix, n_modes)
    largest = np.abs(q).max()
    if np.abs(q - q.T).max() > ROUNDING * largest:
        raise EquationError(
            what, expected="a symmetric matrix", got=f"entries that differ by "
            f"{np.abs(q - q.T).max():.4g}", fix="pass factor @ factor.T, or 0.5 * (q + q.T)",
        )  # fmt: skip
    q = 0.5 * (q + q.T)
    least = np.linalg.eigvalsh(q)[0]
    if least < -ROUNDING * largest:
        raise EquationError(
            what, expected="a covariance, without negative eigenvalues",
            got=f"an eigenvalue of {least:.4g}", fix="pass factor @ factor.T",
        )  # fmt: skip
    return q


def _square(what: str, matrix: Any, n_modes: int) -> Array:
    try:
        a = np.array(matrix, dtype=float)
    except (TypeError, ValueError):
        a = np.zeros(0)
    if a.shape != (n_modes, n_modes) or not np.isfinite(a).all():
        got = f"shape {a.shape}" if a.shape != (n_modes, n_modes) else "values that are not finite"
        raise EquationError(
            what, expected=f"a finite matrix of shape ({n_modes}, {n_modes})", got=got,
            fix="give one row and one column a mode",
        )  # fmt: skip
    return a


def coupled_mean(coupling: Coupling, mean: Array, ages: Array) -> Array:
    """``e^(-Lambda t) m0``; (T, N)."""
    return matrix_transition(coupling.drift, coupling.noise, ages).factor @ mean


def coupled_variance(coupling: Coupling, ages: Array) -> Array:
    """``Cov c(t) = F V0 F' + Omega``; (T, N, N)."""
    step = matrix_transition(coupling.drift, coupling.noise, ages)
    return step.factor @ coupling.initial @ np.swapaxes(step.factor, 1, 2) + step.covariance


def coupled_covariance(coupling: Coupling, ages: Array) -> Array:
    """``Cov(c(t), c(s)) = e^(-Lambda (t - s)) Cov c(s)`` for t >= s; (T, T, N, N)."""
    gap = ages[:, None] - ages[None, :]
    lengths, which = distinct_steps(np.abs(gap))
    factor = matrix_transition(coupling.drift, coupling.noise, lengths).factor[which]
    late = factor @ coupled_variance(coupling, ages)[None]
    return np.where((gap >= 0)[..., None, None], late, late.transpose(1, 0, 3, 2))


def initial_coupling(drift: Array, noise: Array, kind: str, covariance: Array) -> Coupling:
    """All three matrices; a stationary state has its covariance from the other two."""
    if kind != "stationary":
        return Coupling(drift, noise, covariance)
    if np.linalg.eigvals(drift).real.min() <= ROUNDING * np.abs(drift).max():
        raise EquationError(
            "initial", expected="a drift that damps every mode for a stationary state",
            got="an eigenvalue of real part 0", fix="add damping, or give a state",
        )  # fmt: skip
    return Coupling(drift, noise, stationary_covariance(drift, noise))

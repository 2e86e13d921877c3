"""From what an equation is given to its operators: formulas, numbers or matrices, checked once."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.equation._spectra import AbstractSpectrum
from spdelaw.errors import EquationError

Array = np.ndarray

#: Rounding of eigenvalues and of symmetry, relative to the largest entry.
ROUNDING = 1e-10


def is_matrix(given: Any) -> bool:
    """Whether numbers come as a matrix instead of one per mode."""
    return isinstance(given, (np.ndarray, list, tuple)) and np.ndim(given) == 2


def resolve_drift(given: Any, mu: Array) -> Array:
    """``Lambda``, none of whose modes grows; (N,) or (N, N)."""
    if not is_matrix(given):
        return _spectrum("drift", given, mu)
    a = _square("drift", given, len(mu))
    slowest = np.linalg.eigvals(a).real.min()
    if slowest < -ROUNDING * np.abs(a).max():
        raise EquationError(
            "drift",
            expected="a matrix whose eigenvalues have no negative real part",
            got=f"an eigenvalue with real part {slowest:.4g}",
            fix="it enters as dX = -drift X dt: check its sign, or add damping",
        )
    return a


def resolve_noise(given: Any, mu: Array) -> Array:
    """``Q``; (N,) or (N, N)."""
    if is_matrix(given):
        return check_covariance("noise", given, len(mu))
    return _spectrum("noise", given, mu)


def check_covariance(what: str, matrix: Any, n_modes: int) -> Array:
    """A symmetric, positive semidefinite matrix (N, N), or `EquationError`."""
    q = _square(what, matrix, n_modes)
    largest = np.abs(q).max()
    if np.abs(q - q.T).max() > ROUNDING * largest:
        raise EquationError(
            what,
            expected="a symmetric matrix",
            got=f"entries that differ by {np.abs(q - q.T).max():.4g}",
            fix="pass factor @ factor.T, or 0.5 * (q + q.T)",
        )
    q = 0.5 * (q + q.T)
    least = np.linalg.eigvalsh(q)[0]
    if least < -ROUNDING * largest:
        raise EquationError(
            what,
            expected="a covariance, without negative eigenvalues",
            got=f"an eigenvalue of {least:.4g}",
            fix="pass factor @ factor.T",
        )
    return q


def _square(what: str, matrix: Any, n_modes: int) -> Array:
    try:
        a = np.array(matrix, dtype=float)
    except (TypeError, ValueError):
        a = np.zeros(0)
    if a.shape != (n_modes, n_modes) or not np.isfinite(a).all():
        got = f"shape {a.shape}" if a.shape != (n_modes, n_modes) else "values that are not finite"
        raise EquationError(
            what,
            expected=f"a finite matrix of shape ({n_modes}, {n_modes})",
            got=got,
            fix="give one row and one column per mode",
        )
    return a


def _spectrum(what: str, given: Any, mu: Array) -> Array:
    try:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            raw = given.values(mu) if isinstance(given, AbstractSpectrum) else given
            v = np.array(raw, dtype=float)
    except (TypeError, ValueError) as error:
        raise EquationError(
            what, expected="a spectrum or numbers", got=repr(given), fix="pass sl.PowerLaw(2.0)"
        ) from error
    if v.shape != mu.shape or not np.isfinite(v).all() or (v < 0).any():
        got = f"shape {v.shape}" if v.shape != mu.shape else f"values from {v.min()} to {v.max()}"
        raise EquationError(
            what,
            expected=f"{len(mu)} finite, non-negative numbers",
            got=got,
            fix="give one number per mode; lambda_n and q_n enter as -lambda_n and sqrt(q_n)",
        )
    return v

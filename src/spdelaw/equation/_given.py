"""What an equation is given, checked once: parts, times, formulas, numbers or matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.checks import numbers
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
        expected = "a matrix whose eigenvalues have no negative real part"
        got = f"an eigenvalue with real part {slowest:.4g}"
        fix = "it enters as dX = -drift X dt: check its sign, or add damping"
        raise EquationError("drift", expected=expected, got=got, fix=fix)
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


def _square(what: str, matrix: Any, n: int) -> Array:
    a = numbers(matrix)
    if a.shape != (n, n) or not np.isfinite(a).all():
        got = f"shape {a.shape}" if a.shape != (n, n) else "values that are not finite"
        fix = "give one row and one column per mode"
        raise EquationError(what, expected=f"a finite ({n}, {n}) matrix", got=got, fix=fix)
    return a


def _spectrum(what: str, given: Any, mu: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        v = numbers(given.values(mu) if isinstance(given, AbstractSpectrum) else given)
    if v.shape != mu.shape or not np.isfinite(v).all() or (v < 0).any():
        is_vector = v.shape == mu.shape
        got = f"values from {v.min()} to {v.max()}" if is_vector else f"{given!r}, shape {v.shape}"
        expected = f"a spectrum, or {len(mu)} finite, non-negative numbers"
        fix = "give one number per mode; lambda_n and q_n enter as -lambda_n and sqrt(q_n)"
        raise EquationError(what, expected=expected, got=got, fix=fix)
    return v


def check_part(what: str, given: Any, kind: type) -> None:
    """Refuse anything but ``kind`` or None."""
    if given is not None and not isinstance(given, kind):
        expected, got = f"a {kind.__name__}", type(given).__name__
        fix = f"build it with sl.{kind.__name__}(...)"
        raise EquationError(what, expected=expected, got=got, fix=fix)


def frozen(values: Array) -> Array:
    """A copy that nobody can write to."""
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

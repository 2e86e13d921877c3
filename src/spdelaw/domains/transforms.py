"""Fields to coefficients by weighted least squares, with measures of its accuracy.

With ``Phi = h_n(x_i)`` and rule weights ``W``, the coefficients minimise
``(u - Phi c)' W (u - Phi c)``. On a grid whose rule is exact for products of the modes the
Gram matrix ``Phi' W Phi`` is the identity and least squares is the quadrature itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spdelaw.errors import AliasingWarning, DomainError

if TYPE_CHECKING:
    from spdelaw.domains.base import AbstractDomain

Array = np.ndarray

#: Gram matrices closer to the identity than this count as exact quadrature.
QUADRATURE_TOLERANCE = 1e-10
#: Rows whose normal equations are worse conditioned than this come back as NaN.
MAX_CONDITION = 1e12
#: Aliased energy, relative to the field, from which on a warning is due.
ALIASING_TOLERANCE = 1e-4


class Analysis(NamedTuple):
    """Coefficients and their quality.

    Attributes:
        coefficients: (..., n_modes); NaN where a row has too few points.
        method: "fast", "quadrature" or "least_squares".
        condition: condition number of the Gram matrix, the worst row where points are missing.
        leakage: largest norm with which one of the next modes enters the coefficients.
        outside: share of the fields' energy in the residual.
        n_lost: rows that have too few points for the modes.
    """

    coefficients: Array
    method: str
    condition: float
    leakage: float
    outside: float
    n_lost: int


def analyse_values(
    domain: AbstractDomain, values: Array, points: Array, n_modes: int, method: str
) -> Analysis:
    """Weighted least-squares coefficients of ``values`` (..., n_points)."""
    values = _as_real(values)
    observed = np.isfinite(values)
    complete = bool(observed.all())
    if complete and n_modes > len(points):
        expected = f"at most {len(points)} modes on {len(points)} points"
        fix = f"pass n_modes={max(1, len(points) // 2)} or a finer grid"
        raise DomainError("n_modes", expected=expected, got=str(n_modes), fix=fix)
    phi = domain.eigenfunctions(points, n_modes)
    w = domain.grid_weights(points)
    if not complete:
        return _analyse_with_gaps(domain, values, observed, points, phi, w)
    # With 64 modes or fewer one matrix product beats the full transform.
    fast = fast_transform(method, n_modes > 64, domain.fast_analyse, values, points, n_modes)
    if fast is not None:
        return Analysis(fast, "fast", 1.0, 0.0, _residual_energy(values, fast, phi, w), 0)
    operator, condition, exact = projection(phi, w)
    c, leak = values @ operator.T, _leakage(domain, operator, points, n_modes)
    used = "quadrature" if exact else "least_squares"
    return Analysis(c, used, condition, leak, _residual_energy(values, c, phi, w), 0)


def fast_transform(
    method: str, pays_off: bool, transform: Callable[..., Array | None], *given: Any
) -> Array | None:
    """Result of a fast transform where ``method`` calls for it; None for the dense way."""
    fast = transform(*given) if method == "fast" or (method == "auto" and pays_off) else None
    if method == "fast" and fast is None:
        expected, got = "a grid with a fast transform for method='fast'", "a grid without one"
        fix = "use method='auto', or the grid of domain.grid(n)"
        raise DomainError("method", expected=expected, got=got, fix=fix)
    return fast


def _as_real(values: Array) -> Array:
    values = np.asarray(values)
    if values.dtype.kind not in "fiu":
        got = f"dtype {values.dtype}"
        raise DomainError("fields", expected="real numbers", got=got, fix="cast to float64")
    values = np.asarray(values, dtype=float)
    if np.isinf(values).any():
        expected, fix = "finite values or NaN for missing", "replace infinities by NaN"
        raise DomainError("fields", expected=expected, got="infinite values", fix=fix)
    return values


def projection(phi: Array, w: Array) -> tuple[Array, float, bool]:
    """Matrix (n_modes, n_points) from values to coefficients, its condition, and exactness."""
    root = np.sqrt(w)[:, None]
    gram = (root * phi).T @ (root * phi)
    if np.abs(gram - np.eye(len(gram))).max() < QUADRATURE_TOLERANCE:
        return (w[:, None] * phi).T, float(np.linalg.cond(gram)), True
    # The pseudo-inverse works on the factor, so it squares no condition number.
    operator = np.linalg.pinv(root * phi, rcond=1e-13) * root.T
    return operator, float(np.linalg.cond(gram)), False


def _leakage(domain: AbstractDomain, operator: Array, points: Array, n_modes: int) -> float:
    beyond = domain.eigenfunctions(points, domain.available(2 * n_modes))[:, n_modes:]
    return float(np.linalg.norm(operator @ beyond, axis=0).max(initial=0.0))


def _residual_energy(values: Array, c: Array, phi: Array, w: Array) -> float:
    """Share of energy in the residual, on at most 2000 rows: it feeds a warning, not a result."""
    rows = values.reshape(-1, values.shape[-1])
    coefficients = c.reshape(-1, c.shape[-1])
    step = max(1, len(rows) // 2000)
    rows, coefficients = rows[::step], coefficients[::step]
    residual = np.where(np.isfinite(rows), rows - coefficients @ phi.T, 0.0)
    residual = residual[np.isfinite(coefficients).all(1)]
    total = np.nansum(w * rows**2)
    return float((w * residual**2).sum() / total) if total > 0 else 0.0


def _analyse_with_gaps(
    domain: AbstractDomain,
    values: Array,
    observed: Array,
    points: Array,
    phi: Array,
    w: Array,
) -> Analysis:
    n_modes = phi.shape[1]
    rows, observed_rows = values.reshape(-1, len(points)), observed.reshape(-1, len(points))
    patterns, which = np.unique(observed_rows, axis=0, return_inverse=True)
    which = which.reshape(-1)
    order = np.argsort(which, kind="stable")
    bounds = np.searchsorted(which[order], np.arange(len(patterns) + 1))
    c = np.full((len(rows), n_modes), np.nan)
    worst, leak, lost = 1.0, 0.0, 0
    for p, pattern in enumerate(patterns):
        index = order[bounds[p] : bounds[p + 1]]
        if pattern.sum() < n_modes:
            lost += len(index)
            continue
        operator, condition, _ = projection(phi[pattern], w[pattern])
        if condition > MAX_CONDITION:
            lost += len(index)
            continue
        c[index] = rows[np.ix_(index, np.flatnonzero(pattern))] @ operator.T
        worst = max(worst, condition)
        if p < 20:  # a sample of patterns is enough for a warning
            leak = max(leak, _leakage(domain, operator, points[pattern], n_modes))
    c = c.reshape(*values.shape[:-1], n_modes)
    return Analysis(c, "least_squares", worst, leak, _residual_energy(values, c, phi, w), lost)


def warn_if_aliased(result: Analysis) -> None:
    """Warn, with the number, where energy beyond the modes enters the coefficients."""
    aliased = result.leakage * np.sqrt(result.outside)
    if aliased > ALIASING_TOLERANCE:
        warnings.warn(
            f"{100 * result.outside:.3g} % of the energy lies beyond the "
            f"{result.coefficients.shape[-1]} modes and this grid lets up to "
            f"{100 * result.leakage:.3g} % of a neighbouring mode's amplitude into the "
            f"coefficients (condition {result.condition:.3g}). Use more modes, or a grid of "
            "domain.grid(n) without gaps.",
            AliasingWarning,
            stacklevel=3,
        )
    if result.n_lost:
        warnings.warn(
            f"{result.n_lost} rows have too few points for "
            f"{result.coefficients.shape[-1]} modes; their coefficients are NaN.",
            AliasingWarning,
            stacklevel=3,
        )

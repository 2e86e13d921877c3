"""Gaussian rows given a linear map of standard normals, with or without a remainder.

A stack of S independent problems, each with R rows and D coordinates shared by P paths:

    w = F u + tail + sqrt(r) e,    u ~ N(0, I_D),  e ~ N(0, I_R),  tail ~ N(0, C).

Without a tail, Woodbury's identity leaves a Cholesky factor of ``M = I + F'F / r``, size D:

    log|Sigma| = R log r + log|M|,    w' Sigma^-1 w = |w - F u|^2 / r + |u|^2,   u = M^-1 F'w / r,

the energy being a sum of squares, so that a small r costs no digits. With a tail the factor is
that of ``Sigma = F F' + C + r I``, size R. The score is by the map or by the covariance itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.errors import ConvergenceError

Array = np.ndarray


class Gaussian(NamedTuple):
    """Density of the rows, its gradient, and the coordinates given them.

    Attributes:
        log_density: (P,), summed over the stack.
        pull: gradient by the mean of the rows, each path: ``Sigma^-1 w``, (S, R, P).
        by_columns: gradient by F, (S, R, D); None with a tail.
        by_covariance: gradient by Sigma, (S, R, R); None without a tail.
        by_variance: gradient by r.
        precision: X (S, R, X) to ``X' Sigma^-1 X``.
        mean: ``E[u | w]``, (S, D, P).
        covariance: ``Cov(u | w)``, (S, D, D).
    """

    log_density: Array
    pull: Array
    by_columns: Array | None
    by_covariance: Array | None
    by_variance: float
    precision: Callable[[Array], Array]
    mean: Array
    covariance: Array


def without_tail(w: Array, columns: Array, r: float) -> Gaussian:
    """Rows ``w`` (S, R, P) of the map ``columns`` (S, R, D) and white noise."""
    n_stack, n_rows, n_paths = w.shape
    transposed = np.swapaxes(columns, 1, 2)
    m = np.eye(columns.shape[2]) + transposed @ columns / r
    roots, covariance = _factor(m)
    mean = covariance @ (transposed @ w) / r
    error = w - columns @ mean
    energy = (error**2).sum((0, 1)) / r + (mean**2).sum((0, 1))
    logs = n_stack * n_rows * np.log(2 * np.pi * r) + _log_determinant(roots)
    spread = columns @ covariance
    by_columns = (error @ np.swapaxes(mean, 1, 2) - n_paths * spread) / r
    trace = n_paths * np.vdot(spread, columns)
    by_r = 0.5 * (((error**2).sum() + trace) / r**2 - n_stack * n_rows * n_paths / r)

    def precision(x: Array) -> Array:
        known = np.swapaxes(columns, 1, 2) @ x
        inner = np.swapaxes(known, 1, 2) @ covariance @ known
        return (np.swapaxes(x, 1, 2) @ x - inner / r) / r

    return Gaussian(
        -0.5 * (logs + energy), error / r, by_columns, None, float(by_r), precision, mean,
        covariance,
    )  # fmt: skip


def with_tail(w: Array, columns: Array, signal: Array, r: float) -> Gaussian:
    """Rows ``w`` of ``F u + tail`` with covariance ``signal = F F' + C`` (S, R, R) and noise."""
    n_rows, n_paths = w.shape[1:]
    roots, inverse = _factor(signal + r * np.eye(n_rows))
    pull = inverse @ w
    energy = (w * pull).sum((0, 1))
    logs = w.shape[0] * n_rows * np.log(2 * np.pi) + _log_determinant(roots)
    by_covariance = 0.5 * (pull @ np.swapaxes(pull, 1, 2) - n_paths * inverse)
    transposed = np.swapaxes(columns, 1, 2)

    def precision(x: Array) -> Array:
        return np.swapaxes(x, 1, 2) @ inverse @ x

    return Gaussian(
        -0.5 * (logs + energy), pull, None, by_covariance,
        float(np.trace(by_covariance, axis1=1, axis2=2).sum()), precision, transposed @ pull,
        np.eye(columns.shape[2]) - precision(columns),
    )  # fmt: skip


def _factor(matrices: Array) -> tuple[Array, Array]:
    """Cholesky factors and inverses of a stack of positive definite matrices."""
    try:
        roots = np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError as error:
        raise ConvergenceError(
            "covariance of the rows", expected="a positive definite matrix",
            got="one that is singular to rounding",
            fix="use engine='exact', whose filter needs no covariance between all times",
        ) from error  # fmt: skip
    inverses = np.empty_like(roots)
    for i, root in enumerate(roots):
        inverses[i] = scipy.linalg.cho_solve((root, True), np.eye(len(root)), check_finite=False)
    return roots, inverses


def _log_determinant(roots: Array) -> float:
    return 2.0 * float(np.log(np.diagonal(roots, axis1=1, axis2=2)).sum())

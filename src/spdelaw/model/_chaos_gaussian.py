"""Gaussian rows given a linear map of standard normals and white noise.

A stack of S independent problems, each with R rows and D coordinates shared by P paths:

    w = F u + sqrt(r) e,    u ~ N(0, I_D),  e ~ N(0, I_R).

Woodbury's identity leaves a Cholesky factor of ``M = I + F'F / r``, size D:

    log|Sigma| = R log r + log|M|,    w' Sigma^-1 w = |w - F u|^2 / r + |u|^2,   u = M^-1 F'w / r,

the energy being a sum of squares, so that a small r costs no digits.
"""

from __future__ import annotations

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
        by_columns: gradient by F, (S, R, D).
        by_variance: gradient by r.
        mean: ``E[u | w]``, (S, D, P).
        covariance: ``Cov(u | w)``, (S, D, D).
    """

    log_density: Array
    pull: Array
    by_columns: Array
    by_variance: float
    mean: Array
    covariance: Array


def gaussian_rows(w: Array, columns: Array, r: float) -> Gaussian:
    """Rows ``w`` (S, R, P) of the map ``columns`` (S, R, D) and white noise."""
    n_stack, n_rows, n_paths = w.shape
    transposed = np.swapaxes(columns, 1, 2)
    roots, covariance = factored(np.eye(columns.shape[2]) + transposed @ columns / r)
    mean = covariance @ (transposed @ w) / r
    error = w - columns @ mean
    energy = (error**2).sum((0, 1)) / r + (mean**2).sum((0, 1))
    log_determinant = 2.0 * float(np.log(np.diagonal(roots, axis1=1, axis2=2)).sum())
    logs = n_stack * n_rows * np.log(2 * np.pi * r) + log_determinant
    spread = columns @ covariance
    by_columns = (error @ np.swapaxes(mean, 1, 2) - n_paths * spread) / r
    trace = n_paths * np.vdot(spread, columns)
    by_r = 0.5 * (((error**2).sum() + trace) / r**2 - n_stack * n_rows * n_paths / r)
    return Gaussian(-0.5 * (logs + energy), error / r, by_columns, float(by_r), mean, covariance)


def precision_of(x: Array, columns: Array, covariance: Array, r: float) -> Array:
    """``X' Sigma^-1 X`` for X (S, R, X), from the map and the covariance of its coordinates."""
    known = np.swapaxes(columns, 1, 2) @ x
    inner = np.swapaxes(known, 1, 2) @ covariance @ known
    return (np.swapaxes(x, 1, 2) @ x - inner / r) / r


def factored(matrices: Array) -> tuple[Array, Array]:
    """Cholesky factors and inverses of a stack of positive definite matrices."""
    try:
        roots = np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError as error:
        expected, got = "a positive definite matrix", "one that is singular to rounding"
        fix = "use engine='exact', whose filter needs no covariance between all times"
        what = "covariance of the rows"
        raise ConvergenceError(what, expected=expected, got=got, fix=fix) from error
    inverses = np.empty_like(roots)
    for i, root in enumerate(roots):
        inverses[i] = scipy.linalg.cho_solve((root, True), np.eye(len(root)), check_finite=False)
    return roots, inverses

"""Collapsed observations as rows of unit precision, one stack of problems per pattern.

With ``G_t = H_t' H_t`` the likelihood of the collapsed estimates is that of

    w_t = H_t c_hat_t = H_t c_t + sqrt(r) e_t,        e ~ N(0, I),

whatever the rank of ``G_t``. Where ``G_t`` is diagonal the modes are S = N problems of R = T
rows; where it is not, or where the noise couples the modes, they are one problem of T N rows.

With D standard normal coordinates u behind the states, ``w = F u + sqrt(r) e``, Woodbury's identity
leaves a Cholesky factor of ``M = I + F'F / r``, size D:

    log|Sigma| = R log r + log|M|,    w' Sigma^-1 w = |w - F u|^2 / r + |u|^2,   u = M^-1 F'w / r,

the energy being a sum of squares, so that a small r costs no digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.equation import operators
from spdelaw.errors import ConvergenceError
from spdelaw.model._collapsed import Block, some_paths

Array = np.ndarray


class Rows(NamedTuple):
    """Whitened observations of paths that share one pattern.

    Attributes:
        ages: times since the initial state, (T,).
        root: ``H``, (T, N) where modes are not coupled, else (T, N, N).
        estimate: ``c_hat``, (T, N, P).
    """

    ages: Array
    root: Array
    estimate: Array

    @property
    def is_coupled(self) -> bool:
        """Whether all modes form one problem."""
        return self.root.ndim == 3

    @property
    def n_seen(self) -> int:
        """Estimates ``c_hat`` that the data determine."""
        size = np.abs(self.root).max(1) if self.is_coupled else self.root
        return int((size > 0).sum())

    @property
    def log_root(self) -> float:
        """``log |H|`` of all times with a regular one."""
        if not self.is_coupled:
            return float(np.log(self.root[self.root > 0]).sum())
        sign, logs = np.linalg.slogdet(self.root)
        return float(logs[sign != 0].sum())

    def whiten(self, x: Array) -> Array:
        """``H x`` for x (T, N, X) as a stack (S, R, X)."""
        if self.is_coupled:
            return (self.root @ x).reshape(1, -1, x.shape[-1])
        return (self.root[..., None] * x).transpose(1, 0, 2)

    def adjoint(self, y: Array) -> Array:
        """``H' y`` for a stack (S, R, X) as (T, N, X)."""
        if self.is_coupled:
            shape = (*self.root.shape[:2], y.shape[-1])
            return np.swapaxes(self.root, 1, 2) @ y.reshape(shape)
        return self.root[..., None] * y.transpose(1, 0, 2)

    def after_first(self) -> Rows:
        """The same without the first time."""
        return Rows(self.ages[1:], self.root[1:], self.estimate[1:])


def single_patterns(block: Block) -> Iterator[Block]:
    """Blocks whose paths share their pattern: the block itself, or its paths one by one."""
    if block.gram.shape[-1] == 1 and block.times.shape[1] == 1:
        yield block
        return
    for path in block.paths:
        yield some_paths(block, block.paths == path)


def rows_of(block: Block, *, couple: bool = False) -> Rows:
    """Rows of a block with one pattern; ``couple`` joins modes that the grid leaves apart."""
    times, gram = block.times[:, 0], block.gram[..., 0]
    if block.is_diagonal:
        root = operators.embed(np.sqrt(gram)) if couple else np.sqrt(gram)
    else:
        values, vectors = np.linalg.eigh(gram)
        root = np.sqrt(np.maximum(values, 0.0))[..., None] * np.swapaxes(vectors, 1, 2)
    return Rows(times - times[0], root, block.estimate)


class RowDensity(NamedTuple):
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


def gaussian_rows(w: Array, columns: Array, r: float) -> RowDensity:
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
    return RowDensity(-0.5 * (logs + energy), error / r, by_columns, float(by_r), mean, covariance)


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

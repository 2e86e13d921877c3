"""Normal equations of many rows: ``c_hat = G^+ b``, ``log |G|``, and marginals of single modes.

Scaled to a unit diagonal, the smallest eigenvalue of G is at least one over the trace of its
inverse. From `SMALLEST_EIGENVALUE` on, a plain inverse is trusted; the rest goes to a
pseudo-inverse by eigenvectors.
"""

from __future__ import annotations

import numpy as np
import scipy

from spdelaw.model._blocks import LAPACK_SIZE, invert

Array = np.ndarray

#: Relative eigenvalue of G from which on a plain inverse is trusted.
SMALLEST_EIGENVALUE = 1e-6
#: Bytes of matrices that are inverted together; they should stay in cache.
STACK_BYTES = 500e3


def least_squares(gram: Array, vector: Array) -> tuple[Array, Array]:
    """``c_hat`` (T, N, P) and ``sum_t log |G|`` (B,) of gram (T, N, N, B), vector (T, N, P)."""
    if gram.shape[-1] == 1:
        return _of_shared_rows(gram[..., 0], vector)
    estimate, logs = np.empty(vector.shape), np.zeros(gram.shape[-1])
    for t, (g, b) in enumerate(zip(gram, vector, strict=True)):
        inverse, log = _inverses(np.moveaxis(g, -1, 0))
        estimate[t] = np.einsum("bij,jb->ib", inverse, b)
        logs += log
    return estimate, logs


def _of_shared_rows(gram: Array, vector: Array) -> tuple[Array, Array]:
    """The same where all paths share G (T, N, N): many times are one batch."""
    new = np.ones(len(gram), bool)
    new[1:] = (gram[1:] != gram[:-1]).any((1, 2))  # a pattern often lasts
    own = gram if new.all() else gram[new]
    inverses, logs = np.empty(own.shape), np.empty(len(own))
    step = max(1, int(STACK_BYTES / (8 * gram.shape[1] ** 2)))
    for start in range(0, len(own), step):
        rows = slice(start, start + step)
        inverses[rows], logs[rows] = _inverses(own[rows])
    which = np.cumsum(new) - 1
    estimate = (inverses if new.all() else inverses[which]) @ vector
    return estimate, np.array([logs[which].sum()])


def _inverses(gram: Array) -> tuple[Array, Array]:
    """``G^+`` (B, N, N), and ``log |G|`` (B,) where it is finite, else 0."""
    scale = np.sqrt(np.einsum("bii->bi", gram))
    with np.errstate(all="ignore"):
        outer = scale[:, :, None] * scale[:, None]
        inverse, log = _plain_inverses(gram / outer)
        trace = np.abs(np.einsum("bii->bi", inverse)).sum(1)
        inverse /= outer
        log = log + 2.0 * np.log(scale).sum(1)
    poor = np.flatnonzero(~(trace < 1.0 / SMALLEST_EIGENVALUE))
    if len(poor):
        rest = gram[poor]
        inverse[poor] = np.linalg.pinv(rest, rcond=1e-13, hermitian=True)
        sign, logs = np.linalg.slogdet(rest)
        log[poor] = np.where(sign > 0, logs, 0.0)
    return inverse, log


def _plain_inverses(unit: Array) -> tuple[Array, Array]:
    """Inverses (B, N, N) and log-determinants (B,); what is singular has no good trace."""
    batch, n, _ = unit.shape
    if n < LAPACK_SIZE and batch > 1:
        inverse, logs = invert(np.moveaxis(unit, 0, -1))
        return np.moveaxis(inverse, -1, 0), logs
    upper, pivots = np.empty((batch, n, n)), np.empty((batch, n))
    for b, matrix in enumerate(unit):
        factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1, clean=1)
        pivots[b] = factor.diagonal()
        # LAPACK fills the lower triangle by columns, which is the upper one by rows.
        upper[b] = (
            np.nan if failed else scipy.linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)[0].T
        )
    inverse = upper + np.swapaxes(upper, 1, 2)
    inverse[:, np.arange(n), np.arange(n)] *= 0.5
    return inverse, 2.0 * np.log(pivots).sum(1)


def marginal(gram: Array, vector: Array) -> tuple[Array, Array] | None:
    """``c_hat`` and ``1 / diag(G^-1)`` of one row; None where G has no good inverse.

    The matrix is used up: with hundreds of modes, fresh memory costs as much as a tenth of it all.
    """
    diagonal = gram.diagonal().copy()
    if not (diagonal > 0).all():
        return None
    scale = 1.0 / np.sqrt(diagonal)
    gram *= scale
    gram *= scale[:, None]
    factor, failed = scipy.linalg.lapack.dpotrf(gram.T, lower=1, clean=1, overwrite_a=1)
    if failed:
        return None
    half = scipy.linalg.lapack.dtrtri(factor, lower=1, overwrite_c=1)[0]
    spread = np.einsum("ij,ij->j", half, half)
    if not spread.sum() < 1.0 / SMALLEST_EIGENVALUE:
        return None
    return scale * (half.T @ (half @ (scale * vector))), diagonal / spread

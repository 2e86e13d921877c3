"""Chains whose blocks are all alike: elimination until it stands still, then powers.

Where every row has the Gram matrix ``G`` and every step the transition ``F, Omega``, the blocks
``V_t`` of the elimination converge, and so do the covariances on the way back; after a few dozen
steps they are equal to rounding (Anderson and Moore 1979, section 4.4). From there on the means
follow a recursion with one matrix,

    b_t' = b_t + K b_{t-1}',    c_t = V b_t' + K' c_{t+1},    K = D V,

which doubling turns into a few products of whole matrices: ``x_t += K^s x_{t-s}``, s = 1, 2, 4, ...
"""

from __future__ import annotations

import numpy as np

from spdelaw.model._blocks import invert

Array = np.ndarray

#: Change of a block, relative to its largest number, that is rounding.
STANDING = 1e-14
#: Steps from which on a chain is long enough to stand still.
LEAST_STEPS = 50


def solve_steady(
    ends: tuple[Array, Array], block: Array, d: Array, vector: Array
) -> tuple[float, Array, Array, Array]:
    """Log-determinant of the precision, means and sums of the selected inverse.

    Args:
        ends: first and last diagonal block, (N, N) each.
        block: all other diagonal blocks.
        d: coupling, (N, N).
        vector: right-hand sides, (T, N, P).

    Returns:
        The logarithm; ``c_t``, (T, N, P); sums over steps of ``Cov_t``, ``Cov(c_t, c_{t+1})`` and
        ``Cov_{t+1}``, (3, N, N); ``Cov`` of the first state, (N, N).
    """
    n_times = len(vector)
    inverses, logs = _forward(ends[0], block, d, n_times - 1)
    steady, n_first = inverses[-1], len(inverses)
    last, log = _inverse(ends[1] - d @ steady @ d.T)
    total = sum(logs) + (n_times - 1 - n_first) * logs[-1] + log
    return total, _means(inverses, last, d, vector), *_sums(inverses, last, d, n_times)


def _inverse(block: Array) -> tuple[Array, float]:
    found, logs = invert(block[..., None])
    return found[..., 0], float(logs[0])


def _forward(first: Array, block: Array, d: Array, most: int) -> tuple[list[Array], list[float]]:
    """``V_t`` and ``log |S_t'|`` until they stand still, for ``most`` states at most."""
    v, log = _inverse(first)
    inverses, logs = [v], [log]
    while len(inverses) < most:
        v, log = _inverse(block - d @ inverses[-1] @ d.T)
        moved = np.abs(v - inverses[-1]).max()
        inverses.append(v)
        logs.append(log)
        if moved <= STANDING * np.abs(v).max():
            break
    return inverses, logs


def _means(inverses: list[Array], last: Array, d: Array, vector: Array) -> Array:
    """Forward and back substitution; (T, N, P)."""
    n_times, n, n_columns = vector.shape
    x = np.ascontiguousarray(np.moveaxis(vector, 1, 0)).reshape(n, -1)
    k, at = len(inverses), [slice(t * n_columns, (t + 1) * n_columns) for t in range(n_times)]
    for t in range(1, k):
        x[:, at[t]] += d @ (inverses[t - 1] @ x[:, at[t - 1]])
    gain = d @ inverses[-1]
    _double(x[:, (k - 1) * n_columns :], gain, n_columns)
    tail = slice((k - 1) * n_columns, (n_times - 1) * n_columns)
    x[:, at[-1]] = last @ x[:, at[-1]]
    x[:, tail] = inverses[-1] @ x[:, tail]
    _double(x[:, (k - 1) * n_columns :], gain.T, -n_columns)
    for t in range(k - 2, -1, -1):
        x[:, at[t]] = inverses[t] @ (x[:, at[t]] + d.T @ x[:, at[t + 1]])
    return np.moveaxis(x.reshape(n, n_times, n_columns), 0, 1)


def _double(x: Array, gain: Array, shift: int) -> None:
    """``x_t += gain x_{t-1}`` from left to right, in place, a step being ``shift`` columns.

    From right to left where ``shift`` is negative.
    """
    power, size = gain, x.shape[1]
    while abs(shift) < size and np.abs(power).max() > np.finfo(float).tiny:
        left, right = x[:, : size - abs(shift)], x[:, abs(shift) :]
        source, target = (left, right) if shift > 0 else (right, left)
        target += power @ source
        shift, power = 2 * shift, power @ power


def _sums(inverses: list[Array], last: Array, d: Array, n_times: int) -> tuple[Array, Array]:
    """``Cov_t = V + J Cov_{t+1} J'`` and ``J Cov_{t+1}`` with ``J = V D'``, summed over steps.

    Last, the covariance of the first state.
    """
    gain, covariance = inverses[-1] @ d.T, last
    before, cross = np.zeros_like(last), np.zeros_like(last)
    t, k = n_times - 2, len(inverses)
    while t >= 0:
        if t < k - 1:
            gain = inverses[t] @ d.T
        between = gain @ covariance
        found = inverses[min(t, k - 1)] + between @ gain.T
        still = t >= k and np.abs(found - covariance).max() <= STANDING * np.abs(found).max()
        times = t - k + 2 if still else 1
        before += times * found
        cross += times * between
        covariance, t = found, t - times
    return np.stack([before, cross, before - covariance + last]), covariance

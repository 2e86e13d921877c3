"""Exact transitions of modes that drift or noise couple, and how a gradient goes back through them.

``dc = -Lambda c dt + dW`` with ``Cov dW = Q dt`` over a step ``dt`` is Gaussian with

    F = e^(-Lambda dt),    Omega = int_0^dt e^(-Lambda s) Q e^(-Lambda' s) ds.

Both are power series in a step h = dt / 2^k so short that a dozen terms reach rounding, and are
then doubled k times (Van Loan 1978, section III):

    F_2h = F_h F_h,    Omega_2h = Omega_h + F_h Omega_h F_h'.

The usual block exponential of ``[[Lambda, Q], [0, -Lambda']]`` is the same integral, but holds
``e^(+Lambda dt)``, which overflows for modes much faster than a step. Sums of positive
semidefinite terms do not.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

Array = np.ndarray

#: Norm of ``Lambda h`` below which `TERMS` terms of both series reach rounding.
SHORT, TERMS = 0.25, 14
#: Steps that differ by less than this share of the longest are the same: times carry rounding.
SAME_STEP = 1e-12


def distinct_steps(dt: Array) -> tuple[Array, Array]:
    """Lengths that occur (U,), and which of them each step has, in the shape of ``dt``."""
    flat = np.ravel(dt)
    order = np.argsort(flat, kind="stable")
    is_new = np.diff(flat[order], prepend=-np.inf) > SAME_STEP * flat.max(initial=0.0)
    which = np.empty(len(flat), int)
    which[order] = np.cumsum(is_new) - 1
    return flat[order][is_new], which.reshape(np.shape(dt))


@dataclasses.dataclass(frozen=True)
class MatrixTransition:
    """Transitions for U lengths of step; made by `matrix_transition`.

    Attributes:
        factor: ``F``, (U, N, N).
        covariance: ``Omega``, (U, N, N).
    """

    factor: Array
    covariance: Array
    _drift: Array
    _h: Array
    _levels: tuple[tuple[Array, Array], ...]
    _powers: Array
    _terms: Array

    def pull_back(self, by_factor: Array, by_covariance: Array) -> tuple[Array, Array]:
        """Gradient by ``Lambda`` and ``Q``, (N, N) each, from those by ``F`` and ``Omega``.

        Args:
            by_factor: (U, N, N).
            by_covariance: (U, N, N), symmetric.
        """
        gf, gw = by_factor, by_covariance
        for f, omega in reversed(self._levels):
            ft = np.swapaxes(f, -1, -2)
            gf, gw = gf @ ft + ft @ gf + 2.0 * gw @ f @ omega, gw + ft @ gw @ f
        h = self._h[:, None] ** np.arange(TERMS + 1)
        by_power = np.tensordot(h, gf, (0, 0))
        by_term = np.tensordot(h * self._h[:, None], gw, (0, 0))
        a = -self._drift
        by_a = np.zeros_like(a)
        for k in range(TERMS - 1, -1, -1):
            up, down = by_power[k + 1] / (k + 1), by_term[k + 1] / (k + 2)
            by_a += up @ self._powers[k].T + 2.0 * down @ self._terms[k]
            by_power[k] += a.T @ up
            by_term[k] += a.T @ down + down @ a
        return -by_a, by_term[0]


def matrix_transition(drift: Array, noise_covariance: Array, dt: Array) -> MatrixTransition:
    """Exact transitions for steps ``dt`` (U,) of a drift ``Lambda`` and a noise ``Q``, (N, N)."""
    a = -np.asarray(drift, float)
    longest = float(np.abs(a).sum(0).max()) * float(np.max(dt, initial=0.0))
    if not np.isfinite(longest):
        raise FloatingPointError("a drift or a step that is not finite")
    doublings = max(0, math.ceil(math.log2(longest / SHORT))) if longest > 0 else 0
    h = np.asarray(dt, float) / 2.0**doublings
    powers, terms = _series(a, np.asarray(noise_covariance, float))
    order = h[:, None] ** np.arange(TERMS + 1)
    f = np.tensordot(order, powers, (1, 0))
    omega = np.tensordot(order * h[:, None], terms, (1, 0))
    levels = []
    for _ in range(doublings):
        levels.append((f, omega))
        omega = omega + f @ omega @ np.swapaxes(f, -1, -2)
        f = f @ f
    return MatrixTransition(f, omega, -a, h, tuple(levels), powers, terms)


def _series(a: Array, q: Array) -> tuple[Array, Array]:
    """``A^k / k!`` and ``L^k Q / (k + 1)!`` with ``L X = A X + X A'``, k = 0, 1, ..."""
    powers, terms = np.empty((2, TERMS + 1, *a.shape))
    powers[0], terms[0] = np.eye(len(a)), q
    for k in range(TERMS):
        powers[k + 1] = a @ powers[k] / (k + 1)
        half = a @ terms[k]
        terms[k + 1] = (half + half.T) / (k + 2)
    return powers, terms


def stationary_covariance(drift: Array, noise_covariance: Array) -> Array:
    """``P`` with ``Lambda P + P Lambda' = Q``; (N, N)."""
    from scipy import linalg

    p = linalg.solve_continuous_lyapunov(drift, noise_covariance)
    return 0.5 * (p + p.T)


def stationary_pull_back(drift: Array, covariance: Array, by: Array) -> tuple[Array, Array]:
    """Gradient by ``Lambda`` and ``Q`` from a symmetric one by ``P``; (N, N) each.

    With ``Lambda' Y + Y Lambda = by``, it is ``-2 Y P`` and ``Y``.
    """
    y = stationary_covariance(drift.T, by)
    return -2.0 * y @ covariance, y

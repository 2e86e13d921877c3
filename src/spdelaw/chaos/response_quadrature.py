"""Unit responses of any time basis by product quadrature.

``psi(t) = int_0^t e^(-lambda (t - s)) m(s) ds`` is advanced from piece to piece,
``psi(t + h) = e^(-lambda h) psi(t) + int_t^{t+h} e^(-lambda (t + h - s)) m(s) ds``. On a piece
only m is approximated, by the polynomial through `N_NODES` Gauss-Legendre points; the exponential
is integrated against it exactly (`legendre_moments`), so no rate is too large for a step.

Pieces end at the observation times and at the basis's breakpoints, and are at most T / (4 K)
long. Accuracy: rounding (1e-12 of the largest value) for piecewise polynomials of degree
below `N_NODES` and for functions that oscillate no faster than ``cos(K pi t / T)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.chaos.array_namespace import Array, constant
from spdelaw.chaos.exponential import legendre_moments
from spdelaw.chaos.time_basis import TimeBasis

#: Gauss-Legendre points on a piece.
N_NODES = 10
#: Pieces for each basis function: at most a quarter of the fastest half-wave in one piece.
PIECES_PER_FUNCTION = 4


def response_by_quadrature(
    basis: TimeBasis, times: np.ndarray, eigenvalues: Array, n_time: int, xp: Any
) -> Array:
    """``psi_k(t; lambda_n)``, shape (T, K, N), for checked times and eigenvalues.

    Example:
        >>> from spdelaw.chaos.time_basis import HaarBasis
        >>> t, lam = np.array([0.5]), np.array([0.0])  # the integral of m_k
        >>> response_by_quadrature(HaarBasis(), t, lam, 2, np)[:, :, 0]
        array([[0.5, 0.5]])
    """
    knots = _knots(basis, times, n_time)
    h = np.diff(knots)
    x = constant(h[:, None], eigenvalues, xp) * eigenvalues
    forcing = constant(_piecewise_legendre(basis, knots, n_time), eigenvalues, xp)
    inputs = xp.matmul(legendre_moments(x, N_NODES, xp), forcing)  # (pieces, N, K)
    states = _advance(xp.exp(-x)[..., None], inputs, xp)
    return xp.moveaxis(states[np.searchsorted(knots, times)], 1, 2)


def _knots(basis: TimeBasis, times: np.ndarray, n_time: int) -> np.ndarray:
    """0, the times and the breakpoints before the last time, with long gaps cut up evenly."""
    inner = basis.breakpoints(n_time)
    ends = np.unique(np.concatenate([[0.0], times, inner[(inner > 0) & (inner < times[-1])]]))
    longest = basis.horizon / (PIECES_PER_FUNCTION * n_time)
    pieces = np.maximum(np.ceil(np.diff(ends) / longest).astype(int), 1)
    cut = [
        np.linspace(a, b, n, endpoint=False)
        for a, b, n in zip(ends[:-1], ends[1:], pieces, strict=True)
    ]
    return np.concatenate([*cut, ends[-1:]])


def _piecewise_legendre(basis: TimeBasis, knots: np.ndarray, n_time: int) -> np.ndarray:
    """Step length times the Legendre coefficients of each m_k on each piece: (pieces, J, K)."""
    u, weights = np.polynomial.legendre.leggauss(N_NODES)
    j = np.arange(N_NODES)[:, None]
    table = (j + 0.5) * weights * np.polynomial.legendre.legvander(u, N_NODES - 1).T
    h = np.diff(knots)[:, None]
    points = knots[:-1, None] + 0.5 * h * (1.0 + u)
    m = np.reshape(basis.values(points.ravel(), n_time), (*points.shape, n_time))
    return h[..., None] * (table @ m)


def _advance(factors: Array, inputs: Array, xp: Any) -> Array:
    """``y_{i+1} = a_i y_i + b_i`` from zero; shape (pieces + 1, N, K)."""
    states = [xp.zeros_like(inputs).sum(0)]
    for factor, given in zip(factors, inputs, strict=True):
        states.append(factor * states[-1] + given)
    return xp.stack(states)

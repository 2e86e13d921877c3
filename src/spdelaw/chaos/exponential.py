"""Integrals of a decaying exponential against polynomials, exact for every rate.

Both functions run in NumPy and in torch and have finite, correct gradients everywhere, also at
rate 0. A branch that is not taken is fed a harmless number: torch multiplies its gradient by
zero, and 0 * inf is NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spdelaw.chaos.array_namespace import Array, as_floating, constant, namespace

#: Below this the quotient's derivative, e^-x/x + expm1(-x)/x^2, has lost two digits.
SMALL = 0.01
#: Taylor coefficients of (1 - e^-x) / x; the first one left out is below 3e-19 at `SMALL`.
SERIES = tuple((-1.0) ** j / math.factorial(j + 1) for j in range(7))


def decay_mean(x: Any, xp: Any = None) -> Array:
    """``(1 - exp(-x)) / x``, the mean of ``exp(-x s)`` over s in [0, 1]; 1 at x = 0.

    The same function as `spdelaw.equation.decay_mean`, for tensors too: a Taylor polynomial
    near 0 gives the derivative -1/2 there, which a ``where`` around the quotient does not.

    Example:
        >>> decay_mean([0.0, 1e-12, 1.0, 100.0]).round(6)
        array([1.      , 1.      , 0.632121, 0.01    ])
    """
    xp = namespace(x, xp=xp)
    x = as_floating(x, xp)
    small = xp.abs(x) < SMALL
    near = xp.where(small, x, xp.zeros_like(x))
    far = xp.where(small, xp.ones_like(x), x)
    series = xp.zeros_like(x)
    for coefficient in reversed(SERIES):
        series = coefficient + near * series
    return xp.where(small, series, -xp.expm1(-far) / far)


def legendre_moments(x: Any, n_moments: int, xp: Any = None) -> Array:
    """``M_j(x) = 1/2 int_-1^1 exp(-x (1 - u) / 2) P_j(u) du`` for j < n_moments; (..., n_moments).

    ``M_0`` is `decay_mean`. With z = x / 2 these are scaled modified spherical Bessel functions,
    ``e^-z i_j(z)``, with the recurrence ``M_{j+1} = M_{j-1} - (2 j + 1) M_j / z``. It amplifies
    rounding where z < j, so there Gauss-Legendre quadrature takes over, which is exact to
    rounding for so slow an exponential. Accuracy: 1e-13 for ten moments and x >= 0.

    Example:
        >>> legendre_moments([0.0, 1.0], 2).round(6)  # M_1(1) = (1 + e^-1) - 2 (1 - e^-1)
        array([[1.      , 0.      ],
               [0.632121, 0.103638]])
    """
    xp = namespace(x, xp=xp)
    x = as_floating(x, xp)
    slow = x < 2.0 * n_moments
    near = _moments_by_quadrature(xp.where(slow, x, xp.zeros_like(x)), n_moments, xp)
    safe = 2.0 * n_moments * xp.ones_like(x)
    far = _moments_by_recurrence(xp.where(slow, safe, x) / 2.0, n_moments, xp)
    return xp.where(slow[..., None], near, far)


def _moments_by_quadrature(x: Array, n_moments: int, xp: Any) -> Array:
    u, weights = np.polynomial.legendre.leggauss(2 * n_moments + 4)
    table = 0.5 * weights[:, None] * np.polynomial.legendre.legvander(u, n_moments - 1)
    exponent = -0.5 * x[..., None] * constant(1.0 - u, x, xp)
    return xp.matmul(xp.exp(exponent), constant(table, x, xp))


def _moments_by_recurrence(z: Array, n_moments: int, xp: Any) -> Array:
    first = -xp.expm1(-2.0 * z) / (2.0 * z)
    moments = [first, (0.5 * (1.0 + xp.exp(-2.0 * z)) - first) / z]
    for j in range(1, n_moments - 1):
        moments.append(moments[-2] - (2 * j + 1) / z * moments[-1])
    return xp.stack(moments[:n_moments], -1)

"""What the truncation at K cuts off: the covariance of the noise beyond it, in closed form.

The stochastic part of mode n is ``c_n(t) = sum_{k <= K} z_k(t) xi_k + r_n(t)`` with a remainder
that is Gaussian, independent of the coordinates kept, and has
``Cov r(t, s) = Cov_OU(t, s) - sum_{k <= K} z_k(t) z_k(s)``. By Bessel's inequality it is
positive semi-definite for every orthonormal basis; for the cosines its trace falls as 1 / K.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.chaos.array_namespace import Array, constant, namespace
from spdelaw.chaos.checks import check_ages, check_eigenvalues, check_noise_factor
from spdelaw.chaos.exponential import decay_mean
from spdelaw.chaos.propagators import first_order, propagate
from spdelaw.chaos.time_basis import TimeBasis


def noise_covariance(times: Any, eigenvalues: Any, noise_factor: Any, *, xp: Any = None) -> Array:
    """Covariance in time of modes that start from zero: the Ornstein-Uhlenbeck process.

    ``Cov(c_n(t), c_m(s)) = (B^T B)[n, m] e^(-lambda_n (t - e)) e^(-lambda_m (s - e))
    (1 - e^(-(lambda_n + lambda_m) e)) / (lambda_n + lambda_m)`` with ``e = min(t, s)``; the
    limit is ``e`` where both rates are 0.

    Args:
        times: increasing, counted from the initial state.
        eigenvalues: ``lambda_n``, shape (N,).
        noise_factor: ``sqrt(q_n)``, shape (N,), or ``<Q^(1/2) h_l, h_n>``, shape (L, N).
        xp: numpy or torch; by default that of the arguments.

    Returns:
        One matrix per mode, shape (N, T, T), for a factor of shape (N,). For a dense factor, which
        couples the modes, shape (N, T, N, T).

    Example:
        >>> noise_covariance([1.0, 2.0], [0.0], [3.0])  # 9 min(t, s)
        array([[[ 9.,  9.],
                [ 9., 18.]]])
    """
    xp = namespace(eigenvalues, noise_factor, xp=xp)
    lam = check_eigenvalues(eigenvalues, xp)
    b = check_noise_factor(noise_factor, lam, xp)
    t = check_ages(times, np.inf)
    early = np.minimum(t[:, None], t[None, :])
    wait, age = constant(t[:, None] - early, lam, xp), constant(early, lam, xp)
    if b.ndim == 1:
        rate = lam[:, None, None]
        unit = xp.exp(-rate * (wait + wait.T)) * age * decay_mean(2.0 * rate * age, xp)
        return (b**2)[:, None, None] * unit
    one, two = lam[:, None, None, None], lam[:, None]  # n and m of the axes (n, t, m, s)
    gap, gap_2, age = wait[:, None, :], wait.T[:, None, :], age[:, None, :]
    unit = xp.exp(-one * gap - two * gap_2) * age * decay_mean((one + two) * age, xp)
    return xp.matmul(b.T, b)[:, None, :, None] * unit


def tail_covariance(
    basis: TimeBasis,
    times: Any,
    eigenvalues: Any,
    noise_factor: Any,
    n_time: int,
    *,
    xp: Any = None,
) -> Array:
    """Covariance of the remainder, ``Cov_OU(t, s) - sum_{k <= K} z_k(t) z_k(s)``.

    The difference is exact to rounding of ``Cov_OU``, so its smallest eigenvalues are zero
    up to about ``1e-15 max Cov_OU`` and may come out below it.

    Args:
        basis: functions of time.
        times: increasing, in [0, T], counted from the initial state.
        eigenvalues: ``lambda_n``, shape (N,).
        noise_factor: ``sqrt(q_n)``, shape (N,), or ``<Q^(1/2) h_l, h_n>``, shape (L, N).
        n_time: K.
        xp: numpy or torch; by default that of the arguments.

    Returns:
        Shape (N, T, T), or (N, T, N, T) for a dense noise factor.

    Example:
        >>> from spdelaw.chaos import CosineBasis
        >>> tail = tail_covariance(CosineBasis(), [0.5, 1.0], [0.0], [1.0], n_time=1)
        >>> tail[0]  # min(t, s) - t s: a Brownian bridge
        array([[0.25, 0.  ],
               [0.  , 0.  ]])
    """
    xp = namespace(eigenvalues, noise_factor, xp=xp)
    curves = propagate(basis, times, eigenvalues, noise_factor, n_time, xp=xp)
    whole = noise_covariance(times, eigenvalues, noise_factor, xp=xp)
    z = first_order(curves)
    if z.ndim == 3:
        rows = xp.moveaxis(z, 2, 0)  # (N, T, K)
        return whole - xp.matmul(rows, xp.moveaxis(rows, 1, 2))
    n, t = z.shape[3], z.shape[0]
    rows = xp.moveaxis(z, 3, 0).reshape(n * t, -1)  # (N T, K L)
    return whole - xp.matmul(rows, rows.T).reshape(n, t, n, t)

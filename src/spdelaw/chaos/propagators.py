"""Propagators: the deterministic curves of time that multiply the chaos coordinates.

For mode n, zero order ``z(t) = z0 e^(-lambda_n t)`` (paper, eq. 10) and first order
``z_{k,l}(t) = B[l, n] psi_k(t; lambda_n)`` (eq. 11) with the noise factor
``B[l, n] = <Q^(1/2) h_l, h_n>`` and the response to unit forcing along one basis function,
``psi_k(t; lambda) = int_0^t e^(-lambda (t - s)) m_k(s) ds``. All higher orders vanish
(Proposition 2.1).

Times count from the initial state. Each function runs in NumPy, or in torch where the eigenvalues
are a tensor, with gradients that are finite for every rate, 0 included.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

from spdelaw.chaos.array_namespace import Array, constant, namespace
from spdelaw.chaos.checks import check_ages, check_eigenvalues, check_noise_factor
from spdelaw.chaos.response_quadrature import response_by_quadrature
from spdelaw.chaos.rk4 import rk4_responses
from spdelaw.chaos.time_basis import TimeBasis, check_basis
from spdelaw.checks import one_of, whole

Method = Literal["closed_form", "rk4"]


class Propagators(NamedTuple):
    """All curves of the truncated expansion on one grid of times.

    Attributes:
        decay: ``e^(-lambda_n t)``, shape (T, N).
        response: ``psi_k(t; lambda_n)``, shape (T, K, N).
        noise_factor: amplitudes ``sqrt(q_n)``, shape (N,), where each mode has its own noise
            (then L = N); otherwise ``<Q^(1/2) h_l, h_n>``, shape (L, N).
    """

    decay: Array
    response: Array
    noise_factor: Array

    @property
    def n_time(self) -> int:
        """K, the number of functions of time."""
        return int(self.response.shape[1])

    @property
    def n_noise(self) -> int:
        """L, the number of driving Wiener processes."""
        return int(self.noise_factor.shape[0])

    @property
    def n_modes(self) -> int:
        """N, the number of modes."""
        return int(self.decay.shape[-1])

    @property
    def latent_dimension(self) -> int:
        """``N (1 + K L)`` (paper, section 2.5)."""
        return latent_dimension(self.n_modes, self.n_time, self.n_noise)


def propagate(
    basis: TimeBasis,
    times: Any,
    eigenvalues: Any,
    noise_factor: Any,
    n_time: int,
    *,
    method: Method = "closed_form",
    xp: Any = None,
) -> Propagators:
    """All propagators up to K functions of time, on a grid of times.

    Args:
        basis: functions of time, such as `CosineBasis`.
        times: increasing, in [0, T], counted from the initial state.
        eigenvalues: ``lambda_n``, shape (N,).
        noise_factor: ``sqrt(q_n)``, shape (N,), or ``<Q^(1/2) h_l, h_n>``, shape (L, N).
        n_time: K.
        method: "closed_form" (or the basis's quadrature), or "rk4", the paper's solver.
        xp: numpy or torch; by default that of the eigenvalues and the noise factor.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> from spdelaw.chaos import CosineBasis
        >>> heat = sl.catalogue.heat(n_modes=8)
        >>> p = propagate(
        ...     CosineBasis(), heat.times, heat.eigenvalues, np.sqrt(heat.noise_variance), 16
        ... )
        >>> p.response.shape, p.latent_dimension  # the paper's d = 1032
        ((201, 16, 8), 1032)
    """
    xp = namespace(eigenvalues, noise_factor, xp=xp)
    lam = check_eigenvalues(eigenvalues, xp)
    b = check_noise_factor(noise_factor, lam, xp)
    if one_of("method", method, ("closed_form", "rk4")) == "rk4":
        decay, response = rk4_responses(basis, times, lam, n_time)
    else:
        decay = zero_order(times, lam, xp=xp)
        response = unit_response(basis, times, lam, n_time, xp=xp)
    return Propagators(decay, response, b)


def zero_order(times: Any, eigenvalues: Any, *, xp: Any = None) -> Array:
    """``e^(-lambda_n t)``, shape (T, N): the mean is this times its initial value (eq. 10).

    Example:
        >>> zero_order([0.0, 1.0], [0.0, 1.0]).round(6)
        array([[1.      , 1.      ],
               [1.      , 0.367879]])
    """
    xp = namespace(eigenvalues, xp=xp)
    lam = check_eigenvalues(eigenvalues, xp)
    t = check_ages(times, math.inf)
    return xp.exp(-constant(t[:, None], lam, xp) * lam)


def unit_response(
    basis: TimeBasis, times: Any, eigenvalues: Any, n_time: int, *, xp: Any = None
) -> Array:
    """``psi_k(t; lambda_n) = int_0^t e^(-lambda_n (t - s)) m_k(s) ds``, shape (T, K, N).

    In closed form where the basis knows one, else by quadrature to rounding
    (`spdelaw.chaos.response_quadrature`).

    Example:
        >>> from spdelaw.chaos import CosineBasis
        >>> psi = unit_response(CosineBasis(), [0.0, 1.0], [0.0, 2.0], n_time=2)
        >>> psi[:, 0].round(6)  # t, and (1 - e^(-2 t)) / 2
        array([[0.      , 0.      ],
               [1.      , 0.432332]])
    """
    xp = namespace(eigenvalues, xp=xp)
    lam = check_eigenvalues(eigenvalues, xp)
    k, t = whole("n_time", n_time, 1), check_ages(times, check_basis(basis).horizon)
    closed = basis.closed_form(t, lam, k, xp)
    return response_by_quadrature(basis, t, lam, k, xp) if closed is None else closed


def first_order(curves: Propagators) -> Array:
    """``z_{k,l,n}(t) = B[l, n] psi_k(t; lambda_n)``, shape (T, K, L, N) (paper, eq. 11).

    Where each mode has its own noise, only l = n is not zero: ``z_{k,n}``, shape (T, K, N).

    Example:
        >>> from spdelaw.chaos import CosineBasis
        >>> curves = propagate(CosineBasis(), [1.0], [0.0, 0.0], [1.0, 0.5], n_time=1)
        >>> first_order(curves)
        array([[[1. , 0.5]]])
    """
    _, psi, b = curves
    return psi * b if b.ndim == 1 else psi[:, :, None, :] * b


def latent_dimension(n_modes: int, n_time: int, n_noise: int) -> int:
    """``d = N (1 + K L)``, the number of propagators (paper, section 2.5).

    Example:
        >>> latent_dimension(n_modes=8, n_time=16, n_noise=8)
        1032
    """
    n, k, l = (
        whole(what, value, 1)
        for what, value in (("n_modes", n_modes), ("n_time", n_time), ("n_noise", n_noise))
    )
    return n * (1 + k * l)

"""Orthonormal functions of time on [0, T], along which the driving noise is measured."""

from __future__ import annotations

import abc
import dataclasses
import math
import sys
from typing import Any

import numpy as np

from spdelaw.checks import positive, whole
from spdelaw.errors import InputError
from spdelaw.processes.specification import check_times

# ---------- One source for NumPy and torch
#
# A formula is written once against the names both share (``exp``, ``expm1``, ``where``, ``matmul``,
# ...) as ``xp.exp(...)``. torch is never imported here: a caller with a tensor has imported it.


#: A NumPy array or a torch tensor.
Array = Any


def namespace(*values: Any, xp: Any = None) -> Any:
    """``numpy``, or ``torch`` where one of the values is a tensor; ``xp`` decides if given.

    Example:
        >>> namespace([1.0, 2.0]).__name__
        'numpy'
    """
    if xp is not None:
        if getattr(xp, "__name__", None) not in ("numpy", "torch"):
            expected = "the module numpy or torch"
            raise InputError("xp", expected=expected, got=repr(xp), fix="leave it out")
        return xp
    torch = sys.modules.get("torch")
    if torch is not None and any(isinstance(value, torch.Tensor) for value in values):
        return torch
    return np


def as_floating(value: Any, xp: Any) -> Array:
    """Value as an array of ``xp``: float64 in NumPy; a floating tensor keeps its precision."""
    if xp is np:
        return np.asarray(value, dtype=float)
    if not isinstance(value, xp.Tensor):
        return xp.tensor(np.array(value, dtype=float))
    return value if value.is_floating_point() else value.to(xp.float64)


def constant(value: Any, like: Array, xp: Any) -> Array:
    """Value, without gradient, in the precision and on the device of ``like``.

    NumPy keeps float64; a tensor gets a copy, because equations hand out read-only arrays.
    """
    if xp is np:
        return np.asarray(value, dtype=float)
    return xp.tensor(np.array(value, dtype=float), dtype=like.dtype, device=like.device)


def to_numpy(value: Any) -> np.ndarray:
    """Value as float64 NumPy, out of any graph and off any device."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value, dtype=float)


# ---------- Integrals of a decaying exponential against polynomials, exact for every rate
#
# Both functions run in NumPy and in torch and have finite, correct gradients everywhere, also at
# rate 0. A branch that is not taken is fed a harmless number: torch multiplies its gradient by
# zero, and 0 * inf is NaN.


#: Below this the quotient's derivative, e^-x/x + expm1(-x)/x^2, has lost two digits.
SERIES_BELOW = 0.01
#: Taylor coefficients of (1 - e^-x) / x; the first one left out is below 3e-19 at `SERIES_BELOW`.
TAYLOR_COEFFICIENTS = tuple((-1.0) ** j / math.factorial(j + 1) for j in range(7))


def decay_mean(x: Any, xp: Any = None) -> Array:
    """``(1 - exp(-x)) / x``, the mean of ``exp(-x s)`` over s in [0, 1]; 1 at x = 0.

    The same function as `spdelaw.processes.operators.decay_mean`, for tensors too: a Taylor
    polynomial near 0 gives the derivative -1/2 there, which a ``where`` around the
    quotient does not.

    Example:
        >>> decay_mean([0.0, 1e-12, 1.0, 100.0]).round(6)
        array([1.      , 1.      , 0.632121, 0.01    ])
    """
    xp = namespace(x, xp=xp)
    x = as_floating(x, xp)
    small = xp.abs(x) < SERIES_BELOW
    near = xp.where(small, x, xp.zeros_like(x))
    far = xp.where(small, xp.ones_like(x), x)
    series = xp.zeros_like(x)
    for coefficient in reversed(TAYLOR_COEFFICIENTS):
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


# ---------- Orthonormal functions of time on [0, T], along which the driving noise is measured


@dataclasses.dataclass(frozen=True)
class TimeBasis(abc.ABC):
    """An orthonormal basis ``m_1, m_2, ...`` of ``L2([0, T])`` (paper, section 2.3).

    A subclass is a frozen dataclass with `values`. Its propagators follow by
    quadrature; a subclass with a closed form overrides `closed_form`, and one whose functions are
    not smooth overrides `breakpoints`.

    Args:
        horizon: T, the end of the time interval.
    """

    horizon: float = 1.0

    def __post_init__(self) -> None:
        """Check the horizon."""
        object.__setattr__(self, "horizon", positive("horizon", self.horizon))

    @abc.abstractmethod
    def values(self, times: np.ndarray, n_time: int) -> np.ndarray:
        """``m_k(t)`` for times in [0, T] and k = 1 ... K; shape (T, K), float64."""

    def closed_form(
        self, times: np.ndarray, eigenvalues: Array, n_time: int, xp: Any
    ) -> Array | None:
        """``int_0^t e^(-lambda (t - s)) m_k(s) ds``, shape (T, K, N), or None: use quadrature."""
        return None

    def breakpoints(self, n_time: int) -> np.ndarray:
        """Times inside (0, T) where one of the first K functions is not smooth."""
        return np.empty(0)


@dataclasses.dataclass(frozen=True)
class CosineBasis(TimeBasis):
    """``m_1 = 1 / sqrt(T)``, ``m_k = sqrt(2 / T) cos(w_k t)`` with ``w_k = (k - 1) pi / T``.

    The default: its propagators are known in closed form, and sampled at the midpoints of
    equal steps it stays orthonormal.

    Example:
        >>> CosineBasis(horizon=4.0).values(np.array([0.0, 2.0]), 3).round(6) + 0.0
        array([[ 0.5     ,  0.707107,  0.707107],
               [ 0.5     ,  0.      , -0.707107]])
    """

    def values(self, times: np.ndarray, n_time: int) -> np.ndarray:
        """``sqrt(2 / T) cos((k - 1) pi t / T)``, and ``1 / sqrt(T)`` for k = 1."""
        k = np.arange(whole("n_time", n_time, 1))
        phase = np.outer(np.asarray(times, float), k * (np.pi / self.horizon))
        return np.where(k == 0, 1.0, np.sqrt(2.0)) / np.sqrt(self.horizon) * np.cos(phase)

    def closed_form(self, times: np.ndarray, eigenvalues: Array, n_time: int, xp: Any) -> Array:
        """Unit responses (T, K, N) for every rate, 0 included.

        ``psi_1 = D / sqrt(T)`` with ``D = (1 - e^(-lambda t)) / lambda``, and for k > 1
        ``psi_k = sqrt(2/T) (lambda cos wt + w sin wt - lambda e^(-lambda t)) / (lambda^2 + w^2)``.

        The numerator is summed as ``lambda^2 D + w sin wt - 2 lambda sin^2(wt/2)``: for small t
        the first form takes a small difference of numbers near lambda. The trigonometry is
        float64 whatever the precision of lambda.
        """
        t = np.asarray(times, float)[:, None]
        w = np.arange(1, n_time) * (np.pi / self.horizon)
        lam, rate = eigenvalues, constant(w[:, None], eigenvalues, xp)
        swing = constant((w * np.sin(w * t))[..., None], lam, xp)
        droop = constant((2.0 * np.sin(0.5 * w * t) ** 2)[..., None], lam, xp)
        age = constant(t, lam, xp)
        mean = (age * decay_mean(age * lam, xp))[:, None, :]
        higher = (lam**2 * mean + swing - lam * droop) / (lam**2 + rate**2)
        scale = 1.0 / math.sqrt(self.horizon)
        return xp.concatenate([scale * mean, math.sqrt(2.0) * scale * higher], 1)


@dataclasses.dataclass(frozen=True)
class HaarBasis(TimeBasis):
    """``m_1 = 1 / sqrt(T)``, then wavelets: ``+-sqrt(2^j / T)`` on the halves of ``T / 2^j``.

    Function ``k = 2^j + i + 1`` lives on the i-th of ``2^j`` equal parts. Local in time, so a
    coordinate is about one stretch of the noise. Right-continuous, but at T.

    Example:
        >>> HaarBasis().values(np.array([0.0, 0.3, 0.6, 1.0]), 3).round(6)
        array([[ 1.      ,  1.      ,  1.414214],
               [ 1.      ,  1.      , -1.414214],
               [ 1.      , -1.      ,  0.      ],
               [ 1.      , -1.      ,  0.      ]])
    """

    def values(self, times: np.ndarray, n_time: int) -> np.ndarray:
        """``2^(j/2) / sqrt(T)`` times +1, -1 or 0."""
        u = np.minimum(np.asarray(times, float) / self.horizon, np.nextafter(1.0, 0.0))
        out = np.ones((u.size, whole("n_time", n_time, 1)))
        for k in range(1, n_time):
            level, shift = _level_and_shift(k)
            half = np.floor(2 ** (level + 1) * u) - 2 * shift  # 0 and 1 are its two halves
            out[:, k] = 2 ** (0.5 * level) * ((half == 0.0) * 1.0 - (half == 1.0))
        return out / np.sqrt(self.horizon)

    def breakpoints(self, n_time: int) -> np.ndarray:
        """The ends and middles of all dyadic parts in use."""
        if n_time == 1:
            return np.empty(0)
        parts = 2 ** (_level_and_shift(n_time - 1)[0] + 1)
        return self.horizon * np.arange(1, parts) / parts


def check_basis(basis: Any) -> TimeBasis:
    """Return the basis, or raise `InputError` for anything else, such as its name."""
    if not isinstance(basis, TimeBasis):
        fix = "pass CosineBasis(horizon=T)"
        raise InputError("basis", expected="a time basis", got=repr(basis), fix=fix)
    return basis


def _level_and_shift(k: int) -> tuple[int, int]:
    """Level j and shift i of wavelet ``k = 2^j + i`` (k = 0 is the constant)."""
    level = k.bit_length() - 1
    return level, k - 2**level


# ---------- Checks of times on [0, T], eigenvalues and the noise factor


#: Share of T by which a time may pass T: rounding of ``t - initial_time``.
HORIZON_SLACK = 1e-9


def check_ages(times: Any, horizon: float) -> np.ndarray:
    """Times since the initial state: increasing, in [0, T]; NumPy float64 (T,).

    Example:
        >>> check_ages([0, 0.5, 1], 1.0)
        array([0. , 0.5, 1. ])
    """
    t = check_times(to_numpy(times) if hasattr(times, "detach") else times)
    if t[0] < 0.0 or t[-1] > horizon * (1.0 + HORIZON_SLACK):
        expected = f"times since the initial state in [0, {horizon:g}]"
        fix = "subtract initial_time, or build the time basis with a longer horizon"
        raise InputError("times", expected=expected, got=f"{t[0]:g} to {t[-1]:g}", fix=fix)
    return t


def check_eigenvalues(eigenvalues: Any, xp: Any) -> Array:
    """Eigenvalues as a floating vector (N,).

    Only NumPy values are checked: reading a tensor waits for its device, and a NaN in training
    has to reach the loss, where `ConvergenceError` reports it.
    """
    lam = _finite("eigenvalues", eigenvalues, xp)
    if lam.ndim != 1 or lam.shape[0] == 0:
        expected, got = "one number per mode, shape (N,)", f"shape {tuple(lam.shape)}"
        raise InputError("eigenvalues", expected=expected, got=got, fix="pass equation.eigenvalues")
    return lam


def check_noise_factor(noise_factor: Any, eigenvalues: Array, xp: Any) -> Array:
    """Amplitudes ``sqrt(q_n)`` (N,) or ``<Q^(1/2) h_l, h_n>`` (L, N), in the form of lambda."""
    given = _finite("noise_factor", noise_factor, xp)
    b = given if xp is np else given.to(eigenvalues)
    n = eigenvalues.shape[0]
    if b.ndim not in (1, 2) or b.shape[-1] != n or 0 in b.shape:
        expected = f"amplitudes sqrt(q_n) of shape ({n},) or a factor of shape (L, {n})"
        fix = "pass np.sqrt(equation.noise_variance)"
        raise InputError("noise_factor", expected=expected, got=f"shape {tuple(b.shape)}", fix=fix)
    return b


def _finite(what: str, value: Any, xp: Any) -> Array:
    """Floating numbers, finite ones in NumPy."""
    given = as_floating(value, xp)
    if xp is np and not np.isfinite(given).all():
        fix = "remove NaN and infinity"
        raise InputError(what, expected="finite numbers", got=f"{given}", fix=fix)
    return given

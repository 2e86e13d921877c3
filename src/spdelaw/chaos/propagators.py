"""Time bases and propagators: the curves of time that multiply the chaos coordinates."""

from __future__ import annotations

import abc
import dataclasses
import importlib
import math
import sys
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.checks import one_of, positive, whole
from spdelaw.errors import ConvergenceError, DataError, InputError, MissingExtraError
from spdelaw.processes.spde import SpectralSPDE
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


# ---------- Unit responses of any time basis by product quadrature
#
# ``psi(t) = int_0^t e^(-lambda (t - s)) m(s) ds`` is advanced from piece to piece,
# ``psi(t + h) = e^(-lambda h) psi(t) + int_t^{t+h} e^(-lambda (t + h - s)) m(s) ds``. On a piece
# only m is approximated, by the polynomial through `N_NODES` Gauss-Legendre points; the exponential
# is integrated against it exactly (`legendre_moments`), so no rate is too large for a step.
#
# Pieces end at the observation times and at the basis's breakpoints, and are at most T / (4 K)
# long. Accuracy: rounding (1e-12 of the largest value) for piecewise polynomials of degree
# below `N_NODES` and for functions that oscillate no faster than ``cos(K pi t / T)``.


#: Gauss-Legendre points on a piece.
N_NODES = 10
#: Pieces for each basis function: at most a quarter of the fastest half-wave in one piece.
PIECES_PER_FUNCTION = 4


def response_by_quadrature(
    basis: TimeBasis, times: np.ndarray, eigenvalues: Array, n_time: int, xp: Any
) -> Array:
    """``psi_k(t; lambda_n)``, shape (T, K, N), for checked times and eigenvalues.

    Example:
        >>> from spdelaw.chaos.propagators import HaarBasis
        >>> t, lam = np.array([0.5]), np.array([0.0])  # the integral of m_k
        >>> response_by_quadrature(HaarBasis(), t, lam, 2, np)[:, :, 0]
        array([[0.5, 0.5]])
    """
    knots = _knots(basis, times, n_time)
    h = np.diff(knots)
    x = constant(h[:, None], eigenvalues, xp) * eigenvalues
    forcing = constant(_piecewise_legendre(basis, knots, n_time), eigenvalues, xp)
    inputs = xp.matmul(legendre_moments(x, N_NODES, xp), forcing)  # (pieces, N, K)
    states = _affine_recursion(xp.exp(-x)[..., None], inputs, xp)
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


def _affine_recursion(factors: Array, inputs: Array, xp: Any) -> Array:
    """``y_{i+1} = a_i y_i + b_i`` from zero; shape (pieces + 1, N, K)."""
    states = [xp.zeros_like(inputs).sum(0)]
    for factor, given in zip(factors, inputs, strict=True):
        states.append(factor * states[-1] + given)
    return xp.stack(states)


# ---------- Propagators by the classical Runge-Kutta method, as in the paper (torchdiffeq ``rk4``)
#
# Two ways to set up eqs. 10 and 11. *Shared*: decay and unit responses, N (1 + K) states, once for
# all paths: one path from 1 with one noise. *Per path*: every path carries its own z0 and all
# N (1 + K L) states (1032 in the paper), as its text describes. Both give what the closed form
# gives, to fourth order in the observation step; they remain as an option and as an independent
# check. A basis with jumps inside
# a step (Haar) lowers the order to one.


#: Largest lambda dt at which the method still damps: |1 - x + x^2/2 - x^3/6 + x^4/24| < 1.
RK4_STABILITY = 2.785


def rk4_responses(
    basis: TimeBasis, times: Any, eigenvalues: Any, n_time: int
) -> tuple[Array, Array]:
    """Decay ``e^(-lambda_n t)`` (T, N) and unit responses ``psi_k(t; lambda_n)`` (T, K, N).

    The shared system: ``y_0' = -lambda y_0`` from 1 and ``y_k' = -lambda y_k + m_k(t)`` from 0,
    integrated once on the observation grid. Tensors for a tensor, with gradients; NumPy
    for NumPy.

    Example:
        >>> import numpy as np
        >>> from spdelaw.chaos import CosineBasis
        >>> decay, psi = rk4_responses(CosineBasis(), np.linspace(0, 1, 101), [1.0], n_time=4)
        >>> float(np.round(decay[-1, 0], 6)), psi.shape
        (0.367879, (101, 4, 1))
    """
    xp, torch = namespace(eigenvalues), _import_solver()[0]
    one = torch.ones_like(check_eigenvalues(eigenvalues, torch))[None].detach()
    y = rk4_states(basis, times, eigenvalues, one, one, n_time)[:, 0]  # one path from 1, one noise
    decay, psi = y[:, 0], y[:, 1:]
    return (decay, psi) if xp is torch else (to_numpy(decay), to_numpy(psi))


def rk4_states(
    basis: TimeBasis,
    times: Any,
    eigenvalues: Any,
    noise_factor: Any,
    initial: Any,
    n_time: int,
) -> Array:
    """The paper's latent state, ``d = N (1 + K L)`` numbers per path; (T, paths, 1 + K L, N).

    Entry 0 of the third axis is the zero order, started from the path's own z0; then come the
    first-order propagators, l running fastest.

    Args:
        basis: functions of time.
        times: increasing, in [0, T], counted from the initial state.
        eigenvalues: ``lambda_n``, shape (N,).
        noise_factor: ``sqrt(q_n)``, shape (N,), or ``<Q^(1/2) h_l, h_n>``, shape (L, N).
        initial: ``z0``, shape (paths, N).
        n_time: K.

    Example:
        >>> from spdelaw.chaos import CosineBasis
        >>> states = rk4_states(
        ...     CosineBasis(), [0.0, 1.0], [1.0, 2.0], [1.0, 1.0], [[1.0, 1.0]], n_time=3
        ... )
        >>> tuple(states.shape)
        (2, 1, 7, 2)
    """
    torch, odeint = _import_solver()
    lam = check_eigenvalues(eigenvalues, torch)
    b = check_noise_factor(noise_factor, lam, torch)
    factor = torch.diag(b) if b.ndim == 1 else b
    k, z0 = whole("n_time", n_time, 1), as_floating(initial, torch).to(lam)
    if z0.ndim != 2 or z0.shape[1] != lam.shape[0]:
        expected, fix = f"shape (paths, {lam.shape[0]})", "one row per path: initial[None, :]"
        raise InputError("initial", expected=expected, got=f"shape {tuple(z0.shape)}", fix=fix)
    first_order_start = torch.zeros(
        len(z0), k * len(factor), lam.shape[0], dtype=lam.dtype, device=lam.device
    )
    start = torch.cat([z0[:, None], first_order_start], 1)

    def slope(t: Array, y: Array) -> Array:
        m = basis.values(np.array([min(float(t), basis.horizon)]), k)[0]
        push = (constant(m[:, None, None], y, torch) * factor).reshape(-1, lam.shape[0])
        return torch.cat([torch.zeros_like(push[:1]), push]) - lam * y  # the mean is not forced

    return _integrate(odeint, slope, start, basis, times, lam, torch)


def decode_states(states: Array, coordinates: Array) -> Array:
    """``c = z^(0) + sum_{k,l} z^(k,l) xi_{k,l}`` (eq. 12) of states from `rk4_states`.

    Args:
        states: shape (T, paths, 1 + K L, N).
        coordinates: shape (paths, K, L).

    Returns:
        Coefficients, shape (paths, T, N).

    Example:
        >>> import torch
        >>> states = torch.ones(5, 2, 1 + 3 * 4, 4)
        >>> decode_states(states, torch.ones(2, 3, 4))[0, 0]
        tensor([13., 13., 13., 13.])
    """
    xp = namespace(states, coordinates)
    xi = coordinates.reshape(coordinates.shape[0], -1)
    if states.shape[1:3] != (xi.shape[0], 1 + xi.shape[1]):
        expected = f"{states.shape[1]} paths of {states.shape[2] - 1} coordinates"
        got, fix = f"shape {tuple(coordinates.shape)}", "pass xi of shape (paths, K, L)"
        raise InputError("coordinates", expected=expected, got=got, fix=fix)
    return xp.moveaxis(states[:, :, 0], 0, 1) + xp.einsum("tpan,pa->ptn", states[:, :, 1:], xi)


def _import_solver() -> tuple[Any, Any]:
    try:
        torch, torchdiffeq = map(importlib.import_module, ("torch", "torchdiffeq"))
    except ImportError as error:
        raise MissingExtraError("rk4 propagators", "neural") from error
    return torch, torchdiffeq.odeint


def _integrate(
    odeint: Any, slope: Any, start: Array, basis: TimeBasis, times: Any, lam: Array, torch: Any
) -> Array:
    """States at the observation times, one step from each to the next, from time 0 on."""
    t = check_ages(times, check_basis(basis).horizon)
    grid = t if t[0] == 0.0 else np.concatenate([[0.0], t])
    fastest = float(lam.detach().max()) * np.diff(grid).max(initial=0.0)
    if not fastest < RK4_STABILITY:
        expected = f"lambda dt below {RK4_STABILITY}, where rk4 is stable"
        fix = "use method='closed_form', or a finer grid of times"
        raise ConvergenceError("rk4 propagators", expected=expected, got=f"{fastest:.3g}", fix=fix)
    if len(grid) == 1:
        return start[None]
    steps = constant(grid, start, torch)
    return odeint(slope, start, steps, method="rk4")[len(grid) - len(t) :]


# ---------- Propagators: the deterministic curves of time that multiply the chaos coordinates
#
# For mode n, zero order ``z(t) = z0 e^(-lambda_n t)`` (paper, eq. 10) and first order
# ``z_{k,l}(t) = B[l, n] psi_k(t; lambda_n)`` (eq. 11) with the noise factor
# ``B[l, n] = <Q^(1/2) h_l, h_n>`` and the response to unit forcing along one basis function,
# ``psi_k(t; lambda) = int_0^t e^(-lambda (t - s)) m_k(s) ds``. All higher orders vanish
# (Proposition 2.1).
#
# Times count from the initial state. Each function runs in NumPy, or in torch where the eigenvalues
# are a tensor, with gradients that are finite for every rate, 0 included.


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
    (`spdelaw.chaos.propagators`).

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
    n, k = whole("n_modes", n_modes, 1), whole("n_time", n_time, 1)
    return n * (1 + k * whole("n_noise", n_noise, 1))


# ---------- The truncated expansion: chaos coordinates in, paths of the Galerkin coefficients out


def expand(curves: Propagators, initial: Any, coordinates: Any) -> Array:
    """``c_n(t) = e^(-lambda_n t) z0_n + sum_{k,l} B[l, n] psi_k(t; lambda_n) xi_{k,l}`` (eq. 12).

    The noise factor is applied to the coordinates first, one small matrix; then one matrix
    product per mode, (paths, K) by (K, T). The dense tensor (T, K, L, N) never exists.

    Args:
        curves: from `propagate`.
        initial: ``z0_n``, shape (..., N); its leading axes broadcast with those of the coordinates.
        coordinates: ``xi_{k,l}``, shape (..., K, L). In torch the result has their precision
            and device, and gradients flow to all arguments.

    Returns:
        Coefficients, shape (..., T, N); ``domain.synthesise`` makes fields of them.

    Example:
        >>> from spdelaw.chaos import CosineBasis, propagate
        >>> curves = propagate(CosineBasis(), [0.0, 1.0], [0.0, 0.0], [1.0, 2.0], n_time=1)
        >>> expand(curves, initial=[5.0, 5.0], coordinates=[[1.0, -1.0]])
        array([[5., 5.],
               [6., 3.]])
    """
    xp = namespace(coordinates, initial, *curves)
    xi, z0 = as_floating(coordinates, xp), as_floating(initial, xp)
    decay, psi, b = (as_floating(a, xp) for a in curves)
    if xp is not np:
        z0, decay, psi, b = (a.to(xi) for a in (z0, decay, psi, b))
    _check_shapes(curves, z0, xi)
    forcing = xi * b if b.ndim == 1 else xp.matmul(xi, b)  # (..., K, N)
    return decay * z0[..., None, :] + respond(psi, forcing, xp)


def respond(response: Array, forcing: Array, xp: Any) -> Array:
    """``sum_k psi_k(t; lambda_n) f_{k,n}``: (T, K, N) and (..., K, N) give (..., T, N)."""
    flat = forcing.reshape(-1, *forcing.shape[-2:])
    rows = xp.moveaxis(flat, 2, 0)  # (N, paths, K)
    columns = xp.moveaxis(response, (0, 1, 2), (2, 1, 0))  # (N, K, T)
    out = xp.moveaxis(xp.matmul(rows, columns), 0, 2)
    return out.reshape(*forcing.shape[:-2], response.shape[0], response.shape[2])


def _check_shapes(curves: Propagators, initial: Array, coordinates: Array) -> None:
    k, l, n = curves.n_time, curves.n_noise, curves.n_modes
    if tuple(coordinates.shape[-2:]) != (k, l):
        expected = f"shape (..., {k}, {l}) for K = {k}, L = {l}"
        got = f"shape {tuple(coordinates.shape)}"
        fix = "time index before noise index: np.swapaxes(xi, -1, -2)"
        raise InputError("coordinates", expected=expected, got=got, fix=fix)
    if initial.ndim == 0 or initial.shape[-1] != n:
        expected, got = f"shape (..., {n}), one number per mode", f"shape {tuple(initial.shape)}"
        raise InputError("initial", expected=expected, got=got, fix="pass equation.initial_mean")
    try:
        np.broadcast_shapes(tuple(initial.shape[:-1]), tuple(coordinates.shape[:-2]))
    except ValueError as error:
        expected = f"leading axes that match {tuple(coordinates.shape[:-2])}"
        got, fix = f"{tuple(initial.shape[:-1])}", "pass one initial state per path, or one for all"
        raise InputError("initial", expected=expected, got=got, fix=fix) from error


# ---------- Covariance of the tail beyond K, in closed form
#
# The stochastic part of mode n is ``c_n(t) = sum_{k <= K} z_k(t) xi_k + r_n(t)`` with a remainder
# that is Gaussian, independent of the coordinates kept, and has
# ``Cov r(t, s) = Cov_OU(t, s) - sum_{k <= K} z_k(t) z_k(s)``. By Bessel's inequality it is
# positive semi-definite for every orthonormal basis; for the cosines its trace falls as 1 / K.


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
    gap, gap_2, one, two = wait, wait.T, lam[:, None, None], lam[:, None, None]
    scale = (b**2)[:, None, None]
    if b.ndim == 2:
        one, two = lam[:, None, None, None], lam[:, None]  # n and m of the axes (n, t, m, s)
        gap, gap_2, age = (x[:, None, :] for x in (gap, gap_2, age))
        scale = xp.matmul(b.T, b)[:, None, :, None]
    return scale * (xp.exp(-one * gap - two * gap_2) * age * decay_mean((one + two) * age, xp))


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


# ---------- Chaos coordinates of simulated paths, from the noise that drove them


def chaos_coordinates(
    simulated: xr.Dataset, equation: SpectralSPDE, basis: TimeBasis, n_time: int
) -> xr.DataArray:
    """``xi_{k,l} = int_0^T m_k dw_l`` (paper, eq. 6) from the increments of the driving noise.

    ``xi_{k,l} ~ sum_i m_k(midpoint_i) dW_{i,l} / sqrt(q_l)``. For a smooth basis the error is of
    strong order 1: root mean square ``h ||m_k'|| / sqrt(12)`` for steps h. The law is better than
    that: on equal steps cosines at midpoints are orthonormal, so for K up to the number of steps
    the coordinates are exactly independent standard normals, and ``E[c_n(t) xi_{k,n}]`` differs
    from the propagator by order h^2.

    Args:
        simulated: ``simulate(..., return_noise=True)``; the times have to reach from the
            equation's initial time to T after it.
        equation: what was simulated; all its ``q_n`` have to be positive.
        basis: functions of time.
        n_time: K.

    Returns:
        Dims (path, k, l), both counted from 1; l is the mode whose noise it is.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.chaos import CosineBasis
        >>> heat = sl.catalogue.heat(n_modes=3)
        >>> paths = sl.simulate(heat, n_paths=5, seed=0, return_noise=True)
        >>> dict(chaos_coordinates(paths, heat, CosineBasis(), n_time=4).sizes)
        {'path': 5, 'k': 4, 'l': 3}
    """
    increments, edges = _noise_increments(simulated, equation, check_basis(basis))
    m = basis.values(0.5 * (edges[:-1] + edges[1:]), whole("n_time", n_time, 1))
    scaled = increments.values / np.sqrt(equation.noise_variance)
    xi = np.matmul(m.T, scaled)  # (K, steps) by (paths, steps, L)
    k, l = np.arange(1, n_time + 1), increments["mode"].values
    coords = {"path": increments["path"].values, "k": k, "l": l}
    return xr.DataArray(xi, dims=("path", "k", "l"), coords=coords, name="xi")


def _noise_increments(
    simulated: xr.Dataset, equation: SpectralSPDE, basis: TimeBasis
) -> tuple[xr.DataArray, np.ndarray]:
    """Noise increments (path, time, mode) and the ends of their steps, counted from 0."""
    if not isinstance(simulated, xr.Dataset) or "noise_increment" not in simulated:
        expected = "a Dataset with the variable noise_increment"
        fix = "simulate(..., return_noise=True)"
        raise DataError("simulated", expected=expected, got=type(simulated).__name__, fix=fix)
    increments = simulated["noise_increment"].transpose("path", "time", "mode")
    if increments.sizes["mode"] != equation.n_modes or not (equation.noise_variance > 0).all():
        expected = f"positive q_n for {increments.sizes['mode']} modes"
        got, fix = f"q = {equation.noise_variance}", "pass the equation that was simulated"
        raise DataError("equation", expected=expected, got=got, fix=fix)
    edges = np.append(0.0, increments["time"].values - equation.initial_time)
    if abs(edges[-1] - basis.horizon) > HORIZON_SLACK * basis.horizon:
        expected = f"times up to T = {basis.horizon:g} after the initial one"
        fix = f"CosineBasis(horizon={edges[-1]:g})"
        raise DataError("simulated", expected=expected, got=f"up to {edges[-1]:g}", fix=fix)
    return increments, edges

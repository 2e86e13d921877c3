"""Operators on the modes: one algebra for diagonal ones and for matrices."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from spdelaw.domains.base import AbstractDomain, Turn
from spdelaw.errors import EquationError

# ---------- Operators on the modes: one algebra for diagonal ones and for matrices
#
# A drift ``Lambda``, a noise covariance ``Q`` or an initial covariance ``V0`` is an array: (N,)
# where it is diagonal in the modes, (N, N) where it couples them. Results are diagonal wherever all
# operators that enter are.


Array = np.ndarray

#: Eigenvalues of a covariance below this share of the largest are rounding of the others.
ROUNDING = 1e-14


def is_diagonal(a: Array) -> bool:
    """Whether an operator leaves the modes apart."""
    return a.ndim == 1


def as_matrix(a: Array) -> Array:
    """The same operator as a matrix (N, N)."""
    return np.diag(a) if a.ndim == 1 else a


def diagonal(a: Array) -> Array:
    """Diagonal (N,)."""
    return a if a.ndim == 1 else np.diagonal(a)


def like(a: Array, by: Array) -> Array:
    """Gradient ``by`` in the shape of the operator it belongs to."""
    return by if by.ndim == a.ndim else diagonal(by)


def leading(a: Array, n: int) -> Array:
    """The part that acts on the first ``n`` modes."""
    return a[:n] if a.ndim == 1 else a[:n, :n]


def block_diagonal(a: Array, b: Array) -> Array:
    """Both operators side by side, on modes of their own."""
    if a.ndim == b.ndim == 1:
        return np.concatenate([a, b])
    out = np.zeros((len(a) + len(b),) * 2)
    out[: len(a), : len(a)], out[len(a) :, len(a) :] = as_matrix(a), as_matrix(b)
    return out


def apply(a: Array, x: Array) -> Array:
    """``a x`` for vectors (..., N)."""
    return a * x if a.ndim == 1 else x @ a.T


def embed(stack: Array) -> Array:
    """A stack of diagonals (..., N) as matrices (..., N, N)."""
    return stack[..., None] * np.eye(stack.shape[-1])


def apply_each(stack: Array, x: Array) -> Array:
    """``a_t x_t`` for a stack (T, N) or (T, N, N) of operators and vectors (P, T, N)."""
    return stack * x if stack.ndim == 2 else np.einsum("tij,ptj->pti", stack, x)


def quadratic_form(h: Array, a: Array) -> Array:
    """``h_m' a h_m`` of each row of ``h`` (M, N); (M,)."""
    return h**2 @ a if a.ndim == 1 else np.einsum("mi,ij,mj->m", h, a, h, optimize=True)


def eigenvalues(a: Array) -> Array:
    """In the order of the modes, or slowest first where the operator couples them."""
    if a.ndim == 1:
        return a
    values = np.linalg.eigvals(a)
    return values[np.lexsort([values.imag, values.real])]


def decay_rates(a: Array) -> Array:
    """Real parts of the eigenvalues, in their order."""
    return eigenvalues(a).real


def decaying(a: Array, least: float) -> Array:
    """The matrix itself where every rate is ``least`` of its largest eigenvalue, else with decay.

    The decay that is added to all modes is twice what that takes.
    """
    values = np.linalg.eigvals(a)
    lack = least * np.abs(values).max() - values.real.min()
    return a if lack <= 0 else a + 2.0 * lack * np.eye(len(a))


def root(covariance: Array) -> Array:
    """Symmetric ``S`` with ``S S' = covariance``; singular covariances have one as well."""
    return roots(covariance)[0]


def roots(covariance: Array) -> tuple[Array, Array]:
    """Symmetric root and its pseudo-inverse, of one matrix or a stack (..., N, N)."""
    if covariance.ndim == 1:
        s = np.sqrt(np.maximum(covariance, 0.0))
        return s, np.divide(1.0, s, out=np.zeros_like(s), where=s > 0)
    values, vectors = np.linalg.eigh(covariance)
    s = np.sqrt(np.maximum(values, 0.0))
    usable = (values > ROUNDING * values[..., -1:]) & (s > 0)
    inverse = np.divide(1.0, s, out=np.zeros_like(s), where=usable)
    turned = np.swapaxes(vectors, -1, -2)
    return (vectors * s[..., None, :]) @ turned, (vectors * inverse[..., None, :]) @ turned


def stationary_covariance(drift: Array, noise: Array) -> Array:
    """``P`` with ``Lambda P + P Lambda' = Q``."""
    if drift.ndim == noise.ndim == 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            return noise / (2.0 * drift)
    from scipy import linalg

    with warnings.catch_warnings():
        # Many a search passes a drift without decay; its covariance is huge, as the warning says.
        warnings.simplefilter("ignore", RuntimeWarning)
        p = linalg.solve_continuous_lyapunov(as_matrix(drift), as_matrix(noise))
    return 0.5 * (p + p.T)


def stationary_pull_back(
    drift: Array, noise: Array, covariance: Array, by: Array
) -> tuple[Array, Array]:
    """Gradient by ``Lambda`` and ``Q`` from a symmetric one by the stationary ``P``.

    With ``Lambda' Y + Y Lambda = by``, it is ``-2 Y P`` and ``Y``.
    """
    if drift.ndim == noise.ndim == 1:
        y = by / (2.0 * drift)
        return -2.0 * y * covariance, y
    y = stationary_covariance(as_matrix(drift).T, as_matrix(by))
    return like(drift, -2.0 * y @ as_matrix(covariance)), like(noise, y)


# ---------- Means of a decaying exponential, accurate at small and at large rates


#: Below this the quotients of `decay_means` lose digits; their series take over.
SERIES_BELOW = 0.5


def decay_mean(x: Array) -> Array:
    """``(1 - exp(-x)) / x``, the mean of ``exp(-x s)`` over s in [0, 1]; 1 at x = 0.

    expm1 keeps full precision for small x, where the plain quotient is 0 / 0.
    """
    x = np.asarray(x, dtype=float)
    safe = np.where(x == 0.0, 1.0, x)
    return np.where(x == 0.0, 1.0, -np.expm1(-safe) / safe)


def decay_mean_slope(x: Array) -> Array:
    """Derivative of ``(1 - e^-x) / x``.

    The quotient ``(e^-x (1 + x) - 1) / x^2`` loses all digits for small x; a series takes over.
    """
    x = np.asarray(x, dtype=float)
    small = np.abs(x) < 1e-2
    safe, x = np.where(small, 1.0, x), np.where(small, x, 0.0)
    series = -1 / 2 + x * (1 / 3 - x * (1 / 8 - x * (1 / 30 - x * (1 / 144 - x / 840))))
    return np.where(small, series, (np.exp(-safe) * (1.0 + safe) - 1.0) / safe**2)


def decay_means(x: Array) -> tuple[Array, Array]:
    """``p1 = (1 - e^-x) / x`` and ``p2 = (x - 1 + e^-x) / x^2``; x may be complex."""
    small = np.abs(x) < SERIES_BELOW
    safe = np.where(small, 1.0, x)
    # p2 = sum_j (-x)^j / (j + 2)!, by Horner; p1 = 1 - x p2.
    series: Any = 0.0
    for j in range(14, -1, -1):
        series = (1.0 - x * series) / (j + 2)
    series = np.where(small, series, 0.0)
    second = np.where(small, series, (safe + np.expm1(-safe)) / safe**2)
    return np.where(small, 1.0 - x * series, -np.expm1(-safe) / safe), second


# ---------- Pairs of modes that transport turns into one another


def rotating_pairs(domain: AbstractDomain, n_modes: int) -> tuple[tuple[int, int], ...]:
    """Indices, from 0, of the cosine and the sine of each wave that goes around the domain."""
    return tuple((turn.cosine, turn.sine) for turn in _required_turns(domain, n_modes))


def whole_pairs(domain: AbstractDomain, n_modes: int) -> int:
    """Least number of modes, from ``n_modes`` on, that leaves no cosine without its sine."""
    last, total = float(domain.eigenvalues(n_modes)[-1]), n_modes + 1
    while domain.eigenvalues(total)[-1] <= last * (1.0 + 1e-6):  # partners share theirs
        total *= 2
    n = n_modes
    for cosine, sine in sorted(rotating_pairs(domain, total)):
        n = max(n, sine + 1) if cosine < n else n
    return n


def advection_matrix(domain: AbstractDomain, n_modes: int, speed: float) -> Array:
    """``<speed dh_m, h_n>``: what ``dX = -speed X' dt`` adds to the drift matrix; (N, N).

    The derivative is along the ring, or by the angle of a sphere or disk, whose speed is in
    radians. For ``u = c cos kx + s sin kx`` it is ``dc = -k speed s dt, ds = k speed c dt``.
    """
    out = np.zeros((n_modes, n_modes))
    for c, s, k in _required_turns(domain, n_modes):
        out[c, s], out[s, c] = k * speed, -k * speed
    return out


def _required_turns(domain: AbstractDomain, n_modes: int) -> tuple[Turn, ...]:
    turns = domain.turns(n_modes)
    if turns is None:
        expected = (
            "a domain whose modes come in pairs that can rotate: a periodic interval, a box with "
            "one periodic side, a disk or a sphere"
        )
        fix = "use sl.Interval(a, b, 'periodic') or sl.Sphere(), or drift='dense'"
        raise EquationError("drift", expected=expected, got=repr(domain), fix=fix)
    return turns

"""How far one law is from another, and one set of fields from another (paper, section 3.3).

The Kullback-Leibler divergence between two linear laws of the coefficients has a closed form.

Both laws are Markov, ``c_{t+1} = F c_t + N(0, W)`` beside the mean that a forcing drives, so the
chain rule over transitions gives

    KL = KL(initial) + sum_t [ KL(N(0, W1) || N(0, W2)) + 1/2 E1 g_t' W2^-1 g_t ],
    g_t = (F1 - F2) c_t + e_t,   e_t = d_{t+1} - F2 d_t,

with ``c_t`` the unforced state under the first law and ``d_t`` the difference of the forced means.
Modes on their own are as many laws of one mode each: operators are stacks of matrices,
(..., N, 1, 1) where both laws are diagonal and (..., 1, N, N) where one is not.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from spdelaw.equation import InitialState, Linear, operators
from spdelaw.model import StateSpace

Array = np.ndarray


def kl_divergence(first: StateSpace, second: StateSpace, times: Array) -> float:
    """``KL(first || second)`` per path for states at ``times`` (the first is the initial one)."""
    if not (first.is_diagonal and second.is_diagonal):
        first, second = _with_matrices(first), _with_matrices(second)
    (f1, w1), (f2, w2) = _steps(first.linear, times), _steps(second.linear, times)
    column = (*f1.shape[1:-1], 1)
    mean, square = _moments(first.initial, f1, w1)
    gap = (first.linear.response(times) - second.linear.response(times)).reshape(-1, *column)
    e = gap[1:] - f2 @ gap[:-1]
    f = f1 - f2
    mixed = f @ mean @ _turned(e)
    outer = f @ square @ _turned(f) + mixed + _turned(mixed) + e @ _turned(e)
    apart = (first.initial.mean - second.initial.mean).reshape(column)
    v1, v2 = (_stack(law.initial.covariance, 1) for law in (first, second))
    if first.initial.kind == second.initial.kind == "deterministic":
        # Two points: equal or singular. Estimates of a point differ by rounding or noise, so
        # they are compared through the first transition, which sees the difference too.
        v1 = v2 = w2[0]
    return _gaussian(w1, w2, outer) + _gaussian(v1, v2, apart @ _turned(apart))


def _with_matrices(space: StateSpace) -> StateSpace:
    """The same law with matrices for all operators."""
    d, start = space.linear, space.initial
    drift, noise, spread = map(operators.as_matrix, (d.drift, d.noise, start.covariance))
    own = dataclasses.replace(d, drift=drift, noise=noise)
    return space._replace(dynamics=own, initial=start._replace(covariance=spread))


def _steps(dynamics: Linear, times: Array) -> tuple[Array, Array]:
    """``F`` and ``W`` of all steps; each (T - 1, blocks, n, n)."""
    found, which = dynamics.transitions(times)
    return _stack(found.factor, 2)[which], _stack(found.covariance, 2)[which]


def _stack(a: Array, ndim_diagonal: int) -> Array:
    """Diagonals (..., N) as (..., N, 1, 1), matrices (..., N, N) as (..., 1, N, N)."""
    return a[..., None, None] if a.ndim == ndim_diagonal else a[..., None, :, :]


def _moments(initial: InitialState, f: Array, w: Array) -> tuple[Array, Array]:
    """``E c_t`` and ``E c_t c_t'`` before each step."""
    mean = [initial.mean.reshape(*f.shape[1:-1], 1)]
    covariance = [_stack(initial.covariance, 1)]
    for factor, noise in zip(f[:-1], w[:-1], strict=True):
        mean.append(factor @ mean[-1])
        covariance.append(factor @ covariance[-1] @ _turned(factor) + noise)
    m = np.stack(mean)
    return m, m @ _turned(m) + np.stack(covariance)


def _gaussian(one: Array, two: Array, gap: Array) -> float:
    """``KL(N(m1, one) || N(m2, two))`` with the outer product of ``m1 - m2``, summed up."""
    (sign1, log1), (sign2, log2) = np.linalg.slogdet(one), np.linalg.slogdet(two)
    if (sign1 <= 0).any() or (sign2 <= 0).any():
        return float("inf")
    ratio = np.trace(np.linalg.solve(two, one + gap), axis1=-2, axis2=-1)
    return 0.5 * float((log2 - log1 - one.shape[-1] + ratio).sum())


def _turned(a: Array) -> Array:
    return np.swapaxes(a, -1, -2)


def relative_l2(prediction: Array, truth: Array) -> float:
    """``mean over paths of |X_hat - X| / |X|``, norms over times and points."""
    error = np.nansum((prediction - truth) ** 2, axis=(1, 2))
    scored = np.where(np.isnan(prediction), np.nan, truth)
    norm = np.nansum(scored**2, axis=(1, 2))
    kept = norm > 0
    return float(np.sqrt(error[kept] / norm[kept]).mean()) if kept.any() else float("nan")


def rmse(prediction: Array, truth: Array) -> float:
    """Root mean square error pooled over paths, times and points."""
    return float(np.sqrt(np.nanmean((prediction - truth) ** 2)))

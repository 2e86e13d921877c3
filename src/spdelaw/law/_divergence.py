"""Closed-form Kullback-Leibler divergence between two laws of the coefficients.

Both laws are Markov, so the chain rule over transitions gives, for modes on their own,

    KL = KL(initial) + 1/2 sum_t [ log(w2/w1) - 1 + w1/w2 + (a1 - a2)^2 E1 c_t^2 / w2 ],

with ``E1 c_t^2`` the second moment under the first law, and the same with matrices for coupled
ones. Forced means that differ by ``d_t`` add ``2 (a1 - a2) E1 c_t e_t + e_t^2`` over ``w2`` with
``e_t = d_{t+1} - a2 d_t``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.equation import SpectralSPDE, distinct_steps, matrix_transition
from spdelaw.errors import InputError
from spdelaw.model import AnyParameters, CoupledParameters, Parameters, coupled_parameters

Array = np.ndarray


def kl_divergence(
    first: AnyParameters, second: AnyParameters, times: Array, gap: Array | None = None
) -> float:
    """``KL(first || second)`` per path for states at ``times`` (the first is the initial one).

    ``gap`` is the difference ``d`` of their forced means, (T, N), zero at the first time.
    """
    if not (isinstance(first, Parameters) and isinstance(second, Parameters)):
        return _coupled(coupled_parameters(first), coupled_parameters(second), times)
    a1, w1 = first.transition(times)
    a2, w2 = second.transition(times)
    mean, variance = [first.initial_mean], [first.initial_variance]
    for a, w in zip(a1[:-1], w1[:-1], strict=True):
        mean.append(a * mean[-1])
        variance.append(a**2 * variance[-1] + w)
    square = np.square(mean) + variance
    steps = np.log(w2 / w1) - 1.0 + w1 / w2 + (a1 - a2) ** 2 * square / w2
    if gap is not None:
        e = gap[1:] - a2 * gap[:-1]
        steps += (2.0 * (a1 - a2) * np.asarray(mean) + e) * e / w2
    return float(0.5 * steps.sum() + _initial(first, second, w2[0]))


def _initial(first: Parameters, second: Parameters, unit: Array) -> float:
    v1, v2 = first.initial_variance, second.initial_variance
    gap = (first.initial_mean - second.initial_mean) ** 2
    if first.initial_kind == "deterministic" and second.initial_kind == "deterministic":
        # Two points: equal or singular. Estimates of a point differ by rounding or noise, so
        # they are compared through the first transition, which sees the difference too.
        return float(0.5 * (gap / unit).sum())
    if (v2 == 0).any() or (v1 == 0).any():
        return float("inf")
    return float(0.5 * (np.log(v2 / v1) - 1.0 + v1 / v2 + gap / v2).sum())


def _coupled(first: CoupledParameters, second: CoupledParameters, times: Array) -> float:
    lengths, which = distinct_steps(np.diff(times))
    one = matrix_transition(first.drift, first.noise_covariance, lengths)
    two = matrix_transition(second.drift, second.noise_covariance, lengths)
    age = matrix_transition(first.drift, first.noise_covariance, times[:-1] - times[0])
    start = first.initial_covariance + np.outer(first.initial_mean, first.initial_mean)
    square = age.factor @ start @ np.swapaxes(age.factor, 1, 2) + age.covariance
    total = np.zeros((len(lengths), *square.shape[1:]))
    np.add.at(total, which, square)
    counts = np.bincount(which, minlength=len(lengths))
    value = 0.0
    for u, n in enumerate(counts):
        f = one.factor[u] - two.factor[u]
        value += n * _gaussian(one.covariance[u], two.covariance[u], np.zeros((len(f), len(f))))
        value += 0.5 * float(np.trace(np.linalg.solve(two.covariance[u], f @ total[u] @ f.T)))
    gap = first.initial_mean - second.initial_mean
    square = np.outer(gap, gap)
    if first.initial_kind == "deterministic" and second.initial_kind == "deterministic":
        return value + 0.5 * float(np.trace(np.linalg.solve(two.covariance[which[0]], square)))
    return value + _gaussian(first.initial_covariance, second.initial_covariance, square)


def _gaussian(one: Array, two: Array, gap: Array) -> float:
    """``KL(N(m1, one) || N(m2, two))`` with the outer product of ``m1 - m2``."""
    (sign1, log1), (sign2, log2) = np.linalg.slogdet(one), np.linalg.slogdet(two)
    if sign1 <= 0 or sign2 <= 0:
        return float("inf")
    return 0.5 * float(log2 - log1 - len(one) + np.trace(np.linalg.solve(two, one + gap)))


def reported(e: SpectralSPDE, n_modes: int) -> AnyParameters:
    """The first modes' parameters of an equation."""
    if e.n_modes < n_modes:
        raise InputError(
            "other", expected=f"at least {n_modes} modes", got=str(e.n_modes),
            fix="compare with an equation that has as many modes",
        )  # fmt: skip
    n = slice(n_modes)
    none = np.asarray(0.0)
    kind: Any = e.initial_kind
    if e.coupling is None:
        parts = (e.eigenvalues[n], e.noise_variance[n], e.initial_mean[n], e.initial_variance[n])
        return Parameters(*parts, none, kind, e.season)
    drift, noise, spread = (matrix[n, n] for matrix in e.coupling)
    return CoupledParameters(drift, noise, e.initial_mean[n], spread, none, kind)

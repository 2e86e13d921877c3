"""Gradients of the Gaussian closure by reverse differentiation of its steps.

With gradients written as starred letters, the slopes of a stage pull back as

    P* += N* J + (N* J)',   J* = 2 N* P + C*' C,   a_j* = E[f]* E f_j + sum_k J_k* E f_jk,
    V_jk* = (E[f]* E f_jk + sum_i J_i* E f_ijk) (1/2 where j = k),

where f_j is the derivative of f by feature j, and V the covariance of features at a point: the
derivative of a Gaussian mean by the covariance is half the mean of the second derivative.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.equation._closure import Closure, Moments, Stage, SubStep, Tape
from spdelaw.equation._exponential import STAGES, combine
from spdelaw.equation._polynomial import Means, derivative

Array = np.ndarray


class Pulled(NamedTuple):
    """Gradients by what a step starts from, (B, N) and (B, N, N), and by its parameters.

    Attributes:
        rate: by ``lambda``, (B, N).
        noise: by ``q``, (B, N).
        coefficient: by ``theta``, (B, n_terms).
    """

    mean: Array
    covariance: Array
    rate: Array
    noise: Array
    coefficient: Array


def pull_back(closure: Closure, tape: Tape, by: Moments) -> Pulled:
    """Gradients by the start and the parameters from gradients by the moments at the end.

    Args:
        closure: the same that `advance` had.
        tape: its second result.
        by: gradient by mean, covariance (symmetric) and, where there is one, cross-covariance.
    """
    n_batch, n = by.mean.shape
    rate, noise = np.zeros((n_batch, n)), np.zeros((n_batch, n))
    theta = np.zeros((n_batch, len(closure.coefficients)))
    m, p, c = by
    for step in reversed(tape):
        m, p, c = _pull_step(closure, step, m, p, c, rate, noise, theta)
    if c is not None:  # the cross-covariance starts as the covariance
        p = p + 0.5 * (c + c.transpose(0, 2, 1))
    return Pulled(m, p, rate, noise, theta)


def _pull_step(
    closure: Closure, step: SubStep, m: Array, p: Array, c: Array | None, rate: Array, noise: Array,
    theta: Array,
) -> tuple[Array, Array, Array | None]:  # fmt: skip
    """Gradients at the end of a sub-step become those at its start; parameters are added to."""
    (one, two, three), start, slopes = step.rules, step.start, step.slopes
    by_m: list[Array] = [np.zeros(1)] * STAGES
    by_p: list[Array] = [np.zeros(1)] * STAGES
    by_c: list[Array] = [np.zeros(1)] * STAGES
    m0 = p0 = c0 = np.zeros(1)
    for i in range(STAGES, -1, -1):
        if i < STAGES:
            m, p, c = _pull_slope(
                closure, step.stages[i], by_m[i], by_p[i], by_c[i], noise, theta, i == 0
            )
        m0 = m0 + one.decay[i] * m
        p0 = p0 + two.decay[i] * p
        c0 = c0 + three.decay[i] * c if c is not None else c0
        if not i:
            break
        for j, weight in one.stage[i]:
            by_m[j] = by_m[j] + weight * m
        for j, weight in two.stage[i]:
            by_p[j] = by_p[j] + weight * p
        rate += m * combine(one.slope, i, start[0], slopes[0])
        zero = np.zeros((1, 1, 1)) if start[1] is None else start[1]
        rate += 2.0 * np.einsum("bij,bij->bi", p, combine(two.slope, i, zero, slopes[1]))
        if c is not None and start[2] is not None:
            for j, weight in three.stage[i]:
                by_c[j] = by_c[j] + weight * c
            rate += np.einsum("bij,bij->bj", c, combine(three.slope, i, start[2], slopes[2]))
    return m0, p0, (None if c is None else c0)


def _pull_slope(
    closure: Closure, stage: Stage, by_drift: Array, by_spreading: Array, by_turned: Array,
    noise: Array, theta: Array, is_first: bool,
) -> tuple[Array, Array, Array | None]:  # fmt: skip
    """Pull-back of `_slope`."""
    r, means = closure.reaction, stage.means
    n_batch, n = by_drift.shape
    noise += np.einsum("bii->bi", by_spreading)
    by_value = by_drift @ r.analysis.T
    by_first: dict[int, Array] = {}
    p = np.zeros((n_batch, n, n))
    c = None
    if stage.jacobian is not None:
        half = by_spreading @ stage.jacobian
        p = half + half.transpose(0, 2, 1)
        by_jacobian = 2.0 * (by_spreading @ stage.covariance)
        if stage.cross is not None:
            by_jacobian += by_turned.transpose(0, 2, 1) @ stage.cross
            c = by_turned @ stage.jacobian
        flat = by_jacobian.reshape(n_batch, -1)
        by_first = {j: flat @ t.T for j, t in r.jacobian_products.items()}
    _pull_coefficients(closure, means, by_value, by_first, theta)
    m = np.zeros((n_batch, n))
    for j, operator in zip(r.features, r.operators, strict=True):
        by_point = by_value * means.of(closure.first[j])
        for k, by_slope in by_first.items():
            by_point = by_point + by_slope * means.of(closure.second[j, k])
        m += by_point @ operator
    if stage.jacobian is not None:
        for (j, k), products in r.covariance_products.items():
            by_pair = by_value * means.of(closure.second[j, k])
            for i, by_slope in by_first.items():
                by_pair = by_pair + by_slope * means.of(closure.third[i, j, k])
            p += ((0.5 if j == k else 1.0) * by_pair @ products).reshape(-1, n, n)
    return m, p, c


def _pull_coefficients(
    closure: Closure, means: Means, by_value: Array, by_first: dict[int, Array], theta: Array
) -> None:
    for t, g in enumerate(closure.reaction.polynomials):
        theta[:, t] += (by_value * means.of(g)).sum(1)
        for j, by_slope in by_first.items():
            theta[:, t] += (by_slope * means.of(derivative(g, j))).sum(1)

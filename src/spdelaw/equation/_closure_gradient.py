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
from spdelaw.equation._polynomial import derivative

Array = np.ndarray

#: How rates enter mean, covariance (both its rows and its columns) and cross-covariance.
RATE_OF = ("bi,bi->bi", "bij,bij->bi", "bij,bij->bj")
BY_RATE = (1.0, 2.0, 1.0)


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
    rate, noise = np.zeros((2, n_batch, n))
    theta = np.zeros((n_batch, len(closure.coefficients)))
    for step in reversed(tape):
        by = _pull_step(closure, step, by, rate, noise, theta)
    m, p, c = by
    if c is not None:  # the cross-covariance starts as the covariance
        p = p + 0.5 * (c + c.transpose(0, 2, 1))
    return Pulled(m, p, rate, noise, theta)


def _pull_step(
    closure: Closure, step: SubStep, by: Moments, rate: Array, noise: Array, theta: Array
) -> Moments:
    """Gradients at the end of a sub-step become those at its start; parameters are added to."""
    nothing = np.zeros(1)
    start = [np.zeros((1, 1, 1)) if own is None else own for own in step.start]
    by_start: list[Array] = [nothing] * 3
    by_slopes: list[list[Array]] = [[nothing] * STAGES for _ in range(3)]
    for i in range(STAGES, -1, -1):
        if i < STAGES:
            of_stage = [slopes[i] for slopes in by_slopes]
            by = _pull_slope(closure, step.stages[i], of_stage, noise, theta)
        for k, (rule, own) in enumerate(zip(step.rules, by, strict=True)):
            if own is None:
                continue
            by_start[k] = by_start[k] + rule.decay[i] * own
            for j, weight in rule.stage[i]:
                by_slopes[k][j] = by_slopes[k][j] + weight * own
            if i:
                by_rate = combine(rule.slope, i, start[k], step.slopes[k])
                rate += BY_RATE[k] * np.einsum(RATE_OF[k], own, by_rate)
    return Moments(by_start[0], by_start[1], None if by.cross is None else by_start[2])


def _pull_slope(
    closure: Closure, stage: Stage, by: list[Array], noise: Array, theta: Array
) -> Moments:
    """Pull-back of the slopes of a stage."""
    r, (state, means, jacobian) = closure.reaction, stage
    (_, covariance, cross), (by_drift, by_spreading, by_turned) = state, by
    n_batch, n = by_drift.shape
    noise += np.einsum("bii->bi", by_spreading)
    by_value = by_drift @ r.analysis.T
    by_first: dict[int, Array] = {}
    m, p, c = np.zeros((n_batch, n)), np.zeros((n_batch, n, n)), None
    if jacobian is not None:
        half = by_spreading @ jacobian
        p = half + half.transpose(0, 2, 1)
        by_jacobian = 2.0 * (by_spreading @ covariance)
        if cross is not None:
            by_jacobian += by_turned.transpose(0, 2, 1) @ cross
            c = by_turned @ jacobian
        flat = by_jacobian.reshape(n_batch, -1)
        by_first = {j: flat @ t.T for j, t in r.jacobian_products.items()}
        for (j, k), products in r.covariance_products.items():
            by_pair = by_value * means.of(closure.second[j, k])
            for i, by_slope in by_first.items():
                by_pair = by_pair + by_slope * means.of(closure.third[i, j, k])
            p += ((0.5 if j == k else 1.0) * by_pair @ products).reshape(-1, n, n)
    for t, g in enumerate(r.polynomials):
        theta[:, t] += (by_value * means.of(g)).sum(1)
        for j, by_slope in by_first.items():
            theta[:, t] += (by_slope * means.of(derivative(g, j))).sum(1)
    for j, operator in r.operators.items():
        by_point = by_value * means.of(closure.first[j])
        for k, by_slope in by_first.items():
            by_point = by_point + by_slope * means.of(closure.second[j, k])
        m += by_point @ operator
    return Moments(m, p, c)

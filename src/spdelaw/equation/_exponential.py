"""Exponential Runge-Kutta steps for ``U' = -rate U + N(U)`` with a diagonal, stiff rate.

With ``z = -rate h`` and ``phi_k(z) = int_0^1 e^((1-s) z) s^(k-1) / (k-1)! ds``, a step is

    U_i = e^(c_i z) u + h sum_{j<i} a_ij(z) N(U_j),    u_next = e^z u + h sum_j b_j(z) N(U_j).

A constant N is integrated exactly whatever the stiffness. The weights are those of Krogstad
(2005), order 4. Derivatives follow from ``phi_k' = phi_k - k phi_{k+1}``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray

#: Stages, and the part of the step at which each stands.
STAGES = 4
NODES = (0.0, 0.5, 0.5, 1.0)


class Weights(NamedTuple):
    """Weights of one step and their derivatives by z, each shaped like the rate.

    Attributes:
        decay: ``e^(c_i z)`` of each stage and, last, of the step.
        stage: ``h a_ij`` by stage i, as pairs (j, weight); row 4 holds ``h b_j``.
        slope: both by the rate, as weights.
    """

    decay: tuple[Array, ...]
    stage: tuple[tuple[tuple[int, Array], ...], ...]
    slope: Any = None


def phi(z: Array, most: int) -> list[Array]:
    """``phi_0 = e^z, phi_1, ..., phi_most`` without loss of digits near 0."""
    z = np.asarray(z, float)
    small = np.abs(z) < 1.0
    near = np.where(small, z, 0.0)
    top = np.zeros_like(near)
    for j in range(18, -1, -1):
        top = near * top + 1.0 / math.factorial(most + j)
    series = [top]
    for k in range(most - 1, -1, -1):
        series.insert(0, near * series[0] + 1.0 / math.factorial(k))
    far = np.where(small, 1.0, z)
    direct = [np.exp(far)]
    for k in range(most):
        direct.append((direct[-1] - 1.0 / math.factorial(k)) / far)
    return [np.where(small, s, d) for s, d in zip(series, direct, strict=True)]


def weights(rate: Array, h: Array | float) -> Weights:
    """Weights of a step ``h`` for each rate; arrays broadcast."""
    z = -np.asarray(rate, float) * h
    p, half = phi(z, 4), phi(0.5 * z, 3)
    slope = [p[k] - k * p[k + 1] for k in range(4)]
    half_slope = [0.5 * (half[k] - k * half[k + 1]) for k in range(3)]
    one = np.ones_like(z)
    decay = (one, half[0], half[0], p[0], p[0])
    # dz / d(rate) = -h
    decay_slope = (0.0 * one, *(-h * s for s in (half_slope[0], half_slope[0], slope[0], slope[0])))
    by_rate = Weights(decay_slope, _rows(half_slope, slope, -h * h))
    return Weights(decay, _rows(half, p, h), by_rate)


def _rows(
    half: list[Array], p: list[Array], h: Array | float
) -> tuple[tuple[tuple[int, Array], ...], ...]:
    both = h * (2.0 * p[2] - 4.0 * p[3])
    return (
        (),
        ((0, 0.5 * h * half[1]),),
        ((0, h * (0.5 * half[1] - half[2])), (1, h * half[2])),
        ((0, h * (p[1] - 2.0 * p[2])), (2, 2.0 * h * p[2])),
        (
            (0, h * (p[1] - 3.0 * p[2] + 4.0 * p[3])),
            (1, both),
            (2, both),
            (3, h * (4.0 * p[3] - p[2])),
        ),
    )


def combine(w: Weights, stage: int, start: Array, slopes: list[Array]) -> Array:
    """``e^(c_i z) u + h sum_j a_ij N_j``; stage 4 is the end of the step.

    With ``w.slope`` its derivative by the rate.
    """
    out = w.decay[stage] * start
    for j, weight in w.stage[stage]:
        out = out + weight * slopes[j]  # a shared start broadcasts against its slopes
    return out

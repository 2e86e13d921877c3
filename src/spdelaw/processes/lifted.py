"""Exact moments over a step where drift and noise are linear in the state.

For ``dc = (A c + a) dt + sum_l sqrt(q_l) (B_l c + gamma b_l) dw_l`` (Ito) the mean ``m = E c`` and
the second moment ``M = E c c'`` obey linear equations,

    m' = A m + a,
    M' = A M + M A' + a m' + m a'
         + sum_l q_l (B_l M B_l' + gamma (B_l m b_l' + b_l m' B_l') + gamma^2 b_l b_l'),

so that ``z = (1, m, M)`` has ``z' = G z`` and ``z(dt) = e^(G dt) z(0)``. Symmetric matrices are
vectors of their upper triangle, with entries off the diagonal times ``sqrt(2)``, so that inner
products stay as they are. G is linear in the rates, q and the coefficients of the terms.

The derivative of the exponential along E is ``int_0^1 e^((1 - s) G) E e^(s G) ds``: by
Gauss-Legendre nodes over a part of the step over which G is small, and from there by doubling.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import scipy

from spdelaw.processes.state_noise import AbstractStateNoise
from spdelaw.processes.terms import Reaction

Array = np.ndarray

#: Most modes whose moments are lifted: G has ``1 + N + N (N + 1) / 2`` rows.
MOST_LIFTED = 16
#: Largest norm over which the nodes integrate, and how many; they err by less than 1e-9.
LARGEST_NORM, NODES = 1.0, 5


@dataclasses.dataclass(frozen=True, eq=False)
class Lift:
    """Parts of the generator G, each (n, n) with ``n = 1 + N + N (N + 1) / 2``.

    Attributes:
        n_modes: N.
        rates: by ``lambda``, (N, n, n).
        terms: by ``theta``, (n_terms, n, n).
        noise: by q times the powers 0, 1 and 2 of ``gamma``, (3, L, n, n).
    """

    n_modes: int
    rates: Array
    terms: Array
    noise: Array

    def generator(self, rates: Array, noise: Array, coefficients: Array, offset: float) -> Array:
        """G of these numbers."""
        slopes = self.slopes(noise, offset)
        return np.tensordot(np.concatenate([rates, noise, coefficients]), slopes[:-1], 1)

    def slopes(self, noise: Array, offset: float) -> Array:
        """Derivatives of G by ``lambda``, q, ``theta`` and ``gamma``, one after the other."""
        by_noise = self.noise[0] + offset * self.noise[1] + offset**2 * self.noise[2]
        by_offset = np.tensordot(noise, self.noise[1] + 2.0 * offset * self.noise[2], 1)
        return np.concatenate([self.rates, by_noise, self.terms, by_offset[None]])

    def pack(self, mean: Array, second: Array, one: float = 1.0) -> Array:
        """``(1, m, M)`` of means (..., N) and symmetric matrices (..., N, N)."""
        i, j, w = _triangle(self.n_modes)
        ones = np.full((*mean.shape[:-1], 1), one)
        return np.concatenate([ones, mean, w * second[..., i, j]], axis=-1)

    def unpack(self, z: Array) -> tuple[Array, Array]:
        """Means and symmetric matrices of vectors (..., n)."""
        n = self.n_modes
        place, weight = _square(n)
        return z[..., 1 : n + 1], np.take(z[..., n + 1 :], place, axis=-1) * weight


@functools.lru_cache(maxsize=16)
def lift(reaction: Reaction, noise: AbstractStateNoise | None) -> Lift | None:
    """Parts of the generator; None where moments do not close, or modes are too many."""
    n = reaction.n_modes
    is_linear = all(sum(powers) <= 1 for g in reaction.polynomials for powers in g)
    if noise is None or not noise.is_linear or not is_linear or n > MOST_LIFTED:
        return None
    states = np.concatenate([np.zeros((1, n)), np.eye(n)])
    ends = [reaction.drift(g, states) for g in reaction.polynomials]
    constants = np.array([end[0] for end in ends]).reshape(-1, n)
    matrices = np.array([(end[1:] - end[0]).T for end in ends]).reshape(-1, n, n)
    decay = -np.einsum("ki,kj->kij", np.eye(n), np.eye(n))
    operators, b = noise.operators, noise.constants
    nothing = np.zeros_like(operators), np.zeros_like(b)
    # The cross terms are what a constant of one adds, less what each part has alone.
    both, linear = _noise_part(operators, b), _noise_part(operators, nothing[1])
    square = _noise_part(nothing[0], b)
    return Lift(
        n,
        _drift_part(decay, np.zeros((n, n))),
        _drift_part(matrices, constants),
        np.stack([linear, both - linear - square, square]),
    )


@functools.lru_cache(maxsize=32)
def _triangle(n: int) -> tuple[Array, Array, Array]:
    """Rows and columns of the upper triangle, and the weights of its entries."""
    i, j = np.triu_indices(n)
    return i, j, np.where(i == j, 1.0, np.sqrt(2.0))


@functools.lru_cache(maxsize=32)
def _square(n: int) -> tuple[Array, Array]:
    """Entry of a triangle that stands for each of a symmetric matrix, and its weight."""
    i, j, w = _triangle(n)
    place, weight = np.zeros((n, n), int), np.zeros((n, n))
    place[i, j] = place[j, i] = np.arange(len(i))
    weight[i, j] = weight[j, i] = 1.0 / w
    return place, weight


def _congruence(a: Array, b: Array) -> Array:
    """``M -> (A M B' + B M A') / 2`` on triangles; (..., n, n)."""
    i, j, w = _triangle(a.shape[-1])

    def at(matrix: Array, rows: Array, columns: Array) -> Array:
        return matrix[..., rows[:, None], columns[None, :]]

    both = at(a, i, i) * at(b, j, j) + at(a, i, j) * at(b, j, i)
    both += at(b, i, i) * at(a, j, j) + at(b, i, j) * at(a, j, i)
    return 0.25 * np.outer(w, w) * both


def _product(matrix: Array, vector: Array) -> Array:
    """``m -> A m b' + b m' A'`` on triangles; (..., n_pairs, N)."""
    i, j, w = _triangle(vector.shape[-1])
    first = matrix[..., i, :] * vector[..., j, None]
    return w[:, None] * (first + matrix[..., j, :] * vector[..., i, None])


def _drift_part(a: Array, constant: Array) -> Array:
    """G of ``dc = (A c + a) dt``; (k, n, n) of k drifts."""
    n = constant.shape[-1]
    identity = np.broadcast_to(np.eye(n), a.shape)
    out = np.zeros((len(a), *[1 + n + n * (n + 1) // 2] * 2))
    out[:, 1 : n + 1, 0] = constant
    out[:, 1 : n + 1, 1 : n + 1] = a
    out[:, n + 1 :, 1 : n + 1] = _product(identity, constant)
    out[:, n + 1 :, n + 1 :] = 2.0 * _congruence(a, identity)
    return out


def _noise_part(operators: Array, constant: Array) -> Array:
    """G of ``dc = (B c + b) dw``; (L, n, n) of L noises."""
    n = constant.shape[-1]
    i, j, w = _triangle(n)
    out = np.zeros((len(operators), *[1 + n + n * (n + 1) // 2] * 2))
    out[:, n + 1 :, 0] = w * constant[:, i] * constant[:, j]
    out[:, n + 1 :, 1 : n + 1] = _product(operators, constant)
    out[:, n + 1 :, n + 1 :] = _congruence(operators, operators)
    return out


def exponential_slopes(generator: Array, along: Array, n_modes: int) -> Array:
    """Derivatives of ``e^G`` along (k, n, n).

    The norm that determines the doublings is that of the moments: what couples them to 1 is
    nilpotent, and of any size.
    """
    norm = np.abs(generator[n_modes + 1 :, n_modes + 1 :]).sum(0).max()
    doublings = int(np.ceil(np.log2(max(norm / LARGEST_NORM, 1.0))))
    part, slopes = generator / 2**doublings, along / 2**doublings
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    times = np.append(0.5 * (1.0 + nodes), 1.0)
    flows: Any = scipy.linalg.expm(times[:, None, None] * part)
    whole, flows, n = flows[-1], flows[:-1], len(part)
    # Nodes are symmetric: those of 1 - s are the same ones backwards.
    left = (0.5 * weights[:, None, None] * flows[::-1]).transpose(1, 0, 2).reshape(n, -1)
    slopes = left @ (slopes[:, None] @ flows).reshape(len(slopes), -1, n)
    for _ in range(doublings):
        slopes = slopes @ whole + whole @ slopes
        whole = whole @ whole
    return slopes

"""Sufficient statistics of complete, noise-free paths of coupled modes.

Products of all pairs of modes, summed over paths and over steps of equal length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.equation import distinct_steps, matrix_transition
from spdelaw.model._coupled_likelihood import CoupledEvaluation
from spdelaw.model._coupled_moments import MatrixSteps, matrix_log_likelihood, matrix_score
from spdelaw.model._parameters import CoupledParameters

Array = np.ndarray


class PairSums(NamedTuple):
    """Sums over paths and over steps of equal length.

    Attributes:
        lengths: of the steps that occur, (U,).
        n_steps, before, cross, after: as in `MatrixSteps`.
        two_lengths: indices into ``lengths`` of two steps in a row, (W, 2).
        two_count: how often they occur, (W,).
        early, late, middle, skip: sums of ``c_t c_{t+1}'``, ``c_{t+1} c_{t+2}'``,
            ``c_{t+1} c_{t+1}'`` and ``c_t c_{t+2}'`` over them, (W, N, N).
        first: ``sum_p (c_0 - mean)(c_0 - mean)'``, (N, N).
    """

    lengths: Array
    n_steps: Array
    before: Array
    cross: Array
    after: Array
    two_lengths: Array
    two_count: Array
    early: Array
    late: Array
    middle: Array
    skip: Array
    first: Array

    @property
    def steps(self) -> MatrixSteps:
        """What the transition likelihood needs."""
        return MatrixSteps(self.n_steps, self.before, self.cross, self.after)

    def joined(self, other: PairSums, between: Array) -> PairSums:
        """Sums of both sets of paths; ``between`` is what their different first means add."""
        constant = ("lengths", "two_lengths")
        total = {
            key: getattr(self, key) + (0.0 if key in constant else getattr(other, key))
            for key in self._fields
        }
        return PairSums(**total)._replace(
            first=self.first + other.first + between,
            lengths=self.lengths,
            two_lengths=self.two_lengths,
        )


def pair_sums(c: Array, times: Array) -> PairSums:
    """Sums of coefficients (N, P, T)."""
    n_paths = c.shape[1]
    lengths, which = distinct_steps(np.diff(times))
    two, which_two = np.unique(np.stack([which[:-1], which[1:]], 1), axis=0, return_inverse=True)
    which_two = which_two.reshape(-1)
    at = np.ascontiguousarray(np.moveaxis(c, -1, 0))
    square, cross = at @ np.swapaxes(at, 1, 2), at[:-1] @ np.swapaxes(at[1:], 1, 2)
    skip = at[:-2] @ np.swapaxes(at[2:], 1, 2)
    start = c[..., 0] - c[..., 0].mean(1, keepdims=True)

    def by_length(values: Array) -> Array:
        return _grouped(values, which, len(lengths))

    def by_two(values: Array) -> Array:
        return _grouped(values, which_two, len(two))

    return PairSums(
        lengths, n_paths * np.bincount(which, minlength=len(lengths)).astype(float),
        by_length(square[:-1]), by_length(cross), by_length(square[1:]),
        two, n_paths * np.bincount(which_two, minlength=len(two)).astype(float),
        by_two(cross[:-1]), by_two(cross[1:]), by_two(square[1:-1]), by_two(skip),
        start @ start.T,
    )  # fmt: skip


def _grouped(values: Array, which: Array, n: int) -> Array:
    out = np.zeros((n, *values.shape[1:]))
    np.add.at(out, which, values)
    return out


def evaluate_pair_sums(
    sums: PairSums, first: Array, n_paths: int, parameters: CoupledParameters
) -> CoupledEvaluation:
    """Log-likelihood of the coefficients and its score; the total stands in for the paths.

    Args:
        sums: of the paths.
        first: mean over paths of ``c_0``, (N,).
        n_paths: number of paths.
        parameters: of the modes.
    """
    step = matrix_transition(parameters.drift, parameters.noise_covariance, sums.lengths)
    total = matrix_log_likelihood(sums.steps, step)
    by_drift, by_noise = matrix_score(sums.steps, step)
    n = parameters.n_modes
    by_mean, by_initial, information = np.zeros(n), np.zeros((n, n)), np.zeros((n, n))
    if parameters.initial_kind != "deterministic":
        v = parameters.initial_covariance
        root = np.linalg.cholesky(v)
        weight = np.linalg.inv(v)
        gap = first - parameters.initial_mean
        spread = sums.first + n_paths * np.outer(gap, gap)
        logs = 2.0 * np.log(np.diag(root)).sum() + n * np.log(2 * np.pi)
        total += -0.5 * (n_paths * logs + np.vdot(weight, spread))
        by_mean = n_paths * weight @ gap
        by_initial = 0.5 * (weight @ spread @ weight - n_paths * weight)
        information = n_paths * weight
    return CoupledEvaluation(
        np.array([total]), by_drift, by_noise, by_mean, by_initial, 0.0, information
    )


def coupled_white_noise_z(sums: PairSums, parameters: CoupledParameters, gram: Array) -> float:
    """Score test of observation noise against none; standard normal without noise.

    Noise of covariance ``r G^-1`` in the coefficients gives successive innovations
    ``e_t = c_{t+1} - F_t c_t`` the covariance ``-r G^-1 F_{t+1}'``; without noise they are
    independent. The score at r = 0 is that covariance, weighted by the precisions of both.
    """
    if not len(sums.two_count):
        return 0.0
    step = matrix_transition(parameters.drift, parameters.noise_covariance, sums.lengths)
    one, two = sums.two_lengths[:, 0].astype(int), sums.two_lengths[:, 1].astype(int)
    now, then = step.factor[one], step.factor[two]
    then_t = np.swapaxes(then, 1, 2)
    product = sums.late - sums.middle @ then_t - now @ sums.skip + now @ sums.early @ then_t
    pull = np.linalg.inv(gram)[None] @ then_t
    weight = np.linalg.solve(step.covariance[one], pull) @ np.linalg.inv(step.covariance[two])
    score = -np.einsum("wij,wij->", weight, product)
    inside = step.covariance[one] @ weight @ step.covariance[two]
    variance = (sums.two_count * np.einsum("wij,wij->w", weight, inside)).sum()
    return float(score / np.sqrt(variance))

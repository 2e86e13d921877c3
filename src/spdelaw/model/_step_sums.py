"""Second moments of the states over steps, and the likelihood and score built on them.

With ``R = S11 - F S01 - S01' F' + F S00 F'`` over all steps that share a transition,

    log p = -1/2 sum [ n log |2 pi Omega| + tr(Omega^-1 R) ].

For complete, noise-free data the sums are those of the data. For anything else they are the
smoother's expectations, and the gradient of this function at them is the exact score of the
observed likelihood (Fisher's identity). One formula serves both, and diagonal operators as well as
matrices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.equation import Transition

Array = np.ndarray


class StepSums(NamedTuple):
    """Sums over the steps of each of U transitions.

    Attributes:
        n_steps: how many, (U,).
        before, cross, after: sums of ``c_t c_t'``, ``c_t c_{t+1}'`` and ``c_{t+1} c_{t+1}'``;
            (U, N) where modes are independent, (U, N, N) else.
    """

    n_steps: Array
    before: Array
    cross: Array
    after: Array

    def around(self, mean: Array, first: tuple[Array, Array]) -> StepSums:
        """Sums of ``c - m`` for a constant m (N,), or one of each transition (U, N).

        ``first`` are the sums of ``c_t`` and of ``c_{t+1}``, (U, N) each.
        """
        apart, m = self.before.ndim == 2, np.broadcast_to(mean, first[0].shape)

        def product(a: Array, b: Array) -> Array:
            return a * b if apart else a[:, :, None] * b[:, None]

        both = self.n_steps.reshape(-1, *(1,) * (self.before.ndim - 1)) * product(m, m)
        moved = [
            product(first[i], m) + product(m, first[j]) - both for i, j in ((0, 0), (0, 1), (1, 1))
        ]
        return StepSums(self.n_steps, *(x - y for x, y in zip(self[1:], moved, strict=True)))


def grouped(values: Array, which: Array, n: int) -> Array:
    """Sums of ``values`` (K, ...) over entries with equal ``which`` (K,); (n, ...)."""
    if n == 1:
        return values.sum(0, keepdims=True)
    if n == len(which) and np.array_equal(which, np.arange(n)):
        return values
    order = np.argsort(which, kind="stable")
    occurring, first = np.unique(which[order], return_index=True)
    out = np.zeros((n, *values.shape[1:]))
    out[occurring] = np.add.reduceat(values[order], first, axis=0)
    return out


def log_likelihood(sums: StepSums, step: Transition) -> float:
    """Log-likelihood of all transitions."""
    residual = _residual(sums, step.factor)
    if residual.ndim == 2:
        omega = step.covariance
        count = sums.n_steps[:, None]
        return float(-0.5 * (count * np.log(2.0 * np.pi * omega) + residual / omega).sum())
    sign, logs = np.linalg.slogdet(2.0 * np.pi * step.covariance)
    if (sign <= 0).any():
        raise np.linalg.LinAlgError("a transition covariance is not positive definite")
    energy = np.einsum("uii->u", np.linalg.solve(step.covariance, residual))
    return float(-0.5 * (sums.n_steps * logs + energy).sum())


def gradients(sums: StepSums, step: Transition) -> tuple[Array, Array]:
    """Gradient of `log_likelihood` by ``F`` and ``Omega`` of each transition."""
    f, residual = step.factor, _residual(sums, step.factor)
    if residual.ndim == 2:
        omega, count = step.covariance, sums.n_steps[:, None]
        by_factor = (sums.cross - f * sums.before) / omega
        return by_factor, 0.5 * (residual / omega - count) / omega
    inverse = np.linalg.inv(step.covariance)
    by_factor = inverse @ (np.swapaxes(sums.cross, 1, 2) - f @ sums.before)
    by_omega = inverse @ residual @ inverse - sums.n_steps[:, None, None] * inverse
    return by_factor, 0.25 * (by_omega + np.swapaxes(by_omega, 1, 2))


def _residual(sums: StepSums, f: Array) -> Array:
    if sums.before.ndim == 2:
        return sums.after - 2.0 * f * sums.cross + f**2 * sums.before
    carried = f @ sums.cross
    spread = f @ sums.before @ np.swapaxes(f, 1, 2)
    return sums.after - carried - np.swapaxes(carried, 1, 2) + spread

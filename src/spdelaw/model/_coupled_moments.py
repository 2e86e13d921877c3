"""Second moments of coupled modes over steps, and the likelihood and score built on them.

With ``R = S11 - F S01 - S01' F' + F S00 F'`` over all steps of one length,

    log p = -1/2 sum [ n log |2 pi Omega| + tr(Omega^-1 R) ].

The sums are those of complete, noise-free paths, or the smoother's expectations: then the
gradient of this function is the exact score of the observed likelihood (Fisher's identity).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.equation import MatrixTransition

Array = np.ndarray


class MatrixSteps(NamedTuple):
    """Sums by length of step.

    Attributes:
        n_steps: transitions, (U,).
        before, cross, after: sums of ``c_t c_t'``, ``c_t c_{t+1}'``, ``c_{t+1} c_{t+1}'``,
            (U, N, N).
    """

    n_steps: Array
    before: Array
    cross: Array
    after: Array

    @classmethod
    def zeros(cls, n_lengths: int, n_modes: int) -> MatrixSteps:
        """No transition yet."""
        matrices = (np.zeros((n_lengths, n_modes, n_modes)) for _ in range(3))
        return cls(np.zeros(n_lengths), *matrices)


def matrix_residual(steps: MatrixSteps, factor: Array) -> Array:
    """``R``; (U, N, N)."""
    carried = factor @ steps.cross
    spread = factor @ steps.before @ np.swapaxes(factor, 1, 2)
    return steps.after - carried - np.swapaxes(carried, 1, 2) + spread


def matrix_log_likelihood(steps: MatrixSteps, transition: MatrixTransition) -> float:
    """Log-likelihood of all transitions."""
    f, omega = transition.factor, transition.covariance
    sign, logs = np.linalg.slogdet(2.0 * np.pi * omega)
    if (sign <= 0).any():
        raise np.linalg.LinAlgError("a transition covariance is not positive definite")
    energy = np.einsum("uii->u", np.linalg.solve(omega, matrix_residual(steps, f)))
    return float(-0.5 * (steps.n_steps * logs + energy).sum())


def matrix_score(steps: MatrixSteps, transition: MatrixTransition) -> tuple[Array, Array]:
    """Gradient of `matrix_log_likelihood` by ``Lambda`` and ``Q``; (N, N) each."""
    f = transition.factor
    inverse = np.linalg.inv(transition.covariance)
    by_factor = inverse @ (np.swapaxes(steps.cross, 1, 2) - f @ steps.before)
    residual = inverse @ matrix_residual(steps, f) @ inverse
    by_covariance = 0.5 * (residual - steps.n_steps[:, None, None] * inverse)
    by_covariance = 0.5 * (by_covariance + np.swapaxes(by_covariance, 1, 2))
    return transition.pull_back(by_factor, by_covariance)

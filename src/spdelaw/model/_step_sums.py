"""Second moments of the states over steps, and the likelihood and score built on them.

With ``R = S11 - F S01 - S01' F' + F S00 F'`` over all steps that share a transition,

    log p = -1/2 sum [ n log |2 pi Omega| + tr(Omega^-1 R) ].

The n of each of U transitions are ``n_steps``, (U,). Sums of ``c_t c_t'``, ``c_t c_{t+1}'`` and
``c_{t+1} c_{t+1}'`` over their steps, S00, S01 and S11, are one array: (3, U, N) where modes are
independent, (3, U, N, N) else.

For complete, noise-free data the sums are those of the data. For anything else they are the
smoother's expectations, and the gradient of this function at them is the exact score of the
observed likelihood (Fisher's identity). One formula serves both, and diagonal operators as well as
matrices.
"""

from __future__ import annotations

import numpy as np

from spdelaw.equation import Transition

Array = np.ndarray


def around(n_steps: Array, sums: Array, mean: Array, first: tuple[Array, Array]) -> Array:
    """Sums of ``c - m`` for a constant m (N,), or one of each transition (U, N).

    ``first`` are the sums of ``c_t`` and of ``c_{t+1}``, (U, N) each.
    """
    apart, m = sums.ndim == 3, np.broadcast_to(mean, first[0].shape)

    def product(a: Array, b: Array) -> Array:
        return a * b if apart else a[:, :, None] * b[:, None]

    both = n_steps.reshape(-1, *(1,) * (sums.ndim - 2)) * product(m, m)
    lags = ((0, 0), (0, 1), (1, 1))
    return sums + both - [product(first[i], m) + product(m, first[j]) for i, j in lags]


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


def log_likelihood(n_steps: Array, sums: Array, step: Transition) -> float:
    """Log-likelihood of all transitions."""
    residual = _residual(sums, step.factor)
    if residual.ndim == 2:
        omega = step.covariance
        logs = n_steps[:, None] * np.log(2.0 * np.pi * omega)
        return float(-0.5 * (logs + residual / omega).sum())
    sign, logs = np.linalg.slogdet(2.0 * np.pi * step.covariance)
    if (sign <= 0).any():
        raise np.linalg.LinAlgError("a transition covariance is not positive definite")
    energy = np.einsum("uii->u", np.linalg.solve(step.covariance, residual))
    return float(-0.5 * (n_steps * logs + energy).sum())


def gradients(n_steps: Array | float, sums: Array, step: Transition) -> tuple[Array, Array]:
    """Gradient of `log_likelihood` by ``F`` and ``Omega`` of each transition."""
    f, residual = step.factor, _residual(sums, step.factor)
    before, cross, _ = sums
    count = np.reshape(n_steps, (-1, *(1,) * (f.ndim - 1)))
    if residual.ndim == 2:
        omega = step.covariance
        return (cross - f * before) / omega, 0.5 * (residual / omega - count) / omega
    inverse = np.linalg.inv(step.covariance)
    by_factor = inverse @ (np.swapaxes(cross, 1, 2) - f @ before)
    by_omega = inverse @ residual @ inverse - count * inverse
    return by_factor, 0.25 * (by_omega + np.swapaxes(by_omega, 1, 2))


def _residual(sums: Array, f: Array) -> Array:
    before, cross, after = sums
    if sums.ndim == 3:
        return after - 2.0 * f * cross + f**2 * before
    carried = f @ cross
    spread = f @ before @ np.swapaxes(f, 1, 2)
    return after - carried - np.swapaxes(carried, 1, 2) + spread

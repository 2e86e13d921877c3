"""One step of coupled modes: the schemes of `_schemes` with matrices for numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.equation import SpectralSPDE, distinct_steps, matrix_transition

Array = np.ndarray


class CoupledSteps(NamedTuple):
    """Matrices of the recursion ``c_{t+1} = F_t c_t + S_t z_t``; each (n_steps, N, N).

    Attributes:
        factor: ``F``.
        amplitude: ``S``.
        driving: share of the step's own normals in the increment of the driving noise ``W``.
        bridge: amplitude of what is left of that increment given those normals.
    """

    factor: Array
    amplitude: Array
    driving: Array
    bridge: Array


def coupled_steps(equation: SpectralSPDE, dt: Array, scheme: str) -> CoupledSteps:
    """Recursion matrices of a scheme for the steps ``dt`` (n_steps,)."""
    lengths, which = distinct_steps(dt)
    make = _exact if scheme == "exact" else _semi_implicit
    rule = make(equation.drift_matrix, equation.noise_covariance, lengths)
    return CoupledSteps(*(matrices[which] for matrices in rule))


def _exact(drift: Array, noise: Array, dt: Array) -> CoupledSteps:
    """``F = e^(-Lambda dt)`` and ``S S' = Omega``.

    The state and the increment of ``W`` form one linear system, so its transition holds their
    joint covariance ``[[Omega, C], [C', Q dt]]``; the bridge is what ``Omega`` leaves of ``Q dt``.
    """
    n = len(drift)
    zero = np.zeros((n, n))
    both = matrix_transition(
        np.block([[drift, zero], [zero, zero]]), np.block([[noise, noise], [noise, noise]]), dt
    )
    omega, cross = both.covariance[:, :n, :n], both.covariance[:, :n, n:]
    root, inverse = _root(omega)
    driving = np.swapaxes(inverse @ cross, 1, 2)
    rest = both.covariance[:, n:, n:] - driving @ np.swapaxes(driving, 1, 2)
    return CoupledSteps(both.factor[:, :n, :n], root, driving, _root(rest)[0])


def _semi_implicit(drift: Array, noise: Array, dt: Array) -> CoupledSteps:
    """``c <- (1 + Lambda dt)^-1 (c + sqrt(Q dt) N)``."""
    length = dt[:, None, None]
    a = np.linalg.inv(np.eye(len(drift)) + length * drift)
    increment = np.sqrt(length) * _root(noise)[0]
    return CoupledSteps(a, a @ increment, increment, np.zeros_like(increment))


def _root(covariance: Array) -> tuple[Array, Array]:
    """Symmetric root and its pseudo-inverse: singular covariances have one as well."""
    values, vectors = np.linalg.eigh(covariance)
    root = np.sqrt(np.maximum(values, 0.0))
    # Below this an eigenvalue is rounding of the others.
    usable = values > 1e-14 * values[..., -1:]
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=usable & (root > 0))
    turned = np.swapaxes(vectors, -1, -2)
    return (vectors * root[..., None, :]) @ turned, (vectors * inverse[..., None, :]) @ turned


def recurse_coupled(state: Array, noise: Array, rule: CoupledSteps) -> Array:
    """``c_{t+1} = F_t c_t + S_t z_t``; works in place on normals (n_paths, n_steps, N)."""
    previous = state
    for t in range(noise.shape[1]):
        now = previous @ rule.factor[t].T + noise[:, t] @ rule.amplitude[t].T
        noise[:, t] = previous = now
    return noise


def mix(matrices: Array, z: Array) -> Array:
    """``A_t z_t`` for normals (n_paths, n_steps, N)."""
    return np.einsum("tij,ptj->pti", matrices, z)

"""From chaos coordinates to coefficients: the linear map, its tail, and their derivatives.

    c_n(t) = e^(-lambda_n t) z0_n + sum_{k <= K} sqrt(q_n) psi_k(t; lambda_n) xi_kn + tail_n(t)

An uncertain initial state is ``z0 = m0 + sqrt(v0) xi_0`` with one more coordinate. Times count
from the initial state.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, NamedTuple, get_args

import numpy as np

from spdelaw.chaos import (
    CosineBasis,
    decay_mean,
    latent_dimension,
    noise_covariance,
    propagate,
    tail_covariance,
    zero_order,
)
from spdelaw.checks import one_of, whole
from spdelaw.equation import decay_mean_slope
from spdelaw.errors import InputError
from spdelaw.model._state_space import StateSpace

Array = np.ndarray
Tail = Literal["modelled", "dropped"]
TAILS: tuple[str, ...] = get_args(Tail)


@dataclasses.dataclass(frozen=True)
class ChaosModel:
    """How the driving noise is expanded in time.

    Args:
        n_time: K, the number of cosines.
        horizon: T, the length of the time interval.
        tail: "modelled" adds the covariance of what lies beyond K, "dropped" leaves it out.
        noise_factor: ``<Q^(1/2) h_l, h_n>``, shape (L, N), where the noise couples the modes;
            it then stands in for the noise of the state space.

    Example:
        >>> ChaosModel(n_time=16, horizon=1.0).latent_dimension(n_modes=8)  # the paper's d
        1032
    """

    n_time: int = 16
    horizon: float = 1.0
    tail: Tail = "modelled"
    noise_factor: Array | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        whole("n_time", self.n_time, 1)
        _ = self.basis
        one_of("tail", self.tail, TAILS)
        if self.noise_factor is not None and np.ndim(self.noise_factor) != 2:
            got = f"shape {np.shape(self.noise_factor)}"
            fix = "leave it out where each mode has its own noise"
            raise InputError("noise_factor", expected="a factor of shape (L, N)", got=got, fix=fix)

    @property
    def basis(self) -> CosineBasis:
        """Functions of time."""
        return CosineBasis(self.horizon)

    def latent_dimension(self, n_modes: int) -> int:
        """``N (1 + K L)``; L = N where each mode has its own noise (paper, section 2.5)."""
        n_noise = n_modes if self.noise_factor is None else len(self.noise_factor)
        return latent_dimension(n_modes, self.n_time, n_noise)


class LatentMap(NamedTuple):
    """Mean of the coefficients and the columns that multiply the coordinates.

    Attributes:
        decay: ``e^(-lambda_n t)``, (T, N).
        columns: (T, N, D), D = K, or 1 + K with the initial state's column first.
        slope: derivative of the columns by ``lambda_n``, with q and v0 held.
    """

    decay: Array
    columns: Array
    slope: Array


def latent_map(state_space: StateSpace, ages: Array, model: ChaosModel) -> LatentMap:
    """The map, for modes with noise of their own."""
    lam, q = state_space.linear.drift, state_space.linear.noise
    response, slope = response_and_slope(model.basis, ages, lam, model.n_time)
    amplitude = np.sqrt(q)[:, None]
    columns = amplitude * response.transpose(0, 2, 1)
    slopes = amplitude * slope.transpose(0, 2, 1)
    decay = zero_order(ages, lam)
    if state_space.initial.kind != "deterministic":
        start = (np.sqrt(state_space.initial.covariance) * decay)[..., None]
        columns = np.concatenate([start, columns], axis=2)
        slopes = np.concatenate([-ages[:, None, None] * start, slopes], axis=2)
    return LatentMap(decay, columns, slopes)


def response_and_slope(
    basis: CosineBasis, ages: Array, eigenvalues: Array, n_time: int
) -> tuple[Array, Array]:
    """``psi_k(t; lambda_n)`` and its derivative by ``lambda_n``; each (T, K, N).

    With ``D = (1 - e^(-lambda t)) / lambda`` and ``s = sqrt(2/T)``, for k > 1,
    ``psi' = [2 lambda (s D - psi) + s (lambda^2 D' - 2 sin^2(wt/2))] / (lambda^2 + w^2)``,
    and ``D' / sqrt(T)`` for k = 1. ``D'`` is a series near rate 0, where its quotient loses
    all digits; the two brackets never cancel each other's leading terms.
    """
    lam, t = np.asarray(eigenvalues, float), np.asarray(ages, float)[:, None]
    psi = propagate(basis, ages, lam, np.ones(len(lam)), n_time).response
    w = np.arange(1, n_time) * (np.pi / basis.horizon)
    droop = (2.0 * np.sin(0.5 * w * t) ** 2)[..., None]
    mean = (t * decay_mean(t * lam))[:, None, :]
    mean_slope = (t**2 * decay_mean_slope(t * lam))[:, None, :]
    s = math.sqrt(2.0 / basis.horizon)
    top = 2.0 * lam * (s * mean - psi[:, 1:]) + s * (lam**2 * mean_slope - droop)
    higher = top / (lam**2 + w[:, None] ** 2)
    return psi, np.concatenate([mean_slope / math.sqrt(basis.horizon), higher], axis=1)


def dense_columns(state_space: StateSpace, ages: Array, model: ChaosModel) -> Array:
    """All columns side by side, (T, N, D): initial states by mode, then (k, l) with l fastest.

    For modes that observations or noise couple. Own noise is the factor ``diag(sqrt(q))``.
    """
    lam, n = state_space.linear.drift, state_space.n_modes
    factor = noise_factor(state_space, model)
    curves = propagate(model.basis, ages, lam, factor, model.n_time)
    columns = np.einsum("tkn,ln->tnkl", curves.response, factor).reshape(len(ages), n, -1)
    if state_space.initial.kind == "deterministic":
        return columns
    start = (np.sqrt(state_space.initial.covariance) * curves.decay)[..., None] * np.eye(n)
    return np.concatenate([start, columns], axis=2)


def noise_factor(state_space: StateSpace, model: ChaosModel) -> Array:
    """``<Q^(1/2) h_l, h_n>``, (L, N)."""
    if model.noise_factor is None:
        return np.diag(np.sqrt(state_space.linear.noise))
    return np.asarray(model.noise_factor, float)


def mode_covariance(state_space: StateSpace, ages: Array, known: Array, model: ChaosModel) -> Array:
    """``Z Z' + tail`` of each mode, the Ornstein-Uhlenbeck covariance; (N, T, T).

    ``known`` are the columns Z of each mode, (N, T, D).
    """
    lam, amplitude = state_space.linear.drift, np.sqrt(state_space.linear.noise)
    tail = tail_covariance(model.basis, ages, lam, amplitude, model.n_time)
    return known @ np.swapaxes(known, 1, 2) + tail


def full_covariance(state_space: StateSpace, ages: Array, model: ChaosModel) -> Array:
    """Covariance of all coefficients, (T N, T N) in the order (time, mode), tail included."""
    lam, factor = state_space.linear.drift, noise_factor(state_space, model)
    whole = noise_covariance(ages, lam, factor).transpose(1, 0, 3, 2)  # (T, N, T, N)
    if state_space.initial.kind != "deterministic":
        start = np.sqrt(state_space.initial.covariance) * zero_order(ages, lam)
        at = np.arange(len(lam))
        whole[:, at, :, at] += start.T[:, :, None] * start.T[:, None, :]
    size = len(ages) * len(lam)
    return whole.reshape(size, size)

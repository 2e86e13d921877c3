"""The numbers that fix the law of the coefficients and of their observation."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from spdelaw.equation import Season, Transition, transition
from spdelaw.model._chain import Prior

Array = np.ndarray
InitialKind = Literal["deterministic", "gaussian", "stationary"]


class Parameters(NamedTuple):
    """Parameters of the state-space model of N modes.

    Attributes:
        eigenvalues: ``lambda``, (N,).
        noise_variance: ``q``, (N,).
        initial_mean: ``m0``, (N,).
        initial_variance: ``v0``, (N,); zero for a deterministic initial state.
        observation_variance: ``r``, one number, or one a point.
        initial_kind: "deterministic", "gaussian" or "stationary".
        season: of the noise, or None.
    """

    eigenvalues: Array
    noise_variance: Array
    initial_mean: Array
    initial_variance: Array
    observation_variance: Array
    initial_kind: InitialKind = "deterministic"
    season: Season | None = None

    @property
    def n_modes(self) -> int:
        """Number of modes N."""
        return len(self.eigenvalues)

    def transition(self, times: Array) -> Transition:
        """Factors and variances of the steps between ``times`` (T, ...); (T - 1, N, ...)."""
        shape = (-1, *(1,) * (times.ndim - 1))
        lam, q = self.eigenvalues.reshape(shape), self.noise_variance.reshape(shape)
        start, end = times[:-1, None], times[1:, None]
        step = transition(lam, q, end - start)
        if self.season is None:
            return step
        return Transition(step.factor, q * self.season.integral(2.0 * lam, start, end))


def chain_prior(parameters: Parameters, times: Array) -> Prior:
    """Markov prior of the free states at ``times`` (T, 1) or (T, P).

    A deterministic initial state is no random variable: the chain starts at the second time,
    with mean ``a_0 m0`` and variance ``omega_0``.
    """
    a, omega = parameters.transition(times)
    mean = parameters.initial_mean[:, None]
    if parameters.initial_kind == "deterministic":
        return Prior(omega[0], a[0] * mean, a[1:], omega[1:])
    variance = np.broadcast_to(parameters.initial_variance[:, None], omega.shape[1:])
    return Prior(variance, mean, a, omega)


class CoupledParameters(NamedTuple):
    """Parameters of N modes that drift, noise or the initial state couple.

    Attributes:
        drift: ``Lambda`` in ``dc = -Lambda c dt + dW``, (N, N).
        noise_covariance: ``Q`` in ``Cov dW = Q dt``, (N, N).
        initial_mean: ``m0``, (N,).
        initial_covariance: ``V0``, (N, N); zero for a deterministic initial state.
        observation_variance: ``r``, one number, or one a point.
        initial_kind: "deterministic", "gaussian" or "stationary".
    """

    drift: Array
    noise_covariance: Array
    initial_mean: Array
    initial_covariance: Array
    observation_variance: Array
    initial_kind: InitialKind = "deterministic"

    @property
    def n_modes(self) -> int:
        """Number of modes N."""
        return len(self.drift)


AnyParameters = Parameters | CoupledParameters


def coupled_parameters(parameters: AnyParameters) -> CoupledParameters:
    """The same law with matrices for spectra."""
    if isinstance(parameters, CoupledParameters):
        return parameters
    lam, q, mean, variance, r, kind, _ = parameters
    return CoupledParameters(np.diag(lam), np.diag(q), mean, np.diag(variance), r, kind)

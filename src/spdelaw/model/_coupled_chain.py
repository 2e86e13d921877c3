"""Gaussian chains of coupled modes: the block elimination of `_chain` with full matrices.

    c_1 ~ N(m, V),    c_{t+1} | c_t ~ N(F_t c_t, Omega_t)

The posterior precision has the blocks ``S_t = G_t + Omega_{t-1}^-1 + F_t' Omega_t^-1 F_t`` and
``-D_t`` with ``D_t = Omega_t^-1 F_t`` below the diagonal. Steps of equal length share their
matrices. The batch is on the last axis: B is 1 where all paths share their pattern, else the
number of paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spdelaw.equation import MatrixTransition, distinct_steps, matrix_transition
from spdelaw.model._batched import apply, invert, multiply
from spdelaw.model._coupled_single import covariances_single, mean_single, sweep_single
from spdelaw.model._parameters import CoupledParameters

Array = np.ndarray


class CoupledPrior(NamedTuple):
    """Markov prior of the free states.

    Attributes:
        transition: of the U lengths of step that occur.
        which: length of each step of the whole record, (T_all - 1, B).
        start: number of fixed states before the first free one, 0 or 1.
        mean: ``m``, (N, B or P).
        precision: ``V^-1``, (N, N, B).
        log_determinant: ``log |prior covariance|``, (B,).
        noise_precision: ``Omega^-1``, (N, N, U).
        coupling: ``D``, (N, N, U).
        pull: ``F' Omega^-1 F``, (N, N, U).
    """

    transition: MatrixTransition
    which: Array
    start: int
    mean: Array
    precision: Array
    log_determinant: Array
    noise_precision: Array
    coupling: Array
    pull: Array

    def scaled(self, r: float) -> CoupledPrior:
        """The same in units of the observation variance: all covariances divided by r."""
        n = len(self.mean) * (len(self.which) + 1 - self.start)
        return self._replace(
            precision=r * self.precision,
            log_determinant=self.log_determinant - n * np.log(r),
            noise_precision=r * self.noise_precision,
            coupling=r * self.coupling,
            pull=r * self.pull,
        )

    def at(self, matrices: Array, t: int) -> Array:
        """Matrices of the step from free state t to the next; (N, N, B)."""
        return matrices[..., self.which[t + self.start]]


def coupled_prior(parameters: CoupledParameters, times: Array) -> CoupledPrior:
    """Markov prior of the free states at ``times`` (T, 1) or (T, P).

    A deterministic initial state is no random variable: the chain starts at the second time,
    with mean ``F_0 m0`` and covariance ``Omega_0``.
    """
    lengths, which = distinct_steps(np.diff(times, axis=0))
    step = matrix_transition(parameters.drift, parameters.noise_covariance, lengths)
    f = np.moveaxis(step.factor, 0, -1)
    inverse, logs = invert(np.moveaxis(step.covariance, 0, -1))
    coupling = multiply(inverse, f)
    pull = multiply(np.swapaxes(f, 0, 1), coupling)
    mean = parameters.initial_mean[:, None]
    fixed = parameters.initial_kind == "deterministic"
    if fixed:
        first = which[0]
        mean = np.einsum("ijb,j->ib", f[..., first], parameters.initial_mean)
        precision, log = inverse[..., first], logs[first]
    else:
        precision, log = invert(parameters.initial_covariance[..., None])
    log_determinant = log + logs[which[int(fixed) :]].sum(0)
    return CoupledPrior(
        step, which, int(fixed), mean, precision, log_determinant, inverse, coupling, pull
    )


class CoupledSweep(NamedTuple):
    """Result of the forward elimination: blocks ``V_t = S_t'^-1`` and vectors ``b_t'``."""

    inverse: Array
    vector: Array
    log_determinant: Array
    prior: CoupledPrior


def sweep_coupled(gram: Array, vector: Array, prior: CoupledPrior) -> CoupledSweep:
    """``S_t' = S_t - D V_{t-1} D'``; gram (T, N, N, B) or its diagonal (T, N, B)."""
    n_times, n_modes = gram.shape[:2]
    batch = max(gram.shape[-1], prior.which.shape[-1])
    if batch == 1:
        return _sweep_shared(gram, vector, prior)
    inverse = np.empty((n_times, n_modes, n_modes, batch))
    vectors = np.empty(np.broadcast_shapes(vector.shape, (n_times, n_modes, batch)))
    log_determinant = np.broadcast_to(prior.log_determinant, batch).copy()
    index = np.arange(n_modes)
    for t in range(n_times):
        if t == 0:
            block = prior.precision + np.zeros(batch)
            vectors[t] = vector[t] + apply(prior.precision, _wide(prior.mean, prior.precision))
        else:
            d = prior.at(prior.coupling, t - 1)
            carry = multiply(*_same(d, inverse[t - 1]))
            block = prior.at(prior.noise_precision, t - 1) - multiply(
                *_same(carry, np.swapaxes(d, 0, 1))
            )
            vectors[t] = vector[t] + apply(carry, vectors[t - 1])
        if t < n_times - 1:
            block = block + prior.at(prior.pull, t)
        if gram.ndim == 4:
            block = block + gram[t]
        else:
            block = block + np.zeros(gram.shape[-1])
            block[index, index] += gram[t]
        inverse[t], logs = invert(0.5 * (block + np.swapaxes(block, 0, 1)))
        log_determinant += logs
    return CoupledSweep(inverse, vectors, log_determinant, prior)


def _sweep_shared(gram: Array, vector: Array, prior: CoupledPrior) -> CoupledSweep:
    matrices = (prior.noise_precision, prior.coupling, prior.pull)
    weight, coupling, pull = (np.moveaxis(m, -1, 0) for m in matrices)
    inverse, vectors, logs = sweep_single(
        gram[..., 0], vector, (prior.mean, prior.precision[..., 0]), (weight, coupling, pull),
        prior.which[prior.start :, 0],
    )  # fmt: skip
    return CoupledSweep(inverse[..., None], vectors, prior.log_determinant + logs, prior)


def mean_coupled(sweep: CoupledSweep) -> Array:
    """Back substitution, ``c_t = V_t (b_t' + D_t' c_{t+1})``; (T, N, P)."""
    if sweep.inverse.shape[-1] == 1:
        return mean_single(sweep.inverse[..., 0], sweep.vector, *shared_steps(sweep.prior))
    mean = np.empty_like(sweep.vector)
    mean[-1] = apply(sweep.inverse[-1], sweep.vector[-1])
    for t in range(len(mean) - 2, -1, -1):
        target = sweep.vector[t] + following(sweep, t, mean[t + 1])
        mean[t] = apply(sweep.inverse[t], target)
    return mean


def shared_steps(prior: CoupledPrior) -> tuple[Array, Array]:
    """``D`` (U, N, N) and the length of each step between free states (T - 1,), for all paths."""
    return np.moveaxis(prior.coupling, -1, 0), prior.which[prior.start :, 0]


def following(sweep: CoupledSweep, t: int, state: Array) -> Array:
    """``D_t' c_{t+1}`` for states (..., N, P)."""
    d = sweep.prior.at(sweep.prior.coupling, t)
    if d.shape[-1] == 1:
        return d[..., 0].T @ state
    return np.einsum("jib,...jb->...ib", d, state)


def covariances_coupled(sweep: CoupledSweep) -> Iterator[tuple[int, Array, Array]]:
    """``t``, ``Cov_t`` and ``Cov(c_t, c_{t+1})``, from the last t on; the last has no cross.

    For paths with patterns of their own; one for all has `covariances_single`.
    """
    covariance = sweep.inverse[-1]
    yield len(sweep.inverse) - 1, covariance, covariance[:0]
    for t in range(len(sweep.inverse) - 2, -1, -1):
        d = np.swapaxes(sweep.prior.at(sweep.prior.coupling, t), 0, 1)
        gain = multiply(*_same(sweep.inverse[t], d))
        cross = multiply(gain, covariance)
        covariance = sweep.inverse[t] + multiply(cross, np.swapaxes(gain, 0, 1))
        yield t, covariance, cross


def all_covariances(sweep: CoupledSweep) -> Array:
    """``Cov_t``; (T, N, N, B)."""
    if sweep.inverse.shape[-1] == 1:
        single = covariances_single(sweep.inverse[..., 0], *shared_steps(sweep.prior))
        return single[0][..., None]
    out = np.empty_like(sweep.inverse)
    for t, covariance, _ in covariances_coupled(sweep):
        out[t] = covariance
    return out


def predicted_coupled(sweep: CoupledSweep, t: int) -> tuple[Array, Array]:
    """Mean (N, P) and covariance (B, N, N) of free state t given the times before it."""
    prior = sweep.prior
    if t == 0:
        covariance = np.linalg.inv(np.moveaxis(prior.precision, -1, 0))
        return prior.mean, covariance
    precision = np.linalg.inv(np.moveaxis(sweep.inverse[t - 1], -1, 0))
    precision = precision - np.moveaxis(prior.at(prior.pull, t - 1), -1, 0)
    filtered = np.linalg.inv(precision)
    which = prior.which[t - 1 + prior.start]
    f, omega = prior.transition.factor[which], prior.transition.covariance[which]
    state = apply(np.moveaxis(filtered, 0, -1), sweep.vector[t - 1])
    covariance = f @ filtered @ np.swapaxes(f, 1, 2) + omega
    return apply(np.moveaxis(f, 0, -1), state), covariance


def _same(a: Array, b: Array) -> tuple[Array, Array]:
    """Both with the larger batch."""
    batch = max(a.shape[-1], b.shape[-1])
    shape = (*a.shape[:2], batch)
    return np.broadcast_to(a, shape), np.broadcast_to(b, shape)


def _wide(mean: Array, precision: Array) -> Array:
    batch = max(mean.shape[-1], precision.shape[-1])
    return np.broadcast_to(mean, (len(mean), batch))

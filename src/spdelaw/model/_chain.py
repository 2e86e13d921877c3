"""Gaussian chains: a Markov prior over the states, collapsed observations, exact posterior.

The states ``c_1, ..., c_T`` (vectors of N modes) have the prior

    c_1 ~ N(m, v),    c_{t+1} | c_t ~ N(a_t c_t, omega_t)    (all diagonal over modes)

and the observations of time t enter as ``-1/2 c' G_t c + b_t' c`` with ``G = Phi' R^-1 Phi``,
``b = Phi' R^-1 y``. The posterior precision is block tridiagonal with diagonal blocks

    S_t = G_t + 1/omega_{t-1} + a_t^2 / omega_t        and off-diagonal blocks  -a_t / omega_t,

so one sweep of block elimination forward (the information filter) and one backward (the
Rauch-Tung-Striebel smoother) give everything. Elimination keeps each block symmetric positive
definite by construction, as a Joseph or square-root form would, at the price of a single
inverse a step. Nothing depends on the number of points behind ``G`` and ``b``.

Two kernels share the formulas: `dense` for modes coupled by their observations, ``G``
(T, N, N, B), as machine code where numba is installed and the data are many, and `diagonal` for
modes that are not, ``G`` (T, N, B). B is 1 where all paths share their pattern, else the number
of paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from spdelaw.model._batched import apply, invert, multiply, symmetric_product
from spdelaw.model._compiler import kernels
from spdelaw.model._tridiagonal import ChainSolution, solve_tridiagonal

Array = np.ndarray

#: Seconds that NumPy takes a step and a number of ``G``, measured on one core ...
NUMPY_STEP, NUMPY_NUMBER = 1.2e-4, 1.8e-8
#: ... and those of one evaluation from which on machine code pays: a fit needs a hundred
#: evaluations or more, and to load the code takes a second.
COMPILED_SECONDS = 1e-2
#: Up to about this many modes; LAPACK on whole matrices is the better way beyond.
COMPILED_MODES = 48


class Prior(NamedTuple):
    """Markov prior; shapes (N, B), (N, B or P), (T - 1, N, B), (T - 1, N, B)."""

    variance: Array
    mean: Array
    factor: Array
    noise: Array


class Posterior(NamedTuple):
    """Posterior of the chain.

    Attributes:
        mean: ``E[c_t | y]``, (T, N, P).
        variance: diagonal of ``Cov(c_t | y)``, (T, N, B).
        lag_covariance: diagonal of ``Cov(c_t, c_{t+1} | y)``, (T - 1, N, B).
        gram_trace: ``sum_t tr(G_t Cov(c_t | y))``, (B,).
        first_covariance: ``Cov(c_1 | y)``, (N, N, B), or (N, B) from the diagonal kernel.
        log_determinant: ``log |S| - log |prior precision|``, (B,).
    """

    mean: Array
    variance: Array
    lag_covariance: Array
    gram_trace: Array
    first_covariance: Array
    log_determinant: Array


class Sweep(NamedTuple):
    """Result of the forward elimination: blocks ``V_t = S_t'^-1``, vectors ``b_t'``."""

    inverse: Array
    vector: Array
    coupling: Array
    log_determinant: Array


def node_precision(prior: Prior) -> Array:
    """Diagonal of the prior precision's diagonal blocks; (T, N, B)."""
    own = np.concatenate([1.0 / prior.variance[None], 1.0 / prior.noise])
    own[:-1] += prior.factor**2 / prior.noise
    return own


def prior_log_determinant(prior: Prior) -> Array:
    """``log |prior precision| = -sum log v - sum log omega``; (B,)."""
    return -np.log(prior.variance).sum(0) - np.log(prior.noise).sum((0, 1))


# -- modes coupled by their observations ------------------------------------------------


def sweep_dense(gram: Array, vector: Array, prior: Prior) -> Sweep:
    """Forward elimination, ``S_t' = S_t - D V_{t-1} D`` with ``D = a / omega``."""
    n_times, n_modes = gram.shape[:2]
    batch = max(gram.shape[-1], prior.noise.shape[-1], prior.variance.shape[-1])
    inverse = np.empty((n_times, n_modes, n_modes, batch))
    vectors = np.empty(np.broadcast_shapes(vector.shape, (n_times, n_modes, batch)))
    own, d = node_precision(prior), prior.factor / prior.noise
    log_determinant = -prior_log_determinant(prior)
    index = np.arange(n_modes)
    # Two buffers for all steps: fresh memory each time would cost as much as the arithmetic.
    block, carry = (np.empty((n_modes, n_modes, batch)) for _ in range(2))
    for t in range(n_times):
        if t == 0:
            block[...] = gram[t]
            vectors[t] = vector[t] + prior.mean / prior.variance
        else:
            np.multiply(inverse[t - 1], d[t - 1][:, None] * d[t - 1], out=carry)
            np.subtract(gram[t], carry, out=block)
            vectors[t] = vector[t] + d[t - 1] * apply(inverse[t - 1], vectors[t - 1])
        block[index, index] += own[t]
        inverse[t], logs = invert(block)
        log_determinant = log_determinant + logs
    return Sweep(inverse, vectors, d, log_determinant)


def mean_dense(sweep: Sweep) -> Array:
    """Back substitution, ``c_t = V_t (b_t' + D c_{t+1})``; (T, N, P)."""
    mean = np.empty_like(sweep.vector)
    mean[-1] = apply(sweep.inverse[-1], sweep.vector[-1])
    for t in range(len(mean) - 2, -1, -1):
        mean[t] = apply(sweep.inverse[t], sweep.vector[t] + sweep.coupling[t] * mean[t + 1])
    return mean


def covariances_backward(sweep: Sweep) -> Iterator[tuple[int, Array, Array]]:
    """``t``, ``Cov_t = V + V D Cov_{t+1} D V`` and ``Cov(c_t, c_{t+1})``, from the last t on.

    The last time has no following one: its cross-covariance is empty.
    """
    covariance = sweep.inverse[-1]
    yield len(sweep.inverse) - 1, covariance, covariance[:0]
    for t in range(len(sweep.inverse) - 2, -1, -1):
        gain = sweep.inverse[t] * sweep.coupling[t]
        cross = multiply(gain, covariance)
        covariance = symmetric_product(cross, gain)
        covariance += sweep.inverse[t]
        yield t, covariance, cross


def covariances_dense(sweep: Sweep) -> tuple[Array, Array]:
    """Full blocks ``Cov_t`` (T, N, N, B) and lag diagonals (T - 1, N, B)."""
    covariance = np.empty_like(sweep.inverse)
    lag = np.empty((len(covariance) - 1, *covariance.shape[2:]))
    for t, block, cross in covariances_backward(sweep):
        covariance[t] = block
        if t < len(lag):
            lag[t] = np.einsum("iib->ib", cross)
    return covariance, lag


def is_shared(gram: Array, prior: Prior) -> bool:
    """Whether all paths share one pattern and one clock."""
    return gram.shape[-1] == 1 and prior.noise.shape[-1] == 1 == prior.variance.shape[-1]


def dense(gram: Array, vector: Array, prior: Prior) -> Posterior:
    """Posterior of coupled modes."""
    if is_shared(gram, prior):
        return _dense_shared(gram, vector, prior)
    if gram.shape[-1] > 1 and _compiling_pays(gram):
        compiled = kernels("_compiled")
        if compiled is not None:
            return _dense_compiled(compiled.solve, gram, vector, prior)
    return _dense_numpy(gram, vector, prior)


def _compiling_pays(gram: Array) -> bool:
    seconds = NUMPY_STEP * len(gram) + NUMPY_NUMBER * gram.size
    return seconds >= COMPILED_SECONDS and gram.shape[1] <= COMPILED_MODES


def solve_shared(gram: Array, vector: Array, prior: Prior) -> ChainSolution:
    """Solution of the chain where all paths share one pattern; batch 1 throughout."""
    own, d = node_precision(prior), prior.factor / prior.noise
    vectors = np.array(vector)
    vectors[0] += prior.mean / prior.variance
    return solve_tridiagonal(gram[..., 0], d[..., 0], vectors, own=own[..., 0], crosses=False)


def _dense_shared(gram: Array, vector: Array, prior: Prior) -> Posterior:
    found = solve_shared(gram, vector, prior)
    variance, lag = np.einsum("tii->ti", found.covariance)[..., None], found.lag[..., None]
    trace = _gram_trace(variance, lag, prior)
    logs = found.log_determinant - prior_log_determinant(prior)
    return Posterior(found.mean, variance, lag, trace, found.covariance[0][..., None], logs)


def _dense_compiled(solve: Callable, gram: Array, vector: Array, prior: Prior) -> Posterior:
    own, d = node_precision(prior), prior.factor / prior.noise
    vectors = np.array(vector)
    vectors[0] += prior.mean / prior.variance
    mean, variance, lag, first, logs = solve(gram, vectors, own, d)
    trace = _gram_trace(variance, lag, prior)
    return Posterior(mean, variance, lag, trace, first, logs - prior_log_determinant(prior))


def _dense_numpy(gram: Array, vector: Array, prior: Prior) -> Posterior:
    sweep = sweep_dense(gram, vector, prior)
    n_times, n_modes, _, batch = sweep.inverse.shape
    variance, lag = np.empty((n_times, n_modes, batch)), np.empty((n_times - 1, n_modes, batch))
    mean, following = np.empty_like(sweep.vector), 0.0
    for t, covariance, cross in covariances_backward(sweep):
        variance[t] = np.einsum("iib->ib", covariance)
        if t < n_times - 1:
            lag[t] = np.einsum("iib->ib", cross)
            following = sweep.coupling[t] * mean[t + 1]
        # Within the same loop, while this step's block is still in cache.
        mean[t] = apply(sweep.inverse[t], sweep.vector[t] + following)
    trace = _gram_trace(variance, lag, prior)
    return Posterior(mean, variance, lag, trace, covariance, sweep.log_determinant)


def _gram_trace(variance: Array, lag: Array, prior: Prior) -> Array:
    """``sum_t tr(G_t Cov_t)`` without G.

    Precision times covariance is the identity, of trace N T; what G leaves of it is the prior's
    share, and the prior is diagonal over modes.
    """
    own = (node_precision(prior) * variance).sum((0, 1))
    between = (prior.factor / prior.noise * lag).sum((0, 1))
    return variance.shape[0] * variance.shape[1] - own + 2.0 * between


# -- modes on their own -------------------------------------------------------------------


def sweep_diagonal(gram: Array, vector: Array, prior: Prior) -> Sweep:
    """The same elimination, one number a mode."""
    own, d = node_precision(prior), prior.factor / prior.noise
    block = np.empty(np.broadcast_shapes(gram.shape, own.shape))
    vectors = np.empty(np.broadcast_shapes(vector.shape, own.shape))
    block[0] = gram[0] + own[0]
    vectors[0] = vector[0] + prior.mean / prior.variance
    for t in range(1, len(block)):
        gain = d[t - 1] / block[t - 1]
        block[t] = gram[t] + own[t] - gain * d[t - 1]
        np.multiply(gain, vectors[t - 1], out=vectors[t])
        vectors[t] += vector[t]
    logs = np.log(block).sum((0, 1)) - prior_log_determinant(prior)
    return Sweep(1.0 / block, vectors, d, logs)


def diagonal(gram: Array, vector: Array, prior: Prior) -> Posterior:
    """Posterior of uncoupled modes."""
    sweep = sweep_diagonal(gram, vector, prior)
    v, d = sweep.inverse, sweep.coupling
    mean = v * sweep.vector
    variance = v.copy()
    gain = v[:-1] * d
    lag = np.empty(gain.shape)
    for t in range(len(v) - 2, -1, -1):
        mean[t] += gain[t] * mean[t + 1]
        lag[t] = gain[t] * variance[t + 1]
        variance[t] += gain[t] * lag[t]
    trace = (gram * variance).sum((0, 1))
    return Posterior(mean, variance, lag, trace, variance[0], sweep.log_determinant)

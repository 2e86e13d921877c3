"""States given the data of a block: what a likelihood and its score need of them.

Four ways through the same elimination: blocks that are all diagonal, one system for paths that
share their pattern, machine code for patterns of their own, and the general one.
"""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import numpy as np

from spdelaw.equation import operators
from spdelaw.model._blocks import apply, diagonal
from spdelaw.model._chain import Prior, along, covariances_backward, sweep
from spdelaw.model._compiler import kernels
from spdelaw.model._step_sums import StepSums, grouped
from spdelaw.model._tridiagonal import ChainSolution, solve_tridiagonal

Array = np.ndarray

#: Seconds that NumPy takes per step and per number of ``G``, measured on one core ...
NUMPY_STEP, NUMPY_NUMBER = 1.2e-4, 1.8e-8
#: ... and those of one evaluation from which on machine code pays: a fit needs a hundred
#: evaluations or more, and to load the code takes a second.
COMPILED_SECONDS = 1e-2
#: Up to about this many modes; LAPACK on whole matrices is the better way beyond.
COMPILED_MODES = 48


class Posterior(NamedTuple):
    """Posterior of the free states.

    Attributes:
        mean: ``E[c_t | y]``, (T, N, P).
        covariance: ``Cov(c_t | y)``, (T, N, N, B), or its diagonal (T, N, B) where the prior leaves
            the modes apart and needs no more.
        cross: ``Cov(c_t, c_{t+1} | y)`` of the steps, likewise.
        first: ``Cov(c_1 | y)`` in full, (N, N, B), or (N, B) where all blocks are diagonal.
        gram_trace: ``sum_t tr(G_t Cov(c_t | y))``, (B,).
        log_determinant: ``log |S| - log |prior precision|``, (B,).
    """

    mean: Array
    covariance: Array
    cross: Array
    first: Array
    gram_trace: Array
    log_determinant: Array

    def scaled(self, r: float) -> Posterior:
        """Covariances in units of the data, from those in units of the observation variance."""
        return self._replace(
            covariance=r * self.covariance, cross=r * self.cross, first=r * self.first
        )


def posterior(gram: Array, vector: Array, prior: Prior) -> Posterior:
    """Posterior of the free states from collapsed observations; see `sweep`."""
    apart = prior.precision.ndim == 2
    if gram.ndim == 3 and apart:
        return _by_diagonals(gram, vector, prior)
    if is_shared(gram, prior):
        return _by_one_chain(gram, vector, prior)
    if gram.ndim == 4 and gram.shape[-1] > 1 and apart and _compiling_pays(gram):
        compiled = kernels("_compiled")
        if compiled is not None:
            return _by_machine_code(compiled, gram, vector, prior)
    return _by_elimination(gram, vector, prior)


def is_shared(gram: Array, prior: Prior) -> bool:
    """Whether all paths share one pattern and one clock."""
    return gram.shape[-1] == prior.precision.shape[-1] == prior.which.shape[-1] == 1


def _compiling_pays(gram: Array) -> bool:
    seconds = NUMPY_STEP * len(gram) + NUMPY_NUMBER * gram.size
    return seconds >= COMPILED_SECONDS and gram.shape[1] <= COMPILED_MODES


def _by_one_chain(gram: Array, vector: Array, prior: Prior) -> Posterior:
    """All paths are columns of one block tridiagonal system."""
    apart = prior.precision.ndim == 2
    found = solve_shared(gram, vector, prior, crosses=not apart)
    covariance, cross = found.covariance[..., None], found.cross[..., None]
    first = covariance[0]
    if apart:
        covariance = np.einsum("tiib->tib", covariance)
        cross = found.lag[..., None]
    trace = gram_trace(covariance, cross, prior.own(), along(prior.coupling, prior.free))
    logs = found.log_determinant + prior.log_determinant
    return Posterior(found.mean, covariance, cross, first, trace, logs)


def solve_shared(gram: Array, vector: Array, prior: Prior, *, crosses: bool) -> ChainSolution:
    """Solution of the chain where all paths share one pattern; batch 1 throughout."""
    own, d = prior.own()[..., 0], np.moveaxis(prior.coupling, -1, 0)
    blocks, added = gram[..., 0], None
    if own.ndim == 2:
        added = own
    else:
        blocks = own + (blocks if blocks.ndim == 3 else operators.embed(blocks))
    vectors = np.array(vector)
    vectors[0] += apply(prior.precision, prior.mean)
    return solve_tridiagonal(blocks, d, vectors, own=added, which=prior.free[:, 0], crosses=crosses)


def _by_diagonals(gram: Array, vector: Array, prior: Prior) -> Posterior:
    """The elimination of `sweep` and its way back where every block is diagonal."""
    own, d = prior.own(), along(prior.coupling, prior.free)
    block = gram + own
    mean = np.empty(np.broadcast_shapes(vector.shape, own.shape))
    mean[0] = vector[0] + prior.precision * prior.mean
    for t in range(1, len(block)):
        gain = d[t - 1] / block[t - 1]
        block[t] -= gain * d[t - 1]
        np.multiply(gain, mean[t - 1], out=mean[t])
        mean[t] += vector[t]
    variance = 1.0 / block
    mean *= variance
    gain = variance[:-1] * d
    cross = np.empty(gain.shape)
    for t in range(len(gain) - 1, -1, -1):
        mean[t] += gain[t] * mean[t + 1]
        cross[t] = gain[t] * variance[t + 1]
        variance[t] += gain[t] * cross[t]
    logs = np.log(block).sum((0, 1)) + prior.log_determinant
    trace = (gram * variance).sum((0, 1))
    return Posterior(mean, variance, cross, variance[0], trace, logs)


def _by_machine_code(compiled: ModuleType, gram: Array, vector: Array, prior: Prior) -> Posterior:
    own, d = prior.own(), along(prior.coupling, prior.free)
    vectors = np.array(vector)
    vectors[0] += apply(prior.precision, prior.mean)
    mean, variance, lag, first, logs = compiled.solve(gram, vectors, own, d)
    trace = gram_trace(variance, lag, own, d)
    return Posterior(mean, variance, lag, first, trace, logs + prior.log_determinant)


def _by_elimination(gram: Array, vector: Array, prior: Prior) -> Posterior:
    found = sweep(gram, vector, prior)
    n_times = len(gram)
    shape = (*prior.precision.shape[:-1], found.inverse.shape[-1])
    narrow = prior.precision.ndim == 2  # the prior's score needs diagonals only
    covariance, cross = np.empty((n_times, *shape)), np.empty((n_times - 1, *shape))
    mean, turned = np.empty_like(found.vector), _turned(along(prior.coupling, prior.free))
    for t, block, between in covariances_backward(found):
        covariance[t] = diagonal(block) if narrow else block
        target = found.vector[t]
        if between is not None:
            cross[t] = diagonal(between) if narrow else between
            target = target + apply(turned[t], mean[t + 1])
        # Within the same loop, while this step's block is still in cache.
        mean[t] = apply(found.inverse[t], target)
    trace = gram_trace(covariance, cross, prior.own(), along(prior.coupling, prior.free))
    return Posterior(mean, covariance, cross, block, trace, found.log_determinant)


def _turned(d: Array) -> Array:
    return d if d.ndim == 3 else np.swapaxes(d, 1, 2)


def gram_trace(covariance: Array, cross: Array, own: Array, d: Array) -> Array:
    """``sum_t tr(G_t Cov_t)`` without G.

    Precision times covariance is the identity, of trace N T; what G leaves of it is the prior's
    share, ``tr(own Cov) - 2 tr(D Cov(c_t, c_{t+1}))``.
    """
    size = covariance.shape[0] * covariance.shape[1]
    axes = tuple(range(covariance.ndim - 1))
    within = (own * covariance).sum(axes)
    between = (d * (cross if cross.ndim == 3 else np.swapaxes(cross, 1, 2))).sum(axes)
    return size - within + 2.0 * between


# -- sums over paths and steps ----------------------------------------------------------------


def over_paths(values: Array, n_paths: int) -> Array:
    """Sum over the last axis, which is 1 where all paths share the value."""
    return values.sum(-1) * (n_paths if values.shape[-1] == 1 else 1)


def step_sums(mean: Array, post: Posterior, prior: Prior, n_paths: int) -> StepSums:
    """Expected second moments over the steps of each transition, the fixed first state included.

    ``mean`` (T_all, N, P) has it; its covariance is zero.
    """
    covariance, cross = post.covariance, post.cross
    if prior.n_fixed:
        zero = np.zeros_like(covariance[:1])
        covariance, cross = np.concatenate([zero, covariance]), np.concatenate([zero, cross])
    n_lengths = len(prior.transition.factor)
    sums = _shared if prior.which.shape[1] == 1 else _per_path
    square, product = sums(mean, covariance, cross, n_paths)
    which = prior.which.reshape(-1)
    count = n_paths if prior.which.shape[1] == 1 else 1.0
    n_steps = count * np.bincount(which, minlength=n_lengths).astype(float)
    parts = (square[:-1], product, square[1:])
    flat = (x.reshape(-1, *x.shape[1 if sums is _shared else 2 :]) for x in parts)
    return StepSums(n_steps, *(grouped(x, which, n_lengths) for x in flat))


def _shared(mean: Array, covariance: Array, cross: Array, n_paths: int) -> tuple[Array, Array]:
    """``sum_p E c_t c_t'`` and ``sum_p E c_t c_{t+1}'`` on one clock; (T, ...)."""
    if covariance.ndim == 3:
        square = np.einsum("tnp,tnp->tn", mean, mean)
        product = np.einsum("tnp,tnp->tn", mean[:-1], mean[1:])
    else:
        turned = np.swapaxes(mean, 1, 2)
        square, product = mean @ turned, mean[:-1] @ turned[1:]
    return square + over_paths(covariance, n_paths), product + over_paths(cross, n_paths)


def _per_path(mean: Array, covariance: Array, cross: Array, n_paths: int) -> tuple[Array, Array]:
    """The same path by path, where each has a clock of its own; (T, P, ...)."""
    if covariance.ndim == 3:
        square, product = mean**2 + covariance, mean[:-1] * mean[1:] + cross
        return np.swapaxes(square, 1, 2), np.swapaxes(product, 1, 2)
    square = np.einsum("tip,tjp->tpij", mean, mean) + np.moveaxis(covariance, -1, 1)
    product = np.einsum("tip,tjp->tpij", mean[:-1], mean[1:]) + np.moveaxis(cross, -1, 1)
    return square, product

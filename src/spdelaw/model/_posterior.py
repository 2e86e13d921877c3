"""States given the data of a block: what a likelihood and its score need of them.

Five ways through the same elimination: blocks that are all diagonal, one system for paths that
share their pattern, the same with blocks that are all alike, machine code for patterns of their
own, and the general one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.model._blocks import as_matrix, diagonal, in_full
from spdelaw.model._chain import Prior, along, moments_backward, sweep
from spdelaw.model._compiler import kernels
from spdelaw.model._steady import LEAST_STEPS, solve_steady
from spdelaw.model._step_sums import grouped
from spdelaw.model._tridiagonal import ChainSolution, solve_tridiagonal

Array = np.ndarray

#: Seconds that NumPy takes per step and per number of ``G``, measured on one core ...
NUMPY_STEP, NUMPY_NUMBER = 1.2e-4, 1.8e-8
#: ... and those of one evaluation from which on machine code pays: a fit needs a hundred
#: evaluations or more, and to load the code takes a second.
COMPILED_SECONDS = 1e-2
#: Up to about this many modes; LAPACK on whole matrices is the better way beyond.
COMPILED_MODES = 48
#: Means, covariances of each state and with the next (diagonals where the prior leaves the modes
#: apart), that of the first state in full, and ``log |S|``.
Solved = tuple[Array, Array, Array, Array, Array]


class Posterior(NamedTuple):
    """Posterior of the free states.

    Attributes:
        mean: ``E[c_t | y]``, (T, N, P).
        spread: sums of covariances over the steps between free states, and over all paths
            (`spdelaw.model._step_sums`); of their diagonals where the prior leaves the modes apart
            and needs no more.
        first: ``Cov(c_1 | y)`` in full, (N, N, B), or (N, B) where all blocks are diagonal.
        log_determinant: ``log |S| - log |prior precision|``, (B,).
        gram_trace: ``sum_t tr(G_t Cov(c_t | y))`` over all paths.
    """

    mean: Array
    spread: Array
    first: Array
    log_determinant: Array
    gram_trace: float = 0.0

    def scaled(self, r: float) -> Posterior:
        """Covariances in units of the data, from those in units of the observation variance."""
        return self._replace(spread=r * self.spread, first=r * self.first)

    def first_as(self, prior: Prior) -> Array:
        """``Cov(c_1 | y)``, or its diagonal where the prior leaves the modes apart."""
        return diagonal(self.first) if prior.precision.ndim == 2 else self.first


def posterior(gram: Array, vector: Array, prior: Prior, n_paths: int) -> Posterior:
    """Posterior of the free states of a chain; arguments as of `sweep`."""
    if prior.precision.ndim == 3 and is_shared(gram, prior) and is_steady(gram, prior):
        mean, sums, first, logs = _by_steady_chain(gram, vector, prior)
        spread = n_paths * sums[:, None]
    else:
        mean, covariance, cross, first, logs = _solved(gram, vector, prior)
        spread = _spread(covariance, cross, prior, n_paths)
    found = Posterior(mean, spread, first, logs + prior.log_determinant)
    return found._replace(gram_trace=_gram_trace(found, prior, n_paths))


def _solved(gram: Array, vector: Array, prior: Prior) -> Solved:
    """By whichever way is the fastest."""
    apart = prior.precision.ndim == 2
    if gram.ndim == 3 and apart:
        return _by_diagonals(gram, vector, prior)
    if is_shared(gram, prior):
        return _by_one_chain(gram, vector, prior)
    compiled = None
    if apart and gram.shape[-1] > 1 and _compiling_pays(gram):
        compiled = kernels("_compiled")
    if compiled is None:
        return _by_elimination(gram, vector, prior)
    return compiled.solve(gram, vector, prior.own(), along(prior.coupling, prior.free))


def is_shared(gram: Array, prior: Prior) -> bool:
    """Whether all paths share one pattern and one clock."""
    return gram.shape[-1] == prior.precision.shape[-1] == prior.which.shape[-1] == 1


def _compiling_pays(gram: Array) -> bool:
    seconds = NUMPY_STEP * len(gram) + NUMPY_NUMBER * gram.size
    return seconds >= COMPILED_SECONDS and gram.shape[1] <= COMPILED_MODES


def is_steady(gram: Array, prior: Prior) -> bool:
    """Whether all steps and all rows of a shared pattern are alike, and many enough."""
    if prior.factor.shape[-1] > 1 or len(gram) < LEAST_STEPS:
        return False
    # Gaps are seldom the same in the middle as at the start: most chains end here.
    return np.array_equal(gram[0], gram[len(gram) // 2]) and bool((gram == gram[:1]).all())


def _by_steady_chain(gram: Array, vector: Array, prior: Prior) -> tuple[Array, ...]:
    """Where all blocks but the first and the last are alike: sums over steps, (3, N, N)."""
    weight, pull = prior.weight[..., 0], prior.pull[..., 0]
    block = as_matrix(gram[0])[..., 0] + weight + pull
    ends = block - weight + prior.precision[..., 0], block - pull
    logs, mean, sums, first = solve_steady(ends, block, prior.coupling[..., 0], vector)
    return mean, sums, first[..., None], np.array([logs])


def _by_one_chain(gram: Array, vector: Array, prior: Prior) -> Solved:
    """All paths are columns of one block tridiagonal system."""
    apart = prior.precision.ndim == 2
    found = solve_shared(gram, vector, prior, crosses=not apart)
    covariance, cross = found.covariance[..., None], found.cross[..., None]
    first = covariance[0]
    if apart:
        covariance = np.einsum("tiib->tib", covariance).copy()  # one walk over all blocks
        cross = found.lag[..., None]
    return found.mean, covariance, cross, first, np.array([found.log_determinant])


def solve_shared(gram: Array, vector: Array, prior: Prior, *, crosses: bool) -> ChainSolution:
    """Solution of the chain where all paths share one pattern; batch 1 throughout."""
    own, d = prior.own()[..., 0], np.moveaxis(prior.coupling, -1, 0)
    blocks = in_full(gram)[..., 0]
    if own.ndim == 3:
        blocks, own = own + blocks, np.zeros(blocks.shape[:2])
    return solve_tridiagonal(blocks, d, vector, own, prior.free[:, 0], crosses=crosses)


def _by_diagonals(gram: Array, vector: Array, prior: Prior) -> Solved:
    """The elimination of `sweep` and its way back where every block is diagonal."""
    block, d, mean = gram + prior.own(), along(prior.coupling, prior.free), np.array(vector)
    for t in range(1, len(block)):
        gain = d[t - 1] / block[t - 1]
        block[t] -= gain * d[t - 1]
        mean[t] += gain * mean[t - 1]
    variance = 1.0 / block
    mean *= variance
    gain = variance[:-1] * d
    cross = np.empty(gain.shape)
    for t in range(len(gain) - 1, -1, -1):
        mean[t] += gain[t] * mean[t + 1]
        cross[t] = gain[t] * variance[t + 1]
        variance[t] += gain[t] * cross[t]
    return mean, variance, cross, variance[0], np.log(block).sum((0, 1))


def _by_elimination(gram: Array, vector: Array, prior: Prior) -> Solved:
    inverse, vectors, logs = sweep(gram, vector, prior)
    n_times, shape = len(gram), (*prior.precision.shape[:-1], inverse.shape[-1])
    narrow = prior.precision.ndim == 2  # the prior's score needs diagonals only
    covariance, cross = np.empty((n_times, *shape)), np.empty((n_times - 1, *shape))
    mean = np.empty_like(vectors)
    for t, state, block, between in moments_backward(inverse, vectors, prior):
        mean[t] = state
        covariance[t] = diagonal(block) if narrow else block
        if between is not None:
            cross[t] = diagonal(between) if narrow else between
    return mean, covariance, cross, block, logs


def _gram_trace(post: Posterior, prior: Prior, n_paths: int) -> float:
    """``sum_t tr(G_t Cov_t)`` over all paths, without G and in the units of the prior.

    Precision times covariance is the identity, of trace N T; what G leaves of it is the prior's
    share, ``tr(own Cov) - 2 tr(D Cov(c_t, c_{t+1}))``.
    """
    size, (before, cross, after) = n_paths * len(post.mean) * len(prior.mean), post.spread
    first = post.first_as(prior)
    turned = cross if cross.ndim == 2 else np.swapaxes(cross, 1, 2)
    pairs = ((prior.weight, after), (prior.pull, before), (-2.0 * prior.coupling, turned))
    steps = sum(float((np.moveaxis(x, -1, 0) * y).sum()) for x, y in pairs)
    own = over_paths((prior.precision * first).sum(tuple(range(first.ndim - 1))), n_paths)
    return size - steps - float(own)


# -- sums over paths and steps ----------------------------------------------------------------


def over_paths(values: Array, n_paths: int) -> Array:
    """Sum over the last axis, which is 1 where all paths share the value."""
    if values.shape[-1] > 1:
        return values.sum(-1)
    return values[..., 0] if n_paths == 1 else values[..., 0] * n_paths


def _spread(covariance: Array, cross: Array, prior: Prior, n_paths: int) -> Array:
    """Covariances (T, ..., B) and crosses (T - 1, ..., B) over the steps of each transition."""
    which, n_lengths = prior.free, prior.factor.shape[-1]
    if which.shape[1] == 1:
        covariance, cross = over_paths(covariance, n_paths), over_paths(cross, n_paths)
    else:
        covariance, cross = np.moveaxis(covariance, -1, 1), np.moveaxis(cross, -1, 1)
    return _grouped([covariance[:-1], cross, covariance[1:]], which, n_lengths)


def _grouped(parts: list[Array], which: Array, n_lengths: int) -> Array:
    """Sums over the steps of each transition."""
    skip = 1 if which.shape[1] == 1 else 2
    flat = (x.reshape(-1, *x.shape[skip:]) for x in parts)
    return np.stack([grouped(x, which.ravel(), n_lengths) for x in flat])


def step_sums(mean: Array, post: Posterior, prior: Prior, n_paths: int) -> tuple[Array, Array]:
    """Steps of each transition, and expected second moments over them.

    ``mean`` (T_all, N, P) has a fixed first state too; its covariance is zero.
    """
    n_lengths, which = prior.factor.shape[-1], prior.which
    count = n_paths if which.shape[1] == 1 else 1.0
    n_steps = count * np.bincount(which.ravel(), minlength=n_lengths).astype(float)
    sums = squares_of(mean, prior) + post.spread
    if prior.n_fixed:
        first = post.first_as(prior)
        per_path = np.moveaxis(np.broadcast_to(first, (*first.shape[:-1], n_paths)), -1, 0)
        np.add.at(sums[2], np.broadcast_to(which[0], n_paths), per_path)
    return n_steps, sums


def squares_of(mean: Array, prior: Prior) -> Array:
    """Sums of ``c_t c_t'``, ``c_t c_{t+1}'`` and ``c_{t+1} c_{t+1}'``, or of their diagonals."""
    now, then, which = mean[:-1], mean[1:], prior.which
    apart, n_lengths = prior.precision.ndim == 2, prior.factor.shape[-1]
    if which.shape[1] > 1:  # each path has a clock of its own
        now, then = np.swapaxes(now, 1, 2), np.swapaxes(then, 1, 2)
        form = "tpi,tpi->tpi" if apart else "tpi,tpj->tpij"
    elif apart:
        form = "tip,tip->ti"
    elif n_lengths == 1:
        flat = [np.moveaxis(x, 1, 0).reshape(x.shape[1], -1) for x in (now, then)]
        pairs = ((flat[0], flat[0]), (flat[0], flat[1]), (flat[1], flat[1]))
        return np.stack([a @ b.T for a, b in pairs])[:, None]
    else:
        form = "tip,tjp->tij"
    pairs = ((now, now), (now, then), (then, then))
    return _grouped([np.einsum(form, a, b) for a, b in pairs], which, n_lengths)

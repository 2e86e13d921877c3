"""States given the data of a block: what a likelihood and its score need of them.

Five ways through the same elimination: blocks that are all diagonal, one system for paths that
share their pattern, the same with blocks that are all alike, machine code for patterns of their
own, and the general one.
"""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import numpy as np

from spdelaw.equation import operators
from spdelaw.model._blocks import apply, as_matrix, diagonal
from spdelaw.model._chain import Prior, along, covariances_backward, sweep
from spdelaw.model._compiler import kernels
from spdelaw.model._steady import LEAST_STEPS, solve_steady
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
        spread: sums of covariances over the steps between free states, and over all paths; of
            their diagonals where the prior leaves the modes apart and needs no more.
        first: ``Cov(c_1 | y)`` in full, (N, N, B), or (N, B) where all blocks are diagonal.
        log_determinant: ``log |S| - log |prior precision|``, (B,).
        gram_trace: ``sum_t tr(G_t Cov(c_t | y))`` over all paths.
    """

    mean: Array
    spread: StepSums
    first: Array
    log_determinant: Array
    gram_trace: float = 0.0

    def scaled(self, r: float) -> Posterior:
        """Covariances in units of the data, from those in units of the observation variance."""
        spread = StepSums(self.spread.n_steps, *(r * part for part in self.spread[1:]))
        return self._replace(spread=spread, first=r * self.first)


def posterior(gram: Array, vector: Array, prior: Prior, n_paths: int) -> Posterior:
    """Posterior of the free states from collapsed observations of paths; see `sweep`."""
    found = _solved(gram, vector, prior, n_paths)
    return found._replace(gram_trace=_gram_trace(found, prior, n_paths))


def _solved(gram: Array, vector: Array, prior: Prior, n_paths: int) -> Posterior:
    """By whichever way is the fastest."""
    apart = prior.precision.ndim == 2
    if gram.ndim == 3 and apart:
        return _by_diagonals(gram, vector, prior, n_paths)
    if is_shared(gram, prior):
        if not apart and is_steady(gram, prior):
            return _by_steady_chain(gram, vector, prior, n_paths)
        return _by_one_chain(gram, vector, prior, n_paths)
    if gram.ndim == 4 and gram.shape[-1] > 1 and apart and _compiling_pays(gram):
        compiled = kernels("_compiled")
        if compiled is not None:
            return _by_machine_code(compiled, gram, vector, prior, n_paths)
    return _by_elimination(gram, vector, prior, n_paths)


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


def _by_steady_chain(gram: Array, vector: Array, prior: Prior, n_paths: int) -> Posterior:
    """The same where all blocks but the first and the last are alike."""
    weight, pull = prior.weight[..., 0], prior.pull[..., 0]
    block, vectors = as_matrix(gram[0])[..., 0] + weight + pull, np.array(vector)
    vectors[0] += apply(prior.precision, prior.mean)
    ends = block - weight + prior.precision[..., 0], block - pull
    found = solve_steady(ends, block, prior.coupling[..., 0], vectors)
    sums = (n_paths * x[None] for x in (found.before, found.cross, found.after))
    logs = found.log_determinant + prior.log_determinant
    return Posterior(found.mean, StepSums(np.zeros(1), *sums), found.first[..., None], logs)


def _by_one_chain(gram: Array, vector: Array, prior: Prior, n_paths: int) -> Posterior:
    """All paths are columns of one block tridiagonal system."""
    apart = prior.precision.ndim == 2
    found = solve_shared(gram, vector, prior, crosses=not apart)
    covariance, cross = found.covariance[..., None], found.cross[..., None]
    first = covariance[0]
    if apart:
        covariance = np.einsum("tiib->tib", covariance).copy()  # one walk over all blocks
        cross = found.lag[..., None]
    spread = _spread(covariance, cross, prior, n_paths)
    logs = found.log_determinant + prior.log_determinant
    return Posterior(found.mean, spread, first, logs)


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


def _by_diagonals(gram: Array, vector: Array, prior: Prior, n_paths: int) -> Posterior:
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
    return Posterior(mean, _spread(variance, cross, prior, n_paths), variance[0], logs)


def _by_machine_code(
    compiled: ModuleType, gram: Array, vector: Array, prior: Prior, n_paths: int
) -> Posterior:
    own, d = prior.own(), along(prior.coupling, prior.free)
    vectors = np.array(vector)
    vectors[0] += apply(prior.precision, prior.mean)
    mean, variance, lag, first, logs = compiled.solve(gram, vectors, own, d)
    spread = _spread(variance, lag, prior, n_paths)
    return Posterior(mean, spread, first, logs + prior.log_determinant)


def _by_elimination(gram: Array, vector: Array, prior: Prior, n_paths: int) -> Posterior:
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
    spread = _spread(covariance, cross, prior, n_paths)
    return Posterior(mean, spread, block, found.log_determinant)


def _turned(d: Array) -> Array:
    return d if d.ndim == 3 else np.swapaxes(d, 1, 2)


def _gram_trace(post: Posterior, prior: Prior, n_paths: int) -> float:
    """``sum_t tr(G_t Cov_t)`` over all paths, without G and in the units of the prior.

    Precision times covariance is the identity, of trace N T; what G leaves of it is the prior's
    share, ``tr(own Cov) - 2 tr(D Cov(c_t, c_{t+1}))``.
    """
    size, s = n_paths * len(post.mean) * len(prior.mean), post.spread
    pairs = ((prior.weight, s.after), (prior.pull, s.before))
    within = sum(float((np.moveaxis(x, -1, 0) * y).sum()) for x, y in pairs)
    coupling = np.moveaxis(prior.coupling, -1, 0)
    cross = s.cross if s.cross.ndim == 2 else np.swapaxes(s.cross, 1, 2)
    between = float((coupling * cross).sum())
    first = post.first
    if prior.precision.ndim == 2 and first.ndim == 3:
        first = np.einsum("iib->ib", first)
    own = over_paths((prior.precision * first).sum(tuple(range(first.ndim - 1))), n_paths)
    return size - within - float(own) + 2.0 * between


# -- sums over paths and steps ----------------------------------------------------------------


def over_paths(values: Array, n_paths: int) -> Array:
    """Sum over the last axis, which is 1 where all paths share the value."""
    if values.shape[-1] > 1:
        return values.sum(-1)
    return values[..., 0] if n_paths == 1 else values[..., 0] * n_paths


def _spread(covariance: Array, cross: Array, prior: Prior, n_paths: int) -> StepSums:
    """Covariances (T, ..., B) and crosses (T - 1, ..., B) over the steps of each transition."""
    which, n_lengths = prior.free, prior.factor.shape[-1]
    if which.shape[1] == 1:
        covariance, cross = over_paths(covariance, n_paths), over_paths(cross, n_paths)
    else:
        covariance, cross = np.moveaxis(covariance, -1, 1), np.moveaxis(cross, -1, 1)
    return _grouped((covariance[:-1], cross, covariance[1:]), which, n_lengths)


def _grouped(parts: tuple[Array, Array, Array], which: Array, n_lengths: int) -> StepSums:
    """Sums over the steps of each transition, the steps not counted."""
    skip = 1 if which.shape[1] == 1 else 2
    flat = (x.reshape(-1, *x.shape[skip:]) for x in parts)
    return StepSums(np.zeros(n_lengths), *(grouped(x, which.ravel(), n_lengths) for x in flat))


def step_sums(mean: Array, post: Posterior, prior: Prior, n_paths: int) -> StepSums:
    """Expected second moments over the steps of each transition, the fixed first state included.

    ``mean`` (T_all, N, P) has it; its covariance is zero.
    """
    n_lengths, which = prior.factor.shape[-1], prior.which
    count = n_paths if which.shape[1] == 1 else 1.0
    n_steps = count * np.bincount(which.ravel(), minlength=n_lengths).astype(float)
    apart = prior.precision.ndim == 2
    sums = squares_of(mean, which, n_lengths, apart)
    before, cross, after = (a + b for a, b in zip(sums[1:], post.spread[1:], strict=True))
    if prior.n_fixed:
        first = post.first
        if apart and first.ndim == 3:
            first = np.einsum("iib->ib", first)
        per_path = np.moveaxis(np.broadcast_to(first, (*first.shape[:-1], n_paths)), -1, 0)
        np.add.at(after, np.broadcast_to(which[0], n_paths), per_path)
    return StepSums(n_steps, before, cross, after)


def squares_of(mean: Array, which: Array, n_lengths: int, apart: bool) -> StepSums:
    """Sums of ``c_t c_t'``, ``c_t c_{t+1}'`` and ``c_{t+1} c_{t+1}'``, or of their diagonals."""
    now, then = mean[:-1], mean[1:]
    if which.shape[1] > 1:  # each path has a clock of its own
        now, then = np.swapaxes(now, 1, 2), np.swapaxes(then, 1, 2)
        form = "tpi,tpi->tpi" if apart else "tpi,tpj->tpij"
    elif apart:
        form = "tip,tip->ti"
    elif n_lengths == 1:
        flat = [np.moveaxis(x, 1, 0).reshape(x.shape[1], -1) for x in (now, then)]
        pairs = ((flat[0], flat[0]), (flat[0], flat[1]), (flat[1], flat[1]))
        return StepSums(np.zeros(1), *((a @ b.T)[None] for a, b in pairs))
    else:
        form = "tip,tjp->tij"
    pairs = ((now, now), (now, then), (then, then))
    return _grouped(tuple(np.einsum(form, a, b) for a, b in pairs), which, n_lengths)

"""Posterior of the states of a block, for its likelihood and score."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import cache, partial
from types import ModuleType
from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.statespace.blocks import as_matrix, diagonal, in_full, invert
from spdelaw.statespace.chain import (
    Prior,
    along,
    grouped,
    moments_backward,
    sweep,
)

# ---------- Machine code by numba
#
# Numba keeps what it compiled on disk: next to the byte code of the module, or in the user's own
# cache folder where that one cannot be written (``NUMBA_CACHE_DIR`` names another). Only the first
# use on a machine waits for the compiler, some seconds; data too small to earn that wait back
# within a fit stay with NumPy, which gives the same answers.


def compiled(function: Callable) -> Callable:
    """Machine code that releases the interpreter lock; kept on disk where that is possible."""
    import numba

    njit = partial(numba.njit, nogil=True, error_model="numpy", fastmath={"contract"})
    try:
        return njit(function, cache=True)
    except RuntimeError:  # no folder to keep it in
        return njit(function)


@cache
def kernels() -> ModuleType | None:
    """The module of compiled kernels, or None where nothing may be compiled."""
    try:
        import numba
    except ImportError:
        return None
    # Kernels that call BLAS hand it integers of 64 bits whose first 32 are all it may read.
    if getattr(numba.config, "DISABLE_JIT", False) or sys.byteorder != "little":
        return None
    return importlib.import_module("spdelaw.statespace.kernels")


# ---------- Block tridiagonal systems: solution and selected inverse
#
# The precision of a Gaussian chain ``c_1, ..., c_T`` has symmetric blocks ``S_t`` on its diagonal
# and ``-D_t`` below it (row t + 1, column t). Elimination forward,
#
#     V_t = (S_t - D_{t-1} V_{t-1} D_{t-1}')^-1,    b_t' = b_t + D_{t-1} V_{t-1} b_{t-1}',
#
# gives ``log |S| = -sum_t log |V_t|``; with ``K_t = V_t D_t'`` the way back gives
#
#     c_t = V_t (b_t' + D_t' c_{t+1}),
#     Cov(c_t, c_{t+1}) = K_t Cov_{t+1},    Cov_t = V_t + K_t Cov_{t+1} K_t'.
#
# All paths that share the matrices are columns of one right-hand side. Machine code takes over
# where numba is installed and there are steps enough; NumPy spends tens of microseconds on the
# calls of one step, whatever the number of modes.


Array = np.ndarray

#: Steps from which on machine code is used: some seconds of NumPy calls within one fit.
COMPILED_STEPS = 250


class ChainSolution(NamedTuple):
    """Moments of the chain.

    Attributes:
        log_determinant: ``log |S|`` of the whole matrix.
        mean: ``c_t``, (T, N, P).
        covariance: ``Cov_t``, (T, N, N).
        cross: ``Cov(c_t, c_{t+1})``, (T - 1, N, N), or no blocks where they were not requested.
        lag: its diagonals, (T - 1, N).
    """

    log_determinant: float
    mean: Array
    covariance: Array
    cross: Array
    lag: Array


def solve_tridiagonal(
    blocks: Array,
    coupling: Array,
    vector: Array,
    added_diagonal: Array,
    which: Array,
    *,
    crosses: bool = True,
) -> ChainSolution:
    """Solution, log-determinant and selected inverse of one block tridiagonal matrix.

    Args:
        blocks: ``S_t``, (T, N, N); left as they are.
        coupling: ``D``, (U, N, N), or its diagonals (U, N) where it couples no modes.
        vector: right-hand sides ``b_t``, (T, N, P).
        added_diagonal: what is added to the diagonals of the blocks, (T, N).
        which: which of the U couplings leads from t to t + 1, (T - 1,).
        crosses: whether ``Cov(c_t, c_{t+1})`` is returned in full.

    Raises:
        numpy.linalg.LinAlgError: where the matrix is not positive definite.
    """
    compiled = kernels() if len(blocks) >= COMPILED_STEPS else None
    solve = solve_with_numpy if compiled is None else compiled.solve_chain
    solution = ChainSolution(*solve(blocks, added_diagonal, coupling, which, vector, crosses))
    if np.isnan(solution.log_determinant):
        raise np.linalg.LinAlgError("a block of the precision is not positive definite")
    return solution if crosses else solution._replace(cross=solution.cross[:0])


def solve_with_numpy(
    blocks: Array,
    added_diagonal: Array,
    coupling: Array,
    which: Array,
    vector: Array,
    crosses: bool,
) -> tuple[float, Array, Array, Array, Array]:
    """Log-determinant (NaN where not positive), means, covariances, crosses and lags."""
    n_times, n, _ = blocks.shape
    d = coupling[:, None] * np.eye(n) if coupling.ndim == 2 else coupling
    inverse, vectors = np.array(blocks, float), np.array(vector, float)
    inverse[:, np.arange(n), np.arange(n)] += added_diagonal
    logs, cross = 0.0, np.empty((n_times - 1, n, n))
    for t in range(n_times):
        if t:
            step = d[which[t - 1]]
            np.matmul(step, inverse[t - 1], out=cross[t - 1])
            inverse[t] -= cross[t - 1] @ step.T
            vectors[t] += cross[t - 1] @ vectors[t - 1]
        factor, failed = scipy.linalg.lapack.dpotrf(inverse[t], lower=1, clean=1)
        if failed:
            return np.nan, vectors, inverse, cross, cross[:, 0]
        logs += 2.0 * float(np.log(factor.diagonal()).sum())
        half = scipy.linalg.lapack.dtrtri(factor, lower=1, overwrite_c=1)[0]
        np.matmul(half.T, half, out=inverse[t])
    _back_substitute(d, which, inverse, cross, vectors)
    return logs, vectors, inverse, cross, np.einsum("tii->ti", cross).copy()


def _back_substitute(d: Array, which: Array, inverse: Array, cross: Array, vectors: Array) -> None:
    """Means into ``vectors``, covariances into ``inverse`` and crosses over ``D_t V_t``."""
    vectors[-1] = inverse[-1] @ vectors[-1]
    for t in range(len(inverse) - 2, -1, -1):
        vectors[t] = inverse[t] @ vectors[t] + cross[t].T @ vectors[t + 1]
        gain = cross[t].T.copy()
        np.matmul(gain, inverse[t + 1], out=cross[t])
        inverse[t] += cross[t] @ gain.T


# ---------- Chains with equal blocks: elimination to the steady state, powers
#
# Where every row has the Gram matrix ``G`` and every step the transition ``F, Omega``, the blocks
# ``V_t`` of the elimination converge, and so do the covariances on the way back; after a few dozen
# steps they are equal to rounding (Anderson and Moore 1979, section 4.4). From there on the means
# follow a recursion with one matrix,
#
#     b_t' = b_t + K b_{t-1}',    c_t = V b_t' + K' c_{t+1},    K = D V,
#
# which doubling turns into a few products of whole matrices: ``x_t += K^s x_{t-s}``, s = 1, 2, 4,
# ...


#: Change of a block, relative to its largest number, that is rounding.
STEADY_TOLERANCE = 1e-14
#: Steps from which on a chain is long enough to become steady.
FEWEST_STEADY_STEPS = 50


def solve_steady(
    ends: tuple[Array, Array], block: Array, d: Array, vector: Array
) -> tuple[float, Array, Array, Array]:
    """Log-determinant of the precision, means and sums of the selected inverse.

    Args:
        ends: first and last diagonal block, (N, N) each.
        block: all other diagonal blocks.
        d: coupling, (N, N).
        vector: right-hand sides, (T, N, P).

    Returns:
        The logarithm; ``c_t``, (T, N, P); sums over steps of ``Cov_t``, ``Cov(c_t, c_{t+1})`` and
        ``Cov_{t+1}``, (3, N, N); ``Cov`` of the first state, (N, N).
    """
    n_times = len(vector)
    inverses, logs = _steady_forward(ends[0], block, d, n_times - 1)
    steady, n_first = inverses[-1], len(inverses)
    last, log = _invert_matrix(ends[1] - d @ steady @ d.T)
    total = sum(logs) + (n_times - 1 - n_first) * logs[-1] + log
    return (
        total,
        _steady_means(inverses, last, d, vector),
        *_steady_covariance_sums(inverses, last, d, n_times),
    )


def _invert_matrix(block: Array) -> tuple[Array, float]:
    inverse, logs = invert(block[..., None])
    return inverse[..., 0], float(logs[0])


def _steady_forward(
    first: Array, block: Array, d: Array, most: int
) -> tuple[list[Array], list[float]]:
    """``V_t`` and ``log |S_t'|`` until they are steady, for ``most`` states at most."""
    v, log = _invert_matrix(first)
    inverses, logs = [v], [log]
    while len(inverses) < most:
        v, log = _invert_matrix(block - d @ inverses[-1] @ d.T)
        moved = np.abs(v - inverses[-1]).max()
        inverses.append(v)
        logs.append(log)
        if moved <= STEADY_TOLERANCE * np.abs(v).max():
            break
    return inverses, logs


def _steady_means(inverses: list[Array], last: Array, d: Array, vector: Array) -> Array:
    """Forward and back substitution; (T, N, P)."""
    n_times, n, n_columns = vector.shape
    x = np.ascontiguousarray(np.moveaxis(vector, 1, 0)).reshape(n, -1)
    k, at = len(inverses), [slice(t * n_columns, (t + 1) * n_columns) for t in range(n_times)]
    for t in range(1, k):
        x[:, at[t]] += d @ (inverses[t - 1] @ x[:, at[t - 1]])
    gain = d @ inverses[-1]
    _add_powers(x[:, (k - 1) * n_columns :], gain, n_columns)
    tail = slice((k - 1) * n_columns, (n_times - 1) * n_columns)
    x[:, at[-1]] = last @ x[:, at[-1]]
    x[:, tail] = inverses[-1] @ x[:, tail]
    _add_powers(x[:, (k - 1) * n_columns :], gain.T, -n_columns)
    for t in range(k - 2, -1, -1):
        x[:, at[t]] = inverses[t] @ (x[:, at[t]] + d.T @ x[:, at[t + 1]])
    return np.moveaxis(x.reshape(n, n_times, n_columns), 0, 1)


def _add_powers(x: Array, gain: Array, shift: int) -> None:
    """``x_t += gain x_{t-1}`` from left to right, in place, a step being ``shift`` columns.

    From right to left where ``shift`` is negative.
    """
    power, size = gain, x.shape[1]
    while abs(shift) < size and np.abs(power).max() > np.finfo(float).tiny:
        left, right = x[:, : size - abs(shift)], x[:, abs(shift) :]
        source, target = (left, right) if shift > 0 else (right, left)
        target += power @ source
        shift, power = 2 * shift, power @ power


def _steady_covariance_sums(
    inverses: list[Array], last: Array, d: Array, n_times: int
) -> tuple[Array, Array]:
    """``Cov_t = V + J Cov_{t+1} J'`` and ``J Cov_{t+1}`` with ``J = V D'``, summed over steps.

    Last, the covariance of the first state.
    """
    gain, covariance = inverses[-1] @ d.T, last
    before, cross = np.zeros_like(last), np.zeros_like(last)
    t, k = n_times - 2, len(inverses)
    while t >= 0:
        if t < k - 1:
            gain = inverses[t] @ d.T
        between = gain @ covariance
        earlier = inverses[min(t, k - 1)] + between @ gain.T
        still = (
            t >= k
            and np.abs(earlier - covariance).max() <= STEADY_TOLERANCE * np.abs(earlier).max()
        )
        times = t - k + 2 if still else 1
        before += times * earlier
        cross += times * between
        covariance, t = earlier, t - times
    return np.stack([before, cross, before - covariance + last]), covariance


# ---------- Posterior of the states of a block
#
# Five ways through the same elimination: blocks that are all diagonal, one system for paths that
# share their pattern, the same with blocks that are all equal, machine code for patterns of their
# own, and the general one.


#: Seconds that NumPy takes per step and per number of ``G``, measured on one core ...
NUMPY_STEP, NUMPY_NUMBER = 1.2e-4, 1.8e-8
#: ... and those of one evaluation from which on machine code pays: a fit needs a hundred
#: evaluations or more, and to load the code takes a third of a second. The rule depends on sizes
#: alone, so that the same fit has the same digits whatever ran before it.
COMPILED_SECONDS = 3e-3
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
            (`spdelaw.statespace.chain`); of their diagonals where the prior leaves the modes apart
            and needs no more.
        first: ``Cov(c_1 | y)`` in full, (N, N, B), or (N, B) where all blocks are diagonal.
        log_determinant: ``log |S| - log |prior precision|``, (B,).
        gram_trace: ``sum_t tr(G_t Cov(c_t | y))`` over all paths.
        columns: solutions of further right-hand sides, in their shape.
    """

    mean: Array
    spread: Array
    first: Array
    log_determinant: Array
    gram_trace: float = 0.0
    columns: Array = np.zeros(0)

    def scaled(self, r: float) -> Posterior:
        """Covariances in units of the data, from those in units of the observation variance."""
        return self._replace(spread=r * self.spread, first=r * self.first)

    def first_as(self, prior: Prior) -> Array:
        """``Cov(c_1 | y)``, or its diagonal where the prior leaves the modes apart."""
        return diagonal(self.first) if prior.precision.ndim == 2 else self.first


def posterior(
    gram: Array, vector: Array, prior: Prior, n_paths: int, columns: Array | None = None
) -> Posterior:
    """Posterior of the free states of a chain; arguments as of `sweep`.

    ``columns`` are further right-hand sides: (T, N, C) of a chain that all paths share, else
    (T, N, C, P).
    """
    shared, sides = is_shared(gram, prior), vector
    if columns is not None:
        joined = (vector, columns) if shared else (vector[:, :, None], columns)
        sides = np.concatenate(joined, axis=2)
    if prior.precision.ndim == 3 and shared and is_steady(gram, prior):
        mean, sums, first, logs = _solve_steady_chain(gram, sides, prior)
        spread = n_paths * sums[:, None]
    else:
        mean, covariance, cross, first, logs = _solve_fastest(gram, sides, prior)
        spread = _covariance_sums(covariance, cross, prior, n_paths)
    solved = np.zeros(0)
    if columns is not None:
        n = vector.shape[2] if shared else 1
        mean, solved = mean[:, :, :n], mean[:, :, n:]
    post = Posterior(
        mean.reshape(vector.shape), spread, first, logs + prior.log_determinant, columns=solved
    )
    return post._replace(gram_trace=_gram_trace(post, prior, n_paths))


def _solve_fastest(gram: Array, vector: Array, prior: Prior) -> Solved:
    """Moments by the fastest method that applies."""
    apart = prior.precision.ndim == 2
    if gram.ndim == 3 and apart:
        return _solve_diagonal(gram, vector, prior)
    if is_shared(gram, prior):
        return _solve_one_chain(gram, vector, prior)
    compiled = _compiled_paths(gram, prior)
    if compiled is None:
        return _solve_by_elimination(gram, vector, prior)
    return compiled.solve_paths(
        gram, vector, prior.diagonal_blocks(), along(prior.coupling, prior.free)
    )


def _compiled_paths(gram: Array, prior: Prior) -> ModuleType | None:
    """Kernels for paths with Gram matrices of their own and modes apart, where they pay."""
    pays = gram.ndim == 4 and gram.shape[-1] > 1 and _compiling_pays(gram)
    return kernels() if pays and prior.precision.ndim == 2 else None


def is_shared(gram: Array, prior: Prior) -> bool:
    """Whether all paths share one pattern and one clock."""
    return gram.shape[-1] == prior.precision.shape[-1] == prior.which.shape[-1] == 1


def _compiling_pays(gram: Array) -> bool:
    seconds = NUMPY_STEP * len(gram) + NUMPY_NUMBER * gram.size
    return seconds >= COMPILED_SECONDS and gram.shape[1] <= COMPILED_MODES


def is_steady(gram: Array, prior: Prior) -> bool:
    """Whether all steps and all rows of a shared pattern are equal, and many enough."""
    if prior.factor.shape[-1] > 1 or len(gram) < FEWEST_STEADY_STEPS:
        return False
    # Gaps are seldom the same in the middle as at the start: most chains end here.
    return np.array_equal(gram[0], gram[len(gram) // 2]) and bool((gram == gram[:1]).all())


def _solve_steady_chain(gram: Array, vector: Array, prior: Prior) -> tuple[Array, ...]:
    """Where all blocks but the first and the last are equal: sums over steps, (3, N, N)."""
    weight, pull = prior.weight[..., 0], prior.pull[..., 0]
    block = as_matrix(gram[0])[..., 0] + weight + pull
    ends = block - weight + prior.precision[..., 0], block - pull
    logs, mean, sums, first = solve_steady(ends, block, prior.coupling[..., 0], vector)
    return mean, sums, first[..., None], np.array([logs])


def _solve_one_chain(gram: Array, vector: Array, prior: Prior) -> Solved:
    """All paths are columns of one block tridiagonal system."""
    apart = prior.precision.ndim == 2
    solution = solve_shared(gram, vector, prior, crosses=not apart)
    covariance, cross = solution.covariance[..., None], solution.cross[..., None]
    first = covariance[0]
    if apart:
        covariance = np.einsum("tiib->tib", covariance).copy()  # one walk over all blocks
        cross = solution.lag[..., None]
    return solution.mean, covariance, cross, first, np.array([solution.log_determinant])


def solve_shared(gram: Array, vector: Array, prior: Prior, *, crosses: bool) -> ChainSolution:
    """Solution of the chain where all paths share one pattern; batch 1 throughout."""
    prior_blocks, d = prior.diagonal_blocks()[..., 0], np.moveaxis(prior.coupling, -1, 0)
    blocks = in_full(gram)[..., 0]
    if prior_blocks.ndim == 3:
        blocks, prior_blocks = prior_blocks + blocks, np.zeros(blocks.shape[:2])
    return solve_tridiagonal(blocks, d, vector, prior_blocks, prior.free[:, 0], crosses=crosses)


def _solve_diagonal(gram: Array, vector: Array, prior: Prior) -> Solved:
    """The elimination of `sweep` and its way back where every block is diagonal."""
    block, d = gram + prior.diagonal_blocks(), along(prior.coupling, prior.free)
    mean = np.array(vector)
    x = mean if mean.ndim == 3 else np.moveaxis(mean, 2, 0)  # a view
    for t in range(1, len(block)):
        gain = d[t - 1] / block[t - 1]
        block[t] -= gain * d[t - 1]
        x[..., t, :, :] += gain * x[..., t - 1, :, :]
    variance = 1.0 / block
    x *= variance
    gain = variance[:-1] * d
    cross = np.empty(gain.shape)
    for t in range(len(gain) - 1, -1, -1):
        x[..., t, :, :] += gain[t] * x[..., t + 1, :, :]
        cross[t] = gain[t] * variance[t + 1]
        variance[t] += gain[t] * cross[t]
    return mean, variance, cross, variance[0], np.log(block).sum((0, 1))


def _solve_by_elimination(gram: Array, vector: Array, prior: Prior) -> Solved:
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

    Precision times covariance is the identity, of trace N T; the remainder without G is the prior's
    share, ``tr(K Cov) - 2 tr(D Cov(c_t, c_{t+1}))``.
    """
    size, (before, cross, after) = n_paths * len(post.mean) * len(prior.mean), post.spread
    first = post.first_as(prior)
    turned = cross if cross.ndim == 2 else np.swapaxes(cross, 1, 2)
    pairs = ((prior.weight, after), (prior.pull, before), (-2.0 * prior.coupling, turned))
    steps = sum(float((np.moveaxis(x, -1, 0) * y).sum()) for x, y in pairs)
    first_trace = over_paths((prior.precision * first).sum(tuple(range(first.ndim - 1))), n_paths)
    return size - steps - float(first_trace)


# -- sums over paths and steps ----------------------------------------------------------------
def over_paths(values: Array, n_paths: int) -> Array:
    """Sum over the last axis, which is 1 where all paths share the value."""
    if values.shape[-1] > 1:
        return values.sum(-1)
    return values[..., 0] if n_paths == 1 else values[..., 0] * n_paths


def _covariance_sums(covariance: Array, cross: Array, prior: Prior, n_paths: int) -> Array:
    """Covariances (T, ..., B) and crosses (T - 1, ..., B) over the steps of each transition."""
    which, n_lengths = prior.free, prior.factor.shape[-1]
    if which.shape[1] == 1:
        covariance, cross = over_paths(covariance, n_paths), over_paths(cross, n_paths)
    else:
        covariance, cross = np.moveaxis(covariance, -1, 1), np.moveaxis(cross, -1, 1)
    return _sums_by_transition([covariance[:-1], cross, covariance[1:]], which, n_lengths)


def _sums_by_transition(parts: list[Array], which: Array, n_lengths: int) -> Array:
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
    return _sums_by_transition([np.einsum(form, a, b) for a, b in pairs], which, n_lengths)

"""States given the data: smoothed moments, draws, innovations; a filter for any dynamics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from spdelaw.errors import EquationError
from spdelaw.processes import operators
from spdelaw.processes.linear import Dynamics, Step, step_by_groups
from spdelaw.statespace.blocks import apply, as_matrix, transpose
from spdelaw.statespace.chain import (
    Prior,
    StateSpace,
    chain_of,
    full_covariance,
    moments_backward,
    predict_step,
    predicted,
    sweep,
    without_response,
)
from spdelaw.statespace.collapse import Block
from spdelaw.statespace.posterior import is_shared, solve_shared

# ---------- Smoothed moments, posterior draws, one-step innovations


Array = np.ndarray

#: Blocks of one path that are predicted at once.
BATCH_BYTES = 4e6
#: Blocks and vectors of `sweep`, and the prior.
Swept = tuple[Array, Array, Prior]


class Smoothed(NamedTuple):
    """``E[c_t | y]`` (T, N, P) and ``Cov(c_t | y)``, (T, N, N, B) or its diagonal (T, N, B)."""

    mean: Array
    covariance: Array


def smooth_states(block: Block, state_space: StateSpace) -> Smoothed:
    """Posterior mean and covariance of the states at every time, a fixed first one included."""
    block, gram, vector, prior = chain_of(block, state_space)
    r = float(state_space.observation_variance)
    scaled = prior.scaled(r)
    if is_shared(gram, prior) and not (gram.ndim == 3 and prior.precision.ndim == 2):
        solved = solve_shared(gram, vector, scaled, crosses=False)
        mean, covariance = solved.mean, r * solved.covariance[..., None]
    else:
        inverse, vectors, _ = sweep(gram, vector, scaled)
        mean, covariance = np.empty_like(vectors), np.empty_like(inverse)
        for t, state, state_covariance, _ in moments_backward(inverse, vectors, scaled):
            mean[t], covariance[t] = state, r * state_covariance
    if prior.n_fixed:
        fixed = np.broadcast_to(state_space.initial.mean[:, None], mean.shape[1:])
        mean = np.concatenate([fixed[None], mean])
        covariance = np.concatenate([np.zeros_like(covariance[:1]), covariance])
    return Smoothed(mean + _response(block, state_space), covariance)


class PathNormals:
    """Normal numbers of each path from a generator of its own, whatever block it is in."""

    def __init__(self, seed: int, paths: Array) -> None:
        self.generators = [np.random.default_rng([seed, int(path)]) for path in paths]

    def standard_normal(self, size: tuple[int, ...]) -> Array:
        """Numbers of that shape, paths last."""
        normals = [generator.standard_normal(size[:-1]) for generator in self.generators]
        return np.stack(normals, axis=-1)


def sample_states(
    block: Block,
    state_space: StateSpace,
    n_samples: int,
    generator: np.random.Generator | PathNormals,
) -> Array:
    """Draws from the joint posterior of all states; (n_samples, T, N, P).

    Backward sampling: ``c_T ~ N(V_T b_T', V_T)``, then
    ``c_t | c_{t+1} ~ N(V_t (b_t' + D_t' c_{t+1}), V_t)``.
    """
    inverse, vectors, prior = _forward_sweep(block, state_space)
    start, (n_times, n_modes, n_paths) = prior.n_fixed, vectors.shape
    draws = np.empty((n_samples, n_times + start, n_modes, n_paths))
    draws[:, :start] = state_space.initial.mean[:, None]
    if inverse.ndim == 4 and inverse.shape[-1] == prior.free.shape[-1] == 1:
        _draw_shared(inverse[..., 0], vectors, prior, draws[:, start:], generator)
        return draws + _response(block, state_space)
    if inverse.ndim == 3:
        roots = np.sqrt(inverse)
    else:
        roots = np.moveaxis(np.linalg.cholesky(np.moveaxis(inverse, -1, 1)), 1, -1)
    pull: Array | float = 0.0
    for t in range(n_times - 1, -1, -1):
        z = generator.standard_normal((n_samples, n_modes, n_paths))
        target = np.broadcast_to(vectors[t] + pull, z.shape)
        draws[:, t + start] = apply(inverse[t], target) + apply(roots[t], z)
        if t:
            pull = apply(transpose(prior.coupling_after(t - 1)), draws[:, t + start])
    return draws + _response(block, state_space)


def _draw_shared(
    inverse: Array,
    vectors: Array,
    prior: Prior,
    draws: Array,
    generator: np.random.Generator | PathNormals,
) -> None:
    """The same in place, where all paths share their matrices: the noise of all times at once."""
    turned = np.moveaxis(as_matrix(prior.coupling), -1, 0).swapaxes(1, 2)
    z = generator.standard_normal((len(inverse), *draws[:, 0].shape))[::-1]
    noise = np.linalg.cholesky(inverse)[:, None] @ z
    pull: Array | float = 0.0
    for t in range(len(inverse) - 1, -1, -1):
        draws[:, t] = inverse[t] @ (vectors[t] + pull) + noise[t]
        if t:
            pull = turned[prior.free[t - 1, 0]] @ draws[:, t]


class OneStep(NamedTuple):
    """Standardised prediction errors ``L^-1 e``, predictions and ``diag L``; each (T, N, P)."""

    error: Array
    predicted: Array
    deviation: Array


def innovations(block: Block, state_space: StateSpace) -> OneStep:
    """Standardised one-step prediction errors of the estimates ``c_hat``, and the predictions.

    Independent standard normals if the model is true. NaN where a row does not determine all
    modes, and at a fixed initial state. Predictions are those of the deviation from the mean.
    """
    swept, r = _forward_sweep(block, state_space), float(state_space.observation_variance)
    free, bare = slice(swept[2].n_fixed, None), without_response(block, state_space.linear)
    of = _errors_of_one_path if block.estimate.shape[-1] == 1 else _errors_by_time
    out = np.full((3, *block.estimate.shape), np.nan)
    out[:, free] = of(swept, bare.estimate[free], block.gram[free], r)
    return OneStep(*out)


def _errors_by_time(swept: Swept, estimate: Array, gram: Array, r: float) -> Array:
    """Errors, predictions and deviations of free states, time by time; (3, T, N, P)."""
    out = np.empty((3, *estimate.shape))
    for t in range(len(gram)):
        out[1, t], covariance = predicted(*swept, t)
        out[0, t], out[2, t] = _standardise(estimate[t] - out[1, t], covariance, gram[t], r)
    return out


def _errors_of_one_path(swept: Swept, estimate: Array, gram: Array, r: float) -> Array:
    """The same of one path, whose times are the batch; many at once."""
    (inverse, vectors, prior), out = swept, np.empty((3, *estimate.shape))
    out[:, :1] = _errors_by_time(swept, estimate[:1], gram[:1], r)
    many = max(1, int(BATCH_BYTES / inverse[0].nbytes))
    for first in range(1, len(gram), many):
        rows = slice(first, min(first + many, len(gram)))
        last = slice(rows.start - 1, rows.stop - 1)
        before = np.moveaxis(inverse[last, ..., 0], 0, -1)
        mean, covariance = predict_step(prior, prior.free[last, 0], before, vectors[last, :, 0].T)
        row_grams = np.moveaxis(gram[rows, ..., 0], 0, -1)
        error, size = _standardise(estimate[rows, :, 0].T - mean, covariance, row_grams, r)
        out[:, rows, :, 0] = error.T, mean.T, size.T
    return out


def component_innovations(
    block: Block, state_space: StateSpace, values: Array, basis: Array
) -> tuple[Array, Array]:
    """Standardised one-step prediction errors of the observed values, and ``diag L``; (P, T, M).

    For complete values (P, T, M) of few components on more modes than they determine; the
    block is their collapse.
    """
    swept, response = _forward_sweep(block, state_space), _response(block, state_space)
    start = swept[2].n_fixed
    out, size = np.full((2, *values.shape), np.nan)
    noise = float(state_space.observation_variance) * np.eye(len(basis))
    for t in range(start, len(block.gram)):
        mean, covariance = predicted(*swept, t - start)
        root = np.linalg.cholesky(basis @ full_covariance(covariance)[0] @ basis.T + noise)
        error = values[:, t].T - basis @ (mean + response[t])
        out[:, t], size[:, t] = np.linalg.solve(root, error).T, np.diag(root)
    return out, size


def _forward_sweep(block: Block, state_space: StateSpace) -> Swept:
    _, gram, vector, prior = chain_of(block, state_space)
    r = float(state_space.observation_variance)
    return *sweep(gram / r, vector / r, prior)[:2], prior


def _response(block: Block, state_space: StateSpace) -> Array:
    """Mean that a forcing drives, (T, N, 1 or P)."""
    return np.moveaxis(state_space.linear.response(block.times), -1, 1)


def _standardise(error: Array, covariance: Array, gram: Array, r: float) -> tuple[Array, Array]:
    """``L^-1 e`` of errors (N, P) with ``L L' = covariance + r G^-1``, and ``diag L``.

    NaN where G is singular.
    """
    if covariance.ndim == gram.ndim == 2:
        noise = np.divide(r, gram, out=np.full(gram.shape, np.nan), where=gram > 0)
        size = np.sqrt(covariance + noise)
        return error / size, size
    out, size = np.full((2, *error.shape), np.nan)
    covariance, gram = full_covariance(covariance), full_covariance(gram)
    scale = np.einsum("bii->bi", gram)
    regular = (scale > 0).all(-1)
    unit = gram[regular] / np.sqrt(scale[regular][:, :, None] * scale[regular][:, None, :])
    regular[regular] = np.linalg.eigvalsh(unit)[:, 0] > 1e-8
    noise = np.zeros(gram.shape)
    noise[regular] = r * np.linalg.inv(gram[regular])
    total = covariance + noise
    some = np.broadcast_to(regular, len(total))
    if some.any():
        root = np.linalg.cholesky(total[some])
        columns = some if len(total) > 1 else slice(None)
        whitener = np.moveaxis(np.linalg.inv(root), 0, -1)
        out[:, columns] = apply(whitener, error[:, columns])
        size[:, columns] = np.einsum("bii->ib", root)
    return out, size


# ---------- Forward filter and backward smoother for any dynamics
#
# A row with ``G = L L'`` is equivalent to observing ``L' c`` with white noise of variance r. The
# state before it is N(m, P); with ``S = L' P L + r`` and the gain ``K = P L S^-1`` it is after it
#
#     m+ = m + K L' (c_hat - m),    P+ = (1 - K L') P (1 - K L')' + r K K',
#
# and ``Dynamics.moments`` carries it to the next time. The log density of a row is
#
#     -1/2 [ n log(2 pi r) + log|S / r| + misfit / r + e' S^-1 e ],    e = L' (c_hat - m).
#
# Only known terms are divided by r, so that noise may be as small as rounding. For linear
# dynamics this is the likelihood of `evaluate_likelihood` in another order of summation; for others
# it is that of the Gaussian closure which their moments are.


#: Eigenvalues of a Gram matrix below this share of the largest are zero.
RANK_TOLERANCE = 1e-14


class Filtered(NamedTuple):
    """Paths through the filter.

    Attributes:
        log_likelihood: one term per time and path, (T, P).
        mean, covariance: after each observation, (T, P, N) and (T, P, N, N).
        predicted_mean, predicted_covariance: before it.
        steps: the moments of each step of all paths, T - 1 of them.
    """

    log_likelihood: Array
    mean: Array
    covariance: Array
    predicted_mean: Array
    predicted_covariance: Array
    steps: tuple[Step, ...]


def forward_filter(block: Block, state_space: StateSpace, roots: Array | None = None) -> Filtered:
    """Filter all paths of a block together.

    ``roots`` are those of `gram_roots`, where they are at hand from another call.
    """
    dynamics, r = state_space.dynamics, float(state_space.observation_variance)
    n_times, n, n_paths = block.estimate.shape
    roots = gram_roots(block) if roots is None else roots
    times, estimate = block.times, block.estimate.transpose(0, 2, 1)
    m = np.broadcast_to(state_space.initial.mean + dynamics.response(block.times[0]), (n_paths, n))
    p = np.tile(operators.as_matrix(state_space.initial.covariance), (n_paths, 1, 1))
    logs, after, before, steps = [], [], [], []
    for t in range(n_times):
        if t:
            step = move(dynamics, m, p, times[t - 1], times[t] - times[t - 1])
            steps.append(step._replace(pull_back=None))
            m, p = step.mean, step.covariance
        before.append((m, p))
        log, m, p = update(m, p, roots[t], estimate[t], r)
        logs.append(log)
        after.append((m, p))
    # Terms that do not depend on the state are added to the first row.
    constant = block.n_values * np.log(2 * np.pi * r) + block.misfit / r - block.log_weight
    logs[0] = logs[0] - 0.5 * constant
    m, p, earlier, wider = (np.stack(x) for y in (after, before) for x in zip(*y, strict=True))
    return Filtered(np.stack(logs), m, p, earlier, wider, tuple(steps))


def move(dynamics: Dynamics, mean: Array, covariance: Array, start: Array, dt: Array) -> Step:
    """Step of each path from ``start`` on over ``dt``; (1,) of all, or (P,) of each.

    Paths whose steps begin together and are equally long move together.
    """
    spans, which = np.stack([start, dt], axis=1), np.zeros(len(mean), int)
    if len(spans) > 1:
        spans, which = np.unique(spans, axis=0, return_inverse=True)

    def moments(k: int, mean: Array, covariance: Array) -> Step:
        step = dynamics.moments(mean, covariance, *map(float, spans[k]))
        if np.shape(step.mean) != mean.shape or np.shape(step.covariance) != covariance.shape:
            expected = f"moments of all states at once, {mean.shape} and {covariance.shape}"
            got = f"{np.shape(step.mean)} and {np.shape(step.covariance)}"
            fix = f"write {type(dynamics).__name__}.moments for (..., N) and (..., N, N)"
            raise EquationError("dynamics", expected=expected, got=got, fix=fix)
        return step

    return step_by_groups(which.ravel(), mean, covariance, moments)


def update(
    m: Array, p: Array, root: Array, estimate: Array, r: float
) -> tuple[Array, Array, Array]:
    """Log density of a row of each path given its past, and the moments of the state after it.

    ``root`` is L with ``G = L L'``, (P or 1, N, N). Without the terms that do not depend on the
    state, ``-1/2 [n log(2 pi r) + misfit / r]``.
    """
    turned, identity = root.swapaxes(-1, -2), np.eye(m.shape[1])
    spread = p @ root
    inner = turned @ spread + r * identity
    error = turned @ (estimate - m)[..., None]
    solved = np.linalg.solve(inner, np.concatenate([spread.swapaxes(-1, -2), error], axis=-1))
    gain, energy = solved[..., :-1].swapaxes(-1, -2), (error * solved[..., -1:]).sum((1, 2))
    complement = identity - gain @ turned
    log_ratio = np.linalg.slogdet(inner)[1] - len(identity) * np.log(r)
    after = complement @ p @ complement.swapaxes(-1, -2) + r * gain @ gain.swapaxes(-1, -2)
    return -0.5 * (log_ratio + energy), m + (gain @ error)[..., 0], after


def gram_roots(block: Block) -> Array:
    """``L`` with ``G = L L'`` of each row, (T, P or 1, N, N); zero columns at a lower rank."""
    values, vectors = np.linalg.eigh(block.matrices)
    kept = values > RANK_TOLERANCE * values[..., -1:]
    return vectors * np.sqrt(np.where(kept, values, 0.0))[..., None, :]


def smoother_gain(step: Step) -> Array:
    """``C P^-1`` of each path, with C the covariance of a state and the next; (P, N, N)."""
    inverse = np.linalg.pinv(step.covariance, rcond=1e-13, hermitian=True)
    return step.cross @ inverse


def rts_smoother(filtered: Filtered) -> tuple[Array, Array]:
    """Means (T, P, N) and covariances (T, P, N, N) given all data (Rauch, Tung, Striebel 1965)."""
    mean, covariance = filtered.mean.copy(), filtered.covariance.copy()
    for t in range(len(mean) - 2, -1, -1):
        step = filtered.steps[t]
        gain = smoother_gain(step)
        mean[t] += (gain @ (mean[t + 1] - step.mean)[..., None])[..., 0]
        covariance[t] += gain @ (covariance[t + 1] - step.covariance) @ gain.swapaxes(-1, -2)
    return mean, covariance


class FilterEvaluation(NamedTuple):
    """Log-likelihood of each path under dynamics of any kind; (P,)."""

    log_likelihood: Array


def evaluate_filter(
    blocks: Iterable[Block], state_space: StateSpace, roots: Iterable[Array]
) -> FilterEvaluation:
    """Log-likelihood of the paths of all blocks, with `gram_roots` of each."""
    pairs = zip(blocks, roots, strict=True)
    terms = [filter_log_likelihood(block, state_space, root) for block, root in pairs]
    return FilterEvaluation(np.concatenate(terms))


def filter_log_likelihood(
    block: Block, state_space: StateSpace, roots: Array | None = None
) -> Array:
    """Log-likelihood of each path of a block; (P,)."""
    return forward_filter(block, state_space, roots).log_likelihood.sum(0)


def smooth_block(block: Block, state_space: StateSpace) -> Smoothed:
    """Smoothed means (T, N, P) and covariances (T, N, N, P) of every path of a block."""
    mean, covariance = rts_smoother(forward_filter(block, state_space))
    return Smoothed(np.moveaxis(mean, 1, -1), np.moveaxis(covariance, 1, -1))

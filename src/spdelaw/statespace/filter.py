"""States given the data: smoothed moments, draws, innovations; filter and score of any dynamics."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spdelaw.errors import ConvergenceError, EquationError
from spdelaw.processes import operators
from spdelaw.processes.linear import Dynamics, Step, step_by_groups
from spdelaw.statespace.blocks import apply, as_matrix, in_full, transpose
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


# ---------- Filter, score and smoother for any dynamics
#
# Between observations `Dynamics.moments` moves a Gaussian N(m, P). A row with collapsed
# observations ``G = L L', c_hat, RSS`` (`collapse`) is equivalent to observing ``L' c`` with white
# noise of variance r. With ``S = L' P L + r``, ``W = L S^-1 L'`` and ``M^-1 = 1 - P W``,
#
#     delta = c_hat - m,    g = W delta,    s = M^-1 delta,
#     log p = -1/2 (n log 2 pi r - log w + log |S / r| + RSS / r + delta' g),
#     m+ = m + P g,         P+ = M^-1 P M^-T + r K K',    K = P L S^-1.
#
# Only known terms are divided by r, so that noise may be as small as rounding, and points may be
# missing altogether (G = 0). For linear dynamics this is the likelihood of `evaluate_likelihood` in
# another order of summation; for others it is that of the Gaussian closure which their moments are.
#
# Gradients run backwards through the same steps, by the pull-back of each move. Moves are kept
# where they fit into `TAPE_BYTES`, and computed again on the way where they do not.
#
# The first states of a bistable field are not Gaussian, and no Gaussian start makes their
# likelihood honest. Terms before ``burn`` are left out: what is left is the density of the later
# observations given the first ones.


#: Eigenvalues of a Gram matrix below this share of the largest are zero.
RANK_TOLERANCE = 1e-14
#: Most bytes of kept moves, and matrices that a sub-step of a move keeps.
TAPE_BYTES, TAPE_MATRICES = 3e8, 14


class Scores(NamedTuple):
    """Log-likelihood of each term, (n,), and its gradients by the numbers of a law, (n, ...).

    Terms are transitions of complete states, or paths. ``by`` has the parameters of the dynamics by
    name, ``observation`` for the variance r, ``initial_mean`` and ``initial_variance``; it is empty
    where dynamics have no pull-back, or only the value was requested.
    """

    log_likelihood: Array
    by: dict[str, Array]
    #: The likelihood of any dynamics is not quadratic in the initial mean.
    initial_information: Array = np.zeros((0, 0))


class Row(NamedTuple):
    """One time of the filter, as its pull-back needs it.

    Attributes:
        root: ``L``, (P or 1, N, N).
        predicted_mean, predicted_covariance: state before the update, (P, N) and (P, N, N).
        mean, covariance: state after it.
        complement, gain, residual: ``M^-1``, g and s.
        log_likelihood: without terms that do not depend on the state, (P,).
        step: the move to this time; None at the first one.
    """

    root: Array
    predicted_mean: Array
    predicted_covariance: Array
    mean: Array
    covariance: Array
    complement: Array
    gain: Array
    residual: Array
    log_likelihood: Array
    step: Step | None


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


def forward_filter(block: Block, state_space: StateSpace) -> Filtered:
    """Filter all paths of a block together.

    `ConvergenceError` where a state runs away between two observations.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rows, r = _filter_rows(block, state_space), float(state_space.observation_variance)
    if not all(np.isfinite(row.covariance).all() and np.isfinite(row.mean).all() for row in rows):
        expected = "states that stay finite between observations"
        got = "states that diverge, as the law is unstable"
        fix = "fit with a stabilising higher power, such as u^3, or observe more often"
        raise ConvergenceError("law", expected=expected, got=got, fix=fix)
    names = ("mean", "covariance", "predicted_mean", "predicted_covariance")
    states: dict[str, Any] = {
        name: np.stack([getattr(row, name) for row in rows]) for name in names
    }
    logs = np.stack([row.log_likelihood for row in rows])
    logs[0] -= 0.5 * _constant(block, block.n_values, r)
    steps = tuple(row.step for row in rows[1:] if row.step)
    return Filtered(logs, steps=steps, **states)


def _constant(block: Block, n_values: Array, r: float) -> Array:
    """Terms that do not depend on the state, times -2; (P,)."""
    return np.asarray(n_values * np.log(2.0 * np.pi * r) + block.misfit / r - block.log_weight)


def _filter_rows(
    block: Block, state_space: StateSpace, roots: Array | None = None, tapes: bool = False
) -> list[Row]:
    dynamics, r = state_space.dynamics, float(state_space.observation_variance)
    n_times, n, n_paths = block.estimate.shape
    roots, times = gram_roots(block) if roots is None else roots, block.times
    m = np.broadcast_to(state_space.initial.mean + dynamics.response(times[0]), (n_paths, n))
    p = np.tile(operators.as_matrix(state_space.initial.covariance), (n_paths, 1, 1))
    step: Step | None = None
    rows: list[Row] = []
    for t in range(n_times):
        if t:
            step = move(dynamics, m, p, times[t - 1], times[t] - times[t - 1])
            m, p = step.mean, step.covariance
            step = step if tapes else step._replace(pull_back=None)
        rows.append(update(m, p, roots[t], block.estimate[t].T, r, step))
        m, p = rows[-1].mean, rows[-1].covariance
    return rows


def move(dynamics: Dynamics, mean: Array, covariance: Array, start: Array, dt: Array) -> Step:
    """Step of each path from ``start`` on over ``dt``; (1,) of all, or (P,) of each.

    Paths whose steps begin together and are equally long move together; all of them, where the
    dynamics take steps of different lengths at once.
    """
    spans, which = np.stack([start, dt], axis=1), np.zeros(len(mean), int)
    if len(spans) > 1 and dynamics.moves_steps_together:
        return dynamics.moments(mean, covariance, 0.0, dt if np.ptp(dt) > 0 else float(dt[0]))  # type: ignore[arg-type]
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


def update(m: Array, p: Array, root: Array, estimate: Array, r: float, step: Step | None) -> Row:
    """A row of each path given its past, and the moments of the state after it."""
    turned, identity = root.swapaxes(-1, -2), np.eye(m.shape[1])
    spread, delta = p @ root, (estimate - m)[..., None]
    inner = turned @ spread + r * identity
    error = turned @ delta
    solved = np.linalg.solve(inner, np.concatenate([spread.swapaxes(-1, -2), error], axis=-1))
    factor = solved[..., :-1].swapaxes(-1, -2)  # K
    complement = identity - factor @ turned
    log_ratio = np.linalg.slogdet(inner)[1] - len(identity) * np.log(r)
    after = complement @ p @ complement.swapaxes(-1, -2) + r * factor @ factor.swapaxes(-1, -2)
    return Row(
        root,
        m,
        p,
        m + (factor @ error)[..., 0],
        after,
        complement,
        (root @ solved[..., -1:])[..., 0],
        (complement @ delta)[..., 0],
        -0.5 * (log_ratio + (error * solved[..., -1:]).sum((1, 2))),
        step,
    )


def gram_roots(block: Block) -> Array:
    """``L`` with ``G = L L'`` of each row, (T, P or 1, N, N); zero columns at a lower rank."""
    values, vectors = np.linalg.eigh(block.matrices)
    kept = values > RANK_TOLERANCE * values[..., -1:]
    return vectors * np.sqrt(np.where(kept, values, 0.0))[..., None, :]


def filter_scores(
    block: Block,
    state_space: StateSpace,
    roots: Array | None = None,
    burn: float = 0.0,
    value_only: bool = False,
) -> Scores:
    """Log-likelihood of each path of a block and its gradients.

    Args:
        block: paths with collapsed observations.
        state_space: the law.
        roots: of `gram_roots`, where they are at hand from another call.
        burn: time from the first observation on within which terms do not count.
        value_only: no gradients.
    """
    dynamics, r = state_space.dynamics, float(state_space.observation_variance)
    n_times, n, n_paths = block.vector.shape
    n_steps = getattr(dynamics, "n_steps", None) or 1
    size = 8 * TAPE_MATRICES * n_times * n_steps * n_paths * n**2
    keep = not value_only and size <= TAPE_BYTES
    rows = _filter_rows(block, state_space, roots, keep)
    counts = np.broadcast_to(block.times - block.times[:1] >= burn, (n_times, n_paths)) * 1.0
    # The residual, RSS, carries information on r at every time: only the numbers that determine
    # the state, as many as the rank of G, are left out where a term does not count.
    n_values = block.n_values.astype(float)
    for t in np.flatnonzero((counts == 0.0).any(1)).tolist():
        n_values = n_values - (1.0 - counts[t]) * rows[t].root.any(-2).sum(-1)
    value = (counts * np.array([row.log_likelihood for row in rows])).sum(0)
    value -= 0.5 * _constant(block, n_values, r)
    if value_only or not np.isfinite(value).all():
        return Scores(value, {})
    by_r = -0.5 * (n_values / r - block.misfit / r**2)
    by: dict[str, Array] = {}
    by_mean, by_covariance = np.zeros((n_paths, n)), np.zeros((n_paths, n, n))
    no_cross = np.zeros_like(by_covariance)
    while rows:
        row = rows.pop()
        by_mean, by_covariance, change = _pull_back_update(
            row, r, counts[len(rows)], by_mean, by_covariance
        )
        by_r = by_r + change
        if rows:
            step, before, t = row.step, rows[-1], len(rows)
            if not keep:
                last = block.times[t - 1], block.times[t] - block.times[t - 1]
                step = move(dynamics, before.mean, before.covariance, *last)
            if step is None or step.pull_back is None:
                return Scores(value, {})
            by_mean, by_covariance, numbers = step.pull_back(by_mean, by_covariance, no_cross)
            by = {name: by.get(name, 0.0) + slope for name, slope in numbers.items()}
    by |= {"observation": by_r, "initial_mean": by_mean}
    return Scores(value, by | {"initial_variance": np.einsum("pii->pi", by_covariance)})


def _pull_back_update(
    row: Row, r: float, count: Array, m: Array, p: Array
) -> tuple[Array, Array, Array]:
    """Gradients before an update, and by r, from those after it and from its own term.

    ``dm+ = M^-1 (dm + dP g)``, ``dP+ = M^-1 dP M^-T``, and by r
    ``dm+ = -P W s / r``, ``dP+ = P+ G P+ / r^2``.
    """
    spread, gain, inverse = row.predicted_covariance, row.gain, row.complement
    gram = row.root @ row.root.swapaxes(-1, -2)
    turned = np.einsum("bij,bi->bj", inverse, m)
    w = (gram / r) @ inverse
    term = 0.5 * count[:, None, None] * (gain[:, :, None] * gain[:, None, :] - w)
    half = 0.5 * (turned[:, :, None] * gain[:, None, :] + term)
    by_p = inverse.transpose(0, 2, 1) @ p @ inverse + half + half.transpose(0, 2, 1)
    # d/dr of the term at this time: (tr(W P) + g's) / (2 r)
    of_term = np.einsum("bij,bji->b", w, spread) + (gain * row.residual).sum(1)
    shrink = (spread @ (w @ row.residual[..., None]))[..., 0]
    widen = row.covariance @ gram @ row.covariance
    by_r = 0.5 * count * of_term / r - (m * shrink).sum(1) / r + (p * widen).sum((1, 2)) / r**2
    return turned + count[:, None] * gain, by_p, by_r


def filter_log_likelihood(block: Block, state_space: StateSpace) -> Array:
    """Log-likelihood of each path of a block, (P,); `ConvergenceError` as `forward_filter`."""
    return np.asarray(forward_filter(block, state_space).log_likelihood.sum(0))


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


def smooth_block(block: Block, state_space: StateSpace) -> Smoothed:
    """Smoothed means (T, N, P) and covariances (T, N, N, P) of every path of a block."""
    mean, covariance = rts_smoother(forward_filter(block, state_space))
    return Smoothed(np.moveaxis(mean, 1, -1), np.moveaxis(covariance, 1, -1))


# ---------- Long records cut into segments that are filtered in parallel
#
# After a run-in of a few time scales the state of a filter hardly depends on where it began.
# A record is cut into segments that each begin one run-in early; terms of the run-in do not count
# (``burn`` of `filter_scores`), so every term counts once, given the observations of its segment
# before it.


#: Segments and paths that are filtered together.
PARALLEL_SEGMENTS = 16
#: A segment is at least this many times as long as its run-in, and this many times long.
FEWEST_RUN_INS, FEWEST_TIMES = 4, 40
#: Steps count as equal when they differ by less than this part.
STEP_TOLERANCE = 1e-9


def in_segments(block: Block, burn: float) -> Block:
    """The same block in segments, or as it is where that would not help.

    Misfit and values that do not depend on the state stay with the first segment of each path; the
    others have the values that their run-in leaves out.
    """
    n_times, _, n_paths = block.vector.shape
    dt = np.diff(block.times[:, 0])
    if block.times.shape[1] > 1 or n_times < 2 or np.ptp(dt) > STEP_TOLERANCE * dt.max():
        return block
    run_in = int((block.times[:, 0] - block.times[0, 0] < burn).sum())
    least = max(FEWEST_TIMES, FEWEST_RUN_INS * run_in)
    n_segments = min(PARALLEL_SEGMENTS // n_paths, (n_times - run_in) // least)
    if n_segments < 2:
        return block
    length = -(-(n_times - run_in) // n_segments)
    missing = run_in + n_segments * length - n_times

    def cut(values: Array) -> Array:
        """(T, ..., P) as (run_in + length, ..., P * n_segments), empty past the end."""
        values = np.broadcast_to(values, (*values.shape[:-1], n_paths))
        padded = np.concatenate([values, np.zeros((missing, *values.shape[1:]))])
        parts = [padded[k * length :][: run_in + length] for k in range(n_segments)]
        return np.stack(parts, axis=-1).reshape(*parts[0].shape[:-1], -1)

    def first(values: Array, others: Array | float = 0.0) -> Array:
        """What belongs to a whole path, with its first segment; (P * n_segments,)."""
        out = np.zeros(n_paths * n_segments) + others
        out[::n_segments] = values
        return out

    gram = cut(block.gram)
    ranks = np.linalg.matrix_rank(np.moveaxis(in_full(gram[:run_in]), -1, 1), hermitian=True)
    times = block.times[0, 0] + dt.mean() * np.arange(run_in + length)[:, None]
    return Block(
        np.repeat(block.paths, n_segments), times, gram, cut(block.vector), cut(block.estimate),
        first(block.misfit), first(block.n_values, ranks.sum(0)), first(block.log_weight),
        np.zeros(gram.shape[-1]),
    )  # fmt: skip

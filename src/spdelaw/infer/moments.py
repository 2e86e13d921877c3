"""Moments of coefficients and lag covariances: where a search starts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.infer.model import Decision, Model
from spdelaw.processes import operators
from spdelaw.processes.linear import distinct_steps
from spdelaw.statespace.collapse import Block, Collapsed
from spdelaw.statespace.statistics import Statistics

# ---------- Starting values from moments
#
# For an Ornstein-Uhlenbeck mode observed with white noise of variance rho,
#
#     E (c(t + h) - c(t))^2 ~ q h + 2 rho               for small h,
#     d/dt E c^2 = -2 lambda E c^2 + q                  for any initial state,
#
# so a line through squared increments over a few lags gives q and rho, and the second identity
# integrated over time gives lambda. The first states show whether paths start together or apart.


Array = np.ndarray

#: Lags, in steps, whose squared increments the line is fitted to.
INCREMENT_LAGS = (1, 2, 3, 4)
#: White noise of the coefficients, relative to that of the values, from which on it is fast decay.
MOST_NOISE = 4.0
#: White noise, relative to the mean square, that is rounding.
ROUNDING_NOISE = 1e-12
#: Largest share of the energy that a fast mode forgets in one step, as far as moments can tell.
LARGEST_SHARE = 0.95
#: Steps longer than this many times the median are interruptions.
INTERRUPTION = 10.0
#: Spread of first states, relative to the energy of their mode, that is rounding.
SAME_START = 1e-12
#: Least eigenvalue of a row's Gram matrix, scaled to a unit diagonal, that determines all modes.
WELL_CONDITIONED = 0.05
#: Sum of squares of a mode at the points, relative to the largest, that is rounding.
VANISHING = 1e-20


class MomentEstimates(NamedTuple):
    """Method-of-moments estimates.

    Attributes:
        drift: operator, (N,), or (N, N) from lag covariances.
        noise: covariance of the driving noise, likewise.
        error: variance of white noise in the coefficients, (N,).
        energy: mean square of the coefficients without it, (N,).
        mean, spread: of the first states; the spread an operator.
        n_paths, n_steps, span: size of the sample: paths, their steps, their longest duration.
        observation_variance: of the values.
        n_values: values that determine it.
    """

    drift: Array
    noise: Array
    error: Array
    energy: Array
    mean: Array
    spread: Array
    n_paths: int
    n_steps: int
    span: float
    observation_variance: float = 0.0
    n_values: float = 1.0


def from_statistics(s: Statistics, has_mean: bool = False) -> MomentEstimates:
    """Estimates of noise-free paths from their sums, around a mean of any size or none."""
    t, n = s.times, s.n_paths
    increments = s.square[1:] - 2.0 * s.cross + s.square[:-1]
    q, lam, energy = _decay_estimates(t, s.square / n, increments / n)
    q, lam = _even_step_estimates(s, q, lam, has_mean)
    mean, spread = s.first[0] / n, s.start_spread / n
    size = n, len(t) - 1, float(t[-1] - t[0])
    estimates = (lam, np.maximum(q, 1e-300), np.zeros(s.n_modes), energy, mean, spread)
    return MomentEstimates(*estimates, *size, 0.0, s.n_values)


def from_coefficients(collapsed: Collapsed, variance: float) -> MomentEstimates:
    """Estimates from the least-squares coefficients of each observed row.

    ``variance`` is a first guess of the observation variance; rows that do not determine all
    modes are left out.
    """
    sums = collapsed.map(_block_sums)
    squares, rows, increments = (sum(block_sums[i] for block_sums in sums) for i in range(3))
    span, n_times = (max(block_sums[i] for block_sums in sums) for i in (3, 4))
    rho0 = variance / mean_gram(collapsed)
    q, rho = _increment_line(increments, rho0)
    mean = squares / max(rows, 1)
    is_fast = (rho0 > ROUNDING_NOISE * mean) & (rho > MOST_NOISE * rho0)
    rho = np.where(is_fast, rho0, rho)
    energy = np.maximum(np.maximum(mean - rho, 1e-3 * mean), 1e-300)
    lam = np.where(is_fast, _fast_rates(increments, rho, energy), q / (2.0 * energy))
    q = np.where(is_fast, 2.0 * lam * energy, q)
    lam = np.clip(lam, 0.2 / span, None)
    n_steps, (start, spread) = n_times - 1, first_states(collapsed)
    spread = np.where(np.isnan(spread), energy, spread)
    estimates = (lam, q, rho, energy, start, spread, collapsed.n_paths, n_steps, span)
    return MomentEstimates(*estimates, variance, collapsed.n_values)


def _block_sums(block: Block) -> tuple[Array, int, Array, float, int]:
    """Squares of determined rows, their number, increments, longest duration and times."""
    good = determined_rows(block)
    c = np.where(good[:, None], block.estimate, np.nan)
    t = np.broadcast_to(block.times, good.shape)
    squares = np.where(np.isnan(c), 0.0, c**2).sum((0, 2))
    span = float(np.ptp(block.times, axis=0).max())
    return squares, int(good.sum()), _increment_sums(c, t), span, len(block.times)


def of_components(values: Array, times: Array) -> tuple[float, float]:
    """Slowest decay rate and largest noise variance of principal components (P, T, r)."""
    energy = (values**2).mean(0)
    increments = ((values[:, 1:] - values[:, :-1]) ** 2).mean(0)
    q, lam, _ = _decay_estimates(times, energy, increments)
    return float(np.median(lam)), float(q.max() / values.shape[-1])


def sum_of_rows(block: Block) -> tuple[Array, int]:
    """Estimates of rows that determine all modes, summed, (N,), and how many rows."""
    good = determined_rows(block)
    return np.where(good[:, None], block.estimate, 0.0).sum((0, 2)), int(good.sum())


def squares_of_rows(block: Block, mean: Array) -> Array:
    """The squares of such rows around a mean, summed; (N,)."""
    gap = (block.estimate - mean[:, None]) ** 2
    return np.where(determined_rows(block)[:, None], gap, 0.0).sum((0, 2))


def energy_of(block: Block) -> float:
    """Sum of squares of the observed values inside the modes."""
    return float(np.vdot(block.vector, block.estimate))


def determined_rows(block: Block) -> Array:
    """Rows that determine every mode about as well as most rows of their path do; (T, B)."""
    gram = block.diagonal
    shape = block.estimate[:, 0].shape
    # Mode by mode, as a grid may hold one far better than another; path by path, as the gaps of
    # other paths must not matter.
    ordered = np.sort(np.where(gram > 0, gram, np.inf), axis=0)
    count = np.maximum((gram > 0).sum(0, keepdims=True), 1)
    middle = (np.take_along_axis(ordered, i, axis=0) for i in ((count - 1) // 2, count // 2))
    return np.broadcast_to((gram > 0.1 * sum(middle)).all(1), shape)


def mean_gram(collapsed: Collapsed) -> Array:
    """Mean diagonal of G over all rows; (N,)."""
    total, rows = (sum(terms) for terms in zip(*collapsed.map(_gram_sum), strict=True))
    return np.maximum(total / max(rows, 1), 1e-300)


def _gram_sum(block: Block) -> tuple[Array, int]:
    """Diagonals of G summed over the rows of all paths, and how many rows."""
    gram = block.diagonal
    times = len(block.paths) if gram.shape[2] == 1 else 1
    return gram.sum((0, 2)) * times, gram.shape[0] * len(block.paths)


def _increment_sums(c: Array, t: Array) -> Array:
    """Sums of (lag time, squared increment, 1) for each mode and lag; (N, lags, 3)."""
    out = np.zeros((c.shape[1], len(INCREMENT_LAGS), 3))
    for i, lag in enumerate(INCREMENT_LAGS):
        square, step = (c[lag:] - c[:-lag]) ** 2, t[lag:] - t[:-lag]
        usable = ~np.isnan(square[:, 0])
        usable &= ~_interrupted(step, step[usable])
        out[:, i, 0] = step[usable].sum()
        out[:, i, 1] = np.where(usable[:, None], square, 0.0).sum((0, 2))
        out[:, i, 2] = usable.sum()
    return out


def _increment_line(sums: Array, rho0: Array) -> tuple[Array, Array]:
    """Weighted line ``q h + 2 rho`` through squared increments, with positive q and rho."""
    sums = sums[:, sums[0, :, 2] > 0]  # lags that occur
    if not sums.shape[1]:
        sums = np.stack([np.ones(len(rho0)), 2.0 * rho0, np.ones(len(rho0))], axis=-1)[:, None]
    w = sums[0, :, 2]  # all modes are observed at the same times
    h, s = sums[0, :, 0] / w, sums[..., 1].T / w[:, None]
    design, root = np.stack([h, np.full_like(h, 2.0)], axis=1), np.sqrt(w)[:, None]
    slope, level = np.linalg.lstsq(design * root, s * root, rcond=None)[0]
    least = 0.05 * np.average(s, axis=0, weights=w) / max(h.mean(), 1e-300)
    return np.maximum(np.maximum(slope, least), 1e-300), np.maximum(level, 1e-3 * rho0)


def _fast_rates(sums: Array, rho: Array, energy: Array) -> Array:
    """Rates of modes that forget within a few steps: their increments level off.

    Squared increments over the first lag h are ``2 rho + 2 E (1 - exp(-lambda h))``.
    """
    h, square, count = sums[:, 0].T
    count = np.maximum(count, 1.0)
    share = np.clip((square / count - 2.0 * rho) / (2.0 * energy), 1e-6, LARGEST_SHARE)
    return np.asarray(-np.log1p(-share) * count / np.maximum(h, 1e-300))


def _decay_estimates(t: Array, energy: Array, increments: Array) -> tuple[Array, Array, Array]:
    """q, lambda and the mean energy, from ``E c^2`` at all times and squared increments.

    ``lambda = (q T - sum of changes of E c^2) / (2 int E c^2 dt)``, kept positive.
    """
    step = np.diff(t)
    kept = ~_interrupted(step, step)
    span = step[kept].sum()
    q = increments[kept].sum(0) / span
    area = 0.5 * step[kept] @ (energy[1:] + energy[:-1])[kept]
    integral = np.maximum(area, 1e-300)
    lam = (q * span - np.diff(energy, axis=0)[kept].sum(0)) / (2.0 * integral)
    return q, np.maximum(lam, 0.05 / span), integral / span


def _even_step_estimates(
    s: Statistics, q: Array, lam: Array, has_mean: bool
) -> tuple[Array, Array]:
    """Q and lambda where all steps are equally long: the maximum itself, given the first states.

    ``F = sum c_t c_{t+1} / sum c_t^2``, ``Omega = mean (c_{t+1} - F c_t)^2``, from which lambda and
    q follow where F lies between 0 and 1. With a mean, sums are those around the means of
    ``c_t`` and ``c_{t+1}``.
    """
    if len(s.lengths[0]) > 1:
        return q, lam
    (n,), ((before,), (cross,), (after,)) = s.steps
    if has_mean:
        (one,), (two,) = s.first_steps
        before, cross, after = before - one**2 / n, cross - one * two / n, after - two**2 / n
    with np.errstate(all="ignore"):
        f = cross / before
        rate = -np.log(f) / s.lengths[0][0]
        noise = 2.0 * rate * (after - f * cross) / (n * (1.0 - f**2))
        usable = (f > 0.0) & (f < 1.0) & (noise > 1e-12 * q) & (rate * np.ptp(s.times) > 0.05)
    return np.where(usable, noise, q), np.where(usable, rate, lam)


def _interrupted(step: Array, typical: Array) -> Array:
    """Whether steps are far longer than most."""
    return step > INTERRUPTION * (np.median(typical) if typical.size else np.inf)


# ---------- First states


def initial_state(model: Model, moments: MomentEstimates) -> Decision:
    """Kind of the initial state: as the model states it, or by the number of paths.

    A single path has a first state of its own. Several have a Gaussian one, whose variances may be
    zero, unless all start alike to rounding.
    """
    if model.initial != "auto":
        return Decision(model.initial, {})
    is_gaussian = moments.n_paths > 1 and start_apart(moments)
    compared = {"n_paths": float(moments.n_paths)}
    return Decision("gaussian" if is_gaussian else "deterministic", compared)


def start_apart(moments: MomentEstimates) -> bool:
    """Whether the first states of paths differ by more than rounding."""
    return bool((operators.diagonal(moments.spread) > SAME_START * moments.energy).any())


def first_states(collapsed: Collapsed) -> tuple[Array, Array]:
    """Mean and spread over paths of the first estimate, where its row determines all modes.

    Where fewer than two rows do, `pooled_states` uses all of them together.
    """
    first = np.concatenate(collapsed.map(_first_estimates), axis=1)
    if first.shape[1] > 1:
        return first.mean(1), first.var(1)
    if collapsed.n_paths > 1:
        return pooled_states(collapsed.map(_first_row_sums), collapsed.n_paths)
    return (first[:, 0] if first.size else np.zeros(len(first))), np.zeros(len(first))


def pooled_states(
    parts: list[tuple[Array, Array, float, int]], n_paths: int
) -> tuple[Array, Array]:
    """Mean and spread over paths of states at one time, whatever their rows determine.

    With the shared state of least squares, ``c = (sum G)^-1 sum b``, the residual per remaining
    degree of freedom,

        s = (sum b' c_hat - c' sum b) / (sum of ranks of G - rank of their sum),

    is the variance of noise where paths are equal, and larger where they are not. NaN where no
    degree of freedom remains, and in modes that vanish at all points.
    """
    gram, vector, squares, ranks = (sum(terms) for terms in zip(*parts, strict=True))
    size = np.diag(gram)
    size = np.where(size > VANISHING * size.max(), size, np.nan)
    mean, _, rank, _ = np.linalg.lstsq(gram, vector, rcond=None)
    degrees = ranks - int(rank)
    residual_variance = max(float(squares - mean @ vector), 0.0) / degrees if degrees else np.nan
    return mean, residual_variance * n_paths / size


def _first_row_sums(block: Block) -> tuple[Array, Array, float, int]:
    """Gram matrices, vectors, ``b' c_hat`` and ranks of the first row, summed over paths."""
    gram, vector = block.gram[0], block.vector[0]
    if gram.ndim == 2:
        gram = gram[:, None] * np.eye(len(gram))[..., None]
    gram = np.broadcast_to(gram, (*gram.shape[:2], len(block.paths)))
    ranks = np.linalg.matrix_rank(np.moveaxis(gram, -1, 0), hermitian=True)
    square = float(np.vdot(vector, block.estimate[0]))
    return gram.sum(-1), vector.sum(-1), square, int(ranks.sum())


def _first_estimates(block: Block) -> Array:
    whole = np.broadcast_to(_is_well_conditioned(block.gram[0]), len(block.paths))
    return block.estimate[0][:, whole]


def _is_well_conditioned(gram: Array) -> Array:
    """Whether a row's Gram matrix (N, N, B), or its diagonal (N, B), is well conditioned."""
    if gram.ndim == 2:
        return np.asarray((gram > 0).all(0))
    scale = np.einsum("iib->ib", gram)
    safe = np.where(scale > 0, scale, 1.0)
    unit = np.moveaxis(gram / np.sqrt(safe[:, None] * safe[None]), -1, 0)
    return (scale > 0).all(0) & (np.linalg.eigvalsh(unit)[:, 0] > WELL_CONDITIONED)


# ---------- Starting drift matrix from lag covariances: a linear inverse model
#
# Over steps of one length tau, ``F = C(tau) C(0)^-1`` and ``Lambda = -log(F) / tau`` (Penland
# 1989). On complete, noise-free data with equal steps, given the first state of each path, this is
# the maximum of the likelihood itself. The estimated noise of the coefficients is subtracted from
# ``C(0)``.


#: Least correlation over a step, and least decay over the record, of a mode at the start.
LEAST_FACTOR, LEAST_DECAY = 1e-3, 0.05
#: Angle per step above which a rotation counts as none: half a circle is an artefact of noise.
HALF_TURN = 0.9 * np.pi
#: Least eigenvalue of a starting noise covariance, relative to its diagonal.
LEAST_NOISE = 1e-3
#: Fewest paths of a block from which their mean is subtracted.
MANY_PATHS = 5
#: Pairs of complete rows per mode that lag covariances need.
PAIRS_PER_MODE = 5


def centred(block: Block) -> Block:
    """Coefficients less their mean over paths, and so without what all share, such as a forcing.

    The response to a forcing depends on the unknown drift. Blocks of few paths, or of paths with
    clocks of their own, stay as they are.
    """
    if block.times.shape[1] > 1 or len(block.paths) < MANY_PATHS:
        return block
    good = determined_rows(block)[:, None]
    count = good.sum(-1, keepdims=True)
    mean = np.where(good, block.estimate, 0.0).sum(-1, keepdims=True) / np.maximum(count, 1)
    return block._replace(estimate=block.estimate - mean)


def from_pair_sums(s: Statistics, moments: MomentEstimates, drift: bool = True) -> MomentEstimates:
    """Estimates from complete, noise-free paths: steps of the length that occurs most."""
    sums = s.pairs
    if sums is None:
        return moments
    u = int(sums.n_steps.argmax())
    products = tuple(m[u] / sums.n_steps[u] for m in (sums.before, sums.cross, sums.after))
    moments = moments._replace(spread=sums.first / s.n_paths)
    return _lag_covariance_estimates(moments, products, sums.lengths[u], drift)


def from_coefficient_pairs(
    collapsed: Collapsed, moments: MomentEstimates, drift: bool = True, *, apart: bool = False
) -> MomentEstimates:
    """Estimates from least-squares coefficients of rows that determine them all.

    With ``apart`` each mode has its own, as if there were no others.
    """
    enough = PAIRS_PER_MODE * collapsed.n_modes
    steps = np.concatenate(collapsed.map(_step_lengths))
    if steps.size < enough:
        return moments
    lengths, which = distinct_steps(steps)
    common = lengths[np.bincount(which).argmax()]
    block_sums = collapsed.map(_lag_products, common)
    before, cross, after, count = (sum(terms) for terms in zip(*block_sums, strict=True))
    if count < enough:
        return moments
    error = np.diag(np.minimum(moments.error, 0.8 * np.diag(before) / count))
    products = (before / count - error, cross / count, after / count - error)
    if not apart:
        return _lag_covariance_estimates(moments, products, common, drift)
    alone = tuple(np.diag(np.diag(m)) for m in products)
    estimates = _lag_covariance_estimates(moments, alone, common, drift)
    rates, noise = operators.diagonal(estimates.drift), operators.diagonal(estimates.noise)
    return estimates._replace(drift=rates, noise=noise)


def _step_lengths(block: Block) -> Array:
    """Lengths of the steps between rows that determine all modes."""
    return _successive_estimates(block)[2]


def _lag_products(block: Block, common: float) -> tuple[Array, Array, Array, int]:
    """Sums of ``c_t c_t'``, ``c_t c_(t+1)'``, ``c_(t+1) c_(t+1)'`` over steps near one length."""
    now, then, dt = _successive_estimates(block)
    close = np.abs(dt - common) <= 0.05 * common
    now, then = now[:, close], then[:, close]
    return now @ now.T, now @ then.T, then @ then.T, int(close.sum())


def _successive_estimates(block: Block) -> tuple[Array, Array, Array]:
    """Estimates at both ends of a step, (N, pairs) each, and its length, (pairs,)."""
    usable = determined_rows(block)
    both = usable[:-1] & usable[1:]
    dt = np.broadcast_to(np.diff(block.times, axis=0), both.shape)
    at = np.moveaxis(block.estimate, 1, 0)
    return at[:, :-1][:, both], at[:, 1:][:, both], dt[both]


def _lag_covariance_estimates(
    moments: MomentEstimates, products: tuple[Array, ...], dt: float, ask_drift: bool
) -> MomentEstimates:
    """From means of ``c_t c_t'``, ``c_t c_(t+1)'`` and ``c_(t+1) c_(t+1)'`` over equal steps."""
    before, cross, after = products
    drift: Array | None = moments.drift
    if ask_drift:
        drift = _logarithm_drift(_nearest_positive(before), cross, dt, moments.span)
    if drift is None:
        return moments
    a = operators.as_matrix(drift)
    f = scipy.linalg.expm(-dt * a)
    carried = f @ cross
    omega = after - carried - carried.T + f @ before @ f.T
    # Q that gives this covariance of a step: the stationary P = F P F' + Omega.
    p = scipy.linalg.solve_discrete_lyapunov(f, 0.5 * (omega + omega.T))
    q = a @ p
    return moments._replace(drift=drift, noise=_nearest_positive(q + q.T, moments.noise))


def _logarithm_drift(before: Array, cross: Array, dt: float, span: float) -> Array | None:
    """``-log(C(dt) C(0)^-1) / dt``, its modes kept decaying; None where it has no logarithm."""
    f = np.linalg.solve(before, cross).T
    values, vectors = np.linalg.eig(f)
    if np.linalg.cond(vectors) > 1e8:
        return None
    size = np.clip(np.abs(values), LEAST_FACTOR, np.exp(-LEAST_DECAY * dt / span))
    angle = np.where(np.abs(np.angle(values)) > HALF_TURN, 0.0, np.angle(values))
    rates = -(np.log(size) + 1j * angle) / dt
    return np.real(vectors @ np.diag(rates) @ np.linalg.inv(vectors))


def _nearest_positive(matrix: Array, least: Array | None = None) -> Array:
    """The nearest symmetric matrix whose eigenvalues, in units of its diagonal, are positive."""
    diagonal = np.diag(matrix)
    if least is None:
        least = np.abs(diagonal).max() * np.ones(len(diagonal))
    d = np.sqrt(np.maximum(diagonal, LEAST_NOISE * least))
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T) / np.outer(d, d))
    values = np.maximum(values, LEAST_NOISE)
    return np.outer(d, d) * ((vectors * values) @ vectors.T)

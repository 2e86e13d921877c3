"""The paper's truncated decoder (eq. 12): its likelihood, and chaos coordinates given data."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar, get_args

import numpy as np
import scipy

from spdelaw.chaos.propagators import (
    CosineBasis,
    decay_mean,
    latent_dimension,
    propagate,
    tail_covariance,
    zero_order,
)
from spdelaw.checks import one_of, whole
from spdelaw.errors import ConvergenceError, InputError
from spdelaw.processes import operators
from spdelaw.processes.operators import decay_mean_slope
from spdelaw.statespace.blocks import apply_gram
from spdelaw.statespace.chain import StateSpace, chain_mean, chain_prior, sweep
from spdelaw.statespace.collapse import Block, Collapsed, some_paths
from spdelaw.statespace.likelihood import Evaluation, join_evaluations

# ---------- Linear algebra in one thread, for many small matrices
#
# NumPy and SciPy each bring a BLAS with threads of its own. Where a computation goes to and fro
# between the two, the idle threads of the one wait in a busy loop and take the cores from the
# other: on two cores the same numbers took 10 to 25 times as long as in one thread.


P = ParamSpec("P")
T = TypeVar("T")


def one_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Run a function with one thread of linear algebra; the old number is back afterwards."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with _blas_controller().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return run


@functools.cache
def _blas_controller() -> Any:
    """The BLAS of NumPy and of SciPy, both loaded by then."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


# ---------- From chaos coordinates to coefficients: the linear map, its tail, and their derivatives
#
#     c_n(t) = e^(-lambda_n t) z0_n + sum_{k <= K} sqrt(q_n) psi_k(t; lambda_n) xi_kn + tail_n(t)
#
# An uncertain initial state is ``z0 = m0 + sqrt(v0) xi_0`` with one more coordinate. Times count
# from the initial state.


Array = np.ndarray
Tail = Literal["modelled", "dropped"]
TAILS: tuple[str, ...] = get_args(Tail)


@dataclasses.dataclass(frozen=True)
class ChaosModel:
    """How the driving noise is expanded in time.

    Args:
        n_time: K, the number of cosines.
        horizon: T, the length of the time interval.
        tail: "modelled" adds the covariance of what lies beyond K, "dropped" leaves it out.

    Example:
        >>> ChaosModel(n_time=16, horizon=1.0).latent_dimension(n_modes=8)  # the paper's d
        1032
    """

    n_time: int = 16
    horizon: float = 1.0
    tail: Tail = "modelled"

    def __post_init__(self) -> None:
        """Check the settings."""
        whole("n_time", self.n_time, 1)
        _ = self.basis
        one_of("tail", self.tail, TAILS)

    @property
    def basis(self) -> CosineBasis:
        """Functions of time."""
        return CosineBasis(self.horizon)

    def latent_dimension(self, n_modes: int) -> int:
        """``N (1 + K L)`` with L = N (paper, section 2.5)."""
        return latent_dimension(n_modes, self.n_time, n_modes)


class LatentMap(NamedTuple):
    """Mean of the coefficients and the columns that multiply the coordinates.

    Attributes:
        decay: ``e^(-lambda_n t)``, (T, N).
        columns: (T, N, D), D = K, or 1 + K with the initial state's column first.
        slope: derivative of the columns by ``lambda_n``, with q and v0 held.
    """

    decay: Array
    columns: Array
    slope: Array


def latent_map(state_space: StateSpace, ages: Array, model: ChaosModel) -> LatentMap:
    """The map, for modes with noise of their own."""
    lam, q = state_space.linear.drift, state_space.linear.noise
    response, slope = response_and_slope(model.basis, ages, lam, model.n_time)
    amplitude = np.sqrt(q)[:, None]
    columns = amplitude * response.transpose(0, 2, 1)
    slopes = amplitude * slope.transpose(0, 2, 1)
    decay = zero_order(ages, lam)
    if state_space.initial.kind != "deterministic":
        start = (np.sqrt(state_space.initial.covariance) * decay)[..., None]
        columns = np.concatenate([start, columns], axis=2)
        slopes = np.concatenate([-ages[:, None, None] * start, slopes], axis=2)
    return LatentMap(decay, columns, slopes)


def response_and_slope(
    basis: CosineBasis, ages: Array, eigenvalues: Array, n_time: int
) -> tuple[Array, Array]:
    """``psi_k(t; lambda_n)`` and its derivative by ``lambda_n``; each (T, K, N).

    With ``D = (1 - e^(-lambda t)) / lambda`` and ``s = sqrt(2/T)``, for k > 1,
    ``psi' = [2 lambda (s D - psi) + s (lambda^2 D' - 2 sin^2(wt/2))] / (lambda^2 + w^2)``,
    and ``D' / sqrt(T)`` for k = 1. ``D'`` is a series near rate 0, where its quotient loses
    all digits; the two brackets never cancel each other's leading terms.
    """
    lam, t = np.asarray(eigenvalues, float), np.asarray(ages, float)[:, None]
    psi = propagate(basis, ages, lam, np.ones(len(lam)), n_time).response
    w = np.arange(1, n_time) * (np.pi / basis.horizon)
    droop = (2.0 * np.sin(0.5 * w * t) ** 2)[..., None]
    mean = (t * decay_mean(t * lam))[:, None, :]
    mean_slope = (t**2 * decay_mean_slope(t * lam))[:, None, :]
    s = math.sqrt(2.0 / basis.horizon)
    top = 2.0 * lam * (s * mean - psi[:, 1:]) + s * (lam**2 * mean_slope - droop)
    higher = top / (lam**2 + w[:, None] ** 2)
    return psi, np.concatenate([mean_slope / math.sqrt(basis.horizon), higher], axis=1)


def dense_columns(state_space: StateSpace, ages: Array, model: ChaosModel) -> Array:
    """All columns side by side, (T, N, D): for each coordinate of `latent_map` all modes.

    For modes that observations couple.
    """
    columns = latent_map(state_space, ages, model).columns
    wide = columns.transpose(0, 2, 1)[:, None] * np.eye(columns.shape[1])[:, None]
    return wide.reshape(*columns.shape[:2], -1)


# ---------- Collapsed observations as rows of unit precision, one stack of problems per pattern
#
# With ``G_t = H_t' H_t`` the likelihood of the collapsed estimates is that of
#
#     w_t = H_t c_hat_t = H_t c_t + sqrt(r) e_t,        e ~ N(0, I),
#
# whatever the rank of ``G_t``. Where ``G_t`` is diagonal the modes are S = N problems of R = T
# rows; where it is not, or where the noise couples the modes, they are one problem of T N rows.
#
# With D standard normal coordinates u behind the states, ``w = F u + sqrt(r) e``, Woodbury's
# identity leaves a Cholesky factor of ``M = I + F'F / r``, size D:
#
#     log|Sigma| = R log r + log|M|,    w' Sigma^-1 w = |w - F u|^2 / r + |u|^2,   u = M^-1 F'w / r,
#
# the energy being a sum of squares, so that a small r costs no digits.


class Rows(NamedTuple):
    """Whitened observations of paths that share one pattern.

    Attributes:
        ages: times since the initial state, (T,).
        root: ``H``, (T, N) where modes are not coupled, else (T, N, N).
        estimate: ``c_hat``, (T, N, P).
    """

    ages: Array
    root: Array
    estimate: Array

    @property
    def is_coupled(self) -> bool:
        """Whether all modes form one problem."""
        return self.root.ndim == 3

    @property
    def n_determined(self) -> int:
        """Estimates ``c_hat`` that the data determine."""
        size = np.abs(self.root).max(1) if self.is_coupled else self.root
        return int((size > 0).sum())

    @property
    def log_root(self) -> float:
        """``log |H|`` of all times with a regular one."""
        if not self.is_coupled:
            return float(np.log(self.root[self.root > 0]).sum())
        sign, logs = np.linalg.slogdet(self.root)
        return float(logs[sign != 0].sum())

    def whiten(self, x: Array) -> Array:
        """``H x`` for x (T, N, X) as a stack (S, R, X)."""
        if self.is_coupled:
            return (self.root @ x).reshape(1, -1, x.shape[-1])
        return (self.root[..., None] * x).transpose(1, 0, 2)

    def adjoint(self, y: Array) -> Array:
        """``H' y`` for a stack (S, R, X) as (T, N, X)."""
        if self.is_coupled:
            shape = (*self.root.shape[:2], y.shape[-1])
            return np.swapaxes(self.root, 1, 2) @ y.reshape(shape)
        return self.root[..., None] * y.transpose(1, 0, 2)

    def after_first(self) -> Rows:
        """The rows without those of the first time."""
        return Rows(self.ages[1:], self.root[1:], self.estimate[1:])


def single_patterns(block: Block) -> Iterator[Block]:
    """Blocks whose paths share their pattern: the block itself, or its paths one by one."""
    if block.gram.shape[-1] == 1 and block.times.shape[1] == 1:
        yield block
        return
    for path in block.paths:
        yield some_paths(block, block.paths == path)


def rows_of(block: Block, *, couple: bool = False) -> Rows:
    """Rows of a block with one pattern; ``couple`` joins modes that the grid leaves apart."""
    times, gram = block.times[:, 0], block.gram[..., 0]
    if block.is_diagonal:
        root = operators.embed(np.sqrt(gram)) if couple else np.sqrt(gram)
    else:
        values, vectors = np.linalg.eigh(gram)
        root = np.sqrt(np.maximum(values, 0.0))[..., None] * np.swapaxes(vectors, 1, 2)
    return Rows(times - times[0], root, block.estimate)


class RowDensity(NamedTuple):
    """Density of the rows, its gradient, and the coordinates given them.

    Attributes:
        log_density: (P,), summed over the stack.
        pull: gradient by the mean of the rows, each path: ``Sigma^-1 w``, (S, R, P).
        by_columns: gradient by F, (S, R, D).
        by_variance: gradient by r.
        mean: ``E[u | w]``, (S, D, P).
        covariance: ``Cov(u | w)``, (S, D, D).
    """

    log_density: Array
    pull: Array
    by_columns: Array
    by_variance: float
    mean: Array
    covariance: Array


def gaussian_rows(w: Array, columns: Array, r: float) -> RowDensity:
    """Rows ``w`` (S, R, P) of the map ``columns`` (S, R, D) and white noise."""
    n_stack, n_rows, n_paths = w.shape
    transposed = np.swapaxes(columns, 1, 2)
    roots, covariance = factored(np.eye(columns.shape[2]) + transposed @ columns / r)
    mean = covariance @ (transposed @ w) / r
    error = w - columns @ mean
    energy = (error**2).sum((0, 1)) / r + (mean**2).sum((0, 1))
    log_determinant = 2.0 * float(np.log(np.diagonal(roots, axis1=1, axis2=2)).sum())
    logs = n_stack * n_rows * np.log(2 * np.pi * r) + log_determinant
    spread = columns @ covariance
    by_columns = (error @ np.swapaxes(mean, 1, 2) - n_paths * spread) / r
    trace = n_paths * np.vdot(spread, columns)
    by_r = 0.5 * (((error**2).sum() + trace) / r**2 - n_stack * n_rows * n_paths / r)
    return RowDensity(-0.5 * (logs + energy), error / r, by_columns, float(by_r), mean, covariance)


def precision_of(x: Array, columns: Array, covariance: Array, r: float) -> Array:
    """``X' Sigma^-1 X`` for X (S, R, X), from the map and the covariance of its coordinates."""
    projected = np.swapaxes(columns, 1, 2) @ x
    inner = np.swapaxes(projected, 1, 2) @ covariance @ projected
    return (np.swapaxes(x, 1, 2) @ x - inner / r) / r


def factored(matrices: Array) -> tuple[Array, Array]:
    """Cholesky factors and inverses of a stack of positive definite matrices."""
    try:
        roots = np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError as error:
        expected, got = "a positive definite matrix", "a matrix that is singular to rounding"
        fix = "use engine='exact', whose filter needs no covariance between all times"
        what = "covariance of the rows"
        raise ConvergenceError(what, expected=expected, got=got, fix=fix) from error
    inverses = np.empty_like(roots)
    for i, root in enumerate(roots):
        inverses[i] = scipy.linalg.cho_solve((root, True), np.eye(len(root)), check_finite=False)
    return roots, inverses


# ---------- The paper's truncated decoder (eq. 12): exact likelihood and score
#
# With the covariance of what the decoder cuts off added to that of its coordinates the sum is the
# Ornstein-Uhlenbeck covariance: the likelihood of ``tail="modelled"`` is `evaluate_likelihood`.


Density = Literal["fields", "coefficients"]


@one_thread
def evaluate_chaos(
    collapsed: Collapsed, state_space: StateSpace, model: ChaosModel, *, density: Density = "fields"
) -> Evaluation:
    """Log-likelihood of each path and the score of the sum, as `evaluate_likelihood` gives them.

    Args:
        collapsed: data, from `collapse`.
        state_space: of modes that drift and noise leave apart.
        model: number of functions of time, its tail dropped.
        density: of all observed values ("fields"), or of the estimates ``c_hat`` at the times
            after a deterministic initial state ("coefficients"), which exists without noise.
    """
    if model.tail != "dropped":
        expected, got = "a dropped tail", f"tail {model.tail!r}"
        fix = "use evaluate_likelihood, which includes the tail"
        raise InputError("model", expected=expected, got=got, fix=fix)
    each = [one for block in collapsed.blocks for one in single_patterns(block)]
    parts = [_evaluate_block(one, state_space, model, density) for one in each]
    return join_evaluations([one.paths for one in each], parts, collapsed.n_paths)


# -- one pattern ---------------------------------------------------------------------------
def _evaluate_block(
    block: Block, state_space: StateSpace, model: ChaosModel, density: Density
) -> Evaluation:
    rows, r = rows_of(block), float(state_space.observation_variance)
    if density == "coefficients" and state_space.initial.kind == "deterministic":
        rows = rows.after_first()
    mapped, columns = latent_map(state_space, rows.ages, model), whitened(rows, state_space, model)
    row_density = gaussian_rows(errors_of(rows, state_space), columns, r)
    remaining, by_r = _remaining_log_density(block, rows, r, density)
    by_mean = mapped.decay * rows.adjoint(row_density.pull).sum(2)
    by_lambda, by_q, by_v0 = _spectral_gradient(rows, row_density, mapped, state_space)
    by_lambda = by_lambda - (rows.ages @ by_mean) * state_space.initial.mean
    return Evaluation(
        row_density.log_density + remaining,
        by_lambda,
        by_q,
        by_mean.sum(0),
        by_v0,
        row_density.by_variance + by_r,
        _initial_information(rows, row_density, mapped, columns, r),
    )


def whitened(rows: Rows, state_space: StateSpace, model: ChaosModel) -> Array:
    """The map from coordinates to rows, (S, R, D): each mode its own, or all modes one problem."""
    if rows.is_coupled:
        return rows.whiten(dense_columns(state_space, rows.ages, model))
    return rows.whiten(latent_map(state_space, rows.ages, model).columns)


def errors_of(rows: Rows, state_space: StateSpace) -> Array:
    """Rows less their mean, (S, R, P)."""
    decay = np.exp(-rows.ages[:, None] * state_space.linear.drift)
    return rows.whiten(rows.estimate - (decay * state_space.initial.mean)[..., None])


def _remaining_log_density(
    block: Block, rows: Rows, r: float, density: Density
) -> tuple[Array, float]:
    """Terms of each path's log density that the rows do not contain, and their gradient by r.

    Rows without observations are zero with variance r: their density is subtracted.
    """
    n_rows = rows.root.shape[0] * rows.root.shape[1]
    if density == "fields":
        count, square = block.n_values - n_rows, block.misfit
        volume = 0.5 * block.log_weight
    else:
        count, square = rows.n_determined - n_rows, np.zeros(len(block.paths))
        # Density of c_hat instead of H c_hat: its Jacobian is that of the change.
        volume = np.full(len(block.paths), rows.log_root)
    out = volume - 0.5 * (count * np.log(2 * np.pi * r) + square / r)
    return out, 0.5 * float((square / r**2 - count / r).sum())


def _spectral_gradient(
    rows: Rows, row_density: RowDensity, mapped: LatentMap, state_space: StateSpace
) -> tuple[Array, Array, Array]:
    """Gradient by lambda (through the covariance alone), q and v0; each (N,)."""
    q, v0 = state_space.linear.noise, state_space.initial.covariance
    start = int(state_space.initial.kind != "deterministic")
    by = rows.adjoint(row_density.by_columns)
    if rows.is_coupled:  # each mode's own coordinates, (T, N, D)
        by = np.einsum("tndn->tnd", by.reshape(*by.shape[:2], -1, len(q)))
    scaled = by * mapped.columns
    by_q = 0.5 * scaled[..., start:].sum((0, 2)) / q
    by_v0 = 0.5 * scaled[..., 0].sum(0) / v0 if start else np.zeros(len(q))
    return (by * mapped.slope).sum((0, 2)), by_q, by_v0


def _initial_information(
    rows: Rows, row_density: RowDensity, mapped: LatentMap, columns: Array, r: float
) -> Array:
    """``E' H' Sigma^-1 H E`` with ``E = e^(-lambda t)``, times the number of paths; (N, N)."""
    n, n_paths = mapped.decay.shape[1], row_density.pull.shape[2]
    decay = mapped.decay[..., None] * (np.eye(n) if rows.is_coupled else 1.0)
    each = precision_of(rows.whiten(decay), columns, row_density.covariance, r)
    return n_paths * (each[0] if rows.is_coupled else np.diag(each[:, 0, 0]))


# ---------- Chaos coordinates given the data: the exact Gaussian posterior
#
# Without a prior it is the least-squares projection of paths on the span of the truncated decoder.


class Latents(NamedTuple):
    """Chaos coordinates of the paths of one pattern, given their data.

    Attributes:
        paths: indices of the paths, (P,).
        initial_mean, initial_std: of ``z0``, (N, P) and (N,); the std is 0 where it is shared.
        mean, std: of ``xi``, (K, L, P) and (K, L).
        coefficients: ``c_n(t)`` of the truncated model at the mean coordinates, (T, N, P).
        covariance: of all coordinates, (S, D, D): a matrix per mode, or one for all.
    """

    paths: Array
    initial_mean: Array
    initial_std: Array
    mean: Array
    std: Array
    coefficients: Array
    covariance: Array


#: Mean (S, D, P) and covariance (S, D, D) of the coordinates of a stack of problems.
Posterior = tuple[Array, Array]


def chaos_latents(
    collapsed: Collapsed, state_space: StateSpace, model: ChaosModel
) -> list[Latents]:
    """Exact posterior of ``(z0, xi)``, one entry for each set of paths with one pattern."""
    return [
        _latents_of_block(one, state_space, model)
        for block in collapsed.blocks
        for one in single_patterns(block)
    ]


def _latents_of_block(block: Block, state_space: StateSpace, model: ChaosModel) -> Latents:
    ages = block.times[:, 0] - block.times[0, 0]
    if model.tail == "modelled":
        posterior = _smoother_posterior(block, ages, state_space, model)
    else:
        rows, r = rows_of(block), float(state_space.observation_variance)
        columns = whitened(rows, state_space, model)
        posterior = gaussian_rows(errors_of(rows, state_space), columns, r)[-2:]
    return _make_latents(block, ages, posterior, state_space, model)


def _smoother_posterior(
    block: Block, ages: Array, state_space: StateSpace, model: ChaosModel
) -> Posterior:
    """Coordinates of modes with a modelled tail from the smoothed states, linear in T.

    Given all states the data say nothing more: with ``A_n = Cov(c_n)^-1 Cov(c_n, u_n)``,
    ``E[u_n | y] = A_n' E[c_n | y]`` about the mean, and
    ``Cov(u_n | y) = I - A_n' Cov(c_n, u_n) + A_n' Cov(c_n | y) A_n``. The chain's elimination
    applies ``Cov(c | y)`` to data and to all ``A_n`` in one sweep.
    """
    start = int(state_space.initial.kind == "deterministic")
    mapped = latent_map(state_space, ages[start:], model)
    columns = mapped.columns.transpose(1, 0, 2)  # (N, T, D)
    lam, amplitude = state_space.linear.drift, np.sqrt(state_space.linear.noise)
    tail = tail_covariance(model.basis, ages[start:], lam, amplitude, model.n_time)
    gains = np.linalg.solve(columns @ np.swapaxes(columns, 1, 2) + tail, columns)
    n, n_times, size = gains.shape
    at = np.arange(n)
    wide = np.zeros((n_times, n, n, size))
    wide[:, at, at] = gains.transpose(1, 0, 2)
    r, n_paths = float(state_space.observation_variance), len(block.paths)
    gram = block.gram[start:] / r
    mean = (mapped.decay * state_space.initial.mean)[..., None]
    data = block.vector[start:] / r - apply_gram(gram, mean)
    centred = state_space._replace(initial=state_space.initial._replace(mean=np.zeros(n)))
    sides = np.concatenate([data, wide.reshape(n_times, n, -1)], axis=2)
    prior = chain_prior(centred, block.times)
    states = chain_mean(*sweep(gram, sides, prior)[:2], prior)
    spread = states[..., n_paths:].reshape(n_times, n, n, size)[:, at, at].transpose(1, 0, 2)
    back = np.swapaxes(gains, 1, 2)
    covariance = np.eye(size) - back @ columns + back @ spread
    return back @ states[..., :n_paths].transpose(1, 0, 2), covariance


def _make_latents(
    block: Block, ages: Array, posterior: Posterior, state_space: StateSpace, model: ChaosModel
) -> Latents:
    """Latents from the coordinates of each mode, (N, D, P), or of one problem, (1, D, P).

    The latter are initial states by mode, then (k, l) with l fastest.
    """
    (mean, covariance), initial = posterior, state_space.initial
    n, n_paths = state_space.n_modes, len(block.paths)
    deviation = np.sqrt(np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0.0))
    if len(mean) == 1 < n:
        driven = dense_columns(state_space, ages, model) @ mean[0]
    else:
        columns = latent_map(state_space, ages, model).columns
        driven = np.einsum("tnd,ndp->tnp", columns, mean, optimize=True)
    # By coordinate, then by mode.
    mean, deviation = mean.transpose(1, 0, 2).reshape(-1, n_paths), deviation.T.ravel()
    z0, z0_std = np.broadcast_to(initial.mean[:, None], (n, n_paths)), np.zeros(n)
    if initial.kind != "deterministic":
        scale = np.sqrt(initial.covariance)
        z0, z0_std = z0 + scale[:, None] * mean[:n], scale * deviation[:n]
        mean, deviation = mean[n:], deviation[n:]
    xi, xi_std = (x.reshape(model.n_time, -1, *x.shape[1:]) for x in (mean, deviation))
    decay = np.exp(-ages[:, None] * state_space.linear.drift)
    coefficients = (decay * initial.mean)[..., None] + driven
    return Latents(block.paths, z0, z0_std, xi, xi_std, coefficients, covariance)


class Projected(NamedTuple):
    """Projection of the paths of one pattern.

    Attributes:
        paths: their indices, (P,).
        coefficients: ``c_n(t)`` of the projection at all times, (T, N, P).
        residual: ``sum_t (c_hat - c)' G (c_hat - c)`` over the times fitted, (P,).
    """

    paths: Array
    coefficients: Array
    residual: Array


def project_on_decoder(
    collapsed: Collapsed, eigenvalues: Array, n_time: int, horizon: float
) -> Iterator[Projected]:
    """Best coefficients ``e^(-lambda t) z0 + sum_{k <= K} psi_k(t; lambda) x_k`` for each path.

    All ``z0`` and ``x_k`` are free. The first time is not fitted: paths are scored on later ones.
    """
    for block in collapsed.blocks:
        for one in single_patterns(block):
            ages = one.times[:, 0] - one.times[0, 0]
            yield _project(one, _decoder_columns(ages, eigenvalues, n_time, horizon))


def _decoder_columns(ages: Array, eigenvalues: Array, n_time: int, horizon: float) -> Array:
    """Decay and responses of each mode, (T, N, 1 + K)."""
    ones = np.ones(len(eigenvalues))
    curves = propagate(CosineBasis(horizon), ages, eigenvalues, ones, n_time)
    return np.concatenate([curves.decay[..., None], curves.response.transpose(0, 2, 1)], axis=2)


@one_thread
def _project(block: Block, columns: Array) -> Projected:
    rows, n = rows_of(block), columns.shape[1]
    if rows.is_coupled:
        wide = columns[:, :, None, :] * np.eye(n)[:, :, None]
        columns = wide.reshape(*columns.shape[:2], -1)
    later = rows.after_first()
    design, w = later.whiten(columns[1:]), later.whiten(later.estimate)
    weights = np.linalg.pinv(design) @ w
    residual = ((w - design @ weights) ** 2).sum((0, 1))
    product = "tnd,dp->tnp" if rows.is_coupled else "tnd,ndp->tnp"
    solution = weights[0] if rows.is_coupled else weights
    return Projected(block.paths, np.einsum(product, columns, solution, optimize=True), residual)

"""A likelihood, a layout of coordinates, what is fixed and what is believed: one maximisation.

The free vector ``x`` maps to the full vector of coordinates by ``full = base + A x``. Fixed
coordinates have no column in ``A``; the initial mean, in which the log-likelihood is exactly
quadratic, enters through the eigenvectors of its information, so that directions the data
cannot see drop out instead of breaking the conditioning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from spdelaw.infer._coupled_layout import CoupledLayout
from spdelaw.infer._coupled_starts import CoupledRough
from spdelaw.infer._curvature import SHARED
from spdelaw.infer._layout import Layout
from spdelaw.infer._optimise import Optimum, maximise
from spdelaw.infer._starts import Rough
from spdelaw.model import AnyParameters

Array = np.ndarray
#: From the parameters that a layout unpacks to their evaluation: of spectra, or of matrices.
Evaluate = Callable[[Any], Any]

#: Directions of the initial mean with less than this share of the largest information drop out.
INITIAL_TOLERANCE = 1e-9
#: Groups of coordinates that have one for each mode.
OF_A_MODE = ("eigenvalue", "noise_variance", "initial_variance", "initial_mean")
#: Variance, in squared rough standard errors, of a direction without information.
UNSEEN = 1e8


class Problem(NamedTuple):
    """Everything a maximisation needs.

    ``separable`` says that modes do not meet in the likelihood but through shared coordinates.
    """

    layout: Layout
    evaluate: Evaluate
    start: Array
    scale: Array
    fixed: dict[int, float]
    priors: list[tuple[int, Any]]
    initial_mean: Array
    separable: bool = False


class Solution(NamedTuple):
    """Estimate in the full vector, with the covariance of its coordinates.

    Attributes:
        parameters: the state-space parameters at the estimate.
        full: coordinates, (p,).
        columns: directions of unit variance, (p, free): ``columns columns'`` is the covariance.
            The last ones move the initial mean alone.
        n_plain: number of columns before those.
        log_likelihood: at the estimate, without priors.
        optimum: the maximiser's own report.
    """

    parameters: AnyParameters
    full: Array
    columns: Array
    n_plain: int
    log_likelihood: float
    optimum: Optimum

    @property
    def covariance(self) -> Array:
        """Covariance of the coordinates, zero where fixed; (p, p)."""
        return self.columns @ self.columns.T

    @property
    def n_free(self) -> int:
        """Number of free coordinates."""
        return self.columns.shape[1]


class FreeVector(NamedTuple):
    """Coordinates that a maximisation moves: ``full = base + columns x``.

    Attributes:
        base: full vector at ``x = 0``, (p,).
        columns: (p, free).
        scale: rough standard errors of ``x``, (free,).
        n_plain: entries of ``x`` before those that move the initial mean.
    """

    base: Array
    columns: Array
    scale: Array
    n_plain: int

    def full(self, x: Array) -> Array:
        """Full vector at ``x``."""
        return self.base + self.columns @ x


def log_posterior(problem: Problem, free: FreeVector, x: Array) -> tuple[float, Array, Array]:
    """Log-likelihood and priors at ``x``, the gradient, the information on the initial mean."""
    layout, full = problem.layout, free.full(x)
    parameters = layout.unpack(full, problem.initial_mean)
    evaluation = problem.evaluate(parameters)
    value = float(evaluation.log_likelihood.sum())
    gradient = layout.score(full, parameters, evaluation)
    for position, prior in problem.priors:
        term, slope = prior.log_density(full[position], bool(layout.is_log[position]))
        value += term
        gradient[position] += slope
    return value, free.columns.T @ gradient, evaluation.initial_information


def solve(
    problem: Problem,
    warm: Solution | None = None,
    *,
    polish: bool = True,
    start: tuple[FreeVector, Array] | None = None,
    search: bool = True,
) -> Solution:
    """Maximise and turn curvature into covariance.

    Args:
        problem: what to maximise.
        warm: solution of a smaller problem with the same layout; its estimate is the start and
            its covariance the metric, so that a few steps are enough.
        polish: False leaves out curvature and the check of convergence.
        start: coordinates and a point in them to start from.
        search: False takes the start as close to the maximum: Newton steps alone.
    """
    if start is not None:
        free = start[0]._replace(base=start[0].full(start[1]))
    elif warm is not None:
        size = warm.columns.shape[1]
        free = FreeVector(warm.full.copy(), warm.columns, np.ones(size), warm.n_plain)
    else:
        free = free_vector(problem)
    layout = problem.layout

    def known_block(x: Array) -> Array:
        """Curvature in the initial mean: exact, so that it needs no differences."""
        mean = free.columns[layout.slices["initial_mean"], free.n_plain :]
        block = mean.T @ log_posterior(problem, free, x)[2] @ mean
        for position, prior in problem.priors:
            row = free.columns[position, free.n_plain :]
            if row.any():
                block = block + np.outer(row, row) / prior.std**2
        return block

    optimum = maximise(
        lambda x: log_posterior(problem, free, x)[:2], free.scale, free.n_plain, known_block,
        polish=polish, search=search, owners=_owners(problem, free),
    )  # fmt: skip
    full = free.full(optimum.x)
    parameters = layout.unpack(full, problem.initial_mean)
    log_likelihood = optimum.value - sum(
        prior.log_density(full[i], bool(layout.is_log[i]))[0] for i, prior in problem.priors
    )
    spread = free.columns @ _root_of_inverse(optimum.information, free.scale)
    return Solution(parameters, full, spread, free.n_plain, log_likelihood, optimum)


def _owners(problem: Problem, free: FreeVector) -> Array | None:
    """Mode that each free coordinate belongs to, where the problem is separable."""
    if not problem.separable:
        return None
    if ((free.columns != 0.0).sum(0) != 1).any():
        return None  # directions that mix coordinates
    names = np.array(problem.layout.names)[np.abs(free.columns).argmax(0)]
    return np.array([owner_of(str(name)) for name in names])


def owner_of(name: str) -> int:
    """Mode that a coordinate such as ``eigenvalue[3]`` belongs to, `SHARED` for others."""
    group, _, index = name.partition("[")
    return int(index[:-1]) if group in OF_A_MODE and index else SHARED


def free_vector(problem: Problem) -> FreeVector:
    """Coordinates around the problem's start."""
    layout = problem.layout
    size = len(layout.names)
    base = problem.start.copy()
    for position, value in problem.fixed.items():
        base[position] = value
    mean = layout.slices["initial_mean"]
    plain = [i for i in range(size) if i not in problem.fixed and not mean.start <= i < mean.stop]
    identity = np.eye(size)
    columns, scales = [identity[:, plain]], [problem.scale[plain]]
    free_mean = [i for i in range(mean.start, mean.stop) if i not in problem.fixed]
    if free_mean:
        step, directions = _initial_directions(problem, base, np.array(free_mean))
        base[free_mean] += step
        columns.append(identity[:, free_mean] @ directions)
        scales.append(np.ones(directions.shape[1]))
    return FreeVector(base, np.hstack(columns), np.concatenate(scales), len(plain))


def _initial_directions(problem: Problem, base: Array, free: Array) -> tuple[Array, Array]:
    """One exact Newton step in the initial mean, and directions of unit information."""
    layout = problem.layout
    parameters = layout.unpack(base, problem.initial_mean)
    evaluation = problem.evaluate(parameters)
    at = free - layout.slices["initial_mean"].start
    information = evaluation.initial_information[np.ix_(at, at)].copy()
    gradient = evaluation.by_initial_mean[at].copy()
    for position, prior in problem.priors:
        for i in np.flatnonzero(free == position):
            information[i, i] += 1.0 / prior.std**2
            gradient[i] += prior.log_density(base[position], False)[1]
    values, vectors = np.linalg.eigh(information)
    seen = values > INITIAL_TOLERANCE * values.max()
    directions = vectors[:, seen] / np.sqrt(values[seen])
    return directions @ (directions.T @ gradient), directions


def _root_of_inverse(information: Array, scale: Array) -> Array:
    """Lower triangular ``R`` with ``R R' = information^-1``.

    Directions without information get the variance `UNSEEN`. Triangular, so that the last columns
    still move the last coordinates only.
    """
    values, vectors = np.linalg.eigh(scale[:, None] * information * scale)
    # A direction without information is known to six digits from a differenced score. With a
    # larger variance its small share in other coordinates would drown their standard errors.
    floor = UNSEEN**-1 * max(values.max(initial=0.0), 1e-12)
    inverse = np.where(values > floor, 1.0 / np.maximum(values, floor), UNSEEN)
    # QR of the symmetric root instead of a Cholesky factor: it cannot fail on rounding.
    upper = np.asarray(np.linalg.qr((vectors * np.sqrt(inverse)).T, mode="r"))
    return scale[:, None] * upper.T


def starting_vector(
    layout: Layout, rough: Rough, observation_std: float, initial_mean: Array, spread: Array
) -> Array:
    """Full vector near rough estimates; the spread of coupled modes is a covariance."""
    if isinstance(layout, CoupledLayout) and isinstance(rough, CoupledRough):
        return layout.starting_vector(rough, observation_std, initial_mean, spread)
    full = np.zeros(len(layout.names))
    s = layout.slices
    full[s["drift"]] = layout.drift.start(rough.eigenvalues)
    full[s["noise"]] = layout.noise.start(rough.noise_variance)
    full[s["observation"]] = np.log(max(observation_std, 1e-150))
    if layout.sizes["initial_variance"]:
        full[s["initial_variance"]] = np.log(np.maximum(spread, 1e-6 * rough.energy + 1e-300))
    if layout.sizes["initial_mean"]:
        full[s["initial_mean"]] = initial_mean
    return full


def starting_scale(
    layout: Layout, full: Array, rough: Rough, n_paths: int, n_steps: int, span: float, count: float
) -> Array:
    """Rough standard errors of the coordinates from the information of noise-free paths.

    Per mode the information on ``log q`` is half the number of transitions, on ``log lambda``
    about ``lambda^2 E c^2 span / q`` a path.
    """
    if isinstance(layout, CoupledLayout) and isinstance(rough, CoupledRough):
        return layout.starting_scale(full, rough, n_paths, n_steps, span, count)
    s = layout.slices
    lam, q = rough.eigenvalues, rough.noise_variance
    by_lambda = np.maximum(n_paths * span * lam**2 * rough.energy / q, 1.0)
    by_q = np.full(len(q), 0.5 * max(n_paths * n_steps, 2))
    scale = np.ones(len(layout.names))
    phi, psi = full[s["drift"]], full[s["noise"]]
    scale[s["drift"]] = _scale_of(layout.drift.jacobian(phi), layout.drift.values(phi), by_lambda)
    scale[s["noise"]] = _scale_of(layout.noise.jacobian(psi), layout.noise.values(psi), by_q)
    # A part sees its share of all transitions, and so does the first, which it is compared with.
    scale[s["season"]] = np.sqrt(2.0 * (layout.sizes["season"] + 1) / by_q.sum())
    scale[s["observation"]] = 1.0 / np.sqrt(max(2.0 * count / max(layout.n_noise, 1), 1.0))
    scale[s["initial_variance"]] = np.sqrt(2.0 / max(n_paths, 2))
    return scale


def _scale_of(jacobian: Array, values: Array, information: Array) -> Array:
    logs = jacobian / np.maximum(values, 1e-300)[:, None]
    total = (information[:, None] * logs**2).sum(0)
    return 1.0 / np.sqrt(np.maximum(total, 1e-2))

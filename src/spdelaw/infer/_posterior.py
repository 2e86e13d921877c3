"""The log-posterior as a function of free coordinates, and its maximum.

The free vector ``x`` maps to the full vector of coordinates by ``full = base + A x``. Fixed
coordinates have no column in ``A``; the initial mean, in which the log-likelihood is exactly
quadratic, enters through the eigenvectors of its information, so that directions the data
cannot see drop out instead of breaking the conditioning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from spdelaw.infer._bend import Bend, balanced
from spdelaw.infer._chain_rule import coordinate_information
from spdelaw.infer._curvature import SHARED
from spdelaw.infer._estimate import Estimate
from spdelaw.infer._metric import PARTS, Metric
from spdelaw.infer._model import Model
from spdelaw.infer._moment_estimates import MomentEstimates
from spdelaw.infer._optimise import NEAR, Optimum, maximise
from spdelaw.infer._parametrisation import Parametrisation
from spdelaw.infer._parametrise import LEAST_KNOWN, starting_scale, starting_vector
from spdelaw.infer._priors import fixed_values, prior_terms
from spdelaw.model import Evaluation, StateSpace

Array = np.ndarray
Evaluate = Callable[[StateSpace], Evaluation]
#: Information on the numbers of a law of single modes, or None where there is no formula.
Information = Callable[[StateSpace], Array | None]

#: Directions of the initial mean with less than this share of the largest information drop out.
INITIAL_TOLERANCE = 1e-9
#: Groups of coordinates that have one for each mode.
PER_MODE = ("eigenvalue", "noise_variance", "initial_variance", "initial_mean")
#: Slope, per rough standard error, from which on a start is taken for the maximum.
THERE = 1e-3
#: Step of the difference of a prior's score.
PRIOR_STEP = 1e-4
#: Variance, in squared rough standard errors, of a direction without information.
UNSEEN = 1e8


@dataclasses.dataclass(frozen=True, eq=False)
class LogPosterior:
    """Log-likelihood plus log-prior in the coordinates that a maximisation moves.

    Attributes:
        parametrisation: from full vectors to state-space models.
        evaluate: likelihood and score of a model.
        priors: positions in the full vector with their prior.
        base: full vector at ``x = 0``, (p,).
        columns: ``A``, (p, free).
        scale: rough standard errors of ``x``, (free,).
        n_plain: entries of ``x`` before those that move the initial mean.
        tilt: slope of a further term of the log-prior that is linear in the full vector, (p,).
        separable: whether modes do not meet in the likelihood but through shared coordinates.
        metric: expected information, where modes are coupled.
        information: observed information, where modes are single.
        is_rough: whether that is of data less a rough mean: it may bend up where nothing decays,
            and says nothing then.
        expects: the metric, also where the search does not go by it.
        seconds: that one evaluation takes, about.
    """

    parametrisation: Parametrisation
    evaluate: Evaluate
    priors: list[tuple[int, Any]]
    base: Array
    columns: Array
    scale: Array
    n_plain: int
    tilt: Array
    separable: bool = False
    metric: Metric | None = None
    information: Information | None = None
    expects: Metric | None = None
    seconds: float = 0.0
    is_rough: bool = False

    def full(self, x: Array) -> Array:
        """Full vector at ``x``."""
        return self.base + self.columns @ x

    def at(self, x: Array) -> tuple[float, Array, Array]:
        """Value, gradient, and the information on the initial mean."""
        full = self.full(x)
        model = self.parametrisation.state_space(full)
        found = self.evaluate(model)
        believed, slope = self.log_prior(full)
        value = float(found.log_likelihood.sum()) + believed
        gradient = self.parametrisation.score(full, model, found) + slope
        return value, self.columns.T @ gradient, found.initial_information

    def log_prior(self, full: Array) -> tuple[float, Array]:
        """Log density of the priors at a full vector, up to a constant, and its gradient."""
        tilted = self.tilt != 0.0  # a coordinate may be held at minus infinity
        value, gradient = float(self.tilt[tilted] @ full[tilted]), self.tilt.copy()
        for i, prior in self.priors:
            own, slope = prior.log_density(full[i], bool(self.parametrisation.is_log[i]))
            value, gradient[i] = value + own, gradient[i] + slope
        return value, gradient

    def start_value(self) -> float:
        """Value at the start; minus infinity where there is none."""
        try:
            value = self.at(np.zeros(self.columns.shape[1]))[0]
        except (ArithmeticError, ValueError):  # LinAlgError is a ValueError
            return -np.inf
        return value if np.isfinite(value) else -np.inf

    def moved(self, x: Array) -> LogPosterior:
        """The same with ``x`` as the start."""
        return dataclasses.replace(self, base=self.full(x))

    def measured(self) -> LogPosterior:
        """The same in coordinates of unit expected information, where the metric has any."""
        own, n = self.parametrisation, self.n_plain
        found = None if self.metric is None else self.metric.information(own, self.base)
        if found is None:
            return self
        plain = self.columns[:, :n].argmax(0)
        whole, at = np.zeros((len(self.base),) * 2), Metric.positions(own)
        whole[plain, plain] = 1.0 / self.scale[:n] ** 2
        whole[np.ix_(at, at)] = found
        whole[np.diag_indices(len(whole))] += LEAST_KNOWN
        columns, scale = np.array(self.columns), np.array(self.scale)
        columns[plain, :n], scale[:n] = lower_root(whole[np.ix_(plain, plain)]), 1.0
        return dataclasses.replace(self, columns=columns, scale=scale, metric=None)

    def from_estimate(self, estimate: Estimate, share: float) -> LogPosterior:
        """Start at an estimate from a ``share`` of the data, in the metric of its covariance."""
        base, columns = estimate.full, estimate.columns * np.sqrt(share)
        own, n_plain = dataclasses.replace(self, metric=None), estimate.posterior.n_plain
        scale = np.ones(columns.shape[1])
        return dataclasses.replace(own, base=base, columns=columns, scale=scale, n_plain=n_plain)

    def initial_information(self, x: Array) -> Array:
        """Curvature in the initial mean: exact, so that it needs no differences."""
        where = self.parametrisation.slices.get("initial_mean", slice(0, 0))
        mean = self.columns[where, self.n_plain :]
        block = mean.T @ self.at(x)[2] @ mean
        for position, prior in self.priors:
            row = self.columns[position, self.n_plain :]
            if row.any():
                block = block + np.outer(row, row) / prior.std**2
        return block

    def exact_information(self, x: Array) -> Array | None:
        """Curvature around a maximum by a formula, or None.

        Of single modes whatever their coordinates; of coupled ones where the data are complete and
        nothing but drift and noise is free.
        """
        full, own, metric = self.full(x), self.parametrisation, self.metric
        if self.information is None:
            is_alone = not self.priors and set(own.parts) == set(PARTS[:2])
            if metric is None or not (metric.exact and is_alone):
                return None
            known, plain = metric.information(own, full), self.columns.argmax(0)
            return np.zeros((len(x),) * 2) if known is None else known[np.ix_(plain, plain)]
        model = own.state_space(full)
        by_numbers = self.information(model)
        if by_numbers is None:
            return None
        found = coordinate_information(own, full, self.evaluate(model), by_numbers)
        if self.priors:  # each of a coordinate of its own
            low, high = (self.log_prior(full + step)[1] for step in (-PRIOR_STEP, PRIOR_STEP))
            found[np.diag_indices(len(found))] -= (high - low) / (2.0 * PRIOR_STEP)
        found = self.columns.T @ found @ self.columns
        scaled = self.scale[:, None] * found * self.scale
        is_wrong = self.is_rough and not (
            np.isfinite(scaled).all() and np.linalg.eigvalsh(scaled)[0] > 0
        )
        return None if is_wrong else found

    def expected_information(self, x: Array) -> Array | None:
        """Information that the law expects of rows that are all like their mean, or None.

        A coordinate that it says nothing about keeps its rough standard error; the initial mean has
        its own.
        """
        own, n = self.parametrisation, self.n_plain
        found = None if self.expects is None else self.expects.information(own, self.full(x))
        if found is None:
            return None
        at = self.columns[Metric.positions(own)]
        out = at.T @ found @ at
        plain = np.arange(n)
        out[plain, plain] += np.where(np.abs(at[:, :n]).sum(0) > 0, 0.0, self.scale[:n] ** -2.0)
        out[plain, plain] += LEAST_KNOWN
        if n < len(out):
            out[n:, n:] = self.initial_information(x)
        return np.asarray(out)

    def owners(self) -> Array | None:
        """Mode that each free coordinate belongs to, where the modes are separable."""
        if not self.separable or ((self.columns != 0.0).sum(0) != 1).any():
            return None
        names = np.array(self.parametrisation.names)[np.abs(self.columns).argmax(0)]
        return np.array([owner_of(str(name)) for name in names])


def owner_of(name: str) -> int:
    """Mode that a coordinate such as ``eigenvalue[3]`` belongs to, `SHARED` for others."""
    group, _, index = name.partition("[")
    return int(index[:-1]) if group in PER_MODE and index else SHARED


def log_posterior(
    parametrisation: Parametrisation,
    evaluate: Evaluate,
    moments: MomentEstimates,
    model: Model,
    start: Array | None = None,
    *,
    separable: bool = False,
    metric: Metric | None = None,
    **how: Any,
) -> LogPosterior:
    """Log-posterior around moment estimates; the initial mean takes one Newton step.

    Args:
        parametrisation: what is estimated.
        evaluate: likelihood and score.
        moments: to start from and to scale by.
        model: what is held and believed.
        start: full vector to start from instead.
        separable: whether the data leave modes apart that the law leaves apart.
        metric: expected information, where modes are coupled.
        how: ``information``, ``is_rough`` and ``seconds`` of a `LogPosterior`.
    """
    start = starting_vector(parametrisation, moments) if start is None else start
    separable = separable and parametrisation.state_space(start).is_diagonal
    scale = starting_scale(parametrisation, start, moments)
    fixed = fixed_values(parametrisation, model.fixed)
    priors = prior_terms(parametrisation, model.priors)
    base, identity = start.copy(), np.eye(len(start))
    base[list(fixed)] = list(fixed.values())
    where = parametrisation.slices.get("initial_mean", slice(len(start), len(start)))
    plain = [i for i in range(where.start) if i not in fixed]
    mean = [i for i in range(where.start, where.stop) if i not in fixed]
    columns, scales = identity[:, plain], scale[plain]
    if mean:
        found = evaluate(parametrisation.state_space(base))
        step, directions = _initial_directions(found, base, np.array(mean), where.start, priors)
        base[mean] += step
        columns = np.hstack([columns, identity[:, mean] @ directions])
        scales = np.concatenate([scales, np.ones(directions.shape[1])])
    known = (parametrisation, evaluate, priors, base, columns, scales, len(plain))
    return LogPosterior(*known, np.zeros(len(base)), separable, metric, expects=metric, **how)


def _initial_directions(
    found: Evaluation, base: Array, mean: Array, first: int, priors: list[tuple[int, Any]]
) -> tuple[Array, Array]:
    """One exact Newton step in the initial mean, and directions of unit information."""
    at = mean - first
    information = found.initial_information[np.ix_(at, at)].copy()
    gradient = found.by_initial_mean[at].copy()
    for position, prior in priors:
        for i in np.flatnonzero(mean == position):
            information[i, i] += 1.0 / prior.std**2
            gradient[i] += prior.log_density(base[position], False)[1]
    values, vectors = np.linalg.eigh(information)
    seen = values > INITIAL_TOLERANCE * values.max()
    directions = vectors[:, seen] / np.sqrt(values[seen])
    return directions @ (directions.T @ gradient), directions


def lower_root(matrix: Array) -> Array:
    """Lower triangular ``R`` with ``R R' = matrix^-1``, of a positive definite matrix."""
    return _turned_inverse(np.asfortranarray(np.linalg.cholesky(matrix[::-1, ::-1])))


def _turned_inverse(factor: Array) -> Array:
    """``R`` from the lower Cholesky factor of the matrix whose rows and columns run backwards."""
    inverse = scipy.linalg.lapack.dtrtri(factor, lower=1)[0]
    return np.asarray(inverse[::-1, ::-1].T)


def estimate(
    posterior: LogPosterior, *, polish: bool = True, search: bool = True, rough: bool = False
) -> Estimate:
    """Maximum of a log-posterior, with the covariance that its curvature gives.

    Args:
        posterior: what to maximise.
        polish: False leaves out curvature and the check of convergence.
        search: False takes the start as close to the maximum: Newton steps alone.
        rough: a value to compare laws by, good to a fraction of a nat, and nothing else.
    """
    if posterior.metric is not None and search:
        posterior, optimum = _by_metric(posterior, polish)
    else:
        optimum = maximise(posterior, polish=polish, search=search, rough=rough)
    full = posterior.full(optimum.x)
    if polish:
        root = _root_of_inverse(optimum, posterior.scale)
        columns = _selected(posterior.columns, root)
    else:  # the information is a diagonal guess
        columns = posterior.columns / np.sqrt(np.diag(optimum.information))
    space, height = posterior.parametrisation.state_space(full), optimum.value
    return Estimate(space, full, columns, height - posterior.log_prior(full)[0], optimum, posterior)


def _selected(columns: Array, root: Array) -> Array:
    """``columns @ root``; a copy of rows where each column stands for one coordinate."""
    at = columns.argmax(0)
    if np.count_nonzero(columns) != len(at) or not (columns[at, np.arange(len(at))] == 1.0).all():
        return columns @ root
    out = np.zeros((len(columns), root.shape[1]))
    out[at] = root
    return out


def _by_metric(posterior: LogPosterior, polish: bool) -> tuple[LogPosterior, Optimum]:
    """Search in the metric, then polish in coordinates of their own.

    Of complete, noise-free data the moment estimates often are the maximum: no search then.
    """
    n_evaluations, is_there = 1, False
    if posterior.metric is not None and posterior.metric.exact and polish:
        slope = posterior.at(np.zeros(len(posterior.scale)))[1]
        is_there = bool(np.abs(posterior.scale * slope).max(initial=0.0) < THERE)
    if not is_there:
        fast = posterior.measured()
        near = maximise(fast, polish=False)
        if not polish:
            return fast, near
        posterior = dataclasses.replace(posterior, base=fast.full(near.x))
        n_evaluations += near.n_evaluations
    optimum = maximise(posterior, search=False)
    n_evaluations += optimum.n_evaluations
    if not (optimum.converged and optimum.decrement < NEAR):
        posterior = posterior.moved(optimum.x)
        optimum = maximise(posterior)
        n_evaluations += optimum.n_evaluations
    return posterior, optimum._replace(n_evaluations=n_evaluations)


def _root_of_inverse(optimum: Optimum, scale: Array) -> Array:
    """Lower triangular ``R`` with ``R R' = information^-1``.

    Directions without information get the variance `UNSEEN`. Triangular, so that the last columns
    still move the last coordinates only.
    """
    bend, scale = optimum.bend, balanced(optimum.information, scale)
    if bend is None or not np.array_equal(bend.scale, scale):
        bend = Bend.of(optimum.information, scale)
    if bend.factor is not None:
        return bend.scale[:, None] * _turned_inverse(bend.factor)
    values, vectors = bend.values, bend.vectors
    # A direction without information is known to six digits from a differenced score. With a
    # larger variance its small share in other coordinates would drown their standard errors.
    floor = UNSEEN**-1 * max(values.max(initial=0.0), 1e-12)
    inverse = np.where(values > floor, 1.0 / np.maximum(values, floor), UNSEEN)
    # QR of the symmetric root instead of a Cholesky factor: it cannot fail on rounding.
    upper = np.asarray(np.linalg.qr((vectors * np.sqrt(inverse)).T, mode="r"))
    return bend.scale[:, None] * upper.T

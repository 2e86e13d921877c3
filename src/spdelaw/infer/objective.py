"""The objective: the log-posterior of free coordinates, its score and curvature."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import scipy

from spdelaw.checks import checked
from spdelaw.data.observed import Observed
from spdelaw.errors import InputError
from spdelaw.infer.model import Decision, Model
from spdelaw.infer.moments import MomentEstimates
from spdelaw.infer.optimise import (
    NEAR_GAIN,
    SHARED,
    Estimate,
    FactoredHessian,
    MeanEstimate,
    Optimum,
    balanced,
    difference_information,
    maximise,
)
from spdelaw.infer.parameters import (
    LEAST_DETERMINED,
    Parametrisation,
    starting_scale,
    starting_vector,
)
from spdelaw.processes import operators
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.collapse import Block, Collapsed
from spdelaw.statespace.information import (
    Tangents,
    complete_information,
    expected_information,
    tangents,
)
from spdelaw.statespace.likelihood import Evaluation
from spdelaw.statespace.mean import with_mean
from spdelaw.statespace.statistics import Statistics

# ---------- Priors and fixed values of single parameters
#
# Keys are coordinate names such as ``kappa`` or ``eigenvalue[3]``, or a group such as
# ``eigenvalue`` with one number per mode, NaN for free.


ONE_NUMBER_PER_MODE = "give one number per mode, NaN for free"


@checked()
@dataclasses.dataclass(frozen=True)
class LogNormal:
    """``log x ~ N(log median, sigma^2)``: for positive parameters.

    Example:
        >>> LogNormal(median=2.0, sigma=0.5)
        LogNormal(median=2.0, sigma=0.5)
    """

    median: float
    sigma: float

    def log_density(self, coordinate: float, is_log: bool) -> tuple[float, float]:
        """Log density by the coordinate, up to a constant, and its slope."""
        z = (coordinate - np.log(self.median)) / self.sigma
        return -0.5 * z**2, -z / self.sigma


@checked()
@dataclasses.dataclass(frozen=True)
class Normal:
    """``x ~ N(mean, std^2)``.

    Example:
        >>> Normal(mean=0.0, std=1.0)
        Normal(mean=0.0, std=1.0)
    """

    mean: float
    std: float

    def log_density(self, coordinate: float, is_log: bool) -> tuple[float, float]:
        """Log density of the number itself, up to a constant, and its slope by the coordinate."""
        x = np.exp(coordinate) if is_log else coordinate
        z = (x - self.mean) / self.std
        return -0.5 * z**2, -z / self.std * (x if is_log else 1.0)


def fixed_values(
    parametrisation: Parametrisation, fixed: Mapping[str, Any] | None
) -> dict[int, float]:
    """Positions and coordinate values of fixed parameters."""
    is_log = parametrisation.is_log
    drift = parametrisation.slices.get("drift", slice(0, 0))
    # Nuisance modes follow the Laplacian: the data cannot determine both their order and size.
    out = {i: 0.0 for i, name in enumerate(parametrisation.names) if name == "nuisance_s"}
    for key, value in (fixed or {}).items():
        for position, number in _named_positions(parametrisation, key, value, "fixed"):
            if np.isnan(number):
                continue
            # Without decay a mode is Brownian motion; without noise it has no density.
            least = 0.0 if position < drift.stop else 5e-324
            if not np.isfinite(number) or (is_log[position] and number < least):
                expected = "a finite number, positive where it is a variance"
                fix = "give the variance itself, or NaN for free"
                raise InputError(f"fixed[{key!r}]", expected=expected, got=repr(number), fix=fix)
            with np.errstate(divide="ignore"):
                out[position] = float(np.log(number)) if is_log[position] else number
    return out


def prior_terms(
    parametrisation: Parametrisation, priors: Mapping[str, Any] | None
) -> list[tuple[int, Any]]:
    """Positions with their prior."""
    out = []
    for key, prior in (priors or {}).items():
        what = f"priors[{key!r}]"
        if not isinstance(prior, (LogNormal, Normal)):
            expected, got = "sl.LogNormal(...) or sl.Normal(...)", type(prior).__name__
            fix = "priors={'eigenvalue': sl.LogNormal(5.0, 1.0)}"
            raise InputError(what, expected=expected, got=got, fix=fix)
        for position, _ in _named_positions(parametrisation, key, 1.0, "priors"):
            if isinstance(prior, LogNormal) and not parametrisation.is_log[position]:
                expected = "a Normal prior for a number of either sign"
                fix = "use sl.Normal(mean, std)"
                raise InputError(what, expected=expected, got="LogNormal", fix=fix)
            out.append((position, prior))
    return out


def _named_positions(
    parametrisation: Parametrisation, key: str, value: Any, argument: str
) -> list[tuple[int, float]]:
    what, names = f"{argument}[{key!r}]", parametrisation.names
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(
            what, expected="numbers", got=repr(value), fix=ONE_NUMBER_PER_MODE
        ) from error
    if key in names and numbers.ndim == 0:
        return [(names.index(key), float(numbers))]
    group = [i for i, name in enumerate(names) if name == key or name.startswith(f"{key}[")]
    if not group:
        parameter_names = sorted({name.split("[")[0] for name in names})
        expected = f"a parameter of this fit, one of {parameter_names}"
        raise InputError(
            what, expected=expected, got=repr(key), fix=f"groups: {ONE_NUMBER_PER_MODE}"
        )
    if numbers.ndim and numbers.shape != (len(group),):
        expected, got = f"one number, or {len(group)}", f"shape {numbers.shape}"
        raise InputError(what, expected=expected, got=got, fix=ONE_NUMBER_PER_MODE)
    return list(zip(group, np.broadcast_to(numbers, len(group)).tolist(), strict=True))


# ---------- Metric of a search over coupled modes: the expected information
#
# A drift and a noise covariance of N modes have about 3/2 N^2 coordinates, which the data tie to
# one another. In coordinates in which the expected information is the identity a quasi-Newton
# method needs a few dozen evaluations, whatever the number of modes.


Array = np.ndarray

#: Parts whose coordinates have a metric, in the order of the full vector.
METRIC_PARTS = ("drift", "noise", "observation")
#: Least eigenvalue of a mean Gram matrix, relative to its largest.
LEAST_GRAM_EIGENVALUE = 1e-6


class Metric(NamedTuple):
    """Expected information on some coordinates.

    Attributes:
        dt: length of the steps.
        of: information along the directions of tangents, (p, p), or (p + 1, p + 1) with that of the
            logarithm of the observation variance last.
        exact: whether this is the curvature of the log-likelihood at its maximum.
    """

    dt: float
    of: Callable[[StateSpace, Tangents], Array]
    exact: bool = False

    @staticmethod
    def positions(parametrisation: Parametrisation) -> Array:
        """Positions of these coordinates in the full vector."""
        every, slices = np.arange(len(parametrisation.names)), parametrisation.slices
        return np.concatenate([every[slices[part]] for part in METRIC_PARTS if part in slices])

    def information(self, parametrisation: Parametrisation, full: Array) -> Array | None:
        """Information on all coordinates of drift, noise and observation variance, (p, p), or None.

        None where it is not finite, or where the law has no tangents.
        """
        space = parametrisation.state_space(full)
        by_drift, by_noise = (
            _operator_directions(parametrisation, x, full) for x in METRIC_PARTS[:2]
        )
        directions = tangents(space, by_drift, by_noise, self.dt)
        if directions is None:
            return None
        information, n = self.of(space, directions), len(by_drift) + len(by_noise)
        if "observation" in parametrisation.parts:
            information[-1, :] *= 2.0  # of the deviation's logarithm
            information[:, -1] *= 2.0
        else:
            information = information[:n, :n]
        return information if np.isfinite(information).all() else None


def _operator_directions(parametrisation: Parametrisation, part: str, full: Array) -> Array:
    """Derivatives of an operator by its coordinates, as matrices (p, N, N)."""
    stack = np.moveaxis(parametrisation.jacobian(part, full), -1, 0)
    return stack if stack.ndim == 3 else operators.embed(stack)


def metric_of_sums(s: Statistics, has_mean: bool = False) -> Metric:
    """Metric of complete, noise-free paths; exact where all steps are of one length.

    A mean of the law takes the information that the mean of the states has.
    """
    n_steps, before = s.of_pairs.n_steps, s.of_pairs.before
    u, n = int(n_steps.argmax()), float(n_steps.sum())
    first = s.first_steps[0][u] * has_mean
    scaled = (before[u] - np.outer(first, first) / n_steps[u]) * (n / n_steps[u])

    def of(_: StateSpace, directions: Tangents) -> Array:
        return complete_information(directions, n, scaled)

    return Metric(float(s.lengths[0][u]), of, len(n_steps) == 1)


def metric_of_rows(collapsed: Collapsed, dt: float, spare: float) -> Metric:
    """Metric of rows observed with noise, each replaced by a row of the mean Gram matrix.

    Args:
        collapsed: the rows.
        dt: most frequent step.
        spare: numbers outside the modes that determine the observation variance.
    """
    block_sums = collapsed.map(_summed_gram)
    total, rows = (sum(pair[i] for pair in block_sums) for i in range(2))
    values, vectors = np.linalg.eigh(total / max(rows, 1.0))
    floored = np.maximum(values, LEAST_GRAM_EIGENVALUE * values[-1])
    inverse = (vectors / floored) @ vectors.T

    def of(space: StateSpace, directions: Tangents) -> Array:
        error = float(space.observation_variance) * inverse
        information = expected_information(directions, error, rows)
        information[-1, -1] += 0.5 * spare
        return information

    return Metric(dt, of)


def _summed_gram(block: Block) -> tuple[Array, float]:
    """Gram matrices summed over rows with observed values, (N, N), and how many rows."""
    gram = block.gram
    count = len(block.paths) if gram.shape[-1] == 1 else 1
    total = np.diag(gram.sum((0, 2))) if block.is_diagonal else gram.sum((0, 3))
    return count * total, float(count * (block.diagonal > 0).any(1).sum())


# ---------- The log-posterior as a function of free coordinates, and its maximum
#
# The free vector ``x`` maps to the full vector of coordinates by ``full = base + A x``. Fixed
# coordinates have no column in ``A``; the initial mean, in which the log-likelihood is exactly
# quadratic, enters through the eigenvectors of its information, so that directions without
# information drop out instead of breaking the conditioning.


Evaluate = Callable[[StateSpace], Evaluation]


class HeldMean(NamedTuple):
    """A likelihood around a mean that is held.

    Attributes:
        mean, covariance: the mean given the other parameters, (N,) and (N, N).
        shared: ``-d2 log p / d m0 d m'``, (N, N).
        evaluate: likelihood and score around that mean, by the mean included.
    """

    mean: Array
    covariance: Array
    shared: Array
    evaluate: Evaluate


#: Directions of the initial mean with less than this share of the largest information drop out.
INITIAL_TOLERANCE = 1e-9
#: Groups of coordinates that have one for each mode.
PER_MODE = ("eigenvalue", "noise_variance", "initial_variance", "initial_mean")
#: Slope, per rough standard error, below which a start counts as the maximum; for a quick fit.
START_IS_MAXIMUM, START_IS_NEAR = 1e-3, 0.1
#: Step of the differences of a value, in rough standard errors.
VALUE_STEP = 3e-4
#: Second difference of a value from which on it shows a curvature, and steps tried, times ten each.
LEAST_BEND, SCALE_ROUNDS = 0.01, 6
#: Variance, in squared rough standard errors, of a direction without information.
UNINFORMED_VARIANCE = 1e8


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
        separable: whether only shared coordinates couple the modes in the likelihood.
        metric: expected information, where modes are coupled.
        held: for a restricted likelihood, its mean held at what it is at a full vector.
        expects: the metric, also where the search does not use it.
        seconds: rough duration of one evaluation.
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
    expects: Metric | None = None
    seconds: float = 0.0
    held: Callable[[Array], HeldMean] | None = None

    def full(self, x: Array) -> Array:
        """Full vector at ``x``."""
        return self.base + self.columns @ x

    def value(self, x: Array) -> float:
        """Log-posterior at ``x``."""
        return self.at(x)[0]

    def at(self, x: Array) -> tuple[float, Array, Array]:
        """Value, gradient, and the information on the initial mean."""
        value, gradient, evaluation = self._evaluated(x)
        return value, gradient, evaluation.initial_information

    def by_mean_at(self, x: Array) -> tuple[float, Array]:
        """Value and gradient, at the end by the mean, at the first entries of ``x``."""
        value, gradient, evaluation = self._evaluated(x[: len(self.scale)])
        return value, np.concatenate([gradient, evaluation.by_mean])

    def _evaluated(self, x: Array) -> tuple[float, Array, Evaluation]:
        full = self.full(x)
        model = self.parametrisation.state_space(full)
        evaluation = self.evaluate(model)
        log_prior, slope = self.log_prior(full)
        value = float(evaluation.log_likelihood.sum()) + log_prior
        gradient = self.parametrisation.score(full, model, evaluation) + slope
        return value, self.columns.T @ gradient, evaluation

    def log_prior(self, full: Array) -> tuple[float, Array]:
        """Log density of the priors at a full vector, up to a constant, and its gradient."""
        tilted = self.tilt != 0.0  # a coordinate may be held at minus infinity
        value, gradient = float(self.tilt[tilted] @ full[tilted]), self.tilt.copy()
        for i, prior in self.priors:
            log_density, slope = prior.log_density(full[i], bool(self.parametrisation.is_log[i]))
            value, gradient[i] = value + log_density, gradient[i] + slope
        return value, gradient

    def start_value(self) -> float:
        """Value at the start; minus infinity where there is none."""
        try:
            value = self.value(np.zeros(self.columns.shape[1]))
        except (ArithmeticError, ValueError):  # LinAlgError is a ValueError
            return -np.inf
        return value if np.isfinite(value) else -np.inf

    def maximum_by_scores(self) -> Optimum | None:
        """Maximum by the scores of single terms, where the likelihood has them; else None."""
        return None

    def moved(self, x: Array) -> Self:
        """The same with ``x`` as the start."""
        return dataclasses.replace(self, base=self.full(x))

    def measured(self) -> LogPosterior:
        """The same in coordinates of unit expected information, where the metric has any."""
        parametrisation, n = self.parametrisation, self.n_plain
        information = (
            None if self.metric is None else self.metric.information(parametrisation, self.base)
        )
        if information is None:
            return self
        plain = self.columns[:, :n].argmax(0)
        whole, at = np.zeros((len(self.base),) * 2), Metric.positions(parametrisation)
        whole[plain, plain] = 1.0 / self.scale[:n] ** 2
        whole[np.ix_(at, at)] = information
        whole[np.diag_indices(len(whole))] += LEAST_DETERMINED
        columns, scale = np.array(self.columns), np.array(self.scale)
        columns[plain, :n], scale[:n] = lower_root(whole[np.ix_(plain, plain)]), 1.0
        return dataclasses.replace(self, columns=columns, scale=scale, metric=None)

    def from_estimate(self, estimate: Estimate, share: float) -> LogPosterior:
        """Start at an estimate from a ``share`` of the data, in the metric of its covariance."""
        base, columns = estimate.full, estimate.columns * np.sqrt(share)
        posterior, n_plain = dataclasses.replace(self, metric=None), estimate.posterior.n_plain
        scale = np.ones(columns.shape[1])
        return dataclasses.replace(
            posterior, base=base, columns=columns, scale=scale, n_plain=n_plain
        )

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

        Of coupled modes, where the data are complete and nothing but drift and noise is free.
        """
        parametrisation, metric = self.parametrisation, self.metric
        is_alone = not self.priors and set(parametrisation.parts) == set(METRIC_PARTS[:2])
        if metric is None or not (metric.exact and is_alone):
            return None
        expected, plain = (
            metric.information(parametrisation, self.full(x)),
            self.columns.argmax(0),
        )
        return np.zeros((len(x),) * 2) if expected is None else expected[np.ix_(plain, plain)]

    def differenced_information(
        self, score: Callable[..., tuple[float, Array]], x: Array, scale: Array
    ) -> tuple[Array, Array]:
        """Curvature by differences of the score, (free, free), and ``d2 log p / dm dx``.

        The restricted likelihood has the curvature of the likelihood with its mean held, less
        ``M' C M`` with ``M = d2 log p / dm dx``, (N, free). What is left out is that of ``1/2 log
        |C|``, which is nearly linear in the logarithms of rates and variances.
        """
        n, owners = len(x), self.owners()
        if self.held is None:
            how = (self.n_plain, self.initial_information, owners)
            information = difference_information(lambda z: score(z, self.at), x, scale, *how)
            return np.nan_to_num(information, nan=0.0, posinf=0.0, neginf=0.0), np.zeros((0, n))
        held = self.held(self.full(x))
        plain, modes = dataclasses.replace(self, evaluate=held.evaluate), np.arange(len(held.mean))

        def linear_block(_: Array) -> Array:
            """Among the initial mean and the mean, where the log-likelihood is quadratic."""
            nothing = np.zeros((len(modes),) * 2)
            if self.n_plain == n:
                return nothing
            where = self.parametrisation.slices["initial_mean"]
            shared = self.columns[where, self.n_plain :].T @ held.shared
            return np.block([[plain.initial_information(x), shared], [shared.T, nothing]])

        owners = None if owners is None else np.concatenate([owners, modes + 1])
        joint = difference_information(
            lambda z: score(z, plain.by_mean_at),
            np.pad(x, (0, len(modes))),
            np.pad(scale, (0, len(modes)), constant_values=1.0),
            self.n_plain,
            linear_block,
            owners,
        )
        # Next to points without a likelihood a difference is not finite; it counts as zero.
        joint = np.nan_to_num(joint, nan=0.0, posinf=0.0, neginf=0.0)
        mixed = -joint[n:, :n]
        return joint[:n, :n] - np.nan_to_num(mixed.T @ held.covariance @ mixed), mixed

    def expected_information(self, x: Array) -> Array | None:
        """Information that the law expects of rows that are all like their mean, or None.

        A coordinate that it says nothing about keeps its rough standard error; the initial mean has
        its own.
        """
        parametrisation, n = self.parametrisation, self.n_plain
        if self.expects is None:
            return None
        information = self.expects.information(parametrisation, self.full(x))
        if information is None:
            return None
        at = self.columns[Metric.positions(parametrisation)]
        out = at.T @ information @ at
        plain = np.arange(n)
        out[plain, plain] += np.where(np.abs(at[:, :n]).sum(0) > 0, 0.0, self.scale[:n] ** -2.0)
        out[plain, plain] += LEAST_DETERMINED
        if n < len(out):
            out[n:, n:] = self.initial_information(x)
        return np.asarray(out)

    def owners(self) -> Array | None:
        """Mode that each free coordinate belongs to, where the modes are separable."""
        if not self.separable or ((self.columns != 0.0).sum(0) != 1).any():
            return None
        names = np.array(self.parametrisation.names)[np.abs(self.columns).argmax(0)]
        return np.array([owner_of(str(name)) for name in names])


@dataclasses.dataclass(frozen=True, eq=False)
class DifferencedPosterior(LogPosterior):
    """Log-posterior of a likelihood without a score: one-sided differences of its value.

    Their error, half a `VALUE_STEP`, moves the maximum by as little in standard errors.
    """

    def value(self, x: Array) -> float:
        """Log-posterior at ``x``."""
        full = self.full(x)
        evaluation = self.evaluate(self.parametrisation.state_space(full))
        return float(evaluation.log_likelihood.sum()) + self.log_prior(full)[0]

    def at(self, x: Array) -> tuple[float, Array, Array]:
        """Value, gradient, and no information on the initial mean."""
        value, steps = self.value(x), VALUE_STEP * self.scale
        ends = np.array([self.value(x + step) for step in np.diag(steps)])
        return value, (ends - value) / steps, np.zeros((0, 0))

    def rescaled(self) -> DifferencedPosterior:
        """The same with rough standard errors from the curvature of the value at the start."""
        value, scale = self.start_value(), self.scale.copy()
        for i, step in enumerate(np.diag(self.scale)):
            for size in 10.0 ** np.arange(SCALE_ROUNDS):
                with np.errstate(all="ignore"):
                    ends = [self.moved(way * step).start_value() for way in (-size, size)]
                bend = abs(2.0 * value - sum(ends))
                if bend >= LEAST_BEND:
                    break
            if LEAST_BEND <= bend < np.inf:
                scale[i] = size * step[i] / np.sqrt(bend)
        return dataclasses.replace(self, scale=scale)


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
        model: fixed values and priors.
        start: full vector to start from instead.
        separable: whether the data do not couple modes that the law does not couple.
        metric: expected information, where modes are coupled.
        how: ``held`` and ``seconds`` of a `LogPosterior`.
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
        evaluation = evaluate(parametrisation.state_space(base))
        step, directions = _initial_directions(
            evaluation, base, np.array(mean), where.start, priors
        )
        base[mean] += step
        columns = np.hstack([columns, identity[:, mean] @ directions])
        scales = np.concatenate([scales, np.ones(directions.shape[1])])
    arguments = (parametrisation, evaluate, priors, base, columns, scales, len(plain))
    return LogPosterior(*arguments, np.zeros(len(base)), separable, metric, expects=metric, **how)


def _initial_directions(
    evaluation: Evaluation, base: Array, mean: Array, first: int, priors: list[tuple[int, Any]]
) -> tuple[Array, Array]:
    """One exact Newton step in the initial mean, and directions of unit information."""
    at = mean - first
    information = evaluation.initial_information[np.ix_(at, at)].copy()
    gradient = evaluation.by_initial_mean[at].copy()
    for position, prior in priors:
        for i in np.flatnonzero(mean == position):
            information[i, i] += 1.0 / prior.std**2
            gradient[i] += prior.log_density(base[position], False)[1]
    values, vectors = np.linalg.eigh(information)
    informative = values > INITIAL_TOLERANCE * values.max()
    directions = vectors[:, informative] / np.sqrt(values[informative])
    return directions @ (directions.T @ gradient), directions


def lower_root(matrix: Array) -> Array:
    """Lower triangular ``R`` with ``R R' = matrix^-1``, of a positive definite matrix."""
    return _reversed_inverse(np.asfortranarray(np.linalg.cholesky(matrix[::-1, ::-1])))


def _reversed_inverse(factor: Array) -> Array:
    """``R`` from the lower Cholesky factor of the matrix whose rows and columns run backwards."""
    inverse = scipy.linalg.lapack.dtrtri(factor, lower=1)[0]
    return np.asarray(inverse[::-1, ::-1].T)


def estimate(
    posterior: LogPosterior, *, polish: bool = True, near: bool = False, rough: bool = False
) -> Estimate:
    """Maximum of a log-posterior, with the covariance that its curvature gives.

    Args:
        posterior: what to maximise.
        polish: False leaves out curvature and the check of convergence.
        near: takes the start as close to the maximum: Newton steps alone, if they get there.
        rough: only near the maximum, to a fraction of a nat, without curvature.
    """
    if posterior.metric is not None and not (near and polish):
        posterior, optimum = _search_in_metric(posterior, polish, rough)
    elif near and polish:
        posterior, optimum = _newton_then_search(posterior)
    else:
        optimum = maximise(posterior, polish=polish, rough=rough)
    full = posterior.full(optimum.x)
    if polish:
        root = _root_of_inverse(optimum, posterior.scale)
        columns = _columns_times_root(posterior.columns, root)
    else:  # the information is a diagonal guess
        columns = posterior.columns / np.sqrt(np.diag(optimum.information))
    space, value = posterior.parametrisation.state_space(full), optimum.value
    return Estimate(space, full, columns, value - posterior.log_prior(full)[0], optimum, posterior)


def _columns_times_root(columns: Array, root: Array) -> Array:
    """``columns @ root``; a copy of rows where each column stands for one coordinate."""
    at = columns.argmax(0)
    if np.count_nonzero(columns) != len(at) or not (columns[at, np.arange(len(at))] == 1.0).all():
        return columns @ root
    out = np.zeros((len(columns), root.shape[1]))
    out[at] = root
    return out


def _search_in_metric(
    posterior: LogPosterior, polish: bool, rough: bool
) -> tuple[LogPosterior, Optimum]:
    """Search in the metric, then polish in coordinates of their own.

    Of complete, noise-free data the moment estimates often are the maximum: then no search runs.
    """
    n_evaluations, is_there = 1, False
    if posterior.metric is not None and posterior.metric.exact:
        x, tolerance = np.zeros(len(posterior.scale)), START_IS_MAXIMUM if polish else START_IS_NEAR
        value, slope, _ = posterior.at(x)
        is_there = bool(np.abs(posterior.scale * slope).max(initial=0.0) < tolerance)
        if is_there and not polish:
            return posterior, Optimum(x, value, np.diag(posterior.scale**-2.0), 1, np.nan)
    if not is_there:
        fast = posterior.measured()
        near = maximise(fast, polish=False, rough=rough)
        if not polish:
            return fast, near
        posterior = dataclasses.replace(posterior, base=fast.full(near.x))
        n_evaluations += near.n_evaluations
    posterior, optimum = _newton_then_search(posterior)
    return posterior, optimum._replace(n_evaluations=n_evaluations + optimum.n_evaluations)


def _newton_then_search(posterior: LogPosterior) -> tuple[LogPosterior, Optimum]:
    """Newton steps from a start near the maximum; a search where they do not get there."""
    optimum = maximise(posterior, search=False)
    is_saddle = optimum.hessian is not None and optimum.hessian.is_saddle
    if optimum.converged and optimum.decrement < NEAR_GAIN and not is_saddle:
        return posterior, optimum
    posterior, spent = posterior.moved(optimum.x), optimum.n_evaluations
    optimum = maximise(posterior)
    return posterior, optimum._replace(n_evaluations=spent + optimum.n_evaluations)


def _root_of_inverse(optimum: Optimum, scale: Array) -> Array:
    """Lower triangular ``R`` with ``R R' = information^-1``.

    Directions without information get the variance `UNINFORMED_VARIANCE`. ``R`` is triangular, so
    that the last columns still move the last coordinates only.
    """
    hessian, scale = optimum.hessian, balanced(optimum.information, scale)
    if hessian is None or not np.array_equal(hessian.scale, scale):
        hessian = FactoredHessian.of(optimum.information, scale)
    if hessian.factor is not None:
        return hessian.scale[:, None] * _reversed_inverse(hessian.factor)
    values, vectors = hessian.values, hessian.vectors
    # A direction without information is known to six digits from a differenced score. With a
    # larger variance its small share in other coordinates would drown their standard errors.
    floor = UNINFORMED_VARIANCE**-1 * max(values.max(initial=0.0), 1e-12)
    inverse = np.where(values > floor, 1.0 / np.maximum(values, floor), UNINFORMED_VARIANCE)
    # QR of the symmetric root instead of a Cholesky factor: it cannot fail on rounding.
    upper = np.asarray(np.linalg.qr((vectors * np.sqrt(inverse)).T, mode="r"))
    return hessian.scale[:, None] * upper.T


# ---------- The mean of a law, estimated last
#
# The other parameters theta maximise the likelihood with the mean integrated out
# (`spdelaw.statespace.mean.evaluate_restricted`). Given them the mean is a Gaussian regression, and
#
#     m = m_hat(theta),    Cov m = C + (dm / dtheta) Cov theta (dm / dtheta)'.


#: Largest mean of a law relative to the data: sums of squares around a larger one lose the digits
#: that tell the noise, and a mean so far away is a trend.
LARGEST_MEAN = 1e3


def mean_coefficients(observed: Observed, n_modes: int) -> Array:
    """Coefficients of the mean of all values at each point, (n,)."""
    mean = observed.mean_of_points()
    return np.asarray(np.linalg.lstsq(observed.basis(n_modes), mean, rcond=None)[0])


def around_mean(estimate: Estimate, problem: Objective) -> Estimate:
    """The estimate with its mean: model around it, and the likelihood there.

    ``estimate`` is the maximum of the restricted likelihood. Without standard errors the slopes of
    the mean by the other parameters stay zero.
    """
    held = problem.hold_mean(estimate.full)
    space = with_mean(estimate.state_space, held.mean, problem.anchored)
    optimum, slopes = estimate.optimum, np.zeros((len(held.mean), estimate.columns.shape[1]))
    if len(optimum.mixed):
        root = _root_of_inverse(optimum, estimate.posterior.scale)
        slopes = held.covariance @ optimum.mixed @ root
    plain = float(problem.at_mean(space).log_likelihood.sum())
    total = held.mean + problem.centre

    def at(space: StateSpace) -> tuple[Array, Array]:
        mean, covariance, _ = problem.mean_given(space)
        return mean + problem.centre, covariance

    mean_estimate = MeanEstimate(
        total,
        held.covariance,
        np.nan_to_num(slopes, posinf=0.0, neginf=0.0),
        problem.anchored,
        estimate.log_likelihood,
        at,
    )
    space = space._replace(dynamics=space.linear.with_mean(total))
    return estimate._replace(state_space=space, log_likelihood=plain, mean=mean_estimate)


# ---------- Shared interface of the statistics route and the filter route


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Objective(abc.ABC):
    """An objective to maximise, and its start.

    Attributes:
        parametrisation: what is estimated.
        moments: estimates to start from.
        model: what is assumed.
        centre: subtracted from the coefficients, (N,).
        decisions: by what they are about.
        polish: False leaves out curvature and standard errors.
        rough: a search ends near the maximum.
        has_mean: whether the law has a mean; the likelihood is then the restricted one.
        initial_is_open: whether the data select the initial state of a single path.
    """

    parametrisation: Parametrisation
    moments: MomentEstimates
    model: Model
    centre: Array
    decisions: dict[str, Decision] = dataclasses.field(default_factory=dict)
    polish: bool = True
    rough: bool = False
    has_mean: bool = False
    initial_is_open: bool = False

    @abc.abstractmethod
    def run(self) -> Estimate:
        """The maximum, by whatever starts it needs."""

    @abc.abstractmethod
    def posterior(self, start: Array | None = None) -> LogPosterior:
        """Log-posterior, around a full vector where one is given."""

    @property
    def is_open(self) -> bool:
        """Whether a quick fit has to decide anything but the mean."""
        return self.initial_is_open

    def quick(self) -> Self:
        """The same around the mean of the data, held, roughly and without standard errors."""
        return dataclasses.replace(self, has_mean=False, polish=False, rough=True)

    def revised(self, fitted: Estimate) -> Self:
        """The objective with other decisions where a fit contradicts them; else this one."""
        return self

    @abc.abstractmethod
    def shifted(self, by: Array, full: Array) -> tuple[Self, Array]:
        """The objective of the data less ``by``, (N,), and a full vector of the same law there."""

    def _moved_start(self, by: Array, full: Array) -> Array:
        """A full vector with its initial mean less ``by``."""
        full, where = full.copy(), self.parametrisation.slices.get("initial_mean")
        if where is not None:
            full[where] -= by
        return full

    @abc.abstractmethod
    def mean_given(self, state_space: StateSpace) -> tuple[Array, Array, Array]:
        """Mean of a law, its covariance given all else, and ``-d2 log p / d m0 d m'``."""

    @abc.abstractmethod
    def mean_gradient(self, state_space: StateSpace, evaluation: Evaluation) -> Array:
        """Gradient by the mean of a law around it, whose evaluation is given; (N,)."""

    @abc.abstractmethod
    def at_mean(self, state_space: StateSpace) -> Evaluation:
        """Likelihood and score of a law around its mean, nothing integrated out."""

    def hold_mean(self, full: Array) -> HeldMean:
        """The likelihood with the mean held at what it is at a full vector."""
        mean, covariance, shared = self.mean_given(self.parametrisation.state_space(full))

        def evaluate(model: StateSpace) -> Evaluation:
            at = with_mean(model, mean, self.anchored)
            evaluation = self.at_mean(at)
            return evaluation._replace(by_mean=self.mean_gradient(at, evaluation))

        return HeldMean(mean, covariance, shared, evaluate)

    @property
    @abc.abstractmethod
    def mean_and_deviation(self) -> tuple[Array, Array]:
        """Mean and deviation of the coefficients; (N,) each."""

    @functools.cached_property
    def farthest(self) -> float:
        """Mean beyond which there is no likelihood."""
        return LARGEST_MEAN * float(np.abs(self.mean_and_deviation).max())

    @property
    def size(self) -> tuple[float, int, int]:
        """Duration and steps of a path, and number of paths."""
        return self.moments.span, self.moments.n_steps, self.moments.n_paths

    @property
    def seconds(self) -> float:
        """Rough duration of one evaluation; 0 where it is negligible."""
        return 0.0

    @functools.cached_property
    def start(self) -> Array:
        """Full vector at the moment estimates."""
        return starting_vector(self.parametrisation, self.moments)

    @property
    def anchored(self) -> bool:
        """Whether the initial mean is that of the state, and not of its deviation from a mean."""
        return self.has_mean and self.parametrisation.initial_kind != "stationary"

    def decided(self, **decisions: Decision) -> Self:
        """The same with further decisions, by what they are about."""
        return dataclasses.replace(self, decisions={**self.decisions, **decisions})

    def finished(self, estimate: Estimate) -> Estimate:
        """The estimate with its mean, where the law has one."""
        return around_mean(estimate, self) if self.has_mean else estimate

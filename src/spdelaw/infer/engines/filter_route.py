"""Noise, gaps, uneven times: maximum likelihood through the collapsed filter."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from spdelaw.data.observed import Observed
from spdelaw.errors import ConvergenceError
from spdelaw.infer.engines.candidates import is_rough, residual_correlation
from spdelaw.infer.engines.design import NO_CENTRE, Design, condensed_once, make_design
from spdelaw.infer.engines.select import select
from spdelaw.infer.model import Decision, Model
from spdelaw.infer.moments import (
    MomentEstimates,
    centred,
    energy_of,
    from_coefficient_pairs,
    from_coefficients,
    initial_state,
    mean_gram,
    squares_of_rows,
    sum_of_rows,
)
from spdelaw.infer.objective import (
    LogPosterior,
    Metric,
    Objective,
    estimate,
    log_posterior,
    mean_coefficients,
    metric_of_rows,
)
from spdelaw.infer.optimise import Estimate, Fit
from spdelaw.infer.parameters import parametrise
from spdelaw.infer.starts import highest
from spdelaw.law.likelihood import Numbers, log_density
from spdelaw.processes import operators
from spdelaw.processes.linear import Linear
from spdelaw.statespace.chain import StateSpace, without_response
from spdelaw.statespace.collapse import Block, Collapsed, first_paths, rotate
from spdelaw.statespace.likelihood import Evaluation, evaluate_likelihood
from spdelaw.statespace.mean import evaluate_restricted, mean_given

# ---------- Objective of the filter: its starts and its run


Array = np.ndarray

#: A fit of many paths starts from a fit of so many, which costs little and lands close.
WARM_PATHS = 100
#: Seconds of an evaluation on one core where paths share their pattern: for each row, and for each
#: number of a product of matrices.
ROW_SECONDS, PRODUCT_SECONDS = 4e-5, 1.3e-9
#: Seconds where they do not: for each row, and for each number of ``G``.
PATTERN_ROW_SECONDS, ENTRY_SECONDS = 1.2e-4, 1.8e-8
#: Factor of these seconds with a mean to integrate out.
MEAN_COST = 2.5
#: Share of a working variance that is the least one of a likelihood with digits.
WORKING_FLOOR = 0.01
#: Noise of a step, relative to the energy of its mode, with which the likelihood has digits.
LEAST_NOISE = 1e-10


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class FilterObjective(Objective):
    """A maximisation through the filter.

    Attributes:
        design: observations as a regression on the modes.
        collapsed: the same on the modes.
        threads: of the likelihood.
        count: values that carry information about the observation noise.
        outside: mean square outside the modes where it is no part of the likelihood, else None.
        working: observation variance that stands for none; zero where rows determine the modes.
        least_variance: in place of a smaller estimate, so that the likelihood keeps its digits
            where that runs off to zero.
        noise_alternative: makes the objective whose noise is that of the modes alone.
        lasting: correlation of sensor errors from one time to the next, which the law takes for
            white: a variance of n of them is as uncertain as one of n (1 - c^2) / (1 + c^2).
        notes: reasons as text.
    """

    design: Design
    collapsed: Collapsed
    threads: int = 1
    count: float = 1.0
    outside: float | None = None
    working: float = 0.0
    least_variance: float = 0.0
    noise_alternative: Callable[[], FilterObjective] | None = None
    lasting: float = 0.0
    notes: tuple[str, ...] = ()

    def run(self) -> Estimate:
        """Maximise without a mean; many paths start from a fit of the first."""
        head = self.head()
        share = head.count / self.count
        if share > 0.5 or self.collapsed.decoupled:
            return highest(self)
        warm = highest(dataclasses.replace(head, polish=True, rough=False))
        near = self.posterior().from_estimate(warm, share)
        return estimate(near, polish=self.polish, rough=self.rough)

    def head(self) -> FilterObjective:
        """The objective of the first paths."""
        collapsed = first_paths(self.collapsed, WARM_PATHS)
        design = self.design.paths(slice(WARM_PATHS))
        count = self.count * collapsed.n_paths / self.collapsed.n_paths
        return dataclasses.replace(self, design=design, collapsed=collapsed, count=count)

    def posterior(self, start: Array | None = None) -> LogPosterior:
        """Log-posterior of the paths, around a full vector where one is given."""
        data = self.data
        moments = self.moments._replace(n_paths=data.n_paths, n_values=self.count)
        evaluate = functools.partial(self.likelihood, data)
        how = (self.parametrisation, evaluate, moments, self.model)
        return log_posterior(
            *how,
            start,
            separable=data.is_diagonal,
            metric=self.metric,
            held=self.hold_mean if self.has_mean else None,
            seconds=self.seconds,
        )

    @functools.cached_property
    def seconds(self) -> float:
        """Approximate seconds of one evaluation: a product of matrices for each row of a pattern.

        Next to nothing where all is diagonal, or where equal rows at equal steps are one for all:
        the response to a mean differs from row to row.
        """
        if self.data.is_diagonal and self.is_diagonal:
            return 0.0
        alike = not (self.is_diagonal or self.has_mean)
        elimination = sum(
            _elimination_seconds(block, alike) for block in self.data.facts if len(block.gram)
        )
        return elimination * (MEAN_COST if self.has_mean else 1.0)

    @property
    def use_misfit(self) -> bool:
        """Whether the residual outside the modes is part of the likelihood."""
        return self.outside is None

    @property
    def observed(self) -> Observed:
        """The data."""
        return self.design.observed

    @property
    def metric(self) -> Metric | None:
        """Of coupled modes whose noise has no seasons."""
        if not self.model.couples or self.model.season is not None:
            return None
        spare = self.count if self.use_misfit else 0.0
        return metric_of_rows(self.collapsed, self.observed.step, spare)

    @functools.cached_property
    def data(self) -> Collapsed:
        """The paths, as few as sums over them need."""
        return rotate(self.collapsed) if self.is_diagonal else self.collapsed

    @property
    def is_diagonal(self) -> bool:
        """Whether the modes are independent of one another before they are observed."""
        return self.parametrisation.state_space(self.start).is_diagonal

    @property
    def mean_square(self) -> float:
        """Mean square of the values, ``y'y = RSS + c_hat' G c_hat`` for each row."""
        if self.design.weights is not None:
            centre = self.design.basis[:, : len(self.design.centre)] @ self.design.centre
            return float(np.nanmean((self.observed.first(self.observed.n_paths) - centre) ** 2))
        inside = sum(self.collapsed.map(energy_of))
        return float(inside + self.collapsed.misfit) / max(self.collapsed.n_values, 1.0)

    @functools.cached_property
    def mean_and_deviation(self) -> tuple[Array, Array]:
        """Mean and deviation of the coefficients of well observed rows; (N,) each."""
        n = self.collapsed.n_modes
        total, count = (sum(terms) for terms in zip(*self.collapsed.map(sum_of_rows), strict=True))
        if not count:
            return np.zeros(n), np.ones(n)
        mean = total / count
        return mean, np.sqrt(sum(self.collapsed.map(squares_of_rows, mean)) / count)

    @property
    def is_open(self) -> bool:
        """Whether a quick fit decides about the initial state, or may contradict the noise."""
        return self.initial_is_open or self.noise_alternative is not None

    def revised(self, fitted: Estimate) -> FilterObjective:
        """The objective with other noise, where the modes contradict that of all values."""
        if self.noise_alternative is None:
            return self
        z = noise_score(self, fitted)
        noise = self.decisions["observation_noise"]
        compared = {**noise.compared, "noise_score_z": z, "inside_from_z": LARGEST_NOISE_Z}
        if abs(z) <= LARGEST_NOISE_Z:
            return self.decided(observation_noise=noise._replace(compared=compared))
        other = dataclasses.replace(self.noise_alternative(), has_mean=self.has_mean)
        noise = other.decisions["observation_noise"]
        compared |= noise.compared
        return other.decided(observation_noise=noise._replace(compared=compared))

    def shifted(self, by: Array, full: Array) -> tuple[FilterObjective, Array]:
        """The objective of the collapsed data less ``by``, and the full vector there."""
        around = Linear(self.moments.drift, self.moments.noise, mean=by)
        problem = dataclasses.replace(
            self,
            collapsed=self.collapsed.changed(without_response, around),
            moments=self.moments._replace(mean=self.moments.mean - by),
            centre=self.centre + by,
        )
        return problem, self._moved_start(by, full)

    def likelihood(self, collapsed: Collapsed, state_space: StateSpace) -> Evaluation:
        """Likelihood and score of some paths; restricted, where the law has a mean."""
        space = self._with_least_variance(state_space)
        how: dict[str, Any] = {"use_misfit": self.use_misfit, "threads": self.threads}
        if not self.has_mean:
            return evaluate_likelihood(collapsed, space, **how)
        how |= {"anchored": self.anchored, "farthest": self.farthest}
        return evaluate_restricted(collapsed, space, **how)

    def mean_given(self, state_space: StateSpace) -> tuple[Array, Array, Array]:
        """Mean of a law, its covariance, and what it shares with the initial mean."""
        return mean_given(self.data, self._with_least_variance(state_space), anchored=self.anchored)

    def mean_gradient(self, state_space: StateSpace, evaluation: Evaluation) -> Array:
        """Gradient by the mean of a law around it; an anchored start stays where it is."""
        return evaluation.by_mean + (0.0 if self.anchored else evaluation.by_initial_mean)

    def _with_least_variance(self, state_space: StateSpace) -> StateSpace:
        """With as much noise, of observations and of each mode, as leaves the likelihood digits.

        The likelihood of a mode without noise is flat in its logarithm, and so is its score.
        """
        state_space = self._with_least_noise(state_space)
        if "observation" not in self.parametrisation.parts:
            return state_space
        variance = float(state_space.observation_variance)
        return state_space.with_noise(max(variance, self.least_variance))

    def _with_least_noise(self, state_space: StateSpace) -> StateSpace:
        """With `LEAST_NOISE` of the energy of each mode, per step, on top of its noise."""
        linear, (mean, deviation) = state_space.linear, self.mean_and_deviation
        least = np.diag(LEAST_NOISE * (mean**2 + deviation**2) / self.observed.step)
        noise = linear.noise + operators.like(linear.noise, least)
        return state_space._replace(dynamics=dataclasses.replace(linear, noise=noise))

    def at_mean(self, state_space: StateSpace) -> Evaluation:
        """Likelihood and score of a law around its mean."""
        space = self._with_least_variance(state_space)
        how: dict[str, Any] = {"use_misfit": self.use_misfit, "threads": self.threads}
        return evaluate_likelihood(self.data, space, **how)

    def fit(self, fitted: Estimate, seconds: dict[str, float]) -> Fit:
        """The estimate with its notes, decisions and log density."""
        unresolved, notes = 0.0, self.notes
        fitted = fitted._replace(state_space=self._with_least_noise(fitted.state_space))
        if self.outside is not None:
            is_noisy = "observation" in self.parametrisation.parts
            inside = float(fitted.state_space.observation_variance) if is_noisy else 0.0
            unresolved = max(self.outside - inside, 0.0)
            notes += (
                f"variance outside the modes is {self.outside:.3g}, noise inside them "
                f"{inside:.3g}: the difference is unresolved variance, which the likelihood does "
                "not include",
            )
        n_modes = self.parametrisation.n_modes - self.design.n_nuisance
        density = self._density(fitted, unresolved)
        arguments = (fitted, n_modes, "filter", self.collapsed.n_values, unresolved, density)
        error = None
        if self.lasting and self.polish:
            c2, std = self.lasting**2, np.sqrt(fitted.state_space.observation_variance)
            error = std * fitted.errors("observation")[0] * np.sqrt((1.0 + c2) / (1.0 - c2))
        return Fit(
            *arguments, point_error=error, notes=notes, decisions=self.decisions, seconds=seconds
        )

    def _density(self, fitted: Estimate, unresolved: float) -> tuple[Any, Numbers]:
        """Log density of all values, or of the components where fields have none."""
        if self.design.keep is not None:
            return fitted.log_likelihood, Numbers("components", int(self.collapsed.n_values))
        space, floor = fitted.state_space, 0.0
        variance, is_free = space.observation_variance, "observation" in self.parametrisation.parts
        if variance < self.working if is_free else not self.design.known:
            # The variance that the filter worked with is no noise.
            space, floor = space.with_noise(0.0), max(float(variance), self.working)
        data, n_paths = self.collapsed, self.collapsed.n_paths
        if fitted.mean is not None:
            linear = space.linear.with_mean(fitted.mean.value - self.centre)
            data = data.changed(without_response, linear)
            space = space._replace(dynamics=linear.unforced)
        return log_density(data, n_paths, space, unresolved, floor)


def _elimination_seconds(block: Block, alike: bool) -> float:
    """Seconds of one elimination of a block; ``alike`` where equal rows are eliminated once."""
    n_times, n, n_patterns = block.gram.shape[0], block.gram.shape[1], block.gram.shape[-1]
    if n_patterns > 1:
        return n_times * (PATTERN_ROW_SECONDS + ENTRY_SECONDS * n**2 * n_patterns)
    steps = np.diff(block.times)
    is_steady = alike and np.allclose(steps, steps[..., :1]) and _has_equal_rows(block.gram)
    return (1.0 if is_steady else n_times) * (ROW_SECONDS + PRODUCT_SECONDS * n**3)


def _has_equal_rows(gram: Array) -> bool:
    """Whether all rows have the same Gram matrix; gaps seldom are the same in the middle."""
    return np.array_equal(gram[0], gram[len(gram) // 2]) and bool((gram == gram[:1]).all())


# ---------- Observation noise, inside the modes and in their residual
#
# Noise has one variance r, inside the modes and outside them, and is white in time. So r is that of
# all values, unless the residual outside the modes is correlated in time as finer modes are, or the
# modes alone contradict r: their score by log r, at the maximum for all values, is
#
#     z = (d log p / d log r) / sqrt(-d2 log p / d(log r)^2)
#
# standard errors from zero. Then the residual has a variance of its own, and noise inside the
# modes has to gain likelihood over none.


#: Log-likelihood that observation noise has to gain over none.
NOISE_GAIN = 3.0
#: Lag-one correlation below which the residual of the modes counts as white in time.
WHITE_RESIDUAL = 0.1
#: Score of the modes by the variance of all values up to which it is theirs as well. The
#: information holds the other parameters, so that z is a little too small.
LARGEST_NOISE_Z = 2.5
#: Step of log r for its curvature.
LOG_VARIANCE_STEP = 0.01
#: Directions of the first state with less than this share of the largest information are open.
UNOBSERVED = 1e-9
#: Answers: noise is all of the residual, only part of it, or there is none.
ALL, INSIDE, NONE = "all of the residual", "inside the modes", "none"

#: Makes a problem with a known observation variance, or with one to estimate for None.
Candidate = Callable[[float | None], FilterObjective]


def noise_score(problem: FilterObjective, fitted: Estimate) -> float:
    """Score of the modes alone by the logarithm of the observation variance; standard errors."""
    modes = dataclasses.replace(problem, outside=0.0, has_mean=False)
    n_fitted = _initial_means_in_noise(modes, fitted)

    def slope(factor: float) -> float:
        space = fitted.state_space.with_noise(factor * variance)
        by_variance = modes.likelihood(modes.data, space).by_observation_variance
        return float(np.sum(by_variance)) * factor * variance + 0.5 * n_fitted

    variance = float(fitted.state_space.observation_variance)
    ends = [slope(np.exp(step)) for step in (-LOG_VARIANCE_STEP, LOG_VARIANCE_STEP)]
    information = (ends[0] - ends[1]) / (2.0 * LOG_VARIANCE_STEP)
    return 0.5 * sum(ends) / np.sqrt(information) if information > 0 else 0.0


def _initial_means_in_noise(problem: FilterObjective, fitted: Estimate) -> float:
    """How many initial means are fitted to noise; to integrate one out adds ``1/2 log r``.

    Each, where all paths start alike; ``rho / (V + rho)`` of one whose first states vary by V, with
    ``P / (V + rho)`` the information on it.
    """
    if "initial_mean" not in fitted.parametrisation.parts:
        return 0.0
    space, n_paths = fitted.state_space, problem.collapsed.n_paths
    information = np.diag(problem.at_mean(space).initial_information)
    spread = operators.diagonal(space.initial.covariance)
    return float(np.clip(1.0 - spread * information / n_paths, 0.0, 1.0).sum())


def noise_inside(inside: Candidate, is_open: bool) -> FilterObjective:
    """The objective with noise inside the modes, or, where ``is_open``, with none if that does.

    A variance near the working one is none.
    """
    noisy = inside(None)
    if not is_open:
        return noisy.decided(observation_noise=Decision(INSIDE, {}))
    silent = inside(0.0)
    fits = [_quick_fit(problem) for problem in (noisy, silent)]
    gain = _max_log_likelihood(fits[0]) - _max_log_likelihood(fits[1])
    compared = {"gain_of_noise": gain, "gain_needed": NOISE_GAIN}
    if fits[0] is None or not gain > NOISE_GAIN:
        return silent.decided(observation_noise=Decision(NONE, compared))
    variance = float(fits[0].state_space.observation_variance)
    if fits[1] is not None and variance < 1e3 * fits[1].parametrisation.observation_variance:
        return silent.decided(observation_noise=Decision(NONE, compared))
    return noisy.decided(observation_noise=Decision(INSIDE, compared))


def _max_log_likelihood(fitted: Estimate | None) -> float:
    """Log-likelihood with the mean of the first states integrated out."""
    if fitted is None:
        return -np.inf
    if "initial_mean" not in fitted.parametrisation.parts:
        return fitted.log_likelihood
    values = np.linalg.eigvalsh(fitted.posterior.at(fitted.optimum.x)[2])
    informative = values[values > UNOBSERVED * values[-1]]
    return fitted.log_likelihood - 0.5 * float(np.log(informative / (2.0 * np.pi)).sum())


def _quick_fit(problem: FilterObjective) -> Estimate | None:
    """A quick fit of the first paths, without curvature; None where it fails."""
    quick = dataclasses.replace(problem.head(), polish=False, count=problem.count)
    posterior, parametrisation = quick.posterior(), problem.parametrisation
    is_free = "observation" in parametrisation.parts
    if is_free and parametrisation.initial_kind == "deterministic":
        # Its mean is taken from the first row, whose density ``std^-N`` grows without bound as
        # the noise falls, and says nothing: to integrate it out adds ``N log std``.
        tilt = np.zeros(len(posterior.base))
        tilt[parametrisation.slices["observation"]] = len(posterior.scale) - posterior.n_plain
        posterior = dataclasses.replace(posterior, tilt=tilt)
    try:
        return estimate(posterior, polish=False)
    except ConvergenceError:
        return None


# ---------- Fit of data with noise, gaps or different clocks, through the collapsed filter


#: Misfit per value, relative to the energy, that is rounding and not noise.
NO_MISFIT = 1e-20
#: Observation variance of noise-free values with gaps, relative to the energy: far below any
#: increment, and large enough that rows which observe only some modes keep their digits.
WORKING_VARIANCE = 1e-10
#: Factor of the working variance where rows observe fewer points than there are modes.
FEW_POINTS_FACTOR = 100.0
#: Share of the states that carry information about a noise learned from the modes alone.
INSIDE_SHARE = 0.2
LASTING_NOTE = (
    "the errors of single sensors are correlated in time (correlation {:.2f}): the law treats "
    "them as white noise of the same variance, and underestimates the decay of fast modes; "
    "forecasts have the correlation where the residual has memory (residual='memory')"
)
NO_SPARE_NOTE = (
    "there are as many modes as points: the observation noise is estimated from the modes alone; "
    "fit fewer modes, or pass the noise (such as --observation-noise 0.1, in Python "
    "observation_noise=0.1)"
)
DECOUPLED_NOTE = (
    "too many modes for gaps that differ from path to path: each mode has its marginal "
    "likelihood, without the correlation of errors between modes"
)


def by_filter(
    observed: Observed,
    n_modes: int,
    model: Model,
    *,
    threads: int = 1,
    polish: bool = True,
    noise_free_fit: Fit | None = None,
) -> Fit:
    """Estimate through the collapsed filter.

    Args:
        observed: the data.
        n_modes: reported modes.
        model: what is assumed.
        threads: of the likelihood.
        polish: False leaves out standard errors.
        noise_free_fit: a fit without noise, returned where the data show none.
    """
    clock, read = time.perf_counter(), [0.0]
    objectives: dict[tuple[str, str], FilterObjective] = {}
    designs: dict[str, CondensedDesign] = {}
    if observed.in_pieces:
        observed = condensed_once(observed, n_modes, model)

    def cached_objective(variant: Model) -> FilterObjective:
        begin, key = time.perf_counter(), (str(variant.mean), variant.initial)
        if key not in objectives:
            if key[0] not in designs:
                designs[key[0]] = condense(observed, n_modes, variant)
            objectives[key] = build_objective(
                observed, n_modes, variant, threads=threads, polish=polish, given=designs[key[0]]
            )
        read[0] += time.perf_counter() - begin
        return objectives[key]

    if noise_free_fit is not None:
        mean = str(noise_free_fit.decisions["mean"].answer)
        decisions = cached_objective(dataclasses.replace(model, mean=mean)).decisions
        noise = decisions.get("observation_noise")
        if noise is not None and noise.answer == NONE:
            noise_decisions = {"observation_noise": noise, "nuisance": decisions["nuisance"]}
            return dataclasses.replace(
                noise_free_fit, decisions=noise_free_fit.decisions | noise_decisions
            )
    problem, fitted = select(cached_objective, model)
    seconds = {"read": read[0], "maximise": time.perf_counter() - clock - read[0]}
    return problem.fit(fitted, seconds)


class CondensedDesign(NamedTuple):
    """The fields on the modes: what objectives that differ in the initial state share.

    Attributes:
        design: observations as a regression on the modes.
        collapsed: the same on the modes, less the centre.
        centre: most of the mean, as coefficients, (N,); none for a mean of zero.
        notes: reasons as text.
        correlation: lag-one correlation of the residual of the modes, and its standard error.
        is_rough: whether that is no smoother in space than errors of single sensors.
    """

    design: Design
    collapsed: Collapsed
    centre: Array
    notes: list[str]
    correlation: Callable[[], tuple[float, float]]
    is_rough: Callable[[], bool]


def condense(observed: Observed, n_modes: int, model: Model) -> CondensedDesign:
    """Choose the number of nuisance modes, and collapse the fields."""
    notes: list[str] = []
    has_mean = model.mean == "constant"
    centre = mean_coefficients(observed, n_modes) if has_mean else NO_CENTRE
    observed.check_change(observed.basis(n_modes) @ centre if has_mean else 0.0)
    design = make_design(observed, n_modes, model, notes, centre)
    collapsed = design.collapsed()
    centre = np.pad(centre, (0, collapsed.n_modes - len(centre)))  # nuisance modes have none
    if collapsed.decoupled:
        notes.append(DECOUPLED_NOTE)

    @functools.cache
    def correlation() -> tuple[float, float]:
        return residual_correlation(design.observed, design.basis, design.products)

    rough = functools.cache(functools.partial(is_rough, design.observed, design.basis.shape[1]))
    return CondensedDesign(design, collapsed, centre, notes, correlation, rough)


def build_objective(
    observed: Observed,
    n_modes: int,
    model: Model,
    *,
    threads: int = 1,
    polish: bool = True,
    given: CondensedDesign | None = None,
) -> FilterObjective:
    """Choose noise, initial state and start of data on the modes.

    The mean is zero or constant; most of a constant one is subtracted from the data first, so that
    none of these decisions depends on it.
    """
    given = given or condense(observed, n_modes, model)
    design, collapsed, centre, notes = given[:4]
    has_mean = model.mean == "constant"
    states = collapsed.n_states
    spare = collapsed.n_values - states
    moments, energy = _starting_moments(collapsed, spare, design, model)
    working = WORKING_VARIANCE * energy * (FEW_POINTS_FACTOR if design.has_few_points else 1.0)

    def candidate(variance: float | None) -> FilterObjective:
        """The modes alone, with a known observation variance or one to estimate."""
        start_moments = moments._replace(
            observation_variance=variance or moments.observation_variance
        )
        kind = initial_state(model, start_moments)
        held = None if variance is None else variance or working
        parametrisation = parametrise(
            model,
            observed.domain,
            n_modes,
            kind,
            start_moments,
            known_variance=held,
            origin=observed.origin,
        )
        return FilterObjective(
            design=design,
            collapsed=collapsed,
            parametrisation=parametrisation,
            moments=start_moments,
            model=model,
            decisions={"initial_state": kind, "nuisance": design.nuisance},
            initial_is_open=model.initial_is_open and collapsed.n_paths == 1,
            notes=tuple(notes),
            centre=centre,
            working=0.0 if design.rows_determine else working,
            least_variance=WORKING_FLOOR * working,
            threads=threads,
            polish=polish,
        )

    fixed_variance, is_open = design.known, model.noise_word == "auto"
    beyond = spare if observed.in_pieces else design.n_beyond
    if fixed_variance is None and 0 < beyond >= collapsed.misfit / (NO_MISFIT * energy):
        # The modes hold the fields to rounding: a variance to estimate would run off to zero.
        fixed_variance = 0.0
    if fixed_variance is not None or spare <= 0 or design.n_nuisance or not design.rows_determine:
        problem = dataclasses.replace(candidate(fixed_variance), count=max(spare, states))
        if fixed_variance is None and spare <= 0:
            problem = dataclasses.replace(problem, notes=(*problem.notes, NO_SPARE_NOTE))
    else:
        problem = _objective_with_noise(candidate, states, spare, is_open, given)
    return dataclasses.replace(problem, has_mean=has_mean)


def _objective_with_noise(
    candidate: Candidate,
    states: float,
    spare: float,
    is_open: bool,
    given: CondensedDesign,
) -> FilterObjective:
    """The objective with as much observation noise as the residual of the modes shows."""
    every = candidate(None)
    outside = every.collapsed.misfit / spare

    def inside(variance: float | None) -> FilterObjective:
        return dataclasses.replace(
            candidate(variance), outside=outside, count=INSIDE_SHARE * states
        )

    correlation, error = given.correlation()
    compared = {"residual_correlation": correlation, "its_standard_error": error}
    if outside > 0.0 and correlation > max(WHITE_RESIDUAL, 3.0 * error) and given.is_rough():
        every = dataclasses.replace(
            every,
            count=spare,
            lasting=correlation,
            notes=(*every.notes, LASTING_NOTE.format(correlation)),
        )
        return every.decided(observation_noise=Decision(ALL, compared))
    if outside <= 0.0 or correlation > max(WHITE_RESIDUAL, 3.0 * error):
        return noise_inside(inside, is_open)
    # Noise that the user has asked for is not contradicted by a quick fit.
    other = functools.partial(noise_inside, inside, is_open) if is_open else None
    problem = dataclasses.replace(every, count=spare, noise_alternative=other)
    return problem.decided(observation_noise=Decision(ALL, compared))


def _starting_moments(
    collapsed: Collapsed, spare: float, design: Design, model: Model
) -> tuple[MomentEstimates, float]:
    """Moment estimates to start from, and the energy of a value."""
    moments, energy = _first_moments(collapsed, spare, design)
    if model.forcing is not None:  # the response at a first guess, then a better one
        driven = Linear(moments.drift, moments.noise, None, model.forcing, design.observed.origin)
        collapsed = collapsed.changed(without_response, driven)
        moments, energy = _first_moments(collapsed, spare, design)
    if model.couples:
        collapsed = collapsed if model.forcing is None else collapsed.changed(centred)
        moments = from_coefficient_pairs(collapsed, moments, model.couples_drift)
    return moments, energy


def _first_moments(
    collapsed: Collapsed, spare: float, design: Design
) -> tuple[MomentEstimates, float]:
    guess = max(collapsed.misfit / spare, 0.0) if spare > 0 else 0.0
    moments, gram = from_coefficients(collapsed, guess), mean_gram(collapsed)
    energy = float(np.median(moments.energy * gram))
    if not design.rows_determine:  # moments are noise, and a working variance rests on this
        energy = max(energy, sum(collapsed.map(energy_of)) / max(collapsed.n_values, 1.0))
    if design.first is not None:
        lam, q = design.first
        moments = moments._replace(
            drift=lam, noise=q, error=np.zeros(len(q)), energy=q / (2.0 * lam)
        )
    guess = guess or float(np.median(moments.error * gram))
    return moments._replace(observation_variance=max(guess, 1e-14 * energy)), energy

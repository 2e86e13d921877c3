"""Noise, gaps, uneven times: maximum likelihood through the collapsed filter."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from spdelaw.data.observed import Observed
from spdelaw.errors import ConvergenceError
from spdelaw.infer.engines.candidates import residual_correlation
from spdelaw.infer.engines.design import Design, make_design
from spdelaw.infer.engines.mean import estimate_with_mean
from spdelaw.infer.model import Decision, Model
from spdelaw.infer.moments import (
    ALIKE,
    APART,
    MomentEstimates,
    centred,
    energy_of,
    from_coefficient_pairs,
    from_coefficients,
    initial_state,
    last_spread,
    mean_gram,
    squares_of_rows,
    sum_of_rows,
    unit_errors,
)
from spdelaw.infer.objective import (
    LogPosterior,
    Metric,
    Objective,
    centred_fields,
    distance_of_fields,
    estimate,
    log_posterior,
    metric_of_rows,
)
from spdelaw.infer.optimise import SLOW, Estimate, Fit
from spdelaw.infer.parameters import parametrise
from spdelaw.infer.starts import highest
from spdelaw.law.likelihood import Numbers, log_density
from spdelaw.processes.linear import Linear
from spdelaw.statespace.chain import StateSpace, without_response
from spdelaw.statespace.collapse import Block, Collapsed, first_paths, rotate
from spdelaw.statespace.information import observed_information
from spdelaw.statespace.likelihood import Evaluation, evaluate_likelihood
from spdelaw.statespace.mean import evaluate_restricted, mean_given

# ---------- One maximisation through the filter, all decisions taken: its starts and its run


Array = np.ndarray

#: A fit of many paths, or of a long record, starts from a fit of this much of it, which costs
#: little and lands close.
WARM_PATHS, WARM_TIMES = 100, 600
#: Seconds of an evaluation on one core for each row and each number of a product of matrices, where
#: paths share their pattern; for each row and each number of ``G`` where they do not; and how many
#: times more it takes with a mean to integrate out.
ROW, PRODUCT, OWN_ROW, NUMBER, WITH_MEAN = 4e-5, 1.3e-9, 1.2e-4, 1.8e-8, 2.5
#: Share of a working variance that is added to one which is estimated: where that runs off to zero
#: the likelihood keeps its digits.
FLOOR = 0.01


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class FilterObjective(Objective):
    """A maximisation through the filter.

    Attributes:
        design: what is observed of which modes.
        collapsed: the same on the modes.
        threads: of the likelihood.
        count: values that speak about the observation noise.
        outside: mean square outside the modes where it is no part of the likelihood, else None.
        working: observation variance that stands for none; zero where rows determine the modes.
        notes: reasons in words.
    """

    design: Design
    collapsed: Collapsed
    threads: int = 1
    count: float = 1.0
    outside: float | None = None
    working: float = 0.0
    notes: tuple[str, ...] = ()

    def run(self) -> Estimate:
        """Maximise; much data start from a fit of their head, runaway modes start again.

        A law with a mean starts from one without; ``centre`` is off the data.
        """
        if self.has_mean:  # the data are centred: without a mean the search ends close by
            near = dataclasses.replace(self, has_mean=False, polish=False).run()
            return estimate(self.posterior(near.full), polish=self.polish)
        head = self.head()
        share = head.count / self.count
        if share > 0.5 or self.collapsed.decoupled:
            return highest(self)
        warm = highest(dataclasses.replace(head, polish=True))
        return estimate(self.posterior().from_estimate(warm, share), polish=self.polish)

    def head(self) -> FilterObjective:
        """The same of the first paths, and of a long record its first times."""
        n, n_times = self.collapsed.n_paths, self.observed.times.shape[-1]
        is_long = n_times > 2 * WARM_TIMES
        design = self.design.paths(slice(WARM_PATHS), WARM_TIMES if is_long else None)
        part = design.collapsed() if is_long else first_paths(self.collapsed, WARM_PATHS)
        count = self.count * part.n_paths / n * design.observed.times.shape[-1] / n_times
        return dataclasses.replace(self, design=design, collapsed=part, count=count)

    def posterior(self, start: Array | None = None) -> LogPosterior:
        """Log-posterior of the paths, around a full vector where one is given."""
        data = self.data

        def information(p: StateSpace) -> Array | None:
            return observed_information(data, self._floored(p), self.use_misfit)

        own = self.moments._replace(n_paths=data.n_paths, n_values=self.count)
        evaluate = functools.partial(self.likelihood, data)
        how = (self.parametrisation, evaluate, own, self.model)
        return log_posterior(
            *how,
            start,
            separable=data.is_diagonal,
            metric=self.metric,
            information=information if self._has_formula else None,
            is_rough=self.has_mean,
            seconds=self.seconds,
        )

    @property
    def _has_formula(self) -> bool:
        """Whether curvature has one: of single modes.

        With a mean to integrate out it is that of data less a rough mean, where more takes long.
        """
        return self.is_diagonal and (not self.has_mean or self.seconds >= SLOW)

    @functools.cached_property
    def seconds(self) -> float:
        """What one evaluation takes, about: a product of matrices for each row of a pattern.

        Next to nothing where all is diagonal, or where equal rows at equal steps are one for all:
        the response to a mean differs from row to row.
        """
        if self.data.is_diagonal and self.is_diagonal:
            return 0.0
        alike = not (self.is_diagonal or self.has_mean)
        own = sum(_seconds_of(block, alike) for block in self.data.facts if len(block.gram))
        return own * (WITH_MEAN if self.has_mean else 1.0)

    @property
    def use_misfit(self) -> bool:
        """Whether what lies outside the modes is part of the likelihood."""
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
            return float(np.nanmean(self.observed.first(self.observed.n_paths) ** 2))
        inside = sum(self.collapsed.map(energy_of))
        return float(inside + self.collapsed.misfit) / max(self.collapsed.n_values, 1.0)

    @functools.cached_property
    def mean_and_deviation(self) -> tuple[Array, Array]:
        """Mean and deviation of the coefficients of well observed rows; (N,) each."""
        n = self.collapsed.n_modes
        total, count = (sum(part) for part in zip(*self.collapsed.map(sum_of_rows), strict=True))
        if not count:
            return np.zeros(n), np.ones(n)
        mean = total / count
        return mean, np.sqrt(sum(self.collapsed.map(squares_of_rows, mean)) / count)

    def shifted(self, by: Array, *, has_mean: bool) -> FilterObjective:
        """The same for coefficients less ``by``, for a quick look: no standard errors."""
        around = Linear(self.moments.drift, self.moments.noise, mean=by)
        data = self.collapsed.changed(without_response, around)
        moments = from_coefficients(data, self.moments.observation_variance)
        if self.model.couples:
            moments = from_coefficient_pairs(data, moments, self.model.couples_drift)
        own = self.observed._replace(values=self.observed.values - self.design.basis @ by)
        design, moments = self.design._replace(observed=own), moments._replace(n_values=self.count)
        return self.less(by, has_mean, design=design, collapsed=data, moments=moments)

    def likelihood(self, collapsed: Collapsed, state_space: StateSpace) -> Evaluation:
        """Likelihood and score of some paths; restricted, where the law has a mean."""
        space, evaluate = self._floored(state_space), evaluate_likelihood
        if self.has_mean:
            evaluate = functools.partial(evaluate_restricted, anchored=self.anchored)
        return evaluate(collapsed, space, use_misfit=self.use_misfit, threads=self.threads)

    def mean_given(self, state_space: StateSpace) -> tuple[Array, Array]:
        """Mean of a law, and its covariance given the other parameters."""
        return mean_given(self.data, self._floored(state_space), anchored=self.anchored)

    def _floored(self, state_space: StateSpace) -> StateSpace:
        if "observation" not in self.parametrisation.parts:
            return state_space
        variance = float(state_space.observation_variance)
        return state_space.with_noise(variance + FLOOR * self.working)

    def at_mean(self, state_space: StateSpace) -> Evaluation:
        """Likelihood and score of a law around its mean."""
        plain = dataclasses.replace(self, has_mean=False)
        return plain.likelihood(self.data, state_space)

    def fit(self, found: Estimate, seconds: dict[str, float]) -> Fit:
        """The estimate with what it rests on."""
        unresolved, notes = 0.0, self.notes
        if self.outside is not None:
            is_noisy = "observation" in self.parametrisation.parts
            inside = float(found.state_space.observation_variance) if is_noisy else 0.0
            unresolved = max(self.outside - inside, 0.0)
            notes += (
                f"variance outside the modes is {self.outside:.3g}, noise inside them "
                f"{inside:.3g}: the rest is left out of the likelihood as unresolved",
            )
        n_modes = self.parametrisation.n_modes - self.design.n_nuisance
        density = self._density(found, unresolved)
        known = (found, n_modes, "filter", self.collapsed.n_values, unresolved, density)
        return Fit(*known, notes=notes, decisions=self.decisions, seconds=seconds)

    def _density(self, found: Estimate, unresolved: float) -> tuple[Any, Numbers]:
        """Log density of all values, or of what has one where they have none."""
        if self.design.keep is not None:
            return found.log_likelihood, Numbers("components", int(self.collapsed.n_values))
        space, floor = found.state_space, 0.0
        variance, is_free = space.observation_variance, "observation" in self.parametrisation.parts
        if variance < self.working if is_free else not self.design.known:
            # The variance that the filter worked with is no noise.
            space, floor = space.with_noise(0.0), max(float(variance), self.working)
        data, n_paths = self.collapsed, self.collapsed.n_paths
        if found.mean is not None:
            own = space.linear.with_mean(found.mean.value - self.centre)
            data = data.changed(without_response, own)
            space = space._replace(dynamics=own.unforced)
        return log_density(data, n_paths, space, unresolved, floor)


def _seconds_of(block: Block, alike: bool) -> float:
    """Seconds of one elimination of a block; ``alike`` where equal rows are eliminated once."""
    n_times, n, n_patterns = block.gram.shape[0], block.gram.shape[1], block.gram.shape[-1]
    if n_patterns > 1:
        return n_times * (OWN_ROW + NUMBER * n**2 * n_patterns)
    steps = np.diff(block.times)
    is_steady = alike and np.allclose(steps, steps[..., :1]) and _are_alike(block.gram)
    return (1.0 if is_steady else n_times) * (ROW + PRODUCT * n**3)


def _are_alike(gram: Array) -> bool:
    """Whether all rows have the same Gram matrix; gaps seldom are the same in the middle."""
    return np.array_equal(gram[0], gram[len(gram) // 2]) and bool((gram == gram[:1]).all())


# ---------- Is there observation noise, and is what the modes leave over nothing else?
#
# On a grid that keeps modes apart, noise can be learned from the reported modes alone, and
# further modes do no harm. What lies outside the modes says much more about the noise, but only if
# it is noise. These functions decide, on the first paths, and return what they compared.


#: Log-likelihood that observation noise has to gain over none.
NOISE_GAIN = 3.0
#: Lag-one correlation below which what the modes leave over counts as white in time.
WHITE_RESIDUAL = 0.1
#: Twice the log-likelihood that may be lost at three standard deviations.
THREE_DEVIATIONS = 9.0
#: Directions of the first state with less than this share of the largest information are not seen.
UNSEEN = 1e-9
#: Answers: noise is all that the modes leave over, only part of it, or there is none.
ALL, INSIDE, NONE = "all that the modes leave over", "inside the modes", "none"

#: Makes a problem with a known observation variance, or with one to estimate for None.
Candidate = Callable[[float | None], FilterObjective]
#: A quick fit by name.
Probe = Callable[[str], Estimate | None]


def noise_of(candidate: Candidate, outside: float, is_open: bool) -> Decision:
    """Which of `ALL`, `INSIDE` and `NONE` it is.

    Args:
        candidate: problem of the modes alone.
        outside: mean square of what the modes leave over.
        is_open: whether there may be no noise.
    """
    free = candidate(None)
    probe = _probes(candidate, free, outside)
    found = _all_noise(free, outside, probe, is_open)
    if found.answer == ALL:
        return found
    inside = _noise_inside(probe) if is_open else found
    compared = found.compared | inside.compared
    own = probe("estimated") if inside.answer == INSIDE and outside > 0.0 else None
    if own is not None:
        # Noise is everywhere: there cannot be more of it in the modes than outside them.
        variance = float(own.state_space.observation_variance)
        compared |= {"variance_outside": outside, "variance_estimated": variance}
        return Decision(ALL if variance > outside else INSIDE, compared)
    return inside._replace(compared=compared)


def _probes(candidate: Candidate, free: FilterObjective, outside: float) -> Probe:
    """Quick fits of the first paths, without curvature, each made once.

    "none" is without noise, "as_outside" with the variance of what the modes leave over, and
    "estimated" with a variance of its own, from the one outside where there is a fit with it.
    """

    @functools.cache
    def probe(name: str) -> Estimate | None:
        if name == "none":
            return _probed(candidate(0.0))
        if name == "as_outside":
            return _probed(candidate(outside)) if outside > 0.0 else None
        near, own = probe("as_outside"), free.parametrisation
        if near is None:
            return _probed(free)
        parts = {name: near.full[where] for name, where in near.parametrisation.slices.items()}
        parts["observation"] = own.parts["observation"].start(np.asarray(outside))
        return _probed(free, np.concatenate([parts[name] for name in own.parts]))

    return probe


def _all_noise(free: FilterObjective, outside: float, probe: Probe, is_open: bool) -> Decision:
    """Whether what the modes leave over is noise and nothing else: `ALL` or `INSIDE`.

    Noise is white in time, an unresolved mode is not, and noise has the same variance inside
    the modes. Where the correlation leaves doubt, the modes alone decide, by a likelihood-ratio
    test at three standard deviations.
    """
    design = free.design
    correlation, error = residual_correlation(design.observed, design.basis, design.products)
    compared = {"residual_correlation": correlation, "its_standard_error": error}
    if outside <= 0.0 or correlation > WHITE_RESIDUAL:
        return Decision(INSIDE, compared)
    inside = float(np.median(free.moments.error / unit_errors(free.collapsed)))
    compared |= {"variance_outside": outside, "variance_inside": inside}
    if correlation < 3.0 * error and 0.5 * outside < inside < 2.0 * outside:
        return Decision(ALL, compared)
    tried = ("estimated", "as_outside", *(("none",) if is_open else ()))
    log_likelihoods = {name: _max_log_likelihood(probe(name)) for name in tried}
    compared |= {f"log_likelihood_{name}": value for name, value in log_likelihoods.items()}
    lost = 2.0 * (max(log_likelihoods.values()) - log_likelihoods["as_outside"])
    return Decision(ALL if lost < THREE_DEVIATIONS else INSIDE, compared)


def _noise_inside(probe: Probe) -> Decision:
    """Whether the modes alone show noise: `INSIDE` or `NONE`.

    A variance near the working one is none.
    """
    found, without = probe("estimated"), probe("none")
    gain = _max_log_likelihood(found) - _max_log_likelihood(without)
    compared = {"gain_of_noise": gain, "gain_needed": NOISE_GAIN}
    if found is None or without is None:
        return Decision(NONE if found is None else INSIDE, compared)
    variance = float(found.state_space.observation_variance)
    working = without.parametrisation.observation_variance
    is_noise = variance >= 1e3 * working and gain > NOISE_GAIN
    return Decision(INSIDE if is_noise else NONE, compared)


def _max_log_likelihood(found: Estimate | None) -> float:
    """Log-likelihood with the mean of the first states integrated out."""
    if found is None:
        return -np.inf
    if "initial_mean" not in found.parametrisation.parts:
        return found.log_likelihood
    values = np.linalg.eigvalsh(found.posterior.at(found.optimum.x)[2])
    seen = values[values > UNSEEN * values[-1]]
    return found.log_likelihood - 0.5 * float(np.log(seen / (2.0 * np.pi)).sum())


def _probed(problem: FilterObjective, start: Array | None = None) -> Estimate | None:
    """A quick fit of the first paths, without curvature; None where it fails."""
    quick = dataclasses.replace(problem.head(), polish=False, count=problem.count)
    try:
        if start is None:
            return quick.run()
        posterior, own = quick.posterior(start), problem.parametrisation
        if own.initial_kind == "deterministic":
            # Its mean is taken from the first row, whose density ``std^-N`` grows without bound as
            # the noise falls, and says nothing: to integrate it out adds ``N log std``.
            tilt = np.zeros(len(start))
            tilt[own.slices["observation"]] = len(posterior.scale) - posterior.n_plain
            posterior = dataclasses.replace(posterior, tilt=tilt)
        return estimate(posterior, polish=False)
    except ConvergenceError:
        return None


# ---------- Noise, gaps, own clocks, mixed modes: maximum likelihood through the collapsed filter


#: Misfit per value, relative to the energy, that is rounding and not noise.
NO_MISFIT = 1e-20
#: Observation variance of noise-free values with gaps, relative to the energy: far below any
#: increment, and large enough that rows which see only some modes keep their digits.
WORKING_VARIANCE = 1e-10
#: The same, that many times larger, where rows see fewer points than there are modes.
FEW_POINTS = 100.0
#: Share of the states that speak about a noise learned from the modes alone.
OWN_SHARE = 0.2
DECOUPLED = (
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
    quiet: Fit | None = None,
) -> Fit:
    """Estimate through the collapsed filter.

    Args:
        observed: the data.
        n_modes: reported modes.
        model: what is assumed.
        threads: of the likelihood.
        polish: False leaves out standard errors.
        quiet: a fit without noise, which stands where there is none.
    """
    clock, read = time.perf_counter(), [0.0]
    known: dict[tuple[str, str], FilterObjective] = {}
    if observed.in_pieces:
        observed = observed.surveyed().at_observed_times()

    def posed(own: Model) -> FilterObjective:
        begin, key = time.perf_counter(), (str(own.mean), own.initial)
        if key not in known:
            known[key] = build_objective(observed, n_modes, own, threads=threads, polish=polish)
        read[0] += time.perf_counter() - begin
        return known[key]

    if quiet is not None:
        mean = str(quiet.decisions["mean"].answer)
        decisions = posed(dataclasses.replace(model, mean=mean)).decisions
        noise = decisions.get("observation_noise")
        if noise is not None and noise.answer == NONE:
            own = {"observation_noise": noise, "nuisance": decisions["nuisance"]}
            return dataclasses.replace(quiet, decisions=quiet.decisions | own)
    away = distance_of_fields(observed, n_modes) if model.mean == "auto" else 0.0
    problem, found = estimate_with_mean(posed, model, away)
    seconds = {"read": read[0], "maximise": time.perf_counter() - clock - read[0]}
    return problem.fit(found, seconds)


def build_objective(
    observed: Observed, n_modes: int, model: Model, *, threads: int = 1, polish: bool = True
) -> FilterObjective:
    """Collapse the fields and decide what is noise, what is a mode, and where to start.

    The mean is zero or constant; of a constant one the largest part is taken off the data first,
    so that none of these decisions sees it.
    """
    notes: list[str] = []
    centre, has_mean = np.zeros(0), model.mean == "constant"
    if has_mean:
        observed, centre = centred_fields(observed, n_modes)
    observed.check_change()
    design = make_design(observed, n_modes, model, notes)
    collapsed = design.collapsed()
    centre = np.pad(centre, (0, collapsed.n_modes - len(centre)))  # nuisance modes have none
    if collapsed.decoupled:
        notes.append(DECOUPLED)
    states = collapsed.n_states
    spare = collapsed.n_values - states
    moments, energy = _moments(collapsed, spare, design, model)
    working = WORKING_VARIANCE * energy * (FEW_POINTS if design.has_few_points else 1.0)

    def candidate(known: float | None) -> FilterObjective:
        """The modes alone, with a known observation variance or one to estimate."""
        own = moments._replace(observation_variance=known or moments.observation_variance)
        noise = APART * own.observation_variance / mean_gram(collapsed)
        if model.initial == "auto" and spare <= 0 and collapsed.n_paths > 1:
            noise = np.minimum(noise, ALIKE * last_spread(collapsed))
        kind = initial_state(model, own.spread, noise, collapsed.n_paths)
        held = None if known is None else known or working
        parametrisation = parametrise(
            model, observed.domain, n_modes, kind, own, known_variance=held, origin=observed.origin
        )
        return FilterObjective(
            design=design,
            collapsed=collapsed,
            parametrisation=parametrisation,
            moments=own,
            model=model,
            decisions={"initial_state": kind, "nuisance": design.nuisance},
            notes=tuple(notes),
            centre=centre,
            working=0.0 if design.rows_determine else working,
            threads=threads,
            polish=polish,
        )

    known, is_open = design.known, model.noise_word == "auto"
    beyond = spare if observed.in_pieces else design.n_beyond
    if is_open and known is None and 0 < beyond >= collapsed.misfit / (NO_MISFIT * energy):
        # The modes hold the fields to rounding: a variance to estimate would run off to zero.
        known = 0.0
    if known is not None or spare <= 0 or design.n_nuisance or not design.rows_determine:
        problem = dataclasses.replace(candidate(known), count=max(spare, states))
    else:
        problem = _with_noise(candidate, states, spare, is_open)
    return dataclasses.replace(problem, has_mean=has_mean)


def _with_noise(
    candidate: Candidate, states: float, spare: float, is_open: bool
) -> FilterObjective:
    """The problem with as much observation noise as the data show."""
    outside = candidate(None).collapsed.misfit / spare

    def inside(known: float | None) -> FilterObjective:
        return dataclasses.replace(candidate(known), outside=outside, count=OWN_SHARE * states)

    noise = noise_of(inside, outside, is_open)
    if noise.answer == ALL:
        problem = dataclasses.replace(candidate(None), count=spare)
    else:
        problem = inside(0.0 if noise.answer == NONE else None)
    return problem.decided(observation_noise=noise)


def _moments(
    collapsed: Collapsed, spare: float, design: Design, model: Model
) -> tuple[MomentEstimates, float]:
    """Estimates to start from, and the energy of a value."""
    found, energy = _first_moments(collapsed, spare, design)
    if model.forcing is not None:  # the response at a first guess, then a better one
        driven = Linear(found.drift, found.noise, None, model.forcing, design.observed.origin)
        collapsed = collapsed.changed(without_response, driven)
        found, energy = _first_moments(collapsed, spare, design)
    if model.couples:
        collapsed = collapsed if model.forcing is None else collapsed.changed(centred)
        found = from_coefficient_pairs(collapsed, found, model.couples_drift)
    return found, energy


def _first_moments(
    collapsed: Collapsed, spare: float, design: Design
) -> tuple[MomentEstimates, float]:
    guess = max(collapsed.misfit / spare, 0.0) if spare > 0 else 0.0
    found, gram = from_coefficients(collapsed, guess), mean_gram(collapsed)
    energy = float(np.median(found.energy * gram))
    if not design.rows_determine:  # moments are noise, and a working variance rests on this
        energy = max(energy, sum(collapsed.map(energy_of)) / max(collapsed.n_values, 1.0))
    if design.first is not None:
        lam, q = design.first
        found = found._replace(drift=lam, noise=q, error=np.zeros(len(q)), energy=q / (2.0 * lam))
    guess = guess or float(np.median(found.error * gram))
    return found._replace(observation_variance=max(guess, 1e-14 * energy)), energy

"""The exact engine: maximum likelihood, by sums where fields are complete, else by the filter."""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import Any

import numpy as np

from spdelaw.checks import checked
from spdelaw.data.layout import ORIGINAL
from spdelaw.data.observed import Observed, check_change
from spdelaw.data.quality import bad_sensors
from spdelaw.data.summary import checksum
from spdelaw.domains.base import AbstractDomain
from spdelaw.infer.assemble import assemble
from spdelaw.infer.engines.candidates import is_rough, residual_correlation, with_head
from spdelaw.infer.engines.design import ROUNDING, condensed_once, grid_mixes
from spdelaw.infer.engines.filter_route import by_filter
from spdelaw.infer.engines.registry import Engine
from spdelaw.infer.engines.select import select
from spdelaw.infer.model import WORDS, Decision, Model
from spdelaw.infer.moments import (
    MANY_PATHS,
    MomentEstimates,
    from_pair_sums,
    from_statistics,
    initial_state,
    start_apart,
)
from spdelaw.infer.objective import (
    LogPosterior,
    Metric,
    Objective,
    estimate,
    log_posterior,
    metric_of_sums,
)
from spdelaw.infer.optimise import Estimate, Fit, watched
from spdelaw.infer.parameters import parametrise
from spdelaw.law.law import Law
from spdelaw.law.observations import smooth_fields
from spdelaw.processes.linear import Linear
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.condense import collapsed_rows, statistics_of_rows
from spdelaw.statespace.likelihood import Evaluation
from spdelaw.statespace.mean import (
    evaluate_restricted_statistics,
    mean_given_statistics,
    mean_gradient_statistics,
)
from spdelaw.statespace.statistics import Statistics, collect, evaluate_statistics, white_noise_z

# ---------- Objective over the sufficient statistics of complete, noise-free paths


Array = np.ndarray

#: Steps of a path from which on its first state holds less than a percent of the information.
LONG_PATH = 100


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class StatisticsObjective(Objective):
    """A maximisation over sums; ``statistics`` are those of the coefficients less the centre."""

    statistics: Statistics

    def run(self) -> Estimate:
        """Maximise from the moment estimates, without a mean."""
        return estimate(self.posterior(), polish=self.polish, rough=self.rough)

    def posterior(self, start: Array | None = None) -> LogPosterior:
        """Log-posterior, around a full vector where one is given."""
        how = (self.parametrisation, self.likelihood, self.moments, self.model)
        held = self.hold_mean if self.has_mean else None
        return log_posterior(*how, start, separable=True, metric=self.metric, held=held)

    @property
    def metric(self) -> Metric | None:
        """Of coupled modes; exact where drift and noise are free and all that is estimated.

        The first state of a long stationary path adds next to nothing.
        """
        if not self.model.couples:
            return None
        free = self.model.drift == self.model.noise == "dense" and self.model.forcing is None
        given = {"deterministic": True, "stationary": self.moments.n_steps >= LONG_PATH}
        metric = metric_of_sums(self.statistics, self.has_mean)
        is_given = given.get(self.parametrisation.initial_kind, False)
        return metric._replace(exact=metric.exact and free and is_given)

    def likelihood(self, state_space: StateSpace) -> Evaluation:
        """Likelihood and score; restricted, where the law has a mean."""
        if not self.has_mean:
            return self.at_mean(state_space)
        return evaluate_restricted_statistics(
            self.statistics, state_space, anchored=self.anchored, farthest=self.farthest
        )

    @functools.cached_property
    def mean_and_deviation(self) -> tuple[Array, Array]:
        """Mean and deviation of the coefficients; (N,) each."""
        return _mean_and_deviation(self.statistics)

    def shifted(self, by: Array, full: Array) -> tuple[StatisticsObjective, Array]:
        """The objective of the coefficients less ``by``, and the full vector there."""
        s, parametrisation = centred(self.statistics, by), self.parametrisation
        if parametrisation.initial_kind == "deterministic":
            start = parametrisation.initial_mean - by
            parametrisation = dataclasses.replace(parametrisation, initial_mean=start)
        problem = dataclasses.replace(
            self,
            statistics=s,
            parametrisation=parametrisation,
            moments=_starting_moments(s, self.model, False),
            centre=self.centre + by,
        )
        return problem, self._moved_start(by, full)

    def mean_given(self, state_space: StateSpace) -> tuple[Array, Array, Array]:
        """Mean of a law, its covariance, and what it shares with the initial mean."""
        return mean_given_statistics(self.statistics, state_space, anchored=self.anchored)

    def mean_gradient(self, state_space: StateSpace, evaluation: Evaluation) -> Array:
        """Gradient by the mean of a law around it."""
        return mean_gradient_statistics(self.statistics, state_space, anchored=self.anchored)

    def at_mean(self, state_space: StateSpace) -> Evaluation:
        """Likelihood and score of a law around its mean."""
        return evaluate_statistics(self.statistics, state_space)


def build_statistics_objective(
    s: Statistics, domain: AbstractDomain, model: Model
) -> StatisticsObjective:
    """Choose the initial state and the start of the search; the mean is zero or constant."""
    has_mean = model.mean == "constant"
    centre = mean_of(s) if has_mean else np.zeros(s.n_modes)
    s = centred(s, centre) if has_mean else s
    moments = _starting_moments(s, model, has_mean)
    kind = initial_state(model, moments)
    if kind.answer == "gaussian" and not model.states_initial and not start_apart(moments):
        # A variance that would be estimated as zero, where densities are infinite.
        kind = Decision("deterministic", {})
    fixed_means = {"deterministic": moments.mean, "stationary": np.zeros(s.n_modes)}
    start, origin = fixed_means.get(str(kind.answer)), float(s.times[0])
    parametrisation = parametrise(
        model, domain, s.n_modes, kind, moments, known_variance=0.0, known_mean=start, origin=origin
    )
    return StatisticsObjective(
        statistics=s,
        parametrisation=parametrisation,
        moments=moments,
        model=model,
        decisions={"initial_state": kind},
        initial_is_open=model.initial_is_open and s.n_paths == 1,
        has_mean=has_mean,
        centre=centre,
    )


def mean_of(s: Statistics) -> Array:
    """Mean of all coefficients, (N,)."""
    return np.asarray(s.first.sum(0) / (s.n_paths * len(s.times)))


def _mean_and_deviation(s: Statistics) -> tuple[Array, Array]:
    mean = mean_of(s)
    alone = centred(dataclasses.replace(s, pairs=None), mean)
    square = alone.square.sum(0) / (s.n_paths * len(s.times))
    return mean, np.sqrt(np.maximum(square, 0.0))


def centred(s: Statistics, mean: Array) -> Statistics:
    """Sums of the coefficients less a mean."""
    return s.shifted(np.broadcast_to(mean, s.first.shape))


def _starting_moments(s: Statistics, model: Model, has_mean: bool) -> MomentEstimates:
    """Moment estimates to start from; the response of forced paths is subtracted first."""
    bare, moments = s, from_statistics(s, has_mean)
    if model.forcing is not None:
        driven = Linear(moments.drift, moments.noise, None, model.forcing, float(s.times[0]))
        bare = s.shifted(driven.response(s.times))
        moments = from_statistics(bare, has_mean)
    if model.couples:
        alike = s.n_paths < MANY_PATHS or model.forcing is None
        from_mean = bare if alike else s.shifted(s.first / s.n_paths)
        moments = from_pair_sums(from_mean, moments, model.couples_drift)
    return moments


# ---------- Fit of complete, noise-free fields on one clock, by sufficient statistics


#: Energy outside the modes from which on it can bias them on a grid that mixes modes.
OUTSIDE_TOLERANCE = 1e-8
#: Score-test threshold for observation noise; false alarms, one in 700, cost only time.
NOISE_Z = 3.0
#: Lag-one correlation from which on the residual of the modes is further modes and not noise.
CORRELATED = 0.4
#: Below this many values the score test has little power, and a comparison of fits is cheap.
FEW_VALUES = 100_000


def statistics_of(observed: Observed, n_modes: int, *, pairs: bool = False) -> Statistics | None:
    """Sufficient statistics in one pass, or None where data are missing or paths differ.

    ``pairs`` adds the products of different modes that a law of coupled modes needs.
    """
    if observed.times.ndim == 2:
        return None
    phi = observed.basis(n_modes)
    if len(phi) < n_modes or np.linalg.matrix_rank(phi) < n_modes:
        return None
    if observed.in_pieces:
        if observed.has_gaps:
            return None
        rows = collapsed_rows(observed, phi)
        return statistics_of_rows(rows, observed.times, phi, pairs=pairs)
    values = (block for _, block in observed.pieces().read())
    return collect(values, observed.times, np.linalg.pinv(phi), phi, pairs=pairs)


def by_statistics(observed: Observed, n_modes: int, model: Model) -> tuple[Fit | None, bool]:
    """Fit from sufficient statistics, None where they are not enough, and whether it is final.

    It is not final where there may be noise.
    """
    clock = time.perf_counter()
    s = statistics_of(observed, n_modes, pairs=model.couples)
    if s is None:
        return None, False
    check_change((s.square[1:] - 2.0 * s.cross + s.square[:-1]).max(), s.square.max())
    if model.noise_word == "estimate" and s.outside > ROUNDING * s.energy:
        return None, False
    has_more = s.outside > OUTSIDE_TOLERANCE * s.energy
    if model.nuisance != 0:
        mixes = has_more and grid_mixes(observed, n_modes)
        if mixes or model.nuisance != "auto":
            return None, False
    read = time.perf_counter() - clock
    fit, phi = fit_statistics(s, observed.domain, model), observed.basis(n_modes)
    z = white_noise_z(s, fit.estimate.state_space, phi.T @ phi)  # a score test
    noise = Decision("some" if z > NOISE_Z else "none", {"score_z": z, "noise_above": NOISE_Z})
    may_be_noise = model.noise_word == "auto" and (
        noise.answer != "none" or (has_more and _may_be_noise(observed, s, phi))
    )
    decisions = {**fit.decisions, "observation_noise": noise}
    seconds = {"read": read, **fit.seconds}
    return dataclasses.replace(fit, decisions=decisions, seconds=seconds), not may_be_noise


def _may_be_noise(observed: Observed, s: Statistics, phi: Array) -> bool:
    """Whether the residual of the modes may be noise, so that fits have to be compared.

    Further modes are correlated from one time to the next, noise is not. The score test uses the
    modes alone, where an estimate without noise mistakes noise for fast decay.
    """
    if s.n_values < FEW_VALUES:
        return True
    return residual_correlation(observed, phi)[0] < CORRELATED or is_rough(observed, phi.shape[1])


def fit_statistics(s: Statistics, domain: AbstractDomain, model: Model) -> Fit:
    """Estimate from sufficient statistics."""
    clock = time.perf_counter()
    problem, fitted = select(lambda variant: build_statistics_objective(s, domain, variant), model)
    degrees = s.n_values - s.n_paths * len(s.times) * s.n_modes
    has_more = degrees > 0 and s.outside > 1e-14 * s.energy
    outside = s.outside / degrees if has_more else 0.0
    seconds = {"maximise": time.perf_counter() - clock}
    arguments = (fitted, s.n_modes, "statistics", s.n_values, outside)
    return Fit(*arguments, statistics=s, decisions=problem.decisions, seconds=seconds)


# ---------- The exact engine: maximum likelihood of the untruncated law
#
# Complete, noise-free data on a common grid need one pass for their sufficient statistics.
# Everything else goes through the filter. ``law.info`` records the route and the reasons.
#
# One observation variance per point is found by conditional maximisation. Given the variances, the
# spectra are a maximum-likelihood problem with known noise; given the spectra, the expected squared
# residual of each point is its variance in closed form,
#
#     r_m = mean over paths and times of  (y_m - h(x_m)' E[c | y])^2 + h(x_m)' Cov(c | y) h(x_m).
#
# Each round raises the likelihood. The points outnumber the modes, so a few rounds are enough.


#: Largest change of a log variance that ends the rounds, and their number at most.
VARIANCE_TOLERANCE, MOST_ROUNDS = 1e-3, 25
#: No variance falls below this share of the largest.
VARIANCE_FLOOR = 1e-10


@checked()
@dataclasses.dataclass(frozen=True)
class Exact(Engine):
    """Maximum of the likelihood itself, without truncation or sampling.

    Args:
        threads: number of threads for data with gaps.
        profile: compute intervals from the profile likelihood where standard errors are too rough.
            False saves time if you need predictions only.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=2), n_paths=40, seed=0)
        >>> sl.fit(data, sl.Interval(0, np.pi), 2, engine=sl.Exact(threads=2)).info["engine"]
        'exact'
    """

    threads: int = 1
    profile: bool = True
    name = "exact"
    supports = frozenset(WORDS) - {"state_noise"}
    accepts_lazy = True

    def learn(
        self, observed: Observed, domain: AbstractDomain, n_modes: int, model: Model, **run: Any
    ) -> Law:
        """Law by sufficient statistics or by the filter, as the data allow."""
        with watched(run["progress"]):
            sound, notes = without_bad_sensors(observed, n_modes, model)
            fit = maximum_likelihood(sound, n_modes, model, self.threads)
            fit = dataclasses.replace(fit, notes=(*notes, *fit.notes))
            law = assemble(fit, sound, model, run["level"], self.profile)
        if len(sound.points) == len(observed.points):
            return law
        # The law predicts at a bad sensor as well, and knows the data that it was learned from.
        numbers = law.info["log_likelihood_of"]
        if not observed.is_lazy:
            numbers = {**numbers, "fingerprint": checksum(observed.fields, observed.reading)}
        law = law.with_info(log_likelihood_of=numbers, **observed.sizes)
        return dataclasses.replace(law, points=observed.points)


#: Largest number of bad sensors that notes list.
MOST_NAMED = 3


def without_bad_sensors(
    observed: Observed, n_modes: int, model: Model
) -> tuple[Observed, list[str]]:
    """The data without sensors that contradict all others, and notes about them.

    Not where sensors may differ: with one noise per point, or per value. Lazy data are judged by
    their first paths, of a record by its first times.
    """
    if np.ndim(model.observation_noise) or model.noise_word == "per_point":
        return observed, []
    observed = with_head(observed) if observed.is_lazy else observed
    values = np.asarray(observed.values) if observed.head is None else observed.head
    bad = bad_sensors(values, observed.basis(n_modes))
    if not bad:
        return observed, []
    keep = np.array([m not in bad for m in range(len(observed.points))])
    if len(bad) <= MOST_NAMED:
        return observed.at_points(keep), [_sensor_note(observed, m, bad[m]) for m in bad]
    first = next(iter(bad))
    where = ", ".join(f"{name} {x:.6g}" for name, x in _coordinates(observed, first).items())
    return observed.at_points(keep), [
        f"the fit leaves out {len(bad)} points that contradict all others or never change, as "
        f"under sea ice; the first one, at {where}, {bad[first]}. To keep them, with a noise of "
        "their own: --observation-noise per_point, in Python observation_noise='per_point'"
    ]


def _coordinates(observed: Observed, m: int) -> dict[str, float]:
    """Coordinates of a point, under the names of the user's data."""
    coords = observed.fields.isel({observed.fields.dims[-1]: m}).coords
    return {
        str(coords[name].attrs.get(ORIGINAL, name)): float(coords[name])
        for name in observed.domain.dims
        if name in coords
    }


def _sensor_note(observed: Observed, m: int, why: str) -> str:
    where = _coordinates(observed, m)
    at = ", ".join(f"{name} {x:.6g}" for name, x in where.items())
    other = " | ".join(f"(abs(data.{name} - {x:.6g}) > 1e-4)" for name, x in where.items())
    return (
        f"the sensor at {at} {why}: the fit leaves it out. Check it, and drop it from the data "
        f"(in Python data.where({other})), or keep it with a noise of its own: "
        "--observation-noise per_point, in Python observation_noise='per_point'"
    )


def maximum_likelihood(observed: Observed, n_modes: int, model: Model, threads: int) -> Fit:
    """Maximum-likelihood fit by sufficient statistics or by the filter, as the data allow."""
    if model.noise_word == "per_point":
        return fit_per_point(observed, n_modes, model, threads)
    if observed.executor.remote:
        threads = 1  # the workers are the threads
    if not observed.in_pieces:
        return _by_sums_or_filter(observed, n_modes, model, threads)
    clock = time.perf_counter()
    observed = condensed_once(observed, n_modes, model)
    read = time.perf_counter() - clock
    fit = _by_sums_or_filter(observed, n_modes, model, threads)
    return dataclasses.replace(fit, seconds=fit.seconds | {"read": read + fit.seconds["read"]})


def _by_sums_or_filter(observed: Observed, n_modes: int, model: Model, threads: int) -> Fit:
    """Fit by sufficient statistics where fields are complete and without noise, else by the filter.

    Sums are computed first wherever there may be no noise.
    """
    # Sums over steps of equal length forget when the steps were: nothing for noise with seasons.
    is_timeless = model.season is None
    noise_free_fit: Fit | None = None
    is_open = model.noise_word in ("auto", "estimate")
    if is_open and len(observed.points) <= n_modes:
        # No point to spare that would show whether there is noise: it is estimated.
        return by_filter(observed, n_modes, model, threads=threads)
    if is_timeless and (is_open or not np.any(model.known_variance)):
        noise_free_fit, is_all = by_statistics(observed, n_modes, model)
        if noise_free_fit is not None and is_all:
            return noise_free_fit
    return by_filter(observed, n_modes, model, threads=threads, noise_free_fit=noise_free_fit)


# -- one observation variance per point -----------------------------------------------------------
def fit_per_point(observed: Observed, n_modes: int, model: Model, threads: int) -> Fit:
    """Fit with one observation variance per point.

    The standard errors of the spectra are those given the variances; these rest on all paths
    and times of their point and add next to nothing.
    """
    observed = observed.in_memory()  # every round smooths all fields

    def fit_given_noise(noise: object, polish: bool) -> Fit:
        variant = dataclasses.replace(model, observation_noise=noise)
        return by_filter(observed, n_modes, variant, threads=threads, polish=polish)

    fit = fit_given_noise("estimate", False)
    first_estimate = (
        fit.estimate
    )  # whether there is a mean is decided once, and where paths start then
    if first_estimate.mean is None:
        model = dataclasses.replace(model, mean="zero")
    else:
        model = dataclasses.replace(
            model, mean="constant", initial=first_estimate.state_space.initial.kind
        )
    shared = float(fit.estimate.state_space.observation_variance)
    variance = np.full(len(observed.points), shared)
    for _ in range(MOST_ROUNDS):
        new = _expected_residual(observed, fit, variance)
        change = np.abs(np.log(new / variance)).max()
        variance = new
        if change < VARIANCE_TOLERANCE:
            break
        fit = fit_given_noise(np.sqrt(variance), False)
    counts = np.maximum((~np.isnan(observed.values)).sum((0, 1)), 1)
    error = np.sqrt(variance / (2.0 * counts))
    fit = fit_given_noise(np.sqrt(variance), True)
    return dataclasses.replace(fit, point_variance=variance, point_error=error)


def _expected_residual(observed: Observed, fit: Fit, variance: Array) -> Array:
    unit = fit.estimate.state_space.with_noise(1.0)
    basis, values = observed.basis(unit.n_modes), observed.values
    moments = smooth_fields(values, observed.times, basis, unit, basis, 1.0 / variance)
    square = np.nanmean((values - moments.mean) ** 2 + moments.variance, axis=(0, 1))
    return np.maximum(square, VARIANCE_FLOOR * square.max())

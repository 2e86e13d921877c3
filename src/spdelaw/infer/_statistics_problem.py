"""One maximisation over the sums of complete, noise-free paths, all decisions taken."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.equation import Linear, operators
from spdelaw.infer._estimate import Decision, Estimate
from spdelaw.infer._lag_covariances import MANY_PATHS, from_pair_sums
from spdelaw.infer._metric import Metric, metric_of_sums
from spdelaw.infer._model import Model
from spdelaw.infer._moment_estimates import MomentEstimates, from_statistics, initial_state
from spdelaw.infer._parametrise import parametrise
from spdelaw.infer._posed import Posed
from spdelaw.infer._posterior import LogPosterior, estimate, log_posterior
from spdelaw.model import (
    Evaluation,
    StateSpace,
    Statistics,
    evaluate_restricted_statistics,
    evaluate_statistics,
    mean_given_statistics,
)

Array = np.ndarray

#: Spread of first states, relative to their energy, that is rounding.
SAME_START = 1e-12


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class StatisticsProblem(Posed):
    """A maximisation over sums; ``statistics`` are those of the coefficients less the centre."""

    statistics: Statistics

    def run(self) -> Estimate:
        """Maximise from the moment estimates."""
        return estimate(self.posterior(), polish=self.polish)

    def posterior(self, start: Array | None = None) -> LogPosterior:
        """Log-posterior, around a full vector where one is given."""
        how = (self.parametrisation, self.likelihood, self.moments, self.model)
        return log_posterior(*how, start, separable=True, metric=self.metric)

    @property
    def metric(self) -> Metric | None:
        """Of coupled modes; exact where drift and noise are free and all that is estimated."""
        if not self.model.couples:
            return None
        free = self.model.drift == self.model.noise == "dense" and self.model.forcing is None
        given = self.parametrisation.initial_kind == "deterministic" and not self.has_mean
        metric = metric_of_sums(self.statistics)
        return metric._replace(exact=metric.exact and free and given)

    def likelihood(self, state_space: StateSpace) -> Evaluation:
        """Likelihood and score; restricted, where the law has a mean."""
        if not self.has_mean:
            return self.at_mean(state_space)
        s, anchored = self.statistics, self.anchored
        return evaluate_restricted_statistics(s, state_space, anchored=anchored)

    @functools.cached_property
    def mean_and_deviation(self) -> tuple[Array, Array]:
        """Mean and deviation of the coefficients; (N,) each."""
        return _mean_and_deviation(self.statistics)

    def shifted(self, by: Array, *, has_mean: bool) -> StatisticsProblem:
        """The same for coefficients less ``by``, for a quick look: no standard errors."""
        s, parametrisation = centred(self.statistics, by), self.parametrisation
        if parametrisation.initial_kind == "deterministic":
            start = parametrisation.initial_mean - by
            parametrisation = dataclasses.replace(parametrisation, initial_mean=start)
        moments = _moments(s, self.model, has_mean)
        own = {"statistics": s, "parametrisation": parametrisation, "moments": moments}
        return self.less(by, has_mean, **own)

    def mean_given(self, state_space: StateSpace) -> tuple[Array, Array]:
        """Mean of a law, and its covariance given the other parameters."""
        return mean_given_statistics(self.statistics, state_space, anchored=self.anchored)

    def at_mean(self, state_space: StateSpace) -> Evaluation:
        """Likelihood and score of a law around its mean."""
        return evaluate_statistics(self.statistics, state_space)


def pose_statistics(s: Statistics, domain: AbstractDomain, model: Model) -> StatisticsProblem:
    """Decide where paths start, and where to start; the mean is zero or constant."""
    has_mean = model.mean == "constant"
    centre = mean_of(s) if has_mean else np.zeros(s.n_modes)
    s = centred(s, centre) if has_mean else s
    moments = _moments(s, model, has_mean)
    diagonal = operators.diagonal(moments.spread)
    kind = initial_state(model, diagonal, SAME_START * moments.energy, s.n_paths)
    if kind.answer == "gaussian" and _starts_alike(model, diagonal, moments.energy):
        kind = Decision("deterministic", {"largest_spread": float(diagonal.max())})
    known = {"deterministic": moments.mean, "stationary": np.zeros(s.n_modes)}
    start, origin = known.get(str(kind.answer)), float(s.times[0])
    parametrisation = parametrise(
        model, domain, s.n_modes, kind, moments, known_variance=0.0, known_mean=start, origin=origin
    )
    return StatisticsProblem(
        statistics=s,
        parametrisation=parametrisation,
        moments=moments,
        model=model,
        decisions={"initial_state": kind},
        has_mean=has_mean,
        centre=centre,
    )


def _starts_alike(model: Model, spread: Array, energy: Array) -> bool:
    """Whether a spread of first states would be estimated as zero, where densities are infinite."""
    said = [*(model.fixed or {}), *(model.priors or {})]
    is_said = any(name.startswith("initial") for name in said)
    return not is_said and not (spread > SAME_START * energy).any()


def mean_of(s: Statistics) -> Array:
    """Mean of all coefficients, (N,)."""
    return np.asarray(s.first.sum(0) / (s.n_paths * len(s.times)))


def distance(s: Statistics) -> float:
    """Mean of the coefficients, relative to their deviations from it."""
    mean, deviation = _mean_and_deviation(s)
    return float(np.sqrt((mean**2).sum() / max((deviation**2).sum(), 1e-300)))


def _mean_and_deviation(s: Statistics) -> tuple[Array, Array]:
    mean = mean_of(s)
    square = centred(s, mean).square.sum(0) / (s.n_paths * len(s.times))
    return mean, np.sqrt(np.maximum(square, 0.0))


def centred(s: Statistics, mean: Array) -> Statistics:
    """Sums of the coefficients less a mean."""
    return s.shifted(np.broadcast_to(mean, s.first.shape))


def _moments(s: Statistics, model: Model, has_mean: bool) -> MomentEstimates:
    """Estimates to start from; of forced paths the response at a first guess is taken off."""
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

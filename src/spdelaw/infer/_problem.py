"""One maximisation through the filter, all decisions taken: its starts and its run."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from spdelaw.data import Observed
from spdelaw.equation import Linear
from spdelaw.infer._design import Design
from spdelaw.infer._estimate import Estimate, Fit
from spdelaw.infer._lag_covariances import from_coefficient_pairs
from spdelaw.infer._metric import Metric, metric_of_rows
from spdelaw.infer._moment_estimates import (
    energy_of,
    from_coefficients,
    squares_of_rows,
    sum_of_rows,
)
from spdelaw.infer._optimise import SLOW
from spdelaw.infer._posed import Posed
from spdelaw.infer._posterior import LogPosterior, estimate, log_posterior
from spdelaw.infer._searches import highest
from spdelaw.law import Numbers, log_density
from spdelaw.model import (
    Block,
    Collapsed,
    Evaluation,
    StateSpace,
    evaluate_likelihood,
    evaluate_restricted,
    first_paths,
    mean_given,
    observed_information,
    rotate,
    without_response,
)

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
class Problem(Posed):
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

    def head(self) -> Problem:
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
        inside = sum(self.collapsed.over(energy_of))
        return float(inside + self.collapsed.misfit) / max(self.collapsed.n_values, 1.0)

    @functools.cached_property
    def mean_and_deviation(self) -> tuple[Array, Array]:
        """Mean and deviation of the coefficients of well observed rows; (N,) each."""
        n = self.collapsed.n_modes
        total, count = (sum(part) for part in zip(*self.collapsed.over(sum_of_rows), strict=True))
        if not count:
            return np.zeros(n), np.ones(n)
        mean = total / count
        return mean, np.sqrt(sum(self.collapsed.over(squares_of_rows, mean)) / count)

    def shifted(self, by: Array, *, has_mean: bool) -> Problem:
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
            space = space._replace(dynamics=own.undriven)
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

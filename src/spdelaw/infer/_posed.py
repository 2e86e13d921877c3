"""What a maximisation over sums and one through the filter share, all decisions taken."""

from __future__ import annotations

import abc
import dataclasses
import functools
from typing import Any, Self

import numpy as np

from spdelaw.infer._estimate import Decision, Estimate
from spdelaw.infer._mean import around_mean
from spdelaw.infer._model import Model
from spdelaw.infer._moment_estimates import MomentEstimates
from spdelaw.infer._parametrisation import Parametrisation
from spdelaw.infer._parametrise import starting_vector
from spdelaw.infer._posterior import LogPosterior
from spdelaw.model import Evaluation, StateSpace

Array = np.ndarray


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Posed(abc.ABC):
    """What will be maximised, and from where.

    Attributes:
        parametrisation: what is estimated.
        moments: estimates to start from.
        model: what is assumed.
        centre: what was taken off the coefficients, (N,).
        decisions: by what they are about.
        polish: False leaves out curvature and standard errors.
        has_mean: whether the law has a mean; the likelihood is then the restricted one.
    """

    parametrisation: Parametrisation
    moments: MomentEstimates
    model: Model
    centre: Array
    decisions: dict[str, Decision] = dataclasses.field(default_factory=dict)
    polish: bool = True
    has_mean: bool = False

    @abc.abstractmethod
    def run(self) -> Estimate:
        """The maximum, by whatever starts it needs."""

    @abc.abstractmethod
    def posterior(self, start: Array | None = None) -> LogPosterior:
        """Log-posterior, around a full vector where one is given."""

    @abc.abstractmethod
    def shifted(self, by: Array, *, has_mean: bool) -> Posed:
        """The same for coefficients less ``by``, for a quick look: no standard errors."""

    @abc.abstractmethod
    def mean_given(self, state_space: StateSpace) -> tuple[Array, Array]:
        """Mean of a law, and its covariance given the other parameters; (N,) and (N, N)."""

    @abc.abstractmethod
    def at_mean(self, state_space: StateSpace) -> Evaluation:
        """Likelihood and score of a law around its mean, nothing integrated out."""

    @property
    @abc.abstractmethod
    def mean_and_deviation(self) -> tuple[Array, Array]:
        """Mean and deviation of the coefficients; (N,) each."""

    @property
    def size(self) -> tuple[float, int, int]:
        """Duration and steps of a path, and number of paths."""
        return self.moments.span, self.moments.n_steps, self.moments.n_paths

    @property
    def seconds(self) -> float:
        """What one evaluation takes, about; 0 where it takes next to nothing."""
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

    def less(self, by: Array, has_mean: bool, **data: Any) -> Self:
        """The same without standard errors, its data less ``by``."""
        centre = self.centre + by
        return dataclasses.replace(self, centre=centre, has_mean=has_mean, polish=False, **data)

    def finished(self, found: Estimate) -> Estimate:
        """The estimate with its mean, where the law has one."""
        return around_mean(found, self) if self.has_mean else found

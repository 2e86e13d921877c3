"""What an estimation finds: numbers with their covariance, and what they rest on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spdelaw.infer._optimise import Optimum
from spdelaw.infer._parametrisation import Parametrisation
from spdelaw.law import Numbers
from spdelaw.model import StateSpace, Statistics

if TYPE_CHECKING:
    from spdelaw.infer._posterior import LogPosterior

Array = np.ndarray


class MeanEstimate(NamedTuple):
    """The mean m of the law given the other parameters, and how it follows them.

    Attributes:
        value: ``m_hat``, (N,).
        given: its covariance given the others, (N, N).
        slopes: what it moves by along the columns of the others' covariance, (N, free).
        anchored: whether the initial mean was that of the state, and not of its deviation.
        restricted: log-likelihood with the mean integrated out.
        at: ``m_hat`` and its covariance at other parameters.
    """

    value: Array
    given: Array
    slopes: Array
    anchored: bool
    restricted: float
    at: Callable[[StateSpace], tuple[Array, Array]]

    @property
    def errors(self) -> Array:
        """Standard errors, the uncertainty of the other parameters included; (N,)."""
        return np.sqrt(np.diag(self.given) + (self.slopes**2).sum(-1))


class Estimate(NamedTuple):
    """Maximum-likelihood estimate with the covariance of its coordinates.

    Attributes:
        state_space: the model at the estimate.
        full: coordinates, (p,).
        columns: directions of unit variance, (p, free): ``columns columns'`` is the covariance.
            The last ones move the initial mean alone.
        log_likelihood: at the estimate, without priors.
        optimum: the maximiser's own report.
        posterior: what was maximised.
        mean: of the law, where one is estimated; ``state_space`` is then around it, and
            ``log_likelihood`` at it.
    """

    state_space: StateSpace
    full: Array
    columns: Array
    log_likelihood: float
    optimum: Optimum
    posterior: LogPosterior
    mean: MeanEstimate | None = None

    @property
    def parametrisation(self) -> Parametrisation:
        """Of the full vector."""
        return self.posterior.parametrisation

    @property
    def covariance(self) -> Array:
        """Covariance of the coordinates, zero where fixed; (p, p)."""
        return self.columns @ self.columns.T

    @property
    def n_free(self) -> int:
        """Number of free numbers: coordinates, and the mean of each mode."""
        return self.columns.shape[1] + (0 if self.mean is None else len(self.mean.value))

    def errors(self, part: str) -> Array:
        """Standard errors of a part's coordinates."""
        return np.sqrt((self.columns[self.parametrisation.slices[part]] ** 2).sum(-1))

    def roots(self, part: str) -> Array:
        """Columns of a root of the covariance of a part's numbers: their shape and (free,).

        A coordinate that ran off to infinity has no slope there and counts as known.
        """
        where = self.parametrisation.slices[part]
        return self.parametrisation.parts[part].push(self.full[where], self.columns[where])


class Decision(NamedTuple):
    """What was decided about the data, and the numbers it was decided by."""

    answer: str | int
    compared: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Fit:
    """An estimate and what it rests on, ready to be turned into a `Law`.

    Attributes:
        estimate: the numbers.
        n_modes: reported ones, without nuisance.
        route: the way the likelihood was computed.
        n_observed: values that it is a density of.
        outside_variance: mean square outside the modes that is not noise.
        density: log density of the data, and of which numbers; None where that follows from
            ``statistics``.
        statistics: sufficient ones, where the route has them.
        notes: reasons in words.
        decisions: by what they are about.
        seconds: by stage.
        point_variance, point_error: observation variance of each point and the error of its root,
            where each has its own.
    """

    estimate: Estimate
    n_modes: int
    route: str
    n_observed: float
    outside_variance: float
    density: tuple[Any, Numbers] | None = None
    statistics: Statistics | None = None
    notes: tuple[str, ...] = ()
    decisions: dict[str, Decision] = dataclasses.field(default_factory=dict)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    point_variance: Any = None
    point_error: Any = None

"""What fixes the law of the coefficients and of their observation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spdelaw.equation import Dynamics, InitialState, Linear, operators
from spdelaw.errors import EquationError

Array = np.ndarray


class StateSpace(NamedTuple):
    """Law of N coefficients and of what is seen of them.

    Attributes:
        dynamics: what the state does over a step.
        initial: law of the first state.
        observation_variance: ``r``, one number, or one per point.
    """

    dynamics: Dynamics
    initial: InitialState
    observation_variance: Array

    @property
    def n_modes(self) -> int:
        """Number of modes N."""
        return self.dynamics.n_modes

    @property
    def is_diagonal(self) -> bool:
        """Whether the modes are independent of one another before they are observed."""
        linear = isinstance(self.dynamics, Linear) and self.dynamics.is_diagonal
        return linear and operators.is_diagonal(self.initial.covariance)

    @property
    def linear(self) -> Linear:
        """The dynamics, where they are linear."""
        if not isinstance(self.dynamics, Linear):
            got = type(self.dynamics).__name__
            fix = "use forward_filter and rts_smoother, which take any dynamics"
            raise EquationError("dynamics", expected="linear dynamics", got=got, fix=fix)
        return self.dynamics

    def with_noise(self, observation_variance: Any) -> StateSpace:
        """The same with another observation variance."""
        return self._replace(observation_variance=np.asarray(observation_variance, float))

    def leading(self, n: int) -> StateSpace:
        """The first ``n`` modes."""
        return self._replace(dynamics=self.dynamics.leading(n), initial=self.initial.leading(n))


def linear_state_space(
    drift: Array,
    noise: Array,
    initial_mean: Array,
    initial_covariance: Array,
    r: Any,
    kind: Any = "deterministic",
    season: Any = None,
) -> StateSpace:
    """A linear state space from its numbers."""
    initial = InitialState(kind, np.asarray(initial_mean, float), np.asarray(initial_covariance))
    return StateSpace(Linear(drift, noise, season), initial, np.asarray(r, float))

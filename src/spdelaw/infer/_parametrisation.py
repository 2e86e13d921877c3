"""One vector of free coordinates for all that is estimated, and the score in it.

The vector is a sequence of parts: drift, noise, season, observation, initial_variance,
initial_mean. Each part that is estimated has coordinates of its own; what is known or follows
from other parts has none. With ``theta_p`` the numbers of a part and ``J_p`` their Jacobian, the
score by the part's coordinates is ``d log p / d theta_p`` contracted with ``J_p`` over all axes of
``theta_p``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np

from spdelaw.equation import Forcing, InitialKind, InitialState, Linear, Season, operators
from spdelaw.infer._coordinates import AbstractCoordinates
from spdelaw.model import Evaluation, StateSpace

Array = np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Parametrisation:
    """From one vector to a state-space model, and back for its gradient.

    Attributes:
        parts: coordinates of each part that is estimated, in the order of the vector.
        initial_kind: "deterministic", "gaussian" or "stationary".
        initial_mean: (N,), where it is no part.
        observation_variance: where it is no part.
        season: of the noise, or None; its weights are a part.
        forcing: known, or None.
        origin: when the forcing begins to act.
    """

    parts: Mapping[str, AbstractCoordinates]
    initial_kind: InitialKind
    initial_mean: Array
    observation_variance: float = 0.0
    season: Season | None = None
    forcing: Forcing | None = None
    origin: float = 0.0

    @property
    def n_modes(self) -> int:
        """Modes in all, nuisance included."""
        return len(self.initial_mean)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """One name per coordinate of the full vector."""
        return tuple(name for part in self.parts.values() for name in part.names)

    @functools.cached_property
    def is_log(self) -> Array:
        """Whether a coordinate is a logarithm; (p,)."""
        return np.concatenate([part.is_log for part in self.parts.values()])

    @functools.cached_property
    def slices(self) -> dict[str, slice]:
        """Slice of each part in the full vector."""
        stops = np.cumsum([0, *(len(part.names) for part in self.parts.values())]).tolist()
        return {name: slice(*stops[i : i + 2]) for i, name in enumerate(self.parts)}

    def values(self, full: Array) -> dict[str, Array]:
        """Numbers of every part."""
        return {name: part.values(full[self.slices[name]]) for name, part in self.parts.items()}

    def jacobian(self, part: str, full: Array) -> Array:
        """Derivative of a part's numbers by its coordinates; one axis more than the numbers."""
        return self.parts[part].jacobian(full[self.slices[part]])

    def state_space(self, full: Array) -> StateSpace:
        """The model at a full vector."""
        found = self.values(full)
        season = self.season
        if season is not None:
            season = season.with_weights(found["season"])
        dynamics = Linear(found["drift"], found["noise"], season, self.forcing, self.origin)
        spread = found.get("initial_variance", np.zeros(self.n_modes))
        if self.initial_kind == "stationary":
            spread = operators.stationary_covariance(dynamics.drift, dynamics.noise)
        mean = found.get("initial_mean", self.initial_mean)
        variance = np.asarray(found.get("observation", self.observation_variance))
        return StateSpace(dynamics, InitialState(self.initial_kind, mean, spread), variance)

    def score(self, full: Array, model: StateSpace, found: Evaluation) -> Array:
        """Gradient by the full vector from that by the numbers of ``model``."""
        by_drift, by_noise = found.by_drift, found.by_noise
        if self.initial_kind == "stationary":
            linear, spread = model.linear, model.initial.covariance
            own = operators.stationary_pull_back(
                linear.drift, linear.noise, spread, found.by_initial_covariance
            )
            by_drift, by_noise = by_drift + own[0], by_noise + own[1]
        by = {
            "drift": by_drift,
            "noise": by_noise,
            "season": found.by_season,
            "observation": np.asarray(found.by_observation_variance),
            "initial_variance": found.by_initial_covariance,
            "initial_mean": found.by_initial_mean,
        }
        slopes = [own.pull_back(full[self.slices[p]], by[p]) for p, own in self.parts.items()]
        return np.concatenate(slopes)

"""Linear dynamics: Ornstein-Uhlenbeck modes, coupled or not, forced or not, with seasons or not."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from spdelaw.equation import operators
from spdelaw.equation._dynamics import Dynamics, Step
from spdelaw.equation._forcing import Forcing
from spdelaw.equation._season import Season
from spdelaw.equation._transition import Transition, distinct_spans, transition

Array = np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Linear(Dynamics):
    """``dc = -Lambda (c - m) dt + F(t) dt + dW`` with ``Cov dW = w(t) Q dt``.

    The state is ``c = u + m + (response to F)``; initial states are those of the deviation u.

    Args:
        drift: ``Lambda``, (N,) or (N, N).
        noise: ``Q``, (N,) or (N, N).
        season: ``w``, or None for noise of constant strength.
        forcing: known ``F``, or None.
        origin: when the forcing begins to act.
        mean: ``m``, (N,), to which the state returns; None for zero.
    """

    drift: Array
    noise: Array
    season: Season | None = None
    forcing: Forcing | None = None
    origin: float = 0.0
    mean: Array | None = None
    name: ClassVar[str] = "linear"

    @property
    def n_modes(self) -> int:
        """Number of modes N."""
        return len(self.drift)

    @property
    def is_diagonal(self) -> bool:
        """Whether neither drift nor noise couple the modes."""
        return operators.is_diagonal(self.drift) and operators.is_diagonal(self.noise)

    @property
    def parameters(self) -> dict[str, Array]:
        """Drift, noise and, where there are any, the weights of the season and the mean."""
        season = {} if self.season is None else {"season": self.season.weights}
        mean = {} if self.mean is None else {"mean": self.mean}
        return {"drift": self.drift, "noise": self.noise, **season, **mean}

    def over(self, dt: Array, start: Array | None = None) -> Transition:
        """Transitions of steps of lengths ``dt`` (U,), from ``start`` (U,) on."""
        return transition(self.drift, self.noise, dt, start, self.season)

    def transitions(self, times: Array) -> tuple[Transition, Array]:
        """Transitions that occur between ``times`` (T, ...), and which one each step has."""
        if self.is_diagonal and times.ndim == 2 and times.shape[1] > 1:
            # Clocks of their own: finding equal steps would cost more than it spares.
            dt = np.diff(times, axis=0)
            which = np.arange(dt.size).reshape(dt.shape)
            return self.over(dt.ravel(), times[:-1].ravel()), which
        start, dt, which = distinct_spans(times, self.season)
        return self.over(dt, start), which

    def response(self, times: Array) -> Array:
        """What is added to the deviation: mean and response to a forcing; (*times.shape, N)."""
        mean = np.zeros(self.n_modes) if self.mean is None else self.mean
        if self.forcing is None:
            return np.broadcast_to(mean, (*np.shape(times), self.n_modes))
        return self.forcing.response(self.drift, times, self.origin) + mean

    def response_pull_back(self, times: Array, by: Array) -> Array:
        """Gradient by the drift from that by the response, (*times.shape, N)."""
        if self.forcing is None:
            return np.zeros_like(self.drift)
        return self.forcing.pull_back(self.drift, times, by, self.origin)

    @property
    def is_driven(self) -> bool:
        """Whether something is added to the deviation."""
        return self.forcing is not None or self.mean is not None

    @property
    def undriven(self) -> Linear:
        """The law of the deviation: no forcing, a mean of zero."""
        return dataclasses.replace(self, forcing=None, mean=None) if self.is_driven else self

    def with_mean(self, mean: Array | None) -> Linear:
        """The same around another mean."""
        return dataclasses.replace(self, mean=mean)

    def moments(self, mean: Array, covariance: Array, t: float, dt: float) -> Step:
        """``F m + r``, ``F P F' + Omega`` and ``P F'`` with r what the forcing adds."""
        step = self.over(np.array([dt]), np.array([t]))
        f, omega = (operators.as_matrix(x[0]) for x in (step.factor, step.covariance))
        ends = np.array([t, t + dt])
        before, after = self.response(ends)

        def pull_back(
            by_mean: Array, by_covariance: Array, by_cross: Array
        ) -> tuple[Array, Array, dict[str, Array]]:
            sym = 0.5 * (by_covariance + by_covariance.T)
            by_f = np.outer(by_mean, mean - before) + 2.0 * sym @ f @ covariance
            by_f += by_cross.T @ covariance
            by_step = [operators.like(step.factor[0], x)[None] for x in (by_f, sym)]
            by_drift, by_noise, by_season = step.pull_back(*by_step)
            by_response = np.stack([-f.T @ by_mean, by_mean])
            by_drift = by_drift + self.response_pull_back(ends, by_response)
            every = {"drift": by_drift, "noise": by_noise, "season": by_season}
            every["mean"] = by_response.sum(0)
            own = {name: every[name] for name in self.parameters}
            return f.T @ by_mean, f.T @ sym @ f + by_cross @ f, own

        return Step(
            f @ (mean - before) + after, f @ covariance @ f.T + omega, covariance @ f.T, pull_back
        )

    def sample(self, state: Array, t: float, dt: float, generator: np.random.Generator) -> Array:
        """``F c + r + sqrt(Omega) z``."""
        step = self.over(np.array([dt]), np.array([t]))
        before, after = self.response(np.array([t, t + dt]))
        z = generator.standard_normal(np.shape(state))
        noise = operators.apply(operators.root(step.covariance[0]), z)
        return operators.apply(step.factor[0], state - before) + after + noise

    def leading(self, n: int) -> Linear:
        """The first modes; what couples them to later ones is cut."""
        return dataclasses.replace(
            self,
            drift=operators.leading(self.drift, n),
            noise=operators.leading(self.noise, n),
            mean=None if self.mean is None else self.mean[:n],
        )

    def to_dict(self) -> dict[str, Any]:
        """Arrays of the operators; season and forcing by their own descriptions."""
        parts = {"season": self.season, "forcing": self.forcing}
        return {
            "drift": self.drift,
            "noise": self.noise,
            "origin": float(self.origin),
            **({} if self.mean is None else {"mean": self.mean}),
            **{name: part.to_dict() for name, part in parts.items() if part is not None},
        }

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> Linear:
        """Inverse of `to_dict`."""
        d = dict(description)
        for name, kind in (("season", Season), ("forcing", Forcing)):
            if name in d:
                d[name] = kind(**d[name])
        if "mean" in d:
            d["mean"] = np.asarray(d["mean"], float)
        return cls(np.asarray(d.pop("drift"), float), np.asarray(d.pop("noise"), float), **d)

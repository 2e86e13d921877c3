"""Modes with a reaction: semilinear dynamics, moved by Gaussian closure or by Strang steps."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.domain import from_dict as domain_from_dict
from spdelaw.equation._closure import Closure, Moments, advance
from spdelaw.equation._closure_gradient import pull_back
from spdelaw.equation._dynamics import Dynamics, Step
from spdelaw.equation._field_terms import bound
from spdelaw.equation._polynomial import Means
from spdelaw.equation._terms import Reaction
from spdelaw.equation._transition import transition
from spdelaw.errors import EquationError

Array = np.ndarray

#: A sub-step of the closure may change the field by the reaction by this share.
LARGEST_CHANGE = 0.6
#: Most sub-steps that are chosen.
MOST_SUBSTEPS = 64
#: A draw takes at least so many Strang steps, and so many for each sub-step of the closure.
FEWEST_STRANG, STRANG_PER_SUBSTEP = 8, 4
#: Stands for zero where one divides by the size of a field.
TINY = 1e-300


@dataclasses.dataclass(frozen=True, eq=False)
class Reacting(Dynamics):
    """``dc = (-lambda c + F(c)) dt + dW``, ``F_n(c) = sum_t theta_t <g_t(u), h_n>``.

    Args:
        domain: where the modes live.
        terms: names of the ``g_t``, as `Semilinear` has them.
        coefficients: ``theta``, (n_terms,).
        rates: ``lambda``, (N,); may be negative, where the reaction pulls back.
        noise: ``q``, (N,), with ``Cov dW = q dt``.
    """

    domain: AbstractDomain
    terms: tuple[str, ...]
    coefficients: Array
    rates: Array
    noise: Array
    reaction: Reaction = dataclasses.field(init=False, repr=False)
    name: ClassVar[str] = "semilinear"

    def __post_init__(self) -> None:
        """Bind the terms to the modes."""
        object.__setattr__(self, "reaction", bound(self.terms, self.domain, self.n_modes))

    @property
    def n_modes(self) -> int:
        """Number of modes N."""
        return len(self.rates)

    @property
    def parameters(self) -> dict[str, Array]:
        """``theta``, ``lambda`` and ``q`` by name."""
        return {"coefficient": self.coefficients, "rate": self.rates, "noise": self.noise}

    @functools.cached_property
    def closure(self) -> Closure:
        """The same as numbers that move Gaussians."""
        return Closure(self.reaction, self.coefficients, self.rates, self.noise)

    def drift(self, state: Array) -> Array:
        """``-lambda c + F(c)``; (..., N)."""
        return self.reaction.drift(self.closure.total, state) - self.rates * state

    def moments(self, mean: Array, covariance: Array, t: float, dt: float) -> Step:
        """Mean, covariance and cross-covariance after ``dt``, by Gaussian closure.

        As many sub-steps as the reaction at the mean is fast; time itself plays no part.
        """
        closure, n_steps = self.closure, int(substeps(self.closure, mean, dt).max())
        found, tape = advance(closure, mean[None], covariance[None], dt, n_steps, cross=True)

        def back(
            by_mean: Array, by_covariance: Array, by_cross: Array
        ) -> tuple[Array, Array, dict[str, Array]]:
            symmetric = 0.5 * (by_covariance + by_covariance.T)
            own = pull_back(closure, tape, Moments(by_mean[None], symmetric[None], by_cross[None]))
            numbers = {name: getattr(own, name)[0] for name in self.parameters}
            return own.mean[0], own.covariance[0], numbers

        cross = np.zeros_like(covariance) if found.cross is None else found.cross[0]
        return Step(found.mean[0], found.covariance[0], cross, back)

    def sample(
        self,
        state: Array,
        t: float,
        dt: float,
        generator: np.random.Generator,
        n_steps: int | None = None,
    ) -> Array:
        """A draw of the state after ``dt`` from states (..., N), by Strang steps.

        As many as the reaction is fast at the fastest of the states, or ``n_steps``.
        """
        if n_steps is None:
            flat = np.reshape(state, (-1, self.n_modes))
            most = int(substeps(self.closure, flat, dt).max())
            n_steps = max(FEWEST_STRANG, STRANG_PER_SUBSTEP * most)
        decay, variance = self.half_step(dt / n_steps)
        noise = np.sqrt(variance) * generator.standard_normal((2 * n_steps, *np.shape(state)))
        with np.errstate(over="ignore", invalid="ignore"):  # a state that ran away is not finite
            return self.strang(state, dt, noise, decay)

    def half_step(self, h: float) -> tuple[Array, Array]:
        """``e^(-lambda h / 2)`` and the variance of the noise over ``h / 2``; (N,) each."""
        found = transition(self.rates, self.noise, np.array([h / 2]))
        return found.factor[0], found.covariance[0]

    def strang(self, state: Array, dt: float, noise: Array, decay: Array) -> Array:
        """State after ``dt``: half a linear step, the reaction by RK4, half a linear step.

        Strong order 1, weak order 2. ``noise`` (2 n, ..., N) holds the noise of half steps.
        """
        h = 2.0 * dt / len(noise)
        for k in range(0, len(noise), 2):
            state = self.react(decay * state + noise[k], h)
            state = decay * state + noise[k + 1]
        return state

    def react(self, state: Array, h: float) -> Array:
        """``c' = F(c)`` over h by the classical Runge-Kutta method."""
        f = functools.partial(self.reaction.drift, self.closure.total)
        k1 = f(state)
        k2 = f(state + 0.5 * h * k1)
        k3 = f(state + 0.5 * h * k2)
        k4 = f(state + h * k3)
        return state + (h / 6.0) * (k1 + 2.0 * (k2 + k3) + k4)

    def leading(self, n: int) -> Reacting:
        """The first modes; what later ones do to them is cut."""
        return dataclasses.replace(self, rates=self.rates[:n], noise=self.noise[:n])

    def to_dict(self) -> dict[str, Any]:
        """Arrays of numbers, names of the terms, and the domain by its own description."""
        tables = {k: v for k, v in self.domain.settings().items() if isinstance(v, np.ndarray)}
        return {
            "domain": self.domain.to_dict() | tables,
            "terms": list(self.terms),
            **{key: getattr(self, key) for key in ("coefficients", "rates", "noise")},
        }

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> Reacting:
        """Inverse of `to_dict`."""
        d = description
        coefficients, rates, noise = (
            np.asarray(d[key], float) for key in ("coefficients", "rates", "noise")
        )
        names = tuple(map(str, d["terms"]))
        if coefficients.shape != (len(names),) or rates.shape != noise.shape or rates.ndim != 1:
            expected = "a coefficient per term, a rate and a noise per mode"
            got = f"{len(names)} terms, shapes {coefficients.shape}, {rates.shape}, {noise.shape}"
            fix = "write it with to_dict()"
            raise EquationError("dynamics", expected=expected, got=got, fix=fix)
        return cls(domain_from_dict(d["domain"]), names, coefficients, rates, noise)


def substeps(closure: Closure, states: Array, dt: Array | float) -> Array:
    """Sub-steps of each state, (B,): as few as let no point change too much in one."""
    change = reaction_rate(closure, states) * dt / LARGEST_CHANGE
    return np.ceil(np.clip(change, 1.0, MOST_SUBSTEPS)).astype(int)


def reaction_rate(closure: Closure, states: Array) -> Array:
    """Largest ``|df/du|`` over the points of each state; (B,).

    A derivative counts with the typical wavenumber of the states.
    """
    r, states = closure.reaction, np.atleast_2d(states)
    at = r.at_points(states)
    if not at:
        return np.zeros(len(states))
    means = Means(at, {})
    size = np.sqrt((states**2).sum(1).mean() / r.volume)
    rate = np.zeros((len(states), next(iter(at.values())).shape[1]))
    for j, values in at.items():
        wavenumber = np.sqrt((values**2).mean()) / max(size, TINY) if j else 1.0
        rate += wavenumber * np.abs(means.of(closure.first[j]))
    return rate.max(1)

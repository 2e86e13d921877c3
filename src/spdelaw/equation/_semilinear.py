"""Semilinear SPDEs with additive noise: a linear equation plus a polynomial of the field."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.equation._closure import Closure, Moments, Tape, advance
from spdelaw.equation._closure_gradient import Pulled, pull_back
from spdelaw.equation._polynomial import Means
from spdelaw.equation._spde import SpectralSPDE
from spdelaw.equation._terms import Reaction, bind, check_names
from spdelaw.errors import EquationError

Array = np.ndarray

#: A sub-step of the closure may change the field by the reaction by this share.
LARGEST_CHANGE = 0.6
#: Most sub-steps that are chosen.
MOST_SUBSTEPS = 64
#: Stands for zero where one divides by the size of a field.
TINY = 1e-300


class Step(NamedTuple):
    """Moments of the next state, and where their gradients go."""

    mean: Array
    covariance: Array
    cross: Array | None
    closure: Closure
    tape: Tape

    def pull_back(self, mean: Array, covariance: Array, cross: Array | None = None) -> Pulled:
        """Gradients by the state before and the parameters from those by these moments."""
        return pull_back(self.closure, self.tape, Moments(mean, covariance, cross))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Semilinear:
    """``dX = (A X + sum_t theta_t g_t(X)) dt + dW`` on the modes of a domain.

    Args:
        linear: the linear part, its noise and its initial state; modes not coupled.
        terms: coefficient ``theta_t`` by the name of each term: "1", "u", "u^2", "u^3", "u u_x",
            "u_x^2", "|grad u|^2", or a polynomial of your own such as "u - u^3".

    Products are exact on the modes that are kept (dealiased); derivatives need an `Interval` or a
    `Box`, polynomials of u any domain.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> heat = sl.SpectralSPDE(
        ...     sl.Interval(0, 2 * np.pi, "periodic"),
        ...     5,
        ...     sl.OperatorFormula(nu=0.05),
        ...     noise=sl.White(0.01),
        ... )
        >>> equation = sl.Semilinear(heat, {"u": 1.0, "u^3": -1.0})
        >>> equation.parameters["coefficient"]
        array([ 1., -1.])
    """

    linear: SpectralSPDE
    terms: Mapping[str, float]
    reaction: Reaction = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Check the parts and bind the terms to the domain."""
        if not isinstance(self.linear, SpectralSPDE):
            raise EquationError(
                "linear", expected="a SpectralSPDE", got=type(self.linear).__name__,
                fix="pass sl.catalogue.heat()",
            )  # fmt: skip
        extra = self.linear.is_coupled or self.linear.forcing or self.linear.season
        if extra:
            raise EquationError(
                "linear", expected="modes that are not coupled, without forcing or season",
                got="a linear part with one of them", fix="leave it out of the linear part",
            )  # fmt: skip
        names, values = _checked(self.terms)
        object.__setattr__(self, "terms", dict(zip(names, values, strict=True)))
        object.__setattr__(self, "reaction", bind(names, self.domain, self.n_modes))

    # -- what it shares with its linear part --------------------------------------------

    @property
    def domain(self) -> AbstractDomain:
        """Where the field lives."""
        return self.linear.domain

    @property
    def n_modes(self) -> int:
        """Number of modes."""
        return int(self.linear.n_modes)

    @property
    def times(self) -> Array:
        """Observation times used where none are given."""
        return self.linear.times

    @property
    def label(self) -> str:
        """A name for people."""
        return self.linear.label

    def default_grid(self) -> Array:
        """The domain's regular grid."""
        return self.linear.default_grid()

    # -- dynamics -----------------------------------------------------------------------

    @property
    def parameters(self) -> dict[str, Array]:
        """``lambda`` and ``q`` of each mode and ``theta`` of each term, by name."""
        return {
            "eigenvalue": self.linear.eigenvalues,
            "noise_variance": self.linear.noise_variance,
            "coefficient": np.array(list(self.terms.values())),
        }

    @functools.cached_property
    def closure(self) -> Closure:
        """The same as numbers that move Gaussians."""
        p = self.parameters
        return Closure(self.reaction, p["coefficient"], p["eigenvalue"], p["noise_variance"])

    def drift(self, state: Array) -> Array:
        """``-lambda c + F(c)``; (..., n_modes)."""
        reaction = self.reaction.drift(self.closure.total, state)
        return reaction - self.linear.eigenvalues * state

    def moments(
        self, mean: Array, covariance: Array | None, t: float, dt: float, n_steps: int | None = None
    ) -> Step:
        """Mean, covariance and cross-covariance after ``dt``, by Gaussian closure.

        Args:
            mean: (B, n_modes).
            covariance: (B, n_modes, n_modes), or None for a state that is known.
            t: time of the state; the equation does not depend on it.
            dt: length of the step.
            n_steps: sub-steps; by default as many as the reaction is fast.
        """
        n = int(substeps(self.closure, mean, dt).max()) if n_steps is None else n_steps
        found, tape = advance(self.closure, mean, covariance, dt, n, cross=covariance is not None)
        return Step(*found, self.closure, tape)

    def sample(
        self, state: Array, t: float, dt: float, generator: np.random.Generator, n_steps: int = 8
    ) -> Array:
        """One draw of the next state for each row of ``state`` (B, n_modes), by Strang steps."""
        shape = (2 * n_steps, *np.shape(state))
        decay, variance = self.half_step(dt / n_steps)
        noise = np.sqrt(variance) * generator.standard_normal(shape)
        return self.strang(state, dt, noise, decay)

    def half_step(self, h: float) -> tuple[Array, Array]:
        """``e^(-lambda h / 2)`` and the variance of the noise over ``h / 2``; (n_modes,) each."""
        found = self.linear.dynamics.over(np.array([h / 2]))
        return found.factor[0], found.covariance[0]

    def strang(self, state: Array, dt: float, noise: Array, decay: Array) -> Array:
        """State after ``dt``: half a linear step, the reaction by RK4, half a linear step.

        Strong order 1, weak order 2. ``noise`` (2 n, ..., n_modes) holds the noise of half steps.
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

    # -- files and people -----------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain description (JSON types only) that `from_dict` turns back into an equal one."""
        return {"kind": "semilinear", "linear": self.linear.to_dict(), "terms": dict(self.terms)}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Semilinear:
        """Equation from the plain description of `to_dict`."""
        try:
            return cls(SpectralSPDE.from_dict(description["linear"]), description["terms"])
        except (KeyError, TypeError) as error:
            raise EquationError(
                "equation", expected="the plain description of Semilinear.to_dict()",
                got=f"{type(error).__name__}: {error}", fix="write it with to_dict()",
            ) from error  # fmt: skip

    def __eq__(self, other: object) -> bool:
        """Equal when they describe the same law on the same default times."""
        return isinstance(other, Semilinear) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        """Hash of what equality compares first."""
        return hash((self.linear, tuple(self.terms.items())))

    def __repr__(self) -> str:
        """The linear part, then the terms."""
        shown = " ".join(f"{value:+.4g} {name}" for name, value in self.terms.items())
        text = repr(self.linear).replace("SpectralSPDE", "Semilinear", 1)
        return text.replace("dX = A X dt", "dX = (A X + f(X)) dt", 1) + f"\n  f(u)    {shown}"


def _checked(terms: Any) -> tuple[tuple[str, ...], list[float]]:
    if not isinstance(terms, Mapping):
        raise EquationError(
            "terms", expected="a coefficient for each term", got=type(terms).__name__,
            fix="pass terms={'u': 1.0, 'u^3': -1.0}",
        )  # fmt: skip
    try:
        values = [float(value) for value in terms.values()]
    except (TypeError, ValueError) as error:
        raise EquationError(
            "terms", expected="numbers", got=str(dict(terms)), fix="pass terms={'u': 1.0}"
        ) from error
    if not np.isfinite(values).all():
        raise EquationError(
            "terms", expected="finite numbers", got=str(dict(terms)), fix="pass terms={'u': 1.0}"
        )
    return check_names(list(terms)), values


def substeps(closure: Closure, states: Array, dt: Array | float) -> Array:
    """Sub-steps of each state, (B,): powers of 2 for which no point changes too much."""
    change = reaction_rate(closure, states) * dt / LARGEST_CHANGE
    return 2 ** np.ceil(np.log2(np.clip(change, 1.0, MOST_SUBSTEPS))).astype(int)


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
    rate = np.zeros((len(states), len(r.analysis)))
    for j, values in at.items():
        wavenumber = np.sqrt((values**2).mean()) / max(size, TINY) if j else 1.0
        rate += wavenumber * np.abs(means.of(closure.first[j]))
    return rate.max(1)

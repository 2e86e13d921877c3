"""Semilinear SPDEs with additive or state-dependent noise, and the dynamics of their modes."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from spdelaw.checks import checked, numbers, one_of, shown
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.fields import Fields
from spdelaw.domains.registry import from_dict as domain_from_dict
from spdelaw.errors import EquationError
from spdelaw.processes.closure import Closure, Moments, advance, pull_back
from spdelaw.processes.linear import Dynamics, Step, step_by_groups, transition
from spdelaw.processes.operators import decay_mean
from spdelaw.processes.spde import SpectralSPDE, in_html
from spdelaw.processes.state_noise import STATE_NOISES, AbstractStateNoise, bind_state_noise
from spdelaw.processes.terms import Means, Reaction, bound, check_names, flat_terms

# ---------- Semilinear dynamics of the modes, by Gaussian closure or by Strang steps


Array = np.ndarray

#: A sub-step of the closure may change the field by the reaction by this share.
LARGEST_CHANGE = 0.6
#: Most sub-steps that are chosen.
MOST_SUBSTEPS = 64
#: A draw takes at least so many Strang steps, and so many for each sub-step of the closure.
FEWEST_STRANG, STRANG_PER_SUBSTEP = 8, 4
#: Names of the rates, the noise, the coefficients and the constant part of affine noise, in the
#: order of `Pulled`, and the fields of `Reacting` that hold them.
PARAMETERS = ("eigenvalue", "noise_variance", "coefficient", "noise_offset")
NUMBERS = ("rates", "noise", "coefficients", "noise_offset")
#: Stands for zero where one divides by the size of a field.
TINY = 1e-300


@dataclasses.dataclass(frozen=True, eq=False)
class Reacting(Dynamics):
    """``dc = (-lambda c + F(c)) dt + B(c) dW``, ``F_n(c) = sum_t theta_t <g_t(u), h_n>``.

    The equation is in the sense of Ito.

    Args:
        domain: where the modes live.
        terms: names of the ``g_t``, as `Semilinear` has them.
        coefficients: ``theta``, (n_terms,).
        rates: ``lambda``, (N,); may be negative, where the reaction pulls back.
        noise: ``q``, (N,), with ``Cov dW = q dt``.
        n_steps: sub-steps of the closure; by default as many as the reaction at each mean is fast.
        state_noise: "none" (additive), "proportional" (``X dW``), "affine" (``(gamma + X) dW``),
            "square_root" (``sqrt(X) dW``), or operators ``B_l``, (L, N, N), with noise (L,).
        noise_offset: ``gamma`` of affine noise.
    """

    domain: AbstractDomain
    terms: tuple[str, ...]
    coefficients: Array
    rates: Array
    noise: Array
    n_steps: int | None = None
    state_noise: str | Array = "none"
    noise_offset: float = 0.0
    reaction: Reaction = dataclasses.field(init=False, repr=False)
    amplitude: AbstractStateNoise | None = dataclasses.field(init=False, repr=False)
    name: ClassVar[str] = "semilinear"
    positive: ClassVar[tuple[str, ...]] = ("noise_variance",)
    moves_steps_together: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Bind the terms and the noise to the modes."""
        object.__setattr__(self, "reaction", bound(self.terms, self.domain, self.n_modes))
        amplitude = bind_state_noise(self.state_noise, self.domain, self.n_modes)
        object.__setattr__(self, "amplitude", amplitude)

    @property
    def n_modes(self) -> int:
        """Number of modes N."""
        return len(self.rates)

    @property
    def is_nonlinear(self) -> bool:
        """Whether a term has a product of the field with itself."""
        return any(sum(powers) > 1 for g in self.reaction.polynomials for powers in g)

    @property
    def parameters(self) -> dict[str, Array]:
        """``lambda`` and ``q`` of each mode, ``theta`` of each term and ``gamma``, by name."""
        numbers = (getattr(self, name) for name in NUMBERS)
        out = dict(zip(PARAMETERS, numbers, strict=True))
        if self.state_noise_kind != "affine":
            del out["noise_offset"]
        if self.amplitude is not None and not self.terms:
            del out["coefficient"]
        return out

    @property
    def state_noise_kind(self) -> str:
        """The word for the noise, "operators" for operators of the user's own."""
        return self.state_noise if isinstance(self.state_noise, str) else "operators"

    @property
    def noise_operators(self) -> tuple[Array, Array, Array]:
        """``B_l`` (L, N, N), ``gamma b_l`` (L, N) and ``q_l`` (L,) of noise linear in the state.

        The noise is ``sum_l sqrt(q_l) (B_l c + gamma b_l) dw_l``; additive noise has ``B_l = 0``.
        """
        if self.amplitude is None:
            n = self.n_modes
            return np.zeros((n, n, n)), np.eye(n), self.noise
        constants = self.noise_offset * self.amplitude.constants
        return self.amplitude.operators, constants, self.noise

    def with_parameters(self, values: Mapping[str, Array]) -> Reacting:
        """The same with other numbers, by name; the terms stay bound to the modes."""
        out = copy.copy(self)
        out.__dict__.pop("closure", None)
        for field, name in zip(NUMBERS, PARAMETERS, strict=True):
            if name in values:
                object.__setattr__(out, field, values[name])
        return out

    @functools.cached_property
    def closure(self) -> Closure:
        """The same as numbers that move Gaussians."""
        offset = float(self.noise_offset)
        noise = self.noise, self.amplitude, offset
        return Closure(self.reaction, self.coefficients, self.rates, *noise)

    def drift(self, state: Array) -> Array:
        """``-lambda c + F(c)``; (..., N)."""
        return self.reaction.drift(self.closure.total, state) - self.rates * state

    def moments(self, mean: Array, covariance: Array, t: float, dt: Array | float) -> Step:
        """Mean, covariance and cross-covariance after ``dt``, exact or by Gaussian closure.

        ``dt`` may be one for each of many states, (P,); time itself plays no part.
        """
        means, spreads = mean.reshape(-1, self.n_modes), covariance.reshape(-1, *[self.n_modes] * 2)
        each, which = np.broadcast_to(dt, len(means)), np.zeros(len(means), int)
        n_steps, is_exact = [self.n_steps], np.ndim(dt) == 0 and self.closure.lift is not None
        if self.n_steps is None and not is_exact:
            pairs = zip(means, each, strict=True)
            counts = [int(substeps(self.closure, state, h).max()) for state, h in pairs]
            n_steps, which = np.unique(counts, return_inverse=True)  # type: ignore[assignment]

        def group(k: int, m: Array, p: Array) -> Step:
            own = dt if np.ndim(dt) == 0 else each[which == k]
            return closure_step(self.closure, m, p, own, int(n_steps[k] or 1))

        step = step_by_groups(which, means, spreads, group)
        if mean.ndim == 2:
            return step

        def back(*by: Array) -> tuple[Array, Array, dict[str, Array]]:
            by_states = (by[0].reshape(means.shape), *(x.reshape(spreads.shape) for x in by[1:]))
            by_mean, by_covariance, numbers = step.pull_back(*by_states)  # type: ignore[misc]
            lead = mean.shape[:-1]
            by_number = {name: x.reshape((*lead, *x.shape[1:])) for name, x in numbers.items()}
            return by_mean.reshape(mean.shape), by_covariance.reshape(covariance.shape), by_number

        spread, cross = (x.reshape(covariance.shape) for x in step[1:3])
        return Step(step.mean.reshape(mean.shape), spread, cross, back)

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
        if self.amplitude is not None:
            shape = (n_steps, *np.shape(state)[:-1], self.amplitude.n_drivers)
            with np.errstate(over="ignore", invalid="ignore"):
                return self.multiplied(state, dt, generator.standard_normal(shape))
        decay, variance = self.half_step(dt / n_steps)
        noise = np.sqrt(variance) * generator.standard_normal((2 * n_steps, *np.shape(state)))
        with np.errstate(over="ignore", invalid="ignore"):  # a state that ran away is not finite
            return self.strang(state, dt, noise, decay)

    def half_step(self, h: float) -> tuple[Array, Array]:
        """``e^(-lambda h / 2)`` and the variance of the noise over ``h / 2``; (N,) each."""
        half = transition(self.rates, self.noise, np.array([h / 2]))
        return half.factor[0], half.covariance[0]

    def strang(self, state: Array, dt: float, noise: Array, decay: Array) -> Array:
        """State after ``dt``: half a linear step, the reaction by RK4, half a linear step.

        Strong order 1, weak order 2. ``noise`` (2 n, ..., N) holds the noise of half steps.
        """
        h = 2.0 * dt / len(noise)
        for k in range(0, len(noise), 2):
            state = self.react(decay * state + noise[k], h)
            state = decay * state + noise[k + 1]
        return state

    def multiplied(self, state: Array, dt: float, normals: Array) -> Array:
        """State after ``dt`` under noise that depends on it, by symmetric splitting.

        Half the reaction, half a linear step, the noise, half a linear step, half the reaction:
        strong order 1 and weak order 2 (square root: 1/2 and 1). In each mode the noise has the
        deviation that it would have at a constant rate, ``((1 - e^(-2 z)) / (2 z))^(1/2)`` with
        ``z = lambda h``. ``normals`` (n, ..., n_drivers) are those of the n sub-steps.
        """
        h = dt / len(normals)
        decay, size = np.exp(-0.5 * self.rates * h), np.sqrt(decay_mean(2.0 * self.rates * h))
        for z in normals:
            state = decay * self.react(state, 0.5 * h)
            noise = self.amplitude.draw(self.noise, self.noise_offset, state, z, h)  # type: ignore[union-attr]
            state = self.react(decay * state + size * noise, 0.5 * h)
        return state

    def react(self, state: Array, h: float) -> Array:
        """``c' = F(c)`` over h by the classical Runge-Kutta method."""
        if not self.terms:
            return state
        f = functools.partial(self.reaction.drift, self.closure.total)
        k1 = f(state)
        k2 = f(state + 0.5 * h * k1)
        k3 = f(state + 0.5 * h * k2)
        k4 = f(state + h * k3)
        return state + (h / 6.0) * (k1 + 2.0 * (k2 + k3) + k4)

    def leading(self, n: int) -> Reacting:
        """The first modes; what later ones do to them is cut."""
        noise, kind = self.noise[:n], self.state_noise
        if not isinstance(kind, str):
            noise, kind = self.noise, kind[:, :n, :n]
        return dataclasses.replace(self, rates=self.rates[:n], noise=noise, state_noise=kind)

    def to_dict(self) -> dict[str, Any]:
        """Arrays of numbers, names of the terms, and the domain by its own description."""
        tables = {k: v for k, v in self.domain.settings().items() if isinstance(v, np.ndarray)}
        return {
            "domain": self.domain.to_dict() | tables,
            "terms": list(self.terms),
            **{key: getattr(self, key) for key in ("coefficients", "rates", "noise")},
            "state_noise": self.state_noise,
            "noise_offset": float(self.noise_offset),
        }

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> Reacting:
        """Inverse of `to_dict`."""
        d = description
        coefficients, rates, noise = (
            np.asarray(d[key], float) for key in ("coefficients", "rates", "noise")
        )
        names, kind = tuple(map(str, d["terms"])), d.get("state_noise", "none")
        n_noises = len(rates) if isinstance(kind, str) else len(kind)
        if coefficients.shape != (len(names),) or noise.shape != (n_noises,) or rates.ndim != 1:
            expected = "a coefficient per term, a rate and a noise per mode"
            got = f"{len(names)} terms, shapes {coefficients.shape}, {rates.shape}, {noise.shape}"
            fix = "write it with to_dict()"
            raise EquationError("dynamics", expected=expected, got=got, fix=fix)
        more = {"state_noise": kind, "noise_offset": float(d.get("noise_offset", 0.0))}
        return cls(domain_from_dict(d["domain"]), names, coefficients, rates, noise, **more)


def closure_step(
    closure: Closure, mean: Array, covariance: Array, dt: Array | float, n_steps: int
) -> Step:
    """Step of states (P, N) by so many sub-steps of the Gaussian closure."""
    after, tape = advance(closure, mean, covariance, dt, n_steps, cross=True)

    def back(
        by_mean: Array, by_covariance: Array, by_cross: Array
    ) -> tuple[Array, Array, dict[str, Array]]:
        symmetric = 0.5 * (by_covariance + by_covariance.swapaxes(-1, -2))
        cross = by_cross if by_cross.any() else None  # a likelihood does not depend on it
        pulled = pull_back(closure, tape, Moments(by_mean, symmetric, cross))
        return pulled.mean, pulled.covariance, dict(zip(PARAMETERS, pulled[2:], strict=True))

    return Step(after.mean, after.covariance, np.asarray(after.cross), back)


def substeps(closure: Closure, states: Array, dt: Array | float) -> Array:
    """Sub-steps of each state, (B,): as few as let no point change too much in one."""
    noise = closure.state_noise
    speed = 0.0 if noise is None else noise.speed(closure.noise)
    change = np.maximum(reaction_rate(closure, states), speed) * dt / LARGEST_CHANGE
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


# ---------- Semilinear SPDEs: a linear equation plus a polynomial of the field, and its noise


@checked(EquationError)
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Semilinear:
    """``dX = (A X + sum_t theta_t g_t(X)) dt + B(X) dW`` on the modes of a domain.

    The noise is additive, ``B = 1``, or depends on the state, always in the sense of Ito; an
    equation in the sense of Stratonovich has the drift `ito_correction` in addition.

    Args:
        linear: the linear part, the noise W and the initial state; modes not coupled.
        terms: coefficient ``theta_t`` by the name of each term: "1", "u", "u^2", "u^3", "u u_x",
            "u_x^2", "|grad u|^2", or a polynomial of your own such as "u - u^3". Of several fields
            (`spdelaw.Fields`) by field, ``{"u": {"u": 1.0, "v": -1.0}, "v": {"u": 0.5}}``.
        state_noise: "none" (additive), "proportional" (``X dW``), "affine"
            (``(noise_offset + X) dW``), "square_root" (``sqrt(X) dW``, W white in space), or
            operators ``B_l``, (L, n_modes, n_modes), for ``sum_l sqrt(q_l) B_l X dw_l`` with the
            first L numbers of the noise.
        noise_offset: constant part of affine noise, in units of the field.

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
        >>> sl.Semilinear(heat, state_noise="proportional").dynamics.state_noise
        'proportional'
    """

    linear: SpectralSPDE
    terms: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    state_noise: str | Array = "none"
    noise_offset: float = 0.0
    dynamics: Reacting = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Check the parts and bind the terms to the domain."""
        if self.linear.is_coupled or self.linear.forcing or self.linear.season:
            expected = "modes that are not coupled, without forcing or season"
            got, fix = "a linear part with one of them", "leave it out of the linear part"
            raise EquationError("linear", expected=expected, got=got, fix=fix)
        terms = self.terms
        if isinstance(self.domain, Fields):
            terms = flat_terms(terms, self.domain.names)
        names, values = _checked(terms)
        object.__setattr__(self, "terms", dict(zip(names, values, strict=True)))
        rates, noise = self.linear.eigenvalues, self._checked_noise()
        more = {"state_noise": self.state_noise, "noise_offset": float(self.noise_offset)}
        dynamics = Reacting(self.domain, names, np.array(values), rates, noise, **more)  # type: ignore[arg-type]
        object.__setattr__(self, "dynamics", dynamics)

    def _checked_noise(self) -> Array:
        """Spectrum of W; of several operators as many numbers as there are operators."""
        q, kind = self.linear.noise_variance, self.state_noise
        if not isinstance(kind, str):
            kind = numbers(kind)
            object.__setattr__(self, "state_noise", kind)
            if len(np.atleast_1d(kind)) > len(q):
                expected, got = f"at most {len(q)} operators", str(len(kind))
                fix = "use more modes, whose noise drives them"
                raise EquationError("state_noise", expected=expected, got=got, fix=fix)
            return q[: len(np.atleast_1d(kind))]
        one_of("state_noise", kind, STATE_NOISES)
        if kind == "square_root" and np.ptp(q) > 0:
            expected = "noise that is white in space, whose rate is linear in the field"
            got = "a spectrum that is not: the covariance of sqrt(X) dW is then no moment of X"
            fix = "pass noise=sl.White(...)"
            raise EquationError("noise", expected=expected, got=got, fix=fix)
        if self.noise_offset and kind != "affine":
            expected, got = "0, except with state_noise='affine'", repr(self.noise_offset)
            fix = "pass state_noise='affine', or leave noise_offset out"
            raise EquationError("noise_offset", expected=expected, got=got, fix=fix)
        return q

    @property
    def ito_correction(self) -> tuple[Array, Array]:
        """Drift that makes the Ito equation one in the sense of Stratonovich.

        ``sum_l q_l B_l (B_l c + gamma b_l) / 2`` as a matrix (N, N) and a constant (N,); zero for
        additive noise.
        """
        d, n = self.dynamics, self.n_modes
        if d.amplitude is None:
            return np.zeros((n, n)), np.zeros(n)
        return d.amplitude.correction(d.noise, d.noise_offset)

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
        return self.dynamics.parameters

    @property
    def reaction(self) -> Reaction:
        """The terms on the modes."""
        return self.dynamics.reaction

    @property
    def closure(self) -> Closure:
        """The same as numbers that move Gaussians."""
        return self.dynamics.closure

    # -- files and people -----------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain description (JSON types only) that `from_dict` turns back into an equal one."""
        out: dict[str, Any] = {
            "kind": "semilinear",
            "linear": self.linear.to_dict(),
            "terms": dict(self.terms),
        }
        if self.dynamics.amplitude is not None:
            kind = self.state_noise
            out["state_noise"] = kind if isinstance(kind, str) else kind.tolist()
            out["noise_offset"] = float(self.noise_offset)
        return out

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Semilinear:
        """Equation from the plain description of `to_dict`."""
        try:
            more = {k: description[k] for k in ("state_noise", "noise_offset") if k in description}
            linear = SpectralSPDE.from_dict(description["linear"])
            return cls(linear, description["terms"], **more)
        except (KeyError, TypeError) as error:
            expected = "the plain description of Semilinear.to_dict()"
            got, fix = f"{type(error).__name__}: {error}", "write it with to_dict()"
            raise EquationError("equation", expected=expected, got=got, fix=fix) from error

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
        if self.terms:
            text = text.replace("dX = A X dt", "dX = (A X + f(X)) dt", 1) + f"\n  f(u)    {shown}"
        if self.dynamics.amplitude is not None:
            text = text.replace("+ dW", f"+ {self._noise_text()} (Ito)", 1)
        return text

    def _noise_text(self) -> str:
        offset = f"({self.noise_offset:.4g} + X) dW"
        words = {"proportional": "X dW", "affine": offset, "square_root": "sqrt(X) dW"}
        return words.get(self.dynamics.state_noise_kind, f"{len(self.state_noise)} operators on X")

    def _repr_html_(self) -> str:
        """The same with a table, for notebooks."""
        return in_html(self.linear, repr(self))


def _checked(terms: Any) -> tuple[tuple[str, ...], list[float]]:
    if not isinstance(terms, Mapping):
        expected, fix = "a coefficient for each term", "pass terms={'u': 1.0, 'u^3': -1.0}"
        raise EquationError("terms", expected=expected, got=type(terms).__name__, fix=fix)
    values = numbers(list(terms.values()))
    if values.shape != (len(terms),) or not np.isfinite(values).all():
        got, fix = shown(dict(terms)), "pass terms={'u': 1.0}"
        raise EquationError("terms", expected="finite numbers", got=got, fix=fix)
    return check_names(list(terms)), values.tolist()

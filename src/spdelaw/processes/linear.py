"""Dynamics of a state over a step, and the linear ones: Ornstein-Uhlenbeck modes."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from spdelaw.errors import EquationError
from spdelaw.processes import operators
from spdelaw.processes.forcing import Forcing, Season
from spdelaw.processes.operators import decay_mean, decay_mean_slope

# ---------- Interface of all dynamics: moments and draws of a state over a step


Array = np.ndarray
#: From gradients by the next mean, its covariance and the cross-covariance to those by the mean and
#: the covariance before, and by each parameter.
PullBack = Callable[[Array, Array, Array], tuple[Array, Array, dict[str, Array]]]


class Step(NamedTuple):
    """Gaussian moments after a step, of one state or of many (leading axes).

    Attributes:
        mean: ``E c(t + dt)``, (..., N).
        covariance: ``Cov c(t + dt)``, (..., N, N).
        cross: ``Cov(c(t), c(t + dt))``, (..., N, N), which a smoother needs.
        pull_back: gradients back to what the step started from; None where there is no formula.
    """

    mean: Array
    covariance: Array
    cross: Array
    pull_back: PullBack | None = None


def step_by_groups(
    which: Array, mean: Array, covariance: Array, moments: Callable[[int, Array, Array], Step]
) -> Step:
    """Step of many states whose groups move differently.

    Args:
        which: group of each state, 0, 1, ...; (P,).
        mean: (P, N).
        covariance: (P, N, N).
        moments: step of the states of a group, by its number.
    """
    groups = [np.flatnonzero(which == k) for k in range(int(which.max()) + 1)]
    if len(groups) == 1:
        return moments(0, mean, covariance)
    steps = [moments(k, mean[rows], covariance[rows]) for k, rows in enumerate(groups)]

    def join(parts: Sequence[Array]) -> Array:
        out = np.empty((len(which), *parts[0].shape[1:]))
        for rows, part in zip(groups, parts, strict=True):
            out[rows] = part
        return out

    def pull_back(*by: Array) -> tuple[Array, Array, dict[str, Array]]:
        pulled = [
            step.pull_back(*(gradient[rows] for gradient in by))  # type: ignore[misc]
            for rows, step in zip(groups, steps, strict=True)
        ]
        by_mean, by_covariance, numbers = zip(*pulled, strict=True)
        by_number = {name: join([n[name] for n in numbers]) for name in numbers[0]}
        return join(by_mean), join(by_covariance), by_number

    after, spread, cross = map(join, zip(*(step[:3] for step in steps), strict=True))
    is_smooth = all(step.pull_back is not None for step in steps)
    return Step(after, spread, cross, pull_back if is_smooth else None)


class Dynamics(abc.ABC):
    """Law of the coefficients in time.

    A subclass with a ``name`` of its own can be read back from a document by `dynamics_from_dict`.
    One that is a dataclass can be fitted by `spdelaw.fit`: its ``parameters`` are fields, estimated
    from the numbers it has, those in ``positive`` as logarithms.

    Attributes:
        name: in files.
        positive: names of the parameters that are positive.
        moves_steps_together: whether ``moments`` takes one ``dt`` for each of many states, (P,).
    """

    name: ClassVar[str]
    positive: ClassVar[tuple[str, ...]] = ()
    moves_steps_together: ClassVar[bool] = False
    registry: ClassVar[dict[str, type[Dynamics]]] = {}

    def __init_subclass__(cls, **settings: Any) -> None:
        """Enter the registry."""
        super().__init_subclass__(**settings)
        if "name" in cls.__dict__:
            Dynamics.registry[cls.name] = cls

    @property
    @abc.abstractmethod
    def n_modes(self) -> int:
        """Number of modes N."""

    @property
    @abc.abstractmethod
    def parameters(self) -> dict[str, Array]:
        """Numbers by name."""

    @abc.abstractmethod
    def moments(self, mean: Array, covariance: Array, t: float, dt: float) -> Step:
        """Mean and covariance after a step from N(mean, covariance).

        Of one state, (N,) and (N, N), or of many at once, (..., N) and (..., N, N).
        """

    @abc.abstractmethod
    def sample(self, state: Array, t: float, dt: float, generator: np.random.Generator) -> Array:
        """A draw of the state after a step, from states (..., N)."""

    def response(self, times: Array) -> Array:
        """Mean that a known forcing adds to the state, zero without one; (*times.shape, N)."""
        return np.zeros((*np.shape(times), self.n_modes))

    def leading(self, n: int) -> Dynamics:
        """Law of the first ``n`` modes alone, where there is one."""
        if n == self.n_modes:
            return self
        expected, got = f"all {self.n_modes} modes", f"the first {n} of dynamics {self.name!r}"
        fix = f"define {type(self).__name__}.leading(n)"
        raise EquationError("n_modes", expected=expected, got=got, fix=fix)

    def with_parameters(self, values: Mapping[str, Array]) -> Dynamics:
        """The same with other numbers, by name; of a dataclass, other fields."""
        return dataclasses.replace(self, **values)  # type: ignore[type-var]

    def to_dict(self) -> dict[str, Any]:
        """Numbers, text and arrays by name, which `from_dict` turns back; fields of a dataclass."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {field.name: getattr(self, field.name) for field in fields if field.init}

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> Dynamics:
        """Inverse of `to_dict`."""
        return cls(**description)


def dynamics_from_dict(name: str, description: dict[str, Any]) -> Dynamics:
    """Dynamics registered under a name, from the result of its ``to_dict``."""
    if name not in Dynamics.registry:
        expected, fix = f"one of {sorted(Dynamics.registry)}", "import the package that defines it"
        raise EquationError("dynamics", expected=expected, got=repr(name), fix=fix)
    return Dynamics.registry[name].from_dict(description)


# ---------- Exact transitions of ``dc = -Lambda c dt + dW``, ``Cov dW = w(t) Q dt``
#
# Over a step from ``t`` to ``t + dt`` the state is Gaussian,
#
#     c(t + dt) = F c(t) + N(0, Omega),   F = e^(-Lambda dt),
#     Omega = int_0^dt w(t + dt - s) e^(-Lambda s) Q e^(-Lambda' s) ds.
#
# Diagonal operators have closed forms. For matrices both are power series in a step h = dt / 2^k so
# short that a dozen terms reach rounding, and are then doubled k times (Van Loan 1978, section
# III):
#
#     F_2h = F_h F_h,    Omega_2h = Omega_h + F_h Omega_h F_h'.
#
# The usual block exponential of ``[[Lambda, Q], [0, -Lambda']]`` is the same integral, but holds
# ``e^(+Lambda dt)``, which overflows for modes much faster than a step. Sums of positive
# semidefinite terms do not. A step through several parts of a season is a chain of such steps.
#
# Steps of equal length, and of equal phase where the noise has seasons, share one transition.


#: Gradient by drift and noise, in the shape of each, and by the weights of the season.
Pull = tuple[Array, Array, Array]

#: Steps that differ by less than this share of the longest are the same: times carry rounding.
SAME_STEP = 1e-12
#: Norm of ``Lambda h`` below which `SERIES_TERMS` terms of both series reach rounding.
SERIES_NORM, SERIES_TERMS = 0.25, 14


class Transition(NamedTuple):
    """Transitions of U steps.

    Attributes:
        factor: ``F``, (U, N) or (U, N, N).
        covariance: ``Omega``, likewise.
        pull_back: gradient by the operators from those by ``F`` and ``Omega``, symmetric.
    """

    factor: Array
    covariance: Array
    pull_back: Callable[[Array, Array], Pull]


def distinct_steps(dt: Array) -> tuple[Array, Array]:
    """Lengths that occur (U,), and which of them each step has, in the shape of ``dt``."""
    flat = np.ravel(dt)
    order = np.argsort(flat, kind="stable")
    is_new = np.diff(flat[order], prepend=-np.inf) > SAME_STEP * flat.max(initial=0.0)
    which = np.empty(len(flat), int)
    which[order] = np.cumsum(is_new) - 1
    return flat[order][is_new], which.reshape(np.shape(dt))


def distinct_spans(times: Array, season: Season | None) -> tuple[Array, Array, Array]:
    """Starts and lengths (U,) of the steps between ``times`` (T, ...), and which each step has.

    Without seasons only the length of a step counts.
    """
    start, dt = times[:-1], np.diff(times, axis=0)
    lengths, which = distinct_steps(dt)
    if season is None:
        return np.zeros(len(lengths)), lengths, which
    phases, phase = distinct_steps(season.phase(start))
    both, index = np.unique(phase.ravel() * len(lengths) + which.ravel(), return_inverse=True)
    return phases[both // len(lengths)], lengths[both % len(lengths)], index.reshape(dt.shape)


def transition(
    drift: Array, noise: Array, dt: Array, start: Array | None = None, season: Season | None = None
) -> Transition:
    """Transitions for steps of lengths ``dt`` (U,) that begin at ``start`` (U,)."""
    begin = np.zeros(len(dt)) if start is None else np.asarray(start, float)
    dt = np.asarray(dt, float)
    if drift.ndim == noise.ndim == 1:
        return _diagonal_transition(drift, noise, dt, begin, season)
    if season is None:
        return _steady_transition(drift, noise, dt)
    return _seasonal_transition(drift, noise, dt, begin, season)


def _diagonal_transition(
    drift: Array, noise: Array, dt: Array, start: Array, season: Season | None
) -> Transition:
    """``a = e^(-lambda dt)`` and ``omega = q g``, one per mode; (U, N) each."""
    dt, start = dt[:, None], start[:, None]
    x = drift * dt
    factor = np.exp(-x)
    if season is None:
        g, slope = dt * decay_mean(2.0 * x), 2.0 * dt**2 * decay_mean_slope(2.0 * x)
    else:
        tiny = 1e-200  # a complex step: the slope is exact to rounding
        exposures = season.exposures(2.0 * (drift + 1j * tiny), start, start + dt)
        shares = exposures.real  # of the parts of the season in g, (U, N, K)
        g, slope = shares @ season.weights, exposures.imag @ season.weights / tiny

    def pull_back(by_factor: Array, by_covariance: Array) -> Pull:
        by_g = by_covariance * noise
        by_drift = (by_g * slope - by_factor * dt * factor).sum(0)
        by_season = np.zeros(1) if season is None else np.tensordot(by_g, shares, 2)
        return by_drift, (by_covariance * g).sum(0), by_season

    return Transition(factor, noise * g, pull_back)


# -- modes that drift or noise couple -------------------------------------------------------------
def _steady_transition(drift: Array, noise: Array, dt: Array) -> Transition:
    """Steps of constant noise, by series and doublings; (U, N, N) each."""
    a, q = -operators.as_matrix(drift), operators.as_matrix(noise)
    longest = float(np.abs(a).sum(0).max()) * float(np.max(dt, initial=0.0))
    if not np.isfinite(longest):
        raise FloatingPointError("a drift or a step that is not finite")
    doublings = max(0, math.ceil(math.log2(longest / SERIES_NORM))) if longest > 0 else 0
    h = dt[:, None] / 2.0**doublings
    powers, terms = _series_terms(a, q)
    order = h ** np.arange(SERIES_TERMS + 1)
    f = np.tensordot(order, powers, (1, 0))
    omega = np.tensordot(order * h, terms, (1, 0))
    levels = []
    for _ in range(doublings):
        levels.append((f, omega))
        omega = omega + f @ omega @ np.swapaxes(f, -1, -2)
        f = f @ f

    def pull_back(by_factor: Array, by_covariance: Array) -> Pull:
        gf, gw = by_factor, by_covariance
        for f, omega in reversed(levels):
            ft = np.swapaxes(f, -1, -2)
            gf, gw = gf @ ft + ft @ gf + 2.0 * gw @ f @ omega, gw + ft @ gw @ f
        by_power = np.tensordot(order, gf, (0, 0))
        by_term = np.tensordot(order * h, gw, (0, 0))
        by_a = np.zeros_like(a)
        for k in range(SERIES_TERMS - 1, -1, -1):
            up, down = by_power[k + 1] / (k + 1), by_term[k + 1] / (k + 2)
            by_a += up @ powers[k].T + 2.0 * down @ terms[k]
            by_power[k] += a.T @ up
            by_term[k] += a.T @ down + down @ a
        return operators.like(drift, -by_a), operators.like(noise, by_term[0]), np.zeros(1)

    return Transition(f, omega, pull_back)


def _series_terms(a: Array, q: Array) -> tuple[Array, Array]:
    """``A^k / k!`` and ``L^k Q / (k + 1)!`` with ``L X = A X + X A'``, k = 0, 1, ..."""
    powers, terms = np.empty((2, SERIES_TERMS + 1, *a.shape))
    powers[0], terms[0] = np.eye(len(a)), q
    for k in range(SERIES_TERMS):
        powers[k + 1] = a @ powers[k] / (k + 1)
        half = a @ terms[k]
        terms[k + 1] = (half + half.T) / (k + 2)
    return powers, terms


def _seasonal_transition(
    drift: Array, noise: Array, dt: Array, start: Array, season: Season
) -> Transition:
    """Steps through parts of a season, each a chain of steady ones; (U, N, N) each.

    ``Omega <- F_c Omega F_c' + w_c Omega_c`` and ``F <- F_c F`` for c = 1, 2, ... in time.
    """
    lengths, parts = season.cells(start, start + dt)
    used, which = np.unique(lengths, return_inverse=True)
    steady, n = _steady_transition(drift, noise, used), len(drift)
    f, omega = np.broadcast_to(np.eye(n), (len(dt), n, n)), np.zeros((len(dt), n, n))
    chain = []
    for at, cell_part in zip(which.reshape(lengths.shape), parts, strict=True):
        cell_factor, cell_covariance = steady.factor[at], steady.covariance[at]
        weight = season.weights[cell_part][:, None, None]
        chain.append((at, cell_part, cell_factor, cell_covariance, weight, f, omega))
        omega = cell_factor @ omega @ np.swapaxes(cell_factor, -1, -2) + weight * cell_covariance
        f = cell_factor @ f

    def pull_back(by_factor: Array, by_covariance: Array) -> Pull:
        gf, gw = by_factor, by_covariance
        by_f, by_omega = (np.zeros_like(steady.factor) for _ in range(2))
        by_season = np.zeros(season.n_parts)
        for at, cell_part, cell_factor, cell_covariance, weight, f, omega in reversed(chain):
            turned = np.swapaxes(cell_factor, -1, -2)
            np.add.at(by_f, at, gf @ np.swapaxes(f, -1, -2) + 2.0 * gw @ cell_factor @ omega)
            np.add.at(by_omega, at, weight * gw)
            np.add.at(by_season, cell_part, np.einsum("uij,uij->u", gw, cell_covariance))
            gf, gw = turned @ gf, turned @ gw @ cell_factor
        by_drift, by_noise, _ = steady.pull_back(by_f, by_omega)
        return by_drift, by_noise, by_season

    return Transition(f, omega, pull_back)


# ---------- Linear dynamics: Ornstein-Uhlenbeck modes, with optional forcing and seasons


def _of_states(x: Array, n_axes: int) -> Array:
    """Entries of all states, one after the other, each with its last axes."""
    return x.reshape(-1, *x.shape[x.ndim - n_axes :])


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
    def unforced(self) -> Linear:
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
            sym = 0.5 * (by_covariance + by_covariance.swapaxes(-1, -2))
            by_f = by_mean[..., :, None] * (mean - before)[..., None, :]
            by_f = by_f + 2.0 * sym @ f @ covariance + by_cross.swapaxes(-1, -2) @ covariance
            numbers = [
                self._pull_back_step(step, ends, f, *of_state)
                for of_state in zip(*map(_of_states, (by_mean, by_f, sym), (1, 2, 2)), strict=True)
            ]
            by_parameter = {
                name: np.reshape([n[name] for n in numbers], (*mean.shape[:-1], *np.shape(x)))
                for name, x in numbers[0].items()
            }
            return by_mean @ f, f.T @ sym @ f + by_cross @ f, by_parameter

        moved = (mean - before) @ f.T + after
        return Step(moved, f @ covariance @ f.T + omega, covariance @ f.T, pull_back)

    def _pull_back_step(
        self, step: Transition, ends: Array, f: Array, by_mean: Array, by_f: Array, sym: Array
    ) -> dict[str, Array]:
        """Gradients by the parameters from those by the moments of one state."""
        by_step = [operators.like(step.factor[0], x)[None] for x in (by_f, sym)]
        by_drift, by_noise, by_season = step.pull_back(*by_step)
        by_response = np.stack([-f.T @ by_mean, by_mean])
        by_drift = by_drift + self.response_pull_back(ends, by_response)
        every = {"drift": by_drift, "noise": by_noise, "season": by_season}
        every["mean"] = by_response.sum(0)
        return {name: every[name] for name in self.parameters}

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
        components = {"season": self.season, "forcing": self.forcing}
        return {
            "drift": self.drift,
            "noise": self.noise,
            "origin": float(self.origin),
            **({} if self.mean is None else {"mean": self.mean}),
            **{
                name: component.to_dict()
                for name, component in components.items()
                if component is not None
            },
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
        d["origin"] = float(d.get("origin", 0.0))
        return cls(np.asarray(d.pop("drift"), float), np.asarray(d.pop("noise"), float), **d)

"""Which numbers get the interval of their profile, and those intervals.

The interval of a standard error is right where the likelihood of the logarithm is a parabola as far
out as the ends. For an eigenvalue whose logarithm has the standard error s, r bends away from a
straight line by ``s z / 2`` of itself at the end: with ``s = 0.1`` 5.4 % of intervals miss instead
of 5, with ``s = 0.2`` 6.7 %, and slow modes, modes faster than a step and short records are far
beyond. Those numbers, and no others, are profiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.infer._estimate import Estimate, MeanEstimate
from spdelaw.infer._held import Held, Point, Target
from spdelaw.infer._joint_profile import joint_ends
from spdelaw.infer._mean_interval import mean_interval
from spdelaw.infer._optimise import SLOW, Counted, balanced
from spdelaw.infer._parametrisation import Parametrisation
from spdelaw.infer._profile import profile_end

Array = np.ndarray

#: Standard error of a logarithm from which on its interval is that of the profile.
WIDE = 0.1
#: Standard error of a logarithm that the data do not tell, as a unit for the search.
UNKNOWN = 3.0
#: Parts with one positive number per mode, and the names of these.
SPECTRA = {
    "drift": "eigenvalue",
    "noise": "noise_variance",
    "initial_variance": "initial_variance",
}
#: Where one evaluation takes long: seconds of all profiles, about, and evaluations that they may
#: take however long these are.
PROFILE_SECONDS, ENOUGH = 15.0, 300
#: Powers of numbers in which r is about a straight line: the information on a decay rate is
#: ``T / (2 lambda)``, and so is that on a stationary variance through it.
POWERS = {"eigenvalue": 0.5, "stationary_variance": -0.5}
#: What follows from drift and noise of a mode, ``q / (2 lambda)``.
STATIONARY = "stationary_variance"


class Number(NamedTuple):
    """A reported number: its name, its mode or None, and how it follows from a full vector."""

    name: str
    mode: int | None
    target: Target
    is_log: bool

    @property
    def label(self) -> str:
        """As in ``fixed``: ``eigenvalue[1]`` or ``nu``."""
        return self.name if self.mode is None else f"{self.name}[{self.mode + 1}]"


@np.errstate(all="ignore")  # far out a likelihood may overflow: such a point is no end
def likelihood_ends(
    found: Estimate, n_modes: int, level: float
) -> tuple[dict[str, Array], list[str], int]:
    """Ends of the intervals of all numbers that their standard errors say too little about.

    By name of a quantity, (2,) or (N, 2), NaN where the standard error serves; names of the numbers
    that have the interval of their profile; and how often the likelihood was computed for them.
    Where that would take long the last numbers are left to their standard errors.
    """
    z, ends, profiled = _normal(level), dict[str, Array](), list[str]()
    numbers, is_maximum = list(_numbers(found, n_modes)), found.optimum.converged
    wide = [number for number in numbers if is_maximum and _error(found, number) > WIDE]
    around = _Around.of(found, is_needed=bool(wide))
    known = around.ends_of_ties(wide, z)
    if at_bound := {label: own for label, own in known.items() if np.isneginf(own[0])}:
        z, known = beside_bound(level), at_bound
    known |= around.ends_together([x for x in wide if x.label not in known], z)
    for number in numbers:
        own = known.get(number.label, np.full(2, np.nan))
        if number in wide and not (np.isnan(own).any() and around.objective.is_spent):
            own = around.ends(number, z, own)
            profiled += [number.label] if number.name != STATIONARY else []
        elif number.name == STATIONARY:
            error = _error(found, number)
            own = number.target(found.full)[0] + z * error * np.array([-1.0, 1.0])
        own = np.exp(own) if number.is_log else own
        if number.mode is None:
            ends[number.name] = own
        else:
            ends.setdefault(number.name, np.full((n_modes, 2), np.nan))[number.mode] = own
    if found.mean is not None:
        rates = [x for x in wide if x.name == "eigenvalue"]
        means = around.ends_of_means(found.mean, rates, level)
        ends["mean"] = np.full((n_modes, 2), np.nan)
        ends["mean"][list(means)] = np.reshape(list(means.values()), (-1, 2))
        profiled += [f"mean[{mode + 1}]" for mode in means]
    return ends, profiled, around.objective.calls


def beside_bound(level: float) -> float:
    """Root of the likelihood ratio that a level takes where a coefficient of the law is near zero.

    Beside a bound the ratio of another number is no longer chi-square with one degree of freedom.
    Where the two know most of one another it is half of that and a quarter of one with two degrees,
    and zero otherwise (Self and Liang 1987): 2.06 in place of 1.96.
    """

    def surplus(square: float) -> float:
        beyond = 0.5 * scipy.special.chdtrc(1, square) + 0.25 * scipy.special.chdtrc(2, square)
        return float(beyond - (1.0 - level))

    return max(float(np.sqrt(scipy.optimize.brentq(surplus, 0.0, 200.0))), _normal(level))


def _normal(level: float) -> float:
    return float(scipy.special.ndtri(0.5 * (1.0 + level)))


class _Around(NamedTuple):
    """The likelihood around a maximum, in coordinates of about unit variance along ``columns``."""

    found: Estimate
    objective: Counted
    columns: Array

    @classmethod
    def of(cls, found: Estimate, *, is_needed: bool) -> _Around:
        """Around an estimate; without coordinates where nobody needs them."""
        posterior, x = found.posterior, found.optimum.x
        root = _root(found) if is_needed else np.zeros((len(x), 0))

        def objective(u: Array) -> tuple[float, Array]:
            value, slope, _ = posterior.at(x + root @ u)
            return value, root.T @ slope

        seconds = posterior.seconds
        most = max(PROFILE_SECONDS / seconds, ENOUGH) if seconds >= SLOW else np.inf
        return cls(found, Counted(objective, most), posterior.columns @ root)

    def held(self, numbers: list[Number]) -> Held:
        """The likelihood with these numbers held."""
        top = Point.top(self.columns.shape[1], self.found.optimum.value)
        return Held(self.objective, [self._target(number) for number in numbers], top)

    def _target(self, number: Number) -> Target:
        def target(u: Array) -> tuple[float, Array]:
            value, slope = number.target(self.found.full + self.columns @ u)
            return value, self.columns.T @ slope

        return target

    def ends(self, number: Number, z: float, known: Array) -> Array:
        """Lower and upper end of a number, where they are not known."""
        held, power = self.held([number]), POWERS.get(number.name, 0.0)
        return np.array(
            [
                profile_end(held, side, z, number.is_log, power) if np.isnan(end) else end
                for side, end in zip((-1, 1), known, strict=True)
            ]
        )

    def ends_of_ties(self, numbers: list[Number], z: float) -> dict[str, Array]:
        """Ends of the positive coefficients that tie a law, by label: some may reach to zero."""
        tied = [x for x in numbers if x.mode is None and x.is_log and x.name != "observation_std"]
        unknown, objective = np.full(2, np.nan), self.objective
        return {x.label: self.ends(x, z, unknown) for x in tied if not objective.is_spent}

    def ends_together(self, numbers: list[Number], z: float) -> dict[str, Array]:
        """Ends of numbers of many modes, by label; NaN where each has to be looked at by itself."""
        out: dict[str, Array] = {}
        for name in dict.fromkeys(number.name for number in numbers if number.mode is not None):
            if self.objective.is_spent:
                break
            own = [number for number in numbers if number.name == name]
            held, powers = self.held(own), np.full(len(own), POWERS.get(name, 0.0))
            ends = np.transpose([joint_ends(held, powers, side, z) for side in (-1, 1)])
            out |= {number.label: pair for number, pair in zip(own, ends, strict=True)}
        return out

    def ends_of_means(
        self, mean: MeanEstimate, rates: list[Number], level: float
    ) -> dict[int, tuple[float, float]]:
        """Ends of the means of modes whose decay rates are not well known, by mode.

        What a mean owes to other numbers than such rates is added to its variance.
        """
        found, out = self.found, dict[int, tuple[float, float]]()
        own = found.parametrisation
        along = np.transpose([found.columns.T @ rate.target(found.full)[1] for rate in rates])
        apart = np.linalg.qr(along)[0] if rates else along
        for rate in rates:
            if self.objective.is_spent or rate.mode is None:
                break
            mode, slopes = rate.mode, mean.slopes[rate.mode]
            other = float(np.sum((slopes - apart @ (apart.T @ slopes)) ** 2))

            def given(u: Array, mode: int = mode, other: float = other) -> tuple[float, float]:
                space = own.state_space(found.full + self.columns @ u)
                value, covariance = mean.at(space)
                return float(value[mode]), float(covariance[mode, mode]) + other

            noise = _log_of(own, "noise", mode)
            error = _error(found, Number("", mode, noise, True))
            degrees = 2.0 / max(error, 1e-6) ** 2
            out[mode] = mean_interval(self.held([rate]), given, level, degrees)
        return out


def _error(found: Estimate, number: Number) -> float:
    """Standard error of a number."""
    return float(np.linalg.norm(found.columns.T @ number.target(found.full)[1]))


def _root(found: Estimate) -> Array:
    """Root of the covariance, with a limit to how unknown a logarithm is."""
    posterior = found.posterior
    logs = posterior.columns[found.parametrisation.is_log] / UNKNOWN
    information = found.optimum.information + logs.T @ logs
    scale = balanced(information, posterior.scale)
    values, vectors = np.linalg.eigh(scale[:, None] * information * scale)
    values = np.maximum(values, 1e-10 * values.max(initial=1e-300))
    return scale[:, None] * (vectors / np.sqrt(values))


def _numbers(found: Estimate, n_modes: int) -> Iterator[Number]:
    """Positive numbers of modes that are apart, observation noise, and what ties a law."""
    own = found.parametrisation
    if found.state_space.linear.is_diagonal:
        for part, name in SPECTRA.items():
            if part in own.parts:
                yield from (Number(name, n, _log_of(own, part, n), True) for n in range(n_modes))
        for n in range(n_modes):
            ratio = _ratio(_log_of(own, "noise", n), _log_of(own, "drift", n))
            yield Number(STATIONARY, n, ratio, True)
    for i, name in sorted(enumerate(own.names), key=lambda one: one[1] != "observation_std"):
        if not ("[" in name or name.startswith("nuisance")):
            yield Number(name, None, _coordinate(i), bool(own.is_log[i]))


def _log_of(parametrisation: Parametrisation, name: str, mode: int) -> Target:
    """Logarithm of a number of a part."""
    part, where = parametrisation.parts[name], parametrisation.slices[name]

    def target(full: Array) -> tuple[float, Array]:
        value, slope = part.values(full[where])[mode], np.zeros(len(full))
        if value == 0:  # held there
            return -np.inf, slope
        slope[where] = part.jacobian(full[where])[mode] / value
        return float(np.log(value)), slope

    return target


def _ratio(noise: Target, drift: Target) -> Target:
    """``log(q / (2 lambda))``."""

    def target(full: Array) -> tuple[float, Array]:
        (q, by_noise), (rate, by_drift) = noise(full), drift(full)
        return q - rate - float(np.log(2.0)), by_noise - by_drift

    return target


def _coordinate(i: int) -> Target:
    def target(full: Array) -> tuple[float, Array]:
        slope = np.zeros(len(full))
        slope[i] = 1.0
        return float(full[i]), slope

    return target

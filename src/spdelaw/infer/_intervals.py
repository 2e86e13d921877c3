"""Which numbers get the interval of their profile, and those intervals.

The interval of a standard error is right where the likelihood of the logarithm is a parabola as far
out as the ends. For an eigenvalue whose logarithm has the standard error s, r bends away from a
straight line by ``s z / 2`` of itself at the end: with ``s = 0.1`` 5.4 % of intervals miss instead
of 5, with ``s = 0.2`` 6.7 %, and slow modes, modes faster than a step and short records are far
beyond. Those numbers, and no others, are profiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress
from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.infer._coordinates import AbstractCoordinates
from spdelaw.infer._estimate import Estimate, MeanEstimate
from spdelaw.infer._held import Target
from spdelaw.infer._joint_profile import JointProfile
from spdelaw.infer._mean_interval import mean_interval
from spdelaw.infer._optimise import SLOW, Counted, balanced
from spdelaw.infer._profile import Profile

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
    z, ends = _normal(level), dict[str, Array]()
    is_maximum, profiled = found.optimum.converged, list[str]()
    numbers = list(_numbers(found, n_modes))
    wide = [is_maximum and _error(found, number) > WIDE for number in numbers]
    root = _root(found) if any(wide) else np.zeros((0, 0))
    objective = _around_maximum(found, root)
    columns = found.posterior.columns @ root if any(wide) else root
    known = _ends_of_ties(found, list(compress(numbers, wide)), objective, columns, z)
    if at_bound := {label: own for label, own in known.items() if np.isneginf(own[0])}:
        z, known = beside_bound(level), at_bound
    others = [number for number in compress(numbers, wide) if number.label not in known]
    known |= _ends_together(found, others, objective, columns, z)
    for number, is_wide in zip(numbers, wide, strict=True):
        value, error = number.target(found.full)[0], _error(found, number)
        own = known.get(number.label, np.full(2, np.nan))
        if is_wide and not (np.isnan(own).any() and objective.is_spent):
            own = _ends(found, number, objective, columns, z, own)
            profiled += [number.label] if number.name != STATIONARY else []
        elif number.name == STATIONARY:
            own = value + z * error * np.array([-1.0, 1.0])
        own = np.exp(own) if number.is_log else own
        if number.mode is None:
            ends[number.name] = own
        else:
            ends.setdefault(number.name, np.full((n_modes, 2), np.nan))[number.mode] = own
    if found.mean is not None:
        rates = [x for x in compress(numbers, wide) if x.name == "eigenvalue"]
        means = _ends_of_means(found, found.mean, rates, objective, columns, level)
        ends["mean"] = np.full((n_modes, 2), np.nan)
        ends["mean"][list(means)] = np.reshape(list(means.values()), (-1, 2))
        profiled += [f"mean[{mode + 1}]" for mode in means]
    return ends, profiled, objective.calls


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


def _ends_of_ties(
    found: Estimate, numbers: list[Number], objective: Counted, columns: Array, z: float
) -> dict[str, Array]:
    """Ends of the positive coefficients that tie a law, by label: some may reach down to zero."""
    unknown, out = np.full(2, np.nan), dict[str, Array]()
    tied = [x for x in numbers if x.mode is None and x.is_log and x.name != "observation_std"]
    for number in tied:
        if objective.is_spent:
            break
        out[number.label] = _ends(found, number, objective, columns, z, unknown)
    return out


def _ends_of_means(
    found: Estimate,
    mean: MeanEstimate,
    rates: list[Number],
    objective: Counted,
    columns: Array,
    level: float,
) -> dict[int, tuple[float, float]]:
    """Ends of the means of modes whose decay rates are not well known, by mode.

    What a mean owes to other numbers than such rates is added to its variance.
    """
    noise, out = found.parametrisation.slices["noise"], dict[int, tuple[float, float]]()
    of_noise = found.parametrisation.parts["noise"]
    along = np.transpose([found.columns.T @ rate.target(found.full)[1] for rate in rates])
    apart = np.linalg.qr(along)[0] if rates else along
    for rate in rates:
        if objective.is_spent or rate.mode is None:
            break
        mode = rate.mode
        own = mean.slopes[mode]
        other = float(np.sum((own - apart @ (apart.T @ own)) ** 2))

        def given(u: Array, mode: int = mode, other: float = other) -> tuple[float, float]:
            space = found.parametrisation.state_space(found.full + columns @ u)
            value, covariance = mean.at(space)
            return float(value[mode]), float(covariance[mode, mode]) + other

        error = _error(found, Number("", mode, _log_of(of_noise, noise, mode, 1.0), True))
        profile = Profile(objective, [_target(found, rate, columns)], columns.shape[1], True)
        degrees = 2.0 / max(error, 1e-6) ** 2
        out[mode] = mean_interval(profile, given, found.optimum.value, level, degrees)
    return out


def _around_maximum(found: Estimate, root: Array) -> Counted:
    """The likelihood around its maximum, in coordinates of about unit variance."""

    def objective(u: Array) -> tuple[float, Array]:
        value, slope, _ = found.posterior.at(found.optimum.x + root @ u)
        return value, root.T @ slope

    seconds = found.posterior.seconds
    most = max(PROFILE_SECONDS / seconds, ENOUGH) if seconds >= SLOW else np.inf
    return Counted(objective, most)


def _error(found: Estimate, number: Number) -> float:
    """Standard error of a number."""
    return float(np.linalg.norm(found.columns.T @ number.target(found.full)[1]))


def _ends_together(
    found: Estimate, numbers: list[Number], objective: Counted, columns: Array, z: float
) -> dict[str, Array]:
    """Ends of numbers of many modes, by label; NaN where each has to be looked at by itself."""
    out: dict[str, Array] = {}
    for name in dict.fromkeys(number.name for number in numbers if number.mode is not None):
        if objective.is_spent:
            break
        own = [number for number in numbers if number.name == name]
        targets = [_target(found, number, columns) for number in own]
        powers = np.full(len(own), POWERS.get(name, 0.0))
        profile = JointProfile(objective, targets, powers, columns.shape[1])
        ends = np.transpose([profile.ends(side, z, found.optimum.value) for side in (-1, 1)])
        out |= {number.label: pair for number, pair in zip(own, ends, strict=True)}
    return out


def _ends(
    found: Estimate, number: Number, objective: Counted, columns: Array, z: float, known: Array
) -> Array:
    """Lower and upper end of a number, where they are not known."""
    targets, power = [_target(found, number, columns)], POWERS.get(number.name, 0.0)
    profile = Profile(objective, targets, columns.shape[1], number.is_log, power)
    return np.array(
        [
            profile.end(side, z, found.optimum.value) if np.isnan(end) else end
            for side, end in zip((-1, 1), known, strict=True)
        ]
    )


def _target(found: Estimate, number: Number, columns: Array) -> Target:
    """A number as a function of coordinates of unit variance, along ``columns``."""

    def target(u: Array) -> tuple[float, Array]:
        value, slope = number.target(found.full + columns @ u)
        return value, columns.T @ slope

    return target


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
    parts, slices = found.parametrisation.parts, found.parametrisation.slices

    def of_part(part: str, mode: int, share: float = 1.0) -> Target:
        return _log_of(parts[part], slices[part], mode, share)

    if found.state_space.linear.is_diagonal:
        for part, name in SPECTRA.items():
            if part in parts:
                yield from (Number(name, n, of_part(part, n), True) for n in range(n_modes))
        for n in range(n_modes):
            yield Number(STATIONARY, n, _ratio(of_part("noise", n), of_part("drift", n)), True)
    if "observation" in parts:
        yield Number("observation_std", None, of_part("observation", 0, 0.5), True)
    is_log = found.parametrisation.is_log
    for i, name in enumerate(found.parametrisation.names):
        if not ("[" in name or name == "observation_std" or name.startswith("nuisance")):
            yield Number(name, None, _coordinate(i), bool(is_log[i]))


def _log_of(part: AbstractCoordinates, where: slice, mode: int, share: float) -> Target:
    """``share`` of the logarithm of a number of a part."""

    def target(full: Array) -> tuple[float, Array]:
        value = np.atleast_1d(part.values(full[where]))[mode]
        slope = np.zeros(len(full))
        if value == 0:  # held there
            return -np.inf, slope
        slope[where] = share * np.atleast_2d(part.jacobian(full[where]))[mode] / value
        return share * float(np.log(value)), slope

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

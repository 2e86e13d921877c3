"""What is believed and what is held about single parameters, as positions in the full vector.

Keys are coordinate names such as ``kappa`` or ``eigenvalue[3]``, or a group such as ``eigenvalue``
with one number per mode, NaN for free.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from spdelaw.errors import InputError
from spdelaw.infer._parametrisation import Parametrisation

NUMBERS = "give one number per mode, NaN for free"


@dataclasses.dataclass(frozen=True)
class LogNormal:
    """``log x ~ N(log median, sigma^2)``: for positive parameters.

    Example:
        >>> LogNormal(median=2.0, sigma=0.5)
        LogNormal(median=2.0, sigma=0.5)
    """

    median: float
    sigma: float

    def __post_init__(self) -> None:
        """Check the settings."""
        if not (np.isfinite([self.median, self.sigma]).all() and min(self.median, self.sigma) > 0):
            got, fix = f"{self.median}, {self.sigma}", "LogNormal(median=1.0, sigma=1.0)"
            raise InputError("LogNormal", expected="median > 0 and sigma > 0", got=got, fix=fix)

    def log_density(self, coordinate: float, is_log: bool) -> tuple[float, float]:
        """Log density by the coordinate, up to a constant, and its slope."""
        z = (coordinate - np.log(self.median)) / self.sigma
        return -0.5 * z**2, -z / self.sigma


@dataclasses.dataclass(frozen=True)
class Normal:
    """``x ~ N(mean, std^2)``.

    Example:
        >>> Normal(mean=0.0, std=1.0)
        Normal(mean=0.0, std=1.0)
    """

    mean: float
    std: float

    def __post_init__(self) -> None:
        """Check the settings."""
        if not (np.isfinite([self.mean, self.std]).all() and self.std > 0):
            got, fix = f"{self.mean}, {self.std}", "Normal(mean=0.0, std=1.0)"
            raise InputError("Normal", expected="a finite mean and std > 0", got=got, fix=fix)

    def log_density(self, coordinate: float, is_log: bool) -> tuple[float, float]:
        """Log density of the number itself, up to a constant, and its slope by the coordinate."""
        x = np.exp(coordinate) if is_log else coordinate
        z = (x - self.mean) / self.std
        return -0.5 * z**2, -z / self.std * (x if is_log else 1.0)


def fixed_values(
    parametrisation: Parametrisation, fixed: Mapping[str, Any] | None
) -> dict[int, float]:
    """Positions and coordinate values of fixed parameters."""
    is_log, drift = parametrisation.is_log, parametrisation.slices["drift"]
    # Nuisance modes follow the Laplacian: their order and their size cannot both be told.
    out = {i: 0.0 for i, name in enumerate(parametrisation.names) if name == "nuisance_s"}
    for key, value in (fixed or {}).items():
        for position, number in _positions(parametrisation, key, value, "fixed"):
            if np.isnan(number):
                continue
            # Without decay a mode is Brownian motion; without noise it has no density.
            least = 0.0 if position < drift.stop else 5e-324
            if not np.isfinite(number) or (is_log[position] and number < least):
                expected = "a finite number, positive where it is a variance"
                fix = "give the variance itself, or NaN for free"
                raise InputError(f"fixed[{key!r}]", expected=expected, got=repr(number), fix=fix)
            with np.errstate(divide="ignore"):
                out[position] = float(np.log(number)) if is_log[position] else number
    return out


def prior_terms(
    parametrisation: Parametrisation, priors: Mapping[str, Any] | None
) -> list[tuple[int, Any]]:
    """Positions with their prior."""
    out = []
    for key, prior in (priors or {}).items():
        what = f"priors[{key!r}]"
        if not isinstance(prior, (LogNormal, Normal)):
            expected, got = "sl.LogNormal(...) or sl.Normal(...)", type(prior).__name__
            fix = "priors={'eigenvalue': sl.LogNormal(5.0, 1.0)}"
            raise InputError(what, expected=expected, got=got, fix=fix)
        for position, _ in _positions(parametrisation, key, 1.0, "priors"):
            if isinstance(prior, LogNormal) and not parametrisation.is_log[position]:
                expected = "a Normal prior for a number of either sign"
                fix = "use sl.Normal(mean, std)"
                raise InputError(what, expected=expected, got="LogNormal", fix=fix)
            out.append((position, prior))
    return out


def _positions(
    parametrisation: Parametrisation, key: str, value: Any, argument: str
) -> list[tuple[int, float]]:
    what, names = f"{argument}[{key!r}]", parametrisation.names
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(what, expected="numbers", got=repr(value), fix=NUMBERS) from error
    if key in names and numbers.ndim == 0:
        return [(names.index(key), float(numbers))]
    group = [i for i, name in enumerate(names) if name == key or name.startswith(f"{key}[")]
    if not group:
        known = sorted({name.split("[")[0] for name in names})
        expected = f"a parameter of this fit, one of {known}"
        raise InputError(what, expected=expected, got=repr(key), fix=f"groups: {NUMBERS}")
    if numbers.ndim and numbers.shape != (len(group),):
        expected, got = f"one number, or {len(group)}", f"shape {numbers.shape}"
        raise InputError(what, expected=expected, got=got, fix=NUMBERS)
    return list(zip(group, np.broadcast_to(numbers, len(group)).tolist(), strict=True))

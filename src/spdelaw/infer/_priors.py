"""Priors on single parameters for maximum a-posteriori estimates."""

from __future__ import annotations

import dataclasses

import numpy as np

from spdelaw.errors import InputError


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

"""The time of the learner: a share of the horizon."""

from __future__ import annotations

import dataclasses

import numpy as np

Array = np.ndarray


@dataclasses.dataclass(frozen=True)
class Clock:
    """Where the model's time starts and how long it runs: ``s = (t - start) / horizon``.

    The model lives on [0, 1]; rates and noise variances per unit of ``s`` are ``horizon`` times
    those per unit of the data's time, so that lambda = q = 1 is a neutral start in every unit.
    """

    start: float
    horizon: float

    @classmethod
    def of(cls, times: Array) -> Clock:
        """Clock of observation times (T,) or (P, T)."""
        return cls(float(times.min()), float(times.max() - times.min()))

    def ages(self, times: Array) -> Array:
        """Times as shares of the horizon."""
        return (np.asarray(times, float) - self.start) / self.horizon

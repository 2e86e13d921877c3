"""The paper's two regimes: equation, published baseline, and the error of the mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import xarray as xr

from spdelaw.equation import SpectralSPDE
from spdelaw.equation.catalogue import heat, ornstein_uhlenbeck

Array = np.ndarray


class Errors(NamedTuple):
    """Trajectory errors as in the paper, the initial time left out."""

    relative_l2: float
    rmse: float


@dataclasses.dataclass(frozen=True)
class Regime:
    """One regime of the paper (section 3) and its best baseline there."""

    letter: str
    make: Callable[[int], SpectralSPDE]
    n_modes: int
    baseline: str
    published: Errors

    @property
    def equation(self) -> SpectralSPDE:
        """The equation with this regime's modes."""
        return self.make(self.n_modes)


REGIMES = (
    # Eight modes on the line: on its uniform grid more cannot be told apart (condition 2e17
    # for 50), so nothing could be compared mode by mode.
    Regime("A", ornstein_uhlenbeck, 8, "SV&NN", Errors(0.2276, 0.7885)),
    Regime("B", heat, 50, "DeepONet", Errors(0.4726, 0.3226)),
)


def mean_predictor(fields: xr.DataArray, equation: SpectralSPDE) -> Errors:
    """Errors of predicting every path by the exact mean.

    ``rel L2``: per path ``||m - X|| / ||X||`` over t > 0 and x, then the mean over paths;
    RMSE: pooled over paths, times and points.
    """
    x = fields.transpose("path", "time", *equation.domain.dims)[:, 1:]
    mean = equation.mean(x["time"].values, equation.domain.places(x).points).values
    errors = [_squares(path - mean) for path in x.values]
    norms = [_squares(path) for path in x.values]
    ratios = np.sqrt(np.divide(errors, norms))
    return Errors(float(ratios.mean()), float(np.sqrt(np.mean(errors) / mean.size)))


def _squares(values: Array) -> float:
    return float(np.vdot(values, values))

"""What is to be simulated, checked once for linear and semilinear equations alike."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spdelaw.equation import Semilinear, SpectralSPDE, check_times
from spdelaw.errors import InputError
from spdelaw.simulation._noise import check_seed

Array = np.ndarray


class Request(NamedTuple):
    """Arguments of `spdelaw.simulate` that hold: times (T,) and points of the grid included."""

    n_paths: int
    times: Array
    grid: Array
    seed: int
    scheme: str
    observation_std: float
    return_noise: bool


def check_request(
    equation: SpectralSPDE | Semilinear,
    n_paths: Any,
    times: Any,
    grid: Any,
    *,
    seed: Any,
    scheme: str,
    observation_std: Any,
    return_noise: bool,
) -> Request:
    """The request, or `InputError`."""
    if not isinstance(equation, (SpectralSPDE, Semilinear)):
        raise InputError(
            "equation", expected="a SpectralSPDE", got=type(equation).__name__,
            fix="pass sl.catalogue.heat()",
        )  # fmt: skip
    if isinstance(n_paths, bool) or not isinstance(n_paths, (int, np.integer)) or n_paths < 1:
        raise InputError(
            "n_paths", expected="a positive integer", got=repr(n_paths), fix="pass n_paths=100"
        )
    if not (isinstance(observation_std, (int, float)) and 0 <= observation_std < np.inf):
        raise InputError(
            "observation_std", expected="a non-negative number", got=repr(observation_std),
            fix="pass observation_std=0.05",
        )  # fmt: skip
    linear = equation.linear if isinstance(equation, Semilinear) else equation
    t = linear._times(None if times is None else check_times(times))
    x = equation.domain.check_points(equation.default_grid() if grid is None else grid)
    return Request(
        int(n_paths), t, x, check_seed(seed), scheme, float(observation_std), bool(return_noise)
    )

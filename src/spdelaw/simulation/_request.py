"""What is to be simulated, checked once for linear and semilinear equations alike."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.checks import one_of, whole
from spdelaw.equation import Semilinear, SpectralSPDE, check_times, operators
from spdelaw.errors import InputError
from spdelaw.simulation._noise import INITIAL, OBSERVATION, normals
from spdelaw.simulation._schemes import SCHEMES

Array = np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Request:
    """Arguments of `spdelaw.simulate` that hold: times (T,) and points of the grid included."""

    equation: SpectralSPDE | Semilinear
    n_paths: int
    times: Array
    grid: Array
    seed: int
    scheme: str
    observation_std: float
    return_noise: bool

    @property
    def linear(self) -> SpectralSPDE:
        """The equation, or its linear part."""
        return self.equation.linear if isinstance(self.equation, Semilinear) else self.equation

    @functools.cached_property
    def eigenfunctions(self) -> Array:
        """Modes on the grid, (M, N)."""
        return self.equation.domain.eigenfunctions(self.grid, self.equation.n_modes)

    def initial_states(self, start: int, n: int) -> Array:
        """States of paths ``start, start + 1, ...`` at the initial time; (n, N)."""
        mean, covariance = self.linear.initial_mean, self.linear.initial_state.covariance
        if not covariance.any():
            return np.broadcast_to(mean, (n, len(mean)))
        z = normals(self.seed, INITIAL, start, n, (len(mean),))
        if operators.is_diagonal(covariance):
            return mean + np.sqrt(covariance) * z
        values, vectors = np.linalg.eigh(covariance)
        return mean + (z * np.sqrt(np.maximum(values, 0.0))) @ vectors.T

    def add_noise(self, fields: Array, start: int) -> None:
        """Observation noise of paths ``start, start + 1, ...``, in place."""
        if self.observation_std > 0:
            z = normals(self.seed, OBSERVATION, start, len(fields), fields.shape[1:])
            fields += self.observation_std * z

    def label(self, fields: Array, start: int, more: dict[str, Any]) -> xr.DataArray:
        """Fields (P, T, M) with coordinates and where they come from."""
        places = self.equation.domain.places(self.grid)
        coords: dict[str, Any] = {
            "path": np.arange(start, start + len(fields)),
            "time": self.times,
            **places.coords,
        }
        kind = "spectral" if self.linear is self.equation else "semilinear"
        attrs = {
            "title": self.equation.label or f"{kind} SPDE",
            "equation": json.dumps(self.equation.to_dict()),
            "scheme": self.scheme,
            "seed": self.seed,
            "observation_std": self.observation_std,
            **more,
            "source": "spdelaw.simulate",
        }
        dims = ("path", "time", *places.dims)
        return xr.DataArray(places.unflatten(fields), coords, dims, name="field", attrs=attrs)


def check_request(
    equation: Any, n_paths: Any, times: Any, grid: Any, seed: Any, scheme: Any,
    observation_std: Any, return_noise: Any,
) -> Request:  # fmt: skip
    """The request, or `InputError`."""
    if not isinstance(equation, (SpectralSPDE, Semilinear)):
        got, fix = type(equation).__name__, "pass sl.catalogue.heat()"
        raise InputError("equation", expected="a SpectralSPDE", got=got, fix=fix)
    if not (isinstance(observation_std, (int, float)) and 0 <= observation_std < np.inf):
        got, fix = repr(observation_std), "pass observation_std=0.05"
        raise InputError("observation_std", expected="a non-negative number", got=got, fix=fix)
    linear = equation.linear if isinstance(equation, Semilinear) else equation
    return Request(
        equation,
        whole("n_paths", n_paths, 1),
        linear._times(None if times is None else check_times(times)),
        equation.domain.check_points(equation.default_grid() if grid is None else grid),
        whole("seed", seed, 0),
        one_of("scheme", scheme, SCHEMES),
        float(observation_std),
        bool(return_noise),
    )

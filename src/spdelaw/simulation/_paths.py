"""What is to be simulated, checked once for linear and semilinear equations alike.

Random numbers come in blocks of paths, so that the first paths never depend on how many follow.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import json
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.checks import one_of, whole
from spdelaw.equation import Semilinear, SpectralSPDE, operators
from spdelaw.errors import InputError

Array = np.ndarray
SCHEMES = ("exact", "semi_implicit")

#: Paths that share one random stream. A path's numbers depend on the seed and its index only.
BLOCK = 16

#: Streams of one block: adding one never shifts the others.
PATHS, INITIAL, OBSERVATION, BRIDGE = range(4)


@dataclasses.dataclass(frozen=True, eq=False)
class Paths(abc.ABC):
    """Arguments of `spdelaw.simulate`, and the paths that they ask for, some at a time.

    Once made, times (T,) and points of the grid (M, ...) are arrays.
    """

    equation: Any
    n_paths: int
    times: Any
    grid: Any
    seed: int
    scheme: str
    observation_std: float
    return_noise: bool

    def __post_init__(self) -> None:
        """Check all, or raise `InputError`."""
        e, std = self.equation, self.observation_std
        if not isinstance(e, (SpectralSPDE, Semilinear)):
            got, fix = type(e).__name__, "pass sl.catalogue.heat()"
            raise InputError("equation", expected="a SpectralSPDE", got=got, fix=fix)
        if not (isinstance(std, (int, float)) and 0 <= std < np.inf):
            got, fix = repr(std), "pass observation_std=0.05"
            raise InputError("observation_std", expected="a non-negative number", got=got, fix=fix)
        checked = {
            "n_paths": whole("n_paths", self.n_paths, 1),
            "times": self.linear._times(self.times),
            "grid": e.domain.check_points(e.default_grid() if self.grid is None else self.grid),
            "seed": whole("seed", self.seed, 0),
            "scheme": one_of("scheme", self.scheme, SCHEMES),
            "observation_std": float(std),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def noise_shape(self) -> tuple[int, ...]:
        """Shape of the normals that a path needs per time: one for each mode."""
        return (self.equation.n_modes,)

    @property
    def attributes(self) -> dict[str, Any]:
        """What else the fields say about themselves."""
        return {}

    @abc.abstractmethod
    def draw(self, start: int, n: int) -> tuple[Array, Array | None]:
        """Coefficients (n, T, N) of paths ``start, ...``, and their noise increments if wanted."""

    @property
    def linear(self) -> SpectralSPDE:
        """The equation, or its linear part."""
        return self.equation.linear if isinstance(self.equation, Semilinear) else self.equation

    @functools.cached_property
    def eigenfunctions(self) -> Array:
        """Modes on the grid, (M, N)."""
        return self.equation.domain.eigenfunctions(self.grid, self.equation.n_modes)

    def normals(self, stream: int, start: int, n: int, shape: tuple[int, ...]) -> Array:
        """Standard normals (n, *shape) of paths ``start, start + 1, ...`` of one stream.

        ``start`` is a multiple of `BLOCK`; a last, partial block draws only the paths it needs,
        which come first in its stream.
        """
        out = np.empty((n, *shape))
        for i in range(0, n, BLOCK):
            key = np.random.SeedSequence(self.seed, spawn_key=((start + i) // BLOCK, stream))
            generator = np.random.Generator(np.random.SFC64(key))
            generator.standard_normal(out=out[i : i + BLOCK])
        return out

    def initial_states(self, start: int, n: int) -> Array:
        """States of paths ``start, start + 1, ...`` at the initial time; (n, N)."""
        _, mean, covariance = self.linear.initial_state
        if not covariance.any():
            return np.broadcast_to(mean, (n, len(mean)))
        z = self.normals(INITIAL, start, n, mean.shape)
        if operators.is_diagonal(covariance):
            return mean + np.sqrt(covariance) * z
        values, vectors = np.linalg.eigh(covariance)
        return mean + (z * np.sqrt(np.maximum(values, 0.0))) @ vectors.T

    def empty(self, n: int) -> Array:
        """Room for the fields of so many paths; (n, T, M)."""
        return np.empty((n, len(self.times), len(self.grid)))

    def fill(self, fields: Array, start: int) -> Array | None:
        """Fill ``fields`` with paths ``start, ...``; return their noise increments if wanted."""
        c, noise = self.draw(start, len(fields))
        flat = fields.reshape(-1, fields.shape[-1])
        np.matmul(c.reshape(-1, c.shape[-1]), self.eigenfunctions.T, out=flat)
        if self.observation_std > 0:
            z = self.normals(OBSERVATION, start, len(fields), fields.shape[1:])
            fields += self.observation_std * z
        return noise

    def label(self, fields: Array, start: int, noise: Array | None) -> xr.DataArray | xr.Dataset:
        """Fields (P, T, M) with coordinates and where they come from; and their noise, if given."""
        places = self.equation.domain.places(self.grid)
        kind = "spectral" if self.linear is self.equation else "semilinear"
        attrs = {
            "title": self.equation.label or f"{kind} SPDE",
            "equation": json.dumps(self.equation.to_dict()),
            "scheme": self.scheme,
            "seed": self.seed,
            "observation_std": self.observation_std,
            **self.attributes,
            "source": "spdelaw.simulate",
        }
        rows = {"path": np.arange(start, start + len(fields)), "time": self.times}
        dims, coords = (*rows, *places.dims), rows | places.coords
        field = xr.DataArray(places.unflatten(fields), coords, dims, name="field", attrs=attrs)
        if noise is None:
            return field
        modes = rows | {"mode": np.arange(1, noise.shape[-1] + 1)}
        variables = {
            "field": field,
            "noise_increment": xr.DataArray(noise, modes, tuple(modes)),
            "noise_field": (dims, places.unflatten(noise @ self.eigenfunctions.T)),
        }
        return xr.Dataset(variables, attrs=attrs)

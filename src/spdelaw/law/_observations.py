"""Observations under a law as arrays, and results as labelled fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data import value_noise
from spdelaw.domain import Places
from spdelaw.errors import DataError
from spdelaw.law._clock import own_clock, shared_clock
from spdelaw.law._states import FieldMoments
from spdelaw.model import StateSpace

if TYPE_CHECKING:
    from spdelaw.law._law import Law

Array = np.ndarray

#: What ``law.info["observation_noise"]`` says where each value came with its own deviation.
VALUE_NOISE = "known per value"
#: Observation variance, relative to the field's, below which the filter does not go.
VARIANCE_FLOOR = 1e-10
#: The same, that many times larger, where rows see fewer points than there are modes: beside what
#: they fix to more digits, the rest of the state has none left.
FEW_POINTS = 100.0


class Observations(NamedTuple):
    """Data under a law as arrays, less the response to its forcing.

    Attributes:
        fields: labelled, (path, time, x), flat along ``point`` in several dimensions.
        values: (P, T, M).
        times: (T,) or (P, T).
        basis: all modes at the points, (M, N).
        places: points and labels of the data as they came.
        weights: precision per point (M,) where the noise was learned point by point, or per value
            (P, T, M) where it came with the data, else None.
    """

    fields: xr.DataArray
    values: Array
    times: Array
    basis: Array
    places: Places
    weights: Array | None

    @property
    def variance_floor(self) -> float:
        """Least observation variance with which the filter keeps its digits; weights have it."""
        if self.weights is not None:
            return 0.0
        seen = (~np.isnan(self.values)).sum(-1)
        few = ((seen > 0) & (seen < self.basis.shape[1])).any()
        return VARIANCE_FLOOR * (FEW_POINTS if few else 1.0) * float(np.nanmean(self.values**2))


def observe(law: Law, data: Any) -> Observations:
    """Data prepared, on the law's clock and from its first time on."""
    labelled = law.prepared(data)
    places, fields = law.domain.places(labelled), law.domain.flatten(labelled)
    # The initial state belongs to the first time of the law, not to that of the data.
    clock = own_clock if "path_time" in fields.coords else shared_clock
    values, times = clock(fields, float(law.times[0]))
    if times.shape[-1] < 2:
        fix = "pass the history from its first time on"
        raise DataError("time", expected="at least two times", got=f"{times.shape[-1]}", fix=fix)
    precision = point_weights(law, len(places.points))
    by_value = law.info.get("observation_noise") == VALUE_NOISE
    if by_value and (noise := value_noise(labelled)) is not None:
        std = clock(law.domain.flatten(noise), float(law.times[0]))[0]
        variance = std**2 + law.unresolved_variance
        precision = np.nan_to_num(1.0 / variance, nan=1.0)
    return Observations(fields, values, times, modes_at(law, places), places, precision)


def target(law: Law, data: Observations, grid: Any) -> tuple[Places, Array]:
    """Where results are wanted, and the modes there; by default where the data are."""
    if grid is None:
        return data.places, data.basis
    places = law.domain.places(grid)
    return places, modes_at(law, places)


def modes_at(law: Law, places: Places) -> Array:
    """All modes of a law at some places; (M, N)."""
    return law.domain.eigenfunctions(places.points, law.dynamics.n_modes)


def noisy_state_space(law: Law, data: Observations) -> StateSpace:
    """The law without its forcing; all that the modes leave over is observation noise."""
    r: Any = 1.0
    if data.weights is None:
        r = max(float(law.observation_variance) + law.unresolved_variance, data.variance_floor)
        if r == 0.0:  # all that was seen is zero
            r = VARIANCE_FLOOR * _size(law)
    return law.bare.state_space._replace(observation_variance=np.asarray(r))


def _size(law: Law) -> float:
    """Mean square of the states after the span of the data, from a few draws."""
    states = np.repeat(law.initial.mean[None], 8, axis=0)
    span, generator = float(law.times[-1] - law.times[0]), np.random.default_rng(0)
    later = law.dynamics.sample(states, float(law.times[0]), span, generator)
    return float(np.mean(later**2))


def point_weights(law: Law, n_points: int) -> Array | None:
    """Precision per point, where the noise was learned point by point."""
    r = law.observation_variance
    if r.ndim == 0:
        return None
    if len(r) != n_points:
        expected = f"the {len(r)} points the noise was learned at"
        fix = "use the same grid, or fit one noise for all points"
        raise DataError("points", expected=expected, got=f"{n_points} points", fix=fix)
    return 1.0 / (r + law.unresolved_variance)


def noise_at(law: Law, points: Array) -> Array:
    """Variance of a value about the field at some points: what ``std`` of results leaves out."""
    if law.rest is None:
        return law.observation_variance
    return law.rest.at(law.points, points).white


def clock_coords(fields: xr.DataArray) -> dict[str, Any]:
    """Paths and times of the data, as coordinates of a result."""
    coords: dict[str, Any] = {"path": fields["path"].values, "time": fields["time"].values}
    if "path_time" in fields.coords:
        coords["path_time"] = fields["path_time"]
    return coords


def without_unseen(law: Law, data: Observations, result: xr.Dataset) -> xr.Dataset:
    """NaN at points that neither the data of the law nor these ever see, such as land.

    A prediction there is asked for by ``grid=``.
    """
    return unseen_is_nan(law, data.places, ~np.isnan(data.values).all((0, 1)), result)


def unseen_is_nan(law: Law, places: Places, seen: Array, result: xr.Dataset) -> xr.Dataset:
    """The same from which of the points (M,) the data see."""
    unseen = ~seen
    if not unseen.any():
        return result
    known = {np.asarray(point, float).tobytes() for point in law.points}
    at = places.points
    unseen &= np.array([np.asarray(point, float).tobytes() not in known for point in at])
    kept = xr.DataArray(places.unflatten(~unseen), dims=places.dims)
    return result.where(kept, drop=False) if unseen.any() else result


def moments_dataset(
    law: Law, moments: FieldMoments, places: Places, coords: dict[str, Any]
) -> xr.Dataset:
    """``mean`` and ``std``; what the modes leave over adds to the deviation.

    ``observation_std`` is that of a new value about the field.
    """
    dims = ("path", "time", *places.dims)
    std = np.sqrt(moments.variance + (law.unresolved_variance if law.rest is None else 0.0))
    noise = noise_at(law, places.points)
    return xr.Dataset(
        {"mean": (dims, places.unflatten(moments.mean)), "std": (dims, places.unflatten(std))},
        coords={**coords, **places.coords},
        attrs={"observation_std": float(np.sqrt(np.mean(noise)))},
    )

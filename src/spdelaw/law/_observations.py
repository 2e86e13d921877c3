"""Observations under a law as arrays, and results as labelled fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data import OBSERVATION_STD, Here, check_values, pieces_of, value_noise
from spdelaw.domain import Places
from spdelaw.equation import Linear
from spdelaw.errors import DataError
from spdelaw.law._clock import own_clock, shared_clock
from spdelaw.law._rest import same_points
from spdelaw.law._states import FieldMoments, batches
from spdelaw.law._user_units import to_law
from spdelaw.model import Block, StateSpace, collapse_pieces

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
        values: (P, T, M); lazy where `observe_record` left them so.
        times: (T,) or (P, T).
        basis: all modes at the points, (M, N).
        places: points and labels of the data as they came.
        weights: precision per point (M,) where the noise was learned point by point, or per value
            (P, T, M) where it came with the data, else None.
    """

    fields: xr.DataArray
    values: Any
    times: Array
    basis: Array
    places: Places
    weights: Array | None

    def blocks(self, weights: Array | None = None) -> Iterable[Block]:
        """Collapsed paths; a lazy record is collapsed chunk by chunk."""
        if isinstance(self.values, np.ndarray):
            return batches(self.values, self.times, self.basis, weights)
        pieces = pieces_of(self.values)
        return collapse_pieces(pieces, self.times, self.basis, Here(), weights).blocks

    @property
    def variance_floor(self) -> float:
        """Least observation variance with which the filter keeps its digits; weights have it."""
        if self.weights is not None:
            return 0.0
        seen = (~np.isnan(self.values)).sum(-1)
        few = bool(((seen > 0) & (seen < self.basis.shape[1])).any())
        return variance_floor(float(np.nansum(self.values**2)), int(seen.sum()), few)


def variance_floor(square: float, count: int, few: bool) -> float:
    """The same from the sum of squares of ``count`` values.

    ``few``: a row has fewer values than there are modes. Without any value all variances are alike.
    """
    return VARIANCE_FLOOR * (FEW_POINTS if few else 1.0) * (square / count if count else 1.0)


def observe(law: Law, data: Any, *, check: bool = True) -> Observations:
    """Data prepared, on the law's clock and from its first time on.

    ``check=False`` is for some paths of a data set, all of whose values may be missing.
    """
    labelled = to_law(law, data) if check else _part(law, data)
    own = _observed(law, labelled, float(law.times[0]))
    if own.times.shape[-1] < 2:
        got, fix = f"{own.times.shape[-1]}", "pass the history from its first time on"
        raise DataError("time", expected="at least two times", got=got, fix=fix)
    return own


def observe_part(law: Law, data: Any, *, first: bool) -> Observations:
    """Some times of one record, all of which may be missing; later ones begin as they are."""
    return _observed(law, _part(law, data), float(law.times[0]) if first else np.inf)


def observe_record(law: Law, data: xr.DataArray) -> Observations:
    """`observe` of one lazy record, whose values stay lazy; see `Observations.blocks`.

    Not where values have deviations of their own, which are as large as they are.
    """
    if law.info.get("observation_noise") == VALUE_NOISE and OBSERVATION_STD in data.coords:
        return observe(law, data.compute())
    return _observed(law, to_law(law, data, check=False), float(law.times[0]))


def _part(law: Law, data: Any) -> xr.DataArray:
    labelled = to_law(law, data, check=False)
    if np.isinf(labelled.values).any():
        check_values(labelled)
    return labelled


def _observed(law: Law, labelled: xr.DataArray, start: float) -> Observations:
    places, fields = law.domain.places(labelled), law.domain.flatten(labelled)
    # The initial state belongs to the first time of the law, not to that of the data.
    clock = own_clock if "path_time" in fields.coords else shared_clock
    values, times = clock(fields, start)
    precision = None
    if law.observation_variance.ndim:
        precision = point_weights(law, places.points, np.asarray(~np.isnan(values).all((0, 1))))
    by_value = law.info.get("observation_noise") == VALUE_NOISE
    if by_value and (noise := value_noise(labelled)) is not None:
        std = clock(law.domain.flatten(noise), start)[0]
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
        if r == 0.0 and not isinstance(law.dynamics, Linear):  # all that was seen is zero
            r = VARIANCE_FLOOR * _size(law)
    return law.bare.state_space._replace(observation_variance=np.asarray(r))


def _size(law: Law) -> float:
    """Mean square of the states after the span of the data, from a few draws."""
    states = np.repeat(law.initial.mean[None], 8, axis=0)
    span, generator = float(law.times[-1] - law.times[0]), np.random.default_rng(0)
    later = law.dynamics.sample(states, float(law.times[0]), span, generator)
    return float(np.mean(later**2))


def point_weights(law: Law, points: Array, seen: Array | None = None) -> Array | None:
    """Precision per point, where the noise was learned point by point.

    ``seen`` are the points with values, by default all: at others it has no meaning.
    """
    if law.observation_variance.ndim == 0:
        return None
    r = noise_at(law, points)
    unknown = np.isnan(r) & (True if seen is None else seen)
    if unknown.any():
        expected = f"some of the {len(law.points)} points the noise was learned at"
        got = f"{int(unknown.sum())} others among {len(points)} points"
        fix = "use the same grid, or fit one noise for all points"
        raise DataError("points", expected=expected, got=got, fix=fix)
    return np.nan_to_num(1.0 / (r + law.unresolved_variance), nan=1.0)


def noise_at(law: Law, points: Array) -> Array:
    """Variance of a value about the field at some points: what ``std`` of results leaves out.

    One number, or one per point; NaN at points where a noise of each point was not learned.
    """
    if law.rest is not None:
        return law.rest.at(law.points, points).white
    r = law.observation_variance
    return r if r.ndim == 0 else np.append(r, np.nan)[same_points(law.points, points)]


def clock_coords(fields: xr.DataArray) -> dict[str, Any]:
    """Paths and times of the data, as coordinates of a result."""
    coords: dict[str, Any] = {"path": fields["path"].values, "time": fields["time"].values}
    if "path_time" in fields.coords:
        coords["path_time"] = fields["path_time"]
    return coords


def without_unseen(
    law: Law, data: Observations, result: xr.Dataset, seen: Array | None = None
) -> xr.Dataset:
    """NaN at points that neither the data of the law nor these ever see, such as land.

    A prediction there is asked for by ``grid=``. ``seen`` are the points (M,) that all the data
    see, where these are some of them.
    """
    own = ~np.isnan(data.values).all((0, 1))
    return unseen_is_nan(law, data.places, own if seen is None else seen, result)


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
    noise = law.observation_variance if law.rest is None else noise_at(law, places.points)
    return xr.Dataset(
        {"mean": (dims, places.unflatten(moments.mean)), "std": (dims, places.unflatten(std))},
        coords={**coords, **places.coords},
        attrs={"observation_std": float(np.sqrt(np.mean(noise)))},
    )

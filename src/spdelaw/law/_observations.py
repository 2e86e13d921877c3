"""Observed data under a law: what it sees of them, and results as labelled fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.data import Here, Observed, observe, on_clock
from spdelaw.domain import Places
from spdelaw.equation import Linear
from spdelaw.errors import DataError
from spdelaw.law._rest import same_points
from spdelaw.law._states import batches
from spdelaw.law._user_units import response
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


def entered(law: Law, data: Any) -> Observed:
    """Data as a law takes them, canonical, prepared and on its clock; lazy ones stay so."""
    own = observe(data, law.domain, law.preparation)
    fields = on_clock(own.fields, law.info.get("time", {}))
    return own if fields is own.fields else own.holding(fields)


def undriven(law: Law, data: Any) -> Observed:
    """The same less the mean of the law and its response to a forcing."""
    own = entered(law, data)
    if own.is_lazy and isinstance(law.dynamics, Linear) and law.dynamics.is_driven:
        return own._replace(survey=None).holding(_undriven_lazily(law, own))
    driven = response(law, own.times, own.points)
    return own if driven is None else own.less(driven)


def _undriven_lazily(law: Law, own: Observed) -> xr.DataArray:
    """Lazy fields less mean and response, which are as large as they are, block by block."""
    times, points = own.times, own.points

    def less(block: Array, block_info: Any = None) -> Array:
        _, rows, space = (slice(*where) for where in block_info[0]["array-location"])
        return block - response(law, times[rows], points[space])

    lazy = own.values.map_blocks(less, dtype=float, meta=np.zeros((0, 0, 0)))
    return own.fields.copy(data=lazy)


def started(law: Law, own: Observed, lazy: bool = False) -> Observed:
    """The same in memory, from the law's first time on: its initial state belongs to that.

    ``lazy``: values of one long record stay so, for passes that go chunk by chunk.
    """
    own = (own.surveyed() if lazy else own.in_memory()).starting(float(law.times[0]))
    n_times = own.times.shape[-1]
    if n_times < 2:
        fix = "pass the history from its first time on"
        raise DataError("time", expected="at least two times", got=f"{n_times}", fix=fix)
    return own


def seen_by(law: Law, data: Any) -> Observed:
    """Data as the state space of a law explains them."""
    return started(law, undriven(law, data))


def target(
    law: Law, own: Observed, grid: Any, by_any: Array | None = None
) -> tuple[Observed, Places]:
    """The data at the points that they see, and the points at which results are wanted.

    By default those that these data or the data of the law see: results are NaN at others, such as
    land. A prediction there is asked for by ``grid=``. ``by_any`` are the points (M,) that are seen
    by data of which these are a part.
    """
    seen = own.seen_points()
    data = own if seen.all() or not seen.any() else own.at_points(seen)
    if grid is not None:
        return data, law.domain.places(grid)
    return data, shown_places(law, own.places, seen if by_any is None else by_any)


def shown_places(law: Law, places: Places, seen: Array) -> Places:
    """Places that these data see, (M,), or those of the law."""
    if seen.all():
        return places
    known = seen | (same_points(law.points, places.points) < len(law.points))
    return places if known.all() else places.only(known)


def weights_of(law: Law, own: Observed) -> Array | None:
    """Precision per point (M,) where the noise was learned point by point, or of each value.

    The latter, (P, T, M), where each came with its own standard deviation. None where there is one
    noise for all.
    """
    if law.info.get("observation_noise") == VALUE_NOISE and own.std is not None:
        return np.nan_to_num(1.0 / (own.std**2 + law.unresolved_variance), nan=1.0)
    return point_weights(law, own.points)


def variance_floor(law: Law, own: Observed) -> float:
    """Least observation variance with which the filter keeps its digits; weights have it."""
    return floor_of(*value_sums(own.values, law.dynamics.n_modes))


def value_sums(values: Any, n_modes: int) -> Array:
    """Sum of squares and number of values, and rows that have fewer of them than modes; (3,)."""
    known = ~np.isnan(values)
    n_seen, filled = known.sum(-1), np.where(known, values, 0.0)
    square = np.vdot(filled, filled) if isinstance(values, np.ndarray) else (filled**2).sum()
    few = ((n_seen > 0) & (n_seen < n_modes)).sum()
    return np.array([float(square), float(n_seen.sum()), float(few)])


def floor_of(square: float, n_values: float, few: float) -> float:
    """The same from `value_sums`; without any value all variances are alike."""
    return VARIANCE_FLOOR * (FEW_POINTS if few else 1.0) * (square / n_values if n_values else 1.0)


def blocks_of(law: Law, own: Observed, weights: Array | None) -> Iterable[Block]:
    """Collapsed paths; a lazy record is collapsed chunk by chunk."""
    basis = modes_at(law, own.places)
    if not own.is_lazy:
        return batches(own.values, own.times, basis, weights)
    return collapse_pieces(own.pieces(), own.times, basis, Here(), weights).blocks


def modes_at(law: Law, places: Places) -> Array:
    """All modes of a law at some places; (M, N)."""
    return law.domain.eigenfunctions(places.points, law.dynamics.n_modes)


def noisy_state_space(law: Law, own: Observed) -> StateSpace:
    """The law without its forcing; all that the modes leave over is observation noise."""
    r: Any = 1.0
    if weights_of(law, own) is None:
        noise = float(law.observation_variance) + law.unresolved_variance
        r = max(noise, variance_floor(law, own))
        if r == 0.0:  # all that was seen is zero
            r = VARIANCE_FLOOR * _size(law)
    return law.bare.state_space._replace(observation_variance=np.asarray(r))


def _size(law: Law) -> float:
    """Mean square of the states after the span of the data, from a few draws."""
    states = np.repeat(law.initial.mean[None], 8, axis=0)
    span, generator = float(law.times[-1] - law.times[0]), np.random.default_rng(0)
    later = law.dynamics.sample(states, float(law.times[0]), span, generator)
    return float(np.mean(later**2))


def point_weights(law: Law, points: Array) -> Array | None:
    """Precision per point, where the noise was learned point by point."""
    r = law.observation_variance
    if r.ndim == 0:
        return None
    at = same_points(law.points, points)
    if (at == len(r)).any():
        expected = f"some of the {len(r)} points the noise was learned at"
        fix = "use the same grid, or fit one noise for all points"
        raise DataError("points", expected=expected, got=f"{len(points)} points", fix=fix)
    return 1.0 / (r[at] + law.unresolved_variance)


def noise_at(law: Law, points: Array) -> Array:
    """Variance of a value about the field at some points: what ``std`` of results leaves out.

    One number, or one per point; NaN at points where a noise of each point was not learned.
    """
    if law.rest is not None:
        return law.rest.at(law.points, points).white
    r = law.observation_variance
    return r if r.ndim == 0 else np.append(r, np.nan)[same_points(law.points, points)]


def moments_dataset(
    law: Law, mean: Array, variance: Array, places: Places, coords: dict[str, Any]
) -> xr.Dataset:
    """``mean`` and ``std``; what the modes leave over adds to the deviation.

    ``observation_std`` is that of a new value about the field.
    """
    dims = ("path", "time", *places.dims)
    std = np.sqrt(variance + (law.unresolved_variance if law.rest is None else 0.0))
    noise = law.observation_variance if law.rest is None else noise_at(law, places.points)
    return xr.Dataset(
        {"mean": (dims, places.unflatten(mean)), "std": (dims, places.unflatten(std))},
        coords={**coords, **places.coords},
        attrs={"observation_std": float(np.sqrt(np.mean(noise)))},
    )

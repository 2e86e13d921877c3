"""New paths of a law, paths reconstructed through gaps and noise, and forecasts."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.checks import whole
from spdelaw.domain import Places
from spdelaw.equation import Linear, check_times
from spdelaw.errors import ConvergenceError, InputError
from spdelaw.law._clock import extended_clocks, own_rows
from spdelaw.law._lazy import by_paths, in_paths
from spdelaw.law._lazy_times import by_times, in_parts
from spdelaw.law._observations import (
    Observations,
    clock_coords,
    modes_at,
    moments_dataset,
    noisy_state_space,
    observe,
    point_weights,
    target,
    without_unseen,
)
from spdelaw.law._rest import draw_rest, on_points, smooth_rest
from spdelaw.law._states import FieldMoments, draw_fields, draw_paths, smooth_fields
from spdelaw.law._user_units import to_clock, to_user, wanted_times
from spdelaw.model import StateSpace
from spdelaw.simulation import simulate

if TYPE_CHECKING:
    from spdelaw.law._law import Law

Array = np.ndarray


def sample(
    law: Law,
    n_paths: int,
    times: Any,
    grid: Any,
    seed: int,
    observation_noise: bool,
    chunks: int | None = None,
) -> xr.DataArray:
    """New paths in the user's units; see `spdelaw.Law.sample`."""
    points = law.points if grid is None else grid
    given, times = times, to_clock(law, times)
    std = np.sqrt(law.observation_variance) if observation_noise else np.zeros(())
    bare = law.bare  # the response to a forcing is added on the way out
    linear, white = isinstance(law.dynamics, Linear), float(std) if std.ndim == 0 else 0.0
    if chunks is not None and (std.ndim or not linear):
        expected, fix = "None: such a law draws in memory", "leave it out"
        raise InputError("chunks", expected=expected, got=repr(chunks), fix=fix)
    if linear:
        result = simulate(
            bare.equation, n_paths, times, points, seed=seed, observation_std=white, chunks=chunks
        )
    else:
        result = _other_paths(bare, n_paths, times, points, seed)
    if std.ndim or not linear:
        result = _with_noise(law, result, points, std, seed)
    named = to_user(law, result.to_dataset(name="field"), given)["field"]
    return named.rename(law.info.get("labels", {}).get("name", "field"))


def _with_noise(law: Law, fields: xr.DataArray, points: Any, std: Array, seed: int) -> xr.DataArray:
    if not std.any():
        return fields
    places = law.domain.places(points)
    point_weights(law, len(places.points))  # noise per point: only where it was learned
    own = places.unflatten(np.broadcast_to(std, len(places.points)))
    return fields + own * np.random.default_rng([seed, 1]).standard_normal(fields.shape)


def _other_paths(law: Law, n_paths: int, times: Any, points: Any, seed: int) -> xr.DataArray:
    t = law.times if times is None else check_times(times)
    _check_not_before(law, t)
    places = law.domain.places(points)
    n, seed, start = whole("n_paths", n_paths, 1), whole("seed", seed, 0), float(law.times[0])
    states = draw_paths(law.state_space, start, t, n, seed)
    check_finite(states)
    values = places.unflatten(states @ modes_at(law, places).T)
    coords = {"path": np.arange(n_paths), "time": t, **places.coords}
    return xr.DataArray(values, coords, ("path", "time", *places.dims))


def reconstruct(law: Law, data: Any, grid: Any) -> xr.Dataset:
    """Smoothed fields; see `spdelaw.Law.reconstruct`."""
    if in_paths(data):
        return by_paths(functools.partial(reconstruct, law, grid=grid), data)
    if in_parts(law, data):
        return by_times(law, data, grid, functools.partial(reconstruct, law, grid=grid))
    own = observe(law, data)
    places, out_basis = target(law, own, grid)
    space = noisy_state_space(law, own)
    moments = _moments(law, own, space, places, out_basis)
    rows, every = own_rows(own.fields, own.times), np.arange(moments.mean.shape[1])
    if rows.shape[1] != len(every) or not (rows == every).all():
        rows = rows[:, :, None]
        moments = FieldMoments(*(np.take_along_axis(part, rows, axis=1) for part in moments))
    result = moments_dataset(law, moments, places, clock_coords(own.fields))
    if grid is None:
        result = without_unseen(law, own, result)
    return to_user(law, result, data, own.fields if grid is None else None)


def forecast(
    law: Law, history: Any, times: Any, steps: int | None, n_samples: int, seed: int, grid: Any
) -> xr.Dataset:
    """Fields at further times; see `spdelaw.Law.forecast`."""
    if in_paths(history) and not n_samples:
        asked = {"times": times, "steps": steps, "n_samples": 0, "seed": seed, "grid": grid}
        return by_paths(functools.partial(forecast, law, **asked), history)
    own = observe(law, history)
    wanted = check_times(wanted_times(law, own.fields, times, steps))
    _check_not_before(law, wanted, float(own.times.min()))
    n_samples = whole("n_samples", n_samples, 0)
    places, out_basis = target(law, own, grid)
    space, generator = noisy_state_space(law, own), np.random.default_rng(seed)
    means, variances, draws = [], [], []
    for data, at in _extended(own, wanted):
        given = (law, data, space, places, out_basis)
        moments = _moments(*given)
        means.append(moments.mean[:, at])
        variances.append(moments.variance[:, at])
        if n_samples:
            draws.append(_draws(*given, n_samples, generator)[:, :, at])
            check_finite(draws[-1])
    coords = {"path": own.fields["path"].values, "time": wanted}
    moments = FieldMoments(np.concatenate(means), np.concatenate(variances))
    result = moments_dataset(law, moments, places, coords)
    if n_samples:
        dims = ("draw", "path", "time", *places.dims)
        result["sample"] = (dims, places.unflatten(np.concatenate(draws, axis=1)))
    if grid is None:
        result = without_unseen(law, own, result)
    like = history if times is None else times
    return to_user(law, result, like, own.fields if grid is None else None)


def _extended(own: Observations, wanted: Array) -> Iterator[tuple[Observations, Array]]:
    """The data on clocks that have the wanted times, and where on them these are."""
    weights = None
    if own.weights is not None and own.weights.ndim > 1:
        extended = extended_clocks(own.times, wanted, own.weights)
        weights = [np.nan_to_num(part, nan=1.0) for _, part, _ in extended]
    for i, (clock, values, at) in enumerate(extended_clocks(own.times, wanted, own.values)):
        data = own._replace(values=values, times=clock)
        yield (data if weights is None else data._replace(weights=weights[i])), at


def _moments(
    law: Law, own: Observations, space: StateSpace, places: Places, out_basis: Array
) -> FieldMoments:
    """Moments of modes and rest on a clock; what the white rest adds is added later.

    Where a value was seen, an error of the modes is one of the rest with the other sign, up to
    the weight of that value: their sum has ``(1 - weight)^2`` of the modes' variance.
    """
    seen = own.values, own.times, own.basis, space
    more = own.weights, law.domain.products(own.places.points, own.basis.shape[1])
    if law.rest is None:
        return smooth_fields(*seen, out_basis, *more)
    both, here, out = _stacked(own, out_basis)
    mean, variance = smooth_fields(*seen, both, *more)
    rest = law.rest.at(law.points, own.places.points)
    found = smooth_rest(own.values - mean[..., here], own.times, rest)
    there = law.rest.at(law.points, places.points).variance
    between = (own.places.points, places.points)
    z, weight = (on_points(part, *between, 0.0) for part in (found.mean, found.weight))
    p = on_points(found.variance, *between, there)
    return FieldMoments(mean[..., out] + z, variance[..., out] * (1.0 - weight) ** 2 + p)


def _draws(
    law: Law,
    own: Observations,
    space: StateSpace,
    places: Places,
    out_basis: Array,
    n_samples: int,
    generator: np.random.Generator,
) -> Array:
    """Joint draws on a clock: of the modes and, given each of them, of the rest."""
    given = (own.values, own.times, own.basis, space)
    if law.rest is None:
        return draw_fields(*given, out_basis, own.weights, n_samples, generator)
    both, here, out = _stacked(own, out_basis)
    drawn = draw_fields(*given, both, own.weights, n_samples, generator)
    rest = law.rest.at(law.points, own.places.points)
    for i, modes in enumerate(drawn):
        z = draw_rest(own.values - modes[..., here], own.times, rest, generator)
        drawn[i][..., out] += on_points(z, own.places.points, places.points, 0.0)
    return drawn[..., out]


def _stacked(own: Observations, out_basis: Array) -> tuple[Array, slice, slice]:
    """Modes at the points of the data and at those of the result, and where both are."""
    n = len(own.basis)
    if out_basis is own.basis:
        return own.basis, slice(n), slice(n)
    return np.vstack([own.basis, out_basis]), slice(n), slice(n, None)


def check_finite(states: Array) -> None:
    """Refuse paths that ran away."""
    if not np.isfinite(states).all():
        got = "a drift that runs away from where they are"
        fix = "ask for shorter times, or fit a term that pulls back, such as u^3"
        raise ConvergenceError("law", expected="paths that stay finite", got=got, fix=fix)


def _check_not_before(law: Law, times: Array, first: float | None = None) -> None:
    first = float(law.times[0]) if first is None else first
    if times[0] < first:
        expected, fix = f"times from the law's first, {first:g}, on", "it does not run backwards"
        raise InputError("times", expected=expected, got=f"{times[0]:g}", fix=fix)

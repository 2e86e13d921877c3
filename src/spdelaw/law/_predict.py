"""New paths of a law, paths reconstructed through gaps and noise, and forecasts."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.checks import whole
from spdelaw.data import Observed, extended_clocks, has_dates
from spdelaw.domain import Places
from spdelaw.equation import Linear, check_times
from spdelaw.errors import ConvergenceError, InputError
from spdelaw.law._lazy import by_paths, in_paths, seen_by_any
from spdelaw.law._lazy_times import in_parts, moments_of_record
from spdelaw.law._observations import (
    clock_coords,
    modes_at,
    moments_dataset,
    noisy_state_space,
    point_weights,
    started,
    target,
    undriven,
    weights_of,
)
from spdelaw.law._rest import draw_rest, on_points, same_points, smooth_rest
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
    dated, times = has_dates(times), to_clock(law, times)
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
    named = to_user(law, result.to_dataset(name="field"), dated)["field"]
    return named.rename(law.info.get("labels", {}).get("name", "field"))


def _with_noise(law: Law, fields: xr.DataArray, points: Any, std: Array, seed: int) -> xr.DataArray:
    if not std.any():
        return fields
    places = law.domain.places(points)
    if std.ndim:  # noise per point: only where it was learned
        point_weights(law, places.points)
        std = std[same_points(law.points, places.points)]
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
    own = undriven(law, data)
    if in_paths(own):
        return by_paths(
            functools.partial(_reconstructed, law, grid), own, seen_by_any(law, own, grid)
        )
    if in_parts(law, own):
        return moments_of_record(law, own, grid, own.dated)
    return _reconstructed(law, grid, own)


def _reconstructed(law: Law, grid: Any, data: Observed, by_any: Array | None = None) -> xr.Dataset:
    """The same in memory; ``by_any`` are points that any path of a larger data set sees."""
    own = started(law, data)
    seen, places = target(law, own, grid, by_any)
    space = noisy_state_space(law, seen)
    moments = _moments(law, seen, space, places, _modes(law, seen, places))
    if own.values.shape[1] != own.fields.sizes["time"]:
        rows = own.rows[:, :, None]
        moments = FieldMoments(*(np.take_along_axis(part, rows, axis=1) for part in moments))
    result = moments_dataset(law, moments, places, clock_coords(own))
    return to_user(law, result, own.dated, own.fields if grid is None else None)


def forecast(
    law: Law, history: Any, times: Any, steps: int | None, n_samples: int, seed: int, grid: Any
) -> xr.Dataset:
    """Fields at further times; see `spdelaw.Law.forecast`."""
    own = undriven(law, history)
    asked = (law, times, steps, n_samples, seed, grid)
    if in_paths(own) and not n_samples:
        shared = seen_by_any(law, own, grid)
        return by_paths(functools.partial(_forecast, *asked), own, shared)
    if in_parts(law, own) and not n_samples:
        wanted = check_times(wanted_times(law, own.fields, times, steps))
        if wanted[0] > own.times[-1]:
            dated = own.dated if times is None else has_dates(times)
            return moments_of_record(law, own, grid, dated, wanted)
    return _forecast(*asked, own)


def _forecast(
    law: Law, times: Any, steps: int | None, n_samples: int, seed: int, grid: Any, data: Observed,
    by_any: Array | None = None,
) -> xr.Dataset:  # fmt: skip
    """The same in memory; ``by_any`` are points that any path of a larger data set sees."""
    own = started(law, data)
    wanted = check_times(wanted_times(law, own.fields, times, steps))
    _check_not_before(law, wanted, float(own.times.min()))
    n_samples = whole("n_samples", n_samples, 0)
    seen, places = target(law, own, grid, by_any)
    space, generator = noisy_state_space(law, seen), np.random.default_rng(seed)
    modes = _modes(law, seen, places)
    means, variances, draws = [], [], []
    for part, at in _extended(seen, wanted):
        given = (law, part, space, places, modes)
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
    dated = own.dated if times is None else has_dates(times)
    return to_user(law, result, dated, own.fields if grid is None else None)


def _modes(law: Law, own: Observed, places: Places) -> tuple[Array, Array]:
    """Modes at the points of the data and at those of the result; one array where they are one."""
    basis = modes_at(law, own.places)
    same = np.array_equal(places.points, own.points)
    return basis, basis if same else modes_at(law, places)


def _extended(own: Observed, wanted: Array) -> Iterator[tuple[Observed, Array]]:
    """The data on clocks that have the wanted times, and where on them these are."""
    clocks = extended_clocks(own.times, wanted, own.values)
    if own.std is None:
        yield from ((own._replace(values=values, times=clock), at) for clock, values, at in clocks)
        return
    noise = extended_clocks(own.times, wanted, own.std)
    for (clock, values, at), (_, std, _) in zip(clocks, noise, strict=True):
        yield own._replace(values=values, times=clock, std=std), at


def _moments(
    law: Law, own: Observed, space: StateSpace, places: Places, modes: tuple[Array, Array]
) -> FieldMoments:
    """Moments of modes and rest on a clock; what the white rest adds is added later.

    Where a value was seen, an error of the modes is one of the rest with the other sign, up to
    the weight of that value: their sum has ``(1 - weight)^2`` of the modes' variance.
    """
    given = own.values, own.times, modes[0], space
    more = weights_of(law, own), own.products(modes[0].shape[1])
    if law.rest is None:
        return smooth_fields(*given, modes[1], *more)
    both, here, out = _stacked(*modes)
    mean, variance = smooth_fields(*given, both, *more)
    rest = law.rest.at(law.points, own.points)
    found = smooth_rest(own.values - mean[..., here], own.times, rest)
    there = law.rest.at(law.points, places.points).variance
    between = (own.points, places.points)
    z, weight = (on_points(part, *between, 0.0) for part in (found.mean, found.weight))
    p = on_points(found.variance, *between, there)
    return FieldMoments(mean[..., out] + z, variance[..., out] * (1.0 - weight) ** 2 + p)


def _draws(
    law: Law,
    own: Observed,
    space: StateSpace,
    places: Places,
    modes: tuple[Array, Array],
    n_samples: int,
    generator: np.random.Generator,
) -> Array:
    """Joint draws on a clock: of the modes and, given each of them, of the rest."""
    given, weights = (own.values, own.times, modes[0], space), weights_of(law, own)
    if law.rest is None:
        return draw_fields(*given, modes[1], weights, n_samples, generator)
    both, here, out = _stacked(*modes)
    drawn = draw_fields(*given, both, weights, n_samples, generator)
    rest = law.rest.at(law.points, own.points)
    for i, fields in enumerate(drawn):
        z = draw_rest(own.values - fields[..., here], own.times, rest, generator)
        drawn[i][..., out] += on_points(z, own.points, places.points, 0.0)
    return drawn[..., out]


def _stacked(basis: Array, out_basis: Array) -> tuple[Array, slice, slice]:
    """Modes at the points of the data and at those of the result, and where both are."""
    n = len(basis)
    if out_basis is basis:
        return basis, slice(n), slice(n)
    return np.vstack([basis, out_basis]), slice(n), slice(n, None)


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

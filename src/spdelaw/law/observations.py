"""Observed data under a law: units, weights, collapsed and smoothed states, labelled results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.checks import whole
from spdelaw.data.clock import from_dates, go_on, has_dates, on_clock, step_of, to_dates
from spdelaw.data.io.sources import columns_of, labelled
from spdelaw.data.observed import Observed, observe
from spdelaw.data.summary import restore_names
from spdelaw.domains.places import Places, places_of_fields
from spdelaw.domains.products import Products
from spdelaw.errors import DataError, InputError
from spdelaw.law.parameters import coordinate_root
from spdelaw.law.residuals import same_points
from spdelaw.processes import operators
from spdelaw.processes.linear import Linear
from spdelaw.processes.semilinear import Reacting
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.collapse import Block, collapse
from spdelaw.statespace.condense import collapse_pieces
from spdelaw.statespace.filter import (
    Smoothed,
    forward_filter,
    sample_states,
    smooth_block,
    smooth_states,
    smoother_gain,
)

if TYPE_CHECKING:
    from spdelaw.law.law import Law


# ---------- Units, forcing and clocks of data and results


#: Standard deviations among the variables of results: of a value, and of the noise-free field.
DEVIATIONS = ("std", "std_field")


def to_user(
    law: Law, result: xr.Dataset, dated: bool = False, fields: xr.DataArray | None = None
) -> xr.Dataset:
    """Means, deviations and draws in the units and under the names of the data.

    ``X = offset + scale y`` for values, ``scale y`` for deviations; the mean of the law and the
    response to a forcing are parts of y. Times are dates where ``dated``. ``fields`` are those that
    the results are about, whose stations and members they keep.
    """
    for name, values in result.data_vars.items():
        driven = None if name in DEVIATIONS else _labelled_response(law, values)
        if driven is not None:
            result[name] = (values + driven).transpose(*values.dims)
    return restore_names(_to_data_units(law, result, dated), law.info.get("labels", {}), fields)


def _to_data_units(law: Law, result: xr.Dataset, dated: bool) -> xr.Dataset:
    if "path_time" in result.coords:  # the dim time merely counts
        return result
    clock = law.info.get("time", {})
    time = result["time"]
    if law.preparation is not None and law.preparation.how.is_affine:
        places = places_of_fields(next(iter(result.data_vars.values())), law.domain.dims)
        offset, scale, error = law.preparation.affine_anywhere(
            time.values, places.points, law.domain.dims
        )
        by_point = xr.DataArray(places.unflatten(scale), dims=places.dims)
        by_time, of_offset = (
            xr.DataArray(places.unflatten(x), dims=("time", *places.dims)) for x in (offset, error)
        )
        for name in result.data_vars:
            values = result[name] * by_point
            if name not in DEVIATIONS:
                values = values + by_time
            elif error.any():
                values = (values**2 + of_offset**2) ** 0.5
            result[name] = values.transpose(*result[name].dims)
    if dated:
        dates = to_dates(time.values, clock)
        return result.assign_coords(time=("time", dates, {"standard_name": "time"}))
    return result.assign_coords(time=("time", time.values, {**time.attrs, **clock}))


def _labelled_response(law: Law, fields: xr.DataArray) -> xr.DataArray | None:
    """`response` at the places of labelled fields."""
    places, time = law.domain.places(fields), fields.coords.get("path_time", fields["time"])
    driven = response(law, time.values, places.points)
    if driven is None:
        return None
    dims = (*time.dims, *places.dims)[-places.unflatten(driven).ndim :]
    return xr.DataArray(places.unflatten(driven), dims=dims)


def response(law: Law, times: np.ndarray, points: np.ndarray) -> np.ndarray | None:
    """Mean and response to a forcing, ``sum_n m_n(t) h_n(x)``, at times (T,) or (P, T) and points.

    With the part of a known mean outside the modes. A mean alone is (M,), a response (..., T, M).
    None without any of these.
    """
    dynamics, offset = law.dynamics, law.offset
    if offset is not None:  # zero where the data were not, so that the modes alone have it
        offset = np.append(offset, 0.0)[same_points(law.points, points)]
    if not isinstance(dynamics, Linear) or not dynamics.is_driven:
        return offset
    if dynamics.forcing is None:
        times = np.array(dynamics.origin)  # a mean is the same at all times
    when = np.where(np.isnan(times), dynamics.origin, times)  # padding of shorter paths
    basis = law.domain.eigenfunctions(points, dynamics.n_modes)
    return dynamics.response(when) @ basis.T + (0.0 if offset is None else offset)


def to_clock(law: Law, times: Any) -> Any:
    """Dates as numbers on the clock of the law; anything else as it is."""
    clock = law.info.get("time", {})
    if isinstance(times, xr.Dataset):
        raise InputError("times", expected="times", got="a Dataset", fix="pass dataset['time']")
    values = np.asarray(times)
    dated = " since " in str(clock.get("units", ""))
    is_text = dated and values.dtype.kind in "UT"  # such as "2011-03-15"
    return from_dates(values, clock) if is_text or has_dates(times) else times


def forecast_times(law: Law, fields: xr.DataArray, times: Any, steps: int | None) -> Any:
    """Times of a forecast: those given, or the next steps of the record that ``fields`` are.

    A lone number is refused where the record has dates: it might mean steps, days or a date.
    """
    if (times is None) == (steps is None):
        got = "neither" if times is None else "both"
        fix = "pass steps=6, or at= with the dates or numbers you want"
        raise InputError("at", expected="either times or steps", got=got, fix=fix)
    clock = law.info.get("time", {})
    if steps is None:
        dated = " since " in str(clock.get("units", ""))
        if dated and np.ndim(times) == 0 and np.asarray(times).dtype.kind in "iuf":
            expected = "dates, or a list of numbers on the clock of the data"
            fix = f"pass steps={times:g} for the next {times:g} times"
            raise InputError("at", expected=expected, got=f"{times}", fix=fix)
        return to_clock(law, times)
    return next_times(law, fields, whole("steps", steps, 1))


def next_times(law: Law, fields: xr.DataArray, steps: int) -> np.ndarray:
    """The next times of prepared fields on the clock of the law, by the step of the record.

    Where one record is too short to have a step, by that of the data the law was learned from.
    With clocks of each path's own, the path that ends last is the record.
    """
    times = np.atleast_2d(fields.coords.get("path_time", fields["time"]).values)
    last = times[int(np.nanargmax(np.nanmax(times, axis=1)))]
    last, clock = last[np.isfinite(last)], law.info.get("time", {})
    step = step_of(last if len(last) > 1 else law.times, clock)
    return go_on(float(last[-1]), step, clock, steps)


# ---------- Collapsed, smoothed and drawn states of new data
#
# Linear dynamics go through the exact chain over all times at once. Any other dynamics go through
# the forward filter and the backward smoother path by path, and their draws through
# ``Dynamics.sample``.


Array = np.ndarray

#: Paths smoothed at once: covariances of one batch stay in memory together.
BATCH_PATHS = 64
#: Members of the ensemble that forecasts a law with nonlinear terms.
ENSEMBLE = 100
#: Bytes of their Gram matrices, where each path has gaps of its own.
BATCH_BYTES = 400e6
#: Bytes of a table of products of modes.
PAIR_BYTES = 8e6
#: Paths that share one random stream, so that the first never depend on how many follow.
PATHS_PER_STREAM = 16


class FieldMoments(NamedTuple):
    """Mean and variance of the modelled field, each (P, T, M), and draws, (n, P, T, M)."""

    mean: Array
    variance: Array
    draws: Array


def batches(
    values: Array,
    times: Array,
    basis: Array,
    weights: Array | None,
    products: Products | None = None,
    *,
    fitted: bool = True,
) -> Iterator[Block]:
    """Collapsed blocks of at most `BATCH_PATHS` paths; ``paths`` index the whole.

    ``fitted`` as in `spdelaw.statespace.collapse.collapse`.
    """
    per_path = 8.0 * values.shape[1] * basis.shape[1] ** 2
    step = int(np.clip(BATCH_BYTES / per_path, 1, BATCH_PATHS))
    for start in range(0, len(values), step):
        some = slice(start, start + step)
        clocks = times if times.ndim == 1 else times[some]
        precision = weights[some] if weights is not None and weights.ndim > 1 else weights
        collapsed = collapse(values[some], clocks, basis, precision, products, fitted=fitted)
        for block in collapsed.blocks:
            yield block._replace(paths=block.paths + start)


def smooth_fields(
    values: Array,
    times: Array,
    basis: Array,
    space: StateSpace,
    out_basis: Array,
    weights: Array | None = None,
    products: Products | None = None,
    n_samples: int = 0,
    generator: Any = None,
    *,
    has_variance: bool = True,
) -> FieldMoments:
    """Posterior moments of ``out_basis c_t`` for every path and time, and draws of it.

    Variances take most of the time; without ``has_variance`` there are none.
    """
    linear = isinstance(space.dynamics, Linear)
    smooth, draw = (smooth_states, sample_states) if linear else (_smooth_block, _sample_states)
    shape = (len(values), values.shape[1], len(out_basis))
    variance = np.empty(shape if has_variance else 0)
    moments = FieldMoments(np.empty(shape), variance, np.empty((n_samples, *shape)))
    for block in batches(values, times, basis, weights, products, fitted=not linear):
        write_moments(smooth(block, space), out_basis, block.paths, *moments[:2])
        if n_samples:
            states = draw(block, space, n_samples, generator)
            moments.draws[:, block.paths] = states.transpose(0, 3, 1, 2) @ out_basis.T
    return moments


def write_moments(
    states: Smoothed, basis: Array, paths: Array, mean: Array, variance: Array
) -> None:
    """Moments of ``Phi c_t`` into some paths of ``mean`` and ``variance``, if any, (P, T, M) each.

    ``diag(Phi C Phi') = sum_ij C_ij phi_i phi_j`` with a symmetric C: a product with the table of
    pairs ``i >= j`` does half the work of ``Phi C Phi'``, all of it in one call of BLAS. Few points
    at a time keep the table small.
    """
    for p, path in enumerate(paths):
        np.matmul(states.mean[..., p], basis.T, out=mean[path])
    if not variance.size:
        return
    covariance, n = states.covariance, basis.shape[1]
    i, j = np.tril_indices(n) if covariance.ndim == 4 else (np.arange(n),) * 2
    rows = covariance[:, i, j] if covariance.ndim == 4 else covariance
    twice = np.where(i == j, 1.0, 2.0)
    step = max(1, int(PAIR_BYTES / (8 * len(i))))
    for first in range(0, len(basis), step):
        some = basis[first : first + step]
        pairs = some[:, i] * some[:, j] * twice
        for b in range(rows.shape[-1]):
            one, *others = paths if rows.shape[-1] == 1 else paths[b : b + 1]
            block_variance = variance[one, :, first : first + step]
            np.matmul(rows[..., b], pairs.T, out=block_variance)
            variance[others, :, first : first + step] = np.maximum(
                block_variance, 0.0, out=block_variance
            )


class _PairedNormals:
    """Normal numbers (..., member, path, n) in pairs of opposite sign, which all paths share.

    So a forecast is that of its path alone, and its mean has no error where the drift is linear.
    """

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)

    def standard_normal(self, size: tuple[int, ...]) -> Array:
        """Numbers of that shape."""
        z = self.generator.standard_normal((*size[:-3], size[-3] // 2, 1, size[-1]))
        return np.broadcast_to(np.concatenate([z, -z], axis=-3), size)


def _smooth_block(block: Block, space: StateSpace) -> Smoothed:
    """`smooth_block`, with the moments of an ensemble after the last observation of each path.

    There the Gaussian closure of a nonlinear drift is too narrow: it follows one well of several.
    From where a member of a path diverges, the path keeps the closure.
    """
    smoothed = smooth_block(block, space)
    if not (isinstance(space.dynamics, Reacting) and space.dynamics.is_nonlinear):
        return smoothed
    n_paths, n_rows = len(block.paths), len(block.times)
    clocks = np.broadcast_to(block.times, (n_rows, n_paths))
    has_values = np.broadcast_to(block.matrices.any((-1, -2)), (n_rows, n_paths))
    last = n_rows - 1 - has_values[::-1].argmax(0)
    last[~has_values.any(0)] = 0
    ends, which = np.unique(np.vstack([last, clocks]), axis=1, return_inverse=True)
    for k, (first, *clock) in enumerate(ends.T):
        row, paths = int(first), np.flatnonzero(which.ravel() == k)
        normals = _PairedNormals()
        start = np.moveaxis(smoothed.covariance[row][..., paths], -1, 0)
        z = normals.standard_normal((ENSEMBLE, len(paths), space.n_modes))
        states = smoothed.mean[row][:, paths].T
        states = states + np.einsum("pij,mpj->mpi", operators.root(start), z)
        for t in range(row + 1, n_rows):
            dt = float(clock[t] - clock[t - 1])
            states = space.dynamics.sample(states, float(clock[t - 1]), dt, normals)  # type: ignore[arg-type]
            is_finite = np.isfinite(states).all((0, 2))
            members, kept = states[:, is_finite], paths[is_finite]
            mean = members.mean(0)
            away = members - mean
            spread = np.einsum("mpi,mpj->ijp", away, away, optimize=True) / (ENSEMBLE - 1)
            smoothed.mean[t][:, kept] = mean.T
            smoothed.covariance[t][..., kept] = spread
    return smoothed


def _sample_states(
    block: Block, space: StateSpace, n_samples: int, generator: np.random.Generator
) -> Array:
    """Draws of the states of any dynamics given a block; (n_samples, T, N, P).

    Backwards from the last observed row by the Gaussian closure,
    ``c_t | c_{t+1} ~ N(m_t + J (c_{t+1} - m^-_{t+1}), P_t - J P^-_{t+1} J')``, and on from there by
    the dynamics themselves.
    """
    n_times, n_modes = block.estimate.shape[:2]
    out = np.empty((n_samples, n_times, n_modes, len(block.paths)))
    filtered = forward_filter(block, space)
    gains = [smoother_gain(step) for step in filtered.steps]
    for path in range(len(block.paths)):
        times = block.times[:, path % block.times.shape[1]]
        has_values = block.gram[..., path % block.gram.shape[-1]].reshape(n_times, -1).any(1)
        last = int(np.flatnonzero(has_values)[-1]) if has_values.any() else 0
        states = out[..., path]
        mean, covariance = filtered.mean[last, path], filtered.covariance[last, path]
        states[:, last] = mean + _draw_gaussian(covariance, n_samples, generator)
        for t in range(last - 1, -1, -1):
            step, gain = filtered.steps[t], gains[t][path]
            left = filtered.covariance[t, path] - gain @ step.covariance[path] @ gain.T
            mean = filtered.mean[t, path] + (states[:, t + 1] - step.mean[path]) @ gain.T
            states[:, t] = mean + _draw_gaussian(left, n_samples, generator)
        for t in range(last + 1, n_times):
            dt = float(times[t] - times[t - 1])
            states[:, t] = space.dynamics.sample(
                states[:, t - 1], float(times[t - 1]), dt, generator
            )
    return out


def draw_paths(space: StateSpace, start: float, times: Array, n_paths: int, seed: int) -> Array:
    """New paths of any dynamics that have the initial state at ``start``; (n_paths, T, N)."""
    out = np.empty((n_paths, len(times), space.n_modes))
    for first in range(0, n_paths, PATHS_PER_STREAM):
        key = np.random.SeedSequence(seed, spawn_key=(first // PATHS_PER_STREAM,))
        generator = np.random.default_rng(key)
        state = space.initial.mean + _draw_gaussian(
            space.initial.covariance, PATHS_PER_STREAM, generator
        )
        now = start
        for i, t in enumerate(map(float, times)):
            if t > now:
                state = space.dynamics.sample(state, now, t - now, generator)
            out[first : first + PATHS_PER_STREAM, i], now = state[: n_paths - first], t
    return out


def _draw_gaussian(covariance: Array, n: int, generator: np.random.Generator) -> Array:
    """Draws of N(0, covariance); (n, N)."""
    z = generator.standard_normal((n, len(covariance)))
    return operators.apply(operators.root(covariance), z)


# ---------- Observed data under a law, and results as labelled fields


#: Entry ``law.info["observation_noise"]`` where each value has its own standard deviation.
VALUE_NOISE = "known per value"
#: Least observation variance of the filter, relative to the variance of the field.
VARIANCE_FLOOR = 1e-10
#: The floor is that many times larger where rows observe fewer points than there are modes: the
#: directions of the state that such rows do not determine lose their digits.
FEW_POINTS_FACTOR = 100.0


def prepare_for_law(law: Law, data: Any, **adapter: Any) -> Observed:
    """Data in canonical form, prepared as for the law and on its clock; lazy ones stay so."""
    columns = columns_of(law.info.get("labels", {}))
    data, adapter = labelled(data, law.domain.dims, columns, **adapter)
    observed = observe(data, law.domain, law.preparation, **adapter)
    fields = on_clock(observed.fields, law.info.get("time", {}))
    return observed if fields is observed.fields else observed.holding(fields)


def subtract_mean_and_forcing(law: Law, data: Any) -> Observed:
    """Data prepared for the law, less its mean and its response to a forcing."""
    return less_response(law, prepare_for_law(law, data))


def less_response(law: Law, observed: Observed) -> Observed:
    """Prepared data less the mean of the law and its response to a forcing."""
    if observed.is_lazy and isinstance(law.dynamics, Linear) and law.dynamics.is_driven:
        return observed._replace(survey=None).holding(_subtract_lazily(law, observed))
    driven = response(law, observed.times, observed.points)
    return observed if driven is None else observed.less(driven)


def _subtract_lazily(law: Law, observed: Observed) -> xr.DataArray:
    """Lazy fields less mean and response, which are as large as the fields, block by block."""
    times, points = observed.times, observed.points

    def less(block: Array, block_info: Any = None) -> Array:
        _, rows, space = (slice(*where) for where in block_info[0]["array-location"])
        return block - response(law, times[rows], points[space])

    lazy = observed.values.map_blocks(less, dtype=float, meta=np.zeros((0, 0, 0)))
    return observed.fields.copy(data=lazy)


def with_initial_state(law: Law, observed: Observed, lazy: bool = False) -> Observed:
    """The same in memory, from the law's first time on: its initial state belongs to that.

    ``lazy``: values of one long record stay so, for passes that go chunk by chunk.
    """
    observed = (observed.surveyed() if lazy else observed.in_memory()).starting(float(law.times[0]))
    n_times = observed.times.shape[-1]
    if n_times < 2:
        fix = "pass the history from its first time on"
        raise DataError("time", expected="at least two times", got=f"{n_times}", fix=fix)
    return observed


def observed_for_law(law: Law, data: Any) -> Observed:
    """Data as the state space of a law explains them."""
    return with_initial_state(law, subtract_mean_and_forcing(law, data))


def target(
    law: Law, observed: Observed, grid: Any, by_any: Array | None = None
) -> tuple[Observed, Places]:
    """The data at their observed points, and the points of the results.

    By default those that these data or the data of the law observe: results are NaN at others, such
    as land. ``grid=`` requests a prediction there. ``by_any`` are the points (M,) observed by the
    data of which these are a block.
    """
    observed_mask, data = observed.observed_points(), observed
    if observed_mask.any() and not observed_mask.all():
        data = observed.at_points(observed_mask)
    if grid is not None:
        return data, law.domain.places(grid)
    covered = observed_mask if by_any is None else by_any
    if not covered.all():
        covered = covered | (same_points(law.points, observed.points) < len(law.points))
    return data, observed.places if covered.all() else observed.places.only(covered)


def weights_of(law: Law, observed: Observed) -> Array | None:
    """Precision per point (M,) where the noise was learned point by point, or of each value.

    The latter, (P, T, M), where each came with its own standard deviation. None where there is one
    noise for all.
    """
    if law.info.get("observation_noise") == VALUE_NOISE and observed.std is not None:
        return np.nan_to_num(1.0 / (observed.std**2 + law.unresolved_variance), nan=1.0)
    return point_weights(law, observed.points)


def variance_floor(law: Law, observed: Observed) -> float:
    """Least observation variance with which the filter is accurate, without weights."""
    n_modes = law.dynamics.n_modes
    if observed.is_lazy:
        survey = observed.survey or observed.survey_values()
        square, n_values, few = survey.square, survey.size - survey.missing, survey.least < n_modes
    else:
        observed_mask = ~np.isnan(observed.values)
        n_observed = observed_mask.sum(-1)
        filled = np.where(observed_mask, observed.values, 0.0)
        square, n_values = float(np.vdot(filled, filled)), int(n_observed.sum())
        few = bool(((n_observed > 0) & (n_observed < n_modes)).any())
    scale = square / n_values if n_values else 1.0  # arbitrary without any value
    return VARIANCE_FLOOR * (FEW_POINTS_FACTOR if few else 1.0) * scale


def blocks_of(law: Law, observed: Observed, weights: Array | None) -> Iterable[Block]:
    """Collapsed paths; a lazy record is collapsed chunk by chunk."""
    basis = modes_at(law, observed.places)
    if not observed.is_lazy:
        return batches(observed.values, observed.times, basis, weights)
    return collapse_pieces(
        observed.pieces(), observed.times, basis, observed.executor, weights
    ).blocks


def modes_at(law: Law, places: Places) -> Array:
    """All modes of a law at some places; (M, N)."""
    return law.domain.eigenfunctions(places.points, law.dynamics.n_modes)


def noisy_state_space(law: Law, observed: Observed) -> StateSpace:
    """The law without its forcing; the whole residual is observation noise."""
    r: Any = 1.0
    if weights_of(law, observed) is None:
        noise = float(law.observation_variance) + law.unresolved_variance
        r = max(noise, variance_floor(law, observed))
        if r == 0.0:  # all observed values are zero
            r = VARIANCE_FLOOR * _mean_square(law)
    return law.without_preparation_and_mean.state_space._replace(observation_variance=np.asarray(r))


def _mean_square(law: Law) -> float:
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
    """Variance of a value about the noise-free field at some points, one number or one per point.

    Where the law has no noise of its own for a value, it is the mean of those that the law has:
    over the points of the data at a new point, over all values where each came with its own.
    """
    return np.asarray(law.residual.at_points(law.points, points).white)


def times_ahead(has_values: Array, clock: Array, times: Any) -> Array:
    """How long after the last observed row of its path each time is, zero before; (P, T).

    ``has_values`` (P, T) are the observed rows, at the times ``clock``.
    """
    first = np.broadcast_to(clock, has_values.shape)[:, :1]
    last = np.where(has_values, clock, first).max(1, keepdims=True)
    return np.nan_to_num(np.maximum(np.asarray(times) - last, 0.0))  # padding has no time


def spread_factors(law: Law, ahead: Array) -> Array | float:
    """Factors of the variance of values by the time since the last observed one; (P, T, 1).

    The law has them by lead where its forecasts of its data had other errors than their variance,
    and one at all leads for the climatology, which fits its data better than later times.
    """
    spread = law.info.get("forecast_spread")
    if spread is None:
        return 1.0
    factors = spread.get("climatology", 1.0) * np.asarray(spread["factors"])
    return np.interp(ahead, [0.0, *spread["leads"]], [1.0, *factors])[..., None]


def for_training_data(law: Law) -> Law:
    """The law for forecasts within its data, whose anomalies are those of their own climatology."""
    spread = law.info.get("forecast_spread")
    if spread is None:
        return law
    return law.with_info(forecast_spread={**spread, "climatology": 1.0})


class ErrorsByMean(NamedTuple):
    """What errors of the mean do to forecasts over the time h.

    Given the other parameters x the mean m has the covariance C, and follows them by
    ``S = dm/dx``. The data determine the pull ``Lambda (m - c)`` at observed states c better than
    each of its factors, so that errors by x grow from the second order of h on:

        Phi (1 - F) C^(1/2),    Phi (1 - F - h Lambda F) S Cov(x)^(1/2),    F = e^(-Lambda h).

    The second is an expansion in small errors of x. In modes whose rates the data do not determine
    it is limited to the size of the first.

    Attributes:
        by_lead: both side by side, (lead, M, N + free).
        which: lead of each path and time, (P, T).
    """

    by_lead: Array
    which: Array

    @classmethod
    def of(cls, law: Law, basis: Array, ahead: Array) -> ErrorsByMean:
        """At times ``ahead`` (P, T) of the data; zero without an estimated mean."""
        table = law.coordinates
        if table is None or "mean_given" not in table:
            ahead = 0.0 * ahead
        leads, which = np.unique(ahead, return_inverse=True)
        if table is None or not leads.any():
            return cls(np.zeros((1, len(basis), 0)), which.reshape(ahead.shape))
        drift = operators.as_matrix(law.linear.drift)
        factor = law.linear.over(leads, 0.0 * leads).factor
        factor = factor if factor.ndim == 3 else operators.embed(factor)
        left = np.eye(len(drift)) - factor
        by_mean = left @ operators.root(table["mean_given"].values)
        if "mean_slopes" in table:
            follows = table["mean_slopes"].values @ coordinate_root(table["covariance"].values)
            by_others = (left - leads[:, None, None] * drift @ factor) @ follows
            by_mean = np.concatenate([by_mean, _no_larger(by_others, by_mean)], -1)
        return cls(basis @ by_mean, which.reshape(ahead.shape))

    @property
    def variance(self) -> Array:
        """Variance that they add; (P, T, M)."""
        return np.asarray((self.by_lead**2).sum(-1)[self.which])

    def draw(self, generator: np.random.Generator) -> Array:
        """One error of the mean in all forecasts; (P, T, M)."""
        z = generator.standard_normal(self.by_lead.shape[-1])
        return np.asarray((self.by_lead @ z)[self.which])


def _no_larger(errors: Array, than: Array) -> Array:
    """Errors (..., N, K) of each mode, scaled where their variance exceeds that of others."""
    sizes = (np.linalg.norm(columns, axis=-1, keepdims=True) for columns in (errors, than))
    size, largest = sizes
    return errors * np.minimum(1.0, largest / np.where(size > 0, size, 1.0))


def moments_dataset(
    law: Law,
    mean: Array,
    variance: Array,
    places: Places,
    coords: dict[str, Any],
    factor: Array | float = 1.0,
) -> xr.Dataset:
    """``mean``, ``std`` of a value that would be observed, ``std_field`` of the noise-free field.

    The variance of the residual is part of both, that of the noise (`noise_at`) of the first.
    ``factor`` multiplies the variance of values (`spread_factors`).
    """
    noise = noise_at(law, places.points)
    of_value = factor * (variance + noise)
    of_field = np.maximum(variance + (factor - 1.0) * (variance + noise), 0.0)
    fields = {"mean": mean, "std": np.sqrt(of_value), "std_field": np.sqrt(of_field)}
    dims = ("path", "time", *places.dims)
    variables = {name: (dims, places.unflatten(values)) for name, values in fields.items()}
    return xr.Dataset(variables, coords={**coords, **places.coords})

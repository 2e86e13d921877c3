"""Paths of a law, reconstructions and forecasts, chaos coordinates; lazy data block by block."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.chaos.nonlinear import chaos_equation, expand_equation, laplace_posterior
from spdelaw.chaos.posterior import TAILS, ChaosModel, chaos_latents
from spdelaw.checks import LARGEST_VALUE, checked, one_of, whole
from spdelaw.data.clock import extended_clocks, has_dates, to_dates
from spdelaw.data.executors import slices_of
from spdelaw.data.fields import check_values
from spdelaw.data.observed import Observed
from spdelaw.domains.places import Places
from spdelaw.errors import ConvergenceError, DataError, InputError
from spdelaw.law.observations import (
    ErrorsByMean,
    blocks_of,
    draw_paths,
    less_response,
    modes_at,
    moments_dataset,
    noisy_state_space,
    observed_for_law,
    point_weights,
    smooth_fields,
    spread_factors,
    target,
    times_ahead,
    to_clock,
    to_user,
    weights_of,
    with_initial_state,
    write_moments,
)
from spdelaw.law.parameters import over_parameters
from spdelaw.law.residuals import Grid, White, on_points, same_points
from spdelaw.processes import operators
from spdelaw.processes.linear import Linear
from spdelaw.processes.paths import simulate
from spdelaw.processes.semilinear import Reacting
from spdelaw.processes.specification import check_times
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.collapse import Collapsed, collapse
from spdelaw.statespace.filter import Smoothed, smooth_states

if TYPE_CHECKING:
    from spdelaw.law.law import Law


# ---------- Results for lazy data with many paths
#
# The posterior of a path depends on its own observations alone, so that blocks of paths are
# independent. Each needs all its times at once; chunks of paths stay as they are stored. The first
# path is computed eagerly: it gives the shape, the coordinates and the names of the result.


Array = np.ndarray

#: Function of the data of some paths, and of a value that all paths share.
OfPaths = Callable[[Observed, Any], xr.Dataset]


def in_paths(data: Observed) -> bool:
    """Whether data are lazy, and in several paths."""
    return data.is_lazy and data.n_paths > 1


def by_paths(function: OfPaths, data: Observed, shared: Any = None) -> xr.Dataset:
    """``function`` of all paths as lazy arrays, in the chunks of paths of the data.

    Args:
        function: of some paths and of ``shared``.
        data: lazy, in several paths.
        shared: the same for all blocks, delayed or not; None without such a value.
    """
    import dask

    empty = data.fields.isel(path=slice(0)).compute()  # no graph of the data travels with each task
    shell = data._replace(values=None, fields=empty)
    first = function(shell.holding(data.fields.isel(path=slice(1)).compute()), None)
    block_task = dask.delayed(
        functools.partial(_result_arrays, function, shell), pure=False, traverse=False
    )
    blocks = list(data.blocks())
    parts = [block_task(block.fields, shared, list(first)) for block in blocks]
    sizes = [block.n_paths for block in blocks]
    return joined(parts, sizes, first, "path", _result_coordinates(first, data.fields))


class Unread:
    """A lazy array that is read inside the task which uses it.

    As an argument like any other it would be read by a task of its own, and a task that two stages
    share keeps its fields in memory from one stage to the other.
    """

    def __init__(self, array: Any) -> None:
        import dask

        (self._array,) = dask.optimize(array)  # without what else the data consist of

    def read(self) -> Array:
        """The values."""
        return np.asarray(self._array.compute(scheduler="synchronous"))


def joined(
    parts: Sequence[Any], sizes: Sequence[int], template: xr.Dataset, dim: str, coords: Any
) -> xr.Dataset:
    """Results of parts that follow one another as one Dataset of lazy arrays.

    Args:
        parts: delayed dicts of arrays by name.
        sizes: of each part along the dim.
        template: names, dims, attributes and the other sizes.
        dim: along which the parts follow one another.
        coords: of the result.
    """
    import dask.array as da

    out = {}
    for name, variable in template.data_vars.items():
        axis, shape = variable.dims.index(dim), variable.shape
        arrays = [
            da.from_delayed(block[name], (*shape[:axis], n, *shape[axis + 1 :]), variable.dtype)
            for block, n in zip(parts, sizes, strict=True)
        ]
        out[name] = (variable.dims, da.concatenate(arrays, axis=axis), variable.attrs)
    return xr.Dataset(out, coords, template.attrs)


def observed_by_any(law: Law, data: Observed, grid: Any) -> Any:
    """Points that any path observes, delayed; None where the law or ``grid`` fixes the points."""
    law_observed = same_points(law.points, data.points) < len(law.points)
    if grid is not None or law_observed.all():
        return None
    import dask

    look, any_of = (dask.delayed(f, pure=False) for f in (_observed_points, np.any))
    return any_of([look(block.fields) for block in data.blocks()], 0)


def _observed_points(fields: xr.DataArray) -> Array:
    return ~np.isnan(fields.values).all((0, 1))


def _result_arrays(
    function: OfPaths, shell: Observed, fields: xr.DataArray, shared: Any, names: list
) -> dict:
    if np.isinf(fields.values).any():
        check_values(fields, LARGEST_VALUE)
    result = function(shell.holding(fields), shared)
    return {name: result[name].values for name in names}


def _result_coordinates(first: xr.Dataset, data: xr.DataArray) -> dict[Any, Any]:
    """Coordinates of the first path, with those along ``path`` as all data have them."""
    other_coords = {name: c for name, c in first.coords.items() if "path" not in c.dims}
    along = {name: c.variable for name, c in data.coords.items() if c.dims == ("path",)}
    return other_coords | {n: v for n, v in along.items() if n in first.coords}


# ---------- One long lazy record under a linear law
#
# The rows are collapsed chunk by chunk of times and smoothed here as one chain, which takes
# ``8 T N^2`` bytes for T times and N modes. The moments of the field are lazy: ``Phi c_t`` is
# expanded chunk by chunk, so that no more fields are in memory than are being written.


def is_record(observed: Observed) -> bool:
    """Whether data are one lazy record in chunks of times."""
    one = observed.is_lazy and observed.n_paths == 1 and not observed.has_own_clocks
    return one and len(parts_of(observed)) > 1


def in_parts(law: Law, observed: Observed) -> bool:
    """Whether data are such a record, and the law needs no more of it than its modes.

    A residual with memory couples all times of each point, and nonlinear dynamics are filtered
    from fields in memory: these need the whole record.
    """
    return isinstance(law.dynamics, Linear) and law.residual_memory is None and is_record(observed)


def parts_of(observed: Observed) -> list[slice]:
    """Times of each stored chunk."""
    return slices_of(observed.fields.chunksizes["time"])


def moments_of_record(
    law: Law, record: Observed, grid: Any, dated: bool, later: Array | None = None
) -> xr.Dataset:
    """Smoothed fields of a record as lazy arrays, in the chunks of its times.

    Args:
        law: linear.
        record: one lazy record, less the mean of the law.
        grid: places of the results.
        dated: whether times of the result are dates.
        later: times on the clock of the law, all after the last of the record: fields at these
            instead.
    """
    observed, places = target(law, with_initial_state(law, record, lazy=True), grid)
    sizes = list(record.fields.chunksizes["time"])
    if later is not None:
        observed, sizes = _extended(observed, later), [len(later)]
    (block,) = blocks_of(law, observed, weights_of(law, observed))
    states = smooth_states(block, noisy_state_space(law, observed))
    rows = (block.diagonal > 0).any(1).reshape(1, -1), observed.times
    n = sum(sizes)
    states, times = Smoothed(states.mean[-n:], states.covariance[-n:]), observed.times[-n:]
    labels = record.fields.isel(time=slice(0))
    labels = labels.copy(data=np.zeros(labels.shape))
    expand = functools.partial(_expand_moments, law, places, labels, grid is None, dated, rows)
    template = expand(Smoothed(states.mean[:1], states.covariance[:1]), times[:1])
    parts = _expand_lazily(expand, states, times, slices_of(sizes), list(template.data_vars))
    coords = {name: c for name, c in template.coords.items() if "time" not in c.dims}
    shown = to_dates(times, law.info.get("time", {})) if dated else times
    coords["time"] = xr.Variable("time", shown, template["time"].attrs)
    return joined(parts, sizes, template, "time", coords)


def _extended(observed: Observed, later: Array) -> Observed:
    """The record with unobserved rows at later times."""
    empty = np.full((1, len(later), len(observed.points)), np.nan)
    values = np.concatenate([observed.values, empty], axis=1)
    return observed._replace(values=values, times=np.concatenate([observed.times, later]))


def _expand_moments(
    law: Law,
    places: Places,
    labels: xr.DataArray,
    is_at_data: bool,
    dated: bool,
    rows: tuple[Array, Array],
    states: Smoothed,
    times: Array,
) -> xr.Dataset:
    """Mean and deviation of ``Phi c_t`` in the units and under the names of the data."""
    mean, variance = np.empty((2, 1, len(times), len(places.points)))
    basis, ahead = modes_at(law, places), times_ahead(*rows, times)
    write_moments(states, basis, np.arange(1), mean, variance)
    coords = {"path": labels["path"].values, "time": times}
    # A residual with memory is not lazy.
    variance += law.unresolved_variance + ErrorsByMean.of(law, basis, ahead).variance
    result = moments_dataset(law, mean, variance, places, coords, spread_factors(law, ahead))
    return to_user(law, result, dated, labels if is_at_data else None)


def _expand_lazily(
    expand: Callable, states: Smoothed, times: Array, slices: list[slice], names: list
) -> list[Any]:
    """The arrays of ``expand`` for each slice of times, delayed."""
    import dask

    task = dask.delayed(functools.partial(_arrays_of, expand, names), pure=False, traverse=False)
    return [
        task(dask.delayed(Smoothed(states.mean[rows], states.covariance[rows]), traverse=False),
             times[rows])
        for rows in slices
    ]  # fmt: skip


def _arrays_of(expand: Callable, names: list, states: Smoothed, times: Array) -> dict[str, Array]:
    result = expand(states, times)
    return {name: result[name].values for name in names}


# ---------- Posterior in chaos coordinates


#: Functions of time where neither the caller nor the fit names a number: the paper's.
DEFAULT_N_TIME = 16


@checked()
def chaos_posterior(
    law: Law, data: Any, *, n_time: int | None = None, tail: Any = None, order: int | None = None
) -> xr.Dataset:
    """Posterior of the initial state and the chaos coordinates of each path.

    For a linear law ``c_n(t) = e^(-lambda_n t) z0_n + sum_{k <= K} sqrt(q_n) psi_k(t; lambda_n)
    xi_kn (+ tail)`` given the observed fields, which is what the paper's encoder approximates
    (section 2.6). The posterior is exact, and orders above the first are zero.

    For a law with terms, or with noise that depends on the state, ``c(t) = sum_alpha u_alpha(t)
    xi_alpha (+ tail)`` up to the order. The result is the mode and its Gaussian approximation
    (Gauss-Newton, Laplace).

    Args:
        law: of any engine.
        data: fields (path, time, x); NaN is missing.
        n_time: K, by default that of the fit, or 16.
        tail: "modelled" or "dropped", by default that of the fit, or "modelled".
        order: largest order, by default that of the fit, or 1.

    Returns:
        Dataset with ``xi_mean``, ``xi_std`` over (path, k, mode), ``z0_mean``, ``z0_std`` over
        (path, mode), and ``reconstruct_truncated`` over (path, time, x), the field of the mean
        coordinates without the tail. `Law.reconstruct` gives the field with it. Where a law has
        other operators than modes the dim of the coordinates is ``noise``. Nonlinear laws have
        ``converged`` over path.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=2), n_paths=20, seed=0)
        >>> law = sl.fit(data, sl.Interval(0, np.pi), n_modes=2, engine="chaos", n_time=4)
        >>> dict(chaos_posterior(law, data)["xi_mean"].sizes)
        {'path': 20, 'k': 4, 'mode': 2}
    """
    is_nonlinear = isinstance(law.dynamics, Reacting)
    if not is_nonlinear and (law.linear.forcing is not None or law.linear.season is not None):
        expected = "a law whose drift and noise do not change in time"
        got = "one with a forcing or with seasons"
        raise InputError("law", expected=expected, got=got, fix="use law.reconstruct(data)")
    observed, places = target(law, observed_for_law(law, data), None)
    if observed.times.ndim == 2:
        got, fix = "times of each path's own", "pass the paths one at a time with .isel(path=[i])"
        raise DataError("data", expected="one clock for all paths", got=got, fix=fix)
    model = ChaosModel(
        n_time if n_time is not None else law.info.get("n_time", DEFAULT_N_TIME),
        max(float(np.ptp(observed.times)), law.info.get("horizon", 0.0)),
        tail if tail is not None else law.info.get("tail", "modelled"),
    )
    p = whole("order", order if order is not None else law.info.get("order", 1), 1)
    space, weights = noisy_state_space(law, observed), weights_of(law, observed)
    collapsed = collapse(observed.values, observed.times, modes_at(law, observed.places), weights)
    each = (
        _general_latents(space, collapsed, observed.times, model, p)
        if is_nonlinear or not _is_uncoupled(space)
        else _uncoupled_latents(space, collapsed, model)
    )
    parts = [np.concatenate(x) for x in zip(*each, strict=True)]
    z0, z0_std, xi, xi_std, states, converged = (x[np.argsort(parts[0])] for x in parts[1:])
    basis = modes_at(law, places)
    if states.shape[1] != observed.fields.sizes["time"]:  # the law starts before the data
        states = np.take_along_axis(states, observed.rows[:, :, None], axis=1)
    truncated = states @ basis.T
    if not is_nonlinear and law.linear.mean is not None:
        truncated = truncated + basis @ law.linear.mean
    noise = "mode" if xi.shape[2] == z0.shape[1] else "noise"
    result = latents_dataset(observed.fields["path"].values, z0, z0_std, xi, xi_std, noise)
    result["reconstruct_truncated"] = (
        ("path", "time", *places.dims),
        places.unflatten(truncated),
    )
    attrs = {"n_time": model.n_time, "tail": model.tail, "horizon": model.horizon}
    if is_nonlinear:
        result["converged"], attrs["order"] = ("path", converged), p
    coords = {"time": observed.fields["time"].values, **places.coords}
    return result.assign_coords(coords).assign_attrs(attrs)


#: Paths (P,), initial states and deviations (P, N), coordinates and deviations (P, K, L), truncated
#: coefficients (P, T, N), and whether a search ended (P,).
PathLatents = tuple[Array, ...]


def _is_uncoupled(space: StateSpace) -> bool:
    """Whether drift, noise and initial state leave the modes apart: then a closed form exists."""
    each = space.linear.drift, space.linear.noise, space.initial.covariance
    return all(operators.is_diagonal(a) for a in each)


def _uncoupled_latents(
    space: StateSpace, collapsed: Collapsed, model: ChaosModel
) -> Iterator[PathLatents]:
    for one in chaos_latents(collapsed, space, model):
        mean, states = one.mean.transpose(2, 0, 1), one.coefficients.transpose(2, 0, 1)
        z0, n = one.initial_mean.T, len(one.paths)
        stds = (np.broadcast_to(x, (n, *x.shape)) for x in (one.initial_std, one.std))
        z0_std, std = stds
        yield one.paths, z0, z0_std, mean, std, states, np.ones(n, bool)


def _general_latents(
    space: StateSpace, collapsed: Collapsed, times: Array, model: ChaosModel, order: int
) -> Iterator[PathLatents]:
    equation = chaos_equation(space.dynamics, space.initial)  # type: ignore[arg-type]
    settings = model.n_time, order, model.horizon, model.tail
    expansion = expand_equation(equation, times - times[0], *settings)
    n, n_noise = len(space.initial.mean), len(equation.couplings)
    for one in laplace_posterior(collapsed, expansion, float(space.observation_variance)):
        z0 = np.broadcast_to(space.initial.mean, (len(one.paths), n))
        z0_std = np.zeros_like(z0)
        if expansion.root is not None:
            z0 = z0 + one.mean[:, -1, :n] @ expansion.root.T
            z0_std = np.sqrt(
                np.einsum("ij,pjk,ik->pi", expansion.root, one.start[:, :n, :n], expansion.root)
            )
        at = np.s_[:, : model.n_time, :n_noise]
        yield one.paths, z0, z0_std, one.mean[at], one.std[at], one.states, one.converged


@checked()
def sample_chaos(
    law: Law,
    n_paths: int,
    times: Any = None,
    *,
    n_time: int | None = None,
    order: int | None = None,
    tail: str = "modelled",
    seed: int = 0,
) -> xr.DataArray:
    """Paths of the truncated expansion of a nonlinear law, with the tail as Gaussian noise.

    Mean and covariance are those of the equation where the drift is linear; higher moments are
    those of the order. `Law.sample` integrates the equation itself.

    Args:
        law: with terms, or with noise that depends on the state.
        n_paths: how many.
        times: by default those of the data that the law was learned from.
        n_time: K, by default that of the fit, or 16.
        order: largest order, by default that of the fit, or 1.
        tail: "modelled" or "dropped".
        seed: of the draws.
    """
    if not isinstance(law.dynamics, Reacting):
        expected, got = "a law with terms or with noise that depends on the state", "a linear law"
        raise InputError("law", expected=expected, got=got, fix="use law.sample(n_paths)")
    t = law.times if times is None else check_times(to_clock(law, times))
    ages = t - float(law.times[0])
    _check_not_before(0.0, ages)
    expansion = expand_equation(
        chaos_equation(law.dynamics, law.initial),
        ages,
        n_time if n_time is not None else law.info.get("n_time", DEFAULT_N_TIME),
        whole("order", order if order is not None else law.info.get("order", 1), 1),
        max(float(ages[-1]), law.info.get("horizon", 0.0)),
        one_of("tail", tail, TAILS),
    )
    generator = np.random.default_rng(seed)
    count = whole("n_paths", n_paths, 1)
    states = expansion.states(
        generator.standard_normal((count, *expansion.indices.degrees.shape[1:]))
    )
    size = states[0].size
    if expansion.tail is not None:
        root = operators.root(expansion.tail.reshape(size, size))
        states = states + (generator.standard_normal((count, size)) @ root).reshape(states.shape)
    places = law.domain.places(law.points)
    values = places.unflatten(states @ modes_at(law, places).T)
    coords = {"path": np.arange(count), "time": t, **places.coords}
    fields = xr.DataArray(values, coords, ("path", "time", *places.dims), name="field")
    return to_user(law, fields.to_dataset(), has_dates(times))["field"]


def latents_dataset(
    paths: Array, z0: Array, z0_std: Array, xi: Array, xi_std: Array, noise: str
) -> xr.Dataset:
    """Initial states (P, N) and chaos coordinates (P, K, L) of paths, labelled.

    ``noise`` is the dim of the driving processes: "mode" where each mode has its own.
    """
    dims = ("path", "k", noise)
    axes = {"k": xi.shape[1], "mode": z0.shape[1], noise: xi.shape[2]}
    return xr.Dataset(
        {
            "xi_mean": (dims, xi),
            "xi_std": (dims, xi_std),
            "z0_mean": (("path", "mode"), z0),
            "z0_std": (("path", "mode"), z0_std),
        },
        coords={"path": paths, **{dim: np.arange(1, n + 1) for dim, n in axes.items()}},
    )


# ---------- Samples, reconstructions and forecasts


#: How many joint draws, and their seed.
Draws = tuple[int, int]


def sample(
    law: Law, n_paths: int, times: Any, grid: Any, seed: int, noisy: bool, chunks: int | None
) -> xr.DataArray:
    """New paths in the user's units; see `spdelaw.Law.sample`."""
    points = law.points if grid is None else grid
    dated, times = has_dates(times), to_clock(law, times)
    std = np.sqrt(law.observation_variance) if noisy else np.zeros(())
    bare = law.without_preparation_and_mean  # the response to a forcing is added on the way out
    linear, white = isinstance(law.dynamics, Linear), float(std) if std.ndim == 0 else 0.0
    if chunks is not None and (std.ndim or not linear):
        expected, fix = "None: such a law draws in memory", "leave it out"
        raise InputError("chunks", expected=expected, got=repr(chunks), fix=fix)
    if linear:
        result = simulate(
            bare.equation, n_paths, times, points, seed=seed, observation_std=white, chunks=chunks
        )
    else:
        result = _nonlinear_paths(bare, n_paths, times, points, seed)
    if std.ndim or not linear:
        result = _add_noise(law, result, points, std, seed)
    named = to_user(law, result.to_dataset(name="field"), dated)["field"]
    return named.rename(law.info.get("labels", {}).get("name", "field"))


def _add_noise(law: Law, fields: xr.DataArray, points: Any, std: Array, seed: int) -> xr.DataArray:
    if not std.any():
        return fields
    places = law.domain.places(points)
    if std.ndim:  # noise per point: only where it was learned
        point_weights(law, places.points)
        std = std[same_points(law.points, places.points)]
    std_field = places.unflatten(np.broadcast_to(std, len(places.points)))
    return fields + std_field * np.random.default_rng([seed, 1]).standard_normal(fields.shape)


def _nonlinear_paths(law: Law, n_paths: int, times: Any, points: Any, seed: int) -> xr.DataArray:
    t, start = law.times if times is None else check_times(times), float(law.times[0])
    _check_not_before(start, t)
    places = law.domain.places(points)
    states = draw_paths(law.state_space, start, t, n_paths, seed)
    check_finite(states)
    values = places.unflatten(states @ modes_at(law, places).T)
    coords = {"path": np.arange(n_paths), "time": t, **places.coords}
    return xr.DataArray(values, coords, ("path", "time", *places.dims))


def reconstruct(
    law: Law, observed: Observed, grid: Any = None, parameter_draws: int = 0, seed: int = 0
) -> xr.Dataset:
    """`spdelaw.Law.reconstruct` of data that are prepared for the law."""

    def smooth(one: Law, _: int) -> xr.Dataset:
        return predict(one, observed, grid, observed.dated)

    return over_parameters(law, parameter_draws, seed, 0, smooth)


def predict(
    law: Law,
    data: Observed,
    grid: Any,
    dated: bool,
    requested_times: Any = None,
    draws: Draws = (0, 0),
) -> xr.Dataset:
    """Fields given data; see `spdelaw.Law.reconstruct` and `spdelaw.Law.forecast`.

    Args:
        law: any.
        data: prepared for it (`spdelaw.Law.observe`).
        grid: places of the results, None for those of the data.
        dated: whether times of the result are dates.
        requested_times: times on the clock of the law, None for those of the data.
        draws: joint ones come in memory.
    """
    observed = less_response(law, data)
    in_memory = functools.partial(_predict_in_memory, law, grid, dated, requested_times, draws)
    lazy = draws[0] == 0
    if lazy and in_paths(observed):
        return by_paths(in_memory, observed, observed_by_any(law, observed, grid))
    if (
        lazy
        and in_parts(law, observed)
        and (requested_times is None or requested_times[0] > observed.times[-1])
    ):
        return moments_of_record(law, observed, grid, dated, requested_times)
    return in_memory(observed)


def _predict_in_memory(
    law: Law,
    grid: Any,
    dated: bool,
    requested_times: Any,
    draws: Draws,
    data: Observed,
    by_any: Any = None,
) -> xr.Dataset:
    """`predict` in memory; ``by_any`` are points that any path of a larger data set observes."""
    observed = with_initial_state(law, data)
    fields, n_samples, generator = observed.fields, draws[0], np.random.default_rng(draws[1])
    selected, places = target(law, observed, grid, by_any)
    space, basis = noisy_state_space(law, selected), modes_at(law, selected.places)
    same = np.array_equal(places.points, selected.points)
    modes = basis, basis if same else modes_at(law, places)
    coords: dict[str, Any] = {dim: fields[dim].values for dim in ("path", "time")}
    clocks: Iterable[tuple[Observed, Any]] = [(selected, slice(None))]
    if requested_times is not None:
        _check_not_before(observed.origin, requested_times)
        coords["time"], clocks = requested_times, _on_extended_clocks(selected, requested_times)
    elif observed.has_own_clocks:
        coords["path_time"] = fields["path_time"]
    by_clock = [
        [
            moments[..., at, :]
            for moments in smooth_modes_and_residual(
                law, on, space, places, modes, n_samples, generator
            )
        ]
        for on, at in clocks
    ]
    mean, variance, drawn = (
        moments[0] if len(moments) == 1 else np.concatenate(moments, axis=-3)
        for moments in zip(*by_clock, strict=True)
    )
    if requested_times is None and mean.shape[1] != fields.sizes["time"]:
        rows = observed.rows[:, :, None]
        mean, variance = (np.take_along_axis(moments, rows, axis=1) for moments in (mean, variance))
    has_values = np.isfinite(observed.values).any(-1)
    clock = coords.get("path_time", coords["time"])
    ahead = times_ahead(has_values, observed.times, clock)
    factor, by_mean = spread_factors(law, ahead), ErrorsByMean.of(law, modes[1], ahead)
    result = moments_dataset(law, mean, variance + by_mean.variance, places, coords, factor)
    if n_samples:
        errors = np.stack([by_mean.draw(generator) for _ in drawn])
        drawn = mean + np.sqrt(factor) * (drawn - mean + errors)
        check_finite(drawn)
        result["sample"] = (("draw", *result["mean"].dims), places.unflatten(drawn))
    return to_user(law, result, dated, fields if grid is None else None)


def _on_extended_clocks(
    observed: Observed, requested_times: Array
) -> Iterator[tuple[Observed, Array]]:
    """The data on clocks that include the requested times, and the rows of these."""
    clocks = extended_clocks(observed.times, requested_times, observed.values)
    if observed.std is None:
        yield from (
            (observed._replace(values=values, times=clock), at) for clock, values, at in clocks
        )
        return
    noise = extended_clocks(observed.times, requested_times, observed.std)
    for (clock, values, at), (_, std, _) in zip(clocks, noise, strict=True):
        yield observed._replace(values=values, times=clock, std=std), at


def smooth_modes_and_residual(
    law: Law,
    observed: Observed,
    space: StateSpace,
    places: Places,
    modes: tuple[Array, Array],
    n_samples: int = 0,
    generator: Any = None,
) -> tuple[Array, Array, Array]:
    """Mean and variance of modes and residual on a clock, and joint draws, if any.

    ``modes`` are those at the points of the data and of the result. Draws have no white residual.
    Where a value is observed, an error of the modes is one of the residual
    with the other sign, up to the weight of that value: their sum has ``(1 - weight)^2`` of the
    modes' variance.
    """
    basis, shown = modes
    residual, here, out = law.residual, slice(None), slice(None)
    if not isinstance(residual, White) and shown is not basis:  # residuals are where the data are
        here, out, shown = slice(len(basis)), slice(len(basis), None), np.vstack(modes)
    given = (observed.values, observed.times, basis, space, shown, weights_of(law, observed))
    mean, variance, drawn = smooth_fields(
        *given, observed.products(basis.shape[1]), n_samples, generator
    )
    if isinstance(residual, White):
        return mean, variance + residual.variance, drawn
    between, grid = (observed.points, places.points), Grid(observed.times, observed.points)
    at_data, there = (residual.at_points(law.points, points) for points in between)
    smoothed: Iterable[Any] = at_data.predict(observed.values - mean[..., here], grid)
    unseen: list[Any] = [0.0, there.variance, 0.0]
    z, p, weight = (on_points(*both, *between) for both in zip(smoothed, unseen, strict=True))
    for one in drawn:
        more = at_data.draw(observed.values - one[..., here], grid, generator)
        one[..., out] += on_points(more, 0.0, *between)
    variance = variance[..., out] * (1.0 - weight) ** 2 + p
    return mean[..., out] + z, variance, drawn[..., out]


def check_finite(states: Array) -> None:
    """Refuse paths that diverge."""
    if not np.isfinite(states).all():
        got = "paths that diverge, as the drift is unstable"
        fix = "use shorter times, or fit a stabilising term, such as u^3"
        raise ConvergenceError("law", expected="paths that stay finite", got=got, fix=fix)


def _check_not_before(first: float, times: Array) -> None:
    if times[0] < first:
        expected, fix = f"times from the law's first, {first:g}, on", "it does not run backwards"
        raise InputError("times", expected=expected, got=f"{times[0]:g}", fix=fix)

"""Gaps filled: each missing value with its mean and its deviation, by the law that does it best."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.checks import instance, one_of, positive, whole
from spdelaw.data import Preparation, as_fields, check_plausible
from spdelaw.domain import AbstractDomain, Places
from spdelaw.errors import ConvergenceError, DataError, InputError, SpdeLawError
from spdelaw.evaluation._complete_climate import completed
from spdelaw.evaluation._fill_candidates import BASES, Recipe, learn, tracks
from spdelaw.evaluation._fill_choice import LEVELS, Record, Trial, choose, grid_of, without
from spdelaw.evaluation._fill_predict import (
    Grid,
    Moments,
    Settings,
    law_fields,
    law_moments,
    with_rest,
)
from spdelaw.evaluation._guessed_source import guess_source
from spdelaw.evaluation._held_out import hold_out
from spdelaw.evaluation._shared_rest import shared_covariance
from spdelaw.infer import DRIFTS, WORDS
from spdelaw.law import (
    Law,
    by_paths,
    in_paths,
    is_record,
    joined,
    parts_of,
    read_again,
    to_user,
)

Array = np.ndarray

RESTS = ("auto", "white", "memory", "local", "shared")
#: Held-out values from which a choice can be made.
ENOUGH = 10
#: Bytes of the first of lazy data, by which the law that fills all of them is chosen, and rows.
HEAD_BYTES, FEWEST_ROWS = 256e6, 200
#: Neighbours of a part in time, in units of the memory of its rest: beyond, nothing is in common.
REACH = 8.0
#: Modes for every value that the middle row has.
PER_VALUE = 1.0


class Filled(NamedTuple):
    """A filled record, the law that filled it, and how it was chosen."""

    data: xr.Dataset
    law: Law
    trials: list[Trial]


def fill(
    data: Any,
    domain: AbstractDomain | None = None,
    n_modes: int | str = "auto",
    *,
    prepare: Preparation | None = None,
    basis: str | None = None,
    drift: str | None = None,
    rest: str = "auto",
    smooth: bool = False,
    everywhere: bool = False,
    seconds: float | None = 300.0,
    seed: int = 0,
    progress: Callable[[str], Any] | None = None,
    **words: Any,
) -> xr.Dataset:
    """Fill the gaps of a record: mean and standard deviation of each missing value.

    Which law does it is chosen by clouds: values that are held out as the gaps of other times lie,
    and predicted from the rest by laws that have never seen them.

    Args:
        data: fields or raw data; NaN is missing. Lazy data come back lazy, filled by the law that
            the first of them (256 MB of paths, or of the times of one record) choose.
        domain: as in `spdelaw.fit`; guessed from the coordinates where none is given.
        n_modes: a number, or "auto" for the one that predicts held-out values best.
        prepare: `spdelaw.Preparation`, such as anomalies; learned without held-out values, and
            completed from neighbours where a point never saw a month.
        basis: "domain" for its eigenfunctions, "patterns" for those of the data; None tries both.
        drift: as in `spdelaw.fit`; None tries what is usual.
        rest: what the modes leave over: "white" or with "memory", as in `spdelaw.Model`, "local"
            from close values in space and time, "shared" from the other points of the same time by
            their learned covariance; "auto" takes white, local or shared, as predicts better.
        smooth: give the law's mean and deviation of the field at observed values also, without the
            noise of observations; else observed values stay as they are, with deviation 0.
        everywhere: fill points that were never seen too; else these are NaN, as land is.
        seconds: no candidate is begun that would take longer than this in all; None for no limit.
        seed: of what is held out.
        progress: called with the name of each candidate.
        words: further words of `spdelaw.Model`.

    Returns:
        Dataset in the units and under the names of the data: ``mean``, ``std``; over
        ``candidate``: ``held_out_rmse``, ``held_out_crps``, ``held_out_coverage``,
        ``candidate_seconds`` and ``candidate_note``. The attribute ``chosen_by`` is a sentence.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> heat = sl.catalogue.heat(n_modes=3, initial="stationary")
        >>> fields = sl.simulate(heat, 10, np.linspace(0, 1, 21), np.linspace(0, np.pi, 17), seed=0)
        >>> gappy = sl.mask(fields, "blocks", fraction=0.3, seed=1)
        >>> filled = sl.fill(gappy, heat.domain, 3, drift="diagonal", basis="domain")
        >>> bool(abs(filled["mean"] - fields).max() < 0.2), int(filled["mean"].isnull().sum())
        (True, 0)
    """
    return fill_record(
        data, domain, n_modes, prepare=prepare, basis=basis, drift=drift, rest=rest, smooth=smooth,
        everywhere=everywhere, seconds=seconds, seed=seed, progress=progress, **words,
    ).data  # fmt: skip


def fill_record(
    data: Any,
    domain: AbstractDomain | None = None,
    n_modes: int | str = "auto",
    *,
    prepare: Preparation | None = None,
    basis: str | None = None,
    drift: str | None = None,
    rest: str = "auto",
    smooth: bool = False,
    everywhere: bool = False,
    seconds: float | None = 300.0,
    seed: int = 0,
    progress: Callable[[str], Any] | None = None,
    **words: Any,
) -> Filled:
    """`fill`, with the law and the trials as well."""
    if in_paths(data) or is_record(data):
        lazily = _in_blocks if in_paths(data) else _in_parts
        return lazily(
            data, domain, prepare, n_modes=n_modes, basis=basis, drift=drift, rest=rest,
            smooth=smooth, everywhere=everywhere, seconds=seconds, seed=seed, progress=progress,
            **words,
        )  # fmt: skip
    _check(n_modes, basis, drift, rest, seconds, words)
    seed = whole("seed", seed, 0)
    if prepare is not None:
        instance("prepare", prepare, Preparation, "pass prepare=sl.Preparation(anomalies='month')")
    if domain is None:
        domain, prepare = guess_source(data, prepare)
    fields = _fields(data, domain, prepare)
    how = None if prepare is None else _affine_part(prepare)
    recipe = Recipe(domain, how, words | ({"rest": rest} if rest == "memory" else {}))
    grid = grid_of(fields, domain)
    places = grid.places
    values = places.flatten(np.asarray(fields.values))
    seen = np.isfinite(values)
    unseen = everywhere and not seen.any((0, 1)).all()
    record = _held_out(fields, values, grid, seed, unseen)
    most = max(1, int(PER_VALUE * np.median(seen.sum(-1)[seen.any(-1)])))
    asked = tracks(n_modes, "domain" if unseen else basis, drift, min(most, seen.any((0, 1)).sum()))
    rests = ("white", "local", "shared") if rest == "auto" else (rest,)
    trials = choose(record, recipe, asked, rests, seconds, progress)
    law, moments, trials = _chosen(trials, fields, values, grid, recipe)
    mean, std = _shown(moments, trials[0], values, smooth, everywhere, seen.any((0, 1)))
    result = _labelled(mean, std, law, data, fields, places)
    return Filled(_described(result, trials, record), law, trials)


class Learned(NamedTuple):
    """What the first of lazy data say about how all of them are filled.

    Attributes:
        filled: those first data.
        left_over: mean square of what the law leaves over at each point, (M,).
        settings: of the rest.
        known: points that they see, (M,).
    """

    filled: Filled
    left_over: Array
    settings: Settings
    known: Array

    def shown(
        self, values: Array, mean: Array, state: Array, grid: Grid, known: Array, rows: slice,
        smooth: bool, everywhere: bool,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Mean and deviation at some times of values (P, T, M), others of which are neighbours."""
        moments = Moments(mean, state, np.broadcast_to(self.left_over, values.shape))
        moments = with_rest(moments, values, grid, self.settings)
        moments = Moments(*(part[:, rows] for part in moments))
        best = self.filled.trials[0]
        return _shown(moments, best, values[:, rows], smooth, everywhere, known)

    def told(self, result: xr.Dataset) -> Filled:
        """All data filled, with what the first of them say about the choice."""
        own = self.filled.data
        told = {name: v for name, v in own.data_vars.items() if name not in result}
        return self.filled._replace(data=result.assign(told).assign_attrs(own.attrs))


def _learned(
    head: Any, domain: AbstractDomain, prepare: Preparation | None, asked: dict[str, Any]
) -> Learned:
    """A law chosen and learned by data in memory, with all that fills others like them."""
    found = fill_record(head, domain, prepare=prepare, **asked)
    fields = _fields(head, domain, prepare)
    grid = grid_of(fields, domain)
    own = grid.places.flatten(np.asarray(fields.values))
    told_by = law_moments(found.law, fields, own, grid.places)
    settings = found.trials[0].settings
    if settings.weight is not None:
        learned = shared_covariance(own - told_by.mean, grid.points, settings.weight)
        settings = settings._replace(covariance=learned)
    return Learned(found, told_by.rest[0, 0], settings, np.isfinite(own).any((0, 1)))


def _in_blocks(
    data: Any, domain: AbstractDomain | None, prepare: Preparation | None, **asked: Any
) -> Filled:
    """Lazy paths: a law chosen and learned by the first of them fills all, block by block."""
    if domain is None:
        domain, prepare = guess_source(data, prepare)
    size = data.nbytes / data.sizes["path"]
    head = data.isel(path=slice(max(2, int(HEAD_BYTES / size)))).compute()
    learned = _learned(head, domain, prepare, asked)
    law, how = learned.filled.law, (asked["smooth"], asked["everywhere"])

    def filled(block: Any, _: Any) -> xr.Dataset:
        fields = _fields(block, domain, prepare)
        grid = grid_of(fields, domain)
        values = grid.places.flatten(np.asarray(fields.values))
        told = law_moments(law, fields, values, grid.places)
        known = learned.known | np.isfinite(values).any((0, 1))
        found = learned.shown(values, told.mean, told.state, grid, known, slice(None), *how)
        return _labelled(*found, law, block, fields, grid.places)

    return learned.told(by_paths(filled, data))


def _in_parts(
    data: xr.DataArray, domain: AbstractDomain | None, prepare: Preparation | None, **asked: Any
) -> Filled:
    """One long lazy record: its beginning chooses and learns the law that fills all of it.

    Climatology and scale are learned from all times. Each part of times is filled from the law's
    moments given the whole record, and from neighbours that may lie in the parts beside it.
    """
    import dask

    if domain is None:
        domain, prepare = guess_source(data, prepare)
    rows = max(FEWEST_ROWS, int(HEAD_BYTES * data.sizes["time"] / data.nbytes))
    learned = _learned(data.isel(time=slice(rows)).compute(), domain, prepare, asked)
    fields = _canonical(data, domain, prepare)
    law = _of_record(learned.filled.law, fields, prepare)
    learned = learned._replace(filled=learned.filled._replace(law=law))
    grid = grid_of(fields.isel(time=slice(2)), domain)
    found = law_fields(law, fields, grid.places)
    values = read_again(fields)
    known = np.isfinite(grid.places.flatten(read_again(fields).data)).any((0, 1))
    how = (asked["smooth"], asked["everywhere"])
    call, own = dask.delayed(_filled_part, pure=False), dask.delayed(learned, traverse=False)
    times, parts, slices = fields["time"].values, [], parts_of(fields)
    for part in slices:
        wide = _with_neighbours(part, times, learned.settings)
        arrays = (found["mean"], found["std"], values)
        near = [array.isel(time=wide).data for array in arrays]
        at = slice(part.start - wide.start, part.stop - wide.start)
        parts.append(call(own, *near, known, times[wide], grid, at, how))
    shape = (1, 1, *fields.shape[2:])
    template = xr.Dataset({name: (fields.dims, np.zeros(shape)) for name in ("mean", "std")})
    sizes = [part.stop - part.start for part in slices]
    table = joined(parts, sizes, template, "time", {})
    return learned.told(_named(table, law, data, fields))


def _filled_part(
    learned: Learned, mean: Array, std: Array, values: Array, known: Array, times: Array,
    grid: Grid, rows: slice, how: tuple[bool, bool],
) -> dict[str, Array]:  # fmt: skip
    """Some rows of a record, filled; the others are their neighbours in time."""
    places = grid.places
    mean, std, values = (places.flatten(np.asarray(part)) for part in (mean, std, values))
    near = grid._replace(times=np.asarray(times, float)[None])
    found = learned.shown(values, mean, std**2, near, known, rows, *how)
    return dict(zip(("mean", "std"), map(places.unflatten, found), strict=True))


def _with_neighbours(part: slice, times: Array, settings: Settings) -> slice:
    """Rows of a part, and those close enough in time to say something about its rest."""
    if settings.kernel is None:
        return part
    reach = REACH * settings.kernel.time
    first = int(np.searchsorted(times, times[part.start] - reach))
    last = int(np.searchsorted(times, times[part.stop - 1] + reach, side="right"))
    return slice(first, last)


def _of_record(law: Law, fields: xr.DataArray, prepare: Preparation | None) -> Law:
    """A law of the beginning of a record with the climatology of all of it."""
    how = None if prepare is None else _affine_part(prepare)
    if how is None:
        return law
    return dataclasses.replace(law, preparation=completed(how.learn(fields, law.domain.dims)))


def _check(
    n_modes: Any, basis: Any, drift: Any, rest: Any, seconds: Any, words: dict[str, Any]
) -> None:
    if n_modes != "auto":
        whole("n_modes", n_modes, 1)
    if basis is not None:
        one_of("basis", basis, BASES)
    if drift is not None:
        one_of("drift", drift, DRIFTS)
    one_of("rest", rest, RESTS)
    if seconds is not None:
        positive("seconds", seconds)
    for name in words:
        if name not in WORDS or name in ("drift", "forcing"):
            known = ", ".join(word for word in WORDS if word not in ("drift", "forcing"))
            raise InputError(
                name, expected=f"a word of the model: {known}", got=repr(name),
                fix="see help(spdelaw.fill)",
            )  # fmt: skip


def _canonical(data: Any, domain: AbstractDomain, prepare: Preparation | None) -> xr.DataArray:
    """Canonical fields in the units of the data; lazy ones stay so."""
    fix = "pass domain=sl.Interval(a, b), or leave it out"
    instance("domain", domain, AbstractDomain, fix)  # type: ignore[type-abstract]
    unit = None if prepare is None else prepare.time_unit
    reduced = data if prepare is None else prepare.reduce(data)
    return as_fields(reduced, dims=domain.dims, time_unit=unit)


def _fields(data: Any, domain: AbstractDomain, prepare: Preparation | None) -> xr.DataArray:
    """The same in memory: candidates are tried on all values many times."""
    fields = _canonical(data, domain, prepare).load()
    check_plausible(fields)
    if fields.sizes["time"] < 2:
        raise DataError(
            "time", expected="at least two times", got=str(fields.sizes["time"]),
            fix="a law is learned from change; observe the field more than once",
        )  # fmt: skip
    return fields


def _affine_part(prepare: Preparation) -> Preparation | None:
    """What is left of a preparation after the fields were reduced."""
    how = dataclasses.replace(
        prepare, variable=None, select={}, average=(), rename={}, coarsen={}, missing=()
    )
    return how if how.is_affine else None


def _held_out(
    fields: xr.DataArray, values: Array, grid: Grid, seed: int, whole_points: bool
) -> Record:
    held = hold_out(np.isfinite(values), grid.points, seed, whole_points=whole_points)
    if held.sum() < ENOUGH:
        raise DataError(
            "data", expected=f"enough values to hold {ENOUGH} of them out",
            got=f"{int(np.isfinite(values).sum())} values", fix="observe longer, or fit a law and "
            "use law.reconstruct(data)",
        )  # fmt: skip
    return without(fields, values, held, grid)


def _chosen(
    trials: list[Trial], fields: xr.DataArray, values: Array, grid: Grid, recipe: Recipe
) -> tuple[Law, Moments, list[Trial]]:
    """The law of the best trial learned from all values, and what it says about them.

    Where that cannot be learned from all values, the next best one; the trials come back with the
    one that was taken first.
    """
    notes = [f"{trials[0].candidate}: {trials[0].note}"]
    for best in [trial for trial in trials if np.isfinite(trial.crps)]:
        try:
            law = learn(fields, recipe, best.candidate, _rough(trials, best, fields, recipe))
            moments = law_moments(law, fields, values, grid.places)
        except (SpdeLawError, np.linalg.LinAlgError) as error:
            notes.append(f"{best.candidate}: {error}")
            continue
        others = [trial for trial in trials if trial is not best]
        return law, with_rest(moments, values, grid, best.settings), [best, *others]
    raise ConvergenceError(
        "fill", expected="a law that predicts held-out values",
        got=f"{len(trials)} candidates, none of which did; {notes[-1]}",
        fix="pass n_modes=4, drift='diagonal' and basis='domain', or check the domain",
    )  # fmt: skip


def _rough(trials: list[Trial], best: Trial, fields: xr.DataArray, recipe: Recipe) -> Law | None:
    """The best law on the domain, where patterns need the record without gaps."""
    plain = [t for t in trials if t.candidate.basis == "domain" and np.isfinite(t.crps)]
    if best.candidate.basis != "patterns" or not plain:
        return None
    return learn(fields, recipe, plain[0].candidate)


def _shown(
    moments: Moments, best: Trial, values: Array, smooth: bool, everywhere: bool, known: Array
) -> tuple[Array, Array]:
    """Mean and deviation as asked for; NaN where nobody ever saw a value, unless wanted."""
    mean, std = moments.mean.copy(), np.sqrt(moments.variance(best.settings))
    seen = np.isfinite(values)
    if smooth:
        std[seen] = np.sqrt(moments.state)[seen]
    else:
        mean[seen], std[seen] = values[seen], 0.0
    if not everywhere:
        mean[..., ~known], std[..., ~known] = np.nan, np.nan
    return mean, std


def _labelled(
    mean: Array, std: Array, law: Law, data: Any, fields: xr.DataArray, places: Places
) -> xr.Dataset:
    """Mean and deviation with the dates, names and attributes of the data."""
    named = {"mean": mean, "std": std}
    table = xr.Dataset(
        {name: (fields.dims, places.unflatten(values)) for name, values in named.items()}
    )
    return _named(table, law, data, fields)


def _named(table: xr.Dataset, law: Law, data: Any, fields: xr.DataArray) -> xr.Dataset:
    """Results on the places of fields under the names of the data."""
    coords = {k: v for k, v in fields.coords.items() if set(v.dims) <= set(fields.dims)}
    table = table.assign_coords(coords)
    labelled = law.bare.with_info(labels=law.info.get("labels", {}))
    result = to_user(labelled, table, data, fields)
    result.attrs.pop("observation_std", None)
    return result


def _described(result: xr.Dataset, trials: list[Trial], record: Record) -> xr.Dataset:
    """The result with the trials, and a sentence about them."""
    names = [f"{t.candidate}, rest {t.rest}" for t in trials]
    result = result.assign(
        held_out_rmse=("candidate", [t.rmse for t in trials]),
        held_out_crps=("candidate", [t.crps for t in trials]),
        held_out_coverage=(("candidate", "level"), [list(t.coverage) for t in trials]),
        candidate_seconds=("candidate", [t.seconds for t in trials]),
        candidate_note=("candidate", np.array([t.note for t in trials])),
    ).assign_coords(candidate=np.array(names), level=list(LEVELS))
    return result.assign_attrs(_attrs(trials, record))


def _attrs(trials: list[Trial], record: Record) -> dict[str, Any]:
    best, held = trials[0], int(np.isfinite(record.truth).sum())
    tried = sum(1 for t in trials if np.isfinite(t.crps))
    sentence = (
        f"{best.candidate}, rest {best.rest}: least CRPS of {tried} candidates on {held} values "
        f"held out as gaps lie (RMSE {best.rmse:.4g}, CRPS {best.crps:.4g})"
    )
    late = sum(1 for t in trials if t.note.startswith("not tried"))
    if late:
        sentence += f"; {late} larger ones were not tried for want of time"
    return {"title": "Gaps filled by a learned law", "chosen_by": sentence, "held_out": held}

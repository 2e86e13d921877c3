"""Gaps filled: each missing value with its mean and standard deviation."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.checks import instance, one_of, positive, whole
from spdelaw.data.fields import OBSERVATION_STD
from spdelaw.data.guess import guess_source
from spdelaw.data.observed import Observed, check_times, observe
from spdelaw.data.prepare import Preparation, learn_map
from spdelaw.data.quality import check_plausible
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.places import Places
from spdelaw.errors import ConvergenceError, DataError, InputError, SpdeLawError
from spdelaw.evaluation.gaps.prediction import (
    BASES,
    Grid,
    Moments,
    Recipe,
    Settings,
    completed,
    law_fields,
    law_moments,
    learn,
    ready,
    tracks,
    with_residual,
)
from spdelaw.evaluation.gaps.residuals import shared_covariance
from spdelaw.evaluation.gaps.selection import (
    LEVELS,
    Record,
    Trial,
    choose,
    grid_of,
    hold_out,
    without,
)
from spdelaw.evaluation.hindcast import affine_part
from spdelaw.infer.model import DRIFTS, WORDS
from spdelaw.law.law import Law
from spdelaw.law.lazy import Unread, by_paths, in_paths, is_record, joined, parts_of
from spdelaw.law.observations import to_user

# ---------- What filling gives back: mean and deviation under the names of the data, and who was
# chosen


Array = np.ndarray


class Filled(NamedTuple):
    """A filled record, the law that filled it, and how it was chosen."""

    data: xr.Dataset
    law: Law
    trials: list[Trial]


def shown(
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


def labelled(mean: Array, std: Array, law: Law, own: Observed) -> xr.Dataset:
    """Mean and deviation with the dates, names and attributes of the data."""
    dims, both = ("path", "time", *own.places.dims), {"mean": mean, "std": std}
    table = {name: (dims, own.places.unflatten(values)) for name, values in both.items()}
    return named(xr.Dataset(table), law, own)


def named(table: xr.Dataset, law: Law, own: Observed) -> xr.Dataset:
    """Results on the places of the data under their names."""
    coords = {k: v for k, v in own.labelled.coords.items() if k != OBSERVATION_STD}
    table = table.assign_coords(coords)
    bare = law.without_preparation_and_mean.with_info(labels=law.info.get("labels", {}))
    result = to_user(bare, table, own.dated, own.fields)
    result.attrs.pop("observation_std", None)
    return result


def described(result: xr.Dataset, trials: list[Trial], record: Record) -> xr.Dataset:
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
    crps = [t.crps for t in trials if np.isfinite(t.crps)]
    tried, least = len(crps), min(crps, default=np.inf)
    why = "least CRPS" if best.crps <= least else f"fewest modes near the least CRPS ({least:.4g})"
    sentence = (
        f"{best.candidate}, rest {best.rest}: {why} of {tried} candidates on {held} values "
        f"held out as gaps lie (RMSE {best.rmse:.4g}, CRPS {best.crps:.4g})"
    )
    late = sum(1 for t in trials if t.note.startswith("not tried"))
    if late:
        sentence += f"; {late} larger ones were not tried for want of time"
    return {"title": "Gaps filled by a learned law", "chosen_by": sentence, "held_out": held}


# ---------- Lazy data filled: the first of them choose and learn the law, all are filled when asked
# for


#: Fills data in memory.
Fill = Callable[[Observed], Filled]

#: Bytes of the first of lazy data, by which the law that fills all of them is chosen, and rows.
HEAD_BYTES, FEWEST_ROWS = 256e6, 200
#: Neighbours of a part in time, in units of the memory of its rest: beyond, nothing is in common.
REACH = 8.0


class Learned(NamedTuple):
    """What the first of lazy data say about how all of them are filled.

    Attributes:
        filled: those first data.
        left_over: mean square of what the law leaves over at each point, (M,).
        settings: of the rest.
        known: points that they see, (M,).
        how: whether observed values are smoothed, and unseen points filled.
    """

    filled: Filled
    left_over: Array
    settings: Settings
    known: Array
    how: tuple[bool, bool]

    def shown(
        self, values: Array, told: tuple[Array, Array], grid: Grid, known: Array, rows: slice
    ) -> tuple[Array, Array]:
        """Mean and deviation at some times of values (P, T, M), others of which are neighbours.

        ``told`` are mean and variance by the law.
        """
        moments = Moments(*told, np.broadcast_to(self.left_over, values.shape))
        moments = with_residual(moments, values, grid, self.settings)
        moments = Moments(*(part[:, rows] for part in moments))
        return shown(moments, self.filled.trials[0], values[:, rows], *self.how, known)

    def told(self, result: xr.Dataset) -> Filled:
        """All data filled, with what the first of them say about the choice."""
        own = self.filled.data
        told = {name: v for name, v in own.data_vars.items() if name not in result}
        return self.filled._replace(data=result.assign(told).assign_attrs(own.attrs))


def _learned(head: Observed, fill: Fill, how: tuple[bool, bool]) -> Learned:
    """A law chosen and learned by data in memory, with all that fills others like them."""
    found = fill(head)
    told_by, settings = law_moments(found.law, head), found.trials[0].settings
    if settings.weight is not None:
        rest, points = head.fields.values - told_by.mean, grid_of(head).points
        settings = settings._replace(covariance=shared_covariance(rest, points, settings.weight))
    return Learned(found, told_by.rest[0, 0], settings, head.observed_points(), how)


def fill_in_blocks(own: Observed, fill: Fill, how: tuple[bool, bool]) -> Filled:
    """Lazy paths: a law chosen and learned by the first of them fills all, block by block."""
    head = own.paths(slice(max(2, int(HEAD_BYTES * own.n_paths / own.fields.nbytes)))).in_memory()
    learned = _learned(head, fill, how)
    law = learned.filled.law

    def filled(block: Observed, _: Any) -> xr.Dataset:
        values, told = block.fields.values, law_moments(law, block)
        known = learned.known | np.isfinite(values).any((0, 1))
        found = learned.shown(values, told[:2], grid_of(block), known, slice(None))
        return labelled(*found, law, block)

    return learned.told(by_paths(filled, own))


def fill_in_parts(
    own: Observed, fill: Fill, how: tuple[bool, bool], prepare: Preparation | None
) -> Filled:
    """One long lazy record: its beginning chooses and learns the law that fills all of it.

    Climatology and scale are learned from all times. Each part of times is filled from the law's
    moments given the whole record, and from neighbours that may lie in the parts beside it.
    """
    import dask

    rows = max(FEWEST_ROWS, int(HEAD_BYTES * len(own.times) / own.fields.nbytes))
    learned = _learned(own.at_times(slice(rows)).in_memory(), fill, how)
    law = learned.filled.law
    if prepare is not None:
        prepared = completed(learn_map(prepare, own.labelled, own.domain.dims))
        law = dataclasses.replace(law, preparation=prepared)
        learned = learned._replace(filled=learned.filled._replace(law=law))
    found, grid = law_fields(law, own), grid_of(own.at_times(slice(2)))
    look, any_of, call = (dask.delayed(f, pure=False) for f in (_points_of, np.any, _filled_part))
    parts, slices, values = [], parts_of(own), own.values
    known = any_of([look(Unread(values[:, part])) for part in slices], 0)
    shared = dask.delayed(learned, traverse=False)
    for part in slices:
        wide = _with_neighbours(part, own.times, learned.settings)
        told = [found[name].isel(time=wide).data for name in ("mean", "std")]
        clock = grid._replace(times=own.times[None, wide])
        at = slice(part.start - wide.start, part.stop - wide.start)
        parts.append(call(shared, Unread(values[:, wide]), *told, known, clock, at, own.places))
    dims, shape = ("path", "time", *own.places.dims), (1, 1, *own.places.shape)
    template = xr.Dataset({name: (dims, np.zeros(shape)) for name in ("mean", "std")})
    table = joined(parts, [part.stop - part.start for part in slices], template, "time", {})
    return learned.told(named(table, law, own))


def _filled_part(
    learned: Learned, values: Unread, mean: Array, std: Array, known: Array, grid: Grid,
    rows: slice, places: Places,
) -> dict[str, Array]:  # fmt: skip
    """Some rows of a record, filled; the others are their neighbours in time."""
    found = learned.shown(values.read(), (mean, std**2), grid, known, rows)
    return dict(zip(("mean", "std"), map(places.unflatten, found), strict=True))


def _points_of(values: Unread) -> Array:
    """Points that are seen in a part, (M,)."""
    return np.isfinite(values.read()).any((0, 1))


def _with_neighbours(part: slice, times: Array, settings: Settings) -> slice:
    """Rows of a part, and those close enough in time to say something about its rest."""
    if settings.kernel is None:
        return part
    reach = REACH * settings.kernel.time
    first = int(np.searchsorted(times, times[part.start] - reach))
    last = int(np.searchsorted(times, times[part.stop - 1] + reach, side="right"))
    return slice(first, last)


# ---------- Gaps filled: each missing value with its mean and its deviation, by the law that does
# it best


RESTS = ("auto", "white", "memory", "local", "shared")
#: Held-out values from which a choice can be made.
ENOUGH = 10
#: Modes for every value that the middle row has.
PER_VALUE = 1.0


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
        n_modes: a number, or "auto" for the fewest that predict held-out values as well as any, to
            within a standard error.
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
    _check(n_modes, basis, drift, rest, seconds, words)
    seed = whole("seed", seed, 0)
    if prepare is not None:
        instance("prepare", prepare, Preparation, "pass prepare=sl.Preparation(anomalies='month')")
    if domain is None:
        domain, prepare = guess_source(data, prepare)
    own = _observed(data, domain, prepare)
    how = None if prepare is None or not prepare.is_affine else affine_part(prepare)
    if in_paths(own) or is_record(own):
        fill_first = functools.partial(
            fill_record, domain=domain, n_modes=n_modes, prepare=how, basis=basis, drift=drift,
            rest=rest, smooth=smooth, everywhere=everywhere, seconds=seconds, seed=seed,
            progress=progress, **words,
        )  # fmt: skip
        if in_paths(own):
            return fill_in_blocks(own, fill_first, (smooth, everywhere))
        return fill_in_parts(own, fill_first, (smooth, everywhere), how)
    own = own.in_memory()
    check_plausible(own.fields)
    recipe = Recipe(domain, how, words | ({"rest": rest} if rest == "memory" else {}))
    grid, seen = grid_of(own), np.isfinite(own.fields.values)
    unseen = everywhere and not seen.any((0, 1)).all()
    record = _held_out(own, grid, seed, unseen)
    most = max(1, int(PER_VALUE * np.median(seen.sum(-1)[seen.any(-1)])))
    asked = tracks(n_modes, "domain" if unseen else basis, drift, min(most, seen.any((0, 1)).sum()))
    rests = ("white", "local", "shared") if rest == "auto" else (rest,)
    trials = choose(record, recipe, asked, rests, seconds, progress)
    law, moments, trials = _chosen(trials, own, grid, recipe)
    values = own.fields.values
    found = shown(moments, trials[0], values, smooth, everywhere, seen.any((0, 1)))
    return Filled(described(labelled(*found, law, own), trials, record), law, trials)


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
            expected, got = f"a word of the model: {known}", repr(name)
            raise InputError(name, expected=expected, got=got, fix="see help(spdelaw.fill)")


def _observed(data: Any, domain: AbstractDomain, prepare: Preparation | None) -> Observed:
    """The data in their units, reduced and canonical."""
    fix = "pass domain=sl.Interval(a, b), or leave it out"
    instance("domain", domain, AbstractDomain, fix)  # type: ignore[type-abstract]
    if isinstance(data, Observed) or prepare is None:
        return check_times(observe(data, domain))
    return check_times(observe(prepare.reduce(data), domain, time_unit=prepare.time_unit))


def _held_out(own: Observed, grid: Grid, seed: int, whole_points: bool) -> Record:
    seen = np.isfinite(own.fields.values)
    held = hold_out(seen, grid.points, seed, whole_points=whole_points)
    if held.sum() < ENOUGH:
        expected = f"enough values to hold {ENOUGH} of them out"
        fix = "observe longer, or fit a law and use law.reconstruct(data)"
        raise DataError("data", expected=expected, got=f"{int(seen.sum())} values", fix=fix)
    return without(own, held, grid, seed)


def _chosen(
    trials: list[Trial], own: Observed, grid: Grid, recipe: Recipe
) -> tuple[Law, Moments, list[Trial]]:
    """The law of the best trial learned from all values, and what it says about them.

    Where that cannot be learned from all values, the next best one; the trials come back with the
    one that was taken first.
    """
    data, _ = ready(own, recipe, trials[0].settings.climate)
    notes = [f"{trials[0].candidate}: {trials[0].note}"]
    for best in [trial for trial in trials if np.isfinite(trial.crps)]:
        try:
            law = learn(data, recipe, best.candidate, _rough(trials, best, data, recipe))
            moments = law_moments(law, own)
        except (SpdeLawError, np.linalg.LinAlgError) as error:
            notes.append(f"{best.candidate}: {error}")
            continue
        others = [trial for trial in trials if trial is not best]
        return law, with_residual(moments, own.fields.values, grid, best.settings), [best, *others]
    got = f"{len(trials)} candidates, none of which did; {notes[-1]}"
    fix = "pass n_modes=4, drift='diagonal' and basis='domain', or check the domain"
    raise ConvergenceError("fill", expected="a law that predicts held-out values", got=got, fix=fix)


def _rough(trials: list[Trial], best: Trial, data: Observed, recipe: Recipe) -> Law | None:
    """The best law on the domain, where patterns need the record without gaps."""
    plain = [t for t in trials if t.candidate.basis == "domain" and np.isfinite(t.crps)]
    if best.candidate.basis != "patterns" or not plain:
        return None
    return learn(data, recipe, plain[0].candidate)

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
from spdelaw.data.observed import Observed, check_times, observe
from spdelaw.data.prepare import Preparation, learn_map
from spdelaw.data.quality import check_plausible
from spdelaw.data.recognise import guess_source
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.places import Places
from spdelaw.errors import ConvergenceError, DataError, InputError, SpdeLawError
from spdelaw.evaluation.gaps.prediction import (
    BASES,
    Moments,
    Recipe,
    Settings,
    completed,
    law_fields,
    law_moments,
    learn,
    prepare_data,
    tracks,
    with_residual,
)
from spdelaw.evaluation.gaps.residuals import Grid, Kriged, Shared
from spdelaw.evaluation.gaps.selection import (
    Record,
    Trial,
    choose,
    grid_of,
    hold_out,
    make_record,
)
from spdelaw.evaluation.hindcast import affine_part
from spdelaw.evaluation.scores import LEVELS
from spdelaw.infer.model import DRIFTS, WORDS
from spdelaw.law.law import Law
from spdelaw.law.lazy import Unread, by_paths, in_paths, is_record, joined, parts_of
from spdelaw.law.observations import to_user

# ---------- The result of filling: mean, deviation and the choice of the law


Array = np.ndarray


class Filled(NamedTuple):
    """A filled record, the law that filled it, and how it was chosen."""

    data: xr.Dataset
    law: Law
    trials: list[Trial]


def mean_and_deviation(
    moments: Moments,
    best: Trial,
    values: Array,
    smooth: bool,
    everywhere: bool,
    observed_points: Array,
) -> tuple[Array, Array]:
    """Mean and deviation; NaN at points that were never observed, unless ``everywhere``."""
    mean, std = moments.mean.copy(), np.sqrt(moments.variance(best.settings))
    observed = np.isfinite(values)
    if smooth:
        std[observed] = np.sqrt(moments.state)[observed]
    else:
        mean[observed], std[observed] = values[observed], 0.0
    if not everywhere:
        mean[..., ~observed_points], std[..., ~observed_points] = np.nan, np.nan
    return mean, std


def labelled(mean: Array, std: Array, law: Law, observed: Observed) -> xr.Dataset:
    """Mean and deviation with the dates, names and attributes of the data."""
    dims, both = ("path", "time", *observed.places.dims), {"mean": mean, "std": std}
    table = {name: (dims, observed.places.unflatten(values)) for name, values in both.items()}
    return named(xr.Dataset(table), law, observed)


def named(table: xr.Dataset, law: Law, observed: Observed) -> xr.Dataset:
    """Results on the points of the data under their names."""
    coords = {k: v for k, v in observed.labelled.coords.items() if k != OBSERVATION_STD}
    table = table.assign_coords(coords)
    bare = law.without_preparation_and_mean.with_info(labels=law.info.get("labels", {}))
    return to_user(bare, table, observed.dated, observed.fields)


def described(result: xr.Dataset, trials: list[Trial], record: Record) -> xr.Dataset:
    """The result with the trials, and a sentence about them."""
    names = [f"{t.candidate}, rest {t.rest}" for t in trials]
    result = result.assign(
        held_out_rmse=("candidate", [t.rmse for t in trials]),
        held_out_crps=("candidate", [t.crps for t in trials]),
        held_out_coverage=(("candidate", "level"), [list(t.coverage) for t in trials]),
        candidate_seconds=("candidate", [t.seconds for t in trials]),
        candidate_note=("candidate", np.array([t.note for t in trials])),
    ).assign_coords(candidate=np.array(names), level=[level / 100 for level in LEVELS])
    return result.assign_attrs(_choice_attributes(trials, record))


def _choice_attributes(trials: list[Trial], record: Record) -> dict[str, Any]:
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


# ---------- Lazy data: the first of them choose and learn the law that fills all


#: Fills data in memory.
Fill = Callable[[Observed], Filled]

#: Bytes of the first of lazy data, by which the law that fills all of them is chosen, and rows.
HEAD_BYTES, FEWEST_ROWS = 256e6, 200
#: Reach of neighbours in time, in units of the memory of the residual: beyond, no correlation.
REACH_IN_MEMORIES = 8.0


class Learned(NamedTuple):
    """The law and settings, learned from the first of lazy data, that fill all of them.

    Attributes:
        filled: those first data.
        residual_square: mean square of the residual of the law at each point, (M,).
        settings: of the residual.
        observed_points: points with values in those data, (M,).
        how: whether observed values are smoothed, and unseen points filled.
    """

    filled: Filled
    residual_square: Array
    settings: Settings
    observed_points: Array
    how: tuple[bool, bool]

    def mean_and_deviation(
        self,
        values: Array,
        mean_and_variance: tuple[Array, Array],
        grid: Grid,
        observed_points: Array,
        rows: slice,
    ) -> tuple[Array, Array]:
        """Mean and deviation at some times of values (P, T, M), others of which are neighbours.

        ``mean_and_variance`` are mean and variance by the law.
        """
        moments = Moments(*mean_and_variance, np.broadcast_to(self.residual_square, values.shape))
        moments = with_residual(moments, values, grid, self.settings)
        moments = Moments(*(array[:, rows] for array in moments))
        return mean_and_deviation(
            moments, self.filled.trials[0], values[:, rows], *self.how, observed_points
        )

    def with_choice(self, result: xr.Dataset) -> Filled:
        """All data filled, with the trials and attributes of the first of them."""
        first = self.filled.data
        choice = {name: v for name, v in first.data_vars.items() if name not in result}
        return self.filled._replace(data=result.assign(choice).assign_attrs(first.attrs))


def _learn_from_head(head: Observed, fill: Fill, how: tuple[bool, bool]) -> Learned:
    """A law chosen and learned from data in memory, with all that fills later data."""
    filled = fill(head)
    moments, settings = law_moments(filled.law, head), filled.trials[0].settings
    if isinstance(settings.residual, Shared):
        residual = head.fields.values - moments.mean
        settings = settings._replace(residual=settings.residual.fitted(residual, grid_of(head)))
    return Learned(filled, moments.residual[0, 0], settings, head.observed_points(), how)


def fill_in_blocks(observed: Observed, fill: Fill, how: tuple[bool, bool]) -> Filled:
    """Lazy paths: a law chosen and learned by the first of them fills all, block by block."""
    head = observed.paths(
        slice(max(2, int(HEAD_BYTES * observed.n_paths / observed.fields.nbytes)))
    ).in_memory()
    learned = _learn_from_head(head, fill, how)
    law = learned.filled.law

    def filled(block: Observed, _: Any) -> xr.Dataset:
        values, moments = block.fields.values, law_moments(law, block)
        observed_points = learned.observed_points | np.isfinite(values).any((0, 1))
        mean_and_std = learned.mean_and_deviation(
            values, moments[:2], grid_of(block), observed_points, slice(None)
        )
        return labelled(*mean_and_std, law, block)

    return learned.with_choice(by_paths(filled, observed))


def fill_in_parts(
    observed: Observed, fill: Fill, how: tuple[bool, bool], prepare: Preparation | None
) -> Filled:
    """One long lazy record: its beginning chooses and learns the law that fills all of it.

    Climatology and scale are learned from all times. Each part of times is filled from the law's
    moments given the whole record, and from neighbours that may lie in adjacent parts.
    """
    import dask

    rows = max(FEWEST_ROWS, int(HEAD_BYTES * len(observed.times) / observed.fields.nbytes))
    learned = _learn_from_head(observed.at_times(slice(rows)).in_memory(), fill, how)
    law = learned.filled.law
    if prepare is not None:
        prepared = completed(learn_map(prepare, observed.labelled, observed.domain.dims))
        law = dataclasses.replace(law, preparation=prepared)
        learned = learned._replace(filled=learned.filled._replace(law=law))
    law_result, grid = law_fields(law, observed), grid_of(observed.at_times(slice(2)))
    look, any_of, call = (
        dask.delayed(f, pure=False) for f in (_observed_points, np.any, _fill_rows)
    )
    parts, slices, values = [], parts_of(observed), observed.values
    observed_points = any_of([look(Unread(values[:, span])) for span in slices], 0)
    shared = dask.delayed(learned, traverse=False)
    for span in slices:
        wide = _with_neighbours(span, observed.times, learned.settings)
        mean_and_std = [law_result[k].isel(time=wide).data for k in ("mean", "std_field")]
        clock = grid._replace(times=observed.times[None, wide])
        at = slice(span.start - wide.start, span.stop - wide.start)
        parts.append(
            call(
                shared,
                Unread(values[:, wide]),
                *mean_and_std,
                observed_points,
                clock,
                at,
                observed.places,
            )
        )
    dims, shape = ("path", "time", *observed.places.dims), (1, 1, *observed.places.shape)
    template = xr.Dataset({name: (dims, np.zeros(shape)) for name in ("mean", "std")})
    table = joined(parts, [span.stop - span.start for span in slices], template, "time", {})
    return learned.with_choice(named(table, law, observed))


def _fill_rows(
    learned: Learned, values: Unread, mean: Array, std: Array, observed_points: Array, grid: Grid,
    rows: slice, places: Places,
) -> dict[str, Array]:  # fmt: skip
    """Some rows of a record, filled; the others are their neighbours in time."""
    mean_and_std = learned.mean_and_deviation(
        values.read(), (mean, std**2), grid, observed_points, rows
    )
    return dict(zip(("mean", "std"), map(places.unflatten, mean_and_std), strict=True))


def _observed_points(values: Unread) -> Array:
    """Points with values in a part, (M,)."""
    return np.isfinite(values.read()).any((0, 1))


def _with_neighbours(span: slice, times: Array, settings: Settings) -> slice:
    """Rows of a part, and those close enough in time to be correlated with its residual."""
    if not isinstance(settings.residual, Kriged):
        return span
    reach = REACH_IN_MEMORIES * settings.residual.kernel.time
    first = int(np.searchsorted(times, times[span.start] - reach))
    last = int(np.searchsorted(times, times[span.stop - 1] + reach, side="right"))
    return slice(first, last)


# ---------- Filling of gaps


RESTS = ("auto", "white", "memory", "local", "shared")
#: Fewest held-out values for a choice.
FEWEST_HELD_OUT = 10
#: Most modes per observed value of the median row.
MODES_PER_VALUE = 1.0


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
    _check_options(n_modes, basis, drift, rest, seconds, words)
    seed = whole("seed", seed, 0)
    if prepare is not None:
        instance("prepare", prepare, Preparation, "pass prepare=sl.Preparation(anomalies='month')")
    if domain is None:
        domain, prepare = guess_source(data, prepare)
    observed = _observed(data, domain, prepare)
    how = None if prepare is None or not prepare.is_affine else affine_part(prepare)
    if in_paths(observed) or is_record(observed):
        fill_first = functools.partial(
            fill_record, domain=domain, n_modes=n_modes, prepare=how, basis=basis, drift=drift,
            rest=rest, smooth=smooth, everywhere=everywhere, seconds=seconds, seed=seed,
            progress=progress, **words,
        )  # fmt: skip
        if in_paths(observed):
            return fill_in_blocks(observed, fill_first, (smooth, everywhere))
        return fill_in_parts(observed, fill_first, (smooth, everywhere), how)
    observed = observed.in_memory()
    check_plausible(observed.fields)
    recipe = Recipe(domain, how, words | ({"rest": rest} if rest == "memory" else {}))
    grid, observed_mask = grid_of(observed), np.isfinite(observed.fields.values)
    unseen = everywhere and not observed_mask.any((0, 1)).all()
    record = _held_out(observed, grid, seed, unseen)
    most = max(1, int(MODES_PER_VALUE * np.median(observed_mask.sum(-1)[observed_mask.any(-1)])))
    candidate_tracks = tracks(
        n_modes, "domain" if unseen else basis, drift, min(most, observed_mask.any((0, 1)).sum())
    )
    rests = ("white", "local", "shared") if rest == "auto" else (rest,)
    trials = choose(record, recipe, candidate_tracks, rests, seconds, progress)
    law, moments, trials = _learn_best(trials, observed, grid, recipe)
    values = observed.fields.values
    mean_and_std = mean_and_deviation(
        moments, trials[0], values, smooth, everywhere, observed_mask.any((0, 1))
    )
    return Filled(described(labelled(*mean_and_std, law, observed), trials, record), law, trials)


def _check_options(
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
            allowed = ", ".join(word for word in WORDS if word not in ("drift", "forcing"))
            expected, got = f"a word of the model: {allowed}", repr(name)
            raise InputError(name, expected=expected, got=got, fix="see help(spdelaw.fill)")


def _observed(data: Any, domain: AbstractDomain, prepare: Preparation | None) -> Observed:
    """The data in their units, reduced and canonical."""
    fix = "pass domain=sl.Interval(a, b), or leave it out"
    instance("domain", domain, AbstractDomain, fix)  # type: ignore[type-abstract]
    if isinstance(data, Observed) or prepare is None:
        return check_times(observe(data, domain))
    return check_times(observe(prepare.reduce(data), domain, time_unit=prepare.time_unit))


def _held_out(observed: Observed, grid: Grid, seed: int, whole_points: bool) -> Record:
    observed_mask = np.isfinite(observed.fields.values)
    held = hold_out(observed_mask, grid.points, seed, whole_points=whole_points)
    if held.sum() < FEWEST_HELD_OUT:
        expected = f"enough values to hold {FEWEST_HELD_OUT} of them out"
        fix = "observe longer, or fit a law and use law.reconstruct(data)"
        raise DataError(
            "data", expected=expected, got=f"{int(observed_mask.sum())} values", fix=fix
        )
    return make_record(observed, held, grid, seed)


def _learn_best(
    trials: list[Trial], observed: Observed, grid: Grid, recipe: Recipe
) -> tuple[Law, Moments, list[Trial]]:
    """The law of the best trial learned from all values, and its moments of them.

    Where that cannot be learned from all values, the next best one; the trials come back with the
    one that was taken first.
    """
    data, _ = prepare_data(observed, recipe, trials[0].settings.climate)
    notes = [f"{trials[0].candidate}: {trials[0].note}"]
    for best in [trial for trial in trials if np.isfinite(trial.crps)]:
        try:
            law = learn(data, recipe, best.candidate, _law_on_domain(trials, best, data, recipe))
            moments = law_moments(law, observed)
        except (SpdeLawError, np.linalg.LinAlgError) as error:
            notes.append(f"{best.candidate}: {error}")
            continue
        others = [trial for trial in trials if trial is not best]
        return (
            law,
            with_residual(moments, observed.fields.values, grid, best.settings),
            [best, *others],
        )
    got = f"{len(trials)} candidates, none of which did; {notes[-1]}"
    fix = "pass n_modes=4, drift='diagonal' and basis='domain', or check the domain"
    raise ConvergenceError("fill", expected="a law that predicts held-out values", got=got, fix=fix)


def _law_on_domain(trials: list[Trial], best: Trial, data: Observed, recipe: Recipe) -> Law | None:
    """The best law on the domain, where patterns need the record without gaps."""
    plain = [t for t in trials if t.candidate.basis == "domain" and np.isfinite(t.crps)]
    if best.candidate.basis != "patterns" or not plain:
        return None
    return learn(data, recipe, plain[0].candidate)

"""Gaps filled: each missing value with its mean and its deviation, by the law that does it best."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.checks import instance, one_of, positive, whole
from spdelaw.data import (
    Observed,
    Preparation,
    check_plausible,
    check_times,
    observe,
)
from spdelaw.domain import AbstractDomain
from spdelaw.errors import ConvergenceError, DataError, InputError, SpdeLawError
from spdelaw.evaluation._fill_candidates import BASES, Recipe, learn, ready, tracks
from spdelaw.evaluation._fill_choice import Record, Trial, choose, grid_of, without
from spdelaw.evaluation._fill_lazy import fill_in_blocks, fill_in_parts
from spdelaw.evaluation._fill_predict import Grid, Moments, law_moments, with_rest
from spdelaw.evaluation._fill_result import Filled, described, labelled, shown
from spdelaw.evaluation._guessed_source import guess_source
from spdelaw.evaluation._held_out import hold_out
from spdelaw.evaluation._hindcast import affine_part
from spdelaw.infer import DRIFTS, WORDS
from spdelaw.law import Law, in_paths, is_record

Array = np.ndarray

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
        return law, with_rest(moments, own.fields.values, grid, best.settings), [best, *others]
    got = f"{len(trials)} candidates, none of which did; {notes[-1]}"
    fix = "pass n_modes=4, drift='diagonal' and basis='domain', or check the domain"
    raise ConvergenceError("fill", expected="a law that predicts held-out values", got=got, fix=fix)


def _rough(trials: list[Trial], best: Trial, data: Observed, recipe: Recipe) -> Law | None:
    """The best law on the domain, where patterns need the record without gaps."""
    plain = [t for t in trials if t.candidate.basis == "domain" and np.isfinite(t.crps)]
    if best.candidate.basis != "patterns" or not plain:
        return None
    return learn(data, recipe, plain[0].candidate)

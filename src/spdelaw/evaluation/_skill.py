"""Forecast skill on data that the forecasts have not seen, beside what people use now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.checks import instance, one_of, probability, whole
from spdelaw.data import Preparation, as_fields, check_plausible
from spdelaw.domain import AbstractDomain
from spdelaw.errors import DataError, InputError
from spdelaw.evaluation._guessed_source import guess_source
from spdelaw.evaluation._hindcast import (
    INVERSE,
    PATTERNS,
    Issued,
    Plan,
    Trial,
    affine_part,
    first_origin,
    hindcast,
    where_seen,
)
from spdelaw.evaluation._rivals import SIMPLE
from spdelaw.evaluation._skill_choice import candidates, choose
from spdelaw.evaluation._skill_fields import forecasts_dataset
from spdelaw.evaluation._skill_result import Skill
from spdelaw.evaluation._skill_scores import origin_sums, score_table

ORIGINS = ("expanding", "rolling")
RIVALS = (*SIMPLE, INVERSE)
#: Names of spatial dims that are tried where no domain tells them.
KNOWN_DIMS = (("lat", "lon"), ("x", "y"), ("x",))


def skill(
    data: Any,
    domain: AbstractDomain | str | None = None,
    n_modes: int | str | list[int] = "auto",
    *,
    prepare: Preparation | None = None,
    leads: Any = (1, 3, 6, 12),
    origins: str = "expanding",
    first: int | float = 0.6,
    refits: int = 4,
    most_origins: int = 100,
    rest: str = "auto",
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
    progress: Any = None,
    **settings: Any,
) -> Skill:
    """Forecast the past as it would have been done, and score it beside its rivals.

    From every origin the law and its rivals see earlier times only: law, climatology, trend and
    scale, patterns and their number are learned from them. All leads are scored from the same
    origins, and all methods on the same values. Rivals are the climatology, persistence, damped
    persistence per point, and a linear inverse model (LIM) of empirical orthogonal functions,
    whose number is chosen by forecasts of the end of its own past.

    Args:
        data: fields, or raw data with ``prepare``.
        domain: as in `spdelaw.fit`, "eof" for the empirical orthogonal functions of each past, or
            None for the one of these two that forecasts better, the domain guessed.
        n_modes: a number, several to choose from, or "auto". Number, modes and, for EOFs, diagonal
            or dense ``drift`` are chosen by forecasts of the end of the first past, before any
            origin; what is given is not chosen.
        prepare: learned anew from the past at every fit.
        leads: steps ahead.
        origins: "expanding" learns from all times before, "rolling" from as many as at first.
        first: times before the first origin, as a number or as a share of all.
        refits: how often all is learned anew, evenly over the origins.
        most_origins: spread evenly where the data have more.
        rest: as in `spdelaw.Model`, but "auto" by default.
        level: of the intervals.
        replicates: of the bootstrap over blocks of origins.
        seed: of the bootstrap.
        progress: True, or a function of (done, in all): candidates, then origins.
        settings: further words of `spdelaw.fit`, such as ``drift="dense"``.

    Returns:
        `Skill` with ``table``, ``forecasts``, and what was chosen.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> calm = sl.catalogue.heat(n_modes=2, initial="stationary")
        >>> one = sl.simulate(calm, 1, np.linspace(0, 20, 101), np.linspace(0, np.pi, 9), seed=0)
        >>> found = sl.skill(one, calm.domain, 2, leads=(1, 3), refits=1)
        >>> rmse = found.score("rmse").sel(statistic="estimate")
        >>> bool(rmse.sel(predictor="law", lead=3) < 1.0)
        True
    """
    ahead = _check_leads(leads)
    one_of("origins", origins, ORIGINS)
    level = probability("level", level)
    n_fits, most = whole("refits", refits, 1), whole("most_origins", most_origins, 1)
    whole("replicates", replicates, 1)
    tell = _reporter(progress)
    places, prepare = _places(data, domain, prepare)
    fields, dims = _fields(data, places[0], prepare)
    check_plausible(fields)
    start = first_origin(fields, first)
    plan = _plan(fields.sizes["time"], start, ahead, n_fits, most, origins)
    known, seen = where_seen(fields, dims, start)
    how = None if prepare is None else affine_part(prepare)
    base = Trial(PATTERNS, dims, "auto", how, {**settings, "rest": rest}, RIVALS)
    past = known.isel(time=slice(start))
    laws = candidates(base, n_modes, places, past)
    before, n_origins = len(laws) if len(laws) > 1 else 0, len(plan.origins)
    chosen, tried = choose(past, laws, ahead, lambda i: tell(i, before + n_origins))
    told = hindcast(known, chosen, plan, lambda i, _: tell(before + i, before + n_origins))
    issued = list(told)
    sums, counts = (np.stack(part) for part in zip(*map(origin_sums, issued), strict=True))
    _check_scored(counts, ahead)
    stride = (plan.origins[-1] - plan.origins[0]) / max(1, len(plan.origins) - 1) or 1.0
    table = score_table(
        sums, counts, list(issued[0].outlooks), ahead, stride, level, replicates, seed
    )
    forecasts = forecasts_dataset(issued, fields, seen, dims, ahead)
    about = _about(fields, plan, origins, issued[-1])
    return Skill(table, forecasts, int(chosen.n_modes), tried, about)


def _check_leads(leads: Any) -> tuple[int, ...]:
    given = [leads] if np.ndim(leads) == 0 else list(leads)
    if not given:
        raise InputError("leads", expected="steps ahead", got="none", fix="pass leads=(1, 3, 6)")
    return tuple(sorted({whole("leads", k, 1) for k in given}))


def _places(
    data: Any, domain: Any, prepare: Preparation | None
) -> tuple[list[AbstractDomain | str], Preparation | None]:
    """Where modes may come from, with the names that were guessed where nobody said it."""
    if domain is not None:
        return [domain], prepare
    guessed, how = guess_source(data, prepare)
    return [guessed, PATTERNS], how


def _fields(
    data: Any, domain: Any, prepare: Preparation | None
) -> tuple[xr.DataArray, tuple[str, ...]]:
    """Canonical fields, reduced but not yet prepared, and their spatial dims."""
    if prepare is not None:
        fix = "pass prepare=sl.Preparation(anomalies='month')"
        instance("prepare", prepare, Preparation, fix)
    if prepare is not None and prepare.anomalies == "lead":
        raise InputError(
            "prepare",
            expected="a climatology that later times share",
            got="anomalies='lead'",
            fix="forecasts from many starts are judged by starts: fit some of them, and pass the "
            "others to spdelaw evaluate, in Python sl.evaluate(law, others)",
        )
    unit = None if prepare is None else prepare.time_unit
    reduced = data if prepare is None else prepare.reduce(data)
    if isinstance(domain, AbstractDomain):
        return as_fields(reduced, dims=domain.dims, time_unit=unit), domain.dims
    if domain != PATTERNS:
        expected = f"a domain such as sl.Sphere(), or {PATTERNS!r}"
        fix = f"pass domain={PATTERNS!r} for patterns of the data"
        raise InputError("domain", expected=expected, got=repr(domain), fix=fix)
    for dims in KNOWN_DIMS:
        try:
            return as_fields(reduced, dims=dims, time_unit=unit), dims
        except DataError as error:
            last = error
    raise last


def _plan(n: int, start: int, leads: tuple[int, ...], refits: int, most: int, origins: str) -> Plan:
    end = n - leads[-1]
    if end < start:
        expected = f"at most {n - start}, of {n} times of which the first {start} are learned from"
        fix = "ask for shorter leads, or start earlier: first=0.4"
        raise InputError("leads", expected=expected, got=str(leads[-1]), fix=fix)
    rows = np.unique(np.linspace(start, end, min(most, end - start + 1)).round().astype(int))
    fits = np.unique(np.linspace(0, len(rows), min(refits, len(rows)), endpoint=False).astype(int))
    window = start if origins == "rolling" else None
    return Plan(tuple(rows.tolist()), tuple(fits.tolist()), leads, window)


def _reporter(progress: Any) -> Callable[[int, int], Any]:
    if progress is None or progress is False:
        return lambda done, total: None
    if progress is True:
        import sys

        return lambda done, total: print(f"{done} of {total}", file=sys.stderr)
    if callable(progress):
        return progress
    expected = "True, False or a function"
    raise InputError("progress", expected=expected, got=repr(progress), fix="progress=True")


def _check_scored(counts: np.ndarray, leads: tuple[int, ...]) -> None:
    empty = [k for k, n in zip(leads, counts.sum(0), strict=True) if n == 0]
    if empty:
        expected, fix = "values to score at every lead", "check the gaps, or leave that lead out"
        raise DataError("data", expected=expected, got=f"none at lead {empty[0]}", fix=fix)


def _about(fields: xr.DataArray, plan: Plan, origins: str, last: Issued) -> dict[str, Any]:
    """What was done, as plain data."""
    law = last.law
    return {
        "variable": str(fields.name),
        "units": str(fields.attrs.get("units", "")),
        "origins": origins,
        "first": plan.origins[0],
        "n_origins": len(plan.origins),
        "n_fits": len(plan.fits),
        "domain": str(law.domain),
        "drift": law.info.get("drift", law.dynamics.name),
        "rest": law.info.get("rest", {}).get("answer", "white"),
        "patterns": 0 if last.inverse is None else last.inverse.n_patterns,
    }

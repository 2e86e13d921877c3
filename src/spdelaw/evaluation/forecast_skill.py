"""Forecast skill on later data, against simple rivals and a linear inverse model."""

from __future__ import annotations

import dataclasses
import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.checks import checked, one_of, whole
from spdelaw.data.clock import to_dates
from spdelaw.data.fields import as_fields
from spdelaw.data.io.sources import open_raw
from spdelaw.data.prepare import Preparation
from spdelaw.data.quality import check_plausible
from spdelaw.data.recognise import guess_source
from spdelaw.data.summary import labels_of, restore_names
from spdelaw.domains.base import AbstractDomain, table_html
from spdelaw.domains.places import places_of_fields
from spdelaw.errors import DataError, InputError
from spdelaw.evaluation.hindcast import (
    INVERSE,
    PATTERNS,
    Issued,
    Plan,
    Trial,
    affine_part,
    candidates,
    choose,
    first_origin,
    for_raw_data,
    hindcast,
    tables_by_lead,
    where_observed,
)
from spdelaw.evaluation.rivals import SIMPLE
from spdelaw.evaluation.scores import (
    LEVELS,
    OF_FORECASTS,
    RANK_BINS,
    Prediction,
    ScoreTable,
    aligned,
    interval,
    score_names,
    skill_of,
    to_plain,
)
from spdelaw.infer.pipeline import NONLINEAR_WORDS
from spdelaw.law.law import Law

# ---------- Scores of forecasts by method and lead, with intervals from blocks of origins
#
# Every score is a mean over values of all origins, paths and points that every method forecasts,
# in the units of the data; lower is better but for the coverage. Intervals are quantiles over
# moving blocks of origins as long as the lead, the same blocks for all methods.


Array = np.ndarray

SCORES = (*score_names(), *OF_FORECASTS)
#: Statistics of each score.
STATISTICS = ("estimate", "lower", "upper")


def score_dataset(
    tables: list[ScoreTable],
    methods: list[str],
    leads: tuple[int | float, ...],
    stride: float,
    level: float,
    replicates: int,
    seed: int,
) -> xr.Dataset:
    """Scores by method and lead with intervals; origins are ``stride`` steps apart."""
    n, rows, gains = len(tables[0].counts), [], []
    for table, lead in zip(tables, leads, strict=True):
        # Forecasts overlap while their futures do; slower changes need longer blocks still.
        length = max(int(np.ceil(lead / stride)), round(n ** (1 / 3)))
        means = table.means()
        draws = table.draws(replicates, seed, min(length, max(1, n // 2)))
        rows.append([means, *interval(draws, level)])
        gains.append([skill_of(means), *interval(skill_of(draws), level)])
    scores, skills = np.array(rows), np.array(gains)  # (lead, statistic, predictor[, score])
    dims = ("lead", "predictor", "score")
    result = xr.Dataset(
        {
            **{name: (dims, scores[:, i]) for i, name in enumerate(STATISTICS)},
            **{
                name: (dims[:2], skills[:, i])
                for i, name in enumerate(("skill", "skill_lower", "skill_upper"))
            },
            "n_values": ("lead", [int(table.counts.sum()) for table in tables]),
            "rank_histogram": (("lead", "predictor", "bin"), rank_histograms(tables)),
        },
        coords={"predictor": methods, "lead": list(leads), "score": list(tables[0].scores)},
        attrs={"level": level, "n_origins": n},
    )
    result["skill"].attrs = {"long_name": "1 - MSE(law) / MSE(method)"}
    result["rank_histogram"].attrs = {"long_name": "share of observed values by forecast quantile"}
    return result.transpose("predictor", "lead", "score", "bin")


def rank_histograms(tables: list[ScoreTable]) -> Array:
    """Share of values in each tenth of their forecasts; (lead, predictor, bin)."""
    sums = np.array([np.asarray(table.forecast_sums).sum(0)[:, -RANK_BINS:] for table in tables])
    return sums / np.maximum(sums.sum(-1, keepdims=True), 1.0)


# ---------- The result of `spdelaw.skill`


#: Scores that the text shows lead by lead.
SHOWN = {
    "rmse": "RMSE",
    "crps": "CRPS",
    "log_score": "log score",
    "anomaly_correlation": "anomaly correlation",
    "reliability_index": "reliability index of ranks (0 is best)",
}

#: Most laws that the text lists of those that were tried, best first.
MOST_LISTED = 5

#: Skill below which a difference of mean square errors counts as none.
LEAST_SKILL = 0.01


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Verification:
    """Scores of forecasts and of reference methods.

    Attributes:
        table: Dataset with ``estimate``, ``lower`` and ``upper`` over (predictor, lead, score),
            ``skill`` = 1 - MSE(first) / MSE(method) with ``skill_lower``, ``skill_upper``, and
            ``rank_histogram`` (predictor, lead, bin), flat if forecasts are calibrated.
        about: variable, units and settings of the forecasts, as plain data.
    """

    table: xr.Dataset
    about: dict[str, Any]

    def score(self, name: str = "rmse") -> xr.DataArray:
        """One score over (predictor, lead, statistic)."""
        one_of("score", name, SCORES)
        rows = self.table[[*STATISTICS]].sel(score=name, drop=True)
        return rows.to_dataarray("statistic").transpose("predictor", "lead", ...).rename(name)

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, ready for JSON; numbers that do not exist are None."""
        t = self.table

        def by_lead(rows: xr.Dataset) -> list[dict[str, float]]:
            return rows[[*STATISTICS]].to_dataframe()[[*STATISTICS]].to_dict("records")

        scores = {
            str(m): {str(s): by_lead(t.sel(predictor=m, score=s)) for s in t.score.values}
            for m in t.predictor.values
        }
        gains = t[["skill", "skill_lower", "skill_upper"]]
        gains = gains.rename(dict(zip(gains.data_vars, STATISTICS, strict=True)))
        document = {
            **self.about,
            "leads": t.lead.values,
            "level": t.attrs["level"],
            "scores": scores,
            "skill_against": {
                str(m): by_lead(gains.sel(predictor=m)) for m in t.predictor.values[1:]
            },
            "rank_histogram": {
                str(m): t["rank_histogram"].sel(predictor=m).values for m in t.predictor.values
            },
            "facts": self.facts,
            "verdict": self.verdict,
        }
        return to_plain(document)

    @property
    def verdict(self) -> str:
        """Reference methods that the forecasts are ahead of or behind, by lead, in one line."""
        t, parts = self.table, []
        for m in t.predictor.values[1:]:
            row = t.sel(predictor=m)
            ahead = t.lead.values[((row.skill_lower > 0) & (row.skill > LEAST_SKILL)).values]
            behind = t.lead.values[((row.skill_upper < 0) & (row.skill < -LEAST_SKILL)).values]
            words = [f"ahead at lead {_listed(ahead)}"] if len(ahead) else []
            words += [f"behind at lead {_listed(behind)}"] if len(behind) else []
            parts.append(f"{m}: {', '.join(words) or 'no clear difference'}")
        return f"{t.predictor.values[0]} against " + "; ".join(parts)

    @property
    def facts(self) -> list[str]:
        """How the forecasts came about, a line each."""
        a, t = self.about, self.table
        bias = "less their mean error at each lead and point" if a["adjusted"] else "as they are"
        starts = "1 start" if a["n_origins"] == 1 else f"{a['n_origins']} starts"
        return [
            f"{starts}, forecasts {bias}; at least {int(t.n_values.min())} values per lead",
            f"climatology of the observations: {a['climatology']}",
        ]

    def rows(self, score: str) -> tuple[list[str], list[list[str]]]:
        """Header and rows of one score: a method each, with intervals, by lead."""
        table = self.score(score)
        header = [SHOWN.get(score, score), *(f"lead {k}" for k in table.lead.values)]
        rows = [row for row in table if row.notnull().any()]  # a climatology has no anomalies
        return header, [[str(row.predictor.values), *map(_interval_text, row)] for row in rows]

    def coverage_rows(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows of the coverage of all methods: 50/80/95 % by lead."""
        t = self.table.estimate.sel(score=[f"coverage_{level}" for level in LEVELS])
        header = [f"inside {'/'.join(map(str, LEVELS))} %", *(f"lead {k}" for k in t.lead.values)]
        rows = [
            [str(row.predictor.values), *("/".join(f"{100 * v:.0f}" for v in at) for at in row)]
            for row in t.transpose("predictor", "lead", "score")
        ]
        return header, rows

    def tables(self) -> list[tuple[list[str], list[list[str]]]]:
        """All that is shown: a table per score, and the coverage."""
        return [*(self.rows(score) for score in SHOWN), self.coverage_rows()]

    @property
    def title(self) -> str:
        """What was forecast, in its unit."""
        unit = f" in {self.about['units']}" if self.about["units"] else ""
        return f"Forecasts of {self.about['variable']}{unit}"

    def __repr__(self) -> str:
        """Tables for people, with the interval of each number."""
        lines = [self.title, *(f"  {fact}" for fact in self.facts)]
        for header, rows in self.tables():
            lines += ["", *aligned([header, *rows])]
        return "\n".join([*lines, "", self.verdict])

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        parts = [
            table_html(self.title if i == 0 else "", self.facts if i == 0 else [], header, rows, [])
            for i, (header, rows) in enumerate(self.tables())
        ]
        return f"<div>{''.join(parts)}<p>{self.verdict}</p></div>"


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Skill(Verification):
    """Scores of the forecasts of a law and of reference methods: a `Verification` with the law.

    Attributes:
        forecasts: Dataset with ``mean`` and ``std`` (predictor, lead, origin, path, space) of
            values that would be observed, ``std_field`` of the law's field without noise (NaN for
            reference methods) and ``observed``, in the units of the data.
        n_modes: of the law.
        tried: for each candidate, the CRPS of its forecasts of the end of the first training period
            relative to that of the climatology; empty if nothing was chosen.
        learn: function without arguments that fits the law to all data. ``about["fit"]`` has the
            keywords of `spdelaw.fit`.
    """

    forecasts: xr.Dataset
    n_modes: int
    tried: dict[str, float]
    learn: Callable[[], Law] = dataclasses.field(repr=False)

    @functools.cached_property
    def law(self) -> Law:
        """The law that was chosen, learned from all data when it is first needed."""
        return self.learn()

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, ready for JSON; numbers that do not exist are None."""
        return super().to_dict() | {"n_modes": self.n_modes, "tried": to_plain(self.tried)}

    @property
    def facts(self) -> list[str]:
        """How the forecasts came about, a line each."""
        a, t = self.about, self.table
        lines = [
            f"{a['n_origins']} origins ({a['origins']}), refitted {a['n_fits']} times; at least "
            f"{int(t.n_values.min())} values per lead",
            f"law of {self.n_modes} mode{'s' if self.n_modes > 1 else ''} on {a['domain']}, drift "
            f"{a['drift']}, residual {a['residual']}; LIM of {a['patterns']} EOFs",
        ]
        if self.tried:
            best = sorted(self.tried.items(), key=lambda item: item[1])
            words = "; ".join(f"{name}: {value:.3f}" for name, value in best[:MOST_LISTED])
            more = f"; {len(best) - MOST_LISTED} more" if len(best) > MOST_LISTED else ""
            lines.append(f"chosen by held-out CRPS relative to climatology ({words}{more})")
        return lines


def _interval_text(values: xr.DataArray) -> str:
    estimate, lower, upper = values.values
    if np.isnan(lower):
        return f"{estimate:.3g}"
    return f"{estimate:.3g} [{lower:.3g}, {upper:.3g}]"


def _listed(leads: np.ndarray) -> str:
    return ", ".join(str(k) for k in leads)


# ---------- Forecasts from all origins as labelled fields in the units of the data


def forecasts_dataset(
    issued: list[Issued],
    fields: xr.DataArray,
    forecast_points: Array,
    dims: tuple[str, ...],
    leads: tuple[int, ...],
) -> xr.Dataset:
    """``mean``, ``std``, ``std_field`` (predictor, lead, origin, path, space) and ``observed``.

    Args:
        issued: from every origin.
        fields: canonical, as they came.
        forecast_points: which of their points were forecast.
        dims: of space.
        leads: in steps.
    """
    places = places_of_fields(fields, dims)
    places = places if forecast_points.all() else places.only(forecast_points)
    space = ("lead", "origin", "path", *places.dims)
    methods = list(issued[0].predictions)
    flags = " ".join(name.replace(" ", "_") for name in methods)  # of CF, for other programs

    def stack(of_origin: Callable[[Issued], Array]) -> Array:
        """(path, lead, point) of each origin as (lead, origin, path, point)."""
        by_origin = np.stack([of_origin(one) for one in issued], axis=1)
        return places.unflatten(by_origin.swapaxes(0, 2))

    def of_band(band: str, name: str, one: Issued) -> Array:
        values = getattr(one.predictions[name], band) + np.zeros(one.truth.shape)
        return one.scale * values + (one.offset if band == "mean" else 0.0)

    def by_method(band: str) -> Array:
        """A field of `Prediction` of all methods."""
        return np.stack([stack(functools.partial(of_band, band, name)) for name in methods])

    result = xr.Dataset(
        {
            **{band: (("predictor", *space), by_method(band)) for band in Prediction._fields},
            "observed": (space, stack(lambda one: one.offset + one.scale * one.truth)),
        },
        coords={
            "predictor": ("predictor", methods, {"flag_meanings": flags}),
            "lead": ("lead", list(leads), {"long_name": "steps ahead"}),
            "path": fields["path"].values,
            **places.coords,
            **_clock(fields["time"], [one.origin for one in issued], leads),
        },
    )
    named = restore_names(result, labels_of(fields), fields)
    return named


def _clock(time: xr.DataArray, origins: list[int], leads: tuple[int, ...]) -> dict[str, Any]:
    """Last observed time, and the times that are forecast; dates where the data have them."""
    last = np.asarray(origins) - 1
    valid = last[None] + np.asarray(leads)[:, None]
    clock = {k: time.attrs[k] for k in ("units", "calendar") if k in time.attrs}
    values = np.asarray(time.values)
    attrs = dict(clock)
    if " since " in str(clock.get("units", "")):
        values, attrs = to_dates(values, clock), {}
    return {
        "origin": ("origin", values[last], {"long_name": "last time observed", **attrs}),
        "valid_time": (("lead", "origin"), values[valid], {"long_name": "time forecast", **attrs}),
    }


# ---------- Forecast skill against rivals


ORIGINS = ("expanding", "rolling")
RIVALS = (*SIMPLE, INVERSE)
#: Names of spatial dims that are tried where no domain gives them.
KNOWN_DIMS = (("lat", "lon"), ("x", "y"), ("x",))


@checked()
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
    residual: str = "auto",
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
    progress: bool | Callable[[int, int], Any] | None = None,
    **settings: Any,
) -> Skill:
    """Score forecasts from past origins, and those of reference methods.

    At every origin, all methods use earlier times only: law, climatology, trend and scale, EOFs and
    their number are estimated from them. All leads are scored from the same origins, and all
    methods on the same values. The reference methods are climatology, persistence, damped
    persistence per point, and a linear inverse model (LIM) of empirical orthogonal functions, whose
    number is chosen by forecasts of the end of its own past.

    Args:
        data: fields, or raw data with ``prepare``, in any form that `spdelaw.fit` takes.
        domain: as in `spdelaw.fit`, "eof" for the empirical orthogonal functions of each past, or
            None to choose between EOFs and a guessed domain by their forecasts.
        n_modes: a number, several to choose from, or "auto". Number, modes and, for EOFs, diagonal
            or dense ``drift`` are chosen by forecasts of the end of the first training period,
            before any origin, unless you pass them.
        prepare: preparation, estimated from the past at every fit.
        leads: steps ahead.
        origins: "expanding" trains on all earlier times, "rolling" on a window of constant length.
        first: times before the first origin, as a number or as a share of all.
        refits: number of fits, evenly distributed over the origins.
        most_origins: largest number of origins, evenly distributed.
        residual: as in `spdelaw.Model`.
        level: of the intervals.
        replicates: of the bootstrap over blocks of origins.
        seed: of the bootstrap.
        progress: True, or a function of (done, in all): candidates, then origins.
        settings: further keywords of `spdelaw.fit`, such as ``drift="dense"``.

    Returns:
        `Skill` with ``table``, ``forecasts``, the choices, and ``law``, the chosen law fitted to
        all data.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> calm = sl.catalogue.heat(n_modes=2, initial="stationary")
        >>> one = sl.simulate(calm, 1, np.linspace(0, 20, 101), np.linspace(0, np.pi, 9), seed=0)
        >>> result = sl.skill(one, calm.domain, 2, leads=(1, 3), refits=1)
        >>> rmse = result.score("rmse").sel(statistic="estimate")
        >>> bool(rmse.sel(predictor="law", lead=3) < 1.0)
        True
    """
    data, prepare = open_raw(data, domain, prepare, settings)
    ahead = _check_leads(leads)
    one_of("origins", origins, ORIGINS)
    n_fits, most = refits, most_origins
    tell = _reporter(progress)
    sources, prepare = _mode_sources(data, domain, prepare, NONLINEAR_WORDS.isdisjoint(settings))
    fields, dims = _fields(data, sources[0], prepare)
    fields = fields.compute()
    check_plausible(fields)
    start = first_origin(fields, first)
    plan = _plan(fields.sizes["time"], start, ahead, n_fits, most, origins)
    forecastable, forecast_points = where_observed(fields, dims, start)
    how = None if prepare is None else affine_part(prepare)
    base = Trial(PATTERNS, dims, "auto", how, {**settings, "residual": residual}, RIVALS)
    past = forecastable.isel(time=slice(start))
    laws = candidates(base, n_modes, sources, past)
    before, n_origins = len(laws) if len(laws) > 1 else 0, len(plan.origins)
    chosen, tried = choose(past, laws, ahead, lambda i: tell(i, before + n_origins))
    forecasts_by_origin = hindcast(
        forecastable, chosen, plan, lambda i, _: tell(before + i, before + n_origins)
    )
    issued = list(forecasts_by_origin)
    tables = tables_by_lead(issued, len(ahead))
    _check_scored(tables, ahead)
    stride = (plan.origins[-1] - plan.origins[0]) / max(1, len(plan.origins) - 1) or 1.0
    table = score_dataset(
        tables, list(issued[0].predictions), ahead, stride, level, replicates, seed
    )
    forecasts = forecasts_dataset(issued, fields, forecast_points, dims, ahead)
    about = _describe_run(fields, plan, origins, issued[-1]) | {"fit": chosen.words}

    def learn() -> Law:
        return for_raw_data(chosen.learn(fields), prepare)

    return Skill(table, about, forecasts, int(chosen.n_modes), tried, learn)


def _check_leads(leads: Any) -> tuple[int, ...]:
    given = list(leads) if np.iterable(leads) else [leads]
    if not given:
        raise InputError("leads", expected="steps ahead", got="none", fix="pass leads=(1, 3, 6)")
    return tuple(sorted({whole("leads", k, 1) for k in given}))


def _mode_sources(
    data: Any, domain: Any, prepare: Preparation | None, is_linear: bool
) -> tuple[list[AbstractDomain | str], Preparation | None]:
    """Sources of modes, with the preparation that was guessed where no domain is given.

    Nonlinear laws hold for the field itself: they need a domain, and no anomalies.
    """
    if domain is not None:
        return [domain], prepare
    guessed, how = guess_source(data, prepare, climate=is_linear and prepare is None)
    return [guessed, *([PATTERNS] if is_linear else [])], how


def _fields(
    data: Any, domain: Any, prepare: Preparation | None
) -> tuple[xr.DataArray, tuple[str, ...]]:
    """Canonical fields, reduced but not yet prepared, and their spatial dims."""
    if prepare is not None and prepare.anomalies == "lead":
        raise InputError(
            "anomalies",
            expected="a climatology of dates: hindcasts have no later times to forecast",
            got="'lead'",
            fix="score hindcasts by verify, or fit a law to some starts and evaluate it on others",
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
        expected = f"at most {n - start}, as {start} of the {n} times are training data"
        fix = "pass shorter leads, or start earlier: first=0.4"
        raise InputError("leads", expected=expected, got=str(leads[-1]), fix=fix)
    rows = np.unique(np.linspace(start, end, min(most, end - start + 1)).round().astype(int))
    fits = np.unique(np.linspace(0, len(rows), min(refits, len(rows)), endpoint=False).astype(int))
    window = start if origins == "rolling" else None
    return Plan(tuple(rows.tolist()), tuple(fits.tolist()), leads, window)


def _reporter(progress: bool | Callable[[int, int], Any] | None) -> Callable[[int, int], Any]:
    if callable(progress):
        return progress
    if progress:
        return lambda done, total: print(f"{done} of {total}", file=sys.stderr)
    return lambda done, total: None


def _check_scored(tables: list[ScoreTable], leads: tuple[int, ...]) -> None:
    empty = [k for k, table in zip(leads, tables, strict=True) if not table.counts.any()]
    if empty:
        expected, fix = "values to score at every lead", "check the gaps, or leave that lead out"
        raise DataError("data", expected=expected, got=f"none at lead {empty[0]}", fix=fix)


def _describe_run(fields: xr.DataArray, plan: Plan, origins: str, last: Issued) -> dict[str, Any]:
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
        "residual": law.info.get("residual", {}).get("answer", "white"),
        "patterns": 0 if last.inverse is None else last.inverse.n_patterns,
    }


# ---------- One law at all leads from every origin, as version 0.1 had it


@checked()
def leave_future_out(
    data: Any,
    domain: AbstractDomain,
    n_modes: int | str = "auto",
    *,
    prepare: Preparation | None = None,
    first: int | float = 0.6,
    leads: int = 6,
    refit: int = 6,
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
    **settings: Any,
) -> xr.Dataset:
    """Deprecated: the hindcast of `skill`, from every origin with leads 1, 2, ..., ``leads``.

    ``refit`` is the number of origins between two fits; other arguments and the bootstrap are
    those of `skill`.

    Returns:
        Dataset over ``lead``: ``rmse`` (predictor, lead) in the units of the prepared data,
        ``skill`` (rival, lead, statistic) with estimate and interval, ``coverage`` of the law's
        intervals, ``n_origins`` and ``mean_time_ahead``.
    """
    text = "sl.leave_future_out is deprecated: use sl.skill, which has more rivals and scores"
    warnings.warn(text, DeprecationWarning, stacklevel=2)
    fields, dims = _fields(data, domain, prepare)
    check_plausible(fields)
    start, n = first_origin(fields, first), fields.sizes["time"]
    ahead = tuple(range(1, whole("leads", leads, 1) + 1))
    fits = tuple(range(0, n - start, refit))
    how = None if prepare is None else affine_part(prepare)
    trial = Trial(domain, dims, n_modes, how, settings)
    issued = [
        one._replace(scale=np.ones_like(one.scale))
        for one in hindcast(fields, trial, Plan(tuple(range(start, n)), fits, ahead))
    ]
    tables = tables_by_lead(issued, leads, (100 * level,), constant=-1.0)  # all points count
    names, times = list(issued[0].predictions), fields["time"].values
    table = score_dataset(tables, names, ahead, 1.0, level, replicates, seed)
    rmse, _, _, coverage, *_ = table.estimate.transpose("score", "predictor", "lead").values
    gains = table[["skill", "skill_lower", "skill_upper"]].to_dataarray().values[:, 1:]
    steps = [np.mean(times[start + k - 1 :] - times[start - 1 : n - k]) for k in ahead]
    return xr.Dataset(
        {
            "rmse": (("predictor", "lead"), rmse),
            "skill": (("rival", "lead", "statistic"), np.moveaxis(gains, 0, -1)),
            "coverage": ("lead", coverage[0]),
            "n_origins": ("lead", [int((table.counts > 0).sum()) for table in tables]),
            "mean_time_ahead": ("lead", steps),
        },
        coords={
            "predictor": names,
            "rival": names[1:],
            "lead": list(ahead),
            "statistic": list(STATISTICS),
        },
        attrs={"level": level, "first": start},
    )

"""Forecasts of the past as they would have been made, by a law and by its rivals."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.checks import shown, whole
from spdelaw.data.observed import observed_fields
from spdelaw.data.prepare import Preparation, learn_map
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.places import places_of_fields
from spdelaw.errors import DataError, IdentifiabilityWarning, InputError, SpdeLawError
from spdelaw.evaluation.rivals import SIMPLE, InverseModel, Rival, learn_inverse_model, mean_field
from spdelaw.evaluation.scores import LEVELS, Prediction, ScoreTable
from spdelaw.evaluation.tasks import LawPredictor
from spdelaw.infer.engines.exact import Exact
from spdelaw.infer.pipeline import (
    NONLINEAR_WORDS,
    PATTERNS,
    fit,
    fit_on_patterns,
    without_preparation,
)
from spdelaw.law.law import Law

# ---------- Hindcasts: forecasts from origins in the past, by the law and its rivals
#
# From each origin, the law and its rivals use the times before it and nothing else. The law, its
# climatology and, where the domain is made of them, its patterns are estimated again at some of the
# origins, and go on from there with the values observed since.


Array = np.ndarray

LAW, INVERSE = "law", "LIM"
#: Types of arguments that the words of a trial repeat.
PLAIN = (str, int, float, list, tuple)
#: Default noise of each drift.
NOISES = {"parametric": "parametric", "dense": "dense"}


class Plan(NamedTuple):
    """What is forecast from where.

    Attributes:
        origins: numbers of times before the forecast, increasing.
        fits: positions in ``origins`` at which all is estimated again, the first included.
        leads: steps ahead, increasing.
        window: times that are learned from, None for all before.
    """

    origins: tuple[int, ...]
    fits: tuple[int, ...]
    leads: tuple[int, ...]
    window: int | None = None

    def past(self, origin: int) -> slice:
        """Times to learn from at an origin."""
        return slice(0 if self.window is None else max(0, origin - self.window), origin)


class Trial(NamedTuple):
    """What is to be judged: where the fields live, how they are prepared, what is assumed."""

    domain: AbstractDomain | str
    dims: tuple[str, ...]
    n_modes: int | str
    prepare: Preparation | None
    settings: dict[str, Any]
    rivals: tuple[str, ...] = tuple(SIMPLE)

    def with_modes(self, domain: AbstractDomain | str, drift: str | None, n_modes: int) -> Trial:
        """The same with other modes: of a domain or of the data, coupled or not, and how many."""
        words = dict(self.settings)
        if drift is not None:
            words = {"noise": NOISES.get(drift, "diagonal"), **words, "drift": drift}
        return self._replace(domain=domain, n_modes=n_modes, settings=words)

    @property
    def quick(self) -> Trial:
        """The same with words that need no test: one long stationary record."""
        words = {"initial": "stationary", "nuisance": 0, **self.settings}
        if self.prepare is not None and self.prepare.anomalies:
            words = {"mean": "zero", **words}
        return self._replace(settings=words)

    @property
    def words(self) -> dict[str, Any]:
        """Arguments of `fit` that give this law, as far as they are words, numbers and terms."""
        words = {"n_modes": self.n_modes, **self.settings}
        words = ({"domain": PATTERNS} if self.domain == PATTERNS else {}) | words
        return {k: v for k, v in words.items() if isinstance(v, PLAIN) and v != "auto"}

    @property
    def is_about_zero(self) -> bool:
        """Whether the fields that are forecast have no mean: it was subtracted, or is zero."""
        has_climate = self.prepare is not None and bool(self.prepare.anomalies)
        return has_climate or self.settings.get("mean") == "zero"

    @property
    def n_numbers(self) -> int:
        """How many numbers the drift has."""
        n = int(self.n_modes)
        return n * n if self.settings.get("drift") == "dense" else n

    @property
    def _fit_words(self) -> dict[str, Any]:
        """Words of `fit`: a law that only forecasts needs no intervals by profile."""
        engine_words = {"engine", "threads", *NONLINEAR_WORDS} & set(self.settings)
        return self.settings if engine_words else {"engine": Exact(profile=False), **self.settings}

    def __str__(self) -> str:
        """As text."""
        kind = "EOF" if self.domain == PATTERNS else "mode"
        plural = "" if self.n_modes == 1 else "s"
        return f"{self.n_modes} {kind}{plural}, drift {self.settings.get('drift', 'diagonal')}"

    def learn(self, past: xr.DataArray) -> Law:
        """The law of some past."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IdentifiabilityWarning)  # in the law's notes as well
            if isinstance(self.domain, AbstractDomain):
                observed = observed_fields(past, self.domain)
                return fit(
                    observed, self.domain, self.n_modes, prepare=self.prepare, **self._fit_words
                )
            prepared = None if self.prepare is None else learn_map(self.prepare, past, self.dims)
            fields = past if prepared is None else prepared.transform(past, self.dims)
            return fit_on_patterns(fields, prepared, self.dims, self.n_modes, self._fit_words)


class Issued(NamedTuple):
    """Forecasts from one origin, in the units of the law.

    Attributes:
        origin: number of times before the forecast.
        predictions: of new values by predictor; (path, lead, point), up to the end of the data.
        truth: what happened, likewise.
        offset, scale: back to the units of the data, ``X = offset + scale y``; (lead, point).
        law: the one that was used.
        inverse: the linear inverse model that was used, where it is among the rivals.
    """

    origin: int
    predictions: dict[str, Prediction]
    truth: Array
    offset: Array
    scale: Array
    law: Law
    inverse: InverseModel | None


def hindcast(
    fields: xr.DataArray,
    trial: Trial,
    plan: Plan,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Issued]:
    """Forecasts from every origin of a plan; canonical fields on one clock."""
    inverse: InverseModel | None = None
    centre = np.zeros(1)
    for i, origin in enumerate(plan.origins):
        if i in plan.fits:
            past = plan.past(origin)
            law = trial.learn(fields.isel(time=past))
            observed = law.observe(observed_fields(fields, law.domain)).flat
            if not trial.is_about_zero:
                centre = mean_field(observed.values[:, past])
            rules = {name: SIMPLE[name] for name in trial.rivals if name in SIMPLE}
            if INVERSE in trial.rivals:
                n = None if inverse is None else inverse.n_patterns
                past_fields = observed.fields.isel(time=past)
                past_fields = past_fields.copy(data=past_fields.values - centre)
                inverse = learn_inverse_model(past_fields, plan.leads, trial.dims, n)
                rules[INVERSE] = inverse.predict
            predictors: dict[str, Any] = {LAW: LawPredictor(without_preparation(law))}
            predictors |= {name: Rival(rule, plan.leads, centre) for name, rule in rules.items()}
        history = observed.at_times(slice(past.start, origin))
        rows = [origin - 1 + k for k in plan.leads if origin - 1 + k < len(observed.times)]
        times = observed.times[rows]
        predictions = {name: one.predict(history, times) for name, one in predictors.items()}
        units = _offset_and_scale(law, times, observed.points)
        yield Issued(origin, predictions, observed.values[:, rows], *units, law, inverse)
        if progress is not None:
            progress(i + 1, len(plan.origins))


def for_raw_data(law: Law, prepare: Preparation | None) -> Law:
    """The law of reduced data for raw ones: it selects and averages them as ``prepare`` does."""
    if prepare is None or law.preparation is None:
        return law
    return dataclasses.replace(law, preparation=dataclasses.replace(law.preparation, how=prepare))


def _offset_and_scale(law: Law, times: Array, points: Array) -> tuple[Array, Array]:
    """Offset and scale to the units of the data; (lead, point)."""
    shape = (len(times), len(points))
    if law.preparation is None or not law.preparation.how.is_affine:
        return np.zeros(shape), np.ones(shape)
    offset, scale = law.preparation.affine(times, points)
    return offset, np.broadcast_to(scale, shape)


# ---------- Checks of fields and of the first origin


def affine_part(prepare: Preparation) -> Preparation:
    """The part of a preparation that is learned; selections and means are the same for all."""
    return dataclasses.replace(
        prepare, variable=None, select={}, average=(), rename={}, coarsen={}, missing=()
    )


def first_origin(fields: xr.DataArray, first: int | float) -> int:
    """Times before the first origin, from a number or a share of all; `InputError` for others."""
    n = fields.sizes["time"]
    if "path_time" in fields.coords:
        expected, got = "one clock for all paths", "times of each path's own"
        raise InputError("data", expected=expected, got=got, fix="validate the paths one at a time")
    start = round(first * n) if isinstance(first, float) else first
    if isinstance(start, bool) or not isinstance(start, int) or not 4 <= start < n:
        expected = f"from 4 to {n - 1} times, or that share of them"
        raise InputError("first", expected=expected, got=shown(first), fix="first=0.6")
    return start


def where_observed(
    fields: xr.DataArray, dims: tuple[str, ...], start: int
) -> tuple[xr.DataArray, Array]:
    """Fields at the points observed before the first origin, and the mask of these points.

    Others cannot be forecast.
    """
    values = fields.values.reshape(*fields.shape[:2], -1)
    observed = ~np.isnan(values[:, :start]).all((0, 1))
    if observed.all():
        return fields, observed
    if not observed.any():
        expected = "values before the first origin"
        raise DataError("data", expected=expected, got="none", fix="start later: first=0.8")
    if len(dims) == 1:
        return fields.isel({dims[0]: observed}), observed
    if "point" in fields.dims:
        return fields.isel(point=observed), observed
    points = places_of_fields(fields, dims).points[observed]
    coords: dict[str, Any] = {
        str(k): v for k, v in fields.coords.items() if set(v.dims) <= {"path", "time"}
    }
    coords |= {d: ("point", points[:, i], fields[d].attrs) for i, d in enumerate(dims)}
    named = (("path", "time", "point"), fields.name, fields.attrs)
    return xr.DataArray(values[..., observed], coords, *named), observed


# ---------- Scores of hindcasts, summed by origin


#: Deviation of a point, relative to the largest, below which it is constant and not scored.
CONSTANT = 1e-9


def tables_by_lead(
    issued: list[Issued],
    n_leads: int,
    levels: tuple[float, ...] = LEVELS,
    constant: float = CONSTANT,
) -> list[ScoreTable]:
    """Scores of all predictors at each lead, summed by origin; late origins reach short leads."""
    tables = []
    for one in issued:
        errors = [
            Prediction((of.mean - one.truth) * one.scale, of.std * one.scale)
            for of in one.predictions.values()
        ]
        target, leads = np.where(_scored(one, constant), 0.0, np.nan), np.arange(len(one.scale))
        normal = errors[list(one.predictions).index("climatology")].mean
        table = ScoreTable.of(errors, target, leads[:, None], n_leads, levels, normal)
        tables.append(table)
    columns = list(zip(*tables, strict=True))[1:]
    parts = [np.stack(column, axis=1) for column in columns]
    return [ScoreTable(tables[0].scores, *table) for table in zip(*parts, strict=True)]


def _scored(issued: Issued, constant: float) -> Array:
    """Values that every method forecasts, at points that are not constant; (path, lead, point)."""
    spread = issued.predictions["climatology"].std * issued.scale
    scored = np.isfinite(issued.truth) & (spread > constant * np.nanmax(spread))
    for one in issued.predictions.values():
        scored &= np.isfinite(one.mean) & np.isfinite(one.std)
    return scored


# ---------- Choice of modes, their number and their coupling, by forecasts of held-out times
#
# All is chosen within the first past, before any origin, so that the choice uses no scored value.


#: Numbers of modes that "auto" tries, where points and times suffice for them.
MODE_COUNTS = (1, 2, 3, 5, 8, 12, 20)
#: Most modes of a dense drift among them: it has their square of numbers to learn.
MOST_DENSE = 12
#: Relative difference of two scores below which they are the same.
SAME_SCORE = 0.002
#: Relative difference of two scores that few origins cannot distinguish from chance.
CLOSE_SCORE = 0.01
#: Share of the first past that is forecast, and times per mode, at least.
HELD_OUT, TIMES_PER_MODE = 0.25, 4
#: Most origins there: for all laws, and for those that are close.
SOME_ORIGINS, MORE_ORIGINS = 24, 96


def candidates(
    trial: Trial, n_modes: Any, sources: list[AbstractDomain | str], past: xr.DataArray
) -> list[Trial]:
    """Laws to choose from: every source of modes with every number of modes and coupling.

    Modes of a domain have a diagonal drift unless ``drift`` is given; patterns of the data are
    tried with a diagonal and with a dense drift. Where patterns are tried, costly tests are left
    out: records count as stationary, and anomalies have no mean.
    """
    given, counts = trial.settings.get("drift"), _mode_counts(n_modes, past)
    if PATTERNS in sources:
        trial = trial.quick
    trials = [trial.with_modes(source, given, n) for source in sources for n in counts]
    if given is None and PATTERNS in sources:
        most = MOST_DENSE if n_modes == "auto" else max(counts)
        trials += [trial.with_modes(PATTERNS, "dense", n) for n in counts if 1 < n <= most]
    return trials


def _mode_counts(n_modes: Any, past: xr.DataArray) -> list[int]:
    if isinstance(n_modes, str) and n_modes == "auto":
        points = int(np.prod(past.shape[2:]))
        most = min(points, past.shape[0] * past.shape[1] // TIMES_PER_MODE)
        return [n for n in MODE_COUNTS if n <= most] or [1]
    counts = list(n_modes) if np.iterable(n_modes) else [n_modes]
    if isinstance(n_modes, str) or not counts:
        expected, got = 'a number, numbers to choose from, or "auto"', repr(n_modes)
        raise InputError("n_modes", expected=expected, got=got, fix="pass n_modes=[3, 6, 12]")
    return [whole("n_modes", n, 1) for n in counts]


def choose(
    past: xr.DataArray,
    tried: list[Trial],
    leads: tuple[int, ...],
    progress: Callable[[int], Any],
) -> tuple[Trial, dict[str, float]]:
    """The best law, and for each its CRPS relative to the climatology's, mean over leads.

    Laws that come close to the best one are judged again from more origins. Of laws that are as
    good then the one with the fewest numbers; what cannot be learned is left out.
    """
    if len(tried) == 1:
        return tried[0], {}
    plan = _inner_plan(past.sizes["time"], leads, SOME_ORIGINS)
    scores: dict[int, float] = {}
    last: SpdeLawError | None = None
    for i, trial in enumerate(tried):
        try:
            scores[i] = _score(past, trial._replace(rivals=("climatology",)), plan)
        except SpdeLawError as error:
            last = error
        progress(i + 1)
    if not scores:
        raise last or InputError("n_modes", expected="numbers", got="none", fix="n_modes=5")
    final = _score_again(past, tried, _close_to_best(scores, CLOSE_SCORE), leads, plan) or scores
    best = min(_close_to_best(final, SAME_SCORE), key=lambda i: (tried[i].n_numbers, final[i]))
    scores |= final
    return tried[best], {str(tried[i]): value for i, value in scores.items()}


def _close_to_best(scores: dict[int, float], margin: float) -> list[int]:
    """Laws whose score is the least one or larger by a margin."""
    return [i for i, value in scores.items() if value <= (1.0 + margin) * min(scores.values())]


def _score_again(
    past: xr.DataArray, tried: list[Trial], close: list[int], leads: tuple[int, ...], plan: Plan
) -> dict[int, float]:
    """Scores from more origins of laws that fewer could not distinguish."""
    more = _inner_plan(past.sizes["time"], leads, MORE_ORIGINS)
    if len(close) < 2 or len(more.origins) == len(plan.origins):
        return {}
    return {i: _score(past, tried[i]._replace(rivals=("climatology",)), more) for i in close}


def _inner_plan(n: int, leads: tuple[int, ...], most: int) -> Plan:
    """Origins at the end of the past, learned from once; late ones reach short leads alone."""
    start = max(4, round((1.0 - HELD_OUT) * n))
    kept = tuple(k for k in leads if start + k <= n) or leads[:1]
    origins = np.unique(np.linspace(start, n - kept[0], most).astype(int))
    return Plan(tuple(origins.tolist()), (0,), kept)


def _score(past: xr.DataArray, trial: Trial, plan: Plan) -> float:
    tables = tables_by_lead(list(hindcast(past, trial, plan)), len(plan.leads))
    crps = np.array([table.sums[:, :, 1].sum(0) for table in tables])  # of law and climatology
    return float(np.mean(crps[:, 0] / crps[:, 1]))

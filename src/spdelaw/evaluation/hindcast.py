"""Forecasts of the past as they would have been made, by a law and by its rivals."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data.observed import Observed, observed_fields
from spdelaw.data.prepare import Preparation, Prepared, learn_map
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.empirical import Empirical
from spdelaw.domains.places import places_of_fields
from spdelaw.errors import (
    ConvergenceError,
    DataError,
    DomainError,
    IdentifiabilityWarning,
    InputError,
)
from spdelaw.evaluation.tasks import Prediction, values_of
from spdelaw.infer.engines.exact import Exact
from spdelaw.infer.pipeline import fit
from spdelaw.law.law import Law

# ---------- Rivals: climatology, persistence, damped persistence and a linear inverse model
#
# Each learns from the history alone. With x the prepared field less the mean of its past at each
# point (zero where the preparation took means off), k the lead in steps and r the correlation of a
# point with itself one step later,
#
#     climatology 0,   persistence x(t),   damped persistence r^k x(t),   LIM  E G^k E' x(t),
#
# where E are empirical orthogonal functions and ``G = C(1) C(0)^-1`` is the regression of their
# amplitudes over one step (Penland and Sardeshmukh 1995). Deviations are those of the same rule
# within the history, point by point and lead by lead.


Array = np.ndarray

#: Numbers of patterns that a linear inverse model may have, and the share of a history's end by
#: whose forecasts one of them is chosen.
LIM_PATTERNS, HELD_OUT = (1, 2, 3, 5, 8, 12, 20), 0.25
#: Deviation of errors, relative to that of the history, below which it is none.
LEAST_DEVIATION = 1e-6
#: Times of a history per pattern, at least.
TIMES_PER_PATTERN = 4


def mean_field(past: Array) -> Array:
    """Mean over paths and times of values (P, T, M) at each point, zero where nothing is; (M,)."""
    observed = ~np.isnan(past)
    return np.where(observed, past, 0.0).sum((0, 1)) / np.maximum(observed.sum((0, 1)), 1)


def memory(past: Array) -> Array:
    """Correlation of each point with itself one step later, from values (P, T, M); (M,)."""
    product = np.nansum(past[:, 1:] * past[:, :-1], axis=(0, 1))
    square = np.nansum(np.where(np.isnan(past[:, 1:]), np.nan, past[:, :-1]) ** 2, axis=(0, 1))
    return np.clip(product / np.where(square > 0, square, 1.0), 0.0, 1.0)


def damped(history: Array, leads: tuple[int, ...], factor: float | Array) -> Prediction:
    """``factor^k`` of the last value of each point; 0 for the mean, 1 for persistence.

    A point that is missing at the end decays from its last value on.
    """
    last, age = last_observed(history)
    means, errors = [], []
    for k in leads:
        means.append(last * np.power(factor, k + age))
        late, early = history[:, k:], history[:, : history.shape[1] - k]
        errors.append(_deviation(late - np.power(factor, k) * early))
    return Prediction(np.stack(means), _with_history_deviation(np.stack(errors), history))


def last_observed(history: Array) -> tuple[Array, Array]:
    """Last value of each path and point, NaN where there is none, and how many steps ago."""
    observed = ~np.isnan(history)
    age = observed[:, ::-1].argmax(1)
    last_index = history.shape[1] - 1 - age
    return np.take_along_axis(history, last_index[:, None], 1)[:, 0], age


def _deviation(errors: Array) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a point that no pair of times tells about
        return np.sqrt(np.nanmean(errors**2, axis=(0, 1)))


def _with_history_deviation(errors: Array, history: Array) -> Array:
    """Deviations (lead, M) for all paths; that of the history where there are none.

    Nor are those of a point that was seen once or twice, which any pattern may meet.
    """
    history_deviation = _deviation(history)
    deviation = np.where(errors > LEAST_DEVIATION * history_deviation, errors, history_deviation)
    return np.broadcast_to(deviation[:, None], (len(errors), len(history), history.shape[-1]))


class InverseModel(NamedTuple):
    """A linear inverse model: patterns (M, k), their propagator over a step, and its errors.

    ``noise`` is the variance outside the patterns relative to that of each amplitude.
    """

    patterns: Array
    propagator: Array
    noise: Array
    errors: Array
    leads: tuple[int, ...]

    @property
    def n_patterns(self) -> int:
        """How many patterns."""
        return len(self.propagator)

    def outlook(self, history: Array) -> Prediction:
        """Forecast from the last field."""
        now = amplitudes(history[:, -1:], self.patterns, self.noise)[:, 0]
        means = [self.power(k, now) @ self.patterns.T for k in self.leads]
        return Prediction(np.stack(means), _with_history_deviation(self.errors, history))

    def power(self, k: int, amplitude: Array) -> Array:
        """``G^k`` times amplitudes in rows."""
        return amplitude @ np.linalg.matrix_power(self.propagator, k).T


def inverse_model(past: xr.DataArray, n: int, leads: tuple[int, ...], dims: tuple) -> InverseModel:
    """Learn one with n patterns from prepared fields (path, time, space)."""
    values = past.values.reshape(*past.shape[:2], -1)
    patterns = np.zeros((values.shape[-1], n))
    observed = ~np.isnan(values).all((0, 1))
    patterns[observed] = Empirical(past, n, dims=dims).modes
    first = amplitudes(values, patterns, np.zeros(n))
    residual_variance = float(np.nanmean((values - first @ patterns.T) ** 2))
    noise = residual_variance / np.maximum((first**2).mean((0, 1)), 1e-300)
    a = amplitudes(values, patterns, noise)
    early, late = a[:, :-1].reshape(-1, n), a[:, 1:].reshape(-1, n)
    propagator = np.linalg.lstsq(early, late, rcond=None)[0].T
    model = InverseModel(patterns, propagator, noise, np.zeros((0, 0)), leads)
    errors = [
        _deviation(values[:, k:] - model.power(k, a[:, : a.shape[1] - k]) @ patterns.T)
        for k in leads
    ]
    return model._replace(errors=np.stack(errors))


def amplitudes(values: Array, patterns: Array, noise: Array) -> Array:
    """Amplitudes of patterns (M, k) in values (P, T, M); gaps count as what they are.

    Where a row has gaps, least squares with the prior variance of each amplitude, without which
    a few points could ask for any amplitude.
    """
    out = np.where(np.isnan(values), 0.0, values) @ patterns
    gram = patterns.T @ patterns
    complete = ~np.isnan(values).any(-1)
    if complete.any():
        out[complete] = np.linalg.lstsq(gram, out[complete].T, rcond=None)[0].T
    for p, t in np.argwhere(~complete):
        observed_patterns = patterns[~np.isnan(values[p, t])]
        system = observed_patterns.T @ observed_patterns + np.diag(np.maximum(noise, 1e-9))
        out[p, t] = np.linalg.solve(system, out[p, t])
    return out


def learn_inverse_model(
    past: xr.DataArray, leads: tuple[int, ...], dims: tuple[str, ...], n: int | None
) -> InverseModel:
    """One of n patterns or, for None, of as many as forecast the end of the history best."""
    if n is None:
        n = _best_pattern_count(past, leads, dims)
    return inverse_model(past, n, leads, dims)


def _best_pattern_count(past: xr.DataArray, leads: tuple[int, ...], dims: tuple[str, ...]) -> int:
    start = round((1.0 - HELD_OUT) * past.sizes["time"])
    values = past.values.reshape(*past.shape[:2], -1)
    most = min(start // TIMES_PER_PATTERN, values.shape[-1], start - max(leads) - 1)
    scores = {}
    for n in [n for n in LIM_PATTERNS if n <= most] or [1]:
        try:
            model = inverse_model(past.isel(time=slice(start)), n, leads, dims)
        except (ConvergenceError, DomainError):  # too few values for so many patterns
            break
        a = amplitudes(values, model.patterns, model.noise)
        scores[n] = sum(_relative_error(model, a, values, start, k) for k in leads)
    return min(scores, key=lambda n: scores[n]) if scores else 1


def _relative_error(model: InverseModel, a: Array, values: Array, start: int, k: int) -> float:
    """Mean square of forecasts from the held-out end, relative to that of the mean field."""
    early = a[:, start - 1 : a.shape[1] - k]
    late = values[:, start - 1 + k :]
    if not np.isfinite(late).any():
        return 0.0
    error = late - model.power(k, early) @ model.patterns.T
    return float(np.nanmean(error**2) / np.nanmean(late**2))


#: Rivals that need no more than the values of the history.
SIMPLE: dict[str, Callable[[Array, tuple[int, ...]], Prediction]] = {
    "climatology": lambda history, leads: damped(history, leads, 0.0),
    "persistence": lambda history, leads: damped(history, leads, 1.0),
    "damped persistence": lambda history, leads: damped(history, leads, memory(history)),
}


# ---------- Hindcasts: forecasts from origins in the past, by the law and its rivals
#
# From each origin, the law and its rivals use the times before it and nothing else. The law, its
# climatology and, where the domain is made of them, its patterns are learned anew at some of the
# origins, and go on from there with the values observed since.


LAW, INVERSE = "law", "LIM"
#: The word for patterns of the data, learned from each past.
PATTERNS = "eof"
#: Default noise of each drift.
NOISES = {"parametric": "parametric", "dense": "dense"}


class Plan(NamedTuple):
    """What is forecast from where.

    Attributes:
        origins: numbers of times before the forecast, increasing.
        fits: positions in ``origins`` at which all is learned anew, the first included.
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
        """The same with words that need no test: one long record that is in its stride."""
        words = {"initial": "stationary", "nuisance": 0, **self.settings}
        if self.prepare is not None and self.prepare.anomalies:
            words = {"mean": "zero", **words}
        return self._replace(settings=words)

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
        engine_words = {"engine", "threads"} & set(self.settings)
        return self.settings if engine_words else {"engine": Exact(profile=False), **self.settings}

    def __str__(self) -> str:
        """In words."""
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
            if self.prepare is None:
                return self._on_patterns(past, None)
            prepared = learn_map(self.prepare, past, self.dims)
            return self._on_patterns(prepared.transform(past, self.dims), prepared)

    def _on_patterns(self, fields: xr.DataArray, prepared: Prepared | None) -> Law:
        """The law of patterns of the fields themselves.

        A dense drift is learned without noise inside the patterns, from fields whose gaps the law
        of the same patterns with a diagonal drift has filled: a matrix through gaps and noise takes
        minutes, and forecasts no better.
        """
        n, words = int(self.n_modes), self._fit_words
        domain = Empirical(fields, n, dims=self.dims)
        observed = observed_fields(fields, domain, prepared)
        if words.get("drift") != "dense" or "observation_noise" in words:
            return fit(observed, domain, n, **words)
        if observed.has_gaps:
            alone = fit(observed, domain, n, **{**words, "drift": "diagonal", "noise": "diagonal"})
            guess = without_preparation(alone).reconstruct(observed.flat)["mean"].values
            observed = observed.holding(observed.fields.fillna(guess))
        return fit(observed, domain, n, **words, observation_noise="none")


class Issued(NamedTuple):
    """Forecasts from one origin, in the units of the law.

    Attributes:
        origin: number of times before the forecast.
        mean, std: of new values by method; (lead, path, point), NaN beyond the end of the data.
        truth: what happened, likewise.
        offset, scale: back to the units of the data, ``X = offset + scale y``; (lead, 1, point).
        law: the one that was used.
        inverse: the linear inverse model that was used, where it is among the rivals.
    """

    origin: int
    outlooks: dict[str, Prediction]
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
    law: Law | None = None
    inverse: InverseModel | None = None
    past, centre = slice(0), np.zeros(1)
    for i, origin in enumerate(plan.origins):
        if law is None or i in plan.fits:
            past = plan.past(origin)
            law = trial.learn(fields.isel(time=past))
            observed = law.observe(observed_fields(fields, law.domain)).flat
            if not trial.is_about_zero:
                centre = mean_field(observed.values[:, past])
            if INVERSE in trial.rivals:
                n = None if inverse is None else inverse.n_patterns
                past_fields = observed.fields.isel(time=past)
                past_fields = past_fields.copy(data=past_fields.values - centre)
                inverse = learn_inverse_model(past_fields, plan.leads, trial.dims, n)
        yield _issue(law, observed, plan, origin, past.start, trial.rivals, inverse, centre)
        if progress is not None:
            progress(i + 1, len(plan.origins))


def without_preparation(law: Law) -> Law:
    """The law for data that are prepared, whose results are in their units and without names."""
    return dataclasses.replace(law.with_info(labels={}), preparation=None)


def _issue(
    law: Law,
    observed: Observed,
    plan: Plan,
    origin: int,
    first: int,
    rivals: tuple[str, ...],
    inverse: InverseModel | None,
    centre: Array,
) -> Issued:
    history = observed.at_times(slice(first, origin))
    rows = [origin - 1 + k for k in plan.leads if origin - 1 + k < len(observed.times)]
    later, times, values = observed.values[:, rows], observed.times[rows], history.values - centre
    others = {name: SIMPLE[name](values, plan.leads) for name in rivals if name in SIMPLE}
    if inverse is not None:
        others[INVERSE] = inverse.outlook(values)
    outlooks = {LAW: _law_outlook(without_preparation(law), history, times)}
    outlooks |= {name: o._replace(mean=centre + o.mean) for name, o in others.items()}
    n = len(rows)
    outlooks = {name: Prediction(o.mean[:n], o.std[:n]) for name, o in outlooks.items()}
    offset, scale = _offset_and_scale(law, times, observed.points)
    return Issued(origin, outlooks, later.swapaxes(0, 1), offset, scale, law, inverse)


def _law_outlook(law: Law, history: Observed, times: Array) -> Prediction:
    """Moments of new values, their noise included."""
    prediction = values_of(law.forecast(history, times))
    return Prediction(*(values.swapaxes(0, 1) for values in prediction))


def _offset_and_scale(law: Law, times: Array, points: Array) -> tuple[Array, Array]:
    """Offset and scale to the units of the data; (lead, 1, point)."""
    shape = (len(times), 1, len(points))
    if law.preparation is None or not law.preparation.how.is_affine:
        return np.zeros(shape), np.ones(shape)
    offset, scale = law.preparation.affine(times, points)
    return offset[:, None], np.broadcast_to(scale, shape)


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
        raise InputError("first", expected=expected, got=repr(first), fix="first=0.6")
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

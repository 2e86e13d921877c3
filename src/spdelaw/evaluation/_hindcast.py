"""Forecasts of the past as they would have been made: one engine for all that judges them.

From each origin, the law and its rivals see the times before it and nothing else. The law, its
climatology and, where the domain is made of them, its patterns are learned anew at some of the
origins, and go on from there with what has been seen since.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data import Observed, Preparation, Prepared, learn_map, observed_fields
from spdelaw.domain import AbstractDomain, Empirical, places_of_fields
from spdelaw.errors import DataError, IdentifiabilityWarning, InputError
from spdelaw.evaluation._rivals import (
    SIMPLE,
    InverseModel,
    Outlook,
    learn_inverse_model,
    mean_field,
)
from spdelaw.infer import Exact, fit
from spdelaw.law import Law, noise_at

Array = np.ndarray

LAW, INVERSE = "law", "LIM"
#: The word for patterns of the data, learned from each past.
PATTERNS = "eof"
#: Noise that goes with a drift where nobody says which.
NOISES = {"parametric": "parametric", "dense": "dense"}


class Plan(NamedTuple):
    """What is forecast from where.

    Attributes:
        origins: numbers of times seen, increasing.
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

    def at(self, place: AbstractDomain | str, drift: str | None, n_modes: int) -> Trial:
        """The same with other modes: of a domain or of the data, coupled or not, and how many."""
        words = dict(self.settings)
        if drift is not None:
            words = {"noise": NOISES.get(drift, "diagonal"), **words, "drift": drift}
        return self._replace(domain=place, n_modes=n_modes, settings=words)

    @property
    def quick(self) -> Trial:
        """The same with words that need no test: one long record that is in its stride."""
        words = {"initial": "stationary", "nuisance": 0, **self.settings}
        if self.prepare is not None and self.prepare.anomalies:
            words = {"mean": "zero", **words}
        return self._replace(settings=words)

    @property
    def is_about_zero(self) -> bool:
        """Whether the fields that are forecast have no mean: it was taken off, or is known."""
        has_climate = self.prepare is not None and bool(self.prepare.anomalies)
        return has_climate or self.settings.get("mean") == "zero"

    @property
    def n_numbers(self) -> int:
        """How many numbers the drift has."""
        n = int(self.n_modes)
        return n * n if self.settings.get("drift") == "dense" else n

    @property
    def _words(self) -> dict[str, Any]:
        """Words of `fit`: a law that only forecasts needs no intervals by profile."""
        own = {"engine", "threads"} & set(self.settings)
        return self.settings if own else {"engine": Exact(profile=False), **self.settings}

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
                own = observed_fields(past, self.domain)
                return fit(own, self.domain, self.n_modes, prepare=self.prepare, **self._words)
            if self.prepare is None:
                return self._on_patterns(past, None)
            prepared = learn_map(self.prepare, past, self.dims)
            return self._on_patterns(prepared.transform(past, self.dims), prepared)

    def _on_patterns(self, fields: xr.DataArray, prepared: Prepared | None) -> Law:
        """The law of patterns of the fields themselves.

        A dense drift is learned without noise inside the patterns, from fields whose gaps the law
        of the same patterns, each on its own, has filled: a matrix through gaps and noise takes
        minutes, and forecasts no better.
        """
        n, words = int(self.n_modes), self._words
        domain = Empirical(fields, n, dims=self.dims)
        own = observed_fields(fields, domain, prepared)
        if words.get("drift") != "dense" or "observation_noise" in words:
            return fit(own, domain, n, **words)
        if own.has_gaps:
            alone = fit(own, domain, n, **{**words, "drift": "diagonal", "noise": "diagonal"})
            guess = plain(alone).reconstruct(own.flat)["mean"].values
            own = own.holding(own.fields.fillna(guess))
        return fit(own, domain, n, **words, observation_noise="none")


class Issued(NamedTuple):
    """Forecasts from one origin, in the units of the law.

    Attributes:
        origin: times seen.
        mean, std: of new values by method; (lead, path, point), NaN beyond the end of the data.
        truth: what happened, likewise.
        offset, scale: back to the units of the data, ``X = offset + scale y``; (lead, 1, point).
        law: the one that was used.
        inverse: the linear inverse model that was used, where it is among the rivals.
    """

    origin: int
    outlooks: dict[str, Outlook]
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
            own = law.observe(observed_fields(fields, law.domain)).flat
            if not trial.is_about_zero:
                centre = mean_field(own.values[:, past])
            if INVERSE in trial.rivals:
                n = None if inverse is None else inverse.n_patterns
                seen = own.fields.isel(time=past)
                seen = seen.copy(data=seen.values - centre)
                inverse = learn_inverse_model(seen, plan.leads, trial.dims, n)
        yield _issue(law, own, plan, origin, past.start, trial.rivals, inverse, centre)
        if progress is not None:
            progress(i + 1, len(plan.origins))


def plain(law: Law) -> Law:
    """The law for data that are prepared, whose results are in their units and without names."""
    return dataclasses.replace(law.with_info(labels={}), preparation=None)


def _issue(
    law: Law,
    own: Observed,
    plan: Plan,
    origin: int,
    first: int,
    rivals: tuple[str, ...],
    inverse: InverseModel | None,
    centre: Array,
) -> Issued:
    history = own.at_times(slice(first, origin))
    rows = [origin - 1 + k for k in plan.leads if origin - 1 + k < len(own.times)]
    later, times, values = own.values[:, rows], own.times[rows], history.values - centre
    others = {name: SIMPLE[name](values, plan.leads) for name in rivals if name in SIMPLE}
    if inverse is not None:
        others[INVERSE] = inverse.outlook(values)
    outlooks = {LAW: _of_law(plain(law), history, times)}
    outlooks |= {name: o._replace(mean=centre + o.mean) for name, o in others.items()}
    n = len(rows)
    outlooks = {name: Outlook(o.mean[:n], o.std[:n]) for name, o in outlooks.items()}
    offset, scale = _map_back(law, times, own.points)
    return Issued(origin, outlooks, later.swapaxes(0, 1), offset, scale, law, inverse)


def _of_law(law: Law, history: Observed, times: Array) -> Outlook:
    """Moments of new values, their noise included."""
    result = law.forecast(history, times)
    noise = noise_at(law, history.points)
    mean, std = (result[name].values.swapaxes(0, 1) for name in ("mean", "std"))
    return Outlook(mean, np.sqrt(std**2 + noise))


def _map_back(law: Law, times: Array, points: Array) -> tuple[Array, Array]:
    """Offset and scale to the units of the data; (lead, 1, point)."""
    shape = (len(times), 1, len(points))
    if law.preparation is None or not law.preparation.how.is_affine:
        return np.zeros(shape), np.ones(shape)
    offset, scale = law.preparation.affine(times, points)
    return offset[:, None], np.broadcast_to(scale, shape)


# -- fields at the door ---------------------------------------------------------------


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


def where_seen(
    fields: xr.DataArray, dims: tuple[str, ...], start: int
) -> tuple[xr.DataArray, Array]:
    """Fields at the points that are seen before the first origin, and which of all they are.

    Nobody can forecast others.
    """
    values = fields.values.reshape(*fields.shape[:2], -1)
    seen = ~np.isnan(values[:, :start]).all((0, 1))
    if seen.all():
        return fields, seen
    if not seen.any():
        expected = "values before the first origin"
        raise DataError("data", expected=expected, got="none", fix="start later: first=0.8")
    if len(dims) == 1:
        return fields.isel({dims[0]: seen}), seen
    if "point" in fields.dims:
        return fields.isel(point=seen), seen
    points = places_of_fields(fields, dims).points[seen]
    coords: dict[str, Any] = {
        str(k): v for k, v in fields.coords.items() if set(v.dims) <= {"path", "time"}
    }
    coords |= {d: ("point", points[:, i], fields[d].attrs) for i, d in enumerate(dims)}
    named = (("path", "time", "point"), fields.name, fields.attrs)
    return xr.DataArray(values[..., seen], coords, *named), seen

"""The data of a report: laws, the fields they are judged on, and their scores."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import xarray as xr

from spdelaw.data.observed import Observed
from spdelaw.data.prepare import Prepared
from spdelaw.data.summary import describe
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.fields import Fields
from spdelaw.domains.places import Places
from spdelaw.errors import InputError
from spdelaw.evaluation.checks.suite import is_training
from spdelaw.evaluation.scorecard import Scorecard, evaluate
from spdelaw.law.law import Law
from spdelaw.law.observations import less_response, noise_at
from spdelaw.law.prediction import is_record
from spdelaw.law.provenance import Provenance
from spdelaw.processes.linear import Linear
from spdelaw.processes.spde import SpectralSPDE
from spdelaw.report.figures.charts import Control, thinned
from spdelaw.report.figures.fields import globe_axes, moments_of, one_path
from spdelaw.report.maps import Canvas, canvas_of
from spdelaw.report.plots import TimeLabels, time_labels

Array = np.ndarray

#: Largest number of laws in a report, and of paths in a figure.
MOST_LAWS, SHOWN_PATHS = 4, 3
#: Bytes of one long lazy record that figures show.
SHOWN_BYTES = 64e6
#: Tasks that the report scores: the two that hold values out.
TIERS = ("forecast", "gaps")
#: Largest difference of times that are the same, relative to the step of a record.
SAME_TIME = 1e-3


@dataclasses.dataclass(frozen=True)
class ReportData:
    """Everything that the sections read; made once by `gather`.

    Attributes:
        laws: by the names shown, without their preparations; the report is about the first.
        joint: the prepared data, at most ``max_paths`` paths of them, flat along their points
            whatever labels they came with. Of one long lazy record its beginning, which the
            figures show.
        places: points of the fields with those labels.
        axes: name of each spatial coordinate, with its unit.
        names: the same without the unit.
        globe: positions of longitude and latitude among them; empty where they are others.
        preparation: that of the first law, which forecasts undo; None where there is none.
        description: of all the fields.
        cards: score of each law on the data.
        truth: equation behind simulated fields.
        source: where laws and data come from, in the reader's words.
        likelihoods: log-likelihood of the data under each of several laws.
        training: which of the data the first law was fitted to, in one sentence.
        skill: of forecasts of the past, as plain data; None where none was given.
        label, indices: name of one field of several, and its points among those of ``joint``.
    """

    laws: dict[str, Law]
    joint: Observed
    places: Places
    axes: tuple[str, ...]
    names: tuple[str, ...]
    globe: tuple[int, ...]
    preparation: Prepared | None
    description: dict[str, Any]
    cards: dict[str, Scorecard]
    truth: SpectralSPDE | None
    source: dict[str, str]
    seed: int
    likelihoods: dict[str, xr.DataArray]
    training: str
    skill: dict[str, Any] | None = None
    label: str = ""
    indices: Any = dataclasses.field(default_factory=lambda: slice(None))

    @property
    def law(self) -> Law:
        """The law that the report is about."""
        return next(iter(self.laws.values()))

    @property
    def card(self) -> Scorecard:
        """Its score."""
        return next(iter(self.cards.values()))

    @property
    def level(self) -> str:
        """Level of the intervals of the law, as text."""
        return f"{100 * float(self.law.parameters.attrs['interval_level']):g} %"

    @property
    def is_linear(self) -> bool:
        """Whether the law has spectra."""
        return isinstance(self.law.dynamics, Linear)

    @property
    def is_coupled(self) -> bool:
        """Whether the drift or the noise of a linear law couples the modes."""
        return "drift" in self.law.parameters

    # -- one of several fields -------------------------------------------------------------

    @functools.cached_property
    def each(self) -> list[ReportData]:
        """The same for each field of a law of several; itself alone for others."""
        whole = self.law.domain
        if self.label or not isinstance(whole, Fields):
            return [self]
        which, x = whole.split(self.joint.points)
        return [
            dataclasses.replace(
                self, label=name, indices=np.flatnonzero(which == f), axes=self.axes[1:],
                places=whole.domain.places(x[which == f]), names=self.names[1:],
                globe=tuple(i - 1 for i in self.globe),
            )
            for f, name in enumerate(whole.names)
        ]  # fmt: skip

    @property
    def domain(self) -> AbstractDomain:
        """The spatial domain of the field."""
        return cast("Fields", self.law.domain).domain if self.label else self.law.domain

    @functools.cached_property
    def fields(self) -> xr.DataArray:
        """The data as (path, time, x), or (path, time, point) in several dimensions."""
        if not self.label:
            return self.joint.fields
        keep = np.isin(np.arange(len(self.joint.points)), self.indices)
        return self.joint.at_points(keep).fields

    @property
    def points(self) -> Array:
        """The spatial points, (M,) or (M, d)."""
        return self.places.points

    @functools.cached_property
    def canvas(self) -> Canvas | None:
        """Where the points lie on a map; None for fields over one coordinate."""
        return canvas_of(self.domain, self.places, self.axes, self.globe)

    @functools.cached_property
    def ever_observed(self) -> Array:
        """Whether each point has an observed value, (M,); land has none."""
        return np.isfinite(self.fields.values).any((0, 1))

    # -- paths and times -------------------------------------------------------------------

    @property
    def own_times(self) -> bool:
        """Whether each path has times of its own."""
        return self.joint.has_own_clocks

    @functools.cached_property
    def shown(self) -> list[int]:
        """Positions of the paths that figures show: the first with early observations."""
        paths = [self.path(i).values for i in range(self.fields.sizes["path"])]
        nonempty = [i for i, values in enumerate(paths) if np.isfinite(values).any()]
        early = [i for i in nonempty if np.isfinite(paths[i][: max(2, len(paths[i]) // 2)]).any()]
        return (early or nonempty)[:SHOWN_PATHS]

    @property
    def together(self) -> list[int]:
        """Those of them with common times: only the first where each path has its own."""
        return self.shown[:1] if self.own_times else self.shown

    @property
    def missing(self) -> float:
        """Share of values in the domain, at times that a path has, that are missing."""
        rows = np.isfinite(self.fields["path_time"].values) if self.own_times else slice(None)
        return float(np.isnan(self.fields.values[rows]).mean())

    def path(self, i: int) -> xr.DataArray:
        """Path at a position, (time, point), with its times of observation."""
        return one_path("data", self.fields, i)

    def time_labels(self, times: Array) -> TimeLabels:
        """Times in the units and calendar of the data."""
        return time_labels(times, self.fields[self.joint.clock].attrs)

    # -- predictions of the law, from the observations of all fields -------------------------

    @functools.cached_property
    def centred(self) -> Observed:
        """The data of all fields less the mean of the law and its response to a forcing."""
        return less_response(self.law, self.joint)

    def drawn(self, law: Law, i: int, times: Array, n: int, seed: int) -> Array:
        """Draws of a law at the points of path i, observed in the same way: (n, time, point).

        With observation noise and the unresolved variance, but without gaps.
        """
        draws = law.sample(n, times, self.joint.points, seed=seed, observation_noise=True)
        values = self.law.domain.places(self.joint.points).flatten(draws.values)
        unresolved = np.random.default_rng([self.seed, i]).standard_normal(values.shape)
        return (values + np.sqrt(law.unresolved_variance) * unresolved)[..., self.indices]

    def reconstructed(self, paths: list[int]) -> tuple[Array, Array]:
        """Mean and standard deviation (path, time, M) of paths that share their times."""
        result = self.law.reconstruct(self.joint.paths(paths))
        moments = [moments_of("reconstruction", result, i) for i in range(len(paths))]
        means, stds = zip(*moments, strict=True)
        both = np.stack([[m.values for m in means], [s.values for s in stds]])
        return both[0][..., self.indices], both[1][..., self.indices]

    def forecast(self, path: int, n: int, times: Array) -> tuple[Array, Array]:
        """Mean and standard deviation (T, M) of a path from its first n times."""
        history = one_path("data", self.joint.fields, path).isel(time=slice(n))
        alone = self.joint.holding(history.expand_dims(path=[0]).transpose("path", "time", ...))
        mean, std = moments_of("forecast", self.law.forecast(alone, times), 0)
        return mean.values[:, self.indices], std.values[:, self.indices]

    @functools.cached_property
    def noise(self) -> Array:
        """Variance of the observation noise at each point, (M,)."""
        points = self.joint.points
        return np.broadcast_to(noise_at(self.law, points), len(points))[self.indices]

    def raw(self, times: Array) -> tuple[Array, Array]:
        """Offset (T, M) and scale (M,) to the units of the raw data."""
        if self.preparation is None or not self.preparation.how.is_affine:
            return np.zeros((len(times), len(self.points))), np.ones(len(self.points))
        offset, scale = self.preparation.affine(times, self.joint.points)
        return offset[:, self.indices], scale[self.indices]

    # -- names -------------------------------------------------------------------------------

    @property
    def raw_quantity(self) -> str:
        """Name of the field with the unit of the raw data."""
        name = self.label or str(self.fields.name or "field").replace("_", " ")
        return _with_unit(name, self.fields.attrs.get("units"))

    @property
    def quantity(self) -> str:
        """Name of the field, or of its anomaly, with its unit."""
        how = self.law.info.get("preparation", [])
        name = self.label or str(self.fields.name or "field").replace("_", " ")
        changed = any("anomalies" in step or "trend" in step for step in how)
        scaled = any("standardised" in step for step in how)
        unit = "standard deviations" if scaled else self.fields.attrs.get("units")
        return _with_unit(f"{name} anomaly" if changed else name, unit)

    def point_slider(self, values: Array, most: int) -> tuple[Array, Control]:
        """At most ``most`` points that hold a value of (time, M), and the slider over them.

        The first shown is in the middle. Where there are maps, points on them.
        """
        canvas, points = self.canvas, self.points
        there = np.arange(len(points)) if canvas is None else np.unique(canvas.at[canvas.at >= 0])
        observed = there[~np.isnan(values[:, there]).all(0)]
        observed = observed if observed.size else there
        at = observed[thinned(len(observed), most)]
        some = points[at]
        if points.ndim == 1:
            return at, Control(self.names[0], [f"{p:.4g}" for p in some], len(at) // 2)
        labels = [
            ", ".join(f"{d} {p:.4g}" for d, p in zip(self.names, row, strict=True)) for row in some
        ]
        spread = np.ptp(some, axis=0)
        off = (some - some.mean(0)) / np.where(spread > 0, spread, 1.0)
        return at, Control("place", labels, int((off**2).sum(1).argmin()))


def gather(
    laws: Law | Mapping[str, Law],
    data: Any,
    truth: SpectralSPDE | None,
    source: Mapping[str, str] | None,
    max_paths: int,
    seed: int,
) -> ReportData:
    """Check the laws against each other and score each on the data."""
    named = {"law": laws} if isinstance(laws, Law) else dict(laws)
    _check_laws(named)
    first = next(iter(named.values()))
    all_paths = first.observe(data)
    used = all_paths.paths(slice(max_paths))
    some = _shown_times(used).in_memory()
    judged = used if is_record(used) else some
    by_law = {
        name: judged if _same_preparation(law, first) else law.observe(data)
        for name, law in named.items()
    }
    cards = {
        name: evaluate(law, by_law[name], _comparable_truth(law, truth), tiers=TIERS,
                       max_paths=max_paths, seed=seed)
        for name, law in named.items()
    }  # fmt: skip
    likelihoods = {n: law.log_likelihood(by_law[n]) for n, law in named.items() if len(named) > 1}
    fields, dims = some.fields, first.domain.dims
    names = tuple(str(fields[d].attrs.get("original_name", d)) for d in dims)
    axes = tuple(
        _with_unit(name, fields[d].attrs.get("units")) for name, d in zip(names, dims, strict=True)
    )
    sources = dict(source or {})
    return ReportData(
        {name: _without_preparation(law) for name, law in named.items()},
        some.flat._replace(dated=False), some.places, axes, names, globe_axes(fields, dims),
        first.preparation, describe(all_paths.labelled), cards, truth, sources, seed, likelihoods,
        _training_text(first, all_paths, sources),
    )  # fmt: skip


def _without_preparation(law: Law) -> Law:
    """The same law for prepared data, under canonical names; it keeps its mean and forcing."""
    info = Provenance.of({key: law.info[key] for key in law.info if key != "labels"})
    return dataclasses.replace(law, preparation=None, info=info)


def _training_text(law: Law, observed: Observed, source: Mapping[str, str]) -> str:
    """Which of the data are training data, as far as law and data tell."""
    if source.get("same") == "yes" or is_training(law, observed):
        return "Scores and tests below use the data that the law was fitted to."
    times = observed.times[np.isfinite(observed.times)]
    step = float(np.diff(law.times).min()) if len(law.times) > 1 else 1.0
    at = np.clip(np.searchsorted(law.times, times - SAME_TIME * step), 0, len(law.times) - 1)
    shared = int((np.abs(law.times[at] - times) <= SAME_TIME * step).sum())
    if not shared:
        return "None of the times shown is a training time: scores and tests below use other data."
    if observed.n_paths == 1 and law.info.n_paths == 1:
        return (
            f"{shared} of the {len(times)} times shown are training times, so scores and tests "
            "below are not independent of the fit."
        )
    if source.get("same") == "no" or (law.info.log_likelihood_of or {}).get("fingerprint"):
        return (
            "Scores and tests below use other data than the fit as a whole. Both cover the same "
            "times, and single paths may be in both."
        )
    return "The law does not record whether it was fitted to any of the data shown."


def _shown_times(data: Observed) -> Observed:
    """As much of one long lazy record as figures show; other data as they are."""
    if not is_record(data):
        return data
    rows = int(SHOWN_BYTES * data.fields.sizes["time"] / data.fields.nbytes)
    return data.at_times(slice(max(2, rows)))


def _same_preparation(law: Law, first: Law) -> bool:
    """Whether two laws prepare data in the same way."""
    if law.preparation is None or first.preparation is None:
        return law.preparation is first.preparation
    return law.preparation.is_by(first.preparation)


def _comparable_truth(law: Law, truth: SpectralSPDE | None) -> SpectralSPDE | None:
    if truth is None or not isinstance(law.dynamics, Linear):
        return None
    return truth if truth.n_modes >= law.n_modes else None


def _check_laws(laws: dict[str, Law]) -> None:
    if not 1 <= len(laws) <= MOST_LAWS or not all(isinstance(law, Law) for law in laws.values()):
        got, fix = f"{len(laws)} entries", "pass law, or {'exact': law, 'chaos': other}"
        raise InputError("laws", expected=f"one to {MOST_LAWS} laws", got=got, fix=fix)
    domains = {str(law.domain) for law in laws.values()}
    if len(domains) > 1:
        expected, got = "laws on one domain", " and ".join(sorted(domains))
        raise InputError("laws", expected=expected, got=got, fix="make one report for each")


#: Units of CF on an axis.
DEGREES = {"degrees_north": "°N", "degrees_east": "°E"}


def _with_unit(name: str, unit: Any) -> str:
    unit = DEGREES.get(str(unit), unit)
    return f"{name} ({unit})" if isinstance(unit, str) and unit not in ("", "1") else name

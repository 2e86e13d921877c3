"""The data of a report: laws, the fields they are judged on, and their scores."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import xarray as xr

from spdelaw.data.observed import Observed
from spdelaw.data.prepare import Prepared
from spdelaw.data.summary import describe
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.fields import Fields
from spdelaw.domains.places import Places
from spdelaw.errors import InputError
from spdelaw.evaluation.scorecard import Scorecard, evaluate
from spdelaw.law.law import Law
from spdelaw.law.lazy import is_record
from spdelaw.law.observations import noise_at, response, subtract_mean_and_forcing
from spdelaw.processes.linear import Linear
from spdelaw.processes.spde import SpectralSPDE
from spdelaw.report.figures.fields import moments_of, one_path
from spdelaw.report.figures.numbers import Z95
from spdelaw.report.maps import Canvas, canvas_of, is_geographic
from spdelaw.report.plots import (
    LAW_COLOURS,
    Control,
    Figure,
    TimeLabels,
    packed,
    thinned,
    time_labels,
)

# ---------- The data of a report: laws, fields and scores


Array = np.ndarray

#: Largest number of paths in a figure.
SHOWN_PATHS = 3
#: Bytes of one long lazy record that figures show.
SHOWN_BYTES = 64e6
#: Tasks that the report scores: the two that hold values out.
TIERS = ("forecast", "gaps")


@dataclasses.dataclass(frozen=True)
class ReportData:
    """Everything that the sections read; made once by `gather`.

    Attributes:
        laws: by the names shown; the first is the one that the report is about.
        observed: the data less the mean of the first law, at most ``max_paths`` paths of them, flat
            along their points whatever labels they came with. Of one long lazy record its
            beginning, which the figures show.
        places: points of the fields with those labels.
        axes: name of each spatial coordinate, with its unit.
        names: the same without the unit.
        globe: positions of longitude and latitude among them; empty where they are others.
        preparation: that of the first law, which forecasts undo; None where there is none.
        description: of all the fields.
        cards: score of each law on the data.
        likelihoods: log-likelihood of the data under each of several laws.
        truth: equation behind simulated fields.
        source: where laws and data come from, in the reader's words.
        skill: of forecasts of the past, as plain data; None where none was given.
        centre: the law whose mean, or response to a forcing, the data are less; None where it has
            none.
    """

    laws: dict[str, Law]
    observed: Observed
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
    skill: dict[str, Any] | None = None
    centre: Law | None = None

    @property
    def law(self) -> Law:
        """The law that the report is about."""
        return next(iter(self.laws.values()))

    @property
    def card(self) -> Scorecard:
        """Its score."""
        return next(iter(self.cards.values()))

    @property
    def fields(self) -> xr.DataArray:
        """The data as (path, time, x), or (path, time, point) in several dimensions."""
        return self.observed.fields

    @property
    def points(self) -> Array:
        """The spatial points, (M,) or (M, d)."""
        return self.places.points

    def alone(self, path: xr.DataArray) -> Observed:
        """One path (time, point), or a part of it, or values in place of it, as data."""
        whole = path if "path" in path.dims else path.expand_dims(path=[0])
        return self.observed.holding(whole.transpose("path", "time", ...))

    @property
    def domain(self) -> AbstractDomain:
        """The spatial domain of the field."""
        return self.law.domain

    def named(self, figure: Figure) -> Figure:
        """A figure of this field; of several, it says of which."""
        return figure

    @functools.cached_property
    def each(self) -> list[ReportData]:
        """The same for each field of a law of several; itself alone for others."""
        if not isinstance(self.domain, Fields):
            return [self]
        return [OneField.of(self, f) for f in range(self.domain.n_fields)]

    @functools.cached_property
    def canvas(self) -> Canvas | None:
        """Where the points lie on a map; None for fields over one coordinate."""
        return canvas_of(self.domain, self.places, self.axes, self.globe)

    @functools.cached_property
    def ever_observed(self) -> Array:
        """Whether each point has an observed value, (M,); land has none."""
        return np.isfinite(self.fields.values).any((0, 1))

    @property
    def own_times(self) -> bool:
        """Whether each path has times of its own."""
        return self.observed.has_own_clocks

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
        return time_labels(times, self.fields[self.observed.clock].attrs)

    def drawn(self, i: int, times: Array, n: int, seed: int) -> Array:
        """Draws of the law at the points of path i, observed alike: (n, time, point).

        With observation noise and the unresolved variance, but without gaps.
        """
        draws = self.law.sample(n, times, self.points, seed=seed, observation_noise=True)
        values = self.on_points(draws)
        unresolved = np.random.default_rng([self.seed, i]).standard_normal(values.shape)
        return values + np.sqrt(self.law.unresolved_variance) * unresolved

    def mean(self, times: Array, n_draws: int) -> Array:
        """Mean of the law at times, (T, M): in closed form, or over draws where there is none."""
        if isinstance(self.law.dynamics, Linear):
            return self.on_points(self.law.equation.mean(times, self.points))
        return self.on_points(self.law.sample(n_draws, times, self.points)).mean(0)

    def on_points(self, labelled: xr.DataArray) -> Array:
        """Labelled values at ``points``, as the law returns them, flattened to (..., M)."""
        return self.law.domain.places(self.points).flatten(labelled.values)

    def reconstructed(self, paths: list[int]) -> tuple[Array, Array]:
        """Mean and standard deviation (path, time, M) of paths that share their times."""
        result = self.law.reconstruct(self.observed.paths(paths))
        moments = [moments_of("reconstruction", result, i) for i in range(len(paths))]
        means, stds = zip(*moments, strict=True)
        return np.stack([m.values for m in means]), np.stack([s.values for s in stds])

    def forecast(self, path: int, n: int, times: Array) -> tuple[Array, Array]:
        """Mean and standard deviation (T, M) of a path from its first n times."""
        result = self.law.forecast(self.alone(self.path(path).isel(time=slice(n))), times)
        mean, std = moments_of("forecast", result, 0)
        return mean.values, std.values

    @functools.cached_property
    def noise(self) -> Array:
        """Variance of the observation noise at each point, (M,)."""
        variance = noise_at(self.law, self.points)
        return np.broadcast_to(variance, len(self.points))

    def raw(self, times: Array, at: Array) -> tuple[Array, Array]:
        """Offset (T, k) and scale (k,) to the units of the raw data, at k of the points."""
        points = self.points[at]
        offset, scale = np.zeros((len(times), len(at))), np.ones(len(at))
        if self.preparation is not None and self.preparation.how.is_affine:
            offset, scale = self.preparation.affine(times, points)
        driven = None if self.centre is None else response(self.centre, times, points)
        return (offset if driven is None else offset + scale * driven), scale

    @property
    def raw_quantity(self) -> str:
        """Name of the field with the unit of the raw data."""
        return _with_unit(self._name, self.fields.attrs.get("units"))

    @property
    def _name(self) -> str:
        return str(self.fields.name or "field").replace("_", " ")

    @property
    def quantity(self) -> str:
        """Name of the field, or of its anomaly, with its unit."""
        how = self.law.info.get("preparation", [])
        name = self._name
        changed = any("anomalies" in step or "trend" in step for step in how)
        scaled = any("standardised" in step for step in how)
        unit = "standard deviations" if scaled else self.fields.attrs.get("units")
        name = f"{name} anomaly" if changed else name
        return _with_unit(name if self.centre is None else f"{name} less mean", unit)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneField(ReportData):
    """One field of a law of several: its points, and predictions of the joint law there.

    Attributes:
        whole: all fields.
        indices: positions of the points of this field among theirs.
        label: name of the field.
    """

    whole: ReportData
    indices: Array
    label: str

    @classmethod
    def of(cls, whole: ReportData, f: int) -> OneField:
        """Field at a position."""
        both = cast("Fields", whole.domain)
        which, x = both.split(whole.points)
        indices = np.flatnonzero(which == f)
        shared = {
            attribute.name: getattr(whole, attribute.name)
            for attribute in dataclasses.fields(ReportData)
        }
        shared |= {
            "observed": whole.observed.at_points(which == f),
            "places": both.domain.places(x[indices]),
            "axes": whole.axes[1:],
            "names": whole.names[1:],
            "globe": tuple(i - 1 for i in whole.globe),
        }
        return cls(**shared, whole=whole, indices=indices, label=both.names[f])

    def named(self, figure: Figure) -> Figure:
        """The same with the name of the field."""
        name, caption = f"{figure.name}-{self.label}", f"Field {self.label}. {figure.caption}"
        return dataclasses.replace(figure, name=name, caption=caption)

    @property
    def domain(self) -> AbstractDomain:
        """The spatial domain of one field."""
        return cast("Fields", self.law.domain).domain

    @property
    def each(self) -> list[ReportData]:
        """Itself."""
        return [self]

    def drawn(self, i: int, times: Array, n: int, seed: int) -> Array:
        """Draws of the joint law."""
        return self.whole.drawn(i, times, n, seed)[..., self.indices]

    def mean(self, times: Array, n_draws: int) -> Array:
        """Mean under the joint law."""
        return self.whole.mean(times, n_draws)[..., self.indices]

    def reconstructed(self, paths: list[int]) -> tuple[Array, Array]:
        """From the observations of all fields."""
        mean, std = self.whole.reconstructed(paths)
        return mean[..., self.indices], std[..., self.indices]

    def forecast(self, path: int, n: int, times: Array) -> tuple[Array, Array]:
        """From the first times of all fields."""
        mean, std = self.whole.forecast(path, n, times)
        return mean[..., self.indices], std[..., self.indices]

    def raw(self, times: Array, at: Array) -> tuple[Array, Array]:
        """Of the points of this field."""
        return self.whole.raw(times, self.indices[at])

    @functools.cached_property
    def noise(self) -> Array:
        """Of this field's points."""
        return self.whole.noise[self.indices]

    @property
    def _name(self) -> str:
        return self.label


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
    data_by_law = {
        name: judged if _same_preparation(law, first) else law.observe(data)
        for name, law in named.items()
    }
    cards = {
        name: evaluate(
            law,
            data_by_law[name],
            _comparable_truth(law, truth),
            tiers=TIERS,
            max_paths=max_paths,
            seed=seed,
        )
        for name, law in named.items()
    }
    likelihoods = {
        n: law.log_likelihood(data_by_law[n]) for n, law in named.items() if len(named) > 1
    }
    fields, dims, observed = (
        some.fields,
        first.domain.dims,
        subtract_mean_and_forcing(first, some).flat,
    )
    names = tuple(_original_name(fields[d]) for d in dims)
    units = [fields[d].attrs.get("units") for d in dims]
    axes = tuple(_with_unit(name, unit) for name, unit in zip(names, units, strict=True))
    bare = {name: law.without_preparation_and_mean for name, law in named.items()}
    return ReportData(
        bare, observed._replace(dated=False), some.places, axes, names, _globe_axes(fields, dims),
        first.preparation, describe(all_paths.labelled), cards, truth, dict(source or {}), seed,
        likelihoods,
        centre=first if response(first, observed.times[..., :1], observed.points[:1]) is not None
        else None,
    )  # fmt: skip


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


def _original_name(coordinate: xr.DataArray) -> str:
    """Name of a coordinate in the raw data."""
    return str(coordinate.attrs.get("original_name", coordinate.name))


def _globe_axes(labelled: xr.DataArray, dims: tuple[str, ...]) -> tuple[int, ...]:
    """Positions of longitude and latitude among the dims; empty where they are others."""
    attributes = [
        {"name": str(d), **{k: str(v) for k, v in labelled[d].attrs.items()}} for d in dims
    ]
    pairs = itertools.permutations(range(len(dims)), 2)
    return next((pair for pair in pairs if is_geographic(*(attributes[i] for i in pair))), ())


def _comparable_truth(law: Law, truth: SpectralSPDE | None) -> SpectralSPDE | None:
    if truth is None or not isinstance(law.dynamics, Linear):
        return None
    return truth if truth.n_modes >= law.n_modes else None


def _check_laws(laws: dict[str, Law]) -> None:
    if not 1 <= len(laws) <= len(LAW_COLOURS) or not all(
        isinstance(law, Law) for law in laws.values()
    ):
        got, fix = f"{len(laws)} entries", "pass law, or {'exact': law, 'chaos': other}"
        raise InputError("laws", expected=f"one to {len(LAW_COLOURS)} laws", got=got, fix=fix)
    domains = {str(law.domain) for law in laws.values()}
    if len(domains) > 1:
        expected, got = "laws on one domain", " and ".join(sorted(domains))
        raise InputError("laws", expected=expected, got=got, fix="make one report for each")


def _with_unit(name: str, unit: Any) -> str:
    return f"{name} ({unit})" if isinstance(unit, str) and unit not in ("", "1") else name


# ---------- Observed paths and their reconstructions


class Reconstructed(NamedTuple):
    """Arrays (path, time, point) with the times that the paths share.

    Attributes:
        observed: NaN is missing.
        mean: of the smoothed field.
        reach: half-width of the band in which 95 % of the observations should lie.
        times: as numbers.
        labels: one per path.
    """

    observed: Array
    mean: Array
    reach: Array
    times: Array
    labels: list[str]

    def at(self, times: Array, points: Array) -> Reconstructed:
        """Fewer times and points."""
        observed, mean, reach = (array[:, times][:, :, points] for array in self[:3])
        return Reconstructed(observed, mean, reach, self.times[times], self.labels)

    @property
    def choice(self) -> tuple[Control, ...]:
        """The list to choose a path from, where there are several."""
        return (Control("path", self.labels, kind="select"),) if len(self.labels) > 1 else ()


def reconstructed(material: ReportData) -> Reconstructed:
    """Paths that are shown together."""
    at = material.together
    observed = [material.path(i) for i in at]
    mean, std = material.reconstructed(at)
    return Reconstructed(
        np.stack([o.values for o in observed]),
        mean,
        Z95 * np.sqrt(std**2 + material.noise),
        observed[0]["time"].values,
        [f"path {name}" for name in material.fields["path"].values[at]],
    )


def curve(x: list[Any], observed: Array, mean: Array, reach: Array) -> list[dict[str, Any]]:
    """Lower and upper end of the band, the mean, and the observations, in the fourth panel."""
    line = {"type": "scatter", "mode": "lines", "x": x, "xaxis": "x4", "yaxis": "y4"}
    edge = {**line, "line": {"width": 0}, "hoverinfo": "skip"}
    return [
        {**edge, "y": packed(mean - reach), "showlegend": False},
        {**edge, "y": packed(mean + reach), "fill": "tonexty", "fillcolor": "@lawband",
         "name": "95 % band"},
        {**line, "y": packed(mean), "name": "reconstructed",
         "line": {"color": "@law", "width": 2}},
        {**line, "y": packed(observed), "mode": "markers", "name": "observed",
         "marker": {"color": "@data", "size": 5}},
    ]  # fmt: skip


# ---------- A slider over points


class PointSlider(NamedTuple):
    """Some of the points: their numbers, their names, and the slider over them."""

    at: Array
    control: Control


def point_slider(material: ReportData, values: Array, most: int) -> PointSlider:
    """At most ``most`` points that hold a value of (time, M), the first shown in the middle.

    Where there are maps, points on them.
    """
    canvas, points = material.canvas, material.points
    there = np.arange(len(points)) if canvas is None else np.unique(canvas.at[canvas.at >= 0])
    observed = there[~np.isnan(values[:, there]).all(0)]
    observed = observed if observed.size else there
    at = observed[thinned(len(observed), most)]
    names = material.names
    if points.ndim == 1:
        return PointSlider(at, Control(names[0], [f"{p:.4g}" for p in points[at]], len(at) // 2))
    some = points[at]
    labels = [", ".join(f"{d} {p:.4g}" for d, p in zip(names, row, strict=True)) for row in some]
    spread = np.ptp(some, axis=0)
    off = (some - some.mean(0)) / np.where(spread > 0, spread, 1.0)
    return PointSlider(at, Control("place", labels, int((off**2).sum(1).argmin())))

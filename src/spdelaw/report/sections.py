"""Charts of the sections: modes, fields, samples, forecasts, reaction, moments; skill documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import xarray as xr

from spdelaw.checks import checked
from spdelaw.data.io.safe_files import read_regular, reading
from spdelaw.domains.fields import Fields
from spdelaw.errors import InputError
from spdelaw.evaluation.forecast_skill import Skill
from spdelaw.evaluation.tasks import predict_tier
from spdelaw.law.law import Law
from spdelaw.law.observations import (
    modes_at,
    noisy_state_space,
    observed_for_law,
    smooth_fields,
    weights_of,
)
from spdelaw.processes.linear import Linear
from spdelaw.processes.semilinear import Reacting
from spdelaw.processes.terms import term_values
from spdelaw.report.data import TIERS, ReportData
from spdelaw.report.figures.charts import (
    Z95,
    Band,
    Chart,
    Control,
    Line,
    Panel,
    colour_scale,
    symmetric_scale,
    thinned,
)
from spdelaw.report.figures.fields import field_panel, mode_lines, one_path
from spdelaw.report.figures.laws import phase_plane_chart, reaction_chart
from spdelaw.report.figures.moments import spatial_weights
from spdelaw.report.figures.predictions import coverage_chart, forecast_chart, innovations_chart
from spdelaw.report.maps import Canvas
from spdelaw.report.summary import mode_labels

Array = np.ndarray

#: Most times and points of an image, of the line below maps, and of the slider over points.
IMAGE_TIMES, IMAGE_POINTS, LINE_TIMES, PLACES = 160, 100, 160, 40
#: Most maps of one path and of all.
MAPS, ALL_MAPS = 36, 48
#: Largest numbers of modes of a map and of lines, and of points of a line.
MAP_MODES, LINE_MODES, LINE_POINTS = 9, 4, 200


def labelled(name: str, values: Array, *dims: str) -> xr.DataArray:
    """An array whose dims may be controls; a path alone is no choice."""
    array = xr.DataArray(values, dims=dims, name=name)
    return array.squeeze("path") if array.sizes.get("path") == 1 else array


# ---------- Shapes of the leading modes


def modes_chart(data: ReportData) -> Chart:
    """The first modes: one map with a list to choose from, or a few lines."""
    n_fields, data = len(data.each), data.each[0]
    n = min(MAP_MODES if data.canvas else LINE_MODES, data.law.n_modes // n_fields)
    modes = data.domain.eigenfunctions(data.points, n)
    modes = np.where(data.ever_observed[:, None], modes, np.nan)
    names = mode_labels(data, n)
    if data.canvas is None:
        at = thinned(len(data.points), LINE_POINTS)
        return Chart("modes", ((mode_lines(data.points[at], modes[at], names,
                                                    data.axes[0]),),))  # fmt: skip
    maps = labelled("map", data.canvas.shown(modes.T), "mode", *"yx"[-data.canvas.at.ndim :])
    panel = field_panel(maps, None, data.canvas, symmetric_scale(maps.values), bar=True)
    control = Control("mode", names, kind="select")
    return Chart("modes", ((panel,),), (control,), data.canvas.note)


# ---------- Observed and reconstructed fields, and their difference


def field_chart(data: ReportData) -> Chart:
    """Images of all times with the profile at one, or a map with one point over time."""
    at = data.together
    paths = [data.path(i) for i in at]
    observed, times = np.stack([path.values for path in paths]), paths[0]["time"].values
    mean, std = data.reconstructed(at)
    reach = Z95 * np.sqrt(std**2 + data.noise)
    labels = [f"path {name}" for name in data.fields["path"].values[at]]
    choice = (Control("path", labels, kind="select"),) if len(at) > 1 else ()
    if data.canvas is None:
        return _image_chart(data, times, observed, mean, reach, choice)
    return _map_chart(data, data.canvas, times, observed, mean, reach, choice)


def _band_marks(x: Any, numbers: dict[str, Array], at: Any, *dims: str) -> list[Any]:
    """Band and mean of the law, and observations, as arrays that follow the controls."""
    low, high, mean, observed = (
        labelled(name, numbers[name][at], *dims) for name in ("low", "high", "line", "observed")
    )
    return [
        Band(x, low, high, "95 % band"),
        Line(x, mean, "reconstructed"),
        Line(x, observed, "observed", "data", "", "o", size=5),
    ]


def _image_chart(
    data: ReportData, times: Array, observed: Array, mean: Array, reach: Array, choice: Any
) -> Chart:
    at = np.ix_(np.arange(len(mean)), thinned(len(times), IMAGE_TIMES),
                thinned(len(data.points), IMAGE_POINTS))  # fmt: skip
    when, points = data.time_labels(times[at[1].ravel()]), data.points[at[2].ravel()]
    difference = observed - mean
    both = colour_scale(np.concatenate([observed.ravel(), mean.ravel()]))
    images = (
        ("observed", observed, both, False),
        ("reconstructed", mean, both, True),
        ("observed minus reconstructed", difference, symmetric_scale(difference), True),
    )
    cursor = ("time", when.positions)
    row = [
        field_panel(labelled(title, values[at], "path", "t", "s"), when.positions, points, colours,
                    bar=bar, title=title, x=when.title, y="" if i else data.axes[0], shared=i > 0,
                    cursor=cursor)
        for i, (title, values, colours, bar) in enumerate(images)
    ]  # fmt: skip
    numbers = {"low": mean - reach, "high": mean + reach, "line": mean, "observed": observed}
    marks = _band_marks(points, numbers, at, "path", "time", "s")
    ends = [f(numbers[k]) for f, k in ((np.nanmin, "low"), (np.nanmax, "high"))]
    ends = [min(ends[0], np.nanmin(observed)), max(ends[1], np.nanmax(observed))]
    margin = 0.04 * (ends[1] - ends[0])
    profile = Panel(marks, x=data.axes[0], y=data.quantity, height=180,
                    y_range=(float(ends[0] - margin), float(ends[1] + margin)))  # fmt: skip
    slider = Control("time", when.texts, len(when.texts) // 2)
    return Chart("fields", (row, (profile,)), (*choice, slider))


def _map_chart(
    data: ReportData, canvas: Canvas, times: Array, observed: Array, mean: Array, reach: Array,
    choice: Any,
) -> Chart:  # fmt: skip
    points, slider = data.point_slider(observed[0], PLACES)
    most = min(MAPS, max(ALL_MAPS // len(mean), 12))
    maps, along = thinned(len(times), most), thinned(len(times), LINE_TIMES)
    when, line_times = data.time_labels(times[maps]), data.time_labels(times[along])
    parts = {
        "observed": observed,
        "reconstructed": mean,
        "observed minus reconstructed": observed - mean,
        "half width of the 95 % band": np.broadcast_to(reach, observed.shape),
    }
    values = np.stack(
        [canvas.shown(np.where(data.ever_observed, v[:, maps], np.nan)) for v in parts.values()]
    )
    both = colour_scale(values[:2].ravel())
    colours = (both, both, symmetric_scale(values[2]), colour_scale(values[3].ravel()))
    cells = labelled("map", values, "show", "path", "time", *"yx"[-canvas.at.ndim :])
    panel = field_panel(cells, None, canvas, colours, by="show", bar=True)
    where = np.array([canvas.where(point) for point in points])
    x, y = (labelled(name, where[:, i], slider.name) for i, name in enumerate("xy"))
    # A white point with a dark rim is visible on any colour.
    rim, mark = (Line(x, y, "", c, "", "o", size=s) for c, s in (("ink", 12), ("card", 8)))
    panel = Panel((*panel.marks, rim, mark))
    numbers = {"low": mean - reach, "high": mean + reach, "line": mean, "observed": observed}
    swapped = {name: np.swapaxes(v, 1, 2) for name, v in numbers.items()}
    at = np.ix_(np.arange(len(mean)), points, along)
    marks = _band_marks(line_times.positions, swapped, at, "path", slider.name, "t")
    below = Panel(marks, x=line_times.title, y=data.quantity, height=190,
                  cursor=("time", when.positions))  # fmt: skip
    controls = (Control("show", tuple(parts), kind="select"), *choice,
                Control("time", when.texts, len(maps) // 2), slider)  # fmt: skip
    return Chart("fields", ((panel,), (below,)), controls, canvas.note)


# ---------- Draws and observed paths


def samples_chart(data: ReportData) -> Chart:
    """Observed paths and draws from the law on one colour scale: images, or maps."""
    at = data.shown if data.canvas is None else data.together
    paths = [data.path(i) for i in at]
    drawn = [
        data.drawn(data.law, i, path["time"].values, 1, data.seed + 1 + i)[0]
        for i, path in zip(at, paths, strict=True)
    ]
    if data.canvas is not None:
        return _sample_maps(data, data.canvas, paths, drawn)
    colours = colour_scale(np.concatenate([path.values.ravel() for path in paths]))
    rows = []
    for r, values in enumerate(([path.values for path in paths], drawn)):
        row = []
        for c, (path, one) in enumerate(zip(paths, values, strict=True)):
            t, s = thinned(len(one), IMAGE_TIMES), thinned(one.shape[1], IMAGE_POINTS)
            when = data.time_labels(path["time"].values[t])
            title = f"draw {c + 1}" if r else f"data, path {path['path'].item()}"
            row.append(
                field_panel(one[np.ix_(t, s)], when.positions, data.points[s], colours, title=title,
                            x=when.title if r else "", y="" if c else data.axes[0], shared=c > 0,
                            bar=c == len(paths) - 1, height=180)
            )  # fmt: skip
        rows.append(row)
    return Chart("samples", rows)


def _sample_maps(
    data: ReportData, canvas: Canvas, paths: list[xr.DataArray], drawn: list[Array]
) -> Chart:
    """Maps of paths (time, point) that share their times; land is empty in draws, too."""
    times = paths[0]["time"].values
    at = thinned(len(times), min(MAPS, max(ALL_MAPS // len(paths), 12)))
    when = data.time_labels(times[at])
    panels: list[Panel] = []
    colours = None
    for name, title, values in (
        ("data", "data", [path.values for path in paths]),
        ("draw", "draw from the law", drawn),
    ):
        some = np.where(data.ever_observed, np.stack(values)[:, at], np.nan)
        cells = labelled(name, canvas.shown(some), "pair", "time", *"yx"[-canvas.at.ndim :])
        colours = colours or colour_scale(cells.values.ravel())
        side_by_side = bool(panels) and not canvas.is_wide
        panels.append(field_panel(cells, None, canvas, colours, title=title, shared=side_by_side,
                                  bar=canvas.is_wide or side_by_side))  # fmt: skip
    labels = [f"path {path['path'].item()}, draw {i + 1}" for i, path in enumerate(paths)]
    controls = (Control("pair", labels, kind="select"), Control("time", when.texts, len(at) // 2))
    rows = [(panel,) for panel in panels] if canvas.is_wide else (panels,)
    return Chart("samples", rows, controls, canvas.note)


# ---------- A forecast, and calibration


#: Share of a path that is its history; largest numbers of times and points on the page.
HISTORY_SHARE, FORECAST_TIMES, POINTS = 0.6, 200, 60
#: Fewest innovations that make a histogram.
MIN_INNOVATIONS = 20
#: Required keys of a skill document.
SKILL_KEYS = ("leads", "scores", "verdict", "facts", "level")


def history_length(data: ReportData) -> int:
    """Times of the first path that are its history; 0 where it cannot be forecast."""
    path = data.path(data.shown[0])
    n = max(2, int(HISTORY_SHARE * path.sizes["time"]))
    return n if path.sizes["time"] - n >= 2 and np.isfinite(path.values[:n]).any() else 0


def path_forecast_chart(data: ReportData) -> Chart:
    """The first path forecast from its first part, in the units and dates of the raw data."""
    path, n = data.path(data.shown[0]), history_length(data)
    points, slider = data.point_slider(path.values, POINTS)
    times = path["time"].values
    before, after = thinned(n, FORECAST_TIMES), n + thinned(len(times) - n, FORECAST_TIMES)
    mean, std = data.forecast(data.shown[0], n, times[after])
    offset, scale = data.raw(times)

    def raw(name: str, values: Array, rows: Array) -> Any:
        moved = (offset[rows] + scale * values)[:, points]
        return labelled(name, moved.T, slider.name, "t")

    past, future = (data.time_labels(times[rows]) for rows in (before, after))
    band = labelled("std", (scale * np.sqrt(std**2 + data.noise))[:, points].T, slider.name, "t")
    return forecast_chart(
        (past.positions, raw("history", path.values[before], before)),
        (future.positions, raw("mean", mean, after), band),
        (future.positions, raw("later", path.values[after], after)),
        (past.title, data.raw_quantity),
        controls=(slider,),
    )


def calibration_charts(data: ReportData) -> list[Chart]:
    """Innovations, where there are enough for a histogram, and coverage."""
    check, law = data.card.check, data.law.without_preparation_and_mean
    enough = (~np.isnan(check.innovations)).sum() >= MIN_INNOVATIONS
    predicted = {tier: predict_tier(law, data.centred, tier, data.seed) for tier in TIERS}
    return [innovations_chart(check)] * bool(enough) + [coverage_chart(predicted)]


# ---------- The reaction of a semilinear law


def reaction_charts(data: ReportData) -> list[Chart]:
    """A curve for each field, with the others at their medians, and the phase plane of two."""
    dynamics = cast("Reacting", data.law.dynamics)
    if not isinstance(data.law.domain, Fields):
        if all(any(any(p[1:]) for p in g) for g in dynamics.reaction.polynomials):
            return []  # all terms have derivatives
        values = data.fields.values
        return [
            reaction_chart(data.law, values, data.quantity,
                           lambda u: term_values(dynamics.terms, {"u": u}))
        ]  # fmt: skip
    by_name = {one.label: one.fields.values.ravel() for one in data.each}
    middles = {name: float(np.nanmedian(v)) for name, v in by_name.items()}
    charts = []
    for one in data.each:

        def along(u: Array, name: str = one.label) -> Array:
            at = {n: u if n == name else np.full_like(u, m) for n, m in middles.items()}
            return term_values(dynamics.terms, at, name)

        chart = reaction_chart(data.law, one.fields.values, one.quantity, along)
        charts.append(chart.of_field(one.label))
    return [*charts, phase_plane_chart(dynamics, by_name)] if len(by_name) == 2 else charts


# ---------- Skill documents


def document_of(skill: Skill | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The plain form of a result, or `InputError`."""
    document = skill.to_dict() if isinstance(skill, Skill) else skill
    if document is None:
        return None
    if not isinstance(document, Mapping) or any(key not in document for key in SKILL_KEYS):
        expected = "what sl.skill returned, or its to_dict()"
        fix = "spdelaw skill data.nc --json > skill.json"
        raise InputError("skill", expected=expected, got=type(document).__name__, fix=fix)
    return dict(document)


@checked()
def read_skill(path: str | Path) -> dict[str, Any]:
    """The document that ``spdelaw skill --json`` printed into a file."""
    path = Path(path)
    with reading(path, "the JSON of a skill", f"spdelaw skill data.nc --json > {path.name}"):
        document = json.loads(read_regular(path))
    return document_of(document) or {}


# ---------- Variance over time and energy of the modes: the data against draws of the law
#
# Each draw has the paths, times, points, gaps and noise of the data, so data and draws go through
# the same estimator and no bias of it matters: a predictive check that also holds for a single
# path, irregular times and gaps.
#
# The energy of the modes is ``E[c c' | y] = m m' + P`` with the mean m and the covariance P of the
# smoother. It holds through any gaps; least squares on the points of a row does not, because few
# points tell modes apart badly.


#: Draws of the whole data set, and the largest number of paths of each.
DRAWS, PATHS = 60, 40
#: Largest numbers of times and of values of a path; large grids have fewer times.
MOMENT_TIMES, VALUES = 300, 100_000
#: Draws behind the mean of a law that has none in closed form.
MEAN_DRAWS = 1000
#: Number of times at which the energy of the modes is computed.
ENERGY_TIMES = 12
#: Multiplications that smoothing may take, which bounds the number of paths with many modes, and
#: the least number of paths.
MAX_SMOOTHING_COST, MIN_PATHS = 4e9, 2


class Compared(NamedTuple):
    """A statistic of the data and its quantiles (0.025, 0.5, 0.975) over draws."""

    at: Array
    data: Array
    low: Array
    middle: Array
    high: Array


def compare(data: ReportData) -> list[tuple[Compared | None, Compared]]:
    """Spread of each field over time (None without a common clock), and energy of its modes."""
    law, fields = data.law.without_preparation_and_mean, data.centred.fields
    most = int(np.clip(VALUES // len(data.centred.points), 2, MOMENT_TIMES))
    times = fields["time"].values[thinned(fields.sizes["time"], most)]
    spreads = [] if data.own_times else [_Spread(one, law, times) for one in data.each]
    cost = fields.sizes["time"] * law.dynamics.n_modes**3
    # A law that is not linear goes from step to step: a thousand times as slow.
    smoothed = MAX_SMOOTHING_COST / cost if isinstance(law.dynamics, Linear) else MIN_PATHS
    total, count = np.zeros((1 + DRAWS, law.n_modes)), 0
    for i in range(min(PATHS, fields.sizes["path"])):
        path = one_path("data", fields, i)
        path = path.isel(time=thinned(path.sizes["time"], most))
        draws = data.drawn(law, i, path["time"].values, DRAWS, 1000 * data.seed + i + 1)
        both = np.concatenate([path.values[None], np.where(np.isnan(path.values), np.nan, draws)])
        for spread in spreads:
            spread.add(both)
        if i < max(MIN_PATHS, int(smoothed)) and np.isfinite(path.values).any():
            squares = _squares(data, law, both, path)
            total, count = total + squares.sum(1), count + squares.shape[1]
    energies = total / count if count else np.full_like(total, np.nan)
    n = len(data.each)
    return [
        (
            _quantiles(times, spreads[f].result()) if spreads else None,
            _quantiles(np.arange(1, law.n_modes // n + 1), energies[:, f::n]),
        )
        for f in range(n)
    ]


class _Spread:
    """``1/|D| int Var X dx`` at each time; the mean square about the law's mean for one path."""

    def __init__(self, data: ReportData, law: Law, times: Array) -> None:
        self.indices = data.indices
        self.weights = spatial_weights(data.domain, data.points)
        self.single = data.fields.sizes["path"] < 2
        self.mean = _mean(law, times, data.centred.points)[:, self.indices] if self.single else 0.0
        shape = (1 + DRAWS, len(times), len(data.points))
        self.count, self.sum, self.squares = (np.zeros(s) for s in (shape[1:], shape, shape))

    def add(self, values: Array) -> None:
        """Add one path of the data and its draws, (1 + DRAWS, T, M), of all fields."""
        values = values[..., self.indices]
        observed = ~np.isnan(values)
        values = np.where(observed, values - self.mean, 0.0)
        self.count += observed[0]
        self.sum += values
        self.squares += values**2

    def result(self) -> Array:
        """(1 + DRAWS, T), NaN where no point has enough observations."""
        n = self.count
        with np.errstate(invalid="ignore", divide="ignore"):
            about_sample_mean = (self.squares - self.sum**2 / n) / (n - 1)
            variance = self.squares / n if self.single else about_sample_mean
            w = np.where(n >= (1 if self.single else 2), self.weights, 0.0)
            # Scaled to the whole domain where some points are missing at a time.
            share = np.nansum(np.where(w > 0, variance * w, 0.0), axis=-1) / w.sum(-1)
        return np.where(w.sum(-1) > 0, share * self.weights.sum(), np.nan)


def _mean(law: Law, times: Array, points: Array) -> Array:
    """Mean of the law at times, (T, M): in closed form, or over draws where there is none."""
    places = law.domain.places(points)
    if isinstance(law.dynamics, Linear):
        return np.asarray(places.flatten(law.equation.mean(times, points).values))
    return np.asarray(places.flatten(law.sample(MEAN_DRAWS, times, points).values).mean(0))


def _squares(data: ReportData, law: Law, values: Array, path: xr.DataArray) -> Array:
    """``m_n^2 + P_nn`` of one path and its draws (1 + DRAWS, T, M), at some times."""
    fields = path.expand_dims(path=np.arange(len(values))).copy(data=values)
    alone = data.centred.holding(fields.transpose("path", "time", ...))
    observed = observed_for_law(law, alone).at_observed_points()
    basis, space = modes_at(law, observed.places), noisy_state_space(law, observed)
    states = np.eye(basis.shape[1])[: law.n_modes]
    smoothed = smooth_fields(
        observed.values, observed.times, basis, space, states, weights_of(law, observed)
    )
    n = smoothed.mean.shape[1]
    rows = n // 2 + thinned(n - n // 2, ENERGY_TIMES)  # the initial state has decayed by then
    return smoothed.mean[:, rows] ** 2 + smoothed.variance[:, rows]


def _quantiles(at: Array, values: Array) -> Compared:
    low, middle, high = np.quantile(values[1:], [0.025, 0.5, 0.975], axis=0)
    return Compared(at, values[0], low, middle, high)


def moments_charts(data: ReportData) -> list[Chart]:
    """Both statistics of each field, or the energy alone where paths have their own times."""
    charts = []
    for one, (over_time, energy) in zip(data.each, compare(data), strict=True):
        title = (
            "mean square about the law's mean" if one.fields.sizes["path"] < 2
            else "spatially averaged variance"
        )  # fmt: skip
        row = [
            Panel(_marks(energy, energy.at), "energy of each mode, E cₙ²", "mode n", log=True,
                  whole=True)
        ]  # fmt: skip
        if over_time is not None:
            when = one.time_labels(over_time.at)
            marks = _marks(over_time, when.positions)
            row.insert(0, Panel(marks, f"{title} over time", when.title, from_zero=True))
        charts.append(Chart("moments", (row,)).of_field(one.label))
    return charts


def _marks(compared: Compared, x: Any) -> list[Any]:
    dash, symbol = ("", "o") if len(x) < 60 else ("-", "")
    return [
        Band(x, compared.low, compared.high, "95 % of draws"),
        Line(x, compared.middle, "median of draws", "law", "--", width=1.5),
        Line(x, compared.data, "data", "data", dash, symbol, 1.6, 6),
    ]

"""Draws of the law beside the data: paths, variance over time, energy of the modes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.law.observations import (
    modes_at,
    noisy_state_space,
    observed_for_law,
    smooth_fields,
    weights_of,
)
from spdelaw.processes.linear import Linear
from spdelaw.report.data import ReportData
from spdelaw.report.figures.moments import spatial_weights
from spdelaw.report.maps import PAGE_WIDTH, Canvas
from spdelaw.report.plots import (
    Control,
    Figure,
    Section,
    axis,
    band,
    colour_bar,
    ground,
    image,
    layout,
    log_axis,
    packed,
    panel_title,
    scale,
    thinned,
)

# ---------- Statistics of the data and of draws with the same gaps and noise
#
# Each draw has the paths, times, points, gaps and noise of the data, so data and draws go through
# the same estimator and no bias of it matters: a predictive check that also holds for a single
# path, irregular times and gaps.
#
# The energy of the modes is ``E[c c' | y] = m m' + P`` with the mean m and the covariance P of the
# smoother. It holds through any gaps; least squares on the points of a row does not, because few
# points tell modes apart badly.


Array = np.ndarray

#: Draws of the whole data set, and the largest number of paths of each.
DRAWS, PATHS = 60, 40
#: Largest numbers of times and of values of a path; large grids have fewer times.
TIMES, VALUES = 300, 100_000
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


def compare(material: ReportData) -> list[tuple[Compared | None, Compared]]:
    """Spread of each field over time (None without a common clock), and energy of its modes."""
    fields, law = material.fields, material.law
    n_paths = min(PATHS, fields.sizes["path"])
    shared = not material.own_times
    most = int(np.clip(VALUES // len(material.points), 2, TIMES))
    times = fields["time"].values[thinned(fields.sizes["time"], most)]
    spreads, energy = (
        [_Spread(field_data, times) for field_data in material.each],
        _Energy(material),
    )
    for i in range(n_paths):
        path = material.path(i)
        path = path.isel(time=thinned(path.sizes["time"], most))
        values = path.values
        draws = material.drawn(i, path["time"].values, DRAWS, 1000 * material.seed + i + 1)
        both = np.concatenate([values[None], np.where(np.isnan(values), np.nan, draws)])
        if i < energy.most_paths:
            energy.add(both, path)
        for spread in spreads if shared else ():
            spread.add(both)
    energies, n, out = energy.result(), len(spreads), []
    for f, spread in enumerate(spreads):
        over_time = _quantiles(times, spread.result()) if shared else None
        modes = np.arange(1, law.n_modes // n + 1)
        out.append((over_time, _quantiles(modes, energies[:, f::n])))
    return out


class _Spread:
    """``1/|D| int Var X dx`` at each time; the mean square about the law's mean for one path."""

    def __init__(self, material: ReportData, times: Array) -> None:
        self._indices = getattr(material, "indices", slice(None))
        self._weights = spatial_weights(material.domain, material.points)
        single = material.fields.sizes["path"] < 2
        self._mean = material.mean(times, MEAN_DRAWS) if single else None
        shape = (1 + DRAWS, len(times), len(material.points))
        self._count, self._sum, self._squares = (
            np.zeros(shape[1:]),
            np.zeros(shape),
            np.zeros(shape),
        )

    def add(self, values: Array) -> None:
        """Add one path of the data and its draws, (1 + DRAWS, T, M), of all fields."""
        values = values[..., self._indices]
        observed = ~np.isnan(values)
        values = np.where(observed, values - (0.0 if self._mean is None else self._mean), 0.0)
        self._count += observed[0]
        self._sum += values
        self._squares += values**2

    def result(self) -> Array:
        """(1 + DRAWS, T), NaN where no point has enough observations."""
        n = self._count
        least = 1 if self._mean is not None else 2
        with np.errstate(invalid="ignore", divide="ignore"):
            if self._mean is not None:
                variance = self._squares / n
            else:
                variance = (self._squares - self._sum**2 / n) / (n - 1)
        w = np.where(n >= least, self._weights, 0.0)
        total = w.sum(-1)
        share = np.nansum(np.where(w > 0, variance * w, 0.0), axis=-1)
        # Scaled to the whole domain where some points are missing at a time.
        return np.where(
            total > 0, share / np.where(total > 0, total, 1.0) * self._weights.sum(), np.nan
        )


class _Energy:
    """``E c_n^2`` given the observations, over paths and some times: ``m_n^2 + P_nn``."""

    def __init__(self, material: ReportData) -> None:
        self._material = material
        self._total = np.zeros((1 + DRAWS, material.law.n_modes))
        self._count = 0
        dynamics = material.law.dynamics
        cost = material.fields.sizes["time"] * dynamics.n_modes**3
        # A law that is not linear goes from step to step: a thousand times as slow.
        many = MAX_SMOOTHING_COST / cost if isinstance(dynamics, Linear) else MIN_PATHS
        self.most_paths = max(MIN_PATHS, int(many))

    def add(self, values: Array, path: xr.DataArray) -> None:
        """Add one path of the data and its draws, (1 + DRAWS, T, M)."""
        if not np.isfinite(values[0]).any():
            return
        fields = path.expand_dims(path=np.arange(len(values))).copy(data=values)
        law = self._material.law
        observed = observed_for_law(law, self._material.alone(fields)).at_observed_points()
        basis, space = modes_at(law, observed.places), noisy_state_space(law, observed)
        states = np.eye(basis.shape[1])[: law.n_modes]
        smoothed = smooth_fields(
            observed.values, observed.times, basis, space, states, weights_of(law, observed)
        )
        n = smoothed.mean.shape[1]
        rows = n // 2 + thinned(n - n // 2, ENERGY_TIMES)  # the initial state has decayed by then
        self._total += (smoothed.mean[:, rows] ** 2 + smoothed.variance[:, rows]).sum(1)
        self._count += len(rows)

    def result(self) -> Array:
        """(1 + DRAWS, n_modes)."""
        return self._total / self._count if self._count else np.full_like(self._total, np.nan)


def _quantiles(at: Array, values: Array) -> Compared:
    low, middle, high = np.quantile(values[1:], [0.025, 0.5, 0.975], axis=0)
    return Compared(at, values[0], low, middle, high)


# ---------- Section: variance over time and energy of the modes


def moments_section(material: ReportData) -> Section:
    """Both statistics of each field, or the energy alone where paths have their own times."""
    lead = (
        f"Two statistics of the data and of {DRAWS} data sets drawn from the law with the same "
        "gaps and noise. About 95 % of the points should lie inside the band."
    )
    figures = tuple(
        field_data.named(_moments_figure(field_data, *statistics))
        for field_data, statistics in zip(material.each, compare(material), strict=True)
    )
    return Section("moments", "Variance and energy", lead, figures)


def _moments_figure(material: ReportData, over_time: Compared | None, energy: Compared) -> Figure:
    single = material.fields.sizes["path"] < 2
    title = "mean square about the law's mean" if single else "spatially averaged variance"
    right = (0.57, 1.0) if over_time is not None else (0.0, 1.0)
    titles = [panel_title("energy of each mode, E cₙ²", right[0])]
    traces: list[dict] = []
    axes: dict[str, dict] = {}
    if over_time is not None:
        when = material.time_labels(over_time.at)
        traces += _comparison_traces(over_time, when.positions, "")
        axes |= {
            "xaxis": axis(when.title, domain=[0.0, 0.44], **when.axis),
            "yaxis": axis(rangemode="tozero"),
        }
        titles.append(panel_title(f"{title} over time", 0.0))
    suffix = "2" if over_time is not None else ""
    traces += _comparison_traces(energy, energy.at.tolist(), suffix, legend=over_time is None)
    axes[f"xaxis{suffix}"] = axis("mode n", domain=list(right), anchor=f"y{suffix}")
    axes[f"yaxis{suffix}"] = log_axis(energy.data, anchor=f"x{suffix}")
    figure_layout = layout(**axes, annotations=titles, margin={"l": 64, "r": 24, "t": 70, "b": 52})
    figure_layout["legend"] |= {"y": 1.1}
    return Figure(
        "moments",
        f"{title.capitalize()} and energy of the modes: points are the data, the band holds 95 % "
        "of draws from the law.",
        traces,
        figure_layout,
        390,
    )


def _comparison_traces(compared: Compared, x: list, axes: str, legend: bool = True) -> list[dict]:
    where = {"xaxis": f"x{axes}", "yaxis": f"y{axes}", "type": "scatter"}
    edges = band(x, compared.low, compared.high, "@lawband", "95 % of draws", **where)
    edges[1]["showlegend"] = legend
    mode = "markers" if len(x) < 60 else "lines"
    return [
        *edges,
        {**where, "mode": "lines", "x": x, "y": packed(compared.middle), "name": "median of draws",
         "line": {"color": "@law", "width": 1.5, "dash": "dash"}, "showlegend": legend},
        {**where, "mode": mode, "x": x, "y": packed(np.asarray(compared.data)), "name": "data",
         "marker": {"color": "@data", "size": 6}, "line": {"color": "@data", "width": 1.6},
         "showlegend": legend},
    ]  # fmt: skip


# ---------- Maps of an observed path and a draw


#: Largest number of map times, of one pair of paths and of all pairs.
MAP_TIMES, ALL_TIMES = 24, 36
#: Pixels of a row beyond its maps, and the share of the width for maps.
ROW_MARGIN, MAP_WIDTH = 70, 0.94


def sample_maps(
    material: ReportData, canvas: Canvas, observed: list[xr.DataArray], drawn: list[Array]
) -> Figure:
    """Maps of paths (time, point) that share their times; land is empty in draws, too."""
    times = observed[0]["time"].values
    at = thinned(len(times), min(MAP_TIMES, max(ALL_TIMES // len(observed), 8)))
    when, start = material.time_labels(times[at]), len(at) // 2
    rows = {"data": [path.values[at] for path in observed], "draw": [path[at] for path in drawn]}
    arrays = {
        name: canvas.shown(np.where(material.ever_observed, np.stack(row), np.nan))
        for name, row in rows.items()
    }
    panels, inner, maps = _map_panels(canvas)
    colours = scale(arrays["data"].ravel())
    traces: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    binds, titles = [], []
    for k, (name, title) in enumerate((("data", "data"), ("draw", "draw from the law"))):
        suffix, (right, up) = "2" if k else "", panels[k]
        bar = {} if k else colour_bar("", MAP_WIDTH + 0.01, len=1.0)
        traces += canvas.draw(arrays[name][0, start], suffix, **colours, **bar)
        binds.append(canvas.bind(len(traces) - 1, name, ("pair", "time")))
        axes |= canvas.axes(suffix, right, up, first=right[0] == 0.0)
        titles.append(panel_title(title, right[0], up[1] + 3 / inner))
    labels = [f"path {path['path'].item()}, draw {i + 1}" for i, path in enumerate(observed)]
    caption = "An observed path and a draw from the law at the chosen time, on one colour scale."
    return Figure(
        "samples", f"{caption} {canvas.note}".strip(), traces,
        layout(**axes, annotations=titles, margin={"l": 64, "r": 24, "t": 30, "b": 20},
               shapes=[ground(s) for s in ("", "2")] if canvas.is_grid else []),
        inner + 50,
        controls=(Control("pair", labels, kind="select"), Control("time", when.texts, start)),
        binds=tuple(binds), arrays=arrays, maps=maps,
    )  # fmt: skip


def _map_panels(
    canvas: Canvas,
) -> tuple[list[tuple[list[float], list[float]]], int, tuple[tuple[int, int], ...]]:
    """Domains of both maps (right, up), height in pixels, and the pixel ranges of the maps."""
    if canvas.is_wide:
        high = canvas.height()
        rows = (high + 2 * ROW_MARGIN - 26, ROW_MARGIN - 26)
        inner = 2 * (high + ROW_MARGIN)
        places = [([0.0, MAP_WIDTH], [low / inner, (low + high) / inner]) for low in rows]
        return places, inner, tuple((low, low + high) for low in reversed(rows))
    high = canvas.height(PAGE_WIDTH // 2)
    inner, low = high + ROW_MARGIN, ROW_MARGIN - 26
    up = [low / inner, (low + high) / inner]
    half = MAP_WIDTH / 2
    return [([0.0, half - 0.03], up), ([half + 0.03, MAP_WIDTH], up)], inner, ((low, low + high),)


# ---------- Section: draws beside observed paths


#: Largest numbers of times and points of an image.
IMAGE_TIMES, POINTS = 200, 100


def samples_section(material: ReportData) -> Section:
    """Data above, draws below, on one colour scale."""
    lead = (
        "New paths drawn from the learned law with observation noise, at the times and points of "
        "the data. If the law is right, data and draws look alike."
    )
    figures = tuple(field_data.named(_samples_figure(field_data)) for field_data in material.each)
    return Section("samples", "Data and sample paths", lead, figures)


def _samples_figure(material: ReportData) -> Figure:
    """Images over time and space, or maps."""
    at = material.shown if material.canvas is None else material.together
    paths = [material.path(i) for i in at]
    drawn = [
        material.drawn(i, path["time"].values, 1, material.seed + 1 + i)[0]
        for i, path in zip(at, paths, strict=True)
    ]
    if material.canvas is None:
        return _image_rows(material, paths, drawn)
    return sample_maps(material, material.canvas, paths, drawn)


def _image_rows(material: ReportData, observed: list[xr.DataArray], drawn: list[Array]) -> Figure:
    n = len(observed)
    colours = scale(np.concatenate([p.values.ravel() for p in observed]))
    traces, axes, titles = [], {}, []
    width = (0.94 - 0.04 * (n - 1)) / n
    data = [path.values for path in observed]
    for row, (paths, y) in enumerate(((data, (0.57, 0.97)), (drawn, (0.0, 0.40)))):
        for column, path in enumerate(paths):
            number = row * n + column + 1
            suffix = "" if number == 1 else str(number)
            x0 = column * (width + 0.04)
            t, x = thinned(len(path), IMAGE_TIMES), thinned(path.shape[1], POINTS)
            when = material.time_labels(observed[column]["time"].values[t])
            bar = colour_bar("", 0.95, len=1.0) if number == 1 else {}
            traces.append(image(path[np.ix_(t, x)], when.positions, material.points[x],
                                suffix, **colours, **bar))  # fmt: skip
            axes[f"xaxis{suffix}"] = axis(when.title if row else "", domain=[x0, x0 + width],
                                          anchor=f"y{suffix}", nticks=4, showgrid=False,
                                          **when.axis)  # fmt: skip
            axes[f"yaxis{suffix}"] = axis("" if column else material.axes[0], domain=list(y),
                                          anchor=f"x{suffix}", showgrid=False,
                                          showticklabels=column == 0)  # fmt: skip
            text = f"draw {column + 1}" if row else f"data, path {observed[column]['path'].item()}"
            titles.append(panel_title(text, x0, y[1] + 0.005))
    suffixes = ["" if k == 0 else str(k + 1) for k in range(2 * n)]
    return Figure(
        "samples", "Observed paths (above) and draws from the law (below), on one colour scale.",
        traces, layout(**axes, annotations=titles, shapes=[ground(s) for s in suffixes],
                       margin={"l": 64, "r": 60, "t": 36, "b": 52}), 520,
    )  # fmt: skip

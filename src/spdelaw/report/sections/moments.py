"""Variance over time and energy of the modes: the data against draws of the law.

Each draw has the paths, times, points, gaps and noise of the data, so data and draws go through
the same estimator and no bias of it matters: a predictive check that also holds for a single path,
irregular times and gaps.

The energy of the modes is ``E[c c' | y] = m m' + P`` with the mean m and the covariance P of the
smoother. It holds through any gaps; least squares on the points of a row does not, because few
points tell modes apart badly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.law.law import Law
from spdelaw.law.observations import (
    modes_at,
    noisy_state_space,
    observed_for_law,
    smooth_fields,
    weights_of,
)
from spdelaw.processes.linear import Linear
from spdelaw.report.data import ReportData
from spdelaw.report.figures.charts import Band, Chart, Line, Panel, thinned
from spdelaw.report.figures.fields import one_path
from spdelaw.report.figures.moments import spatial_weights

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


def compare(data: ReportData) -> list[tuple[Compared | None, Compared]]:
    """Spread of each field over time (None without a common clock), and energy of its modes."""
    law, fields = data.law.without_preparation_and_mean, data.centred.fields
    most = int(np.clip(VALUES // len(data.centred.points), 2, TIMES))
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
        caption = (
            f"{title.capitalize()} and energy of the modes: points are the data, the band holds "
            "95 % of draws from the law."
        )
        charts.append(Chart("moments", caption, (row,)).of_field(one.label))
    return charts


def _marks(compared: Compared, x: Any) -> list[Any]:
    dash, symbol = ("", "o") if len(x) < 60 else ("-", "")
    return [
        Band(x, compared.low, compared.high, "95 % of draws"),
        Line(x, compared.middle, "median of draws", "law", "--", width=1.5),
        Line(x, compared.data, "data", "data", dash, symbol, 1.6, 6),
    ]

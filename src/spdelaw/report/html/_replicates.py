"""Statistics of the data beside those of draws from the law that are observed alike.

Each draw has the paths, times, points, gaps and noise of the data, so data and draws go through
the same estimator and no bias of it matters: a predictive check that also holds for a single
path, irregular times and gaps.

The energy of the modes is ``E[c c' | y] = m m' + P`` with the mean m and the covariance P of the
smoother. It holds through any gaps; least squares on the points of a row does not, because few
points tell modes apart badly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr

from spdelaw.equation import Linear
from spdelaw.law import modes_at, noisy_state_space, seen_by, smooth_fields, weights_of
from spdelaw.report._estimates import spatial_weights
from spdelaw.report.html._figure import thinned
from spdelaw.report.html._material import Material

Array = np.ndarray

#: Draws of the whole data set, and most paths of one.
DRAWS, PATHS = 60, 40
#: Most times of a path, and most values of it; large grids are seen at fewer times.
TIMES, VALUES = 300, 100_000
#: Draws behind the mean of a law that has none in closed form.
MEAN_DRAWS = 1000
#: Times at which the energy of the modes is taken.
ROWS = 12
#: Products of numbers that smoothing may cost, which bounds the number of paths with many modes,
#: and the fewest paths.
WORK, FEWEST = 4e9, 2


class Compared(NamedTuple):
    """A statistic of the data and its quantiles (0.025, 0.5, 0.975) over draws."""

    at: Array
    data: Array
    low: Array
    middle: Array
    high: Array


def compare(material: Material) -> list[tuple[Compared | None, Compared]]:
    """Spread of each field over time (None without a common clock), and energy of its modes."""
    fields, law = material.fields, material.law
    n_paths = min(PATHS, fields.sizes["path"])
    shared = not material.own_times
    most = int(np.clip(VALUES // len(material.points), 2, TIMES))
    times = fields["time"].values[thinned(fields.sizes["time"], most)]
    spreads, energy = [_Spread(own, times) for own in material.each], _Energy(material)
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
    found, n, out = energy.result(), len(spreads), []
    for f, spread in enumerate(spreads):
        over_time = _quantiles(times, spread.result()) if shared else None
        modes = np.arange(1, law.n_modes // n + 1)
        out.append((over_time, _quantiles(modes, found[:, f::n])))
    return out


class _Spread:
    """``1/|D| int Var X dx`` at each time; the mean square about the law's mean for one path."""

    def __init__(self, material: Material, times: Array) -> None:
        self._own = getattr(material, "own", slice(None))
        self._weights = spatial_weights(material.domain, material.points)
        single = material.fields.sizes["path"] < 2
        self._known = material.mean(times, MEAN_DRAWS) if single else None
        shape = (1 + DRAWS, len(times), len(material.points))
        self._count, self._sum, self._squares = (
            np.zeros(shape[1:]),
            np.zeros(shape),
            np.zeros(shape),
        )

    def add(self, values: Array) -> None:
        """Take in one path of the data and its draws, (1 + DRAWS, T, M), of all fields."""
        values = values[..., self._own]
        seen = ~np.isnan(values)
        values = np.where(seen, values - (0.0 if self._known is None else self._known), 0.0)
        self._count += seen[0]
        self._sum += values
        self._squares += values**2

    def result(self) -> Array:
        """(1 + DRAWS, T), NaN where no point was seen often enough."""
        n = self._count
        least = 1 if self._known is not None else 2
        with np.errstate(invalid="ignore", divide="ignore"):
            if self._known is not None:
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

    def __init__(self, material: Material) -> None:
        self._material = material
        self._total = np.zeros((1 + DRAWS, material.law.n_modes))
        self._count = 0
        dynamics = material.law.dynamics
        cost = material.fields.sizes["time"] * dynamics.n_modes**3
        # A law that is not linear goes from step to step: a thousand times as slow.
        many = WORK / cost if isinstance(dynamics, Linear) else FEWEST
        self.most_paths = max(FEWEST, int(many))

    def add(self, values: Array, path: xr.DataArray) -> None:
        """Take in one path of the data and its draws, (1 + DRAWS, T, M)."""
        if not np.isfinite(values[0]).any():
            return
        fields = path.expand_dims(path=np.arange(len(values))).copy(data=values)
        law = self._material.law
        own = seen_by(law, self._material.alone(fields)).at_seen_points()
        basis, space = modes_at(law, own.places), noisy_state_space(law, own)
        states = np.eye(basis.shape[1])[: law.n_modes]
        found = smooth_fields(own.values, own.times, basis, space, states, weights_of(law, own))
        n = found.mean.shape[1]
        rows = n // 2 + thinned(n - n // 2, ROWS)  # the initial state has decayed by then
        self._total += (found.mean[:, rows] ** 2 + found.variance[:, rows]).sum(1)
        self._count += len(rows)

    def result(self) -> Array:
        """(1 + DRAWS, n_modes)."""
        return self._total / self._count if self._count else np.full_like(self._total, np.nan)


def _quantiles(at: Array, values: Array) -> Compared:
    low, middle, high = np.quantile(values[1:], [0.025, 0.5, 0.975], axis=0)
    return Compared(at, values[0], low, middle, high)

"""What a law says about values it has not seen: mean, rest, and a deviation that holds.

    mean = law + rest,    variance = a s^2 + c k r(x),

with the deviation s of the law, the mean square r(x) of what it leaves over at each point, and the
share k of that which neighbours leave open (`spdelaw.evaluation._local_rest`). The factors a and c
are those under which held-out values are likeliest.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import scipy
import xarray as xr

from spdelaw.data import Observed
from spdelaw.evaluation._local_rest import Kernel, Values, choose_kernel, krige
from spdelaw.evaluation._shared_climate import Strength
from spdelaw.evaluation._shared_rest import WEIGHTS, conditional, shared_covariance
from spdelaw.law import Law

Array = np.ndarray

#: Values of one point that its own mean square counts as much as that of all points from.
SHRINK = 10.0
#: Least share of the rest's variance that other points can leave open.
SMALLEST = 1e-6
#: Held-out values below which the factors stay 1.
FEW = 30


class Grid(NamedTuple):
    """Where and when the values of a record are.

    Attributes:
        times: of each path, (P, T).
        points: in lengths that are alike, (M, d).
    """

    times: Array
    points: Array

    @property
    def spacing(self) -> tuple[float, float]:
        """Typical distance to the next point, and to the next time."""
        near = scipy.spatial.KDTree(self.points).query(self.points, k=min(2, len(self.points)))[0]
        space = float(np.median(near.reshape(len(self.points), -1)[:, -1])) or 1.0
        steps = np.diff(self.times, axis=1)
        return space, float(np.median(steps[steps > 0])) if (steps > 0).any() else 1.0


def in_space(points: Array, dims: tuple[str, ...]) -> Array:
    """Points (M, d) in lengths that are alike, those of a sphere in space."""
    table = np.reshape(points, (len(points), -1)).astype(float)
    if dims != ("lat", "lon"):
        return table
    lat, lon = np.radians(table).T
    return np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])


class Settings(NamedTuple):
    """What held-out values say beside the law: kernel or weight of the rest, climate, and a and c.

    ``covariance`` is that of a shared rest where it was learned from other paths already.
    """

    kernel: Kernel | None = None
    weight: float | None = None
    climate: Strength = Strength()
    covariance: Array | None = None
    of_state: float = 1.0
    of_rest: float = 1.0


class Moments(NamedTuple):
    """Mean and parts of the variance at all values, (P, T, M); ``rest`` is k r(x)."""

    mean: Array
    state: Array
    rest: Array

    def variance(self, settings: Settings) -> Array:
        """``a s^2 + c k r``."""
        return settings.of_state * self.state + settings.of_rest * self.rest


def law_moments(law: Law, own: Observed) -> Moments:
    """What the law alone says given the data."""
    found = law_fields(law, own)
    mean, std = found["mean"].values, found["std"].values
    rest = _left_over(own.fields.values - mean)
    return Moments(mean, std**2, np.broadcast_to(rest, mean.shape))


def law_fields(law: Law, own: Observed) -> xr.Dataset:
    """``mean`` and ``std`` of the law given the data, along their points; lazy where they are."""
    plain = law.with_info(labels={})
    if law.rest is None and not law.observation_variance.ndim:  # else it knows its points singly
        plain = dataclasses.replace(plain, points=own.points)  # unseen ones are asked for too
    return plain.reconstruct(own.flat)


def _left_over(rest: Array) -> Array:
    """Mean square of the rest at each point, drawn towards that of all points; (M,)."""
    count = np.isfinite(rest).sum((0, 1))
    square = np.nansum(rest**2, axis=(0, 1))
    overall = square.sum() / max(count.sum(), 1)
    return (square + SHRINK * overall) / (count + SHRINK)


def with_rest(
    moments: Moments, values: Array, grid: Grid, settings: Settings, wanted: Array | None = None
) -> Moments:
    """The same with what other values say about the rest, where values are missing.

    ``wanted`` says which of those are asked for, all by default; boolean (P, T, M).
    """
    gaps = np.isnan(values) & np.isfinite(moments.mean)
    gaps = gaps if wanted is None else gaps & wanted
    if settings.weight is not None:
        known = settings.covariance
        if known is None:
            known = shared_covariance(values - moments.mean, grid.points, settings.weight)
        return _with_shared_rest(moments, values, known, gaps)
    return _with_local_rest(moments, values, grid, settings.kernel, gaps)


def _with_shared_rest(moments: Moments, values: Array, covariance: Array, gaps: Array) -> Moments:
    """The same with what other points say at the same time."""
    found = conditional(values - moments.mean, covariance, np.asarray(gaps.any(-1)))
    mean, left = moments.mean.copy(), moments.rest.copy()
    mean[gaps] += found.mean[gaps]
    left[gaps] = np.maximum(found.variance, SMALLEST * moments.rest)[gaps]
    return moments._replace(mean=mean, rest=left)


def choose_weight(moments: Moments, values: Array, grid: Grid, truth: Array) -> float:
    """The weight of the learned covariance that predicts held-out values best."""

    def error(weight: float) -> float:
        found = with_rest(moments, values, grid, Settings(weight=weight), np.isfinite(truth)).mean
        return float(np.nanmean((found - truth) ** 2))

    return min(WEIGHTS, key=error)


def _with_local_rest(
    moments: Moments, values: Array, grid: Grid, kernel: Kernel | None, wanted: Array
) -> Moments:
    """The same with what close values say."""
    known = np.isfinite(values) & np.isfinite(moments.mean)
    if kernel is None or not wanted.any() or not known.any():
        return moments
    rest = (values - moments.mean)[known]
    at, asked = (Values.where(m, grid.times, grid.points) for m in (known, wanted))
    found, share = krige(rest, at, asked, kernel)
    mean, left = moments.mean.copy(), moments.rest.copy()
    mean[wanted] += found
    left[wanted] *= share
    return moments._replace(mean=mean, rest=left)


def kernel_for(
    moments: Moments, values: Array, grid: Grid, truth: Array, start: Kernel | None = None
) -> Kernel | None:
    """The kernel that predicts held-out values best; ``truth`` is NaN where none is held out."""
    known = np.isfinite(values) & np.isfinite(moments.mean)
    held = np.isfinite(truth) & np.isfinite(moments.mean)
    if not known.any() or held.sum() < FEW:
        return None
    at, asked = (Values.where(m, grid.times, grid.points) for m in (known, held))
    rest = values - moments.mean
    target = (truth - moments.mean)[held]
    return choose_kernel(rest[known], at, target, asked, grid.spacing, start)


def calibrated(moments: Moments, truth: Array, settings: Settings) -> Settings:
    """Factors a and c under which the held-out values are likeliest."""
    held = np.isfinite(truth) & np.isfinite(moments.mean)
    if held.sum() < FEW:
        return settings
    square = (truth - moments.mean)[held] ** 2
    state, rest = moments.state[held], moments.rest[held]

    def loss(logs: Array) -> float:
        variance = np.exp(logs[0]) * state + np.exp(logs[1]) * rest
        return float(np.mean(np.log(variance) + square / variance))

    start = np.log(max(square.mean() / max((state + rest).mean(), 1e-300), 1e-12))
    limits = [(start - 7.0, start + 7.0)] * 2
    found = scipy.optimize.minimize(loss, [start, start], bounds=limits, method="L-BFGS-B").x
    return settings._replace(of_state=float(np.exp(found[0])), of_rest=float(np.exp(found[1])))

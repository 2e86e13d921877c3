"""Residual with memory: one Ornstein-Uhlenbeck process per point.

    y_j(t) = (Phi c)_j(t) + z_j(t) + e_j(t),   dz_j = -a_j z_j dt + sqrt(2 a_j v_j) dB_j,

with e_j white of variance w_j. Given the observed residuals ``y - Phi c``, z is estimated by a
scalar Kalman filter and a backward smoother at each point, over times of any distance: from one
time to the next ``phi = exp(-a dt)`` and the variance goes to ``v + phi^2 (p - v)``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

Array = np.ndarray

#: Points that differ by less than this part of the largest coordinate are one.
SAME_POINT = 1e-5
#: Values of all paths that are smoothed together.
BATCH_VALUES = 4_000_000


class Residual(NamedTuple):
    """Parameters of the residual process at the points of the data.

    Attributes:
        decay: a, one per point, in one over the unit of time.
        variance: v, of the part with memory.
        white: w, of the part without, which is noise of single values.
    """

    decay: Array
    variance: Array
    white: Array

    def at(self, law_points: Array, points: Array) -> Residual:
        """The same at other points; without memory where the data had no point."""
        rows = same_points(law_points, points)
        there = rows < len(law_points)
        decay, variance, white = (np.append(values, np.mean(values))[rows] for values in self)
        # Without a memory that was learned there, the past carries no information.
        return Residual(np.where(there, decay, np.inf), variance, white)

    def in_words(self, unit: str = "") -> str:
        """Median e-folding time, and the share of the residual variance that has memory."""
        total = float(np.sum(self.variance + self.white))
        share = float(np.sum(self.variance)) / total if total > 0 else 0.0
        decay = float(np.median(self.decay))
        time = f"{1.0 / decay:.3g} {unit}".strip() if decay > 0 else "without end"
        return (
            f"memory per point: e-folding time {time} (median), {100 * share:.3g} % of its variance"
        )


def same_points(reference: Array, points: Array) -> Array:
    """Row of each point among the reference points; their number where it is none of them."""
    largest = np.abs(reference).max(0)
    unit = np.where(largest > 0, largest, 1.0)
    old, new = (np.reshape(np.asarray(p) / unit, (len(p), -1)) for p in (reference, points))
    return np.asarray(scipy.spatial.KDTree(old).query(new, distance_upper_bound=SAME_POINT)[1])


def smooth_residual(residuals: Array, times: Array, memory: Residual) -> list[Array]:
    """Mean and variance of z at every time and point, and the weight of a time's own value there.

    Each (P, T, M), as are the residuals, NaN where missing.
    """
    step = max(1, BATCH_VALUES // int(np.prod(residuals.shape[1:])))
    some = [slice(i, i + step) for i in range(0, len(residuals), step)]
    parts = [
        _smooth_batch(residuals[s], times if times.ndim == 1 else times[s], memory) for s in some
    ]
    return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]


def _smooth_batch(residuals: Array, times: Array, memory: Residual) -> tuple[Array, Array, Array]:
    phi = _propagators(times, memory.decay)
    v, w = memory.variance, memory.white
    mean, variance = np.empty_like(residuals), np.empty_like(residuals)
    m, p = np.zeros_like(residuals[:, 0]), np.zeros_like(residuals[:, 0]) + v
    for t in range(residuals.shape[1]):
        if t:
            m, p = phi[t - 1] * m, v + phi[t - 1] ** 2 * (p - v)
        mean[:, t], variance[:, t] = m, p = _scalar_update(m, p, residuals[:, t], w)
    for t in range(residuals.shape[1] - 2, -1, -1):
        ahead = v + phi[t] ** 2 * (variance[:, t] - v)
        gain = np.divide(variance[:, t] * phi[t], ahead, out=np.zeros_like(ahead), where=ahead > 0)
        mean[:, t] += gain * (mean[:, t + 1] - phi[t] * mean[:, t])
        variance[:, t] += gain**2 * (variance[:, t + 1] - ahead)
    observed_mask = ~np.isnan(residuals)
    # The posterior mean is ``P R^-1 y``: its slope in a value's own is p / w.
    slope = np.divide(
        variance, w, out=np.ones_like(variance), where=np.broadcast_to(w > 0, variance.shape)
    )
    return mean, np.maximum(variance, 0.0), np.where(observed_mask, slope, 0.0)


def _propagators(times: Array, decay: Array) -> Array:
    """``exp(-a dt)`` of each step; (T - 1, 1 or P, M)."""
    steps = np.diff(np.atleast_2d(times), axis=1).T[..., None]
    return np.exp(-np.where(np.isinf(decay), 0.0, decay) * steps) * ~np.isinf(decay)


def _scalar_update(m: Array, p: Array, value: Array, w: Array) -> tuple[Array, Array]:
    """Mean and variance after a value, as before where there is none."""
    total = p + w
    gain = np.divide(p, total, out=np.zeros_like(p), where=(total > 0) & ~np.isnan(value))
    return m + gain * np.where(np.isnan(value), 0.0, value - m), (1.0 - gain) * p


def draw_residual(
    residuals: Array, times: Array, memory: Residual, generator: np.random.Generator
) -> Array:
    """One joint draw of z per path given its residuals; (P, T, M).

    Conditioning by kriging: ``E(z | r) + z* - E(z | r*)`` with z* from the process and r* its
    residuals, observed where r is.
    """
    phi = _propagators(times, memory.decay)
    free = np.empty(residuals.shape)
    z = np.sqrt(memory.variance) * generator.standard_normal(residuals[:, 0].shape)
    for t in range(residuals.shape[1]):
        if t:
            fresh = np.sqrt(memory.variance * (1.0 - phi[t - 1] ** 2))
            z = phi[t - 1] * z + fresh * generator.standard_normal(z.shape)
        free[:, t] = z
    noisy = free + np.sqrt(memory.white) * generator.standard_normal(free.shape)
    mean, *_ = smooth_residual(
        residuals - np.where(np.isnan(residuals), np.nan, noisy), times, memory
    )
    return mean + free


def on_points(values: Array, other: float | Array, data_points: Array, points: Array) -> Array:
    """Values (P, T, M) of the data points at others; ``other`` where it is none of them."""
    if data_points is points:
        return values
    rows = same_points(data_points, points)
    there = rows < len(data_points)
    return np.where(there, values[..., np.where(there, rows, 0)], other)

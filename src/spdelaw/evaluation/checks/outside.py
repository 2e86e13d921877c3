"""Tests of what lies outside the modes: its size at each point, and in all.

In a row with the modes ``Phi`` at its n points, ``y - Phi c_hat = (1 - H) e`` with H the
projection on the modes, so that the square at point i has the mean ``r (1 - H_ii)``. Sums over
rows at one point, relative to their mean over points, follow F with as many degrees of freedom as
rows; the smallest p-value, times the number of points, is that of all together. Sums over all
points, relative to what the law says, have the mean 1: their error comes from paths or stretches
of time, as finer modes are alike at close points and times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.data.observed import Observed
from spdelaw.evaluation.checks.departures import TestResult
from spdelaw.evaluation.scores import ENOUGH_PATHS, units_of
from spdelaw.law.law import Law
from spdelaw.law.observations import modes_at, variance_floor, weights_of

Array = np.ndarray

#: Most rows that are tested, spread over the data, and fewest of them at a point.
MOST_ROWS, FEWEST_VALUES = 2000, 20
#: Fewest paths or stretches of time for an error of the mean square.
FEWEST_UNITS = 4


class OutsideSquares(NamedTuple):
    """Squares outside the modes relative to the law, and degrees of freedom, of some rows.

    Attributes:
        by_point: sums over rows, (2, M).
        by_unit: sums over the rows of each path or stretch of time, (2, U).
        in_time: whether units are stretches of time, which follow one another.
        n_rows: rows that were looked at.
        row_share: their share of all rows.
    """

    by_point: Array
    by_unit: Array
    in_time: bool
    n_rows: int
    row_share: float


def outside_squares(law: Law, observed: Observed, variance: Array | float) -> OutsideSquares:
    """Squares outside the modes in units of ``variance``, one number or one per point or value."""
    basis = modes_at(law, observed.places)
    shape, n_modes = observed.values.shape, basis.shape[1]
    n_rows, n_points = shape[0] * shape[1], shape[2]
    step = max(1, n_rows // MOST_ROWS)
    rows = np.asarray(observed.values.reshape(n_rows, n_points)[::step])
    scale = np.broadcast_to(np.sqrt(variance), shape).reshape(n_rows, n_points)[::step]
    units = units_of(*shape[:2]).ravel()[::step]
    by_point, by_unit = np.zeros((2, n_points)), np.zeros((2, int(units.max()) + 1))
    factors: dict[bytes, Array] = {}
    for row, std, unit_index in zip(rows, scale, units, strict=True):
        finite = np.isfinite(row)
        if finite.sum() <= n_modes:
            continue
        key = finite.tobytes() + (std.tobytes() if np.ndim(variance) == 3 else b"")
        if key not in factors:
            factors[key] = np.linalg.qr(basis[finite] / std[finite, None])[0]
        q, y = factors[key], row[finite] / std[finite]
        both = np.stack([(y - q @ (q.T @ y)) ** 2, 1.0 - (q**2).sum(1)])
        by_point[:, finite] += both
        by_unit[:, unit_index] += both.sum(1)
    in_time = shape[0] < ENOUGH_PATHS
    return OutsideSquares(by_point, by_unit, in_time, len(rows), len(rows) / n_rows)


def outside(law: Law, observed: Observed, n_series: int) -> list[TestResult]:
    """Tests of the size of what lies outside the modes; none where nothing does."""
    weights, floor = weights_of(law, observed), variance_floor(law, observed)
    stated = float(np.mean(law.observation_variance)) + law.unresolved_variance
    variance = np.asarray(max(stated, floor) if weights is None else 1.0 / weights)
    squares, nothing = outside_squares(law, observed, variance), np.full(n_series, np.nan)
    results = [_outside_size(law, squares, stated > floor, nothing)]
    # Unresolved modes are larger at some points than at others, and are no noise.
    noisy = law.observation_variance.ndim == 0 and float(law.observation_variance) > 0
    if noisy and law.unresolved_variance == 0 and weights is None:
        results.append(_point_noise(squares, nothing))
    return [result for result in results if np.isfinite(result.p)]


def _outside_size(
    law: Law, squares: OutsideSquares, has_variance: bool, nothing: Array
) -> TestResult:
    """Mean square relative to the law's; ``detail``: this ratio.

    The law may be off by the error of its own data, which are of another size.
    """
    square, freedom = squares.by_unit[:, squares.by_unit[1] > 0]
    n = len(square)
    if n < FEWEST_UNITS:
        return TestResult("outside the modes", nothing)
    ratio = square.sum() / freedom.sum()
    off = square - ratio * freedom
    spread = n / (n - 1) * float(off @ off)
    if squares.in_time and spread > 0:  # stretches that follow one another are alike
        r = np.clip(float(off[1:] @ off[:-1]) / float(off @ off), 0.0, 0.9)
        spread *= (1.0 + r) / (1.0 - r)
    relative = max(spread / max(square.sum(), 1e-300) ** 2, 2.0 / freedom.sum())
    n_train = max(law.info["n_paths"] * (law.info.get("n_times") or len(law.times)), 1)
    relative *= 1.0 + squares.n_rows / n_train
    z = np.log(max(ratio, 1e-300)) / np.sqrt(relative)
    p = float(scipy.special.stdtr(n - 1, -abs(z))) * 2.0
    if not has_variance and z < 0:  # fields that lie in the modes to rounding
        p = 1.0
    gain = 0.5 * freedom.sum() / squares.row_share * (ratio - 1.0 - np.log(max(ratio, 1e-300)))
    return TestResult("outside the modes", nothing, min(p, 1.0), float(gain), float(ratio), 1.0)


def _point_noise(squares: OutsideSquares, nothing: Array) -> TestResult:
    """Departure of the noise of single points from that of all; ``detail``: the largest ratio."""
    square, freedom = squares.by_point
    tested = freedom >= FEWEST_VALUES
    if tested.sum() < 2:
        return TestResult("point noise", nothing)
    square, freedom = square[tested], freedom[tested]
    f = square / freedom / (square.sum() / freedom.sum())
    tails = [g(freedom, freedom.sum(), f) for g in (scipy.special.fdtr, scipy.special.fdtrc)]
    p = min(1.0, 2.0 * float(np.min(tails)) * len(f))
    # Gain of one variance per point over one for all.
    gain = max(0.5 * float(freedom @ -np.log(f)) - 0.5 * len(f), 0.0)
    return TestResult("point noise", nothing, p, gain, float(f.max()), float(len(f)))

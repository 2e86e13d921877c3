"""Tests of what lies outside the modes: its size at each point, and in all.

In a row with the modes ``Phi`` at its n points, ``y - Phi c_hat = (1 - H) e`` with H the
projection on the modes, so that the square at point i has the mean ``r (1 - H_ii)``. Sums over
rows at one point, relative to their mean over points, follow F with as many degrees of freedom as
rows; the smallest p-value, times the number of points, is that of all together. Sums over all
points, relative to what the law says, have the mean 1: their error comes from paths or stretches
of time, as finer modes are correlated at close points and times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.data.clock import to_dates
from spdelaw.data.layout import ORIGINAL
from spdelaw.data.observed import Observed
from spdelaw.data.quality import bad_sensors
from spdelaw.domains.box import Box
from spdelaw.domains.interval import BOUNDARIES, Interval
from spdelaw.evaluation.checks.departures import Series, TestResult, normal_p
from spdelaw.evaluation.checks.errors import Errors
from spdelaw.evaluation.scores import ENOUGH_PATHS, units_of
from spdelaw.law.law import Law
from spdelaw.law.observations import modes_at, variance_floor, weights_of

Array = np.ndarray

#: Most rows that are tested, spread over the data, and fewest of them at a point.
MOST_ROWS, FEWEST_VALUES = 2000, 20
#: Least share of the variance of a value outside the modes, where it is looked at alone, and
#: least variance of a point, relative to the mean, in a gain.
LEAST_FREEDOM, LEAST_NOISE = 0.05, 0.01
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
        by_row: sums over the points of each row, (row,).
        values: what lies outside, of equal variance at a point under the law, (row, M).
    """

    by_point: Array
    by_unit: Array
    in_time: bool
    n_rows: int
    row_share: float
    by_row: Array
    values: Array


def outside_squares(basis: Array, observed: Observed, variance: Array | float) -> OutsideSquares:
    """Squares outside modes (M, N) in units of ``variance``, one for all, points or values."""
    shape, n_modes = observed.values.shape, basis.shape[1]
    n_rows, n_points = shape[0] * shape[1], shape[2]
    step = max(1, n_rows // MOST_ROWS)
    rows = np.asarray(observed.values.reshape(n_rows, n_points)[::step])
    scale = np.broadcast_to(np.sqrt(variance), shape).reshape(n_rows, n_points)[::step]
    units = units_of(*shape[:2]).ravel()[::step]
    by_point, by_unit = np.zeros((2, n_points)), np.zeros((2, int(units.max()) + 1))
    factors: dict[bytes, Array] = {}
    values, by_row = np.full(rows.shape, np.nan), np.zeros(len(rows))
    for i, (row, std, unit_index) in enumerate(zip(rows, scale, units, strict=True)):
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
        by_row[i] = both[0].sum()
        values[i, finite] = (y - q @ (q.T @ y)) / np.sqrt(np.maximum(both[1], LEAST_FREEDOM))
    in_time = shape[0] < ENOUGH_PATHS
    return OutsideSquares(by_point, by_unit, in_time, len(rows), len(rows) / n_rows, by_row, values)


def outside(law: Law, observed: Observed, n_series: int) -> list[TestResult]:
    """Tests of the size of what lies outside the modes; none where nothing does."""
    weights, floor = weights_of(law, observed), variance_floor(law, observed)
    stated = float(np.mean(law.observation_variance)) + law.unresolved_variance
    variance = np.asarray(max(stated, floor) if weights is None else 1.0 / weights)
    squares = outside_squares(modes_at(law, observed.places), observed, variance)
    nothing = np.full(n_series, np.nan)
    results = [_outside_size(law, squares, stated > floor, nothing)]
    # Unresolved modes are larger at some points than at others, and are no noise.
    noisy = law.observation_variance.ndim == 0 and float(law.observation_variance) > 0
    if noisy and law.unresolved_variance == 0 and weights is None:
        results.append(_point_noise(squares, nothing, observed))
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
    if squares.in_time and spread > 0:  # successive blocks are correlated
        r = np.clip(float(off[1:] @ off[:-1]) / float(off @ off), 0.0, 0.9)
        spread *= (1.0 + r) / (1.0 - r)
    relative = max(spread / max(square.sum() ** 2, 1e-300), 2.0 / freedom.sum())
    n_train = max(law.info["n_paths"] * (law.info.get("n_times") or len(law.times)), 1)
    relative *= 1.0 + squares.n_rows / n_train
    z = np.log(max(ratio, 1e-300)) / np.sqrt(relative)
    p = float(scipy.special.stdtr(n - 1, -abs(z))) * 2.0
    if not has_variance and z < 0:  # fields that lie in the modes to rounding
        p = 1.0
    log = float(np.log(max(ratio, 1e-300)))
    # Of a law without any variance outside its modes only the logarithm has a meaning.
    gain = 0.5 * freedom.sum() / squares.row_share * (ratio - 1.0 - log if has_variance else log)
    return TestResult("outside the modes", nothing, min(p, 1.0), float(gain), float(ratio), 1.0)


def _point_noise(squares: OutsideSquares, nothing: Array, observed: Observed) -> TestResult:
    """Noise of single points against that of all; ``detail``: the largest ratio, ``place`` its."""
    square, freedom = squares.by_point
    freedom = freedom / _alike_rows(squares.values)
    tested = freedom >= FEWEST_VALUES
    if tested.sum() < 2:
        return TestResult("point noise", nothing)
    square, freedom = square[tested], freedom[tested]
    f = square / freedom / (square.sum() / freedom.sum())
    tails = [g(freedom, freedom.sum(), f) for g in (scipy.special.fdtr, scipy.special.fdtrc)]
    p = min(1.0, 2.0 * float(np.min(tails)) * len(f))
    # Gain of one variance per point over one for all.
    gain = max(0.5 * float(freedom @ -np.log(np.maximum(f, LEAST_NOISE))) - 0.5 * len(f), 0.0)
    where = point_label(observed, int(np.flatnonzero(tested)[f.argmax()]))
    place = ", ".join(f"{name} {value:.4g}" for name, value in where.items())
    return TestResult("point noise", nothing, p, gain, float(f.max()), float(len(f)), place)


def _alike_rows(values: Array) -> float:
    """How many rows count as one: with memory r, ``1 + 2 sum_k r^2k``."""
    pairs = np.nansum(values[1:] * values[:-1])
    r = np.clip(pairs / max(float(np.nansum(values**2)), 1e-300), -0.99, 0.99)
    return float((1.0 + r**2) / (1.0 - r**2))


# ---------- Sensors that contradict all others, and values that were rounded


def without_bad_sensors(law: Law, observed: Observed) -> tuple[TestResult, Observed]:
    """The test, and the data without such sensors; ``detail``: how many, ``place``: the first.

    Not where the noise of points or values differs by the law.
    """
    differs = law.observation_variance.ndim > 0 or weights_of(law, observed) is not None
    bad: dict[int, str] = {}
    if not (observed.is_lazy or differs):
        bad = bad_sensors(np.asarray(observed.values), modes_at(law, observed.places))
    if not bad:
        return TestResult("sensors", np.zeros(0)), observed
    m = next(iter(bad))
    labels = ", ".join(f"{name} {x:.5g}" for name, x in point_label(observed, m).items())
    keep = np.array([m not in bad for m in range(len(observed.points))])
    gain = float(np.isfinite(observed.values[..., ~keep]).sum())
    near = " & ".join(_is_near(name, x) for name, x in point_label(observed, m).items())
    place = f"{labels} {bad[m].split(' (')[0]}: data = data.where(~({near}))"
    result = TestResult("sensors", np.zeros(0), 0.0, gain, len(bad), len(bad), place)
    return result, observed.at_points(keep)


#: Values that are looked at, and the least share of the variance of steps that rounding is.
ROUNDED_VALUES, ROUNDED_SHARE = 20_000, 0.02


def rounding_of(observed: Observed) -> float:
    """The unit to which values were rounded, where that matters relative to their steps; else 0."""
    steps = np.diff(observed.values, axis=1)  # a mean may have been taken off the values
    steps = steps[np.isfinite(steps)][:ROUNDED_VALUES]
    sizes = np.unique(np.abs(steps))
    sizes = sizes[sizes > 1e-9 * np.max(sizes, initial=0.0)]
    if len(sizes) < 2:
        return 0.0
    unit = float(sizes[0])
    is_multiple = np.abs(steps / unit - np.round(steps / unit)).max() < 1e-3
    return unit if is_multiple and unit**2 / 12.0 > ROUNDED_SHARE * float(np.var(steps)) else 0.0


# ---------- Outliers: single values or rows that lie far out
#
# The largest of n errors of a series has ``e^2 / sum e^2`` of a beta distribution, so its p-value
# is ``n P(Beta(1/2, (n - 1)/2) > e^2 / sum e^2)`` at most. Those of the series, and of what lies
# outside the modes at each point, are joined by their smallest. Where it is small, all values that
# lie too far out for the median size are outliers.


#: Rate at which values are taken as outliers, and the largest share of rows: more are a tail.
OUTLIER_RATE, MOST_OUTLIERS, FEW_OUTLIERS = 1e-3, 0.01, 3
#: Rows that an outlier spoils.
OUTLIER_ROWS = 3
#: Share of the squares of a row from which on one value explains them.
MOST_OF_ROW = 0.8
#: Median of the size of a standard normal.
NORMAL_MEDIAN = 0.6744898
#: Size outside the modes, relative to the fields, that is rounding.
OUTSIDE_ROUNDING = 1e-9


def outliers(
    law: Law, errors: Errors, series: list[Series | None]
) -> tuple[TestResult, Array, Array]:
    """The test, the rows (path, time) with outliers, and the outliers (path, time, M).

    ``detail``: how many rows; ``place``: where to set the largest to NaN.
    """
    observed, n_series = errors.observed, len(series)
    shape, rounding = observed.values.shape, OUTSIDE_ROUNDING * _size(observed)
    far, p = np.zeros(shape[:2]), 1.0
    for one in (one for one in series if one is not None):
        smallest, size = _far_out(one.e[:, None])
        p = min(p, n_series * smallest)
        far[one.at] = np.maximum(far[one.at], size[:, 0])
    in_modes = _is_outlier(far, far.size * n_series)
    in_modes[:, 1:] &= ~in_modes[:, :-1]  # the step back from an outlier is none
    outside_far, alone = np.zeros(shape), np.zeros(shape, bool)
    squares = outside_squares(modes_at(law, observed.places), observed, 1.0)
    if np.nanstd(squares.values) > rounding:
        smallest, size = _far_out(squares.values, rounding)
        rows_of = (slice(None, None, max(1, shape[0] * shape[1] // MOST_ROWS)), slice(None))
        p = min(p, shape[2] * smallest)
        outside_far.reshape(-1, shape[2])[rows_of] = size
        # One value spreads over its row; without it nothing is left there.
        most = squares.values**2 > MOST_OF_ROW * squares.by_row[:, None]
        alone.reshape(-1, shape[2])[rows_of] = most
    wrong = _is_outlier(outside_far, outside_far.size)
    single = wrong & alone & (outside_far == outside_far.max(-1, keepdims=True))
    rows = in_modes | wrong.any(-1)
    nothing, n_rows = np.full(n_series, np.nan), int(rows.sum())
    many = n_rows > max(MOST_OUTLIERS * rows.size, FEW_OUTLIERS)
    if not 2.0 * p < OUTLIER_RATE or many or _has_tail(series, rows):
        return TestResult("outliers", nothing), np.zeros_like(rows), np.zeros_like(single)
    path, time = np.unravel_index(np.argmax(np.maximum(far, outside_far.max(-1)) * rows), far.shape)
    point = int(single[path, time].argmax()) if single[path, time].any() else None
    wrong = np.where(single.any(-1, keepdims=True), single, rows[..., None])
    excess = float((np.maximum(far, outside_far.max(-1))[rows] ** 2).sum())
    gain = 0.5 * far.size * float(np.log1p(excess / far.size))
    place = _label(observed, int(path), int(time), point)
    result = TestResult("outliers", nothing, min(1.0, 2.0 * p), gain, n_rows, n_rows, place)
    return result, rows, wrong


def _size(observed: Observed) -> float:
    return float(np.sqrt(np.nanmean(observed.values**2)))


def _far_out(e: Array, floor: float = 1e-300) -> tuple[float, Array]:
    """Smallest p-value of the largest of each column (n, k), and sizes in units of the median's."""
    n, power = np.isfinite(e).sum(0), np.nansum(e**2, 0)
    tested = (n >= FEWEST_VALUES) & (power > 0)
    size = np.nan_to_num(np.abs(e))
    if not tested.any():
        return 1.0, 0.0 * size
    share = size[:, tested].max(0) ** 2 / power[tested]
    tail = scipy.special.betainc(0.5 * (n[tested] - 1), 0.5, np.clip(1.0 - share, 0.0, 1.0))
    middle = np.nanmedian(np.abs(np.where(tested, e, np.nan)[:, tested])) / NORMAL_MEDIAN
    return float((n[tested] * tail).min()), size * tested / max(middle, floor)


def _has_tail(series: list[Series | None], rows: Array) -> bool:
    """Whether the errors of other rows are not normal either."""
    others = [one.e[~spoilt_by(rows)[one.at]] for one in series if one is not None]
    p = [normal_p(e / np.sqrt(np.mean(e**2))) for e in others if len(e) >= FEWEST_VALUES]
    return len(p) * min(p, default=1.0) < OUTLIER_RATE


def spoilt_by(rows: Array) -> Array:
    """Rows with outliers and those after them, whose steps start from a wrong state; (P, T)."""
    spoilt = rows.copy()
    for later in range(1, OUTLIER_ROWS):
        spoilt[:, later:] |= rows[:, :-later]
    return spoilt


def _is_outlier(size: Array, n: int) -> Array:
    return np.asarray(2.0 * n * scipy.special.ndtr(-size) < OUTLIER_RATE)


def _label(observed: Observed, path: int, time: int, point: int | None) -> str:
    """``path 4, time 1.5, x 0.59: data[3] = data[3].where(~(...))``."""
    moment = float(np.broadcast_to(observed.times, observed.values.shape[:2])[path, time])
    date, where = time_text(observed, moment), point_label(observed, point)
    at = _is_near("time", moment)
    at = f"(data.time == np.datetime64('{date}'))" if is_dated(observed) else at
    conditions = [at, *(_is_near(name, x) for name, x in where.items())]
    one = f"data[{path}]" if observed.n_paths > 1 else "data"
    place = [f"path {path + 1}", f"time {date}", *(f"{k} {v:.4g}" for k, v in where.items())]
    return f"{', '.join(place)}: {one} = {one}.where(~({' & '.join(conditions)}))"


def _is_near(name: str, x: float) -> str:
    return f"(abs(data.{name} - {x:.9g}) < {1e-6 * max(abs(x), 1.0):.0e})"


def time_text(observed: Observed, time: float) -> str:
    """A time as the data have it, a number or a date."""
    if not is_dated(observed):
        return f"{time:.4g}"
    date = str(to_dates(np.array([time]), observed.fields["time"].attrs)[0])
    return date[:16].replace(" ", "T").removesuffix("T00:00")


def is_dated(observed: Observed) -> bool:
    """Whether times are dates."""
    return " since " in str(observed.fields["time"].attrs.get("units", ""))


def point_label(observed: Observed, point: int | None) -> dict[str, float]:
    """Coordinates of a point, by the names that the data have for them."""
    if point is None:
        return {}
    coords = observed.fields.isel({observed.fields.dims[-1]: point}).coords
    names = [name for name in observed.domain.dims if name in coords]
    return {str(coords[n].attrs.get(ORIGINAL, n)): float(coords[n]) for n in names}


# ---------- Domains whose modes leave less outside


#: Share of the squares outside the modes of the law that those of a better domain leave at most.
LESS = 0.98


def better_domain(law: Law, observed: Observed) -> tuple[Interval | Box, float, bool] | None:
    """The interval or box, with as many modes, that leaves least outside.

    With the nats gained there, and whether it leaves rounding alone.
    """
    if not isinstance(law.domain, Interval | Box):
        return None
    # The mean of the law lies in its modes, and has been taken off.
    centred = observed.values - np.nanmean(observed.values, (0, 1))
    observed, points = observed._replace(values=centred), observed.points
    size, left = float(np.nanmean(centred**2)), {}
    for domain in [law.domain, *_domains_like(law.domain, points)]:
        basis = domain.eigenfunctions(points, law.n_modes)
        squares = outside_squares(basis, observed, 1.0)
        square, freedom = squares.by_unit.sum(1)
        left[domain] = max(square / max(freedom, 1.0), OUTSIDE_ROUNDING**2 * size)
    best, rounding = min(left, key=lambda domain: left[domain]), OUTSIDE_ROUNDING * size
    ratio = left[best] / left[law.domain]
    if ratio > LESS or left[law.domain] <= rounding:
        return None
    gain = -0.5 * float(freedom) / squares.row_share * float(np.log(ratio))
    return best, gain, left[best] <= rounding


def _domains_like(domain: Interval | Box, points: Array) -> list[Interval | Box]:
    """With every boundary, between the ends of the domain and between those of the points."""
    columns = points.reshape(len(points), -1)
    low, high = columns.min(0), columns.max(0)
    cell = [float(np.median(np.diff(np.unique(x)))) for x in columns.T]
    given = [(domain.a, domain.b)] if isinstance(domain, Interval) else list(domain.sides)
    seen = [(float(a), float(b)) for a, b in zip(low, high, strict=True)]
    ring = [(a, b + h) for (a, b), h in zip(seen, cell, strict=True)]
    made = []
    for word in BOUNDARIES:
        for sides in (given, ring if word == "periodic" else seen):
            one = isinstance(domain, Interval)
            made.append(Interval(*sides[0], word) if one else Box(*sides, boundary=word))
    return made

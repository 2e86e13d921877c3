"""Whether values are plausible, and the same data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data.clock import unit_step
from spdelaw.data.layout import ORIGINAL, in_radians, is_latitude, is_longitude
from spdelaw.errors import DataError

# ---------- Range, infinities and checksums of all values, in one pass
#
# A block of values is read from memory once and stays in the processor's cache for every check.


Array = np.ndarray

#: Values of a run, which has a sum of its own, and of a block, which stays in the cache.
RUN_LENGTH, BLOCK_LENGTH = 2**14, 2**17


class ValueSummary(NamedTuple):
    """Range and checksums of values, from one pass over them.

    Attributes:
        low, high: least and largest finite value; infinite and the wrong way round without any.
        has_infinite: whether a value is infinite.
        sums: of each run of `RUN_LENGTH` values and of each position in a run, their bits taken for
            whole numbers modulo 2^64, and the bits of the remainder. Every NaN counts as the same.
    """

    low: float
    high: float
    has_infinite: bool
    sums: Array

    @property
    def is_data(self) -> bool:
        """Whether there is a number, and nothing that is neither a number nor missing."""
        return self.low <= self.high and not self.has_infinite


def read_values(pieces: Iterable[Array]) -> ValueSummary:
    """Read arrays that follow one another, as if they were one."""
    runs, places, remainder = list[Array](), np.zeros(RUN_LENGTH, np.uint64), np.zeros(0)
    extremes: list[tuple[float, float, bool]] = []
    for values in pieces:
        flat = np.ascontiguousarray(values, dtype="<f8").reshape(-1)
        flat = np.concatenate([remainder, flat]) if len(remainder) else flat
        whole = len(flat) // RUN_LENGTH * RUN_LENGTH
        for start in range(0, whole, BLOCK_LENGTH):
            ends, bits = _extremes_and_bits(flat[start : min(start + BLOCK_LENGTH, whole)])
            extremes.append(ends)
            table = bits.reshape(-1, RUN_LENGTH)
            runs.append(table.sum(1))
            places += table.sum(0)
        remainder = flat[whole:]
    ends, remainder_bits = _extremes_and_bits(remainder)
    low, high, infinite = zip(*extremes, ends, strict=True)
    return ValueSummary(
        min(low), max(high), any(infinite), np.concatenate([*runs, places, remainder_bits])
    )


def _extremes_and_bits(block: Array) -> tuple[tuple[float, float, bool], Array]:
    """Least and largest finite value, whether any is infinite, and the bits of all."""
    low, high = block.min(initial=np.inf), block.max(initial=-np.inf)
    infinite = False
    if block.size and not (np.isfinite(low) and np.isfinite(high)):
        missing = np.isnan(block)
        observed, block = block[~missing], np.where(missing, np.nan, block)
        finite = np.isfinite(observed)
        infinite = not finite.all()
        observed = observed[finite] if infinite else observed
        low, high = observed.min(initial=np.inf), observed.max(initial=-np.inf)
    return (float(low), float(high), infinite), block.view(np.uint64)


# ---------- Values and coordinates that look like a mistake, with the line that corrects them


#: Fill values that programs write for missing values, exact or as single precision.
FILLS = (
    1e20, 9.96920996838687e36, 1e30, 1e35, 1e36, 9.999e20, -1e34, -9999.0, -99999.0, -999.0,
    -99.99, -999.9, -9999.9, 99999.0, 9999.0, 999.9, -32768.0, -32767.0, 32767.0, -2147483647.0,
)  # fmt: skip
#: A fill lies farther from everything else than this many ranges of the others.
FILL_DISTANCE = 5.0
#: Mean of a field in its standard deviations above which it was hardly meant to be zero.
LARGE_MEAN = 3.0
#: Share of values on either side that may be rare, and ranges of the others between them from
#: which on one of these counts as an outlier.
RARE_SHARE, OUTLIER_RANGES = 0.005, 100.0
#: Deviations in time, relative to the mean, that are none.
STEADY_SHARE = 1e-12
#: Numbers in kelvin: what a mean of so much in units of K is.
KELVIN_RANGE = (150.0, 400.0)
#: Share of the variance in time from which a cycle is reported, and the length of a year in days.
CYCLE_SHARE, YEAR_DAYS = 0.3, 365.2425
#: Points, and values in all, that are read for means and cycles.
SOME_POINTS, SOME_VALUES = 500, 500_000
#: Values that are sampled for the range of most of them.
FEW_VALUES = 20_000


def check_plausible(fields: xr.DataArray, reading: ValueSummary | None = None) -> None:
    """Refuse undeclared fills among the values: a law would describe nothing else.

    ``reading`` is of the fields, where they were read before.
    """
    if reading is not None and not any(map(_matching_fills, reading[:2])):
        return
    for value, count in suspect_fills(np.asarray(fields.values)):
        got = (
            f"{count} times {value:g}, far from all others: a fill value that the file does not "
            "declare"
        )
        fix = f"pass --missing {value:g}, or in Python data.where(data != {value!r})"
        raise DataError("values", expected="numbers, and NaN where there is none", got=got, fix=fix)


def suspect_fills(values: np.ndarray) -> list[tuple[float, int]]:
    """Fills among the values, with how many there are."""
    if values.size and not any(map(_matching_fills, ends(values))):
        return []
    finite = values[np.isfinite(values)]
    if finite.size < 2:
        return []
    fills = []
    for end in (finite.min(), finite.max()):
        near = _matching_fills(end)
        others = finite[~np.isclose(finite, end, rtol=1e-6, atol=0.0)]
        if not near or not others.size:
            continue
        gap = np.abs(others - end).min()
        if gap > FILL_DISTANCE * max(np.ptp(others), np.abs(others).max() * 1e-3):
            fills.append((float(near[0]), int(finite.size - others.size)))
    return fills


def _matching_fills(end: float) -> list[float]:
    return [f for f in FILLS if abs(end - f) <= 1e-6 * abs(f)]


def ends(values: np.ndarray) -> tuple[float, float]:
    """Least and largest finite value; NaN without any."""
    low, high = (float(f.reduce(values, axis=None)) for f in (np.fmin, np.fmax))
    if np.isinf(low) or np.isinf(high):
        finite = values[np.isfinite(values)]
        return float(finite.min(initial=np.inf)), float(finite.max(initial=-np.inf))
    return low, high


def hints(
    fields: xr.DataArray,
    prepared: bool = False,
    has_mean: bool = False,
    reading: ValueSummary | None = None,
) -> list[str]:
    """Sentences about what looks unintended in canonical fields.

    Args:
        fields: in memory.
        prepared: whether means were taken off already.
        has_mean: whether the law has a mean of its own.
        reading: of the fields, where they were read before.
    """
    still = [] if prepared else _constant(fields)
    about_means = [] if prepared or still else _climate_hints(fields, has_mean)
    checks = _outliers(fields, reading), _radians(fields), _same_meridian(fields)
    return [*still, *about_means, *(note for notes in checks for note in notes)]


def advised_anomalies(fields: xr.DataArray) -> tuple[str, str] | None:
    """Climatology to subtract from canonical fields in memory, and why; None for none.

    The cycles of the year and of the day where they are strong, else the mean at each point where
    it is large relative to the deviations from it in time.
    """
    if _constant(fields):
        return None
    if cycles := _cycles(fields):
        words = "+".join(word for word, _, _ in cycles).replace("dayofyear+hour", "month+hour")
        return words, " and ".join(_share_in_words(*cycle) for cycle in cycles)
    reason = _large_mean(fields)
    return ("lead" if _is_hindcast(fields) else "mean", reason) if reason else None


def _climate_hints(fields: xr.DataArray, has_mean: bool) -> list[str]:
    """What to subtract where `advised_anomalies` was not followed."""
    advised = None if has_mean and not _cycles(fields) else advised_anomalies(fields)
    if advised is None:
        return []
    word, reason = advised
    return [
        f"{reason}: subtract it at each point with --anomalies {word}, in Python "
        f"prepare=sl.Preparation(anomalies={word!r})"
    ]


def _moments_in_time(fields: xr.DataArray) -> tuple[float, float, float]:
    """Mean of the values; root mean squares over points of the mean and of the deviations."""
    values = _sample_by_point(fields, slice(None, None, max(1, fields.size // SOME_VALUES)))
    observed = ~np.isnan(values)
    n = np.maximum(observed.sum(0), 1)
    mean = np.where(observed, values, 0.0).sum(0) / n
    spread = np.where(observed, values - mean, 0.0)
    weight = n / n.sum()
    square = np.einsum("ij,ij->j", spread, spread)
    return float(weight @ mean), float(np.sqrt(weight @ mean**2)), float(
        np.sqrt(weight @ (square / n))
    )  # fmt: skip


def _constant(fields: xr.DataArray) -> list[str]:
    """A field that does not change in time."""
    _, size, std = _moments_in_time(fields)
    if size == 0.0 or std > STEADY_SHARE * size:
        return []
    one = fields.sizes["path"] * fields.sizes["time"] == 1
    what = "there is one time" if one else f"the values stay as they are ({size:.4g})"
    return [f"{what}: a law describes changes in time, and needs values that change"]


def _large_mean(fields: xr.DataArray) -> str | None:
    """A mean over time that is large relative to the deviations from it, as text."""
    middle, size, std = _moments_in_time(fields)
    if size <= LARGE_MEAN * std:
        return None
    units = str(fields.attrs.get("units", ""))
    kelvin = units.lower() in ("k", "kelvin", "degk") or (
        not units and KELVIN_RANGE[0] < middle < KELVIN_RANGE[1]
    )
    shown = f"a mean of {middle:.4g}" + (", probably in kelvin," if kelvin else "")
    return f"the field has {shown} and deviations of {std:.3g} from it in time"


def _is_hindcast(fields: xr.DataArray) -> bool:
    """Whether times are leads of forecasts: they have a unit and no date, and there are paths."""
    unit = str(fields["time"].attrs.get("units", ""))
    return bool(unit) and " since " not in unit and fields.sizes["path"] > 1


def _outliers(fields: xr.DataArray, reading: ValueSummary | None) -> list[str]:
    """Few values that lie so far from all others that they would dominate a law."""
    values = np.asarray(fields.values)
    some = values.reshape(-1)[:: max(1, values.size // FEW_VALUES)]
    some = some[np.isfinite(some)]
    if not some.size:
        return []
    low, middle = np.quantile(some, [RARE_SHARE, 0.5], method="higher")
    high = np.quantile(some, 1.0 - RARE_SHARE, method="lower")
    least, most = ends(values) if reading is None else reading[:2]
    far = max(most, least, key=lambda end: abs(end - middle))
    if not abs(far - middle) > OUTLIER_RANGES * (high - low) > 0:
        return []
    n = int((np.abs(values - middle) > 0.5 * abs(far - middle)).sum())
    return [
        f"{n} of {values.size} values lie far from all others, such as {far:.4g} where most are "
        f"from {low:.4g} to {high:.4g}: they would dominate the fit; if they are errors, pass "
        f"--missing {far:.9g}, or in Python data.where(abs(data - {middle:.3g}) < ...)"
    ]


def _sample_by_point(fields: xr.DataArray, rows: slice = slice(None)) -> np.ndarray:
    """Values (paths and times, points), of not more than some points, of some rows."""
    lead = fields.sizes["path"] * fields.sizes["time"]
    values = np.asarray(fields.values).reshape(lead, -1)
    has_data = ~np.isnan(values[:1]).all(0)  # one row settles most points
    where = np.flatnonzero(has_data if has_data.all() else ~np.isnan(values).all(0))
    return values[rows][:, where[:: max(1, len(where) // SOME_POINTS)]]


def _cycles(fields: xr.DataArray) -> list[tuple[str, str, float]]:
    """Word, name and share of the variance of strong cycles, where there are dates."""
    clock = dict(fields["time"].attrs)
    if " since " not in str(clock.get("units", "")) or "path_time" in fields.coords:
        return []
    day = float(np.timedelta64(1, "D") / unit_step(str(clock["units"]).split(" since ")[0]))
    days = fields["time"].values / day
    step = float(np.median(np.diff(days))) if len(days) > 1 else np.inf
    values = _sample_by_point(fields).reshape(fields.sizes["path"], len(days), -1)
    cycles = []
    if np.ptp(days) >= 2 * YEAR_DAYS and step <= 62:
        word = "month" if step > 20 else "dayofyear"
        cycles.append((word, "year", _harmonic_share(days / YEAR_DAYS, values)))
    if np.ptp(days) >= 5 and step <= 0.25:
        cycles.append(("hour", "day", _harmonic_share(days, values)))
    return [(word, name, share) for word, name, share in cycles if share > CYCLE_SHARE]


def _share_in_words(_: str, name: str, share: float) -> str:
    return f"{100 * share:.0f} % of the variance in time is a cycle of the {name}"


def _harmonic_share(turns: np.ndarray, values: np.ndarray) -> float:
    """Part of the variance in time that two harmonics explain, over all points."""
    angle = 2 * np.pi * turns
    waves = np.stack([f(k * angle) for k in (1, 2) for f in (np.cos, np.sin)], axis=1)
    design = np.column_stack([np.ones(len(turns)), waves])
    mean = _mean_of_paths(values)
    complete = ~np.isnan(mean).any(1)
    if complete.sum() < 2 * design.shape[1]:
        return 0.0
    x = mean[complete]
    residual = x - design[complete] @ np.linalg.lstsq(design[complete], x, rcond=None)[0]
    total = float(((x - x.mean(0)) ** 2).sum())
    return 1.0 - float((residual**2).sum()) / total if total > 0 else 0.0


def _mean_of_paths(values: np.ndarray) -> np.ndarray:
    """Mean over paths at points that are mostly observed, gaps filled by the point's mean."""
    observed = ~np.isnan(values)
    mean = np.where(observed, values, 0.0).sum(0) / np.maximum(observed.sum(0), 1)
    has_mean = observed.any(0)
    kept = has_mean.mean(0) > 0.5
    mean, has_mean = mean[:, kept], has_mean[:, kept]
    filled = (mean * has_mean).sum(0) / np.maximum(has_mean.sum(0), 1)
    return np.where(has_mean, mean, filled)


def _radians(fields: xr.DataArray) -> list[str]:
    """Latitudes and longitudes that are in radians, where degrees are meant."""
    names = [str(n) for n in fields.coords if is_latitude(fields, str(n))]
    names += [str(n) for n in fields.coords if is_longitude(fields, str(n))]
    if len(names) != 2 or not in_radians(fields, *names):
        return []
    names = [str(fields[n].attrs.get(ORIGINAL, n)) for n in names]
    corrected = ", ".join(f"{n}=np.degrees(data.{n})" for n in names)
    return [
        f"{' and '.join(names)} look like radians, not degrees: data.assign_coords({corrected})"
    ]


def _same_meridian(fields: xr.DataArray) -> list[str]:
    for name in fields.dims:
        if name not in fields.coords or not is_longitude(fields, str(name)):
            continue
        x = np.sort(np.asarray(fields[name].values, float))
        if x.size > 2 and abs(x[-1] - x[0] - 360.0) < 1e-6:
            return [
                f"{name} {x[0]:g} and {x[-1]:g} are the same meridian, which counts twice: "
                f"--select {name}={x[0]:g}:{x[-2]:g}, in Python data.isel({name}=slice(-1)), "
                "keeps one of them"
            ]
    return []


# ---------- Sensors that contradict all others
#
# The residual ``e_m`` of least squares on the modes has the variance ``r (1 - h_m)`` at point m: r
# is that of the noise, h_m the leverage. So the mean of ``e_m^2 / (1 - h_m)`` is r at every sound
# sensor. The worst one is judged by the fit of all others: a bad sensor draws the modes to itself,
# and spreads its error over its neighbours.


#: Mean square of a bad sensor, relative to the third largest of all: two may be bad at once.
BAD_SENSOR_RATIO = 4.0
#: Points beyond the modes that a row needs, rows that a sensor needs, and rows that are enough.
SPARE_POINTS, FEWEST_ROWS, ENOUGH_ROWS = 4, 20, 300
#: Rows that are read, evenly from all.
MOST_ROWS = 16 * ENOUGH_ROWS
#: Largest share of the sensors that may be bad: more of them are what the data are like.
BAD_SHARE = 0.125
#: Mean square, relative to that of the values, that is rounding; the same of a mode's size.
ROUNDING_SQUARE, NO_MODE = 1e-20, 1e-6
#: Bytes of a table of products of modes.
PAIR_BYTES = 8e6
#: Median of the size of a standard normal.
NORMAL_MEDIAN = 0.6744898


def bad_sensors(values: Array, basis: Array) -> dict[int, str]:
    """Sensors that contradict all others, with the reason as text.

    Args:
        values: (..., M), NaN for missing; the last axis are the sensors.
        basis: modes at the sensors, (M, N).
    """
    n_points, n_modes = basis.shape
    every = values.reshape(-1, n_points)
    rows = every[:: -(-len(every) // MOST_ROWS)] if len(every) else every
    most = int(BAD_SHARE * n_points)
    stuck = _stuck_sensors(every, rows, basis)
    if not most or len(stuck) > most:
        return {}
    bad = {m: f"always reads {x:.9g} (--missing {x:.9g} drops it)" for m, x in stuck.items()}
    keep = np.array([m not in bad for m in range(n_points)])
    rows = rows[(~np.isnan(rows[:, keep])).sum(1) >= n_modes + SPARE_POINTS]
    rows = rows[:: -(-len(rows) // ENOUGH_ROWS)] if len(rows) else rows
    rounding = ROUNDING_SQUARE * float(np.nanmean(rows**2)) if rows.size else 0.0
    while len(rows) >= FEWEST_ROWS and len(bad) < most:
        square = _sizes(_standardised_residual(rows, basis, keep))[0]
        if np.isfinite(square).sum() < 0.5 * n_points:  # few sensors to compare with
            break
        worst = int(np.where(keep, np.nan_to_num(square), -1.0).argmax())
        keep[worst] = False
        residual = _standardised_residual(rows, basis, keep)
        sizes = _sizes(residual)
        usual = np.sort(sizes[:, keep & np.isfinite(sizes[0])])[:, -2]
        if not (sizes[:, worst] > np.maximum(BAD_SENSOR_RATIO * usual, rounding)).all():
            break
        size, mean = np.sqrt(sizes[0, worst]), float(np.nanmean(residual[:, worst]))
        what = "is off by" if abs(mean) > 0.5 * size else "errs by"
        about = mean if what == "is off by" else size
        bad[worst] = f"{what} {about:.3g} where others err by {np.sqrt(usual[0]):.2g}"
    return bad


def _stuck_sensors(every: Array, rows: Array, basis: Array) -> dict[int, float]:
    """Sensors that always read one value where the modes move, with that value.

    Some rows show which sensors may be stuck; all values of these are read.
    """
    size = np.linalg.norm(basis, axis=1)
    may_be = np.fmin.reduce(rows, axis=0) == np.fmax.reduce(rows, axis=0)
    stuck = {}
    for m in np.flatnonzero(may_be & (size > NO_MODE * size.max())):
        readings = every[~np.isnan(every[:, m]), m]
        if len(readings) >= FEWEST_ROWS and (readings == readings[0]).all():
            stuck[int(m)] = float(readings[0])
    return stuck


def _standardised_residual(rows: Array, basis: Array, keep: Array) -> Array:
    """Residual of least squares, of equal variance at sound sensors; NaN for missing; (R, M).

    Least squares uses the sensors in ``keep`` alone; ``y - c`` of another one has the variance
    ``r (1 + h)``.
    """
    n, used = basis.shape[1], ~np.isnan(rows) & keep
    packed = np.packbits(used, axis=1)
    _, first, which = np.unique(
        packed.view(f"V{packed.shape[1]}").reshape(-1), return_index=True, return_inverse=True
    )
    patterns, (i, j) = used[first].astype(float), np.tril_indices(n)
    gram, leverage = np.zeros((len(patterns), n, n)), np.empty(patterns.shape)
    step = max(1, int(PAIR_BYTES / (8 * len(i))))
    blocks = [slice(start, start + step) for start in range(0, len(basis), step)]
    for some in blocks:  # products of modes are a table that may be large
        gram[:, i, j] += patterns[:, some] @ (basis[some][:, i] * basis[some][:, j])
    gram[:, j, i] = gram[:, i, j]
    inverse = np.linalg.pinv(gram, hermitian=True)
    twice = np.where(i == j, 1.0, 2.0) * inverse[:, i, j]
    for some in blocks:
        leverage[:, some] = twice @ (basis[some][:, i] * basis[some][:, j]).T
    scale = np.where(keep, np.maximum(1.0 - leverage, 0.0), 1.0 + leverage)[which]
    projected = np.where(used, rows, 0.0) @ basis
    states = np.array([inverse[k] @ sums for k, sums in zip(which, projected, strict=True)])
    residual = rows - states.reshape(-1, n) @ basis.T
    residual[scale <= NO_MODE] = np.nan
    return residual / np.sqrt(np.maximum(scale, NO_MODE))


def _sizes(residual: Array) -> Array:
    """Mean square of each sensor, and its median as that of a normal variable; NaN of few; (2, M).

    One outlier makes the first large, and not the second.
    """
    count = (~np.isnan(residual)).sum(0)
    enough = np.where(count >= FEWEST_ROWS, count, np.nan)
    ordered = np.sort(residual**2, axis=0)  # NaN last
    middle = ordered[np.maximum(count - 1, 0) // 2, np.arange(residual.shape[1])]
    return np.stack([np.nansum(ordered, axis=0), enough * middle / NORMAL_MEDIAN**2]) / enough

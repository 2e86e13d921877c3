"""Tests of what changes in time: seasons, of known and of unknown length, and change points."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy

from spdelaw.evaluation.checks.departures import (
    Series,
    TestResult,
    normal_squares,
    regress_each,
    regress_squares,
    regression,
)

Array = np.ndarray

# ---------- Periods of dated records: the day and the year


#: Lengths of a day in the units that dates are counted in.
DAYS = {"weeks": 1 / 7, "days": 1.0, "hours": 24.0, "minutes": 1440.0, "seconds": 86400.0}
YEAR = 365.2425
#: Periods that a record must last, and fewest steps in one.
PERIODS_IN_RECORD, PERIOD_STEPS = 2.0, 4.0


class Period(NamedTuple):
    """A period of the calendar in the unit of the times."""

    name: str
    length: float


def periods_of(times: Array, clock: Mapping[str, Any]) -> list[Period]:
    """Periods that times with dates resolve, and last long enough for."""
    unit, _, since = str(clock.get("units", "")).partition(" since ")
    if not since or unit not in DAYS:
        return []
    step, span = float(np.median(np.diff(times, axis=-1))), float(np.ptp(times))
    both = (Period("of the day", DAYS[unit]), Period("of the year", YEAR * DAYS[unit]))
    return [
        p for p in both if span >= PERIODS_IN_RECORD * p.length and step * PERIOD_STEPS <= p.length
    ]


# ---------- Seasons of unknown length: the largest wave in the errors of records without dates
#
# At frequency f the errors of all series have ``chi^2 = sum b' G^-1 b`` with ``2 S`` degrees of
# freedom, b and G from ``cos 2 pi f t`` and ``sin 2 pi f t``. Memory lifts many frequencies, a
# season one: each is taken relative to the median around it. The smallest p-value counts as often
# as there are frequencies.


#: Fewest times, and most of them and of frequencies that are tried.
FEWEST_TIMES, MOST_TIMES, MOST_WAVES = 40, 4000, 250
#: Frequencies on each side that one is compared with.
NEAR = 20


def season(test: str, series: list[Series | None], times: Array, squares: bool) -> TestResult:
    """A wave in the errors, or in their squares; ``detail``: its period, in whole steps."""
    tested, nothing = [one for one in series if one is not None], np.full(len(series), np.nan)
    if times.ndim == 2 or len(times) < FEWEST_TIMES or not tested:
        return TestResult(test, nothing)
    times = times[:MOST_TIMES]
    sums = [_sums_by_time(one, len(times), squares) for one in tested]
    span = float(np.ptp(times)) * len(times) / (len(times) - 1)
    waves = np.arange(2.0, min(len(times) // 4, MOST_WAVES) + 0.5, 0.5)
    chi, freedom = _wave_power(waves / span, times, sums), 2 * len(tested)
    around = [np.median(chi[max(i - NEAR, 0) : i + NEAR + 1]) for i in range(len(chi))]
    level = np.maximum(np.array(around) / scipy.special.chdtri(freedom, 0.5), 1.0)
    best = int(np.argmax(chi / level))
    p = min(1.0, len(chi) * float(scipy.special.chdtrc(freedom, chi[best] / level[best])))
    fine = (waves[best] + np.linspace(-0.5, 0.5, 41)) / span
    length = 1.0 / float(fine[np.argmax(_wave_power(fine, times, sums))])
    step = span / len(times)
    length = step * round(length / step)
    gain = max(0.5 * (float(chi[best]) - freedom), 0.0)
    return TestResult(test, nothing, p, gain, length, freedom + 1)


def _sums_by_time(one: Series, n_times: int, squares: bool) -> tuple[Array, Array]:
    """Sums over paths of errors less their mean, and how many, (T,)."""
    e = np.zeros(one.at.shape)
    y = normal_squares(one.e) if squares else one.e
    e[one.at] = y - y.mean()
    return e.sum(0)[:n_times], one.at.sum(0)[:n_times].astype(float)


def _wave_power(frequencies: Array, times: Array, sums: list[tuple[Array, Array]]) -> Array:
    angle = 2.0 * np.pi * frequencies[:, None] * (times - times[0])
    waves, chi = np.stack([np.cos(angle), np.sin(angle)]), np.zeros(len(frequencies))
    for y, n in sums:
        pull = waves @ y
        (c, s), cross, mean = waves**2 @ n, (waves[0] * waves[1]) @ n, waves @ n
        c, s = c - mean[0] ** 2 / n.sum(), s - mean[1] ** 2 / n.sum()
        cross = cross - mean[0] * mean[1] / n.sum()
        square = s * pull[0] ** 2 + c * pull[1] ** 2 - 2.0 * cross * pull[0] * pull[1]
        chi += square / np.maximum(c * s - cross**2, 1e-3 * n.sum() ** 2 / 4.0)
    return chi


# ---------- Change points: another drift, or another noise, from some time on


#: Where a record may change, as shares of it: the best one counts as often as there are.
CUTS = np.linspace(0.1, 0.9, 9)


def changes(series: list[Series | None], state: Array, times: Array) -> list[TestResult]:
    """Errors on ``[t > cut] c_n``, and their squares on ``[t > cut]``; ``detail``: the cut."""
    cuts = np.quantile(times, CUTS)

    def drift(cut: float) -> TestResult:
        def after(n: int, one: Series) -> Array:
            return one.column((state[..., n] * (times > cut))[..., None])

        return regression("drift change", regress_each(series, after, robust=True))

    def noise(cut: float) -> TestResult:
        later = (times > cut)[..., None].astype(float)
        return regress_squares("noise change", series, lambda _, one: one.column(later))

    return [_best_cut(test, cuts) for test in (drift, noise)]


def _best_cut(test: Callable[[float], TestResult], cuts: Array) -> TestResult:
    best, cut = min(
        ((test(cut), cut) for cut in cuts), key=lambda pair: np.nan_to_num(pair[0].p, nan=2)
    )
    p = min(1.0, len(cuts) * best.p) if np.isfinite(best.p) else best.p
    nothing = np.full(len(best.p_series), np.nan)
    return dataclasses.replace(best, p_series=nothing, p=p, detail=float(cut))

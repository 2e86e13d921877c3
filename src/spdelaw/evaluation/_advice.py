"""From rejected tests to sentences: what is wrong, what to try, what it would gain.

A mean makes errors that remember, bend and couple, so most alarms come together. The advice with
the largest gain comes first, and tests that a remedy of another one explains are left out.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from spdelaw.evaluation._bands import Band
from spdelaw.evaluation._bends import bend_terms
from spdelaw.evaluation._departures import Departure, lag_one
from spdelaw.evaluation._periods import DAYS, YEAR
from spdelaw.evaluation._series import Series
from spdelaw.law import Law

#: Share of the squared correlations from which on one pattern explains them.
ONE_PATTERN = 0.3
#: Word of every sentence that names something to try.
REMEDY = "try"
#: Departures that have a remedy, or at least a name of their own.
CAUSES = (
    *("mean", "trend", "season", "noise season"),
    *("coupling", "correlation", "bend", "growth", "point noise", "observation noise"),
)


class Line(NamedTuple):
    """A sentence with the nats that it promises on new data."""

    gain: float
    text: str


def advise(
    law: Law,
    found: list[Departure],
    bands: list[Band],
    rejected: list[str],
    unit: str,
    series: list[Series | None],
) -> list[str]:
    """Sentences, the most useful first."""
    names = set(rejected)
    hit = [d for d in found if d.test in names or _modes(d, rejected, unit)]
    bends = any(d.test == "bend" for d in hit)  # a bent drift looks like uneven noise as well
    causes = [d for d in hit if d.test.startswith(CAUSES) and not (bends and d.test == "growth")]
    lines = [_line(law, d, rejected, unit) for d in causes]
    lines.sort(key=lambda line: (REMEDY in line.text, line.gain), reverse=True)
    others = [d for d in hit if not d.test.startswith(CAUSES)]
    lines += [_plain(law, d, rejected, unit, series, bool(lines)) for d in others]
    said = [str(band) for band in bands if str(band) in names]
    if said:
        text = f"bands do not hold what they say: {said[0]}"
        lines.append(Line(0.0, text if lines else f"{text}; {_distribution(law)}"))
    return [line.text for line in lines]


def _modes(departure: Departure, rejected: list[str], unit: str) -> list[int]:
    """Series that were rejected alone, from 1."""
    pattern = re.compile(rf"{unit} (\d+) {re.escape(departure.test)}$")
    return sorted(int(m.group(1)) for name in rejected if (m := pattern.match(name)))


def _where(departure: Departure, rejected: list[str], unit: str) -> str:
    modes = _modes(departure, rejected, unit)
    tested = int(np.isfinite(departure.p_series).sum())
    if not modes:
        return f"the {unit}s together"
    if len(modes) == 1:
        return f"{unit} {modes[0]}"
    return f"{len(modes)} of {tested} {unit}s"


def _line(law: Law, d: Departure, rejected: list[str], unit: str) -> Line:
    where, gain = _where(d, rejected, unit), f"gains about {_nats(d.gain)}"
    if d.test == "mean":
        text = f"a mean that is not zero in {where}: mean='constant' {gain}, try it"
    elif d.test == "trend":
        text = f"a trend in {where}: prepare=sl.Preparation(detrend=True) {gain}, try it"
    elif d.test.startswith("season"):
        word = "hour" if "day" in d.test else "month"
        text = (
            f"a {d.test} in the mean of {where}: prepare=sl.Preparation(anomalies='{word}') "
            f"{gain}, try it"
        )
    elif d.test.startswith("noise season"):
        unit = str(law.info.get("time", {}).get("units", "")).split(" since ")[0]
        length = DAYS[unit] * (1.0 if "day" in d.test else YEAR)  # it was tested by this clock
        text = (
            f"noise with a {d.test.removeprefix('noise ')} in {where}: "
            f"season=sl.Season({length:g}, 4) {gain}, try it"
        )
    else:
        text = _of_structure(law, d, where, gain)
    return Line(d.promise, text)


def _of_structure(law: Law, d: Departure, where: str, gain: str) -> str:
    if d.test == "coupling":
        return f"other modes drive {where}: drift='dense' {gain}, try it"
    if d.test == "correlation":
        word = "low_rank" if d.detail > ONE_PATTERN and law.n_modes > 3 else "dense"
        return f"the noise of {where} is correlated: noise='{word}' {gain}, try it"
    if d.test == "observation noise":
        if d.detail < 0:
            return f"errors of {where} go on from one time to the next: try more modes"
        return (
            f"errors of {where} turn back from one time to the next, as noise of observation "
            f"makes them: observation_noise='estimate' {gain}, try it"
        )
    if d.test == "point noise":
        return (
            f"some points are noisier, up to {np.sqrt(d.detail):.2g} times the mean: "
            f"observation_noise='per_point' {gain}, try it"
        )
    if d.test == "bend":
        term = bend_terms(law.domain, law.n_modes)[int(d.detail)]
        terms = ("u", term, "u^3") if term == "u^2" else ("u", term)
        return (
            f"the drift bends (terms such as {term} in it {gain.replace('gains', 'gain')}): no "
            f"linear law fits, try sl.discover(...) or terms={terms}"
        )
    return (
        f"the noise grows or shrinks with the state ({gain.replace('gains', 'worth')}): no law "
        "here has such noise; try a logarithm or a root of the data, which may make it even"
    )


def _plain(
    law: Law,
    d: Departure,
    rejected: list[str],
    unit: str,
    series: list[Series | None],
    explained: bool,
) -> Line:
    """Departures that name no cause: memory, normality, variance, decay."""
    where = _where(d, rejected, unit)
    texts = {
        "memory": f"memory left in {where}",
        "normality": f"errors of {where} are not normal",
        "variance": f"errors of {where} do not have the size that the law says",
        "decay": f"{where} decay at another rate than the law says",
    }
    text = texts[d.test]
    if explained:
        return Line(0.0, text)
    if d.test == "memory":
        noisy = not law.observation_variance.any() and lag_one(series) < 0
        word = "observation_noise='estimate'" if noisy else "more modes, or nuisance modes"
        return Line(d.gain, f"{text}, worth about {_nats(d.gain)}: try {word}")
    if d.test == "normality":
        return Line(d.gain, f"{text}: {_distribution(law)}")
    return Line(d.gain, f"{text}: are these data of the same process? Fit both together")


def _distribution(law: Law) -> str:
    return "no Gaussian noise makes them; look for outliers, jumps or a transformation of the data"


def _nats(gain: float) -> str:
    return f"{gain:,.0f} nats" if gain >= 10 else f"{gain:.2g} nats"

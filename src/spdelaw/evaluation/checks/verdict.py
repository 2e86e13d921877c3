"""Does the model fit, and what would fit better?"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data.observed import Observed
from spdelaw.evaluation.checks.departures import (
    DAYS,
    FEWEST,
    YEAR,
    Band,
    Series,
    TestResult,
    lag_one,
    nonlinear_terms,
)
from spdelaw.evaluation.checks.suite import is_training, suite_of
from spdelaw.law.law import Law
from spdelaw.law.lazy import in_parts
from spdelaw.law.observations import subtract_mean_and_forcing

# ---------- Advice from rejected tests: the cause, the remedy and its gain
#
# A mean makes errors with memory, curvature and coupling, so most alarms come together. The advice
# with the largest gain comes first, and tests that a remedy of another one explains are left out.


#: Share of the squared correlations from which on one pattern explains them.
ONE_PATTERN = 0.3
#: Word of every sentence that names something to try.
REMEDY = "try"
#: Departures that name a cause.
CAUSES = (
    *("mean", "trend", "season", "noise season"),
    *("coupling", "correlation", "bend", "growth", "point noise", "observation noise"),
    "outside the modes",
)


class Line(NamedTuple):
    """A sentence with the nats that it promises on new data."""

    gain: float
    text: str


def advise(
    law: Law,
    results: list[TestResult],
    bands: list[Band],
    rejected: list[str],
    unit: str,
    series: list[Series | None],
) -> list[str]:
    """Sentences, the most useful first."""
    names = set(rejected)
    hit = [d for d in results if d.test in names or _rejected_series(d, rejected, unit)]
    bends = any(d.test == "bend" for d in hit)  # a nonlinear drift looks like uneven noise as well
    causes = [d for d in hit if d.test.startswith(CAUSES) and not (bends and d.test == "growth")]
    lines = [_cause_line(law, d, rejected, unit) for d in causes]
    lines.sort(key=lambda line: (REMEDY in line.text, line.gain), reverse=True)
    others = [d for d in hit if not d.test.startswith(CAUSES)]
    lines += [_line_without_cause(law, d, rejected, unit, series, bool(lines)) for d in others]
    missed_bands = [str(band) for band in bands if str(band) in names]
    if missed_bands:
        text = f"bands do not hold what they say: {missed_bands[0]}"
        lines.append(Line(0.0, text if lines else f"{text}; {_distribution_text(law)}"))
    return [line.text for line in lines]


def _rejected_series(departure: TestResult, rejected: list[str], unit: str) -> list[int]:
    """Series that were rejected alone, from 1."""
    pattern = re.compile(rf"{unit} (\d+) {re.escape(departure.test)}$")
    return sorted(int(m.group(1)) for name in rejected if (m := pattern.match(name)))


def _series_text(departure: TestResult, rejected: list[str], unit: str) -> str:
    modes = _rejected_series(departure, rejected, unit)
    tested = int(np.isfinite(departure.p_series).sum())
    if not modes:
        return f"the {unit}s together"
    if len(modes) == 1:
        return f"{unit} {modes[0]}"
    return f"{len(modes)} of {tested} {unit}s"


def _cause_line(law: Law, d: TestResult, rejected: list[str], unit: str) -> Line:
    where, gain = _series_text(d, rejected, unit), f"gains about {_nats(d.gain)}"
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
        text = _structure_text(law, d, where, gain)
    return Line(d.expected_gain, text)


def _structure_text(law: Law, d: TestResult, where: str, gain: str) -> str:
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
    if d.test == "outside the modes":
        size = f"{np.sqrt(d.detail):.2g} times as large as the law says"
        more = " or more modes" if d.detail > 1 else ""
        return f"what lies outside the modes is {size}: try observation_noise='estimate'{more}"
    if d.test == "point noise":
        return (
            f"some points are noisier, up to {np.sqrt(d.detail):.2g} times the mean: "
            f"observation_noise='per_point' {gain}, try it"
        )
    if d.test == "bend":
        term = nonlinear_terms(law.domain, law.n_modes)[int(d.detail)]
        terms = ("u", term, "u^3") if term == "u^2" else ("u", term)
        return (
            f"the drift bends (terms such as {term} in it {gain.replace('gains', 'gain')}): no "
            f"linear law fits, try sl.discover(...) or terms={terms}"
        )
    return (
        f"the noise grows or shrinks with the state ({gain.replace('gains', 'worth')}): no law "
        "here has such noise; try a logarithm or a root of the data, which may make it even"
    )


def _line_without_cause(
    law: Law,
    d: TestResult,
    rejected: list[str],
    unit: str,
    series: list[Series | None],
    explained: bool,
) -> Line:
    """Departures that name no cause: memory, normality, variance, decay."""
    where = _series_text(d, rejected, unit)
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
        return Line(d.gain, f"{text}: {_distribution_text(law)}")
    return Line(d.gain, f"{text}: are these data of the same process? Fit both together")


def _distribution_text(law: Law) -> str:
    return "no Gaussian noise makes them; look for outliers, jumps or a transformation of the data"


def _nats(gain: float) -> str:
    return f"{gain:,.0f} nats" if gain >= 10 else f"{gain:.2g} nats"


# ---------- The verdict: all tests joined by Holm's method
#
# One-step errors of the data under the law should be independent standard normals, up to what the
# estimate of the law may be wrong by (`checks.errors`). Tests against the ways of being wrong and
# of the forecast bands (`checks.departures`) are joined by Holm's method: the chance of any
# false alarm stays below the stated rate, whatever the sizes of training and test data.


Array = np.ndarray

#: Joint false-alarm rate of all tests.
FALSE_ALARM = 0.01
#: Departures that the verdict names.
MOST_NAMED = 4


@dataclasses.dataclass(frozen=True)
class ModelCheck:
    """Tests of the innovations.

    Attributes:
        p_values: Dataset over ``series`` with one variable per test of single series.
        overall: p-values of tests of all series together, and of the forecast bands.
        rejected: "mode 3 memory", "mean" and the like, after Holm's correction.
        advice: what to try, the most useful first; empty where the model fits.
        innovations: (path, time, series), NaN where a row does not determine the modes.
        unit: what one series is, "mode" or "component".
    """

    p_values: xr.Dataset
    overall: dict[str, float]
    rejected: list[str]
    advice: list[str]
    innovations: Array
    unit: str

    @property
    def fits(self) -> bool:
        """Whether no test rejects."""
        return not self.rejected

    @property
    def is_checked(self) -> bool:
        """Whether there was anything to test."""
        return bool(self.p_values["variance"].notnull().any())

    @property
    def verdict(self) -> str:
        """One line for people."""
        rate = f"joint false-alarm rate {100 * FALSE_ALARM:g} %"
        if not self.is_checked:
            n = int(np.isfinite(self.innovations).any(-1).sum())
            few = f"{n} errors of single steps are too few, {FEWEST} are needed"
            why = few if n else "no row of the data determines all modes"
            return f"model not checked: {why}"
        if self.fits:
            return f"the model fits: no departure found in the innovations ({rate})"
        shown = ", ".join(self.rejected[:MOST_NAMED])
        more = len(self.rejected) - MOST_NAMED
        return f"the model does not fit: {shown}{f' and {more} more' * (more > 0)} ({rate})"


def check_model(
    law: Law, data: Any, whole: Law | None = None, on_training_data: bool | None = None
) -> ModelCheck:
    """Test the innovations of data under a law.

    Args:
        law: without preparation, for fields as ``law.prepared`` returns them.
        data: these, or `spdelaw.data.Observed` of them.
        whole: the same law with its preparation, where it has one.
        on_training_data: whether the law was learned from these data; by default, whether they are
            the same numbers.
    """
    observed = subtract_mean_and_forcing(law, data)
    observed = observed if in_parts(law, observed) else observed.in_memory()
    if on_training_data is None:
        on_training_data = is_training(law, observed.where_observed())
    return check_observed(law, observed, law if whole is None else whole, on_training_data)


def check_observed(law: Law, observed: Observed, whole: Law, on_training_data: bool) -> ModelCheck:
    """`check_model` of data that are prepared for the law, and read unless they are one record."""
    observed = observed.at_observed_points()
    suite = suite_of(law, observed.at_observed_times(), whole, on_training_data)
    results, bands = suite.run()
    unit = suite.errors.unit
    rejected = _holm(_named_p_values(results, bands, unit))
    series = np.arange(1, suite.errors.z.shape[-1] + 1)
    alone = {d.test: ("series", d.p_series) for d in results if np.isfinite(d.p_series).any()}
    nothing = {"variance": ("series", np.full(len(series), np.nan))}
    overall = {d.test: d.p for d in results if np.isfinite(d.p)}
    overall |= {str(band): band.p_value for band in bands}
    return ModelCheck(
        xr.Dataset(nothing | alone, coords={"series": series}),
        overall,
        rejected,
        advise(law, results, bands, rejected, unit, suite.series),
        _at_all_times(suite.errors.z, observed),
        unit,
    )


def _at_all_times(z: Array, observed: Observed) -> Array:
    """Innovations (path, time, series) at the times of the data, NaN where all is missing."""
    if observed.times.ndim == 2 or z.shape[1] >= len(observed.times):
        return z
    has_values = np.isin(observed.times, observed.at_observed_times().times)
    ahead = z.shape[1] - int(has_values.sum())  # a row where the law starts
    if ahead < 0:  # of a very long record some stretches alone are tested
        return z
    out = np.full((len(z), ahead + len(has_values), z.shape[2]), np.nan)
    out[:, np.append(np.ones(ahead, bool), has_values)] = z
    return out


def _named_p_values(
    results: list[TestResult], bands: list[Band], unit: str
) -> list[tuple[float, str]]:
    """Every p-value with the name of its test."""
    alone = [
        (float(p), f"{unit} {n} {d.test}") for d in results for n, p in enumerate(d.p_series, 1)
    ]
    together = [(d.p, d.test) for d in results]
    return [*alone, *together, *((band.p_value, str(band)) for band in bands)]


def _holm(named: list[tuple[float, str]]) -> list[str]:
    named = sorted(pair for pair in named if np.isfinite(pair[0]))
    rejected = []
    for rank, (p, name) in enumerate(named):
        if p > FALSE_ALARM / (len(named) - rank):
            break
        rejected.append(name)
    return rejected


def describe_check(check: ModelCheck) -> dict[str, Any]:
    """Plain description for JSON."""
    return {
        "fits": check.fits,
        "verdict": check.verdict,
        "advice": check.advice,
        "rejected": check.rejected,
        "false_alarm_rate": FALSE_ALARM,
        "p_values": {str(k): v.values.tolist() for k, v in check.p_values.items()},
        "overall": check.overall,
        "unit": check.unit,
    }

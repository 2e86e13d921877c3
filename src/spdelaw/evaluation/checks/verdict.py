"""Does the model fit, and what would fit better?"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import warnings
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data.observed import Observed
from spdelaw.domains.box import Box
from spdelaw.domains.fields import Fields
from spdelaw.domains.interval import Interval
from spdelaw.errors import SpdeLawError
from spdelaw.evaluation.checks.departures import FEWEST, TestResult, lag_one
from spdelaw.evaluation.checks.errors import modes_without_decay
from spdelaw.evaluation.checks.outside import (
    better_domain,
    is_dated,
    rounding_of,
    time_text,
    without_bad_sensors,
)
from spdelaw.evaluation.checks.over_time import DAYS, YEAR
from spdelaw.evaluation.checks.suite import Suite, is_training, suite_of
from spdelaw.infer.pipeline import fit
from spdelaw.law.law import Law
from spdelaw.law.observations import subtract_mean_and_forcing
from spdelaw.law.prediction import in_parts
from spdelaw.processes.linear import Linear
from spdelaw.processes.semilinear import Reacting
from spdelaw.processes.state_noise import STATE_NOISES

# ---------- Advice from rejected tests: the cause, the remedy and its gain
#
# A mean makes errors with memory, curvature and coupling, so most alarms come together. The advice
# with the largest gain comes first; of tests with the same cause only the one with the largest gain
# counts. A remedy is one line that can be typed, and an option that the law's own model has.


#: Share of the squared correlations from which on one pattern explains them.
ONE_PATTERN = 0.3
#: Word of every sentence that names something to try.
REMEDY = "try"
#: Departures that name a cause.
CAUSES = (
    *("outliers", "mean", "trend", "season", "noise season", "drift change", "noise change"),
    *("coupling", "correlation", "bend", "growth", "point noise", "observation noise"),
    *("outside the modes", "sensors", "offset"),
)
#: Tests whose remedy is part of that of another one, which then promises both gains.
PART_OF = {
    **{"mean": "trend", "outside the modes": "point noise"},
    **dict.fromkeys(("trend", "season", "drift change", "bend", "growth"), "offset"),
}
#: Tests that see the same thing: uneven noise or drift, a mean that moves, values far out.
SAME = (
    ("growth", "noise change", "drift change", "noise season", "bend"),
    ("trend", "season", "drift change"),
    ("outliers", "outside the modes", "point noise"),
)
#: Tests that the modes of another domain explain, where fewer squares lie outside these.
OF_THE_DOMAIN = ("outside the modes", "correlation", "coupling", "point noise", "bend", "growth")
#: Tests that noise which depends on the field explains, where a law with it is likelier.
OF_THE_NOISE = (
    *("growth", "correlation", "bend", "noise change", "drift change", "noise season"),
    *("outliers", "coupling", "decay"),
)
#: Times of all paths together to which a law with such noise is fitted.
RIVAL_TIMES = 600
#: Times x modes^2 behind gaps or noise up to which such laws are fitted: more take minutes.
MOST_FILTERED = 10_000
#: Nats that the offset of affine noise has to gain over noise in proportion to the field.
OFFSET_COST = 5.0
#: One cause of several alarms, in the order in which they are looked for: values with few digits,
#: modes of another domain, noise that depends on the field, a mode that grows under a law without
#: growth.
EXPLAINS = {
    (*OF_THE_DOMAIN, "observation noise", "noise change", "noise season"): "rounding",
    (*OF_THE_DOMAIN, "sensors"): "domain",
    OF_THE_NOISE: "state noise",
    ("bend", "growth", "observation noise", "drift change", "decay"): "growing mode",
}
#: Remedies that a law with terms refuses.
REFUSED_BESIDE_TERMS = ("drift=", "noise=", "mean=", "season=", "observation_noise='per_point'")


class Line(NamedTuple):
    """A sentence with the nats that it promises on new data."""

    gain: float
    text: str


def advise(
    suite: Suite, observed: Observed, results: list[TestResult], rejected: list[str]
) -> list[str]:
    """Sentences, the most useful first; ``observed`` still has bad sensors."""
    names, unit = set(rejected), suite.errors.unit
    hit = [d for d in results if d.test in names or _rejected_series(d, rejected, unit)]
    causes = [d for d in hit if d.test.startswith(CAUSES)]
    grows = modes_without_decay(suite.law)
    causes += [d for d in hit if d.test == "decay" and grows]
    causes = _explained(suite, suite.errors.observed if observed.is_lazy else observed, causes)
    lines = [_cause_line(suite, d, rejected) for d in _one_of_each(causes)]
    lines.sort(key=lambda line: (REMEDY in line.text, line.gain), reverse=True)
    others = [d for d in hit if not d.test.startswith(CAUSES) and not (d.test == "decay" and grows)]
    lines += [_line_without_cause(suite, d, rejected, bool(lines)) for d in others]
    return [line.text for line in lines]


def _explained(suite: Suite, observed: Observed, causes: list[TestResult]) -> list[TestResult]:
    """Causes with one that explains several in their place: rounding, a domain, a growing mode."""
    unit, law = rounding_of(observed) if causes else 0.0, suite.law
    for names, test in EXPLAINS.items():
        explained = [d for d in causes if d.test in names]
        if not explained:
            continue
        gain, place = max(d.gain for d in explained), ""
        if test == "rounding":
            place = f"{unit:.3g}" if unit else ""
        elif test == "domain":
            place, gain = _likelier_domain(suite, observed, gain)
        elif test == "state noise":
            if any(d.test == "growth" for d in explained):
                place, better_gain = better_state_noise(suite, observed, gain)
                gain = better_gain if place else gain
        elif max(explained, key=lambda d: d.gain).test not in ("bend", "growth"):
            place = _growing_modes(law)
        if place:
            others = [d for d in causes if d not in explained]
            return [*others, TestResult(test, np.zeros(0), 0.0, gain, unit, place=place)]
    return causes


def _growing_modes(law: Law) -> str:
    """``mode 1, mode 2`` of a law whose decays are at their bound of zero."""
    return ", ".join(f"mode {n + 1}" for n in modes_without_decay(law))


def _one_of_each(causes: list[TestResult]) -> list[TestResult]:
    """Causes without those that see the same thing as one with a larger gain."""
    kept: list[TestResult] = []
    gains, tests = {d.test: d.gain for d in causes}, {d.test for d in causes}
    parts = {d.test: [p for p in tests if PART_OF.get(p) == d.test] for d in causes}
    causes = [
        dataclasses.replace(d, gain=d.gain + sum(gains[p] for p in parts[d.test]))
        for d in causes
        if PART_OF.get(d.test) not in tests
    ]
    for d in sorted(causes, key=lambda d: d.expected_gain, reverse=True):
        groups = [group for group in SAME if d.test.startswith(group)]
        if not any(k.test.startswith(group) for group in groups for k in kept):
            kept.append(d)
    return kept


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


def _cause_line(suite: Suite, d: TestResult, rejected: list[str]) -> Line:
    cause, remedy = _cause(suite, d, _series_text(d, rejected, suite.errors.unit))
    is_refused = remedy.startswith(REFUSED_BESIDE_TERMS)
    if d.test == "rounding" and suite.law.observation_variance.any():
        text = f"{cause}: {REMEDY} values with more digits, as rounding errors are not Gaussian"
        return Line(d.expected_gain, text)
    if not isinstance(suite.law.dynamics, Linear) and is_refused:
        return Line(
            d.expected_gain,
            f"{cause}, worth about {_nats(d.gain)}; laws with terms do not support it",
        )
    return Line(d.expected_gain, f"{cause}: {remedy} gains about {_nats(d.gain)}, try it")


def _cause(suite: Suite, d: TestResult, where: str) -> tuple[str, str]:
    """What is wrong, and one line to type."""
    law, test = suite.law, d.test
    if test == "outliers":
        more = f" and {d.detail - 1:.0f} more" if d.detail > 1 else ""
        place, _, line = d.place.partition(": ")
        return f"an outlier at {place}{more}", line
    if test == "sensors":
        more = f", and {d.detail - 1:.0f} more sensors" if d.detail > 1 else ""
        place, _, line = d.place.partition(": ")
        linear = isinstance(law.dynamics, Linear)
        return f"the sensor at {place}{more}", "observation_noise='per_point'" if linear else line
    if test == "rounding":
        std = d.detail / np.sqrt(12.0)
        cause = f"the values are rounded to {d.place}, which is noise of standard deviation"
        return f"{cause} {std:.2g}", "observation_noise='estimate'"
    if test == "growing mode":
        cause = f"growth instead of decay in {d.place} (sl.discover finds all terms)"
        return cause, _terms_text(("u", "u^3"))
    if test == "offset":
        return (
            f"the terms act on values around {d.detail:.4g}",
            "prepare=sl.Preparation(anomalies='mean')",
        )
    if test == "state noise":
        return "the noise grows with the field", d.place
    if test == "domain":
        return "the fields lie in modes of another domain or boundary", d.place
    if test == "mean":
        return f"a mean that is not zero in {where}", "mean='constant'"
    if test == "trend":
        return f"a trend in {where}", "prepare=sl.Preparation(detrend=True)"
    if "season" in test:
        return _season_cause(suite, d, where)
    if test.endswith("change"):
        what = "drift" if test.startswith("drift") else "noise"
        observed = suite.errors.observed
        start, end = (time_text(observed, t) for t in (d.detail, float(np.max(observed.times))))
        line = f"data = data.sel(time=slice('{start}', '{end}'))"
        if not is_dated(observed):
            python = f"prepare=sl.Preparation(select={{'time': [{start}, {end}]}})"
            line = f"--select time={start}:{end}, in Python {python}"
        return f"the {what} changes at time {start}", line
    if test == "coupling":
        return f"other modes drive {where}", "drift='dense'"
    if test == "correlation":
        word = "low_rank" if d.detail > ONE_PATTERN and law.n_modes > 3 else "dense"
        return f"the noise of {where} is correlated", f"noise='{word}'"
    if test == "observation noise" and d.detail < 0:
        return f"errors of {where} are positively correlated in time", _more_modes(law)
    if test == "observation noise":
        cause = (
            f"errors of {where} are negatively correlated in time, as observation noise makes them"
        )
        return cause, "observation_noise='estimate'"
    if test == "outside the modes":
        cause = (
            f"the residual outside the modes is {np.sqrt(d.detail):.2g} times as large as in the "
            "law"
        )
        names = () if law.coordinates is None else law.coordinates["coordinate"].values
        estimated = "observation_std" in names and d.detail > 1
        return cause, _more_modes(law) if estimated else "observation_noise='estimate'"
    if test == "point noise":
        cause = f"some points are noisier, {d.place} {np.sqrt(d.detail):.2g} times the mean"
        return cause, "observation_noise='per_point'"
    if test == "bend":
        has = law.dynamics.terms if isinstance(law.dynamics, Reacting) else ("u",)
        has_room = d.place == "u^2" and "u^3" not in has  # a square alone is unstable
        terms = (*has, d.place, "u^3") if has_room else (*has, d.place)
        grows = _growing_modes(law)
        cause = f"growth instead of decay in {grows}, or " if grows else ""
        cause += f"the drift is nonlinear: it lacks a term {d.place} (sl.discover finds all)"
        return cause, _terms_text(terms)
    return "the noise grows or shrinks with the field", _transform(suite)


def _season_cause(suite: Suite, d: TestResult, where: str) -> tuple[str, str]:
    """Seasons of the mean or the noise, with a name of the calendar or a length."""
    name = d.test.removeprefix("noise ")
    unit = str(suite.clock.get("units", "")).split(" since ")[0]
    length = DAYS[unit] * (1.0 if "day" in name else YEAR) if " of " in name else d.detail
    cause = f"a {name} of length {length:.4g}" if name == "season" else f"a {name}"
    if d.test != name:
        return f"noise with {cause} in {where}", f"season=sl.Season({length:g}, 4)"
    if name != "season":
        word = "hour" if "day" in name else "month"
        return f"{cause} in the mean of {where}", f"prepare=sl.Preparation(anomalies='{word}')"
    step = suite.errors.observed.step
    phase = f"(data.time / {step:.6g}).round() % {max(2, round(length / step))}"
    dims = "('path', 'time')" if suite.errors.observed.n_paths > 1 else "'time'"
    line = f"data = data.groupby({phase}).map(lambda part: part - part.mean({dims}))"
    return f"{cause} in the mean of {where}", line


def _line_without_cause(suite: Suite, d: TestResult, rejected: list[str], explained: bool) -> Line:
    """Departures that name no cause: memory, normality, variance, decay."""
    law, where = suite.law, _series_text(d, rejected, suite.errors.unit)
    texts = {
        "memory": f"correlation in time remains in {where}",
        "normality": f"errors of {where} are not normal",
        "variance": f"errors of {where} differ in size from those of the law",
        "decay": f"{where} decay at another rate than in the law",
    }
    text = texts[d.test]
    if explained:
        return Line(0.0, text)
    if d.test == "memory":
        noisy = not law.observation_variance.any() and lag_one(suite.series) < 0
        remedy = "observation_noise='estimate'" if noisy else _more_modes(law)
        return Line(d.gain, f"{text}, worth about {_nats(d.gain)}: try {remedy}")
    if d.test == "normality":
        return Line(d.gain, f"{text}, which Gaussian noise cannot cause: try {_transform(suite)}")
    return Line(
        d.gain, (f"{text}: check whether both data sets have the same law, and fit them together")
    )


def _more_modes(law: Law) -> str:
    return f"n_modes={law.n_modes + max(2, law.n_modes // 2)}"


def _transform(suite: Suite) -> str:
    """``asinh(u / s)`` makes noise even whose deviation is ``sqrt(s^2 + u^2)``."""
    size = np.sqrt(np.nanmean(suite.errors.observed.values**2))
    return f"data = np.arcsinh(data / {size:.3g})"


def _first_times(observed: Observed) -> tuple[Observed, float]:
    """As many times of the first paths as rivals are fitted to, and their share of all."""
    n_times = observed.times.shape[-1]
    n_few, few_times = max(1, RIVAL_TIMES // n_times), min(n_times, RIVAL_TIMES)
    share = min(1.0, n_few / observed.n_paths) * few_times / n_times
    if share < 1.0:
        observed = observed.paths(slice(n_few)).at_times(slice(few_times))
    return observed, share


def _likelier_domain(suite: Suite, observed: Observed, rival_gain: float) -> tuple[str, float]:
    """Remedy by a domain whose gain is larger than that of all other causes, and the nats.

    Fields that lie in its modes to rounding need no proof. A law with observation noise is compared
    with one on the other domain by likelihood; without noise that is the density of coefficients,
    which differ between domains, and the gain that of what lies outside the modes.
    """
    law, dynamics, none = suite.law, suite.law.dynamics, ("", rival_gain)
    better = better_domain(law, observed)
    if better is None:
        return none
    domain, gain, is_exact = better
    if law.observation_variance.any() and not is_exact:
        observed, share = _first_times(observed)
        gain = -float(law.log_likelihood(observed).sum())
        if suite.mean is not None:
            mean = observed.basis(law.n_modes) @ suite.mean
            observed = observed._replace(values=observed.values + mean)
        words: dict[str, Any] = {"nuisance": 0}
        if isinstance(dynamics, Reacting):
            words = {"terms": dynamics.terms}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rival = fit(observed, domain, law.n_modes, observation_noise="estimate", **words)
                gain = (gain + float(rival.log_likelihood(observed).sum())) / share
        except SpdeLawError:
            return none
    return (_domain_text(domain), gain) if is_exact or gain > rival_gain else none


def better_state_noise(suite: Suite, observed: Observed, rival_gain: float) -> tuple[str, float]:
    """Remedy by noise under which the data are likelier by more than others gain, and the nats.

    An empty text where there is none, or where a law with such noise cannot be what this one is.
    A mean of the field becomes the term "1", towards which the field relaxes.
    """
    law, dynamics, best = suite.law, suite.law.dynamics, ("", rival_gain)
    is_linear = isinstance(dynamics, Linear) and dynamics.season is None
    is_reacting = isinstance(dynamics, Reacting) and dynamics.amplitude is None
    if not (is_linear or is_reacting) or isinstance(law.domain, Fields):
        return best
    observed, share = _first_times(observed)
    noise = law.observation_variance
    is_filtered = bool(noise.any() or np.isnan(observed.values).any())
    if is_filtered and observed.times.shape[-1] * law.n_modes**2 > MOST_FILTERED:
        return best
    total = float(law.log_likelihood(observed).sum())
    known = "none" if not noise.any() else float(np.sqrt(noise.mean()))
    words: dict[str, Any] = {"observation_noise": known, "mean": "zero"}
    if isinstance(dynamics, Reacting):
        words["terms"] = dynamics.terms
    elif suite.mean is not None and suite.mean.any():
        mean = observed.basis(law.n_modes) @ suite.mean
        observed, words["terms"] = observed._replace(values=observed.values + mean), ("1",)
    # Noise in proportion to a field that crosses zero would vanish there.
    crosses_zero = np.nanmin(observed.values) < 0.0
    kinds: tuple[str, ...] = ("none", "affine") if crosses_zero else STATE_NOISES
    for kind in kinds:
        more = words
        if kind == "none":  # fronts between two wells look like it: the rival has their terms
            more = words | {"terms": tuple(dict.fromkeys((*words.get("terms", ()), "u", "u^3")))}
        with warnings.catch_warnings(), contextlib.suppress(SpdeLawError):
            warnings.simplefilter("ignore")
            rival = fit(observed, law.domain, law.n_modes, state_noise=kind, **more)
            gain = (float(rival.log_likelihood(observed).sum()) - total) / share
            gain -= OFFSET_COST * (kind == "affine")
            text = _state_noise_text(kind, words) if kind != "none" else ""
            best = (text, gain) if gain > best[1] else best
    return best


def _state_noise_text(kind: str, words: dict[str, Any]) -> str:
    terms = words.get("terms", ())
    beside = (f" --terms {','.join(terms)}", f", terms={terms}") if terms else ("", "")
    return f"--state-noise {kind}{beside[0]}, in Python state_noise='{kind}'{beside[1]}"


def _terms_text(terms: tuple[str, ...]) -> str:
    return f"--terms {','.join(terms)}, in Python terms={terms}"


def _domain_text(domain: Interval | Box) -> str:
    if isinstance(domain, Interval):
        a, b, kind = domain.a, domain.b, domain.boundary  # all digits: every point lies inside
        shell = f"--domain interval --bounds {a} {b} --boundary {kind}"
        return f"{shell}, in Python domain=sl.Interval({a}, {b}, '{kind}')"
    word, sides = str(domain.boundary[0]), [list(side) for side in domain.sides]
    shell = f"--domain box --sides {','.join(str(x) for side in sides for x in side)}"
    python = f"domain=sl.Box({', '.join(map(str, sides))}, boundary='{word}')"
    return f"{shell} --boundary {word}, in Python {python}"


def _nats(gain: float) -> str:
    return f"{gain:,.0f} nats" if gain >= 10 else f"{gain:.2g} nats"


# ---------- The verdict: all tests joined by Holm's method
#
# One-step errors of the data under the law should be independent standard normals, up to what the
# estimate of the law may be wrong by (`checks.errors`). Tests against the ways of being wrong
# (`checks.departures`) are joined by Holm's method: the chance of any false alarm stays below the
# stated rate, whatever the sizes of training and test data. Bands of held-out values are judged by
# their size, not by a test (`checks.impact`).


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
        overall: p-values of tests of all series together.
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
    everything = observed.at_observed_points()
    sensors, observed = without_bad_sensors(law, everything)
    suite = suite_of(law, observed.at_observed_times(), whole, on_training_data)
    outliers, suite = suite.without_outliers()
    results = suite.run()
    if np.isfinite([sensors.p, outliers.p]).any():  # they may be in the law's residual variance
        results = [d for d in results if d.test not in ("outside the modes", "point noise")]
    results += [outliers, sensors]
    unit = suite.errors.unit
    rejected = _holm(_named_p_values(results, unit))
    series = np.arange(1, suite.errors.z.shape[-1] + 1)
    alone = {d.test: ("series", d.p_series) for d in results if np.isfinite(d.p_series).any()}
    nothing = {"variance": ("series", np.full(len(series), np.nan))}
    overall = {d.test: d.p for d in results if np.isfinite(d.p)}
    return ModelCheck(
        xr.Dataset(nothing | alone, coords={"series": series}),
        overall,
        rejected,
        advise(suite, everything, results, rejected),
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


def _named_p_values(results: list[TestResult], unit: str) -> list[tuple[float, str]]:
    """Every p-value with the name of its test."""
    alone = [
        (float(p), f"{unit} {n} {d.test}") for d in results for n, p in enumerate(d.p_series, 1)
    ]
    return [*alone, *((d.p, d.test) for d in results)]


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

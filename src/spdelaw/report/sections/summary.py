"""The report in plain words: what was learned, how certain, does the model fit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.fields import Fields
from spdelaw.domains.hermite import Line
from spdelaw.domains.interval import Interval
from spdelaw.law.law import Law
from spdelaw.processes.linear import Linear
from spdelaw.processes.semilinear import Reacting
from spdelaw.processes.terms import field_of
from spdelaw.report.data import ReportData
from spdelaw.report.figures.laws import spectra

Array = np.ndarray


def mode_names(law: Law) -> list[str]:
    """Modes by number; of several fields by name and number, which take turns."""
    if not isinstance(law.domain, Fields):
        return [str(n + 1) for n in range(law.n_modes)]
    names = law.domain.names
    return [f"{names[k % len(names)]} {k // len(names) + 1}" for k in range(law.n_modes)]


def mode_labels(data: ReportData, n: int) -> list[str]:
    """Modes by number, with the e-folding time of each."""
    table = data.law.parameters.get("eigenvalue")
    if table is None or table.dims != ("mode", "statistic") or data.label:
        return [f"mode {i + 1}" for i in range(n)]
    rates, unit = table.sel(statistic="estimate").values[:n], _time_unit(data)
    memory = [f", e-folding time {number(1 / rate)}{unit}" if rate > 0 else "" for rate in rates]
    return [f"mode {i + 1}{suffix}" for i, suffix in enumerate(memory)]


# ---------- The summary: what was learned, how certain, does the model fit


#: Relative half-widths up to which an interval is sharp, and beyond which it is loose.
SHARP_WIDTH, LOOSE_WIDTH = 0.15, 1.0
#: The largest relative half-width that is printed.
WIDEST = 10.0
#: Short answer where intervals mean nothing.
DO_NOT_RELY = "Do not rely on these intervals: the model does not fit the data"
#: Sentences of advice on a card.
MAX_ADVICE = 3


class Answer(NamedTuple):
    """One of the three answers.

    Attributes:
        question: the heading.
        short: the answer in a few words.
        sentences: the rest.
        mood: "good", "fair" or "bad".
    """

    question: str
    short: str
    sentences: list[str]
    mood: str


def summary_text(data: ReportData) -> tuple[Answer, Answer, Answer]:
    """What was learned, how certain, does it fit."""
    return _learned(data), _certainty(data), _fits(data)


def _learned(data: ReportData) -> Answer:
    law, sizes = data.law, data.description["sizes"]
    sentences = [
        f"Fitted to {_count(law.info.n_paths, 'path')} of {law.info.n_times} times at "
        f"{law.info.n_points} points, {_location(data)}.",
        *_dynamics_sentences(data),
        _noise_sentence(data),
    ]
    steps = law.info.get("preparation", [])
    sentences += [f"Preprocessing: {'; '.join(steps)}."] if steps else []
    sentences.append(
        f"Shown here: {_count(sizes['path'], 'path')} of {sizes['time']} times. {data.training}"
    )
    return Answer("What was learned?", f"A law of {_count(law.n_modes, 'mode')}", sentences, "good")


def _dynamics_sentences(data: ReportData) -> list[str]:
    """Slowest and fastest mode and the strongest noise, or the name of other dynamics."""
    numbers = spectra(data.law)
    if isinstance(data.law.dynamics, Reacting):
        return _equations(data.law)
    if numbers is None:
        return [f"The modes follow the dynamics called {data.law.dynamics.name!r}."]
    lam, noise, kind = numbers.decay, numbers.noise, numbers.unit
    slow, fast = int(np.argmin(lam[:, 0])), int(np.argmax(lam[:, 0]))
    unit = _time_unit(data)
    return [
        f"The slowest pattern is {kind} {slow + 1}, with the e-folding time "
        f"{_memory_time(lam[slow], unit)}. The fastest is {kind} {fast + 1}, with "
        f"{_memory_time(lam[fast], unit)}.",
        f"The random forcing is strongest in mode {int(np.argmax(noise[:, 0])) + 1}.",
    ]


def _equations(law: Law) -> list[str]:
    """The drift of each field, as one would write it down."""
    estimates, terms = law.info.get("estimates", {}), law.parameters["coefficient"]
    fields = law.domain.names if isinstance(law.domain, Fields) else ("u",)
    out = []
    for field in fields:
        several = len(fields) > 1
        parts = [(float(estimates.get(f"nu {field}" if several else "nu", 0.0)), f"Δ{field}")]
        parts += [(-float(estimates.get("kappa", 0.0)), field)] * (not several)
        for name in map(str, terms["term"].values):
            if not several or field_of(name) == field:
                value = float(terms.sel(term=name, statistic="estimate"))
                parts.append((value, name.partition(":")[2].strip() or name))
        shown = " ".join(_summand(value, name) for value, name in parts if value)
        out.append(f"The drift of {field} is {shown.removeprefix('+ ')}.")
    return out


def _summand(value: float, name: str) -> str:
    """``+ 1.02 u`` or ``- 0.98 u^3``."""
    factor = "" if name == "1" else f" ({name})" if any(c in name for c in "+-") else f" {name}"
    return f"{'-' if value < 0 else '+'} {abs(value):.3g}{factor}"


def _noise_sentence(data: ReportData) -> str:
    law = data.law
    std = np.sqrt(np.mean(law.observation_variance))
    if std == 0:
        return "The fit found no observation noise."
    sentence = f"The observation noise has a standard deviation of {std:.3g}"
    if not isinstance(law.dynamics, Linear):
        return f"{sentence}."
    total = float(law.equation.variance([law.times[-1]]).values[0].sum())
    size = np.sqrt(total / law.domain.volume)
    return f"{sentence}; that of the field itself is {size:.3g}."


def _certainty(data: ReportData) -> Answer:
    law = data.law
    parts = [0.5 * (t[:, 3] - t[:, 2]) / np.abs(t[:, 0]) for t in _judged_intervals(law).values()]
    widths = np.concatenate([*parts, np.zeros(0)])
    named = law.info.get("identifiability", {}).get("undetermined", [])
    lost = int((~np.isfinite(widths) | (widths > 3)).sum())
    lost = max(
        lost, sum(str(name).startswith(("eigenvalue[", "noise_variance[")) for name in named)
    )
    level = 100 * float(law.parameters.attrs["interval_level"])
    finite = widths[np.isfinite(widths)]
    middle = float(np.median(finite)) if finite.size else np.inf
    half = [
        f"{_relative_width(float(np.median(w)))} around {what}"
        for what, w in zip(_judged_intervals(law), parts, strict=True)
    ]
    sentences = [f"A typical {level:g} % interval is {' and '.join(half)}."] * bool(half)
    if not lost:
        sentences.append(f"The data determine all {len(widths)} parameters of the modes.")
    else:
        sentences.append(
            f"The data do not determine {lost} of {len(widths)} parameters; do not quote these."
        )
    sentences += [f"Note: {str(note).rstrip('.')}." for note in law.info.get("warnings", [])]
    if lost > len(widths) // 3 or middle > LOOSE_WIDTH:
        return Answer("How certain?", "Roughly", sentences, "bad")
    if not data.card.check.fits:
        sentences.append("The intervals assume that the model is right, so they are too narrow.")
        return Answer("How certain?", DO_NOT_RELY, sentences, "bad")
    if middle > SHARP_WIDTH or lost:
        return Answer("How certain?", "Fairly", sentences, "fair")
    return Answer("How certain?", "Precisely", sentences, "good")


def _relative_width(share: float) -> str:
    """Half-width of an interval relative to its estimate, as text."""
    if not share < WIDEST:
        return f"more than ± {100 * WIDEST:,.0f} %"
    return f"± {100 * share:.2g} %" if share < 1 else f"± {100 * share:.0f} %"


def _judged_intervals(law: Law) -> dict[str, Array]:
    """Intervals (n, 4) to judge: of the two spectra, or of the parameters of other dynamics."""
    numbers = spectra(law)
    if numbers is not None:
        return {"an eigenvalue": numbers.decay, "a noise variance": numbers.noise}
    intervals = {
        str(n).replace("_", " "): v.values.reshape(-1, 4) for n, v in law.parameters.items()
    }
    estimated = {name: v[v[:, 1] > 0] for name, v in intervals.items()}
    return {name: v for name, v in estimated.items() if len(v) and "initial" not in name}


def _fits(data: ReportData) -> Answer:
    card = data.card
    check = card.check
    verdict = check.verdict
    sentences = [f"{verdict[:1].upper()}{verdict[1:]}."]
    for tier, text in (("forecast", "in forecasts"), ("gaps", "in gaps")):
        share = card.tiers[tier].coverage
        if np.isfinite(share):
            sentences.append(
                f"{100 * card.level:g} % intervals contain {100 * share:.1f} % of the held-out "
                f"values {text}."
            )
    if card.distance is not None:
        sentences.append(_against_truth(card.distance))
    if not check.is_checked:
        return Answer("Does the model fit?", "Not checked", sentences, "fair")
    if check.fits:
        return Answer("Does the model fit?", "Yes", sentences, "good")
    sentences += [f"What to try: {line}." for line in check.advice[:MAX_ADVICE]]
    sentences.append("The parameters describe the closest law of this form, not the true one.")
    return Answer("Does the model fit?", "No", sentences, "bad")


def _against_truth(distance: dict[str, Any]) -> str:
    sentence = (
        "The true equation is known here: the largest error of a spectrum is "
        f"{distance['largest_z']:.1f} standard errors"
    )
    if not np.isfinite(distance["kl_per_path"]):
        return (
            sentence
            + "; the initial states are of different kinds, so the KL divergence is not defined."
        )
    return (
        f"{sentence}, and the KL divergence from the true law is {distance['kl_per_path']:.2g} "
        f"nats per path (maximum likelihood gives {distance['kl_limit']:.2g} on average)."
    )


def _location(data: ReportData) -> str:
    domain = data.law.domain
    if isinstance(domain, Fields):
        return f"of the fields {' and '.join(domain.names)}, on {_domain_text(domain.domain)}"
    return f"on {_domain_text(domain)}"


def _domain_text(domain: AbstractDomain) -> str:
    if isinstance(domain, Interval):
        return f"the interval from {domain.a:.4g} to {domain.b:.4g} with {domain.boundary} ends"
    return "the weighted line" if isinstance(domain, Line) else str(domain)


def _memory_time(row: Array, unit: str) -> str:
    estimate, _, lower, upper = row
    text = f"1/λ = {number(1 / estimate)}{unit}"
    if np.isfinite([lower, upper]).all() and lower > 0 and upper > lower:
        text += f" ({number(1 / upper)} to {number(1 / lower)})"
    return text


def number(value: float) -> str:
    """A number as a reader wants it: 1,049 rather than 1.05e+03."""
    return f"{value:,.0f}" if 1000 <= value < 1e6 else f"{value:.3g}"


def _time_unit(data: ReportData) -> str:
    name = "path_time" if data.own_times else "time"
    units = str(data.fields[name].attrs.get("units", "")).split(" since ")[0]
    return f" {units}" if units else ""


def _count(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"

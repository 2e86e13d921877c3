"""The report in plain words: what was learned, how certain, does the model fit."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from spdelaw.domains.fields import Fields
from spdelaw.law.law import Law
from spdelaw.processes.linear import Linear
from spdelaw.processes.semilinear import Reacting
from spdelaw.processes.terms import field_of
from spdelaw.report.data import ReportData
from spdelaw.report.figures.draw import ASSETS
from spdelaw.report.figures.laws import Spectra, spectra
from spdelaw.report.tables import domain_text

Array = np.ndarray


def mode_labels(data: ReportData, n: int) -> list[str]:
    """Modes by number, with the e-folding time of each."""
    table = data.law.parameters.get("eigenvalue")
    if table is None or table.dims != ("mode", "statistic") or data.label:
        return [f"mode {i + 1}" for i in range(n)]
    rates, unit = table.sel(statistic="estimate").values[:n], _time_unit(data)
    memory = [f", e-folding time {number(1 / rate)}{unit}" if rate > 0 else "" for rate in rates]
    return [f"mode {i + 1}{suffix}" for i, suffix in enumerate(memory)]


# ---------- Texts


def text_of(data: ReportData, block: str, **more: Any) -> list[str]:
    """Paragraphs of a block of ``texts.html``."""
    template = _texts()
    text = "".join(template.blocks[block](template.new_context({"data": data, **more})))
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    return [paragraph for paragraph in paragraphs if paragraph]


@functools.cache
def _texts() -> Any:
    import jinja2

    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    environment.filters |= {"sentence": _sentence, "count": _count}
    return environment.from_string(ASSETS.joinpath("texts.html").read_text(encoding="utf-8"))


def _sentence(text: str, capital: bool = True) -> str:
    first = text[:1].upper() if capital else text[:1]
    return f"{first}{text[1:].rstrip('.')}."


# ---------- The summary: what was learned, how certain, does the model fit


#: Relative half-widths up to which an interval is sharp, and beyond which it is loose.
SHARP_WIDTH, LOOSE_WIDTH = 0.15, 1.0
#: The largest relative half-width that is printed, and one beyond which a number is undetermined.
WIDEST, UNDETERMINED = 10.0, 3.0
#: Short answer where intervals are meaningless.
DO_NOT_RELY = "Do not rely on these intervals: the model does not fit the data"
#: Where the model departs from the data and its predictions hold nevertheless.
PREDICTIONS_HOLD = "Predictions hold; intervals of parameters are too narrow"
#: Short answer and mood by `Scorecard.answer`.
SHORT_ANSWERS = {
    "fits": ("Yes", "good"),
    "departs but predictions hold": ("Not exactly, but its predictions hold", "fair"),
    "not checked": ("Not checked", "fair"),
}


class Answer(NamedTuple):
    """One of the three answers.

    Attributes:
        question: the heading.
        short: the answer in a few words.
        sentences: the other sentences.
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
    law, numbers = data.law, _linear_spectra(data.law)
    more: dict[str, Any] = {
        "drifts": {},
        "slowest": "",
        "field_std": 0.0,
        "where": f"on {domain_text(law.domain)}",
    }
    kind = getattr(law.dynamics, "state_noise_kind", "none")
    more["state_noise"] = "" if kind == "none" else kind.replace("_", " ")
    more["noise"] = float(np.sqrt(np.mean(law.observation_variance)))
    if isinstance(law.dynamics, Reacting) and law.dynamics.terms:
        more["drifts"] = _drifts(law)
    if numbers is not None:
        rates, unit = numbers.decay, _time_unit(data)
        for name, i in (("slowest", np.argmin(rates[:, 0])), ("fastest", np.argmax(rates[:, 0]))):
            memory = _memory_time(rates[i], unit)
            more[name] = f"{numbers.unit} {i + 1}, with the e-folding time {memory}"
        more["strongest"] = int(np.argmax(numbers.noise[:, 0])) + 1
        total = float(law.equation.variance([law.times[-1]]).values[0].sum())
        more["field_std"] = float(np.sqrt(total / law.domain.volume))
    short = f"A law of {_count(law.n_modes, 'mode')}"
    return Answer("What was learned?", short, text_of(data, "learned", **more), "good")


def _linear_spectra(law: Law) -> Spectra | None:
    """Spectra of a linear law; None for other dynamics."""
    return spectra(law) if isinstance(law.dynamics, Linear) else None


def _drifts(law: Law) -> dict[str, str]:
    """The drift of each field, as one would write it down."""
    estimates, terms = law.info.get("estimates", {}), law.parameters["coefficient"]
    fields = law.domain.names if isinstance(law.domain, Fields) else ("u",)
    several, drifts = len(fields) > 1, {}
    for field in fields:
        parts = [(float(estimates.get(f"nu {field}" if several else "nu", 0.0)), f"Δ{field}")]
        parts += [(-float(estimates.get("kappa", 0.0)), field)] * (not several)
        for name in map(str, terms["term"].values):
            if not several or field_of(name) == field:
                value = float(terms.sel(term=name, statistic="estimate"))
                parts.append((value, name.partition(":")[2].strip() or name))
        shown = " ".join(_summand(value, name) for value, name in parts if value)
        drifts[field] = shown.removeprefix("+ ")
    return drifts


def _summand(value: float, name: str) -> str:
    """``+ 1.02 u`` or ``- 0.98 u^3``."""
    factor = "" if name == "1" else f" ({name})" if any(c in name for c in "+-") else f" {name}"
    return f"{'-' if value < 0 else '+'} {abs(value):.3g}{factor}"


def _certainty(data: ReportData) -> Answer:
    law, intervals = data.law, _judged_intervals(data.law)
    parts = [0.5 * (t[:, 3] - t[:, 2]) / np.abs(t[:, 0]) for t in intervals.values()]
    widths = np.concatenate([*parts, np.zeros(0)])
    named = law.info.get("identifiability", {}).get("undetermined", [])
    lost = int((~np.isfinite(widths) | (widths > UNDETERMINED)).sum())
    of_modes = ("eigenvalue[", "noise_variance[")
    lost = max(lost, sum(str(name).startswith(of_modes) for name in named))
    finite = widths[np.isfinite(widths)]
    middle = float(np.median(finite)) if finite.size else np.inf
    half = [f"{_relative_width(float(np.median(w)))} around {what}"
            for what, w in zip(intervals, parts, strict=True)]  # fmt: skip
    is_vague, fits = lost > len(widths) // 3 or middle > LOOSE_WIDTH, data.card.check.fits
    holds = data.card.answer == "departs but predictions hold"
    sentences = text_of(data, "certain", widths=half, lost=lost, total=len(widths),
                        does_not_fit=not (fits or is_vague))  # fmt: skip
    if is_vague:
        return Answer("How certain?", "Roughly", sentences, "bad")
    if holds:
        return Answer("How certain?", PREDICTIONS_HOLD, sentences, "fair")
    if not fits:
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
    numbers = _linear_spectra(law)
    if numbers is not None:
        return {"an eigenvalue": numbers.decay, "a noise variance": numbers.noise}
    intervals = {
        str(n).replace("_", " "): v.values.reshape(-1, 4) for n, v in law.parameters.items()
    }
    estimated = {name: v[v[:, 1] > 0] for name, v in intervals.items()}
    return {name: v for name, v in estimated.items() if len(v) and "initial" not in name}


def _fits(data: ReportData) -> Answer:
    short, mood = SHORT_ANSWERS.get(data.card.answer, ("No", "bad"))
    sentences = text_of(data, "fits", inf=np.inf)
    if data.card.answer.startswith("departs") and data.card.impact is not None:
        sentences.insert(1, _sentence(data.card.verdict.rpartition("; ")[2]))
    return Answer("Does the model fit?", short, sentences, mood)


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

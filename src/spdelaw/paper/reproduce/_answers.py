"""The comparison in plain words: three questions, answered by the numbers of the tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.paper.reproduce._sheets import Row, name_of, spread
from spdelaw.report.html import Answer

Tables = dict[str, list[Row]]

#: Relative error within which a system counts as having learned the mean path.
NEAR = 0.02
#: Multiple of what maximum likelihood has on average within which a law counts as found.
FOUND = 5.0


def answers(found: Tables) -> list[Answer]:
    """Those of the three that the records can answer."""
    made = (_printed_error(found), _hidden_noise(found), _law(found))
    return [answer for answer in made if answer is not None]


def _printed_error(found: Tables) -> Answer | None:
    """Does the paper's model reach its printed error?"""
    own = {
        regime: row
        for regime, rows in found.items()
        for row in rows
        if row["entry"] == "amortized-paper" and row["task"] == "reconstruct"
    }
    if not own:
        return None
    reached = {regime: _reaches(row) for regime, row in own.items()}
    sentences = [_beside_paper(regime, row, found[regime]) for regime, row in own.items()]
    if any(row["shortened"] for row in own.values()):
        short, mood = "Not settled here: training was cut short", "fair"
        sentences.append("The profile full trains as long as the paper does.")
    elif all(reached.values()):
        short, mood = "Yes", "good"
    elif any(reached.values()):
        yes, no = (_regimes(reached, which) for which in (True, False))
        short, mood = f"In {yes}, not in {no}", "fair"
    else:
        short, mood = "No", "bad"
    return Answer("Does the paper's model reach its printed error?", short, sentences, mood)


def _reaches(row: Row) -> bool:
    mean, std = row["paper_relative_l2"]
    return bool(np.mean(row["relative_l2"]) <= mean + 2 * std)


def _regimes(reached: dict[str, bool], which: bool) -> str:
    return " and ".join(f"Regime {r.upper()}" for r, value in reached.items() if value is which)


def _beside_paper(regime: str, row: Row, rows: list[Row]) -> str:
    printed = "{:.4f} ± {:.4f}".format(*row["paper_relative_l2"])
    text = (
        f"Regime {regime.upper()}: {spread(row['relative_l2'])} here after "
        f"{spread(row['epochs'], 0)} epochs, {printed} in the paper"
    )
    floor = _on_same_paths(row, rows, "limit: 8 modes, K")
    return text + (f", {np.mean(floor):.4f} at best." if floor else ".")


def _hidden_noise(found: Tables) -> Answer | None:
    """What do the baselines learn without the noise?"""
    distance = {
        f"{name_of(row)} (Regime {regime.upper()})": _from_mean(row, rows)
        for regime, rows in found.items()
        for row in rows
        if row["kind"] == "predictor" and row["task"] == "predict"
    }
    distance = {name: d for name, d in distance.items() if np.isfinite(d)}
    if not distance:
        return None
    far = [f"{name} by {d:+.4f}" for name, d in distance.items() if abs(d) > NEAR]
    widest = max(abs(d) for d in distance.values())
    sentences = [
        f"The exact mean path is the best guess of a path of which only the start is known. "
        f"{len(distance) - len(far)} of {len(distance)} systems have its relative error within "
        f"{NEAR:g}; the widest difference is {widest:.4f}."
    ]
    sentences += [f"Further off: {', '.join(far)}."] if far else []
    short = "The mean path, and no more" if not far else "Not all of them the mean path yet"
    question = "What do the baselines learn without the noise?"
    return Answer(question, short, sentences, "fair" if far else "good")


def _from_mean(row: Row, rows: list[Row]) -> float:
    """Relative error above that of the exact mean on the same paths; NaN where it is not known."""
    mean = _on_same_paths(row, rows, "limit: exact mean")
    return float(np.mean(row["relative_l2"]) - np.mean(mean)) if mean else np.nan


def _on_same_paths(row: Row, rows: list[Row], limit: str) -> list[float]:
    """A limit on the data sets of a row; none where it was not computed for all of them."""
    known = {
        seed: error
        for one in rows
        if one["system"].startswith(limit)
        for seed, error in zip(one["seeds"], one["relative_l2"], strict=True)
    }
    return [known[seed] for seed in row["seeds"]] if set(row["seeds"]) <= set(known) else []


def _law(found: Tables) -> Answer | None:
    """Which systems find the law that made the data?"""
    systems: dict[str, dict[str, Row]] = {}
    for regime, rows in found.items():
        for row in rows:
            if row["task"] == "predict" and row["kl_per_path"]:
                systems.setdefault(name_of(row), {})[regime] = row
    if not systems:
        return None
    right = [name for name, own in systems.items() if all(map(_is_found, own.values()))]
    wrong = [name for name in systems if name not in right]
    sentences = ["Divergence from it in nats for each path, on average over runs:"]
    near = f"within {FOUND:g} times what maximum likelihood has on average"
    for names, verdict in ((right, near), (wrong, "another law than that of the data")):
        listed = "; ".join(_divergences(name, systems[name]) for name in names)
        sentences += [f"{listed}: {verdict}."] if names else []
    mood = "good" if not wrong else "fair" if right else "bad"
    short = f"{len(right)} of {len(systems)}"
    return Answer("Which systems find the law of the data?", short, sentences, mood)


def _is_found(row: Row) -> bool:
    return bool(np.mean(row["kl_per_path"]) <= FOUND * row["kl_limit"])


def _divergences(name: str, own: dict[str, Row]) -> str:
    values = (f"{_short(np.mean(row['kl_per_path']))} in {r.upper()}" for r, row in own.items())
    return f"{name.removeprefix('spdelaw, ')} ({', '.join(values)})"


def _short(value: Any) -> str:
    """Three digits, never in powers of ten."""
    return np.format_float_positional(value, 3, fractional=False, trim="-")

"""Tables made of records, as JSON and as Markdown, and answers to three questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from paper.regimes import PAPER, TITLES
from paper.reproduction.gaps import BREAK, SHARE
from paper.reproduction.gaps import N_PATHS as GAPPY_PATHS
from spdelaw.data.io.safe_files import replace_file
from spdelaw.report.summary import Answer

Record = dict[str, Any]
Row = dict[str, Any]
Lines = list[list[str]]
Tables = dict[str, list[Row]]

#: Tasks in the order of the tables, with the information that a system has on a test path.
TASKS = {
    "reconstruct": "has seen the whole test path",
    "predict": "knows only how the test path starts",
    "observed": "is given the noise that drove the test path",
}
#: The completion of paths with gaps, which has a table of its own.
GAPS = "gaps"
ERRORS = ("relative_l2", "rmse")
SCORES = (*ERRORS, "standard_error", "crps", "coverage", "energy_score", "seconds_per_path")
#: How the second moments of a law compare with the truth.
RATIOS = ("variance_ratio", "energy_factor")
#: Entries that reconstruct a path as a sum of K functions of time.
TRUNCATED = ("amortized", "chaos-dropped")
LIMITS = {
    "floor": ("reconstruct", "limit: 8 modes, K = 16, true eigenvalues"),
    "projection": ("reconstruct", "limit: 8 modes, any K"),
    "predict": ("predict", "limit: exact mean of the true law"),
    "constant": ("predict", "limit: best constant path for the relative error"),
}
#: Note below the table of errors.
HOW_TO_READ = (
    "Networks are trained from several initialisations on one data set and split, unless the last "
    "column says otherwise; what has no network is fitted to several data sets, each with paths "
    "and split of its own. Over paths: standard error of the mean over the test paths of one run. "
    "Limit: relative error of the first limit of the task on the same test paths, and the multiple "
    "of it that the system has."
)
#: Relative error within which a system counts as having learned the mean path.
NEAR = 0.02
#: Multiple of the average divergence of maximum likelihood within which a law counts as learned.
LEARNED = 10.0


# ------------------------------------------------------------------ rows


def tables(records: list[Record]) -> Tables:
    """Rows by regime; every number is a list with one value for each run.

    Args:
        records: records of one profile, from `read_records`.
    """
    regimes = sorted({r["regime"] for r in records})
    records = [r | _ratios(r, records) for r in records]
    return {regime: _rows([r for r in records if r["regime"] == regime]) for regime in regimes}


def _ratios(record: Record, records: list[Record]) -> dict[str, float]:
    """Variance of a law over that of the data, and by what factor its energies are off.

    The first is a mean over times after the first, the second ``exp mean |log ratio|`` over modes
    at the last time; 1 is the truth. Without those whose curve, or whose limits, are missing.
    """
    truth = next((r for r in records if r["kind"] == "reference" and r["seed"] == record["seed"]
                  and r["regime"] == record["regime"]), None)  # fmt: skip
    curves = record.get("curves") or {}
    ratios = {}
    if truth is not None and "averaged_variance" in curves:
        v, v0 = (np.array(c["averaged_variance"][1:], float) for c in (curves, truth["curves"]))
        ratios["variance_ratio"] = float((v / v0).mean())
    if truth is not None and "energy_at_end" in curves:
        e, e0 = (np.array(c["energy_at_end"], float) for c in (curves, truth["curves"]))
        ratios["energy_factor"] = float(np.exp(np.abs(np.log(np.maximum(e, 1e-300) / e0)).mean()))
    return ratios


def _rows(records: list[Record]) -> list[Row]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record["entry"], []).append(record)
    rows = []
    for group in groups.values():
        if group[0]["kind"] == "reference":
            for score, (task, label) in LIMITS.items():  # earlier records have fewer limits
                if scored := [r for r in group if score in r["scores"]]:
                    rows.append(_row(scored, task, label, score))
            continue
        for part, words in _over(group):
            for score in dict.fromkeys(name for record in part for name in record["scores"]):
                given = part[0]["noise"] == "observed" and score != GAPS
                task = "observed" if given else score
                scored = [record for record in part if score in record["scores"]]
                if not words or len(scored) > 1:
                    rows.append(_row(scored, task, part[0]["label"] + words, score))
    order = [*TASKS, GAPS]
    rows = [row for row in rows if row["rmse"] or row["energy_score"]]
    rows = sorted(rows, key=lambda row: order.index(row["task"]))
    return [row | {"over_limit": over_limit(row, rows)} for row in rows]


def _over(group: list[Record]) -> list[tuple[list[Record], str]]:
    """Networks of the first data set; and, where there are others, one network of each data set."""
    first = [r for r in group if r["initialisation"] is None or r["seed"] == group[0]["seed"]]
    by_data = {r["seed"]: r for r in reversed(group)}  # the first network of each
    if first == group:
        return [(group, "")]
    return [(first, ""), ([by_data[seed] for seed in sorted(by_data)], ", over data sets")]


def over_limit(row: Row, rows: list[Row]) -> tuple[float, float] | None:
    """The limit of the error on the same paths, and the mean error over it.

    The limit is that of the exact mean for a system that is given the start of a path,
    and the floor of 8 modes and K functions of time for one that reconstructs a path by such a
    sum. A system of few functions of time that is given the noise has the floor of these. None for
    others, and where the limit was not computed for all its data sets.
    """
    if row["task"] == "observed" and row["time_floor"]:
        floor = float(np.mean(row["time_floor"]))
        return floor, float(np.mean(row["relative_l2"]) / floor)
    if row["task"] == "reconstruct" and not row["entry"].startswith(TRUNCATED):
        return None
    limit = next((r for r in rows if r["task"] == row["task"] and r["kind"] == "reference"), None)
    errors = dict(zip(limit["seeds"], limit["relative_l2"], strict=True)) if limit else {}
    if not set(row["seeds"]) <= set(errors):
        return None
    least = float(np.mean([errors[seed] for seed in row["seeds"]]))
    return least, float(np.mean(row["relative_l2"]) / least)


def _row(group: list[Record], task: str, label: str, score: str) -> Row:
    first = group[0]
    # The paper scores its model after it has seen the path, and its baselines before.
    paper_task = "reconstruct" if first["published"] == "ours" else "predict"
    paper = PAPER[first["regime"]].get(first["published"] or "") if task == paper_task else None
    is_system = first["kind"] != "reference"
    ratios = RATIOS if is_system or score == "predict" else ()  # the curves are the true law's
    return {
        "task": task, "system": label, "entry": first["entry"], "kind": first["kind"],
        "noise": first["noise"], "seeds": [r["seed"] for r in group],
        "initialisations": _values(group, "initialisation"),
        "n_test": first["n_test"], "shortened": first["shortened"],
        **{name: _values([r["scores"][score] for r in group], name) for name in SCORES},
        **{name: _values(group if name in ratios else [], name) for name in RATIOS},
        "time_floor": _values([r.get("time_floor", {}) for r in group], "relative_l2"),
        **{f"paper_{n}": list(getattr(paper, n)) if paper else None for n in ERRORS},
        "paper_parameters": paper.parameters if paper else None,
        **{name: first.get(name) for name in ("parameters", "parameters_real", "kl_limit")},
        **{
            name: _values(group, name) if is_system else []
            for name in ("kl_per_path", "seconds", "peak_memory", "epochs", "best_epoch")
        },
        "versions": first["versions"],
    }  # fmt: skip


def _values(group: list[dict[str, Any]], name: str) -> list[float]:
    return [value for record in group if (value := record.get(name)) is not None]


def write_tables(out: Path, records: list[Record], command: str) -> list[Path]:
    """Write ``tables.json`` and ``tables.md`` into a folder."""
    regimes = tables(records)
    texts = {
        "tables.json": json.dumps({"command": command, "regimes": regimes}, indent=1) + "\n",
        "tables.md": to_markdown(regimes, command),
    }
    for name, text in texts.items():
        with replace_file(out / name) as new:
            new.write_text(text, encoding="utf-8")
    return [out / name for name in texts]


# ------------------------------------------------------------------ sheets


class Sheet(NamedTuple):
    """One table.

    Attributes:
        title: title.
        header: names of the columns.
        groups: rows by their common heading, "" where they need none.
        note: explanation below the table.
    """

    title: str
    header: tuple[str, ...]
    groups: dict[str, Lines]
    note: str


def sheets(rows: list[Row]) -> list[Sheet]:
    """Errors, law and cost of one regime, those that have rows.

    Args:
        rows: rows of the regime, from `tables`.
    """
    all_sheets = (_errors(rows), _laws(rows), _gaps(rows), _costs(rows))
    return [sheet for sheet in all_sheets if any(sheet.groups.values())]


def to_markdown(regimes: Tables, command: str) -> str:
    """All tables of all regimes."""
    parts = [f"Made by `{command}` from its records."]
    for regime, rows in regimes.items():
        parts.append(f"### {TITLES[regime]}")
        for sheet in sheets(rows):
            parts += [f"**{sheet.title}**", _markdown_table(sheet), sheet.note]
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_table(sheet: Sheet) -> str:
    n = len(sheet.header)
    lines = [list(sheet.header), ["---", *["---:"] * (n - 1)]]
    for heading, group in sheet.groups.items():
        lines += [[f"***{heading}***", *[""] * (n - 1)]] if heading else []
        lines += group
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _errors(rows: list[Row]) -> Sheet:
    groups: dict[str, Lines] = {}
    for task, heading in TASKS.items():
        lines = [_errors_line(row) for row in rows if row["task"] == task]
        groups |= {heading: lines} if lines else {}
    n = rows[0]["n_test"] if rows else 0
    title = f"Errors on {n} test paths, mean ± standard deviation"
    header = ("system", "parameters", "RMSE", "paper", "rel L2", "paper", "over paths", "limit",
              "runs")  # fmt: skip
    return Sheet(title, header, groups, " ".join(filter(None, (HOW_TO_READ, _shortened(rows)))))


def _errors_line(row: Row) -> list[str]:
    names = reversed(ERRORS)  # RMSE first: it depends less on which paths are tested
    errors = [cell for n in names for cell in (spread(row[n]), _printed(row[f"paper_{n}"]))]
    count = "" if row["kind"] == "reference" else f"{row['parameters']:,}"
    paths = row.get("standard_error")
    times = row.get("over_limit")
    limit = "" if not times or row["kind"] == "reference" else "{:.4f} × {:.2f}".format(*times)
    over_paths = f"{np.mean(paths):.4f}" if paths else ""
    return [name_of(row), count, *errors, over_paths, limit, runs_of(row)]


def runs_of(row: Row) -> str:
    """Number of networks or data sets behind a mean and its spread.

    Example:
        >>> runs_of({"initialisations": [0, 1, 2], "seeds": [0, 0, 0]})
        '3 networks'
        >>> runs_of({"initialisations": [], "seeds": [0]})
        '1 data set'
        >>> runs_of({"initialisations": [0, 0, 0], "seeds": [0, 1, 2]})
        '3 data sets, 1 network each'
    """
    networks = row.get("initialisations") or []
    if networks and len(set(row["seeds"])) > 1:
        return f"{len(networks)} data sets, 1 network each"
    word, n = ("network", len(networks)) if networks else ("data set", len(row["seeds"]))
    return f"{n} {word}" + ("s" if n > 1 else "")


def _shortened(rows: list[Row]) -> str:
    """Differences from the paper's protocol, once for each system."""
    notes = {row["entry"]: f"{name_of(row)}: {', '.join(row['shortened'])}" for row in rows
             if row["shortened"]}  # fmt: skip
    return "† Shortened training. " + "; ".join(notes.values()) + "." if notes else ""


def _laws(rows: list[Row]) -> Sheet:
    seen = {row["system"]: row for row in rows if row["task"] == "reconstruct" and row["crps"]}
    lines = []
    for row in rows:
        if row["task"] == "reconstruct" or not row["energy_score"]:
            continue
        reconstruct = seen.get(row["system"], {"crps": [], "coverage": []})
        limit = row["kl_limit"]
        scores = (reconstruct["crps"], reconstruct["coverage"], row["crps"], row["coverage"])
        lines.append([
            name_of(row), spread(row["kl_per_path"]), "" if limit is None else f"{limit:.3g}",
            *(spread(values) for values in (*scores, row["energy_score"])),
            *(spread(row[name], 2) for name in RATIOS),
        ])  # fmt: skip
    header = ("system", "KL per path", "p / 2M", "CRPS", "95 % holds", "CRPS", "95 % holds",
              "energy score", "variance", "energies")  # fmt: skip
    note = (
        "The first CRPS and coverage are of paths that were seen, the second, with the energy "
        "score, of paths of which only the start is known. KL is to the law that made the data; "
        "maximum likelihood has p / 2M on average. Variance: that of samples over the truth, a "
        "mean over times. Energies: the factor by which those of the modes are off at the last "
        "time. A system that predicts one path has a law without spread; one with observed noise "
        "is given noise of the true law."
    )
    return Sheet("The law, and how well it is calibrated", header, {"": lines}, note)


def _gaps(rows: list[Row]) -> Sheet:
    lines = [
        [name_of(row), spread(row["rmse"]), spread(row["crps"]), spread(row["coverage"]),
         f"{np.mean(row['seconds_per_path']):.2g}", runs_of(row)]
        for row in rows if row["task"] == GAPS
    ]  # fmt: skip
    header = ("system", "RMSE", "CRPS", "95 % holds", "seconds per path", "runs")
    title = f"Test paths with gaps, {GAPPY_PATHS} of each run"
    first, last = BREAK
    note = (
        f"{SHARE:.0%} of the values are hidden at random, and all of them between {first:g} and "
        f"{last:g} of the time. Scores are of the hidden values."
    )
    return Sheet(title, header, {"": lines}, note)


def _costs(rows: list[Row]) -> Sheet:
    lines: dict[str, list[str]] = {}
    for row in rows:
        if row["kind"] != "reference":
            memory = f"{np.mean(row['peak_memory']) / 1e9:.2f} GB" if row["peak_memory"] else ""
            lines.setdefault(row["entry"], [
                name_of(row), f"{row['parameters']:,}", f"{row['parameters_real']:,}",
                spread(row["epochs"], 0), _duration(row["seconds"]), memory,
            ])  # fmt: skip
    header = ("system", "parameters", "complex twice", "epochs", "time to fit", "peak memory")
    note = "Memory is that of the whole process, data included."
    return Sheet("Cost", header, {"": list(lines.values())}, note)


def name_of(row: Row) -> str:
    """System, its tier of noise, and a mark where its training was shortened."""
    noise = f", noise {row['noise']}" if row["kind"] == "predictor" else ""
    return row["system"] + noise + (" †" if row["shortened"] else "")


def spread(values: list[float], digits: int = 4) -> str:
    """Mean, with the standard deviation over runs where there are several.

    Example:
        >>> spread([0.1, 0.2, 0.3]), spread([0.5]), spread([])
        ('0.2000 ± 0.1000', '0.5000', '')
    """
    if not values:
        return ""
    text = f"{np.mean(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ± {np.std(values, ddof=1):.{digits}f}"


def _printed(published: list[float] | None) -> str:
    return "" if published is None else "{:.4f} ± {:.4f}".format(*published)


def _duration(seconds: list[float]) -> str:
    if not seconds:
        return ""
    s = float(np.mean(seconds))
    return f"{s:.1f} s" if s < 120 else f"{s / 60:.1f} min" if s < 7200 else f"{s / 3600:.1f} h"


# ------------------------------------------------------------------ answers


def answers(regimes: Tables) -> list[Answer]:
    """Answers to those of the three questions that the records can answer."""
    candidates = (_printed_error(regimes), _hidden_noise(regimes), _law(regimes))
    return [answer for answer in candidates if answer is not None]


def _printed_error(regimes: Tables) -> Answer | None:
    """Does the paper's model reach its printed error, over data sets where there are several?"""
    models = {
        regime: row
        for regime, rows in regimes.items()
        for row in rows
        if row["entry"] == "amortized-paper" and row["task"] == "reconstruct"
    }
    if not models:
        return None
    reached = {regime: _reaches(row) for regime, row in models.items()}
    sentences = [_beside_paper(regime, row, regimes[regime]) for regime, row in models.items()]
    if any(row["shortened"] for row in models.values()):
        short, mood = "Not settled here: training was cut short", "fair"
        sentences.append("The profile full trains the preset to the end of its 640 epochs.")
    elif all(reached.values()):
        short, mood = "Yes", "good"
    elif any(reached.values()):
        yes, no = (_regimes(reached, which) for which in (True, False))
        short, mood = f"In {yes}, not in {no}", "fair"
    else:
        short, mood = "No", "bad"
    return Answer("Does the paper's model reach its printed error?", short, sentences, mood)


def _reaches(row: Row) -> bool:
    """Whether the means differ by less than two standard deviations of both spreads together."""
    (mean, std), errors = row["paper_relative_l2"], row["relative_l2"]
    ours = np.std(errors, ddof=1) if len(errors) > 1 else 0.0
    return bool(np.mean(errors) <= mean + 2 * np.hypot(std, ours))


def _regimes(reached: dict[str, bool], which: bool) -> str:
    return " and ".join(f"Regime {r.upper()}" for r, value in reached.items() if value is which)


def _beside_paper(regime: str, row: Row, rows: list[Row]) -> str:
    printed = "{:.4f} ± {:.4f}".format(*row["paper_relative_l2"])
    text = (
        f"Regime {regime.upper()}: {spread(row['relative_l2'])} here ({runs_of(row)}, "
        f"{max(row['epochs'])} epochs), {printed} in the paper"
    )
    floor = _on_same_paths(row, rows, "limit: 8 modes, K")
    return text + (f", {np.mean(floor):.4f} at best with its decoder." if floor else ".")


def _hidden_noise(regimes: Tables) -> Answer | None:
    """What do the paper's baselines learn without the noise?"""
    distance = {
        f"{name_of(row)} (Regime {regime.upper()})": _from_mean(row, rows)
        for regime, rows in regimes.items()
        for row in rows
        if row["kind"] == "predictor" and row["paper_relative_l2"]
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
    question = "What do the paper's baselines learn without the noise?"
    return Answer(question, short, sentences, "fair" if far else "good")


def _from_mean(row: Row, rows: list[Row]) -> float:
    """Relative error above that of the exact mean on the same paths; NaN where it is missing."""
    mean = _on_same_paths(row, rows, "limit: exact mean")
    return float(np.mean(row["relative_l2"]) - np.mean(mean)) if mean else np.nan


def _on_same_paths(row: Row, rows: list[Row], limit: str) -> list[float]:
    """A limit on the data sets of a row; empty where it was not computed for all of them."""
    errors = {
        seed: error
        for one in rows
        if one["system"].startswith(limit)
        for seed, error in zip(one["seeds"], one["relative_l2"], strict=True)
    }
    return [errors[seed] for seed in row["seeds"]] if set(row["seeds"]) <= set(errors) else []


def _law(regimes: Tables) -> Answer | None:
    """Which systems find the law that made the data?"""
    systems: dict[str, dict[str, Row]] = {}
    for regime, rows in regimes.items():
        for row in rows:
            if row["task"] == "predict" and row["kl_per_path"]:
                systems.setdefault(name_of(row), {})[regime] = row
    if not systems:
        return None
    right = [name for name, rows in systems.items() if all(map(_is_learned, rows.values()))]
    wrong = [name for name in systems if name not in right]
    sentences = ["Divergence from it in nats for each path, on average over runs:"]
    near = f"within {LEARNED:g} times what maximum likelihood has on average"
    for names, verdict in ((right, near), (wrong, "another law than that of the data")):
        listed = "; ".join(_divergences(name, systems[name]) for name in names)
        sentences += [f"{listed}: {verdict}."] if names else []
    mood = "good" if not wrong else "fair" if right else "bad"
    short = f"{len(right)} of {len(systems)}"
    return Answer("Which systems find the law of the data?", short, sentences, mood)


def _is_learned(row: Row) -> bool:
    return bool(np.mean(row["kl_per_path"]) <= LEARNED * row["kl_limit"])


def _divergences(name: str, rows: dict[str, Row]) -> str:
    values = (f"{_short(np.mean(row['kl_per_path']))} in {r.upper()}" for r, row in rows.items())
    return f"{name.removeprefix('spdelaw, ')} ({', '.join(values)})"


def _short(value: Any) -> str:
    """Three digits, never in powers of ten."""
    return np.format_float_positional(value, 3, fractional=False, trim="-")

"""Tables from records: numbers as JSON, the same for people as Markdown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from spdelaw.baselines.reproduce._data import TITLES
from spdelaw.baselines.reproduce._paper import PAPER
from spdelaw.data.atomic import replace_file

Record = dict[str, Any]
Row = dict[str, Any]

#: Tasks in the order of the tables, with what a system has seen of a test path.
TASKS = {
    "reconstruct": "has seen the whole test path",
    "predict": "knows only how the test path starts",
    "observed": "is given the noise that drove the test path",
}
ERRORS = ("relative_l2", "rmse")
SCORES = (*ERRORS, "crps", "coverage", "energy_score")
LIMITS = {
    "floor": ("reconstruct", "limit: 8 modes, K = 16, true eigenvalues"),
    "projection": ("reconstruct", "limit: 8 modes, any K"),
    "predict": ("predict", "limit: exact mean of the true law"),
}


def tables(records: list[Record]) -> dict[str, list[Row]]:
    """Rows by regime; every number is a list of one value a seed.

    Args:
        records: of one profile, as `read_records` gives them.
    """
    regimes = sorted({r["regime"] for r in records})
    return {regime: _rows([r for r in records if r["regime"] == regime]) for regime in regimes}


def _rows(records: list[Record]) -> list[Row]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record["entry"], []).append(record)
    rows = []
    for group in groups.values():
        if group[0]["kind"] == "reference":
            rows += [_row(group, *LIMITS[score], score) for score in LIMITS]
            continue
        for score in group[0]["scores"]:
            task = "observed" if group[0]["noise"] == "observed" else score
            rows.append(_row(group, task, group[0]["label"], score))
    order = list(TASKS)
    return sorted(rows, key=lambda row: order.index(row["task"]))


def _row(group: list[Record], task: str, label: str, score: str) -> Row:
    first = group[0]
    # The paper's model is scored there after it has seen the path, its baselines are not.
    there = "reconstruct" if first["published"] == "ours" else "predict"
    paper = PAPER[first["regime"]].get(first["published"] or "") if task == there else None
    own = first["kind"] != "reference"
    return {
        "task": task, "system": label, "entry": first["entry"], "kind": first["kind"],
        "noise": first["noise"], "seeds": [r["seed"] for r in group],
        "n_test": first["n_test"], "shortened": first["shortened"],
        **{name: _values([r["scores"][score] for r in group], name) for name in SCORES},
        **{f"paper_{n}": list(getattr(paper, n)) if paper else None for n in ERRORS},
        "paper_parameters": paper.parameters if paper else None,
        **{name: first.get(name) for name in ("parameters", "parameters_real", "kl_limit")},
        **{
            name: _values(group, name) if own else []
            for name in ("kl_per_path", "seconds", "peak_memory", "epochs", "best_epoch")
        },
        "versions": first["versions"],
    }  # fmt: skip


def _values(group: list[dict[str, Any]], name: str) -> list[float]:
    return [value for part in group if (value := part.get(name)) is not None]


def write_tables(out: Path, records: list[Record], command: str) -> list[Path]:
    """Write ``tables.json`` and ``tables.md`` into a folder."""
    found = tables(records)
    texts = {
        "tables.json": json.dumps({"command": command, "regimes": found}, indent=1) + "\n",
        "tables.md": to_markdown(found, command),
    }
    for name, text in texts.items():
        with replace_file(out / name) as new:
            new.write_text(text, encoding="utf-8")
    return [out / name for name in texts]


# ------------------------------------------------------------------ for people


def to_markdown(found: dict[str, list[Row]], command: str) -> str:
    """All tables of all regimes."""
    parts = [f"Made by `{command}` from its records."]
    for regime, rows in found.items():
        parts += [
            f"### {TITLES[regime]}", _accuracy(rows), _shortened(rows),
            "**The law, and how well it is calibrated**", _laws(rows),
            "**Cost**", _costs(rows),
        ]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def _accuracy(rows: list[Row]) -> str:
    head = ("system", "parameters", "rel L2", "paper", "RMSE", "paper", "seeds")
    lines = []
    for task, seen in TASKS.items():
        own = [row for row in rows if row["task"] == task]
        if own:
            lines.append([f"***{seen}***", *[""] * 6])
        for row in own:
            errors = [
                cell for n in ERRORS for cell in (spread(row[n]), _printed(row[f"paper_{n}"]))
            ]
            count = "" if row["kind"] == "reference" else f"{row['parameters']:,}"
            lines.append([_name(row), count, *errors, str(len(row["seeds"]))])
    n = rows[0]["n_test"] if rows else 0
    title = f"**Errors on {n} test paths** (mean ± standard deviation over seeds)"
    return f"{title}\n\n{_table(head, lines)}"


def _shortened(rows: list[Row]) -> str:
    """What is less than the paper's protocol, once a system."""
    notes = {row["entry"]: f"{_name(row)}: {', '.join(row['shortened'])}" for row in rows
             if row["shortened"]}  # fmt: skip
    return "† Shortened training. " + "; ".join(notes.values()) + "." if notes else ""


def _laws(rows: list[Row]) -> str:
    head = ("system", "KL a path", "p / 2M", "CRPS", "95 % holds", "CRPS", "95 % holds",
            "energy score")  # fmt: skip
    lines = []
    for row in rows:
        if row["task"] != "predict" or not row["crps"]:
            continue
        seen = [r for r in rows if r["entry"] == row["entry"] and r["task"] == "reconstruct"]
        seen = [r for r in seen if r["crps"]]
        both = [seen[0]["crps"], seen[0]["coverage"]] if seen else [[], []]
        limit = row["kl_limit"]
        lines.append([
            _name(row), spread(row["kl_per_path"]), "" if limit is None else f"{limit:.3g}",
            *(spread(v) for v in (*both, row["crps"], row["coverage"], row["energy_score"])),
        ])  # fmt: skip
    note = (
        "The first CRPS and coverage are of paths that were seen, the second, with the energy "
        "score, of paths of which only the start is known. KL is to the law that made the data; "
        "maximum likelihood has p / 2M on average."
    )
    return f"{_table(head, lines)}\n\n{note}" if lines else ""


def _costs(rows: list[Row]) -> str:
    head = ("system", "parameters", "complex twice", "epochs", "time to fit", "peak memory")
    lines = {}
    for row in rows:
        if row["kind"] != "reference":
            memory = f"{np.mean(row['peak_memory']) / 1e9:.2f} GB" if row["peak_memory"] else ""
            lines[row["entry"]] = [
                _name(row), f"{row['parameters']:,}", f"{row['parameters_real']:,}",
                spread(row["epochs"], 0), _duration(row["seconds"]), memory,
            ]  # fmt: skip
    note = "Memory is that of the whole process, data included."
    return f"{_table(head, list(lines.values()))}\n\n{note}"


def spread(values: list[float], digits: int = 4) -> str:
    """Mean, with the standard deviation over seeds where there are several.

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


def _name(row: Row) -> str:
    noise = f", noise {row['noise']}" if row["kind"] == "predictor" else ""
    return row["system"] + noise + (" †" if row["shortened"] else "")


def _duration(seconds: list[float]) -> str:
    if not seconds:
        return ""
    s = float(np.mean(seconds))
    return f"{s:.1f} s" if s < 120 else f"{s / 60:.1f} min" if s < 7200 else f"{s / 3600:.1f} h"


def _table(head: tuple[str, ...], lines: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [list(head), rule, *lines])

"""Tables from records: numbers by task and system, written as JSON and as Markdown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from spdelaw.data.atomic import replace_file
from spdelaw.paper.published import PAPER
from spdelaw.paper.reproduce._sheets import ERRORS, TASKS, Row, to_markdown

Record = dict[str, Any]

#: Entries that give back a path as a sum of K functions of time.
TRUNCATED = ("amortized", "chaos-dropped")
SCORES = (*ERRORS, "crps", "coverage", "energy_score")
LIMITS = {
    "floor": ("reconstruct", "limit: 8 modes, K = 16, true eigenvalues"),
    "projection": ("reconstruct", "limit: 8 modes, any K"),
    "predict": ("predict", "limit: exact mean of the true law"),
}


def tables(records: list[Record]) -> dict[str, list[Row]]:
    """Rows by regime; every number is a list with one value for each run.

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
    rows = sorted(rows, key=lambda row: order.index(row["task"]))
    return [row | {"over_limit": over_limit(row, rows)} for row in rows]


def over_limit(row: Row, rows: list[Row]) -> float | None:
    """Mean error over the least that is possible, on the same paths.

    That is the error of the exact mean for a system that knows how a path starts, and the floor
    of 8 modes and K functions of time for one that gives back a path in such a sum. None for
    others, and where nobody computed the limit for all its data sets.
    """
    if row["task"] == "reconstruct" and not row["entry"].startswith(TRUNCATED):
        return None
    limit = next((r for r in rows if r["task"] == row["task"] and r["kind"] == "reference"), None)
    known = dict(zip(limit["seeds"], limit["relative_l2"], strict=True)) if limit else {}
    if not set(row["seeds"]) <= set(known):
        return None
    return float(np.mean(row["relative_l2"]) / np.mean([known[seed] for seed in row["seeds"]]))


def _row(group: list[Record], task: str, label: str, score: str) -> Row:
    first = group[0]
    # The paper's model is scored there after it has seen the path, its baselines are not.
    there = "reconstruct" if first["published"] == "ours" else "predict"
    paper = PAPER[first["regime"]].get(first["published"] or "") if task == there else None
    own = first["kind"] != "reference"
    return {
        "task": task, "system": label, "entry": first["entry"], "kind": first["kind"],
        "noise": first["noise"], "seeds": [r["seed"] for r in group],
        "initialisations": _values(group, "initialisation"),
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

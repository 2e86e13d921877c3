"""Tables for people: the cells as text, for the page and for Markdown."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spdelaw.paper.reproduce._data import TITLES

Row = dict[str, Any]
Lines = list[list[str]]

#: Tasks in the order of the tables, with what a system has seen of a test path.
TASKS = {
    "reconstruct": "has seen the whole test path",
    "predict": "knows only how the test path starts",
    "observed": "is given the noise that drove the test path",
}
ERRORS = ("relative_l2", "rmse")
#: Below the table of errors.
HOW_TO_READ = (
    "Networks are trained from several initialisations on one data set and split; what has no "
    "network is fitted to several data sets, each with paths and split of its own. Over limit: the "
    "mean relative error over that of the first limit of its task, on the same test paths."
)


class Sheet(NamedTuple):
    """One table.

    Attributes:
        title: what it is about.
        header: names of the columns.
        groups: rows by their common heading, "" where they need none.
        note: how to read it, shown below.
    """

    title: str
    header: tuple[str, ...]
    groups: dict[str, Lines]
    note: str


def sheets(rows: list[Row]) -> list[Sheet]:
    """Errors, law and cost of one regime, those that have rows.

    Args:
        rows: of the regime, as `tables` gives them.
    """
    found = [_errors(rows), _laws(rows), _costs(rows)]
    return [sheet for sheet in found if any(sheet.groups.values())]


def to_markdown(found: dict[str, list[Row]], command: str) -> str:
    """All tables of all regimes."""
    parts = [f"Made by `{command}` from its records."]
    for regime, rows in found.items():
        parts.append(f"### {TITLES[regime]}")
        for sheet in sheets(rows):
            parts += [f"**{sheet.title}**", _markdown_table(sheet), sheet.note]
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_table(sheet: Sheet) -> str:
    n = len(sheet.header)
    lines = [list(sheet.header), ["---", *["---:"] * (n - 1)]]
    for heading, own in sheet.groups.items():
        lines += [[f"***{heading}***", *[""] * (n - 1)]] if heading else []
        lines += own
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# ------------------------------------------------------------------ the three tables


def _errors(rows: list[Row]) -> Sheet:
    groups: dict[str, Lines] = {}
    for task, seen in TASKS.items():
        own = [_errors_line(row) for row in rows if row["task"] == task]
        groups |= {seen: own} if own else {}
    n = rows[0]["n_test"] if rows else 0
    title = f"Errors on {n} test paths, mean ± standard deviation"
    header = ("system", "parameters", "rel L2", "paper", "RMSE", "paper", "over limit", "runs")
    return Sheet(title, header, groups, " ".join(filter(None, (HOW_TO_READ, _shortened(rows)))))


def _errors_line(row: Row) -> list[str]:
    errors = [cell for n in ERRORS for cell in (spread(row[n]), _printed(row[f"paper_{n}"]))]
    count = "" if row["kind"] == "reference" else f"{row['parameters']:,}"
    times = row.get("over_limit")
    limit = "" if times is None or row["kind"] == "reference" else f"{times:.2f}"
    return [name_of(row), count, *errors, limit, runs_of(row)]


def runs_of(row: Row) -> str:
    """What the mean and its spread are over.

    Example:
        >>> runs_of({"initialisations": [0, 1, 2], "seeds": [0, 0, 0]})
        '3 networks'
        >>> runs_of({"initialisations": [], "seeds": [0]})
        '1 data set'
    """
    networks = row.get("initialisations") or []
    word, n = ("network", len(networks)) if networks else ("data set", len(row["seeds"]))
    return f"{n} {word}" + ("s" if n > 1 else "")


def _shortened(rows: list[Row]) -> str:
    """What is less than the paper's protocol, once a system."""
    notes = {row["entry"]: f"{name_of(row)}: {', '.join(row['shortened'])}" for row in rows
             if row["shortened"]}  # fmt: skip
    return "† Shortened training. " + "; ".join(notes.values()) + "." if notes else ""


def _laws(rows: list[Row]) -> Sheet:
    seen = {row["entry"]: row for row in rows if row["task"] == "reconstruct" and row["crps"]}
    lines = []
    for row in rows:
        if row["task"] != "predict" or not row["crps"]:
            continue
        before = seen.get(row["entry"], {"crps": [], "coverage": []})
        limit = row["kl_limit"]
        scores = (before["crps"], before["coverage"], row["crps"], row["coverage"])
        lines.append([
            name_of(row), spread(row["kl_per_path"]), "" if limit is None else f"{limit:.3g}",
            *(spread(values) for values in (*scores, row["energy_score"])),
        ])  # fmt: skip
    header = ("system", "KL per path", "p / 2M", "CRPS", "95 % holds", "CRPS", "95 % holds",
              "energy score")  # fmt: skip
    note = (
        "The first CRPS and coverage are of paths that were seen, the second, with the energy "
        "score, of paths of which only the start is known. KL is to the law that made the data; "
        "maximum likelihood has p / 2M on average."
    )
    return Sheet("The law, and how well it is calibrated", header, {"": lines}, note)


def _costs(rows: list[Row]) -> Sheet:
    lines = {}
    for row in rows:
        if row["kind"] != "reference":
            memory = f"{np.mean(row['peak_memory']) / 1e9:.2f} GB" if row["peak_memory"] else ""
            lines[row["entry"]] = [
                name_of(row), f"{row['parameters']:,}", f"{row['parameters_real']:,}",
                spread(row["epochs"], 0), _duration(row["seconds"]), memory,
            ]  # fmt: skip
    header = ("system", "parameters", "complex twice", "epochs", "time to fit", "peak memory")
    note = "Memory is that of the whole process, data included."
    return Sheet("Cost", header, {"": list(lines.values())}, note)


# ------------------------------------------------------------------ cells


def name_of(row: Row) -> str:
    """System, what it was told of the noise, and a mark where its training was cut short."""
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

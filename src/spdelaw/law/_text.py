"""A law in a few lines: plain text, a table for notebooks, and what to cite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from spdelaw.domain import table_html

if TYPE_CHECKING:
    from spdelaw.law._law import Law

PAPER = (
    "S. Zeng, A. Petersson, W. Bock: Latent-Variable Learning of SPDEs via Wiener Chaos. "
    "Preprint, 2026."
)
SOFTWARE = "spdelaw {version}: learning the law of stochastic PDEs from observed fields."
#: Most rows of a table.
MOST_ROWS = 12
#: Widths of the columns of intervals.
WIDTHS = (28, 30)


def as_text(law: Law) -> str:
    """Head line, one line per mode with intervals, observation noise, warnings."""
    title, facts, header, rows, notes = summary(law)
    *facts, level = facts
    widths = [len(header[0]), *WIDTHS, *[WIDTHS[-1]] * len(header)]
    head, *table = (
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=False))
        for row in (header, *rows)
    )
    return "\n  ".join([title, *facts, f"{head}   {level}", *table, *notes])


def as_html(law: Law) -> str:
    """The same as a compact table."""
    return table_html(*summary(law))


def summary(law: Law) -> tuple[str, list[str], list[str], list[list[str]], list[str]]:
    """Title, facts, the last of which is the level, header and rows of intervals, and notes."""
    p, info = law.parameters, law.info
    facts = [
        f"engine {info.engine}, {info.n_paths} paths, log-likelihood {info.log_likelihood:.6g}"
    ]
    if "drift" in p:
        facts.append(
            f"modes coupled: drift {info.drift}, noise {info.noise}; matrices in .parameters"
        )
    header, rows, more = _eigenmodes(law) if "drift" in p else _modes(law)
    facts.append(f"{100 * p.attrs['interval_level']:g} % intervals")
    notes = [f" ... {more}"] if len(rows) > MOST_ROWS else []
    if "observation_std" in p and p.observation_std.ndim == 1:
        notes.append(f"observation noise {interval(p.observation_std.values)}")
    if law.rest is not None:
        unit = str(info.get("time", {}).get("units", "")).split(" since ")[0]
        notes.append(f"rest: {law.rest.in_words(unit)}")
    if "coefficient" in p:
        terms = zip(p["term"].values, p.coefficient.values, strict=True)
        notes += [f"coefficient of {name}: {interval(row)}" for name, row in terms]
    if "season" in p:
        parts = ", ".join(interval(row) for row in p.season.values)
        notes.append(f"noise by season, relative: {parts}")
    notes += [f"note: {note}" for note in info.notes]
    title = f"Law of {law.n_modes} modes on {law.domain}"
    return title, facts, header, rows[:MOST_ROWS], notes


def _modes(law: Law) -> tuple[list[str], list[list[str]], str]:
    """One row per mode: all parameters that belong to modes, the initial state apart."""
    names = [
        name
        for name, table in law.parameters.data_vars.items()
        if table.dims == ("mode", "statistic") and not str(name).startswith("initial")
    ]
    tables = [law.parameters[name].values for name in names]
    rows = [[str(n + 1), *(interval(t[n]) for t in tables)] for n in range(law.n_modes)]
    header = ["mode", *(str(name).replace("_", " ") for name in names)]
    return header, rows, f"{law.n_modes - MOST_ROWS} more modes in .parameters"


def _eigenmodes(law: Law) -> tuple[list[str], list[list[str]], str]:
    """One row per eigenmode of the drift: how long it lives and how fast it turns."""
    table = law.eigenmodes()
    lives = map(interval, table.e_folding_time.values)
    turns = (interval(p) if np.isfinite(p[0]) else "none" for p in table.period.values)
    rows = [[str(n + 1), *both] for n, both in enumerate(zip(lives, turns, strict=True))]
    header = ["eigenmode", "e-folding time", "period"]
    return header, rows, f"{len(rows) - MOST_ROWS} more in .eigenmodes()"


def interval(values: np.ndarray) -> str:
    """Estimate with its interval."""
    estimate, _, lower, upper = values
    return f"{estimate:.4g} [{lower:.4g}, {upper:.4g}]"


def citation(info: Mapping[str, Any]) -> str:
    """Software and, where its method was used, the paper."""
    is_used = info.get("engine") in ("chaos", "amortized")
    follows = "" if is_used else "The problem and the spectral setting follow "
    return f"{SOFTWARE.format(version=info.get('version', ''))}\n{follows}{PAPER}"

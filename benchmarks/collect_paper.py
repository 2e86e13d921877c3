"""Put the records of ``python -m paper reproduce`` into the documentation and the README.

    python -m benchmarks.collect_paper results

writes, for each profile with records in ``results/records``, its tables and figures to
``docs/reproduce/<profile>``, and for the full one its records, too; then writes five rows of the
full run into the README. Nothing is trained; missing records are missing rows.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

from paper.reproduction.figures import draw_figures
from paper.reproduction.plan import PROFILES, plan
from paper.reproduction.records import read_records
from paper.reproduction.tables import write_tables
from spdelaw.data.io.safe_files import replace_file

CHECKOUT = Path(__file__).resolve().parents[1]
DOCS = CHECKOUT / "docs" / "reproduce"
START, END = "<!-- tables of the full run -->\n", "<!-- end of the tables -->\n"
KEPT = "full"
#: Rows of the README: what the reader is told, the task, and the systems of which the best counts.
HEADLINE = (
    ("**whole path seen**: limit of the paper's decoder", "reconstruct", "limit: 8 modes, K = 16"),
    ("the paper's model, trained here", "reconstruct", "amortized, preset paper"),
    ("`spdelaw`, exact", "reconstruct", "spdelaw, exact"),
    ("**start seen**: limit, the mean of the true law", "predict", "limit: exact mean"),
    ("best of the paper's five baselines", "predict", ""),
)
#: Figures by the end of their file's name, in the order of the page.
LAWS = {
    "variance": "Variance over time",
    "spectrum": "Energy spectrum",
    "eigenvalues": "Eigenvalues",
    "noise": "Noise variances",
}
NETWORKS = {
    "training": "Training",
    "initial": "Initial states over paths",
    "sigma": "Learned observation noise",
    "draws": "Draws",
}


def main(arguments: list[str]) -> int:
    """Tables, figures, records, README."""
    out = Path(arguments[0] if arguments else "results")
    for name in PROFILES:
        if (out / "records" / name).exists():
            _profile(out, name)
    run = json.loads((DOCS / KEPT / "tables.json").read_text(encoding="utf-8"))
    readme = CHECKOUT / "README.md"
    with replace_file(readme) as new:
        new.write_text(with_table(readme.read_text(encoding="utf-8"), run), encoding="utf-8")
    return 0


def _profile(out: Path, name: str) -> None:
    runs = plan("ab", PROFILES[name])
    records, folder = read_records(out, runs), DOCS / name
    folder.mkdir(parents=True, exist_ok=True)
    write_tables(folder, records, f"python -m paper reproduce --profile {name}")
    draw_figures(folder, records, ("png",))
    for page, figures in (("laws", LAWS), ("networks", NETWORKS)):
        (folder / f"{page}.md").write_text(_page(folder, figures), encoding="utf-8")
    if name == KEPT:
        (folder / "records").mkdir(exist_ok=True)
        for record in records:
            file = f"{record['name']}.json"
            shutil.copyfile(out / "records" / name / file, folder / "records" / file)
    print(f"{name}: {len(records)} of {len(runs)} runs have a record")


def _page(folder: Path, figures: dict[str, str]) -> str:
    """A table of those figures there are, one column for each regime."""
    lines = ["| Regime A | Regime B |", "| --- | --- |"]
    for name, title in figures.items():
        cells = [
            f"![{title}, Regime {r.upper()}, {folder.name}](reproduce/{folder.name}/{r}-{name}.png)"
            if (folder / f"{r}-{name}.png").exists() else "not run yet"
            for r in "ab"
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def with_table(readme: str, run: dict[str, Any]) -> str:
    """The README with five rows of a run between its two marks."""
    before, rest = readme.split(START)
    lines = ["| relative error | Regime A | paper | Regime B | paper |", "| --- " * 5 + "|"]
    for words, task, system in HEADLINE:
        cells = [cell for own in run["regimes"].values() for cell in _cells(own, task, system)]
        lines.append("| " + " | ".join([words, *cells]) + " |")
    return before + START + "\n" + "\n".join(lines) + "\n\n" + END + rest.split(END)[1]


def _cells(rows: list[dict[str, Any]], task: str, system: str) -> list[str]:
    """Error of the best of some systems, and what the paper prints for it."""
    asked = [row for row in rows if row["task"] == task and row["relative_l2"]]
    if system:
        named = [row for row in asked if row["system"].startswith(system)]
    else:
        named = [row for row in asked if row["kind"] == "predictor" and row["paper_relative_l2"]]
    if not named:
        return ["", ""]
    best = min(named, key=lambda row: float(np.mean(row["relative_l2"])))
    said = best["paper_relative_l2"]
    return [f"{np.mean(best['relative_l2']):.4f}", f"{said[0]:.4f}" if said else ""]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Put the records of ``python -m paper reproduce`` into the documentation and the README.

    python -m benchmarks.collect_paper results

writes, for each profile with records in ``results/records``, its tables to
``docs/reproduce/<profile>``, and for the full one its figures and records, too; then writes five
rows of the full run into the README. Nothing is trained; missing records are missing rows.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

import spdelaw as sl
from paper.regimes import EQUATIONS
from paper.reproduction.figures import draw_figures
from paper.reproduction.plan import N_MODES, N_TIME, PROFILES, plan
from paper.reproduction.records import read_records
from paper.reproduction.scores import of_equation
from paper.reproduction.tables import runs_of, spread, write_tables
from spdelaw.data.io.safe_files import replace_file
from spdelaw.report.figures.moments import spatial_weights

CHECKOUT = Path(__file__).resolve().parents[1]
DOCS = CHECKOUT / "docs" / "reproduce"
START, END = "<!-- tables of the full run -->\n", "<!-- end of the tables -->\n"
KEPT = "full"
#: Rows of the README: text, the task, and the systems of which the best counts.
HEADLINE = (
    (
        "**whole path observed**: limit of the paper's decoder",
        "reconstruct",
        "limit: 8 modes, K = 16",
    ),
    ("the paper's model, trained here", "reconstruct", "amortized, preset paper"),
    ("`spdelaw`, exact", "reconstruct", "spdelaw, exact"),
    ("**initial state observed**: limit, the mean of the true law", "predict", "limit: exact mean"),
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
    records, folder = [completed(record) for record in read_records(out, runs)], DOCS / name
    folder.mkdir(parents=True, exist_ok=True)
    write_tables(folder, records, f"python -m paper reproduce --profile {name}")
    if name == KEPT:
        draw_figures(folder, records, ("png",))
        for page, figures in (("laws", LAWS), ("networks", NETWORKS)):
            (folder / f"{page}.md").write_text(_page(folder, figures), encoding="utf-8")
        (folder / "records").mkdir(exist_ok=True)
        for record in records:
            file = f"{record['name']}.json"
            shutil.copyfile(out / "records" / name / file, folder / "records" / file)
    print(f"{name}: {len(records)} of {len(runs)} runs have a record")


def completed(record: dict[str, Any]) -> dict[str, Any]:
    """The record, with the variance over time that follows from its lambda and q.

    Older records store no curves of moments. That of the K functions of time lacks the observation
    noise, which they do not store either.
    """
    curves = record.get("curves") or {}
    if "eigenvalues" not in curves or "averaged_variance" in curves:
        return record
    given = EQUATIONS[record["regime"]](N_MODES)
    equation = sl.SpectralSPDE(
        given.domain, N_MODES, np.array(curves["eigenvalues"]),
        noise=np.array(curves["noise_variance"]), initial=0.0,
    )  # fmt: skip
    points = given.default_grid()
    law = of_equation(equation, given.times, points)._replace(n_time=N_TIME)
    variance = law.field()[1] ** 2 @ spatial_weights(given.domain, points)
    moments = {"time": given.times.tolist(), "averaged_variance": variance.tolist()}
    return record | {"curves": curves | moments}


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
    """The README with five rows of a run, and what the data sets change, between its two marks."""
    before, rest = readme.split(START)
    lines = ["| RMSE / relative error | Regime A | paper | Regime B | paper |", "| --- " * 5 + "|"]
    for words, task, system in HEADLINE:
        cells = [cell for rows in run["regimes"].values() for cell in _cells(rows, task, system)]
        lines.append("| " + " | ".join([words, *cells]) + " |")
    table = "\n".join(lines) + "\n\n" + _spreads(run["regimes"]) + "\n\n"
    return before + START + "\n" + table + END + rest.split(END)[1]


def _cells(rows: list[dict[str, Any]], task: str, system: str) -> list[str]:
    """Errors of the best of some systems, and what the paper prints for it."""
    scored = [row for row in rows if row["task"] == task and row["relative_l2"]]
    if system:
        named = [row for row in scored if row["system"].startswith(system)][:1]
    else:
        named = [row for row in scored if row["kind"] == "predictor" and row["paper_relative_l2"]]
    if not named:
        return ["", ""]
    best = min(named, key=lambda row: float(np.mean(row["relative_l2"])))
    printed = [best[f"paper_{name}"] for name in ("rmse", "relative_l2")]
    ours = [np.mean(best[name]) for name in ("rmse", "relative_l2")]
    return [_pair(ours), _pair([mean for mean, _ in printed]) if all(printed) else ""]


def _pair(values: list[Any]) -> str:
    return " / ".join(f"{value:.4f}" for value in values)


def _spreads(regimes: dict[str, Any]) -> str:
    """The paper's preset over networks and over data sets, with the limits on the same paths."""
    parts = []
    for regime, rows in regimes.items():
        of = {row["system"]: row for row in rows if row["task"] == "reconstruct"}
        limit = of["limit: 8 modes, K = 16, true eigenvalues"]
        limits = dict(zip(limit["seeds"], limit["relative_l2"], strict=True))
        for name in ("amortized, preset paper", "amortized, preset paper, over data sets"):
            if (row := of.get(name)) is not None:
                errors = f"{spread(row['rmse'])} / {spread(row['relative_l2'])}"
                there = ", ".join(f"{limits[seed]:.4f}" for seed in dict.fromkeys(row["seeds"]))
                parts.append(f"{regime.upper()}, {runs_of(row)}: {errors} (limit {there})")
    return (
        "The relative error depends on which paths are tested, RMSE hardly. The paper's preset, "
        f"mean ± standard deviation: {'; '.join(parts)}."
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

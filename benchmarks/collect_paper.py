"""Put what ``spdelaw reproduce`` has run into the documentation and the README.

    python -m benchmarks.collect_paper results

writes, for each profile with records in ``results/records``, its tables and figures to
``docs/reproduce/<profile>``, and for the full one its records, too; then writes the tables of
errors of the full run into the README. Nothing is trained; missing records are missing rows.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from spdelaw.data.atomic import replace_file
from spdelaw.paper.reproduce import PROFILES, draw_figures, plan, read_records, write_tables

CHECKOUT = Path(__file__).resolve().parents[1]
DOCS = CHECKOUT / "docs" / "reproduce"
START, END = "<!-- tables of the full run -->\n", "<!-- end of the tables -->\n"
KEPT = "full"
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
    tables = (DOCS / KEPT / "tables.md").read_text(encoding="utf-8")
    readme = CHECKOUT / "README.md"
    with replace_file(readme) as new:
        new.write_text(with_tables(readme.read_text(encoding="utf-8"), tables), encoding="utf-8")
    return 0


def _profile(out: Path, name: str) -> None:
    runs = plan("ab", PROFILES[name])
    records, folder = read_records(out, runs), DOCS / name
    folder.mkdir(parents=True, exist_ok=True)
    write_tables(folder, records, f"spdelaw reproduce --profile {name}")
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


def with_tables(readme: str, tables: str) -> str:
    """The README with the errors of each regime between its two marks."""
    before, rest = readme.split(START)
    after = rest.split(END)[1]
    parts = []
    for regime in tables.split("\n### ")[1:]:
        title, _, body = regime.partition("\n")
        rows = body.partition("**Errors on")[2].partition("**The law")[0]
        table = "\n".join(line for line in rows.splitlines() if line.startswith("|"))
        parts.append(f"**{title}**\n\n{table}\n")
    return before + START + "\n" + "\n".join(parts) + "\n" + END + after


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The table and the picture of sizes in ``docs/architecture.md``, from the records of `size`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.test_architecture import ORDER

DOCS = Path(__file__).parents[1] / "docs"
START, END = "<!-- table of size -->", "<!-- end of the table -->"
#: Abilities that a linear law of one complete field does not need, and the modules that serve each
#: alone. What they share with the core is not counted.
ABILITIES = {
    "semilinear laws: terms, closure, scoring, discovery": (
        "infer/semilinear/", "infer/discovery.py", "processes/closure.py",
        "processes/semilinear.py",
        "processes/terms.py", "statespace/transitions.py",
    ),
    "noise that depends on the state": ("processes/state_noise.py",),
    "networks: the paper's, further encoders and orders, training that resumes": ("amortized/",),
    "Wiener chaos of any order with its posterior": ("chaos/", "infer/engines/chaos.py"),
    "a user's own `Dynamics`, and contract suites": ("infer/engines/dynamics.py", "testing.py"),
    "verdict, impact and advice": ("evaluation/checks/", "evaluation/scorecard.py"),
    "hindcasts, rivals, skill and comparison": (
        "evaluation/forecast_skill.py", "evaluation/hindcast.py", "evaluation/rivals.py",
        "evaluation/comparison.py", "evaluation/verification.py",
    ),
    "filling of gaps": ("evaluation/gap_filling.py", "evaluation/gap_selection.py"),
    "residuals with memory, kriged, shared": ("law/residuals.py", "infer/residuals.py"),
    "several fields, graphs, meshes, empirical modes": (
        "domains/fields.py", "domains/graph.py", "domains/mesh.py", "domains/empirical.py",
    ),
    "files: NetCDF, Zarr, tables; checksums, atomic writing": ("data/io/", "law/io.py"),
    "recognition of names, layouts, clocks and calendars": (
        "data/recognise.py", "data/names.py", "data/layout.py", "data/clock.py",
    ),
    "climatology, trends, scales, quality of values": (
        "data/climate.py", "data/prepare.py", "data/quality.py",
    ),
    "lazy data and clusters": (
        "data/executors.py", "data/summary.py", "statespace/condense.py",
    ),
    "many fits that resume": ("infer/many.py",),
    "report and figures": ("report/",),
    "shell command": ("cli/",),
}  # fmt: skip
#: Size of the picture, and of one row of it.
WIDTH, ROW, LEFT = 760, 30, 120


def write_page(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Put the table into the page and the picture next to it."""
    page = DOCS / "architecture.md"
    text = page.read_text(encoding="utf-8")
    table = f"{START}\n\n{comparison(before, now)}\n\n{ability_table(now)}\n\n{END}"
    page.write_text(re.sub(f"{START}.*{END}", lambda _: table, text, flags=re.S), encoding="utf-8")
    picture = DOCS / "assets" / "folders.svg"
    picture.write_text(draw(folder_sizes(now)), encoding="utf-8")


def comparison(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Markdown table of both records."""
    columns = [summary(before), summary(now)]
    rows = [f"| {key} | {columns[0][key]} | {columns[1][key]} |" for key in columns[1]]
    return "\n".join(["| | before | now |", "| --- | ---: | ---: |", *rows])


def ability_rows(lines: dict[str, int]) -> list[dict[str, Any]]:
    """What each ability costs, from the code lines of files such as ``law/io.py``."""
    costs = {
        ability: sum(n for file, n in lines.items() if file.startswith(modules))
        for ability, modules in ABILITIES.items()
    }
    core = "the core: domains, linear processes, state space, exact fits, laws"
    costs[core] = sum(lines.values()) - sum(costs.values())
    return [{"ability": ability, "code lines": cost} for ability, cost in costs.items()]


def ability_table(record: dict[str, Any]) -> str:
    """Markdown table of what each ability costs."""
    rows = [f"| {row['ability']} | {row['code lines']:,} |" for row in record["abilities"]]
    return "\n".join(["| ability | code lines |", "| --- | ---: |", *rows])


def summary(record: dict[str, Any]) -> dict[str, str]:
    """One cell per row of the table."""
    package, walks = record["package"], {row["walk"]: row for row in record["walks"]}
    tests = next(row for row in record["other code"] if row["folder"] == "tests")
    return {
        "files of `src/spdelaw`": f"{package['files']}",
        "most files in one folder": package["most files in one folder"],
        "code lines": f"{package['code lines']:,}",
        "code lines per file, median / largest": f"{package['median']} / {package['largest']}",
        "share of import and `__all__` lines": f"{package['import %']} %",
        "names exported by sub-packages": str(package["names exported by sub-packages"]),
        "local variables named found, own, known, seen, told, wanted, asked": str(
            sum(row["bindings"] for row in record["names"])
        ),
        "test code lines": f"{tests['code lines']:,}",
        **{
            f"{name}: files / functions / types": f"{row['files']} / {row['functions']} / "
            f"{row['types']}"
            for name, row in walks.items()
        },
        **{
            f"maximisations, {row['gappy fit']}": str(row["maximisations"])
            for row in record["maximisations"]
        },
    }


def folder_sizes(record: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Files and code lines of each folder of the first level, in import order."""
    sizes = {}
    for name in ORDER:
        inside = [
            row for row in record["folders"] if f"{row['folder']}/".startswith(f"spdelaw/{name}/")
        ]
        if inside:
            sizes[name] = tuple(sum(row[key] for row in inside) for key in ("files", "code lines"))
    return sizes


def draw(sizes: dict[str, tuple[int, int]]) -> str:
    """Bars of code lines from the first folder to the last, as SVG."""
    most = max(lines for _, lines in sizes.values())
    height = ROW * len(sizes) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="14" role="img">',
        "<title>Folders of spdelaw in import order</title>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for i, (name, (files, lines)) in enumerate(sizes.items()):
        y, width = 10 + ROW * i, 400 * lines / most
        parts += [
            f'<text x="{LEFT - 10}" y="{y + 18}" text-anchor="end" fill="#222">{name}/</text>',
            f'<rect x="{LEFT}" y="{y + 4}" width="{width:.0f}" height="{ROW - 10}" rx="3" '
            'fill="#3b6ea5"/>',
            f'<text x="{LEFT + width + 8:.0f}" y="{y + 18}" fill="#555">{lines:,} code lines in '
            f"{files} files</text>",
        ]
    note = "each folder imports only from those above it"
    parts.append(f'<text x="{LEFT}" y="{height - 10}" fill="#777" font-size="12">{note}</text>')
    return "\n".join([*parts, "</svg>", ""])

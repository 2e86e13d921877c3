"""``spdelaw report``: one HTML file that shows a law and how it describes data."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from spdelaw import report
from spdelaw.cli import _options
from spdelaw.cli._evaluate import NoTruth, TruthFile, find_truth
from spdelaw.cli._fields import read_for
from spdelaw.cli._law_file import load_law
from spdelaw.cli._options import positive
from spdelaw.cli._output import Output, file_size, human_size
from spdelaw.cli._target import check_page_target
from spdelaw.data import fingerprint
from spdelaw.errors import InputError
from spdelaw.law import Law

EXAMPLES = """**Examples**

spdelaw report heat.law --data heat.nc --out report.html

spdelaw report sst.law --data sst.nc --skill skill.json --out report.html

spdelaw report exact.law chaos.law --data unseen.nc --out engines.html
"""


def command(
    *,
    laws: Annotated[
        list[Path],
        typer.Argument(metavar="LAW...", help="Law of `spdelaw fit`; further ones to compare."),
    ],
    data: Annotated[
        Path, typer.Option("--data", "-d", help="Fields to judge on: .nc or .zarr, best unseen.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Page to write, such as report.html.")],
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    skill: Annotated[
        Path | None, typer.Option(help="JSON that `spdelaw skill --json` printed, to show too.")
    ] = None,
    truth: TruthFile = None,
    no_truth: NoTruth = False,
    max_paths: Annotated[int, typer.Option(help="Paths to use at most.")] = 100,
    variable: _options.Variable = None,
    columns: _options.ColumnList = None,
    seed: _options.Seed = 0,
    force: _options.Force = False,
    output: Output,
) -> None:
    """Write one HTML page: what was learned, how sure, does it fit, with figures to move.

    The page opens offline in any browser, prints, and has a light and a dark look. With
    several laws the page is about the first and compares the others with it.
    """
    start = time.perf_counter()
    check_page_target(out, force=force)
    positive("--max-paths", max_paths)
    report.require_report()
    scores = None if skill is None else report.read_skill(skill)
    learned = _named(laws)
    first = next(iter(learned.values()))
    fields = read_for(first, data, variable, columns)
    known = find_truth(truth, no_truth, data, fields, first)
    source = {
        "data": str(data),
        **{f"law {name}": str(p) for name, p in zip(learned, laws, strict=True)},
    }
    own = first.observe(fields)
    source |= _same(first, fingerprint(own.labelled))
    with output.busy(f"writing {out}"):
        report.write_report(
            out, learned, own, truth=known.equation, title=title, source=source,
            skill=scores, max_paths=max_paths, seed=seed,
        )  # fmt: skip
    size, seconds = file_size(out), time.perf_counter() - start
    output.facts(
        f"Report on {', '.join(str(path) for path in laws)}",
        {"data": str(data), "truth": known.source, "page": f"{out} ({human_size(size)})",
         "time": f"{seconds:.1f} s", "open": out.resolve().as_uri()},
    )  # fmt: skip
    output.document(
        command="report", laws=[str(path) for path in laws], data=str(data), truth=known.source,
        file=str(out), bytes=size, seconds=seconds,
    )  # fmt: skip


def _named(paths: list[Path]) -> dict[str, Law]:
    laws: dict[str, Law] = {}
    for path in paths:
        name = path.stem or str(path)
        if name in laws:
            expected, got = "laws of different names", f"{name} twice"
            raise InputError("LAW", expected=expected, got=got, fix="rename one of the directories")
        laws[name] = load_law(path)
    return laws


def _same(law: Law, seen: str) -> dict[str, str]:
    """Whether the data are those of the fit, where the law knows."""
    learned_from = law.info.get("data")
    known = learned_from.get("fingerprint") if isinstance(learned_from, dict) else None
    return {} if known is None else {"same": "yes" if known == seen else "no"}

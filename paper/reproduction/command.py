"""``python -m paper reproduce``: the paper's tables and figures, run again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paper.demonstration import make_folder
from spdelaw import report
from spdelaw.checks import one_of
from spdelaw.cli.options import OutFolder
from spdelaw.cli.output import Output

if TYPE_CHECKING:
    from paper.reproduction.plan import Run


def reproduce_command(
    output: Output,
    regime: str = "all",
    profile: str = "quick",
    out: OutFolder = Path("results"),
    only: str | None = None,
    list_: bool = False,
) -> None:
    """Run the paper's comparison again: five baselines, the engines, the limits.

    Every run writes a record; the page, the tables and the figures are made of records. Repeat the
    command to continue: a run with a record does not run again, a training resumes from its
    checkpoint.

    Options:
        regime: Regime of the paper: a, b or all.
        profile: Size of the run: quick (minutes, trainings cut short) or full (the paper's, days).
        out: Folder to write to, results by default; created if it does not exist.
        only: Entries to run, separated by commas; see --list for their names.
        list_: Show what would run, and how long; run nothing.

    Examples:
        python -m paper reproduce --profile quick --out results
        python -m paper reproduce --regime b --profile full --list
        python -m paper reproduce --regime a --only exact,chaos-dropped --out results
    """
    one_of("--regime", regime, ("all", "a", "b"))
    from paper.reproduction.plan import PROFILES, plan  # torch takes seconds to load
    from paper.reproduction.records import read_records

    one_of("--profile", profile, tuple(PROFILES))
    runs = plan("ab" if regime == "all" else regime, PROFILES[profile])
    runs = runs if only is None else _chosen(runs, only)
    if list_:
        _list(runs, out, output)
        return
    report.require_figures()
    report.require_report()
    make_folder(out)
    typed = f"python -m paper reproduce --regime {regime} --profile {profile}"
    typed += f" --only {only}" if only else ""
    # All records of the profile: a run of one regime keeps the tables of the other.
    folder, whole = make_folder(out / profile), plan("ab", PROFILES[profile])
    done = []
    for number, run in enumerate(runs, start=1):
        done.append(_run(run, out, number, len(runs), output))
        if not done[-1]["was_known"]:  # a command that ends early leaves a page of what it did
            _write_tables(folder, read_records(out, whole), typed)
    files = _write(folder, read_records(out, whole), typed)
    output.line("\nWritten:\n" + "\n".join(f"  {file}" for file in files))
    output.line(f"Done in {output.seconds:.1f} s.")
    output.document(
        regime=regime, profile=profile, runs=done,
        files=[str(f) for f in files], seconds=output.seconds,
    )  # fmt: skip


def _chosen(runs: list[Run], only: str) -> list[Run]:
    keys = tuple(dict.fromkeys(run.entry.key for run in runs))
    chosen = [one_of("--only", word.strip(), keys) for word in only.split(",")]
    return [run for run in runs if run.entry.key in chosen]


def _write(folder: Path, records: list[dict[str, Any]], typed: str) -> list[Path]:
    from paper.reproduction.figures import draw_figures

    return [*_write_tables(folder, records, typed), *draw_figures(folder, records)]


def _write_tables(folder: Path, records: list[dict[str, Any]], typed: str) -> list[Path]:
    from paper.reproduction.page import write_page
    from paper.reproduction.tables import write_tables

    return [write_page(folder, records, typed), *write_tables(folder, records, typed)]


def _run(run: Run, out: Path, number: int, total: int, output: Output) -> dict[str, Any]:
    from paper.reproduction.records import find_record
    from paper.reproduction.run import execute

    record, start = find_record(out, run), time.perf_counter()
    recorded = record is not None
    if record is None:
        with output.progress(run.name) as bar:
            record = execute(run, out, bar)
    seconds = time.perf_counter() - start
    errors = {t: s["relative_l2"] for t, s in record["scores"].items() if "relative_l2" in s}
    shown = "  ".join(f"{task} {error:.4f}" for task, error in errors.items())
    word = "recorded" if recorded else f"{seconds:.1f} s"
    output.line(f"[{number}/{total}] {run.name:<28} {word:>8}  rel L2: {shown}")
    return {"name": run.name, "was_known": recorded, "seconds": seconds, "relative_l2": errors}


def _list(runs: list[Run], out: Path, output: Output) -> None:
    from paper.reproduction.records import find_record

    states = [_state(run, out, find_record(out, run)) for run in runs]
    rows = [
        [run.name, run.entry.label, run.entry.noise or "", str(run.epochs or ""), state,
         "" if state == "done" else _duration(run.estimate)]
        for run, state in zip(runs, states, strict=True)
    ]  # fmt: skip
    header = ("run", "system", "noise", "epochs", "state", "about")
    output.table(f"{len(runs)} runs into {out}", header, rows)
    left = sum(r.estimate for r, s in zip(runs, states, strict=True) if s != "done")
    output.line(f"About {_duration(left)} to go on one idle core, less where training ends early.")
    output.document(
        command="reproduce", seconds_left=left,
        runs=[
            {"name": r.name, "entry": r.entry.key, "epochs": r.epochs, "state": s,
             "seconds": r.estimate, "shortened": r.shortened}
            for r, s in zip(runs, states, strict=True)
        ],
    )  # fmt: skip


def _state(run: Run, out: Path, record: Any) -> str:
    if record is not None:
        return "done"
    return "begun" if (out / "runs" / run.profile.name / run.name).exists() else "to do"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

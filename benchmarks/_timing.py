"""Interleaved timings, and results that are written whole or not at all."""

from __future__ import annotations

import os

# Before NumPy loads its BLAS: one thread, so that a ratio means the same on every machine.
for _name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"

import json  # noqa: E402
import platform  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Collection, Mapping  # noqa: E402
from importlib import metadata  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

RESULTS = Path(__file__).with_name("results")
#: Exit code of a benchmark that misses a limit; one that fails has the code 1 of Python.
MISSED = 3


def interleaved_medians(
    tasks: Mapping[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
    of_one_thread: Collection[str] = (),
) -> dict[str, dict[str, float]]:
    """Median, smallest and largest wall time of each task in seconds.

    The tasks take turns, so that a busy neighbour slows all of them equally; a first, untimed
    turn loads caches and memory. ``time.process_time`` counts the time of this process alone, and
    of all its threads; tasks ``of_one_thread`` are not charged for those that others left awake.
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(repeats + 1):
        for name, task in tasks.items():
            now = time.thread_time if name in of_one_thread else clock
            start = now()
            task()
            if turn:
                seconds[name].append(now() - start)
    return {
        name: {"median": statistics.median(s), "min": min(s), "max": max(s)}
        for name, s in seconds.items()
    }


def versions(*packages: str) -> dict[str, str]:
    """Versions of Python and of packages, the ones that decide the speed."""
    return {"python": platform.python_version(), **{p: metadata.version(p) for p in packages}}


def current_commit() -> str:
    """Of the code that runs; empty where it is under no control."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def write_results(name: str, document: dict[str, Any], markdown: str) -> None:
    """Write ``results/<name>.json`` and ``results/<name>.md``."""
    RESULTS.mkdir(exist_ok=True)
    _write(RESULTS / f"{name}.json", json.dumps(document, indent=2) + "\n")
    _write(RESULTS / f"{name}.md", markdown)


def write_if_whole(name: str, document: dict[str, Any], markdown: str, missing: list[str]) -> None:
    """The same, unless rivals are not installed and an earlier run has them: no row is lost."""
    if missing and (RESULTS / f"{name}.json").exists():
        print(f"not written: results/{name}.md has {', '.join(missing)}, not installed here")
        return
    write_results(name, document, markdown)


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; every column but the first is set to the right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _write(path: Path, text: str) -> None:
    work = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        work.write_text(text, encoding="utf-8")
        work.replace(path)
    finally:
        work.unlink(missing_ok=True)

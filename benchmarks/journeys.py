"""The journeys of a new user on real data: every command from file to report, timed.

``python -m benchmarks.journeys FOLDER [--write]`` takes ``ersstv5-2010-2020.nc`` and
``noaa-tmax-1990-1993.csv.gz`` of a folder through the shell. A command that fails is a dead end:
its error is shown, and the exit code is 1. ``--write`` stores the table in
``results/journeys.md``.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "journeys.md"
SST = "{folder}/ersstv5-2010-2020.nc"
PACIFIC = "--variable sst --select lat=-30:30 --select lon=120:290 --anomalies month"
TMAX = "{folder}/noaa-tmax-1990-1993.csv.gz"
COLUMNS = "--time date --value tmax --station station --lon lon --lat lat --units degC"
YEAR = f"{COLUMNS} --anomalies dayofyear --select time=1990:1990"
COMMANDS = {
    "Pacific map": (
        f"info {SST}",
        f"fit {SST} {PACIFIC} --dry-run",
        f"skill {SST} {PACIFIC} --coarsen lat=2 --coarsen lon=2 --domain eof --modes 4,8 "
        "--leads 1,3,6 --refits 1 --most-origins 24 --save-law best.law",
        f"fit {SST} {PACIFIC} --coarsen lat=2 --coarsen lon=2 --modes 8 --out sst.law",
        f"evaluate best.law {SST} --variable sst",
        f"forecast best.law {SST} --variable sst --steps 6 --out ahead.nc",
        f"forecast best.law {SST} --variable sst --steps 6 --out ahead.csv",
        f"report best.law {SST} --variable sst --out report.html",
    ),
    "stations": (
        f"info {TMAX}",
        f"fit {TMAX} {YEAR} --modes 12 --out tmax.law",
        f"evaluate tmax.law {TMAX}",
        f"forecast tmax.law {TMAX} --origin 1990-12-31 --steps 3 --out days.csv",
        f"forecast tmax.law {TMAX} --origin 1990-12-31 --steps 3 --out days.nc",
        "reconstruct tmax.law {folder}/noaa-tmax-1990-1993.csv.gz --places places.csv "
        "--out places-tmax.csv",
        f"fill {TMAX} {YEAR} --modes 12 --basis domain --drift diagonal --out full.csv "
        "--save-law fill.law",
    ),
}


def run(folder: Path) -> tuple[list[str], int]:
    """Rows of the table, and the number of commands that failed."""
    rows, failed = [], 0
    with tempfile.TemporaryDirectory() as work:
        Path(work, "places.csv").write_text("lon,lat\n-88.0,40.0\n-90.5,38.2\n", "utf-8")
        for name, lines in COMMANDS.items():
            for line in lines:
                start, before = time.perf_counter(), children_seconds()
                words = [word.format(folder=folder) for word in line.split()]
                done = subprocess.run(
                    [sys.executable, "-m", "spdelaw", *words, "--quiet"], cwd=work,
                    capture_output=True, text=True, check=False,
                )  # fmt: skip
                seconds, cpu = time.perf_counter() - start, children_seconds() - before
                failed += done.returncode != 0
                error = done.stderr.strip().splitlines()
                ending = "ok" if done.returncode == 0 else f"FAILED: {error[-1] if error else ''}"
                shown = line.replace("{folder}/", "")
                rows.append(f"| {name} | `{shown}` | {cpu:.1f} | {seconds:.1f} | {ending} |")
                print(rows[-1], flush=True)
    return rows, failed


def children_seconds() -> float:
    """CPU seconds of all commands so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    """Run all journeys; 1 where a command failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder with the data")
    parser.add_argument("--write", action="store_true", help=f"store the table in {RESULTS.name}")
    given = parser.parse_args()
    rows, failed = run(given.folder.absolute())
    if given.write:
        head = [
            "# Journeys on real data", "", "`python -m benchmarks.journeys FOLDER --write`", "",
            "| journey | command | CPU s | s | |", "| --- | --- | ---: | ---: | --- |",
        ]  # fmt: skip
        RESULTS.write_text("\n".join([*head, *rows]) + "\n", "utf-8")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

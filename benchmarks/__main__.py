"""Every benchmark of speed, one after another: ``make bench``, or ``python -m benchmarks``.

Each ``benchmarks/bench_*.py`` runs in a process of its own and rewrites its results; what it needs
and is missing gets one line, and so does a benchmark that takes hours and is run by hand. The last
words are one line per benchmark: met, missed or not run, and how long it took. ``--only NAME``
runs some.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from benchmarks._timing import MISSED

FOLDER = Path(__file__).parent
#: What a benchmark that ran says by its exit code.
OUTCOMES = {0: "met", MISSED: "missed", 2: "not run"}
#: Studies over many data sets, trainings, and runs on data that are not part of the repository.
BY_HAND = {
    "bench_default_skill": "python -m benchmarks.bench_default_skill FOLDER, with real records",
    "bench_distributed": "python -m benchmarks.bench_distributed --gigabytes 30 --folder big",
    "bench_fields": "python -m benchmarks.bench_fields run CASE, then report",
    "bench_fill": "python -m benchmarks.bench_fill --data FOLDER, with real records",
    "bench_local": "python -m benchmarks.bench_local COMMIT, against an earlier commit",
    "bench_semilinear": "python -m benchmarks.bench_semilinear run CASE, then report",
    "bench_semilinear_recipes": "python -m benchmarks.bench_semilinear_recipes 100 8",
    "bench_semilinear_start": "python -m benchmarks.bench_semilinear_start 300",
    "bench_sfi": "python -m benchmarks.bench_sfi make, with an environment of its rival's own",
    "bench_skill": "python -m benchmarks.bench_skill --data FOLDER, with real records",
    "bench_structured": "python -m benchmarks.bench_structured, six trainings",
}
#: This one reads what others have written.
LAST = "bench_limits"


def main() -> int:
    """Run the requested benchmarks and print the results; 1 where a limit was missed."""
    names = sorted((file.stem for file in FOLDER.glob("bench_*.py")), key=lambda n: (n == LAST, n))
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=names, default=names)
    asked, said = parser.parse_args().only, list[str]()
    missed = False
    for name in (name for name in names if name in asked):
        if name in BY_HAND and asked == names:
            said.append(f"{name}: by hand ({BY_HAND[name]})")
            continue
        print(f"== {name}", flush=True)
        start = time.perf_counter()
        code = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"]).returncode
        missed |= code not in (0, 2)
        outcome = OUTCOMES.get(code, f"failed with exit code {code}")
        said.append(f"{name}: {outcome}, {time.perf_counter() - start:.0f} s")
    print("\n".join(["", *said]))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())

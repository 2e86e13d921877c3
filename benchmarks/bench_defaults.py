"""Fits by default, against those of an earlier commit: CPU time and maximisations.

``python -m benchmarks.bench_defaults COMMIT`` checks the commit out into a temporary folder and
fits the same data with both, in turn, each time in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._timing import table, versions, write_results

import numpy as np  # isort: skip

ROOT = Path(__file__).parents[1]
REPEATS = 3
#: What a case may take, relative to the earlier commit.
LIMITS = {"paths": 1 / 3, "short": 1 / 5, "readme": 1.0, "stations": 1 / 2, "dense": 1 / 2}


def main() -> None:
    """Time all cases, print and write the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("commit")
    parser.add_argument("--case", choices=CASES, help="one fit in this process")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.case)))
        return
    with tempfile.TemporaryDirectory() as folder:
        earlier = Path(folder) / "earlier"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", str(earlier), options.commit], check=True)
        try:
            rows = {case: side_by_side(case, earlier / "src") for case in CASES}
        finally:
            subprocess.run([*git, "remove", "--force", str(earlier)], check=True)
    document = {
        "command": f"python -m benchmarks.bench_defaults {options.commit}",
        "rows": rows,
        "repeats": REPEATS,
        "versions": versions("numpy", "scipy", "numba"),
    }
    text = markdown(document)
    write_results("defaults", document, text)
    print(text)


def markdown(document: dict[str, Any]) -> str:
    """The table."""
    rows = []
    for case, seconds in document["rows"].items():
        now, before = (statistics.median(seconds[side]) for side in ("now", "before"))
        spread = f"{min(seconds['now']):.2f} to {max(seconds['now']):.2f}"
        rows.append(
            [CASES[case][0], f"{before:.2f}", f"{now:.2f} ({spread})", f"{now / before:.2f}",
             f"{LIMITS[case]:.2f}"]
        )  # fmt: skip
    head = ["default fit", "before, CPU s", "now, CPU s", "ratio", "limit"]
    return f"`{document['command']}`\n\n{table(head, rows)}\n"


def side_by_side(case: str, earlier: Path) -> dict[str, list[float]]:
    """CPU seconds of each run of both, which take turns."""
    sides = {"now": ROOT / "src", "before": earlier}
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(REPEATS):
        for side, source in sides.items():
            seconds[side].append(in_a_process(case, source))
    return seconds


def in_a_process(case: str, source: Path) -> float:
    """CPU seconds of one fit with the package in ``source``."""
    command = [sys.executable, "-m", "benchmarks.bench_defaults", "-", "--case", case]
    path = os.pathsep.join([str(source), str(ROOT)])
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment = {**os.environ, **threads, "PYTHONPATH": path}
    run = subprocess.run(
        command, capture_output=True, check=True, text=True, cwd=ROOT, env=environment
    )
    return float(json.loads(run.stdout.splitlines()[-1]))


def measure(case: str) -> float:
    """CPU seconds of one fit; data and imports do not count."""
    fit = CASES[case][1]()
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit()
    return time.process_time() - start


def gappy_paths(n_paths: int, n_times: int, n_points: int, missing: float, n_modes: int) -> Any:
    """Noisy paths of the heat equation with gaps."""
    import spdelaw as sl

    equation = sl.catalogue.heat(n_modes=n_modes)
    times, points = np.linspace(0, 1, n_times), np.linspace(0, np.pi, n_points)
    fields = sl.simulate(equation, n_paths, times, points, seed=0, observation_std=0.05)
    fields = sl.mask(fields, "random", fraction=missing, seed=0)
    return lambda: sl.fit(fields, sl.Interval(0, np.pi), n_modes)


def stations() -> Any:
    """137 places scattered over a box, one record of 400 days, 10 % missing."""
    import spdelaw as sl

    rng = np.random.default_rng(0)
    box = sl.Box((0.0, 2.0), (0.0, 1.0), boundary="neumann")
    points = rng.random((137, 2)) * [2.0, 1.0]
    rates, times = 0.3 + 0.05 * box.eigenvalues(8), np.arange(400.0)
    equation = sl.SpectralSPDE(box, 8, rates, noise=np.ones(8), initial="stationary")
    values = sl.simulate(equation, 1, times, points, seed=0, observation_std=0.3).values[0]
    values = np.where(rng.random(values.shape) < 0.1, np.nan, values)
    return lambda: sl.fit(values, box, 6, times=times, points=points)


def dense_record() -> Any:
    """One noisy record of 1200 times, 20 modes that drift and noise couple."""
    import spdelaw as sl

    rng = np.random.default_rng(0)
    n, domain = 20, sl.Interval(0, np.pi)
    skew = rng.standard_normal((n, n)) / np.sqrt(n)
    drift = np.diag(np.linspace(0.5, 3.0, n)) + 0.5 * (skew - skew.T)
    equation = sl.SpectralSPDE(domain, n, drift, noise=np.ones(n), initial="stationary")
    points = np.linspace(0, np.pi, 42)[1:-1]
    fields = sl.simulate(equation, 1, 0.1 * np.arange(1200), points, seed=0, observation_std=0.1)
    return lambda: sl.fit(fields, domain, n, drift="dense", noise="dense")


#: What is fitted, and a function that prepares the fit.
CASES: dict[str, tuple[str, Callable[[], Callable[[], Any]]]] = {
    "paths": (
        "60 paths of 41 times at 101 points, 30 % missing, 8 modes",
        lambda: gappy_paths(60, 41, 101, 0.3, 8),
    ),
    "short": (
        "8 paths of 41 times at 12 points, 40 % missing, 7 modes",
        lambda: gappy_paths(8, 41, 12, 0.4, 7),
    ),
    "readme": ("the README example", lambda: gappy_paths(60, 101, 101, 0.3, 8)),
    "stations": ("137 stations, 400 times, 10 % missing, 6 modes", stations),
    "dense": ("one record of 1200 times, 20 dense modes, noisy", dense_record),
}


if __name__ == "__main__":
    main()

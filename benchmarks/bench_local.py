"""Fits of arrays in memory, against those of an earlier commit: CPU time and largest memory.

``python -m benchmarks.bench_local COMMIT`` checks the commit out into a temporary folder and fits
the same data with both, in turn, each time in a process of its own: what was added for fields that
no machine holds may cost nothing where fields fit into memory.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks._timing import table, versions, write_results

import numpy as np  # isort: skip

ROOT = Path(__file__).parents[1]
REPEATS = 5
#: Name, paths, times, points, part that is missing, standard deviation of the noise.
CASES = {
    "complete": ("complete, noise-free", 1000, 201, 101, 0.0, 0.0),
    "noisy": ("complete, noisy", 1000, 201, 101, 0.0, 0.1),
    "gaps": ("noisy, 40 % missing", 100, 101, 51, 0.4, 0.1),
}


def main() -> None:
    """Time all cases, print and write the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("commit")
    parser.add_argument("--case", choices=CASES, help="one fit in this process, for ourselves")
    asked = parser.parse_args()
    if asked.case:
        print(json.dumps(measured(asked.case)))
        return
    with tempfile.TemporaryDirectory() as folder:
        earlier = Path(folder) / "earlier"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", str(earlier), asked.commit], check=True)
        try:
            rows = {case: side_by_side(case, earlier / "src") for case in CASES}
        finally:
            subprocess.run([*git, "remove", "--force", str(earlier)], check=True)
    document = {"command": f"python -m benchmarks.bench_local {asked.commit}", "rows": rows,
                "repeats": REPEATS, "versions": versions("numpy", "scipy", "numba")}  # fmt: skip
    text = markdown(document)
    write_results("local", document, text)
    print(text)


def side_by_side(case: str, earlier: Path) -> dict[str, dict[str, list[float]]]:
    """CPU seconds and GB of each run of both, which take turns."""
    sides = {"now": ROOT / "src", "before": earlier}
    told: dict[str, dict[str, list[float]]] = {s: {"seconds": [], "memory": []} for s in sides}
    for _ in range(REPEATS):
        for side, source in sides.items():
            for key, value in in_a_process(case, source).items():
                told[side][key].append(value)
    return told


def in_a_process(case: str, source: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.bench_local", "-", "--case", case]
    path = os.pathsep.join([str(source), str(ROOT)])
    run = subprocess.run(command, capture_output=True, check=True, text=True, cwd=ROOT,
                         env={**os.environ, "PYTHONPATH": path})  # fmt: skip
    return json.loads(run.stdout.splitlines()[-1])


def measured(case: str) -> dict[str, float]:
    """The second of two fits, so that nothing is imported or compiled in it."""
    import spdelaw as sl

    _, *size, missing, std = CASES[case]
    given = data(*size, missing, std)
    words: dict[str, Any] = {"observation_noise": "estimate" if std else "none", "nuisance": 0}
    if "mean" in inspect.signature(sl.Model).parameters:  # the earlier one may know none but zero
        words["mean"] = "zero"
    for _ in range(2):
        start = time.process_time()
        sl.fit(given, sl.Interval(0, np.pi), 8, **words)
        seconds = time.process_time() - start
    return {
        "seconds": seconds,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def data(n_paths: int, n_times: int, n_points: int, missing: float, std: float) -> Any:
    """A stationary stochastic heat equation of eight modes, drawn without our own simulator."""
    import xarray as xr

    import spdelaw as sl

    generator, rates = np.random.default_rng(5), np.arange(1, 9) ** 2.0
    times, points = np.linspace(0.0, 2.0, n_times), np.linspace(0.0, np.pi, n_points)
    a = np.exp(-rates * times[1])
    c = generator.standard_normal((n_paths, n_times, 8)) / np.sqrt(2.0 * rates)
    for t in range(1, n_times):
        c[:, t] = a * c[:, t - 1] + np.sqrt(1.0 - a**2) * c[:, t]
    values = c @ sl.Interval(0, np.pi).eigenfunctions(points, 8).T
    values += std * generator.standard_normal(values.shape)
    values[generator.random(values.shape) < missing] = np.nan
    coords = {"path": np.arange(n_paths), "time": times, "x": points}
    return xr.DataArray(values, coords, ("path", "time", "x"))


def markdown(document: dict[str, Any]) -> str:
    """The table, with the range of the ratios of neighbouring runs."""
    rows = []
    for case, sides in document["rows"].items():
        name, *size = CASES[case][:4]
        now, before = (np.array(sides[side]["seconds"]) for side in ("now", "before"))
        ratio = now / before
        memory = [statistics.median(sides[side]["memory"]) for side in ("now", "before")]
        rows.append([
            f"{name}, {' x '.join(map(str, size))}", f"{np.median(now):.3f}",
            f"{np.median(before):.3f}",
            f"{np.median(ratio):.2f} ({ratio.min():.2f} to {ratio.max():.2f})",
            *(f"{gb:.2f}" for gb in memory),
        ])  # fmt: skip
    head = ["fit, 8 modes", "CPU s", "before", "ratio (range)", "GB", "before"]
    return "\n".join([
        "# Fits in memory, now and before fields could be lazy", "", table(head, rows), "",
        f"Command: `{document['command']}`. {document['repeats']} runs of each in turn, the second "
        "fit of a process; largest memory of the process.",
        f"Versions: {', '.join(f'{k} {v}' for k, v in document['versions'].items())}.", "",
    ])  # fmt: skip


if __name__ == "__main__":
    main()

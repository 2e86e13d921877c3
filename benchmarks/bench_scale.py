"""Memory and time of a large problem: 64 x 64 points, 256 modes, 200 times, 200 paths.

Run it with ``python -m benchmarks.bench_scale``. Two data sets of that size are fitted in
processes of their own, so that each has its own peak of memory: complete, and with 30 % of the
values missing at random and noise. Coupled by gaps, 256 modes would need a matrix of 256 x 256 for
each of 40,000 rows, 21 GB; `spdelaw.fit` then takes each mode by its marginal likelihood.
Complete fields are also fitted with fewer modes, to see how the time grows with their number.
``--small`` is for trying it out.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

from benchmarks._timing import MISSED, RESULTS, table, versions, write_results

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip

COMMAND = "python -m benchmarks.bench_scale"
FULL = {"side": 64, "n_modes": 256, "n_times": 200, "n_paths": 200}
SMALL = {"side": 24, "n_modes": 32, "n_times": 40, "n_paths": 40}
MISSING, NOISE = 0.3, 0.1
#: Peak of memory that both fits must stay below, data included.
LIMIT_GB = 4.0
#: Shares of the modes with which complete fields are fitted.
SHARES = (4, 2, 1)


def main() -> int:
    """Run both fits, print and write what they took; `MISSED` where one took too much memory."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true")
    options.add_argument("--run", choices=("complete", "gaps"))
    options.add_argument("--modes", type=int)
    asked = options.parse_args()
    size = SMALL if asked.small else FULL
    if asked.run:
        print(json.dumps(_run(asked.run == "gaps", size, asked.modes or size["n_modes"])))
        return 0
    passed = ["--small"] if asked.small else []
    known = {} if asked.small else _known()
    kinds = [("gaps", size["n_modes"]), *(("complete", size["n_modes"] // n) for n in SHARES)]
    for kind, n_modes in kinds:
        run = _in_own_process(kind, [*passed, "--modes", str(n_modes)])
        known[run["data"], run["modes"]] = run | {"version": sl.__version__}
        runs = sorted(known.values(), key=lambda row: (row["data"] != "complete", row["modes"]))
        document = {
            "command": " ".join([COMMAND, *passed]), "threads": 1, "size": size,
            "missing": MISSING, "limit_gb": LIMIT_GB, "runs": runs,
            "versions": {"spdelaw": sl.__version__, **versions("numpy", "scipy")},
        }  # fmt: skip
        if not asked.small:
            write_results("scale", document, _markdown(document))
    print(_markdown(document))
    return 0 if all(row["peak_gb"] < LIMIT_GB for row in runs) else MISSED


def _known() -> dict[tuple[str, int], dict]:
    """Runs of earlier times, which stay until they are repeated."""
    file = RESULTS / "scale.json"
    runs = json.loads(file.read_text(encoding="utf-8"))["runs"] if file.exists() else []
    return {(row["data"], row["modes"]): {"version": "0.1.0", **row} for row in runs}


def _in_own_process(kind: str, passed: list[str]) -> dict:
    command = [sys.executable, "-m", "benchmarks.bench_scale", "--run", kind, *passed]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _run(gaps: bool, size: dict[str, int], n_modes: int) -> dict:
    """Simulate, fit, and compare with the truth."""
    domain = sl.Box((0, np.pi), (0, np.pi))
    equation = sl.catalogue.heat_on(domain, n_modes, nu=0.02, noise=sl.PowerLaw(0.5))
    start = time.perf_counter()
    fields = sl.simulate(
        equation, size["n_paths"], np.linspace(0.0, 2.0, size["n_times"]),
        domain.grid(size["side"]), seed=0, observation_std=NOISE if gaps else 0.0,
    )  # fmt: skip
    if gaps:  # in place, path by path: a second copy of the data is no part of the fit
        rng = np.random.default_rng(0)
        for path in fields.values:
            path[rng.uniform(size=path.shape) < MISSING] = np.nan
    data = _peak()
    simulated, cpu = time.perf_counter(), time.process_time()
    law = sl.fit(fields, domain, n_modes, initial="stationary")
    table_ = law.parameters["eigenvalue"]
    error = table_.sel(statistic="estimate").values - equation.eigenvalues
    return {
        "data": "30 % missing, noise" if gaps else "complete",
        "modes": n_modes,
        "route": law.info["route"] + (", decoupled" if _decoupled(law) else ""),
        "parameters": law.info["n_parameters"],
        "simulate_seconds": simulated - start,
        "fit_seconds": time.perf_counter() - simulated,
        "fit_cpu_seconds": time.process_time() - cpu,
        "evaluations": law.info["convergence"]["evaluations"],
        "data_gb": data,
        "peak_gb": _peak(),
        "largest_z": float(np.abs(error / table_.sel(statistic="stderr").values).max()),
    }


def _decoupled(law: sl.Law) -> bool:
    return any("marginal likelihood" in note for note in law.info["warnings"])


def _peak() -> float:
    """Largest resident memory so far in GB."""
    unit = 1.0 if sys.platform == "darwin" else 1024.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def _markdown(d: dict) -> str:
    rows = [
        [
            row["data"], str(row["modes"]), row["route"], str(row["parameters"]),
            f"{row['data_gb']:.2f}", f"{row['peak_gb']:.2f}",
            f"{row.get('fit_cpu_seconds', row['fit_seconds']):.1f}",
            str(row["evaluations"]), f"{row['largest_z']:.1f}", row["version"],
        ]
        for row in d["runs"]
    ]  # fmt: skip
    header = [
        "data", "modes", "route", "parameters", "peak after simulation, GB", "peak, GB",
        "fit, s of the processor", "evaluations",
        "largest error of an eigenvalue, standard errors", "version",
    ]  # fmt: skip
    s = d["size"]
    return "\n".join(
        [
            "# A large problem in two dimensions",
            "",
            f"{s['side']} x {s['side']} points, {s['n_times']} times, "
            f"{s['n_paths']} paths; memory has to stay below {d['limit_gb']:g} GB, data included.",
            "",
            table(header, rows),
            "",
            f"Command: `{d['command']}`. One thread, one run each.",
            f"Versions: {', '.join(f'{k} {v}' for k, v in d['versions'].items())}.",
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())

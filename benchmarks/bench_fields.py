"""Two fields at once: FitzHugh-Nagumo by the closure, Gray-Scott by the one-pass estimator.

Run ``python -m benchmarks.bench_fields run fitzhugh_nagumo --sets 20`` for one case (``list`` names
them) and ``python -m benchmarks.bench_fields report`` for the table. A run appends one line per
data set to ``<work>/<case>.jsonl`` and goes on where it stopped; every data set has its own seed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._timing import table, versions, write_results

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip
from spdelaw.errors import SpdeLawError  # isort: skip

WORK = Path(__file__).with_name("runs") / "fields"
COMMAND = "python -m benchmarks.bench_fields"
#: Half-width of a 95 % interval in standard errors.
Z = 1.959963984540054
AHEAD = 10
Record = dict[str, Any]

#: All monomials up to degree 3.
MONOMIALS = ("1", "u", "v", "u^2", "u v", "v^2", "u^3", "u^2 v", "u v^2", "v^3")
LIBRARY = {"u": MONOMIALS, "v": MONOMIALS}
EXCITABLE = {"u": ("u", "u^3", "v"), "v": ("1", "u", "v")}


def record(law: sl.Law, truth: dict[str, float], wall: float, cpu: float) -> Record:
    """One line of results."""
    errors = law.info["standard_errors"]
    return {
        "truth": {name: truth[name] for name in errors},
        "estimate": {name: law.info["estimates"][name] for name in errors},
        "stderr": errors,
        "robust": law.info["robust_errors"],
        "seconds": wall,
        "cpu": cpu,
        "rate_dt": law.info["closure"]["rate_dt"],
        "step_shift": law.info["closure"]["step_shift"],
    }


def excitable(seed: int, recovery: float, fixed: dict[str, float]) -> Record:
    """15 modes of each field, 10 paths of 100 steps of 0.1; ten more steps are forecast."""
    noise = sl.PowerLaw(1.5, recovery) if recovery else sl.White(0.0)
    e = sl.catalogue.fitzhugh_nagumo(15, recovery_noise=noise, times=0.1 * np.arange(101.0 + AHEAD))
    fields = sl.simulate(e, 10, seed=seed)
    seen, later = fields.isel(time=slice(None, -AHEAD)), fields.isel(time=[-1])
    wall, cpu = time.perf_counter(), time.process_time()
    law = sl.fit(seen, e.domain.domain, 15, terms=EXCITABLE, fixed=fixed)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    truth = {"nu u": 0.1, "nu v": 0.0, "scale u": 0.1, "exponent u": 1.5}
    truth |= {**e.terms, "scale v": recovery, "exponent v": 1.5}
    return record(law, truth, wall, cpu) | {"forecast": forecast(law, seen, later)}


def forecast(law: sl.Law, seen: Any, later: Any) -> Record:
    """Coverage at 50, 80 and 95 %, ten steps ahead: by the closure, and by an ensemble."""
    found = law.forecast(seen, later["time"].values, n_samples=200, seed=1)
    out = {}
    for level, z in ((50, 0.6745), (80, 1.2816), (95, 1.96)):
        error = np.abs(later.values - found["mean"].values)
        out[f"closure_{level}"] = float((error < z * found["std"].values).mean())
        ends = found["sample"].quantile([0.5 - level / 200, 0.5 + level / 200], "draw").values
        out[f"ensemble_{level}"] = float(
            ((later.values > ends[0]) & (later.values < ends[1])).mean()
        )
    return out


def spots(seed: int) -> Record:
    """Gray-Scott, 64 x 64 points, 797 modes of each field, 200 steps of 0.5; 10 terms a field."""
    e = sl.catalogue.gray_scott(times=np.arange(0.0, 100.5, 0.5))
    fields = sl.simulate(e, 1, seed=seed)
    wall, cpu = time.perf_counter(), time.process_time()
    found = sl.discover(fields, e.domain.domain, 797, LIBRARY, bootstrap=0)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    truth = {"nu u": 0.16, "nu v": 0.08, "scale u": 1e-4, "scale v": 1e-4}
    truth |= {"exponent u": 0.0, "exponent v": 0.0, **e.terms}
    truth = {name: 0.0 for name in found.terms} | truth
    closure = found.law.info["closure"]
    return record(found.law, truth, wall, cpu) | {
        "chosen": sorted(found.terms), "true_terms": sorted(e.terms),
        "frozen_shift": closure["frozen_shift"],
    }  # fmt: skip


CASES: dict[str, tuple[Callable[[int], Record], int]] = {
    "fitzhugh_nagumo": (lambda seed: excitable(seed, 0.02, {}), 20),
    "fitzhugh_nagumo_quiet_recovery": (
        lambda seed: excitable(seed, 0.0, {"nu v": 0.0, "scale v": 0.0}), 10,
    ),
    "gray_scott": (spots, 10),
}  # fmt: skip


def run(case: str, sets: int, work: Path) -> None:
    """Append records until there are ``sets`` of them."""
    function, _ = CASES[case]
    work.mkdir(parents=True, exist_ok=True)
    path = work / f"{case}.jsonl"
    done = len(path.read_text().splitlines()) if path.exists() else 0
    for k in range(done, sets):
        seed = 200_000 + 1000 * (zlib.crc32(case.encode()) % 1000) + k
        try:
            found = function(seed)
        except SpdeLawError as error:  # a failed fit is a result, too
            found = {"error": str(error)}
        with path.open("a") as file:
            file.write(json.dumps({"seed": seed, **found}) + "\n")


def summary(records: list[Record]) -> Record:
    """Bias and spread in standard errors, coverage and times."""
    good = [r for r in records if "error" not in r]
    names = [n for n in good[0]["stderr"] if all(n in r["stderr"] for r in good)]
    z = np.array(
        [[(r["estimate"][n] - r["truth"][n]) / r["stderr"][n] for n in names] for r in good]
    )
    out = {
        "sets": len(good),
        "failed": len(records) - len(good),
        "bias": dict(zip(names, z.mean(0).round(3).tolist(), strict=True)),
        "worst": float(np.abs(z).max()),
        "coverage": float((np.abs(z) < Z).mean()),
        "cpu": float(np.median([r["cpu"] for r in good])),
        "rate_dt": float(np.median([r["rate_dt"] for r in good])),
    }
    if "forecast" in good[0]:
        keys = good[0]["forecast"]
        out["forecast"] = {k: float(np.mean([r["forecast"][k] for r in good])) for k in keys}
    if "chosen" in good[0]:
        out["right"] = sum(r["chosen"] == r["true_terms"] for r in good)
        out["frozen_shift"] = float(np.median([r["frozen_shift"] for r in good]))
    return out


def report(work: Path) -> None:
    """Write ``results/fields.json`` and ``.md`` from what is there."""
    found = {}
    for case in CASES:
        path = work / f"{case}.jsonl"
        if path.exists():
            found[case] = summary([json.loads(line) for line in path.read_text().splitlines()])
    document = {"command": COMMAND, "cases": found, "versions": versions("numpy", "scipy")}
    text = _markdown(document)
    write_results("fields", document, text)
    print(text)


def _markdown(d: Record) -> str:
    rows = []
    for case, s in d["cases"].items():
        bias = ", ".join(f"{k} {v:+.2f}" for k, v in s["bias"].items())
        right = f"{s['right']} of {s['sets']}" if "right" in s else "given"
        rows.append(
            [case, f"{s['sets']}", right, bias, f"{s['worst']:.1f}",
             f"{100 * s['coverage']:.1f}", _levels(s, "closure"), _levels(s, "ensemble"),
             f"{s['rate_dt']:.2f}", f"{s['cpu']:.1f}", f"{s['failed']}"]
        )  # fmt: skip
    head = ["case", "data sets", "right terms", "bias in standard errors", "largest",
            "coverage [%]", "closure forecast", "ensemble forecast", "rate dt", "cpu [s]",
            "failed"]  # fmt: skip
    return "\n".join(
        [
            "# Two fields at once: bias, coverage, terms and time",
            "",
            "Bias is the mean of (estimate - truth) / standard error; its own Monte-Carlo error is "
            "one over the root of the number of data sets. Largest: of all (estimate - truth) / "
            "standard error. Coverage of 95 % intervals, all parameters pooled. Forecasts: "
            "coverage of field values ten steps ahead at 50/80/95 %.",
            "",
            table(head, rows),
            "",
            f"Commands: `{d['command']} run <case> --sets N --work DIR`, "
            f"`{d['command']} report --work DIR`; a run goes on where it stopped.",
            f"Versions: {', '.join(f'{k} {v}' for k, v in d['versions'].items())}.",
            "",
        ]
    )


def _levels(s: Record, kind: str) -> str:
    found = s.get("forecast", {})
    return "/".join(f"{100 * v:.0f}" for key, v in found.items() if key.startswith(kind)) or "-"


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["run", "report", "list"])
    parser.add_argument("case", nargs="?", choices=list(CASES))
    parser.add_argument("--sets", type=int)
    parser.add_argument("--work", type=Path, default=WORK)
    given = parser.parse_args()
    if given.action == "list":
        print("\n".join(CASES))
    elif given.action == "report":
        report(given.work)
    else:
        for case in [given.case] if given.case else list(CASES):
            run(case, given.sets or CASES[case][1], given.work)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Recovery of known laws over many data sets: runs that go on where they stopped, and their table.

A case is a function of a seed. It returns what was true, what was found and how long it took, as a
`Record`; a run appends one line per data set to ``<work>/<case>.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks._timing import RESULTS, table, versions, write_results

import numpy as np  # isort: skip

from spdelaw.errors import SpdeLawError  # isort: skip

#: Levels of bands, with the half-width of each in standard errors.
LEVELS = {50: 0.6744897501960817, 80: 1.2815515655446004, 95: 1.959963984540054}
Record = dict[str, Any]
#: A case and the number of data sets that it is meant to have.
Cases = Mapping[str, tuple[Callable[[int], Record], int]]


def timed(function: Callable[[], Any]) -> tuple[Any, Record]:
    """Result of a call, with its wall and processor seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    out = function()
    return out, {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def compare(
    truth: Mapping[str, float], found: Mapping[str, float], stderr: Mapping[str, float],
    robust: Mapping[str, float],
) -> Record:  # fmt: skip
    """Estimate and truth, for every number with a standard error."""
    names = [name for name in stderr if name in truth]
    pick = {"truth": truth, "estimate": found, "stderr": stderr, "robust": robust}
    return {key: {name: float(values[name]) for name in names} for key, values in pick.items()}


def coverage(later: np.ndarray, mean: np.ndarray, std: np.ndarray, draws: np.ndarray) -> Record:
    """Coverage of values by Gaussian bands and by quantiles of an ensemble (draw, ...)."""
    out = {}
    for level, z in LEVELS.items():
        low, high = np.quantile(draws, [0.5 - level / 200, 0.5 + level / 200], axis=0)
        out[f"closure_{level}"] = float((np.abs(later - mean) < z * std).mean())
        out[f"ensemble_{level}"] = float(((later > low) & (later < high)).mean())
    return out


def run(cases: Cases, case: str, sets: int, work: Path, offset: int) -> None:
    """Append records until there are ``sets`` of them; a failed fit is a result, too."""
    work.mkdir(parents=True, exist_ok=True)
    path = work / f"{case}.jsonl"
    done = len(path.read_text().splitlines()) if path.exists() else 0
    for k in range(done, sets):
        seed = offset + 1000 * (zlib.crc32(case.encode()) % 1000) + k
        try:
            record = cases[case][0](seed)
        except SpdeLawError as error:
            record = {"error": str(error)}
        with path.open("a") as file:
            file.write(json.dumps({"seed": seed, **record}) + "\n")


def summary(records: list[Record]) -> Record:
    """Bias and spread in standard errors, coverage, right terms, forecasts and times."""
    good = [r for r in records if "error" not in r]
    names = [n for n in good[0]["stderr"] if all(n in r["stderr"] for r in good)]
    off = np.array([[r["estimate"][n] - r["truth"][n] for n in names] for r in good])
    z, robust = (
        off / np.array([[r[kind][n] for n in names] for r in good]) for kind in ("stderr", "robust")
    )
    out = {
        "sets": len(good),
        "failed": len(records) - len(good),
        "bias": dict(zip(names, z.mean(0).round(3).tolist(), strict=True)),
        "spread": dict(zip(names, z.std(0).round(3).tolist(), strict=True)),
        "worst": float(np.abs(z).max()),
        "coverage": float((np.abs(z) < LEVELS[95]).mean()),
        "coverage_robust": float((np.abs(robust) < LEVELS[95]).mean()),
        "distance": float(np.sqrt((off**2).sum(1).mean())),
    }
    for name in ("seconds", "cpu", "choice_cpu", "rate_dt", "step_shift"):
        if name in good[0]:
            out[name] = float(np.median([r[name] for r in good]))
    if "chosen" in good[0]:
        out["right"] = sum(r["chosen"] == r["true_terms"] for r in good)
    forecasts = [r["forecast"] for r in good if "forecast" in r]
    if forecasts:
        out["forecast"] = {k: float(np.mean([f[k] for f in forecasts])) for k in forecasts[0]}
    return out


def collect(name: str, cases: Cases, work: Path, code: str) -> dict[str, Record]:
    """Summaries of what is in ``work``; rows of earlier reports stand where they have more sets."""
    path = RESULTS / f"{name}.json"
    found = json.loads(path.read_text()).get("cases", {}) if path.exists() else {}
    for case in cases:
        lines = work / f"{case}.jsonl"
        if lines.exists():
            own = summary([json.loads(line) for line in lines.read_text().splitlines()])
            if own["sets"] >= found.get(case, own)["sets"]:
                found[case] = own | ({"code": code} if code else {})
    return {case: found[case] for case in cases if case in found}


#: Columns that any table of recovery may have: heading and how a summary fills it.
COLUMNS: dict[str, Callable[[Record], str]] = {
    "data sets": lambda s: f"{s['sets']}",
    "right terms": lambda s: f"{s['right']} of {s['sets']}" if "right" in s else "given",
    "error": lambda s: f"{s['distance']:.3f}",
    "bias in standard errors": lambda s: ", ".join(f"{k} {v:+.2f}" for k, v in s["bias"].items()),
    "largest": lambda s: f"{s['worst']:.1f}",
    "coverage [%]": lambda s: f"{100 * s['coverage']:.1f}",
    "robust [%]": lambda s: f"{100 * s['coverage_robust']:.1f}" if "coverage_robust" in s else "-",
    "closure forecast": lambda s: _levels(s, "closure"),
    "ensemble forecast": lambda s: _levels(s, "ensemble"),
    "rate dt": lambda s: f"{s['rate_dt']:.2f}" if "rate_dt" in s else "-",
    "wall [s]": lambda s: f"{s['seconds']:.1f}" if "seconds" in s else "-",
    "cpu [s]": lambda s: f"{s['cpu']:.1f}",
    "choice, cpu [s]": lambda s: f"{s['choice_cpu']:.1f}",
    "failed": lambda s: f"{s['failed']}",
    "code": lambda s: s.get("code", "earlier"),
}


def _levels(s: Record, kind: str) -> str:
    found = s.get("forecast", {})
    return "/".join(f"{100 * v:.0f}" for key, v in found.items() if key.startswith(kind)) or "-"


#: What the columns say.
LEGEND = (
    "Bias is the mean of (estimate - truth) / standard error; its own Monte-Carlo error is one "
    "over the root of the number of data sets. Largest: of all (estimate - truth) / standard "
    "error. Coverage of 95 % intervals, all parameters pooled; robust: with the errors of the "
    "sandwich. Forecasts: coverage of field values ten steps ahead at 50/80/95 %. Times are "
    "medians on one core of a machine that others use, too. Code: the commit whose package made "
    "the row."
)


def report(
    name: str, title: str, legend: str, columns: list[str], cases: Cases, work: Path, code: str
) -> None:
    """Write ``results/<name>.json`` and ``.md``."""
    command = f"python -m benchmarks.bench_{name}"
    found = collect(name, cases, work, code)
    used = versions("numpy", "scipy")
    rows = [[case, *(COLUMNS[c](s) for c in columns)] for case, s in found.items()]
    text = "\n".join(
        [
            f"# {title}", "", legend, "", table(["case", *columns], rows), "",
            f"Commands: `{command} run <case> --sets N --work DIR`, "
            f"`{command} report --work DIR`; a run goes on where it stopped.",
            f"Versions: {', '.join(f'{k} {v}' for k, v in used.items())}.", "",
        ]
    )  # fmt: skip
    write_results(name, {"command": command, "cases": found, "versions": used}, text)
    print(text)


def main(
    name: str, title: str, columns: list[str], cases: Cases, offset: int, legend: str = LEGEND
) -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("action", nargs="?", choices=["run", "report", "list"], default="report")
    parser.add_argument("case", nargs="?", choices=list(cases))
    parser.add_argument("--sets", type=int)
    parser.add_argument("--work", type=Path, default=Path(__file__).with_name("runs") / name)
    parser.add_argument("--code", default="", help="report: the commit that made the new rows")
    given = parser.parse_args()
    if given.action == "list":
        print("\n".join(cases))
    elif given.action == "report":
        report(name, title, legend, columns, cases, given.work, given.code)
    else:
        for case in [given.case] if given.case else list(cases):
            run(cases, case, given.sets or cases[case][1], given.work, offset)
    return 0

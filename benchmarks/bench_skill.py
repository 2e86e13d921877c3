"""Forecast skill on real records: laws with a white residual and with memory, against their rivals.

Run it with ``python -m benchmarks.bench_skill --data FOLDER``, where the folder holds
``ersstv5-2010-2020.nc`` (NOAA ERSST v5) and ``noaa-tmax-1990-1993.csv.gz`` (daily maxima of 137
stations). Each case is one call of the shell, shown above its table. Cases that have a result are
not run again; ``--only`` picks some, ``--again`` runs them again.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks._timing import RESULTS, table, versions, write_results

COMMAND = "python -m benchmarks.bench_skill --data FOLDER"
PACIFIC = (
    "spdelaw skill ersstv5-2010-2020.nc --select lat=-30:30 --select lon=120:290 "
    "--anomalies month --leads 1,2,3,6,12 --first 96"
)
STATIONS = (
    "spdelaw skill noaa-tmax-1990-1993.csv.gz --time date --value tmax --station station "
    "--lon lon --lat lat --anomalies dayofyear --leads 1,2,3 --refits 1 --most-origins 40"
)
CASES = {
    "Pacific SST": PACIFIC,
    "Pacific SST, white residual": f"{PACIFIC} --residual white",
    "Pacific SST, 5 EOFs, dense drift": f"{PACIFIC} --domain eof --modes 5 --drift dense",
    "Stations": STATIONS,
    "Stations, 12 EOFs, diagonal drift": f"{STATIONS} --domain eof --modes 12 --drift diagonal",
}
SHOWN = {"rmse": "RMSE", "crps": "CRPS"}


def main() -> int:
    """All cases that have no result yet; tables of all that have one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default="", help="part of the name of a case")
    parser.add_argument("--again", action="store_true", help="run cases that have a result, too")
    asked = parser.parse_args()
    kept = RESULTS / "skill.json"
    found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {"cases": {}}
    found["cases"] = {name: case for name, case in found["cases"].items() if name in CASES}
    for name, line in CASES.items():
        if asked.only not in name or (name in found["cases"] and not asked.again):
            continue
        found["cases"][name] = _run(line, asked.data)
        found |= {"command": COMMAND, "versions": versions("numpy", "scipy", "xarray")}
        write_results("skill", found, _markdown(found))
        print(name, f"{found['cases'][name]['seconds']:.0f} s", flush=True)
    write_results("skill", found, _markdown(found))
    return 0


def _run(line: str, folder: Path) -> dict[str, Any]:
    """The document that the shell prints, with the line that asked for it."""
    call = [sys.executable, "-m", "spdelaw", *shlex.split(line)[1:], "--json"]
    start = _cpu_of_children()
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False)
    document: dict[str, Any] = json.loads(done.stdout)
    if done.returncode:
        raise SystemExit(f"{line}\n{done.stderr}")
    return document | {"line": line, "seconds": _cpu_of_children() - start}


def _cpu_of_children() -> float:
    """Seconds of CPU that finished subprocesses took: the same on a busy machine."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _markdown(found: dict[str, Any]) -> str:
    parts = ["# Forecast skill on real records", f"`{found.get('command', COMMAND)}`"]
    for name in CASES:
        if name in found["cases"]:
            parts += _section(name, found["cases"][name])
    return "\n\n".join(parts) + "\n"


def _section(name: str, case: dict[str, Any]) -> list[str]:
    about = (
        f"{case['n_origins']} origins, refitted {case['n_fits']} times, law of "
        f"{case['n_modes']} modes, drift {case['drift']}, residual {case['residual']}; LIM of "
        f"{case['patterns']} EOFs; 95 % intervals from blocks of origins; "
        f"{case['seconds']:.0f} s of CPU."
    )
    parts = [f"## {name}", f"`{case['line']}`", about]
    if case["tried"]:
        ranked = sorted(case["tried"].items(), key=lambda item: item[1])
        tried = "; ".join(f"{name}: {value:.3f}" for name, value in ranked)
        parts.append(f"CRPS relative to the climatology's, held out: {tried}.")
    parts += [table(*_rows(case, score)) for score in SHOWN]
    parts.append(table(*_coverage(case)))
    parts.append(table(*_gains(case)))
    return parts


def _rows(case: dict[str, Any], score: str) -> tuple[list[str], list[list[str]]]:
    header = [SHOWN[score], *(f"lead {k}" for k in case["leads"])]
    rows = [[m, *map(_cell, scores[score])] for m, scores in case["scores"].items()]
    return header, rows


def _coverage(case: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    header = ["inside 50/80/95 %", *(f"lead {k}" for k in case["leads"])]
    levels = [f"coverage_{level}" for level in (50, 80, 95)]
    rows = [
        [
            m,
            *(
                "/".join(f"{100 * scores[level][i]['estimate']:.0f}" for level in levels)
                for i in range(len(case["leads"]))
            ),
        ]
        for m, scores in case["scores"].items()
    ]
    return header, rows


def _gains(case: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    header = ["1 - MSE(law)/MSE", *(f"lead {k}" for k in case["leads"])]
    return header, [[m, *map(_cell, gains)] for m, gains in case["skill_against"].items()]


def _cell(row: dict[str, float]) -> str:
    return f"{row['estimate']:.3f} [{row['lower']:.3f}, {row['upper']:.3f}]"


if __name__ == "__main__":
    sys.exit(main())

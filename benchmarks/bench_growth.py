"""How time grows with paths, times, points and modes: slopes over three doublings.

Run it with ``python -m benchmarks.bench_growth``. For data with gaps the collapse, done once a
data set, and the evaluation of likelihood and score are timed apart; the evaluation does not
see the points at all. Each size takes its smallest time, because neighbours only ever add to
it, and the slope is that of a line through the logarithms. Fixed costs bend the line down,
which would hide growth, so the slope of the last doubling alone is given as well.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from benchmarks._problem import observations
from benchmarks._timing import MISSED, interleaved_medians, table, versions, write_results

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip
from spdelaw.statespace.collapse import collapse

from spdelaw.statespace.likelihood import evaluate_likelihood  # isort: skip

REPEATS = 7
COMMAND = "python -m benchmarks.bench_growth"
LINEAR, CUBIC = 1.05, 3.0
#: Paths, times, points, modes at the smallest size; one of them is doubled three times.
GAPPY = {"n_paths": 350, "n_times": 51, "n_points": 101, "n_modes": 8}
COMPLETE = {"n_paths": 500, "n_times": 101, "n_points": 101, "n_modes": 8}
MODES = {"n_paths": 100, "n_times": 51, "n_points": 101, "n_modes": 4}


def main() -> int:
    """Measure all slopes, print and write them; `MISSED` where one is above its limit."""
    rows = []
    for what in ("n_paths", "n_times", "n_points"):
        rows += _gappy(what, GAPPY, LINEAR)
        rows += _slopes(what, COMPLETE, LINEAR, {"fit, complete": _fit})
    rows += _slopes("n_modes", MODES, LINEAR, {"likelihood and score, complete": _evaluate(0.0)})
    rows += _gappy("n_modes", MODES, CUBIC)
    document = {
        "command": COMMAND,
        "threads": 1,
        "repeats": REPEATS,
        "smallest": {"with gaps": GAPPY, "complete": COMPLETE, "modes": MODES},
        "slopes": rows,
        "versions": {"spdelaw": sl.__version__, **versions("numpy", "scipy")},
    }
    text = _markdown(document)
    write_results("growth", document, text)
    print(text)
    return 0 if all(row["exponent"] <= row["limit"] for row in rows) else MISSED


def _gappy(what: str, base: dict[str, int], limit: float) -> list[dict]:
    tasks = {"likelihood and score, gaps": _evaluate(0.3), "collapse, gaps": _collapse}
    return _slopes(what, base, limit, tasks)


def _slopes(what: str, base: dict[str, int], limit: float, make: dict[str, Callable]) -> list[dict]:
    """Exponent of each task as one of the sizes doubles three times."""
    sizes = [base[what] * 2**k for k in range(4)]
    rows = []
    for name, build in make.items():
        tasks = {str(size): build(**{**base, what: size}) for size in sizes}
        best = [s["min"] for s in interleaved_medians(tasks, REPEATS, time.process_time).values()]
        slope = float(np.polyfit(np.log(sizes), np.log(best), 1)[0])
        rows.append(
            {
                "task": name,
                "grows": what.removeprefix("n_"),
                "sizes": sizes,
                "relative_time": [b / best[0] for b in best],
                "exponent": slope,
                "last_doubling": float(np.log2(best[-1] / best[-2])),
                "limit": limit,
            }
        )
    return rows


def _evaluate(missing: float) -> Callable:
    def build(**size: int) -> Callable[[], object]:
        o = observations(**size, missing=missing)
        collapsed = collapse(o.values, o.times, o.eigenfunctions)
        return lambda: evaluate_likelihood(collapsed, o.parameters)

    return build


def _collapse(**size: int) -> Callable[[], object]:
    o = observations(**size, missing=0.3)
    return lambda: collapse(o.values, o.times, o.eigenfunctions)


def _fit(n_paths: int, n_times: int, n_points: int, n_modes: int) -> Callable[[], object]:
    times, grid = 0.005 * np.arange(n_times), np.linspace(0.0, np.pi, n_points)
    equation = sl.catalogue.heat(n_modes=n_modes)
    data = sl.simulate(equation, n_paths, times=times, grid=grid, seed=0)
    return lambda: sl.fit(data, domain=sl.Interval(0, np.pi), n_modes=n_modes)


def _markdown(d: dict) -> str:
    rows = [
        [
            row["task"],
            row["grows"],
            ", ".join(str(n) for n in row["sizes"]),
            ", ".join(f"{x:.2f}" for x in row["relative_time"]),
            f"{row['exponent']:.2f}",
            f"{row['last_doubling']:.2f}",
            f"{row['limit']:g}",
        ]
        for row in d["slopes"]
    ]
    header = ["task", "grows", "sizes", "relative time", "exponent", "last doubling", "limit"]
    return "\n".join(
        [
            "# Growth of time with the size of the data",
            "",
            table(header, rows),
            "",
            "The collapse is done once a data set, the likelihood many times; only the collapse "
            "sees the points. Modes are uncoupled on the complete grid and coupled by gaps.",
            "",
            f"Command: `{d['command']}`. One thread, time of the process, the smallest of "
            f"{d['repeats']} interleaved repeats a size, slope of a line through logarithms over "
            "three doublings.",
            f"Versions: {', '.join(f'{k} {v}' for k, v in d['versions'].items())}.",
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())

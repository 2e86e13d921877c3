"""Simulation against the work that no simulator can avoid.

Run it with ``python -m benchmarks.bench_simulate``. The unavoidable work for exact paths on
a grid is one normal a path, time and mode, and one product of coefficients with the
eigenfunctions. Both are done here with the fastest generator of NumPy and into memory that
is already there; `simulate` also seeds a stream for each block of paths, runs the
recursion in time, asks for the memory of its result and labels it.
"""

from __future__ import annotations

import sys
import time

from benchmarks._timing import MISSED, interleaved_medians, table, versions, write_results

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip

N_PATHS, REPEATS, TARGET = 1000, 15, 2.0
COMMAND = "python -m benchmarks.bench_simulate"
SIMULATE, UNAVOIDABLE = "sl.simulate", "normals + matrix product"


def main() -> int:
    """Time both, print and write the ratio; `MISSED` where it misses the target."""
    equation = sl.catalogue.heat(n_modes=50)
    times, grid = equation.times, equation.default_grid()
    functions = np.ascontiguousarray(equation.domain.eigenfunctions(grid, equation.n_modes).T)
    normals = np.empty((N_PATHS * len(times), equation.n_modes))
    fields = np.empty((len(normals), len(grid)))

    def unavoidable() -> None:
        np.random.Generator(np.random.SFC64(0)).standard_normal(out=normals)
        np.matmul(normals, functions, out=fields)

    tasks = {SIMULATE: lambda: sl.simulate(equation, N_PATHS, seed=0), UNAVOIDABLE: unavoidable}
    seconds = interleaved_medians(tasks, REPEATS, time.process_time)
    ratio = seconds[SIMULATE]["median"] / seconds[UNAVOIDABLE]["median"]
    document = {
        "command": COMMAND,
        "size": {"paths": N_PATHS, "times": len(times), "points": len(grid), "modes": 50},
        "threads": 1,
        "repeats": REPEATS,
        "seconds": seconds,
        "ratio": ratio,
        "target": TARGET,
        "versions": {"spdelaw": sl.__version__, **versions("numpy", "xarray")},
    }
    text = _markdown(document)
    write_results("simulate", document, text)
    print(text)
    return 0 if ratio <= TARGET else MISSED


def _markdown(d: dict) -> str:
    size = ", ".join(f"{n} {what}" for what, n in d["size"].items())
    rows = [
        [name, *(f"{1e3 * s[k]:.0f}" for k in ("median", "min", "max"))]
        for name, s in d["seconds"].items()
    ]
    return "\n".join(
        [
            "# Simulation against unavoidable work",
            "",
            f"`sl.simulate` takes **{d['ratio']:.2f} times** as long as drawing the same normals "
            f"and one matrix product of the same size (target: at most {d['target']:g}).",
            "",
            f"Stochastic heat equation, exact scheme: {size}.",
            "",
            table(["", "median [ms]", "min [ms]", "max [ms]"], rows),
            "",
            f"Command: `{d['command']}`. One thread, time of the process, {d['repeats']} "
            "interleaved repeats; the ratio is that of the medians and carries over between "
            "machines, the times do not.",
            f"Versions: {', '.join(f'{k} {v}' for k, v in d['versions'].items())}.",
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())

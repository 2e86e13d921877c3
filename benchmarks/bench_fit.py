"""A fit of complete fields against one pass over the same memory.

Run it with ``python -m benchmarks.bench_fit``. No estimate can be had without reading the data
once, and ``X.sum()`` is the plainest way to read them. Peak memory is that of the fit alone,
measured in a run of its own, because tracing allocations slows them down.
"""

from __future__ import annotations

import sys
import tracemalloc

from benchmarks._timing import interleaved_medians, table, versions, write_results

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip

N_PATHS, N_MODES, REPEATS = 1000, 8, 21
TARGET, MEMORY_TARGET = 10.0, 0.5
COMMAND = "python -m benchmarks.bench_fit"
FIT, PASS = "sl.fit", "X.sum()"


def main() -> int:
    """Time both, print and write the ratio; 1 where a target is missed."""
    data = sl.simulate(sl.catalogue.heat(n_modes=N_MODES), N_PATHS, seed=0)
    values, domain = data.values, sl.Interval(0, np.pi)

    def fit() -> sl.Law:
        return sl.fit(data, domain=domain, n_modes=N_MODES)

    law = fit()
    if law.info["route"] != "statistics" or not _has_standard_errors(law):
        raise SystemExit("the fit did not take the route this benchmark is about")
    seconds = interleaved_medians({FIT: fit, PASS: values.sum}, REPEATS)
    ratio = seconds[FIT]["median"] / seconds[PASS]["median"]
    memory = _peak(fit) / values.nbytes
    document = {
        "command": COMMAND,
        "size": dict(zip(("paths", "times", "points"), values.shape, strict=True)),
        "modes": N_MODES,
        "threads": 1,
        "repeats": REPEATS,
        "seconds": seconds,
        "ratio": ratio,
        "target": TARGET,
        "memory_share": memory,
        "memory_target": MEMORY_TARGET,
        "versions": {"spdelaw": sl.__version__, **versions("numpy", "scipy", "xarray")},
    }
    text = _markdown(document)
    write_results("fit", document, text)
    print(text)
    return 0 if ratio <= TARGET and memory <= MEMORY_TARGET else 1


def _has_standard_errors(law: sl.Law) -> bool:
    error = law.parameters.eigenvalue.sel(statistic="stderr").values
    return bool((np.isfinite(error) & (error > 0)).all())


def _peak(task) -> int:
    """Largest number of bytes that Python and NumPy hold during the task, beyond those before."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        task()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def _markdown(d: dict) -> str:
    size = " x ".join(str(n) for n in d["size"].values())
    rows = [
        [name, *(f"{1e3 * s[k]:.0f}" for k in ("median", "min", "max"))]
        for name, s in d["seconds"].items()
    ]
    return "\n".join(
        [
            "# A fit against one pass over the data",
            "",
            f"`sl.fit` with standard errors takes **{d['ratio']:.1f} times** as long as `X.sum()` "
            f"over the same array (target: at most {d['target']:g}). Its peak extra memory is "
            f"**{100 * d['memory_share']:.1f} %** of the array (target: at most "
            f"{100 * d['memory_target']:g} %).",
            "",
            f"Stochastic heat equation, complete and noise-free, float64 in memory: {size} (paths, "
            f"times, points), {d['modes']} modes.",
            "",
            table(["", "median [ms]", "min [ms]", "max [ms]"], rows),
            "",
            f"Command: `{d['command']}`. One thread, {d['repeats']} interleaved repeats; the ratio "
            "is that of the medians and carries over between machines, the times do not.",
            f"Versions: {', '.join(f'{k} {v}' for k, v in d['versions'].items())}.",
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())

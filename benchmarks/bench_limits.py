"""How far each costly step is from what its arithmetic or its data allow, one row each.

Run it with ``python -m benchmarks.bench_limits``; ``--only NAME`` for some rows, which leaves the
others in ``results/limits.json`` as they were. A step is timed with its own yardstick in turn, so
that the ratio carries over between machines and the times do not; a whole fit is run once, with
a number of seconds of one processor. The file says of each row whether its limit was met.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

from benchmarks._problem import SQUARE, long_record, stationary_law
from benchmarks._timing import MISSED, RESULTS, interleaved_medians, table, versions, write_results
from benchmarks._whole_fits import (
    START,
    coupled_row,
    gappy_record_row,
    growth_rows,
    large_rows,
    start_row,
)

import numpy as np  # isort: skip

import spdelaw as sl  # isort: skip
from spdelaw.domains.products import Multiplied  # isort: skip
from spdelaw.statespace.collapse import collapse

from spdelaw.statespace.likelihood import evaluate_likelihood  # isort: skip

COMMAND = "python -m benchmarks.bench_limits"
REPEATS = 7
#: Why a row misses its limit, and what was tried.
NOTES = {
    "chain": "three quarters are the elimination, of which inverses of 30 x 30 are half; "
    "the remainder is transitions and sums over steps in NumPy. Tried: LAPACK's dpotrf and dpotri "
    "(nearly twice as slow as sweeps of eight rows), sweeps of 16 rows, one pass for means and "
    "covariances",
    "complete": "in multiples of X.sum(), about: X @ Phi with energy and sums of coefficients 3.4, "
    "one reading of every value (finite values, undeclared fills, sums that name the data) 1.7, "
    "memory of the residual 1.3, searches with and without a mean 0.9, warnings about the data "
    "0.8, spread of forecasts 0.8, bad sensors 0.6, tables of the law 0.4. Tried: compiled kernels "
    "(products 2.0, reading 1.8: still above the limit, and numba has to be loaded), the product "
    "the other way round (5.2)",
    "reconstruct": "variances of fields are half. Tried: Gram matrices looked up, variances "
    "written in place, no copy of the result, no least squares, which a smoother does not ask for",
    "dense_quiet_40": "information, factor, inverse and covariance of 2460 numbers, a mean "
    "included, are products of whole matrices",
    "dense_quiet_40_zero": "information, factor, inverse and covariance of 2420 numbers are "
    "products of whole matrices, 40 billion operations. Tried: no search from a maximum, standard "
    "errors without Jacobians, products in one call and without copies, one factor for the root. "
    "Two runs of the same code gave 0.75 and 1.03",
}


class Row(NamedTuple):
    """The timed code, its yardstick, and the largest ratio that meets the limit."""

    case: str
    yardstick: str
    task: Callable[[], object]
    beside: Callable[[], object]
    limit: float
    note: str = ""


def main() -> int:
    """Time the rows asked for, print and write the table; `MISSED` where a limit was missed."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    names = [*ROWS, *SINGLE]
    parser.add_argument("--only", nargs="*", choices=names, default=names)
    asked, file = parser.parse_args().only, RESULTS / "limits.json"
    known = {}
    if file.exists():
        rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
        known = {row["name"]: row for row in rows if row["name"] in names}
    for name in asked:
        row = _timed(name, ROWS[name]()) if name in ROWS else SINGLE[name]()
        known[name] = row | {
            "note": NOTES.get(name, row["note"]) if not row["met"] else row["note"]
        }
        print(f"{name}: {row['ratio']:.3g} (limit {row['limit']:g})", flush=True)
        document = _document([known[n] for n in names if n in known])
        write_results("limits", document, _markdown(document))
    print(_markdown(document))
    return 0 if all(row["met"] for row in document["rows"]) else MISSED


def _document(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "command": COMMAND, "threads": 1, "repeats": REPEATS,
        "rows": [*rows, *large_rows(), *growth_rows()],
        "versions": {"spdelaw": sl.__version__, **versions("numpy", "scipy", "numba")},
    }  # fmt: skip


def _timed(name: str, row: Row) -> dict[str, Any]:
    tasks = {"task": row.task, "beside": row.beside}
    found = interleaved_medians(tasks, REPEATS, time.process_time)
    ratio = found["task"]["median"] / found["beside"]["median"]
    return {
        "name": name, "case": row.case, "yardstick": row.yardstick, "seconds": found["task"],
        "yardstick_seconds": found["beside"], "ratio": ratio, "limit": row.limit,
        "met": bool(ratio <= row.limit), "note": row.note,
    }  # fmt: skip


# -- rows --------------------------------------------------------------------------------


def _gram() -> Row:
    """Masks with weights: looked up against multiplied."""
    points, rng = SQUARE.grid(64), np.random.default_rng(0)
    weights = (rng.random((8, len(points))) > 0.3) * rng.uniform(0.5, 2.0, len(points))
    looked_up = SQUARE.products(points, 256)
    plain = Multiplied(SQUARE.eigenfunctions(points, 256))
    return Row(
        "Gram matrices of 8 masks with weights, 64 x 64 points, 256 modes",
        "the same by matrix products", lambda: looked_up.gram(weights),
        lambda: [plain.gram(row[None]) for row in weights], 0.27 / 5.6,
    )  # fmt: skip


def _collapse() -> Row:
    values, times, points, _ = long_record(8)
    phi = SQUARE.eigenfunctions(points, 8)
    return Row(
        "collapse, one path of 3000 maps of 40 x 40, 40 % missing, 8 modes",
        "one pass: gaps to zero, times Phi",
        lambda: collapse(values, times, phi, None, SQUARE.products(points, 8)),
        lambda: np.where(np.isnan(values), 0.0, values) @ phi, 3.0,
    )  # fmt: skip


def _chain() -> Row:
    n = 30
    values, times, points, equation = long_record(n)
    phi = SQUARE.eigenfunctions(points, n)
    collapsed = collapse(values, times, phi, None, SQUARE.products(points, n))
    parameters = stationary_law(equation)
    stack = np.random.default_rng(0).standard_normal((len(times), n, n))
    out, half = np.empty_like(stack), np.empty_like(stack[: len(times) // 2])

    def flops() -> None:
        """5 N^3 T operations, as two and a half products of all blocks."""
        np.matmul(stack, stack, out=out)
        np.matmul(stack, stack, out=out)
        np.matmul(stack[: len(half)], stack[: len(half)], out=half)

    return Row(
        "likelihood with score, the same record, 30 modes", "5 N^3 T operations in products",
        lambda: evaluate_likelihood(collapsed, parameters), flops, 3.0,
    )  # fmt: skip


def _short_paths() -> Row:
    domain, rng = sl.Interval(0, np.pi), np.random.default_rng(0)
    equation, points = sl.catalogue.heat(8), sl.Interval(0, np.pi).grid(101)
    times = np.linspace(0.0, 0.5, 51)
    values = sl.simulate(equation, 700, times, points, seed=0, observation_std=0.1).values
    values[rng.uniform(size=values.shape) < 0.3] = np.nan
    collapsed = collapse(values, times, domain.eigenfunctions(points, 8))
    parameters = stationary_law(equation)

    def plain() -> object:
        with mock.patch("spdelaw.statespace.posterior.COMPILED_SECONDS", np.inf):
            return evaluate_likelihood(collapsed, parameters)

    return Row(
        "likelihood with score, 700 paths of 51 times with gaps of their own, 8 modes",
        "the same without numba", lambda: evaluate_likelihood(collapsed, parameters), plain, 0.5,
    )  # fmt: skip


def _fitted(n_modes: int) -> tuple[sl.Law, Any]:
    """A law of the record's equation, and the record as labelled fields with gaps."""
    values, times, points, equation = long_record(n_modes)
    clean = sl.simulate(equation, 20, times[:100], points, seed=1)
    law = sl.fit(clean, SQUARE, n_modes, initial="stationary")
    fields = sl.simulate(equation, 1, times, points, seed=0, observation_std=0.1)
    return law, fields.copy(data=values.reshape(fields.shape))


def _reconstruct() -> Row:
    n = 30
    law, fields = _fitted(n)
    phi, rng = SQUARE.eigenfunctions(SQUARE.grid(40), n), np.random.default_rng(0)
    i, j = np.tril_indices(n)
    states, pairs = rng.standard_normal((3000, n)), phi[:, i] * phi[:, j]
    spread = rng.standard_normal((3000, len(i)))
    return Row(
        "reconstruct, the same record, 30 modes", "its products: means and variances of fields",
        lambda: law.reconstruct(fields), lambda: (states @ phi.T, spread @ pairs.T), 5.0,
    )  # fmt: skip


def _memory_of_reconstruct() -> dict[str, Any]:
    law, fields = _fitted(30)
    law.reconstruct(fields)
    tracemalloc.start()
    result = law.reconstruct(fields)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = sum(part.nbytes for part in result.values())
    return {
        "name": "reconstruct_memory", "case": "the same, largest memory on the way",
        "yardstick": f"its result, {size / 1e6:.0f} MB", "ratio": peak / size, "limit": 3.0,
        "met": bool(peak <= 3.0 * size), "note": "",
    }  # fmt: skip


def _complete() -> Row:
    domain = sl.Interval(0, np.pi)
    fields = sl.simulate(
        sl.catalogue.heat(8), 1000, np.linspace(0.0, 1.0, 201), domain.grid(101), seed=0
    )
    values = fields.values
    return Row(
        "complete fit with standard errors, 1000 x 201 x 101, 8 modes", "X.sum()",
        lambda: sl.fit(fields, domain, 8), lambda: values.sum(), 6.0,
    )  # fmt: skip


#: What a new process does: a fit of few values with gaps, timed, and whether it compiled.
SMALL_FIT = """
import sys, time
import numpy as np, spdelaw as sl
domain = sl.Interval(0, np.pi)
fields = sl.simulate(sl.catalogue.heat(4), 20, np.linspace(0, 1, 51), domain.grid(33), seed=0,
                     observation_std=0.05)
fields.values[np.random.default_rng(0).uniform(size=fields.shape) < 0.3] = np.nan
clock = [time.perf_counter()]
for _ in range(2):
    sl.fit(fields, domain, 4)
    clock.append(time.perf_counter())
print(clock[1] - clock[0], clock[2] - clock[1], "numba" in sys.modules)
"""


def _first_small_fit() -> dict[str, Any]:
    """What the first fit of a new process takes beyond the second: the loading of numba."""
    done = subprocess.run([sys.executable, "-c", SMALL_FIT], capture_output=True, text=True)
    first, second, compiled = done.stdout.split()[-3:]
    seconds, limit = float(first) - float(second), 0.7
    return {
        "name": "first_fit",
        "case": "first fit of small data with gaps in a new process, beyond the second",
        "yardstick": f"{limit:g} s", "ratio": seconds / limit, "limit": 1.0,
        "met": seconds <= limit, "seconds": {"median": seconds},
        "note": f"first {float(first):.2f} s, second {float(second):.2f} s, numba loaded: "
        f"{compiled}; version 0.2 did not load it and took 0.80 and 0.68 s",
    }  # fmt: skip


ROWS: dict[str, Callable[[], Row]] = {
    "gram": _gram, "collapse": _collapse, "chain": _chain, "short_paths": _short_paths,
    "reconstruct": _reconstruct, "complete": _complete,
}  # fmt: skip


def _record_row() -> dict[str, Any]:
    values, times, points, equation = long_record(30)
    fields = sl.simulate(equation, 1, times, points, seed=0, observation_std=0.1)
    return gappy_record_row(fields.copy(data=values.reshape(fields.shape)), 30)


#: Rows that are measured once.
SINGLE: dict[str, Callable[[], dict[str, Any]]] = {
    "reconstruct_memory": _memory_of_reconstruct, "first_fit": _first_small_fit,
    **{name: functools.partial(start_row, name) for name in START},
    "record": _record_row,
    **{
        f"dense_{kind}_{n}": functools.partial(coupled_row, n, kind)
        for kind in ("quiet", "noisy", "gappy") for n in (10, 20, 40)
    },
    "dense_quiet_40_zero": functools.partial(coupled_row, 40, "quiet", mean="zero"),
}  # fmt: skip


def _range(seconds: dict[str, float] | None) -> str:
    if not seconds:
        return ""
    middle = f"{1e3 * seconds['median']:.3g}"
    if "min" not in seconds:
        return middle
    return f"{middle} ({1e3 * seconds['min']:.3g} to {1e3 * seconds['max']:.3g})"


def _markdown(d: dict[str, Any]) -> str:
    rows = [
        [
            row["case"], "met" if row["met"] else "**missed**", f"{row['ratio']:.3g}",
            f"{row['limit']:.3g}", row["yardstick"], _range(row.get("seconds")),
            _range(row.get("yardstick_seconds")),
        ]
        for row in d["rows"]
    ]  # fmt: skip
    notes = [f"- {row['case']}: {row['note']}" for row in d["rows"] if row["note"]]
    absent = [
        name for name in (*ROWS, *SINGLE, "large") if name not in {r["name"] for r in d["rows"]}
    ]
    left = "Every row has a number."
    if absent:
        left = f"Not run yet: {', '.join(absent)}."
    head = ["case", "", "ratio", "limit", "beside", "ms (range)", "beside, ms (range)"]
    return "\n".join(
        [
            "# How far from the limit",
            "",
            "Each row is timed with its own yardstick in turn; the limit is the largest ratio of "
            "the two that was set for it. Rows with a number of seconds were run once.",
            "",
            table(head, rows),
            "",
            *notes,
            "",
            left,
            "",
            f"Command: `{d['command']}`. {d['repeats']} interleaved repeats, time of the process, "
            "one thread; `--only` runs single rows again, and the others stay as they were.",
            f"Versions: {', '.join(f'{k} {v}' for k, v in d['versions'].items())}.",
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())

"""Rows of `benchmarks.bench_limits` that are whole fits or whole processes, each run once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from typing import Any

from benchmarks._timing import RESULTS

import numpy as np  # isort: skip
import xarray as xr  # isort: skip
from scipy import linalg  # isort: skip

import spdelaw as sl  # isort: skip
from spdelaw.processes.linear import Linear  # isort: skip

LINE, SQUARE = sl.Interval(0, np.pi), sl.Box((0, np.pi), (0, np.pi))
#: Seconds that a fit of 10, 20 and 40 coupled modes may take with its standard errors.
LIMITS = {
    "quiet": {10: 0.05, 20: 0.3, 40: 3.0},
    "noisy": {10: 4.0, 20: 20.0, 40: 120.0},
    "gappy": {10: 8.0, 20: 40.0, 40: 240.0},
}
POINTS, TIMES = 101, 1200


def seconds_row(
    name: str, case: str, seconds: float, limit: float, note: str = ""
) -> dict[str, Any]:
    """A row whose yardstick is a number of seconds."""
    return {
        "name": name, "case": case, "yardstick": f"{limit:g} s", "seconds": {"median": seconds},
        "ratio": seconds / limit, "limit": 1.0, "met": bool(seconds <= limit), "note": note,
    }  # fmt: skip


def cpu_of_fit(fields: xr.DataArray, *how: Any, **words: Any) -> tuple[float, sl.Law]:
    """Processor time of a fit, and its law."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sl.errors.IdentifiabilityWarning)
        law = sl.fit(fields, *how, **words)
    return time.process_time() - start, law


def coupled_record(n: int, noise: float, missing: float) -> xr.DataArray:
    """One path of n coupled modes at unit steps, rates 0.05 to 0.5, on 101 points."""
    rng, number = np.random.default_rng(0), np.arange(1.0, n + 1)
    turn, more, factor = 0.1 * rng.normal(size=(3, n, n))
    drift = np.diag(np.linspace(0.05, 0.5, n)) + 0.5 * (turn - turn.T) + 0.2 * more / np.sqrt(n)
    root = np.tril(3.0 * factor / np.sqrt(n), -1) + np.eye(n)
    covariance = root @ root.T / np.sqrt(np.outer(number, number))
    step = Linear(drift, covariance).over(np.array([1.0]))
    f, omega = step.factor[0], step.covariance[0]
    states, shock = np.empty((TIMES, n)), np.linalg.cholesky(omega)
    states[0] = np.linalg.cholesky(linalg.solve_discrete_lyapunov(f, omega)) @ rng.normal(size=n)
    for t in range(1, TIMES):
        states[t] = f @ states[t - 1] + shock @ rng.normal(size=n)
    points = LINE.grid(POINTS)
    values = states @ LINE.eigenfunctions(points, n).T
    values += noise * values.std() * rng.normal(size=values.shape)
    values[rng.uniform(size=values.shape) < missing] = np.nan
    coordinates = {"time": np.arange(float(TIMES)), "x": np.ravel(points)}
    return xr.DataArray(values[None], dims=("path", "time", "x"), coords=coordinates)


def coupled_row(n: int, kind: str, **more: str) -> dict[str, Any]:
    """Dense drift and noise of n modes: complete, with noise of a tenth, and 0.1 % missing."""
    noise, missing = 0.1 * (kind != "quiet"), 0.001 * (kind == "gappy")
    limit = LIMITS[kind][n]
    fields, words = coupled_record(n, noise, missing), {"drift": "dense", "noise": "dense", **more}
    if kind == "quiet" and n < 40:
        cpu_of_fit(fields, LINE, n, **words)  # loads what is imported late
    seconds, law = cpu_of_fit(fields, LINE, n, **words)
    case = {"quiet": "noise-free", "noisy": "noisy", "gappy": "noisy, 0.1 % missing"}[kind]
    note = (
        f"{law.info['n_parameters']} numbers, {law.info['convergence']['evaluations']} evaluations"
    )
    if law.info["standard_errors"] == "expected":
        note += ", standard errors by expected curvature"
    if law.info["mean"] == "constant":
        tested = law.info["decisions"]["mean"]
        note += f", with a mean (largest z {tested['largest_z_of_mean']:.1f})"
    title = f"dense drift and noise with standard errors, one path of 1200 times, {n} modes, {case}"
    title += "".join(f", {key}={value!r}" for key, value in more.items())
    name = "_".join([f"dense_{kind}_{n}", *more.values()])
    return seconds_row(name, title, seconds, limit, note)


def gappy_record_row(fields: xr.DataArray, n_modes: int) -> dict[str, Any]:
    """The whole fit of one long record behind clouds."""
    seconds, law = cpu_of_fit(fields, SQUARE, n_modes)
    about = law.info["convergence"]
    note = f"{about['evaluations']} evaluations, {about['evaluations_for_intervals']} for intervals"
    case = "whole fit with its intervals, one path of 3000 maps of 40 x 40, 40 % missing, 30 modes"
    return seconds_row("record", case, seconds, 8.0, note)


def large_rows() -> list[dict[str, Any]]:
    """The large problem with gaps, as `benchmarks.bench_scale` found it."""
    file = RESULTS / "scale.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["runs"] if file.exists() else []
    case = "64 x 64 points, 256 modes, 200 paths of 200 times, 30 % missing, noise: fit"
    return [
        seconds_row(
            "large", case, row["fit_cpu_seconds"], 90.0,
            f"python -m benchmarks.bench_scale: {row['evaluations']} evaluations, "
            f"{row['peak_gb']:.1f} GB; a factor and its inverse for each of 40,000 rows, 1.1 ms "
            "each, are about half of it (estimated from 40 paths; 950 s before Gram matrices were "
            "looked up). Tried: the inverse of a factor by blocks (0.83 ms, LAPACK's dtrtri 0.58)",
        )
        for row in rows if row["data"] != "complete" and "fit_cpu_seconds" in row
    ]  # fmt: skip


#: Processes whose start is timed, by the package they are compared with.
START = {
    "import": ("import spdelaw, beyond import xarray", "import xarray", "import spdelaw", 0.15),
    "help": ("spdelaw --help", "", "import sys; sys.argv=['spdelaw', '--help']; "
             "from spdelaw.cli import main; main()", 0.5),
}  # fmt: skip


def start_row(name: str) -> dict[str, Any]:
    """Seconds of processor time until a new process has done something, less the yardstick."""
    case, base, task, limit = START[name]
    runs = sorted(_cpu_of(task) - _cpu_of(base) for _ in range(5))
    return seconds_row(name, case, max(runs[2], 0.0), limit)


def _cpu_of(code: str) -> float:
    """Processor time of ``python -c code``, less that of an empty one where there is code."""
    import resource

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def growth_rows() -> list[dict[str, Any]]:
    """The largest exponents that `benchmarks.bench_growth` found, of each size."""
    file = RESULTS / "growth.json"
    if not file.exists():
        return []
    slopes, rows = json.loads(file.read_text(encoding="utf-8"))["slopes"], []
    for what in dict.fromkeys(row["grows"] for row in slopes):
        worst = max(
            (r for r in slopes if r["grows"] == what), key=lambda r: r["exponent"] / r["limit"]
        )
        rows.append({
            "name": f"growth_{what}", "case": f"growth with {what}: {worst['task']}",
            "yardstick": "exponent, python -m benchmarks.bench_growth",
            "ratio": worst["exponent"], "limit": worst["limit"],
            "met": bool(worst["exponent"] <= worst["limit"]), "note": "",
        })  # fmt: skip
    return rows

"""One long record in a Zarr directory: what each call takes, each in a process of its own.

``python -m benchmarks.bench_record --gigabytes 2 --folder long`` writes one path of 2,048 points,
with noise and gaps, in chunks of 33 MB, fits a law, and lets it reconstruct, forecast, judge, fill
and report the record, in parts of its times as they are stored. Largest memory is that of the
process, its imports included; the directory is removed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import shutil
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import spdelaw as sl
from benchmarks._timing import table, versions, write_results

N_POINTS, N_MODES, ROWS = 2048, 6, 2000
DOMAIN = sl.Interval(0, np.pi)
POINTS = np.linspace(0.0, np.pi, N_POINTS)
RATES, STEP = np.arange(1, N_MODES + 1) ** 2.0, 0.02


def store(target: Path, n_chunks: int) -> None:
    """Write the record region by region."""
    import dask.array as da

    n_times = ROWS * n_chunks
    coords = {"path": [0], "time": STEP * np.arange(n_times), "x": POINTS}
    lazy = da.zeros((1, n_times, N_POINTS), chunks=(1, ROWS, N_POINTS))
    empty = xr.DataArray(lazy, coords, ("path", "time", "x")).to_dataset(name="u")
    plain = {"u": {"compressors": None}}
    empty.to_zarr(target, compute=False, consolidated=False, encoding=plain)
    generator, phi = np.random.default_rng(3), DOMAIN.eigenfunctions(POINTS, N_MODES)
    a = np.exp(-RATES * STEP)
    state = generator.standard_normal(N_MODES) / np.sqrt(2.0 * RATES)
    for k in range(n_chunks):
        shocks = generator.standard_normal((ROWS, N_MODES)) * np.sqrt((1 - a**2) / (2.0 * RATES))
        states = np.empty((ROWS, N_MODES))
        for t in range(ROWS):
            states[t] = state = a * state + shocks[t]
        values = states @ phi.T + 0.1 * generator.standard_normal((ROWS, N_POINTS))
        values[generator.random((ROWS, N_POINTS)) < 0.3] = np.nan
        part = xr.Dataset({"u": (("path", "time", "x"), values[None])})
        rows = slice(k * ROWS, (k + 1) * ROWS)
        part.to_zarr(target, region={"path": slice(0, 1), "time": rows, "x": slice(None)},
                     consolidated=False)  # fmt: skip


def record(folder: Path) -> xr.DataArray:
    return xr.open_zarr(folder / "record.zarr", consolidated=False)["u"]


def fit(folder: Path) -> None:
    sl.fit(record(folder), DOMAIN, N_MODES, mean="zero", nuisance=0).save(
        folder / "record.law", overwrite=True
    )


def reconstruct(folder: Path) -> None:
    sl.write(sl.load(folder / "record.law").reconstruct(record(folder)), folder / "smooth.zarr")


def forecast(folder: Path) -> None:
    sl.load(folder / "record.law").forecast(record(folder), steps=5).compute()


def likelihood(folder: Path) -> None:
    sl.load(folder / "record.law").log_likelihood(record(folder))


def evaluate(folder: Path) -> None:
    sl.evaluate(sl.load(folder / "record.law"), record(folder))


def fill(folder: Path) -> None:
    words = {"drift": "diagonal", "basis": "domain", "residual": "white"}
    found = sl.fill(record(folder), DOMAIN, N_MODES, **words)
    sl.write(found[["mean", "std"]], folder / "filled.zarr")


def report(folder: Path) -> None:
    from spdelaw.report.page import write_report

    write_report(folder / "report.html", sl.load(folder / "record.law"), record(folder))


CALLS = (fit, reconstruct, forecast, likelihood, evaluate, fill, report)


def _alone(function: Callable, folder: Path, told: Any) -> None:
    warnings.simplefilter("ignore")
    start = time.process_time()
    function(folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    told.put((time.process_time() - start, peak))


def measured(function: Callable, folder: Path) -> tuple[float, float]:
    """CPU seconds and largest memory in GB of a call in a process of its own."""
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    process = context.Process(target=_alone, args=(function, folder, told))
    process.start()
    found = told.get()
    process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=0.5)
    parser.add_argument("--calls", nargs="+", default=[call.__name__ for call in CALLS])
    parser.add_argument("--folder", type=Path, default=Path("bench_record"))
    asked = parser.parse_args()
    n_chunks = max(3, round(asked.gigabytes * 1e9 / (8.0 * ROWS * N_POINTS)))
    asked.folder.mkdir(parents=True)
    rows: dict[str, dict[str, float]] = {}
    try:
        store(asked.folder / "record.zarr", n_chunks)
        for call in CALLS:
            if call.__name__ in (*asked.calls, "fit"):
                cpu, peak = measured(call, asked.folder)
                rows[call.__name__] = {"cpu": cpu, "gigabytes": peak}
                print(call.__name__, rows[call.__name__], flush=True)
    finally:
        shutil.rmtree(asked.folder)
    size = 8e-9 * n_chunks * ROWS * N_POINTS
    lines = [[n, f"{r['cpu']:.0f}", f"{r['gigabytes']:.2f}"] for n, r in rows.items()]
    text = table([f"a record of {size:.1f} GB", "CPU seconds", "largest memory, GB"], lines)
    write_results("record", {"versions": versions(), "record": size, "rows": rows}, text)
    print(text)


if __name__ == "__main__":
    main()

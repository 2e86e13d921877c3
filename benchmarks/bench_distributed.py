"""Fits of a Zarr field with Dask workers: seconds, memory of each process, overhead of a task.

``python -m benchmarks.bench_distributed --gigabytes 30 --compare 2 --folder big`` writes a field in
chunks, once complete and once with noise and gaps, fits each whole with two workers of 2 GB, and
removes it. The first ``--compare`` gigabytes are fitted with one worker and with two; with it
stands what two processes that share nothing reach on the same machine at that time (not with
``--compare 0``, which fits the whole alone), and a plan
for a terabyte, which is a calculation from these numbers and no measurement. All processes have
imported and compiled what they need before a clock runs: each fits one chunk first.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import resource
import shutil
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import spdelaw as sl
from benchmarks._timing import versions

N_TIMES, N_POINTS, N_MODES = 100, 1024, 4
#: Paths of a stored chunk: about 100 MB.
CHUNK = 128
DOMAIN = sl.Interval(0, np.pi)
TIMES, POINTS = np.linspace(0.0, 2.0, N_TIMES), np.linspace(0.0, np.pi, N_POINTS)
RATES = np.arange(1, N_MODES + 1) ** 2.0
TERABYTE, WORKERS = 1e12, 32
#: Passes over the values, which tests/infer/test_in_pieces.py counts, and bytes read in a second.
PASSES, READ_RATE = {"complete": 1, "gaps": 2}, 1e9


@functools.cache
def errors() -> np.ndarray:
    """Noise and gaps of one chunk; every chunk has them in an order of its own."""
    generator = np.random.default_rng(7)
    out = 0.05 * generator.standard_normal((CHUNK, N_TIMES, N_POINTS))
    out[generator.random(out.shape) < 0.3] = np.nan
    return out


def paths(first: int, n: int, gaps: bool) -> np.ndarray:
    """Some paths of the field; the same whatever the other chunks are."""
    generator = np.random.default_rng([7, first])
    a = np.exp(-RATES * (TIMES[1] - TIMES[0]))
    root = np.sqrt((1.0 - a**2) / (2.0 * RATES))
    c = np.empty((n, N_TIMES, N_MODES))
    c[:, 0] = generator.standard_normal((n, N_MODES)) / np.sqrt(2.0 * RATES)
    for t in range(1, N_TIMES):
        c[:, t] = a * c[:, t - 1] + root * generator.standard_normal((n, N_MODES))
    values = c @ DOMAIN.eigenfunctions(POINTS, N_MODES).T
    return values + errors()[generator.permutation(CHUNK)[:n]] if gaps else values


def store(target: Path, n_paths: int, gaps: bool, distinct: int) -> None:
    """Write the field region by region, so that one chunk at a time is in memory.

    Chunks after the first ``distinct`` ones are copies of them, each a file of its own. A fit takes
    them for further paths, so that a chance departure of the few counts as certain: tests for noise
    may answer otherwise than for paths that differ.
    """
    import dask.array as da

    shape, chunks = (n_paths, N_TIMES, N_POINTS), (CHUNK, N_TIMES, N_POINTS)
    coords = {"path": np.arange(n_paths), "time": TIMES, "x": POINTS}
    empty = xr.DataArray(da.zeros(shape, chunks=chunks), coords, ("path", "time", "x"))
    # Random numbers do not compress.
    plain = {"u": {"compressors": None}}
    empty.to_dataset(name="u").to_zarr(target, compute=False, consolidated=False, encoding=plain)
    for k in range(n_paths // CHUNK):
        if k >= distinct:
            one = target / "u" / "c" / str(k % distinct)
            shutil.copytree(one, target / "u" / "c" / str(k))
            continue
        some = slice(k * CHUNK, (k + 1) * CHUNK)
        part = xr.Dataset({"u": (("path", "time", "x"), paths(some.start, CHUNK, gaps))})
        part.to_zarr(target, region={"path": some, "time": slice(None), "x": slice(None)},
                     consolidated=False)  # fmt: skip


def open_lazily(target: Path) -> xr.DataArray:
    return xr.open_zarr(target, consolidated=False)["u"]


def fitted(fields: xr.DataArray, client: object) -> tuple[float, sl.Law]:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        law = sl.fit(fields, DOMAIN, N_MODES, mean="zero", executor=client)
    return time.perf_counter() - start, law


def peak_memory() -> float:
    """Largest memory of a process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def warm(target: Path) -> None:
    """Import and compile in this process what a fit of such data needs."""
    fitted(open_lazily(target).isel(path=slice(CHUNK)), None)


def with_workers(
    target: Path, fields: xr.DataArray, n_workers: int, memory: str
) -> dict[str, float]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0",
            memory_limit=memory,
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        client.run(warm, target)
        before = sum(client.run(time.process_time).values())
        seconds, law = fitted(fields, client)
        cpu = sum(client.run(time.process_time).values()) - before
        workers = max(client.run(peak_memory).values())
        start, blocks = time.perf_counter(), client.scatter(list(range(64)))
        for _ in range(5):
            client.gather(client.map(float, blocks, pure=False))
        overhead = (time.perf_counter() - start) / (5 * 64)
    evaluations = law.info["convergence"]["evaluations"]
    rates = law.parameters.eigenvalue.sel(statistic="estimate").values
    return {"seconds": seconds, "cpu": cpu, "worker": workers, "overhead": overhead,
            "evaluations": evaluations, "read": law.info["seconds"]["read"],
            "gigabytes": fields.nbytes * 1e-9,
            "error": float(np.abs(rates / RATES - 1).max())}  # fmt: skip


def in_this_process(fields: xr.DataArray) -> dict[str, float]:
    before = time.process_time()
    seconds, law = fitted(fields, None)
    rates = law.parameters.eigenvalue.sel(statistic="estimate").values
    return {"seconds": seconds, "cpu": time.process_time() - before, "worker": peak_memory(),
            "overhead": 0.0, "evaluations": law.info["convergence"]["evaluations"],
            "read": law.info["seconds"]["read"], "gigabytes": fields.nbytes * 1e-9,
            "error": float(np.abs(rates / RATES - 1).max())}  # fmt: skip


def first_paths(fields: xr.DataArray, gigabytes: float) -> xr.DataArray:
    """Whole chunks of the first paths."""
    chunks = max(2, round(gigabytes * 1e9 / (8 * CHUNK * N_TIMES * N_POINTS)))
    return fields.isel(path=slice(chunks * CHUNK))


def _halves(target: Path, gigabytes: float, halves: list[int], start: Any, told: Any) -> None:
    """Some halves of the data, one after the other, once everybody is ready."""
    warm(target)
    fields = first_paths(open_lazily(target), gigabytes)
    n = fields.sizes["path"] // 2
    start.wait()
    begun = time.perf_counter()
    for half in halves:
        fitted(fields.isel(path=slice(half * n, (half + 1) * n)), None)
    told.put(time.perf_counter() - begun)


def _together(target: Path, gigabytes: float, shares: list[list[int]]) -> float:
    """Seconds until the last of some processes is done."""
    context = multiprocessing.get_context("spawn")
    start, told = context.Barrier(len(shares)), context.Queue()
    given = [(target, gigabytes, halves, start, told) for halves in shares]
    processes = [context.Process(target=_halves, args=args) for args in given]
    [one.start() for one in processes]
    seconds = max(told.get() for _ in processes)
    [one.join() for one in processes]
    return seconds


def plain_processes(target: Path, gigabytes: float) -> float:
    """How much faster two processes that share nothing are than one that does the work of both."""
    alone = _together(target, gigabytes, [[0, 1]])
    return alone / _together(target, gigabytes, [[0], [1]])


def report(rows: dict[tuple[str, str, int], dict[str, float]], plain: dict[str, float]) -> None:
    print("| data | GB | workers | seconds | of it reading | CPU seconds of workers | "
          "largest worker, GB | evaluations | overhead of a task, ms |")  # fmt: skip
    print("| --- " * 9 + "|")
    for (name, _, workers), row in rows.items():
        print(f"| {name} | {row['gigabytes']:.1f} | {workers} | {row['seconds']:.0f} | "
              f"{row['read']:.0f} | {row['cpu']:.0f} | {row['worker']:.2f} | "
              f"{row['evaluations']:.0f} | {1e3 * row['overhead']:.1f} |")  # fmt: skip
    for name in plain:
        gain = rows[name, "part", 1]["seconds"] / rows[name, "part", 2]["seconds"]
        print(f"\n{name}: two workers are {gain:.2f} times as fast as one; two processes that "
              f"share nothing {plain[name]:.2f} times.")  # fmt: skip
    print(f"\nThis process: {peak_memory():.2f} GB at most. Load: {os.getloadavg()}")
    for (name, part, _), row in rows.items():
        if part != "whole":
            continue
        work = row["cpu"] * TERABYTE / (row["gigabytes"] * 1e9)
        blocks = TERABYTE / (8.0 * CHUNK * N_TIMES * N_POINTS)
        tasks = row["evaluations"] * blocks * row["overhead"] * (name == "gaps")
        reading = PASSES[name] * TERABYTE / READ_RATE
        kept = 8 * N_TIMES * (N_MODES**2 + 2 * N_MODES) * CHUNK * blocks * (name == "gaps")
        print(f"Calculated, not measured: {name}, 1 TB on {WORKERS} workers: {blocks:.0f} blocks, "
              f"{work / WORKERS / 60:.0f} min of work, {tasks / 60:.0f} min of overhead of one "
              f"scheduler, {reading / 60:.0f} min of reading at 1 GB/s, "
              f"{kept / WORKERS * 1e-9:.2f} GB kept by each worker.")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=0.5)
    parser.add_argument("--compare", type=float, default=0.5)
    parser.add_argument("--memory", default="2GB", help="memory of a worker")
    parser.add_argument("--distinct", type=int, default=10**6, help="chunks that are not copies")
    parser.add_argument("--alone", action="store_true", help="the whole in this process alone")
    parser.add_argument("--data", nargs="+", default=["complete", "gaps"])
    parser.add_argument("--folder", type=Path, default=Path("bench_distributed"))
    asked = parser.parse_args()
    size = 8 * CHUNK * N_TIMES * N_POINTS
    n_paths = CHUNK * max(2, -int(-asked.gigabytes * 1e9 // size))
    rows, plain, folder = {}, {}, asked.folder
    print(versions(), flush=True)
    for name in asked.data:
        folder.mkdir(parents=True)  # an own one, removed below
        target = folder / "field.zarr"
        try:
            start = time.perf_counter()
            store(target, n_paths, name == "gaps", asked.distinct)
            print(f"{name}: written in {time.perf_counter() - start:.0f} s", flush=True)
            whole = open_lazily(target)
            if asked.alone:
                rows[name, "whole", 0] = in_this_process(whole)
                print(name, rows[name, "whole", 0], flush=True)
                continue
            part = first_paths(whole, asked.compare)
            runs = [("part", part, 1), ("part", part, 2)] if asked.compare else []
            for key, fields, workers in (*runs, ("whole", whole, 2)):
                rows[name, key, workers] = with_workers(target, fields, workers, asked.memory)
                print(name, key, workers, rows[name, key, workers], flush=True)
                if (key, workers) == ("part", 2):
                    plain[name] = plain_processes(target, asked.compare)
                    print(name, "two plain processes", plain[name], flush=True)
        finally:
            shutil.rmtree(folder)
    report(rows, plain)


if __name__ == "__main__":
    main()

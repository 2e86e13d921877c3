"""A real cluster of processes: the law of the data in memory, also when a worker is killed."""

import os
import resource
import signal
import threading
import time

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from tests.infer.recovery import same_law

import spdelaw as sl
from spdelaw.data import executors as data_pieces
from spdelaw.errors import ExecutorError
from spdelaw.infer.engines import filter_route as filter_route_module

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning"),
    # Of the cluster itself, when a process of it is killed or closed.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
INTERVAL = sl.Interval(0, np.pi)
SAME = 1e-9
COMPLETE = sl.simulate(sl.catalogue.heat(n_modes=3), 24, seed=0).isel(time=slice(9))
GAPPY = COMPLETE + 0.05 * np.random.default_rng(1).standard_normal(COMPLETE.shape)
GAPPY = sl.mask(GAPPY, "random", 0.3, seed=2)


def cluster(n_workers=2):
    return distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
    )


@pytest.fixture(scope="module")
def client():
    with cluster() as machines, distributed.Client(machines) as one:
        yield one


@pytest.fixture(autouse=True)
def _every_chunk_a_block(monkeypatch):
    monkeypatch.setattr(data_pieces, "MIN_BLOCK_BYTES", 1.0)


def fit(data, n_modes, **words):
    """Without the questions of a mean and of nuisance modes, which take most of the time."""
    return sl.fit(data, INTERVAL, n_modes, mean="zero", nuisance=0, **words)


def record(n_times):
    heat, times = sl.catalogue.heat(n_modes=2), np.linspace(0.0, 0.2 * (n_times - 1), n_times)
    fields = sl.simulate(heat, 1, times, INTERVAL.grid(12), seed=0, observation_std=0.05)
    return sl.mask(fields, "random", 0.2, seed=1)


SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("whole", "in memory", "record")]


@pytest.mark.parametrize("kind", ["gaps", *SLOW])
def test_the_law_on_a_cluster_is_that_in_memory(client, kind, monkeypatch):
    """Blocks of paths stay on their workers; the rows of a record are condensed there."""
    monkeypatch.setattr(data_pieces, "MAX_CUTS", 3)
    data = {"whole": COMPLETE, "record": record(61)}.get(kind, GAPPY)
    chunks = {"path": 10, "time": 5} if kind in ("whole", "gaps") else {"time": 15}
    lazy = data if kind == "in memory" else data.chunk(chunks)
    same_law(fit(data, 2), fit(lazy, 2, executor=client))


@pytest.mark.slow
def test_an_evaluation_has_as_many_tasks_as_blocks(client, monkeypatch):
    """Blocks are collapsed once and stay; afterwards one task per block and evaluation."""
    _count_tasks(client)
    calls, evaluate = [], filter_route_module.evaluate_likelihood

    def counted(collapsed, *args, **kwargs):
        assert all(isinstance(block, distributed.Future) for block in collapsed.blocks)
        before, n = _tasks(client), len(collapsed.blocks)
        value = evaluate(collapsed, *args, **kwargs)
        calls.append((n, _settled(client, before + n) - before))
        return value

    monkeypatch.setattr(filter_route_module, "evaluate_likelihood", counted)
    fit(GAPPY.chunk(path=8), 3, executor=client)
    # One of blocks that have just been made also waits for them to be made.
    waits = [tasks for _, tasks in calls if tasks != 3]
    assert all(blocks == 3 for blocks, _ in calls)
    assert set(waits) <= {6}
    assert len(waits) < 0.05 * len(calls)


def _count_tasks(client):
    """Let the scheduler count tasks that end; once for all tests that share it."""
    if not client.run_on_scheduler(_counts):
        client.register_plugin(Finished(), name="finished")


def _counts(dask_scheduler):
    return "finished" in dask_scheduler.plugins


def _settled(client, expected):
    """Tasks that have ended, once the scheduler has heard of as many as there should be."""
    deadline = time.monotonic() + 10.0
    while (n := _tasks(client)) < expected and time.monotonic() < deadline:
        time.sleep(0.01)
    return n


def _tasks(client):
    """Tasks of likelihoods that the scheduler has seen."""
    return client.run_on_scheduler(_ended)


def _ended(dask_scheduler):
    return dask_scheduler.plugins["finished"].n


class Finished(distributed.SchedulerPlugin):
    """Counts tasks that came to their end."""

    def __init__(self):
        self.n = 0

    def transition(self, key, start, finish, *args, **kwargs):
        self.n += (start, finish) == ("processing", "memory")


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_time_and_not_the_fit(monkeypatch):
    """It dies between two evaluations of the likelihood, with the blocks that it held."""
    calls, evaluate = [], filter_route_module.evaluate_likelihood
    with cluster() as machines, distributed.Client(machines) as client:
        victim = min(info["pid"] for info in client.run(_pid).values())

        def deadly(*args, **kwargs):
            calls.append(1)
            if len(calls) == 3:
                os.kill(victim, signal.SIGKILL)
            return evaluate(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(filter_route_module, "evaluate_likelihood", deadly)
            law = fit(GAPPY.chunk(path=12), 3, executor=client)
    assert len(calls) > 3
    same_law(fit(GAPPY, 3), law)


def _pid():
    return {"pid": os.getpid()}


def slow(block):
    time.sleep(6.0)
    return block


@pytest.mark.slow
def test_a_scheduler_that_goes_away_in_the_middle_of_a_fit_is_one_error():
    """Whoever notices first: a look at the first row, a pass, or an evaluation."""
    machines = cluster(1)
    client = distributed.Client(machines)
    data = GAPPY.chunk(path=12)
    try:
        threading.Timer(2.0, machines.close).start()
        with pytest.raises(ExecutorError, match="scheduler that runs"):
            fit(data.copy(data=data.data.map_blocks(slow, dtype=float)), 3, executor=client)
    finally:
        client.close()
        machines.close()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["nc", "zarr"])
def test_files_that_xarray_opens_lazily(client, tmp_path, form):
    """NetCDF and Zarr, chunked in path and time, read where the work is done."""
    file = tmp_path / f"fields.{form}"
    sl.write(GAPPY, file)
    words = {"engine": "h5netcdf"} if form == "nc" else {"engine": "zarr", "consolidated": False}
    with xr.open_dataset(file, chunks={}, **words) as opened:
        lazy = opened["field"].chunk(path=10, time=4)
        same_law(fit(GAPPY, 1), fit(lazy, 1, executor=client))


def noisy_rows(block_info=None):
    """Fields of one mode with noise and gaps, made where they are used."""
    shape, where = (block_info[None][name] for name in ("chunk-shape", "chunk-location"))
    generator = np.random.default_rng(where)
    phi = INTERVAL.eigenfunctions(np.linspace(0.1, 3.0, shape[2]), 1)
    states = generator.standard_normal((*shape[:2], 1)).cumsum(1)
    out = states @ phi.T + 0.1 * generator.standard_normal(shape)
    out[generator.random(shape) < 0.2] = np.nan
    return out


def _peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


@pytest.mark.slow
def test_workers_hold_no_more_than_a_few_blocks(client):
    """Megabytes that a fit adds to a worker: blocks of 8, of which there are 24."""
    lazy = da.map_blocks(noisy_rows, chunks=((32,) * 24, (4,), (8192,)), dtype=float)
    coords = {"time": np.arange(4.0), "x": np.linspace(0.1, 3.0, 8192)}
    data = xr.DataArray(lazy, coords, ("path", "time", "x"))
    fit(data.isel(path=slice(64)), 1, executor=client)  # imports, and machine code
    before = max(client.run(_peak).values())
    law = fit(data, 1, executor=client)
    assert law.info["route"] == "filter"
    assert data.nbytes > 190e6
    assert max(client.run(_peak).values()) - before < 90.0

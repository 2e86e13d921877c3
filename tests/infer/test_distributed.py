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
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import spdelaw as sl
from spdelaw.data import executors as pieces_module
from spdelaw.data.executors import as_executor, over_blocks, pieces_of
from spdelaw.errors import ExecutorError
from spdelaw.processes.linear import Linear
from spdelaw.processes.specification import InitialState
from spdelaw.statespace import condense as model_pieces
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.collapse import collapse
from spdelaw.statespace.condense import collapse_pieces
from spdelaw.statespace.likelihood import evaluate_likelihood

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


def cluster(n_workers=2):
    return distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
    )


@pytest.fixture(scope="module")
def client():
    with cluster() as machines, distributed.Client(machines) as found:
        yield found


@pytest.fixture(autouse=True)
def _every_chunk_a_block(monkeypatch):
    monkeypatch.setattr(pieces_module, "ENOUGH", 1.0)


def fit(data, n_modes, **words):
    """Without the questions of a mean and of nuisance modes, which take most of the time."""
    return sl.fit(data, INTERVAL, n_modes, mean="zero", nuisance=0, **words)


def complete():
    return sl.simulate(sl.catalogue.heat(n_modes=3), 24, seed=0).isel(time=slice(9))


def gappy():
    noise = 0.05 * np.random.default_rng(1).standard_normal(complete().shape)
    return sl.mask(complete() + noise, "random", 0.3, seed=2)


def same_law(one, two):
    assert one.info["route"] == two.info["route"]
    for name in one.parameters:
        a, b = (law.parameters[name] for law in (one, two))
        size = np.abs(a.sel(statistic="estimate")).max() + a.sel(statistic="stderr")
        assert (np.abs(a - b).sel(statistic="estimate") <= SAME * size).all(), name


@pytest.mark.parametrize("data", [complete(), gappy()], ids=["whole", "gaps"])
def test_the_law_on_a_cluster_is_that_in_memory(client, data):
    lazy = data.chunk(path=10, time=5)
    same_law(fit(data, 3), fit(lazy, 3, executor=client))


def test_one_long_record_over_workers(client, monkeypatch):
    """Parts of times stay on their workers and are stitched exactly."""
    from spdelaw.statespace import condense as condense_module

    monkeypatch.setattr(condense_module, "LONG", 50)
    monkeypatch.setattr(condense_module, "RECORD_BYTES", 0.0)
    times = np.linspace(0.0, 12.0, 61)
    fields = sl.simulate(sl.catalogue.heat(n_modes=2), 1, times=times, seed=0, observation_std=0.05)
    data = sl.mask(fields, "random", 0.2, seed=1)
    same_law(fit(data, 2), fit(data.chunk(time=15), 2, executor=client))


def test_data_in_memory_may_go_to_a_cluster(client, monkeypatch):
    monkeypatch.setattr(pieces_module, "CUTS", 3)
    data = gappy()
    same_law(fit(data, 3), fit(data, 3, executor=client))


def test_an_evaluation_has_as_many_tasks_as_blocks(client, monkeypatch):
    """Blocks are collapsed once and stay; afterwards one task per block and evaluation."""
    from spdelaw.infer.engines import filter_route as filter_route_module

    _count_tasks(client)
    called = []
    evaluate = filter_route_module.evaluate_likelihood

    def counted(collapsed, *args, **kwargs):
        assert all(isinstance(block, distributed.Future) for block in collapsed.blocks)
        before = _tasks(client)
        found = evaluate(collapsed, *args, **kwargs)
        called.append(
            (len(collapsed.blocks), _settled(client, before + len(collapsed.blocks)) - before)
        )
        return found

    monkeypatch.setattr(filter_route_module, "evaluate_likelihood", counted)
    fit(gappy().chunk(path=8), 3, executor=client)
    # One of blocks that have just been made also waits for them to be made.
    waits = [tasks for _, tasks in called if tasks != 3]
    assert all(blocks == 3 for blocks, _ in called)
    assert set(waits) <= {6}
    assert len(waits) < 0.05 * len(called)


def _count_tasks(client):
    """Let the scheduler count tasks that end; once for all tests that share it."""
    if not client.run_on_scheduler(_counts):
        client.register_plugin(Finished(), name="finished")


def _counts(dask_scheduler):
    return "finished" in dask_scheduler.plugins


def _settled(client, expected):
    """Tasks that have ended, once the scheduler has heard of as many as there should be."""
    deadline = time.monotonic() + 10.0
    while (found := _tasks(client)) < expected and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def _tasks(client):
    """Tasks of likelihoods that the scheduler has seen."""
    return client.run_on_scheduler(_seen)


def _seen(dask_scheduler):
    return dask_scheduler.plugins["finished"].n


class Finished(distributed.SchedulerPlugin):
    """Counts tasks that came to their end."""

    def __init__(self):
        self.n = 0

    def transition(self, key, start, finish, *args, **kwargs):
        self.n += (start, finish) == ("processing", "memory")


def slow_shape(block, seconds):
    time.sleep(seconds)
    return block.shape


def test_a_worker_that_is_killed_costs_time_and_not_the_fit(monkeypatch):
    """It dies between two evaluations of the likelihood, with the blocks that it held."""
    from spdelaw.infer.engines import filter_route as filter_route_module

    data, called = gappy(), []
    with cluster() as machines, distributed.Client(machines) as client:
        victim = min(info["pid"] for info in client.run(_pid).values())
        evaluate = filter_route_module.evaluate_likelihood

        def deadly(*args, **kwargs):
            called.append(1)
            if len(called) == 3:
                os.kill(victim, signal.SIGKILL)
            return evaluate(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(filter_route_module, "evaluate_likelihood", deadly)
            found = fit(data.chunk(path=12), 3, executor=client)
    assert len(called) > 3
    same_law(fit(data, 3), found)


def _pid():
    return {"pid": os.getpid()}


def test_a_scheduler_that_goes_away_is_one_error():
    machines = cluster(1)
    client = distributed.Client(machines)
    try:
        threading.Timer(2.0, machines.close).start()
        with pytest.raises(ExecutorError, match="scheduler that stays"):
            over_blocks(slow_shape, [np.zeros(3)] * 4, 30.0, executor=client)
    finally:
        client.close()
        machines.close()


def slow(block):
    time.sleep(6.0)
    return block


def test_a_scheduler_that_goes_away_in_the_middle_of_a_fit_is_one_error():
    """Whoever notices first: a look at the first row, a pass, or an evaluation."""
    machines = cluster(1)
    client = distributed.Client(machines)
    data = gappy().chunk(path=12)
    try:
        threading.Timer(2.0, machines.close).start()
        with pytest.raises(ExecutorError, match="scheduler that stays"):
            fit(data.copy(data=data.data.map_blocks(slow, dtype=float)), 3, executor=client)
    finally:
        client.close()
        machines.close()


@settings(
    max_examples=5,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(1, 9), st.integers(2, 12), st.sampled_from([1, 4, 9]))
def test_the_likelihood_on_workers_is_that_here_whatever_the_chunks(client, path, time, n_paths):
    generator = np.random.default_rng(time)
    values, times = generator.standard_normal((n_paths, 24, 6)), np.linspace(0.0, 2.0, 24)
    values[generator.random(values.shape) < 0.3] = np.nan
    phi = INTERVAL.eigenfunctions(np.linspace(0.2, 3.0, 6), 2)
    start = InitialState("gaussian", np.zeros(2), np.ones(2))
    space = StateSpace(Linear(np.array([1.0, 4.0]), np.ones(2)), start, np.array(0.1))
    pieces = pieces_of(da.from_array(values, chunks=(path, time, -1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_pieces, "LONG", 1)
        patch.setattr(model_pieces, "RECORD_BYTES", 0.0)
        there = collapse_pieces(pieces, times, phi, as_executor(client))
    one, two = (evaluate_likelihood(d, space) for d in (collapse(values, times, phi), there))
    for name in one._fields:
        a, b = (np.asarray(getattr(found, name)) for found in (one, two))
        np.testing.assert_allclose(b, a, rtol=SAME, atol=SAME * max(1.0, np.abs(a).max()))


@pytest.mark.parametrize("form", ["nc", "zarr"])
def test_files_that_xarray_opens_lazily(client, tmp_path, form):
    """NetCDF and Zarr, chunked in path and time, read where the work is done."""
    data, file = gappy(), tmp_path / f"fields.{form}"
    sl.write(data, file)
    words = {"engine": "h5netcdf"} if form == "nc" else {"engine": "zarr", "consolidated": False}
    with xr.open_dataset(file, chunks={}, **words) as opened:
        lazy = opened["field"].chunk(path=10, time=4)
        assert lazy.chunksizes["time"] == (4, 4, 1)
        same_law(fit(data, 1), fit(lazy, 1, executor=client))


def test_any_number_of_workers_gives_the_same_law():
    data = gappy()
    with cluster(3) as machines, distributed.Client(machines) as other:
        same_law(fit(data, 1), fit(data.chunk(path=5, time=4), 1, executor=other))


def test_what_a_law_does_with_lazy_data_runs_on_the_workers(client):
    """Whoever has a client has its workers for lazy results as well; the numbers stay."""
    record = sl.simulate(
        sl.catalogue.heat(n_modes=2, initial="stationary"), 1, np.linspace(0.0, 6.0, 91),
        np.linspace(0.1, 3.0, 9), seed=0, observation_std=0.1,
    )  # fmt: skip
    record = sl.mask(record, "random", 0.3, seed=1)
    law = fit(record, 2)
    _count_tasks(client)
    before, lazy = _tasks(client), record.chunk(time=30)
    for one, two in ((law.reconstruct(lazy), law.reconstruct(record)),
                     (law.forecast(lazy, steps=2), law.forecast(record, steps=2))):  # fmt: skip
        xr.testing.assert_allclose(one.compute(), two, rtol=1e-9, atol=1e-11)
    here, there = (sl.evaluate(law, d, tiers=("gaps",)).tiers["gaps"] for d in (record, lazy))
    np.testing.assert_allclose(there, here, rtol=1e-9)
    words = {"drift": "diagonal", "basis": "domain", "rest": "white"}
    one, two = (sl.fill(d, INTERVAL, 2, **words)["std"] for d in (lazy, record))
    xr.testing.assert_allclose(one.compute(), two, rtol=1e-9, atol=1e-11)
    assert _settled(client, before + 20) > before + 20


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


def test_replicates_and_places_are_many_fits_on_workers(client, tmp_path):
    """Lazy resampled paths: batches, progress, and a directory to resume from."""
    data, told = complete().chunk(path=8), []
    draws = {b: np.random.default_rng(b).integers(0, 24, 24) for b in range(3)}
    sets = {b: data.isel(path=rows).assign_coords(path=np.arange(24)) for b, rows in draws.items()}
    words = {"mean": "zero", "nuisance": 0, "directory": tmp_path, "batch": 2}
    found = sl.fit_many(
        sets, INTERVAL, 2, executor=client, progress=lambda *done: told.append(done), **words
    )
    assert told == [(0, 3), (2, 3), (3, 3)]
    for b in sets:
        same_law(fit(sets[b].compute(), 2), found[b])
    again = sl.fit_many(sets, INTERVAL, 2, progress=lambda *done: told.append(done), **words)
    assert told[3:] == [(3, 3)]  # nothing was left to do
    np.testing.assert_array_equal(again[1].linear.drift, found[1].linear.drift)
    changed = {**sets, 1: (2.0 * data).isel(path=draws[1]).assign_coords(path=np.arange(24))}
    other = sl.fit_many(changed, INTERVAL, 2, progress=lambda *done: told.append(done), **words)
    assert told[4:] == [(2, 3), (3, 3)]
    assert other[1].linear.noise[0] == pytest.approx(4.0 * found[1].linear.noise[0], rel=1e-6)


@pytest.mark.slow
def test_replicates_run_on_a_cluster(client):
    data = complete()
    one = fit(data, 2, bootstrap=2)
    two = fit(data, 2, bootstrap=2, executor=client)
    np.testing.assert_allclose(one.parameters.eigenvalue, two.parameters.eigenvalue, rtol=1e-6)

"""Two real processes of torchrun train what one trains; a run goes on with another number."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import spdelaw as sl
from spdelaw.amortized.training import (
    Processes,
    TrainingInterrupted,
    is_first,
    join_processes,
    read_checkpoint,
)

from .amortized_cases import DOMAIN, SMALL, with_gaps

#: Gaps, an odd batch, and a loss whose scale is a mean over the batch: no share is like another.
SETTINGS = SMALL | {"batch_size": 13, "loss_scale": "per_value", "seed": 5, "checkpoint_every": 2}
STOP = 3


def stop(state):
    if state.epoch == STOP:
        raise KeyboardInterrupt


def run(folder, **how):
    words = SETTINGS | how
    return sl.fit(with_gaps(0.4), DOMAIN, 3, engine="amortized", checkpoint=folder, **words)


def close(one, two, tolerance):
    for name, value in one.part("model").items():
        np.testing.assert_allclose(two.part("model")[name], value, rtol=0, atol=tolerance)
    np.testing.assert_allclose(two.history, one.history, rtol=1e-4)


@pytest.mark.slow
def test_two_processes_are_one_and_a_run_goes_on_with_another_number(tmp_path):
    tests = Path(__file__).parents[3]
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    script = "tests.amortized.test_processes"
    done = subprocess.run(
        [*words, "-m", script, str(tmp_path / "two")],
        cwd=tests, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(done.stdout.split()) == ["rank-0-of-2-first-True", "rank-1-of-2-first-False"]
    with pytest.raises(TrainingInterrupted):
        run(tmp_path / "one", progress=stop)
    (one, _), (two, _) = (read_checkpoint(tmp_path / name) for name in ("one", "two"))
    assert (one.epoch, two.epoch) == (STOP, STOP)
    close(one, two, 2e-5)
    for name in ("one", "two"):  # both go on, now with one process
        run(tmp_path / name)
    (one, _), (two, _) = (read_checkpoint(tmp_path / name) for name in ("one", "two"))
    assert one.epoch == two.epoch == SETTINGS["epochs"]
    close(one, two, 1e-4)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_shares_are_the_whole_and_nearly_equal(size):
    for n in (0, 1, 5, 40):
        parts = [range(n)[Processes(rank, size).share(n)] for rank in range(size)]
        assert [i for part in parts for i in part] == list(range(n))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_without_torchrun_a_process_is_alone(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")  # other launchers set it, too
    assert join_processes() == Processes(0, 1)
    assert is_first()
    numbers = torch.ones(2)
    assert join_processes().total(numbers) is numbers


def _one_of_them(folder):
    try:
        run(folder, progress=stop)
    except TrainingInterrupted:
        rank, size = join_processes()
        print(f"rank-{rank}-of-{size}-first-{is_first()}", flush=True)


if __name__ == "__main__":
    _one_of_them(sys.argv[1])
